package proc

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// joinConnections asks each network namespace that holds sockets what they are, and
// finds their other ends.
func (s *DescriptorScanner) joinConnections() {
	c := s.conns
	seen := map[nsID]bool{}
	var problems namespaceProblems
	s.joinVsocks(&problems)
	for i := range c.out.Processes {
		p := &c.out.Processes[i]
		if p.namespace == (nsID{}) || seen[p.namespace] {
			continue
		}
		if problems.more = len(seen) >= maxNamespaces; problems.more {
			break
		}
		seen[p.namespace] = true
		s.joinConnectionsOf(p, wantAll, &problems)
	}
	for inode, peer := range c.peers {
		at, ok := c.socket(inode)
		if !ok {
			continue
		}
		o := &c.out.Objects[at]
		if far, ok := c.socket(peer); ok && far != at {
			o.Peer = far
		}
	}
	c.out.Warnings = append(c.out.Warnings, problems.warnings()...)
}

// namespaceProblems counts what went wrong over all namespaces.
type namespaceProblems struct {
	more                                  bool
	refused, full, changed, late, failing int
}

func (p *namespaceProblems) warnings() (list []string) {
	add := func(n int, text string) {
		if n > 0 {
			list = append(list, fmt.Sprintf(text, n))
		}
	}
	if p.more {
		list = append(list, fmt.Sprintf("only %d network namespaces were asked about their sockets", maxNamespaces))
	}
	add(p.refused, "network namespaces that could not be entered (needs CAP_SYS_ADMIN), so that their UNIX sockets have no peers: %d")
	add(p.full, "network namespaces with more than "+strconv.Itoa(maxSocketRows)+" sockets, of which the rest were not looked at: %d")
	add(p.changed, "tables of sockets that changed while they were read, so that some may be missing: %d")
	add(p.late, "tables of sockets that were not read whole before the time was over: %d")
	add(p.failing, "tables of sockets that could not be read: %d")
	return list
}

// joinConnectionsOf reads those tables of the namespace that p is in which are wanted.
func (s *DescriptorScanner) joinConnectionsOf(p *HostProcess, want int, problems *namespaceProblems) {
	if s.readNamespace(p, want, problems) {
		s.conns.take(&s.tables)
	}
}

func (c *connections) take(t *socketTables) {
	c.takeInet(t.inet)
	c.takeUnix(t.unix, t.text)
	c.takePlain(t.plain)
}

// readNamespace reads those tables of the network namespace that p is in which are
// wanted. It is false when p is gone: so are its sockets, or another process has them.
func (s *DescriptorScanner) readNamespace(p *HostProcess, want int, problems *namespaceProblems) bool {
	conn, err := s.diagOf(p)
	if errors.Is(err, ErrGone) {
		return false
	}
	if err != nil && s.live {
		problems.refused++
	}
	if conn != nil {
		defer conn.Close()
	}
	var process *Process // opened when a text file has to be read
	defer func() {
		if process != nil {
			process.Close()
		}
	}()
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
			if process == nil {
				if process, err = s.fs.OpenProcess(p.ID); err != nil {
					return false
				}
			}
			err = s.readText(process, source.file, source.family)
		}
		switch {
		case err == nil || noDiag(err) || errors.Is(err, ErrGone):
		case errors.Is(err, errInterrupted):
			problems.changed++
		case errors.Is(err, unix.ETIMEDOUT):
			problems.late++
		default:
			problems.failing++
		}
	}
	if t.full {
		problems.full++
	}
	return true
}

// diagOf opens a sock_diag socket in the network namespace of p, unless p is in
// another one by now.
func (s *DescriptorScanner) diagOf(p *HostProcess) (*diagConn, error) {
	if !s.live {
		return nil, errNoTable
	}
	ns, err := openAt(s.fs.dir, strconv.Itoa(int(p.ID.PID))+"/ns/net", unix.O_RDONLY)
	if err != nil {
		if vanished(err) {
			err = ErrGone
		}
		return nil, err
	}
	defer closeFD(ns)
	if id, err := namespaceOf(ns); err != nil || id != p.namespace {
		return nil, fmt.Errorf("network namespace of %d: %w", p.ID.PID, ErrGone)
	}
	return s.fs.diagIn(ns, s.diag)
}

func (c *connections) socket(inode uint64) (int32, bool) {
	return c.sockets.get(inode)
}

