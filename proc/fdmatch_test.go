package proc

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func init() {
	targets["hold"] = func([]string) {} // holds what it was given
}

// readFDs returns the descriptors of a process by number.
func readFDs(t *testing.T, pid int32) (map[int32]Descriptor, []string) {
	t.Helper()
	p := openLive(t, pid)
	got, err := p.fs.NewDescriptorScanner().Read(p)
	if err != nil {
		t.Fatal(err)
	}
	m := map[int32]Descriptor{}
	for _, d := range got.Entries {
		m[d.FD] = d
	}
	return m, got.Warnings
}

// points writes endpoints as "PID/FD relation access".
func points(list []Endpoint) []string {
	out := []string{}
	for _, e := range list {
		out = append(out, fmt.Sprintf("%d/%d %s %s", e.ID.PID, e.FD, e.Relation, e.Access.Or("?")))
	}
	return out
}

func wantPoints(t *testing.T, what string, got []Endpoint, want ...string) {
	t.Helper()
	if g := points(got); !slices.Equal(g, want) {
		t.Errorf("%s: got %q, want %q", what, g, want)
	}
}

func point(pid int32, fd int, relation, access string) string {
	return fmt.Sprintf("%d/%d %s %s", pid, fd, relation, access)
}

// file wraps a descriptor for a target.
func file(t *testing.T, fd int) *os.File {
	t.Helper()
	f := os.NewFile(uintptr(fd), "")
	t.Cleanup(func() { f.Close() })
	return f
}

