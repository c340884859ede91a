package api

import (
	"context"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"procinsh/proc"
	"procinsh/watch"
)

const (
	// readingTimeout is how long a reading of a process may take. Memory that lies in a
	// file whose server does not answer holds whoever reads it, and no signal ends that.
	readingTimeout = 10 * time.Second
	// maxLateReadings is how many readings may be out that took longer; each keeps a
	// thread and a few descriptors until the kernel lets go.
	maxLateReadings = 64
)

var errHeld = &httpError{status: http.StatusUnprocessableEntity, code: "held_in_kernel",
	message: "The kernel holds whoever reads this process, as when its memory lies in a file whose server does not answer: try again when it is let go."}

// lateReadings are the readings that did not come back in time.
type lateReadings struct {
	mu  sync.Mutex
	ids map[proc.ID]int
	n   int
}

func (l *lateReadings) refuses(id proc.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ids[id] > 0 || l.n >= maxLateReadings
}

func (l *lateReadings) add(id proc.ID, n int) {
	if l.ids == nil {
		l.ids = map[proc.ID]int{}
	}
	l.n += n
	if l.ids[id] += n; l.ids[id] == 0 {
		delete(l.ids, id)
	}
}

// bounded runs a reading of a process in a goroutine of its own, in one of the
// places for heavy requests when it is one. After readingTimeout, or when the client
// has left, the request goes on without it: what read writes must not be looked at
// after an error. A process that holds one reading is refused further ones until that
// comes back.
func (s *Server) bounded(ctx context.Context, id proc.ID, heavy bool, read func() error) error {
	if s.late.refuses(id) {
		return errHeld
	}
	release := func() {}
	if heavy {
		if err := s.enter(ctx); err != nil {
			return err
		}
		release = sync.OnceFunc(s.leave)
	}
	var back, isLate bool // guarded by s.late.mu
	late := make(chan struct{})
	timer := time.AfterFunc(readingTimeout, func() {
		s.late.mu.Lock()
		if isLate = !back; isLate {
			s.late.add(id, 1)
		}
		s.late.mu.Unlock()
		release()
		close(late)
	})
	result := make(chan error, 1)
	go func() {
		err := contained(read)
		s.late.mu.Lock()
		if back = true; isLate {
			s.late.add(id, -1)
		}
		s.late.mu.Unlock()
		timer.Stop()
		release()
		result <- err
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-late:
		return errHeld
	}
}

// contained makes a panic of f an error: in a goroutine it would end the server.
func contained(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &watch.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}
