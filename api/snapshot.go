package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"procinsh/proc"
	"procinsh/ptrace"
)

const (
	maxBodyBytes = 64 << 10 // body of a request
	// maxWaitingSnapshots is how many requests wait while a snapshot is taken.
	maxWaitingSnapshots = 16
	// snapshotTimeout is how long one of those waits before it is refused.
	snapshotTimeout = 10 * time.Second
	// bodyTimeout is how long a client may take to send its body.
	bodyTimeout = 10 * time.Second
)

var errSnapshotsBusy = &httpError{status: http.StatusTooManyRequests, code: "busy", retryAfter: 2,
	message: "Other snapshots are under way, and one is taken at a time: try again in some seconds."}

// taker is ptrace.Take.
type taker func(ctx context.Context, fs *proc.FS, id proc.ID, symbols *ptrace.Symbols) (*ptrace.Snapshot, error)

// turns lets one snapshot run at a time. Those that wait are served in the order of
// their arrival, as senders on a channel are.
type turns struct {
	running chan struct{} // holds one
	waiting chan struct{}
	timeout time.Duration
}

func newTurns() turns {
	return turns{make(chan struct{}, 1), make(chan struct{}, maxWaitingSnapshots), snapshotTimeout}
}

// enter waits for the turn; the caller ends it with leave.
//
// Errors: errSnapshotsBusy; that of ctx, when nobody waits for the answer any more.
func (t *turns) enter(ctx context.Context) error {
	select {
	case t.running <- struct{}{}:
		return nil
	default:
	}
	select {
	case t.waiting <- struct{}{}:
		defer func() { <-t.waiting }()
	default:
		return errSnapshotsBusy
	}
	timer := time.NewTimer(t.timeout)
	defer timer.Stop()
	select {
	case t.running <- struct{}{}:
		return nil
	case <-timer.C:
		return errSnapshotsBusy
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *turns) leave() { <-t.running }

// postSnapshot stops all threads of a process for a moment. A process that is
// known to be the wrong one is refused at once; all is checked again when its turn
// has come, and by the capture itself.
func (s *Server) postSnapshot(w http.ResponseWriter, r *http.Request) error {
	id, err := readSnapshotRequest(w, r)
	if err != nil {
		return err
	}
	if err := s.checkIdentity(id); err != nil {
		return err
	}
	began := time.Now()
	body, err := s.snapshot(r.Context(), id, began)
	if err != nil {
		return err
	}
	reply(w, r, http.StatusOK, "application/json", body)
	return nil
}

// snapshot waits for its turn and returns the encoded answer. The turn ends before
// the answer is sent, which depends on the client.
func (s *Server) snapshot(ctx context.Context, id proc.ID, began time.Time) ([]byte, error) {
	if err := s.turns.enter(ctx); err != nil {
		return nil, err
	}
	defer s.turns.leave()
	waited := time.Since(began)
	if err := s.checkIdentity(id); err != nil {
		return nil, err
	}
	snapshot, err := s.take(ctx, s.fs, id, s.symbols)
	if err != nil {
		s.metrics.failedSnapshots.Add(1)
		return nil, err
	}
	s.metrics.pauses.Add(snapshot.Paused)
	body := AppendSnapshot(nil, snapshot)
	s.log.Debug("snapshot", "pid", id.PID, "threads", len(snapshot.Threads), "not_stopped", len(snapshot.NotStopped),
		"paused_ms", milliseconds(snapshot.Paused), "passes", snapshot.Passes, "priority", string(snapshot.Priority),
		"waited_ms", milliseconds(waited), "total_ms", milliseconds(time.Since(began)), "warnings", len(snapshot.Warnings), "bytes", len(body))
	return body, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (s *Server) checkIdentity(id proc.ID) error {
	if int(id.PID) == os.Getpid() {
		return ptrace.ErrSelf
	}
	p, err := s.fs.OpenProcess(id)
	if err != nil {
		return err
	}
	return p.Close()
}

// readSnapshotRequest reads the body whole, so that the server notices when the
// client goes away, and takes the identity from it.
func readSnapshotRequest(w http.ResponseWriter, r *http.Request) (proc.ID, error) {
	body, err := readJSON(w, r)
	if err != nil {
		return proc.ID{}, err
	}
	// Names are compared exactly and numbers kept as text: package json would take
	// "PID" for pid and tell a number that is too large only by its message.
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return proc.ID{}, badRequest("invalid_json", "The body is no valid JSON at byte "+strconv.FormatInt(syntax.Offset, 10)+".")
		}
		return proc.ID{}, unprocessable("invalid_body", `The body has to be an object: {"pid": 1, "start_time_ticks": 1}.`)
	}
	pid, err := positive(fields, "pid", 31)
	if err != nil {
		return proc.ID{}, err
	}
	ticks, err := positive(fields, "start_time_ticks", 64)
	if err != nil {
		return proc.ID{}, err
	}
	return proc.ID{PID: int32(pid), StartTicks: ticks}, nil
}

// positive reads a field that is a whole number from 1 on.
func positive(fields map[string]json.RawMessage, name string, bits int) (uint64, error) {
	text, ok := fields[name]
	if !ok {
		return 0, unprocessable("missing_"+name, "Field "+name+" is missing: a process is named by pid and start_time_ticks, as in the list.")
	}
	n, err := strconv.ParseUint(string(text), 10, bits)
	if err != nil || n == 0 {
		return 0, unprocessable("invalid_"+name, "Field "+name+" has to be a whole number above 0 that fits into "+strconv.Itoa(bits)+" bits.")
	}
	return n, nil
}

// readJSON returns the whole body of a request.
func readJSON(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	return readLimited(w, r, maxBodyBytes)
}

// readLimited is readJSON for a body of at most so many bytes.
func readLimited(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	encoding := r.Header.Get("Content-Encoding")
	if err != nil || kind != "application/json" || len(r.Header["Content-Type"]) != 1 || encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, &httpError{status: http.StatusUnsupportedMediaType, code: "not_json",
			message: "The body has to be plain JSON: send it with Content-Type: application/json."}
	}
	tooLarge := &httpError{status: http.StatusRequestEntityTooLarge, code: "body_too_large", message: "The body is longer than " + strconv.FormatInt(most>>10, 10) + " KiB."}
	if r.ContentLength > most {
		return nil, tooLarge
	}
	rc := http.NewResponseController(w)
	rc.SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &httpError{status: http.StatusRequestTimeout, code: "body_timeout", message: "The body did not arrive within 10 s.", err: err}
	case err != nil:
		return nil, &httpError{status: http.StatusBadRequest, code: "body_incomplete", message: "The body ended before its announced length.", err: err}
	}
	// From here on the server itself reads, to notice when the client goes away; a
	// deadline would look like that.
	rc.SetReadDeadline(time.Time{})
	return body, nil
}
