package watch

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"procinsh/proc"
)

// maxEdges is how many connections a topology has.
const maxEdges = 100_000

// Ranks of edges: what comes first stays when there are too many.
const (
	rankPeer   = iota // between two processes
	rankRemote        // to another host
	rankShared        // of several holders
	rankLocal         // within one process, or without another end
)

// graph makes the edges of a topology.
type graph struct {
	c         *proc.HostConnections
	nodes     []ListRow
	hostnames *names
	known     []bool // by process: it is among the nodes
	resources []string
	edges     []rankedEdge
	warnings  []string
}

type rankedEdge struct {
	rank int
	Edge
}

func newGraph(nodes []ListRow, c *proc.HostConnections, hostnames *names) *graph {
	g := &graph{c: c, nodes: nodes, hostnames: hostnames, known: make([]bool, len(c.Processes)), resources: make([]string, len(c.Objects))}
	for i := range c.Processes {
		id := c.Processes[i].ID
		at, ok := slices.BinarySearchFunc(nodes, id.PID, func(r ListRow, pid int32) int { return cmp.Compare(r.ID.PID, pid) })
		g.known[i] = ok && nodes[at].ID == id
	}
	return g
}

// build returns the edges by ID.
//
// A pipe is a star: its first reader talks to everybody who writes, and shares it
// with the other readers; without a reader its first writer shares it. A socket is
// shared by its holders in the same way, and has one edge from its first holder to
// that of the other end, or to nobody. Holders that the list of processes does not
// have, as they began or ended in between, are left out.
func (g *graph) build() []Edge {
	for i := range g.c.Objects {
		ends := g.ends(i)
		if len(ends) == 0 {
			continue
		}
		if g.c.Objects[i].Kind == proc.FDSocket {
			g.socket(i, ends)
		} else {
			g.pipe(i, ends)
		}
	}
	if n := len(g.edges); n > maxEdges {
		slices.SortFunc(g.edges, func(a, b rankedEdge) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.ID, b.ID)) })
		g.edges = g.edges[:maxEdges]
		g.warnings = append(g.warnings, fmt.Sprintf("only %d of %d connections are shown: those within one process or without another end are left out first, then shared ones", maxEdges, n))
	}
	slices.SortFunc(g.edges, func(a, b rankedEdge) int { return cmp.Compare(a.ID, b.ID) })
	out := make([]Edge, len(g.edges))
	for i := range g.edges {
		out[i] = g.edges[i].Edge
	}
	return out
}

// ends returns the ends of an object whose processes are known.
func (g *graph) ends(object int) []proc.ConnectionEnd {
	o := &g.c.Objects[object]
	all := g.c.Ends[o.First : o.First+o.Count]
	if !slices.ContainsFunc(all, func(e proc.ConnectionEnd) bool { return !g.known[e.Process] }) {
		return all
	}
	var some []proc.ConnectionEnd
	for _, e := range all {
		if g.known[e.Process] {
			some = append(some, e)
		}
	}
	return some
}

func (g *graph) resource(object int) string {
	if g.resources[object] == "" {
		o := &g.c.Objects[object]
		kind := "pipe:"
		if o.Kind == proc.FDSocket {
			kind = "socket:"
		}
		g.resources[object] = kind + strconv.FormatUint(o.Device, 10) + ":" + strconv.FormatUint(o.Inode, 10)
	}
	return g.resources[object]
}

func (g *graph) port(object int, e *proc.ConnectionEnd) Port {
	return Port{
		Process: g.c.Processes[e.Process].ID, FD: e.FD, FDCount: e.Count,
		Resource: g.resource(object), Kind: g.c.Objects[object].Kind, Access: e.AccessText(),
	}
}

