package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func mustListen(t *testing.T, text string, env func(string) string) []net.Listener {
	t.Helper()
	list, err := tryListen(t, text, env)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func tryListen(t *testing.T, text string, env func(string) string) ([]net.Listener, error) {
	t.Helper()
	a, err := parseAddress(text)
	if err != nil {
		t.Fatal(err)
	}
	list, err := listenAll(a, env)
	t.Cleanup(func() {
		for _, l := range list {
			l.Close()
		}
	})
	return list, err
}

func TestListenLocalhost(t *testing.T) {
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skip("this host has no IPv6 loopback address")
	} else {
		l.Close()
	}
	list := mustListen(t, "localhost:0", noEnv)
	if len(list) != 2 {
		t.Fatalf("%d listeners", len(list))
	}
	v4, v6 := list[0].Addr().(*net.TCPAddr), list[1].Addr().(*net.TCPAddr)
	if v4.IP.String() != "127.0.0.1" || v6.IP.String() != "::1" || v4.Port != v6.Port {
		t.Errorf("listening on %v and %v", v4, v6)
	}
	if got := listenText(list, options{}); got != "http://"+v4.String()+"/ http://"+v6.String()+"/" {
		t.Errorf("the log says %s", got)
	}
}

// A failure names the address and leaves nothing open.
func TestListenInUse(t *testing.T) {
	taken := mustListen(t, "127.0.0.1:0", noEnv)[0].Addr().String()
	path := filepath.Join(t.TempDir(), "s")
	_, err := listenAll([]address{{"unix", path}, {"tcp4", taken}}, noEnv)
	if err == nil || err.Error() != "listen on "+taken+": address already in use: choose another with --listen" {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket file is still there: %v", err)
	}
}

func TestListenUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	env := noEnv
	wantUID := uint32(os.Geteuid())
	if wantUID == 0 {
		wantUID = 1234
		env = envOf("SUDO_UID", strconv.Itoa(int(wantUID)))
	}
	l := mustListen(t, "unix:"+path, env)[0]
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode(); mode.Perm() != 0o600 || mode&fs.ModeSocket == 0 {
		t.Errorf("mode is %v, want a socket with 0600", mode)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; uid != wantUID {
		t.Errorf("owner is %d, want %d", uid, wantUID)
	}
	if old := syscall.Umask(0o022); old == 0o177 {
		t.Error("the file mode mask stayed")
	} else {
		syscall.Umask(old)
	}

	// A live one is in use.
	if _, err := tryListen(t, "unix:"+path, env); err == nil || !strings.Contains(err.Error(), "unix:"+path) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second server gets %v", err)
	}

	// Closing removes it; one that a dead server left is replaced.
	l.Close()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket file is still there: %v", err)
	}
	stale, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close()
	mustListen(t, "unix:"+path, env)
}

func TestListenUnixLeavesFilesAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tryListen(t, "unix:"+path, noEnv); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "precious" {
		t.Errorf("the file is %q, %v", text, err)
	}
}
