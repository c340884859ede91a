package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"procinsh/api"
)

// post asks for a snapshot.
func (s *server) post(body string, headers ...string) answer {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "POST", s.url+"/api/processes/snapshot", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := client.Do(r)
	if err != nil {
		s.t.Error(err)
		return answer{}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Error(err)
	}
	return answer{res.StatusCode, res.Header, text}
}

// named is the body that names a process.
func named(t *testing.T, pid int) string {
	t.Helper()
	start, err := ticks(pid)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"pid":%d,"start_time_ticks":%d}`, pid, start)
}

func (s *server) snapshot(pid int) api.SnapshotAnswer {
	s.t.Helper()
	var a api.SnapshotAnswer
	s.post(named(s.t, pid)).decode(s.t, &a)
	return a
}

func (s *server) stacks(pid int, more string) api.StacksAnswer {
	s.t.Helper()
	var a api.StacksAnswer
	s.get("/api/processes/stacks?"+identity(s.t, pid)+more).decode(s.t, &a)
	return a
}

// program builds and starts a C program and returns what it says of itself. Its
// standard input stays open until the test ends.
func program(t *testing.T, source string, args ...string) (pid int, facts map[string]string) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Fatal("no gcc: this target is a C program")
	}
	exe := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(source), ".c"))
	if out, err := exec.Command("gcc", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-I../targets", "-o", exe, source).CombinedOutput(); err != nil {
		t.Fatalf("gcc %s: %v\n%s", source, err, out)
	}
	cmd := exec.Command(exe, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out text
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	waitFor(t, "the target to be ready", func() bool { return strings.Contains(out.String(), "READY=1\n") })
	facts = map[string]string{}
	for line := range strings.Lines(out.String()) {
		k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		facts[k] = v
	}
	return cmd.Process.Pid, facts
}

// threadStates are state and tracer of every thread as the kernel has them.
func threadStates(t *testing.T, pid int) map[string]string {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]string{}
	for _, task := range tasks {
		status, err := os.ReadFile(task + "/status")
		if err != nil {
			continue
		}
		state := ""
		for line := range strings.Lines(string(status)) {
			if f := strings.Fields(line); len(f) > 1 && (f[0] == "State:" || f[0] == "TracerPid:") {
				state += f[1]
			}
		}
		states[filepath.Base(task)] = state
	}
	return states
}

// unchanged waits until every thread is untraced and in one of the states.
func unchanged(t *testing.T, pid int, states string) {
	t.Helper()
	waitFor(t, "the target to be as it was", func() bool {
		all := threadStates(t, pid)
		for _, s := range all {
			if len(s) != 2 || s[1] != '0' || !strings.Contains(states, s[:1]) {
				return false
			}
		}
		return len(all) > 0
	})
}

func text0(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

func symbols(frames []api.Frame) (names []string) {
	for _, f := range frames {
		names = append(names, text0(f.Symbol))
	}
	return names
}

func TestSnapshotOfRecursion(t *testing.T) {
	needRoot(t)
	s := start(t, options{args: []string{"--log", "api=debug"}})
	pid, facts := program(t, "../targets/recurse.c")
	a := s.snapshot(pid)
	if a.ProcessID.PID != int32(pid) || a.PausedMS <= 0 || a.Cost.StoppedThreads != 3 || a.Cost.Passes < 1 || len(a.NotStopped) > 0 || len(a.Warnings) > 0 || len(a.Threads) != 3 {
		t.Fatalf("the snapshot: %d threads, %v ms, %+v, %v, %v", len(a.Threads), a.PausedMS, a.Cost, a.NotStopped, a.Warnings)
	}
	if !slices.Contains([]string{"fifo", "nice", "normal"}, a.Cost.Priority) {
		t.Errorf("priority %q", a.Cost.Priority)
	}
	unchanged(t, pid, "S")
	if again := s.snapshot(pid); again.Threads[1].TID != a.Threads[1].TID {
		t.Errorf("the order of the threads changed: %d and %d", a.Threads[1].TID, again.Threads[1].TID)
	}
	stacks := s.stacks(pid, "")
	if len(stacks.Threads) != 3 {
		t.Fatalf("%d stacks", len(stacks.Threads))
	}
	for n := range 2 {
		tid, _ := strconv.Atoi(facts[fmt.Sprintf("THREAD%d_TID", n)])
		i := slices.IndexFunc(a.Threads, func(th api.SnapshotThread) bool { return th.TID == int32(tid) })
		j := slices.IndexFunc(stacks.Threads, func(th api.StackThread) bool { return th.TID == int32(tid) })
		if i < 0 || j < 0 {
			t.Fatalf("thread %d is missing", tid)
		}
		th, st := a.Threads[i], stacks.Threads[j]
		if th.Name != fmt.Sprintf("diver-%d", n) || text0(th.Syscall) != "futex" || th.SyscallNumber == nil || *th.SyscallNumber != 202 || th.Error != nil || text0(th.UnwindStop) != "end of stack" || th.FramesMayBeMissing {
			t.Errorf("thread %d: %q in %q, %q %q, missing %v", tid, th.Name, text0(th.Syscall), text0(th.Error), text0(th.UnwindStop), th.FramesMayBeMissing)
		}
		checkDive(t, th, facts)
		checkRegisters(t, th, a.Maps)
		if st.State != "S" || st.Syscall == nil || text0(st.Syscall.Name) != "futex" || !st.Stable || st.WaitChannel == nil || len(st.KernelStack) == 0 || text0(st.UnwindStop) != "end of stack" {
			t.Errorf("stack of %d: %+v", tid, st)
		}
		if got, want := fmt.Sprint(addresses(st.CallStack)), fmt.Sprint(addresses(th.CallStack)); got != want {
			t.Errorf("thread %d: without a stop %s, with one %s", tid, got, want)
		}
		one := s.stacks(pid, fmt.Sprintf("&tid=%d", tid))
		if len(one.Threads) != 1 || one.Threads[0].TID != int32(tid) {
			t.Errorf("tid=%d: %+v", tid, one.Threads)
		}
	}
	if log := s.stderr.String(); !strings.Contains(log, "msg=snapshot") || strings.Contains(log, "diver") {
		t.Errorf("the log: %s", tail(log, 1000))
	}
}

func addresses(frames []api.Frame) (list []string) {
	for _, f := range frames {
		list = append(list, f.Address)
	}
	return list
}

// checkDive looks for bottom and 40 frames of the two functions, each where its
// source says.
func checkDive(t *testing.T, th api.SnapshotThread, facts map[string]string) {
	t.Helper()
	names := symbols(th.CallStack)
	at := slices.Index(names, "bottom")
	if at < 0 || len(names) < at+41 {
		t.Fatalf("the stack is %v", names)
	}
	for i, f := range th.CallStack[at : at+41] {
		want := "bottom"
		if i > 0 {
			want = []string{"down_even", "down_odd"}[i%2]
		}
		address, err1 := strconv.ParseUint(f.Address, 0, 64)
		into, err2 := strconv.ParseUint(text0(f.SymbolOffset), 0, 64)
		if err1 != nil || err2 != nil || text0(f.Symbol) != want || f.Guess || !strings.HasSuffix(text0(f.SourceFile), "/recurse.c") || f.Line == nil || *f.Line < 10 {
			t.Fatalf("frame %d: %+v, want %s", at+i, f, want)
		}
		if begin := fmt.Sprintf("0x%016x", address-into); begin != facts[strings.ToUpper(want)] {
			t.Errorf("frame %d: %s begins at %s, want %s", at+i, want, begin, facts[strings.ToUpper(want)])
		}
		if f.UnwoundBy != "cfi" || !strings.HasSuffix(text0(f.Module), "/recurse") || f.ModuleOffset == nil {
			t.Errorf("frame %d: %s in %s", at+i, f.UnwoundBy, text0(f.Module))
		}
	}
}

func checkRegisters(t *testing.T, th api.SnapshotThread, maps []api.Mapping) {
	t.Helper()
	var names []string
	byName := map[string]api.Register{}
	for _, r := range th.Registers {
		names = append(names, r.Name)
		byName[r.Name] = r
		v, err := strconv.ParseUint(r.Value, 0, 64)
		if err != nil || len(r.Value) != 18 || r.Decimal != strconv.FormatUint(v, 10) || (r.Kind == "integer") != (r.Mapping == nil) || (r.Mapping == nil) != (r.Offset == nil) {
			t.Errorf("register %+v", r)
		}
	}
	if got := strings.Join(names, " "); got != "RIP RSP RBP RAX RBX RCX RDX RSI RDI R8 R9 R10 R11 R12 R13 R14 R15 RFLAGS" {
		t.Errorf("registers: %s", got)
	}
	rip, rsp := byName["RIP"], byName["RSP"]
	if rip.Kind != "shared_library" || !strings.Contains(text0(rip.Mapping), "libc") || !strings.HasSuffix(text0(rip.Mapping), " r-xp") || rip.Value != th.CallStack[0].Address {
		t.Errorf("RIP: %+v", rip)
	}
	if rsp.Kind != "stack" || !strings.HasSuffix(text0(rsp.Mapping), " rw-p") || !slices.ContainsFunc(maps, func(m api.Mapping) bool { return m.Start <= rsp.Value && rsp.Value < m.End }) {
		t.Errorf("RSP: %+v", rsp)
	}
	if th.StackBytes == nil || th.StackBytes.Address != rsp.Value || len(th.StackBytes.Bytes) != 1024 {
		t.Fatalf("stack bytes: %+v", th.StackBytes)
	}
	// The return address of the first frame lies there.
	back, _ := strconv.ParseUint(th.CallStack[1].Address, 0, 64)
	var word bytes.Buffer
	for i := range 8 {
		fmt.Fprintf(&word, "%02x", byte(back>>(8*i)))
	}
	if !strings.Contains(th.StackBytes.Bytes, word.String()) {
		t.Errorf("%s is not in the bytes of the stack", th.CallStack[1].Address)
	}
	d := th.Disassembly
	if d == nil || d.Address != rip.Value || d.Error != nil || len(d.Instructions) == 0 || len(d.Instructions) > 32 || len(d.Bytes) > 512 {
		t.Fatalf("disassembly: %+v", d)
	}
	code := ""
	for i, in := range d.Instructions {
		if in.Current != (i == 0) || in.Text == "" {
			t.Errorf("instruction %d: %+v", i, in)
		}
		code += in.Bytes
	}
	if !strings.HasPrefix(d.Bytes, code) {
		t.Errorf("the instructions are not the bytes: %s %s", code, d.Bytes)
	}
}

// A thread that runs has no stack without a stop, and one with it.
func TestSnapshotOfRunning(t *testing.T) {
	needRoot(t)
	s := start(t, options{})
	cmd := exec.Command("/bin/sh", "-c", "while :; do :; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	pid := cmd.Process.Pid
	time.Sleep(50 * time.Millisecond) // past its exec
	a := s.snapshot(pid)
	if len(a.Threads) != 1 || len(a.Threads[0].CallStack) < 3 || a.Threads[0].Syscall != nil || text0(a.Threads[0].UnwindStop) != "end of stack" {
		t.Errorf("the snapshot: %+v", a.Threads)
	}
	unchanged(t, pid, "R")
	st := s.stacks(pid, "").Threads[0]
	if st.State != "R" || st.CallStack != nil || st.Syscall != nil || st.Error != nil {
		t.Errorf("the stack: %+v", st)
	}
}

// A stopped process stays stopped, and SIGCONT finds it.
func TestSnapshotOfStopped(t *testing.T) {
	needRoot(t)
	s := start(t, options{})
	pid, _ := program(t, "../targets/recurse.c")
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	unchanged(t, pid, "T")
	for range 3 {
		a := s.snapshot(pid)
		if len(a.Threads) != 3 || len(a.Threads[1].CallStack) < 40 {
			t.Fatalf("the snapshot: %d threads", len(a.Threads))
		}
		unchanged(t, pid, "T") // each thread runs into its stop again
	}
	if st := s.stacks(pid, "").Threads[1]; st.State != "T" || len(st.CallStack) < 40 {
		t.Errorf("without a stop: state %s, %d frames", st.State, len(st.CallStack))
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	unchanged(t, pid, "S")
}

// A process that a debugger holds is refused and its tracer named. What needs no
// tracing still works.
func TestSnapshotOfTraced(t *testing.T) {
	needRoot(t)
	s := start(t, options{})
	pid, _ := sleeper(t)
	tracer := childCommand("seize", 0, strconv.Itoa(pid))
	if err := tracer.Start(); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		tracer.Process.Kill()
		tracer.Wait()
	})
	t.Cleanup(end)
	waitFor(t, "the tracer", func() bool { return threadStates(t, pid)[strconv.Itoa(pid)] == "S"+strconv.Itoa(tracer.Process.Pid) })
	a := s.post(named(t, pid))
	if a.status != 422 || a.code(t) != "already_traced" || !strings.Contains(string(a.body), fmt.Sprintf("process %d (self)", tracer.Process.Pid)) {
		t.Errorf("got %v, want 422 that names %d", a, tracer.Process.Pid)
	}
	if got := threadStates(t, pid)[strconv.Itoa(pid)]; got != "S"+strconv.Itoa(tracer.Process.Pid) {
		t.Errorf("the tracer lost it: %s", got)
	}
	if st := s.stacks(pid, ""); len(st.Threads[0].CallStack) < 3 {
		t.Errorf("stacks of a traced process: %+v", st.Threads)
	}
	status, out, errs := runToEnd(t, options{}, "snapshot", strconv.Itoa(pid))
	if status != 1 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "(self)") {
		t.Errorf("command line: %d %q %q", status, out, errs)
	}
	end()
	unchanged(t, pid, "S")
	if a := s.post(named(t, pid)); a.status != 200 {
		t.Errorf("afterwards: %v", a)
	}
}

func TestSnapshotErrors(t *testing.T) {
	s := start(t, options{})
	pid, _ := sleeper(t)
	id := identity(t, pid)
	self := s.cmd.Process.Pid
	for _, tt := range []struct {
		name   string
		a      answer
		status int
		code   string
	}{
		{"itself", s.post(named(t, self)), 422, "snapshot_of_self"},
		{"another start", s.post(fmt.Sprintf(`{"pid":%d,"start_time_ticks":1}`, pid)), 410, "process_gone"},
		{"no type", s.post(named(t, pid), "Content-Type", ""), 415, "not_json"},
		{"a form", s.post("pid=1", "Content-Type", "application/x-www-form-urlencoded"), 415, "not_json"},
		{"no JSON", s.post("{"), 400, "invalid_json"},
		{"half", s.post(`{"pid":1}`), 422, "missing_start_time_ticks"},
		{"too long", s.post(strings.Repeat(" ", 64<<10) + "{}"), 413, "body_too_large"},
		{"GET", s.get("/api/processes/snapshot?" + id), 405, "method_not_allowed"},
		{"another site", s.post(named(t, pid), "Origin", "http://evil.example"), 403, "origin_not_allowed"},
		{"tid of nobody", s.get("/api/processes/stacks?" + id + "&tid=2147483647"), 410, "process_gone"},
		{"tid of another process", s.get(fmt.Sprintf("/api/processes/stacks?%s&tid=%d", id, self)), 410, "process_gone"},
		{"malformed tid", s.get("/api/processes/stacks?" + id + "&tid=x"), 400, "invalid_tid"},
		{"tid twice", s.get("/api/processes/stacks?" + id + "&tid=1&tid=1"), 400, "repeated_parameter"},
	} {
		checkHeaders(t, tt.a)
		if tt.a.status != tt.status || tt.a.code(t) != tt.code {
			t.Errorf("%s: %v, want %d %s", tt.name, tt.a, tt.status, tt.code)
		}
	}
	if a := s.do("HEAD", "/api/processes/snapshot"); a.status != 405 || a.header.Get("Allow") != "POST" || len(a.body) > 0 {
		t.Errorf("HEAD: %v %v", a, a.header)
	}
	unchanged(t, pid, "S")
	// The server's own stacks need no stop.
	if st := s.stacks(self, ""); len(st.Threads) < 2 {
		t.Errorf("own stacks: %d threads", len(st.Threads))
	}
	if comm, err := os.ReadFile("/proc/2/comm"); err != nil || string(comm) != "kthreadd\n" {
		t.Skip("PID 2 is not kthreadd: this is a PID namespace of its own")
	}
	if a := s.post(named(t, 2)); a.status != 422 || a.code(t) != "kernel_thread" {
		t.Errorf("kernel thread: %v", a)
	}
	if os.Geteuid() == 0 {
		if st := s.stacks(2, "").Threads; len(st) != 1 || st[0].CallStack == nil || len(st[0].CallStack) > 0 || len(st[0].KernelStack) == 0 {
			t.Errorf("stack of a kernel thread: %+v", st)
		}
	}
}

// A target that ends while it waits for its turn is gone. The thread in vfork
// holds the first snapshot for a quarter of a second.
func TestSnapshotTargetEndsInTheQueue(t *testing.T) {
	needRoot(t)
	s := start(t, options{})
	slow, _ := program(t, "../cases/testdata/vfork.c")
	gone := 0
	for range 10 {
		pid, end := sleeper(t)
		first, second := named(t, slow), named(t, pid)
		var wg sync.WaitGroup
		wg.Go(func() {
			if a := s.post(first); a.status != 200 {
				t.Errorf("the first: %v", a)
			}
		})
		time.Sleep(30 * time.Millisecond)
		wg.Go(func() {
			a := s.post(second)
			if a.status == 410 {
				gone++
			} else if a.status != 200 {
				t.Errorf("the second: %v", a)
			}
		})
		time.Sleep(30 * time.Millisecond)
		end()
		wg.Wait()
		if gone > 0 {
			break
		}
	}
	if gone == 0 {
		t.Error("no target ended while it waited, in ten tries")
	}
}

// More requests at once than may wait: each is answered or told to come back.
func TestSnapshotCrowd(t *testing.T) {
	needRoot(t)
	s := start(t, options{})
	slow, _ := program(t, "../cases/testdata/vfork.c")
	body := named(t, slow)
	var mu sync.Mutex
	statuses := map[int]int{}
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			a := s.post(body)
			mu.Lock()
			defer mu.Unlock()
			statuses[a.status]++
			if a.status == 429 && a.header.Get("Retry-After") == "" {
				t.Errorf("429 without Retry-After: %v", a.header)
			}
		})
	}
	time.Sleep(100 * time.Millisecond)
	if a := s.get("/api/processes/stacks?" + identity(t, slow)); a.status != 200 {
		t.Errorf("stacks meanwhile: %v", a)
	}
	wg.Wait()
	if statuses[200] < 1 || statuses[429] < 1 || statuses[200]+statuses[429] != 30 {
		t.Errorf("statuses %v, want some 200, some 429 and nothing else", statuses)
	}
	if a := s.post(body); a.status != 200 {
		t.Errorf("afterwards: %v", a)
	}
}

// SIGTERM in the middle of a snapshot lets the target go.
func TestSnapshotAtShutdown(t *testing.T) {
	needRoot(t)
	within(t, 2*time.Second, shutDownInSnapshot)
}

func shutDownInSnapshot(t *testing.T) time.Duration {
	s := start(t, options{})
	slow, facts := program(t, "../cases/testdata/vfork.c")
	body := named(t, slow)
	done := make(chan answer)
	go func() {
		r, err := http.Post(s.url+"/api/processes/snapshot", "application/json", strings.NewReader(body))
		if err != nil {
			done <- answer{}
			return
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		done <- answer{r.StatusCode, r.Header, text}
	}()
	time.Sleep(50 * time.Millisecond)
	status, took := s.signal(syscall.SIGTERM)
	if status.ExitStatus() != 0 {
		t.Errorf("ended with %v", status)
	}
	if a := <-done; a.status != 503 && a.status != 200 && a.status != 0 {
		t.Errorf("the snapshot: %v", a)
	}
	waitFor(t, "the target to be free", func() bool {
		for _, state := range threadStates(t, slow) {
			if !strings.HasSuffix(state, "0") || state[0] == 't' {
				return false
			}
		}
		return true
	})
	if state := threadStates(t, slow)[facts["STUCK_TID"]]; state != "D0" {
		t.Errorf("the thread in vfork is in %s", state)
	}
	return took
}

func TestSnapshotCommand(t *testing.T) {
	needRoot(t)
	pid, facts := program(t, "../targets/recurse.c", "--depth", "4")
	p := strconv.Itoa(pid)
	status, out, errs := runToEnd(t, options{}, "snapshot", p)
	if status != 0 || errs != "" {
		t.Fatalf("status %d, %s", status, errs)
	}
	head := regexp.MustCompile(`^recurse, PID ` + p + `: 3 threads, stopped for [0-9]+\.[0-9]{3} ms at 20`)
	group := regexp.MustCompile(`(?m)^threads (\d+), (\d+) \(diver-\d, diver-\d\), in futex:\n#0  0x[0-9a-f]{16} `)
	if !head.MatchString(out) {
		t.Errorf("it begins %q", tail(out, 200))
	}
	m := group.FindStringSubmatch(out)
	tids := []string{facts["THREAD0_TID"], facts["THREAD1_TID"]}
	if m == nil || !slices.Contains(tids, m[1]) || !slices.Contains(tids, m[2]) || m[1] == m[2] {
		t.Fatalf("no group of %v in\n%s", tids, out)
	}
	_, stack, _ := strings.Cut(out, m[0])
	place := regexp.MustCompile(` (bottom|down_even|down_odd)\+0x[0-9a-f]+ \(/.*/recurse\) at .*/recurse\.c:\d+\n`)
	var order []string
	for _, f := range place.FindAllStringSubmatch(stack, -1) {
		order = append(order, f[1])
	}
	if got := strings.Join(order, " "); got != "bottom down_odd down_even down_odd down_even" {
		t.Errorf("the frames are %q in\n%s", got, out)
	}
	if !strings.Contains(out, "thread "+p+" (recurse), in ppoll:\n") {
		t.Errorf("no main thread in\n%s", out)
	}
	unchanged(t, pid, "S")

	status, out, errs = runToEnd(t, options{}, "snapshot", "--no-stop", p)
	if status != 0 || errs != "" || !strings.Contains(out, ": 3 threads, not stopped, at 20") || !strings.Contains(out, "    kernel: ") ||
		!strings.Contains(out, "state S, in futex, waits in ") || !strings.Contains(out, "state S, in ppoll(0x") || !place.MatchString(out) {
		t.Errorf("without a stop: %d %q\n%s", status, errs, out)
	}

	decode := func(into any, args ...string) {
		t.Helper()
		status, out, errs := runToEnd(t, options{}, append([]string{"snapshot", p}, args...)...)
		dec := json.NewDecoder(strings.NewReader(out))
		dec.DisallowUnknownFields()
		if err := dec.Decode(into); status != 0 || errs != "" || err != nil || dec.More() || !strings.HasSuffix(out, "}\n") {
			t.Errorf("%v: %d %q, %v", args, status, errs, err)
		}
	}
	var snapshot api.SnapshotAnswer
	decode(&snapshot, "--json")
	if len(snapshot.Threads) != 3 || len(snapshot.Threads[0].Registers) != 18 || len(snapshot.Maps) == 0 {
		t.Errorf("--json: %d threads", len(snapshot.Threads))
	}
	var stacks api.StacksAnswer
	decode(&stacks, "--no-stop", "--json")
	if len(stacks.Threads) != 3 || len(stacks.Threads[1].CallStack) < 5 {
		t.Errorf("--no-stop --json: %+v", stacks.Threads)
	}

	for _, how := range [][]string{{"snapshot", p}, {"snapshot", "--no-stop", p}} {
		status, out, errs = runToEnd(t, options{uid: nobody}, how...)
		if how[1] == p && (status != 1 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "CAP_SYS_PTRACE")) {
			t.Errorf("%v as nobody: %d %q %q", how, status, out, errs)
		}
		if how[1] != p && !strings.Contains(out+errs, "CAP_SYS_PTRACE") {
			t.Errorf("%v as nobody: %d %q %q", how, status, out, errs)
		}
	}
	for args, want := range map[string]int{"snapshot": 2, "snapshot x": 2, "snapshot 1 --xml": 2, "snapshot --help": 0, "snapshot 1073741824": 1} {
		if status, _, _ := runToEnd(t, options{}, strings.Fields(args)...); status != want {
			t.Errorf("%s: status %d, want %d", args, status, want)
		}
	}
}

// A server that may not trace says so beforehand.
func TestConfigSaysWhetherSnapshotsWork(t *testing.T) {
	needRoot(t)
	var config api.Config
	start(t, options{}).get("/api/config").decode(t, &config)
	if c := config.Capabilities.Ptrace; !c.Available || c.Reason != nil {
		t.Errorf("root: %+v", c)
	}
	s := start(t, options{uid: nobody, args: []string{"--allow-user", "root"}})
	s.get("/api/config").decode(t, &config)
	if c := config.Capabilities.Ptrace; c.Reason == nil || !strings.Contains(*c.Reason, "CAP_SYS_PTRACE") {
		t.Errorf("nobody: %+v", c)
	}
	pid, _ := sleeper(t)
	if a := s.post(named(t, pid)); a.status != 422 || a.code(t) != "permission_denied" || !strings.Contains(string(a.body), "ptrace_scope") {
		t.Errorf("nobody takes a snapshot of root's process: %v", a)
	}
}
