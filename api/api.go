package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"procinsh/proc"
	"procinsh/ptrace"
	"procinsh/run"
	"procinsh/watch"
)

// Options are what a Server is made of.
type Options struct {
	FS        *proc.FS
	List      *watch.List
	Processes *watch.Processes
	System    *watch.System
	Symbols   *ptrace.Symbols
	Pages     fs.FS // the compiled pages
	Log       *slog.Logger
	Runs      *run.Client // nil: no program is started

	Sandbox    Sandbox     // what was given up before; its capabilities are read anew
	AllowUIDs  []uint32    // users of this machine that may ask
	Token      string      // who shows it may ask, "" without one
	NoAuth     bool        // everybody may ask
	AllowHosts []string    // names that Host may have, beside the addresses
	TLS        *tls.Config // of the TCP listeners, nil for plain HTTP

	Version  string
	Revision string        // of the sources, "" unknown
	Interval time.Duration // between observations of a watched process
}

// Server answers HTTP. Make it with New, hand it listeners with Serve.
type Server struct {
	fs        *proc.FS
	list      *watch.List
	processes *watch.Processes
	system    *watch.System
	symbols   *ptrace.Symbols
	runs      *run.Client
	log       *slog.Logger
	peers     peers
	hosts     []string
	tls       bool // of TCP listeners; net/http fills its own configuration in
	conns     conns
	config    Config
	metrics   *metrics
	pages     pages
	mux       *http.ServeMux
	heavy     chan struct{} // a token for each heavy request under way
	late      lateReadings
	turns     turns // of snapshots
	take      taker // ptrace.Take, but in tests
	scanners  scanners
	streams   atomic.Uint64 // numbers the streams for the log
	warned    warned

	http *http.Server
	ctx  context.Context // ends when the server stops
	stop context.CancelFunc
}

// New returns a server that listens nowhere yet.
//
// Errors: the pages cannot be listed.
func New(o Options) (*Server, error) {
	s := &Server{
		fs: o.FS, list: o.List, processes: o.Processes, system: o.System, symbols: o.Symbols, runs: o.Runs, log: o.Log,
		peers:    peers{uids: slices.Clone(o.AllowUIDs), all: o.NoAuth, token: newToken(o.Token), tcpOwner: proc.SocketOwner},
		hosts:    slices.Clone(o.AllowHosts),
		tls:      o.TLS != nil,
		conns:    newConns(),
		config:   newConfig(o),
		metrics:  newMetrics(o),
		mux:      http.NewServeMux(),
		heavy:    make(chan struct{}, maxHeavyRequests),
		turns:    newTurns(),
		take:     ptrace.Take,
		scanners: newScanners(o.FS),
	}
	var err error
	if s.pages, err = findPages(o.Pages); err != nil {
		return nil, err
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	for _, r := range routes {
		s.route(r.method+" "+r.pattern, r.handle)
		if r.stream {
			s.route("HEAD "+r.pattern, refuseHead)
		}
	}
	for name := range s.pages.assets {
		if path.Ext(name) != ".html" && name != licensesFile { // a page has a route of its own
			s.route("GET /"+name, (*Server).asset)
		}
	}
	s.http = s.newHTTP(o.TLS)
	return s, nil
}

// ServeHTTP answers one request: headers, guard, peer, route, error. A panic costs
// its own request only.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := &response{ResponseWriter: w, log: s.log, count: &s.metrics.responses, request: r, began: time.Now()}
	setHeaders(w.Header())
	err := s.dispatch(out, r)
	if err == nil {
		return
	}
	if errors.Is(err, context.Canceled) {
		err = errClientLeft
		if s.ctx.Err() != nil {
			err = watch.ErrStopping
		}
	}
	e := statusOf(err)
	if e.status == http.StatusInternalServerError {
		s.logFailure(r, err, e)
	}
	if out.status != 0 {
		panic(http.ErrAbortHandler) // half an answer must not look whole
	}
	out.failure = e
	replyError(out, r, e)
}

// errClientLeft reaches nobody, or a client that has ended its own half of the
// connection and still reads: nothing tells the two apart.
var errClientLeft error = &httpError{status: http.StatusBadRequest, code: "client_closed",
	message: "The connection was closed for sending before the answer was ready: keep it open until the answer has come."}

// dispatch finds and runs the handler; what it returns was not answered.
func (s *Server) dispatch(w *response, r *http.Request) (err error) {
	defer func() {
		if v := recover(); v != nil {
			if v == http.ErrAbortHandler {
				panic(v)
			}
			err = &watch.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	if err := s.guard(r); err != nil {
		return err
	}
	text, given := pageToken(r)
	signIn := given && s.peers.token.is(text)
	if !signIn && r.URL.Path != healthPath {
		if err := s.peers.check(r); err != nil {
			s.warnPeer(err)
			return err
		}
	}
	if s.ctx.Err() != nil {
		return watch.ErrStopping
	}
	if err := s.routed(r); err != nil {
		return err
	}
	if signIn {
		giveCookie(w, r, text)
		return nil
	}
	s.mux.ServeHTTP(w, r)
	return w.err
}

// response notes when and how an answer began, for the log.
type response struct {
	http.ResponseWriter
	log     *slog.Logger
	count   *responseCount
	request *http.Request
	began   time.Time
	status  int // 0 until the answer began
	err     error
	failure *httpError
}

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		w.count.add(status)
		w.logRequest()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *response) logRequest() {
	ctx := context.Background()
	if !w.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	args := []any{"method", w.request.Method, "path", w.request.URL.Path, "status", w.status,
		"wait_ms", strconv.FormatFloat(float64(time.Since(w.began).Microseconds())/1000, 'f', 3, 64)}
	if w.failure != nil {
		args = append(args, "error", w.failure.Error())
	}
	w.log.Debug("request", args...)
}

// logFailure logs a bug with its stack: that of the panic, or where its error came
// to light.
func (s *Server) logFailure(r *http.Request, err error, e *httpError) {
	if e == errAssetsMissing {
		if s.warned.first("pages", err) {
			s.log.Error("the pages are missing", "error", err)
		}
		return
	}
	args := []any{"method", r.Method, "path", r.URL.Path}
	var p *watch.PanicError
	if errors.As(err, &p) {
		args = append(args, "panic", fmt.Sprint(p.Value), "stack", string(p.Stack))
	} else {
		args = append(args, "error", err, "stack", string(debug.Stack()))
	}
	s.log.Error("request failed", args...)
}

// warnPeer warns when the kernel cannot tell who a peer is; that a peer closed
// already or is somebody else is no failure.
func (s *Server) warnPeer(err error) {
	var e *httpError
	if errors.As(err, &e) && e.err != nil && !errors.Is(e.err, proc.ErrNoOwner) && s.warned.first("peer", e.err) {
		s.log.Warn("the user of a connection is unknown", "error", e.err)
	}
}
