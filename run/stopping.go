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
	begun    time.Time // zero when the grace runs
	deadline time.Time // of the grace
	result   Stopped   // so far; the end when done is closed
}

func newStopping(id string, grace time.Duration) *stopping {
	now := time.Now()
	return &stopping{begun: now, deadline: now.Add(grace), sooner: make(chan struct{}, 1), done: make(chan struct{}),
		result: Stopped{ID: id, Survivors: []string{}, Pending: true}}
}

func (st *stopping) grace() time.Time {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.deadline
}

// signalled begins the grace: it counts from the first signals, which a busy host may
// take a while to send. One that was shortened before stays as it is.
func (st *stopping) signalled() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.begun.IsZero() {
		st.deadline = st.deadline.Add(time.Since(st.begun))
		st.begun = time.Time{}
	}
}

// shorten ends the grace sooner, never later.
func (st *stopping) shorten(deadline time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !deadline.Before(st.deadline) {
		return
	}
	st.deadline, st.begun = deadline, time.Time{}
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
