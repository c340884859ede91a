package proc

import (
	"bytes"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestKindOf(t *testing.T) {
	for _, c := range []struct {
		link  string
		mode  uint32
		class linkClass
		inode uint64
		kind  string
	}{
		{"/etc/passwd", unix.S_IFREG, linkPath, 0, FDFile},
		{"/etc", unix.S_IFDIR, linkPath, 0, FDDirectory},
		{"/dev/null", unix.S_IFCHR, linkPath, 0, FDDevice},
		{"/dev/vda", unix.S_IFBLK, linkPath, 0, FDDevice},
		{"/run/fifo", unix.S_IFIFO, linkPath, 0, FDFIFO},
		{"/run/fifo (deleted)", unix.S_IFIFO, linkPath, 0, FDFIFO},
		{"/run/s", unix.S_IFSOCK, linkPath, 0, FDOther}, // O_PATH on the name of a socket
		{"/memfd:a b (deleted)", unix.S_IFREG, linkMemfd, 0, FDMemfd},
		{"/memfd: (deleted)", unix.S_IFREG, linkMemfd, 0, FDMemfd},
		{"/memfd:a", unix.S_IFREG, linkPath, 0, FDFile}, // a file of that name
		{"/x/memfd:a (deleted)", unix.S_IFREG, linkPath, 0, FDFile},
		{"/secretmem (deleted)", unix.S_IFREG, linkPath, 0, FDFile},
		{"(unreachable)/a", unix.S_IFREG, linkOther, 0, FDFile},
		{"/gone", 0, linkPath, 0, FDOther},
		{"pipe:[12]", unix.S_IFIFO, linkPipe, 12, FDPipe},
		{"pipe:[12]", 0, linkPipe, 12, FDPipe},
		{"/pipe:[12]", unix.S_IFREG, linkPath, 0, FDFile},
		{"pipe:[12", unix.S_IFIFO, linkOther, 0, FDFIFO},
		{"pipe:[]", 0, linkOther, 0, FDOther},
		{"pipe:[12]x", 0, linkOther, 0, FDOther},
		{"socket:[18446744073709551615]", unix.S_IFSOCK, linkSocket, 1<<64 - 1, FDSocket},
		{"socket:[18446744073709551616]", unix.S_IFSOCK, linkOther, 0, FDOther},
		{"socket:[-1]", 0, linkOther, 0, FDOther},
		{"anon_inode:[eventfd]", 0o600, linkEventfd, 0, FDEventfd},
		{"anon_inode:[eventpoll]", 0o600, linkOther, 0, FDEpoll},
		{"anon_inode:[timerfd]", 0o600, linkOther, 0, FDTimerfd},
		{"anon_inode:[signalfd]", 0o600, linkOther, 0, FDSignalfd},
		{"anon_inode:inotify", 0o600, linkOther, 0, FDInotify},
		{"anon_inode:[fanotify]", 0o600, linkOther, 0, FDFanotify},
		{"anon_inode:[pidfd]", 0o700, linkOther, 0, FDPidfd},
		{"pidfd:[77]", unix.S_IFREG, linkOther, 0, FDPidfd},
		{"anon_inode:bpf-map", 0o600, linkOther, 0, FDBPF},
		{"anon_inode:bpf-prog", 0o600, linkOther, 0, FDBPF},
		{"anon_inode:bpf_link", 0o600, linkOther, 0, FDBPF},
		{"anon_inode:btf", 0o600, linkOther, 0, FDBPF},
		{"anon_inode:[io_uring]", 0o600, linkOther, 0, FDIOUring},
		{"anon_inode:[userfaultfd]", 0o600, linkOther, 0, FDUserfaultfd},
		{"anon_inode:[perf_event]", 0o600, linkOther, 0, FDOther},
		{"net:[4026531840]", unix.S_IFREG, linkOther, 0, FDFile},
		{"", 0, linkOther, 0, FDOther},
	} {
		class, inode := classifyLink([]byte(c.link))
		if class != c.class || inode != c.inode {
			t.Errorf("%q: got class %d, inode %d; want %d, %d", c.link, class, inode, c.class, c.inode)
		}
		if kind := kindOf([]byte(c.link), class, c.mode); kind != c.kind {
			t.Errorf("%q: got %s, want %s", c.link, kind, c.kind)
		}
	}
}

func TestHasPosition(t *testing.T) {
	for _, c := range []struct {
		kind string
		mode uint32
		want bool
	}{
		{FDFile, unix.S_IFREG, true}, {FDDirectory, unix.S_IFDIR, true}, {FDMemfd, unix.S_IFREG, true},
		{FDDevice, unix.S_IFBLK, true}, {FDDevice, unix.S_IFCHR, false},
		{FDPipe, unix.S_IFIFO, false}, {FDFIFO, unix.S_IFIFO, false}, {FDSocket, unix.S_IFSOCK, false}, {FDEventfd, 0, false}, {FDOther, 0, false},
	} {
		if got := hasPosition(c.kind, c.mode); got != c.want {
			t.Errorf("%s, mode %o: got %v", c.kind, c.mode, got)
		}
	}
}

var allKinds = []string{FDFile, FDDirectory, FDDevice, FDPipe, FDFIFO, FDSocket, FDEventfd, FDEpoll, FDTimerfd, FDSignalfd, FDInotify, FDFanotify, FDPidfd, FDMemfd, FDBPF, FDIOUring, FDUserfaultfd, FDOther}

func FuzzLink(f *testing.F) {
	for _, s := range []string{"/etc/passwd", "pipe:[1]", "socket:[99999999999999999999]", "/memfd:x (deleted)", "anon_inode:bpf-prog", "anon_inode:[eventfd]", "pidfd:[1]"} {
		f.Add([]byte(s), uint32(unix.S_IFREG))
	}
	f.Fuzz(func(t *testing.T, link []byte, mode uint32) {
		class, inode := classifyLink(link)
		if inode != 0 && class != linkPipe && class != linkSocket {
			t.Errorf("%q: class %d has inode %d", link, class, inode)
		}
		if (class == linkPath || class == linkMemfd) != bytes.HasPrefix(link, []byte("/")) {
			t.Errorf("%q: class %d", link, class)
		}
		if kind := kindOf(link, class, mode); !slices.Contains(allKinds, kind) {
			t.Errorf("%q: kind %q", link, kind)
		}
	})
}
