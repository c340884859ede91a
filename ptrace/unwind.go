package ptrace

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"procinsh/elf"
)

const (
	maxFrames        = 256 // frames of one walk
	maxStackSwitches = 8   // times that one walk may go to another stack other than by a signal
)

// Found says how a frame was found.
type Found uint8

const (
	ByRegisters    Found = iota // the registers of the thread: only the first frame
	ByCFI                       // call frame information of the frame before it
	ByFramePointer              // without any: the frame pointer, or the code up to its return
	BySignalFrame               // what the kernel saved when it delivered a signal
)

// String returns the name that the interface has for it.
func (f Found) String() string {
	return [...]string{"registers", "cfi", "frame_pointer", "signal_frame"}[f]
}

// Why a walk ended.
const (
	StopEnd         = "end of stack"
	StopNoCFI       = "no unwind information"
	StopNotCopied   = "stack bytes not copied"
	StopUnreadable  = "stack not readable"
	StopNotCode     = "return address not in code"
	StopFrames      = "256 frames"
	StopNotGrowing  = "stack pointer does not grow"
	StopRegister    = "needs a register that only a stopped thread shows"
	StopBadCFI      = "unwind information is malformed"
	StopUnreadCFI   = "unwind information could not be read" // a warning says why
	Stop32          = "32-bit code"
	StopNoUser      = "no user stack" // of a kernel thread
	StopNoRegisters = "no program counter"
)

// Regs is the registers of a thread, as far as they are known.
type Regs struct {
	elf.Registers
	Code32 bool // it runs 32-bit code: the CS selector decides, not the file
}

// userCS32 is the code selector of 32-bit user mode: __USER32_CS,
// arch/x86/include/asm/segment.h.
const userCS32 = 0x23

// RegsOf returns the registers that ptrace(2) gives.
func RegsOf(r *unix.PtraceRegs) Regs {
	regs := Regs{Code32: uint16(r.Cs) == userCS32}
	for n, v := range [...]uint64{
		elf.RegRAX: r.Rax, elf.RegRDX: r.Rdx, elf.RegRCX: r.Rcx, elf.RegRBX: r.Rbx, elf.RegRSI: r.Rsi, elf.RegRDI: r.Rdi,
		elf.RegRBP: r.Rbp, elf.RegRSP: r.Rsp, elf.RegR8: r.R8, elf.RegR9: r.R9, elf.RegR10: r.R10, elf.RegR11: r.R11,
		elf.RegR12: r.R12, elf.RegR13: r.R13, elf.RegR14: r.R14, elf.RegR15: r.R15, elf.RegRIP: r.Rip,
	} {
		regs.Set(n, v)
	}
	return regs
}

// RawFrame is one frame before it has a name.
type RawFrame struct {
	PC    uint64 // of the first frame and behind a signal the next instruction, else the return address
	Exact bool   // PC is no return address of a call
	By    Found
}

// Lookup is the address to look up: a return address may lie behind the end of
// its function, the call before it does not.
func (f RawFrame) Lookup() uint64 {
	if f.Exact {
		return f.PC
	}
	return f.PC - 1
}

// Unwind walks the stack of a thread from its registers, innermost first, at most
// 256 frames or max if that is less. It says why the walk ended and whether
// frames may be missing.
//
// memory is the stack, and code where no file has it; what cannot be read ends the
// walk. The first frame is there whenever RIP is known. A frame found by reading
// code up to its return, where there is no call frame information, is
// ByFramePointer like one found by RBP.
//
// Frames may be missing when one was found by RBP and its function is not known to
// set up RBP, when the walk began in a prologue without call frame information, in
// no code at all, and in all 32-bit code.
func Unwind(regs Regs, memory Memory, mods *Modules, max int) (frames []RawFrame, stop string, mayMiss bool) {
	w := walker{mods: mods, mem: memory, regs: regs.Registers, cfi: elf.Unwinder{Memory: memory}}
	pc, ok := w.regs.Get(elf.RegRIP)
	if !ok {
		return nil, StopNoRegisters, false
	}
	if max <= 0 || max > maxFrames {
		max = maxFrames
	}
	w.frames = append(make([]RawFrame, 0, 32), RawFrame{PC: pc, Exact: true, By: ByRegisters})
	for w.stop == "" {
		if len(w.frames) == max {
			w.stop = StopFrames
			break
		}
		if regs.Code32 {
			w.step32()
		} else {
			w.step()
		}
	}
	return w.frames, w.stop, w.mayMiss
}

// walker is one walk. regs belong to the last of frames.
type walker struct {
	mods     *Modules
	mem      Memory
	cfi      elf.Unwinder
	regs     elf.Registers
	frames   []RawFrame
	stop     string
	mayMiss  bool
	switches int
	word     [8]byte
	code     [maxCodeAhead]byte
}

