package ptrace

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/elf"
	"procinsh/proc"
)

func take(t testing.TB, pid int32) *Snapshot {
	t.Helper()
	fs, err := proc.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	s, err := Take(within(t, 60*time.Second), fs, identify(t, pid), NewSymbols(elf.DefaultLimit))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// functions lists the names of a stack, innermost first.
func functions(frames []Frame) []string {
	var names []string
	for _, f := range frames {
		if len(f.Inline) > 0 {
			for _, l := range f.Inline {
				names = append(names, l.Function)
			}
			continue
		}
		names = append(names, f.Symbol)
	}
	return names
}

func TestTake(t *testing.T) {
	tg := startTarget(t, "threads", "4")
	settled(t, tg.pid, "S", 4)
	s := take(t, tg.pid)
	if s.ID != identify(t, tg.pid) || len(s.Threads) != 4 || len(s.NotStopped) != 0 || s.Paused <= 0 || s.Passes < 1 || s.Priority != permitted() {
		t.Errorf("snapshot: %+v", s)
	}
	want := map[string]string{"sleeper": "pause", "mover": "clock_nanosleep", "serve": "read"}
	for _, th := range s.Threads {
		names := functions(th.CallStack)
		var role string
		for r := range want {
			if slices.Contains(names, r) {
				role = r
			}
		}
		if role == "" || th.UnwindStop != StopEnd || th.FramesMayBeMissing || th.Err != "" {
			t.Errorf("thread %d: stack %v, stop %q", th.TID, names, th.UnwindStop)
			continue
		}
		if role == "mover" && th.Call == nil {
			continue // it happens to run
		}
		if th.Call == nil || th.Call.Name != proc.Some(want[role]) {
			t.Errorf("%s: system call %+v, want %s", role, th.Call, want[role])
		}
		checkRegisters(t, s, &th)
		d := th.Disassembly
		if d == nil || d.Err != "" || len(d.Instructions) == 0 || len(d.Instructions) > maxInstructions || d.Instructions[0].Address != d.Address || d.Address != th.Registers[0].Value {
			t.Fatalf("%s: disassembly %+v", role, d)
		}
		// Behind the SYSCALL instruction the C library compares the result with -4095.
		if !strings.HasPrefix(d.Instructions[0].Text, "cmp ") && role != "mover" {
			t.Errorf("%s: first instruction %q", role, d.Instructions[0].Text)
		}
		if th.Stack.Address != th.Registers[1].Value || len(th.Stack.Bytes) != maxStackBytes {
			t.Errorf("%s: %d bytes of stack at %#x", role, len(th.Stack.Bytes), th.Stack.Address)
		}
	}
	free(t, tg.pid)
	moving(t, tg)
}

func checkRegisters(t *testing.T, s *Snapshot, th *Thread) {
	t.Helper()
	order := strings.Fields("RIP RSP RBP RAX RBX RCX RDX RSI RDI R8 R9 R10 R11 R12 R13 R14 R15 RFLAGS")
	if len(th.Registers) != len(order) {
		t.Fatalf("%d registers", len(th.Registers))
	}
	for i, r := range th.Registers {
		if r.Name != order[i] {
			t.Errorf("register %d: %s, want %s", i, r.Name, order[i])
		}
		if (r.Kind == KindInteger) != (r.Mapping == nil) {
			t.Errorf("%s: kind %s, mapping %v", r.Name, r.Kind, r.Mapping)
		}
		if m := r.Mapping; m != nil && (m.Start+r.Offset != r.Value || r.Value >= m.End || !slices.ContainsFunc(s.Maps, func(v proc.Mapping) bool { return v == *m })) {
			t.Errorf("%s: %#x in %+v at %#x", r.Name, r.Value, m, r.Offset)
		}
	}
	for i, want := range []Kind{KindLibrary, KindStack} {
		if th.Registers[i].Kind != want {
			t.Errorf("%s: kind %s, want %s", th.Registers[i].Name, th.Registers[i].Kind, want)
		}
	}
}

func TestTakeSpinning(t *testing.T) {
	tg := startTarget(t, "spin", "3")
	program := 0
	for _, th := range take(t, tg.pid).Threads {
		if th.Registers[0].Kind == KindProgram {
			program++
			if th.Call != nil || !slices.Contains(functions(th.CallStack), "spinner") || th.Disassembly.Instructions[0].Address != th.CallStack[0].Address {
				t.Errorf("thread %d: call %v, stack %v", th.TID, th.Call, functions(th.CallStack))
			}
		}
	}
	if program != 2 {
		t.Errorf("%d threads in the program's own code, want 2", program)
	}
}

func TestTakeWarns(t *testing.T) {
	tg := startTarget(t, "eintr")
	var s *Snapshot
	// Between two calls a thread is in none.
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		s = take(t, tg.pid)
		if slices.ContainsFunc(s.Warnings, func(w string) bool {
			return strings.Contains(w, "EINTR") && strings.Contains(w, "epoll_wait (1 thread)") && strings.Contains(w, "semtimedop") && !strings.Contains(w, "nanosleep")
		}) {
			break
		}
		if time.Now().After(until) {
			t.Errorf("warnings: %q", s.Warnings)
			break
		}
	}
	tg = startTarget(t, "leaderless")
	s = take(t, tg.pid)
	if len(s.Threads) != 2 || !slices.ContainsFunc(s.Warnings, func(w string) bool { return strings.Contains(w, "main thread has ended") }) {
		t.Errorf("%d threads, warnings %q", len(s.Threads), s.Warnings)
	}
	for _, th := range s.Threads {
		if th.UnwindStop != StopEnd {
			t.Errorf("thread %d: %v, %s", th.TID, functions(th.CallStack), th.UnwindStop)
		}
	}
}

