package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
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
	t.inet, t.unix, t.plain, t.names, t.full = t.inet[:0], t.unix[:0], t.plain[:0], t.names[:0], false
	t.text = false
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
		return c.dump(unixDump(udiagShowName|udiagShowPeer|udiagShowRQLen), deadline, func(b []byte) bool {
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

// socket returns the object of the target's socket with this inode.
func (s *DescriptorScanner) socket(inode uint64) (*object, bool) {
	i, ok := s.index[objectKey{class: linkSocket, inode: inode}]
	if !ok {
		return nil, false
	}
	return &s.objects[i], true
}

// inetKey is what two ends of a connection have in common.
type inetKey struct {
	pair
	transport transport
}

// wire is the transport that the packets are of.
func (t transport) wire() transport {
	if t == transportMPTCP {
		return transportTCP
	}
	return t
}

func (s *DescriptorScanner) joinInet() {
	waiting := map[inetKey][]uint64{} // reversed pair to sockets of the target
	for i := range s.tables.inet {
		row := &s.tables.inet[i]
		o, ok := s.socket(row.inode)
		if !ok {
			continue
		}
		info := &socketInfo{
			protocol: Some(row.protocol()), state: stateName(row.state, row.transport.wire() == transportTCP || row.transport == transportSCTP),
			local: Some(row.end(row.local, row.localPort)), localKind: Some(LocalInet),
		}
		switch {
		case row.state == tcpListen:
			info.note = waitingNote(row.receive, row.send)
		default:
			info.receive, info.send = Some(uint64(row.receive)), Some(uint64(row.send))
		}
		if row.transport == transportRaw {
			info.note = "the port is an IP protocol number"
		}
		if row.connected() {
			info.remote = Some(row.end(row.remote, row.remotePort))
			if row.transport != transportRaw && row.transport != transportPing {
				k := inetKey{row.reversed(), row.transport.wire()}
				waiting[k] = append(waiting[k], row.inode)
			}
		}
		o.info = info
	}
	if len(waiting) == 0 {
		return
	}
	for i := range s.tables.inet {
		row := &s.tables.inet[i]
		if !row.connected() {
			continue
		}
		for _, mine := range waiting[inetKey{row.pair, row.transport.wire()}] {
			if o, ok := s.socket(mine); ok && mine != row.inode {
				o.addPeer(row.inode, RelationCandidate)
			}
		}
	}
}

func (o *object) addPeer(inode uint64, relation string) {
	o.relation = relation
	if slices.Contains(o.peers, inode) {
		return
	}
	if len(o.peers) >= maxDescriptorEndpoints {
		o.more = true
		return
	}
	o.peers = append(o.peers, inode)
}

// joinUnix fills in the UNIX sockets, with peers when sock_diag told them.
func (s *DescriptorScanner) joinUnix() {
	far := map[uint64][]uint64{} // inode of a peer to sockets of the target
	for i := range s.tables.unix {
		row := &s.tables.unix[i]
		if o, ok := s.socket(row.inode); ok {
			if o.info != nil && s.tables.text {
				// A name with a newline can look like a row of its own, so neither
				// of two can be trusted.
				o.info = &socketInfo{protocol: Some(protocolUnix), ambiguous: true, note: "two rows of net/unix claim this socket: its state is not known"}
				continue
			}
			s.unixRow(o, row)
			if row.peer != 0 {
				far[row.peer] = append(far[row.peer], row.inode)
			}
		}
	}
	if s.tables.text {
		return
	}
	for i := range s.tables.unix {
		row := &s.tables.unix[i]
		for _, mine := range far[row.inode] {
			if o, ok := s.socket(mine); ok && len(row.name) > 0 {
				text, _ := unixName(row.name)
				o.info.remote = Some(text)
			}
		}
		if row.peer == 0 || row.kind != unix.SOCK_DGRAM {
			continue
		}
		// Many datagram sockets may be connected to one that is itself connected to
		// none, as all are to that of a log daemon.
		if o, ok := s.socket(row.peer); ok {
			o.addPeer(row.inode, RelationUnixPeer)
		}
	}
}

func (s *DescriptorScanner) unixRow(o *object, row *unixSocket) {
	name, kind := unixName(row.name)
	o.info = &socketInfo{protocol: Some(row.protocol()), state: stateName(row.state, false), localKind: Some(kind)}
	if kind != LocalUnnamed {
		o.info.local = Some(name)
	}
	switch {
	case !row.queues:
	case row.state == tcpListen:
		o.info.note = waitingNote(row.receive, row.send)
	default:
		o.info.receive, o.info.send = Some(uint64(row.receive)), Some(uint64(row.send))
	}
	if row.peer != 0 {
		o.addPeer(row.peer, RelationUnixPeer)
		o.direct = row.peer
	}
}

func (s *DescriptorScanner) joinPlain() {
	for i := range s.tables.plain {
		row := &s.tables.plain[i]
		o, ok := s.socket(row.inode)
		if !ok {
			continue
		}
		info := &socketInfo{}
		switch row.family {
		case unix.AF_NETLINK:
			info.protocol = Some(ProtocolNetlink)
			info.note = netlinkName(row.number) + ", port id " + strconv.FormatUint(uint64(row.local[0]), 10)
		case unix.AF_PACKET:
			info.protocol = Some(ProtocolPacket)
			info.note = fmt.Sprintf("Ethernet protocol 0x%04x", row.number)
		case unix.AF_VSOCK:
			info.protocol = Some(ProtocolVsock)
			info.state = stateName(row.state, true)
			info.local = Some(vsockEnd(row.local))
			if row.state == tcpEstablished {
				info.remote = Some(vsockEnd(row.remote))
			}
		}
		o.info = info
	}
}

// foreignUnix looks for UNIX sockets of the target that are not of its own network
// namespace: a socket with a path connects across namespaces, and the accepted end
// belongs to that of the client.
func (s *DescriptorScanner) foreignUnix(warn func(string)) {
	var missing []*object
	for i := range s.own {
		d := &s.own[i]
		if d.object < 0 || d.Kind != FDSocket || tablesFor(d.Protocol) != wantUnix {
			continue
		}
		if o := &s.objects[d.object]; o.info == nil && !slices.Contains(missing, o) {
			missing = append(missing, o)
		}
	}
	if len(missing) == 0 {
		return
	}
	seen := map[nsID]bool{s.namespace: true}
	s.walk.eachPID(func(pid int32) bool {
		path := strconv.Itoa(int(pid)) + "/ns/net"
		id, err := namespaceAt(s.fs.dir, path)
		if err != nil || seen[id] {
			return time.Now().Before(s.deadline)
		}
		if len(seen) > maxNamespaces {
			warn(fmt.Sprintf("only %d network namespaces were asked for UNIX sockets that are not of the process's own", maxNamespaces))
			return false
		}
		seen[id] = true
		ns, err := openAt(s.fs.dir, path, unix.O_RDONLY)
		if err != nil {
			return true
		}
		defer closeFD(ns)
		conn, err := s.fs.diagIn(ns, s.diag)
		if err != nil {
			return true
		}
		defer conn.Close()
		missing = slices.DeleteFunc(missing, func(o *object) bool { return s.askUnix(conn, o) })
		return len(missing) > 0 && time.Now().Before(s.deadline)
	})
}

// askUnix asks one namespace for one socket and the name of its peer.
func (s *DescriptorScanner) askUnix(conn *diagConn, o *object) bool {
	b, err := conn.one(unixRequest(uint32(o.key.inode)), s.deadline)
	if err != nil {
		return false
	}
	row, ok := parseUnixDiag(b)
	if !ok || row.inode != o.key.inode {
		return false
	}
	s.unixRow(o, &row)
	o.info.note = "of another network namespace than the process"
	if row.peer == 0 {
		return true
	}
	if b, err := conn.one(unixRequest(uint32(row.peer)), s.deadline); err == nil {
		if far, ok := parseUnixDiag(b); ok && len(far.name) > 0 {
			text, _ := unixName(far.name)
			o.info.remote = Some(text)
		}
	}
	return true
}

// fillSocket writes into a descriptor what the tables say of its socket.
func (s *DescriptorScanner) fillSocket(d *ownDescriptor) {
	o := &s.objects[d.object]
	info := o.info
	if info == nil {
		if tablesFor(d.Protocol) != 0 {
			d.addNote("not among the sockets of the process's network namespace: neither bound nor connected, or of another namespace")
		}
		return
	}
	if !info.ambiguous || !d.Protocol.Known() {
		d.Protocol = info.protocol
	}
	d.State, d.Local, d.Remote, d.LocalKind = info.state, info.local, info.remote, info.localKind
	d.ReceiveQueue, d.SendQueue = info.receive, info.send
	if o.direct != 0 {
		d.PeerInode = Some(o.direct)
	}
	if info.note != "" {
		d.addNote(info.note)
	}
}
