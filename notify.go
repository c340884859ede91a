package main

import (
	"fmt"
	"net"
	"strings"
	"time"
)

// notifyTimeout is how long a service manager may leave a message unread.
const notifyTimeout = 5 * time.Second

// manager is the service manager that waits for the server to be ready; nil when
// none does.
type manager struct{ conn net.Conn }

// newManager connects to the socket that $NOTIFY_SOCKET names, which the sandbox
// would refuse later.
//
// Errors: nobody reads there.
// Source: sd_notify(3); a path, or @ and an abstract name.
func newManager(env func(string) string) (*manager, error) {
	at := env("NOTIFY_SOCKET")
	if at == "" {
		return nil, nil
	}
	if !strings.HasPrefix(at, "/") && !strings.HasPrefix(at, "@") {
		return nil, fmt.Errorf("NOTIFY_SOCKET is neither a path nor an abstract name: %q", at)
	}
	conn, err := net.DialTimeout("unixgram", at, notifyTimeout)
	if err != nil {
		return nil, err
	}
	return &manager{conn}, nil
}

// ready says that the server is, once. Nothing is left open that could reach the
// manager.
func (m *manager) ready() error {
	if m == nil {
		return nil
	}
	defer m.conn.Close()
	if err := m.conn.SetWriteDeadline(time.Now().Add(notifyTimeout)); err != nil {
		return err
	}
	_, err := m.conn.Write([]byte("READY=1"))
	return err
}
