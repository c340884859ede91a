package ptrace

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"procinsh/elf"
	"procinsh/proc"
)

var bareFlags = []string{"-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"}

func (p *program) addr(key string) uint64 {
	p.t.Helper()
	v, err := strconv.ParseUint(p.facts[key], 0, 64)
	if err != nil {
		p.t.Fatalf("%s=%q", key, p.facts[key])
	}
	return v
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to trace and to follow map_files")
	}
}

func repeat(name string, n int) []string { return slices.Repeat([]string{name}, n) }

func chain(parts ...any) []string {
	var all []string
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			all = append(all, strings.Fields(p)...)
		case []string:
			all = append(all, p...)
		}
	}
	return all
}

// chains are the stacks of testdata/unwind/chains.c. Without a stop the walks that
// need RBP end at the frame that does; cut is how many frames there are then.
var chains = []struct {
	mode    string
	chain   []string
	mayMiss bool
	cut     int // 0: not cut
	by      map[int]Found
}{
	{mode: "deep", chain: chain("pause stop_here", repeat("deep", 11), "recurse middle outer run main")},
	{mode: "many", chain: chain("pause stop_here", repeat("deep", 21), "main")},
	{mode: "signal", chain: chain("pause stop_here handler * fault_first middle outer run main"), by: map[int]Found{0: ByRegisters, 1: ByCFI, 3: ByCFI, 4: BySignalFrame, 5: ByCFI}},
	{mode: "altstack", chain: chain("pause stop_here handler * fault_first middle outer run main"), by: map[int]Found{4: BySignalFrame}},
	{mode: "restorer", chain: chain("pause stop_here handler own_restorer fault_first middle outer run main"), by: map[int]Found{4: BySignalFrame}},
	{mode: "null", chain: []string{"pause", "stop_here", "handler", "*", "", "call_null", "middle", "outer", "run", "main"}, mayMiss: true, by: map[int]Found{4: BySignalFrame, 5: ByFramePointer, 6: ByCFI}},
	{mode: "noreturn", chain: chain("pause stop_here ends_in_call middle outer run main")},
	{mode: "before_push", chain: chain("bare_before_push announced before_push middle outer run main"), mayMiss: true, by: map[int]Found{1: ByFramePointer, 2: ByCFI}},
	{mode: "at_return", chain: chain("bare_at_return announced at_return middle outer run main"), by: map[int]Found{1: ByFramePointer}},
	{mode: "with_frame", chain: chain("bare_with_frame announced with_frame middle outer run main"), cut: 1, by: map[int]Found{1: ByFramePointer, 2: ByCFI}},
	{mode: "trampoline", chain: chain("pause stop_here bare_trampoline trampoline middle outer run main"), by: map[int]Found{2: ByCFI, 3: ByFramePointer, 4: ByCFI}},
	{mode: "realigned", chain: chain("pause stop_here saves_all middle needs_rbp realigned middle outer run main"), cut: 5},
}

func checkBy(t *testing.T, frames []Frame, by map[int]Found) {
	t.Helper()
	for i, want := range by {
		if i < len(frames) && frames[i].By != want {
			t.Errorf("frame %d %s was found by %v, want %v", i, frames[i].Symbol, frames[i].By, want)
		}
	}
}

