package load

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"procinsh/tests/server"
)

// population starts idle processes and returns the identities of some of them, as
// queries.
func population(t *testing.T, n int) (targets []string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "procinsh-load-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // some become other users
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "fixture")
	if out, err := exec.Command("gcc", "-O2", "-pthread", "-o", exe, "../bench/c/fixture.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	cmd := exec.Command(exe, "procs", strconv.Itoa(n))
	cmd.Env = append(os.Environ(), "FIXTURE_TTL=1800")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(line, fmt.Sprintf(" n=%d", n)) {
		t.Fatalf("the processes are not there: %q, %v", line, err)
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range strings.Fields(string(children)) {
		if len(targets) == 64 {
			break
		}
		b, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, "pid="+pid+"&start_time_ticks="+server.StatFields(b)[19])
	}
	if len(targets) == 0 {
		t.Fatal("no process to look at")
	}
	return targets
}

// cpuTime is what a process has used, its ended threads included.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	used, err := server.CPUTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	return used
}

func resident(t *testing.T, pid int) uint64 {
	t.Helper()
	n, err := server.RSS(pid)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func descriptors(t *testing.T, pid int) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func median(list []uint64) uint64 {
	s := slices.Sorted(slices.Values(list))
	return s[len(s)/2]
}

// raiseFileLimit lets this test hold so many descriptors.
func raiseFileLimit(t *testing.T, want uint64) {
	t.Helper()
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	if l.Cur >= want {
		return
	}
	l.Cur, l.Max = want, max(l.Max, want)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatalf("%d descriptors for the clients: %v", want, err)
	}
}
