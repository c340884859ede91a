package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"procinsh/bpf"
	"procinsh/proc"
)

// fakeSensors report one file in each window.
type fakeSensors struct {
	hub    *fakeHost
	status bpf.Status
	last   time.Time
}

func (s *fakeSensors) Drain(w *bpf.Window) error {
	s.hub.drains.Add(1)
	if s.hub.panics.Load() {
		panic("a mistake")
	}
	w.Began, w.Ended = s.last, time.Now().Add(time.Duration(s.hub.step.Load()))
	s.last = w.Ended
	w.CPU = append(w.CPU[:0], bpf.CPU{Process: bpf.Process{TGID: 1, Start: 123456789}, Runtime: 5, Switches: 6, RunningThreads: 2, CPUs: []int{0, 3}})
	w.IPC = w.IPC[:0]
	w.Files = append(w.Files[:0], bpf.Transfer{Process: bpf.Process{TGID: 1, Start: 123456789}, Resource: bpf.Resource{Kind: bpf.File, Major: 8, Minor: 1, Inode: 7, Generation: 9}, Bytes: uint64(s.hub.drains.Load()), Count: 1, Path: "/a", HasPath: true})
	return nil
}

func (s *fakeSensors) Status() bpf.Status { return s.status }

func (s *fakeSensors) Close() error {
	s.hub.open.Add(-1)
	return nil
}

// fakeHost is a host whose structure and sensors a test makes up.
type fakeHost struct {
	list    *fakeList
	status  bpf.SensorStatus // of all three
	cost    time.Duration    // of a reading of the structure
	fail    atomic.Bool      // readings of the structure fail
	open    atomic.Int32     // sensors that are not closed
	watched atomic.Int32     // structures that are begun and not ended
	drains  atomic.Int64
	reads   atomic.Int64
	panics  atomic.Bool
	step    atomic.Int64 // what the clock of the sensors is ahead, ns
	scratch proc.HostConnections

	mu    sync.Mutex
	tells []string
}

func (h *fakeHost) Connections(limits proc.HostLimits) (*proc.HostConnections, error) {
	if limits.Descriptors != maxStructureFDs || limits.TableDescriptors != maxTableFDs || limits.Time != maxStructureTime {
		panic(fmt.Sprint("limits of a reading: ", limits))
	}
	n := h.reads.Add(1)
	time.Sleep(h.cost)
	if h.fail.Load() {
		return nil, errors.New("no structure")
	}
	// A reading uses its memory again.
	h.scratch.Objects = append(h.scratch.Objects[:0], proc.HostObject{Kind: proc.FDPipe, Device: 14, Inode: uint64(n), Peer: -1, Count: 1})
	h.scratch.Processes = append(h.scratch.Processes[:0], proc.HostProcess{ID: proc.ID{PID: 1, StartTicks: 10}})
	h.scratch.Ends = append(h.scratch.Ends[:0], proc.ConnectionEnd{FD: 3, Count: 1, Access: accessRead})
	h.scratch.Descriptors, h.scratch.Inspected = int(n), 1
	return &h.scratch, nil
}

func (h *fakeHost) Begin() { h.watched.Add(1) }

func (h *fakeHost) End() { h.watched.Add(-1) }

func (h *fakeHost) Source() Source { return Source{Tables: true} }

func (h *fakeHost) Self() (proc.ID, uint64, error) { return proc.ID{PID: 9, StartTicks: 9}, 21, nil }

func (h *fakeHost) StartOffset() (time.Duration, error) { return 0, nil }

func (h *fakeHost) tell(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tells = append(h.tells, fmt.Sprintf(format, args...))
}

func (h *fakeHost) told() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.tells)
}

// system is a System on a made-up host.
func (h *fakeHost) system(t *testing.T, o SystemOptions) *System {
	t.Helper()
	if h.list == nil {
		h.list = newFakeList()
	}
	if h.status.State == "" {
		h.status.State = bpf.StateObserving
	}
	o.Hooks = SystemHooks{
		Started: func() { h.tell("started") }, Stopped: func() { h.tell("stopped") },
		Failed: func(err error) { h.tell("failed: %v", err) }, Recovered: func() { h.tell("recovered") },
		Sensor: func(name, state, reason string) { h.tell("%s %s %s", name, state, reason) },
	}
	list := newList(h.list, ListOptions{Interval: time.Second})
	open := func() sensors {
		if h.open.Add(1) > 1 {
			panic("sensors are opened twice")
		}
		return &fakeSensors{hub: h, status: bpf.Status{CPU: h.status, IPC: h.status, Files: h.status}, last: time.Now()}
	}
	s := newSystem(list, h, open, newNames(noNames{}), o)
	t.Cleanup(func() {
		s.Close()
		list.Close()
	})
	return s
}