// step finds the caller of the last frame, or sets stop.
func (w *walker) step() {
	f := w.frames[len(w.frames)-1]
	if !w.mods.Executable(f.Lookup()) {
		w.calledNoCode()
		return
	}
	at := f.Lookup()
	rules, bias, err := w.mods.rules(at)
	switch {
	case err != nil && errors.Is(err, elf.ErrNoFDE):
		w.withoutCFI(f)
		return
	case errors.Is(err, elf.ErrFormat), errors.Is(err, elf.ErrTooBig):
		w.stop = StopBadCFI
		return
	case err != nil:
		w.stop = StopUnreadCFI
		return
	case !f.Exact && f.PC-bias >= rules.End && w.restorer(f.PC):
		w.signalFrame()
		return
	case rules.Last():
		w.stop = StopEnd
		return
	}
	caller, err := w.cfi.Caller(&rules, &w.regs)
	if err != nil {
		w.stop = w.reason(err)
		return
	}
	by := ByCFI
	if rules.Signal {
		by = BySignalFrame
	}
	w.enter(caller, by)
}

// reason says why something could not be read or computed.
func (w *walker) reason(err error) string {
	switch {
	case errors.Is(err, elf.ErrUnknownRegister):
		return StopRegister
	case errors.Is(err, elf.ErrFormat), errors.Is(err, elf.ErrTooBig):
		return StopBadCFI
	case errors.Is(err, ErrNotCopied):
		return StopNotCopied
	}
	return StopUnreadable
}

// enter takes the caller's registers as the next frame if they make sense.
func (w *walker) enter(caller elf.Registers, by Found) bool {
	pc, _ := caller.Get(elf.RegRIP)
	sp, ok := caller.Get(elf.RegRSP)
	old, _ := w.regs.Get(elf.RegRSP)
	switch {
	case pc == 0 && by != BySignalFrame:
		w.stop = StopEnd
		return false
	case !ok:
		w.stop = StopRegister
		return false
	}
	if sp <= old && by != BySignalFrame {
		// Another stack lies anywhere; the tables know, a frame pointer does not.
		if by != ByCFI || w.switches == maxStackSwitches || w.sameMapping(sp, old) {
			w.stop = StopNotGrowing
			return false
		}
		w.switches++
	}
	exact := by == BySignalFrame
	if exact {
		w.frames[len(w.frames)-1].Exact = true // nothing called the code that a handler returns to
	}
	f := RawFrame{PC: pc, Exact: exact, By: by}
	// A signal may interrupt a call of no code; step sees to that.
	if !exact && !w.mods.Executable(f.Lookup()) {
		w.stop = StopNotCode
		return false
	}
	w.regs = caller
	w.frames = append(w.frames, f)
	return true
}

func (w *walker) sameMapping(a, b uint64) bool { return w.mods.find(a) == w.mods.find(b) }

// calledNoCode handles a program counter that is in no code: if it got there by a
// call through a wrong pointer the return address is on top of the stack.
func (w *walker) calledNoCode() {
	sp, ok := w.regs.Get(elf.RegRSP)
	ra, err := w.read(sp)
	if !ok || err != nil || !w.mods.Executable(ra-1) || !w.behindCall(ra) {
		w.stop = StopNotCode
		return
	}
	w.mayMiss = true
	w.leaf(sp, ra)
}

// leaf enters the caller of a function that has pushed nothing, the return address
// ra being at sp.
func (w *walker) leaf(sp, ra uint64) bool {
	caller := kept(&w.regs)
	caller.Set(elf.RegRSP, sp+8)
	caller.Set(elf.RegRIP, ra)
	return w.enter(caller, ByFramePointer)
}

// kept returns the registers that a function leaves to its caller as they are.
func kept(regs *elf.Registers) elf.Registers {
	var out elf.Registers
	for _, n := range [...]int{elf.RegRBX, elf.RegRBP, elf.RegR12, elf.RegR13, elf.RegR14, elf.RegR15} {
		if v, ok := regs.Get(n); ok {
			out.Set(n, v)
		}
	}
	return out
}

func (w *walker) read(addr uint64) (uint64, error) {
	if _, err := w.mem.ReadAt(w.word[:], addr); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(w.word[:]), nil
}

func (w *walker) read32(addr uint64) (uint64, error) {
	if _, err := w.mem.ReadAt(w.word[:4], addr); err != nil {
		return 0, err
	}
	return uint64(binary.LittleEndian.Uint32(w.word[:4])), nil
}

// step32 goes by frame pointers of 4 bytes, the only way for 32-bit code.
func (w *walker) step32() {
	w.stop = Stop32 // unless there is a frame
	bp, ok := w.regs.Get(elf.RegRBP)
	sp, okSP := w.regs.Get(elf.RegRSP)
	if !ok || !okSP || bp < sp || bp >= 1<<32-8 || bp%4 != 0 {
		return
	}
	next, err := w.read32(bp)
	if err != nil {
		return
	}
	ra, err := w.read32(bp + 4)
	if err != nil || ra == 0 || !w.mods.Executable(ra-1) {
		return
	}
	var caller elf.Registers
	caller.Set(elf.RegRBP, next)
	caller.Set(elf.RegRSP, bp+8)
	caller.Set(elf.RegRIP, ra)
	w.mayMiss = true
	if w.enter(caller, ByFramePointer) {
		w.stop = ""
	}
}
