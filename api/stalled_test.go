package api

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/watch"
)

// smallWindow dials with a receive buffer that a few events fill.
var smallWindow = net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
	var failure error
	err := c.Control(func(fd uintptr) {
		failure = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
	})
	if err != nil {
		return err
	}
	return failure
}}

// A client that opens a stream and reads nothing loses it after 30 s, over HTTP/1.1, TLS
// and HTTP/2, and its place is free again.
func TestStalledReaders(t *testing.T) {
	if os.Getenv("PROCINSH_SOAK") == "" {
		t.Skip("long form only: waits for a deadline of 30 s")
	}
	for _, tt := range []struct {
		name    string
		tls, h2 bool
	}{{"HTTP/1.1", false, false}, {"HTTP/1.1 over TLS", true, false}, {"HTTP/2", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			config, pool := selfSigned(t)
			s, _ := testServer(t, func(o *Options) {
				o.List = watch.NewList(o.FS, watch.ListOptions{Interval: time.Second, MaxViewers: 1})
				if tt.tls {
					o.TLS = config
				}
			})
			l := listenTCP(t)
			serveOn(t, s, l)
			tr := &http.Transport{DialContext: smallWindow.DialContext, DisableCompression: true, ForceAttemptHTTP2: tt.h2,
				TLSClientConfig: &tls.Config{RootCAs: pool}, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}}
			defer tr.CloseIdleConnections()
			url := "http://"
			if tt.tls {
				url = "https://"
			}
			url += l.Addr().String() + "/api/processes/stream?maps=summary"
			stalled, err := tr.RoundTrip(mustRequest(t, url))
			if err != nil || stalled.StatusCode != 200 {
				t.Fatalf("%v, %v", stalled, err)
			}
			defer stalled.Body.Close()
			began := time.Now()
			for {
				a, err := tr.RoundTrip(mustRequest(t, url))
				if err != nil {
					t.Fatal(err)
				}
				a.Body.Close()
				if a.StatusCode == 200 {
					break
				}
				if took := time.Since(began); a.StatusCode != 429 || took > 3*time.Minute {
					t.Fatalf("after %v: %d", took, a.StatusCode)
				}
				time.Sleep(time.Second)
			}
			if took := time.Since(began); took < writeTimeout-time.Second {
				t.Errorf("the place was free after %v, want %v for who reads slowly", took, writeTimeout)
			}
			if _, err := io.Copy(io.Discard, stalled.Body); err == nil {
				t.Error("the stream looks whole")
			}
		})
	}
}

func mustRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Every TCP connection has the kernel's own limit for a client that takes nothing.
func TestEndOfStalledConnections(t *testing.T) {
	t.Parallel()
	inner := listenTCP(t)
	defer inner.Close()
	go func() {
		if c, err := net.Dial("tcp", inner.Addr().String()); err == nil {
			defer c.Close()
			io.Copy(io.Discard, c)
		}
	}()
	c, err := listener{Listener: inner}.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.(*conn).Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got int
	if err := errors.Join(raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) }), err); err != nil {
		t.Fatal(err)
	}
	if time.Duration(got)*time.Millisecond != writeTimeout {
		t.Errorf("TCP_USER_TIMEOUT is %d ms", got)
	}
}
