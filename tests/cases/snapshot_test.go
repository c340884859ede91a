package cases

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/api"
)

// snapshot stops the process for a moment.
func snapshot(t *testing.T, id api.Identity) api.SnapshotAnswer {
	t.Helper()
	needRoot(t, "stops a process")
	b, code, err := srv.Post("/api/processes/snapshot", id)
	if err != nil || code != 200 {
		t.Fatalf("snapshot: %d %v %s", code, err, b)
	}
	var a api.SnapshotAnswer
	if err := json.Unmarshal(b, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func threadOf(t *testing.T, a api.SnapshotAnswer, tid int64) api.SnapshotThread {
	t.Helper()
	i := slices.IndexFunc(a.Threads, func(th api.SnapshotThread) bool { return int64(th.TID) == tid })
	if i < 0 {
		t.Fatalf("thread %d is not in the snapshot: %v", tid, a.NotStopped)
	}
	return a.Threads[i]
}

// blocked waits until a thread is in a system call of that number.
func blocked(t *testing.T, c *Case, tid int64, number string) {
	t.Helper()
	path := fmt.Sprintf("/proc/%d/task/%d/syscall", c.ID.PID, tid)
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if b, err := os.ReadFile(path); err == nil && strings.HasPrefix(string(b), number+" ") {
			return
		}
	}
	t.Fatalf("thread %d does not wait in system call %s", tid, number)
}

const pauseCall = "34"

// own are the names of the frames of the target's own file; what no symbol names
// is "?".
func own(frames []api.Frame, exe string) (names []string) {
	for _, f := range frames {
		if f.Module != nil && *f.Module == exe {
			name := "?"
			if f.Symbol != nil {
				name = *f.Symbol
			}
			names = append(names, name)
		}
	}
	return names
}

// chained fails unless the frames of the target's own file begin with names.
func chained(t *testing.T, what string, frames []api.Frame, exe string, names ...string) {
	t.Helper()
	got := own(frames, exe)
	if len(got) < len(names) || !slices.Equal(got[:len(names)], names) {
		t.Errorf("%s: the frames are %v, want %v", what, got, names)
	}
}

// placed fails unless the frame of a function is where the comment "line of
// FUNCTION" stands in the source.
func placed(t *testing.T, what string, frames []api.Frame, function, source string) {
	t.Helper()
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	line := 0
	for i, l := range strings.Split(string(text), "\n") {
		if strings.HasSuffix(l, "// line of "+function) || strings.Contains(l, "line of "+function+" ") {
			line = i + 1
		}
	}
	for _, f := range frames {
		if f.Symbol != nil && *f.Symbol == function {
			if f.SourceFile == nil || f.Line == nil || !strings.HasSuffix(*f.SourceFile, strings.TrimPrefix(source, "testdata")) || *f.Line != line {
				t.Errorf("%s: %s is at %v:%v, want %s:%d", what, function, value(f.SourceFile), value(f.Line), source, line)
			}
			return
		}
	}
	t.Errorf("%s: no frame of %s", what, function)
}

func exeOf(t *testing.T, id api.Identity) string {
	t.Helper()
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", id.PID))
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// chainOf snapshots a target whose thread TID waits in the chain of chain.c, and
// asks for the same without a stop.
func chainOf(t *testing.T, what string, c *Case, names ...string) []api.Frame {
	t.Helper()
	blocked(t, c, c.Int("TID"), pauseCall)
	frames := threadOf(t, snapshot(t, c.ID), c.Int("TID")).CallStack
	chained(t, what, frames, exeOf(t, c.ID), names...)
	blocked(t, c, c.Int("TID"), pauseCall) // it runs a little when it is let go
	st := get[api.StacksAnswer](t, "stacks", c.ID, "tid", c.Facts["TID"])
	if len(st.Threads) != 1 {
		t.Fatalf("%s: %d stacks", what, len(st.Threads))
	}
	chained(t, what+", not stopped", st.Threads[0].CallStack, exeOf(t, c.ID), names...)
	return frames
}

// Instructions that a decoder of plain x86 gets wrong or loses the thread at.
func TestDisassembly(t *testing.T) {
	c := begin(t, exec.Command(buildAs(t, "frames", "gcc", "-g", "testdata/frames.c", "testdata/frames.S")))
	tid := c.Int("TID_LIST")
	blocked(t, c, tid, pauseCall)
	d := threadOf(t, snapshot(t, c.ID), tid).Disassembly
	if d == nil {
		t.Fatal("no disassembly")
	}
	is(t, "address", d.Address, c.Facts["LIST"])
	want := strings.Split(strings.TrimSpace(`
ebf7 jmp 0x@ <lists>
f30f1efa endbr64
c5f877 vzeroupper
c5fdd4c1 vpaddq ymm0, ymm0, ymm1
62f16dcafecb vpaddd zmm1 {k2} {z}, zmm2, zmm3
62f14c7958ef vaddps zmm5 {k1}, zmm6, zmm7, {rz-sae}
c5fe6f15dfffffff vmovdqu ymm2, ymmword ptr [rip - 0x21]
c5e573f405 vpsllq ymm3, ymm4, 5
c5f892c8 kmovw k1, eax
c5e546d4 kxnorb k2, k3, k4
c4e2e3f5c1 pdep rax, rbx, rcx
c442a9f7c1 shlx r8, r9, r10
c4e37bf0d607 rorx edx, esi, 7
c4e26ddccb vaesenc ymm1, ymm2, ymm3
660f3aceca03 gf2p8affineqb xmm1, xmm2, 3
62f36d4825cb55 vpternlogd zmm1, zmm2, zmm3, 0x55
c4e27d13ca vcvtph2ps ymm1, xmm2
c4e265900c90 vpgatherdd ymm1, ymmword ptr [rax + 4*ymm2], ymm3
f30fc7f8 rdpid rax
f0480fc70f lock cmpxchg16b xmmword ptr [rdi]
660f1f0400 nop word ptr [rax + rax]
c5fc77 vzeroall
e875ffffff call 0x@ <waits>
c3 ret`), "\n")
	number := regexp.MustCompile(`0x[0-9a-f]{6,}`)
	at := c.Int("LIST")
	for i, line := range want {
		code, text, _ := strings.Cut(line, " ")
		if i >= len(d.Instructions) {
			t.Fatalf("%d instructions, want %d at least", len(d.Instructions), len(want))
		}
		in := d.Instructions[i]
		got, comment, _ := strings.Cut(in.Text, "  # ")
		is(t, text, []any{in.Address, in.Bytes, number.ReplaceAllString(got, "0x@"), in.Current}, []any{fmt.Sprintf("0x%016x", at), code, text, i == 0})
		if strings.Contains(text, "[rip") && !strings.HasPrefix(comment, fmt.Sprintf("%#x", c.Int("LIST"))) {
			t.Errorf("%s: the address is %q, want %s", text, comment, c.Facts["LIST"])
		}
		at += int64(len(code) / 2)
	}
	if len(d.Instructions) > 32 {
		t.Errorf("%d instructions, want 32 at most", len(d.Instructions))
	}
}

// Functions that wait before their frame pointer is set up and after it is gone:
// who follows frame pointers alone misses the caller.
func TestLeafFrames(t *testing.T) {
	c := begin(t, exec.Command(buildAs(t, "frames", "gcc", "-g", "testdata/frames.c", "testdata/frames.S")))
	for thread, names := range map[string][]string{
		"A": {"before_push", "direct_a", "grand_a", "run_A"},
		"B": {"after_pop", "direct_b", "grand_b", "run_B"},
	} {
		blocked(t, c, c.Int("TID_"+thread), pauseCall)
		th := threadOf(t, snapshot(t, c.ID), c.Int("TID_"+thread))
		chained(t, thread, th.CallStack, exeOf(t, c.ID), names...)
		is(t, thread+": frames may be missing", th.FramesMayBeMissing, false)
	}
}

// A return address that is the first byte of the next function belongs to the call
// before it.
func TestCallAtTheEnd(t *testing.T) {
	c := begin(t, exec.Command(buildAs(t, "frames", "gcc", "-g", "testdata/frames.c", "testdata/frames.S")))
	tid := c.Int("TID_CALL")
	blocked(t, c, tid, pauseCall)
	frames := threadOf(t, snapshot(t, c.ID), tid).CallStack
	chained(t, "frames", frames, exeOf(t, c.ID), "waits", "ends_in_call", "run_CALL")
	is(t, "the return address", frames[1].Address, c.Facts["NEIGHBOUR"])
	if slices.Contains(own(frames, exeOf(t, c.ID)), "neighbour") {
		t.Errorf("the neighbour is in %v", own(frames, exeOf(t, c.ID)))
	}
	source, err := os.ReadFile("testdata/frames.c")
	if err != nil {
		t.Fatal(err)
	}
	call := strings.Count(string(source[:strings.Index(string(source), "THREAD(CALL")]), "\n") + 1
	is(t, "line of the call", frames[2].Line, call)
}

// Names of C++ functions without debug information, with suffixes of the compiler.
func TestCPPNames(t *testing.T) {
	c := begin(t, exec.Command(buildAs(t, "names", "g++", "testdata/names.cc")))
	tid := c.Int("TID")
	blocked(t, c, tid, pauseCall)
	names := own(threadOf(t, snapshot(t, c.ID), tid).CallStack, exeOf(t, c.ID))
	for i, want := range []string{
		`shop::\(anonymous namespace\)::hidden\(long\)`,
		`shop::seldom\(long\)`,
		`shop::often\(long\)( \[clone \.cold\])?`,
		`main::\{lambda\(long\)#1\}::_FUN\(long\)`,
		`shop::Crate<long>::operator\(\)\(.*long \(\*\)\(long\)\)( \[clone [^]]*\])*`,
		`main`,
	} {
		if i >= len(names) || !regexp.MustCompile("^"+want+"$").MatchString(names[i]) {
			t.Errorf("frame %d of %q, want %s", i, names, want)
		}
	}
}

// File numbers of line tables count from 0 in DWARF 5 and from 1 before; file names
// are relative to the folder of the compilation.
func TestSourceFiles(t *testing.T) {
	for _, k := range []struct{ compiler, version string }{{"gcc", "5"}, {"gcc", "4"}, {"gcc", "3"}, {"gcc", "2"}, {"clang", "5"}, {"clang", "4"}} {
		t.Run(k.compiler+"-"+k.version, func(t *testing.T) {
			compiler := k.compiler
			if compiler == "clang" {
				found, _ := filepath.Glob("/usr/bin/clang*")
				i := slices.IndexFunc(found, func(p string) bool { return regexp.MustCompile(`/clang(-\d+)?$`).MatchString(p) })
				if i < 0 {
					t.Skip("needs clang: its line tables differ from gcc's")
				}
				compiler = found[i]
			}
			c := begin(t, exec.Command(buildAs(t, "files-"+k.compiler+k.version, compiler, "-gdwarf-"+k.version, "testdata/files/main.c")))
			frames := chainOf(t, k.version, c, "in_header", "in_main_file", "blocked_run")
			placed(t, k.version, frames, "in_header", "testdata/files/sub/inside.h")
			placed(t, k.version, frames, "in_main_file", "testdata/files/main.c")
			placed(t, k.version, frames, "blocked_run", "testdata/files/main.c")
		})
	}
}

func waits(t *testing.T, c *Case) map[string][4]int64 {
	t.Helper()
	c.Send("report")
	all := map[string][4]int64{}
	for name, text := range c.Facts {
		var n [4]int64
		if got, err := fmt.Sscan(text, &n[0], &n[1], &n[2], &n[3]); err == nil && got == 4 {
			all[name] = n
		}
	}
	if len(all) != 8 {
		t.Fatalf("the target reports %v", c.Facts)
	}
	return all
}

// A hundred snapshots make no call fail or end early but epoll_wait, which the
// answer names.
func TestInterruptedCalls(t *testing.T) {
	c := target(t, "eintr")
	before := waits(t, c)
	warned := false
	for range 100 {
		a := snapshot(t, c.ID)
		is(t, "threads", len(a.Threads), 9)
		warned = warned || slices.ContainsFunc(a.Warnings, func(w string) bool {
			return strings.Contains(w, "EINTR") && strings.Contains(w, "epoll_wait (1 thread)")
		})
	}
	if !warned {
		t.Error("no answer names epoll_wait")
	}
	after := waits(t, c)
	for name, n := range after {
		b := before[name]
		is(t, name+": early, other", []int64{n[2] - b[2], n[3] - b[3]}, []int64{0, 0})
		if interrupted := n[1] - b[1]; name == "EPOLL_WAIT" && interrupted > 100 || name != "EPOLL_WAIT" && interrupted != 0 {
			t.Errorf("%s returned EINTR %d times", name, interrupted)
		}
	}
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		later, stuck := waits(t, c), []string{}
		for name, n := range later {
			if n[0] <= after[name][0] {
				stuck = append(stuck, name)
			}
		}
		if len(stuck) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%v do not go on", stuck)
		}
	}
}

