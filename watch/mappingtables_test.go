package watch

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"procinsh/bpf"
	"procinsh/proc"
)

// fakeMappings are tables of mappings that count, and fail or are held when told to.
type fakeMappings struct {
	mu     sync.Mutex
	fail   error
	hold   chan struct{} // not nil: a reading waits for its end after the first mappings
	reads  int
	closed int
	back   int // readings that ended
}

func (f *fakeMappings) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed++
	return nil
}

func (f *fakeMappings) Read(each func([]bpf.Mapping) bool) error {
	f.mu.Lock()
	f.reads++
	fail, hold := f.fail, f.hold
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.back++
	}()
	if fail != nil {
		return fail
	}
	if !each([]bpf.Mapping{{PID: 1, Start: 1, End: 2}, {PID: 1, Start: 2, End: 3}}) {
		return nil
	}
	if hold != nil {
		<-hold
	}
	each([]bpf.Mapping{{PID: 2, Start: 1, End: 2, Name: "/"}})
	return nil
}

func (f *fakeMappings) counts() [3]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return [3]int{f.reads, f.back, f.closed}
}

func (f *fakeMappings) set(fail error, hold chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail, f.hold = fail, hold
}

func TestMappingTablesLastAsLongAsViewers(t *testing.T) {
	f := &fakeMappings{}
	opened, refuse := 0, error(nil)
	m := newMappingTables(func() (MappingReader, error) { opened++; return f, refuse })
	m.patience = time.Minute
	step := func(name string, do func(), wantOpened int, want [3]int, reason string) {
		t.Helper()
		do()
		if got := f.counts(); opened != wantOpened || got != want {
			t.Errorf("%s: %d opened, %v; want %d, %v", name, opened, got, wantOpened, want)
		}
		if got := m.now(); opened > 0 && got != (Source{Tables: reason == "", Reason: reason}) {
			t.Errorf("%s: source %+v, want %q", name, got, reason)
		}
	}
	read := func(want int) func() {
		return func() {
			t.Helper()
			n := 0
			if whole := m.ReadMappings(func(*proc.KernelMapping) { n++ }); n != want || whole != (want == 3) {
				t.Errorf("%d mappings, whole: %v", n, whole)
			}
		}
	}
	step("a one-shot", read(0), 0, [3]int{}, "")
	step("a viewer", m.begin, 0, [3]int{}, "")
	step("a reading", read(3), 1, [3]int{1, 1, 0}, "")
	step("the second", read(3), 1, [3]int{2, 2, 0}, "")
	step("no viewer", m.end, 1, [3]int{2, 2, 1}, "")
	step("a one-shot again", read(0), 1, [3]int{2, 2, 1}, "")
	step("an error", func() { f.set(errors.New("refused"), nil); m.begin(); read(0)() }, 2, [3]int{3, 3, 2}, "refused")
	step("after it", func() { read(0)(); read(0)() }, 2, [3]int{3, 3, 2}, "refused")
	step("no viewer", m.end, 2, [3]int{3, 3, 2}, "refused")
	step("the next viewer", func() { f.set(nil, nil); m.begin(); read(3)() }, 3, [3]int{4, 4, 2}, "")
	step("no viewer", m.end, 3, [3]int{4, 4, 3}, "")
	step("no tables", func() { refuse = errors.New("no right"); m.begin(); read(0)(); read(0)() }, 4, [3]int{4, 4, 3}, "no right")
	step("no viewer", m.end, 4, [3]int{4, 4, 3}, "no right")
}