func check2[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func pairFiles(t *testing.T, kind int) (a, b *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file(t, fds[0]), file(t, fds[1])
}

// tcpPair connects two sockets and returns them as files.
func tcpPair(t *testing.T, listen, dial string) (server, client *os.File) {
	t.Helper()
	l := listenTCP(t, listen)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	c := check2[net.Conn](t)(net.Dial("tcp", net.JoinHostPort(dial, port)))
	s := check2[net.Conn](t)(l.Accept())
	defer c.Close()
	defer s.Close()
	server = check2[*os.File](t)(s.(*net.TCPConn).File())
	client = check2[*os.File](t)(c.(*net.TCPConn).File())
	t.Cleanup(func() { server.Close(); client.Close() })
	return server, client
}

// mptcpPair connects an MPTCP client with a server of this protocol.
func mptcpPair(t *testing.T, protocol int) (server, client *os.File) {
	t.Helper()
	c, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_MPTCP)
	if err == unix.EPROTONOSUPPORT || err == unix.ENOPROTOOPT {
		t.Skip("the kernel has no MPTCP, or net.mptcp.enabled is 0")
	}
	if err != nil {
		t.Fatal(err)
	}
	client = file(t, c)
	l := file(t, check2[int](t)(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, protocol)))
	if err := unix.Bind(int(l.Fd()), &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(int(l.Fd()), 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.Connect(c, check2[unix.Sockaddr](t)(unix.Getsockname(int(l.Fd())))); err != nil {
		t.Fatal(err)
	}
	s, _, err := unix.Accept4(int(l.Fd()), unix.SOCK_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	return file(t, s), client
}

// udpPair connects two sockets to each other.
func udpPair(t *testing.T, family int, address string) (a, b *os.File) {
	t.Helper()
	open := func() (int, unix.Sockaddr) {
		fd := check2[int](t)(unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0))
		var sa unix.Sockaddr = &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
		if family == unix.AF_INET6 {
			sa = &unix.SockaddrInet6{Addr: [16]byte{15: 1}}
		}
		if err := unix.Bind(fd, sa); err != nil {
			t.Fatal(err)
		}
		return fd, check2[unix.Sockaddr](t)(unix.Getsockname(fd))
	}
	fa, sa := open()
	fb, sb := open()
	for fd, sa := range map[int]unix.Sockaddr{fa: sb, fb: sa} {
		if err := unix.Connect(fd, sa); err != nil {
			t.Fatal(err)
		}
	}
	return file(t, fa), file(t, fb)
}

// Each kind of connection, one end in this process and the other in a target, seen
// from both sides.
func TestOtherEnds(t *testing.T) {
	type ends struct{ mine, theirs *os.File }
	pair := func(kind int) func(*testing.T) ends {
		return func(t *testing.T) ends { a, b := pairFiles(t, kind); return ends{a, b} }
	}
	tcp := func(listen, dial string) func(*testing.T) ends {
		return func(t *testing.T) ends { a, b := tcpPair(t, listen, dial); return ends{a, b} }
	}
	rw := AccessReadWrite
	for _, c := range []struct {
		name           string
		make           func(*testing.T) ends
		kind           string
		protocol       [2]string // mine, theirs
		access         [2]string
		relation       string
		local, remote  string // of mine, a prefix
		localKind      string
		peerInodeKnown bool
	}{
		{"pipe", func(t *testing.T) ends {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { r.Close(); w.Close() })
			return ends{r, w}
		}, FDPipe, [2]string{}, [2]string{AccessRead, AccessWrite}, RelationPipeEnd, "", "", "", false},
		{"fifo", func(t *testing.T) ends {
			path := filepath.Join(t.TempDir(), "a fifo")
			if err := unix.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			r := file(t, check2[int](t)(unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)))
			w := file(t, check2[int](t)(unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)))
			return ends{r, w}
		}, FDFIFO, [2]string{}, [2]string{AccessRead, AccessWrite}, RelationPipeEnd, "", "", "", false},
		{"fifo opened for both", func(t *testing.T) ends {
			path := filepath.Join(t.TempDir(), "f")
			if err := unix.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			a := file(t, check2[int](t)(unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)))
			b := file(t, check2[int](t)(unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)))
			return ends{a, b}
		}, FDFIFO, [2]string{}, [2]string{rw, rw}, RelationPipeEnd, "", "", "", false},
		{"unix stream pair", pair(unix.SOCK_STREAM), FDSocket, [2]string{ProtocolUnixStream, ProtocolUnixStream}, [2]string{rw, rw}, RelationUnixPeer, "", "", LocalUnnamed, true},
		{"unix dgram pair", pair(unix.SOCK_DGRAM), FDSocket, [2]string{ProtocolUnixDgram, ProtocolUnixDgram}, [2]string{rw, rw}, RelationUnixPeer, "", "", LocalUnnamed, true},
		{"unix seqpacket pair", pair(unix.SOCK_SEQPACKET), FDSocket, [2]string{ProtocolUnixSeqpacket, ProtocolUnixSeqpacket}, [2]string{rw, rw}, RelationUnixPeer, "", "", LocalUnnamed, true},
		{"tcp", tcp("127.0.0.1:0", "127.0.0.1"), FDSocket, [2]string{ProtocolTCP, ProtocolTCP}, [2]string{rw, rw}, RelationCandidate, "127.0.0.1:", "127.0.0.1:", LocalInet, false},
		{"tcp6", tcp("[::1]:0", "::1"), FDSocket, [2]string{ProtocolTCP6, ProtocolTCP6}, [2]string{rw, rw}, RelationCandidate, "[::1]:", "[::1]:", LocalInet, false},
		{"tcp mapped", tcp(":0", "127.0.0.1"), FDSocket, [2]string{ProtocolTCP6, ProtocolTCP}, [2]string{rw, rw}, RelationCandidate, "[::ffff:127.0.0.1]:", "[::ffff:127.0.0.1]:", LocalInet, false},
		{"mptcp", func(t *testing.T) ends { a, b := mptcpPair(t, unix.IPPROTO_MPTCP); return ends{a, b} },
			FDSocket, [2]string{"MPTCP", "MPTCP"}, [2]string{rw, rw}, RelationCandidate, "127.0.0.1:", "127.0.0.1:", LocalInet, false},
		{"mptcp client of a tcp server", func(t *testing.T) ends { a, b := mptcpPair(t, unix.IPPROTO_TCP); return ends{a, b} },
			FDSocket, [2]string{"TCP", "MPTCP"}, [2]string{rw, rw}, RelationCandidate, "127.0.0.1:", "127.0.0.1:", LocalInet, false},
		{"udp", func(t *testing.T) ends { a, b := udpPair(t, unix.AF_INET, ""); return ends{a, b} },
			FDSocket, [2]string{ProtocolUDP, ProtocolUDP}, [2]string{rw, rw}, RelationCandidate, "127.0.0.1:", "127.0.0.1:", LocalInet, false},
		{"udp6", func(t *testing.T) ends { a, b := udpPair(t, unix.AF_INET6, ""); return ends{a, b} },
			FDSocket, [2]string{ProtocolUDP6, ProtocolUDP6}, [2]string{rw, rw}, RelationCandidate, "[::1]:", "[::1]:", LocalInet, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := c.make(t)
			myFD := int(e.mine.Fd())
			theirInode, myInode := inode(t, e.theirs), inode(t, e.mine)
			tg := startTargetWith(t, nil, []*os.File{e.theirs}, "hold")
			e.theirs.Close()
			self := int32(os.Getpid())

			theirs, _ := readFDs(t, tg.pid())
			d := theirs[3]
			wantPoints(t, "peers in the target", d.Peers, point(self, myFD, c.relation, c.access[0]))
			wantPoints(t, "holders in the target", d.Holders)
			if d.Kind != c.kind || d.Inode != Some(theirInode) || d.Access != Some(c.access[1]) || d.Position.Known() || d.Deleted {
				t.Errorf("target: got %+v", d)
			}
			if c.protocol[1] != d.Protocol.Or("") {
				t.Errorf("target: protocol %v, want %q", d.Protocol, c.protocol[1])
			}
			mine, _ := readFDs(t, self)
			d = mine[int32(myFD)]
			wantPoints(t, "peers here", d.Peers, point(tg.pid(), 3, c.relation, c.access[1]))
			wantPoints(t, "holders here", d.Holders)
			if d.Inode != Some(myInode) || d.Access != Some(c.access[0]) || d.Protocol.Or("") != c.protocol[0] || d.LocalKind.Or("") != c.localKind {
				t.Errorf("here: got %+v", d)
			}
			if c.peerInodeKnown != d.PeerInode.Known() || c.peerInodeKnown && d.PeerInode != Some(theirInode) {
				t.Errorf("here: peer inode %v, want %d", d.PeerInode, theirInode)
			}
			if !strings.HasPrefix(d.Local.Or(""), c.local) || !strings.HasPrefix(d.Remote.Or(""), c.remote) || (c.local == "") == d.Local.Known() {
				t.Errorf("here: local %v, remote %v", d.Local, d.Remote)
			}
			if c.kind == FDSocket && d.State != Some("ESTABLISHED") {
				t.Errorf("here: state %v", d.State)
			}
			if len(d.Peers) == 1 && d.Peers[0].Name == "" {
				t.Error("the peer has no name")
			}
		})
	}
}

