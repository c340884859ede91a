package ptrace

import (
	"errors"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

var errCancelled = errors.New("nobody waits for the snapshot any more")

// From here to release the target stands. Nothing below allocates, logs, takes a
// lock or gives its thread back to the scheduler; calls that come back at once are
// raw, the few that may not are known to the scheduler.

// window stops the threads, copies what is wanted and lets them go.
func (t *tracer) window() error {
	if t.hook != nil {
		t.hook(allSeized)
	}
	// A thread that created another one, or got a signal, stands already.
	for i := range t.list {
		if c := &t.list[i]; c.state == isSeized {
			if t.look(c); c.state == isStopped && !c.group {
				t.since = t.from
			}
		}
	}
	t.raise()
	from := time.Since(t.begun)
	if t.since == 0 {
		t.since = from
	}
	t.interrupt()
	if err := t.settle(from); err != nil {
		return err
	}
	t.at = time.Now()
	if t.hook != nil {
		t.hook(allStand)
	}
	t.readRegisters()
	t.copyMemory()
	return nil
}

// interrupt asks all threads that run to stop.
func (t *tracer) interrupt() {
	for i := range t.list {
		if c := &t.list[i]; c.state == isSeized {
			ptrace(unix.PTRACE_INTERRUPT, c.tid, 0, 0)
		}
	}
}

// settle waits until every thread stands that the kernel counts.
func (t *tracer) settle(from time.Duration) error {
	unsettled := time.Duration(0)
	for {
		if err := t.collect(from); err != nil {
			return err
		}
		count, members := t.threads(), t.members()
		if count == members {
			t.wakeDead()
			if t.replaced {
				return errReplaced
			}
			return nil
		}
		if count == 0 {
			return nil // killed; result finds nobody
		}
		if t.passes >= maxPasses {
			return ErrUnstable
		}
		before := len(t.list)
		if err := t.scan(); err != nil {
			return err
		}
		fresh := len(t.list) > before
		for i := range t.list {
			c := &t.list[i]
			switch {
			case c.state == isFound:
				fresh = true
				if t.seize(c); c.state == isSeized {
					ptrace(unix.PTRACE_INTERRUPT, c.tid, 0, 0)
				}
			case c.state == isZombie && c.seen != t.scans && t.letter(c.tid) == 0:
				c.state = isEnded
			case c.state == isRefused && t.letter(c.tid) == 0:
				c.state = isEnded
			}
		}
		if fresh {
			unsettled = 0
			continue
		}
		// A thread on its way out is counted for a while after it is listed no more.
		t.passes--
		now := time.Since(t.begun)
		if unsettled == 0 {
			unsettled = now
		} else if now-unsettled > maxUnsettled {
			return ErrUnstable
		}
		nap(50 * time.Microsecond)
		t.buryDead()
	}
}

// collect takes the stops of the threads that were asked to stop. Those that do
// not stop in time are stuck.
func (t *tracer) collect(from time.Duration) error {
	wait := 10 * time.Microsecond
	last := time.Since(t.begun) // when a thread stopped
	next := last + 2*time.Millisecond
	asleep := time.Duration(0) // since when all that are missing sleep uninterruptibly
	for {
		pending, before := 0, 0
		for i := 0; i < len(t.list); i++ { // look may add one
			c := &t.list[i]
			if c.state != isSeized {
				continue
			}
			before++
			if t.look(c); c.state == isSeized {
				pending++
			}
		}
		if t.replaced {
			return errReplaced
		}
		if pending == 0 {
			return nil
		}
		if t.cancelled.Load() {
			return errCancelled
		}
		now := time.Since(t.begun)
		if now-from > maxStop {
			t.allAsleep()
			t.giveUp()
			return nil
		}
		if pending < before {
			last, next, asleep = now, now+2*time.Millisecond, 0
		}
		if now > next {
			next = now + 5*time.Millisecond
			// An exec waits until its dead siblings are reaped, those too that stood.
			t.buryDead()
			t.wakeDead()
			switch {
			case !t.allAsleep():
				asleep = 0
			case asleep == 0:
				asleep = now
			case now-asleep > maxAsleep:
				t.giveUp()
				return nil
			}
		}
		if now-last < 2*time.Millisecond {
			nap(wait)
			wait = min(wait*2, 50*time.Microsecond)
		} else {
			longNap(100 * time.Microsecond)
		}
	}
}

// allAsleep looks at the threads that did not stop, and drops those that have
// ended: a main thread that ends stays a zombie, without a report, until the others
// have ended.
func (t *tracer) allAsleep() bool {
	all, any := true, false
	for i := range t.list {
		c := &t.list[i]
		if c.state != isSeized {
			continue
		}
		switch c.letter = t.letter(c.tid); c.letter {
		case 0:
			c.state = isEnded
		case 'Z', 'X':
			c.state = isZombie
		case 'D':
			any = true
		default:
			all = false
		}
	}
	return all && any
}

func (t *tracer) giveUp() {
	for i := range t.list {
		if c := &t.list[i]; c.state == isSeized {
			c.state = isStuck
		}
	}
}

// look asks whether a tracee has stopped or ended, without taking the report of a
// stop: should this process be killed now, the kernel still delivers the signal
// that the thread stopped at.
func (t *tracer) look(c *tracee) {
	switch t.peek(c.tid) {
	case unix.ECHILD:
		c.state = isEnded // reaped by the watchdog, or an exec took its number away
		return
	case 0:
	default:
		return
	}
	if t.info.pid == 0 {
		return // runs
	}
	switch t.info.code {
	case cldExited, cldKilled, cldDumped:
		t.reap(c)
	default:
		t.stand(c, uint32(t.info.status))
	}
}

// peek fills info with the state of a tracee.
func (t *tracer) peek(tid int32) unix.Errno {
	for {
		t.info.pid = 0
		_, _, e := unix.RawSyscall6(unix.SYS_WAITID, unix.P_PID, uintptr(tid), uintptr(unsafe.Pointer(&t.info)),
			unix.WEXITED|unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT|unix.WALL|unix.WNOTHREAD, 0, 0)
		if e != unix.EINTR {
			return e
		}
	}
}

// reap takes the exit status of a tracee, so that an exec goes on that waits for its
// end. Nobody waits for that of a main thread but its parent, who may be another
// part of this program.
func (t *tracer) reap(c *tracee) {
	c.state = isEnded
	if c.tid != t.pid {
		unix.RawSyscall6(unix.SYS_WAITID, unix.P_PID, uintptr(c.tid), uintptr(unsafe.Pointer(&t.info)),
			unix.WEXITED|unix.WNOHANG|unix.WALL|unix.WNOTHREAD, 0, 0)
	}
}

// stand notes that a thread stands, and for what. status is the signal, and the
// event above it.
func (t *tracer) stand(c *tracee, status uint32) {
	c.state, c.signal = isStopped, 0
	switch status >> 8 {
	case 0:
		c.signal = int32(status) // a signal was about to be delivered
	case unix.PTRACE_EVENT_STOP:
		c.group = status&0xff != uint32(unix.SIGTRAP)
	case unix.PTRACE_EVENT_EXEC:
		t.replaced = true
	case unix.PTRACE_EVENT_CLONE:
		var tid uintptr
		if ptrace(unix.PTRACE_GETEVENTMSG, c.tid, 0, uintptr(unsafe.Pointer(&tid))) != 0 {
			return
		}
		// The new one is a tracee that stops by itself. When no thread of the target
		// it is another process, which stops and is let go like the rest.
		if n := t.find(int32(tid)); n != nil && n.state == isFound {
			n.state = isSeized
			n.foreign = !t.listed(n.tid)
		}
	}
}

// listed tells whether tid is a thread of the target.
func (t *tracer) listed(tid int32) bool {
	b := append(strconv.AppendInt(t.path[:0], int64(tid), 10), 0)
	_, _, e := unix.RawSyscall6(unix.SYS_FACCESSAT, uintptr(t.tasks), uintptr(unsafe.Pointer(&b[0])), unix.F_OK, 0, 0, 0)
	return e == 0
}

// buryDead reaps threads that were killed while they stood.
func (t *tracer) buryDead() {
	for i := range t.list {
		c := &t.list[i]
		if c.state != isStopped {
			continue
		}
		switch e := t.peek(c.tid); {
		case e == unix.ECHILD:
			c.state = isEnded
		case e == 0 && t.info.pid != 0 && t.info.code >= cldExited && t.info.code <= cldDumped:
			t.reap(c)
		}
	}
}

// wakeDead looks at main threads that had ended: a thread that execs takes the
// number of the main thread over, and stands under it.
func (t *tracer) wakeDead() {
	for i := range t.list {
		if c := &t.list[i]; c.state == isZombie {
			if t.peek(c.tid) == 0 && t.info.pid != 0 {
				t.look(c)
			}
		}
	}
}

// readRegisters reads the general registers. The kernel writes those of 32-bit
// code in their own form, so the size tells which it is.
func (t *tracer) readRegisters() {
	for i := range t.list {
		c := &t.list[i]
		if c.state != isStopped || c.foreign {
			continue
		}
		t.iov = unix.Iovec{Base: (*byte)(unsafe.Pointer(&c.regs[0])), Len: uint64(unsafe.Sizeof(c.regs))}
		c.errno = ptrace(unix.PTRACE_GETREGSET, c.tid, ntPRStatus, uintptr(unsafe.Pointer(&t.iov)))
		if c.errno == 0 {
			c.size = int(t.iov.Len)
		}
	}
}

// release lets all threads go, in the order they were attached, with the signals
// they stopped at. Those that did not stop go when the tracing thread ends.
func (t *tracer) release() {
	any := false
	for i := range t.list {
		c := &t.list[i]
		was := c.state
		if was == isSeized || was == isStuck {
			t.look(c) // it may have stopped since
		}
		if c.state != isStopped {
			continue
		}
		if ptrace(unix.PTRACE_DETACH, c.tid, 0, uintptr(c.signal)) == unix.ESRCH {
			t.look(c) // killed
		} else if was != isStopped {
			c.state = was
		}
		any = true
	}
	if any {
		t.until = time.Since(t.begun)
	}
	t.lower()
}

// paused is how long threads stood. It is zero when none was stopped.
func (t *tracer) paused() time.Duration {
	if t.until == 0 || t.since == 0 {
		return 0
	}
	return t.until - t.since
}
