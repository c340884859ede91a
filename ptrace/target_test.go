package ptrace

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

// The main thread is parked where others end: a test that holds a tracee on it would
// hold it for ever.
func init() { runtime.LockOSThread() }

// inspectorEnv names the process that this program, started again, inspects.
const inspectorEnv = "PTRACE_TEST_INSPECTOR"

func TestMain(m *testing.M) {
	if pid := os.Getenv(inspectorEnv); pid != "" {
		inspect(pid)
	}
	code := m.Run()
	if exe, err := built(); err == nil {
		os.RemoveAll(filepath.Dir(exe))
	}
	os.Exit(code)
}

// built is testdata/capture/target.c, compiled once for all tests.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "procinsh-ptrace-")
	if err != nil {
		return "", err
	}
	exe := filepath.Join(dir, "target")
	out, err := exec.Command("gcc", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", exe, "testdata/capture/target.c").CombinedOutput()
	if err != nil {
		return dir, fmt.Errorf("gcc: %w: %s", err, out)
	}
	return exe, nil
})

// target is a running testdata/capture/target.c.
type target struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
	facts map[string]string
	pid   int32
	ended bool
}

// startTarget starts the target and waits until it is ready. It ends with the test.
func startTarget(t *testing.T, args ...string) *target {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("not root: may not trace every target")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is missing: the targets are in C")
	}
	exe, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return startProgram(t, exec.Command(exe, args...))
}

func startProgram(t *testing.T, cmd *exec.Cmd) *target {
	t.Helper()
	cmd.Stderr = os.Stderr
	// A group of its own with its parent in the same session: an orphaned group, as a
	// test started by a service manager has, ignores SIGTSTP.
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &unix.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tg := &target{t: t, cmd: cmd, in: in, lines: bufio.NewScanner(out), facts: map[string]string{}, pid: int32(cmd.Process.Pid)}
	t.Cleanup(func() { tg.end() })
	tg.until("READY")
	return tg
}

// end kills the target, if it has not ended, and returns what Wait says.
func (tg *target) end() error {
	if tg.ended {
		return nil
	}
	tg.ended = true
	tg.cmd.Process.Kill()
	return tg.cmd.Wait()
}

// until reads facts up to a line.
func (tg *target) until(end string) {
	tg.t.Helper()
	timer := time.AfterFunc(30*time.Second, func() { tg.cmd.Process.Kill() })
	defer timer.Stop()
	for tg.lines.Scan() {
		if tg.lines.Text() == end {
			return
		}
		key, value, _ := strings.Cut(tg.lines.Text(), "=")
		tg.facts[key] = value
	}
	tg.t.Fatalf("the target ended before %s", end)
}

// report asks the target for its facts and returns one.
func (tg *target) report(key string) int {
	tg.t.Helper()
	fmt.Fprintln(tg.in, "report")
	tg.until("DONE")
	return tg.fact(key)
}

func (tg *target) fact(key string) int {
	tg.t.Helper()
	v, err := strconv.Atoi(tg.facts[key])
	if err != nil {
		tg.t.Fatalf("fact %s: %v", key, err)
	}
	return v
}

func (tg *target) signal(s unix.Signal) {
	tg.t.Helper()
	if err := unix.Kill(int(tg.pid), s); err != nil {
		tg.t.Fatal(err)
	}
}

// procID returns the identity of a process that runs now, the zero ID when none does.
func procID(pid int32) proc.ID {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(f) < 20 {
		return proc.ID{}
	}
	start, _ := strconv.ParseUint(f[22-3], 10, 64)
	return proc.ID{PID: pid, StartTicks: start}
}

func identify(t testing.TB, pid int32) proc.ID {
	t.Helper()
	id := procID(pid)
	if id.StartTicks == 0 && pid != 1 {
		t.Fatalf("no process %d", pid)
	}
	return id
}

// openNow opens a process of the real procfs that may just have ended.
func openNow(t testing.TB, pid int32) (*proc.Process, error) {
	t.Helper()
	fs, err := proc.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	return fs.OpenProcess(procID(pid))
}

// open opens a process of the real procfs for the length of the test.
func open(t testing.TB, pid int32) *proc.Process {
	t.Helper()
	p, err := openNow(t, pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// long chooses the long form of a test when PROCINSH_SOAK is set.
func long(short, soak int) int {
	if os.Getenv("PROCINSH_SOAK") != "" {
		return soak
	}
	return short
}

// within bounds a test: a tracer that hangs would hang its target too.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func mustCapture(t testing.TB, p *proc.Process) *Raw {
	t.Helper()
	raw, err := Capture(within(t, 20*time.Second), p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// threadFacts reads the state letters and the tracers of all threads.
func threadFacts(t testing.TB, pid int32) (states string, traced []string) {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/status", pid, e.Name()))
		if err != nil {
			continue // ended
		}
		for line := range strings.Lines(string(text)) {
			if v, ok := strings.CutPrefix(line, "State:\t"); ok {
				states += v[:1]
			}
			if v, ok := strings.CutPrefix(line, "TracerPid:\t"); ok && strings.TrimSpace(v) != "0" {
				traced = append(traced, e.Name())
			}
		}
	}
	return states, traced
}

// free fails unless no thread of the target is traced.
func free(t testing.TB, pid int32) {
	t.Helper()
	if _, traced := threadFacts(t, pid); len(traced) > 0 {
		t.Fatalf("threads %v of %d are traced after the snapshot", traced, pid)
	}
}

// permitted is the best priority that this machine lets a thread have: containers
// often forbid real time.
var permitted = sync.OnceValue(func() Priority {
	best := make(chan Priority)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with its priority
		var t tracer
		t.raise()
		best <- t.priority
	}()
	return <-best
})

// settled waits until all threads have the state.
func settled(t testing.TB, pid int32, state string, threads int) {
	t.Helper()
	var got string
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(2 * time.Millisecond) {
		if got, _ = threadFacts(t, pid); got == strings.Repeat(state, threads) {
			return
		}
	}
	t.Fatalf("states of %d: got %s, want %d times %s", pid, got, threads, state)
}
