package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	shared "procinsh/tests/server"
)

// everywhere starts a server that other machines reach, and asks it by loopback.
func everywhere(t *testing.T, o options) *server {
	t.Helper()
	o.listen = "0.0.0.0:0"
	s := start(t, o)
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	s.addr = "127.0.0.1:" + port
	s.url = "http://" + s.addr
	return s
}

// silent fails when the server has shown a secret where others look.
func (s *server) silent(secret string) {
	s.t.Helper()
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	for where, text := range map[string]string{"log": s.stderr.String(), "standard output": s.stdout.String(), "command line": string(args)} {
		if strings.Contains(text, secret) {
			s.t.Errorf("the token is in the %s: %s", where, text)
		}
	}
}

// Whoever reaches another address gets in with the token only, on every kind of
// route; it is in a file of the server's user, and nowhere else.
func TestTokenElsewhere(t *testing.T) {
	dir := t.TempDir()
	s := everywhere(t, options{env: []string{"RUNTIME_DIRECTORY=" + dir + ":/none"}, args: []string{"--log", "debug", "--runs"}})
	path := filepath.Join(dir, "token")
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("the token's file: %v, %v", info, err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(b))
	if !regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`).MatchString(token) {
		t.Fatalf("the token has %d characters", len(token))
	}
	if !strings.Contains(s.stderr.String(), "path="+path) {
		t.Errorf("the log does not tell where the token is:\n%s", &s.stderr)
	}
	waitFor(t, "a warning of other machines", func() bool {
		return strings.Contains(s.stderr.String(), "level=WARN") && strings.Contains(s.stderr.String(), "other machines reach")
	})
	me := identity(t, os.Getpid())
	for _, path := range []string{"/", "/api/config", "/api/processes", "/api/processes/stream", "/api/system/events", "/api/processes/events?" + me,
		"/api/processes/memory?" + me + "&address=0", "/api/runs", "/api/runs/events", "/none"} {
		if a := s.get(path); a.status != 401 || a.code(t) != "token_required" {
			t.Errorf("%s without the token: %v", path, a)
		}
		if a := s.get(path, "Authorization", "Bearer "+token[1:]); a.status != 401 || a.code(t) != "token_invalid" {
			t.Errorf("%s with a wrong one: %v", path, a)
		}
	}
	if a := s.do("POST", "/api/runs"); a.status != 401 {
		t.Errorf("a launch without the token: %v", a)
	}
	for _, path := range []string{"/api/config", "/api/runs"} {
		for _, header := range [][]string{{"Authorization", "Bearer " + token}, {"Cookie", "procinsh_token=" + token}} {
			if a := s.get(path, header...); a.status != 200 {
				t.Errorf("%s with the token: %v", path, a)
			}
		}
	}
	if a := s.get("/healthz"); a.status != 200 {
		t.Errorf("a probe: %v", a)
	}
	if a := s.get("/healthz", "Host", "evil.example"); a.status != 403 {
		t.Errorf("a probe by a foreign name: %v", a)
	}

	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	a, err := client.Get(s.url + "/process/1?token=" + token + "&start=2")
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	if a.StatusCode != 303 || a.Header.Get("Location") != "/process/1?start=2" || len(a.Cookies()) != 1 {
		t.Errorf("sign in: %v", a)
	}

	// The tools of this binary.
	env := []string{"PROCINSH_TOKEN=" + token}
	if status, out, errs := runToEnd(t, options{env: env}, "runs", "--server", s.url); status != 0 {
		t.Errorf("procinsh runs: %d %q %q", status, out, errs)
	}
	if status, out, errs := runToEnd(t, options{}, "runs", "--server", s.url, "--token-file", path); status != 0 {
		t.Errorf("procinsh runs with a file: %d %q %q", status, out, errs)
	}
	if status, _, errs := runToEnd(t, options{}, "runs", "--server", s.url); status != 1 || !strings.Contains(errs, "token") {
		t.Errorf("procinsh runs without: %d %q", status, errs)
	}
	// Nobody knows which user has the token, so that there is none to run as.
	if status, _, errs := runToEnd(t, options{env: env}, "run", "--server", s.url, "--", "true"); status == 0 || !strings.Contains(errs, "--run-user") {
		t.Errorf("procinsh run: %d %q", status, errs)
	}
	waitFor(t, "the log of all that", func() bool { return strings.Contains(s.stderr.String(), "path=/process/1 status=303") })
	s.silent(token)
}

// A token lets other users of this machine in, too.
func TestTokenOnLoopback(t *testing.T) {
	needRoot(t)
	const token = "kGYoYH0mbHLrDKRgXQzTvJbW3p8sPyVn1A5oCq7Ew2U"
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, options{args: []string{"--token-file", path, "--log", "debug"}})
	got := as(t, nobody, "bearer", token, s.url+"/api/config", s.url+"/api/processes")
	if !slices.Equal(got, []string{"200", "200"}) {
		t.Errorf("with the token: %v", got)
	}
	got = as(t, nobody, "bearer", token+"x", s.url+"/api/config")
	if !slices.Equal(got, []string{"403"}) {
		t.Errorf("with another: %v", got)
	}
	s.silent(token)
	if strings.Contains(s.stderr.String(), "level=WARN") {
		t.Errorf("warned of\n%s", &s.stderr)
	}
}

// On a terminal the token is in an address to open, and in no file.
func TestTokenOnTerminal(t *testing.T) {
	terminal, other, err := shared.Terminal()
	var path *fs.PathError
	if errors.As(err, &path) && path.Path == "/dev/ptmx" {
		t.Skip("no terminal can be had here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	defer other.Close()
	dir := t.TempDir()
	cmd := command(options{env: []string{"RUNTIME_DIRECTORY=" + dir}}, "serve", "--listen", "0.0.0.0:0", "--allow-host", "127.0.0.1")
	cmd.Stderr = other
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var shown text
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := terminal.Read(buf)
			if err != nil {
				return
			}
			shown.Write(buf[:n])
		}
	}()
	waitFor(t, "the server to start", func() bool { return strings.Contains(shown.String(), "msg=started") })
	m := regexp.MustCompile(`(?m)^open (http://127\.0\.0\.1:\d+)/\?token=([A-Za-z0-9_-]{43})\r?$`).FindStringSubmatch(shown.String())
	if m == nil || strings.Count(shown.String(), m[2]) != 1 {
		t.Fatalf("the terminal shows %s", shown.String())
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("the folder holds %v, %v", list, err)
	}
	s := server{t: t, url: m[1]}
	if a := s.get("/api/config", "Authorization", "Bearer "+m[2]); a.status != 200 {
		t.Errorf("with the token: %v", a)
	}
}

// A token that cannot be had or told keeps the server from starting; what stands in a
// file is not shown.
func TestTokenThatIsNone(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const here, all = "127.0.0.1:0", "0.0.0.0:0"
	for name, tt := range map[string]struct {
		listen string
		env    []string
		args   []string
		want   string
	}{
		"no file":       {here, nil, []string{"--token-file", dir + "/none"}, "no such file"},
		"a folder":      {here, nil, []string{"--token-file", dir}, "is a directory"},
		"empty":         {here, nil, []string{"--token-file", file("empty", "\n")}, "is empty"},
		"two":           {here, nil, []string{"--token-file", file("two", "pcsecret\npcsecret\n")}, "something else"},
		"long":          {here, nil, []string{"--token-file", file("long", strings.Repeat("pcsecret", 513))}, "longer than 4096"},
		"not told":      {all, []string{"RUNTIME_DIRECTORY=/proc/none"}, nil, "--token-file"},
		"no key":        {here, nil, []string{"--tls-cert", file("cert", "pcsecret"), "--tls-key", dir + "/none"}, "/none: no such file"},
		"no key inside": {here, nil, []string{"--tls-cert", file("cert", "pcsecret"), "--tls-key", file("key", "pcsecret")}, "find any PEM"},
	} {
		status, out, errs := runToEnd(t, options{env: tt.env}, append(tt.args, "--listen", tt.listen)...)
		if status != 1 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, tt.want) || strings.Contains(errs, "pcsecret") {
			t.Errorf("%s: %d %q %q", name, status, out, errs)
		}
	}
}

