package proc

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseFDInfo(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       fdInfo
	}{
		{"file", "pos:\t1234\nflags:\t02100001\nmnt_id:\t24\nino:\t77\n", fdInfo{position: Some[uint64](1234), flags: Some[uint64](0o2100001), inode: Some[uint64](77)}},
		{"before 5.14", "pos:\t0\nflags:\t00\nmnt_id:\t24\n", fdInfo{position: Some[uint64](0), flags: Some[uint64](0)}},
		{"eventfd", "pos:\t0\nflags:\t02\nmnt_id:\t17\nino:\t1040\neventfd-count:                3\neventfd-id: 9\neventfd-semaphore: 0\n",
			fdInfo{position: Some[uint64](0), flags: Some[uint64](2), inode: Some[uint64](1040), event: Some[uint64](9)}},
		{"pidfd", "pos:\t0\nflags:\t02\nPid:\t42\nNSpid:\t42\t1\n", fdInfo{position: Some[uint64](0), flags: Some[uint64](2), pid: Some[int32](42)}},
		{"pidfd of an ended process", "Pid:\t-1\n", fdInfo{pid: Some[int32](-1)}},
		{"position that is no offset", "pos:\t-1\nflags:\t00\n", fdInfo{flags: Some[uint64](0)}},
		{"no octal", "flags:\t08\n", fdInfo{}},
		{"too large", "pos:\t99999999999999999999\nflags:\t7777777777777777777777\nPid:\t4294967296\n", fdInfo{}},
		{"the first counts", "flags:\t01\nflags:\t02\nino:\t1\nino:\t2\nPid:\t3\nPid:\t4\n", fdInfo{flags: Some[uint64](1), inode: Some[uint64](1), pid: Some[int32](3)}},
		{"cut", "pos:\t12\nfla", fdInfo{position: Some[uint64](12)}},
		{"empty", "", fdInfo{}},
	} {
		if got := parseFDInfo([]byte(c.text)); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestFlagNames(t *testing.T) {
	for _, c := range []struct {
		flags  uint64
		access string
		names  []string
	}{
		{0, AccessRead, []string{"O_RDONLY"}},
		{0o100001, AccessWrite, []string{"O_WRONLY", "O_LARGEFILE"}},
		{0o2104002, AccessReadWrite, []string{"O_RDWR", "O_NONBLOCK", "O_LARGEFILE", "O_CLOEXEC"}},
		{0o3, AccessNone, []string{"O_ACCMODE"}},
		{0o10000000, AccessNone, []string{"O_PATH"}},
		{0o12600002, AccessNone, []string{"O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "O_PATH"}},
		{0o4010001, AccessWrite, []string{"O_WRONLY", "O_SYNC"}},
		{0o10001, AccessWrite, []string{"O_WRONLY", "O_DSYNC"}},
		{0o20200002, AccessReadWrite, []string{"O_RDWR", "O_TMPFILE"}},
		{0o200000, AccessRead, []string{"O_RDONLY", "O_DIRECTORY"}},
		{0o102001, AccessWrite, []string{"O_WRONLY", "O_APPEND", "O_LARGEFILE"}},
		{0o1060000, AccessRead, []string{"O_RDONLY", "O_ASYNC", "O_DIRECT", "O_NOATIME"}},
		{0o1700, AccessRead, []string{"O_RDONLY", "O_CREAT", "O_EXCL", "O_NOCTTY", "O_TRUNC"}},
		{0o400000000, AccessRead, []string{"O_RDONLY", "0x4000000"}},
		{0o4000000, AccessRead, []string{"O_RDONLY", "0x100000"}}, // __O_SYNC without O_DSYNC has no name
	} {
		if got := accessOf(c.flags); got != c.access {
			t.Errorf("0%o: got access %s, want %s", c.flags, got, c.access)
		}
		if got := flagNames(c.flags); !slices.Equal(got, c.names) {
			t.Errorf("0%o: got %v, want %v", c.flags, got, c.names)
		}
	}
}

func FuzzFDInfo(f *testing.F) {
	f.Add([]byte("pos:\t1234\nflags:\t02100001\nmnt_id:\t24\nino:\t77\n"))
	f.Add([]byte("pos:\t0\nflags:\t02\neventfd-id: 9\nPid:\t-1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		info := parseFDInfo(text)
		if pid, ok := info.pid.Get(); ok && pid < -1 {
			t.Errorf("pid %d", pid)
		}
		flags, ok := info.flags.Get()
		if !ok {
			return
		}
		if names := flagNames(flags); len(names) > len(openFlags)+2 {
			t.Errorf("0%o: %v", flags, names)
		}
		if a := accessOf(flags); directionOf(Some(a)) == dirUnknown {
			t.Errorf("0%o: access %q", flags, a)
		}
	})
}

func TestWatchedNote(t *testing.T) {
	const head = "pos:\t0\nflags:\t02\nmnt_id:\t16\nino:\t1040\n"
	line := func(fd int) string {
		return fmt.Sprintf("tfd: %8d events:       19 data:                5  pos:0 ino:2c1 sdev:f\n", fd) // Linux 6.18
	}
	many := ""
	for fd := 20; fd > 9; fd-- {
		many += line(fd)
	}
	for _, c := range []struct {
		name, text string
		cut        bool
		want       string
	}{
		{"nothing", head, false, ""},
		{"one", head + line(5), false, "watches fd 5"},
		{"sorted, once each", head + line(7) + line(5) + line(7), false, "watches fd 5, 7"},
		{"older", head + "tfd:        4 events:        1 data:                4\n", false, "watches fd 4"},
		{"many", head + many, false, "watches fd 10, 11, 12, 13, 14, 15, 16, 17 and 3 more"},
		{"cut in a line", head + line(5) + "tfd:       1", true, "watches fd 5 and more"},
		{"no number", head + "tfd: x events: 1\ntfd:\ntfd: 4294967296\n", false, ""},
	} {
		if got := watchedNote([]byte(c.text), c.cut); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func FuzzWatchedNote(f *testing.F) {
	f.Add([]byte("tfd:        5 events:       19 data:                5\ntfd: 1"), true)
	f.Fuzz(func(t *testing.T, b []byte, cut bool) {
		note := watchedNote(b, cut)
		if len(note) > 160 || note != "" && !strings.HasPrefix(note, "watches fd ") {
			t.Fatalf("%q of %q", note, b)
		}
	})
}

// An epoll of this process, as the kernel tells of it.
func TestWatches(t *testing.T) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(epoll)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	fd := int32(r.Fd())
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, int(fd), &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		t.Fatal(err)
	}
	got, _ := readFDs(t, int32(os.Getpid()))
	if want := fmt.Sprintf("watches fd %d", fd); got[int32(epoll)].Note != Some(want) {
		t.Errorf("note %v, want %q", got[int32(epoll)].Note, want)
	}
}
