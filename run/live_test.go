package run

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

// patience is how long a test waits for what has to come.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == JoinArgument {
		fmt.Fprintln(os.Stderr, Join(os.Args[2:]))
		os.Exit(126)
	}
	// The runtime's own goroutine for signals and descriptors for polling come first.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGCHLD)
	signal.Stop(signals)
	if r, w, err := os.Pipe(); err == nil {
		r.SetReadDeadline(time.Now())
		r.Close()
		w.Close()
	}
	os.Exit(m.Run())
}

// events collects what a supervisor tells.
type events struct {
	mu   sync.Mutex
	list []Event
}

func (e *events) add(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, ev)
}

func (e *events) of(kind, id string) (list []Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, ev := range e.list {
		if ev.Type == kind && ev.Run == id {
			list = append(list, ev)
		}
	}
	return list
}

// ways are the kinds of containment that every behaviour is tested with.
func ways(t *testing.T, f func(t *testing.T, s *Supervisor, seen *events)) {
	for name, o := range map[string]Options{"cgroup": {}, "join": {JoinBirth: true}, "marks": {NoCgroup: true}} {
		t.Run(name, func(t *testing.T) {
			s, seen := open(t, o)
			if name != "marks" && s.groups == nil {
				if g, err := openGroups(newFiles("/proc")); err != nil {
					if os.Geteuid() == 0 {
						t.Fatalf("root makes no cgroup: %v", err)
					}
					t.Skipf("not root, and no cgroup can be made here: %v", err)
				} else {
					g.close()
				}
				t.Fatalf("a cgroup can be made and is not used: %s", s.why)
			}
			if name == "join" && s.birth != birthJoin {
				t.Fatalf("born by %q: %s", s.birth, s.why)
			}
			f(t, s, seen)
		})
	}
}

// open returns a supervisor; when the test ends nothing of it may be left.
func open(t *testing.T, o Options) (*Supervisor, *events) {
	t.Helper()
	seen := &events{}
	if o.Event == nil {
		o.Event = seen.add
	}
	o.Environ = os.Environ()
	before := runtime.NumGoroutine()
	fds := descriptors(t)
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close(false)
		if s.groups != nil {
			if _, err := os.Stat(s.groups.path); err == nil {
				left, _ := filepath.Glob(s.groups.path + "/*/cgroup.procs")
				t.Errorf("%s is left: %q", s.groups.path, left)
			}
		}
		wait(t, "goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
		wait(t, "descriptors to be closed", func() bool { return descriptors(t) <= fds })
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != unix.ECHILD {
			t.Errorf("a child is left: wait4 gives %d, %v", pid, err)
		}
	})
	return s, seen
}

func descriptors(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func wait(t *testing.T, what string, ready func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ready(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("waited in vain for %s\n%s", what, buf[:runtime.Stack(buf, true)])
		}
	}
}

func ptr[T any](v T) *T { return &v }

// long chooses the long form of a test when PROCINSH_SOAK is set.
func long[T any](short, long T) T {
	if os.Getenv("PROCINSH_SOAK") != "" {
		return long
	}
	return short
}

func shell(text string) Launch { return Launch{Command: &text} }

func create(t *testing.T, s *Supervisor, l Launch) Status {
	t.Helper()
	st, err := s.Create(t.Context(), asSelf(l))
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return st
}

func asSelf(l Launch) Launch {
	if l.UID == nil {
		l.UID = ptr(uint32(os.Geteuid()))
	}
	return l
}

func until(t *testing.T, s *Supervisor, id, what string) Status {
	t.Helper()
	q := GetQuery{ID: id, Until: what}
	if what != "" {
		q.WaitMS = patience.Milliseconds()
	}
	st, err := s.Get(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if what == "exited" && !st.Ended() || what == "root" && st.Exit == nil {
		t.Fatalf("run %s is %s after %v, members %v", id, st.State, patience, st.Members)
	}
	return st
}

func stop(t *testing.T, s *Supervisor, id string, grace int64) Stopped {
	t.Helper()
	st, err := s.Stop(t.Context(), StopQuery{ID: id, GraceMS: &grace})
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Survivors) > 0 {
		t.Fatalf("survivors of %s: %v", id, st.Survivors)
	}
	if st := until(t, s, id, "exited"); *st.Members != 0 {
		t.Fatalf("run %s has %d members after it was stopped", id, *st.Members)
	}
	return st
}