func TestUnwindKnownChains(t *testing.T) {
	needRoot(t)
	exe := compile(t, "chains.c", bareFlags...)
	symbols := NewSymbols(elf.DefaultLimit)
	fs := openProc(t)
	for _, tt := range chains {
		t.Run(tt.mode, func(t *testing.T) {
			p := start(t, exe, tt.mode)
			await(t, p.pid(), "S")
			stacks, err := ReadStacks(t.Context(), fs, p.id(), 0, symbols)
			if err != nil || len(stacks.Threads) != 1 {
				t.Fatalf("%+v %v", stacks, err)
			}
			quiet := stacks.Threads[0]
			w := walk{quiet.CallStack, quiet.UnwindStop, quiet.FramesMayBeMissing}
			if tt.cut > 0 {
				w.want(t, tt.chain[:tt.cut]...)
				if len(w.frames) != tt.cut || w.stop != StopRegister {
					t.Errorf("without a stop: %d frames, %s; want %d and %s", len(w.frames), w.stop, tt.cut, StopRegister)
				}
			} else {
				w.want(t, tt.chain...)
				if w.stop != StopEnd {
					t.Errorf("without a stop: %s\n%v", w.stop, w)
				}
				if w.mayMiss != tt.mayMiss {
					t.Errorf("without a stop: frames may be missing %v\n%v", w.mayMiss, w)
				}
			}
			if !quiet.Stable || quiet.Call == nil || quiet.Call.Name.Or("") != "pause" || quiet.Err != "" {
				t.Errorf("got %+v, want a stable thread in pause", quiet)
			}

			w = walkOf(t, p.pid(), p.pid())
			w.want(t, tt.chain...)
			if w.stop != StopEnd || w.mayMiss != tt.mayMiss {
				t.Errorf("with all registers: %v", w)
			}
			if last := w.frames[len(w.frames)-1]; !strings.Contains(last.Symbol, "_start") {
				t.Errorf("the last frame is %+v", last)
			}
			checkBy(t, w.frames, tt.by)
			for _, name := range w.names() {
				if name == "neighbour" || name == "after_the_call" {
					t.Errorf("%s was never called: %v", name, w)
				}
			}
			if i := slices.Index(w.names(), "fault_first"); i >= 0 && (w.frames[i].Address != p.addr("INTERRUPTED") || w.frames[i].SymbolOffset != 0) {
				t.Errorf("interrupted at %#x, got %+v", p.addr("INTERRUPTED"), w.frames[i])
			}
		})
	}
}

// The same program in forms that keep the tables elsewhere, or have none.
func TestUnwindForms(t *testing.T) {
	needRoot(t)
	deep := chain("pause stop_here", repeat("deep", 11), "recurse middle outer run main")
	bare := []string{"-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"}
	for _, tt := range []struct {
		name    string
		flags   []string
		after   func(t *testing.T, exe string)
		unnamed bool
		by      Found // of most frames
		mayMiss bool
	}{
		{name: "no search table", flags: bareFlags, after: objcopy("--remove-section", ".eh_frame_hdr"), by: ByCFI},
		{name: "search table of program headers alone", flags: bareFlags, after: cutSections, unnamed: true, by: ByCFI},
		{name: "debug_frame", flags: append([]string{"-g", "-gz=none"}, append(bareFlags, "-fno-asynchronous-unwind-tables")...), by: ByCFI},
		{name: "compressed debug_frame", flags: append([]string{"-g", "-gz=zlib"}, append(bareFlags, "-fno-asynchronous-unwind-tables")...), by: ByCFI},
		{name: "64-bit DWARF", flags: append([]string{"-g", "-gdwarf64"}, append(bareFlags, "-fno-asynchronous-unwind-tables")...), by: ByCFI},
		{name: "low non-PIE", flags: append(bareFlags, "-no-pie", "-fno-pie", "-Wl,-Ttext-segment=0x10000"), by: ByCFI},
		{name: "static", flags: append(bareFlags, "-static"), by: ByCFI},
		{name: "static PIE", flags: append(bareFlags, "-static-pie"), by: ByCFI},
		{name: "text apart from its offset", flags: append(bareFlags, "-Wl,-z,noseparate-code", "-Wl,-z,max-page-size=0x200000"), by: ByCFI},
		{name: "frame pointers alone", flags: bare, by: ByFramePointer},
		{name: "frame pointers without symbols", flags: bare, after: objcopy("--strip-all"), unnamed: true, by: ByFramePointer, mayMiss: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			exe := compile(t, "chains.c", tt.flags...)
			if tt.after != nil {
				tt.after(t, exe)
			}
			p := start(t, exe, "deep")
			await(t, p.pid(), "S")
			w := walkOf(t, p.pid(), p.pid())
			if !tt.unnamed {
				w.want(t, deep...)
			}
			if w.stop != StopEnd || len(w.frames) < len(deep)+2 || w.mayMiss != tt.mayMiss {
				t.Errorf("%v", w)
			}
			checkBy(t, w.frames, map[int]Found{0: ByRegisters, 1: ByCFI, 5: tt.by, 12: tt.by, len(w.frames) - 1: ByCFI})
			if got, want := w.frames[1].Address-p.addr("STOP_HERE"), uint64(128); got > want {
				t.Errorf("the second frame is %#x behind stop_here: %v", got, w)
			}
		})
	}
}

