package proc

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hold makes whoever reads the command line of pid wait until let is called: the
// file is a FIFO that nobody writes to.
func hold(t *testing.T, dir string, pid int) (let func()) {
	t.Helper()
	path := filepath.Join(dir, strconv.Itoa(pid), "cmdline")
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return func() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0) // waits for the reader
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		writeFile(t, path, "late\x00")
	}
}

// leave takes the scan away as soon as it is in a reading that lasts.
func leave(t *testing.T, s *Scanner) {
	t.Helper()
	var last uint64
	for range 1000 {
		if n := s.Turn(); n != 0 && n == last && s.Leave(n) {
			return
		} else {
			last = n
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("no reading lasts")
}

func TestScanLeavesAHeldReading(t *testing.T) {
	dir := family(t, [3]int{10, 0, 100}, [3]int{11, 0, 100}, [3]int{12, 0, 100}, [3]int{13, 0, 100})
	for _, pid := range []int{10, 12, 13} {
		writeFile(t, filepath.Join(dir, strconv.Itoa(pid), "cmdline"), "before\x00")
	}
	let11, let12 := hold(t, dir, 11), hold(t, dir, 12)
	s, at := scannerOf(t, openTree(t, dir))
	ended := make(chan error, 2)
	go func() {
		_, err := s.Scan(Want{})
		ended <- err
	}()
	leave(t, s)
	go func() {
		_, err := s.Resume()
		ended <- err
	}()
	leave(t, s)
	rows, err := s.Resume()
	if err != nil {
		t.Fatal(err)
	}
	check := func(rows []Row, want ...string) {
		t.Helper()
		if len(rows) != len(want) {
			t.Fatalf("%d rows", len(rows))
		}
		for i := range rows {
			got := "unread"
			if c := rows[i].Details.CommandLine; len(c) > 0 {
				got = c[0]
			}
			if rows[i].ID.PID != int32(10+i) || got != want[i] {
				t.Errorf("row %d: PID %d, command line %q, want %q", i, rows[i].ID.PID, got, want[i])
			}
		}
	}
	check(rows, "before", "unread", "unread", "before")

	// Held ones are not tried again, and do not keep the others from being read.
	*at += detailsAge
	check(scan(t, s, Want{}), "before", "unread", "unread", "before")
	let11()
	if err := <-ended; !errors.Is(err, ErrLeft) {
		t.Errorf("the scan that was left: %v", err)
	}
	*at += detailsAge
	check(scan(t, s, Want{}), "before", "late", "unread", "before")
	let12()
	if err := <-ended; !errors.Is(err, ErrLeft) {
		t.Errorf("the scan that was left: %v", err)
	}
	*at += detailsAge
	check(scan(t, s, Want{}), "before", "late", "late", "before")
	if s.Turn() != 0 || len(s.turn.held) != 0 {
		t.Errorf("turn %d, held %v", s.Turn(), s.turn.held)
	}
}

func TestHeldReadingsAreBounded(t *testing.T) {
	var s Scanner
	s.turn = new(turn)
	take := func(pid int32, uid uint32) bool {
		n, ok := s.turn.enter(&Row{ID: ID{pid, 1}, UID: uid})
		if ok && !s.Leave(n) {
			t.Fatalf("reading %d is not under way", n)
		}
		return ok
	}
	pid := int32(0)
	for uid := range uint32(maxHeldReadings / maxHeldReadingsOfUser) {
		for range maxHeldReadingsOfUser {
			if pid++; !take(pid, uid) {
				t.Fatalf("process %d of user %d is not read", pid, uid)
			}
			if take(pid, uid) {
				t.Fatalf("process %d is read again while it is held", pid)
			}
		}
		if take(9999, uid) {
			t.Fatalf("user %d has more than %d", uid, maxHeldReadingsOfUser)
		}
	}
	if take(9999, 9999) {
		t.Errorf("more than %d", maxHeldReadings)
	}
	if s.turn.leave(1) { // it comes back
		t.Error("a reading that was left has its scan back")
	}
	if !take(9999, 9999) {
		t.Error("there is no place after one came back")
	}
}
