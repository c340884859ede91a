package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if os.Getenv("SANDBOX_TEST") != "" {
		json.NewEncoder(os.Stdout).Encode(inside())
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// seen is what a process sees of its own sandbox.
type seen struct {
	Before, After sets
	Last          int
	Report        Report
	Threads       []string // the lines of their status that are about this
	Raised        sets     // on the thread of Admin
	Lowered       sets     // on it afterwards
	Panicked      string   // what a function that panicked there gave its caller
	Replaced      bool     // it was another thread after one that was not whole
	Write         string
	Kill          string
	Exec          string
	Socket        string
}

func inside() (s seen) {
	s.Last = lastCapability()
	s.Before, _ = ownSets()
	s.Report = Enter()
	s.After, _ = ownSets()
	entries, _ := os.ReadDir("/proc/self/task")
	for _, e := range entries {
		text, _ := os.ReadFile("/proc/self/task/" + e.Name() + "/status")
		var lines []string
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "Cap") || strings.HasPrefix(line, "NoNewPrivs") || strings.HasPrefix(line, "Seccomp:") {
				lines = append(lines, strings.Join(strings.Fields(line), " "))
			}
		}
		s.Threads = append(s.Threads, strings.Join(lines, " "))
	}
	if a := s.Report.Admin; a != nil {
		var first, second int
		var all sync.WaitGroup
		for range 20 { // at the same time
			all.Go(func() { a.Do(func() bool { return true }) })
		}
		all.Wait()
		a.Do(func() bool { first = unix.Gettid(); s.Raised, _ = ownSets(); return false })
		a.Do(func() bool { second = unix.Gettid(); return true })
		s.Replaced = first != second
		s.Panicked = panicOf(func() { a.Do(func() bool { panic("caught") }) })
		a.Do(func() bool { return true }) // another thread is there
		done := make(chan sets)
		go func() { own, _ := ownSets(); done <- own }()
		s.Lowered = <-done
		s.Report.Admin = nil
	}
	_, err := os.OpenFile("/dev/null", os.O_WRONLY, 0)
	s.Write = fmt.Sprint(err)
	s.Kill = fmt.Sprint(unix.Kill(os.Getppid(), 0))
	s.Exec = fmt.Sprint(exec.Command("/bin/true").Run())
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_SOCK_DIAG)
	if err == nil {
		unix.Close(fd)
	}
	s.Socket = fmt.Sprint(err)
	return s
}

func panicOf(f func()) (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	f()
	return ""
}

func TestEnter(t *testing.T) {
	for _, uid := range []uint32{0, 65534} {
		t.Run(fmt.Sprintf("uid %d", uid), func(t *testing.T) {
			if os.Geteuid() != 0 {
				t.Skip("needs root: becomes other users and drops capabilities")
			}
			enter(t, uid)
		})
	}
}

func enter(t *testing.T, uid uint32) {
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "procinsh-sandbox-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/test", exe, 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(dir + "/test")
	c.Env = []string{"SANDBOX_TEST=1"}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var s seen
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !s.Report.NoNewPrivs.Active || !s.Report.Seccomp.Active {
		t.Errorf("not all is active: %+v", s.Report)
	}
	if complete := s.Last >= unix.CAP_CHECKPOINT_RESTORE; uid == 0 && complete != (s.Report.Capabilities == "") {
		t.Errorf("capabilities up to %d, and the report says %q", s.Last, s.Report.Capabilities)
	}
	if want := s.Before.reduced(s.Last); s.After != want {
		t.Errorf("capabilities: got %+v, want %+v", s.After, want)
	}
	if len(s.Threads) < 2 {
		t.Fatalf("threads: got %q, want several", s.Threads)
	}
	bounding := fmt.Sprintf("CapBnd: %016x", uint64(kept|admin)&s.Before.Permitted)
	if uid != 0 {
		bounding = "CapBnd: " // nobody may reduce it
	}
	want := fmt.Sprintf("CapInh: %016x CapPrm: %016x CapEff: %016x %s", 0, s.After.Permitted, s.After.Effective, bounding)
	for _, thread := range s.Threads {
		if !strings.HasPrefix(thread, want) || !strings.HasSuffix(thread, "CapAmb: 0000000000000000 NoNewPrivs: 1 Seccomp: 2") {
			t.Errorf("a thread has %q, want it to begin with %q, without ambient capabilities and with both protections", thread, want)
		}
	}
	if s.After.Permitted&admin != 0 && s.After.Effective&admin == 0 {
		if raised := s.After.Effective | admin; s.Raised.Effective != raised || s.Lowered != s.After || !s.Replaced || s.Panicked != "caught" {
			t.Errorf("the thread had %x, want %x; others %+v, want %+v; replaced when it was not whole: %v, panicked %q", s.Raised.Effective, raised, s.Lowered, s.After, s.Replaced, s.Panicked)
		}
	}
	for what, got := range map[string]string{"open for writing": s.Write, "kill": s.Kill, "execve": s.Exec} {
		if !strings.Contains(got, "operation not permitted") {
			t.Errorf("%s: got %q, want it refused", what, got)
		}
	}
	if s.Socket != "<nil>" {
		t.Errorf("a socket: %s, want it allowed", s.Socket)
	}
}

// What stays on older kernels.
func TestReduced(t *testing.T) {
	all := sets{1<<41 - 1, 1<<41 - 1, 1<<41 - 1}
	known := func(last int) uint64 { return 1<<(last+1) - 1 }
	for _, c := range []struct {
		name string
		have sets
		last int
		want sets
	}{
		{"root", all, 40, sets{kept, kept | admin, 0}},
		{"root on 5.8", sets{known(39), known(39), 0}, 39, sets{(kept | admin) & known(39), (kept | admin) & known(39), 0}},
		{"root on 5.4", sets{known(37), known(37), 0}, 37, sets{(kept | admin) & known(37), (kept | admin) & known(37), 0}},
		{"nobody", sets{}, 40, sets{}},
		{"one given", sets{1 << unix.CAP_SYS_PTRACE, 1 << unix.CAP_SYS_PTRACE, 1 << unix.CAP_SYS_PTRACE}, 40, sets{1 << unix.CAP_SYS_PTRACE, 1 << unix.CAP_SYS_PTRACE, 0}},
		{"one of no use", sets{1 << unix.CAP_KILL, 1 << unix.CAP_KILL, 0}, 40, sets{}},
	} {
		if got := c.have.reduced(c.last); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
	if d := all.data(); !reflect.DeepEqual(*d, [2]unix.CapUserData{{Effective: 1<<32 - 1, Permitted: 1<<32 - 1, Inheritable: 1<<32 - 1}, {Effective: 1<<9 - 1, Permitted: 1<<9 - 1, Inheritable: 1<<9 - 1}}) {
		t.Errorf("halves: %+v", *d)
	}
}
