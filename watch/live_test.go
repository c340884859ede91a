package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"procinsh/proc"
)

// childEnv makes the test binary a target of the kind it names.
const childEnv = "PROCINSH_WATCH_CHILD"

func init() {
	if os.Getenv(childEnv) != "" {
		runtime.LockOSThread() // the main goroutine stays on the leader
	}
}

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		os.Exit(m.Run())
	case "busy":
		spin()
	case "map":
		mapFile(os.Getenv(childFile))
	case "zombie-leader":
		go spin()
		io.Copy(io.Discard, os.Stdin)                 // until the test says so
		syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0) // this thread alone
	}
}

// spin computes for ever.
func spin() {
	for n := uint64(1); n != 0; n = n*3 | 1 {
	}
}

// startChild starts a target; it is killed and reaped at the end of the test.
func startChild(t *testing.T, kind string) (cmd *exec.Cmd, id proc.ID, stdin io.Closer) {
	t.Helper()
	cmd = exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"="+kind, "GOMAXPROCS=2")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, proc.ID{PID: int32(cmd.Process.Pid), StartTicks: startTicks(t, cmd.Process.Pid)}, stdin
}

// startTicks reads field 22 of stat, on its own way.
func startTicks(t *testing.T, pid int) uint64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	var ticks uint64
	if _, err := fmt.Sscan(string(fields[19]), &ticks); err != nil {
		t.Fatal(err)
	}
	return ticks
}

func openFS(t *testing.T, mount string) *proc.FS {
	t.Helper()
	fs, err := proc.Open(mount)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	return fs
}

