package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"procinsh/watch"
)

type sseEvent struct{ name, data string }

// events takes a whole stream apart and counts its comments.
func events(t *testing.T, text string) (list []sseEvent, comments int) {
	t.Helper()
	for block := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		lines := strings.Split(block, "\n")
		if strings.HasPrefix(block, ":") && len(lines) == 1 {
			comments++
			continue
		}
		name, ok := strings.CutPrefix(lines[0], "event: ")
		if !ok || len(lines) != 2 {
			t.Fatalf("a block is neither comment nor event: %.100q", block)
		}
		data, ok := strings.CutPrefix(lines[1], "data: ")
		if !ok || !json.Valid([]byte(data)) {
			t.Fatalf("event %s has no JSON: %.100q", name, lines[1])
		}
		list = append(list, sseEvent{name, data})
	}
	return list, comments
}

func newTestStream(w http.ResponseWriter, packed bool) *stream {
	s := &Server{log: slog.New(slog.DiscardHandler), metrics: newMetrics(Options{})}
	r := request("GET", streamKinds[0].path)
	if packed {
		r.Header.Set("Accept-Encoding", "gzip")
	}
	st, err := s.openStream(w, r)
	if err != nil {
		panic(err)
	}
	return st
}

// A compressed stream is whole gzip, whose text is that of the plain one; an event
// can be read before the next is there.
func TestPackedStream(t *testing.T) {
	plain, packed := httptest.NewRecorder(), httptest.NewRecorder()
	a, b := newTestStream(plain, false), newTestStream(packed, true)
	if got := packed.Header().Get("Content-Encoding"); got != "gzip" {
		t.Fatalf("Content-Encoding is %q", got)
	}
	var soFar bytes.Buffer
	for i := range 30 {
		text := appendEvent(nil, "e", func(b []byte) []byte { return fmt.Appendf(b, `{"n":%d,"pad":%q}`, i, strings.Repeat("ab", i*i*10)) })
		for _, st := range []*stream{a, b} {
			if err := st.send("e", pack(text, st.packed)); err != nil {
				t.Fatal(err)
			}
			if i%7 == 0 {
				if err := st.keepAlive(); err != nil {
					t.Fatal(err)
				}
			}
		}
		soFar.Reset()
		z, err := gzip.NewReader(bytes.NewReader(packed.Body.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(&soFar, z); !errors.Is(err, io.ErrUnexpectedEOF) || soFar.String() != plain.Body.String() {
			t.Fatalf("after event %d: %v, %d of %d bytes", i, err, soFar.Len(), plain.Body.Len())
		}
	}
	a.end()
	b.end()
	z, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z) // checks length and CRC
	if err != nil || string(text) != plain.Body.String() {
		t.Fatalf("%v, %d of %d bytes", err, len(text), plain.Body.Len())
	}
	list, comments := events(t, string(text))
	if len(list) != 30 || comments != 5 || list[29].name != "e" {
		t.Errorf("%d events, %d comments", len(list), comments)
	}
}

// Comments keep their pace whether events come or not.
func TestKeepAlive(t *testing.T) {
	for _, tt := range []struct {
		name   string
		every  time.Duration
		events int
	}{
		{"nothing happens", time.Hour, 0},
		{"an event a second", time.Second, 35},
		{"an event every 7 s", 7 * time.Second, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := httptest.NewRecorder()
				st := newTestStream(w, false)
				ctx, cancel := context.WithTimeout(t.Context(), 35500*time.Millisecond)
				defer cancel()
				due := time.Now().Add(tt.every)
				for {
					_, err := next(ctx, st, func(turn context.Context) (int, error) {
						select {
						case <-time.After(time.Until(due)):
							due = due.Add(tt.every)
							return 0, nil
						case <-turn.Done():
							return 0, turn.Err()
						}
					})
					if err != nil {
						break
					}
					if err := st.send("e", pack([]byte("event: e\ndata: 1\n\n"), false)); err != nil {
						t.Fatal(err)
					}
				}
				text := strings.TrimPrefix(w.Body.String(), "\n")
				list, comments := []sseEvent(nil), 0
				if text != "" {
					list, comments = events(t, text)
				}
				if len(list) != tt.events || comments != 3 {
					t.Errorf("%d events and %d comments in 35.5 s, want %d and 3", len(list), comments, tt.events)
				}
			})
		})
	}
}

// run answers r until f says that it has seen enough of the body.
func runStream(t *testing.T, s *Server, r *http.Request, enough func(text string) bool) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	w := &watchedWriter{ResponseRecorder: httptest.NewRecorder(), stop: func(text string) {
		if enough(text) {
			cancel()
		}
	}}
	s.ServeHTTP(w, r.WithContext(ctx))
	if ctx.Err() == context.DeadlineExceeded {
		t.Fatalf("not enough in a minute: %.300q", w.Body)
	}
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/event-stream" || w.Header().Get("Content-Length") != "" {
		t.Fatalf("got %d %v %.200s", w.Code, w.Header(), w.Body)
	}
	checkHeaders(t, w.Header())
	return w.Body.String()
}

