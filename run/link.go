package run

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// link is this end of a connection to another process of this program, which answers
// calls. Safe for concurrent use.
type link struct {
	pid    int
	socket io.ReadWriteCloser
	out    chan frame    // to the writer, who may hang with the other end
	ping   chan struct{} // the same, room for one
	done   chan struct{} // closed when the other end is gone

	mu    sync.Mutex
	next  uint64
	calls map[uint64]chan frame
	asked time.Time // when the other end was asked whether it is there; zero when it answered
}

var (
	errLinkGone   = errors.New("the other end is gone")
	errLinkSilent = errors.New("the other end does not answer")
)

func newLink(socket io.ReadWriteCloser, pid int) *link {
	l := &link{
		pid: pid, socket: socket, out: make(chan frame), ping: make(chan struct{}, 1), done: make(chan struct{}), calls: map[uint64]chan frame{},
	}
	go l.write()
	return l
}

func (l *link) write() {
	w := wire{w: l.socket}
	for {
		var f frame
		select {
		case f = <-l.out:
		case <-l.ping:
			f.Method = "ping"
		case <-l.done:
			return
		}
		if w.send(f) != nil {
			l.socket.Close() // the reader notices
			return
		}
	}
}

// receive hands out answers, and to other what is none, until the other end is gone.
func (l *link) receive(in *bufio.Reader, other func(frame)) {
	for {
		f, err := readFrame(in)
		if err != nil {
			break
		}
		l.mu.Lock()
		l.asked = time.Time{}
		answer := l.calls[f.Call]
		delete(l.calls, f.Call)
		l.mu.Unlock()
		switch {
		case answer != nil:
			answer <- f
		case f.Event != nil || f.Helper != nil:
			other(f)
		}
	}
	l.mu.Lock()
	close(l.done)
	l.calls = nil
	l.mu.Unlock()
	l.socket.Close()
}

func (l *link) lost() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// silence asks the other end whether it is there, when it was not asked yet, and
// returns how much longer it may say nothing.
func (l *link) silence(limit time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked.IsZero() {
		l.asked = time.Now()
		select {
		case l.ping <- struct{}{}:
		default: // one is on its way
		}
	}
	return limit - time.Since(l.asked)
}

// call asks the other end and waits for its answer, however long that takes, but no
// longer than patience without any sign of life. Of a call that is not lasting, an other
// end that wakes up later does nothing.
//
// Errors: errLinkGone, errLinkSilent; ctx's when nothing of the call is under way any
// more.
func (l *link) call(ctx context.Context, method string, arg any, patience time.Duration, lasting bool) (frame, error) {
	body, err := json.Marshal(arg)
	if err != nil {
		return frame{}, fmt.Errorf("encode call: %w", err)
	}
	answer := make(chan frame, 1)
	l.mu.Lock()
	if l.calls == nil {
		l.mu.Unlock()
		return frame{}, errLinkGone
	}
	l.next++
	next := frame{Call: l.next, Method: method, Body: body}
	l.calls[l.next] = answer
	silent := !l.asked.IsZero() && time.Since(l.asked) >= patience/2
	l.mu.Unlock()
	forget := func() {
		l.mu.Lock()
		delete(l.calls, next.Call)
		l.mu.Unlock()
	}
	if !lasting {
		next.Until = monotonic() + int64(patience/2) // it is not given up earlier
	}
	if silent {
		if lasting {
			select {
			case l.out <- next: // for when it wakes up
			default:
			}
		}
		forget()
		return frame{}, errLinkSilent
	}
	out, left := l.out, ctx.Done()
	timer := time.NewTimer(patience / 2)
	defer timer.Stop()
	for {
		select {
		case out <- next:
			out = nil
		case f := <-answer:
			if f.Late {
				return frame{}, errLinkSilent
			}
			return f, nil
		case <-left:
			if out != nil {
				forget()
				return frame{}, ctx.Err()
			}
			// The answer tells that nothing of the call is under way any more; a stop is
			// carried through by itself.
			left, out, next = nil, l.out, frame{Call: next.Call, Method: "cancel"}
		case <-timer.C:
			more := l.silence(patience / 2)
			if more <= 0 {
				forget()
				return frame{}, errLinkSilent
			}
			timer.Reset(more)
		case <-l.done:
			select {
			case f := <-answer: // came just before
				return f, nil
			default:
				return frame{}, errLinkGone
			}
		}
	}
}

// decode is the result in an answer.
//
// Errors: *Error as the other end gave it; context.Canceled when the caller had left.
func decode[R any](f frame) (result R, err error) {
	switch {
	case f.Left:
		return result, context.Canceled
	case f.Failed != "":
		return result, errors.New(f.Failed)
	}
	if f.Body != nil {
		if err := json.Unmarshal(f.Body, &result); err != nil {
			return result, fmt.Errorf("decode answer: %w", err)
		}
	}
	if f.Error != nil {
		return result, f.Error
	}
	return result, nil
}

// monotonic is CLOCK_MONOTONIC in ns, which all processes of a host share.
func monotonic() int64 {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // every kernel has it
	return t.Nano()
}
