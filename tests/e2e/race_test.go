package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var oneShots = []string{"observation", "threads", "maps", "memory", "fds", "environment", "auxv", "signals", "context"}

// ask gets one of a process's one-shots. It checks that the answer is one that may
// be given and, where it names a process, the right one.
func (s *server) ask(t *testing.T, what string, pid int, start uint64) answer {
	path := fmt.Sprintf("/api/processes/%s?pid=%d&start_time_ticks=%d", what, pid, start)
	if what == "memory" {
		path += "&address=0x400000"
	}
	a, err := s.try("GET", path)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return a
	}
	switch a.status {
	case 200:
		var named struct {
			ID *struct {
				PID   int    `json:"pid"`
				Ticks uint64 `json:"start_time_ticks"`
			} `json:"process_id"`
		}
		if what != "threads" {
			if err := json.Unmarshal(a.body, &named); err != nil || named.ID == nil || named.ID.PID != pid || named.ID.Ticks != start {
				t.Errorf("%s of %d %d: %v, %.200s", what, pid, start, err, a.body)
			}
		}
	case 410, 422, 429:
	default:
		t.Errorf("%s: %v", what, a)
	}
	return a
}

// Processes come and go while every endpoint is asked about them: an answer is of
// the process that was asked for, or says that it is gone.
func TestTargetsThatEnd(t *testing.T) {
	s := start(t, options{})
	type target struct {
		pid   int
		start uint64
		name  string
	}
	targets := make(chan target, 64)
	stop := time.Now().Add(4 * time.Second)
	var makers, askers sync.WaitGroup
	for m := range 2 {
		makers.Go(func() {
			for n := 0; time.Now().Before(stop); n++ {
				name := fmt.Sprintf("target-%d-%d", m, n)
				cmd := exec.Command("/bin/sleep", fmt.Sprintf("0.0%d", 1+rand.IntN(9)))
				cmd.Args[0] = name
				cmd.Env = []string{"NAME=" + name}
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				start, err := ticks(cmd.Process.Pid)
				offer := func() {
					select {
					case targets <- target{cmd.Process.Pid, start, name}:
					default:
					}
				}
				if err == nil && n%2 == 0 {
					offer()
				}
				cmd.Wait()
				if err == nil && n%2 == 1 {
					offer()
				}
			}
		})
	}
	var whole, gone atomic.Int32
	for range 3 {
		askers.Go(func() {
			for g := range targets {
				for _, k := range rand.Perm(len(oneShots)) {
					a := s.ask(t, oneShots[k], g.pid, g.start)
					switch {
					case a.status == 410:
						gone.Add(1)
					case a.status == 200 && oneShots[k] == "environment":
						whole.Add(1)
						if !strings.Contains(string(a.body), `"value":"`+g.name+`"`) && !strings.Contains(string(a.body), `"entries":[]`) {
							t.Errorf("the environment of %s is %s", g.name, a.body)
						}
					}
				}
			}
		})
	}
	makers.Wait()
	close(targets)
	askers.Wait()
	if whole.Load() == 0 || gone.Load() == 0 {
		t.Errorf("%d environments and %d gone: the test met only one side", whole.Load(), gone.Load())
	}
}

// Targets that change under the reader's hands: threads come and go, children are
// forked, the program is replaced, the name changes.
func TestTargetsThatChange(t *testing.T) {
	s := start(t, options{args: []string{"--interval", "100ms"}})
	for _, mode := range []string{"threads", "fork", "exec", "rename"} {
		t.Run(mode, func(t *testing.T) {
			cmd := childCommand(mode, 0)
			var out text
			cmd.Stdout = &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				cmd.Process.Kill()
				cmd.Wait()
			}()
			pid := cmd.Process.Pid
			start, err := ticks(pid)
			if err != nil {
				t.Fatal(err)
			}
			st, a := s.open("/api/processes/events?" + identity(t, pid))
			if st == nil {
				t.Fatalf("no stream: %v", a)
			}
			seen := make(chan int)
			go func() {
				n := 0
				for {
					e, err := st.next()
					if err != nil {
						seen <- n
						return
					}
					n++
					if !strings.Contains(e.data, fmt.Sprintf(`"process_id":{"pid":%d,"start_time_ticks":%d}`, pid, start)) || strings.Contains(e.data, `"exited":true`) {
						t.Errorf("an event is of another process, or an end: %.300s", e.data)
					}
				}
			}()
			for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); {
				for _, what := range oneShots {
					if a := s.ask(t, what, pid, start); a.status == 410 {
						t.Errorf("%s says that a living process is gone: %v", what, a)
					}
				}
				// A target that never holds still is refused at times, and goes on.
				if a := s.post(named(t, pid)); a.status != 200 && (a.status != 422 || os.Geteuid() == 0 && a.code(t) != "unstable") {
					t.Errorf("snapshot: %v", a)
				}
				if mode != "rename" {
					continue
				}
				var list []struct {
					Identity struct{ PID int }
					Name     string
				}
				if err := json.Unmarshal(s.get("/api/processes").body, &list); err != nil {
					t.Fatal(err)
				}
				for _, p := range list {
					if p.Identity.PID == pid && !strings.HasPrefix(p.Name, "name) R ") && p.Name != "self" {
						t.Errorf("the name is %q", p.Name)
					}
				}
			}
			st.close()
			if n := <-seen; n < 3 {
				t.Errorf("%d events in 1.5 s", n)
			}
			if err := cmd.Process.Signal(syscall.Signal(0)); err != nil || out.String() != "" {
				t.Errorf("the target did not go on: %v %s", err, &out)
			}
			unchanged(t, pid, "SRD")
		})
	}
}

// A stopped target stays stopped.
func TestStoppedTarget(t *testing.T) {
	s := start(t, options{})
	pid, _ := sleeper(t)
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	state := func() string {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(data), ") ")
		return rest[:1]
	}
	waitFor(t, "the target to stop", func() bool { return state() == "T" })
	start, err := ticks(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range oneShots {
		if a := s.ask(t, what, pid, start); a.status != 200 && what != "memory" {
			t.Errorf("%s: %v", what, a)
		}
	}
	if got := state(); got != "T" {
		t.Errorf("the target is in state %s afterwards", got)
	}
}

// A kernel thread has no memory, and every endpoint can say so.
func TestKernelThread(t *testing.T) {
	const pid = 2
	comm, err := os.ReadFile("/proc/2/comm")
	if err != nil || string(comm) != "kthreadd\n" {
		t.Skip("PID 2 is not kthreadd: this is a PID namespace of its own")
	}
	s := start(t, options{})
	start, err := ticks(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range oneShots {
		a := s.ask(t, what, pid, start)
		want := 200
		if what == "memory" {
			want = 422
		}
		if a.status != want {
			t.Errorf("%s: %v, want %d", what, a, want)
		}
	}
	st, a := s.open("/api/processes/events?" + identity(t, pid))
	if st == nil {
		t.Fatalf("no stream: %v", a)
	}
	if e := st.must(); !strings.Contains(e.data, `"kernel_thread":true`) || !strings.Contains(e.data, `"maps":[]`) {
		t.Errorf("the event is %.400s", e.data)
	}
}
