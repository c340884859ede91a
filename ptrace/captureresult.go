package ptrace

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

// result makes a Raw of what was copied. The target runs again.
func (t *tracer) result(p *proc.Process) (*Raw, error) {
	raw := &Raw{At: t.at, Passes: t.passes, Priority: t.priority, program: t.image[0]}
	raw.Paused, raw.PausedRunning = t.paused()
	var err error
	if t.tasks, err = p.OpenTasks(); err == nil {
		t.lateNames()
		raw.Same = t.imageNow() == t.image
	}
	var after []proc.Mapping
	if raw.Same {
		after, err = p.ReadMaps(nil)
		if errors.Is(err, proc.ErrTruncated) {
			t.cut = err
		} else if err != nil {
			after = nil // it has ended since; what was read before holds
		}
		raw.Same = t.imageNow() == t.image
	}
	if t.tasks >= 0 {
		unix.Close(t.tasks)
	}
	if !raw.Same {
		after = nil
	}
	raw.Maps = mergeMaps(t.maps, after)
	if t.cut != nil {
		raw.Warnings = append(raw.Warnings, fmt.Sprintf("mappings are incomplete: %v", t.cut))
	}
	if t.reading > maxRead {
		raw.Warnings = append(raw.Warnings, fmt.Sprintf("copying memory took longer than %v; stacks are missing or cut", maxRead))
	}
	for i := range t.list {
		c := &t.list[i]
		if c.foreign {
			continue
		}
		switch c.state {
		case isStopped, isFreed:
			raw.Threads = append(raw.Threads, t.rawThread(c))
		case isEnded:
			if c.size > 0 { // killed after its registers were read
				raw.Threads = append(raw.Threads, t.rawThread(c))
			}
		case isZombie, isStuck, isRefused, isSeized:
			raw.NotStopped = append(raw.NotStopped, NotStopped{TID: c.tid, Name: t.names[c.tid], Reason: t.reason(c)})
		}
	}
	if len(raw.Threads) == 0 && !slices.ContainsFunc(t.list, func(c tracee) bool { return c.state == isStuck }) {
		return nil, errNobody
	}
	if len(raw.Maps) == 0 {
		return nil, errReplaced
	}
	return raw, nil
}

// lateNames reads the names of threads that were found late.
func (t *tracer) lateNames() {
	for i := range t.list {
		c := &t.list[i]
		if _, ok := t.names[c.tid]; !ok && c.state != isEnded && !c.foreign {
			if st, ok := t.readStat(c.tid); ok {
				t.names[c.tid] = st.name
			}
		}
	}
}

// imageNow is readImage of a thread that still lives; zero when none does.
func (t *tracer) imageNow() [3]uint64 {
	for i := range t.list {
		if c := &t.list[i]; c.state == isFreed && !c.foreign {
			if image := t.readImage(c.tid); image != ([3]uint64{}) {
				return image
			}
		}
	}
	return [3]uint64{}
}

func (t *tracer) rawThread(c *tracee) RawThread {
	r := RawThread{TID: c.tid, Name: t.names[c.tid]}
	if c.size == 0 {
		r.Err = "no registers: " + c.errno.Error()
		if c.errno == 0 {
			r.Err = "no registers"
		}
		return r
	}
	r.Registers = true
	r.Regs, r.Code32 = c.userRegs()
	r.Stack = Copy{c.stack.addr, t.piece(&c.stack)}
	r.StackCut = !c.whole && len(r.Stack.Bytes) == c.stack.len
	r.Other = Copy{c.other.addr, t.piece(&c.other)}
	if c.codeOf != nil {
		r.Code = Copy{c.codeOf.code.addr, t.piece(&c.codeOf.code)}
	}
	if r.Stack.Bytes == nil {
		r.Err = "the stack is not readable"
	}
	return r
}

// piece returns what was copied of s.
func (t *tracer) piece(s *span) []byte {
	if s.n == 0 {
		return nil
	}
	return t.arena[s.off : s.off+s.n : s.off+s.n]
}

func (t *tracer) reason(c *tracee) string {
	switch c.state {
	case isZombie:
		if c.tid == t.pid {
			return "the main thread has ended (zombie); the other threads live on"
		}
		return "it has ended (zombie)"
	case isRefused:
		return fmt.Sprintf("the kernel refused to trace it: %v", c.errno)
	}
	switch c.letter {
	case 'D':
		return fmt.Sprintf("in uninterruptible sleep (D), as in vfork or waiting for a device; it cannot stop until that ends; let go after %v", maxAsleep)
	case 0:
		return "it was not asked to stop"
	}
	return fmt.Sprintf("it did not stop within %v (state %c)", maxStop, c.letter)
}

// mergeMaps joins the mappings before and after the stop. Where the two differ the
// later reading holds; what only the earlier one has may have been there during the
// stop.
func mergeMaps(before, after []proc.Mapping) []proc.Mapping {
	if len(after) == 0 {
		return before
	}
	all := slices.Clone(after)
	i := 0
	for _, m := range before {
		for i < len(after) && after[i].End <= m.Start {
			i++
		}
		if i == len(after) || after[i].Start >= m.End {
			all = append(all, m)
		}
	}
	if len(all) > len(after) {
		slices.SortFunc(all, func(a, b proc.Mapping) int {
			if a.Start < b.Start {
				return -1
			}
			return 1
		})
	}
	return all
}

// userRegs returns the registers in the form of 64-bit code.
//
// Source: struct user_regs_struct of arch/x86/include/asm/user_64.h and user_32.h.
// The kernel gives the short form for a thread whose CS is no 64-bit one
// (task_user_regset_view); one without IA-32 emulation gives the long form always.
func (c *tracee) userRegs() (r unix.PtraceRegs, code32 bool) {
	const userCS32 = 0x23 // __USER32_CS
	if c.size != 17*4 {
		v := &c.regs
		r = unix.PtraceRegs{
			R15: v[0], R14: v[1], R13: v[2], R12: v[3], Rbp: v[4], Rbx: v[5], R11: v[6], R10: v[7], R9: v[8], R8: v[9],
			Rax: v[10], Rcx: v[11], Rdx: v[12], Rsi: v[13], Rdi: v[14], Orig_rax: v[15], Rip: v[16], Cs: v[17], Eflags: v[18],
			Rsp: v[19], Ss: v[20], Fs_base: v[21], Gs_base: v[22], Ds: v[23], Es: v[24], Fs: v[25], Gs: v[26],
		}
		return r, r.Cs == userCS32
	}
	half := func(i int) uint64 { return c.regs[i/2] >> (32 * (i % 2)) & 0xffffffff }
	return unix.PtraceRegs{
		Rbx: half(0), Rcx: half(1), Rdx: half(2), Rsi: half(3), Rdi: half(4), Rbp: half(5), Rax: half(6), Ds: half(7), Es: half(8),
		Fs: half(9), Gs: half(10), Orig_rax: half(11), Rip: half(12), Cs: half(13), Eflags: half(14), Rsp: half(15), Ss: half(16),
	}, true
}

// position returns RIP and RSP. It allocates nothing.
func (c *tracee) position() (ip, sp uint64) {
	if c.size == 17*4 {
		return c.regs[6] & 0xffffffff, c.regs[7] >> 32 // the halves 12 and 15
	}
	return c.regs[16], c.regs[19]
}
