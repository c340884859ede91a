package watch

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"procinsh/proc"
)

// graphOf makes edges of objects and ends that a test names.
func graphOf(t *testing.T, c *proc.HostConnections, pids ...int32) map[string]Edge {
	t.Helper()
	var nodes []ListRow
	for _, pid := range pids {
		nodes = append(nodes, ListRow{Row: proc.Row{ID: proc.ID{PID: pid, StartTicks: 7}}})
	}
	list := newGraph(nodes, c, nil).build()
	edges := map[string]Edge{}
	for i, e := range list {
		if i > 0 && list[i-1].ID >= e.ID {
			t.Errorf("edge %q comes after %q", e.ID, list[i-1].ID)
		}
		edges[e.ID] = e
	}
	return edges
}

// host is a HostConnections that a test puts together.
type host struct{ proc.HostConnections }

const (
	accessNone  = 1
	accessRead  = 2
	accessWrite = 3
	accessBoth  = 4
)

type holder struct {
	pid    int32
	access uint8
}

// add adds an object with its holders and returns its index.
func (h *host) add(o proc.HostObject, holders ...holder) int32 {
	o.First, o.Count = int32(len(h.Ends)), int32(len(holders))
	for i, x := range holders {
		at := slices.IndexFunc(h.Processes, func(p proc.HostProcess) bool { return p.ID.PID == x.pid })
		if at < 0 {
			at = len(h.Processes)
			h.Processes = append(h.Processes, proc.HostProcess{ID: proc.ID{PID: x.pid, StartTicks: 7}})
		}
		h.Ends = append(h.Ends, proc.ConnectionEnd{Process: int32(at), FD: int32(i + 3), Count: 1, Access: x.access})
	}
	h.Objects = append(h.Objects, o)
	return int32(len(h.Objects) - 1)
}

// line is what matters of an edge: a > b for a sure peer, ? for a candidate, = for
// shared.
func line(e Edge) string {
	b, ok := e.B.Get()
	sign, far := ">", "nobody"
	switch {
	case e.Candidate:
		sign = "?"
	case e.Shared:
		sign = "="
	}
	if ok {
		far = fmt.Sprint(b.Process.PID)
	}
	return fmt.Sprint(e.A.Process.PID, sign, far)
}

