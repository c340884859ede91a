package ptrace

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/elf"
)

// The tests of this file hold the unwinder against another one that reads the same
// tables. They are skipped where that is not installed.

var (
	euThread = regexp.MustCompile(`^TID (\d+):`)
	euFrame  = regexp.MustCompile(`^#\d+\s+0x([0-9a-f]+)`)
)

// euStack returns the addresses that eu-stack finds, by thread.
func euStack(t *testing.T, pid int) map[int][]uint64 {
	t.Helper()
	out, _ := exec.Command("eu-stack", "-p", strconv.Itoa(pid)).Output() // it fails where one walk does
	all := map[int][]uint64{}
	tid := 0
	for line := range strings.Lines(string(out)) {
		if m := euThread.FindStringSubmatch(line); m != nil {
			tid, _ = strconv.Atoi(m[1])
			all[tid] = nil
		} else if m := euFrame.FindStringSubmatch(line); m != nil {
			pc, _ := strconv.ParseUint(m[1], 16, 64)
			all[tid] = append(all[tid], pc)
		}
	}
	return all
}

type score struct{ same, theirs, ours, more, walks int }

// add counts the frames that both found. Ours may have one more where a walk by
// frame pointers misses it, if the walks meet again behind it: the function that a
// signal interrupted, which the kernel names, or the caller of a function without
// tables that was in its first or last instructions; a call must end there.
func (s *score) add(ours []RawFrame, theirs []uint64, memory Memory, mods *Modules) (differ bool) {
	// Where tables are wrong it goes on into data.
	for len(theirs) > 1 && !mods.Executable(theirs[len(theirs)-1]) {
		theirs = theirs[:len(theirs)-1]
	}
	s.theirs += len(theirs)
	s.ours += len(ours)
	s.walks++
	at := 0
	w := walker{mods: mods, mem: memory}
	for i, f := range ours {
		again := i+1 < len(ours) && at < len(theirs) && ours[i+1].PC == theirs[at]
		switch {
		case at < len(theirs) && f.PC == theirs[at]:
			at++
		case again && (f.By == BySignalFrame || i == 1 && f.By == ByFramePointer && w.behindCall(f.PC)):
			s.more++
		default:
			s.same += at
			return true
		}
	}
	s.same += at
	return at < len(theirs)
}

// compareTargets are programs that compute all the time, and sleep when told so.
func compareTargets(t *testing.T) map[string]*exec.Cmd {
	dir := t.TempDir()
	targets := map[string]*exec.Cmd{}
	add := func(name string, tool string, args ...string) {
		if _, err := exec.LookPath(tool); err != nil {
			t.Logf("not compared: %s is not installed", tool)
			return
		}
		targets[name] = exec.Command(tool, args...)
	}
	add("python3", "python3", "-c", `
import json, re, sys
print("READY", flush=True)
while True:
    sorted(range(2000), key=lambda x: len(re.findall("[0-9]", json.dumps({"a": [x] * 5}))))
`)
	add("perl", "perl", "-e", `$| = 1; print "READY\n"; sub f { my $n = shift; return $n ? f($n - 1) : join ",", sort { ($a =~ /(\d)$/)[0] <=> ($b =~ /(\d)$/)[0] } 1 .. 200 } f(10) while 1`)
	add("bash", "bash", "-c", `echo READY; f() { if (($1)); then f $(($1 - 1)); else for i in {1..50}; do x=${x:0:20}$i; done; fi; }; while :; do f 8; done`)
	add("node", "node", "-e", `console.log("READY"); function f(n) { return n ? f(n - 1) + 1 : JSON.stringify([..."abcdef"].map((c, i) => ({[c]: i, r: /b+c/.exec("xbbc")}))).length } function go() { const t = Date.now(); while (Date.now() - t < 50) f(15); setImmediate(go) } go()`)
	if b, err := exec.Command("g++", "-O2", "-fomit-frame-pointer", "-g", "-o", filepath.Join(dir, "cpp"), "testdata/unwind/busy.cc").CombinedOutput(); err != nil {
		t.Logf("not compared: C++: %v %s", err, b)
	} else {
		add("C++ -O2", filepath.Join(dir, "cpp"))
	}
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "gobusy"), "testdata/unwind/busy.go")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Logf("not compared: Go: %v %s", err, b)
	} else {
		add("Go", filepath.Join(dir, "gobusy"))
	}
	if b, err := exec.Command("rustc", "-O", "-o", filepath.Join(dir, "rust"), "testdata/unwind/busy.rs").CombinedOutput(); err != nil {
		t.Logf("not compared: Rust: %v %s", err, b)
	} else {
		add("Rust -O", filepath.Join(dir, "rust"))
	}
	return targets
}

// A busy process is stopped at some moments, and both read the same state.
func TestUnwindAsAnotherUnwinder(t *testing.T) {
	// A stack is one of thousands: the more instants the better, but the other
	// unwinder takes up to a second each.
	instants, err := strconv.Atoi(os.Getenv("COMPARE_INSTANTS"))
	if err != nil {
		t.Skip("looks at random instants: set COMPARE_INSTANTS to how many")
	}
	needTool(t, "eu-stack")
	symbols := NewSymbols(elf.DefaultLimit)
	for name, cmd := range compareTargets(t) {
		t.Run(name, func(t *testing.T) {
			p := startCmd(t, cmd)
			time.Sleep(300 * time.Millisecond)
			var s score
			reached := 0
			for range instants {
				time.Sleep(time.Duration(5+rand.IntN(25)) * time.Millisecond)
				unix.Kill(p.pid(), unix.SIGSTOP)
				await(t, p.pid(), "Tt")
				process, mods := mappedOf(t, p.id(), symbols)
				theirs := euStack(t, p.pid())
				for tid, pcs := range theirs {
					regs, err := registersOf(tid)
					if err != nil {
						t.Fatal(err)
					}
					raw, stop, _ := Unwind(regs, Live{process}, mods, 0)
					if stop == StopEnd {
						reached++
					}
					if s.add(raw, pcs, Live{process}, mods) && testing.Verbose() {
						t.Logf("thread %d of %s, %s\n%s", tid, name, stop, sideBySide(raw, pcs, mods))
					}
				}
				unix.Kill(p.pid(), unix.SIGCONT)
			}
			t.Logf("%s: %d of %d frames equal, %d found here, %d more here alone; %d of %d walks to the end", name, s.same, s.theirs, s.ours, s.more, reached, s.walks)
			if s.same*100 < s.theirs*99 {
				t.Errorf("%s: %d of %d frames equal", name, s.same, s.theirs)
			}
		})
	}
}

