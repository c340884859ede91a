package ptrace

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/elf"
	"procinsh/proc"
)

func stacksOf(t *testing.T, p *program, tid int32) *Stacks {
	t.Helper()
	s, err := ReadStacks(t.Context(), openProc(t), p.id(), tid, NewSymbols(elf.DefaultLimit))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestReadStacksOfThreads(t *testing.T) {
	p := start(t, compile(t, "chains.c", bareFlags...), "thread")
	await(t, p.pid(), "S")
	s := stacksOf(t, p, 0)
	if s.ID != p.id() || time.Since(s.CapturedAt) > time.Minute || len(s.Threads) != 2 || len(s.Warnings) != 0 {
		t.Fatalf("%+v", s)
	}
	if s.Threads[0].TID != int32(p.pid()) || s.Threads[1].TID <= s.Threads[0].TID {
		t.Errorf("threads %d and %d, want the leader first", s.Threads[0].TID, s.Threads[1].TID)
	}
	other := s.Threads[1]
	walk{other.CallStack, other.UnwindStop, false}.want(t, "pause", "stop_here", "middle", "outer", "on_thread", "start_thread")
	for _, th := range s.Threads {
		if th.State != 'S' || th.Name != "chains" || th.Err != "" || !th.Stable || th.UnwindStop != StopEnd || th.WaitChannel == "" {
			t.Errorf("%+v", th)
		}
		if os.Geteuid() == 0 && len(th.KernelStack) == 0 {
			t.Error("no kernel stack for root")
		}
	}
	if c := s.Threads[0].Call; c == nil || c.Name.Or("") != "futex" || c.Arguments[0] == 0 {
		t.Errorf("the leader waits in %+v, want futex", c)
	}
	one := stacksOf(t, p, other.TID)
	if len(one.Threads) != 1 || one.Threads[0].TID != other.TID {
		t.Errorf("one thread: %+v", one)
	}
	if _, err := ReadStacks(t.Context(), openProc(t), p.id(), 1, NewSymbols(elf.DefaultLimit)); !errors.Is(err, proc.ErrGone) {
		t.Errorf("a thread of another process: %v", err)
	}
	wrong := p.id()
	wrong.StartTicks++
	if _, err := ReadStacks(t.Context(), openProc(t), wrong, 0, NewSymbols(elf.DefaultLimit)); !errors.Is(err, proc.ErrGone) {
		t.Errorf("another start time: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ReadStacks(ctx, openProc(t), p.id(), 0, NewSymbols(elf.DefaultLimit)); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that went away: %v", err)
	}
}

func TestReadStacksCaps(t *testing.T) {
	p := start(t, compile(t, "chains.c", bareFlags...), "thread")
	await(t, p.pid(), "S")
	fs := openProc(t)
	for _, tt := range []struct {
		r       stackReader
		threads int
		named   bool
		warning string
	}{
		{stackReader{threads: 1, within: time.Minute, naming: time.Minute}, 1, true, "the process has more threads; the first 1 are shown"},
		{stackReader{threads: 9, within: -1, naming: time.Minute}, 1, true, "1 of 2 threads are shown"},
		{stackReader{threads: 9, within: time.Minute, naming: -1}, 2, false, "naming frames took longer"},
	} {
		tt.r.ctx = t.Context()
		s, err := tt.r.read(fs, p.id(), 0, NewSymbols(elf.DefaultLimit))
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Threads) != tt.threads || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], tt.warning) {
			t.Errorf("%d threads, warnings %q; want %d and %q", len(s.Threads), s.Warnings, tt.threads, tt.warning)
		}
		if f := s.Threads[0].CallStack; len(f) < 3 || (f[2].Symbol != "") != tt.named || f[2].Address == 0 || f[2].Module == "" {
			t.Errorf("%s: frames %+v", tt.warning, f)
		}
	}
}