func inode(t *testing.T, f *os.File) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

// The same object in two processes: a holder, never a peer.
func TestHolders(t *testing.T) {
	eventfd := file(t, check2[int](t)(unix.Eventfd(0, unix.EFD_CLOEXEC)))
	other := file(t, check2[int](t)(unix.Eventfd(0, unix.EFD_CLOEXEC)))
	memfd := file(t, check2[int](t)(unix.MemfdCreate("a b", unix.MFD_CLOEXEC)))
	sock, far := pairFiles(t, unix.SOCK_STREAM)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	plain := check2[*os.File](t)(os.Open("/proc/self/exe"))
	defer plain.Close()
	epoll := file(t, check2[int](t)(unix.EpollCreate1(unix.EPOLL_CLOEXEC)))
	tg := startTargetWith(t, nil, []*os.File{eventfd, memfd, sock, r, plain, epoll}, "hold")
	self := int32(os.Getpid())
	rw := AccessReadWrite

	got, _ := readFDs(t, tg.pid())
	wantPoints(t, "eventfd", got[3].Holders, point(self, int(eventfd.Fd()), RelationSame, rw))
	wantPoints(t, "memfd", got[4].Holders, point(self, int(memfd.Fd()), RelationSame, rw))
	wantPoints(t, "socket", got[5].Holders, point(self, int(sock.Fd()), RelationSame, rw))
	wantPoints(t, "socket peers", got[5].Peers, point(self, int(far.Fd()), RelationUnixPeer, rw))
	wantPoints(t, "pipe", got[6].Holders, point(self, int(r.Fd()), RelationSamePipe, AccessRead))
	wantPoints(t, "pipe peers", got[6].Peers, point(self, int(w.Fd()), RelationPipeEnd, AccessWrite))
	for fd, kind := range map[int32]string{3: FDEventfd, 4: FDMemfd, 5: FDSocket, 6: FDPipe, 7: FDFile, 8: FDEpoll} {
		if got[fd].Kind != kind {
			t.Errorf("fd %d: got %s, want %s", fd, got[fd].Kind, kind)
		}
		if fd >= 7 {
			wantPoints(t, "holders of "+kind, got[fd].Holders)
		}
	}
	mine, _ := readFDs(t, self)
	wantPoints(t, "another eventfd", mine[int32(other.Fd())].Holders)
	// Both ends of one socket pair in this process; the target holds one of them.
	wantPoints(t, "far end", mine[int32(far.Fd())].Peers, sorted(
		point(self, int(sock.Fd()), RelationUnixPeer, rw), point(tg.pid(), 5, RelationUnixPeer, rw))...)
	wantPoints(t, "write end", mine[int32(w.Fd())].Peers, sorted(
		point(self, int(r.Fd()), RelationPipeEnd, AccessRead), point(tg.pid(), 6, RelationPipeEnd, AccessRead))...)
}

