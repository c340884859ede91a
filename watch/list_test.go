package watch

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"procinsh/proc"
)

// fakeList is a host whose processes a test makes up.
type fakeList struct {
	began  time.Time
	cost   time.Duration                     // of a scan
	hang   chan struct{}                     // a scan waits until it is closed
	rows   func(at time.Duration) []proc.Row // nil: one process that uses half a core
	totals func(at time.Duration, t *proc.Totals) error
	fail   func(n int) error // by number of the scan, from 0

	busy  atomic.Bool
	mu    sync.Mutex
	wants []proc.Want
	times []time.Duration
}

func newFakeList() *fakeList { return &fakeList{began: time.Now()} }

func (f *fakeList) Begin()         {}
func (f *fakeList) End()           {}
func (f *fakeList) Source() Source { return Source{} }

func (f *fakeList) MapsSource() Source { return Source{} }

func (f *fakeList) Scan(want proc.Want) ([]proc.Row, error) {
	if f.busy.Swap(true) {
		panic("two scans at once")
	}
	defer f.busy.Store(false)
	at := time.Since(f.began)
	f.mu.Lock()
	n := len(f.wants)
	f.wants = append(f.wants, want)
	f.times = append(f.times, at)
	f.mu.Unlock()
	if f.hang != nil {
		<-f.hang
	}
	time.Sleep(f.cost)
	if f.fail != nil {
		if err := f.fail(n); err != nil {
			return nil, err
		}
	}
	if f.rows != nil {
		return f.rows(at), nil
	}
	r := fakeRow(1, 10, at, uint64(at.Milliseconds()/20)) // 50 ticks a second
	if want.IO {
		r.IO = proc.Some(proc.IO{ReadBytes: uint64(at.Milliseconds()), WriteBytes: 2 * uint64(at.Milliseconds())})
	}
	return []proc.Row{r}, nil
}

func (f *fakeList) ReadTotals(t *proc.Totals) error {
	if f.totals != nil {
		return f.totals(time.Since(f.began), t)
	}
	*t = proc.Totals{Cores: 2}
	return nil
}

func (f *fakeList) scans() ([]proc.Want, []time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.wants), slices.Clone(f.times)
}

func fakeRow(pid int32, start uint64, at time.Duration, ticks uint64) proc.Row {
	return proc.Row{ID: proc.ID{PID: pid, StartTicks: start}, State: 'R', Threads: 1, At: int64(at), CPUTicks: ticks}
}

func subscribe(t *testing.T, l *List, want ListWant) *ListViewer {
	t.Helper()
	v, err := l.Subscribe(want)
	if err != nil {
		t.Fatalf("Subscribe: %v", err)
	}
	return v
}

func next(t *testing.T, v *ListViewer) ListUpdate {
	t.Helper()
	u, err := v.Next(t.Context())
	if err != nil {
		t.Fatalf("Next: %v", err)
	}
	return u
}

func now(t *testing.T, l *List, want ListWant) *ListState {
	t.Helper()
	s, err := l.Now(t.Context(), want)
	if err != nil {
		t.Fatalf("Now: %v", err)
	}
	return s
}

// cpu is the percentage of the only row, -1 when unknown.
func cpu(s *ListState) float64 { return s.Rows[0].CPUPercent.Or(-1) }

func wantCPU(t *testing.T, s *ListState, want float64) {
	t.Helper()
	if got := cpu(s); got < want-0.001 || got > want+0.001 {
		t.Errorf("sequence %d: CPU %v %%, want %v", s.Sequence, got, want)
	}
}

