package watch

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"procinsh/proc"
)

var someID = proc.ID{PID: 7, StartTicks: 100}

// fakeProcesses is a host with one process, which a test makes up; it answers to
// any identity that is not gone.
type fakeProcesses struct {
	began      time.Time
	sampleCost time.Duration
	mapsCost   time.Duration
	mapsHang   chan struct{} // a reading of maps waits until it is closed
	rowHang    chan struct{}
	openErr    error
	sample     func(at time.Duration, s *proc.Sample) error // nil: half a core
	smaps      func(n int) ([]proc.Mapping, error)          // by number of the reading
	plainMaps  func() ([]proc.Mapping, error)
	rollupErr  error

	mu      sync.Mutex
	gone    map[proc.ID]bool
	open    int // handles
	opened  int
	samples []time.Duration
	maps    []time.Duration
}

func newFakeProcesses() *fakeProcesses {
	return &fakeProcesses{began: time.Now(), gone: make(map[proc.ID]bool)}
}

func (f *fakeProcesses) exit(id proc.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone[id] = true
}

func (f *fakeProcesses) handles() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open
}

func (f *fakeProcesses) times() (samples, maps []time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.samples), slices.Clone(f.maps)
}

func (f *fakeProcesses) Open(id proc.ID) (target, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.openErr != nil {
		return nil, f.openErr
	}
	if f.gone[id] {
		return nil, proc.ErrGone
	}
	f.open++
	f.opened++
	return &fakeTarget{f: f, id: id}, nil
}

type fakeTarget struct {
	f      *fakeProcesses
	id     proc.ID
	closed bool
}

func (t *fakeTarget) check() error {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	if t.closed {
		panic("read of a closed target")
	}
	if t.f.gone[t.id] {
		return proc.ErrGone
	}
	return nil
}

func (t *fakeTarget) ReadRow() (proc.Row, error) {
	if t.f.rowHang != nil {
		<-t.f.rowHang
	}
	return fakeRow(t.id.PID, t.id.StartTicks, 0, 0), t.check()
}

func (t *fakeTarget) ReadSample(s *proc.Sample) error {
	if err := t.check(); err != nil {
		return err
	}
	f := t.f
	at := time.Since(f.began)
	f.mu.Lock()
	f.samples = append(f.samples, at)
	f.mu.Unlock()
	*s = proc.Sample{ID: t.id, At: time.Now(), State: 'R', RSS: proc.Some(uint64(4096)), Threads: s.Threads[:0]}
	s.CPUTicks = uint64(at.Milliseconds() / 20)
	s.Threads = append(s.Threads, proc.Thread{TID: t.id.PID, StartTicks: t.id.StartTicks, CPUTicks: s.CPUTicks})
	var err error
	if f.sample != nil {
		err = f.sample(at, s)
	}
	time.Sleep(f.sampleCost)
	return err
}

func (t *fakeTarget) ReadSmaps(dst []proc.Mapping) ([]proc.Mapping, error) {
	if err := t.check(); err != nil {
		return dst, err
	}
	f := t.f
	f.mu.Lock()
	n := len(f.maps)
	f.maps = append(f.maps, time.Since(f.began))
	f.mu.Unlock()
	if f.mapsHang != nil {
		<-f.mapsHang
	}
	time.Sleep(f.mapsCost)
	if f.smaps == nil {
		return append(dst, proc.Mapping{Start: 4096, End: 8192, RSS: proc.Some(uint64(4096))}), nil
	}
	maps, err := f.smaps(n)
	return append(dst, maps...), err
}

func (t *fakeTarget) ReadMaps(dst []proc.Mapping) ([]proc.Mapping, error) {
	if t.f.plainMaps == nil {
		return dst, fs.ErrPermission
	}
	maps, err := t.f.plainMaps()
	return append(dst, maps...), err
}

func (t *fakeTarget) ReadRollup() (proc.Rollup, error) {
	return proc.Rollup{RSS: 4096}, t.f.rollupErr
}

func (t *fakeTarget) Close() error {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	if t.closed {
		panic("closed twice")
	}
	t.closed = true
	t.f.open--
	return nil
}

func watchProcess(t *testing.T, w *Processes, id proc.ID) *ProcessViewer {
	t.Helper()
	v, err := w.Subscribe(t.Context(), id)
	if err != nil {
		t.Fatalf("Subscribe: %v", err)
	}
	return v
}

