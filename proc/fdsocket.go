package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxSocketRows is how many sockets of a network namespace are looked at.
	maxSocketRows = 200_000
	// maxSocketText is how much of one table of /proc/PID/net is read.
	maxSocketText = 32 << 20
	// maxNamespaces is how many network namespaces are asked for a UNIX socket
	// that is not of the target's own.
	maxNamespaces = 64
)

// socketInfo is what a table says of one socket of the target.
type socketInfo struct {
	protocol, state, local, remote, localKind Opt[string]
	receive, send                             Opt[uint64]
	note                                      string
	ambiguous                                 bool // two rows claim the inode
}

// socketTables are the sockets of one network namespace.
type socketTables struct {
	inet  []inetSocket
	unix  []unixSocket
	plain []plainSocket
	names []byte // of unix
	text  bool   // unix is net/unix: no peers, and rows may be forged
	full  bool   // maxSocketRows
}

// Groups of tables that are read together. A peer of a TCP socket of IPv4 can be
// one of IPv6, or an MPTCP socket that speaks TCP with it; and what a listener of
// MPTCP accepted from a client of TCP is a TCP socket, whatever its name.
const (
	wantTCP = 1 << iota
	wantUDP
	wantUDPLite
	wantRaw
	wantPing
	wantSCTP
	wantUnix
	wantNetlink
	wantPacket
	wantVsock
	wantAll = 1<<iota - 1
)

// tableSources are the tables: what sock_diag calls them and which file of
// /proc/PID/net holds the same, "" none.
var tableSources = []struct {
	want      int
	family    uint8
	protocol  uint16 // of inet_diag; 0: no diag table
	transport transport
	file      string
}{
	{wantTCP, unix.AF_INET, unix.IPPROTO_TCP, transportTCP, "tcp"},
	{wantTCP, unix.AF_INET6, unix.IPPROTO_TCP, transportTCP, "tcp6"},
	{wantTCP, unix.AF_INET, unix.IPPROTO_MPTCP, transportMPTCP, ""},
	{wantTCP, unix.AF_INET6, unix.IPPROTO_MPTCP, transportMPTCP, ""},
	{wantUDP, unix.AF_INET, unix.IPPROTO_UDP, transportUDP, "udp"},
	{wantUDP, unix.AF_INET6, unix.IPPROTO_UDP, transportUDP, "udp6"},
	{wantUDPLite, unix.AF_INET, unix.IPPROTO_UDPLITE, transportUDPLite, "udplite"},
	{wantUDPLite, unix.AF_INET6, unix.IPPROTO_UDPLITE, transportUDPLite, "udplite6"},
	{wantRaw, unix.AF_INET, unix.IPPROTO_RAW, transportRaw, "raw"},
	{wantRaw, unix.AF_INET6, unix.IPPROTO_RAW, transportRaw, "raw6"},
	{wantPing, unix.AF_INET, 0, transportPing, "icmp"},
	{wantPing, unix.AF_INET6, 0, transportPing, "icmp6"},
	{wantSCTP, unix.AF_INET, unix.IPPROTO_SCTP, transportSCTP, ""},
	{wantSCTP, unix.AF_INET6, unix.IPPROTO_SCTP, transportSCTP, ""},
	{wantUnix, unix.AF_UNIX, 1, 0, "unix"},
	{wantNetlink, unix.AF_NETLINK, 1, 0, "netlink"},
	{wantPacket, unix.AF_PACKET, 1, 0, "packet"},
	{wantVsock, unix.AF_VSOCK, 1, 0, ""},
}

// tablesFor tells which tables can hold a socket of this protocol; a socket whose
// protocol could not be asked may be in any, one of a family without tables
// (XDP, ALG, …) is in none.
func tablesFor(protocol Opt[string]) int {
	name, ok := protocol.Get()
	if !ok {
		return wantAll
	}
	switch name = strings.TrimSuffix(name, "6"); name {
	case "TCP", "MPTCP":
		return wantTCP
	case "UDP":
		return wantUDP
	case "UDPLITE":
		return wantUDPLite
	case "RAW":
		return wantRaw
	case "ICMP":
		return wantPing
	case "SCTP":
		return wantSCTP
	case ProtocolNetlink:
		return wantNetlink
	case ProtocolPacket:
		return wantPacket
	case ProtocolVsock:
		return wantVsock
	}
	if strings.HasPrefix(name, protocolUnix) {
		return wantUnix
	}
	return 0
}

// readSockets asks the target's own network namespace about its sockets and fills
// in what it says; the other sides become objects that the host is searched for.
func (s *DescriptorScanner) readSockets(p *Process, warn func(string)) {
	want := 0
	for i := range s.own {
		if s.own[i].Kind == FDSocket && s.own[i].object >= 0 {
			want |= tablesFor(s.own[i].Protocol)
		}
	}
	if want == 0 {
		return
	}
	conn, err := s.ownDiag(p)
	if err != nil && s.live {
		warn(fmt.Sprintf("the network namespace could not be entered (%s): its sockets are read from %s/%d/net, which knows no UNIX peers", needs(err), s.fs.mount, p.id.PID))
	}
	t := &s.tables
	t.reset()
	for _, source := range tableSources {
		if source.want&want == 0 {
			continue
		}
		err := errNoTable
		if conn != nil && source.protocol != 0 {
			err = t.dump(conn, source.family, source.protocol, source.transport, s.deadline)
		}
		if err != nil && noDiag(err) && source.file != "" {
			err = s.readText(p, source.file, source.family)
		}
		switch {
		case err == nil || noDiag(err):
		case errors.Is(err, errInterrupted):
			warn(fmt.Sprintf("the table of %s sockets changed while it was read: some may be missing", tableName(source.file, source.want)))
		case errors.Is(err, unix.ETIMEDOUT):
			warn(fmt.Sprintf("reading the sockets of the network namespace took more than %v: some are missing", maxDescriptorTime))
		default:
			warn(fmt.Sprintf("the table of %s sockets could not be read: %v", tableName(source.file, source.want), errors.Unwrap(err)))
		}
	}
	if conn != nil {
		conn.Close()
	}
	if t.full {
		warn(fmt.Sprintf("the network namespace holds more than %d sockets: the rest were not looked at", maxSocketRows))
	}
	s.joinInet()
	s.joinUnix()
	s.joinPlain()
	if conn != nil {
		s.foreignUnix(warn)
	}
	for i := range s.own {
		if d := &s.own[i]; d.Kind == FDSocket && d.object >= 0 {
			s.fillSocket(d)
		}
	}
	for i := range s.objects {
		for _, inode := range s.objects[i].peers {
			s.objectOf(objectKey{class: linkSocket, inode: inode})
		}
	}
}

