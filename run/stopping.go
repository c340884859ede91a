package run

import (
	"context"
	"sync"
	"time"
)

// stopping is a stop sequence under way.
type stopping struct {
	sooner chan struct{}
	done   chan struct{}

	mu       sync.Mutex
	deadline time.Time // of the grace
	result   Stopped   // so far; the end when done is closed
}

func newStopping(id string, grace time.Duration) *stopping {
	return &stopping{deadline: time.Now().Add(grace), sooner: make(chan struct{}, 1), done: make(chan struct{}),
		result: Stopped{ID: id, Survivors: []string{}, Pending: true}}
}

func (st *stopping) grace() time.Time {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.deadline
}

// shorten ends the grace sooner, never later.
func (st *stopping) shorten(deadline time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !deadline.Before(st.deadline) {
		return
	}
	st.deadline = deadline
	select {
	case st.sooner <- struct{}{}:
	default: // it looks at the deadline anyway
	}
}

// note keeps how far it is.
func (st *stopping) note(now Stopped) {
	st.mu.Lock()
	defer st.mu.Unlock()
	now.ID = st.result.ID
	st.result = now
}

// await waits for the end, or as long as asked for: then the result is pending.
func (st *stopping) await(ctx context.Context, wait *time.Duration) (Stopped, error) {
	var enough <-chan time.Time
	if wait != nil {
		t := time.NewTimer(*wait)
		defer t.Stop()
		enough = t.C
	}
	select {
	case <-st.done:
	case <-enough:
	case <-ctx.Done():
		return Stopped{}, ctx.Err()
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.result, nil
}
