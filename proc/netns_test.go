package proc

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func init() {
	// tcp-pair SERVER CLIENT: brings the loopback up and talks to itself over
	// these two ports. unix-client PATH: connects.
	targets["tcp-pair"] = func(args []string) {
		loopbackUp()
		accepted, client := fixedPair(args[0], args[1])
		fact("ACCEPTED_FD", accepted.Fd())
		fact("CLIENT_FD", client.Fd())
		keepAlive = append(keepAlive, accepted, client)
	}
	targets["unix-client"] = func(args []string) {
		fd := must2(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
		must(unix.Connect(fd, &unix.SockaddrUnix{Name: args[0]}))
		fact("FD", fd)
		fact("INODE", inodeOf(fd))
	}
}

func loopbackUp() {
	fd := must2(unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0))
	defer unix.Close(fd)
	ifr := must2(unix.NewIfreq("lo"))
	ifr.SetUint16(unix.IFF_UP)
	must(unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr))
}

// fixedPair connects 127.0.0.1:client with 127.0.0.1:server.
func fixedPair(server, client string) (accepted, dialed *os.File) {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l := must2(lc.Listen(context.Background(), "tcp", "127.0.0.1:"+server))
	local := must2(net.ResolveTCPAddr("tcp", "127.0.0.1:"+client))
	d := net.Dialer{LocalAddr: local}
	c := must2(d.Dial("tcp", l.Addr().String()))
	a := must2(l.Accept())
	accepted, dialed = must2(a.(*net.TCPConn).File()), must2(c.(*net.TCPConn).File())
	a.Close()
	c.Close()
	keepAlive = append(keepAlive, l)
	return accepted, dialed
}

func freePorts(t *testing.T) (string, string) {
	t.Helper()
	a, b := listenTCP(t, "127.0.0.1:0"), listenTCP(t, "127.0.0.1:0")
	defer a.Close()
	defer b.Close()
	_, p, _ := net.SplitHostPort(a.Addr().String())
	_, q, _ := net.SplitHostPort(b.Addr().String())
	return p, q
}

// The same two addresses in two network namespaces are two connections.
func TestNetworkNamespace(t *testing.T) {
	needRoot(t)
	server, client := freePorts(t)
	there := startTarget(t, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}, "tcp-pair", server, client)
	here := startTarget(t, nil, "tcp-pair", server, client)
	for name, tg := range map[string]*target{"there": there, "here": here} {
		got, warnings := readFDs(t, tg.pid())
		accepted, dialed := tg.fact("ACCEPTED_FD"), tg.fact("CLIENT_FD")
		d := got[int32(accepted)]
		wantPoints(t, name+": accepted", d.Peers, point(tg.pid(), dialed, RelationCandidate, AccessReadWrite))
		if d.Protocol != Some(ProtocolTCP) || d.State != Some("ESTABLISHED") || d.Local != Some("127.0.0.1:"+server) || d.Remote != Some("127.0.0.1:"+client) {
			t.Errorf("%s: accepted: got %+v", name, d)
		}
		wantPoints(t, name+": client", got[int32(dialed)].Peers, point(tg.pid(), accepted, RelationCandidate, AccessReadWrite))
		for _, w := range warnings {
			if strings.Contains(w, "namespace") {
				t.Errorf("%s: warning %q", name, w)
			}
		}
	}
	// This thread, and so this process, is where it was.
	c, err := openDiag(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	rows := 0
	if err := c.dump(inetDump(unix.AF_INET, unix.IPPROTO_TCP), farDeadline(), func(b []byte) bool {
		if s, ok := parseInetDiag(b, transportTCP); ok && fmt.Sprint(s.localPort) == server && s.connected() {
			if int(s.inode) == int(inodeAt(t, there.pid(), there.fact("ACCEPTED_FD"))) {
				t.Error("the caller's thread stayed in the target's namespace")
			}
			rows++
		}
		return true
	}); err != nil || rows != 1 {
		t.Errorf("own namespace: %d rows, %v", rows, err)
	}
}

func inodeAt(t *testing.T, pid int32, fd int) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/fd/%d", pid, fd), &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

// Without CAP_SYS_ADMIN the namespace cannot be entered: TCP comes from the text,
// UNIX peers stay unknown, and a warning says so.
func TestNamespaceDenied(t *testing.T) {
	needRoot(t)
	server, client := freePorts(t)
	there := startTarget(t, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}, "tcp-pair", server, client)
	p := openLive(t, there.pid())
	s := p.fs.NewDescriptorScanner()
	var got *Descriptors
	withoutCapability(t, unix.CAP_SYS_ADMIN, func() {
		var err error
		if got, err = s.Read(p); err != nil {
			t.Error(err)
		}
	})
	if got == nil {
		return
	}
	accepted, dialed := int32(there.fact("ACCEPTED_FD")), there.fact("CLIENT_FD")
	for _, d := range got.Entries {
		if d.FD == accepted {
			wantPoints(t, "accepted", d.Peers, point(there.pid(), dialed, RelationCandidate, AccessReadWrite))
			if d.State != Some("ESTABLISHED") || d.Remote != Some("127.0.0.1:"+client) {
				t.Errorf("accepted: got %+v", d)
			}
		}
	}
	if !slicesContain(got.Warnings, "network namespace could not be entered (needs CAP_SYS_ADMIN)") {
		t.Errorf("warnings: %q", got.Warnings)
	}
}

func slicesContain(list []string, part string) bool {
	for _, s := range list {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}

// withoutCapability runs f on a thread that lacks one effective capability.
func withoutCapability(t *testing.T, capability int, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var old, less [2]unix.CapUserData
	if err := unix.Capget(&header, &old[0]); err != nil {
		t.Fatal(err)
	}
	less = old
	less[capability/32].Effective &^= 1 << (capability % 32)
	if err := unix.Capset(&header, &less[0]); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Capset(&header, &old[0]); err != nil {
			t.Fatal(err)
		}
	}()
	f()
}

// A socket with a path connects across network namespaces. What the server
// accepts belongs to the namespace of the client.
func TestUnixAcrossNamespaces(t *testing.T) {
	needRoot(t)
	path := t.TempDir() + "/s"
	l := check2[int](t)(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
	defer unix.Close(l)
	if err := unix.Bind(l, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(l, 1); err != nil {
		t.Fatal(err)
	}
	tg := startTarget(t, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}, "unix-client", path)
	a, _, err := unix.Accept4(l, unix.SOCK_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(a)
	got, _ := readFDs(t, int32(os.Getpid()))
	d := got[int32(a)]
	wantPoints(t, "accepted", d.Peers, point(tg.pid(), tg.fact("FD"), RelationUnixPeer, AccessReadWrite))
	if d.PeerInode != Some(uint64(tg.fact("INODE"))) || d.Local != Some(path) || d.Protocol != Some(ProtocolUnixStream) {
		t.Errorf("accepted: got %+v", d)
	}
	if !strings.Contains(d.Note.Or(""), "another network namespace") {
		t.Errorf("accepted: note %v: the condition is not there", d.Note)
	}
	theirs, _ := readFDs(t, tg.pid())
	wantPoints(t, "client", theirs[int32(tg.fact("FD"))].Peers, point(int32(os.Getpid()), a, RelationUnixPeer, AccessReadWrite))
}
