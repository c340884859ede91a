package proc

import (
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const signalStatus = "Name:\ta\\nb\\\\c\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t7\nPid:\t8\nSigQ:\t3/96365\n" +
	"SigPnd:\t0000000000000200\nShdPnd:\t8000000000000000\nSigBlk:\t0000000000000800\nSigIgn:\t0000000000001000\nSigCgt:\t00000001800004ea\nCapInh:\t0\n"

func TestParseSignals(t *testing.T) {
	got, ok := parseSignals([]byte(signalStatus))
	want := SignalState{Name: "a\nb\\c", Pending: 1 << 9, SharedPending: 1 << 63, Blocked: 1 << 11, Ignored: 1 << 12,
		Caught: 0x1800004ea, QueuedUsed: 3, QueuedLimit: 96365}
	if !ok || got != want {
		t.Errorf("got %+v, %v, want %+v", got, ok, want)
	}
	for _, c := range []string{"Name:\t", "SigQ:\t", "SigPnd:\t", "ShdPnd:\t", "SigBlk:\t", "SigIgn:\t", "SigCgt:\t"} {
		if got, ok := parseSignals([]byte(strings.Replace(signalStatus, c, "X:\t", 1))); ok || got != (SignalState{}) {
			t.Errorf("without %q: %+v, %v", c, got, ok)
		}
	}
	for _, c := range [][2]string{{"3/96365", "3"}, {"3/96365", "x/1"}, {"3/96365", "1/"}, {"0000000000000800", "000000000000080x"},
		{"0000000000000800", ""}, {"0000000000000800", "00000000000008000"}} {
		if got, ok := parseSignals([]byte(strings.Replace(signalStatus, c[0], c[1], 1))); ok || got != (SignalState{}) {
			t.Errorf("%q: %+v, %v", c[1], got, ok)
		}
	}
}

func TestUnescapeName(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", `a\nb`: "a\nb", `a\\nb`: `a\nb`, `\\\\`: `\\`, `\`: `\`, `a\tb`: `a\tb`, `\n`: "\n", "": "",
	} {
		if got := unescapeName([]byte(in)); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestSignalNames(t *testing.T) {
	for _, c := range []struct {
		set  uint64
		want []string
	}{
		{0, []string{}},
		{1, []string{"SIGHUP [1]"}},
		{1<<9 | 1<<30, []string{"SIGUSR1 [10]", "SIGSYS [31]"}},
		{1<<31 | 1<<63, []string{"RT 32 [32]", "RT 64 [64]"}},
	} {
		if got := SignalNames(c.set); !slices.Equal(got, c.want) || got == nil {
			t.Errorf("%#x: got %v, want %v", c.set, got, c.want)
		}
	}
	all := SignalNames(1<<64 - 1)
	if len(all) != 64 {
		t.Errorf("%d names", len(all))
	}
	for n := 1; n <= 31; n++ {
		// The library's own table is another witness.
		if want := unix.SignalName(unix.Signal(n)); !strings.HasPrefix(all[n-1], want+" ") {
			t.Errorf("signal %d is %s, want %s", n, all[n-1], want)
		}
	}
}

func init() {
	targets["signals"] = func(args []string) {
		n, _ := strconv.Atoi(args[0])
		started := make(chan int)
		for range n {
			go func() {
				runtime.LockOSThread()
				must(unix.Prctl(unix.PR_SET_NAME, addressOfName("a\nb\\c"), 0, 0, 0))
				set := unix.Sigset_t{Val: [16]uint64{1<<(unix.SIGUSR2-1) | 1<<(34-1)}}
				must(unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil))
				must(unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGUSR2))
				started <- unix.Gettid()
				select {}
			}()
			fact("TID", <-started)
		}
	}
}

func addressOfName(name string) uintptr { return uintptr(addressOf(append([]byte(name), 0))) }

func TestReadSignals(t *testing.T) {
	tg := startTarget(t, nil, "signals", "1")
	p := openLive(t, tg.pid())
	s, err := p.ReadSignals()
	if err != nil || len(s.Warnings) != 0 {
		t.Fatalf("got %+v, %v", s, err)
	}
	if !slices.IsSortedFunc(s.Threads, func(a, b SignalState) int { return int(a.TID) - int(b.TID) }) || s.Threads[0].TID != tg.pid() {
		t.Errorf("order of threads: %+v", s.Threads)
	}
	i := slices.IndexFunc(s.Threads, func(v SignalState) bool { return v.TID == int32(tg.fact("TID")) })
	if i < 0 {
		t.Fatalf("thread %d is missing in %+v", tg.fact("TID"), s.Threads)
	}
	v := s.Threads[i]
	if v.Name != "a\nb\\c" || v.Pending != 1<<(unix.SIGUSR2-1) || v.Blocked&v.Pending == 0 || v.Blocked&(1<<33) == 0 || v.SharedPending != 0 {
		t.Errorf("got %+v", v)
	}
	if v.QueuedUsed < 1 || v.QueuedLimit == 0 || v.Caught&(1<<(unix.SIGSEGV-1)) == 0 {
		t.Errorf("got %+v", v)
	}
}

func TestReadSignalsCaps(t *testing.T) {
	p := openLive(t, startTarget(t, nil, "signals", "8").pid())
	s, err := p.readSignals(3, time.Minute)
	if err != nil || len(s.Threads) != 3 || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "first 3") {
		t.Errorf("three threads: %+v, %v", s, err)
	}
	s, err = p.readSignals(100, -1)
	if err != nil || len(s.Threads) != 0 || s.Threads == nil || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "longer than") {
		t.Errorf("no time: %+v, %v", s, err)
	}
}

// One thread whose status has an unknown form is named, the others are shown.
func TestReadSignalsPartly(t *testing.T) {
	mount := t.TempDir()
	files := map[string]string{"stat": statLine(4242, 1, "x"), "task/4242/stat": statLine(4242, 1, "x"),
		"task/4242/status": signalStatus, "task/4243/status": "Name:\tx\n"}
	writeFiles(t, filepath.Join(mount, "4242"), files)
	fs, err := Open(mount)
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	p, err := fs.OpenProcess(ID{4242, 777})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	s, err := p.ReadSignals()
	if err != nil || len(s.Threads) != 1 || s.Threads[0].TID != 4242 || len(s.Warnings) != 1 {
		t.Errorf("got %+v, %v", s, err)
	}
}

func FuzzSignals(f *testing.F) {
	f.Add([]byte(signalStatus))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, ok := parseSignals(text)
		if !ok && v != (SignalState{}) || len(v.Name) > len(text) {
			t.Errorf("got %+v, %v", v, ok)
		}
	})
}
