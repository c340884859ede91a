package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"procinsh/bpf"
	"procinsh/proc"
	"procinsh/watch"
)

func (r random) node(pid int32) watch.ListRow {
	row := r.row()
	row.ID.PID = pid
	r.space(&row)
	return row
}

// space makes up an address space: known, cut, or not known for some reason.
func (r random) space(row *watch.ListRow) {
	row.Maps, row.Mappings, row.MapsErr = nil, nil, nil
	row.MapsEpoch = r.u64() >> 11
	switch r.IntN(5) {
	case 0:
		row.MapsErr = []error{proc.ErrHeld, proc.ErrTruncated, proc.ErrGone, errors.New("another")}[r.IntN(4)]
	case 1: // not asked for
	default:
		m := &proc.Mappings{Maps: many(r, 4, r.mapping)}
		m.Total = len(m.Maps) + r.IntN(2)
		row.Mappings, row.Maps = m, r.summaryOfMaps()
	}
}

func (r random) port() watch.Port {
	return watch.Port{Process: r.id(), FD: r.i32(), FDCount: r.i32(), Resource: r.text(), Kind: []string{"pipe", "fifo", "socket"}[r.IntN(3)], Access: []string{"", "read", "read/write"}[r.IntN(3)]}
}

func (r random) edge(id string) watch.Edge {
	e := watch.Edge{ID: id, A: r.port(), B: opt(r, r.port), Label: r.text(), Candidate: r.yes(), Shared: r.yes()}
	e.Socket = opt(r, func() watch.Socket {
		return watch.Socket{Protocol: opt(r, r.text), State: opt(r, r.text), Local: opt(r, r.text), Remote: opt(r, r.text), NetworkPeer: r.yes(), RemoteHostname: opt(r, r.text)}
	})
	return e
}

func (r random) topology() *watch.Topology {
	t := &watch.Topology{Sequence: r.u64(), CapturedAt: r.at(), Warnings: nonNil(r.texts()), InspectedProcesses: r.IntN(99), InspectedFDs: r.IntN(99)}
	for pid := int32(1); pid < 30; pid += 1 + r.Int32N(3) {
		t.Nodes = append(t.Nodes, r.node(pid))
	}
	for i := range 20 {
		if r.yes() {
			t.Edges = append(t.Edges, r.edge("e"+strconv.Itoa(i)))
		}
	}
	slices.SortFunc(t.Edges, func(a, b watch.Edge) int { return cmp.Compare(a.ID, b.ID) })
	return t
}

// after is a structure that some time may have made of t.
func (r random) after(t *watch.Topology) *watch.Topology {
	next := &watch.Topology{Sequence: t.Sequence + 1, CapturedAt: r.at(), Warnings: t.Warnings, InspectedProcesses: r.IntN(99), InspectedFDs: r.IntN(99)}
	for _, row := range t.Nodes {
		switch r.IntN(10) {
		case 0: // gone
			continue
		case 1: // another process has its PID
			row.ID.StartTicks++
			r.space(&row)
		case 2:
			row.RSS++
		case 3:
			row.CPUPercent = opt(r, r.float)
		case 4:
			r.space(&row)
		case 5: // the same reason in another value, or another one
			row.MapsErr = r.err()
		case 6: // what no node shows
			row.CPUTicks++
			row.At++
			row.State = "RSI"[r.IntN(3)]
		case 7: // the states that are told, and what is not
			row.State = "DZTtSR"[r.IntN(6)]
		}
		next.Nodes = append(next.Nodes, row)
		if r.IntN(6) == 0 {
			next.Nodes = append(next.Nodes, r.node(row.ID.PID+1))
		}
	}
	next.Nodes = distinct(next.Nodes)
	for _, e := range t.Edges {
		switch r.IntN(5) {
		case 0:
			continue
		case 1:
			e = r.edge(e.ID)
		}
		next.Edges = append(next.Edges, e)
	}
	for i := range 20 {
		id := "e" + strconv.Itoa(i)
		if r.IntN(8) == 0 && !slices.ContainsFunc(t.Edges, func(e watch.Edge) bool { return e.ID == id }) {
			next.Edges = append(next.Edges, r.edge(id))
		}
	}
	slices.SortFunc(next.Edges, func(a, b watch.Edge) int { return cmp.Compare(a.ID, b.ID) })
	return next
}

func wireFloat(o proc.Opt[float64]) *float64 {
	f, ok := twoDecimals(o).Get()
	if !ok || math.IsInf(f, 0) {
		return nil
	}
	return &f
}

