package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// open makes a descriptor with a bare system call; a kernel or a sandbox that does
// not allow it is a reason, not a failure.
func rawFD(number, a, b, c uintptr) (int, error) {
	fd, _, e := unix.Syscall(number, a, b, c)
	if e != 0 {
		return -1, e
	}
	return int(fd), nil
}

func TestKindsLive(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "with  blanks")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(path string, flags int) func() (int, error) {
		return func() (int, error) { return unix.Open(path, flags|unix.O_CLOEXEC, 0o600) }
	}
	pos := func(v uint64) Opt[uint64] { return Some(v) }
	var none Opt[uint64]
	var uring [120]byte // struct io_uring_params
	for _, c := range []struct {
		name     string
		open     func() (int, error)
		kind     string
		target   string // prefix
		access   string
		flags    []string // all but O_LARGEFILE
		position Opt[uint64]
		deleted  bool
		optional bool // the kernel may not have it, or not allow it
	}{
		{"file", func() (int, error) {
			fd, err := unix.Open(path, unix.O_RDWR|unix.O_APPEND, 0)
			if err == nil {
				_, err = unix.Seek(fd, 7, unix.SEEK_SET)
			}
			return fd, err
		}, FDFile, path, AccessReadWrite, []string{"O_RDWR", "O_APPEND"}, pos(7), false, false},
		{"deleted file", func() (int, error) {
			gone := filepath.Join(dir, "gone")
			fd, err := unix.Open(gone, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
			os.Remove(gone)
			return fd, err
		}, FDFile, filepath.Join(dir, "gone (deleted)"), AccessWrite, []string{"O_WRONLY", "O_CLOEXEC"}, pos(0), true, false},
		{"file named deleted", func() (int, error) {
			return unix.Open(filepath.Join(dir, "a (deleted)"), unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
		}, FDFile, filepath.Join(dir, "a (deleted)"), AccessWrite, []string{"O_WRONLY", "O_CLOEXEC"}, pos(0), false, false},
		{"unnamed file", open(dir, unix.O_RDWR|unix.O_TMPFILE), FDFile, dir, AccessReadWrite, []string{"O_RDWR", "O_TMPFILE", "O_CLOEXEC"}, pos(0), true, true},
		{"path only", open(path, unix.O_PATH), FDFile, path, AccessNone, []string{"O_CLOEXEC", "O_PATH"}, none, false, false},
		{"directory", open(dir, unix.O_DIRECTORY), FDDirectory, dir, AccessRead, []string{"O_RDONLY", "O_DIRECTORY", "O_CLOEXEC"}, pos(0), false, false},
		{"device", open("/dev/null", unix.O_WRONLY|unix.O_NONBLOCK), FDDevice, "/dev/null", AccessWrite, []string{"O_WRONLY", "O_NONBLOCK", "O_CLOEXEC"}, none, false, false},
		{"fifo", open(filepath.Join(dir, "fifo"), unix.O_RDWR), FDFIFO, filepath.Join(dir, "fifo"), AccessReadWrite, []string{"O_RDWR", "O_CLOEXEC"}, none, false, false},
		{"pipe", func() (int, error) {
			var p [2]int
			err := unix.Pipe2(p[:], unix.O_NONBLOCK|unix.O_DIRECT)
			unix.Close(p[0])
			return p[1], err
		}, FDPipe, "pipe:[", AccessWrite, []string{"O_WRONLY", "O_NONBLOCK", "O_DIRECT"}, none, false, false},
		{"socket", func() (int, error) { return unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0) }, FDSocket, "socket:[", AccessReadWrite, []string{"O_RDWR"}, none, false, false},
		{"eventfd", func() (int, error) { return unix.Eventfd(3, unix.EFD_NONBLOCK) }, FDEventfd, "anon_inode:[eventfd]", AccessReadWrite, []string{"O_RDWR", "O_NONBLOCK"}, none, false, false},
		{"epoll", func() (int, error) { return unix.EpollCreate1(0) }, FDEpoll, "anon_inode:[eventpoll]", AccessReadWrite, []string{"O_RDWR"}, none, false, false},
		{"timerfd", func() (int, error) { return unix.TimerfdCreate(unix.CLOCK_MONOTONIC, 0) }, FDTimerfd, "anon_inode:[timerfd]", AccessReadWrite, []string{"O_RDWR"}, none, false, false},
		{"signalfd", func() (int, error) { return unix.Signalfd(-1, &unix.Sigset_t{}, 0) }, FDSignalfd, "anon_inode:[signalfd]", AccessReadWrite, []string{"O_RDWR"}, none, false, false},
		{"inotify", func() (int, error) { return unix.InotifyInit1(0) }, FDInotify, "anon_inode:inotify", AccessRead, []string{"O_RDONLY"}, none, false, false},
		{"fanotify", func() (int, error) { return unix.FanotifyInit(0, 0) }, FDFanotify, "anon_inode:[fanotify]", AccessReadWrite, []string{"O_RDWR"}, none, false, true},
		{"pidfd", func() (int, error) { return unix.PidfdOpen(os.Getpid(), 0) }, FDPidfd, "", AccessReadWrite, []string{"O_RDWR", "O_CLOEXEC"}, none, false, true},
		{"memfd", func() (int, error) { return unix.MemfdCreate("a (deleted) b", 0) }, FDMemfd, "/memfd:a (deleted) b (deleted)", AccessReadWrite, []string{"O_RDWR"}, pos(0), true, false},
		{"io_uring", func() (int, error) { return rawFD(unix.SYS_IO_URING_SETUP, 2, uintptr(unsafe.Pointer(&uring[0])), 0) }, FDIOUring, "anon_inode:[io_uring]", AccessReadWrite, []string{"O_RDWR", "O_CLOEXEC"}, none, false, true},
		{"userfaultfd", func() (int, error) { return rawFD(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0) }, FDUserfaultfd, "anon_inode:[userfaultfd]", "", nil, none, false, true},
		{"bpf map", func() (int, error) {
			attr := [5]uint32{2, 4, 4, 1, 0} // BPF_MAP_TYPE_ARRAY, key, value, entries
			return rawFD(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		}, FDBPF, "anon_inode:bpf-map", AccessReadWrite, []string{"O_RDWR", "O_CLOEXEC"}, none, false, true},
		{"perf event", func() (int, error) {
			return unix.PerfEventOpen(&unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{}))}, 0, -1, -1, 0)
		}, FDOther, "anon_inode:[perf_event]", AccessReadWrite, []string{"O_RDWR"}, none, false, true},
		{"namespace", open("/proc/self/ns/net", 0), FDFile, "net:[", AccessRead, []string{"O_RDONLY", "O_CLOEXEC"}, pos(0), false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			fd, err := c.open()
			if err != nil && c.optional {
				t.Skipf("not possible here: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			got, _ := readFDs(t, int32(os.Getpid()))
			d, ok := got[int32(fd)]
			if !ok {
				t.Fatal("not listed")
			}
			if d.Kind != c.kind || !strings.HasPrefix(d.Target, c.target) {
				t.Errorf("got %s, target %q", d.Kind, d.Target)
			}
			if c.access != "" && d.Access != Some(c.access) {
				t.Errorf("access %v, want %s", d.Access, c.access)
			}
			flags := slices.DeleteFunc(slices.Clone(d.Flags), func(s string) bool { return s == "O_LARGEFILE" })
			if c.flags != nil && !slices.Equal(flags, c.flags) {
				t.Errorf("flags %v, want %v", flags, c.flags)
			}
			if d.Position != c.position || d.Deleted != c.deleted {
				t.Errorf("position %v, deleted %v; want %v, %v", d.Position, d.Deleted, c.position, c.deleted)
			}
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil || d.Inode != Some(st.Ino) {
				t.Errorf("inode %v, want %d", d.Inode, st.Ino)
			}
			if (d.Kind == FDSocket) != d.Protocol.Known() || d.TIDs != nil {
				t.Errorf("protocol %v, tids %v", d.Protocol, d.TIDs)
			}
			if c.kind == FDPidfd && d.Note != Some(fmt.Sprintf("refers to process %d", os.Getpid())) {
				t.Errorf("note %v", d.Note)
			}
		})
	}
}