// states are the states of all threads, and the tracers of those that have one.
func states(t *testing.T, id api.Identity) (all string, tracers []string) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", id.PID))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range tasks {
		b, _ := os.ReadFile(path)
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) > 1 && f[0] == "State:" {
				all += f[1]
			}
			if len(f) > 1 && f[0] == "TracerPid:" && f[1] != "0" {
				tracers = append(tracers, f[1])
			}
		}
	}
	return all, tracers
}

func settled(t *testing.T, id api.Identity, want string) {
	t.Helper()
	var all string
	var tracers []string
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if all, tracers = states(t, id); strings.Trim(all, want) == "" && all != "" && tracers == nil {
			return
		}
	}
	t.Errorf("the threads are %q, tracers %v, want only %q and none", all, tracers, want)
}

// A stopped process stays stopped; SIGCONT during snapshots is not lost.
func TestGroupStop(t *testing.T) {
	needRoot(t, "stops a process")
	c := target(t, "groupstop")
	if err := syscall.Kill(int(c.ID.PID), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	settled(t, c.ID, "T")
	for range 10 {
		a := snapshot(t, c.ID)
		is(t, "threads", len(a.Threads), 3)
		for _, th := range a.Threads {
			if len(th.Registers) != 18 || len(th.CallStack) == 0 {
				t.Errorf("thread %d: %d registers, %d frames, %v", th.TID, len(th.Registers), len(th.CallStack), value(th.Error))
			}
		}
		settled(t, c.ID, "T")
	}
	done, result := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-done:
				result <- nil
				return
			default:
			}
			if b, code, err := srv.Post("/api/processes/snapshot", c.ID); err != nil || code != 200 && code != 422 {
				result <- fmt.Errorf("snapshot: %d %v %s", code, err, b)
				return
			}
		}
	}()
	time.Sleep(200 * time.Millisecond)
	if err := syscall.Kill(int(c.ID.PID), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	close(done)
	if err := <-result; err != nil {
		t.Error(err)
	}
	c.Send("report")
	first := c.Int("COUNTED")
	is(t, "handlers of SIGCONT that ran", c.Int("CONTINUED"), 1)
	snapshot(t, c.ID)
	time.Sleep(50 * time.Millisecond)
	c.Send("report")
	if c.Int("COUNTED") <= first {
		t.Error("the process does not run")
	}
	is(t, "handlers of SIGCONT that ran, after all", c.Int("CONTINUED"), 1)
	settled(t, c.ID, "SR")
}

