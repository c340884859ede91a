package api

import (
	"errors"
	"fmt"
	"math"

	"procinsh/proc"
	"procinsh/watch"
)

// nodeMaps says which of the two forms of an address space a viewer gets.
type nodeMaps bool

const (
	wholeMaps   nodeMaps = false
	summaryMaps nodeMaps = true
)

// twoDecimals is how CPU time is shown of the whole host: ticks are no finer.
func twoDecimals(o proc.Opt[float64]) proc.Opt[float64] {
	f, ok := o.Get()
	if !ok {
		return o
	}
	return proc.Some(math.Round(f*100)/100 + 0) // -0 becomes 0
}

// appendNode appends a row as a TopologyNode without maps, open for more fields.
func appendNode(b []byte, r *watch.ListRow) []byte {
	d := r.Details
	if d == nil {
		d = &noDetails
	}
	b = append(b, `{"identity":`...)
	b = appendIdentity(b, r.ID)
	b = append(b, `,"parent_id":`...)
	b = appendOptIdentity(b, r.Parent)
	b = append(b, `,"name":`...)
	b = appendString(b, d.Name)
	b = append(b, `,"uid":`...)
	b = appendUint(b, uint64(r.UID))
	b = append(b, `,"username":`...)
	b = appendNullableString(b, d.Username)
	b = append(b, `,"euid":`...)
	b = appendUint(b, uint64(r.EUID))
	b = append(b, `,"effective_username":`...)
	b = appendNullableString(b, d.EffectiveUsername)
	b = append(b, `,"cpu_percent":`...)
	b = appendOptFloat(b, twoDecimals(r.CPUPercent))
	b = append(b, `,"rss_bytes":`...)
	b = appendUint(b, r.RSS)
	b = append(b, `,"thread_count":`...)
	b = appendInt(b, int64(r.Threads))
	b = append(b, `,"container":`...)
	b = appendNullableString(b, d.Container)
	b = append(b, `,"run_id":`...)
	b = appendNullableString(b, textOrNull(r.Run))
	b = append(b, `,"state":`...)
	if letter := stuckState(r.State); letter != 0 {
		return append(b, '"', letter, '"')
	}
	return append(b, "null"...)
}

// stuckState is the letter of a state that a node tells, 0 for the others. Those change
// at every look: told too, each difference would name every process that does something.
func stuckState(letter byte) byte {
	switch letter {
	case 'D', 'Z', 'T', 't':
		return letter
	}
	return 0
}

// appendSpace appends the address space in the form a viewer gets, with a comma in
// front.
func appendSpace(b []byte, r *watch.ListRow, form nodeMaps) []byte {
	if form == summaryMaps {
		b = append(b, `,"map_summary":`...)
		return appendMapSummary(b, r.Maps)
	}
	b = append(b, `,"maps":`...)
	if r.Mappings == nil {
		return append(b, "null"...)
	}
	return appendList(b, r.Mappings.Maps, appendMapping)
}

func appendSpaceRest(b []byte, r *watch.ListRow, form nodeMaps) []byte {
	b = append(b, `,"maps_epoch":`...)
	b = appendUint(b, r.MapsEpoch)
	b = append(b, `,"maps_error":`...)
	b = appendNullableString(b, textOrNull(mapsError(r, form)))
	return append(b, '}')
}

// mapsError says why the address space is not known or not whole, "" when it is.
func mapsError(r *watch.ListRow, form nodeMaps) string {
	switch {
	case r.MapsErr != nil && (form == wholeMaps && r.Mappings == nil || form == summaryMaps && r.Maps == nil):
		switch {
		case errors.Is(r.MapsErr, proc.ErrHeld):
			return errHeld.message
		case errors.Is(r.MapsErr, proc.ErrTruncated):
			return "There are more mappings than are read of one process, or of all together: the maps of the process alone have them."
		}
		return *errorText(r.MapsErr)
	case form == wholeMaps && r.Mappings != nil && r.Mappings.Total > len(r.Mappings.Maps):
		return fmt.Sprintf("Only the first %d of %d mappings are here.", len(r.Mappings.Maps), r.Mappings.Total)
	}
	return ""
}

func appendPort(b []byte, p *watch.Port) []byte {
	b = append(b, `{"process_id":`...)
	b = appendIdentity(b, p.Process)
	b = append(b, `,"fd":`...)
	b = appendInt(b, int64(p.FD))
	b = append(b, `,"fd_count":`...)
	b = appendInt(b, int64(p.FDCount))
	b = append(b, `,"resource":`...)
	b = appendString(b, p.Resource)
	b = append(b, `,"kind":`...)
	b = appendString(b, p.Kind)
	b = append(b, `,"access":`...)
	b = appendNullableString(b, textOrNull(p.Access))
	return append(b, '}')
}

