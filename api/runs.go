package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"procinsh/run"
)

// The types of package run that are answered have the shape of the contract types of
// the same meaning; a test compares them field by field.

// maxRunBody is how long the body of a launch and of an input may be.
const maxRunBody = 1 << 20

var errRunsDisabled = &httpError{status: http.StatusForbidden, code: "runs_disabled",
	message: "This procinsh starts no programs: start it with --runs."}

// runStatus are the statuses of the codes of package run.
var runStatus = map[string]int{
	run.CodeInvalidID: 400, run.CodeInvalidProcess: 400, run.CodeUnknownKey: 400, run.CodeUnknownRoot: 400, run.CodeInvalidCwd: 400,
	run.CodeBadRequest: 422, run.CodeSpawnFailed: 422,
	run.CodeCommandDenied: 403, run.CodeUserUnknown: 403, run.CodeProtected: 403, run.CodeNotInRun: 403,
	run.CodeNotFound: 404, run.CodeNoProcess: 404, run.CodeNoDirectory: 404,
	run.CodeExists: 409, run.CodeStale: 409, run.CodeActive: 409, run.CodeEnded: 409, run.CodeStdinClosed: 409, run.CodeNoTerminal: 409,
	run.CodeBusy: 429, run.CodeStopIncomplete: 504, run.CodeHelperSilent: 504, run.CodeHelperGone: 503,
}

// runError is the answer for an error of a run; nil for any other.
func runError(err error) *httpError {
	var e *run.Error
	switch {
	case errors.Is(err, run.ErrFull):
		return &httpError{status: http.StatusTooManyRequests, code: "too_many_streams", retryAfter: 5, err: err,
			message: "All streams of this kind are in use: close one, or try again later."}
	case !errors.As(err, &e):
		return nil
	}
	h := &httpError{status: runStatus[e.Code], code: e.Code, message: e.Message, err: err}
	if h.status == http.StatusTooManyRequests || h.status == http.StatusServiceUnavailable {
		h.retryAfter = 1
	}
	return h
}

// runsHandler is a handler that exists only with --runs.
func runsHandler(h func(s *Server, w http.ResponseWriter, r *http.Request, q query) error) handler {
	return func(s *Server, w http.ResponseWriter, r *http.Request) error {
		if s.runs == nil {
			return errRunsDisabled
		}
		q, err := parseQuery(r)
		if err != nil {
			return err
		}
		return h(s, w, r, q)
	}
}

// number reads a whole number from 0 to most.
func (q query) number(name string, otherwise, most int64) (int64, error) {
	text, given, err := q.one(name)
	if err != nil || !given {
		return otherwise, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, badRequest("invalid_"+name, "Parameter "+name+" has to be a whole number from 0 to "+strconv.FormatInt(most, 10)+".")
	}
	return n, nil
}

// oneOf reads a parameter with a few values.
func (q query) oneOf(name string, values ...string) (string, error) {
	text, given, err := q.one(name)
	if err != nil || !given {
		return "", err
	}
	for _, v := range values {
		if text == v {
			return text, nil
		}
	}
	return "", badRequest("invalid_"+name, "Parameter "+name+" has to be one of "+strings.Join(values, ", ")+".")
}

// readBody decodes a JSON body; none at all is as {}.
func readBody(w http.ResponseWriter, r *http.Request, most int64, v any) error {
	if r.ContentLength == 0 {
		return nil
	}
	body, err := readLimited(w, r, most)
	if err != nil {
		return err
	}
	err = json.Unmarshal(body, v)
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind):
		return unprocessable("bad_request", "Field "+kind.Field+" is no "+kind.Type.String()+".")
	case err != nil:
		return badRequest("malformed_json", "The body is no valid JSON.")
	}
	return nil
}

// peerUID is the user who asks, nil when nobody knows.
func peerUID(r *http.Request) *uint32 {
	c := connOf(r.Context())
	if c.err != nil || c.peers.all || !c.at.local() {
		return nil
	}
	uid := c.uid
	return &uid
}