type watchedWriter struct {
	*httptest.ResponseRecorder
	stop func(string)
}

func (w *watchedWriter) Flush() { w.stop(w.Body.String()) }

// deadlines notes how long a client may take for each thing that is sent.
type deadlines struct {
	watchedWriter
	left []time.Duration
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.left = append(d.left, time.Until(t))
	return nil
}

// Each event has 30 s to be taken by its client, however old the stream is.
func TestEachEventHasADeadline(t *testing.T) {
	s, _ := testServer(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const want = 4
	w := &deadlines{watchedWriter: watchedWriter{ResponseRecorder: httptest.NewRecorder(), stop: func(text string) {
		if strings.Count(text, "event: ") == want {
			cancel()
		}
	}}}
	s.ServeHTTP(w, request("GET", "/api/processes/stream").WithContext(cameTo(ctx, loopback)))
	if len(w.left) < want+1 {
		t.Errorf("%d deadlines for the beginning and %d events", len(w.left), want)
	}
	for i, d := range w.left {
		if d > writeTimeout || writeTimeout != 30*time.Second || d < 0 {
			t.Errorf("deadline %d is %v ahead", i, d)
		}
	}
}

func TestListStream(t *testing.T) {
	s, log := testServer(t, nil)
	text := runStream(t, s, request("GET", "/api/processes/stream?maps=summary&io=1"), func(text string) bool {
		return strings.Count(text, "event: totals") == 3
	})
	list, _ := events(t, text)
	var names []string
	for _, e := range list {
		names = append(names, e.name)
	}
	if got := strings.Join(names, " "); got != "processes totals processes_delta totals processes_delta totals" {
		t.Fatalf("events are %s", got)
	}
	var whole ProcessesEvent
	var d1, d2 ProcessesDelta
	var totals Totals
	for i, into := range []any{&whole, &totals, &d1, &totals, &d2} {
		dec := json.NewDecoder(strings.NewReader(list[i].data))
		dec.DisallowUnknownFields()
		if err := dec.Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	if whole.Sequence != d1.BaseSequence || d1.Sequence != d2.BaseSequence || len(whole.Processes) < 2 || totals.Processes < 2 {
		t.Errorf("sequences %d, %d after %d, %d after %d; %d processes, %d in totals", whole.Sequence,
			d1.Sequence, d1.BaseSequence, d2.Sequence, d2.BaseSequence, len(whole.Processes), totals.Processes)
	}
	// The first difference has every process: CPU was unknown and is known now.
	if len(d2.Changed) >= len(whole.Processes) {
		t.Errorf("the second difference holds %d of %d processes", len(d2.Changed), len(whole.Processes))
	}
	if n := strings.Count(log.String(), "event=processes_delta"); n != 2 || strings.Contains(log.String(), "maps=summary") {
		t.Errorf("%d debug lines for two differences:\n%s", n, log)
	}
}

func TestProcessStream(t *testing.T) {
	target := exec.Command("/bin/sleep", "60")
	if err := target.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	defer func() {
		target.Process.Kill()
		target.Wait()
	}()
	s, _ := testServer(t, func(o *Options) {
		o.Processes = watch.NewProcesses(o.FS, watch.ProcessOptions{Interval: 100 * time.Millisecond})
	})
	r := request("GET", "/api/processes/events?maps=changed&"+identityOf(t, target.Process.Pid))
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	w := &watchedWriter{ResponseRecorder: httptest.NewRecorder()}
	w.stop = func(text string) {
		if strings.Count(text, "event: observation") == 4 && !killed {
			killed = true
			target.Process.Kill()
			target.Wait()
		}
	}
	s.ServeHTTP(w, r.WithContext(ctx)) // ends by itself with the target
	if ctx.Err() != nil {
		t.Fatal("the stream outlived its target")
	}
	list, _ := events(t, w.Body.String())
	if len(list) < 5 {
		t.Fatalf("%d events", len(list))
	}
	for i, e := range list {
		var o ObservationEvent
		dec := json.NewDecoder(strings.NewReader(e.data))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&o); err != nil {
			t.Fatal(err)
		}
		if hasMaps := strings.Contains(e.data, `"maps":`); hasMaps != (i == 0) {
			t.Errorf("event %d has maps: %v", i, hasMaps)
		}
		if last := i == len(list)-1; o.Exited != last {
			t.Errorf("event %d of %d has exited: %v", i, len(list), o.Exited)
		}
		if i == 0 && (len(o.Maps) == 0 || o.Rollup == nil || o.Observation == nil || o.Summary.Identity.PID != int32(target.Process.Pid)) {
			t.Errorf("the first event lacks something: %s", e.data)
		}
	}
	w2 := do(s, r)
	if w2.Code != 410 {
		t.Errorf("after its end: %d %s", w2.Code, w2.Body)
	}
}

// Without ?maps=changed every event has them.
func TestProcessStreamWithMaps(t *testing.T) {
	s, _ := testServer(t, func(o *Options) {
		o.Processes = watch.NewProcesses(o.FS, watch.ProcessOptions{Interval: 100 * time.Millisecond})
	})
	text := runStream(t, s, request("GET", "/api/processes/events?"+own(t)), func(text string) bool {
		return strings.Count(text, "event: observation") == 3
	})
	list, _ := events(t, text)
	for i, e := range list {
		if !strings.Contains(e.data, `"maps":[{`) {
			t.Errorf("event %d has no maps", i)
		}
	}
}

func TestStreamSlots(t *testing.T) {
	s, _ := testServer(t, func(o *Options) {
		o.List = watch.NewList(o.FS, watch.ListOptions{Interval: time.Second, MaxViewers: 2})
		o.Processes = watch.NewProcesses(o.FS, watch.ProcessOptions{Interval: time.Second, MaxViewers: 1})
	})
	for _, tt := range []struct {
		target string
		slots  int
	}{{"/api/processes/stream", 2}, {"/api/processes/events?" + own(t), 1}} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		for range tt.slots {
			opened := make(chan struct{})
			w := &watchedWriter{ResponseRecorder: httptest.NewRecorder(), stop: func(text string) {
				if strings.Count(text, "event: ") == 1 {
					close(opened)
				}
			}}
			r := request("GET", tt.target)
			go func() {
				s.ServeHTTP(w, r.WithContext(cameTo(ctx, loopback)))
				ended <- struct{}{}
			}()
			<-opened
		}
		w := do(s, request("GET", tt.target))
		if e := errorOf(t, w); w.Code != 429 || e.Code != "too_many_streams" || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: got %d %+v", tt.target, w.Code, e)
		}
		if w := do(s, request("HEAD", tt.target)); w.Code != 405 {
			t.Errorf("%s: HEAD gives %d", tt.target, w.Code)
		}
		cancel()
		for range tt.slots {
			<-ended
		}
		runStream(t, s, request("GET", tt.target), func(text string) bool { return strings.Contains(text, "event: ") })
	}
}