// A program at the lowest address there is: short addresses, no bias.
func TestLowProgram(t *testing.T) {
	c := begin(t, exec.Command(buildAs(t, "low", "gcc", "-g", "-no-pie", "-fno-pie", "-Wl,-Ttext-segment=0x10000", "testdata/chain.c")))
	m := get[api.MapsAnswer](t, "maps", c.ID)
	is(t, "first mapping", m.Maps[0].Start, "0x0000000000010000")
	frames := chainOf(t, "low", c, "inner", "outer", "blocked_run")
	for _, f := range []string{"inner", "outer", "blocked_run"} {
		placed(t, "low", frames, f, "testdata/chain.c")
	}
	i := slices.IndexFunc(frames, func(f api.Frame) bool { return f.Symbol != nil && *f.Symbol == "inner" })
	if i < 0 || frames[i].Address >= "0x0000000000020000" || len(frames[i].Address) != 18 {
		t.Errorf("the frames are %+v", frames)
	}
}

// A program that has no file any more.
func TestMemfdProgram(t *testing.T) {
	data, err := os.ReadFile(buildAs(t, "chain", "gcc", "-g", "testdata/chain.c"))
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.MemfdCreate("a tool", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "memfd")
	defer file.Close()
	if _, err := file.Write(data); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", fd))
	cmd.Path = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
	c := begin(t, cmd)
	is(t, "its file", exeOf(t, c.ID), "/memfd:a tool (deleted)")
	frames := chainOf(t, "memfd", c, "inner", "outer", "blocked_run")
	for _, f := range []string{"inner", "outer", "blocked_run"} {
		placed(t, "memfd", frames, f, "testdata/chain.c")
	}
}