func wireNode(r *watch.ListRow, form nodeMaps) TopologyNode {
	d := r.Details
	if d == nil {
		d = &proc.Details{}
	}
	n := TopologyNode{Identity: identity(r.ID), ParentID: optIdentity(r.Parent), Name: d.Name, UID: r.UID, Username: d.Username, EUID: r.EUID,
		EffectiveUsername: d.EffectiveUsername, CPUPercent: wireFloat(r.CPUPercent), RSSBytes: r.RSS, ThreadCount: r.Threads, Container: d.Container,
		RunID: textOrNull(r.Run), MapsEpoch: r.MapsEpoch, MapsError: textOrNull(mapsError(r, form))}
	if strings.ContainsRune("DZTt", rune(r.State)) {
		n.State = new(string)
		*n.State = string(rune(r.State))
	}
	switch {
	case form == wholeMaps && r.Mappings != nil:
		n.Maps = wireMappings(r.Mappings.Maps)
	case form == summaryMaps && r.Maps != nil:
		n.MapSummary = wireSummary(r, watch.ListWant{Maps: true}).MapSummary
	}
	return n
}

func wireEdge(e *watch.Edge) TopologyEdge {
	port := func(p watch.Port) *Port {
		return &Port{ProcessID: identity(p.Process), FD: p.FD, FDCount: p.FDCount, Resource: p.Resource, Kind: p.Kind, Access: textOrNull(p.Access)}
	}
	w := TopologyEdge{ID: e.ID, A: *port(e.A), Label: e.Label, Candidate: e.Candidate, Shared: e.Shared}
	if b, ok := e.B.Get(); ok {
		w.B = port(b)
	}
	if s, ok := e.Socket.Get(); ok {
		w.Socket = &TopologySocket{Protocol: s.Protocol.Ptr(), State: s.State.Ptr(), Local: s.Local.Ptr(), Remote: s.Remote.Ptr(), NetworkPeer: s.NetworkPeer, RemoteHostname: s.RemoteHostname.Ptr()}
	}
	return w
}

func wireTopology(t *watch.Topology, form nodeMaps) Topology {
	w := Topology{Sequence: t.Sequence, CapturedAt: t.CapturedAt.UnixMilli(), Nodes: []TopologyNode{}, Edges: []TopologyEdge{}, Warnings: t.Warnings,
		InspectedProcesses: t.InspectedProcesses, InspectedFDs: t.InspectedFDs}
	for i := range t.Nodes {
		w.Nodes = append(w.Nodes, wireNode(&t.Nodes[i], form))
	}
	for i := range t.Edges {
		w.Edges = append(w.Edges, wireEdge(&t.Edges[i]))
	}
	return w
}

// A Go type leaves out an address space that is null; the wire has it.
func dropNullMaps(text []byte) string {
	s := strings.ReplaceAll(string(text), `,"maps":null,"maps_epoch"`, `,"maps_epoch"`)
	return strings.ReplaceAll(s, `,"map_summary":null,"maps_epoch"`, `,"maps_epoch"`)
}

func TestTopologyAgreesWithEncodingJSON(t *testing.T) {
	inOneGoroutine(t)
	for seed := range uint64(200) {
		r := newRandom(seed)
		x := r.topology()
		for _, form := range []nodeMaps{wholeMaps, summaryMaps} {
			text := appendTopology(nil, x, form, whole)
			if !json.Valid(text) {
				t.Fatalf("seed %d: no JSON: %s", seed, text)
			}
			same(t, []byte(dropNullMaps(text)), wireTopology(x, form))
		}
	}
}

// rawTopology and rawDelta are the events as a client sees them, each value as its
// own bytes.
type rawTopology struct {
	Sequence           json.RawMessage   `json:"sequence"`
	CapturedAt         json.RawMessage   `json:"captured_at"`
	Nodes              []rawNode         `json:"nodes"`
	Edges              []json.RawMessage `json:"edges"`
	Warnings           json.RawMessage   `json:"warnings"`
	InspectedProcesses json.RawMessage   `json:"inspected_processes"`
	InspectedFDs       json.RawMessage   `json:"inspected_fds"`
}

type rawNode struct {
	Identity          Identity        `json:"identity"`
	ParentID          json.RawMessage `json:"parent_id"`
	Name              json.RawMessage `json:"name"`
	UID               json.RawMessage `json:"uid"`
	Username          json.RawMessage `json:"username"`
	EUID              json.RawMessage `json:"euid"`
	EffectiveUsername json.RawMessage `json:"effective_username"`
	CPUPercent        json.RawMessage `json:"cpu_percent"`
	RSSBytes          json.RawMessage `json:"rss_bytes"`
	ThreadCount       json.RawMessage `json:"thread_count"`
	Container         json.RawMessage `json:"container"`
	RunID             json.RawMessage `json:"run_id"`
	State             json.RawMessage `json:"state"`
	rawSpace
}

