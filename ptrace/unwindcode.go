package ptrace

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/arch/x86/x86asm"

	"procinsh/elf"
)

const (
	maxCodeAhead = 128 // bytes of code that are read to find a return
	maxAhead     = 32  // instructions of it
)

// withoutCFI steps where no table covers the code: by what the code does, or else
// by the frame pointer.
func (w *walker) withoutCFI(f RawFrame) {
	code := w.codeAt(f.PC)
	if isRestorer(code) {
		w.signalFrame()
		return
	}
	if f.Exact && w.prologue(f.PC, code) {
		return
	}
	if w.stop == "" && w.epilogue(code) {
		return
	}
	if w.stop == "" {
		w.framePointer(f)
	}
}

// codeAt reads code at pc, as much as there is.
func (w *walker) codeAt(pc uint64) []byte {
	n, _ := w.mem.ReadAt(w.code[:], pc)
	if n == 0 {
		// Only a part may be copied or mapped.
		n, _ = w.mem.ReadAt(w.code[:16], pc)
	}
	return w.code[:n]
}

// Where every signal handler returns to: mov rax, 15 or mov eax, 15, then syscall
// (rt_sigreturn). musl and Go have no tables for it, or wrong ones.
var (
	restorer64 = []byte{0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}
	restorer32 = []byte{0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05}
)

func isRestorer(code []byte) bool {
	return bytes.HasPrefix(code, restorer64) || bytes.HasPrefix(code, restorer32)
}

// restorer tells whether the code at pc, a return address that lies behind the end
// of a function, is where the kernel makes signal handlers return to.
func (w *walker) restorer(pc uint64) bool { return isRestorer(w.codeAt(pc)) }

// signalFrame enters the code that a signal interrupted. The stack pointer is at
// the ucontext: the handler's return took the word before it.
//
// Source: struct rt_sigframe, arch/x86/include/asm/sigframe.h; struct ucontext and
// struct sigcontext_64, arch/x86/include/uapi/asm.
func (w *walker) signalFrame() {
	const registers = 40 // uc_mcontext behind uc_flags, uc_link and uc_stack
	sp, ok := w.regs.Get(elf.RegRSP)
	if !ok {
		w.stop = StopRegister
		return
	}
	var saved [17 * 8]byte
	if _, err := w.mem.ReadAt(saved[:], sp+registers); err != nil {
		w.stop = w.reason(err)
		return
	}
	var caller elf.Registers
	for i, n := range [...]int{
		elf.RegR8, elf.RegR9, elf.RegR10, elf.RegR11, elf.RegR12, elf.RegR13, elf.RegR14, elf.RegR15, elf.RegRDI,
		elf.RegRSI, elf.RegRBP, elf.RegRBX, elf.RegRDX, elf.RegRAX, elf.RegRCX, elf.RegRSP, elf.RegRIP,
	} {
		caller.Set(n, binary.LittleEndian.Uint64(saved[8*i:]))
	}
	w.enter(caller, BySignalFrame)
}

var (
	endbr64    = []byte{0xf3, 0x0f, 0x1e, 0xfa}
	pushRBP    = []byte{0x55}
	movRBPRSP  = []byte{0x48, 0x89, 0xe5}
	movRBPRSP2 = []byte{0x48, 0x8b, 0xec}
)

// prologue handles a frame that has not set up its frame pointer yet. pc is exact.
func (w *walker) prologue(pc uint64, code []byte) bool {
	sp, ok := w.regs.Get(elf.RegRSP)
	if !ok {
		return false
	}
	rest := bytes.TrimPrefix(code, endbr64)
	at := uint64(0)
	first := false
	if start, ok := w.mods.function(pc); ok && start == pc {
		first = true
	}
	switch {
	case first:
	case bytes.HasPrefix(rest, pushRBP) && setsFramePointer(rest[1:]):
	case setsFramePointer(code) && w.pushedBefore(pc):
		at = 8
	default:
		return false
	}
	ra, err := w.read(sp + at)
	if err != nil || !w.mods.Executable(ra-1) {
		return false
	}
	w.mayMiss = true
	caller := kept(&w.regs)
	if at == 8 {
		rbp, err := w.read(sp)
		if err != nil {
			return false
		}
		caller.Set(elf.RegRBP, rbp)
	}
	caller.Set(elf.RegRSP, sp+at+8)
	caller.Set(elf.RegRIP, ra)
	return w.enter(caller, ByFramePointer)
}

func setsFramePointer(code []byte) bool {
	return bytes.HasPrefix(code, movRBPRSP) || bytes.HasPrefix(code, movRBPRSP2)
}

func (w *walker) pushedBefore(pc uint64) bool {
	_, err := w.mem.ReadAt(w.word[:1], pc-1)
	return err == nil && w.word[0] == pushRBP[0]
}

