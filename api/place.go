package api

import (
	"context"
	"crypto/tls"
	"net"
	"syscall"
)

// place is where connections come in.
type place struct {
	addr net.Addr // that is listened on
	tls  bool
}

// local tells whether only this machine gets here, so that the kernel knows whose
// the other end is.
func (p *place) local() bool {
	a, ok := p.addr.(*net.TCPAddr)
	return !ok || a.IP.IsLoopback()
}

func (p *place) scheme() string {
	if p.tls {
		return "https"
	}
	return "http"
}

func (p *place) defaultPort() int {
	if p.tls {
		return 443
	}
	return 80
}

// advice is how to open the place, for people.
func (p *place) advice() string {
	switch a, ok := p.addr.(*net.TCPAddr); {
	case !ok:
		return "open it as http://localhost/."
	case a.IP.IsUnspecified():
		return "open it by an IP address of this machine, or have it started with --allow-host NAME."
	default:
		return "open it as " + p.scheme() + "://" + a.String() + "/, or have it started with --allow-host NAME."
	}
}

// listener hands out connections that know where they came in and who is at the
// other end.
type listener struct {
	net.Listener
	peers *peers
	at    *place
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		endStalled(tcp)
	}
	return &conn{Conn: c, peers: l.peers, at: l.at}, nil
}

// endStalled makes the kernel end a connection whose client takes nothing for
// writeTimeout. A deadline for writing begins only when the kernel's buffer is full,
// which small events may take hours for. Without it, that deadline stands.
//
// Source: TCP_USER_TIMEOUT, tcp(7), 2.6.37; of a closed window tcp_probe_timer of
// net/ipv4/tcp_timer.c.
func endStalled(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(writeTimeout.Milliseconds()))
	})
}

const tcpUserTimeout = 18 // TCP_USER_TIMEOUT, include/uapi/linux/tcp.h, 2.6.37

type connKey struct{}

// connContext makes the connection known to its requests.
func connContext(ctx context.Context, nc net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, ownConn(nc))
}

// ownConn is the connection as the listener gave it out, below TLS.
func ownConn(nc net.Conn) *conn {
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	return nc.(*conn)
}

// connOf is the connection of a request.
func connOf(ctx context.Context) *conn { return ctx.Value(connKey{}).(*conn) }
