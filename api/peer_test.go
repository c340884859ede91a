package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"procinsh/proc"
)

// serveOn runs s on l until the test ends.
func serveOn(t *testing.T, s *Server, l net.Listener) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Shutdown()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve ended with %v", err)
		}
	})
}

func listenTCP(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// dialog sends text on one connection and returns all answers.
func dialog(t *testing.T, network, addr, text string, n int) []*http.Response {
	t.Helper()
	c, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	var list []*http.Response
	in := bufio.NewReader(c)
	for range n {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		res.Body = io.NopCloser(bytes.NewReader(body))
		list = append(list, res)
	}
	return list
}

func TestPeerOnTCP(t *testing.T) {
	tests := []struct {
		name string
		uid  uint32
		err  error
		want int
	}{
		{"root", 0, nil, 200},
		{"allowed user", 1001, nil, 200},
		{"other user", 1002, nil, 403},
		{"closed socket", 0, proc.ErrNoOwner, 403},
		{"kernel without an answer", 0, os.ErrDeadlineExceeded, 403},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := testServer(t, func(o *Options) { o.NoAuth = false; o.AllowUIDs = []uint32{0, 1001} })
			l := listenTCP(t)
			addr := l.Addr().String()
			var asked atomic.Int32
			s.peers.tcpOwner = func(local, remote netip.AddrPort) (uint32, error) {
				asked.Add(1)
				if remote.String() != addr || !local.Addr().IsLoopback() || local == remote {
					t.Errorf("asked for %v to %v", local, remote)
				}
				return tt.uid, tt.err
			}
			serveOn(t, s, l)
			get := "GET /api/config HTTP/1.1\r\nHost: " + addr + "\r\n\r\n"
			for _, res := range dialog(t, "tcp", addr, get+get, 2) {
				if res.StatusCode != tt.want {
					t.Errorf("got %d, want %d", res.StatusCode, tt.want)
				}
				checkHeaders(t, res.Header)
				if tt.want == 403 {
					var e ErrorAnswer
					if err := json.NewDecoder(res.Body).Decode(&e); err != nil || e.Code != "peer_not_allowed" || !strings.Contains(e.Error, "--allow-user") {
						t.Errorf("%v, %+v", err, e)
					}
				}
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("the kernel was asked %d times for one connection", n)
			}
		})
	}
}

// One peer that the kernel is slow to name keeps nobody else waiting.
func TestSlowPeerBlocksNobody(t *testing.T) {
	s, _ := testServer(t, func(o *Options) { o.NoAuth = false; o.AllowUIDs = []uint32{0} })
	l := listenTCP(t)
	release := make(chan struct{})
	var first atomic.Bool
	s.peers.tcpOwner = func(netip.AddrPort, netip.AddrPort) (uint32, error) {
		if first.CompareAndSwap(false, true) {
			<-release
		}
		return 0, nil
	}
	serveOn(t, s, l)
	slow, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	for !first.Load() {
		time.Sleep(time.Millisecond)
	}
	res := dialog(t, "tcp", l.Addr().String(), "GET /api/config HTTP/1.1\r\nHost: "+l.Addr().String()+"\r\n\r\n", 1)[0]
	if res.StatusCode != 200 {
		t.Errorf("got %d", res.StatusCode)
	}
	close(release)
}

func TestPeerOnUnixSocket(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		s, _ := testServer(t, func(o *Options) {
			o.NoAuth = false
			o.AllowUIDs = []uint32{uint32(os.Getuid())}
			if !allowed {
				o.AllowUIDs = []uint32{uint32(os.Getuid()) + 1}
			}
		})
		path := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		serveOn(t, s, l)
		res := dialog(t, "unix", path, "GET /api/config HTTP/1.1\r\nHost: localhost\r\n\r\n", 1)[0]
		if want := map[bool]int{true: 200, false: 403}[allowed]; res.StatusCode != want {
			t.Errorf("got %d, want %d", res.StatusCode, want)
		}
	}
}

// What net/http refuses by itself has the form of every other error.
func TestBrokenRequests(t *testing.T) {
	s, _ := testServer(t, nil)
	l := listenTCP(t)
	serveOn(t, s, l)
	host := "Host: " + l.Addr().String() + "\r\n"
	tests := []struct {
		name, text string
		status     int
		code       string
	}{
		{"no host", "GET / HTTP/1.1\r\n\r\n", 403, "host_not_allowed"},
		{"malformed host", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 403, "host_not_allowed"},
		{"two hosts", "GET / HTTP/1.1\r\n" + host + host + "\r\n", 400, "bad_request"},
		{"no host in 1.0", "GET / HTTP/1.0\r\n\r\n", 403, "host_not_allowed"},
		{"no HTTP", "hello\r\n\r\n", 400, "bad_request"},
		{"bad header", "GET / HTTP/1.1\r\n" + host + "a b: c\r\n\r\n", 400, "bad_request"},
		{"bad header value", "GET / HTTP/1.1\r\n" + host + "a: \x01\r\n\r\n", 400, "bad_request"},
		{"bad escape", "GET /%zz HTTP/1.1\r\n" + host + "\r\n", 400, "bad_request"},
		{"long header", "GET / HTTP/1.1\r\n" + host + "a: " + strings.Repeat("x", 17<<10) + "\r\n\r\n", 431, "headers_too_large"},
		{"transfer encoding", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: x\r\n\r\n", 501, "not_implemented"},
		{"expectation", "GET / HTTP/1.1\r\n" + host + "Expect: x\r\n\r\n", 417, "expectation_failed"},
		{"version", "GET / HTTP/3.0\r\n" + host + "\r\n", 505, "http_version"},
		{"everything", "OPTIONS * HTTP/1.1\r\n" + host + "\r\n", 404, "not_found"},
		{"everything, foreign", "OPTIONS * HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, "host_not_allowed"},
		{"proxy", "GET http://evil.example/ HTTP/1.1\r\n" + host + "\r\n", 403, "host_not_allowed"},
		{"tunnel", "CONNECT 127.0.0.1:80 HTTP/1.1\r\n" + host + "\r\n", 403, "host_not_allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := dialog(t, "tcp", l.Addr().String(), tt.text, 1)[0]
			if res.StatusCode != tt.status {
				t.Errorf("got %s, want %d", res.Status, tt.status)
			}
			checkHeaders(t, res.Header)
			var e ErrorAnswer
			if err := json.NewDecoder(res.Body).Decode(&e); err != nil || e.Code != tt.code {
				t.Errorf("%v, %+v, want %s", err, e, tt.code)
			}
		})
	}
}

func TestPlainErrorLeavesAnswersAlone(t *testing.T) {
	for _, text := range []string{
		"", "HTTP/1.1 ", "HTTP/1.1 4", "HTTP/1.1 404 Not Found\r\nAllow: GET\r\n\r\n", "HTTP/1.1 200 OK" + plainHeaders,
		"HTTP/1.1 404 Not Found\r\nCache-Control: no-store" + plainHeaders, "data" + plainHeaders,
	} {
		if _, ok := plainError([]byte(text)); ok {
			t.Errorf("%q is taken for an answer of net/http", text)
		}
	}
}
