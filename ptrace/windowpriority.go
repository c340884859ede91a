package ptrace

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Priority is how the tracing thread was scheduled while the target stood.
type Priority string

const (
	PriorityFIFO   Priority = "fifo"   // real-time: it runs as soon as it can
	PriorityNice   Priority = "nice"   // nice -20: the right to real time is missing, as in some cgroups
	PriorityNormal Priority = "normal" // a busy target stands longer
)

// From include/uapi/linux/sched.h.
const (
	schedOther       = 0
	schedFIFO        = 1
	schedResetOnFork = 0x40000000 // a thread that the runtime may clone from this one is ordinary, 2.6.32
)

// raise gives the tracing thread precedence over the threads that it stops: on a
// busy machine each stop would otherwise wait for a time slice.
func (t *tracer) raise() {
	t.priority = PriorityNormal
	switch t.wanted {
	case "", PriorityFIFO:
		if setScheduler(schedFIFO|schedResetOnFork, 1) == 0 {
			t.priority = PriorityFIFO
			return
		}
		fallthrough
	case PriorityNice:
		if setNice(-20) == 0 {
			t.priority = PriorityNice
		}
	}
}

// lower makes the tracing thread ordinary again.
func (t *tracer) lower() {
	switch t.priority {
	case PriorityFIFO:
		setScheduler(schedOther|schedResetOnFork, 0)
	case PriorityNice:
		setNice(0)
	}
}

func setScheduler(policy int, priority int32) unix.Errno {
	_, _, e := unix.RawSyscall6(unix.SYS_SCHED_SETSCHEDULER, 0, uintptr(policy), uintptr(unsafe.Pointer(&priority)), 0, 0, 0)
	return e
}

func setNice(nice int) unix.Errno {
	_, _, e := unix.RawSyscall6(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, uintptr(nice), 0, 0, 0)
	return e
}

// sigaction is struct kernel_sigaction of x86-64.
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

const saNoCldStop = 1 // SA_NOCLDSTOP, include/uapi/asm-generic/signal-defs.h

// quietChildren has the kernel send no SIGCHLD for each thread that stops: the
// runtime has a handler for it, and running that doubles the time of a stop. It
// keeps the handler; the end of a child is told as before.
func quietChildren() error {
	var a sigaction
	if e := rtSigaction(nil, &a); e != 0 {
		return fmt.Errorf("read the action of SIGCHLD: %w", e)
	}
	if a.flags&saNoCldStop != 0 {
		return nil
	}
	a.flags |= saNoCldStop
	if e := rtSigaction(&a, nil); e != 0 {
		return fmt.Errorf("set the action of SIGCHLD: %w", e)
	}
	return nil
}

func rtSigaction(set, get *sigaction) unix.Errno {
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), 8, 0, 0)
	return e
}
