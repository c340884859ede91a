package proc

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The four calls of the hot loops. The wrappers of x/sys/unix take strings and
// allocate a copy with a NUL for each call; these take the bytes that a scanner
// keeps. They go through Syscall, not RawSyscall: a read of /proc can wait for
// the target's mmap lock, and the scheduler must know.

func openRaw(dir int, path *byte, flags int) (int, error) {
	for {
		fd, _, e := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(path)), uintptr(flags|unix.O_CLOEXEC), 0, 0, 0)
		if e == 0 {
			return int(fd), nil
		}
		if e != unix.EINTR {
			return -1, e
		}
	}
}

func readRaw(fd int, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		n, _, e := unix.Syscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		if e == 0 {
			return int(n), nil
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

func closeFD(fd int) { unix.Syscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

func getdentsRaw(fd int, b []byte) (int, error) {
	n, _, e := unix.Syscall(unix.SYS_GETDENTS64, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

func readlinkRaw(dir int, path *byte, b []byte) (int, error) {
	n, _, e := unix.Syscall6(unix.SYS_READLINKAT, uintptr(dir), uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}
