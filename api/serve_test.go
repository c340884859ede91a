package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// A body that is announced and never comes holds neither the answer back nor the
// connection, whoever sent it: net/http would wait for it before it sends a byte.
func TestBodyThatNeverComes(t *testing.T) {
	t.Parallel()
	s, _ := testServer(t, nil)
	const timeout = 500 * time.Millisecond
	s.http.Handler = unwantedBodies{s, timeout}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	t.Cleanup(s.Shutdown)
	for _, c := range []struct {
		name, request, headers string
		status                 int
	}{
		{"length", "GET /healthz", "Content-Length: 10\r\n", 200},
		{"chunked", "GET /healthz", "Transfer-Encoding: chunked\r\n", 200},
		{"last request", "GET /healthz", "Content-Length: 10\r\nConnection: close\r\n", 200},
		{"wrong method", "POST /healthz", "Content-Length: 10\r\n", 405},
		{"wrong method, chunked", "POST /healthz", "Transfer-Encoding: chunked\r\n", 405},
		{"wrong path", "POST /none", "Content-Length: 10\r\n", 404},
		{"other origin", "POST /api/processes/snapshot", "Origin: null\r\nContent-Length: 10\r\n", 403},
		{"other kind of body", "POST /api/processes/snapshot", "Content-Type: text/plain\r\nContent-Length: 10\r\n", 415},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			client.SetDeadline(time.Now().Add(time.Minute))
			if _, err := io.WriteString(client, c.request+" HTTP/1.1\r\nHost: "+l.Addr().String()+"\r\n"+c.headers+"\r\n"); err != nil {
				t.Fatal(err)
			}
			in := bufio.NewReader(client)
			answer, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			if answer.StatusCode != c.status || len(body) == 0 || err != nil {
				t.Errorf("%d %q, %v", answer.StatusCode, body, err)
			}
			if _, err := in.ReadByte(); err != io.EOF {
				t.Errorf("after the answer: %v, want the connection closed", err)
			}
		})
	}
}

// A client that closes after the answer and sends on while it is refused gets the
// answer: a connection closed before its body is read would be reset.
func TestRefusedWhileTheBodyComes(t *testing.T) {
	t.Parallel()
	s, _ := testServer(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	t.Cleanup(s.Shutdown)
	for _, c := range []struct {
		name, path, headers string
		size, sent, status  int
	}{
		{"too long", "/api/processes/snapshot", "Content-Type: application/json\r\n", 64<<10 + 2, 64<<10 + 2, 413},
		{"much too long", "/api/processes/snapshot", "Content-Type: application/json\r\n", 1 << 30, maxUnwanted + 1, 413},
		{"other kind of body", "/api/processes/snapshot", "Content-Type: text/plain\r\n", 64 << 10, 64 << 10, 415},
		{"other origin", "/api/processes/snapshot", "Origin: null\r\n", 64 << 10, 64 << 10, 403},
		{"wrong path", "/none", "", 64 << 10, 64 << 10, 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			client.SetDeadline(time.Now().Add(time.Minute))
			if _, err := fmt.Fprintf(client, "POST %s HTTP/1.1\r\nHost: %v\r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n",
				c.path, l.Addr(), c.size, c.headers); err != nil {
				t.Fatal(err)
			}
			const pieces = 8
			for i := range pieces {
				time.Sleep(20 * time.Millisecond) // the refusal needs the headers alone
				if _, err := client.Write(make([]byte, (i+1)*c.sent/pieces-i*c.sent/pieces)); err != nil {
					t.Fatal(err)
				}
			}
			answer, err := http.ReadResponse(bufio.NewReader(client), nil)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(answer.Body); answer.StatusCode != c.status || len(body) == 0 || err != nil {
				t.Errorf("%d %q, %v", answer.StatusCode, body, err)
			}
		})
	}
}

// A body that comes whole is skipped: the connection is kept, and a stream does not
// end with the time that the body had.
func TestBodyThatNobodyNeeds(t *testing.T) {
	t.Parallel()
	s, _ := testServer(t, nil)
	const timeout = 500 * time.Millisecond
	s.http.Handler = unwantedBodies{s, timeout}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	t.Cleanup(s.Shutdown)
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.SetDeadline(time.Now().Add(time.Minute))
	in := bufio.NewReader(client)
	for range 2 {
		if _, err := io.WriteString(client, "GET /healthz HTTP/1.1\r\nHost: "+l.Addr().String()+"\r\nContent-Length: 5\r\n\r\nhello"); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(answer.Body); answer.Close || string(body) != "ok\n" || err != nil {
			t.Fatalf("close %v, %q, %v", answer.Close, body, err)
		}
	}
	if _, err := io.WriteString(client, "GET /api/processes/stream HTTP/1.1\r\nHost: "+l.Addr().String()+"\r\nContent-Length: 5\r\n\r\nhello"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	events := bufio.NewReader(answer.Body)
	for began := time.Now(); time.Since(began) < 2*timeout+2*time.Second; {
		if _, err := events.ReadString('\n'); err != nil {
			t.Fatalf("the stream ended after %v: %v", time.Since(began), err)
		}
	}
}

// askSnapshot asks for a snapshot of the parent of this test.
func askSnapshot(t *testing.T, c net.Conn) {
	t.Helper()
	body := fmt.Sprintf(`{"pid": %d, "start_time_ticks": %d}`, os.Getppid(), startTicks(t, os.Getppid()))
	if _, err := fmt.Fprintf(c, "POST /api/processes/snapshot HTTP/1.1\r\nHost: %v\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		c.RemoteAddr(), len(body), body); err != nil {
		t.Fatal(err)
	}
}

// A client that ends its half of the connection and reads on, as some tools do, gets
// an answer or an error, never a success without a body.
func TestClientThatSendsNoMore(t *testing.T) {
	t.Parallel()
	s, _ := testServer(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	t.Cleanup(s.Shutdown)
	s.turns.timeout = time.Minute
	s.turns.running <- struct{}{} // the request has to wait, so it sees the end
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.SetDeadline(time.Now().Add(time.Minute))
	askSnapshot(t, client)
	client.(*net.TCPConn).CloseWrite()
	answer, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), `"client_closed"`) || err != nil {
		t.Errorf("%d %q, %v", answer.StatusCode, body, err)
	}
}