// sorted orders the points of two processes by PID.
func sorted(a, b string) []string {
	var x, y int
	fmt.Sscanf(a, "%d/", &x)
	fmt.Sscanf(b, "%d/", &y)
	if y < x {
		a, b = b, a
	}
	return []string{a, b}
}

// A server with two listeners of one path text, two accepted clients, one that
// waits, and half of a seqpacket pair: who is connected to whom is nothing a path
// can tell.
func TestUnixServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	listen := func() *os.File {
		fd := check2[int](t)(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
			t.Fatal(err)
		}
		if err := unix.Listen(fd, 8); err != nil {
			t.Fatal(err)
		}
		return file(t, fd)
	}
	old := listen()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l := listen()
	client := func() (*target, uint64) {
		fd := check2[int](t)(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), "")
		defer f.Close()
		return startTargetWith(t, nil, []*os.File{f}, "hold"), inode(t, f)
	}
	accept := func() *os.File {
		fd, _, err := unix.Accept4(int(l.Fd()), unix.SOCK_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		return file(t, fd)
	}
	one, oneInode := client()
	accepted1 := accept()
	two, twoInode := client()
	accepted2 := accept()
	waiting, _ := client()
	half, otherHalf := pairFiles(t, unix.SOCK_SEQPACKET)
	pairHolder := startTargetWith(t, nil, []*os.File{otherHalf, l}, "hold")
	otherHalf.Close()

	self, rw := int32(os.Getpid()), AccessReadWrite
	got, _ := readFDs(t, self)
	for _, c := range []struct {
		f     *os.File
		peer  *target
		inode uint64
	}{{accepted1, one, oneInode}, {accepted2, two, twoInode}} {
		d := got[int32(c.f.Fd())]
		wantPoints(t, "accepted", d.Peers, point(c.peer.pid(), 3, RelationUnixPeer, rw))
		if d.PeerInode != Some(c.inode) || d.Local != Some(path) || d.LocalKind != Some(LocalPath) || d.Remote.Known() || d.Protocol != Some(ProtocolUnixStream) {
			t.Errorf("accepted: got %+v", d)
		}
	}
	d := got[int32(half.Fd())]
	wantPoints(t, "half of the pair", d.Peers, point(pairHolder.pid(), 3, RelationUnixPeer, rw))
	wantPoints(t, "half of the pair", d.Holders)
	for _, f := range []*os.File{old, l} {
		d := got[int32(f.Fd())]
		wantPoints(t, "listener", d.Peers)
		if d.State != Some("LISTEN") || d.Local != Some(path) || d.ReceiveQueue.Known() || d.PeerInode.Known() {
			t.Errorf("listener: got %+v", d)
		}
	}
	if note := got[int32(l.Fd())].Note.Or(""); !strings.HasPrefix(note, "1 of at most 8 ") {
		t.Errorf("listener: note %q", note)
	}
	wantPoints(t, "listener", got[int32(l.Fd())].Holders, point(pairHolder.pid(), 4, RelationSame, rw))
	theirs, _ := readFDs(t, waiting.pid())
	wantPoints(t, "client that waits", theirs[3].Peers)
	if theirs[3].State != Some("ESTABLISHED") || theirs[3].PeerInode.Known() {
		t.Errorf("client that waits: got %+v", theirs[3])
	}
	theirs, _ = readFDs(t, one.pid())
	wantPoints(t, "client", theirs[3].Peers, point(self, int(accepted1.Fd()), RelationUnixPeer, rw))
	if theirs[3].Remote != Some(path) || theirs[3].LocalKind != Some(LocalUnnamed) {
		t.Errorf("client: got %+v", theirs[3])
	}
}

