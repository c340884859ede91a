package sensors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"procinsh/bpf"
	"procinsh/proc"
	"procinsh/tests/server"
)

type state struct {
	State  string  `json:"state"`
	Reason *string `json:"reason"`
}

func (s state) String() string {
	if s.Reason == nil {
		return s.State
	}
	return s.State + " (" + *s.Reason + ")"
}

type status struct {
	Active        bool     `json:"active"`
	CPU           state    `json:"cpu"`
	IPC           state    `json:"ipc"`
	Files         state    `json:"files"`
	Coverage      []string `json:"coverage"`
	FilesCoverage []string `json:"files_coverage"`
	Lost          uint64   `json:"lost"`
	Unresolved    uint64   `json:"unresolved"`
	FilesLost     uint64   `json:"files_lost"`
}

// ready says that all three sensors report.
func (s status) ready() bool {
	return s.CPU.State == "observing" && s.IPC.State == "observing" && s.Files.State == "observing"
}

func (s status) covers(word string) bool {
	return slices.ContainsFunc(slices.Concat(s.Coverage, s.FilesCoverage), func(c string) bool { return strings.Contains(c, word) })
}

type cpuRow struct {
	Process        id     `json:"process_id"`
	RuntimeNS      uint64 `json:"runtime_ns"`
	Switches       uint64 `json:"switches"`
	RunningThreads int    `json:"running_threads"`
	CPUs           []int  `json:"cpus"`
}

type transfer struct {
	Process  id      `json:"process_id"`
	Resource string  `json:"resource"`
	Path     *string `json:"path"`
	Write    bool    `json:"write"`
	Bytes    uint64  `json:"bytes"`
	Count    uint64  `json:"count"`
}

type activity struct {
	CapturedAt int64      `json:"captured_at"`
	WindowMS   float64    `json:"window_ms"`
	CPU        []cpuRow   `json:"cpu"`
	IPC        []transfer `json:"ipc"`
	Files      []transfer `json:"files"`
	Status     status     `json:"status"`
}

// windows collects activity for a test. Its sums are of everything since it began.
type windows struct {
	t    *testing.T
	stop func()

	from int // the first window that transfers adds up

	mu   sync.Mutex
	all  []activity
	gaps int // of a reader that was too slow for the stream
	err  error
}

func (w *windows) add(a activity) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, a)
}

func (w *windows) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = errors.Join(w.err, err)
}

// get returns what has arrived so far.
func (w *windows) get() []activity {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		w.t.Fatal(w.err)
	}
	return slices.Clip(w.all)
}

// gapped returns how often the stream had a gap.
func (w *windows) gapped() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gaps
}

// mark makes transfers begin with what arrives from now on.
func (w *windows) mark() { w.from = len(w.get()) }

func (w *windows) status() status {
	all := w.get()
	if len(all) == 0 {
		return status{}
	}
	return all[len(all)-1].Status
}

// await waits until f is content and returns its last complaint otherwise.
func (w *windows) await(limit time.Duration, f func() error) error {
	w.t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		err := f()
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}