func TestListScansEachInterval(t *testing.T) {
	for _, tt := range []struct{ interval, want time.Duration }{
		{0, time.Second},
		{100 * time.Millisecond, time.Second},
		{time.Second, time.Second},
		{3 * time.Second, 3 * time.Second},
		{time.Minute, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			src := newFakeList()
			src.cost = 20 * time.Millisecond
			l := newList(src, ListOptions{Interval: tt.interval})
			v := subscribe(t, l, ListWant{})
			defer v.Close()
			for i := range uint64(5) {
				u := next(t, v)
				if u.State.Sequence != i+1 {
					t.Fatalf("interval %v: sequence %d, want %d", tt.interval, u.State.Sequence, i+1)
				}
				if got, want := u.State.CapturedAt.Sub(src.began), time.Duration(i)*tt.want; got != want {
					t.Errorf("interval %v: state %d captured at %v, want %v", tt.interval, i, got, want)
				}
				if i == 0 {
					if u.Base != nil {
						t.Error("first update has a base")
					}
					wantCPU(t, u.State, -1)
				} else {
					if u.Base == nil || u.Base.Sequence != i {
						t.Errorf("update %d: base %v, want the state before", i, u.Base)
					}
					wantCPU(t, u.State, 50)
				}
			}
		})
	}
}

func TestListOneScanServesAllVariants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeList()
		l := newList(src, ListOptions{})
		plain := subscribe(t, l, ListWant{})
		if s := next(t, plain).State; s.Want != (ListWant{}) {
			t.Errorf("first state has %+v", s.Want)
		}
		maps, io := subscribe(t, l, ListWant{Maps: true}), subscribe(t, l, ListWant{IO: true})
		for _, v := range []*ListViewer{maps, io} {
			if u := next(t, v); u.State.Sequence != 1 || u.Base != nil {
				t.Errorf("a viewer that joins got sequence %d and base %v, want the newest state whole", u.State.Sequence, u.Base)
			}
		}
		var states []*ListState
		for _, v := range []*ListViewer{plain, maps, io} {
			states = append(states, next(t, v).State)
		}
		if states[0] != states[1] || states[0] != states[2] {
			t.Error("viewers got different states")
		}
		if got, want := states[0].Want, (ListWant{Maps: true, IO: true}); got != want {
			t.Errorf("state has %+v, want the union %+v", got, want)
		}
		if states[0].Rows[0].ReadRate.Known() {
			t.Error("read rate known although only one scan read io")
		}
		s := next(t, io).State
		if r, w := s.Rows[0].ReadRate.Or(-1), s.Rows[0].WriteRate.Or(-1); r != 1000 || w != 2000 {
			t.Errorf("rates %v and %v, want 1000 and 2000", r, w)
		}
		io.Close()
		time.Sleep(time.Second)
		synctest.Wait()
		maps.Close()
		time.Sleep(time.Second)
		synctest.Wait()
		plain.Close()
		got, times := src.scans()
		want := []proc.Want{{}, {Maps: true, IO: true}, {Maps: true, IO: true}, {Maps: true}, {}}
		if !slices.Equal(got, want) {
			t.Errorf("scans read %+v, want %+v", got, want)
		}
		for i, at := range times {
			if at != time.Duration(i)*time.Second {
				t.Errorf("scan %d at %v", i, at)
			}
		}
	})
}

func TestListNothingRunsWithoutViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeList()
		var started, stopped int
		l := newList(src, ListOptions{Hooks: ListHooks{
			Started: func() { started++ },
			Stopped: func() { stopped++ },
		}})
		for round := 1; round <= 2; round++ {
			a, b := subscribe(t, l, ListWant{}), subscribe(t, l, ListWant{})
			next(t, a)
			next(t, b)
			a.Close()
			a.Close()
			next(t, b)
			b.Close()
			synctest.Wait()
			if started != round || stopped != round {
				t.Errorf("round %d: started %d times, stopped %d times", round, started, stopped)
			}
			scans, _ := src.scans()
			time.Sleep(time.Hour)
			synctest.Wait()
			if later, _ := src.scans(); len(later) != len(scans) {
				t.Errorf("%d scans without a viewer", len(later)-len(scans))
			}
		}
		// That the bubble can end shows that no goroutine is left.
	})
}

