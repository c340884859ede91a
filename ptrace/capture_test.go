package ptrace

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

// moving fails unless the target goes on.
func moving(t testing.TB, tg *target) {
	t.Helper()
	from := tg.report("MOVES")
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		if tg.report("MOVES") > from {
			return
		}
	}
	t.Fatal("the target does not move any more")
}

func TestCapture(t *testing.T) {
	for _, n := range []int{1, 2, 9, 70, 300} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			tg := startTarget(t, "threads", strconv.Itoa(n))
			if n == 1 {
				n = 2 // the one that moves is always there
			}
			settled(t, tg.pid, "S", n)
			p := open(t, tg.pid)
			before := time.Now()
			raw := mustCapture(t, p)
			if len(raw.Threads) != n || len(raw.NotStopped) != 0 {
				t.Fatalf("threads: got %d and %v not stopped, want %d", len(raw.Threads), raw.NotStopped, n)
			}
			if raw.At.Before(before) || raw.At.After(time.Now()) || raw.Paused <= 0 || raw.Paused > time.Since(before) {
				t.Errorf("time: at %v for %v, begun %v", raw.At, raw.Paused, before)
			}
			if raw.Priority != permitted() {
				t.Errorf("priority: got %s, want %s", raw.Priority, permitted())
			}
			tids, running := map[int32]bool{}, 0
			for _, th := range raw.Threads {
				tids[th.TID] = true
				if !th.Registers || th.Err != "" || th.Code32 || th.Name != "target" {
					t.Fatalf("thread %d: %+v", th.TID, th)
				}
				if th.Code.Address != th.Regs.Rip || len(th.Code.Bytes) != maxCode {
					t.Errorf("code of %d: %d bytes at %#x, RIP %#x", th.TID, len(th.Code.Bytes), th.Code.Address, th.Regs.Rip)
				}
				if th.Stack.Address != th.Regs.Rsp-redZone || len(th.Stack.Bytes) < redZone+256 {
					t.Errorf("stack of %d: %d bytes at %#x, RSP %#x", th.TID, len(th.Stack.Bytes), th.Stack.Address, th.Regs.Rsp)
				}
				if nr, in := th.Syscall(); !in {
					running++ // the one that moves
				} else if nr == unix.SYS_PAUSE { // sleeps for ever: nothing has changed since
					// The top holds what the C library notes of a thread, which may change.
					was := th.Stack.Bytes[redZone:][:256]
					again := make([]byte, len(was))
					if k, err := p.ReadMemory(th.Regs.Rsp, again); err != nil || k != len(again) || !bytes.Equal(again, was) {
						t.Errorf("stack of %d is not what its memory holds: %d %v", th.TID, k, err)
					}
				}
			}
			if running > 1 {
				t.Errorf("%d threads are in no system call", running)
			}
			if len(tids) != n {
				t.Errorf("threads repeat: %v", tids)
			}
			if len(raw.Maps) == 0 {
				t.Error("no mappings")
			}
			free(t, tg.pid)
			moving(t, tg)
		})
	}
}

func TestCaptureBusy(t *testing.T) {
	tg := startTarget(t, "spin", "9")
	raw := mustCapture(t, open(t, tg.pid))
	spinning := 0
	for _, th := range raw.Threads {
		if _, in := th.Syscall(); !in && th.Registers {
			spinning++
		}
		if th.Interrupted() {
			t.Errorf("thread %d is told a call was interrupted", th.TID)
		}
	}
	if raw.PausedRunning <= 0 || raw.PausedRunning > raw.Paused {
		t.Errorf("paused %v, those that ran %v", raw.Paused, raw.PausedRunning)
	}
	if len(raw.Threads) != 9 || spinning != 8 {
		t.Errorf("got %d threads, %d in user mode, want 9 and 8", len(raw.Threads), spinning)
	}
	free(t, tg.pid)
	moving(t, tg)
}

