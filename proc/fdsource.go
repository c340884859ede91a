package proc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// OpenFile is what the kernel's own tables say of a descriptor. Process IDs are those
// of the reader's PID namespace. What begins with Socket is 0 of what is none.
type OpenFile struct {
	PID   int32
	FD    int32
	Start uint64   // of the process: ns since boot, in the first time namespace
	Name  [16]byte // comm of the process; ends at the first NUL

	Mode        uint32 // of the inode, as st_mode
	Read, Write bool   // what it was opened for; neither for O_PATH
	Device      uint64 // of the file system; st_dev bar where that differs by file
	Inode       uint64

	SocketFamily, SocketType, SocketProtocol uint16
	SocketState                              uint8 // of include/net/tcp_states.h
	SocketNetNS                              uint32
	SocketPeer                               uint64 // inode of the other end of a UNIX socket; 0: none, or one that nobody has accepted
	LocalPort, RemotePort                    uint16 // 0: none
	LocalAddress, RemoteAddress              [16]byte

	// Text is the name that a UNIX socket is bound to, or the text of the link when
	// paths were asked for; empty without one. It is valid during the call.
	Text []byte
}

// DescriptorSource reads the tables.
type DescriptorSource interface {
	// ReadDescriptors calls each with every descriptor of the host, those of one process
	// together, until it returns false. Some processes may be hidden.
	ReadDescriptors(paths bool, each func(*OpenFile) bool) error
	// TellsPaths tells whether paths may be asked for.
	TellsPaths() bool
}

// maxTableDescriptors is how many descriptors one scan of the kernel's tables looks at.
const maxTableDescriptors = 1_000_000

// ReadFrom makes scans of the host read the tables, and as text only the processes
// that those hide. After the first error scans go on with the texts alone; nil makes
// them do so at once. Read is not concerned.
func (s *DescriptorScanner) ReadFrom(tables DescriptorSource) { s.source, s.sourceErr = tables, nil }

// TablesError returns why scans left the tables, nil while they have not.
func (s *DescriptorScanner) TablesError() error { return s.sourceErr }

// tableReading is what a reading of the tables came to.
type tableReading struct {
	looked, processes int
	cut, late         bool
}

// warnings says what neither the tables nor the walk after them looked at.
func (r *tableReading) warnings(w *hostWalk, limits HostLimits) []string {
	w.outOfTime = w.outOfTime || r.late
	list := w.warnings(limits)
	if r.cut {
		list = slices.Insert(list, 0, fmt.Sprintf("the limit of %d descriptors looked at was reached", limits.TableDescriptors))
	}
	return list
}

// readTables calls each with every descriptor that the tables have, and leaves in
// s.walk the processes that they do not have. begun tells of the first one of a
// process.
func (s *DescriptorScanner) readTables(paths bool, limits HostLimits, r *tableReading, each func(f *OpenFile, id ID, begun bool)) error {
	offset, err := s.fs.StartOffset()
	if err != nil {
		return err
	}
	clear(s.listed)
	var id ID
	last := uint64(0)
	err = s.source.ReadDescriptors(paths, func(f *OpenFile) bool {
		if r.cut = r.looked >= limits.TableDescriptors; r.cut {
			return false
		}
		if r.looked%tableEvery == 0 && r.looked > 0 && !time.Now().Before(s.walk.deadline) {
			r.late = true
			return false
		}
		r.looked++
		begun := f.PID != id.PID || f.Start != last
		if begun {
			r.processes++
			last = f.Start
			id = ID{PID: f.PID, StartTicks: (f.Start + uint64(offset)) / nsPerTick}
			s.listed[f.PID] = struct{}{}
		}
		each(f, id, begun)
		return true
	})
	if err != nil {
		return err
	}
	w := &s.walk
	if r.cut || r.late {
		w.pids = w.pids[:0] // who was not come to is not hidden
		return nil
	}
	if err := w.list(); err != nil {
		return err
	}
	w.pids = slices.DeleteFunc(w.pids, func(pid int32) bool {
		_, ok := s.listed[pid]
		return ok
	})
	return nil
}

const tableEvery = 4096 // descriptors between two looks at the clock

// class is what the link of a descriptor would say, of those that hold one object.
func (c *anonymous) class(f *OpenFile) linkClass {
	switch f.Mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		if f.Device == c.socketDev { // else it is a name in a file system, opened as a path
			return linkSocket
		}
	case unix.S_IFIFO:
		if f.Device == c.pipeDev {
			return linkPipe
		}
		return linkPath
	}
	return linkOther
}