// A viewer that comes later must not be shown a state from an hour ago.
func TestListFirstStateIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeList()
		l := newList(src, ListOptions{})
		now(t, l, ListWant{})
		time.Sleep(500 * time.Millisecond)

		v := subscribe(t, l, ListWant{})
		if u := next(t, v); u.State.Sequence != 1 {
			t.Errorf("sequence %d, want the young state 1", u.State.Sequence)
		}
		if u := next(t, v); u.State.CapturedAt.Sub(src.began) != time.Second || u.Base == nil {
			t.Errorf("second state at %v, base %v; want 1s after the first and a base", u.State.CapturedAt.Sub(src.began), u.Base)
		} else {
			wantCPU(t, u.State, 50)
		}
		v.Close()

		time.Sleep(time.Hour)
		v = subscribe(t, l, ListWant{})
		u := next(t, v)
		if age := time.Since(u.State.CapturedAt); u.State.Sequence != 3 || age != 0 {
			t.Errorf("sequence %d of age %v, want a new scan", u.State.Sequence, age)
		}
		wantCPU(t, u.State, -1) // an hour says nothing about now
		v.Close()

		// Young, but without what this viewer wants.
		v = subscribe(t, l, ListWant{Maps: true})
		if u := next(t, v); !u.State.Want.Maps {
			t.Error("first viewer's first state has no maps")
		}
		v.Close()
	})
}

func TestListNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeList()
		l := newList(src, ListOptions{})
		first := now(t, l, ListWant{})
		wantCPU(t, first, -1)
		time.Sleep(999 * time.Millisecond)
		if now(t, l, ListWant{}) != first {
			t.Error("scanned again before the interval was over")
		}
		time.Sleep(time.Millisecond)
		second := now(t, l, ListWant{})
		if second.Sequence != 2 {
			t.Errorf("sequence %d, want 2", second.Sequence)
		}
		wantCPU(t, second, 50)

		time.Sleep(60 * time.Second)
		wantCPU(t, now(t, l, ListWant{}), 50)
		time.Sleep(60*time.Second + time.Millisecond)
		wantCPU(t, now(t, l, ListWant{}), -1)
	})
}

// Another client's wish makes a scan out of turn, whose differences are those to a
// state that is old enough, never to the one of a moment ago.
func TestListNowDoesNotShortenWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeList()
		src.rows = func(at time.Duration) []proc.Row {
			// A whole core in the first 10 ms of each second, else none.
			sec := at / time.Second
			return []proc.Row{fakeRow(1, 10, at, uint64(sec)+uint64(min(at-sec*time.Second, 10*time.Millisecond)/(10*time.Millisecond)))}
		}
		l := newList(src, ListOptions{})
		now(t, l, ListWant{})
		time.Sleep(10 * time.Millisecond)
		wantCPU(t, now(t, l, ListWant{IO: true}), -1) // 10 ms say nothing
		time.Sleep(990 * time.Millisecond)
		now(t, l, ListWant{})
		time.Sleep(10 * time.Millisecond)
		s := now(t, l, ListWant{Maps: true})
		wantCPU(t, s, 1) // from 10 ms to 1,010 ms

		// The wish is kept in the scans of the others, so this makes no more of them.
		before, _ := src.scans()
		for range 4 {
			time.Sleep(time.Second)
			now(t, l, ListWant{})
			if s := now(t, l, ListWant{Maps: true, IO: true}); !s.Want.Maps {
				t.Error("maps are missing")
			}
		}
		if after, _ := src.scans(); len(after)-len(before) != 4 {
			t.Errorf("%d scans in 4 s", len(after)-len(before))
		}
		time.Sleep(wantMemory)
		now(t, l, ListWant{})
		if w, _ := src.scans(); w[len(w)-1] != (proc.Want{}) {
			t.Errorf("an old wish is still read: %+v", w[len(w)-1])
		}
	})
}

// A scan for a one-shot goes to viewers too, and moves their next one.
func TestListNowAmongViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeList()
		l := newList(src, ListOptions{})
		v := subscribe(t, l, ListWant{})
		defer v.Close()
		next(t, v)
		next(t, v)
		time.Sleep(600 * time.Millisecond)
		s := now(t, l, ListWant{IO: true})
		wantCPU(t, s, 50)
		if u := next(t, v); u.State != s || u.Base == nil || u.Base.Sequence != s.Sequence-1 {
			t.Errorf("viewer got %d on %v, want the one-shot's state on the one before", u.State.Sequence, u.Base)
		}
		u := next(t, v)
		if got := u.State.CapturedAt.Sub(s.CapturedAt); got != time.Second {
			t.Errorf("next scan %v later, want 1s", got)
		}
		// Polling faster than the interval adds no scan to the viewers'.
		before, _ := src.scans()
		for range 40 {
			time.Sleep(100 * time.Millisecond)
			now(t, l, ListWant{})
		}
		synctest.Wait()
		if after, _ := src.scans(); len(after)-len(before) != 4 {
			t.Errorf("%d scans in 4 s of polling beside a viewer", len(after)-len(before))
		}
	})
}

func TestListNowShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeList()
		src.cost = 300 * time.Millisecond
		l := newList(src, ListOptions{})
		states := make(chan *ListState, 50)
		for range 50 {
			go func() {
				s, err := l.Now(t.Context(), ListWant{})
				if err != nil {
					t.Errorf("Now: %v", err)
				}
				states <- s
			}()
		}
		synctest.Wait()
		// One that wants more than the scan that is being made waits for the next.
		s := now(t, l, ListWant{IO: true})
		if !s.Want.IO || s.Sequence != 2 {
			t.Errorf("sequence %d with %+v, want 2 with io", s.Sequence, s.Want)
		}
		for range 50 {
			if s := <-states; s.Sequence != 1 {
				t.Errorf("sequence %d, want 1", s.Sequence)
			}
		}
	})
}

func TestListNowLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeList()
		src.hang = make(chan struct{})
		l := newList(src, ListOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Now(ctx, ListWant{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Now of a scan that hangs: %v", err)
		}
		errs := make(chan error)
		go func() {
			_, err := l.Now(t.Context(), ListWant{})
			errs <- err
		}()
		synctest.Wait()
		began := time.Now()
		l.Close()
		if took := time.Since(began); took != closeWait {
			t.Errorf("Close waited %v for a scan that hangs, want %v", took, closeWait)
		}
		if err := <-errs; !errors.Is(err, ErrStopping) {
			t.Errorf("Now while closing: %v", err)
		}
		close(src.hang)
	})
}

func TestListSlowViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newList(newFakeList(), ListOptions{})
		slow, quick := subscribe(t, l, ListWant{}), subscribe(t, l, ListWant{})
		defer slow.Close()
		defer quick.Close()
		next(t, slow)
		for i := range uint64(10) {
			began := time.Now()
			if u := next(t, quick); u.State.Sequence != i+1 || (i > 0 && u.Base == nil) {
				t.Errorf("quick viewer got %d on %v", u.State.Sequence, u.Base)
			}
			if took := time.Since(began); i > 0 && took != time.Second {
				t.Errorf("quick viewer waited %v", took)
			}
		}
		if u := next(t, slow); u.State.Sequence != 10 || u.Base != nil {
			t.Errorf("slow viewer got %d on %v, want 10 whole", u.State.Sequence, u.Base)
		}
		if u := next(t, slow); u.State.Sequence != 11 || u.Base == nil || u.Base.Sequence != 10 {
			t.Errorf("slow viewer got %d on %v, want 11 on 10", u.State.Sequence, u.Base)
		}
	})
}

func TestListSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newList(newFakeList(), ListOptions{})
		var viewers []*ListViewer
		for range 32 {
			viewers = append(viewers, subscribe(t, l, ListWant{}))
		}
		if _, err := l.Subscribe(ListWant{}); !errors.Is(err, ErrFull) {
			t.Errorf("33rd viewer: %v, want ErrFull", err)
		}
		viewers[5].Close()
		viewers[5].Close()
		if _, err := viewers[5].Next(t.Context()); err == nil {
			t.Error("Next of a closed viewer succeeded")
		}
		viewers[5] = subscribe(t, l, ListWant{})
		if _, err := l.Subscribe(ListWant{}); !errors.Is(err, ErrFull) {
			t.Errorf("a viewer closed twice gave back two slots: %v", err)
		}
		var wg sync.WaitGroup
		for _, v := range viewers {
			next(t, v)
			wg.Go(func() {
				if _, err := v.Next(t.Context()); !errors.Is(err, ErrStopping) {
					t.Errorf("Next while closing: %v", err)
				}
				v.Close()
			})
		}
		synctest.Wait()
		l.Close()
		l.Close()
		wg.Wait()
		if _, err := l.Subscribe(ListWant{}); !errors.Is(err, ErrStopping) {
			t.Errorf("Subscribe after Close: %v", err)
		}
		if _, err := l.Now(t.Context(), ListWant{}); !errors.Is(err, ErrStopping) {
			t.Errorf("Now after Close: %v", err)
		}
		if l.viewers != 0 || l.wantMaps != 0 {
			t.Errorf("%d viewers left", l.viewers)
		}
	})
}

func TestListNextContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newList(newFakeList(), ListOptions{})
		v := subscribe(t, l, ListWant{})
		defer v.Close()
		next(t, v)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := v.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Next: %v", err)
		}
		if u := next(t, v); u.State.Sequence != 2 || u.Base == nil {
			t.Errorf("after it: %d on %v", u.State.Sequence, u.Base)
		}
	})
}

func TestListFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeList()
		bad, worse := errors.New("bad"), errors.New("worse")
		src.fail = func(n int) error {
			switch n {
			case 0, 3, 4:
				return bad
			case 5:
				return worse
			case 8:
				panic("odd bytes")
			}
			return nil
		}
		var events []string
		l := newList(src, ListOptions{Hooks: ListHooks{
			Failed:    func(err error) { events = append(events, err.Error()) },
			Recovered: func() { events = append(events, "recovered") },
		}})
		v := subscribe(t, l, ListWant{})
		defer v.Close()
		if _, err := v.Next(t.Context()); !errors.Is(err, bad) {
			t.Errorf("first Next: %v, want the scan's error", err)
		}
		for _, want := range []time.Duration{1, 2, 6, 7, 9} {
			s := next(t, v).State
			if got := s.CapturedAt.Sub(src.began); got != want*time.Second {
				t.Errorf("state at %v, want %v", got, want*time.Second)
			}
			if want > 1 {
				wantCPU(t, s, 50)
			}
		}
		want := []string{
			"scan processes: bad", "recovered", "scan processes: bad", "scan processes: worse", "recovered",
			"panic: odd bytes", "recovered",
		}
		if !slices.Equal(events, want) {
			t.Errorf("hooks were told %q, want %q", events, want)
		}
	})
}

func TestListNowFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeList()
		src.fail = func(n int) error {
			if n == 0 {
				panic("odd bytes")
			}
			return nil
		}
		l := newList(src, ListOptions{})
		var p *PanicError
		if _, err := l.Now(t.Context(), ListWant{}); !errors.As(err, &p) || len(p.Stack) == 0 {
			t.Errorf("Now: %v, want a *PanicError with its stack", err)
		}
		if s := now(t, l, ListWant{}); s.Sequence != 1 {
			t.Errorf("sequence %d, want 1: a failed scan counts for nothing", s.Sequence)
		}
	})
}

// A scan that takes longer than the interval rests as long as it takes.
func TestListSlowScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeList()
		src.cost = 1700 * time.Millisecond
		l := newList(src, ListOptions{})
		v := subscribe(t, l, ListWant{})
		for range 4 {
			next(t, v)
		}
		v.Close()
		time.Sleep(time.Second)
		_, got := src.scans()
		if want := []time.Duration{0, 4 * time.Second, 8 * time.Second, 12 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("scans at %v, want %v", got, want)
		}
	})
}

