package api

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// errUnknownPeer says that the kernel names no live owner of the other end.
var errUnknownPeer = errors.New("the other end has no owner")

// peers tells who may ask: the users in uids, by the kernel's word on who owns the
// other end of a connection from this machine, and whoever shows the token.
type peers struct {
	uids  []uint32
	all   bool // --no-auth
	token token

	tcpOwner func(local, remote netip.AddrPort) (uint32, error) // proc.SocketOwner
}

// conn is a connection with its peer's user, asked for once, by the connection's
// own goroutine, before the first byte is read: accepting others never waits for
// it, and a client that sends and closes at once was asked about while the row was
// there, or is unknown.
type conn struct {
	net.Conn
	peers *peers
	at    *place

	once    sync.Once
	uid     uint32 // means nothing where the place is not local
	err     error
	refused atomic.Bool // of nobody who may ask, as far as is known

	use use
}

func (c *conn) Read(b []byte) (int, error) {
	c.once.Do(c.ask)
	return c.Conn.Read(b)
}

func (c *conn) ask() {
	if c.peers.all {
		return
	}
	if !c.at.local() {
		c.refused.Store(true) // until a request shows the token
		return
	}
	switch inner := c.Conn.(type) {
	case *net.TCPConn:
		client := inner.RemoteAddr().(*net.TCPAddr).AddrPort()
		server := inner.LocalAddr().(*net.TCPAddr).AddrPort()
		c.uid, c.err = c.peers.tcpOwner(unmap(client), unmap(server))
	case *net.UnixConn:
		c.uid, c.err = unixPeer(inner)
	default:
		c.err = errUnknownPeer
	}
	c.refused.Store(c.err != nil || !slices.Contains(c.peers.uids, c.uid))
}

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// unixPeer returns the user that connected.
//
// Source: SO_PEERCRED, unix(7).
func unixPeer(c *net.UnixConn) (uint32, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *syscall.Ucred
	var failure error
	if err := raw.Control(func(fd uintptr) {
		cred, failure = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if failure != nil {
		return 0, fmt.Errorf("read peer credentials: %w", failure)
	}
	return cred.Uid, nil
}

// check refuses a request of nobody who may ask.
func (p *peers) check(r *http.Request) error {
	if p.all {
		return nil
	}
	c := connOf(r.Context())
	if p.token.shown(r) {
		c.refused.Store(false)
		return nil
	}
	switch {
	case !c.at.local():
		return p.token.missing(r)
	case c.err != nil:
		return notAllowed("The kernel does not say who is at the other end of this connection.", c.err)
	case !slices.Contains(p.uids, c.uid):
		return notAllowed(fmt.Sprintf("The user with id %d may not use this procinsh.", c.uid), nil)
	}
	return nil
}

func notAllowed(what string, err error) error {
	return &httpError{status: http.StatusForbidden, code: "peer_not_allowed", err: err,
		message: what + " Ask as root or as the user who started it, show its token if it has one, or have it started with --allow-user NAME."}
}

// Write passes on what the server writes. A request that is too broken to reach a
// handler is answered by net/http itself, in plain text and without our headers;
// such an answer is put into the form that every error has.
func (c *conn) Write(b []byte) (int, error) {
	if text, ok := plainError(b); ok {
		if _, err := c.Conn.Write(ownError(text)); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// plainHeaders follow the status line of an answer that net/http gives itself;
// our own answers have their headers in the order of the alphabet.
const plainHeaders = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// plainToTLS is what net/http says, below TLS, to a client that speaks plain HTTP.
const plainToTLS = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"

func plainError(b []byte) (text string, ok bool) {
	if string(b) == plainToTLS {
		return plainToTLS, true
	}
	line, isHTTP := bytes.CutPrefix(b, []byte("HTTP/1.1 "))
	if !isHTTP || len(line) == 0 || line[0] != '4' && line[0] != '5' {
		return "", false
	}
	end := bytes.IndexByte(line, '\r')
	if end < 0 {
		return "", false
	}
	// 417 is given before any handler runs, with headers of its own.
	if !bytes.HasPrefix(line[end:], []byte(plainHeaders)) && !bytes.HasPrefix(line, []byte("417 ")) {
		return "", false
	}
	return string(line[:end]), true
}

// ownError is the answer for a status line such as "400 Bad Request: malformed
// Host header".
func ownError(line string) []byte {
	e := httpError{status: http.StatusBadRequest, code: "bad_request", message: "The request is no valid HTTP."}
	switch code, _, _ := strings.Cut(line, " "); {
	case line == plainToTLS:
		e = httpError{status: http.StatusBadRequest, code: "tls_required", message: "This port speaks TLS: open it as https://."}
	case strings.Contains(line, "Host header"):
		e = httpError{status: http.StatusForbidden, code: "host_not_allowed", message: "The Host header is missing or malformed."}
	case code == "431":
		e = httpError{status: http.StatusRequestHeaderFieldsTooLarge, code: "headers_too_large", message: "The header block is longer than 16 KiB."}
	case code == "501":
		e = httpError{status: http.StatusNotImplemented, code: "not_implemented", message: "This transfer encoding is not supported."}
	case code == "505":
		e = httpError{status: http.StatusHTTPVersionNotSupported, code: "http_version", message: "Only HTTP/1.0 and HTTP/1.1 are spoken here."}
	case code == "417":
		e = httpError{status: http.StatusExpectationFailed, code: "expectation_failed", message: "Only the expectation 100-continue is known."}
	}
	body := marshal(nil, ErrorAnswer{Error: e.message, Code: e.code})
	h := http.Header{}
	setHeaders(h)
	h.Set("Connection", "close")
	h.Set("Content-Length", fmt.Sprint(len(body)))
	h.Set("Content-Type", "application/json")
	var out bytes.Buffer
	fmt.Fprintf(&out, "HTTP/1.1 %d %s\r\n", e.status, http.StatusText(e.status))
	h.Write(&out) // into memory
	out.WriteString("\r\n")
	out.Write(body)
	return out.Bytes()
}