func nextState(t *testing.T, v *ProcessViewer) *ProcessState {
	t.Helper()
	s, err := v.Next(t.Context())
	if err != nil {
		t.Fatalf("Next: %v", err)
	}
	return s
}

func TestProcessFirstState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeProcesses()
		src.mapsCost = 3 * time.Second // however long they take
		w := newProcesses(src, ProcessOptions{})
		v := watchProcess(t, w, someID)
		defer v.Close()
		began := time.Now()
		s := nextState(t, v)
		if took := time.Since(began); took != 0 {
			t.Errorf("first state took %v after Subscribe", took)
		}
		if s.Row.ID != someID || s.Row.CPUPercent.Known() {
			t.Errorf("row of %v, CPU %v", s.Row.ID, s.Row.CPUPercent)
		}
		if len(s.Maps) != 1 || s.MapsEpoch != 1 || s.MapsErr != nil || s.Rollup == nil || s.MapsCapturedAt.IsZero() {
			t.Errorf("maps %v, epoch %d, error %v, rollup %v, at %v", s.Maps, s.MapsEpoch, s.MapsErr, s.Rollup, s.MapsCapturedAt)
		}
		o := s.Observation
		if o == nil || o.CPUPercent.Known() || o.Rates != (Rates{}) || len(o.ThreadCPU) != 1 || o.ThreadCPU[0].Known() {
			t.Fatalf("first observation has differences: %+v", o)
		}
		if len(s.History) != 1 || s.History[0].CPUPercent.Known() || s.History[0].RSS != proc.Some(uint64(4096)) {
			t.Errorf("history %+v, want the one sample", s.History)
		}
		s = nextState(t, v)
		if o := s.Observation; o.CPUPercent != proc.Some(50.0) || o.ThreadCPU[0] != proc.Some(50.0) || o.At.Sub(src.began) != 4*time.Second {
			t.Errorf("CPU %v, thread %v; want 50 each", o.CPUPercent, o.ThreadCPU[0])
		}
		if len(s.History) != 2 || s.History[1].CPUPercent != proc.Some(50.0) {
			t.Errorf("history %+v", s.History)
		}
		if s.Row.CPUPercent.Known() {
			t.Error("the row is not as at connect")
		}
	})
}

func TestProcessInterval(t *testing.T) {
	for _, tt := range []struct{ interval, want time.Duration }{
		{0, time.Second},
		{time.Millisecond, 100 * time.Millisecond},
		{100 * time.Millisecond, 100 * time.Millisecond},
		{time.Minute, time.Minute},
		{time.Hour, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			src := newFakeProcesses()
			src.sampleCost = 7 * time.Millisecond
			src.mapsCost = 3 * time.Millisecond
			w := newProcesses(src, ProcessOptions{Interval: tt.interval})
			v := watchProcess(t, w, someID)
			for range 8 {
				nextState(t, v)
			}
			v.Close()
			samples, _ := src.times()
			for i, at := range samples {
				want := time.Duration(i) * tt.want
				if i > 0 {
					want += src.sampleCost // of the first
				}
				if at != want {
					t.Errorf("interval %v: sample %d at %v, want %v", tt.interval, i, at, want)
				}
			}
		})
	}
}

func TestProcessSharedSampler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeProcesses()
		w := newProcesses(src, ProcessOptions{})
		a := watchProcess(t, w, someID)
		for range 5 {
			nextState(t, a)
		}
		time.Sleep(500 * time.Millisecond)
		b := watchProcess(t, w, someID)
		s := nextState(t, b)
		if s.Observation.CPUPercent != proc.Some(50.0) || s.Row.CPUPercent != proc.Some(50.0) {
			t.Errorf("CPU %v, row %v; want the difference that the sampler has", s.Observation.CPUPercent, s.Row.CPUPercent)
		}
		if len(s.History) != 1 || !s.History[0].At.Equal(s.Observation.At) {
			t.Errorf("history of %d points, want only this state's", len(s.History))
		}
		sa, sb := nextState(t, a), nextState(t, b)
		if sa.Observation != sb.Observation {
			t.Error("viewers of one process have observations of their own")
		}
		if len(sa.History) != 6 || len(sb.History) != 2 {
			t.Errorf("histories of %d and %d points, want 6 and 2", len(sa.History), len(sb.History))
		}
		calls := 0
		for _, s := range []*ProcessState{sa, sb} {
			for _, memo := range []func(any, func() any) any{s.Memo, s.MapsMemo} {
				memo("key", func() any { calls++; return nil })
			}
		}
		nextState(t, a).MapsMemo("key", func() any { t.Error("made again for unchanged maps"); return nil })
		if calls != 2 {
			t.Errorf("what two viewers share was made %d times, want once each for the reading and for its maps", calls)
		}
		a.Close()
		nextState(t, b)
		nextState(t, b)
		samples, _ := src.times()
		if len(samples) != 8 {
			t.Errorf("%d samples in 7 s", len(samples))
		}
		b.Close()
		synctest.Wait()
		if n := src.handles(); n != 0 {
			t.Errorf("%d handles open without a viewer", n)
		}
		time.Sleep(time.Hour)
		if later, _ := src.times(); len(later) != len(samples) {
			t.Errorf("%d samples without a viewer", len(later)-len(samples))
		}
	})
}

