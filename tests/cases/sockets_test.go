package cases

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"procinsh/api"
)

// free returns ports that nobody has just now.
func free(t *testing.T, network string, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		if network == "tcp" {
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		} else {
			l, err := net.ListenPacket("udp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			ports = append(ports, l.LocalAddr().(*net.UDPAddr).Port)
		}
	}
	return ports
}

// The same addresses in two network namespaces: each side has its own peer.
func TestNetworkNamespaces(t *testing.T) {
	needRoot(t, "a network namespace")
	tcp, udp := free(t, "tcp", 2), free(t, "udp", 2)
	args := []string{strconv.Itoa(tcp[0]), strconv.Itoa(tcp[1]), strconv.Itoa(udp[0]), strconv.Itoa(udp[1])}
	own := target(t, "netpair", append([]string{"own"}, args...)...)
	host := target(t, "netpair", append([]string{"host"}, args...)...)
	at := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	for _, c := range []struct {
		name string
		*Case
	}{{"own namespace", own}, {"this namespace", host}} {
		client := identity(t, c.Int("CLIENT_PID"))
		fd := func(key string) int32 { return int32(c.Int(key)) }
		t.Run(c.name, func(t *testing.T) {
			e, warnings := descriptors(t, c.ID)
			o, _ := descriptors(t, client)
			a := e[fd("ACCEPTED_FD")]
			is(t, "accepted", []any{a.Kind, a.Protocol, a.State, a.Local, a.Remote, a.LocalKind}, []any{"socket", "TCP", "ESTABLISHED", at(tcp[0]), at(tcp[1]), "inet"})
			is(t, "accepted: peers", ends(a.Peers), []end{{client.PID, fd("CLIENT_FD")}})
			is(t, "accepted: relation", relations(a.Peers), []string{"address_candidate"})
			x := o[fd("CLIENT_FD")]
			is(t, "client", []any{x.State, x.Local, x.Remote}, []any{"ESTABLISHED", at(tcp[1]), at(tcp[0])})
			is(t, "client: peers", ends(x.Peers), []end{{c.ID.PID, fd("ACCEPTED_FD")}})
			l := e[fd("LISTEN_FD")]
			is(t, "listener", []any{l.State, l.Local, ends(l.Peers)}, []any{"LISTEN", at(tcp[0]), []end{}})
			u := e[fd("UDP_FD")]
			is(t, "udp", []any{u.Protocol, u.Local, u.Remote, ends(u.Peers)}, []any{"UDP", at(udp[0]), at(udp[1]), []end{{client.PID, fd("CLIENT_UDP_FD")}}})
			n := e[fd("UNIX_FD")]
			is(t, "unix", []any{n.Protocol, n.State}, []any{"UNIX STREAM", "ESTABLISHED"})
			is(t, "unix: peers", ends(n.Peers), []end{{client.PID, fd("CLIENT_UNIX_FD")}})
			is(t, "unix: relation", relations(n.Peers), []string{"unix_peer"})
			if len(warnings) > 0 {
				t.Logf("warnings: %q", warnings)
			}
		})
	}
}

// A port with TIME_WAIT rows, which have inode 0, and a connection that nobody
// has accepted, whose row has inode 0 too.
func TestTimeWait(t *testing.T) {
	c := target(t, "timewait", "20")
	e, _ := descriptors(t, c.ID)
	live, lis := int32(c.Int("LIVE_FD")), int32(c.Int("LISTEN_FD"))
	var sockets []int32
	for fd, d := range e {
		if d.Kind == "socket" {
			sockets = append(sockets, fd)
		}
	}
	slices.Sort(sockets)
	want := []int32{lis, live}
	slices.Sort(want)
	is(t, "sockets", sockets, want)
	is(t, "live", []any{e[live].Inode, e[live].State}, []any{c.Facts["LIVE_INODE"], "ESTABLISHED"})
	is(t, "live: peers", ends(e[live].Peers), []end{{int32(c.Int("PEER_PID")), int32(c.Int("PEER_FD"))}})
	is(t, "listener", []any{e[lis].State, ends(e[lis].Peers)}, []any{"LISTEN", []end{}})
	o, _ := descriptors(t, identity(t, c.Int("PEER_PID")))
	is(t, "peer of the live one", ends(o[int32(c.Int("PEER_FD"))].Peers), []end{{c.ID.PID, live}})
	w, _ := descriptors(t, identity(t, c.Int("WAITING_PID")))
	x := w[int32(c.Int("WAITING_FD"))]
	is(t, "waiting client: state", x.State, "ESTABLISHED")
	for _, p := range x.Peers {
		if p.Relation != "address_candidate" || p.ProcessID != c.ID || p.FD != lis {
			t.Errorf("waiting client: peer %+v, want none, or the listener as a candidate", p)
		}
	}
}