// more waits for n more windows that began after now. On a busy machine windows arrive
// late: what comes next may have ended before.
func (w *windows) more(n int) {
	w.t.Helper()
	from, now := len(w.get()), float64(time.Now().UnixMilli())
	if err := w.await(patience, func() error {
		got := 0
		for _, a := range w.get()[from:] {
			if float64(a.CapturedAt)-a.WindowMS >= now {
				got++
			}
		}
		if got < n {
			return fmt.Errorf("%d activity windows, want %d more", got, n)
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
}

// attempt calls f until it is content. There is another attempt only when what is
// missing was counted as missing: this reader was too slow for the stream, which
// then has a gap, or the kernel did not run a program, as some do now and then
// under load, which counts as unresolved or lost.
func attempt(w *windows, f func() error) {
	w.t.Helper()
	const most = 5
	for n := 1; ; n++ {
		before, gaps := w.status(), w.gapped()
		err := f()
		if err == nil {
			return
		}
		after := w.status()
		missing := after.Unresolved - before.Unresolved + after.Lost - before.Lost + after.FilesLost - before.FilesLost + uint64(w.gapped()-gaps)
		if missing == 0 || n == most {
			w.t.Errorf("attempt %d, %d counted as missing: %v", n, missing, err)
			return
		}
		w.t.Logf("attempt %d: %v", n, err)
	}
}

// observing waits until every sensor reports.
func (w *windows) observing() {
	w.t.Helper()
	if err := w.await(patience, func() error {
		if s := w.status(); !s.ready() {
			return fmt.Errorf("not every sensor observes: cpu %v, ipc %v, files %v", s.CPU, s.IPC, s.Files)
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	w.more(1)
}

// watch opens the stream of a server and collects until the test ends.
func watch(t *testing.T, s *server.Server) *windows {
	t.Helper()
	w := &windows{t: t}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := s.EventsIn(ctx, "/api/system/events", url.Values{}, func(e server.Event) bool {
			switch e.Name {
			case "gap":
				w.mu.Lock()
				w.gaps++
				w.mu.Unlock()
			case "activity":
				var a activity
				if err := json.Unmarshal(e.Data, &a); err != nil {
					w.fail(fmt.Errorf("activity event: %w", err))
					return false
				}
				w.add(a)
			}
			return true
		})
		if ctx.Err() == nil {
			w.fail(fmt.Errorf("the stream ended: %v", err))
		}
	}()
	w.stop = func() { cancel(); <-ended }
	t.Cleanup(w.stop)
	return w
}

// startOffset is what /proc here adds to a start time, in nanoseconds.
var startOffset = sync.OnceValues(func() (uint64, error) {
	fs, err := proc.Open("/proc")
	if err != nil {
		return 0, err
	}
	defer fs.Close()
	offset, err := fs.StartOffset()
	return uint64(offset), err
})

// ticks are start times in units of /proc.
func ticks(t *testing.T, raw uint64) uint64 {
	offset, err := startOffset()
	if err != nil {
		t.Error(err)
	}
	return (raw + offset) / 1e7
}

// drain opens the sensors of package bpf in this process and drains them ten
// times a second until the test ends.
func drain(t *testing.T, o bpf.Options) *windows {
	t.Helper()
	w := &windows{t: t}
	s := bpf.Open(o)
	var once sync.Once
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		var b bpf.Window
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			if err := s.Drain(&b); err != nil {
				w.fail(fmt.Errorf("drain: %w", err))
				return
			}
			w.add(converted(t, &b, s.Status()))
		}
	}()
	w.stop = func() {
		once.Do(func() {
			close(stop)
			<-ended
			if err := s.Close(); err != nil {
				t.Errorf("close the sensors: %v", err)
			}
		})
	}
	t.Cleanup(w.stop)
	return w
}

func converted(t *testing.T, b *bpf.Window, s bpf.Status) activity {
	one := func(s bpf.SensorStatus) state {
		if s.Reason == "" {
			return state{State: string(s.State)}
		}
		return state{string(s.State), &s.Reason}
	}
	a := activity{CapturedAt: b.Ended.UnixMilli(), WindowMS: float64(b.Ended.Sub(b.Began)) / 1e6, Status: status{true, one(s.CPU), one(s.IPC), one(s.Files),
		slices.Clone(s.Coverage), slices.Clone(s.FilesCoverage), s.Lost, s.Unresolved, s.FilesLost}}
	process := func(p bpf.Process) id { return id{int(p.TGID), ticks(t, p.Start)} }
	for _, c := range b.CPU {
		a.CPU = append(a.CPU, cpuRow{process(c.Process), c.Runtime, c.Switches, c.RunningThreads, slices.Clone(c.CPUs)})
	}
	row := func(x bpf.Transfer) transfer {
		r := transfer{Process: process(x.Process), Write: x.Write, Bytes: x.Bytes, Count: x.Count}
		dev := uint64(x.Minor&0xff) | uint64(x.Major)<<8 | uint64(x.Minor&^0xff)<<12
		switch x.Kind {
		case bpf.Pipe:
			r.Resource = fmt.Sprintf("pipe:%d:%d", dev, x.Inode)
		case bpf.Socket:
			r.Resource = fmt.Sprintf("socket:%d:%d", dev, x.Inode)
		default:
			r.Resource = fmt.Sprintf("file:%d:%d:%d:%d", x.Major, x.Minor, x.Inode, x.Generation)
		}
		if x.HasPath {
			r.Path = new(string)
			*r.Path = strings.Clone(x.Path)
		}
		return r
	}
	for _, x := range b.IPC {
		a.IPC = append(a.IPC, row(x))
	}
	for _, x := range b.Files {
		a.Files = append(a.Files, row(x))
	}
	return a
}