// epilogue reads the code from the frame's address on and follows what it does to
// the stack until it returns. It gives up at anything that goes elsewhere. A branch
// that may not be taken is passed: the stack is the same behind it.
func (w *walker) epilogue(code []byte) bool {
	sp, ok := w.regs.Get(elf.RegRSP)
	if !ok {
		return false
	}
	caller := kept(&w.regs)
	for n := 0; n < maxAhead && len(code) > 0; n++ {
		inst, size, ok := decode(code)
		if !ok {
			return false
		}
		code = code[size:]
		switch inst.Op {
		case x86asm.RET:
			ra, err := w.read(sp)
			if err != nil || !w.mods.Executable(ra-1) {
				return false
			}
			sp += 8
			if imm, ok := inst.Args[0].(x86asm.Imm); ok {
				sp += uint64(uint16(imm))
			}
			caller.Set(elf.RegRSP, sp)
			caller.Set(elf.RegRIP, ra)
			return w.enter(caller, ByFramePointer)
		case x86asm.POP:
			v, err := w.read(sp)
			reg, isReg := inst.Args[0].(x86asm.Reg)
			if err != nil || !isReg || reg < x86asm.RAX || reg > x86asm.R15 || reg == x86asm.RSP {
				return false
			}
			if to, ok := saved[reg]; ok {
				caller.Set(to, v)
			}
			sp += 8
		case x86asm.LEAVE:
			bp, ok := caller.Get(elf.RegRBP)
			v, err := w.read(bp)
			if !ok || err != nil || bp < sp || inst.DataSize == 16 {
				return false
			}
			caller.Set(elf.RegRBP, v)
			sp = bp + 8
		case x86asm.ADD:
			if inst.Args[0] != x86asm.RSP {
				if touches(inst, &caller) {
					return false
				}
				break
			}
			imm, ok := inst.Args[1].(x86asm.Imm)
			if !ok || imm < 0 {
				return false
			}
			sp += uint64(imm)
		case x86asm.LEA:
			if inst.Args[0] != x86asm.RSP {
				if touches(inst, &caller) {
					return false
				}
				break
			}
			m, ok := inst.Args[1].(x86asm.Mem)
			if !ok || m.Index != 0 {
				return false
			}
			switch m.Base {
			case x86asm.RSP:
				sp += uint64(m.Disp)
			case x86asm.RBP:
				bp, ok := caller.Get(elf.RegRBP)
				if !ok || bp+uint64(m.Disp) < sp {
					return false
				}
				sp = bp + uint64(m.Disp)
			default:
				return false
			}
		case x86asm.MOV:
			if inst.Args[0] == x86asm.RSP && inst.Args[1] == x86asm.RBP {
				bp, ok := caller.Get(elf.RegRBP)
				if !ok || bp < sp {
					return false
				}
				sp = bp
				break
			}
			if touches(inst, &caller) {
				return false
			}
		default:
			if leaves(inst.Op) || touches(inst, &caller) {
				return false
			}
		}
	}
	return false
}

// decode gives what an instruction does, and where the next one begins. The length
// is that of its encoding: x86asm has VZEROUPPER take the bytes behind it along, and
// for an unknown instruction with a prefix it gives the prefix alone, as no error.
// An instruction that can touch nothing but vectors and memory is a NOP here.
func decode(code []byte) (inst x86asm.Inst, size int, ok bool) {
	e, ok, _ := parseEncoding(code)
	if !ok {
		return x86asm.Inst{}, 0, false
	}
	size = len(e.code)
	if bytes.Equal(e.code, endbr64) || e.vectorsAlone() {
		return x86asm.Inst{Op: x86asm.NOP, Len: size}, size, true
	}
	inst, err := x86asm.Decode(e.code, 64)
	if err != nil || inst.Op == 0 || inst.Len != size {
		return x86asm.Inst{}, 0, false
	}
	return inst, size, true
}

// vectorsAlone tells whether an instruction is one with a VEX or EVEX prefix that
// writes no general register, whatever it is.
func (e *encoding) vectorsAlone() bool {
	if e.kind != vex && e.kind != evex {
		return false
	}
	switch e.opmap {
	case map0F, 5: // conversions to integers, moves out of vectors and masks
		switch e.opcode {
		case 0x2c, 0x2d, 0x50, 0x6c, 0x6d, 0x78, 0x79, 0x7e, 0x93, 0xc5, 0xd7:
			return false
		}
		return true
	case map0F38: // BMI and CMPccXADD
		return e.opcode < 0xe0
	case map0F3A: // PEXTR and EXTRACTPS, RORX
		return e.opcode < 0xf0 && (e.opcode < 0x14 || e.opcode > 0x17)
	}
	return false
}

var saved = map[x86asm.Reg]int{
	x86asm.RBX: elf.RegRBX, x86asm.RBP: elf.RegRBP, x86asm.R12: elf.RegR12, x86asm.R13: elf.RegR13, x86asm.R14: elf.RegR14, x86asm.R15: elf.RegR15,
}

