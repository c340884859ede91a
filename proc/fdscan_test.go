package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	// dup-pipe COUNT: fills its table with the two ends of the pipe in 3 and 4.
	targets["dup-pipe"] = func(args []string) {
		var want int
		must2(fmt.Sscan(args[0], &want))
		for i := range want {
			if _, err := unix.Dup(3 + i&1); err != nil {
				break // the table is full
			}
		}
	}
}

// fixtureTree writes a tree that looks like a procfs. A value that begins with
// "->" is a link, a name that ends with "/" an empty directory.
func fixtureTree(t *testing.T, files map[string]string) *FS {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if to, ok := strings.CutPrefix(text, "->"); ok {
			err = os.Symlink(to, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	mount, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mount.Close() })
	return mount
}

func fdStat(pid int, comm, state string, threads, start int) string {
	return fmt.Sprintf("%d (%s) %s 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 %d 0 %d 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n", pid, comm, state, threads, start)
}

const (
	infoRead  = "pos:\t0\nflags:\t0100000\nmnt_id:\t1\n"
	infoWrite = "pos:\t5\nflags:\t0100001\nmnt_id:\t1\n"
	infoBoth  = "pos:\t0\nflags:\t02\nmnt_id:\t1\n"
)

// In a tree of files sockets come from the text of PID/net.
func TestReadFixture(t *testing.T) {
	head := "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	tcp := head +
		"   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 100 1\n" +
		"   1: 0100007F:1F90 0100007F:C001 01 00000001:00000002 00:00000000 00000000     0        0 101 1\n" +
		"   2: 0100007F:1F90 0100007F:C002 06 00000000:00000000 03:00000000 00000000     0        0 0 3\n" +
		"   3: 0100007F:C003 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 103 1\n" + // its other end has inode 0
		"   4: 0100007F:1F90 0100007F:C003 01 00000000:00000000 00:00000000 00000000     0        0 0 1\n"
	tcp6 := head +
		"   0: 0000000000000000FFFF00000100007F:C001 0000000000000000FFFF00000100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 102 1\n"
	unixText := "Num       RefCount Protocol Flags    Type St Inode Path\n" +
		"ffff1: 00000002 00000000 00010000 0001 01 200 /run/a\n" +
		"ffff2: 00000002 00000000 00010000 0001 01 201 /run/evil\n" +
		"ffff3: 00000002 00000000 00000000 0001 03 200 /run/forged\n" // the rest of a name with a newline
	mount := fixtureTree(t, map[string]string{
		"7/stat": fdStat(7, "a) (b", "S", 1, 70), "7/fd/0": "->pipe:[50]", "7/fdinfo/0": infoRead,
		"7/fd/1": "->pipe:[50]", "7/fdinfo/1": infoRead,
		"7/fd/2": "->socket:[101]", "7/fdinfo/2": infoBoth,
		"7/fd/3": "->socket:[100]", "7/fdinfo/3": infoBoth,
		"7/fd/4": "->socket:[200]", "7/fdinfo/4": infoBoth,
		"7/fd/5": "->socket:[201]", "7/fdinfo/5": infoBoth,
		"7/fd/6": "->socket:[999]",
		"7/fd/7": "->/gone", "7/fdinfo/7": infoWrite,
		"7/fd/8": "->socket:[103]", "7/fdinfo/8": infoBoth,
		"7/net/tcp": tcp, "7/net/tcp6": tcp6, "7/net/unix": unixText,
		"8/stat": fdStat(8, "peer", "S", 1, 80), "8/fd/3": "->pipe:[50]", "8/fdinfo/3": infoWrite,
		"8/fd/4": "->socket:[102]", "8/fdinfo/4": infoBoth,
		"8/fd/5": "->socket:[0]", "8/fdinfo/5": infoBoth,
		// A leader that has ended; its thread holds the pipe.
		"9/stat": fdStat(9, "gone", "Z", 2, 90), "9/fd/": "", "9/task/9/stat": fdStat(9, "gone", "Z", 2, 90),
		"9/task/10/stat": fdStat(10, "thread", "S", 2, 91), "9/task/10/fd/1": "->pipe:[50]", "9/task/10/fdinfo/1": infoWrite,
		"self": "->7", // never to be taken for the caller
	})
	p, err := mount.OpenProcess(ID{7, 70})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	got, err := mount.NewDescriptorScanner().Read(p)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Entries) != 9 || len(got.Warnings) != 0 {
		t.Fatalf("got %d entries, warnings %q", len(got.Entries), got.Warnings)
	}
	d := got.Entries
	rw := AccessReadWrite
	wantPoints(t, "pipe", d[0].Peers, point(8, 3, RelationPipeEnd, AccessWrite), point(9, 1, RelationPipeEnd, AccessWrite))
	wantPoints(t, "pipe", d[0].Holders, point(7, 1, RelationSamePipe, AccessRead))
	if d[0].Peers[0].Name != "peer" || d[0].Peers[0].ID != (ID{8, 80}) || d[0].Peers[1].Name != "gone" || d[0].Peers[1].ID != (ID{9, 90}) || d[0].Holders[0].Name != "a) (b" {
		t.Errorf("pipe: got %+v", d[0])
	}
	wantPoints(t, "tcp", d[2].Peers, point(8, 4, RelationCandidate, rw))
	if d[2].Local != Some("127.0.0.1:8080") || d[2].Remote != Some("127.0.0.1:49153") || d[2].SendQueue != Some[uint64](1) || d[2].ReceiveQueue != Some[uint64](2) || d[2].Protocol != Some(ProtocolTCP) {
		t.Errorf("tcp: got %+v", d[2])
	}
	wantPoints(t, "listener", d[3].Peers)
	if d[3].State != Some("LISTEN") || d[3].Remote.Known() {
		t.Errorf("listener: got %+v", d[3])
	}
	if d[4].State.Known() || d[4].Local.Known() || !strings.Contains(d[4].Note.Or(""), "two rows") {
		t.Errorf("unix socket that two rows claim: got %+v", d[4])
	}
	if d[5].State != Some("LISTEN") || d[5].Local != Some("/run/evil") || d[5].ReceiveQueue.Known() || d[5].Protocol != Some(ProtocolUnixStream) {
		t.Errorf("unix socket: got %+v", d[5])
	}
	if d[6].Kind != FDSocket || d[6].Protocol.Known() || d[6].Access.Known() || d[6].Flags != nil || !d[6].Note.Known() {
		t.Errorf("socket of no table: got %+v", d[6])
	}
	if d[7].Kind != FDOther || d[7].Deleted || d[7].Inode.Known() || d[7].Access != Some(AccessWrite) {
		t.Errorf("file that cannot be looked at: got %+v", d[7])
	}
	wantPoints(t, "client that waits", d[8].Peers)
}