func (f *OpenFile) process(id ID) HostProcess {
	name, _, _ := bytes.Cut(f.Name[:], []byte{0})
	return HostProcess{ID: id, Name: string(name)}
}

// readConnections is the reading of ScanConnections from the tables.
func (s *DescriptorScanner) readConnections(limits HostLimits, r *tableReading) error {
	c := s.conns
	t := &s.tables
	t.reset()
	clear(c.fifos)
	process := int32(-1)
	err := s.readTables(false, limits, r, func(f *OpenFile, id ID, begun bool) {
		if begun {
			process = -1
		}
		class := c.class(f)
		if class == linkOther || f.Inode == 0 {
			return
		}
		if process < 0 {
			process = int32(len(c.out.Processes))
			c.out.Processes = append(c.out.Processes, f.process(id))
			s.hostIndex[id] = process
		}
		key, path := objectKey{class: class, inode: f.Inode, device: f.Device}, ""
		if class == linkPath {
			key, path = s.fifo(f, key)
		}
		at, fresh := c.object(key)
		access := uint8(dirBoth)
		switch {
		case class != linkSocket:
			access = f.access()
		case fresh:
			t.add(f)
			if f.SocketFamily == unix.AF_VSOCK {
				c.vsocks = append(c.vsocks, vsockHolder{process, f.SocketNetNS})
			}
		}
		if fresh {
			c.out.Objects[at].Path = path
		}
		c.hold(at, process, access, f.FD)
	})
	if err == nil {
		c.take(t)
	}
	return err
}

// fifo asks for device, inode and path of a FIFO, once for all who hold it: what
// stat(2) says of a file can be another device than that of its file system.
func (s *DescriptorScanner) fifo(f *OpenFile, key objectKey) (objectKey, string) {
	c := s.conns
	if known, ok := c.fifos[key]; ok {
		return known, ""
	}
	s.path = append(strconv.AppendInt(s.path[:0], int64(f.PID), 10), "/fd/"...)
	s.path = append(strconv.AppendInt(s.path, int64(f.FD), 10), 0)
	told, path := key, ""
	var st unix.Statx_t
	if statxRaw(s.fs.dir, &s.path[0], &st) == nil && uint32(st.Mode)&unix.S_IFMT == unix.S_IFIFO {
		told.inode, told.device = st.Ino, unix.Mkdev(st.Dev_major, st.Dev_minor)
		if n, err := readlinkRaw(s.fs.dir, &s.path[0], s.walk.link); err == nil {
			path = string(s.walk.link[:n])
		}
	}
	c.fifos[key] = told
	return told, path
}

func (f *OpenFile) access() uint8 {
	switch {
	case f.Read && f.Write:
		return dirBoth
	case f.Read:
		return dirRead
	case f.Write:
		return dirWrite
	}
	return dirNone
}

// add keeps a socket as the dump of its table would have it.
func (t *socketTables) add(f *OpenFile) {
	switch f.SocketFamily {
	case unix.AF_INET, unix.AF_INET6:
		if row, ok := f.inet(); ok {
			t.inet = append(t.inet, row)
		}
	case unix.AF_UNIX:
		t.addUnix(unixSocket{inode: f.Inode, peer: f.SocketPeer, name: f.Text, kind: uint8(f.SocketType), state: f.SocketState})
	case unix.AF_NETLINK, unix.AF_PACKET, unix.AF_VSOCK:
		t.plain = append(t.plain, plainSocket{inode: f.Inode, family: uint8(f.SocketFamily), state: f.SocketState, noAddress: true})
	}
}

// inet is false for a protocol that has no table.
func (f *OpenFile) inet() (inetSocket, bool) {
	row := inetSocket{inode: f.Inode, six: f.SocketFamily == unix.AF_INET6, state: f.SocketState, namespace: f.SocketNetNS}
	row.localPort, row.remotePort = f.LocalPort, f.RemotePort
	if row.six {
		row.local, row.remote = f.LocalAddress, f.RemoteAddress
	} else {
		row.local, row.remote = mapped(f.LocalAddress[:4]), mapped(f.RemoteAddress[:4])
	}
	switch {
	case f.SocketType == unix.SOCK_RAW:
		row.transport = transportRaw
	case f.SocketProtocol == unix.IPPROTO_TCP:
		row.transport = transportTCP
	case f.SocketProtocol == unix.IPPROTO_UDP:
		row.transport = transportUDP
	case f.SocketProtocol == unix.IPPROTO_UDPLITE:
		row.transport = transportUDPLite
	case f.SocketProtocol == unix.IPPROTO_MPTCP:
		row.transport = transportMPTCP
	case f.SocketProtocol == unix.IPPROTO_SCTP:
		row.transport = transportSCTP
	case f.SocketProtocol == unix.IPPROTO_ICMP, f.SocketProtocol == unix.IPPROTO_ICMPV6:
		row.transport = transportPing
	default:
		return inetSocket{}, false
	}
	return row, true
}