func (s *Server) postRun(w http.ResponseWriter, r *http.Request, _ query) error {
	var b RunRequest
	if err := readBody(w, r, maxRunBody, &b); err != nil {
		return err
	}
	l := run.Launch{
		Argv: b.Argv, Command: b.Command, Cwd: b.Cwd, Env: b.Env, ID: b.ID, Scope: b.Scope, Replace: b.Replace, Fallback: b.Fallback, Stdin: b.Stdin,
		Input: b.Input, UID: peerUID(r), User: b.User, TimeoutMS: b.TimeoutMS, SilenceMS: b.NoOutputTimeoutMS, Watchdog: b.Watchdog, GraceMS: b.GraceMS,
		Leftovers: b.Leftovers, MaxOutput: b.MaxOutputBytes, WaitMS: b.WaitMS, Disconnect: b.OnDisconnect,
	}
	if b.PTY != nil {
		l.PTY = &run.Size{Columns: 120, Rows: 30}
		if b.PTY.Columns != 0 || b.PTY.Rows != 0 {
			l.PTY = &run.Size{Columns: b.PTY.Columns, Rows: b.PTY.Rows}
		}
	}
	st, err := s.runs.Create(r.Context(), l)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/api/runs/"+st.ID)
	status := http.StatusCreated
	if b.WaitMS > 0 {
		status = http.StatusAccepted
		if st.Ended() || st.Exit != nil && st.State == run.StateDraining {
			status = http.StatusOK
		}
	}
	reply(w, r, status, "application/json", marshal(nil, st))
	return nil
}

func (s *Server) getRuns(w http.ResponseWriter, r *http.Request, q query) error {
	state, err := q.oneOf("state", "starting", "running", "stopping", "draining", "exited", "failed")
	if err != nil {
		return err
	}
	f := run.Filter{State: run.State(state)}
	if f.Scope, _, err = q.one("scope"); err != nil {
		return err
	}
	if f.Text, _, err = q.one("q"); err != nil {
		return err
	}
	limit, err := q.number("limit", 0, 1<<31-1)
	if err != nil {
		return err
	}
	f.Limit = int(limit)
	list, err := s.runs.List(r.Context(), f)
	if err != nil {
		return err
	}
	replyValue(w, r, list)
	return nil
}

func (s *Server) getRun(w http.ResponseWriter, r *http.Request, q query) error {
	until, err := q.oneOf("until", "exited", "root", "output")
	if err != nil {
		return err
	}
	wait, err := q.number("wait_ms", 0, 120_000)
	if err != nil {
		return err
	}
	st, err := s.runs.Get(r.Context(), run.GetQuery{ID: r.PathValue("id"), Until: until, WaitMS: wait})
	if err != nil {
		return err
	}
	replyValue(w, r, st)
	return nil
}

func (s *Server) getRunProcesses(w http.ResponseWriter, r *http.Request, q query) error {
	view, err := q.oneOf("view", "left", "all")
	if err != nil {
		return err
	}
	role, err := q.oneOf("role", "root", "started", "orphan", "support")
	if err != nil {
		return err
	}
	ports, err := q.choice("ports", "1")
	if err != nil {
		return err
	}
	udp, err := q.choice("udp", "1")
	if err != nil {
		return err
	}
	m, err := s.runs.Processes(r.Context(), run.MembersQuery{ID: r.PathValue("id"), View: view, Role: run.Role(role), Port: ports || udp, UDP: udp})
	if err != nil {
		return err
	}
	replyValue(w, r, m)
	return nil
}

// The headers of output as text or bytes.
const (
	nextHeader    = "X-Next-Offset"
	droppedHeader = "X-Dropped"
	eofHeader     = "X-EOF"
)

func (s *Server) getRunOutput(w http.ResponseWriter, r *http.Request, q query) error {
	since, err := q.number("since", 0, 1<<62)
	if err != nil {
		return err
	}
	most, err := q.number("max", 0, 1<<30)
	if err != nil {
		return err
	}
	wait, err := q.number("wait_ms", 0, 30_000)
	if err != nil {
		return err
	}
	only, err := q.oneOf("stream", "stdout", "stderr", "terminal")
	if err != nil {
		return err
	}
	format, err := q.oneOf("format", "json", "text")
	if err != nil {
		return err
	}
	raw, err := q.choice("raw", "1")
	if err != nil {
		return err
	}
	o, err := s.runs.Output(r.Context(), run.OutputQuery{ID: r.PathValue("id"), Since: since, Max: int(most), WaitMS: wait, Stream: run.Stream(only)})
	if err != nil {
		return err
	}
	if raw || format == "text" {
		var all []byte
		for _, c := range o.Chunks {
			all = append(all, c.Data...)
		}
		kind := "application/octet-stream"
		if !raw {
			kind, all = "text/plain; charset=utf-8", []byte(run.PlainText(all))
		}
		h := w.Header()
		h.Set(nextHeader, strconv.FormatInt(o.Next, 10))
		h.Set(droppedHeader, strconv.FormatInt(o.Dropped, 10))
		h.Set(eofHeader, strconv.FormatBool(o.EOF))
		reply(w, r, http.StatusOK, kind, all)
		return nil
	}
	a := RunOutput{From: o.From, Next: o.Next, Dropped: o.Dropped, EOF: o.EOF, Chunks: []RunChunk{}}
	for _, c := range o.Chunks {
		a.Chunks = append(a.Chunks, RunChunk{Stream: string(c.Stream), From: c.From, Text: c.Text()})
	}
	replyValue(w, r, a)
	return nil
}

