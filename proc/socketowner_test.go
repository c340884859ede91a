package proc

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	// connect ADDRESS: connects; connect-close ADDRESS: and closes at once.
	targets["connect"] = func(args []string) {
		c := must2(net.Dial("tcp", args[0]))
		fact("LOCAL", c.LocalAddr())
		keepAlive = append(keepAlive, c)
	}
	targets["connect-close"] = func(args []string) {
		c := must2(net.Dial("tcp", args[0]))
		fact("LOCAL", c.LocalAddr())
		must(c.Close())
	}
}

// keepAlive holds what a target must not lose to the garbage collector.
var keepAlive []any

const nobody = 65534

func listenTCP(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestSocketOwner(t *testing.T) {
	for _, c := range []struct{ name, listen, dial string }{
		{"IPv4", "127.0.0.1:0", "127.0.0.1"},
		{"IPv6", "[::1]:0", "::1"},
		{"IPv4 client of a server on all addresses", ":0", "127.0.0.1"},
		{"IPv6 client of a server on all addresses", ":0", "::1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := listenTCP(t, c.listen)
			_, port, _ := net.SplitHostPort(l.Addr().String())
			attr, want := &syscall.SysProcAttr{}, uint32(os.Geteuid())
			if want == 0 {
				attr.Credential, want = &syscall.Credential{Uid: nobody, Gid: nobody}, nobody
			}
			startTarget(t, attr, "connect", net.JoinHostPort(c.dial, port))
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			server, client := addrPort(conn.LocalAddr()), addrPort(conn.RemoteAddr())
			if got, err := SocketOwner(client, server); err != nil || got != want {
				t.Errorf("owner of the client: got %d, %v; want %d", got, err, want)
			}
			if got, err := readOwner(client, server); err != nil || got != want {
				t.Errorf("owner from text: got %d, %v; want %d", got, err, want)
			}
			if got, err := SocketOwner(server, client); err != nil || got != uint32(os.Geteuid()) {
				t.Errorf("owner of the server end: got %d, %v; want %d", got, err, os.Geteuid())
			}
		})
	}
}

// readOwner is SocketOwner on a kernel without INET_DIAG.
func readOwner(local, remote netip.AddrPort) (uint32, error) {
	o := owners{
		diag:    func(netip.AddrPort, netip.AddrPort) (uint32, error) { return 0, unix.ENOENT },
		present: func() bool { return false },
		text:    newTextOwners("/proc/thread-self/net", time.Minute),
	}
	return o.of(unmap(local), unmap(remote))
}

// A client that is gone costs no reading of all sockets where the kernel can be asked.
func TestSocketOwnerAsksOnce(t *testing.T) {
	gone := netip.MustParseAddrPort("127.0.0.1:1")
	asked := 0
	o := owners{
		diag:    diagOwner,
		present: func() bool { asked++; return hasInetDiag() },
		text:    newTextOwners("/none", time.Minute), // who reads there gets another error
	}
	for range 50 {
		if uid, err := o.of(gone, gone); err != ErrNoOwner {
			t.Fatalf("got %d, %v; want ErrNoOwner", uid, err)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times whether there is INET_DIAG, want once", asked)
	}
}

// Who asks while the text is read is answered by one more reading, however many they
// are, and by none that began before.
func TestTextOwnersReadTogether(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(dir+"/tcp", 0o600); err != nil { // a reading lasts until this is written
		t.Fatal(err)
	}
	o := newTextOwners(dir, time.Minute)
	server := netip.MustParseAddrPort("127.0.0.1:8080")
	client := func(i int) netip.AddrPort { return netip.AddrPortFrom(server.Addr(), uint16(1000+i)) }
	ask := func(all *sync.WaitGroup, i int, want uint32) {
		all.Go(func() {
			if uid, err := o.of(client(i), server); err != nil || uid != want {
				t.Errorf("client %d: got %d, %v; want %d", i, uid, err, want)
			}
		})
	}
	waiting := func() int {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.next == nil {
			return 0
		}
		return len(o.next.asked)
	}
	write := func(clients ...int) {
		var text strings.Builder
		text.WriteString("  sl  local_address rem_address\n")
		for _, i := range clients {
			fmt.Fprintf(&text, "   0: 0100007F:%04X 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  %d        0 77 1 0 20 4 30 10 -1\n", 1000+i, 5000+i)
		}
		// Opening it waits for the reading to begin.
		if err := os.WriteFile(dir+"/tcp", []byte(text.String()), 0); err != nil {
			t.Error(err)
		}
	}
	var first, all sync.WaitGroup
	ask(&first, 0, 5000)
	for deadline := farDeadline(); ; time.Sleep(time.Millisecond) {
		o.mu.Lock()
		begun := len(o.turn) == 1 && o.next == nil
		o.mu.Unlock()
		if begun {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no reading begins")
		}
	}
	const others = 200
	var ids []int
	for i := range others {
		ask(&all, 1+i, uint32(5001+i))
		ids = append(ids, 1+i)
	}
	for deadline := farDeadline(); waiting() < others; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d wait, want %d", waiting(), others)
		}
	}
	write(0)
	first.Wait() // the next text is for the next reading
	write(ids...)
	all.Wait()
}

