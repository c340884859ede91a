package ptrace

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const someThreads = 8 // threads whose stacks are copied before those that still run are looked at again

// copySome copies of a few of the threads that have come to stand while others
// run; false when there are none.
func (t *tracer) copySome() bool {
	n := min(someThreads, len(t.fresh)-t.planned)
	if n == 0 {
		return false
	}
	some := t.fresh[t.planned : t.planned+n]
	t.plan(n)
	t.copied = t.planned
	t.spans = t.spans[:0]
	for _, c := range some {
		t.fit(c)
		t.push(&c.stack)
		t.push(&c.code)
	}
	t.copy()
	t.copyOthers(some)
	return true
}

// planSome reads the registers of a few of the threads that have come to stand;
// false when there are none.
func (t *tracer) planSome() bool {
	if t.busy > maxInstant {
		return false
	}
	n := min(someThreads, len(t.fresh)-t.planned)
	t.plan(n)
	return n > 0
}

// copyInstant copies, now that all stand, what is shown of each stack, so that it is
// of one instant. Of stacks that are copied already it copies that again, as a
// thread that still ran may have written there.
//
// With many threads that run this would make them stand twice as long. Then the
// stack of each is as it was when the thread was let go.
func (t *tracer) copyInstant() {
	if late := len(t.fresh) - t.copied; late > 1 && t.busy <= maxInstant {
		t.plan(len(t.fresh) - t.planned)
	}
	t.spans = t.spans[:0]
	for i, c := range t.fresh[:t.planned] {
		_, sp := c.position()
		skip := int(min(sp-c.stack.addr, uint64(c.stack.len)))
		if c.size == 0 || skip == c.stack.len {
			continue
		}
		shown := min(maxStackBytes, c.stack.len-skip)
		if i < t.copied {
			c.head = span{addr: sp, off: c.stack.off + skip, len: min(shown, max(c.stack.n-skip, 0))}
		} else if len(t.fresh)-t.copied > 1 {
			c.head = span{addr: c.stack.addr, off: c.stack.off, len: skip + shown}
		}
		t.push(&c.head)
	}
	t.copy()
}

const maxInstant = 4 // threads that run whose registers and stacks are copied before any is let go

// copyAndRelease copies the rest of the threads that ran and lets each go as soon as
// its own stack is copied: nobody else writes the frames in it.
func (t *tracer) copyAndRelease() {
	for n := 1; t.copied < len(t.fresh); n = min(2*n, someThreads) {
		n = min(n, len(t.fresh)-t.copied)
		if more := t.copied + n - t.planned; more > 0 {
			t.plan(more)
		}
		some := t.fresh[t.copied : t.copied+n]
		t.copied += n
		t.spans = t.spans[:0]
		for _, c := range some {
			t.fit(c)
			// A head that ends early had no more to copy, or began below its mapping.
			if h := &c.head; h.n >= h.len {
				c.tail = span{addr: c.stack.addr + uint64(h.len), off: c.stack.off + h.len, len: c.stack.len - h.len}
				t.push(&c.tail)
			}
			t.push(&c.code)
		}
		t.copy()
		for _, c := range some {
			c.stack.n = min(c.head.n, c.head.len) + c.tail.n
		}
		t.copyOthers(some)
		for _, c := range some {
			if c.class == runs && c.state == isStopped {
				t.detach(c)
			}
		}
	}
}

// copyOthers copies the stacks that signal handlers interrupted.
func (t *tracer) copyOthers(some []*tracee) {
	t.spans = t.spans[:0]
	for _, c := range some {
		t.planOther(c)
		t.push(&c.other)
	}
	t.copy()
}

func (t *tracer) push(s *span) {
	if s.len > 0 && len(t.spans) < cap(t.spans) {
		t.spans = append(t.spans, s)
	}
}

// readRegisters reads the general registers. The kernel writes those of 32-bit
// code in their own form, so the size tells which it is.
func (t *tracer) readRegisters(c *tracee) {
	t.iov = unix.Iovec{Base: (*byte)(unsafe.Pointer(&c.regs[0])), Len: uint64(unsafe.Sizeof(c.regs))}
	c.errno = ptrace(unix.PTRACE_GETREGSET, c.tid, ntPRStatus, uintptr(unsafe.Pointer(&t.iov)))
	if c.errno == 0 {
		c.size = int(t.iov.Len)
	}
}

// copy copies the spans. It is the one part of the window that may wait, for a page
// whose file is on another machine; so the scheduler knows of the calls.
func (t *tracer) copy() {
	spans := t.spans
	if len(spans) == 0 || t.reading > maxRead || t.cancelled.Load() {
		return
	}
	from := time.Since(t.begun)
	pid := t.reader()
	for at := 0; at < len(spans) && pid != 0; {
		k := min(maxIOV, len(spans)-at)
		for j, s := range spans[at : at+k] {
			t.local[j] = unix.Iovec{Base: &t.arena[s.off], Len: uint64(s.len)}
			t.remote[j] = unix.RemoteIovec{Base: uintptr(s.addr), Len: s.len}
		}
		n, _, e := unix.Syscall6(unix.SYS_PROCESS_VM_READV, uintptr(pid), uintptr(unsafe.Pointer(&t.local[0])), uintptr(k),
			uintptr(unsafe.Pointer(&t.remote[0])), uintptr(k), 0)
		switch e {
		case 0:
		case unix.EINTR:
			continue
		case unix.EFAULT:
			n = 0
		default:
			return // killed, or not permitted: nothing is copied
		}
		// The call ends in the first piece that is not readable to its end.
		for end := at + k; at < end; {
			s := spans[at]
			at++
			s.n = min(s.len, int(n))
			n -= uintptr(s.n)
			if s.n < s.len {
				break
			}
		}
		if t.reading+time.Since(t.begun)-from > maxRead {
			break
		}
	}
	t.reading += time.Since(t.begun) - from
}

// reader returns a thread through which the memory is read: one that stands, as a
// main thread that has ended has no memory. 0 when there is none.
func (t *tracer) reader() int32 {
	for _, c := range t.fresh {
		if c.state == isStopped && !c.foreign {
			return c.tid
		}
	}
	return 0
}
