package proc

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// Kinds of descriptors.
const (
	FDFile        = "file"
	FDDirectory   = "directory"
	FDDevice      = "device" // character or block
	FDPipe        = "pipe"
	FDFIFO        = "fifo" // with a name in a file system
	FDSocket      = "socket"
	FDEventfd     = "eventfd"
	FDEpoll       = "epoll"
	FDTimerfd     = "timerfd"
	FDSignalfd    = "signalfd"
	FDInotify     = "inotify"
	FDFanotify    = "fanotify"
	FDPidfd       = "pidfd"
	FDMemfd       = "memfd"
	FDBPF         = "bpf"
	FDIOUring     = "io_uring"
	FDUserfaultfd = "userfaultfd"
	FDOther       = "other"
)

// linkClass is what the text of a descriptor's link alone tells.
type linkClass uint8

const (
	linkOther   linkClass = iota // anonymous, a namespace, a device without a path
	linkPath                     // begins with "/": a file, directory, device or FIFO
	linkPipe                     // pipe:[inode]
	linkSocket                   // socket:[inode]
	linkEventfd                  // all of them share one inode
	linkMemfd                    // /memfd:name (deleted)
)

var (
	pipePrefix   = []byte("pipe:[")
	socketPrefix = []byte("socket:[")
	memfdPrefix  = []byte("/memfd:")
	anonPrefix   = []byte("anon_inode:")
	pidfdPrefix  = []byte("pidfd:[")
	deletedTail  = []byte(" (deleted)")
)

// classifyLink reads a link text: the class, and the inode that the text of a
// pipe or socket names. The kernel writes these texts (d_dname in fs/pipe.c,
// net/socket.c, fs/anon_inodes.c); those of files begin with "/" or "(", so no
// file name can pass for one. Only "/memfd:" could be a deleted file of that name
// in a root directory.
func classifyLink(b []byte) (linkClass, uint64) {
	if len(b) == 0 {
		return linkOther, 0
	}
	switch b[0] {
	case 's':
		if v, ok := bracketed(b, socketPrefix); ok {
			return linkSocket, v
		}
	case 'p':
		if v, ok := bracketed(b, pipePrefix); ok {
			return linkPipe, v
		}
	case '/':
		if bytes.HasPrefix(b, memfdPrefix) && bytes.HasSuffix(b, deletedTail) {
			return linkMemfd, 0
		}
		return linkPath, 0
	case 'a':
		if string(b) == "anon_inode:[eventfd]" {
			return linkEventfd, 0
		}
	}
	return linkOther, 0
}

// bracketed reads the number between prefix and a last "]".
func bracketed(b, prefix []byte) (uint64, bool) {
	if !bytes.HasPrefix(b, prefix) {
		return 0, false
	}
	v, next, ok := parseUint(b, len(prefix))
	if !ok || next != len(b)-1 || b[next] != ']' {
		return 0, false
	}
	return v, true
}

// anonKinds are the names that anon_inode_getfd is called with in the kernel.
var anonKinds = map[string]string{
	"[eventfd]": FDEventfd, "[eventpoll]": FDEpoll, "[timerfd]": FDTimerfd, "[signalfd]": FDSignalfd,
	"inotify": FDInotify, "[inotify]": FDInotify, "[fanotify]": FDFanotify, "[pidfd]": FDPidfd,
	"[io_uring]": FDIOUring, "[userfaultfd]": FDUserfaultfd,
	"btf": FDBPF,
}

// kindOf tells the kind from link text and mode; mode is 0 when stat was not
// possible.
func kindOf(link []byte, class linkClass, mode uint32) string {
	switch class {
	case linkPipe:
		return FDPipe
	case linkSocket:
		return FDSocket
	case linkEventfd:
		return FDEventfd
	case linkMemfd:
		return FDMemfd
	}
	if name, ok := bytes.CutPrefix(link, anonPrefix); ok {
		if kind, ok := anonKinds[string(name)]; ok {
			return kind
		}
		if bytes.HasPrefix(name, []byte("bpf")) { // bpf-map bpf-prog bpf_link bpf_iter bpf-token
			return FDBPF
		}
		return FDOther
	}
	if bytes.HasPrefix(link, pidfdPrefix) { // pidfs, Linux 6.9
		return FDPidfd
	}
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return FDDirectory
	case unix.S_IFCHR, unix.S_IFBLK:
		return FDDevice
	case unix.S_IFIFO:
		return FDFIFO
	case unix.S_IFREG:
		return FDFile
	}
	return FDOther
}

// hasPosition tells whether a file position means something: where lseek works.
func hasPosition(kind string, mode uint32) bool {
	switch kind {
	case FDFile, FDDirectory, FDMemfd:
		return true
	case FDDevice:
		return mode&unix.S_IFMT == unix.S_IFBLK
	}
	return false
}
