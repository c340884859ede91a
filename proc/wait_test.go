package proc

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestParsePosition(t *testing.T) {
	for text, want := range map[string]Position{
		"running\n":                         {},
		"-1 0x7ffd1 0x401000\n":             {Blocked: true, Number: -1, SP: 0x7ffd1, PC: 0x401000},
		"0 0x0 0x1 0x2 0x3 0x4 0x5 0x6 0x7": {Blocked: true, Arguments: [6]uint64{0, 1, 2, 3, 4, 5}, SP: 6, PC: 7},
		"270 0xfb 0x7ffc026a96b0 0x0 0x0 0x7ffc026a95c0 0x7ffc026a95d0 0x7ffc026a9590 0x7fc2006d2aec\n": {
			Blocked: true, Number: 270, Arguments: [6]uint64{0xfb, 0x7ffc026a96b0, 0, 0, 0x7ffc026a95c0, 0x7ffc026a95d0},
			SP: 0x7ffc026a9590, PC: 0x7fc2006d2aec,
		},
	} {
		if got, ok := parsePosition([]byte(text)); !ok || got != want {
			t.Errorf("%q: got %+v %v, want %+v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "-1 0x1", "-2 0x1 0x2", "1 0x1 0x2", "-1 1 2", "-1 0x 0x1", "-1 0x1 0x10000000000000000", "-1 0x1 0x2 0x3",
		"9223372036854775808 0x0 0x1 0x2 0x3 0x4 0x5 0x6 0x7"} {
		if got, ok := parsePosition([]byte(text)); ok || got != (Position{}) {
			t.Errorf("%q: got %+v %v, want nothing", text, got, ok)
		}
	}
}

func FuzzParsePosition(f *testing.F) {
	f.Add([]byte("running\n"))
	f.Add([]byte("-1 0x7ffd1 0x401000\n"))
	f.Add([]byte("7 0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x8\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		pos, ok := parsePosition(text)
		if !ok && pos != (Position{}) || ok && !pos.Blocked && pos != (Position{}) {
			t.Errorf("%q: %+v %v", text, pos, ok)
		}
	})
}

func TestParseKernelStack(t *testing.T) {
	const text = "[<0>] do_select+0x63a/0x930\n[<0>] x [mod]\nplain\n\n[<0>] last"
	want := []string{"do_select+0x63a/0x930", "x [mod]", "plain", "last"}
	if got := parseKernelStack([]byte(text)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := parseKernelStack(nil); got == nil || len(got) != 0 {
		t.Errorf("an empty stack: got %#v, want an empty list", got)
	}
}

func TestSyscallNameByNumber(t *testing.T) {
	for _, tt := range []struct {
		number int64
		code32 bool
		want   string
	}{
		{0, false, "read"}, {0, true, "restart_syscall"}, {34, false, "pause"}, {29, true, "pause"},
		{0x40000000 | 34, false, "pause"}, {-1, false, ""}, {-1, true, ""}, {1 << 40, false, ""}, {1 << 40, true, ""}, {330, false, "pkey_alloc"},
	} {
		if got := SyscallName(tt.number, tt.code32).Or(""); got != tt.want {
			t.Errorf("%d, 32-bit %v: got %q, want %q", tt.number, tt.code32, got, tt.want)
		}
	}
}

func TestReadWait(t *testing.T) {
	tg := startTarget(t, nil, "waits")
	p := openLive(t, tg.pid())
	tids, more, err := p.ReadTIDs()
	if err != nil || more || !slices.Contains(tids, int32(tg.fact("TID"))) || !slices.IsSorted(tids) {
		t.Fatalf("threads %v, more %v: %v; want %d among them", tids, more, err, tg.fact("TID"))
	}
	tid := int32(tg.fact("TID"))
	var w Wait
	for range 200 { // until the thread has come to its sleep
		if w, err = p.ReadWait(tid); err != nil {
			t.Fatal(err)
		}
		if w.Position.Number == unix.SYS_PAUSE {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if w.TID != tid || w.State != 'S' || w.Position.Number != unix.SYS_PAUSE || !w.Position.Blocked || w.Position.SP == 0 || w.Position.PC == 0 || w.Err != nil {
		t.Errorf("got %+v, want a thread in pause", w)
	}
	again, err := p.ReadPosition(tid)
	if err != nil || again != w.Position {
		t.Errorf("position again: %+v %v, want %+v", again, err, w.Position)
	}
	if os.Geteuid() == 0 {
		if !slices.ContainsFunc(w.KernelStack, func(f string) bool { return strings.Contains(f, "pause+0x") }) {
			t.Errorf("kernel stack %q, want one with pause", w.KernelStack)
		}
	}
	if _, err := p.ReadWait(1); !errors.Is(err, ErrGone) {
		t.Errorf("thread 1 of another process: %v, want ErrGone", err)
	}
	if _, err := p.ReadPosition(1); !errors.Is(err, ErrGone) {
		t.Errorf("position of thread 1: %v, want ErrGone", err)
	}
}

func init() {
	targets["waits"] = func([]string) {
		tid := make(chan int)
		go func() {
			runtime.LockOSThread()
			tid <- unix.Gettid()
			unix.Syscall(unix.SYS_PAUSE, 0, 0, 0)
		}()
		fact("TID", <-tid)
	}
}
