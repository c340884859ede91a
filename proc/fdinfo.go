package proc

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// fdInfo is what is used of /proc/PID/fdinfo/FD, proc_pid_fdinfo(5).
type fdInfo struct {
	position Opt[uint64]
	flags    Opt[uint64] // of open(2), with O_CLOEXEC of the descriptor
	inode    Opt[uint64] // Linux 5.14
	event    Opt[uint64] // eventfd-id, Linux 5.2
	pid      Opt[int32]  // of a pidfd in the reader's namespace; -1 when it has ended
}

// parseFDInfo reads the lines it knows. The first of a key counts.
func parseFDInfo(b []byte) fdInfo {
	var info fdInfo
	for line := range bytes.Lines(b) {
		key, value, ok := bytes.Cut(line, []byte{':'})
		if !ok {
			continue
		}
		value = bytes.TrimSpace(value)
		switch string(key) {
		case "pos":
			first(&info.position, value)
		case "flags":
			if v, ok := wholeOctal(value); ok && !info.flags.Known() {
				info.flags = Some(v)
			}
		case "ino":
			first(&info.inode, value)
		case "eventfd-id":
			first(&info.event, value)
		case "Pid":
			if info.pid.Known() {
				break
			}
			if v, ok := wholeUint(value); ok && v <= 1<<31-1 {
				info.pid = Some(int32(v))
			} else if string(value) == "-1" {
				info.pid = Some[int32](-1)
			}
		}
	}
	return info
}

func first(o *Opt[uint64], value []byte) {
	if v, ok := wholeUint(value); ok && !o.Known() {
		*o = Some(v)
	}
}

func wholeOctal(b []byte) (uint64, bool) {
	if len(b) == 0 || len(b) > 21 {
		return 0, false
	}
	v := uint64(0)
	for _, c := range b {
		if c -= '0'; c > 7 {
			return 0, false
		}
		v = v<<3 | uint64(c)
	}
	return v, true
}

// Flags of open(2) on x86-64, include/uapi/asm-generic/fcntl.h. Bits of more than
// one come before those they contain.
var openFlags = []struct {
	bits uint64
	name string
}{
	{0o20200000, "O_TMPFILE"}, {0o4010000, "O_SYNC"},
	{0o100, "O_CREAT"}, {0o200, "O_EXCL"}, {0o400, "O_NOCTTY"}, {0o1000, "O_TRUNC"},
	{0o2000, "O_APPEND"}, {0o4000, "O_NONBLOCK"}, {0o10000, "O_DSYNC"}, {0o20000, "O_ASYNC"},
	{0o40000, "O_DIRECT"}, {0o100000, "O_LARGEFILE"}, {0o200000, "O_DIRECTORY"},
	{0o400000, "O_NOFOLLOW"}, {0o1000000, "O_NOATIME"}, {0o2000000, "O_CLOEXEC"},
	{flagPath, "O_PATH"},
}

const (
	flagPath = 0o10000000
	flagMode = 0o3
)

// Access of a descriptor.
const (
	AccessRead      = "read"
	AccessWrite     = "write"
	AccessReadWrite = "read/write"
	AccessNone      = "none" // O_PATH
)

// accessOf tells what a descriptor opened with flags may do.
func accessOf(flags uint64) string {
	switch {
	case flags&flagPath != 0, flags&flagMode == 3: // 3: ioctl only, open(2)
		return AccessNone
	case flags&flagMode == 0:
		return AccessRead
	case flags&flagMode == 1:
		return AccessWrite
	}
	return AccessReadWrite
}

// flagNames lists flags by the names of open(2): the access mode first (none with
// O_PATH), then by bit, O_LARGEFILE as the kernel sets it by itself, and what has
// no name as one hex number.
func flagNames(flags uint64) []string {
	names := []string{}
	if flags&flagPath == 0 {
		names = append(names, [...]string{"O_RDONLY", "O_WRONLY", "O_RDWR", "O_ACCMODE"}[flags&flagMode])
	}
	flags &^= flagMode
	for _, f := range openFlags {
		if flags&f.bits == f.bits {
			names = append(names, f.name)
			flags &^= f.bits
		}
	}
	if flags != 0 {
		names = append(names, fmt.Sprintf("0x%x", flags))
	}
	return names
}

// maxWatched is how many of the descriptors that an epoll watches are named.
const maxWatched = 8

// watchedNote says what an epoll watches: "tfd: 5 events: 19 …" for each, ep_show_fdinfo
// in fs/eventpoll.c. It is "" for one that watches nothing.
func watchedNote(info []byte, cut bool) string {
	var fds []int32
	for line := range bytes.Lines(info) {
		rest, ok := bytes.CutPrefix(line, []byte("tfd:"))
		if !ok || line[len(line)-1] != '\n' {
			continue
		}
		if f := bytes.Fields(rest); len(f) > 0 {
			if fd, ok := wholeUint(f[0]); ok && fd <= 1<<31-1 {
				fds = append(fds, int32(fd))
			}
		}
	}
	slices.Sort(fds)
	fds = slices.Compact(fds)
	if len(fds) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("watches fd")
	for i, fd := range fds[:min(len(fds), maxWatched)] {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %d", fd)
	}
	switch more := len(fds) - maxWatched; {
	case cut:
		b.WriteString(" and more")
	case more > 0:
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}
