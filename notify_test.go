package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestManager(t *testing.T) {
	for _, at := range []string{filepath.Join(t.TempDir(), "notify"), fmt.Sprintf("@procinsh-test-%d", os.Getpid())} {
		l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		m, err := newManager(envOf("NOTIFY_SOCKET", at))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.ready(); err != nil {
			t.Fatal(err)
		}
		if err := l.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		n, err := l.Read(b)
		if err != nil || string(b[:n]) != "READY=1" {
			t.Errorf("%s got %q, %v", at, b[:n], err)
		}
		if _, err := m.conn.Write([]byte("more")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("it stays open: %v", err)
		}
	}

	m, err := newManager(envOf())
	if m != nil || err != nil || m.ready() != nil {
		t.Errorf("without a manager: %v, %v", m, err)
	}
	if _, err := newManager(envOf("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a socket that is not there: %v", err)
	}
	if _, err := newManager(envOf("NOTIFY_SOCKET", "vsock:2:1234")); err == nil {
		t.Error("an address of another kind was taken")
	}
}
