package watch

import "context"

// SystemEvent is what a viewer of the host gets: one of the four.
type SystemEvent struct {
	// Topology is the structure. Base is the one that the viewer had before, nil
	// when it has to be sent whole; else Base.Sequence is Topology.Sequence - 1.
	Topology, Base *Topology
	Metrics        *ListState
	Activity       *Activity
	Dropped        uint64 // windows that the viewer was too slow for; a whole structure follows
}

// SystemViewer is one viewer. Not safe for concurrent use.
type SystemViewer struct {
	system *System
	want   SystemWant

	// What the viewer has: sequence numbers.
	topology, metrics, activity uint64

	any   bool // an event was returned
	whole bool // the next structure is a whole one
	done  bool
}

// Next waits for the next event. The first one is the structure as it is known,
// which may be old or empty.
//
// Errors: ErrStopping; ctx's.
func (v *SystemViewer) Next(ctx context.Context) (SystemEvent, error) {
	s := v.system
	for {
		s.mu.Lock()
		e, ok := v.takeLocked()
		changed, closed := s.changed, s.closed
		s.mu.Unlock()
		switch {
		case closed:
			return SystemEvent{}, ErrStopping
		case v.done:
			return SystemEvent{}, errClosed
		case ok:
			return e, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return SystemEvent{}, ctx.Err()
		case <-s.closing:
		}
	}
}

// takeLocked returns what the viewer does not have yet.
func (v *SystemViewer) takeLocked() (SystemEvent, bool) {
	s := v.system
	if !v.any {
		v.any, v.whole = true, true
		v.metrics, v.activity = s.metricsSeq, s.activitySeq
	} else if n := v.droppedLocked(); n > 0 {
		// What is newest is sent all the same, after the structure.
		v.whole = true
		s.counted.dropped += n
		v.activity = s.activitySeq - 1
		return SystemEvent{Dropped: n}, true
	}
	t := s.current
	switch {
	case v.whole:
		v.whole, v.topology = false, t.Sequence
		return SystemEvent{Topology: t}, true
	case t.Sequence > v.topology:
		base := s.previous
		if t.Sequence != v.topology+1 {
			base = nil // the viewer does not have it
		}
		v.topology = t.Sequence
		return SystemEvent{Topology: t, Base: base}, true
	case s.metricsSeq > v.metrics && s.metrics != nil:
		v.metrics = s.metricsSeq
		return SystemEvent{Metrics: s.metrics}, true
	case s.activitySeq > v.activity && len(s.windows) > 0:
		v.activity++
		return SystemEvent{Activity: s.windows[len(s.windows)-1-int(s.activitySeq-v.activity)]}, true
	}
	return SystemEvent{}, false
}

// droppedLocked counts the windows that the viewer can no longer get, 0 when it can
// still get all. When it cannot, it gets the newest one only: older ones would be
// shown long after they happened. Structures and metrics are states: the newest one
// says all that those before it said.
func (v *SystemViewer) droppedLocked() uint64 {
	s := v.system
	windows := s.activitySeq - v.activity
	if windows <= uint64(len(s.windows)) {
		return 0
	}
	return windows - 1
}

// Close gives the slot back; the last viewer's ends the collection. Closing twice
// is once.
func (v *SystemViewer) Close() {
	if v.done {
		return
	}
	v.done = true
	s := v.system
	s.mu.Lock()
	defer s.mu.Unlock()
	s.viewers--
	if v.want.Summaries {
		s.summaries--
	}
	if s.viewers == 0 {
		s.endLocked()
		return
	}
	s.tellWantLocked()
}
