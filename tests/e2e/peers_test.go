package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func hasIPv6() bool {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// Another user of this machine is let in by name only, whatever loopback address
// he takes and however often he uses one connection.
func TestPeers(t *testing.T) {
	needRoot(t)
	tests := []struct {
		name string
		o    options
		want string
	}{
		{"nobody is let in", options{}, "403"},
		{"by name", options{args: []string{"--allow-user", "nobody"}}, "200"},
		{"by number", options{args: []string{"--allow-user", fmt.Sprint(nobody)}}, "200"},
		{"who ran sudo", options{env: []string{fmt.Sprintf("SUDO_UID=%d", nobody)}}, "200"},
		{"no authentication", options{args: []string{"--no-auth"}}, "200"},
		{"the server's own user", options{uid: nobody}, "200"},
		{"another is allowed", options{args: []string{"--allow-user", "1"}}, "403"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hosts := []string{"127.0.0.1", "localhost"}
			tt.o.listen = "127.0.0.1:0"
			if hasIPv6() {
				tt.o.listen = "localhost:0"
				hosts = append(hosts, "[::1]")
			}
			s := start(t, tt.o)
			_, port, err := net.SplitHostPort(s.addr)
			if err != nil {
				t.Fatal(err)
			}
			for _, host := range hosts {
				url := "http://" + host + ":" + port
				got := as(t, nobody, "get", url+"/api/config", url+"/api/processes", url+"/api/processes/stream/x", url+"/healthz")
				want := []string{tt.want, tt.want, "404", "200"}
				if tt.want == "403" {
					want[2] = "403"
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s: got %v, want %v", host, got, want)
				}
			}
			if a := s.get("/api/config"); a.status != 200 {
				t.Errorf("root: %v", a)
			}
			warned := strings.Contains(s.stderr.String(), "level=WARN")
			if noAuth := slices.Contains(tt.o.args, "--no-auth"); warned != noAuth {
				t.Errorf("warned at the start: %v, want %v", warned, noAuth)
			}
		})
	}
}

func TestRefusalSaysWhatHelps(t *testing.T) {
	needRoot(t)
	s := start(t, options{})
	out := strings.Join(as(t, nobody, "body", s.url+"/api/config"), "\n")
	if !strings.Contains(out, `"code":"peer_not_allowed"`) || !strings.Contains(out, "65534") || !strings.Contains(out, "--allow-user") {
		t.Errorf("the refusal is %s", out)
	}
	if strings.Contains(s.stderr.String(), "level=WARN") {
		t.Error("a refusal is no failure, but was warned of")
	}
}

// A client that sends and closes at once is nobody: its socket shows uid 0 by
// then, and must not be taken for root's.
func TestPostAndCloseAtOnce(t *testing.T) {
	needRoot(t)
	s := start(t, options{args: []string{"--log", "debug"}})
	as(t, nobody, "post", s.addr)
	waitFor(t, "100 answers", func() bool { return strings.Count(s.stderr.String(), "method=POST") == 100 })
	for line := range strings.Lines(s.stderr.String()) {
		if strings.Contains(line, "method=POST") && !strings.Contains(line, "status=403") {
			t.Fatalf("a client that is gone was let in: %s", line)
		}
	}
}

// Clients that connect and are gone cost little, however many they are: those who may
// ask are answered meanwhile, and the server stays small. Before they are asked about,
// many sockets of the host make a reading of all of them long.
func TestConnectAndGoneFlood(t *testing.T) {
	needRoot(t)
	s := start(t, options{})
	sockets := manySockets(t, 4000)
	defer sockets()
	done := make(chan []string)
	go func() {
		out, err := childCommand("connect", nobody, s.addr, "6000").CombinedOutput()
		done <- []string{string(out), fmt.Sprint(err)}
	}()
	answers := map[int]int{}
	var got []string
	for got == nil {
		select {
		case got = <-done:
		default:
		}
		// A connection may be closed for one of those before it is known whose it is.
		if res, err := http.Get(s.url + "/api/config"); err == nil {
			res.Body.Close()
			answers[res.StatusCode]++
		}
	}
	if got[0] != "done\n" {
		t.Fatalf("the clients: %v", got)
	}
	if answers[200] == 0 || len(answers) != 1 {
		t.Errorf("root was answered %v meanwhile", answers)
	}
	waitFor(t, "an answer afterwards", func() bool { return s.get("/api/config").status == 200 })
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var peak int
	if _, err := fmt.Sscanf(rest, "%d kB", &peak); err != nil || peak > 128<<10 {
		t.Errorf("the server took up to %d KiB, %v; want at most 128 MiB", peak, err)
	}
}

// manySockets opens n connections of the test with itself.
func manySockets(t *testing.T, n int) (end func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open []net.Conn
	for range n {
		for _, f := range []func() (net.Conn, error){func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) }, l.Accept} {
			c, err := f()
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, c)
		}
	}
	return func() {
		for _, c := range open {
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
		l.Close()
	}
}

// overUnix asks through a socket file.
func overUnix(t *testing.T, path string) (int, error) {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprint(c, "GET /api/config HTTP/1.0\r\nHost: localhost\r\n\r\n")
	var status int
	_, err = fmt.Fscanf(c, "HTTP/1.0 %d", &status)
	return status, err
}

func TestUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "procinsh-e2e-socket-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	s := start(t, options{listen: "unix:" + path})
	if status, err := overUnix(t, path); status != 200 {
		t.Errorf("got %d, %v", status, err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	if os.Geteuid() == 0 {
		if got := as(t, nobody, "unix", path); !strings.Contains(got[0], "permission denied") {
			t.Errorf("another user gets %v", got)
		}
		// With the file opened to him he still is another user.
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
		if got := as(t, nobody, "unix", path); got[0] != "403" {
			t.Errorf("another user who can connect gets %v", got)
		}
	}

	// A second server finds it in use. The file of one that ended, which may delete
	// nothing, is replaced by the next.
	status, out, errs := runToEnd(t, options{}, "--listen", "unix:"+path)
	if status != 1 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, path) || !strings.Contains(errs, "in use") {
		t.Errorf("a second server: %d %q %q", status, out, errs)
	}
	s.signal(syscall.SIGKILL)
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("the file of a killed server: %v", err)
	}
	again := start(t, options{listen: "unix:" + path, env: []string{fmt.Sprintf("SUDO_UID=%d", nobody)}})
	if os.Geteuid() == 0 {
		if got := as(t, nobody, "unix", path); got[0] != "200" {
			t.Errorf("who ran sudo gets %v", got)
		}
	}
	if status, _ := again.signal(syscall.SIGTERM); status.ExitStatus() != 0 {
		t.Errorf("ended with %v", status)
	}
	third := start(t, options{listen: "unix:" + path})
	if status, err := overUnix(t, path); status != 200 {
		t.Errorf("over the file that a server left at its end: %d, %v", status, err)
	}
	third.signal(syscall.SIGTERM)
}

func TestSeveralListeners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s := start(t, options{args: []string{"--listen", "unix:" + path, "--listen", "127.0.0.2:0"}})
	if a := s.get("/api/config"); a.status != 200 || !json.Valid(a.body) {
		t.Errorf("TCP: %v", a)
	}
	if status, err := overUnix(t, path); status != 200 {
		t.Errorf("socket file: %d, %v", status, err)
	}
}