type noNames struct{}

func (noNames) LookupAddr(context.Context, string) ([]string, error) {
	return nil, errors.New("nobody has a name")
}

func look(t *testing.T, s *System, want SystemWant) *SystemViewer {
	t.Helper()
	v, err := s.Subscribe(want)
	if err != nil {
		t.Fatalf("Subscribe: %v", err)
	}
	return v
}

// collectEvents reads events until d has passed.
func collectEvents(t *testing.T, v *SystemViewer, d time.Duration) (events []SystemEvent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	for {
		e, err := v.Next(ctx)
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("Next: %v", err)
			}
			return events
		}
		events = append(events, e)
	}
}

func TestSystemEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHost{}
		s := h.system(t, SystemOptions{})
		if st := s.Status(); st.Active || st.CPU.State != bpf.StateIdle || s.Topology().Sequence != 0 {
			t.Fatalf("before the first viewer: %+v, structure %d", st, s.Topology().Sequence)
		}
		v := look(t, s, SystemWant{})
		events := collectEvents(t, v, 12550*time.Millisecond)
		first := events[0]
		if first.Topology == nil || first.Base != nil || first.Topology.Sequence != 0 || len(first.Topology.Nodes) != 0 {
			t.Fatalf("first event: %+v", first)
		}
		var structures []*Topology
		var windows []*Activity
		metrics := 0
		last := first.Topology
		for _, e := range events[1:] {
			switch {
			case e.Topology != nil:
				if e.Base != last {
					t.Errorf("structure %d has another base than the one before it", e.Topology.Sequence)
				}
				last = e.Topology
				structures = append(structures, e.Topology)
			case e.Metrics != nil:
				metrics++
			case e.Activity != nil:
				windows = append(windows, e.Activity)
			default:
				t.Errorf("a gap of %d for a viewer that keeps up", e.Dropped)
			}
		}
		if len(structures) != 3 || metrics != 13 || len(windows) != 125 {
			t.Errorf("%d structures, %d metrics, %d windows in 12.55 s, want 3, 13, 125", len(structures), metrics, len(windows))
		}
		for i, x := range structures {
			if x.Sequence != uint64(i+1) || len(x.Nodes) != 1 || len(x.Edges) != 1 || x.InspectedFDs != i+1 || x.Edges[0].ID != fmt.Sprintf("pipe:14:%d", i+1) {
				t.Errorf("structure %d: %+v", i, x)
			}
		}
		for i, a := range windows {
			if a.Sequence != uint64(i+1) || a.Window != activityInterval || a.Files[0].Bytes != uint64(i+1) || !a.Status.Active {
				t.Fatalf("window %d: %+v", i, a)
			}
		}
		c := windows[0].CPU[0]
		if want := (proc.ID{PID: 1, StartTicks: 12}); c.Process != want || c.Runtime != 5 || c.Switches != 6 || c.RunningThreads != 2 || !slices.Equal(c.CPUs, []int{0, 3}) {
			t.Errorf("CPU: %+v", c)
		}
		if f := windows[0].Files[0]; string(AppendResource(nil, f.Resource)) != "file:8:1:7:9" || f.Path != proc.Some("/a") || f.Write {
			t.Errorf("file: %+v", f)
		}
		v.Close()
		v.Close()
		synctest.Wait()
		if h.open.Load() != 0 {
			t.Error("the sensors are not closed after the last viewer")
		}
		drains, reads := h.drains.Load(), h.reads.Load()
		_, scans := h.list.scans()
		time.Sleep(time.Minute)
		_, after := h.list.scans()
		if h.drains.Load() != drains || h.reads.Load() != reads || len(after) != len(scans) {
			t.Error("something runs without a viewer")
		}
		if st := s.Status(); st.Active || st.Files.State != bpf.StateIdle {
			t.Errorf("after the last viewer: %+v", st)
		}
		if s.Topology() != structures[2] {
			t.Error("the newest structure is not kept")
		}
		want := []string{"started", "cpu observing ", "ipc observing ", "files observing ", "stopped"}
		if got := h.told(); !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}

		// The next first viewer gets what is kept, and the next structure as a change of it.
		v = look(t, s, SystemWant{})
		defer v.Close()
		again := collectEvents(t, v, 2*time.Second)
		if again[0].Topology != structures[2] || again[0].Base != nil {
			t.Fatalf("first event of the second time: %+v", again[0])
		}
		i := slices.IndexFunc(again[1:], func(e SystemEvent) bool { return e.Topology != nil })
		if i < 0 || again[i+1].Base != structures[2] {
			t.Error("the structure after the kept one is no change of it")
		}
		if got := h.told(); len(got) != len(want)+1 {
			t.Errorf("a sensor that is what it was is told again: %q", got[len(want):])
		}
	})
}

