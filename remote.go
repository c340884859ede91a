package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"procinsh/api"
	launcher "procinsh/run"
)

// remote speaks with a server over HTTP.
type remote struct {
	base   string
	token  string // "" without one
	client *http.Client
}

// tokenOf is the token that a client shows: from the file, else from the environment.
//
// Errors: one line that names the file.
func tokenOf(file string, env func(string) string) (string, error) {
	if file != "" {
		return readToken(file)
	}
	text := env("PROCINSH_TOKEN")
	if text != "" && !tokenForm.MatchString(text) {
		return "", errors.New("PROCINSH_TOKEN is no token: letters, digits and -._~+/")
	}
	return text, nil
}

// maxAnswer is how long an answer of a server may be.
const maxAnswer = 64 << 20

// newRemote returns a client of the server at http://…, https://…, or unix:PATH, that
// shows the token.
func newRemote(server, token string) (*remote, error) {
	if path, ok := strings.CutPrefix(server, "unix:"); ok {
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}
		return &remote{"http://localhost", token, &http.Client{Transport: &http.Transport{DialContext: dial}}}, nil
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("the server %q is neither http://ADDRESS:PORT, https://ADDRESS:PORT nor unix:PATH", server)
	}
	return &remote{u.Scheme + "://" + u.Host, token, &http.Client{Transport: &http.Transport{}}}, nil
}

// open sends a request; the answer is a success and its body is to be closed.
//
// Errors: *launcher.Error as the server answers it.
func (r *remote) open(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		in = bytes.NewReader(b)
	}
	q, err := http.NewRequestWithContext(ctx, method, r.base+path, in)
	if err != nil {
		return nil, err
	}
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	if r.token != "" {
		q.Header.Set("Authorization", "Bearer "+r.token)
	}
	a, err := r.client.Do(q)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return nil, fmt.Errorf("ask %s: %w", r.base, err)
	}
	if a.StatusCode < 300 {
		return a, nil
	}
	defer a.Body.Close()
	b, err := io.ReadAll(io.LimitReader(a.Body, maxAnswer))
	var e api.ErrorAnswer
	if err != nil || json.Unmarshal(b, &e) != nil || e.Code == "" {
		return nil, fmt.Errorf("%s answered %s", r.base, a.Status)
	}
	return nil, &launcher.Error{Code: e.Code, Message: e.Error}
}

// ask sends a request and decodes the answer into v, or keeps it in raw.
func (r *remote) ask(ctx context.Context, method, path string, body, v any) (raw []byte, err error) {
	a, err := r.open(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	if raw, err = io.ReadAll(io.LimitReader(a.Body, maxAnswer)); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if v != nil {
		if err := json.Unmarshal(raw, v); err != nil {
			return nil, fmt.Errorf("decode answer: %w", err)
		}
	}
	return raw, nil
}

func runPath(id, rest string) string { return "/api/runs/" + url.PathEscape(id) + rest }

func (r *remote) Create(ctx context.Context, l launcher.Launch) (st launcher.Status, err error) {
	q := api.RunRequest{
		ID: l.ID, Argv: l.Argv, Command: l.Command, Cwd: l.Cwd, Env: l.Env, Scope: l.Scope, Replace: l.Replace, Fallback: l.Fallback, Stdin: l.Stdin,
		Input: l.Input, TimeoutMS: l.TimeoutMS, NoOutputTimeoutMS: l.SilenceMS, Watchdog: l.Watchdog, GraceMS: l.GraceMS, Leftovers: l.Leftovers,
		MaxOutputBytes: l.MaxOutput, WaitMS: l.WaitMS, OnDisconnect: l.Disconnect, User: l.User,
	}
	if l.PTY != nil {
		q.PTY = &api.TerminalSize{Columns: l.PTY.Columns, Rows: l.PTY.Rows}
	}
	_, err = r.ask(ctx, "POST", "/api/runs", q, &st)
	return st, err
}

func (r *remote) Get(ctx context.Context, q launcher.GetQuery) (st launcher.Status, err error) {
	v := url.Values{"wait_ms": {strconv.FormatInt(q.WaitMS, 10)}}
	if q.Until != "" {
		v.Set("until", q.Until)
	}
	_, err = r.ask(ctx, "GET", runPath(q.ID, "?"+v.Encode()), nil, &st)
	return st, err
}

func (r *remote) Output(ctx context.Context, q launcher.OutputQuery) (launcher.Output, error) {
	var a api.RunOutput
	v := url.Values{"since": {strconv.FormatInt(q.Since, 10)}, "wait_ms": {strconv.FormatInt(q.WaitMS, 10)}}
	_, err := r.ask(ctx, "GET", runPath(q.ID, "/output?"+v.Encode()), nil, &a)
	o := launcher.Output{From: a.From, Next: a.Next, Dropped: a.Dropped, EOF: a.EOF}
	for _, c := range a.Chunks {
		o.Chunks = append(o.Chunks, launcher.Chunk{Stream: launcher.Stream(c.Stream), From: c.From, Data: []byte(c.Text)})
	}
	return o, err
}

func (r *remote) Input(ctx context.Context, q launcher.InputRequest) (w launcher.Written, err error) {
	b := api.RunInput{Text: q.Text, Keys: q.Keys, Hex: q.Hex, Literal: q.Literal, Paste: q.Paste, Bracketed: q.Bracketed, Submit: q.Submit, EOF: q.EOF}
	if q.Bytes != nil {
		text := base64.StdEncoding.EncodeToString(q.Bytes)
		b.Base64 = &text
	}
	_, err = r.ask(ctx, "POST", runPath(q.ID, "/input"), b, &w)
	return w, err
}

func (r *remote) Stop(ctx context.Context, q launcher.StopQuery) (st launcher.Stopped, err error) {
	_, err = r.ask(ctx, "POST", runPath(q.ID, "/stop"), api.RunStopRequest{GraceMS: q.GraceMS, Signal: q.Signal}, &st)
	return st, err
}
