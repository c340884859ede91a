package proc

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// held finds the object that a process holds as fd.
func (c *HostConnections) held(t *testing.T, pid int32, fd int) *HostObject {
	t.Helper()
	inode := inodeAt(t, pid, fd)
	for i := range c.Objects {
		o := &c.Objects[i]
		if o.Inode != inode {
			continue
		}
		for _, e := range c.Ends[o.First : o.First+o.Count] {
			if c.Processes[e.Process].ID.PID == pid && e.FD == int32(fd) {
				return o
			}
		}
	}
	t.Fatalf("nobody holds %d of %d", fd, pid)
	return nil
}

// The same two addresses in two network namespaces are two connections, and a UNIX
// socket with a path connects across namespaces.
func TestConnectionsAcrossNamespaces(t *testing.T) {
	needRoot(t)
	self := int32(os.Getpid())
	mapped, client := tcpPair(t, "[::]:0", "127.0.0.1")
	udpA, udpB := udpPair(t, unix.AF_INET, "")
	p, q := freePorts(t)
	far := startTarget(t, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}, "tcp-pair", p, q)
	near := startTarget(t, nil, "tcp-pair", p, q)
	path := t.TempDir() + "/s"
	l := check2[int](t)(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
	defer unix.Close(l)
	if err := unix.Bind(l, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(l, 1); err != nil {
		t.Fatal(err)
	}
	guest := startTarget(t, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}, "unix-client", path)
	accepted, _, err := unix.Accept4(l, unix.SOCK_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(accepted)

	s := live(t).NewDescriptorScanner()
	before := openFDs(t)
	for range 2 { // the second with the buffers of the first
		c, err := s.ScanConnections(generous)
		if err != nil {
			t.Fatal(err)
		}
		for name, x := range map[string]struct {
			aPID, bPID int32
			a, b       int
			candidate  bool
		}{
			"tcp, mapped":       {self, self, int(mapped.Fd()), int(client.Fd()), true},
			"udp":               {self, self, int(udpA.Fd()), int(udpB.Fd()), true},
			"tcp here":          {near.pid(), near.pid(), near.fact("ACCEPTED_FD"), near.fact("CLIENT_FD"), true},
			"tcp there":         {far.pid(), far.pid(), far.fact("ACCEPTED_FD"), far.fact("CLIENT_FD"), true},
			"unix, across them": {self, guest.pid(), accepted, guest.fact("FD"), false},
		} {
			a, b := c.held(t, x.aPID, x.a), c.held(t, x.bPID, x.b)
			if a.Peer < 0 || b.Peer < 0 || &c.Objects[a.Peer] != b || &c.Objects[b.Peer] != a || a.Candidate != x.candidate || b.Candidate != x.candidate {
				t.Errorf("%s: %+v and %+v", name, *a, *b)
			}
		}
		if o := c.held(t, self, l); o.Peer != -1 || o.Socket.State != Some("LISTEN") || o.Socket.Local != Some(path) {
			t.Errorf("listener: %+v %+v", *o, *o.Socket)
		}
		if o := c.held(t, guest.pid(), guest.fact("FD")); o.Socket == nil || o.Socket.Protocol != Some(ProtocolUnixStream) {
			t.Errorf("client of another namespace: %+v %+v", *o, o.Socket)
		}
	}
	if after := openFDs(t); after != before {
		t.Errorf("%d descriptors open after the scans, %d before", after, before)
	}
}
