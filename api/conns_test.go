package api

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"procinsh/proc"
	"procinsh/ptrace"
)

func (l *conns) busy(client net.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.all {
		if c.RemoteAddr().String() == client.String() {
			return c.use.busy
		}
	}
	return false
}

// Beyond the limit the connections of those who may not ask are closed first, then
// idle ones; streams and requests under way are left alone, and whoever may ask gets
// in.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	stranger := map[string]bool{}
	s, log := testServer(t, func(o *Options) { o.NoAuth, o.AllowUIDs = false, []uint32{1} })
	s.conns.max = 4
	s.turns.timeout = time.Minute
	s.take = func(context.Context, *proc.FS, proc.ID, *ptrace.Symbols) (*ptrace.Snapshot, error) {
		return nil, ptrace.ErrKernelThread
	}
	s.peers.tcpOwner = func(client, _ netip.AddrPort) (uint32, error) {
		mu.Lock()
		defer mu.Unlock()
		if stranger[client.String()] {
			return 2, nil
		}
		return 1, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	t.Cleanup(s.Shutdown)

	type client struct {
		net.Conn
		in *bufio.Reader
	}
	dial := func(strange bool) client {
		t.Helper()
		mu.Lock() // the server asks for the peer only when it is noted
		defer mu.Unlock()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(time.Minute))
		stranger[c.LocalAddr().String()] = strange
		return client{c, bufio.NewReader(c)}
	}
	until := func(c client, busy bool) {
		t.Helper()
		for began := time.Now(); s.conns.busy(c.LocalAddr()) != busy; time.Sleep(time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatalf("after a minute busy is not %v", busy)
			}
		}
	}
	ask := func(c client, path string) {
		t.Helper()
		if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: "+l.Addr().String()+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	answered := func(c client, status int) *http.Response {
		t.Helper()
		answer, err := http.ReadResponse(c.in, nil)
		if err != nil || answer.StatusCode != status {
			t.Fatalf("%v, %v, want a %d", answer, err, status)
		}
		return answer
	}
	get := func(c client, path string, status int) {
		t.Helper()
		ask(c, path)
		io.Copy(io.Discard, answered(c, status).Body)
		until(c, false) // the client is told first
	}
	closed := func(c client) {
		t.Helper()
		if _, err := c.in.ReadByte(); err != io.EOF {
			t.Fatalf("%v, want the connection closed", err)
		}
	}

	stream := dial(false)
	ask(stream, "/api/processes/stream")
	events := bufio.NewReader(answered(stream, 200).Body)
	s.turns.running <- struct{}{}
	busy := dial(false)
	askSnapshot(t, busy)
	until(busy, true)
	other := dial(true)
	get(other, "/api/config", 403)
	idle := dial(false)
	get(idle, "/healthz", 200)
	later := dial(false)
	get(later, "/healthz", 200) // four beside the stream

	get(dial(false), "/api/config", 200)
	closed(other)
	get(dial(false), "/api/config", 200)
	closed(idle)
	get(later, "/healthz", 200) // was next, is the youngest now

	s.turns.leave()
	answered(busy, 422)
	if _, err := events.ReadString('\n'); err != nil {
		t.Errorf("the stream ended: %v", err)
	}
	stream.Close()
	busy.Close()
	s.Shutdown()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
		s.conns.mu.Lock()
		left := len(s.conns.all)
		s.conns.mu.Unlock()
		if left == 0 {
			break
		}
	}
	if n := strings.Count(log.String(), "too many connections"); n != 1 {
		t.Errorf("warned %d times", n)
	}
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	for c := range s.conns.all {
		t.Errorf("still counted: %v", c.RemoteAddr())
	}
}