// checkLeaks compares goroutines and descriptors at the end with those now.
func checkLeaks(t *testing.T) (check func()) {
	t.Helper()
	goroutines, fds := runtime.NumGoroutine(), countFDs(t)
	return func() {
		t.Helper()
		var g, f int
		for range 1000 { // one that has ended is counted for a moment longer
			g, f = runtime.NumGoroutine(), countFDs(t)
			if g <= goroutines && f <= fds {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("%d goroutines and %d descriptors, %d and %d before", g, f, goroutines, fds)
	}
}

func countFDs(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestLiveProcess watches a program that computes: what the states say it used must
// be what the kernel says when it has been reaped.
func TestLiveProcess(t *testing.T) {
	fs := openFS(t, "/proc")
	cmd, id, _ := startChild(t, "busy")
	check := checkLeaks(t)
	w := NewProcesses(fs, ProcessOptions{Interval: 100 * time.Millisecond})
	v := watchProcess(t, w, id)
	s := nextState(t, v)
	if s.Row.ID != id || s.Row.Details == nil || s.Row.Details.Name == "" {
		t.Errorf("row of %v", s.Row.ID)
	}
	if len(s.Maps) == 0 || s.Rollup == nil || s.Rollup.RSS == 0 || s.MapsErr != nil || !s.Maps[0].RSS.Known() {
		t.Errorf("%d maps, rollup %v, error %v", len(s.Maps), s.Rollup, s.MapsErr)
	}
	first := s.Observation
	if first == nil || first.CPUPercent.Known() {
		t.Fatalf("first observation: %+v", first)
	}
	var used, threads float64 // core-seconds
	last := first
	for range 12 {
		s = nextState(t, v)
		o := s.Observation
		window := o.At.Sub(last.At).Seconds()
		used += o.CPUPercent.Or(0) / 100 * window
		for _, c := range o.ThreadCPU {
			threads += c.Or(0) / 100 * window
		}
		last = o
	}
	if len(s.History) != 13 {
		t.Errorf("history of %d points", len(s.History))
	}
	cmd.Process.Kill()
	cmd.Wait()
	tail := time.Since(last.At).Seconds() + 0.03 // after the last observation, and ticks
	total := (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	want := total - float64(first.CPUTicks)/ticksPerSecond
	if used <= 0 || used < 0.85*want-tail || used > 1.05*want+0.03 {
		t.Errorf("states say %.3f core-seconds, the kernel %.3f", used, want)
	}
	const between = 0.2 // a busy machine may let the reader wait between the process and its threads
	if threads < 0.8*used-tail-between || threads > 1.2*used+tail+between {
		t.Errorf("threads say %.3f core-seconds, the process %.3f", threads, used)
	}

	for !s.Exited {
		s = nextState(t, v)
	}
	if s.Observation == nil || len(s.Maps) == 0 {
		t.Error("the last state kept nothing")
	}
	if _, err := v.Next(t.Context()); err != io.EOF {
		t.Errorf("after the last state: %v", err)
	}
	if _, err := w.Subscribe(t.Context(), id); !errors.Is(err, proc.ErrGone) {
		t.Errorf("Subscribe after the exit: %v", err)
	}
	v.Close()
	w.Close()
	check()
}

// The leader ends, its threads go on: that is no exit.
func TestLiveZombieLeader(t *testing.T) {
	fs := openFS(t, "/proc")
	cmd, id, stdin := startChild(t, "zombie-leader")
	w := NewProcesses(fs, ProcessOptions{Interval: 100 * time.Millisecond})
	defer w.Close()
	v := watchProcess(t, w, id)
	defer v.Close()
	stdin.Close()
	zombie := 0
	for range 300 {
		s := nextState(t, v)
		if s.Exited || s.Err != nil {
			t.Fatalf("exited %v, error %v", s.Exited, s.Err)
		}
		for i, th := range s.Observation.Threads {
			if th.TID == id.PID && th.State == 'Z' {
				zombie++
				if s.Observation.State == 'Z' {
					t.Error("the process shows the state of its ended leader")
				}
			} else if zombie > 3 && s.Observation.ThreadCPU[i].Or(0) > 0 {
				cmd.Process.Kill()
				cmd.Wait()
				for !s.Exited {
					s = nextState(t, v)
				}
				return
			}
		}
	}
	t.Error("no state with an ended leader and a thread that computes")
}

func TestLiveList(t *testing.T) {
	fs := openFS(t, "/proc")
	_, id, _ := startChild(t, "busy")
	check, fds := checkLeaks(t), countFDs(t)
	l := NewList(fs, ListOptions{})
	first := now(t, l, ListWant{})
	v := subscribe(t, l, ListWant{Maps: true, IO: true})
	var s *ListState
	for s == nil || s.Sequence < first.Sequence+2 {
		s = next(t, v).State
	}
	if n := countFDs(t); n < fds+4 {
		t.Errorf("%d descriptors are open while texts are watched, %d before: those of two processes are not kept", n, fds)
	}
	v.Close()
	l.Close()
	check()
	seen := 0
	for i, r := range s.Rows {
		if i > 0 && s.Rows[i-1].ID.PID >= r.ID.PID {
			t.Errorf("row of %d after that of %d", r.ID.PID, s.Rows[i-1].ID.PID)
		}
		switch {
		case r.ID == id:
			seen++
			if c := r.CPUPercent.Or(-1); c <= 1 || c > 100*float64(runtime.NumCPU())+5 {
				t.Errorf("CPU of a program that computes: %v %%", c)
			}
			if r.Maps == nil || !r.ReadRate.Known() {
				t.Errorf("maps %v, read rate %v", r.Maps, r.ReadRate)
			}
		case int(r.ID.PID) == os.Getpid():
			seen++
		}
	}
	if seen != 2 {
		t.Errorf("%d of this process and its child are in the list", seen)
	}
	tot := s.Totals
	if busy, ok := tot.CoresBusy.Get(); s.TotalsErr != nil || !ok || busy <= 0 || busy > float64(tot.Cores) {
		t.Errorf("%v of %d cores busy, error %v", tot.CoresBusy, tot.Cores, s.TotalsErr)
	}
	if tot.Processes != len(s.Rows) || tot.Threads < tot.Processes/2 || tot.SelfRSS == 0 {
		t.Errorf("%d processes, %d threads, own RSS %d", tot.Processes, tot.Threads, tot.SelfRSS)
	}
}

// A PID that names another process now is an exit, whatever the directory shows.
func TestReusedPID(t *testing.T) {
	const pid, start = "25564", 177957
	for _, tt := range []struct {
		name  string
		reuse func(t *testing.T, mount string)
	}{
		{"another directory", func(t *testing.T, mount string) {
			dir := filepath.Join(mount, pid)
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			copyProcess(t, dir, start+1)
		}},
		{"another start in the same directory", func(t *testing.T, mount string) {
			restart(t, filepath.Join(mount, pid, "stat"), start+1)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mount := t.TempDir()
			copyProcess(t, filepath.Join(mount, pid), start)
			fs := openFS(t, mount)
			w := NewProcesses(fs, ProcessOptions{Interval: 100 * time.Millisecond})
			defer w.Close()
			id := proc.ID{PID: 25564, StartTicks: start}
			v := watchProcess(t, w, id)
			defer v.Close()
			s := nextState(t, v)
			if s.Observation == nil || s.Err != nil || len(s.Observation.Threads) != 3 {
				t.Fatalf("observation %v, error %v", s.Observation, s.Err)
			}
			tt.reuse(t, mount)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			for !s.Exited {
				var err error
				if s, err = v.Next(ctx); err != nil {
					t.Fatalf("Next: %v", err)
				}
			}
			if s.Observation.ID != id || s.Row.ID != id {
				t.Errorf("the last state is of %v", s.Observation.ID)
			}
			if _, err := w.Subscribe(ctx, id); !errors.Is(err, proc.ErrGone) {
				t.Errorf("Subscribe to the old identity: %v", err)
			}
		})
	}
}

// copyProcess puts the fixture of a process with three threads at dir.
func copyProcess(t *testing.T, dir string, start int) {
	t.Helper()
	if err := os.CopyFS(dir, os.DirFS("../proc/testdata/threads/25564")); err != nil {
		t.Fatal(err)
	}
	restart(t, filepath.Join(dir, "stat"), start)
}

// restart writes another start time into a stat file.
func restart(t *testing.T, path string, start int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndexByte(text, ')') + 1
	fields := bytes.Fields(text[at:])
	fields[19] = fmt.Append(nil, start)
	text = append(append(text[:at:at], ' '), bytes.Join(fields, []byte(" "))...)
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
