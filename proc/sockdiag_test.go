package proc

import (
	"encoding/hex"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// bytesOf decodes hex with blanks.
func bytesOf(t testing.TB, s string) []byte {
	t.Helper()
	clean := ""
	for _, c := range s {
		if c != ' ' && c != '\n' && c != '\t' {
			clean += string(c)
		}
	}
	b, err := hex.DecodeString(clean)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A struct inet_diag_msg: family, state, timer, retrans, ports, addresses,
// interface, cookie, expires, rqueue, wqueue, uid, inode.
const inetMsg = `02 01 00 00 1f90 d431
	7f000001 00000000 00000000 00000000 7f000002 00000000 00000000 00000000
	00000000 0100000000000000 00000000 0b000000 0a000000 e8030000 83000000`

func TestParseInetDiag(t *testing.T) {
	got, ok := parseInetDiag(bytesOf(t, inetMsg), transportTCP)
	want := inetSocket{
		pair:  pairOf(netip.MustParseAddrPort("127.0.0.1:8080"), netip.MustParseAddrPort("127.0.0.2:54321")),
		inode: 131, uid: 1000, receive: 11, send: 10, transport: transportTCP, state: tcpEstablished,
	}
	if !ok || got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	b := bytesOf(t, inetMsg)
	b[0] = unix.AF_INET6
	copy(b[8:24], netip.MustParseAddr("::ffff:127.0.0.1").AsSlice())
	copy(b[24:40], netip.MustParseAddr("::ffff:127.0.0.2").AsSlice())
	got, ok = parseInetDiag(b, transportTCP)
	if !ok || got.pair != want.pair || !got.six {
		t.Errorf("mapped: got %+v", got)
	}
	if s := got.end(got.local, got.localPort); s != "[::ffff:127.0.0.1]:8080" {
		t.Errorf("mapped: got %s", s)
	}
	if _, ok := parseInetDiag(b[:len(b)-1], transportTCP); ok {
		t.Error("a short row was taken")
	}
	b[0] = unix.AF_UNIX
	if _, ok := parseInetDiag(b, transportTCP); ok {
		t.Error("a row of another family was taken")
	}
}

func TestParseUnixDiag(t *testing.T) {
	head := `01 05 01 00 39300000 0100000000000000`
	name := `0700 0000 006162 00`
	peer := `0800 0200 3a300000`
	queues := `0c00 0400 05000000 06000000`
	got, ok := parseUnixDiag(bytesOf(t, head+name+peer+queues))
	if !ok || got.inode != 12345 || got.peer != 12346 || got.kind != unix.SOCK_SEQPACKET || got.state != tcpEstablished || got.receive != 5 || got.send != 6 || !got.queues || string(got.name) != "\x00ab" {
		t.Errorf("got %+v, %v", got, ok)
	}
	inode, far, ok := unixEnds(bytesOf(t, head+name+peer+queues))
	if !ok || inode != 12345 || far != 12346 {
		t.Errorf("ends: got %d, %d, %v", inode, far, ok)
	}
	got, ok = parseUnixDiag(bytesOf(t, head))
	if !ok || got.peer != 0 || got.queues || got.name != nil {
		t.Errorf("bare: got %+v, %v", got, ok)
	}
	// Attributes that are too short for what they should hold.
	got, ok = parseUnixDiag(bytesOf(t, head+`0600 0200 3a30 0000 0800 0400 05000000`))
	if !ok || got.peer != 0 || got.queues {
		t.Errorf("short attributes: got %+v, %v", got, ok)
	}
	if _, ok := parseUnixDiag(bytesOf(t, head)[:15]); ok {
		t.Error("a short row was taken")
	}
}

func TestParsePlainDiag(t *testing.T) {
	for _, c := range []struct {
		name, bytes string
		want        plainSocket
		ok          bool
	}{
		{"netlink", `10 03 0f 00 0b000000 00000000 00000000 e4050000 0000000000000000`, plainSocket{inode: 1508, family: unix.AF_NETLINK, number: 15, local: [2]uint32{11}}, true},
		{"packet", `11 03 0300 4d000000 0000000000000000`, plainSocket{inode: 77, family: unix.AF_PACKET, number: 3}, true},
		{"vsock", `28 01 0a 00 ffffffff 00040000 00000000 00000000 09000000 0000000000000000`, plainSocket{inode: 9, family: unix.AF_VSOCK, state: tcpListen, local: [2]uint32{1<<32 - 1, 1024}}, true},
		{"short netlink", `10 03 0f 00 0b000000 00000000 00000000`, plainSocket{}, false},
		{"another family", `02 03 0300 4d000000 0000000000000000`, plainSocket{}, false},
		{"short", `11`, plainSocket{}, false},
	} {
		if got, ok := parsePlainDiag(bytesOf(t, c.bytes)); got != c.want || ok != c.ok {
			t.Errorf("%s: got %+v, %v", c.name, got, ok)
		}
	}
	if got := vsockEnd([2]uint32{1<<32 - 1, 1024}); got != "*:1024" {
		t.Errorf("got %s", got)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ name, text, kind string }{
		{"", "", LocalUnnamed},
		{"/run/a\x00", "/run/a", LocalPath},
		{"/run/a b\nc", "/run/a b\nc", LocalPath},
		{"relative\x00\x00", "relative", LocalPath},
		{"\x00", "@", LocalAbstract},
		{"\x00ab\x00c", "@ab@c", LocalAbstract},
		{"\x00/run/a\x00", "@/run/a@", LocalAbstract},
	} {
		if text, kind := unixName([]byte(c.name)); text != c.text || kind != c.kind {
			t.Errorf("%q: got %q, %s", c.name, text, kind)
		}
	}
	for kernel, want := range map[string]string{"TCP": "TCP", "TCPv6": "TCP6", "UDPv6": "UDP6", "UDP-Lite": "UDPLITE", "RAWv6": "RAW6", "PING": "ICMP", "UNIX": "UNIX", "UNIX-STREAM": "UNIX STREAM", "AF_VSOCK": "VSOCK", "XDP": "XDP", "NETLINK": "NETLINK", "PACKET": "PACKET", "MPTCP": "MPTCP"} {
		if got := protocolName(kernel); got != want {
			t.Errorf("%s: got %s, want %s", kernel, got, want)
		}
	}
	for protocol, want := range map[string]int{"TCP": wantTCP, "TCP6": wantTCP, "UDP6": wantUDP, "UNIX": wantUnix, ProtocolUnixDgram: wantUnix, "RAW6": wantRaw, "ICMP": wantPing, "XDP": 0, "ALG": 0, "MPTCP6": wantTCP} {
		if got := tablesFor(Some(protocol)); got != want {
			t.Errorf("tables for %s: got %b, want %b", protocol, got, want)
		}
	}
	if got := tablesFor(Opt[string]{}); got != wantAll {
		t.Errorf("tables for an unknown protocol: got %b", got)
	}
	for _, c := range []struct {
		state    uint8
		connects bool
		want     Opt[string]
	}{{1, true, Some("ESTABLISHED")}, {7, true, Some("CLOSE")}, {7, false, Some("UNCONNECTED")}, {10, false, Some("LISTEN")}, {0, true, Opt[string]{}}, {14, true, Opt[string]{}}, {255, false, Opt[string]{}}} {
		if got := stateName(c.state, c.connects); got != c.want {
			t.Errorf("state %d: got %v", c.state, got)
		}
	}
	if got := netlinkName(15); got != "NETLINK_KOBJECT_UEVENT" {
		t.Errorf("got %s", got)
	}
	if got := netlinkName(1); got != "netlink protocol 1" {
		t.Errorf("got %s", got)
	}
}

func FuzzSocketRows(f *testing.F) {
	f.Add(bytesOf(f, inetMsg))
	f.Add(bytesOf(f, `01 05 01 00 39300000 0100000000000000 0700 0000 006162 00 0800 0200 3a300000 0c00 0400 05000000 06000000`))
	f.Add(bytesOf(f, `28 01 0a 00 ffffffff 00040000 00000000 00000000 09000000 0000000000000000`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, ok := parseInetDiag(b, transportUDP); !ok && s != (inetSocket{}) {
			t.Errorf("refused with a value: %+v", s)
		} else if ok {
			if _, err := netip.ParseAddrPort(s.end(s.remote, s.remotePort)); err != nil {
				t.Error(err)
			}
			if s.reversed().reversed() != s.pair {
				t.Errorf("reversing twice changes %+v", s.pair)
			}
		}
		s, ok := parseUnixDiag(b)
		if !ok && (s.inode != 0 || s.peer != 0 || s.name != nil) || len(s.name) > len(b) {
			t.Errorf("unix row %+v, %v", s, ok)
		}
		inode, peer, ok2 := unixEnds(b)
		if ok2 != ok || inode != s.inode || peer != s.peer {
			t.Errorf("ends %d, %d, %v of %+v, %v", inode, peer, ok2, s, ok)
		}
		if name, kind := unixName(s.name); len(name) > len(s.name) || kind == LocalUnnamed != (len(s.name) == 0) {
			t.Errorf("name %q is %s", name, kind)
		}
		if p, ok := parsePlainDiag(b); !ok && p != (plainSocket{}) {
			t.Errorf("refused with a value: %+v", p)
		}
	})
}
