package api

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"procinsh/proc"
	"procinsh/ptrace"
	"procinsh/watch"
)

const (
	gzipFrom  = 1 << 10 // a shorter body is sent as it is
	writePart = 1 << 18 // bytes under one write deadline
	// writeTimeout is how long a client may take to accept a part of an answer or
	// an event before its connection is closed.
	writeTimeout = 30 * time.Second
	// keptBuffer is the largest buffer that is kept for the next answer.
	keptBuffer = 8 << 20
)

// httpError is an answer that is no success. What it wraps goes into the log at
// most, never into the body.
type httpError struct {
	status     int
	code       string // snake_case
	message    string // one sentence a person can act on
	retryAfter int    // seconds, 0 without
	allow      string // methods, for 405
	err        error
}

func (e *httpError) Error() string {
	if e.err != nil {
		return e.code + ": " + e.err.Error()
	}
	return e.code + ": " + e.message
}

func (e *httpError) Unwrap() error { return e.err }

func badRequest(code, message string) error {
	return &httpError{status: http.StatusBadRequest, code: code, message: message}
}

func unprocessable(code, message string) error {
	return &httpError{status: http.StatusUnprocessableEntity, code: code, message: message}
}

var errBusy = &httpError{status: http.StatusTooManyRequests, code: "busy", retryAfter: 1,
	message: "Too many readings of maps, memory and descriptors are under way: try again in a second."}

// statusOf is the one table from errors to answers.
func statusOf(err error) *httpError {
	var known *httpError
	var number syscall.Errno
	var traced *ptrace.TracedError
	switch {
	case errors.As(err, &known):
		return known
	case runError(err) != nil:
		return runError(err)
	case errors.Is(err, proc.ErrGone):
		return &httpError{status: http.StatusGone, code: "process_gone", err: err,
			message: "The process has ended, or its PID names another process by now."}
	case errors.Is(err, proc.ErrUnmapped):
		return &httpError{status: http.StatusUnprocessableEntity, code: "unmapped", err: err,
			message: "No byte at this address is readable: nothing is mapped there, or the mapping denies reading."}
	case errors.Is(err, proc.ErrNotELF):
		return &httpError{status: http.StatusUnprocessableEntity, code: "not_elf", err: err,
			message: "The executable is not a little-endian ELF file, so the width of the words in the auxiliary vector is unknown."}
	case errors.Is(err, ptrace.ErrKernelThread):
		return &httpError{status: http.StatusUnprocessableEntity, code: "kernel_thread", err: err,
			message: "A kernel thread has no user stack, and the kernel lets nobody stop it."}
	case errors.As(err, &traced):
		return &httpError{status: http.StatusUnprocessableEntity, code: "already_traced", err: err, message: tracedText(traced)}
	case errors.Is(err, ptrace.ErrSelf):
		return &httpError{status: http.StatusUnprocessableEntity, code: "snapshot_of_self", err: err,
			message: "procinsh takes no snapshot of itself: it would stop the thread that lets the others go. Its stacks can be read without stopping."}
	case errors.Is(err, ptrace.ErrTooMany):
		return &httpError{status: http.StatusUnprocessableEntity, code: "too_many_threads", err: err,
			message: "The process has more than 4,096 threads, more than are stopped at once."}
	case errors.Is(err, ptrace.ErrUnstable):
		return &httpError{status: http.StatusUnprocessableEntity, code: "unstable", err: err,
			message: "The program was replaced, or its threads came and went faster than they could be stopped: try again."}
	case errors.Is(err, ptrace.ErrHeld):
		return &httpError{status: http.StatusUnprocessableEntity, code: "held_in_kernel", err: err,
			message: "The kernel does not come back from a call on this process; its threads are let go as soon as it does."}
	case errors.Is(err, proc.ErrHidden):
		return &httpError{status: http.StatusUnprocessableEntity, code: "permission_denied", err: err,
			message: "There is a process with this PID, but /proc is mounted with hidepid and hides it: " + whatAllows(os.Geteuid() == 0, false)}
	case errors.Is(err, fs.ErrPermission):
		return &httpError{status: http.StatusUnprocessableEntity, code: "permission_denied", err: err,
			message: "The kernel does not let procinsh read this: " + whatAllows(os.Geteuid() == 0, proc.MayTrace())}
	case proc.OutOfDescriptors(err):
		return &httpError{status: http.StatusUnprocessableEntity, code: "out_of_descriptors", err: err,
			message: "procinsh may open no more files: close connections to it, or start it with a higher limit (ulimit -n, LimitNOFILE)."}
	case errors.Is(err, watch.ErrFull):
		return &httpError{status: http.StatusTooManyRequests, code: "too_many_streams", retryAfter: 5, err: err,
			message: "All streams of this kind are in use: close one, or try again later."}
	case errors.Is(err, watch.ErrStopping):
		return &httpError{status: http.StatusServiceUnavailable, code: "stopping", err: err,
			message: "procinsh is shutting down."}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
		return &httpError{status: http.StatusUnprocessableEntity, code: "not_available", err: err,
			message: "The kernel has nothing of this kind for this process; kernel threads, for one, have no memory of their own."}
	case errors.As(err, &number):
		return &httpError{status: http.StatusUnprocessableEntity, code: "unreadable", err: err,
			message: "The kernel refused the reading: " + number.Error() + "."}
	}
	return &httpError{status: http.StatusInternalServerError, code: "internal", err: err,
		message: "procinsh made a mistake; its log says more."}
}

