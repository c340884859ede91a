package runs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"procinsh/api"
	"procinsh/run"
)

const (
	nobody   = 65534 // a user without any right on this machine
	patience = 60 * time.Second
)

var binary string // the built procinsh

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "procinsh-runs-")
		if err == nil {
			defer os.RemoveAll(dir)
			err = os.Chmod(dir, 0o755)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		binary = filepath.Join(dir, "procinsh")
		build := exec.Command("go", "build", "-trimpath", "-o", binary, "procinsh")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// text collects what a process writes.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

type server struct {
	t   *testing.T
	url string
	log text
	cmd *exec.Cmd
}

var started = regexp.MustCompile(`msg=started .*listen=(http://[^/ ]+)/`)

// start starts a server as a user; when the test ends it, its helper and every cgroup of
// it have to be gone.
func start(t *testing.T, uid uint32, args ...string) *server {
	t.Helper()
	attr := &syscall.SysProcAttr{}
	if uid != 0 {
		attr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	}
	return startWith(t, attr, args...)
}

func startWith(t *testing.T, attr *syscall.SysProcAttr, args ...string) *server {
	t.Helper()
	s := &server{t: t}
	s.cmd = exec.Command(binary, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	s.cmd.Stderr = &s.log
	s.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "XDG_RUNTIME_DIR=" + os.Getenv("XDG_RUNTIME_DIR")}
	s.cmd.SysProcAttr = attr
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- s.cmd.Wait() }()
	t.Cleanup(func() {
		var c api.RunCapabilities
		s.do("GET", "/api/runs/capabilities", nil, &c)
		s.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-over:
			if err != nil {
				t.Errorf("server ended with %v\n%s", err, s.log.String())
			}
		case <-time.After(patience):
			s.cmd.Process.Kill()
			t.Error("the server does not end")
		}
		ended(t, c)
		if c.CgroupRoot != nil {
			if _, err := os.Stat(*c.CgroupRoot); err == nil {
				t.Errorf("%s is left", *c.CgroupRoot)
			}
		}
	})
	wait(t, "the server", func() bool {
		m := started.FindStringSubmatch(s.log.String())
		if m != nil {
			s.url = m[1]
		}
		return m != nil
	})
	return s
}

// ended waits for the end of a server's helper and keeper.
func ended(t *testing.T, c api.RunCapabilities) {
	t.Helper()
	if c.HelperPID != 0 {
		wait(t, "the helper to end", func() bool { return gone(c.HelperPID) })
	}
	if c.KeeperPID != nil {
		wait(t, "the keeper to end", func() bool { return gone(*c.KeeperPID) })
	}
}

// gone tells whether a process has ended; who inherits it may take a while to reap it.
func gone(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.Contains(b, []byte(") Z "))
}

func wait(t *testing.T, what string, ready func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ready(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// do sends a request and returns the status and the code of an error.
func (s *server) do(method, path string, body, into any) (int, string) {
	s.t.Helper()
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			s.t.Fatal(err)
		}
		in = bytes.NewReader(b)
	}
	q, err := http.NewRequest(method, s.url+path, in)
	if err != nil {
		s.t.Fatal(err)
	}
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	var e api.ErrorAnswer
	if a.StatusCode >= 400 {
		json.Unmarshal(b, &e) // no code: the test says what it got
	} else if into != nil {
		if err := json.Unmarshal(b, into); err != nil {
			s.t.Fatalf("%s %s: %v in %.200s", method, path, err, b)
		}
	}
	return a.StatusCode, e.Code
}

func ptr[T any](v T) *T { return &v }

func (s *server) create(q api.RunRequest) api.Run {
	s.t.Helper()
	var r api.Run
	if status, code := s.do("POST", "/api/runs", q, &r); status >= 400 {
		s.t.Fatalf("create: %d %s", status, code)
	}
	return r
}

func (s *server) get(id, query string) api.Run {
	s.t.Helper()
	var r api.Run
	if status, code := s.do("GET", "/api/runs/"+id+query, nil, &r); status != 200 {
		s.t.Fatalf("run %s: %d %s", id, status, code)
	}
	return r
}

