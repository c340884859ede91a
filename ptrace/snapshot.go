package ptrace

import (
	"context"
	"fmt"
	"time"

	"procinsh/proc"
)

const (
	maxInstructions   = 32     // of one thread, from RIP on
	maxStackBytes     = 512    // of one thread's stack that are shown
	maxSnapshotFrames = 65_536 // of all threads together; threads with equal stacks share theirs
)

// StopTooMany ends the walks of a snapshot that has 65,536 frames already.
const StopTooMany = "too many frames in this snapshot"

const error32 = "32-bit code is not decoded"

// Snapshot is a process at one instant.
type Snapshot struct {
	At     time.Time // when all threads stood
	ID     proc.ID
	Paused time.Duration // first stop requested to last thread released
	// PausedRunning is the same for the threads that were running; 0 when none was.
	PausedRunning time.Duration
	Threads       []Thread // by order of attaching
	Maps          []proc.Mapping
	NotStopped    []NotStopped
	Warnings      []string
	Passes        int
	Priority      Priority
}

// Thread is one thread of a snapshot.
//
// Absent: without registers all but TID, Name and Err is zero. Call is nil when
// the thread stands in no system call; when it is set RAX holds a code for the
// kernel, no result.
type Thread struct {
	TID                int32
	Name               string // raw bytes
	Registers          []Register
	Code32             bool
	Call               *Call
	CallStack          []Frame
	UnwindStop         string // why CallStack ends
	FramesMayBeMissing bool
	Disassembly        *Disassembly
	Stack              Copy // up to 512 bytes from RSP on
	Err                string
}

// Call is the system call a thread stands in.
type Call struct {
	Number int64
	Name   proc.Opt[string] // by the table of i386 for 32-bit code
}

// Disassembly is the code from RIP on; the first instruction is the next to run.
type Disassembly struct {
	Address      uint64
	Bytes        []byte
	Instructions []Instruction // at most 32
	Err          string        // why there are none
}

// Take takes a snapshot: all threads are stopped, copied and let go by Capture.
// After that their stacks are unwound, named and their code is decoded.
//
// Errors: those of Capture. One about a single thread is in that thread.
// Effect: that of Capture.
func Take(ctx context.Context, procFS *proc.FS, id proc.ID, symbols *Symbols) (*Snapshot, error) {
	p, err := procFS.OpenProcess(id)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	raw, err := Capture(ctx, p, Options{})
	if err != nil {
		return nil, err
	}
	mods, err := OpenModules(procFS, id, symbols, raw.Maps, Live{p})
	if err != nil {
		return nil, err
	}
	defer mods.Close()
	s := &Snapshot{
		At: raw.At, ID: id, Paused: raw.Paused, PausedRunning: raw.PausedRunning, Maps: raw.Maps, NotStopped: raw.NotStopped, Passes: raw.Passes,
		Priority: raw.Priority, Threads: make([]Thread, 0, len(raw.Threads)), Warnings: raw.Warnings,
	}
	w := &snapshotWriter{mods: mods, kinds: newKinds(raw), live: Live{p}, same: raw.Same, stacks: map[string][]Frame{}}
	for i := range raw.Threads {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		s.Threads = append(s.Threads, w.thread(&raw.Threads[i]))
	}
	if w.frames >= maxSnapshotFrames {
		s.Warnings = append(s.Warnings, fmt.Sprintf("the stacks have more than %d frames in all; later threads show none or few", maxSnapshotFrames))
	}
	for _, n := range raw.NotStopped {
		s.Warnings = append(s.Warnings, fmt.Sprintf("thread %d is not part of the snapshot: %s", n.TID, n.Reason))
	}
	if text := interruptedCalls(raw.Threads); text != "" {
		s.Warnings = append(s.Warnings, text)
	}
	s.Warnings = append(s.Warnings, mods.Warnings()...)
	if err := p.Check(); err != nil {
		return nil, err
	}
	return s, nil
}

// snapshotWriter makes threads out of what was copied of them.
type snapshotWriter struct {
	mods   *Modules
	kinds  *kinds
	live   Live
	same   bool // the process still runs the same program
	stacks map[string][]Frame
	frames int
	key    []byte
}

func (w *snapshotWriter) thread(r *RawThread) Thread {
	t := Thread{TID: r.TID, Name: r.Name, Code32: r.Code32, Err: r.Err}
	if !r.Registers {
		return t
	}
	t.Registers = w.kinds.registers(&r.Regs)
	if nr, in := r.Syscall(); in {
		t.Call = &Call{nr, proc.SyscallName(nr, r.Code32)}
	}
	t.Stack = shownStack(r)
	t.Disassembly = w.disassembly(r)
	w.callStack(&t, r)
	return t
}

// callStack unwinds and names. What was not copied while the process stood is
// read only where it cannot have changed.
func (w *snapshotWriter) callStack(t *Thread, r *RawThread) {
	if w.frames >= maxSnapshotFrames {
		t.UnwindStop = StopTooMany
		return
	}
	var memory Memory = Copies{r.Stack, r.Other, r.Code}
	if w.same {
		memory = Stood{Copied: memory, Live: w.live, Fixed: w.mods.Fixed}
	}
	regs := RegsOf(&r.Regs)
	regs.Code32 = r.Code32
	raw, stop, mayMiss := Unwind(regs, memory, w.mods, maxFrames)
	t.UnwindStop, t.FramesMayBeMissing = stop, mayMiss
	w.key = w.key[:0]
	for _, f := range raw {
		w.key = append(w.key, byte(f.By), b2i(f.Exact))
		for i := range 8 {
			w.key = append(w.key, byte(f.PC>>(8*i)))
		}
	}
	known, ok := w.stacks[string(w.key)]
	if !ok {
		if room := maxSnapshotFrames - w.frames; len(raw) > room {
			raw, t.UnwindStop = raw[:room], StopTooMany
		}
		known = w.mods.Symbolize(raw)
		w.frames += len(known)
		if t.UnwindStop != StopTooMany {
			w.stacks[string(w.key)] = known
		}
	}
	t.CallStack = known
}

func b2i(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func (w *snapshotWriter) disassembly(r *RawThread) *Disassembly {
	d := &Disassembly{Address: r.Regs.Rip, Bytes: r.Code.Bytes}
	switch {
	case r.Code32:
		d.Err = error32
	case len(r.Code.Bytes) == 0:
		d.Err = fmt.Sprintf("no readable code at %#x", r.Regs.Rip)
	default:
		d.Instructions = Decode(r.Code.Bytes, r.Regs.Rip, maxInstructions, w.mods.Name)
	}
	return d
}

// shownStack is the part of the stack from RSP on.
func shownStack(r *RawThread) Copy {
	skip := r.Regs.Rsp - r.Stack.Address
	if skip >= uint64(len(r.Stack.Bytes)) {
		return Copy{Address: r.Regs.Rsp}
	}
	b := r.Stack.Bytes[skip:]
	b = b[:min(len(b), maxStackBytes)]
	return Copy{Address: r.Regs.Rsp, Bytes: append([]byte(nil), b...)}
}