// Names that are only in a compressed table inside the program, as Fedora ships
// them.
func TestMiniDebugInfo(t *testing.T) {
	for _, tool := range []string{"objcopy", "xz", "nm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s: makes the section", tool)
		}
	}
	exe := buildAs(t, "mini", "gcc", "testdata/chain.c")
	script := `set -e
nm "$1" --format=posix --defined-only | awk '$2 ~ /[tT]/ {print $1}' | sort > "$1.keep"
objcopy --keep-symbols="$1.keep" --only-keep-debug "$1" "$1.names"
objcopy -S --keep-symbols="$1.keep" -R .comment "$1.names" "$1.names2"
xz -kf "$1.names2"
objcopy -S --add-section .gnu_debugdata="$1.names2.xz" "$1" "$1.shipped"`
	if out, err := exec.Command("/bin/sh", "-c", script, "sh", exe).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.Command("nm", exe+".shipped").CombinedOutput(); err != nil || !strings.Contains(string(out), "no symbols") {
		t.Fatalf("the program has a symbol table still: %v %s", err, out)
	}
	chainOf(t, "mini", begin(t, exec.Command(exe+".shipped")), "inner", "outer", "blocked_run")
}

// The path of a program names another one for the inspector.
func TestMountNamespace(t *testing.T) {
	needRoot(t, "makes a mount namespace")
	inside := buildAs(t, "inside", "gcc", "-g", "testdata/chain.c")
	path := buildAs(t, "outside", "gcc", "-g", "-DOTHER", "testdata/chain.c")
	cmd := exec.Command("/bin/sh", "-c", `mount --bind "$1" "$2" && exec "$2"`, "sh", inside, path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	c := begin(t, cmd)
	decoy := begin(t, exec.Command(path))
	is(t, "its path", exeOf(t, c.ID), path)
	for _, what := range []string{"first", "after the other"} {
		frames := chainOf(t, what, c, "inner", "outer", "blocked_run")
		placed(t, what, frames, "inner", "testdata/chain.c")
		chainOf(t, "the other", decoy, "other_inner", "other_outer", "blocked_run")
	}
}

// A thread in vfork cannot be stopped: the others are shown, it is named and let go.
func TestVfork(t *testing.T) {
	needRoot(t, "stops a process")
	c := target(t, "vfork")
	stuck, normal := c.Int("STUCK_TID"), c.Int("NORMAL_TID")
	for range 2 {
		a := snapshot(t, c.ID)
		if th := threadOf(t, a, normal); len(th.Registers) != 18 || len(th.CallStack) == 0 {
			t.Errorf("the normal thread: %+v", th)
		}
		if len(a.Threads) != 1 || len(a.NotStopped) != 1 || int64(a.NotStopped[0].TID) != stuck || !strings.Contains(a.NotStopped[0].Reason, "uninterruptible") || a.Cost.StoppedThreads != 1 {
			t.Errorf("%d threads, not stopped %+v, cost %+v", len(a.Threads), a.NotStopped, a.Cost)
		}
		if !slices.ContainsFunc(a.Warnings, func(w string) bool { return strings.Contains(w, strconv.FormatInt(stuck, 10)) }) {
			t.Errorf("no warning names %d: %v", stuck, a.Warnings)
		}
		settled(t, c.ID, "SD")
	}
	// Where it is can be seen all the same.
	st := get[api.StacksAnswer](t, "stacks", c.ID, "tid", c.Facts["STUCK_TID"]).Threads[0]
	is(t, "without a stop: state", st.State, "D")
	if len(st.CallStack) == 0 || st.CallStack[0].Symbol == nil || !strings.Contains(*st.CallStack[0].Symbol, "vfork") {
		t.Errorf("without a stop: %+v", st.CallStack)
	}
	c.Send("release")
	blocked(t, c, stuck, pauseCall)
	is(t, "threads afterwards", len(snapshot(t, c.ID).Threads), 2)
	settled(t, c.ID, "S")
}

// A main thread that has ended leaves the others to be seen.
func TestSnapshotOfZombieLeader(t *testing.T) {
	c := target(t, "zombie")
	a := snapshot(t, c.ID)
	if len(a.Threads) == 0 || len(a.Threads[0].CallStack) < 2 || len(a.Maps) == 0 {
		t.Errorf("%d threads, %d mappings", len(a.Threads), len(a.Maps))
	}
	if !slices.ContainsFunc(a.NotStopped, func(n api.NotStopped) bool { return n.TID == c.ID.PID }) {
		t.Errorf("the leader is not named: %+v", a.NotStopped)
	}
}
