package ptrace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

// Bounds of one capture. The target stands still between the first and the last,
// so what takes time for no use is given up early.
const (
	maxCaptureThreads = 4096
	maxPasses         = 16                     // looks at the list of threads
	maxStop           = 2 * time.Second        // until all threads stand
	maxAsleep         = 250 * time.Millisecond // for threads that all sleep uninterruptibly: nothing wakes them
	maxUnsettled      = 250 * time.Millisecond // for a thread that is counted and not listed: it is just ending
	maxRead           = 2 * time.Second        // of copying memory
	maxHeld           = 8 * time.Second        // for system calls that do not return
	maxStackPart      = 64 << 10               // bytes of one stack
	maxCopied         = 32 << 20               // bytes of all stacks
	maxCode           = 256                    // bytes of code from RIP on
)

var (
	// ErrSelf: the inspector would stop the thread that lets all others go.
	ErrSelf = errors.New("the inspector takes no snapshot of itself")
	// ErrKernelThread: it has no user stack, and the kernel lets nobody trace it.
	ErrKernelThread = errors.New("a kernel thread cannot be traced")
	// ErrUnstable: the program was replaced or threads came and went faster than
	// they could be stopped, three times in a row.
	ErrUnstable = errors.New("the threads of the process did not hold still")
	// ErrTooMany: more than 4,096 threads.
	ErrTooMany = errors.New("the process has more than 4096 threads")
	// ErrHeld: a system call on the process did not return within 8 s, as when its
	// memory lies in a file whose server does not answer. The threads are let go as
	// soon as it does return.
	ErrHeld = errors.New("the kernel does not come back from a call on this process")
	// ErrTraced is what every *TracedError is.
	ErrTraced = errors.New("already traced")
)

// TracedError says who traces a thread already; a thread has one tracer at most.
// Nothing was changed. It is ErrTraced to errors.Is.
type TracedError struct {
	TID  int32  // the thread that is traced
	PID  int32  // the tracer's process; the tracing thread when that is not known
	Comm string // its name, "" when it cannot be read
}

func (e *TracedError) Error() string {
	by := fmt.Sprintf("process %d", e.PID)
	if e.Comm != "" {
		by = fmt.Sprintf("%s (process %d)", e.Comm, e.PID)
	}
	return fmt.Sprintf("thread %d is already traced by %s", e.TID, by)
}

// Is makes errors.Is(err, ErrTraced) true.
func (e *TracedError) Is(target error) bool { return target == ErrTraced }

// Options of a capture. The zero Options are good.
type Options struct {
	Stack int // bytes of each stack at most; 0: 64 KiB, less from 65 threads on

	priority Priority    // start here; "" is PriorityFIFO. Set in tests
	hook     func(stage) // called by the tracing thread in tests
	done     func(*tracer)
}

// stage is a point of a capture at which a test may act.
type stage int

const (
	allSeized stage = iota // the threads are traced and run
	allStand
)

// Raw is what was copied while a process stood still.
type Raw struct {
	At     time.Time     // when all threads stood
	Paused time.Duration // from the first stop request to the last release
	// PausedRunning is the same for the threads that were running; the others slept,
	// and what they waited for went on. 0 when none ran.
	PausedRunning time.Duration
	Threads       []RawThread // by order of attaching
	NotStopped    []NotStopped
	Passes        int
	Priority      Priority
	Maps          []proc.Mapping // around the stop, see mergeMaps; address order
	Same          bool           // the process ran the same program when all was copied and it ran again
	Warnings      []string

	program uint64 // an address in the code of the executable
}

// RawThread is one thread as it stood. Without registers Err says why.
type RawThread struct {
	TID       int32
	Name      string          // raw bytes, "" when it ended before it could be read
	Registers bool            // Regs is good
	Regs      unix.PtraceRegs // of 32-bit code: the low halves, R8 to R15 zero
	Code32    bool            // the thread runs 32-bit code, whatever its file is
	Stack     Copy            // from the red zone below RSP on, up to the end of its mapping
	StackCut  bool            // the mapping goes on behind Stack
	Other     Copy            // the stack that a signal handler on an alternate stack interrupted
	Code      Copy            // from RIP on
	Err       string
}

// Syscall returns the number of the system call a thread stands in. RAX holds a
// code for the kernel then, no result.
func (t *RawThread) Syscall() (number int64, ok bool) {
	if !t.Registers {
		return 0, false
	}
	number = int64(t.Regs.Orig_rax)
	if t.Code32 {
		number = int64(int32(t.Regs.Orig_rax))
	}
	return number, number >= 0
}

// Interrupted tells whether the system call returns EINTR because the thread was
// stopped: the kernel restarts most calls, not epoll_wait and its kin.
func (t *RawThread) Interrupted() bool {
	if _, in := t.Syscall(); !in {
		return false
	}
	if t.Code32 {
		return int32(t.Regs.Rax) == -int32(unix.EINTR)
	}
	return int64(t.Regs.Rax) == -int64(unix.EINTR)
}