// Sockets of every family that this kernel makes have a name.
func TestProtocolsLive(t *testing.T) {
	for _, c := range []struct {
		family, kind, protocol int
		want                   string
	}{
		{unix.AF_INET, unix.SOCK_STREAM, 0, "TCP"}, {unix.AF_INET6, unix.SOCK_STREAM, 0, "TCP6"},
		{unix.AF_INET, unix.SOCK_DGRAM, 0, "UDP"}, {unix.AF_INET6, unix.SOCK_DGRAM, 0, "UDP6"},
		{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE, "UDPLITE"},
		{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP, "RAW"}, {unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6, "RAW6"},
		{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP, "ICMP"},
		{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, "MPTCP"},
		{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP, "SCTP"},
		{unix.AF_UNIX, unix.SOCK_STREAM, 0, ProtocolUnixStream}, {unix.AF_UNIX, unix.SOCK_DGRAM, 0, ProtocolUnixDgram}, {unix.AF_UNIX, unix.SOCK_SEQPACKET, 0, ProtocolUnixSeqpacket},
		{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT, ProtocolNetlink},
		{unix.AF_PACKET, unix.SOCK_DGRAM, 0x0300, ProtocolPacket},
		{unix.AF_VSOCK, unix.SOCK_STREAM, 0, ProtocolVsock},
		{unix.AF_XDP, unix.SOCK_RAW, 0, "XDP"}, {unix.AF_ALG, unix.SOCK_SEQPACKET, 0, "ALG"}, {unix.AF_TIPC, unix.SOCK_SEQPACKET, 0, "TIPC"},
	} {
		t.Run(c.want, func(t *testing.T) {
			fd, err := unix.Socket(c.family, c.kind|unix.SOCK_CLOEXEC, c.protocol)
			if err != nil {
				t.Skipf("this kernel or user cannot make one: %v", err)
			}
			defer unix.Close(fd)
			if c.family == unix.AF_NETLINK {
				if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
					t.Fatal(err)
				}
			}
			got, warnings := readFDs(t, int32(os.Getpid()))
			d := got[int32(fd)]
			if d.Protocol != Some(c.want) {
				t.Errorf("got %v, want %s; warnings %q", d.Protocol, c.want, warnings)
			}
			switch c.want {
			case ProtocolNetlink:
				if !strings.HasPrefix(d.Note.Or(""), "NETLINK_KOBJECT_UEVENT, port id ") {
					t.Errorf("note %v", d.Note)
				}
			case ProtocolPacket:
				if d.Note != Some("Ethernet protocol 0x0003") {
					t.Errorf("note %v", d.Note)
				}
			case "RAW":
				if d.Local != Some("0.0.0.0:1") {
					t.Errorf("local %v", d.Local)
				}
			}
		})
	}
}