// leaves tells whether an instruction goes elsewhere for good, calls, or moves the
// stack in a way that is not followed.
func leaves(op x86asm.Op) bool {
	switch op {
	case x86asm.CALL, x86asm.LCALL, x86asm.JMP, x86asm.LJMP, x86asm.LRET, x86asm.IRET, x86asm.IRETD, x86asm.IRETQ,
		x86asm.PUSH, x86asm.PUSHF, x86asm.PUSHFD, x86asm.PUSHFQ, x86asm.PUSHA, x86asm.PUSHAD,
		x86asm.POPF, x86asm.POPFD, x86asm.POPFQ, x86asm.POPA, x86asm.POPAD, x86asm.ENTER,
		x86asm.SYSCALL, x86asm.SYSENTER, x86asm.SYSEXIT, x86asm.SYSRET, x86asm.INT, x86asm.ICEBP, x86asm.HLT, x86asm.UD0, x86asm.UD1, x86asm.UD2:
		return true
	}
	return false
}

// touches tells whether an instruction may change RSP or RBP. A register that it
// may change and that belongs to the caller becomes unknown.
func touches(inst x86asm.Inst, caller *elf.Registers) bool {
	for i, arg := range inst.Args {
		reg, ok := arg.(x86asm.Reg)
		if !ok {
			continue
		}
		switch inst.Op {
		case x86asm.CMP, x86asm.TEST, x86asm.BT:
			continue // only read
		}
		if i > 0 && inst.Op != x86asm.XCHG && inst.Op != x86asm.XADD {
			continue // a source
		}
		switch whole(reg) {
		case x86asm.RSP, x86asm.RBP:
			return true
		}
		if n, ok := saved[whole(reg)]; ok {
			caller.Forget(n)
		}
	}
	return false
}

// whole returns the 64-bit register that reg is part of.
func whole(reg x86asm.Reg) x86asm.Reg {
	switch {
	case reg >= x86asm.AX && reg <= x86asm.R15W:
		return reg - x86asm.AX + x86asm.RAX
	case reg >= x86asm.EAX && reg <= x86asm.R15L:
		return reg - x86asm.EAX + x86asm.RAX
	case reg >= x86asm.AL && reg <= x86asm.BL:
		return reg - x86asm.AL + x86asm.RAX
	case reg >= x86asm.AH && reg <= x86asm.BH:
		return reg - x86asm.AH + x86asm.RAX
	case reg >= x86asm.SPB && reg <= x86asm.R15B:
		return reg - x86asm.SPB + x86asm.RSP
	}
	return reg
}

// framePointer steps by RBP.
func (w *walker) framePointer(f RawFrame) {
	bp, ok := w.regs.Get(elf.RegRBP)
	sp, okSP := w.regs.Get(elf.RegRSP)
	if !ok || !okSP {
		w.stop = StopRegister
		return
	}
	if bp < sp || bp%8 != 0 {
		w.stop = StopNoCFI
		return
	}
	next, err := w.read(bp)
	if err != nil {
		w.stop = w.missing(err)
		return
	}
	ra, err := w.read(bp + 8)
	if err != nil {
		w.stop = w.missing(err)
		return
	}
	caller := kept(&w.regs)
	for _, n := range [...]int{elf.RegRBX, elf.RegR12, elf.RegR13, elf.RegR14, elf.RegR15} {
		caller.Forget(n) // the frame may have them saved anywhere
	}
	caller.Set(elf.RegRBP, next)
	caller.Set(elf.RegRSP, bp+16)
	caller.Set(elf.RegRIP, ra)
	known := w.keepsFramePointer(f)
	if w.enter(caller, ByFramePointer) && !known {
		w.mayMiss = true
	}
}

// missing is the reason when RBP leads nowhere: mostly it is no frame pointer.
func (w *walker) missing(err error) string {
	if stop := w.reason(err); stop == StopNotCopied {
		return stop
	}
	return StopNoCFI
}

// keepsFramePointer tells whether the function of f is known to have set up RBP
// before f.
func (w *walker) keepsFramePointer(f RawFrame) bool {
	start, ok := w.mods.function(f.Lookup())
	if !ok || f.PC <= start {
		return false
	}
	n := min(f.PC-start, functionHead)
	head := w.code[:n]
	if _, err := w.mem.ReadAt(head, start); err != nil {
		return false
	}
	for i := range head {
		if head[i] == pushRBP[0] && setsFramePointer(head[i+1:]) {
			return true
		}
	}
	return false
}

// behindCall tells whether a call instruction ends at ra.
func (w *walker) behindCall(ra uint64) bool {
	var before [7]byte
	if _, err := w.mem.ReadAt(before[:], ra-uint64(len(before))); err != nil {
		return false
	}
	for n := 2; n <= len(before); n++ {
		if inst, size, ok := decode(before[len(before)-n:]); ok && size == n && inst.Op == x86asm.CALL {
			return true
		}
	}
	return false
}