func addrPort(a net.Addr) netip.AddrPort { return a.(*net.TCPAddr).AddrPort() }

// A client that has closed leaves a row with uid 0 and inode 0, or none: it must
// never pass as root.
func TestSocketOwnerClosed(t *testing.T) {
	l := listenTCP(t, "127.0.0.1:0")
	attr := &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	tg := startTarget(t, attr, "connect-close", l.Addr().String())
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client, server := addrPort(conn.RemoteAddr()), addrPort(conn.LocalAddr())
	if got := netip.MustParseAddrPort(tg.facts["LOCAL"]); got != client {
		t.Fatalf("accepted %v, the client was %v", client, got)
	}
	row, ok := diagRow(t, client, server)
	if !ok {
		t.Fatal("no row of the closed client: the condition is not there")
	}
	// The uid of such a row is 0 on some kernels and the true one on others.
	if row.inode != 0 || row.state != tcpFinWait1 && row.state != tcpFinWait2 {
		t.Fatalf("row of the closed client: inode %d, state %d; want 0 and FIN_WAIT", row.inode, row.state)
	}
	for name, ask := range map[string]func(a, b netip.AddrPort) (uint32, error){
		"SocketOwner": SocketOwner,
		"text":        readOwner,
	} {
		if uid, err := ask(client, server); !errors.Is(err, ErrNoOwner) {
			t.Errorf("%s: got %d, %v; want ErrNoOwner", name, uid, err)
		}
	}
}

func diagRow(t *testing.T, local, remote netip.AddrPort) (inetSocket, bool) {
	t.Helper()
	text, err := os.ReadFile("/proc/thread-self/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	var row inetSocket
	found := false
	eachInetText(text, "tcp", func(s inetSocket) bool {
		if s.pair == pairOf(local, remote) {
			row, found = s, true
		}
		return !found
	})
	return row, found
}

// The kernel answers an exact request with the listener of the port when there is
// no such connection.
func TestSocketOwnerListener(t *testing.T) {
	l := listenTCP(t, "127.0.0.1:0")
	server, nobodyThere := addrPort(l.Addr()), netip.MustParseAddrPort("127.0.0.1:1")
	c, err := openDiag(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	row, err := c.one(inetRequest(unix.IPPROTO_TCP, server, nobodyThere), farDeadline())
	if err != nil {
		t.Fatalf("exact request: %v; want the row of the listener", err)
	}
	if s, ok := parseInetDiag(row, transportTCP); !ok || s.state != tcpListen || s.inode == 0 {
		t.Fatalf("exact request: %+v; want the listener", s)
	}
	if uid, err := SocketOwner(server, nobodyThere); !errors.Is(err, ErrNoOwner) {
		t.Errorf("got %d, %v; want ErrNoOwner", uid, err)
	}
}

func TestSocketOwnerOddAddresses(t *testing.T) {
	four, six := netip.MustParseAddrPort("127.0.0.1:9"), netip.MustParseAddrPort("[::1]:9")
	for name, c := range map[string][2]netip.AddrPort{
		"none":           {},
		"no remote":      {four, {}},
		"mixed families": {four, six},
		"nobody":         {four, four},
		"nobody, IPv6":   {six, six},
		"zone":           {netip.MustParseAddrPort("[fe80::1%lo]:9"), netip.MustParseAddrPort("[fe80::2%lo]:9")},
	} {
		if uid, err := SocketOwner(c[0], c[1]); !errors.Is(err, ErrNoOwner) {
			t.Errorf("%s: got %d, %v; want ErrNoOwner", name, uid, err)
		}
	}
}

func TestOwnerRule(t *testing.T) {
	want := pairOf(netip.MustParseAddrPort("10.0.0.1:40000"), netip.MustParseAddrPort("10.0.0.2:80"))
	for state := uint8(0); state <= 13; state++ {
		good := state == 1 || state == 4 || state == 5 || state == 8
		s := inetSocket{pair: want, inode: 7, uid: 1000, state: state}
		if uid, err := s.ownerOf(want); good != (err == nil) || good && uid != 1000 {
			t.Errorf("state %d: got %d, %v", state, uid, err)
		}
		s.inode = 0
		if uid, err := s.ownerOf(want); err == nil {
			t.Errorf("state %d without inode: got %d", state, uid)
		}
		s.inode, s.pair = 7, want.reversed()
		if uid, err := s.ownerOf(want); err == nil {
			t.Errorf("state %d with another pair: got %d", state, uid)
		}
	}
}
