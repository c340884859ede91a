package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxLocks is how many bytes of /proc/locks are read, some 16,000 locks.
const maxLocks = 1 << 20

// fileLock is a line of /proc/locks, proc_locks(5); lock_get_status in fs/locks.c.
type fileLock struct {
	id     uint64 // the number of the line: a lock and those who wait for it have the same
	waits  bool   // it is waited for, not held
	kind   string // flock, POSIX, OFD, or what the kernel calls it
	access string // read, write, or what the kernel calls it
	pid    int32  // -1 of an open file description: nobody in particular
	device uint64
	inode  uint64
}

// parseLocks leaves out lines that it does not know, and locks of no file.
func parseLocks(b []byte) []fileLock {
	var locks []fileLock
	for line := range bytes.Lines(b) {
		if l, ok := parseLock(bytes.Fields(line)); ok {
			locks = append(locks, l)
		}
	}
	return locks
}

var lockNames = map[string]string{"FLOCK": "flock", "OFDLCK": "OFD", "READ": "read", "WRITE": "write"}

func lockName(b []byte) string {
	if name, ok := lockNames[string(b)]; ok {
		return name
	}
	return string(b)
}

// parseLock reads "1: -> FLOCK ADVISORY WRITE 912 fe:00:3385117 0 EOF".
func parseLock(f [][]byte) (l fileLock, ok bool) {
	if len(f) < 2 {
		return l, false
	}
	number, colon := bytes.CutSuffix(f[0], []byte(":"))
	id, ok := wholeUint(number)
	if !colon || !ok {
		return l, false
	}
	f = f[1:]
	waits := string(f[0]) == "->"
	if waits {
		f = f[1:]
	}
	if len(f) < 5 {
		return l, false
	}
	pid, err := strconv.ParseInt(string(f[3]), 10, 32)
	if err != nil {
		return l, false
	}
	major, rest, _ := bytes.Cut(f[4], []byte(":"))
	minor, number, _ := bytes.Cut(rest, []byte(":"))
	ma, err1 := strconv.ParseUint(string(major), 16, 32)
	mi, err2 := strconv.ParseUint(string(minor), 16, 32)
	inode, ok := wholeUint(number)
	if err1 != nil || err2 != nil || !ok {
		return l, false
	}
	return fileLock{id, waits, lockName(f[0]), lockName(f[2]), int32(pid), unix.Mkdev(uint32(ma), uint32(mi)), inode}, true
}

// noteLocks says of the target's files which locks of them it holds or waits for,
// and who is on the other side.
func (s *DescriptorScanner) noteLocks(p *Process, warn func(string)) {
	text, more, err := s.fs.readPart("locks", nil, maxLocks)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return // not in this mount, or a kernel without locks
	case err != nil:
		warn(fmt.Sprintf("locks of files are unknown: %v", err))
		return
	case more:
		warn(fmt.Sprintf("locks of files may be missing: only %d bytes of them are read", maxLocks))
	}
	locks := parseLocks(text)
	for _, l := range locks {
		if l.pid != p.id.PID {
			continue
		}
		note := lockNote(l, locks)
		for i := range s.own {
			d := &s.own[i]
			if ino, ok := d.Inode.Get(); ok && d.Kind == FDFile && ino == l.inode && d.device == l.device {
				d.addNote(note)
			}
		}
	}
}

// lockNote is a lock in words, with who holds it or waits for it.
func lockNote(l fileLock, locks []fileLock) string {
	what := fmt.Sprintf("a lock of it (%s, %s)", l.kind, l.access)
	var holder, first int32
	waiting := 0
	for _, o := range locks {
		switch {
		case o.id != l.id:
		case !o.waits:
			holder = o.pid // who took it; of a flock those who inherited the descriptor hold it too
		default:
			if waiting == 0 {
				first = o.pid
			}
			waiting++
		}
	}
	switch {
	case l.waits && holder > 0:
		return fmt.Sprintf("waits for %s, taken by process %d", what, holder)
	case l.waits:
		return fmt.Sprintf("waits for %s, taken through a descriptor", what)
	case waiting == 0:
		return "holds " + what
	case waiting == 1:
		return fmt.Sprintf("holds %s that process %d waits for", what, first)
	}
	return fmt.Sprintf("holds %s that process %d and %d more wait for", what, first, waiting-1)
}