// spokeID names the edge between an object's hub and another end.
func spokeID(resource string, p *Port) string {
	id := resource + "@" + strconv.Itoa(int(p.Process.PID)) + "." + strconv.FormatUint(p.Process.StartTicks, 10)
	switch p.Access {
	case proc.AccessRead:
		id += "r"
	case proc.AccessWrite:
		id += "w"
	case proc.AccessNone:
		id += "n"
	case proc.AccessReadWrite:
		id += "b"
	}
	return id
}

func (g *graph) add(e Edge) {
	rank := rankLocal
	b, two := e.B.Get()
	switch {
	case e.Shared:
		rank = rankShared
	case two && b.Process != e.A.Process:
		rank = rankPeer
	case !two && e.Socket.Or(Socket{}).NetworkPeer:
		rank = rankRemote
	}
	g.edges = append(g.edges, rankedEdge{rank, e})
}

func (g *graph) pipe(object int, ends []proc.ConnectionEnd) {
	label := g.c.Objects[object].Kind
	if path := g.c.Objects[object].Path; path != "" {
		label = path
	}
	hub := max(0, slices.IndexFunc(ends, func(e proc.ConnectionEnd) bool { return e.CanRead() }))
	center := g.port(object, &ends[hub])
	if len(ends) == 1 {
		g.add(Edge{ID: g.resource(object), A: center, Label: label})
		return
	}
	for i := range ends {
		if i == hub {
			continue
		}
		p := g.port(object, &ends[i])
		e := Edge{ID: spokeID(center.Resource, &p), A: center, B: proc.Some(p), Label: label}
		switch {
		case ends[hub].CanRead() && ends[i].CanWrite():
			e.A, e.B = p, proc.Some(center)
		case ends[hub].CanWrite() && ends[i].CanRead():
		default:
			e.Shared = true
		}
		g.add(e)
	}
}

func (g *graph) socket(object int, ends []proc.ConnectionEnd) {
	o := &g.c.Objects[object]
	info := g.socketOf(o.Socket)
	label := labelOf(&info)
	center := g.port(object, &ends[0])
	for i := range ends[1:] {
		p := g.port(object, &ends[i+1])
		g.add(Edge{ID: spokeID(center.Resource, &p), A: center, B: proc.Some(p), Label: label, Socket: proc.Some(info), Shared: true})
	}
	e := Edge{ID: center.Resource, A: center, Label: label, Socket: proc.Some(info)}
	if o.Peer >= 0 {
		if far := g.ends(int(o.Peer)); len(far) > 0 {
			// Both ends name each other, unless a datagram socket talks to one that
			// talks to nobody: then there is one edge from each to the other.
			if back := g.c.Objects[o.Peer].Peer; int(back) == object && int(o.Peer) < object {
				return
			}
			b := g.port(int(o.Peer), &far[0])
			e.B, e.Candidate = proc.Some(b), o.Candidate
			e.ID += "-" + b.Resource
		}
	}
	g.add(e)
}

func (g *graph) socketOf(s *proc.HostSocket) Socket {
	if s == nil {
		return Socket{}
	}
	info := Socket{Protocol: s.Protocol, State: s.State, Local: s.Local, Remote: s.Remote}
	if s.RemoteIP.IsValid() {
		info.NetworkPeer = isInternet(s.Protocol.Or("")) && !s.RemoteIP.IsUnspecified()
		info.RemoteHostname = g.hostnames.of(s.RemoteIP)
	}
	return info
}

func isInternet(protocol string) bool {
	switch strings.TrimSuffix(protocol, "6") {
	case proc.ProtocolTCP, proc.ProtocolUDP, "MPTCP", "UDPLITE":
		return true
	}
	return false
}

// labelOf is what a drawing writes at a socket: the protocol and the name that
// tells most.
func labelOf(s *Socket) string {
	protocol := s.Protocol.Or(proc.FDSocket)
	name, ok := s.Remote.Get()
	if !ok {
		name = s.Local.Or("")
	}
	if s.State.Or("") == "LISTEN" {
		name = "listens at " + name
	}
	if name == "" {
		return protocol
	}
	return protocol + " " + name
}
