package api

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// keepAlive is how often a stream carries a comment, so that a dead connection is
// found.
const keepAlive = 10 * time.Second

// stream writes server-sent events to one client. Not safe for concurrent use.
//
// A compressed stream is one gzip member. Each event in it is compressed for
// itself and ends on a byte boundary, so the bytes of one event serve every
// client, and a client can read an event as soon as it arrives.
type stream struct {
	w      http.ResponseWriter
	rc     *http.ResponseController
	log    *slog.Logger
	number uint64
	path   string
	packed bool
	open   *atomic.Int64
	sum    uint32 // CRC-32 of the text so far
	size   uint32 // bytes of text so far, modulo 2^32
	ping   time.Time
}

// part is a piece of an event in the two forms it is sent in.
type part struct {
	text   []byte // nil when there is a sum
	packed []byte // nil when no compressed stream needs it
	sum    uint32 // CRC-32 of the text, of a part that is only kept packed
	size   int64  // bytes of that text
}

// openStream begins the answer. Errors after it end the stream.
func (s *Server) openStream(w http.ResponseWriter, r *http.Request) (*stream, error) {
	st := &stream{
		w: w, rc: http.NewResponseController(w), log: s.log, number: s.streams.Add(1),
		path: r.URL.Path, packed: acceptsGzip(r), open: s.metrics.streams[r.URL.Path], ping: time.Now().Add(keepAlive),
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Add("Vary", "Accept-Encoding")
	if st.packed {
		h.Set("Content-Encoding", "gzip")
	}
	s.conns.stream(r.Context())
	st.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	w.WriteHeader(http.StatusOK)
	if st.packed {
		if _, err := w.Write(gzipHeader); err != nil {
			return nil, err
		}
	}
	st.open.Add(1)
	return st, nil
}

// next calls f with a context that ends when a keep-alive is due, sends it, and
// calls f again until it returns something.
func next[T any](ctx context.Context, st *stream, f func(context.Context) (T, error)) (T, error) {
	for {
		turn, cancel := context.WithDeadline(ctx, st.ping)
		v, err := f(turn)
		cancel()
		if err == nil || ctx.Err() != nil || turn.Err() != context.DeadlineExceeded || !errors.Is(err, context.DeadlineExceeded) {
			return v, err
		}
		if err := st.keepAlive(); err != nil {
			var none T
			return none, err
		}
	}
}

// send hands an event to the client. The keep-alive follows when it is due.
func (st *stream) send(event string, parts ...part) error {
	if err := st.write(parts...); err != nil {
		return err
	}
	st.log.Debug("event", "stream", st.number, "path", st.path, "event", event)
	if time.Now().Before(st.ping) {
		return nil
	}
	return st.keepAlive()
}

func (st *stream) keepAlive() error {
	st.ping = time.Now().Add(keepAlive)
	return st.write(pingComment())
}

func (st *stream) write(parts ...part) error {
	st.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	for _, p := range parts {
		data := p.text
		if st.packed {
			data = p.packed
			if p.text != nil {
				st.sum = crc32.Update(st.sum, crc32.IEEETable, p.text)
				st.size += uint32(len(p.text))
			} else {
				st.sum = joinSums(st.sum, p.sum, p.size)
				st.size += uint32(p.size)
			}
		}
		if _, err := st.w.Write(data); err != nil {
			return err
		}
	}
	return st.rc.Flush()
}

// end completes a compressed stream, so that a client does not take it for cut.
func (st *stream) end() {
	st.open.Add(-1)
	if !st.packed {
		return
	}
	st.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	tail := append([]byte(nil), lastBlock...)
	tail = binary.LittleEndian.AppendUint32(tail, st.sum)
	tail = binary.LittleEndian.AppendUint32(tail, st.size)
	st.w.Write(tail) // the stream ends here anyway
}

var (
	// RFC 1952: magic, deflate, no flags, no time, fastest, system unknown.
	gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255}
	// RFC 1951: a stored block of no bytes, the last one.
	lastBlock = []byte{1, 0, 0, 255, 255}
)

var pingComment = sync.OnceValue(func() part { return pack([]byte(": keep-alive\n\n"), true) })

// pack makes a part of text, with its compressed form when packed is set.
func pack(text []byte, packed bool) part {
	p := part{text: text}
	if packed {
		p.packed = deflate(nil, text)
	}
	return p
}

// appendEvent appends an event whose data, one line, is appended by data.
func appendEvent(b []byte, name string, data func([]byte) []byte) []byte {
	b = data(appendEventHead(b, name))
	if b[len(b)-1] == '\n' {
		b = b[:len(b)-1]
	}
	return append(b, '\n', '\n')
}

func appendEventHead(b []byte, name string) []byte {
	b = append(b, "event: "...)
	b = append(b, name...)
	return append(b, "\ndata: "...)
}

var flateWriters = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}}

// deflate appends text to dst as blocks that need nothing before them and end on
// a byte boundary.
func deflate(dst, text []byte) []byte {
	buf := bytes.NewBuffer(dst)
	z := flateWriters.Get().(*flate.Writer)
	z.Reset(buf)
	z.Write(text) // into memory
	z.Flush()
	flateWriters.Put(z)
	return buf.Bytes()
}