// A process that holds whoever reads its mappings costs a goroutine, one at a time; what
// came before it counts, and there is a rest after it.
func TestMappingTablesGiveUpAHeldWalk(t *testing.T) {
	check := checkLeaks(t)
	f := &fakeMappings{hold: make(chan struct{})}
	m := newMappingTables(func() (MappingReader, error) { return f, nil })
	m.patience = 50 * time.Millisecond
	m.begin()
	n := 0
	read := func() bool { n = 0; return m.ReadMappings(func(*proc.KernelMapping) { n++ }) }
	if whole := read(); whole || n != 2 || m.now().Tables || m.now().Reason != errHeldWalk.Error() {
		t.Fatalf("%d mappings, whole: %v, %+v", n, whole, m.now())
	}
	for range 3 {
		if read() || n != 0 {
			t.Errorf("%d mappings while a walk is held", n)
		}
	}
	m.end() // does not wait
	if got := f.counts(); got != [3]int{1, 0, 0} {
		t.Errorf("%v with a held walk and no viewer", got)
	}
	m.begin()
	if read() || n != 0 {
		t.Errorf("%d mappings for the next viewer while a walk is held", n)
	}
	m.end()
	close(f.hold)
	wait := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("not within 30 s: %s: %v", what, f.counts())
			}
		}
	}
	wait("the walk closes the tables", func() bool { return f.counts() == [3]int{1, 1, 1} })
	m.begin()
	if read() || n != 0 {
		t.Errorf("%d mappings without a rest", n)
	}
	m.mu.Lock()
	if rest := time.Until(m.again); rest < walkRest/2 || rest > walkRest {
		t.Errorf("the rest is %v", rest)
	}
	m.again = time.Time{}
	m.mu.Unlock()
	f.set(nil, nil)
	m.patience = time.Minute
	if !read() || n != 3 || !m.now().Tables {
		t.Errorf("after the rest: %d mappings, %+v", n, m.now())
	}
	m.end()
	check()
}

// A reading that goes on and on is given up as well, in the middle of what it hands over.
func TestMappingTablesGiveUpALongWalk(t *testing.T) {
	check := checkLeaks(t)
	f := &endlessMappings{}
	m := newMappingTables(func() (MappingReader, error) { return f, nil })
	m.patience, m.most = time.Minute, 50*time.Millisecond
	m.begin()
	n := 0
	if whole := m.ReadMappings(func(*proc.KernelMapping) { n++ }); whole || n == 0 || m.now().Reason != errLongWalk.Error() {
		t.Errorf("%d mappings, whole: %v, %+v", n, whole, m.now())
	}
	m.end()
	for range 3000 { // the walk that was given up closes them, when it notices
		if f.closed.Load() > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	check()
	if f.closed.Load() != 1 {
		t.Errorf("closed %d times", f.closed.Load())
	}
}

// endlessMappings are tables without an end.
type endlessMappings struct{ closed atomic.Int32 }

func (f *endlessMappings) Close() error { f.closed.Add(1); return nil }

func (f *endlessMappings) Read(each func([]bpf.Mapping) bool) error {
	for each([]bpf.Mapping{{PID: 1, Start: 1, End: 2}}) {
	}
	return nil
}

// A mistake in who takes the mappings does not hold the tables.
func TestMappingTablesSurviveAPanic(t *testing.T) {
	check := checkLeaks(t)
	f := &fakeMappings{}
	m := newMappingTables(func() (MappingReader, error) { return f, nil })
	m.begin()
	err := guard(func() error {
		m.ReadMappings(func(*proc.KernelMapping) { panic("a mistake") })
		return nil
	})
	var p *PanicError
	if !errors.As(err, &p) {
		t.Error(err)
	}
	m.end()
	check()
}

// With a viewer of map summaries the list reads the kernel's tables of mappings, where root
// has them on a kernel that describes itself.
func TestListReadsMappingTables(t *testing.T) {
	fs := openFS(t, "/proc")
	check := checkLeaks(t)
	l := NewList(fs, ListOptions{Tables: true})
	m := l.src.(*hostList).mappings
	m.patience, m.most = time.Minute, time.Minute // the machine may be busy
	v := subscribe(t, l, ListWant{Maps: true})
	s := next(t, v).State
	if got := l.MapsSource(); !got.Tables {
		if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err == nil && os.Geteuid() == 0 {
			t.Errorf("maps are read from texts: %s", got.Reason)
		}
		t.Skipf("not root, or a kernel without BTF: %s", got.Reason)
	}
	summaries := 0
	for _, r := range s.Rows {
		if r.Maps != nil {
			summaries++
		}
		if int(r.ID.PID) == os.Getpid() && (r.Maps == nil || len(r.Maps.Boxes) < 5 || r.MapsErr != nil) {
			t.Errorf("this process: %+v, %v", r.Maps, r.MapsErr)
		}
	}
	if summaries < len(s.Rows)/2 {
		t.Errorf("%d of %d processes have a summary", summaries, len(s.Rows))
	}
	v.Close()
	l.Close()
	check()
}