type rawSpace struct {
	Maps       json.RawMessage `json:"maps,omitzero"`
	MapSummary json.RawMessage `json:"map_summary,omitzero"`
	MapsEpoch  json.RawMessage `json:"maps_epoch"`
	MapsError  json.RawMessage `json:"maps_error"`
}

type rawDelta struct {
	Sequence     json.RawMessage `json:"sequence"`
	BaseSequence json.RawMessage `json:"base_sequence"`
	CapturedAt   json.RawMessage `json:"captured_at"`
	NodesChanged []rawNode       `json:"nodes_changed"`
	NodesRemoved []Identity      `json:"nodes_removed"`
	MapsChanged  []struct {
		Identity Identity `json:"identity"`
		rawSpace
	} `json:"maps_changed"`
	EdgesChanged       []json.RawMessage `json:"edges_changed"`
	EdgesRemoved       []string          `json:"edges_removed"`
	Warnings           json.RawMessage   `json:"warnings"`
	InspectedProcesses json.RawMessage   `json:"inspected_processes"`
	InspectedFDs       json.RawMessage   `json:"inspected_fds"`
}

func edgeID(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var e struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		t.Fatal(err)
	}
	return e.ID
}

// apply is what a client does with a delta.
func (x *rawTopology) apply(t *testing.T, d *rawDelta) {
	t.Helper()
	if string(x.Sequence) != string(d.BaseSequence) {
		t.Fatalf("a delta of %s for a structure %s", d.BaseSequence, x.Sequence)
	}
	nodes := map[Identity]rawNode{}
	for _, n := range x.Nodes {
		nodes[n.Identity] = n
	}
	for _, id := range d.NodesRemoved {
		if _, ok := nodes[id]; !ok {
			t.Fatalf("%v is removed and was not there", id)
		}
		delete(nodes, id)
	}
	for _, n := range d.NodesChanged {
		if n.Maps != nil || n.MapSummary != nil {
			t.Fatalf("a changed node has maps: %+v", n)
		}
		n.Maps, n.MapSummary = nodes[n.Identity].Maps, nodes[n.Identity].MapSummary
		nodes[n.Identity] = n
	}
	for _, m := range d.MapsChanged {
		n, ok := nodes[m.Identity]
		if !ok {
			t.Fatalf("maps of %v, which is not there", m.Identity)
		}
		n.rawSpace = m.rawSpace
		nodes[m.Identity] = n
	}
	x.Nodes = x.Nodes[:0]
	for _, n := range nodes {
		x.Nodes = append(x.Nodes, n)
	}
	slices.SortFunc(x.Nodes, func(a, b rawNode) int { return cmp.Compare(a.Identity.PID, b.Identity.PID) })

	edges := map[string]json.RawMessage{}
	for _, e := range x.Edges {
		edges[edgeID(t, e)] = e
	}
	for _, id := range d.EdgesRemoved {
		if _, ok := edges[id]; !ok {
			t.Fatalf("edge %s is removed and was not there", id)
		}
		delete(edges, id)
	}
	for _, e := range d.EdgesChanged {
		id := edgeID(t, e)
		if string(edges[id]) == string(e) {
			t.Fatalf("edge %s is among the changed and did not change", id)
		}
		edges[id] = e
	}
	x.Edges = x.Edges[:0]
	for _, e := range edges {
		x.Edges = append(x.Edges, e)
	}
	slices.SortFunc(x.Edges, func(a, b json.RawMessage) int { return cmp.Compare(edgeID(t, a), edgeID(t, b)) })
	x.Sequence, x.CapturedAt, x.Warnings = d.Sequence, d.CapturedAt, d.Warnings
	x.InspectedProcesses, x.InspectedFDs = d.InspectedProcesses, d.InspectedFDs
}

