package proc

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hostWalk visits the descriptors of every process, within a budget. Each process
// first gets one small directory read, so that a process with very many
// descriptors costs the others nothing; what is left follows, the smallest tables
// first.
type hostWalk struct {
	fs       *FS
	left     int       // descriptors that may still be looked at
	deadline time.Time // when to stop
	skip     int32     // PID that is not visited

	looked    int // descriptors looked at
	processes int // processes whose descriptors could be listed
	denied    int // processes whose descriptors could not
	outOfTime bool
	outOfFDs  bool // of the caller's own: the walk had to stop
	cut       bool // the budget of descriptors was used up

	pids  []int32
	rest  []restOf
	dents []byte
	link  []byte
	path  []byte
}

// restOf is a table of which one part was visited.
type restOf struct {
	dir  []byte // "12/fd" or "12/task/13/fd", ends with NUL
	pid  int32
	seek int64 // where its directory goes on
	size int64 // descriptors in all, Linux 6.2; 0 before
}

// visited is one descriptor that a walk comes to; link and name are valid during
// the call.
type visited struct {
	pid  int32
	fd   int32
	dir  int    // handle of its fd directory
	up   string // from there to the directory of the process: "../" or "../../../"
	name []byte // of the descriptor below dir, ends with NUL
	link []byte
	turn int // counts the tables that were opened: another turn may be another process
}

const (
	walkFirst  = 4 << 10  // bytes of a first directory read: about 170 descriptors
	walkRest   = 32 << 10 // of the following ones
	walkEvery  = 64       // descriptors between two looks at the clock
	walkDirent = 64       // more than one entry takes: a read this near to full may go on
)

// run visits until all is seen or the budget is used up.
func (w *hostWalk) run(visit func(*visited)) error {
	if err := w.list(); err != nil {
		return err
	}
	w.visitListed(visit)
	return nil
}

// list fills pids.
func (w *hostWalk) list() error {
	w.pids = w.pids[:0]
	return w.eachPID(func(pid int32) bool {
		if pid != w.skip {
			w.pids = append(w.pids, pid)
		}
		return true
	})
}

// visitListed visits the processes in pids, as run does.
func (w *hostWalk) visitListed(visit func(*visited)) {
	w.rest = w.rest[:0]
	v := &visited{}
	for _, pid := range w.pids {
		if w.stop() {
			return
		}
		w.first(v, pid, visit)
	}
	slices.SortStableFunc(w.rest, func(a, b restOf) int { return cmp.Compare(a.size, b.size) })
	for _, r := range w.rest {
		if w.stop() {
			return
		}
		w.follow(v, r, visit)
	}
}

// eachPID calls f with the number of each process, until f returns false. The
// buffer of directory entries is in use meanwhile.
func (w *hostWalk) eachPID(f func(pid int32) bool) error {
	dir, err := openAt(w.fs.dir, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return &fs.PathError{Op: "open", Path: w.fs.mount, Err: err}
	}
	defer closeFD(dir)
	err = entries(dir, w.dents, func(name []byte) bool {
		pid, _ := parsePID(name)
		return f(pid)
	})
	if err != nil {
		return &fs.PathError{Op: "read", Path: w.fs.mount, Err: err}
	}
	return nil
}

// stop tells whether the budget is used up, and by what.
func (w *hostWalk) stop() bool {
	switch {
	case w.outOfFDs || w.outOfTime || w.cut:
	case w.left <= 0:
		w.cut = true
	case !time.Now().Before(w.deadline):
		w.outOfTime = true
	default:
		return false
	}
	return true
}

// first visits what one small directory read of a process gives.
func (w *hostWalk) first(v *visited, pid int32, visit func(*visited)) {
	w.path = append(strconv.AppendInt(w.path[:0], int64(pid), 10), "/fd\x00"...)
	v.pid, v.up = pid, "../"
	dir, ok := w.open(w.path)
	if !ok {
		return
	}
	seen, more := w.table(v, dir, walkFirst, visit)
	if more {
		w.later(dir, pid)
	}
	if seen || more {
		closeFD(dir)
		return
	}
	// Nothing in it: it has no descriptors, or its leader has ended while other
	// threads live.
	live := w.live(dir)
	closeFD(dir)
	if live == 0 {
		return
	}
	w.path = append(strconv.AppendInt(w.path[:0], int64(pid), 10), "/task/"...)
	w.path = append(strconv.AppendInt(w.path, int64(live), 10), "/fd\x00"...)
	v.up = "../../../"
	if dir, ok = w.open(w.path); ok {
		if _, more := w.table(v, dir, walkFirst, visit); more {
			w.later(dir, pid)
		}
		closeFD(dir)
	}
}

// later notes that the table at w.path goes on.
func (w *hostWalk) later(dir int, pid int32) {
	r := restOf{dir: bytes.Clone(w.path), pid: pid}
	r.seek, _ = unix.Seek(dir, 0, unix.SEEK_CUR)
	var st unix.Stat_t
	if unix.Fstat(dir, &st) == nil {
		r.size = st.Size
	}
	w.rest = append(w.rest, r)
}

