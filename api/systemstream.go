package api

import (
	"net/http"

	"procinsh/watch"
)

// systemKey names an event of the host that is made once for all its viewers.
type systemKey struct {
	name   string
	form   nodeMaps
	packed bool
}

// sharedPart is an event that the first viewer who needs it encodes, and the first
// one who needs that compresses.
func sharedPart(memo func(any, func() any) any, key systemKey, data func([]byte) []byte) part {
	packed := key.packed
	key.packed = false
	var p part
	p.text = memo(key, func() any { return appendEvent(nil, key.name, data) }).([]byte)
	if packed {
		key.packed = true
		p.packed = memo(key, func() any { return deflate(nil, p.text) }).([]byte)
	}
	return p
}

// streamSystem is GET /api/system/events: the structure of the host, and what
// happens on it.
func (s *Server) streamSystem(w http.ResponseWriter, r *http.Request) error {
	q, err := parseQuery(r)
	if err != nil {
		return err
	}
	delta, err := q.choice("delta", "1")
	if err != nil {
		return err
	}
	summaries, err := q.choice("maps", "summary")
	if err != nil {
		return err
	}
	v, err := s.system.Subscribe(watch.SystemWant{Summaries: summaries})
	if err != nil {
		return err
	}
	defer v.Close()
	ctx := r.Context()
	st, err := s.openStream(w, r)
	if err != nil {
		return nil // the client is gone
	}
	defer st.end()
	for {
		e, err := next(ctx, st, v.Next)
		if err != nil {
			return nil // the server stops, or the client left
		}
		if !delta {
			e.Base = nil
		}
		if err := sendSystem(st, e, nodeMaps(summaries)); err != nil {
			return nil
		}
	}
}

// sendSystem sends one event.
func sendSystem(st *stream, e watch.SystemEvent, form nodeMaps) error {
	switch {
	case e.Topology != nil && e.Base != nil:
		// The base of a structure is always the same one, so the name is enough.
		return st.send("topology_delta", longParts(e.Topology.Memo, systemKey{"topology_delta", form, st.packed}, "topology_delta", st.packed,
			func(b []byte, s spill) []byte { return appendTopologyDelta(b, e.Topology, e.Base, form, s) })...)
	case e.Topology != nil:
		return st.send("topology", longParts(e.Topology.Memo, systemKey{"topology", form, st.packed}, "topology", st.packed,
			func(b []byte, s spill) []byte { return appendTopology(b, e.Topology, form, s) })...)
	case e.Metrics != nil:
		return st.send("metrics", sharedPart(e.Metrics.Memo, systemKey{"metrics", false, st.packed},
			func(b []byte) []byte { return appendMetrics(b, e.Metrics) }))
	case e.Activity != nil:
		return st.send("activity", sharedPart(e.Activity.Memo, systemKey{"activity", false, st.packed},
			func(b []byte) []byte { return appendActivity(b, e.Activity) }))
	}
	st.log.Debug("a viewer fell behind", "stream", st.number, "path", st.path, "dropped_frames", e.Dropped)
	return st.send("gap", pack(appendEvent(nil, "gap", func(b []byte) []byte { return marshal(b, Gap{e.Dropped}) }), st.packed))
}

// getTopology is GET /api/system/topology: the structure as it is known.
func (s *Server) getTopology(w http.ResponseWriter, r *http.Request) error {
	q, err := parseQuery(r)
	if err != nil {
		return err
	}
	summaries, err := q.choice("maps", "summary")
	if err != nil {
		return err
	}
	t := s.system.Topology()
	replyLong(w, r, t.Memo, nodeMaps(summaries), func(b []byte, s spill) []byte { return appendTopology(b, t, nodeMaps(summaries), s) })
	return nil
}

// getStatus is GET /api/system/status.
func (s *Server) getStatus(w http.ResponseWriter, r *http.Request) error {
	status := s.system.Status()
	replyValue(w, r, statusAnswer(&status))
	return nil
}