func (s *Server) getRunLog(w http.ResponseWriter, r *http.Request, q query) error {
	l := run.LogQuery{ID: r.PathValue("id")}
	if _, given := q["offset"]; given {
		n, err := q.number("offset", 0, 1<<31-1)
		if err != nil {
			return err
		}
		offset := int(n)
		l.Offset = &offset
	}
	limit, err := q.number("limit", 0, 1<<31-1)
	if err != nil {
		return err
	}
	tail, err := q.number("tail", 0, 1<<31-1)
	if err != nil {
		return err
	}
	l.Limit, l.Tail = int(limit), int(tail)
	a, err := s.runs.Log(r.Context(), l)
	if err != nil {
		return err
	}
	replyValue(w, r, a)
	return nil
}

func (s *Server) postRunInput(w http.ResponseWriter, r *http.Request, _ query) error {
	var b RunInput
	if err := readBody(w, r, maxRunBody, &b); err != nil {
		return err
	}
	q := run.InputRequest{ID: r.PathValue("id"), Text: b.Text, Keys: b.Keys, Hex: b.Hex, Literal: b.Literal, Paste: b.Paste, Bracketed: b.Bracketed,
		Submit: b.Submit, EOF: b.EOF}
	if b.Base64 != nil {
		data, err := base64.StdEncoding.DecodeString(*b.Base64)
		if err != nil {
			return unprocessable("bad_request", "Field base64 is no base64.")
		}
		q.Bytes = append([]byte{}, data...)
	}
	a, err := s.runs.Input(r.Context(), q)
	if err != nil {
		return err
	}
	replyValue(w, r, a)
	return nil
}

func (s *Server) postRunResize(w http.ResponseWriter, r *http.Request, _ query) error {
	var b TerminalSize
	if err := readBody(w, r, maxBodyBytes, &b); err != nil {
		return err
	}
	q := run.ResizeRequest{ID: r.PathValue("id"), Size: run.Size{Columns: b.Columns, Rows: b.Rows}}
	if err := s.runs.Resize(r.Context(), q); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) postRunStop(w http.ResponseWriter, r *http.Request, _ query) error {
	var b RunStopRequest
	if err := readBody(w, r, maxBodyBytes, &b); err != nil {
		return err
	}
	q := run.StopQuery{ID: r.PathValue("id"), Process: r.PathValue("process"), GraceMS: b.GraceMS, Signal: b.Signal, WaitMS: b.WaitMS}
	stop := s.runs.Stop
	if q.Process != "" {
		stop = s.runs.StopProcess
	}
	st, err := stop(r.Context(), q)
	if err != nil {
		return err
	}
	if st.Pending {
		reply(w, r, http.StatusAccepted, "application/json", marshal(nil, st))
		return nil
	}
	if len(st.Survivors) > 0 {
		reply(w, r, http.StatusGatewayTimeout, "application/json", marshal(nil, RunStopIncomplete{
			Error: "These processes do not end, the kernel holds them: " + strings.Join(st.Survivors, ", ") + ".", Code: run.CodeStopIncomplete,
			Stopped: st.Stopped, Survivors: st.Survivors, TookMS: st.TookMS,
		}))
		return nil
	}
	replyValue(w, r, st)
	return nil
}

func (s *Server) postRunProcess(w http.ResponseWriter, r *http.Request, _ query) error {
	var b Identity
	if err := readBody(w, r, maxBodyBytes, &b); err != nil {
		return err
	}
	if b.PID <= 0 {
		return unprocessable("bad_request", "Give pid and start_time_ticks, as in the list.")
	}
	a, err := s.runs.Take(r.Context(), run.TakeRequest{ID: r.PathValue("id"), PID: b.PID, StartTicks: b.StartTimeTicks})
	if err != nil {
		return err
	}
	replyValue(w, r, a)
	return nil
}

