package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

// fakeReader are tables that count.
type fakeReader struct{ closed int }

func (f *fakeReader) ReadTasks(_, _ uint32) ([]proc.Task, error) { return nil, nil }
func (f *fakeReader) Close() error                               { f.closed++; return nil }

// tablesScanner is a scanner that notes what it reads from.
type tablesScanner struct {
	heldScanner
	from proc.TaskSource
	err  error
}

func (s *tablesScanner) ReadFrom(f proc.TaskSource) { s.from = f }
func (s *tablesScanner) TablesError() error         { return s.err }

func TestTablesLastAsLongAsViewers(t *testing.T) {
	refused := errors.New("refused")
	var open error
	var readers []*fakeReader
	s := &tablesScanner{}
	h := &hostList{scanner: s, tables: newTables(func() (TableReader, error) {
		if open != nil {
			return nil, open
		}
		readers = append(readers, &fakeReader{})
		return readers[len(readers)-1], nil
	})}
	step := func(name string, do func(), opened, closed int, reads bool, reason string) {
		t.Helper()
		do()
		n := 0
		for _, r := range readers {
			n += r.closed
		}
		if len(readers) != opened || n != closed || (s.from != nil) != reads {
			t.Errorf("%s: %d opened, %d closed, read from %v", name, len(readers), n, s.from)
		}
		if got := h.Source(); reason != "" && (got.Tables || got.Reason != reason) || reason == "" && got.Reason != "" && len(readers) > 0 {
			t.Errorf("%s: source %+v", name, got)
		}
	}
	scan := func() {
		if _, err := h.Scan(proc.Want{}); err != nil {
			t.Error(err)
		}
	}
	step("a one-shot", scan, 0, 0, false, "")
	step("a viewer", h.Begin, 0, 0, false, "")
	step("its first scan", scan, 1, 0, true, "")
	step("its second", scan, 1, 0, true, "")
	step("no viewer", h.End, 1, 1, false, "")
	step("a one-shot again", scan, 1, 1, false, "")
	step("the next viewer", func() { h.Begin(); scan() }, 2, 1, true, "")
	step("an error", func() { s.err = refused; scan() }, 2, 2, true, "refused")
	step("scans after it", func() { scan(); scan() }, 2, 2, true, "refused")
	step("no viewer", func() { s.err, s.from = nil, nil; h.End() }, 2, 2, false, "refused")
	step("no tables", func() { open = refused; h.Begin(); scan(); scan() }, 2, 2, false, "refused")
	step("no viewer", h.End, 2, 2, false, "refused")
	step("tables again", func() { open = nil; h.Begin(); scan() }, 3, 2, true, "")
	step("no viewer", h.End, 3, 3, false, "")
}

// With a viewer a list reads the kernel's tables, where root has them on a kernel that
// describes itself, and gives them up after it.
func TestListReadsTables(t *testing.T) {
	fs := openFS(t, "/proc")
	check := checkLeaks(t)
	l := NewList(fs, ListOptions{Tables: true})
	v := subscribe(t, l, ListWant{})
	first := next(t, v).State
	var second *ListState
	for second == nil || second.Sequence < first.Sequence+2 {
		second = next(t, v).State
	}
	if got := l.Source(); !got.Tables {
		if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err == nil && os.Geteuid() == 0 {
			t.Errorf("the list reads texts: %s", got.Reason)
		}
		t.Skipf("not root, or a kernel without BTF: %s", got.Reason)
	}
	together := map[int64]int{} // the tables are read at one time
	for _, r := range second.Rows {
		together[r.At]++
	}
	most := 0
	for _, n := range together {
		most = max(most, n)
	}
	if most < len(second.Rows)/2 {
		t.Errorf("%d of %d rows are from the tables", most, len(second.Rows))
	}
	own := 0
	for _, r := range second.Rows {
		if int(r.ID.PID) == os.Getpid() && r.CPUPercent.Known() && r.RSS > 0 && r.Details != nil {
			own++
		}
	}
	if own != 1 {
		t.Errorf("this process is in the list %d times", own)
	}
	v.Close()
	l.Close()
	check()
}