// Without --runs there is no helper and every route is refused.
func TestOffByDefault(t *testing.T) {
	s := start(t, 0)
	for _, c := range [][2]string{{"GET", "/api/runs"}, {"POST", "/api/runs"}, {"GET", "/api/runs/x/output"}, {"GET", "/api/runs/events"}, {"POST", "/api/scopes/x/stop"}} {
		if status, code := s.do(c[0], c[1], nil, nil); status != 403 || code != "runs_disabled" {
			t.Errorf("%s %s: %d %s", c[0], c[1], status, code)
		}
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", s.cmd.Process.Pid))
	if err != nil || len(children) > 0 {
		t.Errorf("the server has children %q, %v", children, err)
	}
}

// A request of another origin, host or user launches nothing.
func TestGuard(t *testing.T) {
	s := start(t, 0, "--runs")
	for name, header := range map[string][2]string{"origin": {"Origin", "http://evil.example"}, "site": {"Sec-Fetch-Site", "cross-site"}, "host": {"Host", "evil.example"}} {
		q, err := http.NewRequest("POST", s.url+"/api/runs", strings.NewReader(`{"argv":["true"]}`))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set(header[0], header[1])
		if header[0] == "Host" {
			q.Host = header[1]
		}
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != 403 {
			t.Errorf("%s: %d", name, a.StatusCode)
		}
	}
	if os.Geteuid() == 0 {
		cmd := exec.Command(binary, "run", "--server", s.url, "--", "true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 125 {
			t.Errorf("another user: %v, %s", err, out)
		}
	}
	var runs []api.Run
	if s.do("GET", "/api/runs", nil, &runs); len(runs) != 0 {
		t.Errorf("launched: %+v", runs)
	}
}

func TestAPI(t *testing.T) {
	s := start(t, 0, "--runs")
	r := s.create(api.RunRequest{ID: "one", Command: ptr("echo out; echo err >&2; (setsid sleep 6101 &); exit 3"), WaitMS: 60_000, Leftovers: "keep", Scope: "group"})
	if r.State != "draining" || r.Exit == nil || r.Exit.Code == nil || *r.Exit.Code != 3 || r.Text == nil || !strings.Contains(*r.Text, "out\n") {
		t.Fatalf("got %+v", r)
	}
	var out api.RunOutput
	s.do("GET", "/api/runs/one/output?stream=stderr", nil, &out)
	if len(out.Chunks) != 1 || out.Chunks[0].Text != "err\n" || out.Next != 8 {
		t.Errorf("output %+v", out)
	}
	var log api.RunLog
	if s.do("GET", "/api/runs/one/log", nil, &log); log.TotalLines != 2 {
		t.Errorf("log %+v", log)
	}
	var list api.RunProcesses
	s.do("GET", "/api/runs/one/processes?view=left", nil, &list)
	if len(list.Processes) != 1 || list.Processes[0].Role != "orphan" || list.Counts.Left != 1 {
		t.Fatalf("processes %+v", list)
	}
	var scope api.Scope
	if s.do("GET", "/api/scopes/group", nil, &scope); !slices.Equal(scope.Runs, []string{"one"}) || len(scope.Members.Processes) != 1 {
		t.Errorf("scope %+v", scope)
	}
	s.create(api.RunRequest{ID: "deaf", Command: ptr("trap '' TERM; echo up; while :; do sleep 0.1; done")})
	wait(t, "the trap", func() bool { return s.get("deaf", "").Output.Bytes > 0 })
	for _, want := range []int{202, 200} {
		b := api.RunStopRequest{GraceMS: ptr(int64(0))}
		if want == 202 {
			b = api.RunStopRequest{GraceMS: ptr(int64(60_000)), WaitMS: ptr(int64(100))}
		}
		var st api.RunStopped
		if status, code := s.do("POST", "/api/runs/deaf/stop", b, &st); status != want || st.Pending != (want == 202) {
			t.Errorf("stop: %d %s, %+v, want %d", status, code, st, want)
		}
	}
	for _, c := range []struct {
		method, path string
		body         any
		status       int
		code         string
	}{
		{"POST", "/api/runs", api.RunRequest{ID: "one", Argv: []string{"true"}}, 409, "run_exists"},
		{"POST", "/api/runs", api.RunRequest{ID: "b d", Argv: []string{"true"}}, 400, "invalid_run_id"},
		{"POST", "/api/runs", api.RunRequest{}, 422, "bad_request"},
		{"POST", "/api/runs", map[string]any{"argv": 5}, 422, "bad_request"},
		{"POST", "/api/runs", api.RunRequest{Argv: []string{"no-such-command"}}, 422, "spawn_failed"},
		{"POST", "/api/runs", api.RunRequest{Argv: []string{"true"}, Cwd: "/no/such"}, 404, "directory_not_found"},
		{"POST", "/api/runs", api.RunRequest{Argv: []string{"true"}, Cwd: "@x"}, 400, "unknown_root"},
		{"GET", "/api/runs/one?wait_ms=x", nil, 400, "invalid_wait_ms"},
		{"POST", "/api/runs/one/input", api.RunInput{Text: ptr("x")}, 409, "stdin_closed"},
		{"POST", "/api/runs/one/resize", api.TerminalSize{Columns: 1, Rows: 1}, 409, "no_terminal"},
		{"POST", "/api/runs/one/processes/1-1/stop", nil, 403, "protected_process"},
		{"POST", "/api/runs/one/processes/x/stop", nil, 400, "invalid_process"},
		{"DELETE", "/api/runs/one", nil, 409, "run_active"},
		{"GET", "/api/scopes/none", nil, 404, "run_not_found"},
		{"PUT", "/api/runs", nil, 405, "method_not_allowed"},
		{"POST", "/api/runs/one/processes/" + list.Processes[0].ID + "/stop", nil, 200, ""},
		{"POST", "/api/scopes/group/stop", api.RunStopRequest{WaitMS: ptr(int64(120_001))}, 422, "bad_request"},
		{"POST", "/api/runs/one/stop", nil, 200, ""},
		{"POST", "/api/runs/one/stop", api.RunStopRequest{GraceMS: ptr(int64(-1))}, 422, "bad_request"},
		{"DELETE", "/api/runs/one", nil, 204, ""},
		{"DELETE", "/api/runs", nil, 200, ""},
		{"GET", "/api/runs/none", nil, 404, "run_not_found"},
	} {
		if status, code := s.do(c.method, c.path, c.body, nil); status != c.status || code != c.code {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, status, code, c.status, c.code)
		}
	}
}