func (s *Server) getScope(w http.ResponseWriter, r *http.Request, _ query) error {
	a, err := s.runs.Scope(r.Context(), run.ScopeQuery{Scope: r.PathValue("scope")})
	if err != nil {
		return err
	}
	replyValue(w, r, a)
	return nil
}

func (s *Server) getScopeProcesses(w http.ResponseWriter, r *http.Request, _ query) error {
	a, err := s.runs.Scope(r.Context(), run.ScopeQuery{Scope: r.PathValue("scope")})
	if err != nil {
		return err
	}
	replyValue(w, r, a.Members)
	return nil
}

func (s *Server) postScopeStop(w http.ResponseWriter, r *http.Request, _ query) error {
	var b RunStopRequest
	if err := readBody(w, r, maxBodyBytes, &b); err != nil {
		return err
	}
	list, err := s.runs.StopScope(r.Context(), run.ScopeQuery{Scope: r.PathValue("scope"), GraceMS: b.GraceMS, Signal: b.Signal, WaitMS: b.WaitMS})
	if err != nil {
		return err
	}
	a, status := ScopeStopped{Runs: []RunStopped{}}, http.StatusOK
	for _, st := range list {
		a.Runs = append(a.Runs, RunStopped(st))
		if st.Pending {
			status = http.StatusAccepted
		}
	}
	reply(w, r, status, "application/json", marshal(nil, a))
	return nil
}

func (s *Server) deleteRun(w http.ResponseWriter, r *http.Request, q query) error {
	force, err := q.choice("force", "1")
	if err != nil {
		return err
	}
	if err := s.runs.Delete(r.Context(), run.DeleteQuery{ID: r.PathValue("id"), Force: force}); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) deleteRuns(w http.ResponseWriter, r *http.Request, q query) error {
	if _, err := q.oneOf("state", "exited"); err != nil {
		return err
	}
	scope, _, err := q.one("scope")
	if err != nil {
		return err
	}
	a, err := s.runs.Clear(r.Context(), run.DeleteQuery{Scope: scope})
	if err != nil {
		return err
	}
	replyValue(w, r, a)
	return nil
}

func (s *Server) getRunCapabilities(w http.ResponseWriter, r *http.Request, _ query) error {
	a, err := s.runs.Capabilities(r.Context())
	if err != nil {
		return err
	}
	replyValue(w, r, a)
	return nil
}

// streamRuns is GET /api/runs/events. A client that comes back says with Last-Event-ID
// where it was and gets what it missed, or a gap that says how much is lost. A page says
// it with last_event_id: it cannot set a header of a stream that it opens.
func (s *Server) streamRuns(w http.ResponseWriter, r *http.Request, q query) error {
	scope, _, err := q.one("scope")
	if err != nil {
		return err
	}
	since, given, err := q.one("last_event_id")
	if err != nil {
		return err
	}
	if text := r.Header.Get("Last-Event-ID"); text != "" {
		since, given = text, true
	}
	events := s.runs.Events()
	last, leave, err := events.Enter()
	if err != nil {
		return err
	}
	defer leave()
	if given {
		if last, err = strconv.ParseUint(since, 10, 64); err != nil {
			return badRequest("invalid_last_event_id", "Last-Event-ID has to be the number of an event.")
		}
	}
	st, err := s.openStream(w, r)
	if err != nil {
		return nil // the client is gone
	}
	defer st.end()
	if st.keepAlive() != nil { // so that the client knows it is connected
		return nil
	}
	type batch struct {
		list []run.Event
		lost uint64
	}
	for {
		b, err := next(r.Context(), st, func(ctx context.Context) (b batch, err error) {
			b.list, b.lost, err = events.After(ctx, last)
			return b, err
		})
		if err != nil {
			return nil
		}
		if b.lost > 0 {
			last += b.lost
			gap := appendEvent(nil, "gap", func(d []byte) []byte { return marshal(d, RunGap{Lost: b.lost}) })
			if st.send("gap", pack(gap, st.packed)) != nil {
				return nil
			}
		}
		for _, e := range b.list {
			last = e.Sequence
			if scope != "" && e.Scope != scope {
				continue
			}
			text := append(strconv.AppendUint([]byte("id: "), e.Sequence, 10), '\n')
			text = appendEvent(text, e.Type, func(d []byte) []byte { return marshal(d, e) })
			if st.send(e.Type, pack(text, st.packed)) != nil {
				return nil
			}
		}
	}
}
