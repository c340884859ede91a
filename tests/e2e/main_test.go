package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// nobody is a user without any right on this machine.
const nobody = 65534

var (
	binary string // the built procinsh
	self   string // a copy of this test that every user may run
)

func TestMain(m *testing.M) {
	if mode := os.Getenv("E2E_MODE"); mode != "" {
		os.Exit(child(mode))
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "procinsh-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if err := prepare(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

func prepare(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	binary, self = filepath.Join(dir, "procinsh"), filepath.Join(dir, "self")
	build := exec.Command("go", "build", "-trimpath", "-o", binary, "procinsh")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	return os.WriteFile(self, exe, 0o755)
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: becomes other users")
	}
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

// server is a running procinsh.
type server struct {
	t              *testing.T
	url, addr      string
	cmd            *exec.Cmd
	stdout, stderr text
	ended          chan struct{}
}

type options struct {
	args   []string
	env    []string
	uid    uint32  // 0: the test's own
	listen string  // "127.0.0.1:0"
	shell  string  // a command before exec of the binary
	flags  uintptr // namespaces of its own, CLONE_NEW…
	quiet  bool    // the log does not tell the address
}

var started = regexp.MustCompile(`msg=started .*listen="?(?:http://([^/ ]+)/|unix:(\S+))`)

// command is procinsh with its output collected.
func command(o options, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	if o.shell != "" {
		cmd = exec.Command("/bin/sh", append([]string{"-c", o.shell + "; exec \"$0\" \"$@\"", binary}, args...)...)
	}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.Env = append(cmd.Env, o.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Unshareflags: o.flags}
	if o.uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: o.uid, Gid: o.uid}
	}
	cmd.Dir = "/"
	return cmd
}

// start runs procinsh until the test ends and waits until it listens.
func start(t *testing.T, o options) *server {
	t.Helper()
	if o.listen == "" {
		o.listen = "127.0.0.1:0"
	}
	if o.quiet {
		o.listen = freeAddress(t)
	}
	s := &server{t: t, ended: make(chan struct{})}
	s.cmd = command(o, append([]string{"serve", "--listen", o.listen}, o.args...)...)
	s.cmd.Stdout, s.cmd.Stderr = &s.stdout, &s.stderr
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.cmd.Wait()
		close(s.ended)
	}()
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		<-s.ended
		if t.Failed() {
			t.Logf("log of the server:\n%s", tail(s.stderr.String(), 4000))
		}
	})
	waitFor(t, "the server to listen", func() bool {
		select {
		case <-s.ended:
			t.Fatalf("the server ended: %s%s", &s.stdout, &s.stderr)
		default:
		}
		if o.quiet {
			c, err := net.Dial("tcp", o.listen)
			if err == nil {
				c.Close()
				s.addr = o.listen
			}
			return err == nil
		}
		m := started.FindStringSubmatch(s.stderr.String())
		if m == nil {
			return false
		}
		s.addr = m[1] + m[2]
		return true
	})
	s.url = "http://" + s.addr
	return s
}

func tail(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(15 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited 15 s for %s", what)
		}
	}
}

// within tries what has a time limit of its own up to four times: a machine that is
// busy with other things misses a limit by accident, a server that is too slow misses
// it every time.
func within(t *testing.T, limit time.Duration, try func(t *testing.T) time.Duration) {
	t.Helper()
	var took []time.Duration
	for range 4 {
		took = append(took, try(t))
		if took[len(took)-1] <= limit {
			return
		}
	}
	t.Errorf("took %v, want %v at most", took, limit)
}

// signal sends a signal and returns how the server ended and after how long.
func (s *server) signal(sig syscall.Signal) (syscall.WaitStatus, time.Duration) {
	s.t.Helper()
	began := time.Now()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
	return s.wait(began)
}

func (s *server) wait(began time.Time) (syscall.WaitStatus, time.Duration) {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(10 * time.Second):
		s.t.Fatal("the server did not end within 10 s")
	}
	return s.cmd.ProcessState.Sys().(syscall.WaitStatus), time.Since(began)
}

// answer is a whole answer.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, tail(string(a.body), 300)) }

func (a answer) code(t *testing.T) string {
	t.Helper()
	var e struct{ Error, Code string }
	if err := json.Unmarshal(a.body, &e); err != nil || e.Error == "" || e.Code == "" {
		t.Fatalf("no error body: %v", a)
	}
	return e.Code
}

func (a answer) decode(t *testing.T, into any) {
	t.Helper()
	if a.status != 200 {
		t.Fatalf("got %v", a)
	}
	dec := json.NewDecoder(bytes.NewReader(a.body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		t.Fatalf("%v in %v", err, a)
	}
}

var client = &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}

// try makes one request; headers are pairs.
func (s *server) try(method, path string, headers ...string) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, nil)
	if err != nil {
		return answer{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	res, err := client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, body}, err
}

func (s *server) do(method, path string, headers ...string) answer {
	s.t.Helper()
	a, err := s.try(method, path, headers...)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

func (s *server) get(path string, headers ...string) answer {
	s.t.Helper()
	return s.do("GET", path, headers...)
}

// event is one event of a stream.
type event struct{ name, data string }

// stream is an open event stream.
type stream struct {
	t      *testing.T
	header http.Header
	cancel context.CancelFunc
	body   io.ReadCloser
	in     *bufio.Reader
}

func (s *server) open(path string) (*stream, answer) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "GET", s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	if res.StatusCode != 200 {
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		cancel()
		return nil, answer{res.StatusCode, res.Header, body}
	}
	st := &stream{s.t, res.Header, cancel, res.Body, bufio.NewReaderSize(res.Body, 1<<16)}
	s.t.Cleanup(st.close)
	return st, answer{res.StatusCode, res.Header, nil}
}

func (st *stream) close() {
	st.cancel()
	st.body.Close()
}

// next returns the next event; at the end of the stream an error.
func (st *stream) next() (event, error) {
	var e event
	for {
		line, err := st.in.ReadString('\n')
		if err != nil {
			return event{}, err
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" && e.name != "":
			return e, nil
		case strings.HasPrefix(line, "event: "):
			e.name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			e.data = line[len("data: "):]
		case line == "", strings.HasPrefix(line, ":"):
		default:
			st.t.Fatalf("a line is neither event, data nor comment: %.100q", line)
		}
	}
}

func (st *stream) must() event {
	st.t.Helper()
	e, err := st.next()
	if err != nil {
		st.t.Fatal(err)
	}
	return e
}

// ticks returns the start time of a process.
func ticks(pid int) (uint64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	return strconv.ParseUint(fields[19], 10, 64)
}

func identity(t *testing.T, pid int) string {
	t.Helper()
	start, err := ticks(pid)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("pid=%d&start_time_ticks=%d", pid, start)
}

// sleeper starts a process that does nothing; end kills and reaps it.
func sleeper(t *testing.T) (pid int, end func()) {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "300")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	t.Cleanup(end)
	return cmd.Process.Pid, end
}