func TestProcessHistory(t *testing.T) {
	for _, tt := range []struct {
		interval time.Duration
		want     int
	}{
		{100 * time.Millisecond, 601},
		{time.Second, 61},
		{7 * time.Second, 9},
		{time.Minute, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			src := newFakeProcesses()
			w := newProcesses(src, ProcessOptions{Interval: tt.interval})
			v := watchProcess(t, w, someID)
			defer v.Close()
			var first *ProcessState
			for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); {
				s := nextState(t, v)
				if first == nil {
					first = s
				}
				h := s.History
				if age := s.Observation.At.Sub(h[0].At); age > historyLength {
					t.Fatalf("interval %v: a point of %v ago", tt.interval, age)
				}
				for i := range h[1:] {
					if got := h[i+1].At.Sub(h[i].At); got != tt.interval {
						t.Fatalf("interval %v: points %v apart", tt.interval, got)
					}
				}
			}
			// A viewer that did not look for long has what it missed.
			time.Sleep(5 * time.Minute)
			if got := len(nextState(t, v).History); got != tt.want || tt.want != maxHistoryPoints(tt.interval) {
				t.Errorf("interval %v: %d points, want %d", tt.interval, got, tt.want)
			}
			if len(first.History) != 1 || !first.History[0].At.Equal(first.Observation.At) {
				t.Errorf("interval %v: the first state's history changed", tt.interval)
			}
		})
	}
}

// The wall clock is set back: it is shown, and changes nothing else.
func TestProcessClockStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeProcesses()
		src.sample = func(at time.Duration, s *proc.Sample) error {
			s.At = time.Now().Round(0)
			if at >= 3*time.Second {
				s.At = s.At.Add(-time.Hour)
			}
			return nil
		}
		w := newProcesses(src, ProcessOptions{})
		v := watchProcess(t, w, someID)
		defer v.Close()
		var last *ProcessState
		for i := range 6 {
			last = nextState(t, v)
			if i > 0 && last.Observation.CPUPercent != proc.Some(50.0) {
				t.Errorf("sample %d: CPU %v", i, last.Observation.CPUPercent)
			}
		}
		if len(last.History) != 6 {
			t.Errorf("history of %d points, want 6", len(last.History))
		}
		if !last.History[3].At.Before(last.History[2].At) {
			t.Error("the step is not shown")
		}
	})
}

func TestProcessMaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := []proc.Mapping{{Start: 1, End: 2}}
		b := []proc.Mapping{{Start: 1, End: 2}, {Start: 3, End: 4}}
		broken := errors.New("broken")
		src := newFakeProcesses()
		src.smaps = func(n int) ([]proc.Mapping, error) {
			return [][]proc.Mapping{a, a, b, nil, nil, b, a, {}}[n], []error{3: broken, 4: broken, 7: nil}[n]
		}
		src.plainMaps = func() ([]proc.Mapping, error) { return nil, broken }
		w := newProcesses(src, ProcessOptions{})
		v := watchProcess(t, w, someID)
		defer v.Close()
		first := nextState(t, v)
		for i, want := range []struct {
			maps  []proc.Mapping
			epoch uint64
			at    time.Duration
			err   error
		}{
			{a, 1, 5, nil},
			{b, 2, 10, nil},
			{b, 2, 10, broken},
			{b, 2, 10, broken},
			{b, 2, 25, nil},
			{a, 3, 30, nil},
			{nil, 4, 35, nil},
		} {
			var s *ProcessState
			for range 5 {
				s = nextState(t, v)
			}
			if !slices.Equal(s.Maps, want.maps) || s.MapsEpoch != want.epoch || !errors.Is(s.MapsErr, want.err) {
				t.Errorf("re-read %d: maps %v, epoch %d, error %v; want %v", i, s.Maps, s.MapsEpoch, s.MapsErr, want)
			}
			if got := s.MapsCapturedAt.Sub(src.began); got != want.at*time.Second {
				t.Errorf("re-read %d: captured at %v, want %v", i, got, want.at*time.Second)
			}
			if s.Rollup == nil {
				t.Errorf("re-read %d: no rollup", i)
			}
		}
		if !slices.Equal(first.Maps, a) {
			t.Errorf("the first state's maps changed: %v", first.Maps)
		}
		_, times := src.times()
		for i, at := range times {
			if at != time.Duration(i)*5*time.Second {
				t.Errorf("reading %d at %v", i, at)
			}
		}
	})
}

func TestReadMaps(t *testing.T) {
	full := []proc.Mapping{{Start: 1, End: 2, RSS: proc.Some(uint64(1))}}
	plain := []proc.Mapping{{Start: 1, End: 2}}
	many := make([]proc.Mapping, maxWatchedMaps+1)
	odd := errors.New("odd")
	ok := func(m []proc.Mapping) func() ([]proc.Mapping, error) {
		return func() ([]proc.Mapping, error) { return m, nil }
	}
	no := func(err error) func() ([]proc.Mapping, error) {
		return func() ([]proc.Mapping, error) { return nil, err }
	}
	for _, tt := range []struct {
		name      string
		smaps     func() ([]proc.Mapping, error)
		maps      func() ([]proc.Mapping, error)
		rollup    error
		open      error
		want      []proc.Mapping
		err       error
		truncated bool
		noRollup  bool
	}{
		{name: "smaps", smaps: ok(full), maps: no(odd), want: full},
		{name: "smaps not permitted", smaps: no(fs.ErrPermission), maps: ok(plain), want: plain},
		{name: "kernel without smaps", smaps: no(fs.ErrNotExist), maps: ok(plain), want: plain},
		{name: "neither", smaps: no(fs.ErrPermission), maps: no(fs.ErrPermission), err: fs.ErrPermission},
		{name: "gone", smaps: no(proc.ErrGone), maps: ok(plain), err: proc.ErrGone},
		{name: "gone at open", smaps: ok(full), open: proc.ErrGone, err: proc.ErrGone},
		{name: "no rollup", smaps: ok(full), rollup: fs.ErrNotExist, want: full, noRollup: true},
		{name: "too many", smaps: ok(many), want: many[:maxWatchedMaps], truncated: true},
		{name: "cut by the reader", smaps: func() ([]proc.Mapping, error) { return full, proc.ErrTruncated },
			maps: no(odd), want: full, truncated: true},
		{name: "plain cut by the reader", smaps: no(odd),
			maps: func() ([]proc.Mapping, error) { return plain, proc.ErrTruncated }, want: plain, truncated: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := newFakeProcesses()
			src.smaps = func(int) ([]proc.Mapping, error) { return tt.smaps() }
			src.plainMaps, src.rollupErr, src.openErr = tt.maps, tt.rollup, tt.open
			r := readMaps(src, someID, nil)
			if !errors.Is(r.err, tt.err) || !slices.Equal(r.maps, tt.want) || r.truncated != tt.truncated {
				t.Errorf("got %d maps, truncated %v, error %v; want %d, %v, %v", len(r.maps), r.truncated, r.err, len(tt.want), tt.truncated, tt.err)
			}
			if (r.rollup == nil) != (tt.noRollup || tt.err != nil) {
				t.Errorf("rollup %v", r.rollup)
			}
			if src.handles() != 0 {
				t.Error("a handle is open")
			}
		})
	}
}

