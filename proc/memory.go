package proc

import (
	"errors"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrUnmapped says that not one byte is readable at an address: nothing is mapped
// there, or a guard page, device memory or the vsyscall page is. A kernel thread
// has no mapping at all.
var ErrUnmapped = errors.New("no readable memory at this address")

// ReadMemory reads len(buf) bytes at address, the target running on. It returns
// how many bytes were readable from there on: n < len(buf) ends exactly at the
// first page that cannot be read.
//
// The call behind it takes a bare number, so an answer holds only when a Check
// that follows it succeeds.
//
// Errors: ErrGone; fs.ErrPermission; ErrUnmapped when not one byte is readable.
// Effect: none that the target could see. A page that was never touched is faulted
// in, one that is swapped out is read back.
// Source: process_vm_readv(2), 3.2; mm/process_vm_access.c.
func (p *Process) ReadMemory(address uint64, buf []byte) (int, error) {
	if len(buf) == 0 {
		return 0, nil
	}
	n, errno := p.readMemory(address, buf)
	if n == 0 && errno == unix.ESRCH {
		// No such task, or one without memory: a leader that has ended, a kernel thread.
		kernel, err := p.spaceEnded("mem")
		if err != nil {
			return 0, err
		}
		if !kernel {
			n, errno = p.readMemory(address, buf)
		}
	}
	if n > 0 {
		return n, nil
	}
	if err := p.Check(); err != nil {
		return 0, err
	}
	switch errno {
	case 0, unix.EFAULT, unix.ESRCH:
		return 0, p.wrap("mem", ErrUnmapped)
	}
	return 0, p.wrap("mem", errno)
}

// readMemory reads what it can from address on; errno is why it went no further.
func (p *Process) readMemory(address uint64, buf []byte) (n int, errno unix.Errno) {
	tid := uintptr(p.id.PID)
	if p.live != "" {
		v, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(p.live, "task/"), "/"))
		tid = uintptr(v)
	}
	if address+uint64(len(buf)) < address {
		buf = buf[:-address] // up to the end of the address space
	}
	// One piece for all is the fast way and, as the kernel goes page by page inside,
	// mostly ends where the memory does. The manual promises that only for the border
	// between two pieces, so what is missing is asked for again in pages.
	remote := [1]unix.RemoteIovec{{Base: uintptr(address), Len: len(buf)}}
	n, errno = vmRead(tid, buf, remote[:])
	for n < len(buf) && (errno == 0 || errno == unix.EFAULT) {
		const pageSize = 4096 // x86-64; huge pages are multiples
		var pages [16]unix.RemoteIovec
		want, k := 0, 0
		for at := address + uint64(n); k < len(pages) && n+want < len(buf); k++ {
			size := min(pageSize-int(at%pageSize), len(buf)-n-want)
			pages[k] = unix.RemoteIovec{Base: uintptr(at), Len: size}
			at += uint64(size)
			want += size
		}
		var got int
		if got, errno = vmRead(tid, buf[n:n+want], pages[:k]); got == 0 {
			break
		}
		n += got
	}
	return n, errno
}

func vmRead(tid uintptr, buf []byte, remote []unix.RemoteIovec) (int, unix.Errno) {
	local := unix.Iovec{Base: &buf[0], Len: uint64(len(buf))}
	for {
		n, _, e := unix.Syscall6(unix.SYS_PROCESS_VM_READV, tid,
			uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote[0])), uintptr(len(remote)), 0)
		if e == 0 {
			return int(n), 0
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}