// What is unknown is not waited for.
func TestUnknownAtOnce(t *testing.T) {
	s := start(t, 0, "--runs")
	client := http.Client{Timeout: 30 * time.Second} // a quarter of what is asked for
	for _, path := range []string{"?wait_ms=120000", "?wait_ms=120000&until=output"} {
		a, err := client.Get(s.url + "/api/runs/none" + path)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != 404 {
			t.Errorf("%s: %d", path, a.StatusCode)
		}
	}
}

// The list, the structure of the host and the context of a process name the run that it
// belongs to, and nobody else's.
func TestRunID(t *testing.T) {
	s := start(t, 0, "--runs")
	s.create(api.RunRequest{ID: "known", Command: ptr("setsid sleep 6115 & exec sleep 6116")})
	wait(t, "both in the list", func() bool {
		var rows []api.ProcessSummary
		s.do("GET", "/api/processes", nil, &rows)
		n := 0
		for _, r := range rows {
			of := r.RunID != nil && *r.RunID == "known"
			if ours := slices.ContainsFunc(r.CommandLine, func(a string) bool { return a == "6115" || a == "6116" }) && r.Name == "sleep"; ours && of {
				n++
			} else if r.RunID != nil && r.Name != "sh" && r.Name != "setsid" {
				t.Fatalf("%s %q belongs to %s", r.Name, r.CommandLine, *r.RunID)
			}
		}
		return n == 2
	})
	r := s.get("known", "")
	id, err := run.ParseID(*r.Root)
	if err != nil {
		t.Fatal(err)
	}
	query := fmt.Sprintf("?pid=%d&start_time_ticks=%d", id.PID, id.StartTicks)
	var c api.ContextAnswer
	if s.do("GET", "/api/processes/context"+query, nil, &c); c.RunID == nil || *c.RunID != "known" {
		t.Errorf("context: %v", c.RunID)
	}
	for _, path := range []string{"/api/processes/events" + query, "/api/system/events?maps=summary"} {
		a, err := http.Get(s.url + path)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(a.Body)
		wait(t, "the run in "+path, func() bool {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			return strings.Contains(line, `"run_id":"known"`)
		})
		a.Body.Close()
	}
	var st api.RunStopped
	s.do("POST", "/api/runs/known/stop", nil, &st)
	wait(t, "nobody in the list", func() bool {
		var rows []api.ProcessSummary
		s.do("GET", "/api/processes", nil, &rows)
		return !slices.ContainsFunc(rows, func(r api.ProcessSummary) bool { return r.RunID != nil })
	})
}

