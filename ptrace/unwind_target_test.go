package ptrace

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"procinsh/elf"
	"procinsh/proc"
)

// program is a running target made of C or of another language. It prints
// KEY=VALUE facts and then READY.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	facts map[string]string
}

func needTool(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
}

// compile builds testdata/unwind/name (and further arguments of gcc) and returns the program.
func compile(t *testing.T, name string, args ...string) string {
	t.Helper()
	needTool(t, "gcc")
	out := filepath.Join(t.TempDir(), strings.TrimSuffix(name, filepath.Ext(name)))
	args = append([]string{"-o", out, "-pthread", filepath.Join("testdata/unwind", name)}, args...)
	if b, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc %s: %v\n%s", strings.Join(args, " "), err, b)
	}
	return out
}

// start runs a program and waits for its READY. It ends with the test.
func start(t *testing.T, name string, args ...string) *program {
	t.Helper()
	return startCmd(t, exec.Command(name, args...))
}

func startCmd(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	var errors bytes.Buffer
	cmd.Stderr = &errors
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	// The death signal is bound to the thread that starts the child.
	started := make(chan error)
	ended := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		started <- cmd.Start()
		<-ended
	}()
	if err := <-started; err != nil {
		close(ended)
		t.Fatal(err)
	}
	p := &program{t: t, cmd: cmd, stdin: stdin, facts: map[string]string{}}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
		close(ended)
	})
	timer := time.AfterFunc(60*time.Second, func() { cmd.Process.Kill() })
	defer timer.Stop()
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if lines.Text() == "READY" {
			go io.Copy(io.Discard, stdout)
			return p
		}
		key, value, _ := strings.Cut(lines.Text(), "=")
		p.facts[key] = value
	}
	t.Fatalf("%s ended before it was ready: %s", cmd.Path, errors.String())
	return nil
}

func (p *program) pid() int { return p.cmd.Process.Pid }

func (p *program) id() proc.ID { return idOf(p.t, p.pid()) }

func idOf(t *testing.T, pid int) proc.ID {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	start, err := strconv.ParseUint(f[19], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return proc.ID{PID: int32(pid), StartTicks: start}
}

func openProc(t testing.TB) *proc.FS {
	t.Helper()
	fs, err := proc.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	return fs
}

// state returns the letter of a thread.
func state(pid, tid int) byte {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", pid, tid))
	if err != nil {
		return 'X'
	}
	return text[bytes.LastIndexByte(text, ')')+2]
}

// patience is how long a test waits for what a loaded machine may be slow to do.
const patience = 30 * time.Second

// await waits until all threads of a process are in one of the states. A thread that
// was let go runs for a moment before it sleeps again, and on a loaded machine it
// waits for its turn to do so.
func await(t *testing.T, pid int, states string) {
	t.Helper()
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(2 * time.Millisecond) {
		tids, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(tids, func(e os.DirEntry) bool {
			tid, _ := strconv.Atoi(e.Name())
			return !strings.ContainsRune(states, rune(state(pid, tid)))
		}) {
			return
		}
	}
	t.Fatalf("process %d did not come to a state of %q", pid, states)
}

// registersOf stops one thread, reads its registers and lets it go. A process that
// is stopped already stays so.
func registersOf(tid int) (Regs, error) {
	type result struct {
		regs Regs
		err  error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends here
		var r result
		defer func() { done <- r }()
		if _, _, e := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(tid), 0, 0, 0, 0); e != 0 {
			r.err = fmt.Errorf("seize %d: %w", tid, e)
			return
		}
		if _, _, e := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_INTERRUPT, uintptr(tid), 0, 0, 0, 0); e != 0 {
			r.err = fmt.Errorf("interrupt %d: %w", tid, e)
			return
		}
		var status unix.WaitStatus
		if _, err := unix.Wait4(tid, &status, unix.WALL, nil); err != nil {
			r.err = err
			return
		}
		var regs unix.PtraceRegs
		// Not GETREGSET, which gives those of i386 for 32-bit code.
		if _, _, e := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GETREGS, uintptr(tid), 0, uintptr(unsafe.Pointer(&regs)), 0, 0); e != 0 {
			r.err = fmt.Errorf("registers of %d: %w", tid, e)
			return
		}
		signal := 0
		if status.Stopped() && status>>16 == 0 {
			signal = int(status.StopSignal())
		}
		unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(tid), 0, uintptr(signal), 0, 0)
		r.regs = RegsOf(&regs)
	}()
	r := <-done
	return r.regs, r.err
}

// mappedOf opens a process and its modules.
func mappedOf(t testing.TB, id proc.ID, symbols *Symbols) (*proc.Process, *Modules) {
	t.Helper()
	fs := openProc(t)
	p, err := fs.OpenProcess(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	maps, err := p.ReadMaps(nil)
	if err != nil {
		t.Fatal(err)
	}
	mods, err := OpenModules(fs, id, symbols, maps, Live{p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(mods.Close)
	return p, mods
}

// walk is one thread's stack with all its registers.
type walk struct {
	frames  []Frame
	stop    string
	mayMiss bool
}

func walkOf(t *testing.T, pid, tid int) walk {
	t.Helper()
	regs, err := registersOf(tid)
	if err != nil {
		t.Fatal(err)
	}
	p, mods := mappedOf(t, idOf(t, pid), NewSymbols(elf.DefaultLimit))
	raw, stop, mayMiss := Unwind(regs, Live{p}, mods, 0)
	return walk{mods.Symbolize(raw), stop, mayMiss}
}

func (w walk) names() []string {
	names := make([]string, len(w.frames))
	for i, f := range w.frames {
		names[i] = f.Symbol
	}
	return names
}

// want compares the first frames with a chain of functions, innermost first; "*"
// is any function.
func (w walk) want(t *testing.T, chain ...string) {
	t.Helper()
	got := w.names()
	if len(got) < len(chain) {
		t.Errorf("stack %q ends (%s) before %q", got, w.stop, chain)
		return
	}
	for i, name := range chain {
		if name != "*" && got[i] != name {
			t.Errorf("stack %q, want it to begin with %q", got, chain)
			return
		}
	}
}

func (w walk) String() string {
	var b strings.Builder
	for i, f := range w.frames {
		fmt.Fprintf(&b, "#%d %#x %s+%#x %v %s\n", i, f.Address, f.Symbol, f.SymbolOffset, f.By, f.Module)
	}
	fmt.Fprintf(&b, "%s, frames may be missing %v\n", w.stop, w.mayMiss)
	return b.String()
}
