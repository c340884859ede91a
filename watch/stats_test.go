package watch

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"procinsh/bpf"
)

// A state that is too old for one is not for another; scans, those that failed and
// states that a viewer slept through are counted.
func TestListStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeList()
		src.cost = 20 * time.Millisecond
		src.fail = func(n int) error {
			if n == 2 {
				return errors.New("no")
			}
			return nil
		}
		l := newList(src, ListOptions{})
		first := now(t, l, ListWant{})
		time.Sleep(479 * time.Millisecond)
		notOlder := func(want uint64) {
			t.Helper()
			s, err := l.NotOlder(t.Context(), ListWant{}, 500*time.Millisecond)
			if err != nil || s.Sequence != want {
				t.Errorf("sequence %v, %v, want %d", s, err, want)
			}
		}
		notOlder(first.Sequence)
		time.Sleep(time.Millisecond)
		if now(t, l, ListWant{}) != first {
			t.Error("a scan though the last one is younger than the interval")
		}
		notOlder(first.Sequence + 1)
		time.Sleep(time.Second)
		if _, err := l.Now(t.Context(), ListWant{}); err == nil {
			t.Error("no error")
		}
		v := subscribe(t, l, ListWant{})
		u := next(t, v)
		time.Sleep(4*time.Second + 500*time.Millisecond)
		slept := next(t, v).State.Sequence - u.State.Sequence - 1
		v.Close()
		synctest.Wait()
		scans, _ := src.scans()
		stats := l.Stats()
		if stats.Failed != 1 || stats.Dropped != slept || slept != 3 || stats.Scans.Sum != time.Duration(len(scans)-1)*20*time.Millisecond {
			t.Errorf("%d scans, slept through %d: %+v", len(scans), slept, stats)
		}
	})
}

// Counters of all activations together grow, though those of the sensors begin anew.
func TestSystemCounts(t *testing.T) {
	s := newSystem(nil, nil, nil, nil, SystemOptions{})
	w := bpf.Window{
		CPU:   []bpf.CPU{{Switches: 3}, {Switches: 4}},
		IPC:   []bpf.Transfer{{Count: 5}},
		Files: []bpf.Transfer{{Count: 6}, {Count: 1}},
	}
	s.count(&w, &bpf.Status{}, &bpf.Status{Lost: 9, CPULost: 2, FilesLost: 1, Unresolved: 8})
	s.count(&w, &bpf.Status{Lost: 9, CPULost: 2, FilesLost: 1, Unresolved: 8}, &bpf.Status{Lost: 12, CPULost: 3, FilesLost: 1, Unresolved: 9})
	s.count(&w, &bpf.Status{}, &bpf.Status{Lost: 1, CPULost: 1}) // opened again
	got := s.Stats()
	want := SystemStats{CPU: SensorStats{21, 4}, IPC: SensorStats{15, 9}, Files: SensorStats{21, 1}, Unresolved: 9}
	if got.CPU != want.CPU || got.IPC != want.IPC || got.Files != want.Files || got.Unresolved != want.Unresolved {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A viewer of a process that does not keep up has lost readings.
func TestProcessesDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newProcesses(newFakeProcesses(), ProcessOptions{})
		v, err := w.Subscribe(t.Context(), someID)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := v.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := w.Dropped(); n != 0 {
			t.Errorf("%d dropped by a viewer that keeps up", n)
		}
		time.Sleep(3500 * time.Millisecond)
		if _, err := v.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := w.Dropped(); n != 2 {
			t.Errorf("%d dropped, want 2", n)
		}
		v.Close()
		w.Close()
	})
}
