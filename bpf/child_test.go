package bpf

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// The test binary is also the processes that are watched, and processes that
// watch from elsewhere: role says which.
const role = "BPF_TEST_ROLE"

func TestMain(m *testing.M) {
	switch r := os.Getenv(role); r {
	case "":
		os.Exit(m.Run())
	case "spin":
		spin()
	case "pingpong":
		pingPong()
	case "idle":
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
	case "become":
		fmt.Println("ready")
		bufio.NewReader(os.Stdin).ReadString('\n')
		if err := unix.Exec("/proc/self/exe", []string{"another", "program"}, []string{role + "=idle"}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "tasks":
		if err := writeTasks(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "descriptors", "descriptor numbers", "mappings", "mapping numbers":
		do := map[string]func() error{
			"descriptors": holdDescriptors, "descriptor numbers": countNumbers, "mappings": holdMappings, "mapping numbers": countMappings,
		}[r]
		if err := do(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "leaderless":
		leaveLeader()
	case "status", "rows", "held":
		if err := watchFromElsewhere(r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// spin keeps three threads busy until it is killed.
func spin() {
	for range 3 {
		go func() {
			runtime.LockOSThread()
			for n := new(atomic.Uint64); ; {
				n.Add(1)
			}
		}()
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
}

// The first goroutine of this one keeps the first thread, which init runs on.
func init() {
	if os.Getenv(role) == "leaderless" {
		runtime.LockOSThread()
	}
}

// leaveLeader ends the first thread of the process; the others go on until it is killed.
func leaveLeader() {
	go func() {
		for b := []byte(nil); !strings.Contains(string(b), ") Z "); time.Sleep(time.Millisecond) {
			b, _ = os.ReadFile("/proc/self/stat")
		}
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
}

// pingPong sends a byte to and fro between two threads until it is killed.
func pingPong() {
	var a, b [2]int
	if unix.Pipe(a[:]) != nil || unix.Pipe(b[:]) != nil {
		os.Exit(1)
	}
	relay := func(from, to int) {
		runtime.LockOSThread()
		var c [1]byte
		for {
			if n, err := unix.Read(from, c[:]); n != 1 || err != nil {
				return
			}
			if n, err := unix.Write(to, c[:]); n != 1 || err != nil {
				return
			}
		}
	}
	go relay(a[0], b[1])
	go relay(b[0], a[1])
	unix.Write(a[1], []byte{1})
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
}

// start starts this binary in a role; it ends with the test at the latest.
func start(t *testing.T, what string, change func(*exec.Cmd)) (*exec.Cmd, *bufio.Reader, io.WriteCloser) {
	t.Helper()
	// By descriptor: another user may not enter the folder of the binary.
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd := exec.Command("/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{self}
	cmd.Env = append(os.Environ(), role+"="+what)
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(cmd)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", what, err)
	}
	var once sync.Once
	t.Cleanup(func() {
		once.Do(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
	})
	return cmd, bufio.NewReader(out), in
}

// started is start for a role that says when it is ready.
func started(t *testing.T, what string) int {
	t.Helper()
	cmd, out, _ := start(t, what, nil)
	if line, err := out.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%s said %q, %v", what, line, err)
	}
	return cmd.Process.Pid
}

// eventually waits for a condition of the kernel's.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// answer is what a watching child writes, one line of JSON.
type answer struct {
	Status Status
	PID    int
	Rows   []CPU
	Ran    []int // children it had
	Held   string
}

// Environment of watching children.
const (
	seccompErrno = "BPF_TEST_SECCOMP"
	hideBTF      = "BPF_TEST_HIDE_BTF"
)

// watchFromElsewhere opens sensors under whatever its parent arranged.
func watchFromElsewhere(what string) error {
	if os.Getenv(hideBTF) != "" {
		if err := unix.Mount("none", "/sys/kernel/btf", "tmpfs", 0, ""); err != nil {
			return fmt.Errorf("mount: %w", err)
		}
	}
	if e := os.Getenv(seccompErrno); e != "" {
		var errno uint32
		fmt.Sscan(e, &errno)
		if err := refuseBPF(errno); err != nil {
			return err
		}
	}
	s := Open(Options{})
	a := answer{PID: os.Getpid()}
	var w Window
	if what == "rows" {
		for range 20 {
			cmd := exec.Command("/bin/true")
			if err := cmd.Run(); err != nil {
				return err
			}
			a.Ran = append(a.Ran, cmd.ProcessState.Pid())
		}
	}
	if err := s.Drain(&w); err != nil {
		return err
	}
	a.Rows, a.Status = w.CPU, s.Status()
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(a); err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	if what == "held" {
		in.ReadString('\n')
	}
	if err := s.Close(); err != nil {
		return err
	}
	if what == "held" {
		if err := out.Encode(a); err != nil {
			return err
		}
		in.ReadString('\n')
	}
	return nil
}

// writeTasks writes what the tables say as JSON.
func writeTasks() error {
	s, err := openTasks()
	if err != nil {
		return err
	}
	list, err := s.Read(0, 0)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(list); err != nil {
		return err
	}
	return s.Close()
}

// refuseBPF makes bpf(2) answer errno in this process from now on.
func refuseBPF(errno uint32) error {
	runtime.LockOSThread()
	const (
		load, jumpEqual, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
		filterMode           = 1 // SECCOMP_SET_MODE_FILTER, include/uapi/linux/seccomp.h
		allThreads           = 1 // SECCOMP_FILTER_FLAG_TSYNC
		allow, fail          = 0x7fff0000, 0x00050000
	)
	code := []unix.SockFilter{
		{Code: load, K: 0}, // nr, the first member of struct seccomp_data
		{Code: jumpEqual, K: unix.SYS_BPF, Jt: 0, Jf: 1},
		{Code: ret, K: fail | errno},
		{Code: ret, K: allow},
	}
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, filterMode, allThreads, uintptr(unsafe.Pointer(&prog))); e != 0 {
		return fmt.Errorf("seccomp: %w", e)
	}
	return nil
}

// ask starts a watching child and reads its first answer.
func ask(t *testing.T, what string, change func(*exec.Cmd)) (answer, *exec.Cmd, *bufio.Reader, io.WriteCloser) {
	t.Helper()
	cmd, out, in := start(t, what, change)
	return readAnswer(t, out), cmd, out, in
}

func readAnswer(t *testing.T, out *bufio.Reader) (a answer) {
	t.Helper()
	line, err := out.ReadString('\n')
	if err != nil {
		t.Fatalf("child said %q, %v", line, err)
	}
	if err := json.NewDecoder(strings.NewReader(line)).Decode(&a); err != nil {
		t.Fatalf("child said %q, %v", line, err)
	}
	return a
}

// needCPU opens the processor sensor; see opened.
func needCPU(t *testing.T, o Options) *cpuSensor {
	t.Helper()
	s := openedCPU(t, o)
	if s.cpu == nil {
		t.Fatalf("no sensor, though %+v", s.Status().CPU)
	}
	return s.cpu
}

func openedCPU(t *testing.T, o Options) *Sensors {
	t.Helper()
	return opened(t, o, func(st Status) []SensorStatus { return []SensorStatus{st.CPU} })
}

// opened gives sensors of which those needed work, until the test ends.
func opened(t *testing.T, o Options, needed func(Status) []SensorStatus) *Sensors {
	t.Helper()
	s := Open(o)
	closeAfter(t, s)
	for _, st := range needed(s.Status()) {
		switch st.State {
		case StateUnavailable:
			unavailable(t, st.Reason)
		case StateError:
			t.Fatalf("the sensor fails: %s", st.Reason)
		}
	}
	return s
}

// needKernel gives the types of the running kernel.
func needKernel(t *testing.T) *btf.Spec {
	t.Helper()
	kernel, err := loadKernel()
	if err != nil {
		unavailable(t, err.Error())
	}
	return kernel
}

// unavailable ends a test that needs what this machine does not give: root lacks no
// privilege, so there it is a failure.
func unavailable(t *testing.T, reason string) {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Fatalf("unavailable, though this is root: %s", reason)
	}
	t.Skipf("not root, and unavailable: %s", reason)
}

// closeAfter closes x when the test ends.
func closeAfter(t *testing.T, x io.Closer) {
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// untilEnd gives the tables that were opened until the test ends.
func untilEnd[T io.Closer](t *testing.T, x T, err error) T {
	t.Helper()
	if err != nil {
		unavailable(t, err.Error())
	}
	closeAfter(t, x)
	return x
}

// leavesNothing closes x twice, which the caller opened when that many BPF objects were
// held: nothing of it stays in the kernel.
func leavesNothing(t *testing.T, x io.Closer, before int) {
	t.Helper()
	if held := len(bpfObjects(t, unix.Getpid())); held <= before {
		t.Errorf("%d objects are held while it is open, %d before", held, before)
	}
	for range 2 {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
	if after := len(bpfObjects(t, unix.Getpid())); after != before {
		t.Errorf("%d objects are held, %d before", after, before)
	}
}

// needRoot skips what only root can arrange.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: arranges privileges, namespaces and limits")
	}
}

// asNobody makes a child run as another user with these capabilities.
func asNobody(caps ...uintptr) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: caps}
	}
}