func TestEdgesOfPipes(t *testing.T) {
	for _, c := range []struct {
		name    string
		holders []holder
		want    []string // by ID
	}{
		{"one writer, one reader", []holder{{1, accessWrite}, {2, accessRead}}, []string{"1>2"}},
		{"one process holds both", []holder{{1, accessRead}, {1, accessWrite}}, []string{"1>1"}},
		{"only a reader", []holder{{1, accessRead}}, []string{"1>nobody"}},
		{"no reader", []holder{{1, accessWrite}, {2, accessWrite}, {3, accessWrite}}, []string{"1=2", "1=3"}},
		{"a star, not a mesh", []holder{{1, accessRead}, {2, accessRead}, {3, accessWrite}, {4, accessWrite}}, []string{"1=2", "3>1", "4>1"}},
		{"inherited by a child", []holder{{1, accessRead}, {1, accessWrite}, {2, accessWrite}}, []string{"1>1", "2>1"}},
		{"FIFO open for both", []holder{{1, accessBoth}, {2, accessRead}, {3, accessWrite}}, []string{"1>2", "3>1"}},
		{"O_PATH is no end", []holder{{1, accessNone}, {2, accessRead}, {3, accessWrite}}, []string{"2=1", "3>2"}},
		{"unknown access", []holder{{1, 0}, {2, 0}}, []string{"1=2"}},
		{"a process that is not listed", []holder{{1, accessWrite}, {9, accessRead}}, []string{"1>nobody"}},
		{"nobody is listed", []holder{{9, accessRead}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &host{}
			h.add(proc.HostObject{Kind: proc.FDPipe, Device: 14, Inode: 5, Peer: -1}, c.holders...)
			var got []string
			for _, e := range graphOf(t, &h.HostConnections, 1, 2, 3, 4) {
				got = append(got, line(e))
				for _, p := range []proc.Opt[Port]{proc.Some(e.A), e.B} {
					if p, ok := p.Get(); ok && (p.Resource != "pipe:14:5" || p.Kind != proc.FDPipe || p.FDCount != 1) {
						t.Errorf("port %+v", p)
					}
				}
				if e.Socket.Known() {
					t.Errorf("a pipe with a socket: %+v", e)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func tcp(local, remote string, state string) *proc.HostSocket {
	s := &proc.HostSocket{Protocol: proc.Some("TCP"), State: proc.Some(state), Local: proc.Some(local)}
	if remote != "" {
		s.Remote = proc.Some(remote)
		s.RemoteIP = netip.MustParseAddrPort(remote).Addr()
	}
	return s
}

func TestEdgesOfSockets(t *testing.T) {
	h := &host{}
	h.add(proc.HostObject{Kind: proc.FDSocket, Device: 8, Inode: 1, Peer: 1, Candidate: true, Socket: tcp("127.0.0.1:80", "127.0.0.1:5000", "ESTABLISHED")}, holder{1, accessBoth}, holder{2, accessBoth})
	h.add(proc.HostObject{Kind: proc.FDSocket, Device: 8, Inode: 2, Peer: 0, Candidate: true, Socket: tcp("127.0.0.1:5000", "127.0.0.1:80", "ESTABLISHED")}, holder{3, accessBoth})
	h.add(proc.HostObject{Kind: proc.FDSocket, Device: 8, Inode: 3, Peer: -1, Socket: tcp("0.0.0.0:80", "", "LISTEN")}, holder{1, accessBoth})
	h.add(proc.HostObject{Kind: proc.FDSocket, Device: 8, Inode: 4, Peer: -1, Socket: tcp("10.0.0.1:5001", "192.0.2.1:443", "ESTABLISHED")}, holder{4, accessBoth})
	// Two datagram sockets that talk to one that talks to nobody.
	to := h.add(proc.HostObject{Kind: proc.FDSocket, Device: 8, Inode: 5, Peer: -1, Socket: &proc.HostSocket{Protocol: proc.Some(proc.ProtocolUnixDgram), Local: proc.Some("/dev/log")}}, holder{1, accessBoth})
	h.add(proc.HostObject{Kind: proc.FDSocket, Device: 8, Inode: 6, Peer: to}, holder{2, accessBoth})
	h.add(proc.HostObject{Kind: proc.FDSocket, Device: 8, Inode: 7, Peer: to}, holder{3, accessBoth})
	// The other end is held by nobody who is listed.
	far := h.add(proc.HostObject{Kind: proc.FDSocket, Device: 8, Inode: 8, Peer: 8}, holder{9, accessBoth})
	h.add(proc.HostObject{Kind: proc.FDSocket, Device: 8, Inode: 9, Peer: far}, holder{2, accessBoth})
	edges := graphOf(t, &h.HostConnections, 1, 2, 3, 4)
	want := map[string]string{
		"socket:8:1-socket:8:2": "1?3",
		"socket:8:1@2.7b":       "1=2",
		"socket:8:3":            "1>nobody",
		"socket:8:4":            "4>nobody",
		"socket:8:5":            "1>nobody",
		"socket:8:6-socket:8:5": "2>1",
		"socket:8:7-socket:8:5": "3>1",
		"socket:8:9":            "2>nobody",
	}
	for id, w := range want {
		if got := line(edges[id]); got != w {
			t.Errorf("edge %s: got %s, want %s", id, got, w)
		}
	}
	if len(edges) != len(want) {
		t.Errorf("%d edges, want %d: %v", len(edges), len(want), edges)
	}
	for id, peer := range map[string]bool{"socket:8:1-socket:8:2": true, "socket:8:3": false, "socket:8:4": true, "socket:8:5": false, "socket:8:9": false} {
		s, ok := edges[id].Socket.Get()
		if !ok || s.NetworkPeer != peer {
			t.Errorf("edge %s: socket %+v, want network_peer %v", id, s, peer)
		}
	}
	for id, label := range map[string]string{"socket:8:3": "TCP listens at 0.0.0.0:80", "socket:8:4": "TCP 192.0.2.1:443", "socket:8:5": "UNIX DGRAM /dev/log", "socket:8:9": "socket"} {
		if got := edges[id].Label; got != label {
			t.Errorf("edge %s: label %q, want %q", id, got, label)
		}
	}
}

// When there are too many edges, those between processes stay.
func TestEdgesAreCut(t *testing.T) {
	h := &host{}
	for i := range maxEdges {
		h.add(proc.HostObject{Kind: proc.FDPipe, Device: 14, Inode: uint64(i + 1), Peer: -1}, holder{1, accessRead})
	}
	h.add(proc.HostObject{Kind: proc.FDPipe, Device: 14, Inode: maxEdges + 1, Peer: -1}, holder{1, accessRead}, holder{2, accessWrite}, holder{3, accessRead})
	g := newGraph([]ListRow{{Row: proc.Row{ID: proc.ID{PID: 1, StartTicks: 7}}}, {Row: proc.Row{ID: proc.ID{PID: 2, StartTicks: 7}}}, {Row: proc.Row{ID: proc.ID{PID: 3, StartTicks: 7}}}}, &h.HostConnections, nil)
	edges := g.build()
	if len(edges) != maxEdges || len(g.warnings) != 1 || !strings.Contains(g.warnings[0], fmt.Sprint(maxEdges+2)) {
		t.Fatalf("%d edges, warnings %q", len(edges), g.warnings)
	}
	peers, shared := 0, 0
	for _, e := range edges {
		if e.Shared {
			shared++
		} else if b, ok := e.B.Get(); ok && b.Process != e.A.Process {
			peers++
		}
	}
	if peers != 1 || shared != 1 {
		t.Errorf("%d peers and %d shared are left, want one each", peers, shared)
	}
}