// whatAllows ends the sentence about a refusal by what would help who asks; traces
// says that it has CAP_SYS_PTRACE already.
func whatAllows(root, traces bool) string {
	switch {
	case traces:
		return "it has CAP_SYS_PTRACE, but kernel.yama.ptrace_scope 3, a security module, lockdown, or a user namespace outside of its own forbids it all the same."
	case root:
		return "it runs as root without CAP_SYS_PTRACE, as in a container: start it outside, or add that capability (--cap-add SYS_PTRACE)."
	}
	return "start it as root or as the owner of the process, or give it CAP_SYS_PTRACE; kernel.yama.ptrace_scope can forbid it to the owner too."
}

// Explain is the sentence that an answer would carry for err; of an error that no
// answer tells, its own text.
func Explain(err error) string {
	if e := statusOf(err); e.status != http.StatusInternalServerError {
		return e.message
	}
	return err.Error()
}

// tracedText names the tracer: a debugger that someone forgot, most of the time.
func tracedText(e *ptrace.TracedError) string {
	name := "process " + strconv.Itoa(int(e.PID))
	if e.Comm != "" {
		name += " (" + e.Comm + ")"
	}
	return "The process is traced already, by " + name + ", and a thread has one tracer at most. Its memory, maps and stacks can still be read."
}

// errorText is the sentence for a failed reading inside an answer, nil without one.
func errorText(err error) *string {
	if err == nil {
		return nil
	}
	text := statusOf(err).message
	return &text
}

// replyError writes the answer for e.
func replyError(w http.ResponseWriter, r *http.Request, e *httpError) {
	h := w.Header()
	h.Del("Content-Encoding")
	if e.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(e.retryAfter))
	}
	if e.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="procinsh"`)
	}
	if e.allow != "" {
		h.Set("Allow", e.allow)
	}
	reply(w, r, e.status, "application/json", marshal(nil, ErrorAnswer{Error: e.message, Code: e.code}))
}

// marshal appends v as one line of JSON.
func marshal(b []byte, v any) []byte {
	buf := bytes.NewBuffer(b)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // a contract type is always encodable
	}
	return buf.Bytes()
}

// buffers are reused between answers; a list of 5,000 processes takes 4 MB.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// replyJSON sends what body appends as a 200.
func replyJSON(w http.ResponseWriter, r *http.Request, body func([]byte) []byte) {
	p := buffers.Get().(*[]byte)
	b := append(body((*p)[:0]), '\n')
	reply(w, r, http.StatusOK, "application/json", b)
	if cap(b) <= keptBuffer {
		*p = b
		buffers.Put(p)
	}
}

// replyValue sends a contract type as a 200.
func replyValue(w http.ResponseWriter, r *http.Request, v any) {
	reply(w, r, http.StatusOK, "application/json", marshal(nil, v))
}

var gzipWriters = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}}

// reply sends a whole answer, compressed when it is long enough and the client
// takes it. To a HEAD it sends the same headers.
func reply(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	if contentType == "application/json" {
		h.Add("Vary", "Accept-Encoding")
		if len(body) > gzipFrom && acceptsGzip(r) {
			h.Set("Content-Encoding", "gzip")
			var packed bytes.Buffer
			z := gzipWriters.Get().(*gzip.Writer)
			z.Reset(&packed)
			z.Write(body) // a bytes.Buffer takes everything
			z.Close()
			gzipWriters.Put(z)
			body = packed.Bytes()
		}
	}
	send(w, r, status, body)
}

// send writes status, length and body. A client that does not read is let go.
func send(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	rc := http.NewResponseController(w)
	rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	for len(body) > 0 {
		n := min(len(body), writePart)
		rc.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := w.Write(body[:n]); err != nil {
			return // the client is gone, nobody is left to be told
		}
		body = body[n:]
	}
}

// acceptsGzip tells whether Accept-Encoding lets an answer be gzip: named, or
// meant by *, with a quality that is not 0.
func acceptsGzip(r *http.Request) bool { return accepts(r.Header["Accept-Encoding"], "gzip", "x-gzip") }

// acceptsBytes tells whether the client asks for raw bytes by name.
func acceptsBytes(r *http.Request) bool {
	for _, line := range r.Header["Accept"] {
		for item := range strings.SplitSeq(line, ",") {
			if name, q := quality(item); strings.EqualFold(name, "application/octet-stream") && q > 0 {
				return true
			}
		}
	}
	return false
}

func accepts(lines []string, names ...string) bool {
	star := false
	for _, line := range lines {
		for item := range strings.SplitSeq(line, ",") {
			name, q := quality(item)
			for _, n := range names {
				if strings.EqualFold(name, n) {
					return q > 0
				}
			}
			if name == "*" {
				star = q > 0
			}
		}
	}
	return star
}

// quality splits "gzip;q=0.5". What is no number from 0 to 1 counts as 0.
func quality(item string) (name string, q float64) {
	name, _, _ = strings.Cut(item, ";")
	name = strings.TrimSpace(name)
	value, given := parameter(item, "q")
	if !given {
		return name, 1
	}
	f, err := strconv.ParseFloat(value, 64)
	if err != nil || !(f >= 0 && f <= 1) {
		return name, 0
	}
	return name, f
}

// parameter returns a parameter of an item of a header.
func parameter(item, name string) (value string, given bool) {
	_, rest, _ := strings.Cut(item, ";")
	for p := range strings.SplitSeq(rest, ";") {
		key, value, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(key), name) {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}
