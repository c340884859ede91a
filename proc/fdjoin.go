package proc

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// What the socket tables say, joined with the descriptors of the target.

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
	namespace uint32
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
				k := inetKey{pair: row.reversed(), transport: row.transport.wire()}
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
		for _, mine := range waiting[inetKey{pair: row.pair, transport: row.transport.wire()}] {
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