func TestReadStacksOfZombieLeader(t *testing.T) {
	needRoot(t)
	p := start(t, compile(t, "chains.c", bareFlags...), "zombie")
	for until := time.Now().Add(patience); state(p.pid(), p.pid()) != 'Z' && time.Now().Before(until); {
		time.Sleep(2 * time.Millisecond)
	}
	await(t, p.pid(), "ZS")
	s := stacksOf(t, p, 0)
	if len(s.Threads) != 2 {
		t.Fatalf("%+v", s)
	}
	if l := s.Threads[0]; l.State != 'Z' || l.CallStack != nil || l.Err == "" || l.Stable {
		t.Errorf("leader %+v", l)
	}
	other := s.Threads[1]
	walk{other.CallStack, other.UnwindStop, false}.want(t, "pause", "stop_here", "middle", "outer", "on_thread")
}

func TestReadStacksOfRunningThread(t *testing.T) {
	p := startCmd(t, exec.Command("sh", "-c", "echo READY; while :; do :; done"))
	s := stacksOf(t, p, 0)
	if th := s.Threads[0]; th.CallStack != nil || th.Err != "" || th.Call != nil || th.Stable || th.UnwindStop != "" {
		t.Errorf("%+v, want no stack and no error", th)
	}
}

func TestReadStacksOfKernelThread(t *testing.T) {
	needRoot(t)
	if comm, _ := os.ReadFile("/proc/2/comm"); string(comm) != "kthreadd\n" {
		t.Skip("process 2 is no kernel thread here: another PID namespace")
	}
	s, err := ReadStacks(t.Context(), openProc(t), idOf(t, 2), 0, NewSymbols(elf.DefaultLimit))
	if err != nil {
		t.Fatal(err)
	}
	if th := s.Threads[0]; th.CallStack == nil || len(th.CallStack) != 0 || th.UnwindStop != StopNoUser || len(th.KernelStack) == 0 || th.Call != nil || th.Err != "" {
		t.Errorf("%+v", th)
	}
}

// Code made at run time has the names of its perf map, in anonymous memory alone.
func TestReadStacksJIT(t *testing.T) {
	needRoot(t)
	exe := filepath.Join(t.TempDir(), "jit")
	if out, err := exec.Command("gcc", "-O2", "-o", exe, "testdata/unwind/jit.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v %s", err, out)
	}
	p := start(t, exe)
	path := fmt.Sprintf("/tmp/perf-%d.map", p.pid())
	defer os.Remove(path)
	await(t, p.pid(), "S")
	symbols := NewSymbols(elf.DefaultLimit)
	fs := openProc(t)
	read := func() []Frame {
		s, err := ReadStacks(t.Context(), fs, p.id(), 0, symbols)
		if err != nil || len(s.Warnings) > 0 {
			t.Fatalf("%+v %v", s, err)
		}
		return s.Threads[0].CallStack
	}
	code := p.addr("CODE")
	main := p.addr("MAIN")
	f := read()
	if len(f) < 3 || f[0].Symbol != "" || f[1].Symbol != "main" {
		t.Fatalf("without a map: %+v", f)
	}
	names := fmt.Sprintf("%x 40 first\n%x 40 JS:*f file name.js:3:15\n%x 1000 wrong\n", code, code, main&^0xfff)
	if err := os.WriteFile(path, []byte(names), 0o600); err != nil {
		t.Fatal(err)
	}
	if f = read(); f[0].Symbol != "JS:*f file name.js:3:15" || f[0].SymbolOffset != f[0].Address-code || f[0].Module != "" || f[1].Symbol != "main" {
		t.Errorf("with a map: %+v", f)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(file, "%x 40 later\n", code)
	file.Close()
	if f = read(); f[0].Symbol != "later" {
		t.Errorf("after more was written: %+v", f[0])
	}
	if n := len(symbols.jit.maps); n != 1 {
		t.Errorf("%d maps kept", n)
	}
}

