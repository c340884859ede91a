package ptrace

import (
	"encoding/binary"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

const redZone = 128 // bytes below RSP that a leaf function may use: System V ABI, AMD64, 3.2.2

// copyMemory copies stacks and code. It is the one part of the window that may
// wait, for a page whose file is on another machine; so the scheduler knows of the
// calls.
func (t *tracer) copyMemory() {
	deadline := time.Since(t.begun) + maxRead
	t.plan()
	if t.copy(deadline) && t.planOthers() {
		t.copy(deadline)
	}
}

// copy copies the spans. It is false when there is no use in trying more.
func (t *tracer) copy(deadline time.Duration) bool {
	var pid int32
	for i := range t.list {
		if c := &t.list[i]; c.state == isStopped && !c.foreign {
			pid = c.tid
			break
		}
	}
	for at := 0; at < len(t.spans); {
		k := min(maxIOV, len(t.spans)-at)
		for j, s := range t.spans[at : at+k] {
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
			return false // killed, or not permitted: nothing is copied
		}
		// The call ends in the first piece that is not readable to its end.
		for end := at + k; at < end; {
			s := t.spans[at]
			at++
			s.n = min(s.len, int(n))
			n -= uintptr(s.n)
			if s.n < s.len {
				break
			}
		}
		if time.Since(t.begun) > deadline || t.cancelled.Load() {
			return false
		}
	}
	return true
}

// plan gives every piece that is wanted a place in the arena: first the stacks,
// which decide what the snapshot is worth.
func (t *tracer) plan() {
	t.spans, t.taken = t.spans[:0], 0
	standing := 0
	for i := range t.list {
		if c := &t.list[i]; c.state == isStopped && c.size > 0 {
			standing++
		}
	}
	limit := t.stackLimit(standing)
	for i := range t.list {
		c := &t.list[i]
		if c.state != isStopped || c.size == 0 {
			continue
		}
		_, sp := c.position()
		start := sp - min(sp, redZone)
		room := uint64(limit)
		if m := t.mapping(sp); m != nil {
			start = max(start, m.Start)
			if m.End-start <= room {
				room, c.whole = m.End-start, true
			}
		}
		t.want(&c.stack, start, room)
	}
	for i := range t.list {
		c := &t.list[i]
		if c.state != isStopped || c.size == 0 {
			continue
		}
		ip, _ := c.position()
		if c.codeOf = t.sameCode(i, ip); c.codeOf != i {
			continue
		}
		room := uint64(maxCode)
		if m := t.mapping(ip); m != nil {
			room = min(room, m.End-ip)
		}
		t.want(&c.code, ip, room)
	}
}

// sameCode returns the thread among those just before i that stands at ip as well,
// as the threads of a pool do; i when there is none.
func (t *tracer) sameCode(i int, ip uint64) int {
	for j := i - 1; j >= max(0, i-8); j-- {
		if c := &t.list[j]; c.state == isStopped && c.size > 0 {
			if at, _ := c.position(); at == ip {
				return c.codeOf
			}
		}
	}
	return i
}

// planOthers wants the stacks that signal handlers interrupted which run on a stack
// of their own. Elsewhere a thread has but one.
func (t *tracer) planOthers() bool {
	t.spans = t.spans[:0]
	limit := t.stackLimit(len(t.list))
	for i := range t.list {
		c := &t.list[i]
		if c.state != isStopped || c.size <= 17*4 {
			continue
		}
		_, sp := c.position()
		m := t.mapping(sp)
		const fsBase = 21 // of user_regs_struct; the C library's data of the thread lies above its stack
		if m == nil || m.Path == "[stack]" || m.Start <= c.regs[fsBase] && c.regs[fsBase] < m.End {
			continue
		}
		other := interruptedStack(t.arena[c.stack.off:c.stack.off+c.stack.n], c.stack.addr, sp)
		if m = t.mapping(other); other == 0 || m == nil {
			continue
		}
		start := max(m.Start, other-redZone)
		t.want(&c.other, start, min(uint64(limit), m.End-start))
	}
	return len(t.spans) > 0
}

const maxSignalFrame = 16 << 10 // bytes from RSP on that are searched for a signal frame

// interruptedStack finds the frame of a signal on an alternate stack, a piece of
// which starts at addr, and returns the stack pointer before the signal; 0 when
// there is none. The frame names the stack it lies on, so nothing else looks like it.
//
// Source: struct ucontext, include/uapi/asm-generic/ucontext.h, and struct
// sigcontext_64, arch/x86/include/uapi/asm/sigcontext.h.
func interruptedStack(b []byte, addr, sp uint64) uint64 {
	const (
		stackAt, stackSize = 16, 32
		rsp, cs            = 160, 184
		size               = cs + 8
		knownFlags         = 7 // UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS
		userCS             = 0x33
	)
	at := (sp - addr + 7) &^ 7
	if sp < addr || at > uint64(len(b)) {
		return 0
	}
	if b = b[at:]; len(b) > maxSignalFrame {
		b = b[:maxSignalFrame]
	}
	for ; len(b) >= size; b = b[8:] {
		if binary.LittleEndian.Uint64(b) > knownFlags {
			continue
		}
		start, n := binary.LittleEndian.Uint64(b[stackAt:]), binary.LittleEndian.Uint64(b[stackSize:])
		before := binary.LittleEndian.Uint64(b[rsp:])
		if start <= sp && sp-start < n && before-start >= n && binary.LittleEndian.Uint16(b[cs:]) == userCS {
			return before
		}
	}
	return 0
}

func (t *tracer) want(s *span, addr, n uint64) {
	n = min(n, uint64(len(t.arena)-t.taken), -addr-1)
	s.addr, s.off, s.len, s.n = addr, t.taken, int(n), 0
	if n == 0 || len(t.spans) == cap(t.spans) {
		s.len = 0
		return
	}
	t.taken += int(n)
	t.spans = append(t.spans, s)
}

// mapping returns the mapping that holds addr, as it was before the stop.
func (t *tracer) mapping(addr uint64) *proc.Mapping {
	lo, hi := 0, len(t.maps)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if t.maps[mid].End <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(t.maps) && t.maps[lo].Start <= addr {
		return &t.maps[lo]
	}
	return nil
}
