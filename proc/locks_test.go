package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Lines of Linux 6.18, copied, and what older and stranger ones look like.
const lockLines = `1: POSIX  ADVISORY  WRITE 10750 fe:00:3385200 0 EOF
2: FLOCK  ADVISORY  WRITE 10539 fe:00:3385117 0 EOF
2: -> FLOCK  ADVISORY  WRITE 10605 fe:00:3385117 0 EOF
2:    -> FLOCK  ADVISORY  READ 10606 fe:00:3385117 0 EOF
3: OFDLCK ADVISORY  READ -1 08:02:77 0 0
3: -> POSIX  ADVISORY  WRITE 12 08:02:77 0 0
4: LEASE  ACTIVE    READ 5 103:05:9 0 EOF
`

func TestParseLocks(t *testing.T) {
	device := func(ma, mi uint32) uint64 { return unix.Mkdev(ma, mi) }
	want := []fileLock{
		{1, false, "POSIX", "write", 10750, device(0xfe, 0), 3385200},
		{2, false, "flock", "write", 10539, device(0xfe, 0), 3385117},
		{2, true, "flock", "write", 10605, device(0xfe, 0), 3385117},
		{2, true, "flock", "read", 10606, device(0xfe, 0), 3385117},
		{3, false, "OFD", "read", -1, device(8, 2), 77},
		{3, true, "POSIX", "write", 12, device(8, 2), 77},
		{4, false, "LEASE", "read", 5, device(0x103, 5), 9},
	}
	got := parseLocks([]byte(lockLines))
	if len(got) != len(want) {
		t.Fatalf("got %d locks, want %d: %+v", len(got), len(want), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("lock %d: got %+v, want %+v", i, got[i], want[i])
		}
	}
	for _, line := range []string{
		"", "\n", "1:", "1: ->", "x: FLOCK ADVISORY WRITE 1 fe:00:1 0 EOF", "1 FLOCK ADVISORY WRITE 1 fe:00:1 0 EOF",
		"1: FLOCK ADVISORY WRITE 1", "1: POSIX ADVISORY WRITE 1 <none>:0 0 EOF", "1: POSIX ADVISORY WRITE x fe:00:1 0 EOF",
		"1: POSIX ADVISORY WRITE 4294967296 fe:00:1 0 EOF", "1: POSIX ADVISORY WRITE 1 fe:1 0 EOF", "1: POSIX ADVISORY WRITE 1 fe:00:-1 0 EOF",
	} {
		if got := parseLocks([]byte(line)); got != nil {
			t.Errorf("%q: got %+v", line, got)
		}
	}
}

func TestLockNote(t *testing.T) {
	locks := parseLocks([]byte(lockLines))
	for i, want := range []string{
		"holds a lock of it (POSIX, write)",
		"holds a lock of it (flock, write) that process 10605 and 1 more wait for",
		"waits for a lock of it (flock, write), taken by process 10539",
		"waits for a lock of it (flock, read), taken by process 10539",
		"holds a lock of it (OFD, read) that process 12 waits for",
		"waits for a lock of it (POSIX, write), taken through a descriptor",
		"holds a lock of it (LEASE, read)",
	} {
		if got := lockNote(locks[i], locks); got != want {
			t.Errorf("lock %d: got %q, want %q", i, got, want)
		}
	}
}

func FuzzParseLocks(f *testing.F) {
	f.Add([]byte(lockLines))
	f.Fuzz(func(t *testing.T, b []byte) {
		locks := parseLocks(b)
		if len(locks) > 1+strings.Count(string(b), "\n") {
			t.Fatalf("%d locks of %q", len(locks), b)
		}
		for _, l := range locks {
			if l.kind == "" || l.access == "" {
				t.Fatalf("%+v of %q", l, b)
			}
			if note := lockNote(l, locks); !strings.Contains(note, "a lock of it (") {
				t.Fatalf("%q of %+v", note, l)
			}
		}
	})
}

// A file that this process locks, and waits for through another descriptor.
func TestLockNotes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locked")
	var files [2]*os.File
	for i := range files {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		files[i] = file
	}
	fds := [2]int{int(files[0].Fd()), int(files[1].Fd())}
	if err := unix.Flock(fds[0], unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- unix.Flock(fds[1], unix.LOCK_SH) }()
	holds := fmt.Sprintf("holds a lock of it (flock, write) that process %d waits for", os.Getpid())
	waits := fmt.Sprintf("waits for a lock of it (flock, read), taken by process %d", os.Getpid())
	var note string
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		got, warnings := readFDs(t, int32(os.Getpid()))
		for _, w := range warnings {
			if strings.Contains(w, "locks") {
				t.Errorf("warning %q", w)
			}
		}
		note = got[int32(fds[1])].Note.Or("")
		if strings.Contains(note, waits) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("note %q, want %q in it", note, waits)
		}
	}
	if !strings.Contains(note, holds) {
		t.Errorf("note %q, want %q in it", note, holds)
	}
	if err := unix.Flock(fds[0], unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
