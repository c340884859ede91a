package ptrace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

// Storms: snapshots of targets whose threads come, go and are replaced all the
// time. The short form takes 300 snapshots in all, PROCINSH_SOAK=1 5,000. No one may
// hang, and what a snapshot leaves behind would show in the target or in us.

// ours counts our threads and descriptors.
func ours(t testing.TB) (threads, files int) {
	t.Helper()
	for dir, n := range map[string]*int{"/proc/self/task": &threads, "/proc/self/fd": &files} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		*n = len(entries)
	}
	return threads, files
}

// leaks fails when threads or descriptors are left after f. The runtime keeps
// threads that it once needed, so some slack is right for those.
func leaks(t *testing.T, f func()) {
	t.Helper()
	startTarget(t, "threads", "1").end() // what the runtime needs for the first child stays
	threads, files := ours(t)
	f()
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		nowThreads, nowFiles := ours(t)
		if nowThreads <= threads+8 && nowFiles <= files {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("threads %d, descriptors %d; before the storm %d and %d", nowThreads, nowFiles, threads, files)
		}
	}
}

// stormCounts is what came of the snapshots of a storm.
type stormCounts struct {
	taken, unstable, gone, rescued, passes, most int
	longest                                      time.Duration
}

func (c *stormCounts) String() string {
	return fmt.Sprintf("%d taken, %d unstable, %d of a process that had ended; %d of the dead reaped by the watchdog, at most %d threads and %d passes, longest %v",
		c.taken, c.unstable, c.gone, c.rescued, c.most, c.passes, c.longest)
}

// shot takes one snapshot and allows for the errors that a storm may cause.
func (c *stormCounts) shot(t *testing.T, p *proc.Process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	from := time.Now()
	raw, err := Capture(ctx, p, Options{done: func(t *tracer) { c.rescued += int(t.rescued.Load()) }})
	c.longest = max(c.longest, time.Since(from))
	switch {
	case err == nil:
		c.taken++
		c.passes, c.most = max(c.passes, raw.Passes), max(c.most, len(raw.Threads))
		for _, th := range raw.Threads {
			if !th.Registers && th.Err == "" {
				t.Errorf("thread %d has no registers and no error", th.TID)
			}
		}
	case errors.Is(err, ErrUnstable):
		c.unstable++
	case errors.Is(err, proc.ErrGone):
		c.gone++
	default:
		t.Fatal(err)
	}
}

func TestStorms(t *testing.T) {
	for _, c := range []struct {
		name        string
		args        []string
		short, soak int
		unstable    int // percent that may be
	}{
		{"clone", []string{"clones", "1"}, 20, 300, 5},
		{"clone by many", []string{"clones", "8"}, 40, 900, 5},
		{"chain", []string{"chain", "1"}, 20, 400, 5},
		{"chains", []string{"chain", "4"}, 20, 400, 10},
		{"fork", []string{"forks", "4"}, 20, 300, 0},
		{"exec", []string{"execs", "0"}, 20, 300, 50},
		{"exec of threads", []string{"execs", "12"}, 60, 1000, 50},
	} {
		t.Run(c.name, func(t *testing.T) {
			leaks(t, func() {
				tg := startTarget(t, c.args...)
				p := open(t, tg.pid)
				var counts stormCounts
				n := long(c.short, c.soak)
				for range n {
					counts.shot(t, p)
				}
				t.Log(&counts)
				if counts.gone > 0 || counts.unstable*100 > c.unstable*n {
					t.Errorf("got %v", &counts)
				}
				if states, _ := threadFacts(t, tg.pid); strings.ContainsAny(states, "tT") {
					t.Errorf("states afterwards: %s", states)
				}
				free(t, tg.pid)
				if c.args[0] != "execs" {
					moving(t, tg)
				}
				tg.end()
				p.Close()
			})
		})
	}
}

// TestStormExit: processes end, with all their threads, at any point of a snapshot.
func TestStormExit(t *testing.T) {
	leaks(t, func() {
		var counts stormCounts
		for range long(60, 1000) {
			tg := startTarget(t, "exits", "6")
			p, err := openNow(t, tg.pid)
			if err == nil {
				counts.shot(t, p)
				p.Close()
			} else {
				counts.gone++
			}
			if err := tg.end(); err != nil && !strings.Contains(err.Error(), "signal: killed") {
				t.Errorf("the target ended with %v", err)
			}
		}
		t.Log(&counts)
		if counts.taken == 0 {
			t.Error("every process had ended")
		}
	})
}