func output(t *testing.T, s *Supervisor, id string) string {
	t.Helper()
	o, err := s.Output(t.Context(), OutputQuery{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for _, c := range o.Chunks {
		b = append(b, c.Data...)
	}
	return string(b)
}

func members(t *testing.T, s *Supervisor, id string) []MemberStatus {
	t.Helper()
	m, err := s.Processes(t.Context(), MembersQuery{ID: id, Port: true})
	if err != nil {
		t.Fatal(err)
	}
	return m.Processes
}

// code is how a run ended, in one word.
func code(st Status) string {
	switch {
	case st.Exit == nil:
		return "live"
	case st.Exit.Code != nil:
		return fmt.Sprintf("%s %d", st.Exit.Reason, *st.Exit.Code)
	case st.Exit.Signal != nil:
		return st.Exit.Reason + " " + *st.Exit.Signal
	}
	return st.Exit.Reason
}

// The root ends, what it left behind lives on, and stop clears that.
func TestLeftBehind(t *testing.T) {
	ways(t, func(t *testing.T, s *Supervisor, _ *events) {
		st := create(t, s, shell("nohup sleep 6001 | cat & echo done"))
		st = until(t, s, st.ID, "root")
		if code(st) != "exit 0" || st.State != StateDraining || output(t, s, st.ID) != "done\n" {
			t.Errorf("got %s, state %s, output %q", code(st), st.State, output(t, s, st.ID))
		}
		wait(t, "two members", func() bool { return len(members(t, s, st.ID)) == 2 })
		for _, m := range members(t, s, st.ID) {
			if m.Role != RoleOrphan || m.Origin != "background" {
				t.Errorf("%s is %s, %s, want an orphan in the background", m.Command, m.Role, m.Origin)
			}
		}
		if got := stop(t, s, st.ID, 3000); got.Stopped != 2 {
			t.Errorf("%d stopped, want 2", got.Stopped)
		}
	})
}

// A trap that writes something has written it, and stop is over only when a sibling
// that ignores the signal is gone too.
func TestStopIsWhole(t *testing.T) {
	ways(t, func(t *testing.T, s *Supervisor, _ *events) {
		st := create(t, s, shell(`sh -c 'trap "" TERM; echo deaf; while :; do sleep 6002; done' & trap "echo bye; exit 0" TERM; echo up; while :; do sleep 0.01; done`))
		wait(t, "both to be up", func() bool { o := output(t, s, st.ID); return strings.Contains(o, "up") && strings.Contains(o, "deaf") })
		stop(t, s, st.ID, 2000)
		st = until(t, s, st.ID, "exited")
		if !strings.Contains(output(t, s, st.ID), "bye") || st.Exit.Reason != ReasonManual {
			t.Errorf("output %q, reason %s", output(t, s, st.ID), st.Exit.Reason)
		}
		again, err := s.Stop(t.Context(), StopQuery{ID: st.ID})
		if err != nil || again.Stopped != 0 || len(again.Survivors) != 0 {
			t.Errorf("stop of what is empty: %+v, %v", again, err)
		}
	})
}

// Who does not want to wait is told how far the stop is, and it goes on.
func TestStopBehind(t *testing.T) {
	ways(t, func(t *testing.T, s *Supervisor, _ *events) {
		l := shell("sleep 6021 & trap '' TERM; echo up; read line")
		l.Scope, l.Stdin = "behind", "open"
		st := create(t, s, l)
		wait(t, "the trap", func() bool { return output(t, s, st.ID) == "up\n" && len(members(t, s, st.ID)) == 2 })
		q := StopQuery{ID: st.ID, GraceMS: ptr(int64(60_000)), WaitMS: ptr(int64(0))}
		wait(t, "the sleep to obey", func() bool {
			got, err := s.Stop(t.Context(), q)
			if err != nil || !got.Pending {
				t.Fatalf("got %+v, %v", got, err)
			}
			return got.Stopped == 1 && slices.Equal(got.Survivors, []string{*st.Root})
		})
		all, err := s.StopScope(t.Context(), ScopeQuery{Scope: "behind", GraceMS: ptr(int64(60_000)), WaitMS: ptr(int64(0))})
		if err != nil || len(all) != 1 || !all[0].Pending {
			t.Errorf("scope: %+v, %v", all, err)
		}
		if _, err := s.Stop(t.Context(), StopQuery{ID: st.ID, WaitMS: ptr(int64(-1))}); CodeOf(err) != CodeBadRequest {
			t.Errorf("a negative wait: %v", err)
		}
		if got := stop(t, s, st.ID, 0); got.Stopped != 2 || got.Pending {
			t.Errorf("got %+v", got)
		}
	})
}

func TestDaemons(t *testing.T) {
	ways(t, func(t *testing.T, s *Supervisor, _ *events) {
		st := create(t, s, shell(`setsid sleep 6003 & (setsid sh -c 'setsid sleep 6004 & exit 0' &); wait`))
		wait(t, "both daemons", func() bool {
			n := 0
			for _, m := range members(t, s, st.ID) {
				if strings.HasPrefix(m.Command, "sleep 600") {
					n++
				}
			}
			return n == 2
		})
		stop(t, s, st.ID, 1000)
	})
}

func TestTimeouts(t *testing.T) {
	ways(t, func(t *testing.T, s *Supervisor, seen *events) {
		var ids []string
		for _, text := range []string{"sleep 60", "sleep 60; true", "sleep 60 & wait", "(sleep 60)", "sleep 60 | cat"} {
			l := shell(text)
			l.TimeoutMS, l.GraceMS = ptr(long(int64(300), 2000)), ptr(int64(500))
			ids = append(ids, create(t, s, l).ID)
		}
		for _, id := range ids {
			st := until(t, s, id, "exited")
			if st.Exit.Reason != ReasonTimeout || len(seen.of(EventTimeout, id)) != 1 {
				t.Errorf("%s ended by %s, %d timeout events", *st.Command, st.Exit.Reason, len(seen.of(EventTimeout, id)))
			}
		}
		l := shell("for i in 1 2 3; do echo $i; sleep 0.05; done; exec sleep 60")
		l.SilenceMS = ptr(int64(400))
		st := until(t, s, create(t, s, l).ID, "exited")
		if st.Exit.Reason != ReasonSilence || !strings.HasPrefix("1\n2\n3\n", output(t, s, st.ID)) {
			t.Errorf("ended by %s after %q", st.Exit.Reason, output(t, s, st.ID))
		}
	})
}

func TestTerminal(t *testing.T) {
	ways(t, func(t *testing.T, s *Supervisor, _ *events) {
		st := create(t, s, Launch{Argv: []string{"printf", "x"}, PTY: &Size{120, 30}})
		st = until(t, s, st.ID, "exited")
		if code(st) != "exit 0" || output(t, s, st.ID) != "x" {
			t.Errorf("got %s, %q", code(st), output(t, s, st.ID))
		}
		// Without the trap the hangup of the session's end would come before setsid.
		l := shell("trap '' HUP; setsid sleep 6006 & exit 0")
		l.PTY = &Size{120, 30}
		st = until(t, s, create(t, s, l).ID, "root")
		if code(st) != "exit 0" {
			t.Errorf("got %s", code(st))
		}
		wait(t, "one member", func() bool { return len(members(t, s, st.ID)) == 1 })
		stop(t, s, st.ID, 1000)

		l = shell("stty size; read line; stty size; echo got:$line; cat")
		l.PTY = &Size{101, 33}
		st = create(t, s, l)
		wait(t, "the size", func() bool { return strings.Contains(output(t, s, st.ID), "33 101") })
		if _, err := s.Resize(t.Context(), ResizeRequest{st.ID, Size{90, 20}}); err != nil {
			t.Fatal(err)
		}
		for _, q := range []InputRequest{{Text: ptr("hello")}, {Keys: []string{"enter"}}, {EOF: true}} {
			q.ID = st.ID
			if _, err := s.Input(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			wait(t, "the echo", func() bool { return strings.Contains(output(t, s, st.ID), "hello") })
		}
		if st = until(t, s, st.ID, "exited"); code(st) != "exit 0" || !strings.Contains(output(t, s, st.ID), "20 90\r\ngot:hello") {
			t.Errorf("got %s, %q", code(st), output(t, s, st.ID))
		}
	})
}

// A command that has closed its terminal is not hung up on: it ends as it wants to, and
// may open the terminal again.
func TestTerminalClosedByAll(t *testing.T) {
	ways(t, func(t *testing.T, s *Supervisor, _ *events) {
		l := shell("exec <&- >&- 2>&-; sleep 0.3; exec >/dev/tty || exit 9; echo back; exec >&-; sleep 0.1; exit 7")
		l.PTY = &Size{120, 30}
		st := until(t, s, create(t, s, l).ID, "exited")
		if code(st) != "exit 7" || output(t, s, st.ID) != "back\r\n" {
			t.Errorf("got %s, %q", code(st), output(t, s, st.ID))
		}
	})
}

// No byte of output and no status is lost, however fast a command ends.
func TestOutputIsWhole(t *testing.T) {
	ways(t, func(t *testing.T, s *Supervisor, _ *events) {
		n := long(10, 50)
		if s.birth == birthCgroup {
			n = 50
		}
		for range n {
			l := shell("head -c 300000 /dev/zero | tr '\\0' a; exit 3")
			st := until(t, s, create(t, s, l).ID, "exited")
			if code(st) != "exit 3" || output(t, s, st.ID) != strings.Repeat("a", 300_000) {
				t.Fatalf("got %s, %d bytes", code(st), len(output(t, s, st.ID)))
			}
		}
	})
}

// Many runs that leave daemons behind, at the same time: nothing of them stays.
func TestManyRuns(t *testing.T) {
	total := long(60, 1000)
	ways(t, func(t *testing.T, s *Supervisor, seen *events) {
		ids := make(chan int)
		var workers sync.WaitGroup
		for range 60 {
			workers.Go(func() {
				for i := range ids {
					l := shell("(setsid sleep 0.05 &); echo out; exit 3")
					l.ID, l.MaxOutput = fmt.Sprintf("many-%d", i), 4096
					if _, err := s.Create(context.Background(), asSelf(l)); err != nil {
						t.Error(err)
						continue
					}
					st, err := s.Get(context.Background(), GetQuery{ID: l.ID, WaitMS: patience.Milliseconds()})
					if err != nil || code(st) != "exit 3" || !st.Ended() || st.Output.Bytes != 4 {
						t.Errorf("run %d: %s, %s, %d bytes, %v", i, code(st), st.State, st.Output.Bytes, err)
					}
				}
			})
		}
		for i := range total {
			ids <- i
		}
		close(ids)
		workers.Wait()
		for i := range total {
			wait(t, "the event", func() bool { return len(seen.of(EventExited, fmt.Sprintf("many-%d", i))) > 0 })
			if n := len(seen.of(EventExited, fmt.Sprintf("many-%d", i))); n != 1 {
				t.Errorf("run %d: %d exit events", i, n)
			}
		}
	})
}

// The same one after another.
func TestRunsInTurn(t *testing.T) {
	ways(t, func(t *testing.T, s *Supervisor, seen *events) {
		for i := range long(20, 1000) {
			l := shell("(setsid sleep 0.01 >/dev/null 2>&1 &); echo out; exit 3")
			l.ID = fmt.Sprintf("turn-%d", i)
			create(t, s, l)
			if st := until(t, s, l.ID, "exited"); code(st) != "exit 3" || st.Output.Bytes != 4 {
				t.Errorf("run %d: %s, %d bytes", i, code(st), st.Output.Bytes)
			}
			wait(t, "the event", func() bool { return len(seen.of(EventExited, l.ID)) == 1 })
		}
	})
}

// What forks and ignores the signal is emptied all the same.
func TestStorm(t *testing.T) {
	ways(t, func(t *testing.T, s *Supervisor, _ *events) {
		st := create(t, s, shell(`trap "" TERM; i=0; while [ $i -lt 8 ]; do (while :; do setsid sh -c 'trap "" TERM; sleep 0.1'; done) & i=$((i+1)); done; echo up; wait`))
		wait(t, "the storm", func() bool { return strings.Contains(output(t, s, st.ID), "up") })
		stop(t, s, st.ID, 100)
	})
}

// A pid-start that is stale is refused and the stranger that has the number lives.
func TestStaleProcess(t *testing.T) {
	s, _ := open(t, Options{})
	a := create(t, s, Launch{Argv: []string{"sleep", "6007"}})
	b := create(t, s, Launch{Argv: []string{"sleep", "6008"}})
	stranger, err := ParseID(*b.Root)
	if err != nil {
		t.Fatal(err)
	}
	stale := proc.ID{PID: stranger.PID, StartTicks: stranger.StartTicks - 1}
	for process, want := range map[string]string{FormatID(stale): CodeStale, *b.Root: CodeNotInRun, "1-0": CodeProtected, s.owner: CodeProtected, "x": CodeInvalidProcess} {
		if _, err := s.StopProcess(t.Context(), StopQuery{ID: a.ID, Process: process}); CodeOf(err) != want {
			t.Errorf("stop %s: %v, want %s", process, err, want)
		}
	}
	if st := until(t, s, b.ID, ""); st.State != StateRunning {
		t.Errorf("the stranger is %s", st.State)
	}
	if _, err := s.StopProcess(t.Context(), StopQuery{ID: a.ID, Process: *a.Root}); err != nil {
		t.Error(err)
	}
	if st := until(t, s, a.ID, "exited"); code(st) != "signal SIGTERM" {
		t.Errorf("got %s", code(st))
	}
}

// Replacements of a scope never have two trees alive at once.
func TestReplace(t *testing.T) {
	ways(t, func(t *testing.T, s *Supervisor, _ *events) {
		dir := t.TempDir()
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				l := shell(fmt.Sprintf(`[ -s %[1]s/pid ] && kill -0 $(cat %[1]s/pid) && touch %[1]s/two; echo $$ >%[1]s/pid; (setsid sleep 6017 &); sleep 6018`, dir))
				l.ID, l.Scope, l.Replace = fmt.Sprintf("turn-%d", i), "place", true
				if _, err := s.Create(context.Background(), asSelf(l)); err != nil {
					t.Error(err)
					return
				}
			})
		}
		all.Wait()
		if _, err := os.Stat(dir + "/two"); err == nil {
			t.Error("two trees were alive at once")
		}
		if _, err := s.StopScope(t.Context(), ScopeQuery{Scope: "place"}); err != nil {
			t.Error(err)
		}
	})
}

