package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"procinsh/api"
)

// whole decodes the data of an event and knows every field of it.
func whole[T any](t *testing.T, e event) T {
	t.Helper()
	var v T
	dec := json.NewDecoder(strings.NewReader(e.data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("event %s: %v in %.300s", e.name, err, e.data)
	}
	return v
}

// until reads events for at most a minute until ok says that it has seen enough.
func (st *stream) until(what string, ok func(event) bool) {
	st.t.Helper()
	timer := time.AfterFunc(time.Minute, st.cancel)
	defer timer.Stop()
	for {
		e, err := st.next()
		if err != nil {
			st.t.Fatalf("waiting for %s: %v", what, err)
		}
		if ok(e) {
			return
		}
	}
}

// talker starts two processes that hold the two ends of a pipe, one of them the test.
func talker(t *testing.T) (pid int, inode uint64) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/cat")
	cmd.Stdin = r
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	t.Cleanup(func() {
		w.Close()
		cmd.Wait()
	})
	var st syscall.Stat_t
	if err := syscall.Fstat(int(w.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, st.Ino
}

func identityOf(t *testing.T, pid int) api.Identity {
	t.Helper()
	start, err := ticks(pid)
	if err != nil {
		t.Fatal(err)
	}
	return api.Identity{PID: int32(pid), StartTimeTicks: start}
}

func TestSystemStream(t *testing.T) {
	s := start(t, options{})
	pid, inode := talker(t)
	cat, me := identityOf(t, pid), identityOf(t, os.Getpid())
	for _, form := range []string{"", "?maps=summary"} {
		st, a := s.open("/api/system/events" + form)
		if st == nil {
			t.Fatal(a)
		}
		if first := st.must(); first.name != "topology" {
			t.Fatalf("the first event is %s", first.name)
		} else if x := whole[api.Topology](t, first); x.Nodes == nil || x.Edges == nil || x.Warnings == nil {
			t.Fatalf("the first structure has a null list: %s", first.data)
		}
		var found *api.Topology
		seen := map[string]bool{}
		sequence, at := uint64(0), int64(0)
		st.until("each kind of event and a structure with a pipe", func(e event) bool {
			seen[e.name] = true
			switch e.name {
			case "topology":
				x := whole[api.Topology](t, e)
				if x.Sequence <= sequence {
					t.Errorf("structure %d after %d", x.Sequence, sequence)
				}
				sequence = x.Sequence
				if slices.ContainsFunc(x.Nodes, func(n api.TopologyNode) bool { return n.Identity == cat }) {
					found = &x
				}
			case "metrics":
				list := whole[[]api.ProcessMetrics](t, e)
				if !slices.ContainsFunc(list, func(m api.ProcessMetrics) bool { return m.Identity == me && m.RSSBytes > 0 }) {
					t.Error("metrics without this test")
				}
			case "activity":
				x := whole[api.Activity](t, e)
				if x.CapturedAt <= at || !x.Status.Active || x.WindowMS < 0 {
					t.Errorf("window at %d after %d: %+v", x.CapturedAt, at, x.Status)
				}
				at = x.CapturedAt
			case "gap":
				whole[api.Gap](t, e)
			default:
				t.Fatalf("unknown event %s", e.name)
			}
			return found != nil && seen["metrics"] && seen["activity"]
		})
		st.close()

		i := slices.IndexFunc(found.Nodes, func(n api.TopologyNode) bool { return n.Identity == cat })
		n := found.Nodes[i]
		if n.Name != "cat" || n.ParentID == nil || *n.ParentID != me || n.ThreadCount != 1 || n.RSSBytes == 0 || n.MapsError != nil || n.MapsEpoch == 0 {
			t.Errorf("%s: node %+v", form, n)
		}
		if form == "" && (len(n.Maps) < 5 || n.MapSummary != nil) || form != "" && (n.Maps != nil || n.MapSummary == nil || len(n.MapSummary.Boxes) < 3) {
			t.Errorf("%s: %d maps, summary %v", form, len(n.Maps), n.MapSummary)
		}
		tail := fmt.Sprintf(":%d", inode)
		i = slices.IndexFunc(found.Edges, func(e api.TopologyEdge) bool {
			return strings.HasSuffix(e.A.Resource, tail) && e.B != nil && e.A.ProcessID == me && e.B.ProcessID == cat
		})
		if i < 0 {
			t.Fatalf("%s: no edge from the test to cat", form)
		}
		e := found.Edges[i]
		if e.Candidate || e.Shared || e.A.Kind != "pipe" || *e.A.Access != "write" || *e.B.Access != "read" || e.B.FD != 0 || e.Socket != nil {
			t.Errorf("%s: edge %+v", form, e)
		}
	}
}

// applied is what a client makes of a structure and a delta.
func applied(t *testing.T, x api.Topology, d api.TopologyDelta) api.Topology {
	t.Helper()
	if x.Sequence != d.BaseSequence {
		t.Fatalf("a delta of %d for structure %d", d.BaseSequence, x.Sequence)
	}
	nodes := map[api.Identity]api.TopologyNode{}
	for _, n := range x.Nodes {
		nodes[n.Identity] = n
	}
	for _, id := range d.NodesRemoved {
		delete(nodes, id)
	}
	for _, n := range d.NodesChanged {
		n.Maps, n.MapSummary = nodes[n.Identity].Maps, nodes[n.Identity].MapSummary
		nodes[n.Identity] = n
	}
	for _, m := range d.MapsChanged {
		n := nodes[m.Identity]
		n.Maps, n.MapSummary, n.MapsEpoch, n.MapsError = m.Maps, m.MapSummary, m.MapsEpoch, m.MapsError
		nodes[m.Identity] = n
	}
	edges := map[string]api.TopologyEdge{}
	for _, e := range x.Edges {
		edges[e.ID] = e
	}
	for _, id := range d.EdgesRemoved {
		delete(edges, id)
	}
	for _, e := range d.EdgesChanged {
		edges[e.ID] = e
	}
	out := api.Topology{Sequence: d.Sequence, CapturedAt: d.CapturedAt, Nodes: []api.TopologyNode{}, Edges: []api.TopologyEdge{}, Warnings: d.Warnings,
		InspectedProcesses: d.InspectedProcesses, InspectedFDs: d.InspectedFDs}
	for _, n := range nodes {
		out.Nodes = append(out.Nodes, n)
	}
	for _, e := range edges {
		out.Edges = append(out.Edges, e)
	}
	slices.SortFunc(out.Nodes, func(a, b api.TopologyNode) int { return int(a.Identity.PID - b.Identity.PID) })
	slices.SortFunc(out.Edges, func(a, b api.TopologyEdge) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// A delta applied to its base is what the server has as a whole.
func TestSystemDelta(t *testing.T) {
	for _, form := range []string{"", "maps=summary"} {
		t.Run("form "+form, func(t *testing.T) {
			t.Parallel() // each waits for structures, which come every few seconds
			s := start(t, options{})
			st, a := s.open("/api/system/events?delta=1&" + form)
			if st == nil {
				t.Fatal(a)
			}
			have := whole[api.Topology](t, st.must())
			compared, deltas := 0, 0
			st.until("two structures to compare", func(e event) bool {
				switch e.name {
				case "topology":
					have = whole[api.Topology](t, e) // after a gap
					return false
				case "topology_delta":
					have = applied(t, have, whole[api.TopologyDelta](t, e))
					deltas++
				default:
					return false
				}
				var now api.Topology
				s.get("/api/system/topology?"+form).decode(t, &now)
				if now.Sequence != have.Sequence {
					return false // there was a newer one by then
				}
				got, err1 := json.Marshal(have)
				want, err2 := json.Marshal(now)
				if err1 != nil || err2 != nil || !bytes.Equal(got, want) {
					i := 0
					for i < len(got) && i < len(want) && got[i] == want[i] {
						i++
					}
					t.Fatalf("%q: the structure after a delta differs at byte %d:\ngot  %.200s\nwant %.200s", form, i, got[max(0, i-80):], want[max(0, i-80):])
				}
				compared++
				sleeper(t) // something that changes
				return compared >= 2
			})
			if deltas < compared {
				t.Errorf("%q: %d deltas", form, deltas)
			}
			st.close()
		})
	}
}

// bpfHandles counts what the server holds of BPF: programs, maps and links live as
// long as their descriptors.
func (s *server) bpfHandles() (n int) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		link, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", s.cmd.Process.Pid, e.Name()))
		if strings.HasPrefix(link, "anon_inode:bpf") || strings.Contains(link, "[perf_event]") {
			n++
		}
	}
	return n
}

// With the last viewer gone nothing is left, however it went; asking for what is
// known starts nothing.
func TestSystemStopsWithoutViewers(t *testing.T) {
	s := start(t, options{})
	var status api.SystemStatus
	var topology api.Topology
	s.get("/api/system/status").decode(t, &status)
	s.get("/api/system/topology").decode(t, &topology)
	if status.Active || status.CPU.State != "idle" || topology.Sequence != 0 || len(topology.Nodes) != 0 {
		t.Fatalf("before the first viewer: %+v %+v", status, topology)
	}
	if strings.Contains(s.stderr.String(), "system observation started") || s.bpfHandles() != 0 {
		t.Fatal("a request for what is known starts something")
	}
	sensors := false
	for range 3 {
		st, a := s.open("/api/system/events")
		if st == nil {
			t.Fatal(a)
		}
		st.until("a window", func(e event) bool {
			if e.name != "activity" {
				return false
			}
			x := whole[api.Activity](t, e).Status
			sensors = x.CPU.State == "observing"
			return x.CPU.State != "starting"
		})
		if sensors && s.bpfHandles() == 0 {
			t.Error("a sensor observes and the server holds nothing of BPF")
		}
		st.close() // without a word
		waitFor(t, "the sensors to be detached", func() bool {
			s.get("/api/system/status").decode(t, &status)
			return !status.Active && s.bpfHandles() == 0
		})
	}
	waitFor(t, "the log to tell the ends", func() bool {
		log := s.stderr.String()
		return strings.Count(log, `msg="system observation started"`) == 3 && strings.Count(log, `msg="system observation stopped"`) == 3 &&
			strings.Count(log, `msg="list observation stopped"`) == 3
	})
	for _, name := range []string{"cpu", "ipc", "files"} {
		if n := strings.Count(s.stderr.String(), "msg=sensor sensor="+name+" "); n != 1 {
			t.Errorf("the state of sensor %s is told %d times in three observations, want once", name, n)
		}
	}
	var config api.Config
	s.get("/api/config").decode(t, &config)
	if c := config.Capabilities.BPFCPU; c.Available != sensors || c.Available != (c.Reason == nil) {
		t.Errorf("capability %+v, the sensor observed: %v", c, sensors)
	}
}

func TestSystemStreamsAreCounted(t *testing.T) {
	s := start(t, options{})
	var open []*stream
	for i := range 32 {
		st, a := s.open("/api/system/events?maps=summary")
		if st == nil {
			t.Fatalf("stream %d: %v", i, a)
		}
		st.must()
		open = append(open, st)
	}
	if st, a := s.open("/api/system/events"); st != nil || a.status != 429 || a.header.Get("Retry-After") == "" || a.code(t) != "too_many_streams" {
		t.Fatalf("the 33rd: %v", a)
	}
	if st, a := s.open("/api/processes/stream"); st == nil {
		t.Fatalf("a stream of another kind: %v", a)
	}
	open[7].close() // a viewer that is killed
	waitFor(t, "its slot", func() bool {
		st, _ := s.open("/api/system/events")
		return st != nil
	})
}

// A viewer that does not read is told that it fell behind and gets a whole structure;
// another one is not held up.
func TestSystemGap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket") // its buffers do not grow, as those of TCP do
	start(t, options{listen: "unix:" + path})
	dial := func(query string) *bufio.Reader {
		t.Helper()
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(3 * time.Minute))
		fmt.Fprintf(c, "GET /api/system/events%s HTTP/1.0\r\nHost: localhost\r\n\r\n", query)
		in := bufio.NewReaderSize(c, 1<<12)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if line == "\r\n" {
				return in
			}
		}
	}
	slow := &stream{t: t, in: dial("?delta=1"), cancel: func() {}}
	quick := &stream{t: t, in: dial("?delta=1&maps=summary"), cancel: func() {}}
	if e := slow.must(); e.name != "topology" {
		t.Fatalf("the first event is %s", e.name)
	}
	last, dropped := int64(0), uint64(0)
	for range 6 {
		// Meanwhile the other one reads on.
		for end := time.Now().Add(8 * time.Second); time.Now().Before(end); {
			quick.must()
		}
		// What is buffered, until the stream is at the present again.
		for dropped == 0 {
			e := slow.must()
			if e.name == "gap" {
				dropped = whole[api.Gap](t, e).DroppedFrames
			}
			if e.name == "activity" {
				x := whole[api.Activity](t, e)
				last = x.CapturedAt
				if time.Since(time.UnixMilli(last)) < 500*time.Millisecond {
					break
				}
			}
		}
		if dropped > 0 {
			break
		}
	}
	if dropped == 0 {
		t.Fatal("no gap for a viewer that did not read for 8 s, six times")
	}
	if e := slow.must(); e.name != "topology" {
		t.Fatalf("after the gap comes %s, want the whole structure", e.name)
	} else if x := whole[api.Topology](t, e); x.Sequence == 0 || len(x.Nodes) == 0 {
		t.Errorf("the structure after the gap: %d, %d nodes", x.Sequence, len(x.Nodes))
	}
	for {
		e := slow.must()
		if e.name == "activity" {
			if x := whole[api.Activity](t, e); x.CapturedAt <= last {
				t.Errorf("a window at %d after one at %d", x.CapturedAt, last)
			}
			break
		}
	}
}