// TestTakeAlternateStack: the stack below a handler that runs on a stack of its own
// is copied too.
func TestTakeAlternateStack(t *testing.T) {
	tg := startTarget(t, "altstack")
	settled(t, tg.pid, "S", 2) // the thread that said READY has ended
	for _, th := range take(t, tg.pid).Threads {
		names := functions(th.CallStack)
		for _, want := range []string{"on_fault", "faulty", "below"} {
			if !slices.Contains(names, want) {
				t.Errorf("thread %d: %v lacks %s, stop %q", th.TID, names, want, th.UnwindStop)
			}
		}
		if th.UnwindStop != StopEnd || !slices.ContainsFunc(th.CallStack, func(f Frame) bool { return f.By == BySignalFrame }) {
			t.Errorf("thread %d: %v, stop %q", th.TID, names, th.UnwindStop)
		}
	}
}

func TestTakeErrors(t *testing.T) {
	fs, err := proc.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	symbols := NewSymbols(elf.DefaultLimit)
	if s, err := Take(context.Background(), fs, identify(t, int32(os.Getpid())), symbols); !errors.Is(err, ErrSelf) || s != nil {
		t.Errorf("self: %v, %v", s, err)
	}
	id := identify(t, int32(os.Getppid()))
	id.StartTicks++
	if s, err := Take(context.Background(), fs, id, symbols); !errors.Is(err, proc.ErrGone) || s != nil {
		t.Errorf("another start time: %v, %v", s, err)
	}
}

func TestKinds(t *testing.T) {
	mapping := func(start, end uint64, perm, path string, ino uint64) proc.Mapping {
		return proc.Mapping{Start: start, End: end, Permissions: [4]byte([]byte(perm)), Path: path, Inode: ino}
	}
	raw := &Raw{program: 0x1100, Maps: []proc.Mapping{
		mapping(0x1000, 0x2000, "r-xp", "/bin/prog", 1),
		mapping(0x2000, 0x3000, "rw-p", "/bin/prog", 1),
		mapping(0x3000, 0x4000, "rw-p", "[heap]", 0),
		mapping(0x5000, 0x6000, "r-xp", "/lib/a.so (deleted)", 2),
		mapping(0x6000, 0x7000, "r--p", "/lib/a.so (deleted)", 2),
		mapping(0x7000, 0x8000, "r--s", "/data", 3),
		mapping(0x8000, 0x9000, "rw-p", "", 0),
		mapping(0xa000, 0xb000, "rw-p", "", 0),
		mapping(0x10000000, 0x20000000, "rw-p", "", 0),
		mapping(0x7ff000000000, 0x7ff000001000, "rw-p", "[stack]", 0),
		mapping(0x7ff000002000, 0x7ff000003000, "r-xp", "[vdso]", 0),
	}, Threads: []RawThread{
		{Registers: true, Regs: regsAt(0x8800)},
		{Registers: true, Regs: regsAt(0x11000000), Stack: Copy{0x11000000 - redZone, make([]byte, 4096)}},
	}}
	k := newKinds(raw)
	for addr, want := range map[uint64]Kind{
		0: KindInteger, 0x4500: KindInteger, ^uint64(0): KindInteger, 0x4000: KindInteger,
		0x1000: KindProgram, 0x2fff: KindProgram, 0x3000: KindHeap, 0x5000: KindLibrary, 0x6fff: KindLibrary, 0x7000: KindFile,
		0x8000: KindStack, 0xa000: KindAnonymous, 0x11000010: KindStack, 0x11001000: KindAnonymous, 0x10000000: KindAnonymous,
		0x7ff000000010: KindStack, 0x7ff000002010: KindLibrary,
	} {
		if got, m := k.of(addr); got != want || (m == nil) != (want == KindInteger) {
			t.Errorf("%#x: got %s in %v, want %s", addr, got, m, want)
		}
	}
}

func regsAt(sp uint64) (r unix.PtraceRegs) {
	r.Rsp = sp
	return r
}
