package bpf

import (
	"os"
	"strings"
	"testing"
)

func TestFailuresInARow(t *testing.T) {
	var f failures
	for i := range 3 * maxFailures {
		var err error
		if i%maxFailures != 0 {
			err = os.ErrInvalid
		}
		if f.tooMany(err) {
			t.Fatalf("%d failures, with a success among any %d, are too many", i, maxFailures)
		}
	}
}

// A sensor whose tables can no longer be read is detached, says so, and what it had
// lost stays counted; the other goes on.
func TestSensorThatKeepsFailingIsDetached(t *testing.T) {
	needRoot(t)
	before := len(bpfObjects(t, os.Getpid()))
	s := Open(Options{})
	defer s.Close()
	var w Window
	for range 3 {
		if err := s.Drain(&w); err != nil {
			t.Fatal(err)
		}
	}
	was := s.Status()
	if was.CPU.State != StateObserving || was.Files.State != StateObserving {
		t.Fatalf("before: %+v", was)
	}
	broken := &table{name: "gone", descriptor: descriptor{-1}, spec: s.io.spills[0].table.spec}
	s.io.spills = [2]batch{{table: broken}, {table: broken}}
	for i := range maxFailures {
		if st := s.Status(); st.Files.State != StateObserving || st.IPC.State != StateObserving {
			t.Fatalf("after %d failures: %+v", i, st)
		}
		if s.Drain(&w) == nil {
			t.Fatal("a table that is gone was read")
		}
	}
	st := s.Status()
	for _, x := range []SensorStatus{st.Files, st.IPC} {
		if x.State != StateError || !strings.Contains(x.Reason, "detached after 20 readings") || !strings.Contains(x.Reason, "gone") {
			t.Errorf("the status is %+v", x)
		}
	}
	if st.FilesLost < was.FilesLost || st.Lost < was.Lost {
		t.Errorf("lost before %d and %d, after %d and %d", was.Lost, was.FilesLost, st.Lost, st.FilesLost)
	}
	if err := s.Drain(&w); err != nil || len(w.CPU) == 0 || s.Status().CPU.State != StateObserving {
		t.Errorf("the other sensor: %v, %d rows, %+v", err, len(w.CPU), s.Status().CPU)
	}

	s.cpu.spills = [2]batch{{table: broken}, {table: broken}}
	for range maxFailures {
		if s.Drain(&w) == nil {
			t.Fatal("a table that is gone was read")
		}
	}
	if st := s.Status(); st.CPU.State != StateError || !strings.Contains(st.CPU.Reason, "detached") {
		t.Errorf("the status is %+v", st.CPU)
	}
	if n := len(bpfObjects(t, os.Getpid())); n != before {
		t.Errorf("%d BPF objects are left, before there were %d", n, before)
	}
	if err := s.Drain(&w); err != nil || len(w.CPU)+len(w.IPC)+len(w.Files) != 0 {
		t.Errorf("without a sensor: %v, %+v", err, w)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
