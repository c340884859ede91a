package api

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"procinsh/proc"
	"procinsh/watch"
)

// A target that holds its reader costs that request and a place for 10 s, no more.
func TestHeldReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{heavy: make(chan struct{}, 1)}
		held, other := proc.ID{PID: 7, StartTicks: 1}, proc.ID{PID: 8, StartTicks: 1}
		let := make(chan struct{})
		began := time.Now()
		if err := s.bounded(t.Context(), held, true, func() error { <-let; return nil }); err != errHeld {
			t.Fatalf("held reading: %v", err)
		}
		if d := time.Since(began); d != readingTimeout {
			t.Errorf("given up after %v", d)
		}
		if err := s.bounded(t.Context(), held, false, func() error { t.Error("read again"); return nil }); err != errHeld {
			t.Errorf("a second reading of it: %v", err)
		}
		if err := s.bounded(t.Context(), other, true, func() error { return nil }); err != nil {
			t.Errorf("another process, in the place that was held: %v", err)
		}
		close(let)
		synctest.Wait()
		if err := s.bounded(t.Context(), held, true, func() error { return proc.ErrGone }); err != proc.ErrGone {
			t.Errorf("after it was let go: %v", err)
		}
		if len(s.heavy) != 0 || s.late.n != 0 || len(s.late.ids) != 0 {
			t.Errorf("left over: %d places, %d readings, %v", len(s.heavy), s.late.n, s.late.ids)
		}
	})
}

func TestReadingOfAClientThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{heavy: make(chan struct{}, 1)}
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		let := make(chan struct{})
		id := proc.ID{PID: 7, StartTicks: 1}
		if err := s.bounded(ctx, id, true, func() error { <-let; return nil }); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		time.Sleep(readingTimeout)
		if len(s.heavy) != 0 || !s.late.refuses(id) {
			t.Errorf("%d places taken, refused: %v", len(s.heavy), s.late.refuses(id))
		}
		close(let)
		synctest.Wait()
		if s.late.refuses(id) {
			t.Error("still refused")
		}
	})
}

func TestLateReadingsAreBounded(t *testing.T) {
	var l lateReadings
	for i := range maxLateReadings {
		l.add(proc.ID{PID: int32(i + 1)}, 1)
	}
	if !l.refuses(proc.ID{PID: 1000}) {
		t.Error("one more is let in")
	}
	l.add(proc.ID{PID: 1}, -1)
	if l.refuses(proc.ID{PID: 1000}) || !l.refuses(proc.ID{PID: 2}) {
		t.Error("counted wrong")
	}
}

func TestPanicOfAReading(t *testing.T) {
	var p *watch.PanicError
	s := &Server{heavy: make(chan struct{}, 1)}
	if err := s.bounded(t.Context(), proc.ID{PID: 1}, true, func() error { panic("a mistake") }); !errors.As(err, &p) || len(p.Stack) == 0 {
		t.Errorf("got %v", err)
	}
	if len(s.heavy) != 0 {
		t.Error("the place is lost")
	}
}
