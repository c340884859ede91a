package proc

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	targets["main-leaderless"] = targetLeaderless
	targets["zombie"] = targetZombie
	targets["thread"] = targetThread
}

// targetLeaderless ends its main thread; others live on.
func targetLeaderless([]string) {
	go func() {
		fact("TID", unix.Gettid())
		targetReady()
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	unix.Syscall(unix.SYS_EXIT, 0, 0, 0) // of this thread, not exit_group
}

// targetZombie leaves a child that has ended.
func targetZombie([]string) {
	pid := must2(syscall.ForkExec("/proc/self/exe", []string{"child"}, &syscall.ProcAttr{Env: []string{"PROC_TARGET=nothing"}}))
	var info unix.Siginfo
	must(unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil))
	fact("CHILD", pid)
}

// targetThread tells the number of a thread that does not lead it.
func targetThread([]string) {
	tids := make(chan int)
	go func() {
		runtime.LockOSThread()
		tids <- unix.Gettid()
		select {}
	}()
	for tid := range tids {
		if tid != os.Getpid() {
			fact("TID", tid)
			return
		}
		// The goroutine got the main thread. The next one cannot.
		go func() {
			runtime.LockOSThread()
			tids <- unix.Gettid()
			select {}
		}()
	}
}

func (tg *target) number(key string) int {
	tg.t.Helper()
	var n int
	if _, err := fmt.Sscan(tg.facts[key], &n); err != nil {
		tg.t.Fatalf("%s is %q", key, tg.facts[key])
	}
	return n
}