// Exit, timeout and stops that come together give one end with the first reason.
func TestOneEnd(t *testing.T) {
	ways(t, func(t *testing.T, s *Supervisor, seen *events) {
		for i := range 10 {
			l := shell("exec sleep 0.05")
			l.ID, l.TimeoutMS, l.GraceMS = fmt.Sprintf("end-%d", i), ptr(int64(50)), ptr(int64(0))
			create(t, s, l)
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					time.Sleep(50 * time.Millisecond)
					s.Stop(context.Background(), StopQuery{ID: l.ID, GraceMS: ptr(int64(0))})
				})
			}
			all.Wait()
			st := until(t, s, l.ID, "exited")
			wait(t, "the event", func() bool { return len(seen.of(EventExited, l.ID)) > 0 })
			if n := len(seen.of(EventExited, l.ID)); n != 1 {
				t.Errorf("%d exit events", n)
			}
			if r := st.Exit.Reason; !slices.Contains([]string{ReasonExit, ReasonManual, ReasonTimeout}, r) {
				t.Errorf("reason %s", r)
			}
		}
	})
}

// The first reason to end a run stays, whatever comes after it.
func TestFirstReason(t *testing.T) {
	ways(t, func(t *testing.T, s *Supervisor, seen *events) {
		for _, c := range []struct {
			timeout int64
			want    string
		}{{1, ReasonTimeout}, {60_000, ReasonManual}} {
			l := shell("trap '' TERM; while :; do sleep 0.05; done")
			l.ID, l.TimeoutMS, l.GraceMS = "first-"+c.want, &c.timeout, ptr(int64(60_000))
			create(t, s, l)
			var stops sync.WaitGroup
			if c.want == ReasonTimeout {
				wait(t, "the timeout", func() bool { return len(seen.of(EventTimeout, l.ID)) == 1 })
			} else {
				stops.Go(func() { s.Stop(context.Background(), StopQuery{ID: l.ID}) })
				wait(t, "the stop", func() bool { return until(t, s, l.ID, "").State == StateStopping })
				r, err := s.find(l.ID)
				if err != nil {
					t.Fatal(err)
				}
				stops.Go(func() { s.expired(r, ReasonTimeout) })
				wait(t, "the timeout", func() bool { return len(seen.of(EventTimeout, l.ID)) == 1 })
			}
			stop(t, s, l.ID, 0)
			stops.Wait()
			if st := until(t, s, l.ID, "exited"); st.Exit.Reason != c.want {
				t.Errorf("reason %s, want %s", st.Exit.Reason, c.want)
			}
		}
	})
}