func TestCompareRows(t *testing.T) {
	const sec = time.Second
	io := func(r proc.Row, read, write uint64) proc.Row {
		r.IO = proc.Some(proc.IO{ReadBytes: read, WriteBytes: write})
		return r
	}
	type rates struct{ cpu, read, write float64 } // -1 unknown
	for _, tt := range []struct {
		name          string
		before, after []proc.Row
		want          []rates
	}{
		{"no base", nil, []proc.Row{fakeRow(1, 1, sec, 5)}, []rates{{-1, -1, -1}}},
		{"idle", []proc.Row{fakeRow(1, 1, sec, 5)}, []proc.Row{fakeRow(1, 1, 2*sec, 5)}, []rates{{0, -1, -1}}},
		{"four cores", []proc.Row{fakeRow(1, 1, 0, 0)}, []proc.Row{fakeRow(1, 1, 2*sec, 800)}, []rates{{400, -1, -1}}},
		{"own window of each row", []proc.Row{fakeRow(1, 1, 0, 0), fakeRow(2, 1, sec/2, 0)},
			[]proc.Row{fakeRow(1, 1, sec, 50), fakeRow(2, 1, sec, 50)}, []rates{{50, -1, -1}, {100, -1, -1}}},
		{"backwards", []proc.Row{io(fakeRow(1, 1, 0, 9), 100, 100)}, []proc.Row{io(fakeRow(1, 1, sec, 8), 99, 150)}, []rates{{-1, -1, 50}}},
		{"number used again", []proc.Row{fakeRow(7, 1, 0, 0)}, []proc.Row{fakeRow(7, 2, sec, 50)}, []rates{{-1, -1, -1}}},
		{"new between old", []proc.Row{fakeRow(1, 1, 0, 0), fakeRow(9, 1, 0, 0)},
			[]proc.Row{fakeRow(1, 1, sec, 1), fakeRow(5, 1, sec, 7), fakeRow(9, 1, sec, 2)}, []rates{{1, -1, -1}, {-1, -1, -1}, {2, -1, -1}}},
		{"old gone", []proc.Row{fakeRow(1, 1, 0, 0), fakeRow(2, 1, 0, 0), fakeRow(9, 1, 0, 0)},
			[]proc.Row{fakeRow(9, 1, sec, 3)}, []rates{{3, -1, -1}}},
		{"too old", []proc.Row{fakeRow(1, 1, 0, 0)}, []proc.Row{fakeRow(1, 1, 61*sec, 50)}, []rates{{-1, -1, -1}}},
		{"same instant", []proc.Row{fakeRow(1, 1, sec, 0)}, []proc.Row{fakeRow(1, 1, sec, 1)}, []rates{{-1, -1, -1}}},
		{"clock backwards", []proc.Row{fakeRow(1, 1, sec, 0)}, []proc.Row{fakeRow(1, 1, 0, 1)}, []rates{{-1, -1, -1}}},
		{"io became unreadable", []proc.Row{io(fakeRow(1, 1, 0, 0), 1, 1)}, []proc.Row{fakeRow(1, 1, sec, 1)}, []rates{{1, -1, -1}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rows := compareRows(tt.after, compareRows(tt.before, nil, maxWindow), maxWindow)
			var got []rates
			for i, r := range rows {
				if r.Row != tt.after[i] {
					t.Errorf("row %d changed", i)
				}
				got = append(got, rates{r.CPUPercent.Or(-1), r.ReadRate.Or(-1), r.WriteRate.Or(-1)})
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestListTotals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newFakeList()
		src.rows = func(at time.Duration) []proc.Row {
			a, b, c := fakeRow(1, 1, at, 0), fakeRow(2, 1, at, 0), fakeRow(3, 1, at, 0)
			a.Threads, b.State = 5, 'S'
			return []proc.Row{a, b, c}
		}
		n := 0
		src.totals = func(at time.Duration, tot *proc.Totals) error {
			n++
			s := uint64(at / time.Second)
			*tot = proc.Totals{
				Cores:            2,
				BusyTicks:        1000 + 150*s,
				StorageReadBytes: proc.Some(4096 * s),
				SelfCPUTicks:     3 * s,
				// The wall clock is set back an hour each time.
				At: time.Now().Round(0).Add(-time.Duration(n) * time.Hour),
			}
			switch n {
			case 3:
				tot.BusyTicks = 1 // backwards
			case 5:
				return errors.New("no /proc/stat")
			case 8:
				tot.BusyTicks += 500 // more than two cores can do in a second
			}
			return nil
		}
		l := newList(src, ListOptions{})
		v := subscribe(t, l, ListWant{})
		defer v.Close()
		for i, want := range []struct {
			busy, read, write, self float64
			err                     bool
		}{
			{busy: -1, read: -1, write: -1, self: -1},
			{busy: 1.5, read: 4096, write: -1, self: 3},
			{busy: -1, read: 4096, write: -1, self: 3},
			{busy: 2, read: 4096, write: -1, self: 3},
			{busy: -1, read: -1, write: -1, self: -1, err: true},
			{busy: -1, read: -1, write: -1, self: -1},
			{busy: 1.5, read: 4096, write: -1, self: 3},
			{busy: 2, read: 4096, write: -1, self: 3},
		} {
			s := next(t, v).State
			tot := s.Totals
			if got := [4]float64{tot.CoresBusy.Or(-1), tot.ReadRate.Or(-1), tot.WriteRate.Or(-1), tot.SelfCPUPercent.Or(-1)}; got != [4]float64{want.busy, want.read, want.write, want.self} {
				t.Errorf("scan %d: busy, read, write, self %v, want %+v", i, got, want)
			}
			if (s.TotalsErr != nil) != want.err || (want.err && tot.Cores != 0) {
				t.Errorf("scan %d: error %v, cores %d", i, s.TotalsErr, tot.Cores)
			}
			if tot.Processes != 3 || tot.Threads != 7 || !reflect.DeepEqual(tot.States, map[byte]int{'R': 2, 'S': 1}) {
				t.Errorf("scan %d: %d processes, %d threads, states %v", i, tot.Processes, tot.Threads, tot.States)
			}
		}
	})
}

func TestMemo(t *testing.T) {
	var s ListState
	var calls atomic.Int32
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			got := s.Memo("rows", func() any {
				calls.Add(1)
				time.Sleep(10 * time.Millisecond)
				return 7
			})
			if got != 7 {
				t.Errorf("got %v", got)
			}
		})
	}
	wg.Wait()
	if calls.Load() != 1 {
		t.Errorf("made %d times", calls.Load())
	}
	if got := s.Memo("other", func() any { return 8 }); got != 8 {
		t.Errorf("another key gave %v", got)
	}
	for range 2 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a panic was swallowed")
				}
			}()
			s.Memo("panic", func() any { panic("x") })
		}()
	}
}