func TestPerfMapsAreFew(t *testing.T) {
	var p perfMaps
	for i := range 2 * cachedPerfMaps {
		m := p.acquire(proc.ID{PID: int32(i)})
		p.release(m)
	}
	if len(p.maps) != cachedPerfMaps || p.maps[len(p.maps)-1].id.PID != 2*cachedPerfMaps-1 {
		t.Errorf("%d maps kept, the last of %+v", len(p.maps), p.maps[len(p.maps)-1].id)
	}
	big := p.acquire(proc.ID{PID: 1000})
	big.bytes = cachedPerfMapBytes + 1
	other := p.acquire(proc.ID{PID: 1001})
	p.release(other)
	if !slices.Contains(p.maps, big) {
		t.Error("a map in use was dropped")
	}
	p.release(big)
	if slices.Contains(p.maps, big) {
		t.Error("a map over the limit was kept")
	}
}

func TestMemories(t *testing.T) {
	a, b := Copy{100, []byte("0123456789")}, Copy{110, []byte("abc")}
	for _, tt := range []struct {
		m    Memory
		addr uint64
		n    int
		want string
	}{
		{a, 100, 10, "0123456789"}, {a, 105, 3, "567"}, {a, 105, 6, ""}, {a, 99, 1, ""}, {a, 110, 1, ""}, {Copy{}, 0, 1, ""}, {Copy{^uint64(0), []byte("x")}, 0, 1, ""},
		{Copies{a, b}, 109, 1, "9"}, {Copies{a, b}, 109, 2, ""}, {Copies{a, b}, 111, 2, "bc"}, {Copies{}, 1, 1, ""},
		{Layers{b, a}, 101, 2, "12"}, {Layers{}, 1, 1, ""}, {Layers{a, b}, 112, 1, "c"},
		{Stood{b, a, func(addr uint64) bool { return addr >= 105 }}, 106, 2, "67"}, {Stood{b, a, func(addr uint64) bool { return addr >= 105 }}, 104, 2, ""},
		{Stood{b, a, func(addr uint64) bool { return addr < 105 }}, 104, 2, ""}, {Stood{b, a, func(uint64) bool { return false }}, 110, 2, "ab"},
	} {
		buf := make([]byte, tt.n)
		n, err := tt.m.ReadAt(buf, tt.addr)
		if tt.want == "" {
			if !errors.Is(err, ErrNotCopied) || n == tt.n {
				t.Errorf("%T at %d: %d bytes, %v, want not copied", tt.m, tt.addr, n, err)
			}
		} else if err != nil || n != tt.n || string(buf) != tt.want {
			t.Errorf("%T at %d: %q, %v, want %q", tt.m, tt.addr, buf[:n], err, tt.want)
		}
	}
}

// codeAlone is a process that has nothing but two pieces of code at 0x1000 and
// 0x2000, and a stack.
func codeAlone() *Modules {
	m := &Modules{jitNone: true, state: map[int]*mapped{}, opened: map[fileID]*module{}, frames: map[uint64]elf.Frame{}, names: map[uint64]string{}}
	for _, v := range []struct {
		start uint64
		perm  string
	}{{0x1000, "r-xp"}, {0x2000, "r-xp"}, {0x7000, "rw-p"}} {
		m.maps = append(m.maps, proc.Mapping{Start: v.start, End: v.start + 0x1000, Permissions: [4]byte([]byte(v.perm))})
	}
	return m
}

