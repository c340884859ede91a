package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// runToEnd runs procinsh with a command line that must make it end by itself.
func runToEnd(t *testing.T, o options, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := command(o, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	timer := time.AfterFunc(30*time.Second, func() { cmd.Process.Kill() })
	err := cmd.Run()
	if !timer.Stop() {
		t.Fatalf("%q did not end", args)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func TestCommandLine(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	tests := []struct {
		args   string
		env    []string
		status int
		stdout string // begins
		stderr string // holds, in one line
	}{
		{"--version", nil, 0, "procinsh ", ""},
		{"--help", nil, 0, "procinsh shows", ""},
		{"--nonsense", nil, 2, "", "--nonsense"},
		{"frobnicate", nil, 2, "", "frobnicate"},
		{"serve --interval 1h", nil, 2, "", "--interval"},
		{"--listen 192.0.2.1:8080", []string{"RUNTIME_DIRECTORY=/proc/none"}, 1, "", "192.0.2.1:8080: cannot assign"},
		{"--tls-key k", nil, 2, "", "--tls-cert"},
		{"--allow-user no-such-user-here", nil, 2, "", "no-such-user-here"},
		{"--log everything", nil, 2, "", "everything"},
		{"", []string{"PROCINSH_LOG=everything"}, 2, "", "PROCINSH_LOG"},
		{"--listen " + taken.Addr().String(), nil, 1, "", taken.Addr().String() + ": address already in use"},
		{"--log off --listen " + taken.Addr().String(), nil, 1, "", "in use"},
		{"--listen unix:/proc/1/s", nil, 1, "", "/proc/1/s"},
	}
	for _, tt := range tests {
		status, out, errs := runToEnd(t, options{env: tt.env}, strings.Fields(tt.args)...)
		if status != tt.status || !strings.HasPrefix(out, tt.stdout) || (tt.stdout == "") != (out == "") {
			t.Errorf("%s: status %d, stdout %q", tt.args, status, out)
		}
		if lines := strings.Count(errs, "\n"); (tt.stderr != "") != (lines == 1) || !strings.Contains(errs, tt.stderr) {
			t.Errorf("%s: stderr %q, want one line with %q", tt.args, errs, tt.stderr)
		}
	}
	if os.Geteuid() == 0 {
		status, _, errs := runToEnd(t, options{uid: nobody}, "--listen", "unix:/root-only-"+fmt.Sprint(os.Getpid()))
		if status != 1 || !strings.Contains(errs, "permission denied") || strings.Count(errs, "\n") != 1 {
			t.Errorf("no permission: %d %q", status, errs)
		}
	}
}

func TestShutdown(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			within(t, 2*time.Second, func(t *testing.T) time.Duration { return shutDown(t, sig) })
		})
	}
}

// shutDown ends a server with open streams and returns how long that took.
func shutDown(t *testing.T, sig syscall.Signal) time.Duration {
	s := start(t, options{})
	pid, _ := sleeper(t)
	list, _ := s.open("/api/processes/stream")
	one, _ := s.open("/api/processes/events?" + identity(t, pid))
	list.must()
	one.must()
	idle, err := net.Dial("tcp", s.addr) // a connection that never asks anything
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	status, took := s.signal(sig)
	if status.ExitStatus() != 0 {
		t.Errorf("ended with %v, want 0", status)
	}
	for _, st := range []*stream{list, one} {
		for {
			if _, err := st.next(); err != nil {
				break // its end
			}
		}
	}
	if log := s.stderr.String(); !strings.Contains(log, "msg=stopping signal="+`"`+sig.String()+`"`) && !strings.Contains(log, "msg=stopping signal="+sig.String()) {
		t.Errorf("the log does not name the signal:\n%s", log)
	}
	if !strings.HasSuffix(s.stderr.String(), "msg=stopped\n") {
		t.Error("the last line is not that it stopped")
	}
	return took
}

// A second signal does not wait for the answers under way.
func TestSecondSignal(t *testing.T) {
	within(t, 500*time.Millisecond, func(t *testing.T) time.Duration {
		s := start(t, options{})
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET /api/config HTTP/1.1\r\nHost: ") // half a request
		time.Sleep(100 * time.Millisecond)
		if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the first signal to be seen", func() bool { return strings.Contains(s.stderr.String(), "msg=stopping") })
		status, took := s.signal(syscall.SIGTERM)
		if took < 500*time.Millisecond && (!status.Signaled() || status.Signal() != syscall.SIGTERM) {
			t.Errorf("ended with %v after the second signal", status)
		}
		return took
	})
}

var logLine = regexp.MustCompile(`^time=\S+ level=(DEBUG|INFO|WARN|ERROR) source=([a-z]+/)?[a-z]+\.go:\d+ msg=`)

// use makes a server do a bit of everything, with secrets where none may be
// logged.
func use(t *testing.T, s *server) {
	t.Helper()
	pid, end := sleeper(t)
	id := identity(t, pid)
	secret := []string{"Authorization", "Bearer s3cret", "Cookie", "procinsh_token=s3cret"}
	for _, path := range []string{
		"/?token=s3cret", "/api/config?token=s3cret", "/api/processes/environment?" + id, "/api/processes/memory?s3cret=1&" + id + "&address=s3cret",
		"/api/processes/maps?" + id, "/nothing?s3cret", "/%zz?s3cret",
	} {
		if _, err := s.try("GET", path, secret...); err != nil && !strings.Contains(err.Error(), "invalid URL escape") {
			t.Fatal(err)
		}
	}
	one, _ := s.open("/api/processes/events?token=s3cret&" + id)
	one.must()
	list, _ := s.open("/api/processes/stream")
	list.must()
	list.must()
	list.close()
	end()
	for {
		if _, err := one.next(); err != nil {
			break
		}
	}
}