func TestStackOption(t *testing.T) {
	tg := startTarget(t, "threads", "3")
	raw, err := Capture(within(t, 20*time.Second), open(t, tg.pid), Options{Stack: 4096})
	if err != nil {
		t.Fatal(err)
	}
	for _, th := range raw.Threads {
		if n := len(th.Stack.Bytes); n > 4096 || n == 4096 != th.StackCut {
			t.Errorf("thread %d: %d bytes, cut %t", th.TID, n, th.StackCut)
		}
	}
}

func TestPriorities(t *testing.T) {
	tg := startTarget(t, "threads", "4")
	all := []Priority{PriorityFIFO, PriorityNice, PriorityNormal}
	for _, want := range all[slices.Index(all, permitted()):] {
		raw, err := Capture(within(t, 20*time.Second), open(t, tg.pid), Options{priority: want})
		if err != nil {
			t.Fatal(err)
		}
		if raw.Priority != want || len(raw.Threads) != 4 {
			t.Errorf("priority: got %s with %d threads, want %s with 4", raw.Priority, len(raw.Threads), want)
		}
	}
}

func TestCaptureRefuses(t *testing.T) {
	ctx := within(t, 20*time.Second)
	if _, err := Capture(ctx, open(t, int32(os.Getpid())), Options{}); !errors.Is(err, ErrSelf) {
		t.Errorf("self: got %v", err)
	}
	if comm, err := os.ReadFile("/proc/2/comm"); err == nil && string(comm) == "kthreadd\n" {
		if _, err := Capture(ctx, open(t, 2), Options{}); !errors.Is(err, ErrKernelThread) {
			t.Errorf("kernel thread: got %v", err)
		}
	} else {
		t.Log("no kernel thread to see here")
	}
	tg := startTarget(t, "threads", "3")
	p := open(t, tg.pid)
	done, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Capture(done, p, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
	free(t, tg.pid)
	tg.cmd.Process.Kill()
	tg.cmd.Wait()
	if _, err := Capture(ctx, p, Options{}); !errors.Is(err, proc.ErrGone) {
		t.Errorf("gone: got %v", err)
	}
}

// TestTraced: a target of another tracer is left as it is.
func TestTraced(t *testing.T) {
	tg := startTarget(t, "threads", "4")
	last := int32(0)
	for _, e := range must(os.ReadDir("/proc/" + strconv.Itoa(int(tg.pid)) + "/task")) {
		last = max(last, number([]byte(e.Name())))
	}
	held, release := make(chan error), make(chan bool)
	go func() {
		runtime.LockOSThread()
		_, _, e := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(last), 0, 0, 0, 0)
		if e != 0 {
			held <- e
			return
		}
		held <- nil
		<-release
	}()
	if err := <-held; err != nil {
		t.Fatal(err)
	}
	defer close(release)
	_, err := Capture(within(t, 20*time.Second), open(t, tg.pid), Options{})
	var traced *TracedError
	if !errors.As(err, &traced) || !errors.Is(err, ErrTraced) {
		t.Fatalf("got %v, want TracedError", err)
	}
	comm := strings.TrimSpace(string(must(os.ReadFile("/proc/self/comm"))))
	if *traced != (TracedError{TID: last, PID: int32(os.Getpid()), Comm: comm}) {
		t.Errorf("got %+v", *traced)
	}
	if states, by := threadFacts(t, tg.pid); len(by) != 1 || by[0] != strconv.Itoa(int(last)) || strings.Contains(states, "t") {
		t.Errorf("afterwards: states %s, traced %v", states, by)
	}
	moving(t, tg)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestGroupStop: whatever order SIGSTOP, SIGCONT and the snapshot come in, the
// target is as its user wants it afterwards.
func TestGroupStop(t *testing.T) {
	const threads = 4
	type at struct {
		stage   stage
		signals []unix.Signal
	}
	for _, c := range []struct {
		name   string
		before []unix.Signal
		during at
		after  []unix.Signal // as soon as the snapshot is taken
		want   string        // state afterwards
		conts  int           // runs of the handler of SIGCONT
	}{
		{name: "running", want: "S"},
		{name: "SIGSTOP before", before: []unix.Signal{unix.SIGSTOP}, want: "T"},
		{name: "SIGTSTP before", before: []unix.Signal{unix.SIGTSTP}, want: "T"},
		{name: "stopped, SIGCONT while it stands", before: []unix.Signal{unix.SIGSTOP}, during: at{allStand, []unix.Signal{unix.SIGCONT}}, want: "S", conts: 1},
		{name: "stopped, SIGCONT while it is seized", before: []unix.Signal{unix.SIGSTOP}, during: at{allSeized, []unix.Signal{unix.SIGCONT}}, want: "S", conts: 1},
		{name: "SIGSTOP while it stands", during: at{allStand, []unix.Signal{unix.SIGSTOP}}, want: "T"},
		{name: "SIGSTOP while it is seized", during: at{allSeized, []unix.Signal{unix.SIGSTOP}}, want: "T"},
		{name: "SIGTSTP while it is seized", during: at{allSeized, []unix.Signal{unix.SIGTSTP}}, want: "T"},
		{name: "SIGSTOP afterwards", after: []unix.Signal{unix.SIGSTOP}, want: "T"},
		{name: "stopped, SIGCONT afterwards", before: []unix.Signal{unix.SIGSTOP}, after: []unix.Signal{unix.SIGCONT}, want: "S", conts: 1},
		{name: "SIGSTOP, SIGCONT while it stands", during: at{allStand, []unix.Signal{unix.SIGSTOP, unix.SIGCONT}}, want: "S", conts: 1},
		{name: "SIGSTOP, SIGCONT while it is seized", during: at{allSeized, []unix.Signal{unix.SIGSTOP, unix.SIGCONT}}, want: "S", conts: 1},
		{name: "SIGCONT, SIGSTOP while it stands", during: at{allStand, []unix.Signal{unix.SIGCONT, unix.SIGSTOP}}, want: "T"},
		{name: "stopped, SIGCONT, SIGSTOP while it stands", before: []unix.Signal{unix.SIGSTOP}, during: at{allStand, []unix.Signal{unix.SIGCONT, unix.SIGSTOP}}, want: "T"},
		{name: "stopped, SIGSTOP while it stands", before: []unix.Signal{unix.SIGSTOP}, during: at{allStand, []unix.Signal{unix.SIGSTOP}}, want: "T"},
		{name: "stopped, SIGCONT, SIGSTOP, SIGCONT while it is seized", before: []unix.Signal{unix.SIGSTOP}, during: at{allSeized, []unix.Signal{unix.SIGCONT, unix.SIGSTOP, unix.SIGCONT}}, want: "S", conts: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range long(2, 40) {
				tg := startTarget(t, "threads", strconv.Itoa(threads))
				p := open(t, tg.pid)
				for _, s := range c.before {
					tg.signal(s)
					settled(t, tg.pid, "T", threads)
				}
				raw, err := Capture(within(t, 20*time.Second), p, Options{hook: func(s stage) {
					for _, sig := range c.during.signals {
						if s == c.during.stage {
							unix.Kill(int(tg.pid), sig)
						}
					}
				}})
				if err != nil {
					t.Fatal(err)
				}
				if len(raw.Threads) != threads {
					t.Errorf("threads: got %d", len(raw.Threads))
				}
				for _, sig := range c.after {
					tg.signal(sig)
				}
				settled(t, tg.pid, c.want, threads)
				free(t, tg.pid)
				if c.want == "T" {
					mustCapture(t, p)
					settled(t, tg.pid, "T", threads)
					tg.signal(unix.SIGCONT)
					settled(t, tg.pid, "S", threads)
				}
				moving(t, tg)
				want := c.conts
				if c.want == "T" {
					want++
				}
				// CONT, STOP: the handler of the first one may or may not have come to run.
				got := tg.report("CONTS")
				for until := time.Now().Add(patience); got < want && time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
					got = tg.report("CONTS")
				}
				if got != want && (len(c.during.signals) < 2 || got < 1 || got > want+1) {
					t.Errorf("handler of SIGCONT ran %d times, want %d", got, want)
				}
				mustCapture(t, p)
				settled(t, tg.pid, "S", threads)
				tg.cmd.Process.Kill()
			}
		})
	}
}

