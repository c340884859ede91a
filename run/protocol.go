package run

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// The protocol between the server and its helper, and its keeper: frames over one
// socket, each a length of four bytes, big-endian, and so many bytes of JSON. The server
// sends calls, told apart by their number, cancels them, and asks now and then whether
// somebody is there; the other end answers in any order and sends events and news in
// between.

// maxFrame is how long a frame may be. The longest carries 1 MiB of output in base64,
// or an input of 1 MiB.
const maxFrame = 32 << 20

// maxCalls is how many calls a helper works on at the same time.
const maxCalls = 1_024

// frame is one message.
type frame struct {
	Call   uint64          `json:"call,omitempty"`   // number of a call or an answer; 0 of an event
	Method string          `json:"method,omitempty"` // of a call; "cancel" ends the call of that number, "ping" wants an empty frame
	Body   json.RawMessage `json:"body,omitempty"`
	Error  *Error          `json:"error,omitempty"`
	Left   bool            `json:"left,omitempty"` // the error is that the caller left
	Late   bool            `json:"late,omitempty"` // it was read too late and not begun
	Failed string          `json:"failed,omitempty"`
	Until  int64           `json:"until,omitempty"` // a call that is read later, by CLOCK_MONOTONIC in ns, is not begun; 0: whenever
	Event  *Event          `json:"event,omitempty"`
	Helper *helperNews     `json:"helper,omitempty"` // of the keeper; with a PID its socket comes along
}

// wire writes frames. Safe for concurrent use.
type wire struct {
	mu sync.Mutex
	w  io.Writer
}

func (w *wire) send(f frame) error {
	b, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encode frame: %w", err)
	}
	if len(b) > maxFrame {
		return errors.New("frame is too long")
	}
	b = append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(b)), uint32(len(b))), b...)
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.w.Write(b)
	return err
}

// readFrame reads the next frame.
//
// Errors: io.EOF at the end of the stream.
func readFrame(r *bufio.Reader) (f frame, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return frame{}, errors.New("frame is too long")
	}
	// Grows with what comes, not with what is announced.
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r, int64(n)); err != nil {
		return frame{}, io.ErrUnexpectedEOF
	}
	if err := json.Unmarshal(b.Bytes(), &f); err != nil { // may be half filled
		return frame{}, fmt.Errorf("decode frame: %w", err)
	}
	return f, nil
}

// method is a call that the helper answers.
type method func(ctx context.Context, s *Supervisor, body json.RawMessage) (any, error)

// answer makes a method of a function with an argument.
func answer[A, R any](f func(s *Supervisor, ctx context.Context, arg A) (R, error)) method {
	return func(ctx context.Context, s *Supervisor, body json.RawMessage) (any, error) {
		var arg A
		if err := json.Unmarshal(body, &arg); err != nil {
			return nil, fmt.Errorf("decode call: %w", err)
		}
		return f(s, ctx, arg)
	}
}

var methods = map[string]method{
	"create":      answer((*Supervisor).Create),
	"list":        answer((*Supervisor).List),
	"get":         answer((*Supervisor).Get),
	"processes":   answer((*Supervisor).Processes),
	"output":      answer((*Supervisor).Output),
	"log":         answer((*Supervisor).Log),
	"input":       answer((*Supervisor).Input),
	"resize":      answer((*Supervisor).Resize),
	"stop":        answer((*Supervisor).Stop),
	"stopProcess": answer((*Supervisor).StopProcess),
	"take":        answer((*Supervisor).Take),
	"scope":       answer((*Supervisor).Scope),
	"memberships": answer(func(s *Supervisor, ctx context.Context, _ struct{}) ([]Membership, error) { return s.Memberships(ctx) }),
	"delete":      answer((*Supervisor).Delete),
	"clear":       answer((*Supervisor).Clear),
	"stopScope": answer(func(s *Supervisor, ctx context.Context, q ScopeQuery) ([]Stopped, error) {
		return s.StopScope(ctx, q)
	}),
	"capabilities": answer(func(s *Supervisor, _ context.Context, _ struct{}) (Capabilities, error) { return s.Capabilities(), nil }),
	"stopOrphans":  answer(func(s *Supervisor, ctx context.Context, _ struct{}) ([]Stopped, error) { return s.StopOrphans(ctx) }),
	"follow": answer(func(s *Supervisor, _ context.Context, on bool) (struct{}, error) {
		s.Follow(on)
		return struct{}{}, nil
	}),
}