// UNIX sockets that share a path: only sock_diag knows who talks to whom.
func TestUnixPeers(t *testing.T) {
	c := target(t, "unixpeers", t.TempDir())
	e, _ := descriptors(t, c.ID)
	heir := int32(c.Int("HEIR_PID"))
	fd := func(key string) int32 { return int32(c.Int(key + "_FD")) }
	protocols := map[string]string{"CONN1": "UNIX STREAM", "CONN2": "UNIX STREAM", "STREAM": "UNIX STREAM", "DGRAM": "UNIX DGRAM", "SEQPACKET": "UNIX SEQPACKET"}
	for key, protocol := range protocols {
		x := e[fd(key)]
		is(t, key+": protocol, inode", []any{x.Protocol, x.Inode}, []any{protocol, c.Facts[key+"_INODE"]})
		is(t, key+": peers", ends(x.Peers), []end{{int32(c.Int(key + "_PEER_PID")), fd(key + "_PEER")}})
		is(t, key+": relation", relations(x.Peers), []string{"unix_peer"})
		is(t, key+": peer_inode", x.PeerInode, c.Facts[key+"_PEER_INODE"])
		is(t, key+": holders", ends(x.Holders), []end{{heir, fd(key)}})
		is(t, key+": holders' relation", relations(x.Holders), []string{"same_object"})
		other, _ := descriptors(t, identity(t, c.Int(key+"_PEER_PID")))
		back := []end{{c.ID.PID, fd(key)}, {heir, fd(key)}}
		slices.SortFunc(back, func(a, b end) int { return int(a.pid) - int(b.pid) })
		is(t, key+": peers seen from the other side", ends(other[fd(key+"_PEER")].Peers), back)
	}
	for _, key := range []string{"LISTEN", "OLD_LISTEN"} {
		x := e[fd(key)]
		is(t, key+": state, peers", []any{x.State, ends(x.Peers)}, []any{"LISTEN", []end{}})
		is(t, key+": holders", ends(x.Holders), []end{{heir, fd(key)}})
		is(t, key+": local_kind", x.LocalKind, "path")
		if x.Local == nil || !strings.HasSuffix(*x.Local, "/s") {
			t.Errorf("%s: local: got %v, want the path", key, value(x.Local))
		}
	}
	w, _ := descriptors(t, identity(t, c.Int("WAITING_PEER_PID")))
	x := w[fd("WAITING_PEER")]
	is(t, "client that is not accepted: inode", x.Inode, c.Facts["WAITING_PEER_INODE"])
	for _, p := range x.Peers {
		if p.Relation != "address_candidate" {
			t.Errorf("client that is not accepted: peer %+v", p)
		}
	}
	s := e[fd("SINK")]
	is(t, "abstract sink: local", []any{s.Protocol, s.LocalKind, s.Local}, []any{"UNIX DGRAM", "abstract", fmt.Sprintf("@unixpeers-%d", c.ID.PID)})
	sender, _ := descriptors(t, identity(t, c.Int("SENDER_PEER_PID")))
	is(t, "sender: peer_inode", sender[fd("SENDER_PEER")].PeerInode, c.Facts["SINK_INODE"])
	is(t, "sender: peers", slices.Contains(ends(sender[fd("SENDER_PEER")].Peers), end{c.ID.PID, fd("SINK")}), true)
	// Both ends in one process: each is the other's peer, not its holder.
	is(t, "own pair: peers", slices.Contains(ends(e[fd("OWN_A")].Peers), end{c.ID.PID, fd("OWN_B")}), true)
	is(t, "own pair: not a holder", slices.Contains(ends(e[fd("OWN_A")].Holders), end{c.ID.PID, fd("OWN_B")}), false)
}

