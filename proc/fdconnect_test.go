package proc

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// generous is for a machine that others keep busy.
var generous = HostLimits{Descriptors: 1_000_000, Time: time.Minute}

// scanConnections scans the real host.
func scanConnections(t *testing.T, limits HostLimits) *HostConnections {
	t.Helper()
	fs := live(t)
	c, err := fs.NewDescriptorScanner().ScanConnections(limits)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// object finds the object of an open descriptor of this test.
func (c *HostConnections) objectOf(t *testing.T, fd int) *HostObject {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	for i := range c.Objects {
		if o := &c.Objects[i]; o.Inode == st.Ino && o.Device == st.Dev {
			return o
		}
	}
	t.Fatalf("descriptor %d, device %d inode %d, is among no objects", fd, st.Dev, st.Ino)
	return nil
}

func (c *HostConnections) own(o *HostObject) (ends []ConnectionEnd) {
	for _, e := range c.Ends[o.First : o.First+o.Count] {
		if int(c.Processes[e.Process].ID.PID) == os.Getpid() {
			ends = append(ends, e)
		}
	}
	return ends
}

func pipes(t *testing.T) (r, w int) {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(p[0]); unix.Close(p[1]) })
	return p[0], p[1]
}

func TestConnectionsOfPipes(t *testing.T) {
	r, w := pipes(t)
	again, err := unix.FcntlInt(uintptr(w), unix.F_DUPFD_CLOEXEC, w+1)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(again)
	path := filepath.Join(t.TempDir(), "a fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	fifo, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fifo)
	only, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(only)

	c := scanConnections(t, generous)
	o := c.objectOf(t, r)
	if o.Kind != FDPipe || o.Peer != -1 || o.Socket != nil {
		t.Errorf("pipe: %+v", *o)
	}
	ends := c.own(o)
	if len(ends) != 2 || !ends[0].CanRead() || ends[0].CanWrite() || int(ends[0].FD) != r || ends[0].Count != 1 ||
		!ends[1].CanWrite() || ends[1].CanRead() || int(ends[1].FD) != w || ends[1].Count != 2 {
		t.Errorf("ends of the pipe: %+v, want %d to read and %d and %d to write", ends, r, w, again)
	}
	f := c.objectOf(t, fifo)
	ends = c.own(f)
	if f.Kind != FDFIFO || f.Path != path || len(ends) != 2 || ends[0].AccessText() != AccessNone || ends[1].AccessText() != AccessReadWrite {
		t.Errorf("FIFO %+v with ends %+v", *f, ends)
	}
	if f.Device == o.Device {
		t.Error("the FIFO has the device of the pipes")
	}
}

func TestConnectionsOfSockets(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	waiting, err := net.Dial("tcp", l.Addr().String()) // nobody accepts it
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	fd := func(x any) int {
		f, err := x.(interface{ File() (*os.File, error) }).File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return int(f.Fd())
	}
	clientFD, serverFD, listenFD, waitingFD := fd(client), fd(server), fd(l), fd(waiting)

	c := scanConnections(t, generous)
	peer := func(o *HostObject) *HostObject {
		if o.Peer < 0 {
			return nil
		}
		return &c.Objects[o.Peer]
	}
	a, b := c.objectOf(t, pair[0]), c.objectOf(t, pair[1])
	if peer(a) != b || peer(b) != a || a.Candidate || a.Socket.Protocol != Some(ProtocolUnixSeqpacket) || a.Socket.Local.Known() {
		t.Errorf("socketpair: %+v and %+v", *a, *b)
	}
	x, y := c.objectOf(t, clientFD), c.objectOf(t, serverFD)
	if peer(x) != y || peer(y) != x || !x.Candidate || !y.Candidate {
		t.Errorf("TCP connection: %+v and %+v", *x, *y)
	}
	if x.Socket.State != Some("ESTABLISHED") || x.Socket.Remote != Some(l.Addr().String()) || x.Socket.RemoteIP.String() != "127.0.0.1" {
		t.Errorf("TCP client: %+v", *x.Socket)
	}
	if o := c.objectOf(t, listenFD); peer(o) != nil || o.Socket.State != Some("LISTEN") || o.Socket.Remote.Known() || o.Socket.RemoteIP.IsValid() {
		t.Errorf("listener: %+v %+v", *o, *o.Socket)
	}
	if o := c.objectOf(t, waitingFD); peer(o) != nil || o.Socket.State != Some("ESTABLISHED") {
		t.Errorf("connection that is not accepted: %+v %+v", *o, *o.Socket)
	}
	for i := range c.Objects {
		if c.Objects[i].Inode == 0 {
			t.Errorf("an object without an inode: %+v", c.Objects[i])
		}
	}
}

// Two equal scans give equal results, whatever the scanner did before.
func TestConnectionsAreInOrder(t *testing.T) {
	c := scanConnections(t, generous)
	at := int32(0)
	for i := range c.Objects {
		o := &c.Objects[i]
		if o.First != at || o.Count < 1 {
			t.Fatalf("object %d has its ends at %d, %d of them, want from %d", i, o.First, o.Count, at)
		}
		at += o.Count
		if i > 0 {
			p := &c.Objects[i-1]
			if p.Kind > o.Kind || p.Kind == o.Kind && (p.Device > o.Device || p.Device == o.Device && p.Inode >= o.Inode) {
				t.Fatalf("objects out of order: %+v before %+v", *p, *o)
			}
		}
		if o.Peer >= 0 {
			if p := &c.Objects[o.Peer]; p.Kind != FDSocket || o.Kind != FDSocket {
				t.Fatalf("a %s has a peer, a %s", o.Kind, p.Kind)
			}
		}
	}
	if int(at) != len(c.Ends) {
		t.Fatalf("the objects have %d ends of %d", at, len(c.Ends))
	}
}

func TestConnectionLimits(t *testing.T) {
	pipes(t)
	c := scanConnections(t, HostLimits{Descriptors: 1})
	want := "the limit of 1 descriptors looked at was reached"
	if c.Descriptors != 1 || !slices.Contains(c.Warnings, want) {
		t.Errorf("%d descriptors looked at, warnings %q, want one and %q", c.Descriptors, c.Warnings, want)
	}
}

// On a fixture there is no kernel to ask: the tables are text.
func TestConnectionsFromText(t *testing.T) {
	dir := t.TempDir()
	fd := filepath.Join(dir, "7", "fd")
	for _, d := range []string{fd, filepath.Join(dir, "7", "ns"), filepath.Join(dir, "7", "net")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "7", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("stat", "7 (a) S 1 7 7 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 500 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n")
	write("ns/net", "")
	head := "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	row := func(n int, local, remote string, state string, inode int) string {
		return fmt.Sprintf("%4d: %s %s %s 00000000:00000000 00:00000000 00000000     0        0 %d 1 0000000000000000 20 4 30 10 -1\n", n, local, remote, state, inode)
	}
	write("net/tcp", head+row(0, "0100007F:0050", "0100007F:8000", "01", 11)+row(1, "0100007F:8000", "0100007F:0050", "01", 12)+
		row(2, "0100007F:0051", "0100007F:8001", "06", 0)+row(3, "0200007F:0050", "0300007F:8000", "01", 13))
	for n, target := range map[string]string{"3": "socket:[11]", "4": "socket:[12]", "5": "socket:[13]", "6": "socket:[14]", "7": "socket:[0]"} {
		if err := os.Symlink(target, filepath.Join(fd, n)); err != nil {
			t.Fatal(err)
		}
	}
	fs, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	c, err := fs.NewDescriptorScanner().ScanConnections(HostLimits{})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Objects) != 4 {
		t.Fatalf("%d objects, want the four sockets with an inode: %+v", len(c.Objects), c.Objects)
	}
	for i, want := range []struct {
		inode  uint64
		peer   int32
		remote string
	}{{11, 1, "127.0.0.1:32768"}, {12, 0, "127.0.0.1:80"}, {13, -1, "127.0.0.3:32768"}} {
		o := &c.Objects[i]
		if o.Inode != want.inode || o.Peer != want.peer || o.Socket == nil || o.Socket.Remote != Some(want.remote) {
			t.Errorf("object %d: %+v %+v, want %+v", i, *o, o.Socket, want)
		}
	}
	if o := &c.Objects[3]; o.Socket != nil || o.Peer != -1 {
		t.Errorf("a socket in no table: %+v", *o)
	}
}
