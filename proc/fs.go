package proc

import (
	"bytes"
	"fmt"
	"io/fs"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// FS is a mounted procfs. It is safe for concurrent use; the scanners and
// readers made from it are not.
type FS struct {
	mount string
	dir   int // O_PATH handle of the mount point

	admin func(func() bool) // see SetAdmin; nil: every thread may do what it may

	boot   func() int64 // clockBoot; fixed in tests
	booted atomic.Int64 // see bootTime
	clock  atomic.Pointer[startClock]

	closing sync.Once
	closed  error
}

// Open opens the procfs mounted at mount ("/proc", or a fixture tree). The mount
// is looked up once: everything is read relative to the directory found then.
//
// Errors: those of open(2), as *fs.PathError.
func Open(mount string) (*FS, error) {
	fd, err := unix.Open(mount, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: mount, Err: err}
	}
	return &FS{mount: mount, dir: fd, boot: clockBoot}, nil
}

// SetAdmin makes what needs CAP_SYS_ADMIN go through do, for a process whose threads
// do not have it in effect: to enter another network namespace and to open
// /proc/PID/task/TID/stack. do calls its argument, which waits for nothing, on a
// locked thread that has it. What that returns is whether the thread is as it was;
// one that is not must not run anything else. Call it before the FS is used.
func (fs *FS) SetAdmin(do func(f func() (whole bool))) { fs.admin = do }

func (fs *FS) asAdmin(f func() (whole bool)) {
	if fs.admin != nil {
		fs.admin(f)
		return
	}
	runtime.LockOSThread()
	if f() {
		runtime.UnlockOSThread()
	}
}

// Mount returns the mount point.
func (fs *FS) Mount() string { return fs.mount }

// Close releases the directory handle. Processes that are open stay usable; the
// FS and its scanners do not.
func (fs *FS) Close() error {
	fs.closing.Do(func() { fs.closed = unix.Close(fs.dir) })
	return fs.closed
}

// readFile reads a file of the mount whole, relative to it.
func (fs *FS) readFile(name string, buf []byte) ([]byte, error) {
	buf, _, err := fs.readPart(name, buf, 0)
	return buf, err
}

// readPart reads a file of the mount, with max > 0 no further, and tells whether there
// was more.
func (fs *FS) readPart(name string, buf []byte, max int) (data []byte, more bool, err error) {
	fd, err := openAt(fs.dir, name, unix.O_RDONLY)
	if err == nil {
		data, more, err = readAll(fd, buf, max)
		closeFD(fd)
	}
	if err != nil {
		return nil, false, fmt.Errorf("read %s/%s: %w", fs.mount, name, err)
	}
	return data, more, nil
}

// pathPart bounds the names below a process directory. The longest is
// task/2147483647/fdinfo/2147483647.
const pathPart = 64

// openAt opens name below dir without allocating.
func openAt(dir int, name string, flags int) (int, error) {
	var path [pathPart]byte
	if len(name) >= len(path) {
		return -1, unix.ENAMETOOLONG
	}
	copy(path[:], name)
	return openRaw(dir, &path[0], flags)
}

// readAll reads fd to its end into buf, which it grows; with max > 0 it stops
// there and tells whether there was more.
func readAll(fd int, buf []byte, max int) (data []byte, more bool, err error) {
	if cap(buf) == 0 {
		buf = make([]byte, 4096)
	}
	buf = buf[:cap(buf)]
	n := 0
	for {
		if n == len(buf) {
			buf = append(buf, 0)
			buf = buf[:cap(buf)]
		}
		limit := len(buf)
		if max > 0 && limit > max+1 {
			limit = max + 1 // one byte more tells a full file from a cut one
		}
		r, err := readRaw(fd, buf[n:limit])
		if err != nil {
			return nil, false, err
		}
		if r == 0 {
			return buf[:n], false, nil
		}
		n += r
		if max > 0 && n > max {
			return buf[:max], true, nil
		}
	}
}

// entries calls f with the name of each entry of dir that is a number. The name
// is valid during the call. It stops when f returns false.
func entries(dir int, buf []byte, f func(name []byte) bool) error {
	for {
		n, err := getdentsRaw(dir, buf)
		if err != nil || n == 0 {
			return err
		}
		for at := 0; at+19 <= n; {
			size := int(buf[at+16]) | int(buf[at+17])<<8
			if size < 20 || at+size > n {
				return unix.EBADMSG
			}
			name := buf[at+19 : at+size]
			at += size
			if end := bytes.IndexByte(name, 0); end >= 0 {
				name = name[:end]
			}
			if _, ok := parsePID(name); ok && !f(name) {
				return nil
			}
		}
	}
}

// parsePID reads a whole decimal number from 1 to 2147483647.
func parsePID(b []byte) (int32, bool) {
	if len(b) == 0 || len(b) > 10 || b[0] == '0' {
		return 0, false
	}
	v := uint64(0)
	for _, c := range b {
		if c -= '0'; c > 9 {
			return 0, false
		}
		v = v*10 + uint64(c)
	}
	return int32(v), v <= 1<<31-1
}
