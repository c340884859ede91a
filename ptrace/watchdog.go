package ptrace

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const rescueAfter = 20 * time.Millisecond // of one PTRACE_SEIZE

// rescue frees a tracing thread that hangs in PTRACE_SEIZE. It is called from time
// to time by another thread.
//
// The call waits for the cred_guard_mutex of the target (ptrace_attach). A thread of
// the target that execs holds it, and waits until its siblings are gone
// (begin_new_exec, de_thread). Siblings that are tracees are gone when their tracer
// has taken their exit status, which the tracing thread cannot do in that call. Any
// other thread of this process can.
func (t *tracer) rescue() {
	if from := t.seizing.Load(); from != 0 && time.Since(t.begun)-time.Duration(from) > rescueAfter {
		if t.listing == nil {
			t.listing = make([]byte, 32<<10)
		}
		t.reapListed(t.listing)
	}
}

// watch goes on with rescue for a tracing thread that nobody waits for any more.
func (t *tracer) watch(done <-chan struct{}) {
	tick := time.NewTicker(rescueAfter)
	defer tick.Stop()
	defer unix.Close(t.watching)
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			t.rescue()
		}
	}
}

// reapListed reaps the dead among all threads that are listed, not only among those
// the tracing thread has noted: it may be about to note one. The tracing thread
// finds that there is nothing left to wait for.
func (t *tracer) reapListed(buf []byte) {
	const header = 19 // struct linux_dirent64
	unix.Seek(t.watching, 0, 0)
	for {
		n, err := unix.Getdents(t.watching, buf)
		if err != nil || n <= 0 {
			return
		}
		for b := buf[:n]; len(b) > header; {
			size := int(b[16]) | int(b[17])<<8
			if size <= header || size > len(b) {
				return
			}
			if tid := number(b[header:size]); tid > 0 && tid != t.pid && reapDead(tid) {
				t.rescued.Add(1)
			}
			b = b[size:]
		}
	}
}

// reapDead takes the exit status of a tracee. It looks first, so that it takes no
// report of a stop.
func reapDead(tid int32) bool {
	var info siginfo
	_, _, e := unix.Syscall6(unix.SYS_WAITID, unix.P_PID, uintptr(tid), uintptr(unsafe.Pointer(&info)),
		unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, 0, 0)
	if e != 0 || info.pid == 0 || info.code < cldExited || info.code > cldDumped {
		return false
	}
	_, _, e = unix.Syscall6(unix.SYS_WAITID, unix.P_PID, uintptr(tid), uintptr(unsafe.Pointer(&info)),
		unix.WEXITED|unix.WNOHANG|unix.WALL, 0, 0)
	return e == 0
}