func sideBySide(raw []RawFrame, theirs []uint64, mods *Modules) string {
	var b strings.Builder
	for i := range max(len(raw), len(theirs)) {
		ours, other := "-", "-"
		if i < len(raw) {
			ours = fmt.Sprintf("%#x %s %v", raw[i].PC, mods.Name(raw[i].Lookup()), raw[i].By)
		}
		if i < len(theirs) {
			other = fmt.Sprintf("%#x %s", theirs[i], mods.Name(theirs[i]-1))
		}
		mark := " "
		if i >= len(raw) || i >= len(theirs) || raw[i].PC != theirs[i] {
			mark = "!"
		}
		fmt.Fprintf(&b, "%s %-70s | %s\n", mark, ours, other)
	}
	return b.String()
}

// Programs that sleep are compared without a stop, except where a frame can only be
// found through a register that the kernel does not tell.
func TestReadStacksAsAnotherUnwinder(t *testing.T) {
	needTool(t, "eu-stack")
	symbols := NewSymbols(elf.DefaultLimit)
	fs := openProc(t)
	for name, args := range map[string][]string{
		"python3": {"python3", "-c", `
import time
def key(x):
    print("READY", flush=True)
    time.sleep(1000)
sorted([2, 1], key=key)`},
		"bash": {"bash", "-c", `echo READY; f() { if (($1)); then f $(($1 - 1)); else read x; fi; }; f 8`},
		"perl": {"perl", "-e", `$| = 1; print "READY\n"; sub f { my $n = shift; return $n ? f($n - 1) : sleep 1000 } f(10)`},
		"node": {"node", "-e", `console.log("READY"); function f(n) { return n ? f(n - 1) + 1 : Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1e6) } setTimeout(() => f(10), 50)`},
	} {
		t.Run(name, func(t *testing.T) {
			needTool(t, args[0])
			p := start(t, args[0], args[1:]...)
			time.Sleep(500 * time.Millisecond)
			await(t, p.pid(), "S")
			theirs := euStack(t, p.pid())
			await(t, p.pid(), "S") // eu-stack stopped it
			stacks, err := ReadStacks(t.Context(), fs, p.id(), 0, symbols)
			if err != nil {
				t.Fatal(err)
			}
			same, total := 0, 0
			for _, th := range stacks.Threads {
				pcs := theirs[int(th.TID)]
				total += len(pcs)
				for i, f := range th.CallStack {
					if i == len(pcs) || f.Address != pcs[i] {
						break
					}
					same++
				}
				if !th.Stable || th.Err != "" {
					t.Errorf("thread %d: %+v", th.TID, th)
				}
			}
			t.Logf("%s: %d of %d frames equal", name, same, total)
			if total == 0 || same*100 < total*99 {
				t.Errorf("%s: %d of %d frames equal", name, same, total)
			}
		})
	}
}

// A browser has many processes and threads, and no tables for most of its code.
func TestUnwindBrowser(t *testing.T) {
	if os.Getenv("COMPARE_INSTANTS") == "" {
		t.Skip("starts a browser: set COMPARE_INSTANTS")
	}
	needTool(t, "eu-stack", "chromium")
	cmd := exec.Command("sh", "-c", `echo READY; exec chromium --headless --no-sandbox --disable-gpu --user-data-dir="$1" --remote-debugging-port=0 about:blank`, "sh", t.TempDir())
	p := startCmd(t, cmd)
	time.Sleep(5 * time.Second)
	pids := []int{p.pid()}
	for i := 0; i < len(pids); i++ {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pids[i]))
		for _, task := range tasks {
			text, _ := os.ReadFile(task)
			for _, f := range strings.Fields(string(text)) {
				pid, _ := strconv.Atoi(f)
				pids = append(pids, pid)
			}
		}
	}
	symbols := NewSymbols(elf.DefaultLimit)
	var s score
	for _, pid := range pids {
		unix.Kill(pid, unix.SIGSTOP)
		await(t, pid, "TtZ")
		process, mods := mappedOf(t, idOf(t, pid), symbols)
		for tid, pcs := range euStack(t, pid) {
			regs, err := registersOf(tid)
			if err != nil {
				continue // ended
			}
			raw, stop, _ := Unwind(regs, Live{process}, mods, 0)
			if s.add(raw, pcs, Live{process}, mods) {
				t.Logf("thread %d, %s\n%s", tid, stop, sideBySide(raw, pcs, mods))
			}
		}
		unix.Kill(pid, unix.SIGCONT)
	}
	t.Logf("%d processes, %d threads: %d of %d frames equal, %d found here", len(pids), s.walks, s.same, s.theirs, s.ours)
	if s.walks < 20 || s.same*100 < s.theirs*99 {
		t.Errorf("%d threads: %d of %d frames equal", s.walks, s.same, s.theirs)
	}
}