func appendEdge(b []byte, e *watch.Edge) []byte {
	b = append(b, `{"id":`...)
	b = appendString(b, e.ID)
	b = append(b, `,"a":`...)
	b = appendPort(b, &e.A)
	b = append(b, `,"b":`...)
	if p, ok := e.B.Get(); ok {
		b = appendPort(b, &p)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"label":`...)
	b = appendString(b, e.Label)
	b = append(b, `,"socket":`...)
	if s, ok := e.Socket.Get(); ok {
		b = append(b, `{"protocol":`...)
		b = appendOptString(b, s.Protocol)
		b = append(b, `,"state":`...)
		b = appendOptString(b, s.State)
		b = append(b, `,"local":`...)
		b = appendOptString(b, s.Local)
		b = append(b, `,"remote":`...)
		b = appendOptString(b, s.Remote)
		b = append(b, `,"network_peer":`...)
		b = appendBool(b, s.NetworkPeer)
		b = append(b, `,"remote_hostname":`...)
		b = appendOptString(b, s.RemoteHostname)
		b = append(b, '}')
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"candidate":`...)
	b = appendBool(b, e.Candidate)
	b = append(b, `,"shared":`...)
	b = appendBool(b, e.Shared)
	return append(b, '}')
}

// appendInspected appends what a topology and a delta end with.
func appendInspected(b []byte, t *watch.Topology) []byte {
	b = append(b, `,"warnings":`...)
	b = appendStrings(b, t.Warnings)
	b = append(b, `,"inspected_processes":`...)
	b = appendInt(b, int64(t.InspectedProcesses))
	b = append(b, `,"inspected_fds":`...)
	b = appendInt(b, int64(t.InspectedFDs))
	return append(b, '}')
}

// appendLong is appendList that spills between the items.
func appendLong[T any](b []byte, list []T, s spill, item func([]byte, *T) []byte) []byte {
	b = append(b, '[')
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = s(item(b, &list[i]))
	}
	return append(b, ']')
}

// appendTopology appends the whole structure.
func appendTopology(b []byte, t *watch.Topology, form nodeMaps, s spill) []byte {
	b = append(b, `{"sequence":`...)
	b = appendUint(b, t.Sequence)
	b = append(b, `,"captured_at":`...)
	b = appendInt(b, t.CapturedAt.UnixMilli())
	b = append(b, `,"nodes":`...)
	b = appendLong(b, t.Nodes, s, func(b []byte, r *watch.ListRow) []byte {
		return appendSpaceRest(appendSpace(appendNode(b, r), r, form), r, form)
	})
	b = append(b, `,"edges":`...)
	b = appendLong(b, t.Edges, s, appendEdge)
	return appendInspected(b, t)
}

// appendTopologyDelta appends what makes base into t.
func appendTopologyDelta(b []byte, t, base *watch.Topology, form nodeMaps, s spill) []byte {
	var removed []proc.ID
	var changed, spaces []*watch.ListRow
	old := base.Nodes
	for i := range t.Nodes {
		r := &t.Nodes[i]
		for len(old) > 0 && old[0].ID.PID < r.ID.PID {
			removed = append(removed, old[0].ID)
			old = old[1:]
		}
		if len(old) == 0 || old[0].ID.PID != r.ID.PID {
			changed, spaces = append(changed, r), append(spaces, r)
			continue
		}
		o := &old[0]
		old = old[1:]
		switch {
		case o.ID != r.ID:
			removed = append(removed, o.ID)
			changed, spaces = append(changed, r), append(spaces, r)
			continue
		case !sameNode(o, r):
			changed = append(changed, r)
		}
		if !sameSpace(o, r, form) {
			spaces = append(spaces, r)
		}
	}
	for i := range old {
		removed = append(removed, old[i].ID)
	}

	b = append(b, `{"sequence":`...)
	b = appendUint(b, t.Sequence)
	b = append(b, `,"base_sequence":`...)
	b = appendUint(b, base.Sequence)
	b = append(b, `,"captured_at":`...)
	b = appendInt(b, t.CapturedAt.UnixMilli())
	b = append(b, `,"nodes_changed":`...)
	b = appendLong(b, changed, s, func(b []byte, r **watch.ListRow) []byte {
		return appendSpaceRest(appendNode(b, *r), *r, form)
	})
	b = append(b, `,"nodes_removed":`...)
	b = appendList(b, removed, func(b []byte, id *proc.ID) []byte { return appendIdentity(b, *id) })
	b = append(b, `,"maps_changed":`...)
	b = appendLong(b, spaces, s, func(b []byte, r **watch.ListRow) []byte {
		b = append(b, `{"identity":`...)
		b = appendIdentity(b, (*r).ID)
		return appendSpaceRest(appendSpace(b, *r, form), *r, form)
	})
	b = append(b, `,"edges_changed":`...)
	b, gone := appendEdgeChanges(b, t.Edges, base.Edges, s)
	b = append(b, `,"edges_removed":`...)
	b = appendList(b, gone, func(b []byte, id *string) []byte { return appendString(b, *id) })
	return appendInspected(b, t)
}