func objcopy(args ...string) func(*testing.T, string) {
	return func(t *testing.T, exe string) {
		t.Helper()
		needTool(t, "objcopy")
		if out, err := exec.Command("objcopy", append(args, exe)...).CombinedOutput(); err != nil {
			t.Fatalf("objcopy %v: %v %s", args, err, out)
		}
	}
}

// cutSections makes the file one without section headers.
func cutSections(t *testing.T, exe string) {
	t.Helper()
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	clear(b[40:48]) // e_shoff
	clear(b[60:64]) // e_shnum, e_shstrndx
	if err := os.WriteFile(exe, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

// A PLT stub has its frame address by an expression: it depends on how far it has come.
func TestUnwindPLT(t *testing.T) {
	needRoot(t)
	p := start(t, compile(t, "chains.c", append(bareFlags, "-no-pie", "-fno-pie", "-Wl,-z,lazy")...), "deep")
	await(t, p.pid(), "S")
	regs, err := registersOf(p.pid())
	if err != nil {
		t.Fatal(err)
	}
	process, mods := mappedOf(t, p.id(), NewSymbols(elf.DefaultLimit))
	sp, _ := regs.Get(elf.RegRSP)
	for _, tt := range []struct{ at, pushed uint64 }{{0, 0}, {6, 0}, {11, 1}} {
		stub := regs
		stub.Set(elf.RegRIP, p.addr("PUTS")+tt.at)
		stub.Set(elf.RegRSP, sp-8*tt.pushed)
		memory := Layers{Copy{sp - 8, make([]byte, 8)}, Live{process}}
		raw, stop, _ := Unwind(stub, memory, mods, 0)
		w := walk{mods.Symbolize(raw), stop, false}
		w.want(t, "*", "stop_here", "deep", "deep")
		if stop != StopEnd {
			t.Errorf("at +%d: %v", tt.at, w)
		}
		checkBy(t, w.frames, map[int]Found{1: ByCFI})
	}
}

// The vdso is in no file; its tables are read from memory.
func TestUnwindVDSO(t *testing.T) {
	needRoot(t)
	p := start(t, compile(t, "chains.c", bareFlags...), "deep")
	await(t, p.pid(), "S")
	regs, err := registersOf(p.pid())
	if err != nil {
		t.Fatal(err)
	}
	process, mods := mappedOf(t, p.id(), NewSymbols(elf.DefaultLimit))
	i := slices.IndexFunc(mods.maps, func(v proc.Mapping) bool { return v.Path == "[vdso]" })
	if i < 0 {
		t.Skip("the process has no vdso")
	}
	found := 0
	for at := mods.maps[i].Start; at < mods.maps[i].End; at++ {
		name := mods.Name(at)
		if !slices.Contains([]string{"clock_gettime", "gettimeofday", "time", "getcpu"}, strings.TrimPrefix(name, "__vdso_")) {
			continue
		}
		found++
		regs.Set(elf.RegRIP, at)
		raw, stop, mayMiss := Unwind(regs, Live{process}, mods, 0)
		w := walk{mods.Symbolize(raw), stop, mayMiss}
		w.want(t, name, "stop_here", "deep", "deep")
		checkBy(t, w.frames, map[int]Found{1: ByCFI})
		if stop != StopEnd || w.frames[0].Module != "[vdso]" || w.frames[0].ModuleOffset != at-mods.maps[i].Start {
			t.Errorf("%v", w)
		}
	}
	if found < 3 {
		t.Errorf("%d functions in the vdso", found)
	}
}

// Between push and mov of a prologue the frame pointer is still the caller's.
func TestUnwindInsidePrologue(t *testing.T) {
	needRoot(t)
	p := start(t, compile(t, "chains.c", bareFlags...), "before_push")
	await(t, p.pid(), "S")
	regs, err := registersOf(p.pid())
	if err != nil {
		t.Fatal(err)
	}
	process, mods := mappedOf(t, p.id(), NewSymbols(elf.DefaultLimit))
	sp, _ := regs.Get(elf.RegRSP)
	rbp, _ := regs.Get(elf.RegRBP)
	pushed := binary.LittleEndian.AppendUint64(nil, rbp)
	pc := p.addr("BARE_BEFORE_PUSH")
	for _, tt := range []struct{ pc, sp uint64 }{{pc, sp}, {pc + 7, sp}, {pc + 8, sp - 8}, {pc + 12, sp}} {
		r := regs
		r.Set(elf.RegRIP, tt.pc)
		r.Set(elf.RegRSP, tt.sp)
		raw, stop, mayMiss := Unwind(r, Layers{Copy{sp - 8, pushed}, Live{process}}, mods, 0)
		w := walk{mods.Symbolize(raw), stop, mayMiss}
		if tt.pc == pc+12 { // behind pop
			w.want(t, "bare_before_push", "announced", "before_push", "middle")
			continue
		}
		w.want(t, "bare_before_push", "announced", "before_push", "middle")
		if stop != StopEnd || !mayMiss {
			t.Errorf("at +%d: %v", tt.pc-pc, w)
		}
	}
}

// What was copied while a thread stood ends where the copy ends.
func TestUnwindEndsWithTheCopy(t *testing.T) {
	needRoot(t)
	p := start(t, compile(t, "chains.c", bareFlags...), "deep")
	await(t, p.pid(), "S")
	regs, err := registersOf(p.pid())
	if err != nil {
		t.Fatal(err)
	}
	process, mods := mappedOf(t, p.id(), NewSymbols(elf.DefaultLimit))
	sp, _ := regs.Get(elf.RegRSP)
	all, _, _ := Unwind(regs, Live{process}, mods, 0)
	last := 1
	for _, size := range []int{0, 8, 100, 200, 400, 1 << 16} {
		b := make([]byte, size)
		n, _ := process.ReadMemory(sp, b)
		raw, stop, _ := Unwind(regs, Stood{Copy{sp, b[:n]}, Live{process}, mods.Fixed}, mods, 0)
		if !slices.Equal(raw, all[:len(raw)]) || len(raw) < last {
			t.Errorf("%d bytes: %v, want the beginning of %v", size, raw, all)
		}
		last = len(raw)
		if whole := len(raw) == len(all); whole != (stop == StopEnd) || !whole && stop != StopNotCopied {
			t.Errorf("%d bytes: %d of %d frames, %s", size, len(raw), len(all), stop)
		}
	}
	if last != len(all) {
		t.Errorf("%d of %d frames from 64 KiB", last, len(all))
	}
	if raw, stop, _ := Unwind(regs, Live{process}, mods, 4); len(raw) != 4 || stop != StopFrames {
		t.Errorf("at most 4 frames: %v, %s", raw, stop)
	}
	if raw, stop, _ := Unwind(Regs{}, Live{process}, mods, 0); raw != nil || stop != StopNoRegisters {
		t.Errorf("no registers: %v, %s", raw, stop)
	}
}

func TestUnwindMemfd(t *testing.T) {
	needRoot(t)
	exe, err := os.ReadFile(compile(t, "chains.c", append(bareFlags, "-g")...))
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.MemfdCreate("a tool", 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memfd")
	defer f.Close()
	if _, err := f.Write(exe); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/fd/3", "deep")
	cmd.ExtraFiles = []*os.File{f}
	p := startCmd(t, cmd)
	await(t, p.pid(), "S")
	w := walkOf(t, p.pid(), p.pid())
	w.want(t, chain("pause stop_here", repeat("deep", 11), "recurse middle outer run main")...)
	if m := w.frames[2].Module; !strings.HasPrefix(m, "/memfd:a tool") {
		t.Errorf("module %q", m)
	}
	if !strings.HasSuffix(w.frames[2].SourceFile, "chains.c") {
		t.Errorf("frame %+v, want a line of chains.c", w.frames[2])
	}
}

// The process lives in a mount namespace of its own, where another program has the path.
func TestUnwindMountNamespace(t *testing.T) {
	needRoot(t)
	needTool(t, "unshare")
	dir := t.TempDir()
	inside := compile(t, "chains.c", append(bareFlags, "-Ddeep=inside_deep")...)
	decoy := compile(t, "chains.c", append(bareFlags, "-Ddeep=host_deep", "-DNOTHING=1", "-falign-functions=64")...)
	path := filepath.Join(dir, "prog")
	b, err := os.ReadFile(decoy)
	if err == nil {
		err = os.WriteFile(path, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	symbols := NewSymbols(elf.DefaultLimit)
	fs := openProc(t)
	chainOf := func(p *program) walk {
		await(t, p.pid(), "S")
		s, err := ReadStacks(t.Context(), fs, p.id(), 0, symbols)
		if err != nil {
			t.Fatal(err)
		}
		return walk{s.Threads[0].CallStack, s.Threads[0].UnwindStop, false}
	}
	host := chainOf(start(t, path, "deep"))
	host.want(t, "pause", "stop_here", "host_deep", "host_deep")
	p := startCmd(t, exec.Command("unshare", "--mount", "sh", "-c",
		`mount --make-rprivate / && mount -t tmpfs t "$1" && cp "$2" "$1/prog" && exec "$1/prog" deep`, "sh", dir, inside))
	w := chainOf(p)
	w.want(t, "pause", "stop_here", "inside_deep", "inside_deep")
	if slices.Contains(w.names(), "host_deep") || w.frames[2].Module != path {
		t.Errorf("%v", w)
	}
}

// V8 maps a part of its program a second time.
func TestBiasBelongsToTheMapping(t *testing.T) {
	segments := []elf.Segment{
		{Offset: 0, Vaddr: 0, Filesz: 0x5e0, Memsz: 0x5e0, Flags: 4},
		{Offset: 0x1000, Vaddr: 0x401000, Filesz: 0x4321, Memsz: 0x4321, Flags: 5},
		{Offset: 0x5321, Vaddr: 0x407321, Filesz: 0x100, Memsz: 0x900, Flags: 6}, // shares a page of the file with the one before
	}
	for _, tt := range []struct {
		name          string
		start, offset uint64
		permissions   string
		bias          uint64
		ok            bool
	}{
		{"headers", 0x7f0000000000, 0, "r--p", 0x7f0000000000, true},
		{"code", 0x7f0000001000, 0x1000, "r-xp", 0x7effffc00000, true},
		{"code from its third page on", 0x100000, 0x3000, "r-xp", ^uint64(0x302fff), true},
		{"last page as code", 0x200000, 0x5000, "r-xp", ^uint64(0x204fff), true},
		{"last page as data", 0x300000, 0x5000, "rw-p", ^uint64(0x106fff), true},
		{"where it was linked", 0x401000, 0x1000, "r-xp", 0, true},
		{"not loaded", 0x400000, 0x9000, "r--p", 0, false},
	} {
		v := proc.Mapping{Start: tt.start, FileOffset: tt.offset, Permissions: [4]byte([]byte(tt.permissions))}
		if bias, ok := biasOf(segments, &v); bias != tt.bias || ok != tt.ok {
			t.Errorf("%s: bias %#x %v, want %#x %v", tt.name, bias, ok, tt.bias, tt.ok)
		}
	}
}

func TestUnwind32(t *testing.T) {
	needRoot(t)
	needTool(t, "gcc")
	exe := filepath.Join(t.TempDir(), "code32")
	if out, err := exec.Command("gcc", "-m32", "-nostdlib", "-static", "-fno-pic", "-O0", "-o", exe, "testdata/unwind/code32.c").CombinedOutput(); err != nil {
		t.Skipf("gcc makes no 32-bit program here: %v %s", err, out)
	}
	p := start(t, exe)
	await(t, p.pid(), "S")
	want := []string{"sys_pause", "inner", "outer", "_start"}
	w := walkOf(t, p.pid(), p.pid())
	w.want(t, want...)
	if w.stop != Stop32 || !w.mayMiss || len(w.frames) != len(want) {
		t.Errorf("%v", w)
	}
	await(t, p.pid(), "S") // it was let go just now
	s, err := ReadStacks(t.Context(), openProc(t), p.id(), 0, NewSymbols(elf.DefaultLimit))
	if err != nil {
		t.Fatal(err)
	}
	th := s.Threads[0]
	walk{th.CallStack, th.UnwindStop, true}.want(t, want...)
	if !th.Code32 || th.UnwindStop != Stop32 || th.Call == nil || th.Call.Name.Or("") != "pause" || th.Call.Number != 29 {
		t.Errorf("got %+v, want pause of i386", th)
	}
}