func TestPorts(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	ways(t, func(t *testing.T, s *Supervisor, _ *events) {
		texts := []string{"exec python3 -m http.server 0"}
		if st := until(t, s, create(t, s, shell("unshare -n true")).ID, "exited"); code(st) == "exit 0" {
			texts = append(texts, "exec unshare -n python3 -m http.server 0")
		} else {
			t.Logf("not in a network namespace of its own: unshare -n: %s", output(t, s, st.ID))
		}
		for _, text := range texts {
			st := create(t, s, shell(text))
			wait(t, "a port", func() bool { st := until(t, s, st.ID, ""); return len(st.Ports) == 1 && st.Ports[0].Address == "*" })
			if m := members(t, s, st.ID); len(m) != 1 || m[0].Label != "python3 -m http.server" && !strings.HasPrefix(m[0].Label, "python3") {
				t.Errorf("members %+v", m)
			}
			stop(t, s, st.ID, 1000)
		}
	})
}

func TestRefused(t *testing.T) {
	s, _ := open(t, Options{Roots: []Root{{Name: "a/b", Dir: t.TempDir(), Env: "WORK"}}})
	create(t, s, Launch{ID: "taken", Argv: []string{"true"}})
	for name, c := range map[string]struct {
		l    Launch
		want string
	}{
		"both":           {Launch{Argv: []string{"true"}, Command: ptr("true")}, CodeBadRequest},
		"neither":        {Launch{}, CodeBadRequest},
		"blank":          {shell(" \t"), CodeBadRequest},
		"empty argv":     {Launch{Argv: []string{}}, CodeBadRequest},
		"id":             {Launch{ID: "a b", Argv: []string{"true"}}, CodeInvalidID},
		"duplicate":      {Launch{ID: "taken", Argv: []string{"true"}}, CodeExists},
		"no command":     {Launch{Argv: []string{"no-such-command"}}, CodeSpawnFailed},
		"no file":        {Launch{Argv: []string{"/no/such/file"}}, CodeSpawnFailed},
		"not executable": {Launch{Argv: []string{"/etc/passwd"}}, CodeSpawnFailed},
		"variable":       {Launch{Argv: []string{"true"}, Env: map[string]string{"LD_PRELOAD": "x"}}, CodeBadRequest},
		"outside":        {Launch{Argv: []string{"true"}, Cwd: "/"}, CodeInvalidCwd},
		"relative":       {Launch{Argv: []string{"true"}, Cwd: "x"}, CodeInvalidCwd},
		"climbs":         {Launch{Argv: []string{"true"}, Cwd: "@a/b/../.."}, CodeInvalidCwd},
		"root":           {Launch{Argv: []string{"true"}, Cwd: "@a/c/x"}, CodeUnknownRoot},
		"missing":        {Launch{Argv: []string{"true"}, Cwd: "@a/b/none"}, CodeNoDirectory},
		"nobody":         {Launch{Argv: []string{"true"}, UID: ptr(uint32(12345)), User: "root"}, CodeUserUnknown},
	} {
		if _, err := s.Create(t.Context(), asSelf(c.l)); CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if _, err := s.Create(t.Context(), Launch{Argv: []string{"true"}}); CodeOf(err) != CodeUserUnknown {
		t.Errorf("without a user: %v", err)
	}
	l := shell(`echo "$WORK|$PWD"`)
	l.Cwd = "@a/b"
	st := until(t, s, create(t, s, l).ID, "exited")
	if dir := s.o.Roots[0].Dir; output(t, s, st.ID) != dir+"|"+dir+"\n" {
		t.Errorf("root: %q", output(t, s, st.ID))
	}
}

func TestAllowedPrograms(t *testing.T) {
	s, _ := open(t, Options{Allow: []string{"/usr/bin/env"}})
	st := until(t, s, create(t, s, Launch{Argv: []string{"env", "printf", "%s", "ok"}}).ID, "exited")
	if output(t, s, st.ID) != "ok" {
		t.Errorf("got %q, %s", output(t, s, st.ID), code(st))
	}
	for _, l := range []Launch{{Argv: []string{"true"}}, shell("env")} {
		if _, err := s.Create(t.Context(), asSelf(l)); CodeOf(err) != CodeCommandDenied {
			t.Errorf("%v: %v", l.Argv, err)
		}
	}
}

func TestWrapper(t *testing.T) {
	s, _ := open(t, Options{Wrapper: []string{"setsid", "--wait"}})
	st := create(t, s, shell("echo in; sleep 6009"))
	wait(t, "the command", func() bool { return output(t, s, st.ID) == "in\n" })
	wait(t, "the shell to be the root", func() bool {
		var roots []string
		for _, m := range members(t, s, st.ID) {
			if m.Role == RoleRoot {
				roots = append(roots, m.Label)
			}
		}
		return len(roots) == 1 && strings.HasPrefix(roots[0], "sh")
	})
	stop(t, s, st.ID, 1000)
	bad, _ := open(t, Options{Wrapper: []string{"no-such-wrapper", "--"}})
	if _, err := bad.Create(t.Context(), asSelf(shell("true"))); CodeOf(err) != CodeSpawnFailed || !strings.Contains(err.Error(), "no-such-wrapper") {
		t.Errorf("got %v", err)
	}
}

func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: becomes another user")
	}
	s, _ := open(t, Options{User: "65534"})
	st := until(t, s, create(t, s, Launch{Argv: []string{"sh", "-c", "id -u; id -G; pwd"}, UID: ptr(uint32(65534))}).ID, "exited")
	if got := output(t, s, st.ID); !strings.HasPrefix(got, "65534\n65534\n") {
		t.Errorf("got %q", got)
	}
	closed := t.TempDir() + "/closed"
	if err := os.MkdirAll(closed+"/open", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	// What only root can reach is not opened for another user.
	for _, dir := range []string{closed, closed + "/open"} {
		if _, err := s.Create(t.Context(), Launch{Argv: []string{"true"}, Cwd: dir, UID: ptr(uint32(65534))}); err == nil {
			t.Errorf("nobody works in %s", dir)
		}
	}
	l := Launch{Argv: []string{"id", "-u"}}
	got, err := s.Create(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	if st := until(t, s, got.ID, "exited"); output(t, s, st.ID) != "65534\n" {
		t.Errorf("--run-user: %q", output(t, s, st.ID))
	}
}

// What a killed supervisor left is found by a new one and ended.
func TestAdopted(t *testing.T) {
	ways(t, func(t *testing.T, s *Supervisor, _ *events) {
		l := shell("setsid sleep 6010 & sleep 6011")
		l.ID = "recordless"
		create(t, s, l)
		wait(t, "three members", func() bool { return len(members(t, s, "recordless")) == 3 })
		// As if it had died: its lock is gone, its record lost, its mark is nobody's.
		s.mu.Lock()
		r := s.runs["recordless"]
		delete(s.runs, "recordless")
		s.mu.Unlock()
		s.owner = "1-1"
		s.tracker.protect(0)
		r.mu.Lock()
		r.hold.key.owner = "2-2"
		r.mu.Unlock()
		list, err := s.List(t.Context(), Filter{Text: "recordless"})
		if s.groups != nil {
			if err != nil || len(list) != 1 || !list[0].Adopted || *list[0].Members != 3 {
				t.Fatalf("list %+v, %v", list, err)
			}
		}
		st, err := s.Stop(t.Context(), StopQuery{ID: "recordless", GraceMS: ptr(int64(1000))})
		if s.groups == nil {
			// Its owner, this process, still lives: nobody else may end it.
			if CodeOf(err) != CodeNotFound {
				t.Errorf("stop: %+v, %v", st, err)
			}
			s.stopLive(t.Context(), r, 0, ReasonManual)
			return
		}
		if err != nil || st.Stopped != 3 || len(st.Survivors) > 0 {
			t.Errorf("stop: %+v, %v", st, err)
		}
		if _, err := s.Stop(t.Context(), StopQuery{ID: "recordless"}); CodeOf(err) != CodeNotFound {
			t.Errorf("second stop: %v", err)
		}
		wait(t, "the end", r.over)
	})
}

func TestForcedDelete(t *testing.T) {
	ways(t, func(t *testing.T, s *Supervisor, seen *events) {
		l := shell("trap '' TERM; echo up; while :; do sleep 6012; done")
		l.ID, l.GraceMS = "again", ptr(int64(200))
		create(t, s, l)
		wait(t, "the trap", func() bool { return output(t, s, "again") == "up\n" })
		if _, err := s.Delete(t.Context(), DeleteQuery{ID: "again"}); CodeOf(err) != CodeActive {
			t.Errorf("without force: %v", err)
		}
		if _, err := s.Delete(t.Context(), DeleteQuery{ID: "again", Force: true}); err != nil {
			t.Fatal(err)
		}
		if list, err := s.List(t.Context(), Filter{Text: "again"}); err != nil || len(list) != 0 {
			t.Errorf("listed: %v, %v", list, err)
		}
		l = Launch{ID: "again", Argv: []string{"true"}}
		until(t, s, create(t, s, l).ID, "exited")
		wait(t, "two exit events", func() bool { return len(seen.of(EventExited, "again")) == 2 })
	})
}

func TestWaited(t *testing.T) {
	s, _ := open(t, Options{})
	l := shell("printf 'a\\rb\\n\\033[31mred\\033[0m\\n'; sleep 6013 & exit 4")
	l.WaitMS, l.GraceMS = patience.Milliseconds(), ptr(int64(100))
	st := create(t, s, l)
	if !st.Ended() || code(st) != "exit 4" || *st.Text != "b\nred\n" {
		t.Errorf("%s, %s, text %q", st.State, code(st), *st.Text)
	}
	ctx, leave := context.WithCancel(t.Context())
	l = shell("echo up; sleep 6014")
	l.ID, l.WaitMS, l.Disconnect = "left", patience.Milliseconds(), "stop"
	done := make(chan error, 1)
	go func() { _, err := s.Create(ctx, asSelf(l)); done <- err }()
	wait(t, "the run", func() bool { r, err := s.find("left"); return err == nil && r.ring.extent().Next == 3 })
	leave()
	<-done
	if st := until(t, s, "left", "exited"); st.Exit.Reason != ReasonManual {
		t.Errorf("reason %s", st.Exit.Reason)
	}
}

// A process of the user is taken in, and goes with the run.
func TestTake(t *testing.T) {
	s, _ := open(t, Options{})
	a := create(t, s, Launch{Argv: []string{"sleep", "6015"}})
	b := create(t, s, Launch{Argv: []string{"sleep", "6016"}})
	id, err := ParseID(*b.Root)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := s.Take(t.Context(), TakeRequest{a.ID, id.PID, id.StartTicks})
	if err != nil || taken.Process.Role != RoleRoot || taken.Process.Escaped {
		t.Fatalf("take: %+v, %v", taken, err)
	}
	if _, err := s.Take(t.Context(), TakeRequest{a.ID, id.PID, id.StartTicks - 1}); CodeOf(err) != CodeStale {
		t.Errorf("stale: %v", err)
	}
	if _, err := s.Take(t.Context(), TakeRequest{a.ID, 1, 0}); CodeOf(err) != CodeProtected {
		t.Errorf("init: %v", err)
	}
	if got := stop(t, s, a.ID, 1000); got.Stopped != 2 {
		t.Errorf("%d stopped, want 2", got.Stopped)
	}
	until(t, s, b.ID, "exited")
}

// A great output passes through a small ring; two readers at different places both read
// right bytes.
func TestGreatOutput(t *testing.T) {
	s, _ := open(t, Options{})
	size := long(int64(64<<20), 1<<30)
	l := shell(fmt.Sprintf("yes 0123456789abcde | head -c %d", size))
	l.MaxOutput = 64 << 10
	heap := func() int64 { // what is in use, without what other tests left
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	var grown atomic.Int64
	var half sync.Once
	id := create(t, s, l).ID
	var readers sync.WaitGroup
	for _, step := range []int{1000, 64 << 10} {
		readers.Go(func() {
			line := []byte("0123456789abcde\n")
			for at := int64(0); ; {
				o, err := s.Output(context.Background(), OutputQuery{ID: id, Since: at, Max: step, WaitMS: 10_000})
				if err != nil {
					t.Error(err)
					return
				}
				where := o.From
				for _, c := range o.Chunks {
					for i, b := range c.Data {
						if b != line[(where+int64(i))%16] {
							t.Errorf("byte %d is %q", where+int64(i), b)
							return
						}
					}
					where += int64(len(c.Data))
				}
				if at = o.Next; at > size/2 {
					half.Do(func() { grown.Store(heap() - before) })
				}
				if o.EOF {
					break
				}
			}
		})
	}
	readers.Wait()
	if st := until(t, s, id, "exited"); st.Output.Bytes != size || st.Output.Next-st.Output.First != 64<<10 {
		t.Errorf("output %+v", st.Output)
	}
	if n := grown.Load(); n > 16<<20 {
		t.Errorf("%d MiB of heap in the middle of it", n>>20)
	}
}

// Who belongs to which run is known without a scan where there are cgroups, with the
// start time of each.
func TestMemberships(t *testing.T) {
	ways(t, func(t *testing.T, s *Supervisor, _ *events) {
		st := create(t, s, shell("setsid sleep 6019 & exec sleep 6020"))
		create(t, s, shell("true"))
		want := func() []string {
			var ids []string
			for _, m := range members(t, s, st.ID) {
				ids = append(ids, m.ID)
			}
			slices.Sort(ids)
			return ids
		}
		for range 2 { // the second time from what is known
			wait(t, "both", func() bool {
				list, err := s.Memberships(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, m := range list {
					for _, id := range m.Members {
						if m.Run == st.ID {
							got = append(got, FormatID(id))
						}
					}
				}
				slices.Sort(got)
				return len(got) == 2 && slices.Equal(got, want())
			})
		}
		stop(t, s, st.ID, 1000)
		wait(t, "none", func() bool { list, err := s.Memberships(t.Context()); return err == nil && len(list) == 0 })
	})
}