// Large address spaces are read beside the samples, and the less often the longer
// it takes.
func TestProcessSlowMaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeProcesses()
		src.mapsCost = 2 * time.Second
		w := newProcesses(src, ProcessOptions{Interval: 100 * time.Millisecond})
		v := watchProcess(t, w, someID)
		began := time.Now()
		for time.Since(began) < 100*time.Second {
			nextState(t, v)
		}
		v.Close()
		samples, maps := src.times()
		for i := range maps[1:] {
			// Its cost, then twenty times that; due with the nearest sample.
			if got := maps[i+1] - maps[i]; got < 42*time.Second-mapsSlack || got > 42*time.Second+100*time.Millisecond {
				t.Errorf("readings of the maps %v apart, want 42s", got)
			}
		}
		for i := range samples[2:] {
			if got := samples[i+2] - samples[i+1]; got != 100*time.Millisecond {
				t.Errorf("sample %d came %v after the one before", i+2, got)
			}
		}
		time.Sleep(10 * time.Second)
		if n := src.handles(); n != 0 {
			t.Errorf("%d handles open", n)
		}
	})
}

// At long intervals maps that come soon go with the sample they were read with.
func TestProcessMapsWithSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeProcesses()
		src.mapsCost = 100 * time.Millisecond
		w := newProcesses(src, ProcessOptions{Interval: time.Minute})
		v := watchProcess(t, w, someID)
		defer v.Close()
		for range 3 {
			if s := nextState(t, v); !s.MapsCapturedAt.Equal(s.Observation.At) {
				t.Errorf("maps of %v with a sample of %v", s.MapsCapturedAt, s.Observation.At)
			}
		}
	})
}

func TestProcessExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeProcesses()
		var events []string
		hook := func(name string) func(proc.ID) {
			return func(id proc.ID) {
				if id != someID {
					t.Errorf("%s: %v", name, id)
				}
				events = append(events, name)
			}
		}
		w := newProcesses(src, ProcessOptions{Hooks: ProcessHooks{
			Started: hook("started"), Stopped: hook("stopped"), Exited: hook("exited"), Recovered: hook("recovered"),
			Failed: func(_ proc.ID, err error) { t.Errorf("Failed: %v", err) },
		}})
		a, b := watchProcess(t, w, someID), watchProcess(t, w, someID)
		nextState(t, a)
		nextState(t, a)
		nextState(t, b) // and then looks away
		last := nextState(t, a)
		src.exit(someID)
		for _, v := range []*ProcessViewer{a, b} {
			s := nextState(t, v)
			if !s.Exited || s.Err != nil || s.MapsErr != nil {
				t.Errorf("exited %v, error %v, maps error %v", s.Exited, s.Err, s.MapsErr)
			}
			if s.Observation != last.Observation || len(s.Maps) != 1 || len(s.History) != len(last.History) {
				t.Error("the last state does not keep what there was")
			}
			for range 2 {
				if s, err := v.Next(t.Context()); err != io.EOF {
					t.Errorf("after the last state: %v, %v; want io.EOF", s, err)
				}
			}
		}
		synctest.Wait()
		if src.handles() != 0 {
			t.Error("a handle is open after the exit")
		}
		if want := []string{"started", "exited", "stopped"}; !slices.Equal(events, want) {
			t.Errorf("hooks %q, want %q", events, want)
		}
		if _, err := w.Subscribe(t.Context(), someID); !errors.Is(err, proc.ErrGone) {
			t.Errorf("Subscribe after the exit: %v", err)
		}
		// The number is in use again.
		other := proc.ID{PID: someID.PID, StartTicks: someID.StartTicks + 1}
		events = nil
		w.hooks = ProcessHooks{}
		c := watchProcess(t, w, other)
		if s := nextState(t, c); s.Row.ID != other || s.Exited {
			t.Errorf("state of %v", s.Row.ID)
		}
		a.Close()
		b.Close()
		c.Close()
		if w.viewers != 0 {
			t.Errorf("%d slots taken", w.viewers)
		}
	})
}

func TestProcessFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeProcesses()
		bad := errors.New("bad")
		src.sample = func(at time.Duration, s *proc.Sample) error {
			switch at / time.Second {
			case 2, 3, 7:
				s.CPUTicks, s.Threads = 12345, nil
				return bad
			case 4:
				panic("odd bytes")
			}
			return nil
		}
		var events []string
		w := newProcesses(src, ProcessOptions{Hooks: ProcessHooks{
			Failed:    func(_ proc.ID, err error) { events = append(events, err.Error()) },
			Recovered: func(proc.ID) { events = append(events, "recovered") },
		}})
		v := watchProcess(t, w, someID)
		defer v.Close()
		var good *Observation
		for i := range 9 {
			s := nextState(t, v)
			failed := i == 2 || i == 3 || i == 4 || i == 7
			if (s.Err != nil) != failed {
				t.Errorf("state %d: error %v", i, s.Err)
			}
			if failed && s.Observation != good {
				t.Errorf("state %d: the observation before was not kept", i)
			}
			good = s.Observation
			if i > 0 && good.CPUPercent != proc.Some(50.0) {
				t.Errorf("state %d: CPU %v, want 50 over whatever window", i, good.CPUPercent)
			}
			if want := []int{1, 2, 2, 2, 2, 3, 4, 4, 5}[i]; len(s.History) != want {
				t.Errorf("state %d: %d points, want %d", i, len(s.History), want)
			}
		}
		if want := []string{"bad", "panic: odd bytes", "recovered", "bad", "recovered"}; !slices.Equal(events, want) {
			t.Errorf("hooks %q, want %q", events, want)
		}
	})
}

// Nothing but the identity could be read.
func TestProcessUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeProcesses()
		src.sample = func(at time.Duration, _ *proc.Sample) error {
			if at < 2*time.Second {
				return fs.ErrPermission
			}
			return nil
		}
		src.smaps = func(int) ([]proc.Mapping, error) { return nil, fs.ErrPermission }
		var failed, recovered int
		w := newProcesses(src, ProcessOptions{Hooks: ProcessHooks{
			Failed:    func(proc.ID, error) { failed++ },
			Recovered: func(proc.ID) { recovered++ },
		}})
		v := watchProcess(t, w, someID)
		defer v.Close()
		s := nextState(t, v)
		if s.Observation != nil || !errors.Is(s.Err, fs.ErrPermission) || len(s.History) != 0 {
			t.Errorf("observation %v, error %v, history %v", s.Observation, s.Err, s.History)
		}
		if s.Maps != nil || s.MapsEpoch != 0 || !errors.Is(s.MapsErr, fs.ErrPermission) || !s.MapsCapturedAt.IsZero() || s.Rollup != nil {
			t.Errorf("maps %v, epoch %d, error %v, at %v, rollup %v", s.Maps, s.MapsEpoch, s.MapsErr, s.MapsCapturedAt, s.Rollup)
		}
		s.MapsMemo("key", func() any { return nil })
		nextState(t, v)
		s = nextState(t, v)
		if s.Observation == nil || s.Err != nil || len(s.History) != 1 {
			t.Errorf("after recovery: observation %v, error %v, history %v", s.Observation, s.Err, s.History)
		}
		if failed != 1 || recovered != 1 {
			t.Errorf("told of %d failures and %d recoveries", failed, recovered)
		}
	})
}

func TestProcessSubscribeFails(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(*fakeProcesses)
		want error
	}{
		{"gone", func(f *fakeProcesses) { f.exit(someID) }, proc.ErrGone},
		{"hidden", func(f *fakeProcesses) { f.openErr = fs.ErrPermission }, fs.ErrPermission},
		{"gone in the first sample", func(f *fakeProcesses) {
			f.sample = func(time.Duration, *proc.Sample) error { return proc.ErrGone }
		}, proc.ErrGone},
	} {
		synctest.Test(t, func(t *testing.T) {
			src := newFakeProcesses()
			tt.set(src)
			told := false
			w := newProcesses(src, ProcessOptions{Hooks: ProcessHooks{
				Started: func(proc.ID) { told = true }, Stopped: func(proc.ID) { told = true },
			}})
			for range 40 { // more than there are slots
				if _, err := w.Subscribe(t.Context(), someID); !errors.Is(err, tt.want) {
					t.Fatalf("%s: %v", tt.name, err)
				}
			}
			synctest.Wait()
			if src.handles() != 0 || w.viewers != 0 || len(w.samplers) != 0 || w.readers != 0 {
				t.Errorf("%s: %d handles, %d slots, %d samplers, %d readers left", tt.name, src.handles(), w.viewers, len(w.samplers), w.readers)
			}
			if told {
				t.Errorf("%s: a hook was called", tt.name)
			}
		})
	}
}

func TestProcessSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeProcesses()
		w := newProcesses(src, ProcessOptions{})
		var viewers []*ProcessViewer
		for i := range 32 {
			viewers = append(viewers, watchProcess(t, w, proc.ID{PID: int32(1 + i/2), StartTicks: 1}))
		}
		if n := src.handles(); n != 16 {
			t.Errorf("%d handles for 32 viewers of 16 processes", n)
		}
		if _, err := w.Subscribe(t.Context(), someID); !errors.Is(err, ErrFull) {
			t.Errorf("33rd viewer: %v, want ErrFull", err)
		}
		viewers[0].Close()
		viewers[0].Close()
		if _, err := viewers[0].Next(t.Context()); err == nil {
			t.Error("Next of a closed viewer succeeded")
		}
		viewers[0] = watchProcess(t, w, someID)
		if _, err := w.Subscribe(t.Context(), someID); !errors.Is(err, ErrFull) {
			t.Errorf("a viewer closed twice gave back two slots: %v", err)
		}
		var wg sync.WaitGroup
		for _, v := range viewers {
			nextState(t, v)
			wg.Go(func() {
				if _, err := v.Next(t.Context()); !errors.Is(err, ErrStopping) {
					t.Errorf("Next while closing: %v", err)
				}
				v.Close()
			})
		}
		synctest.Wait()
		w.Close()
		w.Close()
		wg.Wait()
		if _, err := w.Subscribe(t.Context(), someID); !errors.Is(err, ErrStopping) {
			t.Errorf("Subscribe after Close: %v", err)
		}
		if src.handles() != 0 || w.viewers != 0 || w.readers != 0 {
			t.Errorf("%d handles, %d slots, %d readers left", src.handles(), w.viewers, w.readers)
		}
	})
}

func TestProcessSlowViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeProcesses()
		w := newProcesses(src, ProcessOptions{})
		slow, quick := watchProcess(t, w, someID), watchProcess(t, w, someID)
		defer slow.Close()
		defer quick.Close()
		nextState(t, slow)
		nextState(t, quick)
		var last *ProcessState
		for range 10 {
			began := time.Now()
			last = nextState(t, quick)
			if took := time.Since(began); took != time.Second {
				t.Errorf("quick viewer waited %v", took)
			}
		}
		s := nextState(t, slow)
		if s.Observation != last.Observation || len(s.History) != 11 {
			t.Errorf("slow viewer got the sample of %v with %d points", s.Observation.At, len(s.History))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := slow.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Next: %v", err)
		}
	})
}

// A reading that hangs in the kernel costs a goroutine, not a slot, and there is an
// end to those.
func TestProcessHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeProcesses()
		src.mapsHang = make(chan struct{})
		src.rowHang = src.mapsHang
		w := newProcesses(src, ProcessOptions{})
		hung := 0
		for ; ; hung++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := w.Subscribe(ctx, proc.ID{PID: int32(hung + 1), StartTicks: 1})
			cancel()
			if errors.Is(err, ErrFull) {
				break
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("Subscribe %d: %v", hung, err)
			}
			if w.viewers != 0 {
				t.Fatalf("%d slots taken", w.viewers)
			}
		}
		if hung != maxReaders*maxViewers/2 { // one reads the row, one the maps
			t.Errorf("full after %d", hung)
		}
		began := time.Now()
		w.Close()
		if took := time.Since(began); took != closeWait {
			t.Errorf("Close waited %v", took)
		}
		close(src.mapsHang)
		synctest.Wait()
		if src.handles() != 0 || w.readers != 0 {
			t.Errorf("%d handles, %d readers left", src.handles(), w.readers)
		}
	})
}

// Closing and leaving at any moment of any reading.
func TestProcessComingAndGoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeProcesses()
		src.sampleCost, src.mapsCost = 30*time.Millisecond, 70*time.Millisecond
		w := newProcesses(src, ProcessOptions{Interval: 100 * time.Millisecond})
		var wg sync.WaitGroup
		for i := range 24 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 13 * time.Millisecond)
				for j := range 10 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(7*i+11*j)*time.Millisecond)
					v, err := w.Subscribe(ctx, proc.ID{PID: int32(1 + i%5), StartTicks: 1})
					if err == nil {
						for err == nil {
							_, err = v.Next(ctx)
						}
						v.Close()
					}
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%v", err)
					}
					cancel()
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		if src.handles() != 0 || w.viewers != 0 || len(w.samplers) != 0 || w.readers != 0 {
			t.Errorf("%d handles, %d slots, %d samplers, %d readers left", src.handles(), w.viewers, len(w.samplers), w.readers)
		}
		w.Close()
	})
}