// NotStopped is a thread without registers that was there all the same.
type NotStopped struct {
	TID    int32
	Name   string
	Reason string
}

// turn is held by the one capture of this process that runs. Priority, garbage
// collection and SIGCHLD are the process's, not a capture's.
var turn = make(chan struct{}, 1)

// Capture stops all threads of a process, copies their registers, stacks and code,
// and lets them go. One capture runs at a time; others wait.
//
// Shape:  registers are those at At, when all threads stood. So is the part of each
// stack from RSP on that a snapshot shows, unless more than 4 threads ran: then it is
// of the moment when its thread was let go, as deeper parts are. A result may lack
// threads, which are in NotStopped: one that waits in vfork or for a device cannot
// stop, a main thread that has ended has nothing to show. A thread that ended
// meanwhile is left out.
// Errors: proc.ErrGone; fs.ErrPermission; *TracedError; ErrSelf, ErrKernelThread,
// ErrTooMany, ErrUnstable, ErrHeld; that of ctx. With an error, too, all threads
// are let go.
// Effect: every thread stands for a part of Paused, one that was running for
// PausedRunning at most, some 40 µs alone and 0.3 ms among 64. It goes on as it was:
// running, or stopped when a signal had stopped it. Signals keep their order.
// epoll_wait, sigtimedwait, semtimedop, io_uring_enter and, with a timeout set, recv
// and accept return EINTR. Nothing is written into the process; no signal is sent.
// Source: ptrace(2), PTRACE_SEIZE and PTRACE_INTERRUPT since 3.4; process_vm_readv(2), 3.2.
func Capture(ctx context.Context, p *proc.Process, o Options) (*Raw, error) {
	if int(p.ID().PID) == os.Getpid() {
		return nil, ErrSelf
	}
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := quietChildren(); err != nil {
		return nil, err
	}
	slots, tries := 0, 0
	var paused, running time.Duration
	var err error
	for range 4 { // once with room for more threads, twice more after an exec
		var t *tracer
		if t, err = prepare(p, o, slots); err == nil {
			err = t.capture(ctx)
			if errors.Is(err, ErrHeld) {
				return nil, err // t is the tracing thread's still
			}
			if o.done != nil {
				o.done(t)
			}
			if err == nil {
				var raw *Raw
				if raw, err = t.result(p); err == nil {
					raw.Paused += paused
					raw.PausedRunning += running
					return raw, nil
				}
			}
			all, busy := t.paused()
			paused, running = paused+all, running+busy
		} else if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
			// The number of the process names nobody for the moment in which a thread that
			// execs takes it over from the main thread.
			err = fmt.Errorf("%w: %w", ErrUnstable, err)
		}
		switch {
		case errors.Is(err, errFull) && slots == 0:
			slots = maxCaptureThreads
		case errors.Is(err, errFull):
			return nil, ErrTooMany
		case (errors.Is(err, ErrUnstable) || errors.Is(err, proc.ErrGone)) && tries < 2 && p.Check() == nil:
			// An exec: the program was replaced, or seemed to have ended for a moment.
			tries++
		default:
			if gone := p.Check(); gone != nil {
				return nil, gone
			}
			return nil, err
		}
	}
	return nil, err
}

// capture runs the tracing thread and waits for its end. The garbage collector
// stays away meanwhile: it would hold the tracing thread while the target stands.
func (t *tracer) capture(ctx context.Context) error {
	percent := debug.SetGCPercent(-1)
	var once sync.Once
	collect := func() {
		once.Do(func() { debug.SetGCPercent(percent) })
	}
	defer collect()

	done := make(chan struct{})
	go t.thread(done)
	tick := time.NewTicker(rescueAfter / 2)
	defer tick.Stop()
	cancelled := ctx.Done()
	for {
		select {
		case <-done:
			t.awaitThread()
			unix.Close(t.watching)
			if errors.Is(t.err, errCancelled) {
				return context.Cause(ctx)
			}
			return t.err
		case <-cancelled:
			t.cancelled.Store(true)
			cancelled = nil
		case <-tick.C:
			t.rescue()
			switch took := time.Since(t.begun); {
			case took > maxHeld:
				t.cancelled.Store(true)
				go t.watch(done)
				return ErrHeld
			case took > 100*time.Millisecond: // not made worse by a collection
				collect()
			}
		}
	}
}

// awaitThread waits until the tracing thread is gone, unless it has let go of all
// threads itself. Only then has the kernel let go of the others: those that did not
// stop, and one that an exec gave another number.
func (t *tracer) awaitThread() {
	if t.err == nil && !slices.ContainsFunc(t.list, func(c tracee) bool { return c.state != isFreed }) {
		return
	}
	pid := os.Getpid()
	for until := time.Now().Add(time.Second); time.Now().Before(until); time.Sleep(50 * time.Microsecond) {
		if unix.Tgkill(pid, int(t.tid), 0) != nil {
			return
		}
	}
}
