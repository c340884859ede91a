package proc

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// targets are the programs that this test binary is when PROC_TARGET names one:
// processes in a known condition, which tell in KEY=VALUE lines what they hold.
var targets = map[string]func(args []string){}

// targetNeedsMain names the targets that must run on the main thread.
const targetNeedsMain = "main-"

func init() {
	if strings.HasPrefix(os.Getenv("PROC_TARGET"), targetNeedsMain) {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	if name := os.Getenv("PROC_TARGET"); name != "" {
		run, ok := targets[name]
		if !ok {
			fmt.Fprintln(os.Stderr, "no target", name)
			os.Exit(2)
		}
		os.Unsetenv("PROC_TARGET")
		run(os.Args[1:])
		targetReady()
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var targetOut sync.Mutex

// fact prints a KEY=VALUE line from inside a target.
func fact(key string, value any) {
	targetOut.Lock()
	defer targetOut.Unlock()
	fmt.Printf("%s=%v\n", key, value)
}

func targetReady() {
	targetOut.Lock()
	defer targetOut.Unlock()
	fmt.Println("READY")
}

// must ends the target when something that it needs does not work.
func must(err error) {
	if err != nil {
		_, _, line, _ := runtime.Caller(1)
		fmt.Fprintf(os.Stderr, "target line %d: %v\n", line, err)
		os.Exit(1)
	}
}

// must2 is must for calls that also return a value.
func must2[T any](v T, err error) T {
	if err != nil {
		_, _, line, _ := runtime.Caller(1)
		fmt.Fprintf(os.Stderr, "target line %d: %v\n", line, err)
		os.Exit(1)
	}
	return v
}

func inodeOf(fd int) uint64 {
	var st unix.Stat_t
	must(unix.Fstat(fd, &st))
	return st.Ino
}

// target is a running target.
type target struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.WriteCloser
	facts map[string]string
}

// startTarget starts the target name and waits until it is ready. It ends with
// the test.
func startTarget(t *testing.T, attr *syscall.SysProcAttr, name string, args ...string) *target {
	t.Helper()
	return startTargetWith(t, attr, nil, name, args...)
}

// startTargetWith gives the target files as descriptors 3, 4, …
func startTargetWith(t *testing.T, attr *syscall.SysProcAttr, files []*os.File, name string, args ...string) *target {
	t.Helper()
	// Not os.Executable: its directory may be closed to another user.
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "PROC_TARGET="+name)
	cmd.SysProcAttr = attr
	cmd.ExtraFiles = files
	var errors strings.Builder
	cmd.Stderr = &errors
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tg := &target{t: t, cmd: cmd, stdin: stdin, facts: map[string]string{}}
	t.Cleanup(tg.stop)
	timer := time.AfterFunc(30*time.Second, func() { cmd.Process.Kill() })
	defer timer.Stop()
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if lines.Text() == "READY" {
			go io.Copy(io.Discard, stdout)
			return tg
		}
		key, value, _ := strings.Cut(lines.Text(), "=")
		tg.facts[key] = value
	}
	cmd.Wait()
	t.Fatalf("target %s ended before it was ready: %s", name, errors.String())
	return nil
}

func (tg *target) stop() {
	tg.stdin.Close()
	timer := time.AfterFunc(10*time.Second, func() { tg.cmd.Process.Kill() })
	defer timer.Stop()
	tg.cmd.Wait()
}

func (tg *target) pid() int32 { return int32(tg.cmd.Process.Pid) }

// fact returns a number that the target told.
func (tg *target) fact(key string) int {
	tg.t.Helper()
	v, err := strconv.Atoi(tg.facts[key])
	if err != nil {
		tg.t.Fatalf("target told %s=%q", key, tg.facts[key])
	}
	return v
}

// openLive opens the running process pid.
func openLive(t *testing.T, pid int32) *Process {
	t.Helper()
	fs, err := Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	st, ok := parseStat(text)
	if !ok {
		t.Fatalf("stat of %d: %q", pid, text)
	}
	p, err := fs.OpenProcess(ID{PID: pid, StartTicks: st.start})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}