// A client that comes back gets what it missed.
func TestEventsReplay(t *testing.T) {
	s := start(t, 0, "--runs")
	events := func(query, last string, want int) (ids []string, kinds []string) {
		q, err := http.NewRequest("GET", s.url+"/api/runs/events"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		if last != "" {
			q.Header.Set("Last-Event-ID", last)
		}
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		lines := bufio.NewScanner(a.Body)
		for len(kinds) < want && lines.Scan() {
			if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				ids = append(ids, id)
			}
			if kind, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				kinds = append(kinds, kind)
			}
		}
		return ids, kinds
	}
	for range 2 {
		s.create(api.RunRequest{Argv: []string{"true"}, WaitMS: 60_000})
	}
	ids, kinds := events("", "0", 4)
	if !slices.Equal(ids, []string{"1", "2", "3", "4"}) || !slices.Equal(kinds, []string{"run.started", "run.exited", "run.started", "run.exited"}) {
		t.Errorf("got %v %v", ids, kinds)
	}
	for query, last := range map[string]string{"": "3", "?last_event_id=3": "", "?last_event_id=1": "3"} { // the header is the newer one
		if ids, _ := events(query, last, 1); !slices.Equal(ids, []string{"4"}) {
			t.Errorf("after 3 (%s): %v", query, ids)
		}
	}
}

// procinsh run ends as its command does.
func TestCommand(t *testing.T) {
	s := start(t, 0, "--runs")
	for _, server := range []string{"", s.url} {
		for _, c := range []struct {
			args  []string
			stdin string
			code  int
			out   string
		}{
			{[]string{"-c", "echo hi; exit 3"}, "", 3, "hi\n"},
			{[]string{"--timeout", "1s", "--", "sleep", "60"}, "", 124, ""},
			{[]string{"--silence", "500ms", "--", "sleep", "60"}, "", 124, ""},
			{[]string{"-c", "kill -9 $$"}, "", 137, ""},
			{[]string{"--", "no-such-command"}, "", 127, ""},
			{[]string{"--", "/etc/passwd"}, "", 126, ""},
			{[]string{"--no-such-option"}, "", 125, ""},
			{[]string{"--stdin", "--", "cat"}, "typed\n", 0, "typed\n"},
			{[]string{"--pty", "--", "sh", "-c", "test -t 1 && printf yes"}, "", 0, "yes"},
			{[]string{"--env", "A=b c", "--cwd", "/tmp", "-c", `echo "$A $PWD"`}, "", 0, "b c /tmp\n"},
			{[]string{"-c", "(setsid sleep 6104 &); exit 0"}, "", 0, ""},
		} {
			cmd := exec.Command(binary, append([]string{"run"}, c.args...)...)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "PROCINSH_SERVER=" + server}
			cmd.Stdin = strings.NewReader(c.stdin)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if cmd.ProcessState.ExitCode() != c.code || string(out) != c.out {
				t.Errorf("server %q, %q: %v, %q, %s, want %d, %q", server, c.args, err, out, stderr.String(), c.code, c.out)
			}
		}
	}
}

// The first Ctrl-C ends the command with grace.
func TestInterrupt(t *testing.T) {
	cmd := exec.Command(binary, "run", "-c", `trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done`)
	var out text
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wait(t, "the command", func() bool { return strings.Contains(out.String(), "up") })
	cmd.Process.Signal(os.Interrupt)
	cmd.Wait()
	if cmd.ProcessState.ExitCode() != 7 || out.String() != "up\nbye\n" {
		t.Errorf("ended with %d after %q", cmd.ProcessState.ExitCode(), out.String())
	}
}