// appendEdgeChanges appends the edges that are new or differ, and returns the IDs of
// those that are gone. Both lists are by ID.
func appendEdgeChanges(b []byte, edges, base []watch.Edge, s spill) ([]byte, []string) {
	var gone []string
	b = append(b, '[')
	first := true
	for i := range edges {
		e := &edges[i]
		for len(base) > 0 && base[0].ID < e.ID {
			gone = append(gone, base[0].ID)
			base = base[1:]
		}
		if len(base) > 0 && base[0].ID == e.ID {
			same := base[0] == *e
			base = base[1:]
			if same {
				continue
			}
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = s(appendEdge(b, e))
	}
	for i := range base {
		gone = append(gone, base[i].ID)
	}
	return append(b, ']'), gone
}

// sameNode tells whether two rows of one process give the same node, but for its
// address space.
func sameNode(a, b *watch.ListRow) bool {
	return a.Details == b.Details && a.Run == b.Run && a.Parent == b.Parent && a.UID == b.UID && a.EUID == b.EUID &&
		twoDecimals(a.CPUPercent) == twoDecimals(b.CPUPercent) && a.RSS == b.RSS && a.Threads == b.Threads && stuckState(a.State) == stuckState(b.State)
}

// sameSpace tells whether they give the same address space.
func sameSpace(a, b *watch.ListRow, form nodeMaps) bool {
	same := a.MapsEpoch == b.MapsEpoch && (a.MapsErr == b.MapsErr || mapsError(a, form) == mapsError(b, form))
	if form == summaryMaps {
		return same && a.Maps == b.Maps
	}
	return same && a.Mappings == b.Mappings
}

// appendMetrics appends the data of event metrics.
func appendMetrics(b []byte, s *watch.ListState) []byte {
	return appendList(b, s.Rows, func(b []byte, r *watch.ListRow) []byte {
		b = append(b, `{"identity":`...)
		b = appendIdentity(b, r.ID)
		b = append(b, `,"cpu_percent":`...)
		b = appendOptFloat(b, twoDecimals(r.CPUPercent))
		b = append(b, `,"rss_bytes":`...)
		b = appendUint(b, r.RSS)
		return append(b, '}')
	})
}

// appendActivity appends the data of event activity.
func appendActivity(b []byte, a *watch.Activity) []byte {
	b = append(b, `{"captured_at":`...)
	b = appendInt(b, a.CapturedAt)
	b = append(b, `,"window_ms":`...)
	b = appendFloat(b, float64(a.Window.Microseconds())/1000)
	b = append(b, `,"cpu":`...)
	b = appendList(b, a.CPU, func(b []byte, c *watch.CPUActivity) []byte {
		b = append(b, `{"process_id":`...)
		b = appendIdentity(b, c.Process)
		b = append(b, `,"runtime_ns":`...)
		b = appendUint(b, c.Runtime)
		b = append(b, `,"switches":`...)
		b = appendUint(b, c.Switches)
		b = append(b, `,"running_threads":`...)
		b = appendInt(b, int64(c.RunningThreads))
		b = append(b, `,"cpus":`...)
		b = appendList(b, c.CPUs, func(b []byte, n *int) []byte { return appendInt(b, int64(*n)) })
		return append(b, '}')
	})
	b = append(b, `,"ipc":`...)
	b = appendList(b, a.IPC, func(b []byte, t *watch.Transfer) []byte { return appendTransfer(b, t, false) })
	b = append(b, `,"files":`...)
	b = appendList(b, a.Files, func(b []byte, t *watch.Transfer) []byte { return appendTransfer(b, t, true) })
	b = append(b, `,"status":`...)
	b = marshal(b, statusAnswer(&a.Status))
	return append(b[:len(b)-1], '}') // without the newline
}

func appendTransfer(b []byte, t *watch.Transfer, path bool) []byte {
	b = append(b, `{"process_id":`...)
	b = appendIdentity(b, t.Process)
	b = append(b, `,"resource":"`...)
	b = watch.AppendResource(b, t.Resource)
	b = append(b, '"')
	if path {
		b = append(b, `,"path":`...)
		b = appendOptString(b, t.Path)
	}
	b = append(b, `,"write":`...)
	b = appendBool(b, t.Write)
	b = append(b, `,"bytes":`...)
	b = appendUint(b, t.Bytes)
	b = append(b, `,"count":`...)
	b = appendUint(b, t.Count)
	return append(b, '}')
}

func statusAnswer(s *watch.SystemStatus) SystemStatus {
	return SystemStatus{
		Active:        s.Active,
		CPU:           SensorStatus{string(s.CPU.State), textOrNull(s.CPU.Reason)},
		IPC:           SensorStatus{string(s.IPC.State), textOrNull(s.IPC.Reason)},
		Files:         SensorStatus{string(s.Files.State), textOrNull(s.Files.Reason)},
		Coverage:      nonNil(s.Coverage),
		FilesCoverage: nonNil(s.FilesCoverage),
		Lost:          s.Lost, Unresolved: s.Unresolved, FilesLost: s.FilesLost,
	}
}
