package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"procinsh/api"
)

// long is short, in the long form of a test n.
func long(short, n int) int {
	if os.Getenv("PROCINSH_SOAK") != "" {
		return n
	}
	return short
}

// descriptors counts those that the server has open.
func (s *server) descriptors() int {
	s.t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	return len(open)
}

// settled waits until the server has no more descriptors open than before.
func (s *server) settled(before int) {
	s.t.Helper()
	waitFor(s.t, "the server's descriptors to be closed", func() bool { return s.descriptors() <= before })
}

// quiet checks that the log has no error, and a line with text at most n times.
func (s *server) quiet(text string, n int) {
	s.t.Helper()
	log := s.stderr.String()
	if strings.Contains(log, "level=ERROR") || strings.Count(log, text) > n {
		s.t.Errorf("the log has an error, or %q more than %d times:\n%s", text, n, log)
	}
}

// dial opens connections that say nothing.
func (s *server) dial(n int) (all []net.Conn, closeAll func()) {
	s.t.Helper()
	for range n {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, c)
	}
	return all, func() {
		for _, c := range all {
			c.Close()
		}
	}
}

// Out of descriptors the server says so, shows no process as ended that has not, and is
// whole again when they come back.
func TestOutOfDescriptors(t *testing.T) {
	const limit = 40
	s := start(t, options{shell: fmt.Sprintf("ulimit -n %d", limit)})
	pid, _ := sleeper(t)
	kept := &http.Client{Transport: &http.Transport{MaxIdleConns: 1}, Timeout: time.Minute}
	ask := func(path string) answer {
		t.Helper()
		res, err := kept.Get(s.url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer{status: res.StatusCode, header: res.Header, body: body}
	}
	lists := func(a answer) bool {
		var list []api.ProcessSummary
		a.decode(t, &list)
		for _, p := range list {
			if p.Identity.PID == int32(pid) {
				return true
			}
		}
		return false
	}
	if !lists(ask("/api/processes")) {
		t.Fatal("the list lacks the process")
	}
	before := s.descriptors()
	_, closeAll := s.dial(2 * limit)
	defer closeAll()
	waitFor(t, "all descriptors to be in use", func() bool { return s.descriptors() >= limit })
	if a := ask("/healthz"); a.status != 200 {
		t.Errorf("healthz: %v", a)
	}
	var a answer
	waitFor(t, "a list that is not of before", func() bool {
		a = ask("/api/processes")
		return a.status != 200 || !lists(a)
	})
	for _, path := range []string{"", "/fds?" + identity(t, pid), "/stacks?" + identity(t, pid)} {
		if path != "" {
			a = ask("/api/processes" + path)
		}
		if a.status != 422 || a.code(t) != "out_of_descriptors" || !strings.Contains(string(a.body), "LimitNOFILE") {
			t.Errorf("%s without a descriptor left: %v", path, a)
		}
	}
	closeAll()
	s.settled(before)
	if !lists(ask("/api/processes")) || !lists(s.get("/api/processes")) {
		t.Error("the list lacks the process afterwards")
	}
	s.quiet("too many open files", 3)
	unchanged(t, pid, "S")
}

// A root file system that nobody may write to is no matter.
func TestReadOnlyRoot(t *testing.T) {
	needRoot(t)
	const mounts = `mount --bind / / && mount -o remount,bind,ro / && cd / && ! touch /tmp/x /root/x 2>/dev/null || exit 9`
	s := start(t, options{shell: mounts, flags: syscall.CLONE_NEWNS})
	pid, _ := sleeper(t)
	if a := s.snapshot(pid); len(a.Threads) != 1 || len(a.Threads[0].CallStack) == 0 {
		t.Errorf("a snapshot: %+v", a.Threads)
	}
	use(t, s)
	st, a := s.open("/api/system/events")
	if a.status != 200 {
		t.Fatalf("events: %v", a)
	}
	st.until("activity", func(e event) bool { return e.name == "activity" })
	st.close()
	s.quiet("read-only", 0)
	if status, _ := s.signal(syscall.SIGTERM); status.ExitStatus() != 0 {
		t.Errorf("ended with %v", status)
	}
}

// Clients that vanish in the middle, or never read, cost nobody else anything.
func TestClientsThatVanish(t *testing.T) {
	s := start(t, options{})
	pid, _ := sleeper(t)
	request := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: " + s.addr + "\r\n\r\n" }
	s.get("/api/processes")
	s.settled(s.descriptors())
	before := s.descriptors()

	stalled, closeStalled := s.dial(8)
	defer closeStalled()
	for i, c := range stalled {
		c.(*net.TCPConn).SetReadBuffer(1) // as little as the kernel grants
		io.WriteString(c, request([]string{"/api/processes/stream?maps=summary", "/api/system/events"}[i%2]))
	}
	viewer, _ := s.open("/api/processes/stream")
	for i := range long(60, 3000) {
		paths := []string{"/api/processes", "/api/processes/stream", "/api/system/events", "/api/processes/fds?" + identity(t, pid)}
		text := request(paths[i%len(paths)])
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, text[:len(text)-rand.IntN(len(text)-1)*(i%2)]) // every other one is cut
		c.(*net.TCPConn).SetLinger(0)                                    // closed by a reset
		if i%3 > 0 {
			time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
		}
		c.Close()
	}
	for range 3 {
		viewer.must()
	}
	if a := s.get("/api/processes"); a.status != 200 {
		t.Errorf("the list: %v", a)
	}
	viewer.close()
	closeStalled()
	s.settled(before)
	s.quiet("level=WARN", 2) // of a peer that nobody knows, and of many connections
	if a := s.get("/healthz"); a.status != 200 {
		t.Errorf("healthz: %v", a)
	}
}

