package api

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// A body that is announced and never comes holds neither the answer back nor the
// connection: net/http would wait for it before it sends a byte.
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
	for _, c := range []struct{ name, headers string }{
		{"length", "Content-Length: 10\r\n"},
		{"chunked", "Transfer-Encoding: chunked\r\n"},
		{"last request", "Content-Length: 10\r\nConnection: close\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			client.SetDeadline(time.Now().Add(time.Minute))
			if _, err := io.WriteString(client, "GET /healthz HTTP/1.1\r\nHost: "+l.Addr().String()+"\r\n"+c.headers+"\r\n"); err != nil {
				t.Fatal(err)
			}
			in := bufio.NewReader(client)
			answer, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			if answer.StatusCode != http.StatusOK || string(body) != "ok\n" || err != nil {
				t.Errorf("%d %q, %v", answer.StatusCode, body, err)
			}
			if _, err := in.ReadByte(); err != io.EOF {
				t.Errorf("after the answer: %v, want the connection closed", err)
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
