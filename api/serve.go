package api

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	headerTimeout  = 5 * time.Second // for a client to send its headers
	idleTimeout    = time.Minute     // of a connection between two requests
	maxHeaderBytes = 16 << 10
	// maxRequests is how many requests one connection of HTTP/2 carries at a time.
	maxRequests = 100
	// http2Buffer is how much of request bodies that nobody has read yet is kept for
	// a connection of HTTP/2: the longest body that most routes take.
	http2Buffer = maxBodyBytes
	// drainTimeout is how long Shutdown waits for answers under way.
	drainTimeout = time.Second
)

func (s *Server) newHTTP(t *tls.Config) *http.Server {
	if t != nil {
		// Else net/http adds these when the first listener is served, which for a plain
		// one may be beside that.
		t = t.Clone()
		t.NextProtos = []string{"h2", "http/1.1"}
	}
	return &http.Server{
		Handler:           unwantedBodies{s, bodyTimeout},
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes - headerSlop,
		BaseContext:       func(net.Listener) context.Context { return s.ctx },
		ConnContext:       connContext,
		ConnState:         s.connState,
		ErrorLog:          log.New(&serverLog{s: s}, "", 0),
		// OPTIONS * goes through the guard like everything else.
		DisableGeneralOptionsHandler: true,
		TLSConfig:                    t,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          maxRequests,
			MaxReceiveBufferPerConnection: http2Buffer,
			MaxReceiveBufferPerStream:     http2Buffer,
			WriteByteTimeout:              writeTimeout,
		},
	}
}

// unwantedBodies reads the body of a request that needs none, with an end.
// net/http would wait for it before it sends the answer, for ever when it does not
// come; of a connection that is closed after the answer it would leave it unread, and
// the reset that follows takes the answer from a client that still sends. The body of
// a POST is its handler's first, but one that is refused before has no handler. Not
// ReadTimeout: that ends every stream as well.
type unwantedBodies struct {
	http.Handler
	timeout time.Duration // for the body to come
}

// maxUnwanted is how much of a body that nobody needs is read; beyond, the connection
// is closed once the answer had time to arrive.
const maxUnwanted = 256 << 10

func (h unwantedBodies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 { // -1: unknown
		h.Handler.ServeHTTP(w, r)
		return
	}
	rc := http.NewResponseController(w)
	rc.SetReadDeadline(time.Now().Add(h.timeout))
	if r.Method == http.MethodPost {
		h.Handler.ServeHTTP(w, r)
		skip(w, r)
		return
	}
	if skip(w, r) {
		// From here on the server itself reads, to notice when the client goes away.
		rc.SetReadDeadline(time.Time{})
	} else {
		w.Header().Set("Connection", "close")
	}
	h.Handler.ServeHTTP(w, r)
}

// skip reads what is left of a body, and tells whether that was all.
func skip(w http.ResponseWriter, r *http.Request) bool {
	if r.Header["Expect"] != nil { // such a client waits for a word before it sends
		return false
	}
	_, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxUnwanted))
	return err == nil
}

// headerSlop is what net/http reads beyond MaxHeaderBytes before it refuses.
const headerSlop = 4096

// Serve answers on l until Shutdown, with TLS when Options have it and l is of TCP.
// It may be called for several listeners.
//
// Errors: http.ErrServerClosed after Shutdown, else why accepting failed.
func (s *Server) Serve(l net.Listener) error {
	_, tcp := l.Addr().(*net.TCPAddr)
	at := &place{l.Addr(), tcp && s.tls}
	if at.tls {
		return s.http.ServeTLS(listener{l, &s.peers, at}, "", "")
	}
	return s.http.Serve(listener{l, &s.peers, at})
}

// Shutdown ends every stream, waits shortly for the other answers and closes all
// connections and listeners.
func (s *Server) Shutdown() {
	s.stop()
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
}

// serverLog takes what net/http itself has to say; a message that repeats is
// logged once.
type serverLog struct{ s *Server }

// ofClients begin what net/http says of a client and its address, which whoever
// reaches the port can make it say as often as they like: a scanner, one that does not
// trust us, one that breaks the rules of HTTP/2.
var ofClients = []string{"http: TLS handshake error", "http2: server connection error from", "http2: server: error reading preface from client"}

func (l *serverLog) Write(b []byte) (int, error) {
	text := strings.TrimSpace(string(b))
	if slices.ContainsFunc(ofClients, func(start string) bool { return strings.HasPrefix(text, start) }) {
		l.s.log.Debug(text)
		return len(b), nil
	}
	what, _, _ := strings.Cut(text, "; retrying")
	if l.s.warned.firstText("http", what) {
		l.s.log.Warn(what)
	}
	return len(b), nil
}

// warned remembers what was said last about each subject, so that a failure that
// repeats is one line.
type warned struct {
	mu   sync.Mutex
	last map[string]string
}

func (w *warned) first(subject string, err error) bool { return w.firstText(subject, err.Error()) }

func (w *warned) firstText(subject, text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last[subject] == text {
		return false
	}
	if w.last == nil {
		w.last = map[string]string{}
	}
	w.last[subject] = text
	return true
}
