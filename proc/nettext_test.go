package proc

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const tcpText = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode                                                     
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000003 00:00000000 00000000  1000        0 130 1 000000001d38a145 100 0 0 10 0                       
   1: 0100007F:1F90 0200007F:D431 01 0000000A:0000000B 02:000A0B0C 00000000     0        0 131 2 000000001d38a145 20 4 30 10 -1
  10: 0100007F:1F90 0200007F:D432 06 00000000:00000000 03:000016F5 00000000     0        0 0 3 000000001d38a145
`

func TestInetText(t *testing.T) {
	var rows []inetSocket
	eachInetText([]byte(tcpText), "tcp", func(s inetSocket) bool { rows = append(rows, s); return true })
	one, two := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
	want := []inetSocket{
		{pair: pairOf(netip.AddrPortFrom(one, 8080), netip.MustParseAddrPort("0.0.0.0:0")), inode: 130, uid: 1000, receive: 3, transport: transportTCP, state: tcpListen},
		{pair: pairOf(netip.AddrPortFrom(one, 8080), netip.AddrPortFrom(two, 54321)), inode: 131, send: 10, receive: 11, transport: transportTCP, state: tcpEstablished},
		{pair: pairOf(netip.AddrPortFrom(one, 8080), netip.AddrPortFrom(two, 54322)), transport: transportTCP, state: tcpTimeWait},
	}
	if len(rows) != len(want) {
		t.Fatalf("got %d rows, want %d", len(rows), len(want))
	}
	for i := range want {
		if rows[i] != want[i] {
			t.Errorf("row %d: got %+v, want %+v", i, rows[i], want[i])
		}
	}
	if got := rows[1].end(rows[1].local, rows[1].localPort); got != "127.0.0.1:8080" {
		t.Errorf("local: got %s", got)
	}
}

func TestInetText6(t *testing.T) {
	text := "   0: 00000000000000000000000001000000:0050 0000000000000000FFFF00000100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 9 1 0 20 4 30 10 -1\n"
	var got inetSocket
	eachInetText([]byte(text), "tcp6", func(s inetSocket) bool { got = s; return true })
	if l, r := got.end(got.local, got.localPort), got.end(got.remote, got.remotePort); l != "[::1]:80" || r != "[::ffff:127.0.0.1]:40000" || !got.six {
		t.Errorf("got %s, %s, %+v", l, r, got)
	}
	if got.protocol() != ProtocolTCP6 {
		t.Errorf("protocol %s", got.protocol())
	}
	eachInetText([]byte(text), "tcp", func(s inetSocket) bool { t.Errorf("an IPv6 row in tcp: %+v", s); return true })
	eachInetText([]byte(text), "nothing", func(s inetSocket) bool { t.Errorf("a row of no file: %+v", s); return true })
}

func TestInetTextBad(t *testing.T) {
	for _, line := range []string{
		"", "\n", "   0:", "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
		"0 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 130",   // no colon
		"0: 0100007F:11F90 00000000:0000 0A 0:0 0:0 0 0 0 130", // port
		"0: 0100007:1F90 00000000:0000 0A 0:0 0:0 0 0 0 130",   // address
		"0: 0100007G:1F90 00000000:0000 0A 0:0 0:0 0 0 0 130",  // no hex
		"0: 0100007F:1F90 00000000:0000 100 0:0 0:0 0 0 0 130", // state
		"0: 0100007F:1F90 00000000:0000 0A 0 0:0 0 0 0 130",    // queues
		"0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 x 0 130",  // uid
		"0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 4294967296 0 130",
		"0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 13x",                         // inode
		"0: 0100007F:1F90 00000000000000000000000001000000:0000 0A 0:0 0:0 0 0 0 130", // families
	} {
		if s, ok := parseInetText([]byte(line)); ok {
			t.Errorf("%q: got %+v", line, s)
		}
	}
}

func TestUnixText(t *testing.T) {
	for _, c := range []struct {
		line string
		want unixSocket
		text string
		kind string
	}{
		{"0000000000000000: 00000002 00000000 00010000 0001 01 12345 /run/a b ", unixSocket{inode: 12345, kind: unix.SOCK_STREAM, state: tcpListen}, "/run/a b ", LocalPath},
		{"ffff8880: 00000003 00000000 00000000 0001 03   126", unixSocket{inode: 126, kind: unix.SOCK_STREAM, state: tcpEstablished}, "", LocalUnnamed},
		{"ffff8880: 00000002 00000000 00000000 0002 01     7 @a@b", unixSocket{inode: 7, kind: unix.SOCK_DGRAM, state: tcpClose}, "@a@b", LocalAbstract},
		{"ffff8880: 00000002 00000000 00000000 0005 02     7 relative", unixSocket{inode: 7, kind: unix.SOCK_SEQPACKET, state: tcpClose}, "relative", LocalPath},
	} {
		got, ok := parseUnixText([]byte(c.line + "\n"))
		name := got.name
		got.name = nil
		if !ok || got.inode != c.want.inode || got.kind != c.want.kind || got.state != c.want.state || got.queues {
			t.Errorf("%q: got %+v, %v", c.line, got, ok)
		}
		if text, kind := unixName(name); text != c.text || kind != c.kind {
			t.Errorf("%q: got name %q, %s", c.line, text, kind)
		}
	}
	for _, line := range []string{"", "Num       RefCount Protocol Flags    Type St Inode Path", "ffff: 2 0 0 0001 01", "ffff 2 0 0 0001 01 5", "ffff: 2 0 0 0100 01 5", "ffff: 2 0 g 0001 01 5"} {
		if s, ok := parseUnixText([]byte(line)); ok {
			t.Errorf("%q: got %+v", line, s)
		}
	}
}

func TestPlainText(t *testing.T) {
	netlink := "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n00000000f44721c2 15  4294967291 00000001 0        0        0     2        0        1508    \n"
	packet := "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n00000000f44721c2 3      3    0003   2     1 0      0      77\n"
	var rows []plainSocket
	keep := func(s plainSocket) bool { rows = append(rows, s); return true }
	eachPlainText([]byte(netlink), unix.AF_NETLINK, keep)
	eachPlainText([]byte(packet), unix.AF_PACKET, keep)
	want := []plainSocket{{inode: 1508, family: unix.AF_NETLINK, number: 15, local: [2]uint32{4294967291}}, {inode: 77, family: unix.AF_PACKET, number: 3}}
	if len(rows) != 2 || rows[0] != want[0] || rows[1] != want[1] {
		t.Errorf("got %+v, want %+v", rows, want)
	}
}

func FuzzNetText(f *testing.F) {
	f.Add([]byte(tcpText), "tcp")
	f.Add([]byte("ffff: 00000002 00000000 00010000 0001 01 12345 @x\n"), "unix")
	f.Add([]byte("0 15 9 1 0 0 0 2 0 1508\n"), "netlink")
	f.Add([]byte("0 3 3 0003 2 1 0 0 77\n"), "packet")
	f.Fuzz(func(t *testing.T, text []byte, file string) {
		lines, rows := bytes.Count(text, []byte{'\n'})+1, 0
		eachInetText(text, file, func(s inetSocket) bool {
			rows++
			if s.six != strings.HasSuffix(file, "6") || s.transport == 0 {
				t.Errorf("row of %s: %+v", file, s)
			}
			if _, err := netip.ParseAddrPort(s.end(s.local, s.localPort)); err != nil {
				t.Errorf("local: %v", err)
			}
			return true
		})
		if rows > lines {
			t.Errorf("%d rows of %d lines", rows, lines)
		}
		rows = 0
		eachUnixText(text, func(s unixSocket) bool {
			rows++
			if len(s.name) > len(text) || s.peer != 0 || s.queues {
				t.Errorf("row %+v", s)
			}
			if name, kind := unixName(s.name); (kind == LocalUnnamed) != (name == "") && kind != LocalPath {
				t.Errorf("name %q is %s", name, kind)
			}
			return true
		})
		for _, family := range []uint8{unix.AF_NETLINK, unix.AF_PACKET} {
			eachPlainText(text, family, func(s plainSocket) bool { rows++; return true })
		}
		if rows > 3*lines {
			t.Errorf("%d rows of %d lines", rows, lines)
		}
	})
}