// A server that is killed at any point of a snapshot leaves its target as it was:
// running, or stopped.
func TestServerKilledInSnapshot(t *testing.T) {
	needRoot(t)
	pid, _ := program(t, "../targets/sleep.c")
	body := []byte(named(t, pid))
	for i := range long(6, 200) {
		states := "S"
		if i%3 == 2 {
			states = "T"
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			unchanged(t, pid, states)
		}
		s := start(t, options{})
		var posts sync.WaitGroup
		taken := make(chan int, 1000)
		for range 3 {
			posts.Go(func() {
				for {
					res, err := http.Post(s.url+"/api/processes/snapshot", "application/json", bytes.NewReader(body))
					if err != nil {
						return
					}
					res.Body.Close()
					select {
					case taken <- res.StatusCode:
					default:
					}
				}
			})
		}
		if code := <-taken; code != 200 {
			t.Errorf("a snapshot: %d", code)
		}
		time.Sleep(time.Duration(rand.IntN(30_000)) * time.Microsecond)
		s.signal(syscall.SIGKILL)
		posts.Wait()
		unchanged(t, pid, states)
		if states == "T" {
			if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			unchanged(t, pid, "S")
		}
	}
}

// An unprivileged server shows what it may, and each refusal says what would allow it.
func TestUnprivilegedServer(t *testing.T) {
	needRoot(t)
	s := start(t, options{uid: nobody, args: []string{"--allow-user", "root"}})
	var config api.Config
	s.get("/api/config").decode(t, &config)
	if !config.Sandbox.Seccomp.Active || !config.Sandbox.NoNewPrivs.Active || len(config.Sandbox.Capabilities) > 0 {
		t.Errorf("sandbox %+v", config.Sandbox)
	}
	for name, c := range map[string]api.Capability{"cpu": config.Capabilities.BPFCPU, "ipc": config.Capabilities.BPFIPC, "files": config.Capabilities.BPFFiles} {
		if c.Available || c.Reason == nil || !strings.Contains(*c.Reason, "CAP_BPF and CAP_PERFMON") {
			t.Errorf("sensor %s: %+v", name, c)
		}
	}
	if c := config.Capabilities.Ptrace; c.Reason == nil || !strings.Contains(*c.Reason, "CAP_SYS_PTRACE") {
		t.Errorf("ptrace: %+v", c)
	}

	foreign, _ := sleeper(t)
	own := childCommand("wait", nobody)
	if err := own.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { own.Process.Kill(); own.Wait() }()
	waiting(t, own.Process.Pid)
	var list []api.ProcessSummary
	s.get("/api/processes").decode(t, &list)
	found := 0
	for _, p := range list {
		if p.Identity.PID == int32(foreign) || p.Identity.PID == int32(own.Process.Pid) {
			found++
		}
	}
	if found != 2 {
		t.Errorf("the list has %d of the two processes", found)
	}
	paths := []string{"observation", "threads", "maps", "fds", "environment", "auxv", "signals", "context", "stacks"}
	for _, path := range paths {
		if a := s.get("/api/processes/" + path + "?" + identity(t, own.Process.Pid)); a.status != 200 {
			t.Errorf("%s of an own process: %v", path, a)
		}
		a := s.get("/api/processes/" + path + "?" + identity(t, foreign))
		if a.status == 200 {
			continue // what everybody may read
		}
		if a.status != 422 || a.code(t) != "permission_denied" || !strings.Contains(string(a.body), "CAP_SYS_PTRACE") || !strings.Contains(string(a.body), "as root") {
			t.Errorf("%s of another's process: %v", path, a)
		}
	}
	for _, path := range []string{"environment", "fds"} {
		if a := s.get("/api/processes/" + path + "?" + identity(t, foreign)); a.status != 422 {
			t.Errorf("%s of another's process: %v", path, a)
		}
	}
	if a := s.post(named(t, foreign)); a.status != 422 || a.code(t) != "permission_denied" {
		t.Errorf("a snapshot of another's process: %v", a)
	}
	if config.Capabilities.Ptrace.Available {
		if a := s.snapshot(own.Process.Pid); len(a.Threads) < 2 {
			t.Errorf("a snapshot of an own process: %d threads", len(a.Threads))
		}
	}
	st, _ := s.open("/api/system/events")
	st.until("a structure", func(e event) bool { return e.name == "topology" })
	st.close()
	var status map[string]json.RawMessage
	s.get("/api/system/status").decode(t, &status)
	s.quiet("level=WARN", 4)
}