// takeInet fills in sockets, of one namespace or each with its own, and pairs those that have each
// other's addresses.
func (c *connections) takeInet(rows []inetSocket) {
	clear(c.pairs)
	for i := range rows {
		row := &rows[i]
		at, ok := c.socket(row.inode)
		if !ok {
			continue
		}
		info := row.describe()
		c.out.Objects[at].Socket = info
		if !row.connected() {
			continue
		}
		switch row.transport {
		case transportRaw, transportPing: // what stands for the port is none
			continue
		}
		info.RemoteIP = netip.AddrFrom16(row.remote).Unmap()
		mine, far := inetKey{row.pair, row.transport.wire(), row.namespace}, inetKey{row.reversed(), row.transport.wire(), row.namespace}
		if other, ok := c.pairs[far]; ok && other != at {
			c.pair(at, other)
			c.pair(other, at)
		}
		if _, taken := c.pairs[mine]; !taken {
			c.pairs[mine] = at
		}
	}
}

// pair makes far the candidate of at, unless it has one.
func (c *connections) pair(at, far int32) {
	if o := &c.out.Objects[at]; o.Peer < 0 {
		o.Peer, o.Candidate = far, true
	}
}

// takeUnix fills in the UNIX sockets. Rows of the text file may be forged by a name
// with a newline: of an inode that two rows claim only the protocol is kept.
func (c *connections) takeUnix(rows []unixSocket, text bool) {
	for i := range rows {
		row := &rows[i]
		at, ok := c.socket(row.inode)
		if !ok {
			continue
		}
		o := &c.out.Objects[at]
		if text && o.Socket != nil {
			o.Socket = &HostSocket{Protocol: Some(protocolUnix)}
			continue
		}
		o.Socket = row.describe()
		if row.peer != 0 {
			c.peers[row.inode] = row.peer
		}
	}
	// The name of the other end, which may be one that nobody here holds.
	names := map[uint64]*unixSocket{}
	for i := range rows {
		if row := &rows[i]; len(row.name) > 0 {
			names[row.inode] = row
		}
	}
	for i := range rows {
		row := &rows[i]
		far, named := names[row.peer]
		if !named || row.peer == 0 {
			continue
		}
		if at, ok := c.socket(row.inode); ok && c.out.Objects[at].Socket != nil {
			name, _ := unixName(far.name)
			c.out.Objects[at].Socket.Remote = Some(name)
		}
	}
}

func (c *connections) takePlain(rows []plainSocket) {
	for i := range rows {
		row := &rows[i]
		at, ok := c.socket(row.inode)
		if !ok {
			continue
		}
		c.out.Objects[at].Socket = row.describe()
	}
}

// describe is what a row says of its socket; the other end of a UNIX socket is in
// another row.
func (s *inetSocket) describe() *HostSocket {
	h := &HostSocket{Protocol: Some(s.protocol()), State: stateName(s.state, s.transport.wire() == transportTCP || s.transport == transportSCTP)}
	if s.bound() {
		h.LocalKind, h.Local = Some(LocalInet), Some(s.end(s.local, s.localPort))
	}
	if s.connected() {
		h.Remote = Some(s.end(s.remote, s.remotePort))
	}
	return h
}

func (s *unixSocket) describe() *HostSocket {
	name, kind := unixName(s.name)
	h := &HostSocket{Protocol: Some(s.protocol()), State: stateName(s.state, false), LocalKind: Some(kind)}
	if kind != LocalUnnamed {
		h.Local = Some(name)
	}
	return h
}

func (s *plainSocket) describe() *HostSocket {
	h := &HostSocket{}
	switch s.family {
	case unix.AF_NETLINK:
		h.Protocol = Some(ProtocolNetlink)
	case unix.AF_PACKET:
		h.Protocol = Some(ProtocolPacket)
	case unix.AF_VSOCK:
		h.Protocol, h.State = Some(ProtocolVsock), stateName(s.state, true)
		if s.noAddress {
			break
		}
		h.Local = Some(vsockEnd(s.local))
		if s.state == tcpEstablished {
			h.Remote = Some(vsockEnd(s.remote))
		}
	}
	return h
}

// reset empties the tables.
func (t *socketTables) reset() {
	t.inet, t.unix, t.plain, t.names, t.full, t.text = t.inet[:0], t.unix[:0], t.plain[:0], t.names[:0], false, false
}

// forget lets go of tables that one large namespace made large.
func (t *socketTables) forget() {
	if cap(t.inet)+cap(t.unix)+cap(t.plain) > keptSocketRows {
		*t = socketTables{}
	}
}

// keptSocketRows is how large tables stay for the next reading.
const keptSocketRows = 16384
