// Package server starts a real procinsh for a test, on a port of its own, and
// talks to it the way a client does.
package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Server is a running procinsh. Safe for concurrent use but for Stop.
type Server struct {
	URL string
	PID int

	cmd    *exec.Cmd
	log    *logged
	ended  chan error
	client *http.Client
}

type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Build compiles the tree's binary into dir.
func Build(dir string) (string, error) {
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	exe := filepath.Join(dir, "procinsh")
	cmd := exec.Command("go", "build", "-o", exe, ".")
	cmd.Dir = filepath.Dir(strings.TrimSpace(string(mod)))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return exe, nil
}

// patience is how long a start and an end may take: a machine may be emulated, and busy.
// How long they should is judged elsewhere.
const patience = time.Minute

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Start runs exe on a free port of 127.0.0.1 and waits until it answers.
func Start(exe string, args ...string) (*Server, error) { return StartWith([]string{exe}, args...) }

// StartWith is Start by another program, whose last argument names the server.
// PID is then that program's.
func StartWith(argv []string, args ...string) (*Server, error) {
	for range 3 { // another program may take the port in between
		addr, err := freePort()
		if err != nil {
			return nil, err
		}
		s, err := start(argv, addr, args)
		if err == nil || !strings.Contains(err.Error(), "in use") {
			return s, err
		}
	}
	return nil, errors.New("start: no port stayed free")
}

func start(argv []string, addr string, args []string) (*Server, error) {
	s := &Server{URL: "http://" + addr, log: &logged{}, ended: make(chan error, 1)}
	s.client = &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	argv = slices.Concat(argv, []string{"serve", "--listen", addr}, args)
	s.cmd = exec.Command(argv[0], argv[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	s.PID = s.cmd.Process.Pid
	go func() { s.ended <- s.cmd.Wait() }()
	deadline := time.Now().Add(patience)
	for {
		if _, code, err := s.Raw("/healthz", nil); err == nil && code == http.StatusOK {
			return s, nil
		}
		select {
		case err := <-s.ended:
			s.ended <- err
			return nil, fmt.Errorf("server ended: %v: %s", err, s.log)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			s.Stop()
			return nil, fmt.Errorf("server does not answer: %s", s.log)
		}
	}
}

// At returns a server that runs already, which Stop does not end.
func At(url string) *Server {
	return &Server{URL: strings.TrimSuffix(url, "/"), log: &logged{},
		client: &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}}
}

// Log returns what the server has written so far.
func (s *Server) Log() string { return s.log.String() }

// Stop ends the server with SIGTERM; where that takes too long with SIGKILL, which is an error.
func (s *Server) Stop() error {
	if s.cmd == nil {
		return nil
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-s.ended:
		return err
	case <-time.After(patience):
		s.cmd.Process.Kill()
		<-s.ended
		return fmt.Errorf("server did not end within %v of SIGTERM: %s", patience, s.log)
	}
}

// Response asks for path and returns the response; the caller closes its body.
func (s *Server) Response(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	u := s.URL + path
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return nil, err
	}
	return s.client.Do(req)
}

// Raw returns the body and status of a GET.
func (s *Server) Raw(path string, query url.Values) ([]byte, int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	r, err := s.Response(ctx, path, query)
	if err != nil {
		return nil, 0, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return b, r.StatusCode, err
}

// Get decodes the answer of a GET that must be 200.
func (s *Server) Get(path string, query url.Values, into any) error {
	b, code, err := s.Raw(path, query)
	if err != nil {
		return err
	}
	if code != http.StatusOK {
		return fmt.Errorf("GET %s: status %d: %s", path, code, b)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

// Post sends body as JSON and returns the answer and its status.
func (s *Server) Post(path string, body any) ([]byte, int, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, bytes.NewReader(text))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	r, err := s.client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return b, r.StatusCode, err
}

// Event is one event of a stream.
type Event struct {
	Name string
	Data []byte
}

// Events reads a stream until each returns false, the stream ends (nil) or the
// time is over (context.DeadlineExceeded).
func (s *Server) Events(path string, query url.Values, limit time.Duration, each func(Event) bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return s.EventsIn(ctx, path, query, each)
}

// EventsIn is Events that ends with ctx.
func (s *Server) EventsIn(ctx context.Context, path string, query url.Values, each func(Event) bool) error {
	r, err := s.Response(ctx, path, query)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(r.Body)
		return fmt.Errorf("GET %s: status %d: %s", path, r.StatusCode, b)
	}
	in := bufio.NewReaderSize(r.Body, 1<<20)
	var e Event
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err == io.EOF {
				return nil
			}
			return err
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" && e.Name != "":
			if !each(e) {
				return nil
			}
			e = Event{}
		case strings.HasPrefix(line, "event: "):
			e.Name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			if e.Data != nil {
				return fmt.Errorf("GET %s: an event with two data lines", path)
			}
			e.Data = []byte(line[len("data: "):])
		case line == "" || strings.HasPrefix(line, ":"):
		default:
			return fmt.Errorf("GET %s: unexpected line %.60q", path, line)
		}
	}
}
