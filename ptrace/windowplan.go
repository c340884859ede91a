package ptrace

import (
	"encoding/binary"

	"procinsh/proc"
)

const redZone = 128 // bytes below RSP that a leaf function may use: System V ABI, AMD64, 3.2.2

// plan reads the registers of the next n threads that stand and sets room in the
// arena aside for their stacks.
func (t *tracer) plan(n int) {
	some := t.fresh[t.planned : t.planned+n]
	t.planned += n
	for _, c := range some {
		if c.state != isStopped || c.foreign || c.size > 0 {
			continue
		}
		if t.readRegisters(c); c.size > 0 {
			_, sp := c.position()
			t.place(&c.stack, sp-min(sp, redZone), uint64(t.limitOf(c)))
		}
	}
}

// fit cuts the stack of a thread to its mapping and gives its code a place.
func (t *tracer) fit(c *tracee) {
	if c.size == 0 {
		return
	}
	ip, sp := c.position()
	if m := t.mapping(sp); m != nil {
		s := &c.stack
		if s.addr < m.Start {
			s.addr = m.Start
			c.head = span{}
		}
		if room := m.End - s.addr; room <= uint64(s.len) {
			s.len, c.whole = int(room), true
		}
		c.head.len = min(c.head.len, s.len)
	}
	if c.codeOf = t.sameCode(c, ip); c.codeOf != c {
		return
	}
	room := uint64(maxCode)
	if m := t.mapping(ip); m != nil {
		room = min(room, m.End-ip)
	}
	t.place(&c.code, ip, room)
}

func (t *tracer) limitOf(c *tracee) int {
	if c.class == runs {
		return t.limitBusy
	}
	return t.limit
}

// sameCode returns the thread among those planned just before that stands at ip as
// well, as the threads of a pool do; c when there is none.
func (t *tracer) sameCode(c *tracee, ip uint64) *tracee {
	for _, d := range t.fresh[max(0, t.copied-2*someThreads):t.copied] {
		if d != c && d.codeOf == d && d.code.addr == ip && d.code.len > 0 {
			return d
		}
	}
	return c
}

func (t *tracer) place(s *span, addr, n uint64) {
	n = min(n, uint64(len(t.arena)-t.taken), -addr-1)
	*s = span{addr: addr, off: t.taken, len: int(n)}
	t.taken += int(n)
}

// planOther gives a place to the stack that a signal handler interrupted which runs on a stack
// of its own. Elsewhere a thread has but one.
func (t *tracer) planOther(c *tracee) {
	if c.size <= 17*4 || c.other.len > 0 {
		return
	}
	_, sp := c.position()
	m := t.mapping(sp)
	const fsBase = 21 // of user_regs_struct; the C library's data of the thread lies above its stack
	if m == nil || m.Path == "[stack]" || m.Start <= c.regs[fsBase] && c.regs[fsBase] < m.End {
		return
	}
	other := interruptedStack(t.arena[c.stack.off:c.stack.off+c.stack.n], c.stack.addr, sp)
	if m = t.mapping(other); other == 0 || m == nil {
		return
	}
	start := max(m.Start, other-redZone)
	t.place(&c.other, start, min(uint64(t.limitOf(c)), m.End-start))
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