// A stopping server ends its streams, compressed ones with a proper end.
func TestShutdownEndsStreams(t *testing.T) {
	s, _ := testServer(t, nil)
	w := &watchedWriter{ResponseRecorder: httptest.NewRecorder(), stop: func(string) { s.stop() }}
	r := request("GET", "/api/processes/stream", "Accept-Encoding", "gzip")
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(s.ctx, cancel) // as BaseContext does
	defer stop()
	s.ServeHTTP(w, r.WithContext(ctx))
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(z); err != nil || !strings.HasPrefix(string(text), "event: processes\n") {
		t.Errorf("%v in %.100q", err, text)
	}
}

// slowWriter takes its time for the first event and notes every deadline.
type slowWriter struct {
	*httptest.ResponseRecorder
	flushes   int
	deadlines []time.Duration
	unguarded int // writes since the last deadline
	wait      func()
	stop      func()
}

func (w *slowWriter) SetWriteDeadline(at time.Time) error {
	w.deadlines = append(w.deadlines, time.Until(at))
	w.unguarded = 0
	return nil
}

func (w *slowWriter) Flush() {
	w.unguarded++
	w.flushes++
	switch w.flushes {
	case 1:
		w.wait()
	case 4:
		w.stop()
	}
}

// A client that did not keep up gets the whole list again, and only the newest.
func TestSlowReader(t *testing.T) {
	s, _ := testServer(t, nil)
	r := request("GET", "/api/processes/stream")
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	var behind uint64 // the state that the client finds when it reads on
	miss := func() {
		for from := uint64(0); behind < from+2 || from == 0; time.Sleep(100 * time.Millisecond) {
			state, err := s.list.Now(ctx, watch.ListWant{})
			if err != nil {
				return
			}
			if behind = state.Sequence; from == 0 {
				from = behind
			}
		}
	}
	w := &slowWriter{ResponseRecorder: httptest.NewRecorder(), wait: miss, stop: cancel}
	s.ServeHTTP(w, r.WithContext(ctx))
	list, _ := events(t, w.Body.String())
	if len(list) < 3 || list[0].name != "processes" || list[2].name != "processes" {
		t.Fatalf("%d events, want processes, totals, processes", len(list))
	}
	var first, second ProcessesEvent
	for i, into := range map[int]*ProcessesEvent{0: &first, 2: &second} {
		if err := json.Unmarshal([]byte(list[i].data), into); err != nil {
			t.Fatal(err)
		}
	}
	if second.Sequence < first.Sequence+2 {
		t.Errorf("state %d follows %d: the client was not slow", second.Sequence, first.Sequence)
	}
	if w.unguarded > 1 {
		t.Errorf("%d writes under one deadline", w.unguarded)
	}
	for _, d := range w.deadlines {
		if d <= 20*time.Second || d > 30*time.Second {
			t.Errorf("a write has %v, want 30 s", d)
		}
	}
	if len(w.deadlines) < w.flushes {
		t.Errorf("%d deadlines for %d events", len(w.deadlines), w.flushes)
	}
}
