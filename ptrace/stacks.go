package ptrace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"procinsh/elf"
	"procinsh/proc"
)

const (
	maxStackThreads = 4096            // threads of one answer
	maxStackTime    = 2 * time.Second // of looking at threads
	maxNameTime     = 5 * time.Second // of naming their frames after that
	maxStackTries   = 3               // readings of the stack of a thread that moves meanwhile
	stackCopy       = 64 << 10        // bytes of one stack copied at once; what lies above is read as it is needed
)

// Stacks is where the threads of a process are, found without stopping one.
type Stacks struct {
	ID         proc.ID
	CapturedAt time.Time
	Threads    []ThreadStack // by TID
	Warnings   []string
}

// ThreadStack is one thread.
//
// Absent: Call is nil for a thread that is in no system call; WaitChannel is ""
// when it waits nowhere or may not be asked; KernelStack is nil when not permitted.
// CallStack is nil for a thread that runs and for one of which Err says why; it is
// empty for a kernel thread.
type ThreadStack struct {
	TID         int32
	Name        string
	State       byte
	Call        *SystemCall
	WaitChannel string
	KernelStack []string // innermost first
	CallStack   []Frame  // innermost first
	// Stable: the thread had not moved when it was looked at again after its
	// stack was read, so the stack is that of one moment.
	Stable             bool
	UnwindStop         string // why CallStack ends
	FramesMayBeMissing bool
	Code32             bool
	Err                string // "" when all went well
}

// SystemCall is what a thread asked the kernel for.
type SystemCall struct {
	Number    int64
	Name      proc.Opt[string] // unknown for a number without a name
	Arguments [6]uint64
}

// ReadStacks returns where the threads of a process are, or of one thread when tid
// is not 0. Nothing is stopped: a thread that sleeps does not move, and the kernel
// tells its stack pointer and program counter. Its other registers are not known,
// so where a function keeps its frame in one of those the walk ends.
//
// At most 4,096 threads are looked at, for 2 s, and frames named for 5 s more; what
// is left out is a warning.
//
// Errors: proc.ErrGone, also for a tid that is no thread of the process;
// fs.ErrPermission; ctx's. A thread that ends meanwhile is left out.
// Effect: none on the target but for what proc.Process.ReadMaps and ReadMemory do.
// Source: /proc/PID/task/TID/syscall, proc_pid_syscall(5); process_vm_readv(2).
func ReadStacks(ctx context.Context, procFS *proc.FS, id proc.ID, tid int32, symbols *Symbols) (*Stacks, error) {
	r := stackReader{ctx: ctx, threads: maxStackThreads, within: maxStackTime, naming: maxNameTime}
	return r.read(procFS, id, tid, symbols)
}

type stackReader struct {
	ctx     context.Context
	threads int
	within  time.Duration
	naming  time.Duration

	p     *proc.Process
	mods  *Modules
	stack []byte
}

func (r *stackReader) read(procFS *proc.FS, id proc.ID, tid int32, symbols *Symbols) (*Stacks, error) {
	p, err := procFS.OpenProcess(id)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	tids, more, err := p.ReadTIDs()
	if err != nil {
		return nil, err
	}
	if tid != 0 {
		if !slices.Contains(tids, tid) {
			return nil, fmt.Errorf("thread %d: %w", tid, proc.ErrGone)
		}
		tids, more = []int32{tid}, false
	}
	out := &Stacks{ID: id, CapturedAt: time.Now(), Threads: []ThreadStack{}, Warnings: []string{}}
	maps, err := p.ReadMaps(nil)
	if err != nil {
		if !errors.Is(err, proc.ErrTruncated) {
			return nil, err
		}
		out.Warnings = append(out.Warnings, err.Error())
	}
	r.p, r.stack = p, make([]byte, stackCopy)
	if r.mods, err = OpenModules(procFS, id, symbols, maps, Live{p}); err != nil {
		return nil, err
	}
	defer r.mods.Close()
	if len(tids) > r.threads {
		tids, more = tids[:r.threads], true
	}
	end := out.CapturedAt.Add(r.within)
	var walks [][]RawFrame
	for i, tid := range tids {
		if err := r.ctx.Err(); err != nil {
			return nil, err
		}
		if i > 0 && time.Now().After(end) {
			out.Warnings = append(out.Warnings, fmt.Sprintf("reading took longer than %s; %d of %d threads are shown", r.within, i, len(tids)))
			break
		}
		if t, walk, ok := r.thread(tid); ok {
			out.Threads = append(out.Threads, t)
			walks = append(walks, walk)
		}
	}
	if err := r.name(out, walks); err != nil {
		return nil, err
	}
	if more {
		out.Warnings = append(out.Warnings, fmt.Sprintf("the process has more threads; the first %d are shown", r.threads))
	}
	out.Warnings = append(out.Warnings, r.mods.Warnings()...)
	if err := p.Check(); err != nil {
		return nil, err
	}
	return out, nil
}