func TestOpenProcess(t *testing.T) {
	fs := openFixture(t, "deleted-exe")
	p, err := fs.OpenProcess(ID{25557, 177927})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if got := p.ID(); got != (ID{25557, 177927}) {
		t.Errorf("ID %v", got)
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
	if got, err := p.readLink("exe"); err != nil || got != "/srv/demo/gone (deleted)" {
		t.Errorf("exe %q, %v", got, err)
	}
	args, cut, err := p.readCommandLine(true)
	if err != nil || cut || strings.Join(args, "|") != "/srv/demo/gone|600" {
		t.Errorf("command line %q, %v, %v", args, cut, err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error("second Close:", err)
	}
}

func TestOpenProcessThatIsGone(t *testing.T) {
	for _, c := range []struct {
		what, tree string
		id         ID
	}{
		{"no such PID", "deleted-exe", ID{4242, 1}},
		{"another start time", "deleted-exe", ID{25557, 177928}},
		{"a zombie", "zombie", ID{25562, 177957}},
		{"PID 0", "deleted-exe", ID{0, 0}},
		{"a negative PID", "deleted-exe", ID{-1, 0}},
	} {
		p, err := openFixture(t, c.tree).OpenProcess(c.id)
		if !errors.Is(err, ErrGone) || p != nil {
			t.Errorf("%s: %v, %v; want ErrGone", c.what, p, err)
		}
	}
}

func TestCheckNoticesAReusedPID(t *testing.T) {
	dir := copyFixture(t, "deleted-exe")
	fs := openTree(t, dir)
	p, err := fs.OpenProcess(ID{25557, 177927})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	edit(t, filepath.Join(dir, "25557/stat"), " 177927 ", " 999999 ")
	if err := p.Check(); !errors.Is(err, ErrGone) {
		t.Errorf("Check: %v, want ErrGone", err)
	}
	var s Sample
	if err := p.ReadSample(&s); !errors.Is(err, ErrGone) {
		t.Errorf("ReadSample: %v, want ErrGone", err)
	}
	if _, err := fs.NewScanner().ReadRow(p, Want{}); !errors.Is(err, ErrGone) {
		t.Errorf("ReadRow: %v, want ErrGone", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "25557")); err != nil {
		t.Fatal(err)
	}
	if err := p.Check(); !errors.Is(err, ErrGone) {
		t.Errorf("Check after the directory went: %v, want ErrGone", err)
	}
	if _, err := p.readFile("cgroup", nil); !errors.Is(err, ErrGone) {
		t.Errorf("readFile after the directory went: %v, want ErrGone", err)
	}
}

func TestCheckRefusesAnotherForm(t *testing.T) {
	dir := copyFixture(t, "deleted-exe")
	writeFile(t, filepath.Join(dir, "25557/stat"), "no stat\n")
	var parse *ParseError
	if _, err := openTree(t, dir).OpenProcess(ID{25557, 177927}); !errors.As(err, &parse) || parse.File != "stat" {
		t.Errorf("%v, want a ParseError of stat", err)
	}
}

func TestMissingFileOfAProcessThatLives(t *testing.T) {
	p, err := openFixture(t, "kthread").OpenProcess(ID{2, 9})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.readLink("exe"); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrGone) {
		t.Errorf("%v, want ENOENT and not ErrGone", err)
	}
	if _, err := p.readFile(strings.Repeat("x", 100), nil); !errors.Is(err, unix.ENAMETOOLONG) {
		t.Errorf("%v, want ENAMETOOLONG", err)
	}
}

func TestReadFileMax(t *testing.T) {
	dir := copyFixture(t, "deleted-exe")
	text := strings.Repeat("0123456789", 1000)
	writeFile(t, filepath.Join(dir, "25557/long"), text)
	p, err := openTree(t, dir).OpenProcess(ID{25557, 177927})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, c := range []struct {
		max  int
		want string
		more bool
	}{{0, text, false}, {1, text[:1], true}, {4096, text[:4096], true}, {9999, text[:9999], true}, {10000, text, false}, {20000, text, false}} {
		for _, size := range []int{0, 1, 4096, 9999, 10000, 10001, 30000} {
			got, more, err := p.readFileMax("long", make([]byte, size), c.max)
			if err != nil || string(got) != c.want || more != c.more {
				t.Errorf("max %d, buffer %d: %d bytes, more %v, %v; want %d, %v", c.max, size, len(got), more, err, len(c.want), c.more)
			}
		}
	}
}

func TestZombieLeaderIsReadThroughALiveThread(t *testing.T) {
	p, err := openFixture(t, "zombie-leader").OpenProcess(ID{25563, 177957})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if got, err := p.readLink("exe"); err != nil || got != "/srv/demo/leaderless" {
		t.Errorf("exe %q, %v", got, err)
	}
	if got, err := p.readFile("statm", nil); err != nil || !strings.HasPrefix(string(got), "4749 398 ") {
		t.Errorf("statm %q, %v", got, err)
	}
	if args, _, err := p.readCommandLine(false); err != nil || strings.Join(args, "|") != "/srv/demo/leaderless" {
		t.Errorf("command line %q, %v", args, err)
	}
}

func TestZombieLeaderChangesTheThreadItIsReadThrough(t *testing.T) {
	dir := copyFixture(t, "zombie-leader")
	p, err := openTree(t, dir).OpenProcess(ID{25563, 177957})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range 2 {
		gone := p.live
		if gone == "" {
			t.Fatal("no live thread")
		}
		if err := os.RemoveAll(filepath.Join(dir, "25563", gone)); err != nil {
			t.Fatal(err)
		}
		_, err := p.readLink("exe")
		if p.live == gone {
			t.Errorf("still reads through %s", gone)
		}
		if p.live != "" && err != nil {
			t.Errorf("through %s: %v", p.live, err)
		}
		if p.live == "" && !errors.Is(err, ErrGone) {
			t.Errorf("without a live thread: %v, want ErrGone", err)
		}
	}
}

func TestLiveZombieLeader(t *testing.T) {
	fs := live(t)
	tg := startTarget(t, nil, "main-leaderless")
	id := idOf(t, fs, tg.cmd.Process.Pid)
	deadline := time.Now().Add(5 * time.Second)
	for { // the main thread ends on its own
		b, err := fs.readFile(fmt.Sprint(id.PID, "/stat"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if st, ok := parseStat(b); ok && st.ended() {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the leader does not end")
		}
		time.Sleep(time.Millisecond)
	}
	p, err := fs.OpenProcess(id)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.live == "" {
		t.Fatal("no live thread is known")
	}
	if _, err := p.readLink("exe"); err != nil {
		t.Error(err)
	}
	var s Sample
	if err := p.ReadSample(&s); err != nil {
		t.Fatal(err)
	}
	if s.RSS.Or(0) == 0 || s.VMS.Or(0) == 0 || !s.Swap.Known() {
		t.Errorf("sizes %+v %+v %+v", s.RSS, s.VMS, s.Swap)
	}
	if s.State == 'Z' || len(s.Threads) < 2 || s.Threads[0].TID != id.PID || s.Threads[0].State != 'Z' {
		t.Errorf("state %c, threads %+v", s.State, s.Threads)
	}
	row, err := fs.NewScanner().ReadRow(p, Want{IO: true, Maps: true})
	if err != nil {
		t.Fatal(err)
	}
	if row.RSS == 0 || row.State == 'Z' || row.Details.Executable == nil || row.Details.CommandLine == nil || !row.IO.Known() || row.Maps == nil || len(row.Maps.Boxes) == 0 {
		t.Errorf("row %+v, details %+v", row, row.Details)
	}
}

func TestLiveZombieAndGone(t *testing.T) {
	fs := live(t)
	tg := startTarget(t, nil, "zombie")
	child := idOf(t, fs, tg.number("CHILD"))
	if _, err := fs.OpenProcess(child); !errors.Is(err, ErrGone) {
		t.Errorf("a zombie opens with %v, want ErrGone", err)
	}
	rows, err := fs.NewScanner().Scan(Want{IO: true, Maps: true})
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, row := range rows {
		if row.ID == child {
			found = true
			if row.State != 'Z' || row.RSS != 0 || row.VMS != 0 || row.Details.Executable != nil || row.Details.CommandLine != nil || row.Maps != nil {
				t.Errorf("row %+v, details %+v", row, row.Details)
			}
			if parent, _ := row.Parent.Get(); int(parent.PID) != tg.cmd.Process.Pid {
				t.Errorf("parent %+v", row.Parent)
			}
		}
	}
	if !found {
		t.Error("the zombie is not listed")
	}

	id := idOf(t, fs, tg.cmd.Process.Pid)
	p, err := fs.OpenProcess(id)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	tg.stop()
	if err := p.Check(); !errors.Is(err, ErrGone) {
		t.Errorf("Check after the end: %v, want ErrGone", err)
	}
	if _, err := p.readFile("cgroup", nil); !errors.Is(err, ErrGone) {
		t.Errorf("readFile after the end: %v, want ErrGone", err)
	}
	if _, err := fs.OpenProcess(id); !errors.Is(err, ErrGone) {
		t.Errorf("OpenProcess after the end: %v, want ErrGone", err)
	}
}

func TestAThreadIsNoProcess(t *testing.T) {
	fs := live(t)
	tg := startTarget(t, nil, "thread")
	tid := tg.number("TID")
	if _, err := fs.OpenProcess(idOf(t, fs, tid)); !errors.Is(err, ErrGone) {
		t.Errorf("thread %d opens with %v, want ErrGone", tid, err)
	}
}

// asNobody runs f on a thread without a privilege over files, which then ends.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f() // has none
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread goes with its ids
		if _, _, e := unix.Syscall(unix.SYS_SETFSUID, 65534, 0, 0); int(e) != 0 {
			t.Error("setfsuid:", e)
			return
		}
		f()
	}()
	<-done
}

func TestDenied(t *testing.T) {
	dir := copyFixture(t, "deleted-exe")
	for d := dir; strings.HasPrefix(d, os.TempDir()) && d != os.TempDir(); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(dir, os.DirFS("testdata/setuid")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "25557"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "25557"), 0o755) })
	tree := openTree(t, dir)
	asNobody(t, func() {
		if _, err := tree.OpenProcess(ID{25557, 177927}); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("OpenProcess: %v, want a permission error", err)
		}
		s := tree.NewScanner()
		rows, err := s.Scan(Want{})
		if err != nil {
			t.Error(err)
			return
		}
		if len(rows) != 1 || rows[0].ID.PID != 25555 || s.Denied != 1 {
			t.Errorf("%d rows, denied %d; want the other process and 1", len(rows), s.Denied)
		}
	})
}