// What viewers made of a state must not stay in memory after the last of them.
func TestListMemoEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newList(newFakeList(), ListOptions{})
		v := subscribe(t, l, ListWant{})
		next(t, v)
		s := next(t, v).State
		for _, s := range []*ListState{s, l.previous} {
			s.Memo("rows", func() any { return 1 })
		}
		v.Close()
		if n := len(s.memo.m) + len(l.previous.memo.m); n != 0 {
			t.Errorf("%d values left", n)
		}
	})
}

func TestPace(t *testing.T) {
	base := time.Now()
	for _, tt := range []struct {
		name         string
		due          time.Duration
		began, ended time.Duration
		inTurn       bool
		want         time.Duration
	}{
		{"in time", 10, 10, 11, true, 110},
		{"late", 10, 60, 61, true, 110},
		{"an interval late", 10, 110, 111, true, 210},
		{"out of turn", 100, 60, 61, false, 160},
		{"longer than half an interval", 0, 0, 70, true, 200},
		{"just half an interval", 0, 0, 50, true, 100},
		{"longer than two", 0, 0, 230, true, 500},
	} {
		p := pace{interval: 100 * time.Millisecond, due: base.Add(tt.due * time.Millisecond)}
		p.read(base.Add(tt.began*time.Millisecond), base.Add(tt.ended*time.Millisecond), tt.inTurn)
		if got := p.due.Sub(base); got != tt.want*time.Millisecond {
			t.Errorf("%s: due at %v, want %v", tt.name, got, tt.want*time.Millisecond)
		}
	}
}

func TestMarkRuns(t *testing.T) {
	rows := []ListRow{{}, {}, {}}
	for i, id := range []proc.ID{{PID: 3, StartTicks: 30}, {PID: 5, StartTicks: 50}, {PID: 9, StartTicks: 90}} {
		rows[i].ID = id
	}
	markRuns(rows, map[proc.ID]string{{PID: 3, StartTicks: 30}: "a", {PID: 5, StartTicks: 51}: "another process", {PID: 9, StartTicks: 90}: "b", {PID: 7}: "gone"})
	for i, want := range []string{"a", "", "b"} {
		if rows[i].Run != want {
			t.Errorf("row %d belongs to %q, want %q", i, rows[i].Run, want)
		}
	}
}