// name turns walks into frames. When it takes too long the rest stays without names.
func (r *stackReader) name(out *Stacks, walks [][]RawFrame) error {
	end := time.Now().Add(r.naming)
	late := false
	for i, walk := range walks {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if walk == nil {
			continue
		}
		if !late && time.Now().After(end) {
			late = true
			out.Warnings = append(out.Warnings, fmt.Sprintf("naming frames took longer than %s; those of %d threads have only what was known by then", r.naming, len(walks)-i))
		}
		out.Threads[i].CallStack = r.mods.symbolize(walk, late)
	}
	return nil
}

// thread looks at one thread; false when it has ended.
func (r *stackReader) thread(tid int32) (ThreadStack, []RawFrame, bool) {
	w, err := r.p.ReadWait(tid)
	if err != nil {
		if errors.Is(err, proc.ErrGone) {
			return ThreadStack{}, nil, false
		}
		return ThreadStack{TID: tid, State: '?', Err: err.Error()}, nil, true
	}
	t := ThreadStack{TID: tid, Name: w.Name, State: w.State, WaitChannel: w.WaitChannel.Or(""), KernelStack: w.KernelStack}
	switch pos := w.Position; {
	case w.State == 'Z' || w.State == 'X':
		t.Err = "the thread has ended"
	case w.Err != nil:
		t.Err = refused(w.Err)
	case !pos.Blocked:
	case pos.PC == 0 && pos.SP == 0:
		t.CallStack, t.UnwindStop, t.Stable = []Frame{}, StopNoUser, true
	default:
		return t, r.walk(&t, pos), true
	}
	return t, nil, true
}

func refused(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "not permitted; the same owner, kernel.yama.ptrace_scope or CAP_SYS_PTRACE decides"
	}
	return err.Error()
}

// walk follows the stack of a thread that waits at pos. If the thread has moved
// meanwhile it is followed again, a few times.
func (r *stackReader) walk(t *ThreadStack, pos proc.Position) (frames []RawFrame) {
	for range maxStackTries {
		t.Code32 = pos.PC < 1<<32 && pos.SP < 1<<32 && r.mods.Code32(pos.PC)
		t.Call = nil
		if pos.Number >= 0 {
			t.Call = &SystemCall{pos.Number, proc.SyscallName(pos.Number, t.Code32), pos.Arguments}
		}
		memory := Layers{r.copyStack(pos.SP), Live{r.p}}
		frames, t.UnwindStop, t.FramesMayBeMissing = Unwind(waiting(pos, t.Code32), memory, r.mods, maxFrames)
		again, err := r.p.ReadPosition(t.TID)
		if t.Stable = err == nil && again == pos; t.Stable || err != nil || !again.Blocked || again.PC == 0 {
			break
		}
		pos = again
	}
	return frames
}

// copyStack copies the stack from a little below sp to the end of its mapping.
func (r *stackReader) copyStack(sp uint64) Copy {
	v := r.mods.Mapping(sp)
	if v == nil {
		return Copy{}
	}
	n, err := r.p.ReadMemory(sp, r.stack[:min(uint64(len(r.stack)), v.End-sp)])
	if err != nil {
		return Copy{}
	}
	return Copy{Address: sp, Bytes: r.stack[:n]}
}

// waiting returns the registers that are known of a thread in the kernel. Besides
// SP and PC those are what it passed to a system call.
func waiting(pos proc.Position, code32 bool) Regs {
	regs := Regs{Code32: code32}
	regs.Set(elf.RegRSP, pos.SP)
	regs.Set(elf.RegRIP, pos.PC)
	if pos.Number < 0 {
		return regs
	}
	order := [6]int{elf.RegRDI, elf.RegRSI, elf.RegRDX, elf.RegR10, elf.RegR8, elf.RegR9}
	if code32 {
		order = [6]int{elf.RegRBX, elf.RegRCX, elf.RegRDX, elf.RegRSI, elf.RegRDI, elf.RegRBP}
	}
	for i, n := range order {
		regs.Set(n, pos.Arguments[i])
	}
	return regs
}
