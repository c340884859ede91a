package watch

import (
	"errors"
	"os"
	"testing"

	"procinsh/proc"
)

// fakeReader are tables that count.
type fakeReader struct{ closed int }

func (f *fakeReader) ReadTasks() ([]proc.Task, error) { return nil, nil }
func (f *fakeReader) Close() error                    { f.closed++; return nil }

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
