package api

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// selfSigned is a certificate for 127.0.0.1, and who trusts it.
func selfSigned(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, pool
}

// overTLS is a server with TLS, where it is to serve, and clients of HTTP/1.1 and 2.
func overTLS(t *testing.T, change func(*Options)) (s *Server, log *bytes.Buffer, l net.Listener, one, two *http.Client) {
	t.Helper()
	config, pool := selfSigned(t)
	s, log = testServer(t, func(o *Options) {
		o.TLS = config
		change(o)
	})
	client := func(h2 bool) *http.Client {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: h2}
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return s, log, listenTCP(t), client(false), client(true)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s, log, l, one, two := overTLS(t, func(o *Options) { o.NoAuth, o.AllowUIDs, o.Token = false, []uint32{1}, testToken })
	addr := l.Addr().String()
	var asked atomic.Int32
	var uid atomic.Uint32
	uid.Store(1)
	s.peers.tcpOwner = func(client, server netip.AddrPort) (uint32, error) {
		asked.Add(1)
		if server.String() != addr {
			t.Errorf("asked for %v to %v", client, server)
		}
		return uid.Load(), nil
	}
	serveOn(t, s, l)
	get := func(c *http.Client, path string, header ...string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequest("GET", "https://"+addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		a, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		b, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		return a, string(b)
	}
	for version, c := range map[int]*http.Client{1: one, 2: two} {
		a, text := get(c, "/api/config", "Origin", "https://"+addr)
		if a.StatusCode != 200 || a.ProtoMajor != version || !json.Valid([]byte(text)) {
			t.Errorf("HTTP/%d: %v", version, a)
		}
		checkHeaders(t, a.Header)
		if a, _ := get(c, "/api/config", "Origin", "http://"+addr); a.StatusCode != 403 {
			t.Errorf("an origin without TLS: %d", a.StatusCode)
		}
		if a, _ := get(c, "/?token="+testToken); a.StatusCode != 303 || !strings.Contains(a.Header.Get("Set-Cookie"), "; Secure") {
			t.Errorf("sign in: %d %v", a.StatusCode, a.Header)
		}
		if a, _ := get(c, "/healthz"); a.StatusCode != 200 {
			t.Errorf("healthz: %d", a.StatusCode)
		}
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the kernel was asked %d times about two connections", n)
	}

	// Others are refused as they are without TLS.
	uid.Store(2)
	one.CloseIdleConnections()
	if a, text := get(one, "/api/config"); a.StatusCode != 403 || !strings.Contains(text, "peer_not_allowed") {
		t.Errorf("another user: %d", a.StatusCode)
	}
	if a, _ := get(one, "/api/config", "Authorization", "Bearer "+testToken); a.StatusCode != 200 {
		t.Errorf("another user with the token: %d", a.StatusCode)
	}

	// Plain HTTP gets an answer that says so, like any other error.
	a := dialog(t, "tcp", addr, "GET /api/config HTTP/1.1\r\nHost: "+addr+"\r\n\r\n", 1)[0]
	var e ErrorAnswer
	if err := json.NewDecoder(a.Body).Decode(&e); err != nil || a.StatusCode != 400 || e.Code != "tls_required" {
		t.Errorf("plain HTTP: %d %+v, %v", a.StatusCode, e, err)
	}
	checkHeaders(t, a.Header)
	s.Shutdown()
	if strings.Contains(log.String(), "level=WARN") || strings.Contains(log.String(), testToken) {
		t.Errorf("the log is\n%s", log)
	}
}

// A stream of HTTP/2 is read event by event, beside other requests on its connection,
// which counts as one of a stream.
func TestStreamOverHTTP2(t *testing.T) {
	t.Parallel()
	s, _, l, _, two := overTLS(t, func(*Options) {})
	url := "https://" + l.Addr().String()
	serveOn(t, s, l)
	a, err := two.Get(url + "/api/processes/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	in := make([]byte, 4096)
	for range 3 {
		if _, err := io.ReadAtLeast(a.Body, in, 1); err != nil {
			t.Fatal(err)
		}
		b, err := two.Get(url + "/api/config")
		if err != nil || b.StatusCode != 200 || b.ProtoMajor != 2 {
			t.Fatalf("beside the stream: %v, %v", b, err)
		}
		b.Body.Close()
	}
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	for c := range s.conns.all {
		if !c.use.stream || len(s.conns.all) != 1 {
			t.Errorf("%d connections, of a stream: %v", len(s.conns.all), c.use.stream)
		}
	}
}

// Clients that do not go on are let go, whatever they have begun.
func TestSlowClientsOverTLS(t *testing.T) {
	t.Parallel()
	s, _, l, _, _ := overTLS(t, func(*Options) {})
	s.http.ReadHeaderTimeout, s.http.IdleTimeout = 300*time.Millisecond, 300*time.Millisecond
	addr := l.Addr().String()
	serveOn(t, s, l)
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00" // and empty settings
	tests := []struct{ name, protocol, text string }{
		{"no handshake", "", "\x16\x03\x01"},
		{"half a header", "http/1.1", "GET / HTTP/1.1\r\nHost:"},
		{"idle", "http/1.1", "GET /healthz HTTP/1.1\r\nHost: " + addr + "\r\n\r\n"},
		{"HTTP/2, idle", "h2", preface},
		{"HTTP/2, half a frame", "h2", preface + "\x00\x00\x10\x01\x00\x00\x00\x00\x01"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(time.Minute))
			if tt.protocol != "" {
				c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{tt.protocol}})
			}
			if _, err := io.WriteString(c, tt.text); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") && !strings.Contains(err.Error(), "EOF") {
				t.Errorf("not let go within a minute: %v", err)
			}
		})
	}
}

// Whoever reaches the port can break the rules as often as they like: the log has no
// warning of each.
func TestBrokenClientsWarnOfNothing(t *testing.T) {
	s, log, l, _, _ := overTLS(t, func(*Options) {})
	serveOn(t, s, l)
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for _, text := range []string{
		preface + "\x00\x00\x01\x00\x00\x00\x00\x00\x01x",        // data of no stream
		preface + "\x00\x00\x02\x01\x05\x00\x00\x00\x01\xff\xff", // headers of no form
		"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",                       // no preface
	} {
		c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") && !strings.Contains(err.Error(), "EOF") {
			t.Errorf("%q: not let go: %v", text, err)
		}
		c.Close()
	}
	s.Shutdown()
	if text := log.String(); strings.Contains(text, "level=WARN") || strings.Count(text, "http2: server") != 3 {
		t.Errorf("want three lines of the clients, none a warning:\n%s", text)
	}
}
