package ptrace

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	ntPRStatus = 1 // NT_PRSTATUS, include/uapi/linux/elf.h
	maxIOV     = 1024

	// si_code of SIGCHLD, include/uapi/asm-generic/siginfo.h.
	cldExited = 1
	cldKilled = 2
	cldDumped = 3
)

// siginfo is siginfo_t as waitid fills it on x86-64.
type siginfo struct {
	signo, errno, code, _ int32
	pid                   int32
	uid                   uint32
	status                int32
	_                     [100]byte
}

func ptrace(request int, tid int32, addr, data uintptr) unix.Errno {
	_, _, e := unix.RawSyscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), addr, data, 0, 0)
	return e
}

// nap sleeps without telling the scheduler. A real-time thread that polled without
// a nap could take the very processor that the target needs to stop.
func nap(d time.Duration) {
	ts := unix.Timespec{Nsec: int64(d)}
	unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
}

// longNap is nap where nothing is expected to happen soon: the rest of this program
// may have the processor.
func longNap(d time.Duration) {
	ts := unix.Timespec{Nsec: int64(d)}
	unix.Syscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
}