// What the code does to the stack up to its return, by itself.
func TestEpilogues(t *testing.T) {
	const sp, bp, ra = 0x7100, 0x7180, 0x2010
	for _, tt := range []struct {
		name string
		code []byte
		at   uint64 // where the return address lies; 0: not followed
		rbx  uint64 // of the caller
	}{
		{"ret", []byte{0xc3}, sp, 0xb},
		{"repz ret", []byte{0xf3, 0xc3}, sp, 0xb},
		{"ret 16", []byte{0xc2, 16, 0}, sp, 0xb},
		{"add rsp, 8; ret", []byte{0x48, 0x83, 0xc4, 8, 0xc3}, sp + 8, 0xb},
		{"add rsp, 0x100; ret", []byte{0x48, 0x81, 0xc4, 0, 1, 0, 0, 0xc3}, sp + 0x100, 0xb},
		{"pop rbx; pop r15; ret", []byte{0x5b, 0x41, 0x5f, 0xc3}, sp + 16, 0x5000},
		{"pop rax; ret", []byte{0x58, 0xc3}, sp + 8, 0xb},
		{"leave; ret", []byte{0xc9, 0xc3}, bp + 8, 0xb},
		{"mov rsp, rbp; pop rbp; ret", []byte{0x48, 0x89, 0xec, 0x5d, 0xc3}, bp + 8, 0xb},
		{"lea rsp, [rbp-8]; pop rbx; pop rbp; ret", []byte{0x48, 0x8d, 0x65, 0xf8, 0x5b, 0x5d, 0xc3}, bp + 8, 0x5000},
		{"lea rsp, [rsp+24]; ret", []byte{0x48, 0x8d, 0x64, 0x24, 24, 0xc3}, sp + 24, 0xb},
		{"mov eax, 1; xor ecx, ecx; ret", []byte{0xb8, 1, 0, 0, 0, 0x31, 0xc9, 0xc3}, sp, 0xb},
		{"mov ebx, 1; ret", []byte{0xbb, 1, 0, 0, 0, 0xc3}, sp, 0},
		{"vzeroupper; ret", []byte{0xc5, 0xf8, 0x77, 0xc3}, sp, 0xb},
		{"vzeroall by the longer prefix; ret", []byte{0xc4, 0xe1, 0x7c, 0x77, 0xc3}, sp, 0xb},
		{"vzeroupper; add rsp, 8; ret", []byte{0xc5, 0xf8, 0x77, 0x48, 0x83, 0xc4, 8, 0xc3}, sp + 8, 0xb},
		{"vpsllq zmm0, zmm1, 3 with W that is ignored; ret", []byte{0xc4, 0xe1, 0xf9, 0x73, 0xf1, 3, 0xc3}, sp, 0xb},
		{"vmovq rbx, xmm0; ret", []byte{0xc4, 0xe1, 0xf9, 0x7e, 0xc3, 0xc3}, sp, 0},
		{"vmovq rsp, xmm0; ret", []byte{0xc4, 0xe1, 0xf9, 0x7e, 0xc4, 0xc3}, 0, 0},
		{"rdsspq rax; ret", []byte{0xf3, 0x48, 0x0f, 0x1e, 0xc8, 0xc3}, 0, 0},
		{"endbr64; ret", []byte{0xf3, 0x0f, 0x1e, 0xfa, 0xc3}, sp, 0xb},
		{"test eax, eax; js; add rsp, 8; ret", []byte{0x85, 0xc0, 0x78, 2, 0x48, 0x83, 0xc4, 8, 0xc3}, sp + 8, 0xb},
		{"cmp rsp, rax; ret", []byte{0x48, 0x39, 0xc4, 0xc3}, sp, 0xb},
		{"mov rax, rsp; ret", []byte{0x48, 0x89, 0xe0, 0xc3}, sp, 0xb},
		{"mov rsp, rax; ret", []byte{0x48, 0x89, 0xc4, 0xc3}, 0, 0},
		{"and rsp, -16; ret", []byte{0x48, 0x83, 0xe4, 0xf0, 0xc3}, 0, 0},
		{"add rsp, rax; ret", []byte{0x48, 0x01, 0xc4, 0xc3}, 0, 0},
		{"add rsp, -8; ret", []byte{0x48, 0x83, 0xc4, 0xf8, 0xc3}, 0, 0},
		{"xchg rax, rsp; ret", []byte{0x48, 0x94, 0xc3}, 0, 0},
		{"pop rsp; ret", []byte{0x5c, 0xc3}, 0, 0},
		{"push rax; ret", []byte{0x50, 0xc3}, 0, 0},
		{"call; ret", []byte{0xe8, 0, 0, 0, 0, 0xc3}, 0, 0},
		{"jmp", []byte{0xeb, 0, 0xc3}, 0, 0},
		{"ud2; ret", []byte{0x0f, 0x0b, 0xc3}, 0, 0},
		{"syscall; ret", []byte{0x0f, 0x05, 0xc3}, 0, 0},
		{"unknown; ret", []byte{0x06, 0xc3}, 0, 0},
		{"cut", []byte{0x48, 0x83}, 0, 0},
		{"nops without an end", slices.Repeat([]byte{0x90}, maxCodeAhead), 0, 0},
	} {
		memory := make(wordMemory)
		for a := uint64(sp); a < sp+0x100; a += 8 {
			memory[a] = 0x5000
		}
		memory[bp] = 0x7777
		if tt.at != 0 {
			memory[tt.at] = ra
		} else {
			for a := uint64(sp - 0x40); a < sp+0x100; a += 8 {
				memory[a] = ra // wherever it looks
			}
		}
		w := walker{mods: codeAlone(), mem: memory}
		w.regs.Set(elf.RegRSP, sp)
		w.regs.Set(elf.RegRBP, bp)
		w.regs.Set(elf.RegRBX, 0xb)
		w.frames = []RawFrame{{PC: 0x1000, Exact: true}}
		found := w.epilogue(tt.code)
		if found != (tt.at != 0) {
			t.Errorf("%s: followed %v", tt.name, found)
			continue
		}
		if !found {
			continue
		}
		rsp, _ := w.regs.Get(elf.RegRSP)
		rbx, known := w.regs.Get(elf.RegRBX)
		want := tt.at + 8
		if tt.name == "ret 16" {
			want += 16
		}
		if rsp != want || w.frames[1].PC != ra || rbx != tt.rbx || known != (tt.rbx != 0) {
			t.Errorf("%s: RSP %#x, want %#x; RBX %#x %v, want %#x", tt.name, rsp, want, rbx, known, tt.rbx)
		}
	}
}

