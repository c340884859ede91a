package ptrace

import (
	"errors"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

var errCancelled = errors.New("nobody waits for the snapshot any more")

// From here to release threads stand. Nothing below allocates, logs, takes a lock
// or gives its thread back to the scheduler; calls that come back at once are raw,
// the few that may not are known to the scheduler.

// window stops the threads, copies what is wanted and lets them go.
//
// Threads that sleep are stopped first, a few at a time, and their stacks are
// copied while the others still run: whoever sleeps loses little by standing a
// little longer, and nobody else writes the frames of a stack. Before them come those
// that may not stop at all. The threads that run come last, in one burst, and are let
// go first.
func (t *tracer) window() error {
	if t.hook != nil {
		t.hook(allSeized)
	}
	// A thread that created another one, or got a signal, stands already.
	running := false
	for i := range t.list {
		c := &t.list[i]
		if c.state != isSeized {
			continue
		}
		running = running || c.class == runs
		if t.look(c); c.state == isStopped && !c.group {
			t.since = t.from
		}
	}
	if !running {
		t.few = len(t.list) // there is nobody to spare
	}
	t.rehearse()
	t.raise()
	t.asked = time.Since(t.begun)
	for _, class := range [...]uint8{blocked, sleeps} {
		for t.interrupt(class, t.few) {
			if err := t.collect(true); err != nil {
				return err
			}
		}
	}
	t.askedBusy = time.Since(t.begun)
	t.interrupt(runs, len(t.list))
	if err := t.settle(); err != nil {
		return err
	}
	t.at = time.Now()
	if t.hook != nil {
		t.hook(allStand)
	}
	t.copyInstant()
	t.copyAndRelease()
	return nil
}

const fewThreads = 16 // that sleep are stopped, and let go, at a time: to do so takes them a moment of the processor

// rehearse copies a little of our own memory, so that what the copying needs is in
// the caches when the target stands.
func (t *tracer) rehearse() {
	k := min(len(t.arena)/pageSize, 32)
	for j := range k {
		page := &t.arena[j*pageSize]
		t.local[j] = unix.Iovec{Base: page, Len: pageSize}
		t.remote[j] = unix.RemoteIovec{Base: uintptr(unsafe.Pointer(page)), Len: pageSize}
	}
	unix.RawSyscall6(unix.SYS_PROCESS_VM_READV, uintptr(t.tid), uintptr(unsafe.Pointer(&t.local[0])), uintptr(k),
		uintptr(unsafe.Pointer(&t.remote[0])), uintptr(k), 0)
}

// interrupt asks at most n threads of a class to stop; false when there are none.
func (t *tracer) interrupt(class uint8, n int) bool {
	any := false
	for i := range t.list {
		c := &t.list[i]
		if c.state != isSeized || c.asked || c.class != class {
			continue
		}
		if n--; n < 0 {
			break
		}
		t.ask(c)
		any = true
	}
	return any
}

func (t *tracer) ask(c *tracee) {
	ptrace(unix.PTRACE_INTERRUPT, c.tid, 0, 0)
	c.asked = true
}

// settle waits until every thread stands that the kernel counts.
func (t *tracer) settle() error {
	unsettled := time.Duration(0)
	for {
		if err := t.collect(false); err != nil {
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
				c.class = runs
				if t.seize(c); c.state == isSeized {
					t.ask(c)
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

// collect waits for the threads that were asked to stop, and if it may copies of
// those that stand meanwhile. Those that do not stop in time are stuck.
func (t *tracer) collect(copying bool) error {
	since := time.Since(t.begun)
	last := since // when a thread stopped
	next := last + 2*time.Millisecond
	asleep := time.Duration(0) // since when all that are missing sleep uninterruptibly
	missing := len(t.list)
	for first := 0; ; {
		// They stop roughly in the order they were asked, so behind several that run
		// there is little to find; each look costs time that they need to stop.
		before, running := missing, 0
		missing = 0
		for i := first; i < len(t.list); i++ { // look may add one
			c := &t.list[i]
			if c.state != isSeized || !c.asked {
				continue
			}
			if running < fewRunning {
				if t.look(c); c.state != isSeized {
					continue
				}
				running++
			}
			if missing == 0 {
				first = i
			}
			missing++
		}
		if t.replaced {
			return errReplaced
		}
		if missing == 0 {
			for copying && t.copySome() {
			}
			return nil
		}
		if t.cancelled.Load() {
			return errCancelled
		}
		now := time.Since(t.begun)
		if now-t.asked > maxStop {
			t.allAsleep()
			t.giveUp()
			return nil
		}
		if missing < before {
			last, next, asleep = now, now+2*time.Millisecond, 0
		}
		if now > next {
			next = now + 5*time.Millisecond
			first = 0
			t.lookAll()
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
		switch {
		case copying && t.copySome(), !copying && t.planSome():
		case missing <= 2 && now-since < 8*time.Microsecond: // it is about to: a nap takes longer
		case now-last < 2*time.Millisecond:
			nap(min(max(time.Duration(missing)*5*time.Microsecond, 10*time.Microsecond), 200*time.Microsecond))
		default:
			longNap(100 * time.Microsecond)
		}
	}
}

const fewRunning = 8 // threads that are found to run before the others are left for later

// lookAll looks at all threads that did not stop.
func (t *tracer) lookAll() {
	for i := 0; i < len(t.list); i++ {
		if c := &t.list[i]; c.state == isSeized && c.asked {
			t.look(c)
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
		if c.state != isSeized || !c.asked {
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
		if c := &t.list[i]; c.state == isSeized && c.asked {
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
	if len(t.fresh) < cap(t.fresh) {
		t.fresh = append(t.fresh, c)
	}
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
			n.state, n.class, n.asked = isSeized, runs, true
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

// release lets all threads go with the signals they stopped at, first those that
// ran. Those that did not stop go when the tracing thread ends.
func (t *tracer) release() {
	if t.letGo(runs, runs, len(t.list)) {
		t.untilBusy = time.Since(t.begun)
		t.until = t.untilBusy
	}
	if t.letGo(sleeps, blocked, t.few) {
		t.until = time.Since(t.begun)
	}
	t.lower()
}

// letGo lets the threads of some classes go, with a pause after each few.
func (t *tracer) letGo(from, to uint8, few int) (any bool) {
	n := 0
	for i := range t.list {
		c := &t.list[i]
		if c.class < from || c.class > to {
			continue
		}
		was := c.state
		if was == isSeized || was == isStuck {
			t.look(c) // it may have stopped since
		}
		any = any || c.state == isFreed
		if c.state != isStopped {
			continue
		}
		if n == few {
			nap(fewThreads * 2 * time.Microsecond)
			n = 0
		}
		n++
		any = true
		if t.detach(c); was != isStopped && c.state == isFreed {
			c.state = was
		}
	}
	return any
}

// detach lets a thread go that stands, with the signal it stopped at.
func (t *tracer) detach(c *tracee) {
	if ptrace(unix.PTRACE_DETACH, c.tid, 0, uintptr(c.signal)) == unix.ESRCH {
		t.look(c) // killed
	} else {
		c.state = isFreed
	}
}

// paused is how long threads stood, from the first request to the last release, and
// how long those of them that ran. It is zero when none did.
func (t *tracer) paused() (all, running time.Duration) {
	if t.until > 0 {
		all = t.until - max(t.asked, t.from)
	}
	if t.untilBusy > 0 {
		running = t.untilBusy - max(t.askedBusy, t.from)
	}
	if t.since > 0 { // one stood before it was asked
		all = t.until - t.since
		if running > 0 {
			running = t.untilBusy - t.since
		}
	}
	return max(all, 0), max(running, 0)
}