// vsockHolder is a process that holds a socket of vsock(7), of whose addresses only
// its network namespace tells.
type vsockHolder struct {
	process   int32
	namespace uint32
}

// joinVsocks asks each network namespace that has sockets of vsock for those.
func (s *DescriptorScanner) joinVsocks(problems *namespaceProblems) {
	asked := map[uint32]bool{}
	for _, v := range s.conns.vsocks {
		if asked[v.namespace] || len(asked) >= maxNamespaces {
			continue
		}
		asked[v.namespace] = true
		p := s.conns.out.Processes[v.process]
		var err error
		if p.namespace, err = namespaceAt(s.fs.dir, strconv.Itoa(int(p.ID.PID))+"/ns/net"); err == nil && s.live {
			s.joinConnectionsOf(&p, wantVsock, problems)
		}
	}
}

// readHost is the reading of ScanHost from the tables.
func (s *DescriptorScanner) readHost(limits HostLimits, r *tableReading) error {
	h := s.host
	s.inet = s.inet[:0]
	return s.readTables(true, limits, r, func(f *OpenFile, id ID, begun bool) {
		if begun {
			s.hostProcess = int32(len(h.Processes))
			s.hostIndex[id] = s.hostProcess
			h.Processes = append(h.Processes, f.process(id))
		}
		d := HostDescriptor{Process: s.hostProcess, FD: f.FD, PeerRow: -1}
		switch class := s.anonymous.class(f); class {
		case linkPipe, linkSocket:
			d.class, d.Inode = class, f.Inode
			if class == linkSocket {
				s.keepEnds(f, &d)
			}
		default:
			d.class, _ = classifyLink(f.Text)
			d.at, d.len = int32(len(h.text)), int32(len(f.Text))
			h.text = append(h.text, f.Text...)
		}
		h.Rows = append(h.Rows, d)
	})
}

// keepEnds keeps what joinTables needs of a socket.
func (s *DescriptorScanner) keepEnds(f *OpenFile, d *HostDescriptor) {
	switch f.SocketFamily {
	case unix.AF_UNIX:
		d.Peer = f.SocketPeer
	case unix.AF_INET, unix.AF_INET6:
		if row, ok := f.inet(); ok && row.connected() && (row.transport.wire() == transportTCP || row.transport == transportUDP) {
			s.inet = append(s.inet, row)
		}
	}
}

// joinTables ties the sockets of the tables to each other.
func (s *DescriptorScanner) joinTables() {
	h := s.host
	for i := range h.Rows {
		d := &h.Rows[i]
		if d.Peer == 0 {
			continue
		}
		if j, ok := s.sockets.get(d.Peer); ok {
			d.PeerRow = j
		}
	}
	s.pairs.reset(len(s.inet))
	for i := range s.inet {
		row := &s.inet[i]
		for key := row.ends(); ; key++ {
			at, known := s.pairs.add(max(key, 1), int32(i))
			if !known {
				break
			}
			far := &s.inet[at]
			if row.namespace != far.namespace || row.transport.wire() != far.transport.wire() {
				continue
			}
			if row.pair == far.reversed() && row.inode != far.inode {
				s.tie(row.inode, far.inode)
				s.tie(far.inode, row.inode)
				break
			}
			if row.pair == far.pair {
				break
			}
		}
	}
	s.inet = s.inet[:0]
}

// ends is a number that the two ends of a connection have in common, and few others.
func (s *inetSocket) ends() uint64 {
	mix := func(a *addr16, port uint16) uint64 {
		x := binary.LittleEndian.Uint64(a[:])*0x9E3779B97F4A7C15 ^ binary.LittleEndian.Uint64(a[8:]) ^ uint64(port)<<48
		x = (x ^ x>>32) * 0xD6E8FEB86659FD93 // of Pelle Evensen's rrmxmx
		x = (x ^ x>>32) * 0xD6E8FEB86659FD93
		return x ^ x>>32
	}
	return mix(&s.local, s.localPort) + mix(&s.remote, s.remotePort) + uint64(s.namespace)*0x9E3779B97F4A7C15
}