func TestReadFixtureOdd(t *testing.T) {
	mount := fixtureTree(t, map[string]string{
		"7/stat": fdStat(7, "x", "S", 1, 70), "7/fd/3": "->pipe:[50]", "7/fdinfo/3": infoRead,
		"7/fd/x": "->pipe:[50]", "7/fd/99999999999": "->pipe:[50]", "7/fd/-1": "->pipe:[50]", "7/fd/4": "no link",
		"8/fd/3": "->pipe:[50]", // no stat: it has ended
		"9/stat": "nonsense", "9/fd/3": "->pipe:[50]",
		"10/stat": fdStat(10, "y", "S", 1, 100), "10/fd/3": "->pipe:[50]", // no fdinfo
	})
	p, err := mount.OpenProcess(ID{7, 70})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	got, err := mount.NewDescriptorScanner().Read(p)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Entries) != 1 || got.Entries[0].FD != 3 {
		t.Fatalf("got %+v", got.Entries)
	}
	// A direction that is not known is neither one end nor the other.
	wantPoints(t, "holders", got.Entries[0].Holders, point(10, 3, RelationSame, "?"))
	wantPoints(t, "peers", got.Entries[0].Peers)
}

func openFDs(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// More than 100,000 descriptors of one pipe in six processes: a socket of one of
// them still finds its peer, and what was cut is said.
func TestManyDescriptors(t *testing.T) {
	mine, theirs := pairFiles(t, unix.SOCK_STREAM)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	per := min(int(limit.Max)-50, 20_000)
	if per < 18_000 {
		t.Skipf("needs RLIMIT_NOFILE of 18,050, has %d", limit.Max)
	}
	first := startTargetWith(t, nil, []*os.File{r, w, theirs}, "dup-pipe", fmt.Sprint(per))
	for range 5 {
		startTargetWith(t, nil, []*os.File{r, w}, "dup-pipe", fmt.Sprint(per))
	}
	theirs.Close()
	before := openFDs(t)
	start := time.Now()
	got, warnings := readFDs(t, first.pid())
	if took := time.Since(start); took > maxDescriptorTime+2*time.Second {
		t.Errorf("took %v", took)
	}
	want := per
	if slicesContain(warnings, "took more than 1.5s") { // a loaded machine; it says so
		want = len(got)
	}
	if len(got) < want-100 || len(got) < 100 {
		t.Errorf("got %d descriptors of %d; warnings %q", len(got), per, warnings)
	}
	self, rw := int32(os.Getpid()), AccessReadWrite
	wantPoints(t, "the socket", got[5].Peers, point(self, int(mine.Fd()), RelationUnixPeer, rw))
	total, noted := 0, 0
	for _, d := range got {
		n := len(d.Peers) + len(d.Holders)
		if total += n; n > maxDescriptorEndpoints {
			t.Errorf("fd %d has %d endpoints", d.FD, n)
		}
		if d.Kind == FDPipe && d.Inode == Some(inode(t, r)) && d.Note.Known() {
			noted++
		}
	}
	if total > maxEndpoints || total < maxEndpoints-maxDescriptorEndpoints {
		t.Errorf("got %d endpoints in all, want nearly %d", total, maxEndpoints)
	}
	if noted < want-100 {
		t.Errorf("%d descriptors say that ends are left out, want %d", noted, want)
	}
	for _, part := range []string{"an answer holds at most 8192 peers and holders", "more than 64 peers and holders", "100000 descriptors looked at"} {
		if !slicesContain(warnings, part) && !(part == "100000 descriptors looked at" && slicesContain(warnings, "limit of 3s")) {
			t.Errorf("no warning %q in %q", part, warnings)
		}
	}
	// From the other side, past all these: the peer is found, or the cut is said.
	here, warnings := readFDs(t, self)
	peers := points(here[int32(mine.Fd())].Peers)
	if want := point(first.pid(), 5, RelationUnixPeer, rw); len(peers) != 1 || peers[0] != want {
		t.Errorf("from the other side: got %q, want %q; warnings %q", peers, want, warnings)
	}
	const kept = 2 * 2 // mount and process of both readings, until the test ends
	if after := openFDs(t); after > before+kept {
		t.Errorf("%d descriptors open, %d before and %d kept", after, before, kept)
	}
}

// Each limit ends a walk, and says so by name.
func TestWalkLimits(t *testing.T) {
	mount, err := Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer mount.Close()
	s := mount.NewDescriptorScanner()
	w := &s.walk
	for _, c := range []struct {
		name     string
		left     int
		deadline time.Time
		want     string
		visits   int // at most
	}{
		{"descriptors", 5, farDeadline(), "the limit of 5 descriptors looked at was reached", 5},
		{"no descriptors", 0, farDeadline(), "the limit of 0 descriptors looked at was reached", 0},
		{"time", 1 << 30, time.Now().Add(-time.Second), "the limit of 7s was reached", 0},
	} {
		visits := 0
		w.begin(0, c.left, c.deadline)
		if err := w.run(func(*visited) { visits++ }); err != nil {
			t.Fatal(err)
		}
		if visits > c.visits || visits != w.looked || !slicesContain(w.warnings(HostLimits{Descriptors: c.left, Time: 7 * time.Second}), c.want) {
			t.Errorf("%s: %d visits, warnings %q", c.name, visits, w.warnings(HostLimits{Descriptors: c.left, Time: 7 * time.Second}))
		}
	}
	w.begin(int32(os.Getpid()), 1<<30, farDeadline())
	if err := w.run(func(v *visited) {
		if v.pid == int32(os.Getpid()) {
			t.Fatal("visited the process that was to be skipped")
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// When the caller itself has no descriptor free, the search stops with a warning
// and the answer stays.
func TestOutOfDescriptors(t *testing.T) {
	w := hostWalk{outOfFDs: true, denied: 1}
	got := w.warnings(HostLimits{})
	want := []string{"no descriptor was free to look at the other processes", "1 process was denied (needs the same owner, or CAP_SYS_PTRACE)"}
	if fmt.Sprint(got) != fmt.Sprint(want) || !w.stop() {
		t.Errorf("got %q", got)
	}
}

func TestParseFD(t *testing.T) {
	for _, c := range []struct {
		name string
		want int32
		ok   bool
	}{
		{"0\x00", 0, true}, {"17\x00\x00\x00", 17, true}, {"2147483647\x00", 1<<31 - 1, true},
		{"2147483648\x00", 0, false}, {"99999999999\x00", 0, false}, {"\x00", 0, false}, {"1", 0, false}, {".\x00", 0, false}, {"1x\x00", 0, false}, {"", 0, false},
	} {
		got, ok := parseFD([]byte(c.name))
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%q: got %d, %v", c.name, got, ok)
		}
	}
}

func FuzzDirent(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x18\x00\x0a17\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		total := 0
		eachDirent(b, func(name []byte) bool {
			total += 19 + len(name)
			if fd, ok := parseFD(name); ok && fd < 0 {
				t.Errorf("%q: fd %d", name, fd)
			}
			return true
		})
		if total > len(b) {
			t.Errorf("%d bytes of entries in %d", total, len(b))
		}
	})
}
