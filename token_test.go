package main

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A token is made where other machines come in, or where there is a place for it.
func TestNewSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(" from-a.file/~+== \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	there := envOf("RUNTIME_DIRECTORY", "/run/x")
	made := regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)
	tests := []struct {
		args string
		env  func(string) string
		want string // "made", "" or the token
	}{
		{"", noEnv, ""},
		{"--listen localhost:0 --listen unix:/s", noEnv, ""},
		{"", there, "made"},
		{"--listen :0", noEnv, "made"},
		{"--listen 127.0.0.1:0 --listen 192.0.2.1:0", noEnv, "made"},
		{"--listen [::]:0", noEnv, "made"},
		{"--listen :0 --no-auth", there, ""},
		{"--listen :0 --token-file " + path, there, "from-a.file/~+=="},
		{"--token-file " + path, noEnv, "from-a.file/~+=="},
	}
	seen := map[string]bool{}
	for _, tt := range tests {
		o, err := parseArgs(strings.Fields(tt.args), noEnv)
		if err != nil {
			t.Fatal(err)
		}
		s, err := newSecret(o, tt.env)
		if err != nil || tt.want != "made" && s.text != tt.want || tt.want == "made" && (!made.MatchString(s.text) || seen[s.text]) {
			t.Errorf("%q: %q, %v, want %s", tt.args, s.text, err, tt.want)
		}
		seen[s.text] = true
	}
}

// The token of the server before is replaced whole, whoever could read it.
func TestWriteToken(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	path := filepath.Join(dir, "token")
	for _, text := range []string{"one", "two"} {
		if err := writeToken(dir, path, text); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		info, err2 := os.Stat(path)
		if err != nil || err2 != nil || string(b) != text+"\n" || info.Mode() != 0o600 {
			t.Fatalf("%q, %v, %v, %v", b, info, err, err2)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("the folder holds %v, %v", list, err)
	}
	if err := writeToken("/proc/none", "/proc/none/token", "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

func TestPageURL(t *testing.T) {
	all, all4 := &net.TCPAddr{IP: net.IPv6unspecified, Port: 80}, &net.TCPAddr{IP: net.IPv4zero, Port: 80}
	for _, tt := range []struct {
		at   *net.TCPAddr
		o    options
		want string
	}{
		{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}, options{}, `^http://127\.0\.0\.1:80/$`},
		{&net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: 8443}, options{tlsCert: "c"}, `^https://\[2001:db8::1\]:8443/$`},
		{all, options{allowHosts: []string{"proc.example", "x"}}, `^http://proc\.example:80/$`},
		{all, options{}, `^http://(localhost|[0-9.]+|\[[0-9a-f:]+\]):80/$`},
		{all4, options{}, `^http://(localhost|[0-9.]+):80/$`},
	} {
		if got := pageURL(tt.at, tt.o); !regexp.MustCompile(tt.want).MatchString(got) {
			t.Errorf("%v: %s, want %s", tt.at, got, tt.want)
		}
	}
}

// What a client shows comes from the file, else from the environment.
func TestTokenOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := envOf("PROCINSH_TOKEN", "xyz")
	for _, tt := range []struct {
		file string
		env  func(string) string
		want string
		ok   bool
	}{
		{"", noEnv, "", true},
		{"", env, "xyz", true},
		{path, env, "abc", true},
		{path + "x", env, "", false},
		{"", envOf("PROCINSH_TOKEN", "a b\r\nX: y"), "", false},
	} {
		got, err := tokenOf(tt.file, tt.env)
		if got != tt.want || (err == nil) != tt.ok || err != nil && strings.Contains(err.Error(), "X: y") {
			t.Errorf("%s: %q, %v", tt.file, got, err)
		}
	}
}

func FuzzReadToken(f *testing.F) {
	f.Add([]byte("abc\n"))
	f.Add([]byte("a b"))
	f.Add([]byte{0, 10})
	path := filepath.Join(f.TempDir(), "token")
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		text, err := readToken(path)
		switch {
		case err != nil && text != "":
			t.Fatalf("%q with %v", text, err)
		case err == nil && (text == "" || strings.ContainsAny(text, " \r\n\";,\\") || !bytes.Contains(content, []byte(text))):
			t.Fatalf("%q from %q", text, content)
		}
	})
}
