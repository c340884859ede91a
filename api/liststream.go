package api

import (
	"net/http"

	"procinsh/watch"
)

// eventKey names a part of a list state that is made once for all its viewers.
type eventKey struct {
	name   string
	want   watch.ListWant
	base   uint64 // sequence, for a delta
	packed bool
}

// shared returns an event of a state, encoded by the first viewer that needs it
// and compressed by the first one that needs that.
func shared(s *watch.ListState, key eventKey, data func([]byte) []byte) part {
	packed := key.packed
	key.packed = false
	var p part
	p.text = s.Memo(key, func() any { return appendEvent(nil, key.name, data) }).([]byte)
	if packed {
		key.packed = true
		p.packed = s.Memo(key, func() any { return deflate(nil, p.text) }).([]byte)
	}
	return p
}

// streamProcesses is GET /api/processes/stream: the list, then what changes.
func (s *Server) streamProcesses(w http.ResponseWriter, r *http.Request) error {
	q, err := parseQuery(r)
	if err != nil {
		return err
	}
	want, err := q.listWant()
	if err != nil {
		return err
	}
	v, err := s.list.Subscribe(want)
	if err != nil {
		return err
	}
	defer v.Close()
	ctx := r.Context()
	u, err := v.Next(ctx)
	if err != nil {
		return err
	}
	st, err := s.openStream(w, r)
	if err != nil {
		return nil // the client is gone
	}
	defer st.end()
	for {
		if err := sendList(st, u, want); err != nil {
			return nil
		}
		if u, err = next(ctx, st, v.Next); err != nil {
			return nil
		}
	}
}

// sendList sends one update: the whole list or the difference, and the totals.
func sendList(st *stream, u watch.ListUpdate, want watch.ListWant) error {
	key := eventKey{name: "processes", want: want, packed: st.packed}
	var parts []part
	if u.Base == nil {
		parts = longParts(u.State.Memo, key, key.name, key.packed, func(b []byte, s spill) []byte { return appendProcessesEvent(b, u.State, want, s) })
	} else {
		key.name, key.base = "processes_delta", u.Base.Sequence
		parts = []part{shared(u.State, key, func(b []byte) []byte { return appendProcessesDelta(b, u.State, u.Base, want) })}
	}
	if err := st.send(key.name, parts...); err != nil {
		return err
	}
	if u.State.TotalsErr != nil {
		return nil // unknown for now; the next state tries again
	}
	return st.send("totals", shared(u.State, eventKey{name: "totals", packed: st.packed},
		func(b []byte) []byte { return marshal(b, totalsAnswer(u.State)) }))
}