// TestStormKill: the process is killed while its threads stand.
func TestStormKill(t *testing.T) {
	leaks(t, func() {
		for i := range long(10, 100) {
			tg := startTarget(t, "threads", "9")
			at := allSeized
			if i%2 == 1 {
				at = allStand
			}
			p, err := openNow(t, tg.pid)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Capture(within(t, 20*time.Second), p, Options{hook: func(s stage) {
				if s == at {
					unix.Kill(int(tg.pid), unix.SIGKILL)
				}
			}})
			if err != nil && !errors.Is(err, proc.ErrGone) {
				t.Fatal(err)
			}
			p.Close()
			if err := tg.end(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Errorf("ended with %v", err)
			}
		}
	})
}

// sendQueued queues n real-time signals and returns how many. They are never
// merged, so that one that is lost is missing.
func sendQueued(t *testing.T, pid int32, n int, pause time.Duration) int {
	sent := 0
	for sent < n {
		var info struct {
			signo, errno, code, _ int32
			pid, uid              int32
			value                 uint64
			_                     [96]byte
		}
		info.signo, info.code, info.pid = 34+int32(sent%4), -1, int32(os.Getpid()) // SI_QUEUE
		_, _, e := unix.Syscall(unix.SYS_RT_SIGQUEUEINFO, uintptr(pid), uintptr(info.signo), uintptr(unsafe.Pointer(&info)))
		switch e {
		case 0:
			sent++
		case unix.EAGAIN:
		default:
			t.Errorf("rt_sigqueueinfo: %v", e)
			return sent
		}
		time.Sleep(pause)
	}
	return sent
}

func (tg *target) handles(n int) {
	tg.t.Helper()
	got := 0
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if got = tg.report("HANDLED"); got >= n {
			break
		}
	}
	if got != n {
		tg.t.Errorf("%d of %d signals were handled", got, n)
	}
}

func TestStormSignals(t *testing.T) {
	leaks(t, func() {
		tg := startTarget(t, "signals", "6")
		p := open(t, tg.pid)
		sent := make(chan int)
		stop := make(chan bool)
		go func() {
			n := 0
			for {
				select {
				case <-stop:
					sent <- n
					return
				default:
					n += sendQueued(t, tg.pid, 10, 100*time.Microsecond)
				}
			}
		}()
		var counts stormCounts
		for range long(60, 700) {
			counts.shot(t, p)
		}
		close(stop)
		n := <-sent
		t.Logf("%d signals, %v", n, &counts)
		tg.handles(n)
		free(t, tg.pid)
		tg.end()
		p.Close()
	})
}

// inspect is this program as an inspector that is killed: TestMain runs it.
func inspect(pid string) {
	n, err := strconv.Atoi(pid)
	if err == nil {
		var fs *proc.FS
		if fs, err = proc.Open("/proc"); err == nil {
			var p *proc.Process
			if p, err = fs.OpenProcess(procID(int32(n))); err == nil {
				for {
					if _, err = Capture(context.Background(), p, Options{}); err != nil {
						break
					}
					fmt.Println("captured")
				}
			}
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestKilledInspector: the kernel lets a target go whose inspector is killed in the
// middle, and no signal is lost.
func TestKilledInspector(t *testing.T) {
	tg := startTarget(t, "signals", "12")
	sent := 0
	for i := range long(30, 500) {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), inspectorEnv+"="+strconv.Itoa(int(tg.pid)))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var first [9]byte
		if _, err := out.Read(first[:]); err != nil {
			t.Fatal(err)
		}
		go func() {
			for b := make([]byte, 4096); ; {
				if _, err := out.Read(b); err != nil {
					return
				}
			}
		}()
		sent += sendQueued(t, tg.pid, 40, time.Duration(i%7)*20*time.Microsecond)
		cmd.Process.Kill()
		cmd.Wait()
		if !cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
			t.Fatal("the inspector ended by itself")
		}
		free(t, tg.pid)
		if states, _ := threadFacts(t, tg.pid); strings.ContainsAny(states, "tT") {
			t.Fatalf("states: %s", states)
		}
	}
	tg.handles(sent)
}