// procinsh runs shows and changes what the server has.
func TestRunsCommand(t *testing.T) {
	s := start(t, 0, "--runs")
	call := func(args ...string) (string, int) {
		cmd := exec.Command(binary, append([]string{"runs", "--server", s.url}, args...)...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	detached := exec.Command(binary, "run", "--server", s.url, "--detach", "--name", "cat", "--pty", "--", "cat")
	if out, err := detached.Output(); err != nil || string(out) != "cat\n" {
		t.Fatalf("detach: %q, %v", out, err)
	}
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{nil, "cat", 0}, {[]string{"ls"}, "running", 0}, {[]string{"show", "cat"}, `"state": "running"`, 0}, {[]string{"ps", "cat"}, "root", 0},
		{[]string{"write", "cat", "-hello"}, `"written": 6`, 0}, {[]string{"submit", "cat"}, `"written": 1`, 0}, {[]string{"keys", "cat", "a", "C-d", "enter", "C-d"}, `"written": 4`, 0},
		{[]string{"wait", "cat"}, "", 0}, {[]string{"logs", "cat"}, "-hello\n-hello\n", 0}, {[]string{"poll", "cat", "0"}, "next: ", 0}, {[]string{"stop", "cat"}, `"stopped": 0`, 0},
		{[]string{"--json", "doctor"}, `"birth"`, 0}, {[]string{"doctor"}, "containment", 0}, {[]string{"rm", "cat"}, "", 0}, {[]string{"show", "cat"}, "no run", 1},
		{[]string{"clear"}, `"removed": 0`, 0}, {[]string{"nonsense"}, "--help", 2}, {[]string{"show"}, "--help", 2}, {[]string{"--help"}, "Usage", 0},
	} {
		if len(c.args) > 0 && c.args[0] == "keys" { // the terminal echoes them as soon as they come
			wait(t, "the line", func() bool { out, _ := call("logs", "cat"); return strings.Contains(out, "-hello\n-hello\n") })
		}
		if out, code := call(c.args...); !strings.Contains(out, c.want) || code != c.code {
			t.Errorf("%q: %d, %q, want %d, %q", c.args, code, out, c.code, c.want)
		}
	}
}

// Without the right to make a cgroup everything works by marks, and says why.
func TestUnprivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: becomes another user")
	}
	s := start(t, nobody, "--runs")
	cmd := exec.Command(binary, "run", "--server", s.url, "--name", "plain", "--leftovers", "keep", "-c", "echo hi; (setsid sleep 6105 &); sleep 0.1; id -u")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "hi\n65534\n" {
		t.Fatalf("got %q, %v", out, err)
	}
	runs := func(args ...string) string {
		cmd := exec.Command(binary, append([]string{"runs", "--server", s.url}, args...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v, %s", args, err, out)
		}
		return string(out)
	}
	if out := runs("doctor"); !strings.Contains(out, "best_effort") || !strings.Contains(out, "reason") {
		t.Errorf("doctor: %s", out)
	}
	if out := runs("show", "plain"); !strings.Contains(out, `"confidence": "best_effort"`) || !strings.Contains(out, `"members": 1`) {
		t.Errorf("show: %s", out)
	}
	if out := runs("stop", "plain"); !strings.Contains(out, `"stopped": 1`) {
		t.Errorf("stop: %s", out)
	}
}

// The server ends, or is killed: so do its runs, the helper and the keeper, unless the
// runs are to be kept.
func TestServerEnds(t *testing.T) {
	for _, c := range []struct {
		sig  syscall.Signal
		keep bool
	}{{syscall.SIGTERM, false}, {syscall.SIGTERM, true}, {syscall.SIGKILL, false}, {syscall.SIGKILL, true}} {
		t.Run(fmt.Sprintf("%v, keep %v", c.sig, c.keep), func(t *testing.T) {
			if c.keep {
				other := start(t, 0, "--runs")
				id := ends(t, c.sig, "--runs", "--keep-runs")
				r := other.get(id, "")
				if !r.Adopted {
					t.Errorf("got %+v", r)
				}
				if status, code := other.do("POST", "/api/runs/"+id+"/stop", nil, nil); status != 200 {
					t.Errorf("stop: %d %s", status, code)
				}
				return
			}
			id := ends(t, c.sig, "--runs")
			other := start(t, 0, "--runs")
			if status, _ := other.do("GET", "/api/runs/"+id, nil, nil); status != 404 {
				t.Errorf("still there: %d", status)
			}
		})
	}
}

// ends starts a server with a run, ends the server with a signal, waits for its helper and
// keeper and returns the run's id. With SIGSTOP it is the helper that is stopped before.
func ends(t *testing.T, sig syscall.Signal, args ...string) string {
	id := fmt.Sprintf("end-%d", time.Now().UnixNano())
	cmd := exec.Command(binary, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	s := &server{t: t, cmd: cmd}
	cmd.Stderr = &s.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wait(t, "the server", func() bool { return started.MatchString(s.log.String()) })
	s.url = started.FindStringSubmatch(s.log.String())[1]
	s.create(api.RunRequest{ID: id, Argv: []string{"sleep", "6106"}})
	c := s.capabilities()
	if sig == syscall.SIGSTOP {
		syscall.Kill(c.HelperPID, sig)
		sig = syscall.SIGTERM
	}
	cmd.Process.Signal(sig)
	if err := cmd.Wait(); err != nil && sig == syscall.SIGTERM {
		t.Errorf("server ended with %v", err)
	}
	ended(t, c)
	return id
}