func TestUnixAbstractAndQueues(t *testing.T) {
	name := fmt.Sprintf("\x00procinsh\x00%d", os.Getpid())
	fd := check2[int](t)(unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0))
	server := file(t, fd)
	// x/sys writes a leading "@" as NUL and leaves the NULs that follow.
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: "@" + name[1:]}); err != nil {
		t.Fatal(err)
	}
	var clients []*target
	for range 2 {
		c := check2[int](t)(unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0))
		f := os.NewFile(uintptr(c), "")
		defer f.Close()
		if err := unix.Connect(c, &unix.SockaddrUnix{Name: "@" + name[1:]}); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, startTargetWith(t, nil, []*os.File{f}, "hold"))
		if _, err := unix.Write(c, []byte("hello")); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	got, _ := readFDs(t, int32(os.Getpid()))
	d := got[int32(server.Fd())]
	if d.Local != Some("@"+strings.ReplaceAll(name[1:], "\x00", "@")) || d.LocalKind != Some(LocalAbstract) || d.ReceiveQueue.Or(0) < 5 || d.PeerInode.Known() {
		t.Errorf("server: got %+v", d)
	}
	// It is connected to nobody, both are connected to it.
	wantPoints(t, "server", d.Peers, sorted(
		point(clients[0].pid(), 3, RelationUnixPeer, AccessReadWrite), point(clients[1].pid(), 3, RelationUnixPeer, AccessReadWrite))...)
	theirs, _ := readFDs(t, clients[0].pid())
	if theirs[3].Remote != d.Local {
		t.Errorf("client: remote %v, want %v", theirs[3].Remote, d.Local)
	}
}