func TestLogDefault(t *testing.T) {
	s := start(t, options{})
	use(t, s)
	waitFor(t, "the observation to stop", func() bool { return strings.Contains(s.stderr.String(), `msg="observation stopped"`) })
	s.signal(syscall.SIGTERM)
	log := s.stderr.String()
	for _, want := range []string{
		"msg=started", s.addr, `msg="observation started" pid=`, `msg="target exited" pid=`, `msg="observation stopped" pid=`,
		`msg="list observation started"`, `msg="list observation stopped"`, "msg=stopping", "msg=stopped",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s", want)
		}
	}
	checkLog(t, s)
	for line := range strings.Lines(log) {
		if !strings.Contains(line, "level=INFO") && !strings.Contains(line, "the pages are missing") {
			t.Errorf("a line that is not info: %s", line)
		}
	}
}

func TestLogDebug(t *testing.T) {
	for _, o := range []options{
		{args: []string{"--log", "debug"}},
		{env: []string{"PROCINSH_LOG=warn,api=debug"}, quiet: true},
	} {
		s := start(t, o)
		use(t, s)
		s.signal(syscall.SIGTERM)
		log := s.stderr.String()
		for _, want := range []string{
			`level=DEBUG source=api/api\.go:\d+ msg=request method=GET path=/api/processes/environment status=200 wait_ms=[\d.]+\n`,
			`path=/api/processes/memory status=400 wait_ms=[\d.]+ error="invalid_address: `,
			`path=/api/processes/stream status=200`,
			`level=DEBUG source=api/stream\.go:\d+ msg=event stream=\d+ path=/api/processes/stream event=processes\n`,
			`msg=event pid=\d+ start_time_ticks=\d+ stream=\d+ path=/api/processes/events event=observation\n`,
		} {
			if !regexp.MustCompile(want).MatchString(log) {
				t.Errorf("the log lacks %s", want)
			}
		}
		if hasInfo := strings.Contains(log, "level=INFO source=serve.go"); hasInfo == o.quiet {
			t.Errorf("there are info lines of main: %v", hasInfo)
		}
		checkLog(t, s)
	}
}

func TestLogOff(t *testing.T) {
	s := start(t, options{args: []string{"--log", "off", "--no-auth"}, quiet: true})
	use(t, s)
	s.signal(syscall.SIGTERM)
	if s.stdout.String() != "" || s.stderr.String() != "" {
		t.Errorf("stdout %q, stderr %q", &s.stdout, &s.stderr)
	}
}

// checkLog holds what is true at every level.
func checkLog(t *testing.T, s *server) {
	t.Helper()
	if out := s.stdout.String(); out != "" {
		t.Errorf("something is on stdout: %q", out)
	}
	for line := range strings.Lines(s.stderr.String()) {
		if !logLine.MatchString(line) {
			t.Errorf("a line of another form: %q", line)
		}
		if strings.Contains(line, "s3cret") || strings.Contains(line, "?") || strings.Contains(line, "Bearer") {
			t.Errorf("a line with a secret or a query: %q", line)
		}
	}
}

// A failure that goes on is one line, and the server works again after it.
func TestRepeatedFailureIsOneLine(t *testing.T) {
	s := start(t, options{shell: "ulimit -n 40"})
	var held []net.Conn
	for range 60 {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	waitFor(t, "a warning", func() bool { return strings.Contains(s.stderr.String(), "too many open files") })
	time.Sleep(2500 * time.Millisecond) // it retries once a second at most
	if n := strings.Count(s.stderr.String(), "too many open files"); n != 1 {
		t.Errorf("%d lines for one failure that goes on:\n%s", n, &s.stderr)
	}
	for _, c := range held {
		c.Close()
	}
	waitFor(t, "the server to work again", func() bool { return s.get("/api/config").status == 200 })
}

func TestStreamLimit(t *testing.T) {
	s := start(t, options{})
	pid, _ := sleeper(t)
	for _, path := range []string{"/api/processes/stream", "/api/processes/events?" + identity(t, pid)} {
		var open []*stream
		for i := range 32 {
			st, a := s.open(path)
			if st == nil {
				t.Fatalf("%s: stream %d gets %v", path, i+1, a)
			}
			open = append(open, st)
		}
		if st, a := s.open(path); st != nil || a.status != 429 || a.code(t) != "too_many_streams" || a.header.Get("Retry-After") == "" {
			t.Fatalf("%s: the 33rd gets %v", path, a)
		}
		// A HEAD takes no slot, nor gives one.
		if a := s.do("HEAD", path); a.status != 405 {
			t.Errorf("HEAD: %v", a)
		}
		for _, st := range open { // some read, some never
			if st != open[0] {
				st.close()
			}
		}
		open[0].must()
		waitFor(t, "the slots to be free", func() bool {
			st, _ := s.open(path)
			if st != nil {
				st.close()
			}
			return st != nil
		})
		var again []*stream
		waitFor(t, "31 slots", func() bool {
			for len(again) < 31 {
				st, _ := s.open(path)
				if st == nil {
					return false
				}
				again = append(again, st)
			}
			return true
		})
		for _, st := range append(again, open[0]) {
			st.close()
		}
	}
}