func TestSystemGap(t *testing.T) {
	for _, c := range []struct {
		name    string
		asleep  time.Duration
		dropped uint64 // 0: no gap
	}{
		{"as long as windows are kept", 900 * time.Millisecond, 0},
		{"metrics were passed over", 1400 * time.Millisecond, 0},
		{"windows were lost", 2020 * time.Millisecond, 20 - 1},
		{"a structure was passed over too", 12020 * time.Millisecond, 120 - 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &fakeHost{}
				s := h.system(t, SystemOptions{})
				v := look(t, s, SystemWant{})
				defer v.Close()
				before := collectEvents(t, v, 1050*time.Millisecond)
				time.Sleep(c.asleep)
				newest := s.Topology()
				events := collectEvents(t, v, 20*time.Millisecond)
				if c.dropped == 0 {
					for _, e := range events {
						if e.Dropped != 0 {
							t.Errorf("a gap of %d", e.Dropped)
						}
					}
					return
				}
				if len(events) != 4 || events[0].Dropped != c.dropped || events[1].Topology != newest || events[1].Base != nil ||
					events[2].Metrics == nil || events[3].Activity == nil {
					t.Fatalf("%d events: %+v; want a gap of %d, the whole structure, metrics and the newest window", len(events), events, c.dropped)
				}
				i := slices.IndexFunc(before, func(e SystemEvent) bool { return e.Activity != nil && e.Activity.Sequence == 10 })
				if i < 0 {
					t.Fatal("no tenth window in the first second")
				}
				last := before[i]
				if events[3].Activity.CapturedAt <= last.Activity.CapturedAt || events[3].Activity.Sequence != uint64(h.drains.Load()) {
					t.Errorf("window %d after %+v", events[3].Activity.Sequence, last)
				}
				for _, e := range collectEvents(t, v, 3*time.Second) {
					if e.Dropped != 0 {
						t.Errorf("a gap of %d after the gap", e.Dropped)
					}
				}
			})
		})
	}
}

func TestSystemViewersAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHost{}
		s := h.system(t, SystemOptions{})
		var viewers []*SystemViewer
		for range maxViewers {
			viewers = append(viewers, look(t, s, SystemWant{}))
		}
		if _, err := s.Subscribe(SystemWant{}); !errors.Is(err, ErrFull) {
			t.Fatalf("the 33rd: %v", err)
		}
		// The viewers of the list have slots of their own.
		var lists []*ListViewer
		for range maxViewers {
			lists = append(lists, subscribe(t, s.list, ListWant{}))
		}
		if _, err := s.list.Subscribe(ListWant{}); !errors.Is(err, ErrFull) {
			t.Fatalf("the 33rd of the list: %v", err)
		}
		viewers[0].Close()
		viewers[0] = look(t, s, SystemWant{})
		for _, v := range lists {
			v.Close()
		}
		time.Sleep(2 * time.Second)
		if h.open.Load() != 1 {
			t.Error("the sensors are closed while somebody watches")
		}
		for _, v := range viewers {
			v.Close()
		}
		synctest.Wait()
		if h.open.Load() != 0 {
			t.Error("the sensors are open after the last viewer")
		}
	})
}