func TestInterruptedCalls(t *testing.T) {
	tg := startTarget(t, "eintr")
	p := open(t, tg.pid)
	never := []string{"NANOSLEEP", "CLOCK_NANOSLEEP", "READ", "FUTEX", "POLL", "SELECT", "RECV", "ACCEPT"}
	interrupted := []string{"EPOLL_WAIT", "SIGTIMEDWAIT", "RECV_TIMEOUT", "SEMTIMEDOP"}
	await(t, int(tg.pid), "S")
	told := map[int64]int{}
	rounds := 60
	for range rounds {
		for _, th := range mustCapture(t, p).Threads {
			if nr, _ := th.Syscall(); th.Interrupted() {
				told[nr]++
			}
		}
		time.Sleep(20 * time.Millisecond)
		// A thread that was let go has yet to run, to return from its call and to count;
		// until then the next snapshot would tell of the same return.
		await(t, int(tg.pid), "S")
	}
	calls := map[string]int64{
		"EPOLL_WAIT": unix.SYS_EPOLL_WAIT, "SIGTIMEDWAIT": unix.SYS_RT_SIGTIMEDWAIT,
		"RECV_TIMEOUT": unix.SYS_RECVFROM, "SEMTIMEDOP": unix.SYS_SEMTIMEDOP,
	}
	tg.report("READ_CALLS")
	for _, name := range append(never, interrupted...) {
		for _, kind := range []string{"_EARLY", "_OTHER"} {
			if got := tg.fact(name + kind); got != 0 {
				t.Errorf("%s%s: got %d", name, kind, got)
			}
		}
	}
	for _, name := range never {
		if got := tg.fact(name + "_EINTR"); got != 0 {
			t.Errorf("%s returned EINTR %d times", name, got)
		}
	}
	for name, nr := range calls {
		got := tg.fact(name + "_EINTR")
		if got == 0 || got > rounds {
			t.Errorf("%s returned EINTR %d times in %d snapshots", name, got, rounds)
		}
		if told[nr] != got {
			t.Errorf("%s: told of %d EINTR, it got %d", name, told[nr], got)
		}
		delete(told, nr)
	}
	if len(told) > 0 {
		t.Errorf("told of EINTR in other calls: %v", told)
	}
	before := tg.fact("READ_CALLS")
	for until := time.Now().Add(patience); tg.report("READ_CALLS") <= before; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("read is not called any more")
		}
	}
	free(t, tg.pid)
}