// fakeFiles are tables of open files that count, and fail when told to.
type fakeFiles struct {
	fail          *error
	reads, closed int
}

func (f *fakeFiles) TellsPaths() bool { return false }
func (f *fakeFiles) Close() error     { f.closed++; return nil }
func (f *fakeFiles) ReadDescriptors(bool, func(*proc.OpenFile) bool) error {
	f.reads++
	return *f.fail
}

func TestStructureTablesLastAsLongAsViewers(t *testing.T) {
	var fail error
	var readers []*fakeFiles
	h := newHostStructure(openFS(t, "/proc"), newTables(func() (DescriptorReader, error) {
		readers = append(readers, &fakeFiles{fail: &fail})
		return readers[len(readers)-1], nil
	}))
	step := func(name string, do func(), opened, reads, closed int, reason string) {
		t.Helper()
		do()
		n, c := 0, 0
		for _, r := range readers {
			n, c = n+r.reads, c+r.closed
		}
		if len(readers) != opened || n != reads || c != closed {
			t.Errorf("%s: %d opened, %d readings, %d closed; want %d, %d, %d", name, len(readers), n, c, opened, reads, closed)
		}
		if got := h.Source(); len(readers) > 0 && got != (Source{Tables: reason == "", Reason: reason}) {
			t.Errorf("%s: source %+v, want %q", name, got, reason)
		}
	}
	read := func() {
		c, err := h.Connections(proc.HostLimits{})
		if err != nil || c.Descriptors == 0 {
			t.Errorf("%v, %d descriptors", err, c.Descriptors)
		}
	}
	step("a viewer", h.Begin, 0, 0, 0, "")
	step("the first reading", read, 1, 1, 0, "")
	step("the second", read, 1, 2, 0, "")
	step("no viewer", h.End, 1, 2, 1, "")
	step("an error", func() { fail = errors.New("refused"); h.Begin(); read() }, 2, 3, 2, "refused")
	step("the readings after it", func() { read(); read() }, 2, 3, 2, "refused")
	step("no viewer", h.End, 2, 3, 2, "refused")
	step("the next viewer", func() { fail = nil; h.Begin(); read() }, 3, 4, 2, "")
	step("no viewer", h.End, 3, 4, 3, "")
}

// With a viewer the structure comes from the kernel's tables, and nothing of them is
// left after it.
func TestSystemReadsTables(t *testing.T) {
	fs := openFS(t, "/proc")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(r.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	check := checkLeaks(t)
	l := NewList(fs, ListOptions{})
	s := NewSystem(fs, l, SystemOptions{Tables: true})
	v, err := s.Subscribe(SystemWant{Summaries: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for s.Topology().Sequence == 0 {
		if _, err := v.Next(ctx); err != nil {
			t.Fatal(err)
		}
	}
	got := s.Topology()
	if source := s.Source(); !source.Tables {
		if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err == nil && os.Geteuid() == 0 {
			t.Errorf("the structure is read from texts: %s", source.Reason)
		}
		t.Skipf("not root, or a kernel without BTF: %s", source.Reason)
	}
	want := fmt.Sprintf("pipe:%d:%d", st.Dev, st.Ino)
	found := slices.ContainsFunc(got.Edges, func(e Edge) bool {
		b, ok := e.B.Get()
		return ok && e.A.Resource == want && e.A.FD == int32(w.Fd()) && b.FD == int32(r.Fd()) && int(b.Process.PID) == os.Getpid()
	})
	if !found || got.InspectedFDs < 5 || got.InspectedProcesses < 1 {
		t.Errorf("%s is not among %d edges of %d descriptors", want, len(got.Edges), got.InspectedFDs)
	}
	v.Close()
	s.Close()
	l.Close()
	check()
}
