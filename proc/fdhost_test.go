package proc

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hostRow finds a row of a scan.
func hostRow(t *testing.T, h *HostDescriptors, pid int32, fd int) (int, *HostDescriptor) {
	t.Helper()
	for i := range h.Rows {
		if d := &h.Rows[i]; d.FD == int32(fd) && h.Processes[d.Process].ID.PID == pid {
			return i, d
		}
	}
	t.Fatalf("no row of %d/%d", pid, fd)
	return 0, nil
}

func TestScanHost(t *testing.T) {
	needRoot(t)
	mine, theirs := pairFiles(t, unix.SOCK_STREAM)
	server, client := tcpPair(t, "[::]:0", "127.0.0.1")
	udpA, udpB := udpPair(t, unix.AF_INET, "")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, c := freePorts(t)
	far := startTarget(t, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}, "tcp-pair", p, c)
	near := startTarget(t, nil, "tcp-pair", p, c)
	tg := startTargetWith(t, nil, []*os.File{theirs, client, udpB, w}, "hold")
	for _, f := range []*os.File{theirs, client, udpB, w} {
		f.Close()
	}
	mount, err := Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer mount.Close()
	s := mount.NewDescriptorScanner()
	before := openFDs(t)
	for range 2 { // the second with the buffers of the first
		h, err := s.ScanHost(HostLimits{Descriptors: 1_000_000, Time: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		self := int32(os.Getpid())
		for name, c := range map[string]struct {
			aPID, bPID int32
			a, b       int
		}{
			"unix":             {self, tg.pid(), int(mine.Fd()), 3},
			"tcp, mapped":      {self, tg.pid(), int(server.Fd()), 4},
			"udp":              {self, tg.pid(), int(udpA.Fd()), 5},
			"tcp here":         {near.pid(), near.pid(), near.fact("ACCEPTED_FD"), near.fact("CLIENT_FD")},
			"tcp in namespace": {far.pid(), far.pid(), far.fact("ACCEPTED_FD"), far.fact("CLIENT_FD")},
		} {
			i, a := hostRow(t, h, c.aPID, c.a)
			j, b := hostRow(t, h, c.bPID, c.b)
			if a.Peer != b.Inode || b.Peer != a.Inode || a.PeerRow != int32(j) || b.PeerRow != int32(i) {
				t.Errorf("%s: rows %d and %d: got %+v and %+v", name, i, j, *a, *b)
			}
			if !a.IsSocket() || a.IsPipe() || h.Target(i) != fmt.Sprintf("socket:[%d]", inodeAt(t, c.aPID, c.a)) {
				t.Errorf("%s: got %+v, target %s", name, *a, h.Target(i))
			}
		}
		i, d := hostRow(t, h, tg.pid(), 6)
		j, e := hostRow(t, h, self, int(r.Fd()))
		if !d.IsPipe() || d.Inode != e.Inode || h.Target(i) != h.Target(j) || !strings.HasPrefix(h.Target(i), "pipe:[") || d.PeerRow != -1 {
			t.Errorf("pipe: got %+v and %+v", *d, *e)
		}
		i, _ = hostRow(t, h, tg.pid(), 0)
		if want, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", tg.pid())); err != nil || h.Target(i) != want {
			t.Errorf("target: got %q, want %q", h.Target(i), want)
		}
		joined, seen := 0, map[ID]bool{}
		for _, d := range h.Rows {
			if d.PeerRow >= 0 {
				joined++
			}
		}
		for _, p := range h.Processes {
			if seen[p.ID] || p.Name == "" {
				t.Errorf("process %+v twice, or without a name", p)
			}
			seen[p.ID] = true
		}
		if joined != h.Joined || joined < 10 {
			t.Errorf("%d rows are joined, it says %d", joined, h.Joined)
		}
	}
	if after := openFDs(t); after != before {
		t.Errorf("%d descriptors open, %d before", after, before)
	}
}

func TestScanHostLimit(t *testing.T) {
	mount, err := Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer mount.Close()
	h, err := mount.NewDescriptorScanner().ScanHost(HostLimits{Descriptors: 3})
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Rows) > 3 || !slicesContain(h.Warnings, "the limit of 3 descriptors looked at was reached") {
		t.Errorf("got %d rows, warnings %q", len(h.Rows), h.Warnings)
	}
}

func TestInodeTable(t *testing.T) {
	var table inodeTable
	if _, ok := table.get(5); ok {
		t.Error("an empty table holds 5")
	}
	for _, n := range []int{0, 1, 3000, 600, 3000} {
		table.reset(n)
		for i := range n {
			table.put(uint64(i*7+1), int32(i))
			table.put(0, 1) // no inode
		}
		for i := range n {
			if row, ok := table.get(uint64(i*7 + 1)); !ok || row != int32(i) {
				t.Fatalf("%d entries: %d gives %d, %v", n, i*7+1, row, ok)
			}
			if row, ok := table.get(uint64(i*7 + 2)); ok {
				t.Fatalf("%d entries: %d, which was not put, gives %d", n, i*7+2, row)
			}
		}
		if _, ok := table.get(0); ok {
			t.Error("0 is no inode")
		}
	}
	table.put(8, 1)
	table.put(8, 2)
	if row, _ := table.get(8); row != 2 {
		t.Errorf("the last of an inode counts: got %d", row)
	}
}

func BenchmarkScanHost(b *testing.B) {
	mount, err := Open("/proc")
	if err != nil {
		b.Fatal(err)
	}
	defer mount.Close()
	s := mount.NewDescriptorScanner()
	b.ReportAllocs()
	for b.Loop() {
		h, err := s.ScanHost(HostLimits{})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(h.Rows)), "descriptors")
	}
}