func TestVfork(t *testing.T) {
	tg := startTarget(t, "vfork")
	stuck := int32(tg.fact("STUCK_TID"))
	p := open(t, tg.pid)
	raw := mustCapture(t, p)
	if len(raw.Threads) != 2 || len(raw.NotStopped) != 1 || raw.NotStopped[0].TID != stuck || !strings.Contains(raw.NotStopped[0].Reason, "uninterruptible") {
		t.Errorf("got %d threads, not stopped %+v, want 2 and %d", len(raw.Threads), raw.NotStopped, stuck)
	}
	free(t, tg.pid)
	if tg.report("CHILD_GONE") != 1 {
		t.Error("the child did not end")
	}
	if raw := mustCapture(t, p); len(raw.Threads) != 3 || len(raw.NotStopped) != 0 {
		t.Errorf("after vfork: %d threads, not stopped %v", len(raw.Threads), raw.NotStopped)
	}
	free(t, tg.pid)
}

func TestCancelWhileStopping(t *testing.T) {
	tg := startTarget(t, "vfork")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err := Capture(ctx, open(t, tg.pid), Options{hook: func(s stage) {
		if s == allSeized {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	free(t, tg.pid)
}

func TestLeaderless(t *testing.T) {
	tg := startTarget(t, "leaderless")
	raw := mustCapture(t, open(t, tg.pid))
	if len(raw.Threads) != 2 {
		t.Errorf("threads: got %d, want 2", len(raw.Threads))
	}
	for _, th := range raw.Threads {
		if !th.Registers || len(th.Stack.Bytes) == 0 || len(th.Code.Bytes) == 0 {
			t.Errorf("thread %d: %s", th.TID, th.Err)
		}
	}
	if len(raw.NotStopped) != 1 || raw.NotStopped[0].TID != tg.pid || !strings.Contains(raw.NotStopped[0].Reason, "main thread has ended") {
		t.Errorf("not stopped: %+v", raw.NotStopped)
	}
	if len(raw.Maps) == 0 {
		t.Error("no mappings")
	}
	free(t, tg.pid)
	moving(t, tg)
}

func TestConfined(t *testing.T) {
	for _, mode := range []string{"strict", "nodump"} {
		tg := startTarget(t, mode, "3")
		if mode == "strict" {
			settled(t, tg.pid, "S", 1) // it reads, confined
		}
		raw := mustCapture(t, open(t, tg.pid))
		if len(raw.NotStopped) > 0 || len(raw.Threads) == 0 || !raw.Threads[0].Registers || len(raw.Threads[0].Stack.Bytes) == 0 {
			t.Errorf("%s: %+v", mode, raw)
		}
		free(t, tg.pid)
		// A call that is not allowed would have killed it.
		settled(t, tg.pid, "S", len(raw.Threads))
	}
}

// TestForeign: processes that a target clones as if they were threads are let go.
func TestForeign(t *testing.T) {
	tg := startTarget(t, "foreign", "2")
	p := open(t, tg.pid)
	for range 100 {
		raw := mustCapture(t, p)
		if len(raw.Threads) != 3 {
			t.Fatalf("threads: got %d, want 3", len(raw.Threads))
		}
	}
	free(t, tg.pid)
	moving(t, tg)
}

// Test32 captures a thread in 32-bit code.
func Test32(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "t.S")
	// Calls pause over and over; EBX, ESI and EBP hold known values.
	err := os.WriteFile(src, []byte(`
.globl _start
_start:	movl $0x1234567, %esi
	movl $0x89abcde, %ebp
1:	movl $29, %eax
	int $0x80
	jmp 1b
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "t")
	if os.Getuid() != 0 {
		t.Skip("not root: may not trace every target")
	}
	if out, err := exec.Command("gcc", "-m32", "-nostdlib", "-static", "-o", exe, src).CombinedOutput(); err != nil {
		t.Skipf("this gcc builds no 32-bit program: %s", out)
	}
	cmd := exec.Command(exe)
	if err := cmd.Start(); err != nil {
		t.Skipf("this kernel runs no 32-bit program: %v", err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	await(t, cmd.Process.Pid, "S")
	raw := mustCapture(t, open(t, int32(cmd.Process.Pid)))
	if len(raw.Threads) != 1 {
		t.Fatalf("threads: %d", len(raw.Threads))
	}
	th := raw.Threads[0]
	nr, in := th.Syscall()
	if !th.Code32 || !in || proc.SyscallName(nr, true) != proc.Some("pause") {
		t.Errorf("32-bit %t, call %d %t", th.Code32, nr, in)
	}
	if th.Regs.Rsi != 0x1234567 || th.Regs.Rbp != 0x89abcde || th.Regs.R15 != 0 || th.Regs.Rip>>32 != 0 || th.Regs.Cs != userCS32 {
		t.Errorf("registers: %+v", th.Regs)
	}
	if len(th.Code.Bytes) < 2 || !bytes.Equal(th.Code.Bytes[:1], []byte{0xeb}) || len(th.Stack.Bytes) == 0 {
		t.Errorf("code %x, stack %d bytes", th.Code.Bytes, len(th.Stack.Bytes))
	}
}
