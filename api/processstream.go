package api

import (
	"context"
	"errors"
	"net/http"

	"procinsh/watch"
)

// streamProcess is GET /api/processes/events: one process, a whole state each time.
func (s *Server) streamProcess(w http.ResponseWriter, r *http.Request) error {
	q, err := parseQuery(r)
	if err != nil {
		return err
	}
	id, err := q.identity()
	if err != nil {
		return err
	}
	onlyChanged, err := q.choice("maps", "changed")
	if err != nil {
		return err
	}
	ctx := r.Context()
	first, cancel := context.WithTimeout(ctx, readingTimeout)
	defer cancel()
	v, err := s.processes.Subscribe(first, id)
	if err != nil {
		return heldIfLate(ctx, err)
	}
	defer v.Close()
	state, err := v.Next(first)
	if err != nil {
		return heldIfLate(ctx, err)
	}
	st, err := s.openStream(w, r)
	if err != nil {
		return nil // the client is gone
	}
	defer st.end()
	st.log = st.log.With("pid", id.PID, "start_time_ticks", id.StartTicks)
	var epoch uint64
	for first := true; ; first = false {
		withMaps := first || !onlyChanged || state.MapsEpoch != epoch
		epoch = state.MapsEpoch
		if err := st.send("observation", observationParts(state, withMaps, st.packed)...); err != nil {
			return nil
		}
		if state, err = next(ctx, st, v.Next); err != nil {
			return nil // the process has ended, the server stops, or the client left
		}
	}
}

// partKey names a part of a process state that is made once for its viewers.
type partKey struct {
	name   string
	packed bool
}

// observationParts are the pieces of event observation: what the viewers of a
// process share is encoded and compressed once, its maps once until they change.
func observationParts(s *watch.ProcessState, withMaps, packed bool) []part {
	share := func(memo func(any, func() any) any, name string, text func() []byte) part {
		p := part{text: memo(partKey{name, false}, func() any { return text() }).([]byte)}
		if packed {
			p.packed = memo(partKey{name, true}, func() any { return deflate(nil, p.text) }).([]byte)
		}
		return p
	}
	own := func(text []byte) part { return pack(text, packed) }

	head := append(appendEventHead(nil, "observation"), `{"summary":`...)
	head = appendSummary(head, &s.Row, watch.ListWant{})
	head = append(head, `,"history":`...)
	head = appendList(head, s.History, appendHistoryPoint)
	parts := []part{own(head)}
	if withMaps {
		parts = append(parts, share(s.MapsMemo, "maps", func() []byte {
			return appendList([]byte(`,"maps":`), s.Maps, appendMapping)
		}))
	}
	return append(parts, share(s.Memo, "rest", func() []byte { return appendObservationRest(nil, s) }))
}

// heldIfLate tells a first reading that took too long from a client that left.
func heldIfLate(ctx context.Context, err error) error {
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return errHeld
	}
	return err
}