// A port with one live connection, rows in TIME_WAIT and a client that nobody has
// accepted: rows without an inode are matched with nothing.
func TestTimeWait(t *testing.T) {
	l := listenTCP(t, "127.0.0.1:0")
	for range 20 {
		c := check2[net.Conn](t)(net.Dial("tcp", l.Addr().String()))
		a := check2[net.Conn](t)(l.Accept())
		a.Close() // the server closes first, so its end goes to TIME_WAIT
		var b [1]byte
		c.Read(b[:])
		c.Close()
	}
	live := startTarget(t, nil, "connect", l.Addr().String())
	conn := check2[net.Conn](t)(l.Accept())
	defer conn.Close()
	waiting := startTarget(t, nil, "connect", l.Addr().String())

	rows := 0
	text := check2[[]byte](t)(os.ReadFile("/proc/thread-self/net/tcp"))
	eachInetText(text, "tcp", func(s inetSocket) bool {
		if s.localPort == addrPort(l.Addr()).Port() && s.state == tcpTimeWait {
			rows++
		}
		return true
	})
	if rows == 0 {
		t.Fatal("no row in TIME_WAIT: the condition is not there")
	}
	f := check2[*os.File](t)(conn.(*net.TCPConn).File())
	defer f.Close()
	got, _ := readFDs(t, int32(os.Getpid()))
	d := got[int32(f.Fd())]
	if len(d.Peers) != 1 || d.Peers[0].ID.PID != live.pid() || d.Peers[0].Relation != RelationCandidate || d.State != Some("ESTABLISHED") {
		t.Errorf("live: got %v, state %v", points(d.Peers), d.State)
	}
	sockets := 0
	for _, d := range got {
		if d.Local == Some(l.Addr().String()) && d.State == Some("LISTEN") {
			sockets++
			wantPoints(t, "listener", d.Peers)
			if d.Remote.Known() || d.ReceiveQueue.Known() || !strings.HasPrefix(d.Note.Or(""), "1 of at most ") {
				t.Errorf("listener: got %+v", d)
			}
		}
	}
	if sockets != 1 {
		t.Errorf("got %d listeners", sockets)
	}
	theirs, _ := readFDs(t, waiting.pid())
	for _, d := range theirs {
		if d.Protocol == Some(ProtocolTCP) {
			wantPoints(t, "client that waits", d.Peers)
			if d.State != Some("ESTABLISHED") || d.Remote != Some(l.Addr().String()) {
				t.Errorf("client that waits: got %+v", d)
			}
		}
	}
}

// Inside a PID namespace of its own the target is PID 1; the answer uses the
// numbers of the caller.
func TestPIDNamespace(t *testing.T) {
	needRoot(t)
	mine, theirs := pairFiles(t, unix.SOCK_STREAM)
	tg := startTargetWith(t, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}, []*os.File{theirs}, "hold")
	theirs.Close()
	got, _ := readFDs(t, int32(os.Getpid()))
	wantPoints(t, "here", got[int32(mine.Fd())].Peers, point(tg.pid(), 3, RelationUnixPeer, AccessReadWrite))
	far, _ := readFDs(t, tg.pid())
	wantPoints(t, "in the namespace", far[3].Peers, point(int32(os.Getpid()), int(mine.Fd()), RelationUnixPeer, AccessReadWrite))
}

func TestPipeRelation(t *testing.T) {
	for _, c := range []struct {
		mine, theirs uint8
		want         string
	}{
		{dirRead, dirWrite, RelationPipeEnd}, {dirWrite, dirRead, RelationPipeEnd},
		{dirRead, dirRead, RelationSamePipe}, {dirWrite, dirWrite, RelationSamePipe},
		{dirBoth, dirRead, RelationPipeEnd}, {dirWrite, dirBoth, RelationPipeEnd}, {dirBoth, dirBoth, RelationPipeEnd},
		{dirUnknown, dirRead, RelationSame}, {dirRead, dirUnknown, RelationSame}, {dirNone, dirWrite, RelationSame}, {dirBoth, dirNone, RelationSame},
	} {
		if got := pipeRelation(c.mine, c.theirs); got != c.want {
			t.Errorf("%q and %q: got %s, want %s", dirAccess[c.mine], dirAccess[c.theirs], got, c.want)
		}
	}
}

func TestTrim(t *testing.T) {
	for _, c := range []struct{ peers, holders, most, wantPeers, wantHolders int }{
		{1, 1, 64, 1, 1}, {64, 0, 64, 64, 0}, {0, 65, 64, 0, 64}, {65, 0, 64, 64, 0},
		{65, 65, 64, 32, 32}, {65, 10, 64, 54, 10}, {10, 65, 64, 10, 54}, {40, 40, 64, 32, 32},
		{5, 5, 0, 0, 0}, {5, 5, 1, 1, 0}, {0, 0, 0, 0, 0}, {1, 5, 3, 1, 2},
	} {
		p, h, cut := trim(make([]Endpoint, c.peers), make([]Endpoint, c.holders), c.most)
		if len(p) != c.wantPeers || len(h) != c.wantHolders || cut != (c.peers+c.holders > c.most) {
			t.Errorf("%d and %d to %d: got %d and %d, cut %v", c.peers, c.holders, c.most, len(p), len(h), cut)
		}
	}
}
