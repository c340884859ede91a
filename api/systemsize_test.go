package api

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"procinsh/proc"
	"procinsh/watch"
)

// busyHost is a host of 5,000 processes and so many connections, each process with the address space of a small program of its own place in memory.
func busyHost(edges int) *watch.Topology {
	r := rand.New(rand.NewPCG(5, 6))
	root := "root"
	t := &watch.Topology{Sequence: 1, CapturedAt: time.UnixMilli(1.7e12), Warnings: []string{}}
	id := func(i int) proc.ID { return proc.ID{PID: int32(1000 + i), StartTicks: uint64(1_500_000 + i/3)} }
	kinds := []string{proc.KindReadonly, proc.KindCode, proc.KindReadonly, proc.KindData, proc.KindAnonymous}
	for i := range 5000 {
		row := watch.ListRow{Row: proc.Row{ID: id(i), Parent: proc.Some(id(0)), State: 'S', RSS: 4096 * uint64(r.IntN(5000)), Threads: 1, MapsEpoch: uint64(i + 1),
			Details: &proc.Details{Name: fmt.Sprintf("worker-%d", i), Username: &root, EffectiveUsername: &root}}, CPUPercent: proc.Some(0.0)}
		sum := &proc.MapSummary{Totals: map[string]uint64{}}
		all := &proc.Mappings{}
		for _, k := range []string{proc.KindCode, proc.KindReadonly, proc.KindData, proc.KindHeap, proc.KindAnonymous, proc.KindStack, proc.KindShared, proc.KindVDSO, proc.KindGuard, proc.KindOther} {
			sum.Totals[k] = 4096 * uint64(r.IntN(1000))
		}
		at := uint64(0x550000000000) + r.Uint64()>>24&^0xfff
		for n := range 18 {
			if n == 4 {
				at = 0x7f0000000000 + r.Uint64()>>24&^0xfff
			}
			size := 4096 * uint64(1+(n*37)%300)
			sum.Boxes = append(sum.Boxes, proc.MapBox{Kind: kinds[n%5], Start: at, End: at + size, Size: size, Count: 1})
			all.Maps = append(all.Maps, proc.Mapping{Start: at, End: at + size, Permissions: [4]byte([]byte("r-xp")), FileOffset: uint64(n) << 12, Major: 254, Inode: 7_000_000 + uint64(n), Path: "/usr/lib/x86_64-linux-gnu/libc.so.6"})
			at += size
		}
		all.Total = len(all.Maps)
		row.Maps, row.Mappings = sum, all
		t.Nodes = append(t.Nodes, row)
	}
	for i := range edges {
		port := func(p, side int) watch.Port {
			return watch.Port{Process: id(p), FD: int32(3 + i%4000), FDCount: 1, Resource: fmt.Sprintf("socket:8:%d", 8_000_000+2*i+side), Kind: proc.FDSocket, Access: proc.AccessReadWrite}
		}
		a, b := port(i%5000, 0), port((i*7)%5000, 1)
		local, remote := fmt.Sprintf("127.0.0.1:%d", 10000+i), "127.0.0.1:80"
		t.Edges = append(t.Edges, watch.Edge{ID: a.Resource + "-" + b.Resource, A: a, B: proc.Some(b), Label: "TCP " + remote, Candidate: true,
			Socket: proc.Some(watch.Socket{Protocol: proc.Some("TCP"), State: proc.Some("ESTABLISHED"), Local: proc.Some(local), Remote: proc.Some(remote), NetworkPeer: true})})
	}
	return t
}

func topologyText(t *watch.Topology, form nodeMaps) func([]byte, spill) []byte {
	return func(b []byte, s spill) []byte { return appendTopology(b, t, form, s) }
}

// What a viewer of a busy host gets: the whole with summaries is at most 2 MB
// compressed with 20,000 connections and 35 bytes for each further one, a change on a quiet host 20 KB as text.
func TestSizesOfABusyHost(t *testing.T) {
	inOneGoroutine(t)
	for _, edges := range []int{20_000, 100_000} {
		sizesOfABusyHost(t, edges)
	}
}

func sizesOfABusyHost(t *testing.T, edges int) {
	host := busyHost(edges)
	p := packChunks(topologyText(host, summaryMaps))
	t.Logf("%d connections: whole, summaries: %d bytes of %d", edges, len(p.packed), p.size)
	if len(p.packed) > 2<<20+35*(edges-20_000) {
		t.Errorf("%d connections: %d bytes", edges, len(p.packed))
	}
	// The half of a percent that does something in five seconds.
	next := wireless(host)
	next.Sequence++
	for i := range 25 {
		next.Nodes[i*200].CPUPercent = proc.Some(1.5)
		next.Nodes[i*200].RSS += 4096
	}
	for i := range next.Nodes {
		next.Nodes[i].State = "RSI"[i%3] // who runs at the instant of the look says nothing
	}
	for i := range 10 {
		next.Edges[i*edges/10].Label += "!"
	}
	d := appendTopologyDelta(nil, next, host, summaryMaps, whole)
	t.Logf("delta: %d bytes", len(d))
	if len(d) > 20_000 {
		t.Errorf("a delta of %d bytes", len(d))
	}
}

// Compressing the whole with every mapping, 86 MB of text, takes little memory.
func TestMemoryOfALongEvent(t *testing.T) {
	inOneGoroutine(t)
	host := busyHost(100_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p := packChunks(topologyText(host, wholeMaps))
	runtime.ReadMemStats(&after)
	grew := after.TotalAlloc - before.TotalAlloc
	t.Logf("whole, mappings: %d bytes of %d, %d allocated", len(p.packed), p.size, grew)
	if p.size < 30<<20 {
		t.Errorf("%d bytes of text: this shows nothing", p.size)
	}
	if grew > 8*uint64(len(p.packed))+8<<20 {
		t.Errorf("%d bytes allocated for %d", grew, len(p.packed))
	}
}

func BenchmarkPackTopology(b *testing.B) {
	host := busyHost(20_000)
	for _, form := range []nodeMaps{wholeMaps, summaryMaps} {
		b.Run(fmt.Sprintf("summaries=%v", form), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				packChunks(topologyText(host, form))
			}
		})
	}
}