// follow visits the rest of a table.
func (w *hostWalk) follow(v *visited, r restOf, visit func(*visited)) {
	v.pid, v.up = r.pid, "../"
	if bytes.Count(r.dir, []byte{'/'}) > 1 {
		v.up = "../../../"
	}
	dir, ok := w.open(r.dir)
	if !ok {
		return
	}
	defer closeFD(dir)
	if _, err := unix.Seek(dir, r.seek, unix.SEEK_SET); err == nil {
		w.table(v, dir, walkRest, visit)
	}
}

// open opens a fd directory, path ending with NUL, and keeps count of what cannot
// be opened.
func (w *hostWalk) open(path []byte) (int, bool) {
	dir, err := openRaw(w.fs.dir, &path[0], unix.O_RDONLY|unix.O_DIRECTORY)
	switch {
	case err == nil:
		return dir, true
	case errors.Is(err, fs.ErrPermission):
		w.denied++
	case OutOfDescriptors(err):
		w.outOfFDs = true
	}
	return -1, false
}

// table visits the descriptors that dir lists: all, or with size walkFirst those
// of one directory read when there are more.
func (w *hostWalk) table(v *visited, dir, size int, visit func(*visited)) (seen, more bool) {
	v.dir = dir
	v.turn++
	counted := false
	for {
		n, err := getdentsRaw(dir, w.dents[:size])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return seen, false
		}
		for at := 0; at+20 <= n; {
			entry := w.dents[at:n]
			length := int(binary.NativeEndian.Uint16(entry[16:]))
			if length < 20 || length > len(entry) {
				return seen, false
			}
			at += length
			fd, ok := parseFD(entry[19:length])
			if !ok {
				continue
			}
			seen = true
			if w.left <= 0 {
				w.cut = true
				return seen, false
			}
			if w.looked%walkEvery == 0 && !time.Now().Before(w.deadline) {
				w.outOfTime = true
				return seen, false
			}
			l, err := readlinkRaw(dir, &entry[19], w.link)
			if err != nil {
				if errors.Is(err, fs.ErrPermission) {
					w.denied++
					return seen, false
				}
				continue // closed since
			}
			w.looked++
			w.left--
			if !counted {
				w.processes++
				counted = true
			}
			v.fd, v.name, v.link = fd, entry[19:length], w.link[:l]
			visit(v)
		}
		if size == walkFirst && n > size-walkDirent {
			return seen, true
		}
	}
}

// eachDirent calls f with each name that getdents64(2) left in b, until f returns
// false. The name ends with NUL.
func eachDirent(b []byte, f func(name []byte) bool) {
	for len(b) >= 20 {
		length := int(binary.NativeEndian.Uint16(b[16:]))
		if length < 20 || length > len(b) {
			return
		}
		name := b[19:length]
		if bytes.IndexByte(name, 0) < 0 || !f(name) {
			return
		}
		b = b[length:]
	}
}

// statxRaw asks for type, links and inode of what name below dir leads to, of
// what the kernel holds already: a remote file system is not asked.
func statxRaw(dir int, name *byte, st *unix.Statx_t) error {
	_, _, e := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(name)), unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT,
		unix.STATX_TYPE|unix.STATX_NLINK|unix.STATX_INO, uintptr(unsafe.Pointer(st)), 0)
	if e != 0 {
		return e
	}
	return nil
}

// parseFD reads the name of a descriptor, a decimal number that ends with NUL.
func parseFD(b []byte) (int32, bool) {
	v := uint64(0)
	for i, c := range b {
		if c == 0 {
			return int32(v), i > 0 && v <= 1<<31-1
		}
		if c -= '0'; c > 9 || i > 9 {
			return 0, false
		}
		v = v*10 + uint64(c)
	}
	return 0, false
}

// live returns a thread that lives of the process whose fd directory is dir, when
// the leader has ended; else 0.
func (w *hostWalk) live(dir int) int32 {
	if st, ok := statBelow(dir, "../stat", w.link); !ok || !st.ended() || st.threads <= 1 {
		return 0
	}
	task, err := openAt(dir, "../task", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return 0
	}
	defer closeFD(task)
	found := int32(0)
	entries(task, w.dents[:walkFirst], func(tid []byte) bool {
		if st, ok := statBelow(task, string(tid)+"/stat", w.link); ok && !st.ended() {
			found, _ = parsePID(tid)
		}
		return found == 0
	})
	return found
}

// statBelow reads a stat file; its comm is valid until buf is used again.
func statBelow(dir int, path string, buf []byte) (stat, bool) {
	fd, err := openAt(dir, path, unix.O_RDONLY)
	if err != nil {
		return stat{}, false
	}
	n, err := readRaw(fd, buf)
	closeFD(fd)
	if err != nil {
		return stat{}, false
	}
	return parseStat(buf[:n])
}