// More descriptors than a scan looks at, nearly all of one pipe.
func TestManyDescriptors(t *testing.T) {
	if testing.Short() {
		t.Skip("120,000 descriptors: not with -short")
	}
	self := fmt.Sprintf("/proc/%d/fd", srv.PID)
	held := func() int {
		n, err := os.ReadDir(self)
		if err != nil {
			t.Fatal(err)
		}
		return len(n)
	}
	before := held()
	c := target(t, "manyfds", "120000")
	if c.Int("MADE")*(c.Int("HOLDERS")+1) < 110_000 {
		t.Skipf("the limits of this machine allow %d descriptors only", c.Int("MADE")*(c.Int("HOLDERS")+1))
	}
	b, code, err := srv.Raw("/api/processes/fds", query(c.ID))
	if err != nil || code != 200 {
		t.Fatalf("fds: status %d, %v: %.200s", code, err, b)
	}
	if len(b) > 20_000_000 {
		t.Errorf("fds: an answer of %d bytes", len(b))
	}
	e, warnings := descriptors(t, c.ID)
	if len(warnings) == 0 {
		t.Error("fds: the search was cut, and no warning says so")
	}
	if got, all := len(e), len(fdNumbers(t, c.ID.PID)); got != all {
		t.Logf("fds: %d of %d listed, warnings %q", got, all, warnings)
	}
	sock, peer, pfd := int32(c.Int("SOCK_FD")), int32(c.Int("PEER_PID")), int32(c.Int("PEER_FD"))
	is(t, "socket: peers", ends(e[sock].Peers), []end{{peer, pfd}})
	total := 0
	for _, d := range e {
		total += len(d.Peers) + len(d.Holders)
		if len(d.Peers) > 64 || len(d.Holders) > 64 {
			t.Fatalf("descriptor %d: %d peers and %d holders, want at most 64", d.FD, len(d.Peers), len(d.Holders))
		}
	}
	if total > 8192 {
		t.Errorf("%d endpoints in one answer, want at most 8,192", total)
	}
	o, warn := descriptors(t, identity(t, int64(peer)))
	if got := ends(o[pfd].Peers); !slices.Equal(got, []end{{c.ID.PID, sock}}) && (len(got) > 0 || len(warn) == 0) {
		t.Errorf("peer: got %v and warnings %q, want the socket or a warning", got, warn)
	}
	me, _ := descriptors(t, identity(t, int64(os.Getpid())))
	is(t, "another process still has descriptors", len(me) >= 3, true)
	if n := len(processes(t)); n < 5 {
		t.Errorf("list: %d processes", n)
	}
	time.Sleep(time.Second)
	if after := held(); after > before+20 {
		t.Errorf("the server holds %d descriptors, %d before", after, before)
	}
}

func fdNumbers(t *testing.T, pid int32) []os.DirEntry {
	t.Helper()
	n, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(int(pid)), "fd"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// PID 1 of a PID namespace, seen from outside: the numbers of the observer.
func TestPIDNamespace(t *testing.T) {
	needRoot(t, "a PID namespace")
	for _, depth := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d deep", depth), func(t *testing.T) {
			c := target(t, "pidns", strconv.Itoa(depth))
			inner, child := identity(t, c.Int("INNER_PID")), identity(t, c.Int("CHILD_PID"))
			parent := identity(t, c.Int("PARENT_PID"))
			row := listed(t, inner)
			is(t, "list: parent, name", []any{row.ParentID, row.Name}, []any{parent, "inner"})
			is(t, "list: parent of the child", listed(t, child).ParentID, inner)
			var tids []int32
			for _, th := range get[[]api.Thread](t, "threads", inner) {
				tids = append(tids, th.TID)
			}
			names, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", inner.PID))
			if err != nil || len(names) != 2 {
				t.Fatalf("threads by the kernel: %v, %v", names, err)
			}
			var want []int32
			for _, n := range names {
				tid, _ := strconv.Atoi(filepath.Base(n))
				want = append(want, int32(tid))
			}
			slices.Sort(want)
			is(t, "threads: tids", tids, want)
			ctx := get[api.ContextAnswer](t, "context", inner)
			if len(ctx.NSPIDs) != 1+depth {
				t.Fatalf("context: ns_pids: got %v, want one number a namespace", ctx.NSPIDs)
			}
			is(t, "context: ns_pids, outermost first", []int32{ctx.NSPIDs[0], ctx.NSPIDs[len(ctx.NSPIDs)-1]}, []int32{inner.PID, 1})
			is(t, "context: parent", ctx.ParentID, parent)
			is(t, "context: children", ctx.Children, []api.Identity{child})
			ns := ctx.Namespaces["pid"]
			is(t, "context: not the inspector's PID namespace", ns.Own, false)
			is(t, "context: the inspector's network namespace", ctx.Namespaces["net"].Own, true)
			e, _ := descriptors(t, inner)
			met := false
			for _, d := range e {
				met = met || slices.ContainsFunc(d.Peers, func(p api.Endpoint) bool { return p.ProcessID == child && p.Relation == "unix_peer" })
			}
			is(t, "fds: a socket has the child as its peer", met, true)
			for _, r := range processes(t) {
				if r.Identity.PID == 1 && r.Name == "inner" {
					t.Error("the list has it as PID 1")
				}
			}
		})
	}
}