func tableName(file string, want int) string {
	if file != "" {
		return file
	}
	return map[int]string{wantSCTP: "sctp", wantTCP: "mptcp", wantVsock: "vsock"}[want]
}

// needs says what a refusal asks for.
func needs(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "needs CAP_SYS_ADMIN"
	}
	return err.Error()
}

// ownDiag opens a sock_diag socket in the network namespace of p.
func (s *DescriptorScanner) ownDiag(p *Process) (*diagConn, error) {
	if !s.live {
		return nil, errNoTable
	}
	ns, err := p.openFile("ns/net", unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer closeFD(ns)
	s.namespace, _ = namespaceOf(ns)
	return s.fs.diagIn(ns, s.diag)
}

// errNoTable says that there is no diag table to ask.
var errNoTable = fmt.Errorf("no sock_diag table: %w", unix.ENOENT)

// noDiag tells whether an error means that the kernel has no such table: a module
// that is not there, or a family or protocol that is too new for it.
func noDiag(err error) bool {
	for _, e := range []error{unix.ENOENT, unix.EINVAL, unix.EOPNOTSUPP, unix.EPROTONOSUPPORT, unix.EAFNOSUPPORT, fs.ErrNotExist} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// dump adds the rows of one table. A table that changed meanwhile is read twice.
func (t *socketTables) dump(c *diagConn, family uint8, protocol uint16, tr transport, deadline time.Time) error {
	inet, unixes, plain, names := len(t.inet), len(t.unix), len(t.plain), len(t.names)
	for again := false; ; again = true {
		err := t.dumpOnce(c, family, protocol, tr, deadline)
		if again || !errors.Is(err, errInterrupted) {
			return err
		}
		t.inet, t.unix, t.plain, t.names = t.inet[:inet], t.unix[:unixes], t.plain[:plain], t.names[:names]
	}
}

func (t *socketTables) dumpOnce(c *diagConn, family uint8, protocol uint16, tr transport, deadline time.Time) error {
	switch family {
	case unix.AF_INET, unix.AF_INET6:
		return c.dump(inetDump(family, protocol), deadline, func(b []byte) bool {
			if s, ok := parseInetDiag(b, tr); ok && s.inode != 0 {
				t.inet = append(t.inet, s)
			}
			return t.room()
		})
	case unix.AF_UNIX:
		return c.dump(unixDump(udiagShowName|udiagShowVFS|udiagShowPeer|udiagShowRQLen), deadline, func(b []byte) bool {
			if s, ok := parseUnixDiag(b); ok && s.inode != 0 {
				t.addUnix(s)
			}
			return t.room()
		})
	}
	req := netlinkDump()
	switch family {
	case unix.AF_PACKET:
		req = packetDump()
	case unix.AF_VSOCK:
		req = vsockDump()
	}
	return c.dump(req, deadline, func(b []byte) bool {
		if s, ok := parsePlainDiag(b); ok && s.inode != 0 {
			t.plain = append(t.plain, s)
		}
		return t.room()
	})
}

// addUnix keeps a row whose name lies in a buffer that is used again.
func (t *socketTables) addUnix(s unixSocket) {
	if s.name != nil {
		from := len(t.names)
		t.names = append(t.names, s.name...)
		s.name = t.names[from:len(t.names):len(t.names)]
	}
	t.unix = append(t.unix, s)
}

func (t *socketTables) room() bool {
	t.full = t.full || len(t.inet)+len(t.unix)+len(t.plain) >= maxSocketRows
	return !t.full
}

// readText adds the rows of a file of /proc/PID/net.
func (s *DescriptorScanner) readText(p *Process, file string, family uint8) error {
	text, more, err := p.readFileMax("net/"+file, s.text, maxSocketText)
	if err != nil {
		return err
	}
	s.text = text
	t := &s.tables
	t.full = t.full || more
	switch family {
	case unix.AF_INET, unix.AF_INET6:
		eachInetText(text, file, func(row inetSocket) bool {
			if row.inode != 0 {
				t.inet = append(t.inet, row)
			}
			return t.room()
		})
	case unix.AF_UNIX:
		t.text = true
		eachUnixText(text, func(row unixSocket) bool {
			if row.inode != 0 {
				t.addUnix(row)
			}
			return t.room()
		})
	default:
		eachPlainText(text, family, func(row plainSocket) bool {
			if row.inode != 0 {
				t.plain = append(t.plain, row)
			}
			return t.room()
		})
	}
	return nil
}
