package run

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// linked returns a link whose other end answers calls as f does, until the test ends.
func linked(t *testing.T, answer func(context.Context, frame) (any, error)) *link {
	here, there := net.Pipe()
	l := newLink(here, 1)
	over := make(chan struct{}, 2)
	go func() { l.receive(bufio.NewReader(here), func(frame) {}); over <- struct{}{} }()
	go func() { serveCalls(bufio.NewReader(there), (&wire{w: there}).send, answer); over <- struct{}{} }()
	t.Cleanup(func() {
		here.Close()
		there.Close()
		<-over
		<-over
	})
	return l
}

func TestLink(t *testing.T) {
	left := make(chan struct{})
	l := linked(t, func(ctx context.Context, f frame) (any, error) {
		switch f.Method {
		case "echo":
			return f.Body, nil
		case "refuse":
			return nil, fail(CodeBusy, "not now")
		case "long":
			<-ctx.Done()
			close(left)
			return nil, ctx.Err()
		}
		return nil, errors.New("unknown")
	})
	f, err := l.call(t.Context(), "echo", "x", patience, false)
	if text, failure := decode[string](f); err != nil || failure != nil || text != "x" {
		t.Errorf("echo: %q, %v, %v", text, err, failure)
	}
	f, err = l.call(t.Context(), "refuse", nil, patience, false)
	if _, failure := decode[string](f); err != nil || CodeOf(failure) != CodeBusy {
		t.Errorf("refuse: %v, %v", err, failure)
	}
	// A call that takes many times the patience is waited for while pings are answered.
	ctx, leave := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer leave()
	f, err = l.call(ctx, "long", nil, 20*time.Millisecond, false)
	if _, failure := decode[string](f); err == nil && !errors.Is(failure, context.Canceled) {
		t.Errorf("long: %v", failure)
	}
	if err == nil {
		<-left
	} else if !errors.Is(err, errLinkSilent) { // a busy machine may take that long for a ping
		t.Errorf("long: %v", err)
	}
	l.socket.Close()
	wait(t, "the loss", l.lost)
	if _, err := l.call(t.Context(), "echo", "x", patience, true); !errors.Is(err, errLinkGone) {
		t.Errorf("after it: %v", err)
	}
}

// An other end that reads nothing costs no more than the patience, and one that comes
// back does not begin what was given up.
func TestLinkSilent(t *testing.T) {
	here, there := net.Pipe()
	l := newLink(here, 1)
	over := make(chan struct{})
	go func() { l.receive(bufio.NewReader(here), func(frame) {}); close(over) }()
	for range 3 {
		if _, err := l.call(t.Context(), "a", nil, 20*time.Millisecond, false); !errors.Is(err, errLinkSilent) {
			t.Errorf("got %v", err)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := l.call(ctx, "a", nil, patience, false); !errors.Is(err, context.Canceled) {
		t.Errorf("who had left: %v", err)
	}
	began := make(chan string, 8)
	go serveCalls(bufio.NewReader(there), (&wire{w: there}).send, func(_ context.Context, f frame) (any, error) {
		began <- f.Method
		return nil, nil
	})
	wait(t, "an answer", func() bool { _, err := l.call(t.Context(), "b", nil, patience, false); return err == nil })
	if first := <-began; first != "b" {
		t.Errorf("began %q", first)
	}
	here.Close()
	there.Close()
	<-over
}

func TestServeCallsLate(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	go serveCalls(bufio.NewReader(there), (&wire{w: there}).send, func(context.Context, frame) (any, error) { return "begun", nil })
	in := bufio.NewReader(here)
	for _, c := range []struct {
		until int64
		late  bool
	}{{monotonic() - 1, true}, {monotonic() + int64(time.Hour), false}, {0, false}} {
		if err := (&wire{w: here}).send(frame{Call: 7, Method: "a", Until: c.until}); err != nil {
			t.Fatal(err)
		}
		if f, err := readFrame(in); err != nil || f.Call != 7 || f.Late != c.late || (f.Body == nil) != c.late {
			t.Errorf("until %d: %+v, %v", c.until, f, err)
		}
	}
}

// A descriptor goes through with the frame that tells of it, whatever stands before it.
func TestPassage(t *testing.T) {
	ours, theirs, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	a, err := newPassage(ours)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	unix.SetNonblock(theirs, true)
	b, err := newPassage(os.NewFile(uintptr(theirs), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	in := bufio.NewReader(b)
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range []io.Writer{a, a.with(w), a} {
			if err := (&wire{w: to}).send(frame{Method: "x"}); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		for range 3 {
			if _, err := readFrame(in); err != nil {
				t.Fatal(err)
			}
		}
		got, err := b.take()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := got.WriteString("through"); err != nil {
			t.Fatal(err)
		}
		got.Close()
		if text, err := io.ReadAll(r); err != nil || string(text) != "through" {
			t.Errorf("got %q, %v", text, err)
		}
		r.Close()
		if _, err := b.take(); err == nil {
			t.Error("a second descriptor came")
		}
	}
}