// A viewer that leaves at once leaves nothing, and one that comes while the end is
// under way waits for it.
func TestSystemComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHost{cost: 3 * time.Second}
		s := h.system(t, SystemOptions{})
		for range 20 {
			v := look(t, s, SystemWant{})
			time.Sleep(700 * time.Millisecond)
			v.Close()
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if h.open.Load() != 0 {
			t.Error("the sensors are open after the last viewer")
		}
		started, stopped := 0, 0
		for _, x := range h.told() {
			switch x {
			case "started":
				started++
			case "stopped":
				stopped++
			}
		}
		if started == 0 || started != stopped {
			t.Errorf("started %d times, stopped %d times", started, stopped)
		}
	})
}

func TestSystemAsksForWhatIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHost{}
		s := h.system(t, SystemOptions{})
		wants := func() (last proc.Want) {
			all, _ := h.list.scans()
			return all[len(all)-1]
		}
		a := look(t, s, SystemWant{Summaries: true})
		time.Sleep(2500 * time.Millisecond)
		if w := wants(); !w.Maps || w.Mappings || w.IO {
			t.Errorf("with a viewer of summaries: %+v", w)
		}
		b := look(t, s, SystemWant{})
		reads := h.reads.Load()
		time.Sleep(1500 * time.Millisecond)
		if w := wants(); !w.Maps || !w.Mappings {
			t.Errorf("with viewers of both: %+v", w)
		}
		if h.reads.Load() != reads+1 {
			t.Error("a new wish waits for the next turn")
		}
		a.Close()
		time.Sleep(1500 * time.Millisecond)
		if w := wants(); w.Maps || !w.Mappings {
			t.Errorf("with a viewer of mappings: %+v", w)
		}
		b.Close()
	})
}

func TestSystemWithoutSensors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHost{status: bpf.SensorStatus{State: bpf.StateUnavailable, Reason: "needs CAP_BPF and CAP_PERFMON"}}
		s := h.system(t, SystemOptions{})
		for range 2 {
			v := look(t, s, SystemWant{})
			windows := 0
			for _, e := range collectEvents(t, v, 5*time.Second) {
				if e.Activity != nil {
					windows++
					if e.Activity.Status.CPU != h.status {
						t.Errorf("status %+v", e.Activity.Status)
					}
				}
			}
			if windows < 4 || windows > 6 {
				t.Errorf("%d windows in 5 s, want one a second", windows)
			}
			v.Close()
			time.Sleep(time.Second)
		}
		if ok, reason := s.Capability("ipc"); ok || reason != h.status.Reason {
			t.Errorf("capability: %v %q", ok, reason)
		}
		var sensors []string
		for _, x := range h.told() {
			if x != "started" && x != "stopped" {
				sensors = append(sensors, x)
			}
		}
		if len(sensors) != 3 {
			t.Errorf("told %q, want each sensor once", sensors)
		}
	})
}

// Windows are in order whatever the clock does.
func TestActivityClockStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHost{}
		s := h.system(t, SystemOptions{})
		v := look(t, s, SystemWant{})
		defer v.Close()
		events := collectEvents(t, v, time.Second)
		h.step.Store(int64(-time.Hour))
		events = append(events, collectEvents(t, v, time.Second)...)
		h.step.Store(int64(time.Hour))
		events = append(events, collectEvents(t, v, time.Second)...)
		last, n := int64(0), 0
		for _, e := range events {
			if e.Activity != nil {
				if e.Activity.CapturedAt <= last {
					t.Fatalf("captured_at %d after %d", e.Activity.CapturedAt, last)
				}
				last = e.Activity.CapturedAt
				n++
			}
		}
		if n < 28 {
			t.Errorf("%d windows in 3 s", n)
		}
	})
}

func TestSystemFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHost{}
		h.fail.Store(true)
		s := h.system(t, SystemOptions{})
		v := look(t, s, SystemWant{})
		defer v.Close()
		collectEvents(t, v, 11*time.Second)
		h.fail.Store(false)
		collectEvents(t, v, 5*time.Second)
		h.panics.Store(true)
		events := collectEvents(t, v, 5*time.Second)
		if st := s.Status(); st.CPU.State != bpf.StateError || st.CPU.Reason == "" || !st.Active {
			t.Errorf("after a mistake of the reader: %+v", st)
		}
		if !slices.ContainsFunc(events, func(e SystemEvent) bool { return e.Topology != nil }) {
			t.Error("no structure any more after a mistake of the sensors' reader")
		}
		if h.open.Load() != 0 {
			t.Error("the sensors stay open after a mistake of their reader")
		}
		told := h.told()
		want := []string{"failed: no structure", "recovered", "failed: panic: a mistake"}
		told = slices.DeleteFunc(told, func(x string) bool { return !slices.Contains(want, x) })
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

func TestSystemClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHost{}
		s := h.system(t, SystemOptions{})
		v := look(t, s, SystemWant{})
		collectEvents(t, v, time.Second)
		s.Close()
		if _, err := v.Next(t.Context()); !errors.Is(err, ErrStopping) {
			t.Errorf("Next after Close: %v", err)
		}
		if _, err := s.Subscribe(SystemWant{}); !errors.Is(err, ErrStopping) {
			t.Errorf("Subscribe after Close: %v", err)
		}
		if h.open.Load() != 0 {
			t.Error("the sensors are open after Close")
		}
		v.Close()
	})
}

// The formula is the kernel's: proc_pid_stat adds the reader's boot offset to the
// start time and prints ticks, all unsigned.
func TestTicksOf(t *testing.T) {
	for _, c := range []struct {
		start  uint64
		offset time.Duration
		want   uint64
	}{
		{0, 0, 0},
		{9_999_999, 0, 0},
		{10_000_000, 0, 1},
		{123_456_789_012, 0, 12345},
		{5_000_000, 86400 * time.Second, 8_640_000},
		{5_000_000, 5_000_000 + 86400*time.Second, 8_640_001},
		{0, -100 * time.Second, 1844674397370},
		{100_000_000_000, -100 * time.Second, 0},
	} {
		if got := ticksOf(c.start, c.offset); got != c.want {
			t.Errorf("ticksOf(%d, %v) = %d, want %d", c.start, c.offset, got, c.want)
		}
	}
}

// What this process reads of procfs to know the rest is in no window; what else it
// does is.
func TestOwnReadingIsLeftOut(t *testing.T) {
	own := ownReading{id: proc.ID{PID: 9, StartTicks: 9}, device: 21, known: true}
	mine := bpf.Process{TGID: 9, Start: 90_000_000}
	procfs := bpf.Resource{Kind: bpf.File, Minor: 21, Inode: 5}
	in := []bpf.Transfer{
		{Process: mine, Resource: procfs, Count: 1},
		{Process: mine, Resource: procfs, Count: 2, Write: true},
		{Process: mine, Resource: bpf.Resource{Kind: bpf.File, Major: 8, Minor: 1, Inode: 5}, Count: 3},
		{Process: mine, Resource: bpf.Resource{Kind: bpf.Socket, Minor: 21, Inode: 5}, Count: 4},
		{Process: bpf.Process{TGID: 9, Start: 95_000_000 + 10_000_000}, Resource: procfs, Count: 5},
		{Process: bpf.Process{TGID: 8, Start: 90_000_000}, Resource: procfs, Count: 6},
	}
	var got []uint64
	for _, x := range takeTransfers(in, 0, own) {
		got = append(got, x.Count)
	}
	if want := []uint64{2, 3, 4, 5, 6}; !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
	if all := takeTransfers(in, 0, ownReading{}); len(all) != len(in) {
		t.Errorf("kept %d of %d when nothing is known of ourselves", len(all), len(in))
	}
}

func TestAppendResource(t *testing.T) {
	for _, c := range []struct {
		r    Resource
		want string
	}{
		{Resource{Kind: bpf.Pipe, Minor: 14, Inode: 5}, "pipe:14:5"},
		{Resource{Kind: bpf.Socket, Minor: 8, Inode: 6}, "socket:8:6"},
		{Resource{Kind: bpf.Pipe, Major: 254, Minor: 0, Inode: 7}, "pipe:65024:7"},
		{Resource{Kind: bpf.Pipe, Major: 0x1fff, Minor: 0x1ffff, Inode: 7}, "pipe:17592722915327:7"},
		{Resource{Kind: bpf.File, Major: 254, Minor: 1, Inode: 1<<64 - 1, Generation: 1<<32 - 1}, "file:254:1:18446744073709551615:4294967295"},
	} {
		if got := string(AppendResource(nil, c.r)); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.r, got, c.want)
		}
	}
}