// A weak token file works, and is warned of without a word of what stands in it.
func TestWeakTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("pcsecret"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := everywhere(t, options{args: []string{"--token-file", path}})
	if a := s.get("/api/config", "Authorization", "Bearer pcsecret"); a.status != 200 {
		t.Errorf("with the token: %v", a)
	}
	log := s.stderr.String()
	if !strings.Contains(log, "short") || !strings.Contains(log, "chmod 600") {
		t.Errorf("not warned of:\n%s", log)
	}
	s.silent("pcsecret")
}

// Without authentication everybody gets in, which every start warns of; Host is still
// looked at.
func TestNoAuthElsewhere(t *testing.T) {
	s := everywhere(t, options{args: []string{"--no-auth", "--allow-host", "proc.example"}})
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{s.addr: 200, "proc.example:" + port: 200, "[2001:db8::1]:" + port: 200, "evil.example:" + port: 403, "proc.example": 403} {
		if a := s.get("/api/config", "Host", host); a.status != want {
			t.Errorf("%s: %v", host, a)
		}
	}
	if !strings.Contains(s.stderr.String(), "everybody who reaches this address") {
		t.Errorf("not warned of:\n%s", &s.stderr)
	}
}

// With a certificate every TCP listener speaks TLS, and a socket file does not.
func TestServeTLS(t *testing.T) {
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	certFile, keyFile := write("cert", "CERTIFICATE", cert), write("key", "PRIVATE KEY", private)
	socket := filepath.Join(dir, "s")
	second := freeAddress(t)
	s := start(t, options{quiet: true, args: []string{"--listen", second, "--listen", "unix:" + socket, "--tls-cert", certFile, "--tls-key", keyFile}})
	pool := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(leaf)
	for _, version := range []int{1, 2} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: version == 2}
		client := &http.Client{Transport: tr}
		for _, addr := range []string{second, s.addr} {
			res, err := client.Get("https://" + addr + "/api/config")
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != 200 || res.ProtoMajor != version {
				t.Errorf("%s: %v", addr, res)
			}
		}
		tr.CloseIdleConnections()
	}
	if a := s.get("/api/config"); a.status != 400 || a.code(t) != "tls_required" {
		t.Errorf("plain HTTP: %v", a)
	}
	if status, err := overUnix(t, socket); status != 200 {
		t.Errorf("socket file: %d, %v", status, err)
	}
	if !strings.Contains(s.stderr.String(), "https://"+second+"/") {
		t.Errorf("the log does not say https:\n%s", &s.stderr)
	}
	status, out, errs := runToEnd(t, options{env: []string{"SSL_CERT_FILE=" + certFile}}, "runs", "--server", "https://"+second)
	if status != 1 || !strings.Contains(errs, "--runs") {
		t.Errorf("procinsh runs: %d %q %q", status, out, errs)
	}
	if info, err := os.Lstat(socket); err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("the socket file is %v, %v", info, err)
	}
}