// A delta applied to its base gives the whole structure byte for byte, through many
// steps, in both forms.
func TestTopologyDeltaGivesTheWhole(t *testing.T) {
	inOneGoroutine(t)
	for seed := range uint64(60) {
		for _, form := range []nodeMaps{wholeMaps, summaryMaps} {
			r := newRandom(seed)
			now := r.topology()
			var have rawTopology
			if err := json.Unmarshal(appendTopology(nil, now, form, whole), &have); err != nil {
				t.Fatal(err)
			}
			for step := range 8 {
				next := r.after(now)
				text := appendTopologyDelta(nil, next, now, form, whole)
				var d rawDelta
				if err := json.Unmarshal(text, &d); err != nil {
					t.Fatalf("%v in %s", err, text)
				}
				have.apply(t, &d)
				want := string(appendTopology(nil, next, form, whole))
				if got := encodingJSON(t, have); got != want {
					i := 0
					for i < len(got) && i < len(want) && got[i] == want[i] {
						i++
					}
					t.Fatalf("seed %d, form %v, step %d: differs at byte %d:\ngot  …%.200s\nwant …%.200s", seed, form, step, i, got[max(0, i-60):], want[max(0, i-60):])
				}
				now = next
			}
		}
	}
}

// A delta between two equal structures says nothing.
func TestTopologyDeltaOfNothing(t *testing.T) {
	r := newRandom(3)
	x := r.topology()
	next := *wireless(x)
	next.Sequence++
	var d TopologyDelta
	if err := json.Unmarshal(appendTopologyDelta(nil, &next, x, wholeMaps, whole), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.NodesChanged)+len(d.NodesRemoved)+len(d.MapsChanged)+len(d.EdgesChanged)+len(d.EdgesRemoved) != 0 {
		t.Errorf("a delta of nothing: %+v", d)
	}
}

// wireless copies what a structure shows.
func wireless(t *watch.Topology) *watch.Topology {
	return &watch.Topology{Sequence: t.Sequence, CapturedAt: t.CapturedAt, Nodes: slices.Clone(t.Nodes), Edges: slices.Clone(t.Edges), Warnings: t.Warnings,
		InspectedProcesses: t.InspectedProcesses, InspectedFDs: t.InspectedFDs}
}

func TestActivityAgreesWithEncodingJSON(t *testing.T) {
	for seed := range uint64(100) {
		r := newRandom(seed)
		transfer := func() watch.Transfer {
			return watch.Transfer{Process: r.id(), Resource: watch.Resource{Kind: []bpf.Kind{bpf.Pipe, bpf.Socket, bpf.File}[r.IntN(3)], Major: r.Uint32(), Minor: r.Uint32(), Inode: r.u64(), Generation: r.Uint32()},
				Write: r.yes(), Bytes: r.u64(), Count: r.u64(), Path: opt(r, r.text)}
		}
		a := &watch.Activity{CapturedAt: r.Int64(), Window: time.Duration(r.Int64N(1e12)), IPC: many(r, 4, transfer), Files: many(r, 4, transfer),
			CPU: many(r, 4, func() watch.CPUActivity {
				return watch.CPUActivity{Process: r.id(), Runtime: r.u64(), Switches: r.u64(), RunningThreads: r.IntN(9), CPUs: many(r, 4, func() int { return r.IntN(64) })}
			})}
		sensor := func() bpf.SensorStatus {
			return bpf.SensorStatus{State: []bpf.State{bpf.StateIdle, bpf.StateObserving, bpf.StateError}[r.IntN(3)], Reason: r.text()}
		}
		a.Status = watch.SystemStatus{Active: r.yes(), Status: bpf.Status{CPU: sensor(), IPC: sensor(), Files: sensor(), Coverage: r.texts(), FilesCoverage: r.texts(), Lost: r.u64(), Unresolved: r.u64(), FilesLost: r.u64()}}
		w := Activity{CapturedAt: a.CapturedAt, WindowMS: float64(a.Window.Microseconds()) / 1000, CPU: []CPUActivity{}, IPC: []IPCActivity{}, Files: []FileActivity{}, Status: statusAnswer(&a.Status)}
		for _, c := range a.CPU {
			w.CPU = append(w.CPU, CPUActivity{identity(c.Process), c.Runtime, c.Switches, c.RunningThreads, nonNil(c.CPUs)})
		}
		for _, x := range a.IPC {
			w.IPC = append(w.IPC, IPCActivity{identity(x.Process), string(watch.AppendResource(nil, x.Resource)), x.Write, x.Bytes, x.Count})
		}
		for _, x := range a.Files {
			w.Files = append(w.Files, FileActivity{identity(x.Process), string(watch.AppendResource(nil, x.Resource)), x.Path.Ptr(), x.Write, x.Bytes, x.Count})
		}
		same(t, appendActivity(nil, a), w)

		s := &watch.ListState{Rows: many(r, 5, r.row)}
		m := []ProcessMetrics{}
		for i := range s.Rows {
			m = append(m, ProcessMetrics{identity(s.Rows[i].ID), wireFloat(s.Rows[i].CPUPercent), s.Rows[i].RSS})
		}
		same(t, appendMetrics(nil, s), m)
	}
}