// wordMemory is memory of words.
type wordMemory map[uint64]uint64

func (m wordMemory) ReadAt(b []byte, addr uint64) (int, error) {
	v, ok := m[addr]
	if !ok || len(b) > 8 {
		return 0, ErrNotCopied
	}
	return copy(b, binary.LittleEndian.AppendUint64(nil, v)), nil
}

// Whatever the registers, the stack and the code hold, a walk ends and keeps its promises.
func FuzzUnwind(f *testing.F) {
	word := func(v ...uint64) []byte {
		var b []byte
		for _, v := range v {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		return b
	}
	f.Add([]byte{0x55, 0x48, 0x89, 0xe5, 0xc9, 0xc3}, word(0x7010, 0x1004, 0x7020, 0x2001, 0, 0), uint64(0x1000), uint64(0x7000), uint64(0x7000), false)
	f.Add([]byte{0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}, word(make([]uint64, 30)...), uint64(0x1000), uint64(0x7000), uint64(0x7000), false)
	f.Add([]byte{0x48, 0x83, 0xc4, 8, 0xc3}, word(0, 0x1000, 0x1000, 0x1000), uint64(0x1000), uint64(0x7000), uint64(0), false)
	f.Add([]byte{0xc9}, word(0x700000007010, 0x1004), uint64(0x1000), uint64(0x7000), uint64(0x7000), true)
	f.Fuzz(func(t *testing.T, code, stack []byte, pc, sp, bp uint64, code32 bool) {
		code = append(code, make([]byte, 0x1000)...)[:0x1000]
		memory := Copies{{0x1000, code}, {0x2000, code}, {0x7000, stack[:min(len(stack), 0x1000)]}}
		regs := Regs{Code32: code32}
		regs.Set(elf.RegRIP, pc)
		regs.Set(elf.RegRSP, sp)
		regs.Set(elf.RegRBP, bp)
		mods := codeAlone()
		frames, stop, _ := Unwind(regs, memory, mods, 0)
		if len(frames) == 0 || len(frames) > maxFrames || stop == "" || frames[0] != (RawFrame{PC: pc, Exact: true, By: ByRegisters}) {
			t.Errorf("%d frames, %q, first %+v", len(frames), stop, frames)
		}
		for _, f := range frames[1:] {
			if f.By == ByRegisters || f.By == ByCFI {
				t.Errorf("%+v without a table", f)
			}
			if f.By != BySignalFrame && !mods.Executable(f.PC-1) {
				t.Errorf("%+v is in no code", f)
			}
		}
		again, stopAgain, _ := Unwind(regs, memory, mods, 0)
		if !slices.Equal(frames, again) || stop != stopAgain {
			t.Errorf("two walks of one state differ")
		}
	})
}

func BenchmarkUnwind(b *testing.B) {
	// The stack of this very test as it waits in a child would be short: take a deep one.
	exe := filepath.Join(b.TempDir(), "chains")
	if out, err := exec.Command("gcc", append([]string{"-pthread", "-o", exe, "testdata/unwind/chains.c"}, bareFlags...)...).CombinedOutput(); err != nil {
		b.Skipf("gcc: %v %s", err, out)
	}
	cmd := exec.Command(exe, "many")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { stdin.Close(); cmd.Process.Kill(); cmd.Wait() }()
	time.Sleep(300 * time.Millisecond)
	regs, err := registersOf(cmd.Process.Pid)
	if err != nil {
		b.Skip(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks uint64
	fmt.Sscan(fields[19], &ticks)
	p, mods := mappedOf(b, proc.ID{PID: int32(cmd.Process.Pid), StartTicks: ticks}, NewSymbols(elf.DefaultLimit))
	sp, _ := regs.Get(elf.RegRSP)
	stack := make([]byte, 64<<10)
	n, err := p.ReadMemory(sp, stack)
	if err != nil {
		b.Fatal(err)
	}
	memory := Stood{Copy{sp, stack[:n]}, Live{p}, mods.Fixed}
	frames := 0
	b.Run("warm", func(b *testing.B) {
		b.ReportAllocs()
		before := cpuTime()
		for b.Loop() {
			raw, _, _ := Unwind(regs, memory, mods, 0)
			frames = len(raw)
		}
		b.ReportMetric(float64(cpuTime()-before)/float64(b.N*frames), "cpu-ns/frame")
	})
	b.Run("symbolize warm", func(b *testing.B) {
		raw, _, _ := Unwind(regs, memory, mods, 0)
		mods.Symbolize(raw)
		before := cpuTime()
		for b.Loop() {
			mods.Symbolize(raw)
		}
		b.ReportMetric(float64(cpuTime()-before)/float64(b.N*frames), "cpu-ns/frame")
	})
}

// cpuTime is what this process has used, which a busy machine does not stretch.
func cpuTime() time.Duration {
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Requests share what was read from files.
func TestReadStacksTogether(t *testing.T) {
	exe := compile(t, "chains.c", bareFlags...)
	a, b := start(t, exe, "deep"), start(t, exe, "thread")
	await(t, a.pid(), "S")
	await(t, b.pid(), "S")
	ids := [2]proc.ID{a.id(), b.id()}
	fs := openProc(t)
	symbols := NewSymbols(8 << 20) // too little to keep all
	errs := make(chan error)
	for i := range 8 {
		go func() {
			for n := range 6 {
				s, err := ReadStacks(t.Context(), fs, ids[(i+n)%2], 0, symbols)
				if err == nil && (len(s.Threads) == 0 || s.Threads[0].UnwindStop != StopEnd) {
					err = fmt.Errorf("%+v", s)
				}
				if err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if st := symbols.Stats(); st.Bytes > st.Limit {
		t.Errorf("%+v", st)
	}
}
