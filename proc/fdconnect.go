package proc

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// HostConnections is every pipe, FIFO and socket of the host with who holds it. It
// is valid until the next scan of the scanner; nobody changes it.
type HostConnections struct {
	Processes   []HostProcess   // that hold one
	Objects     []HostObject    // by kind, device and inode
	Ends        []ConnectionEnd // those of one object together, by process ID, access
	Descriptors int             // looked at, of every kind
	Inspected   int             // processes whose descriptors could be listed
	Warnings    []string
}

// HostObject is a pipe, a FIFO or a socket that somebody holds.
type HostObject struct {
	Kind   string // FDPipe, FDFIFO, FDSocket
	Device uint64 // st_dev of its file system
	Inode  uint64
	Path   string // of a FIFO, as its first holder sees it; raw bytes
	First  int32  // of its Ends
	Count  int32
	Peer   int32 // object of the other end of a socket, -1 none on this host or not known
	// Candidate tells that Peer was found by its addresses: TCP, UDP and their kin.
	// UNIX sockets tell their peers.
	Candidate bool
	Socket    *HostSocket // nil for pipes and FIFOs
}

// HostSocket is what the tables of its network namespace say of a socket. All of it
// is unknown for a socket in no table: neither bound nor connected, or of a family
// without one.
type HostSocket struct {
	Protocol  Opt[string]
	State     Opt[string]
	Local     Opt[string]
	Remote    Opt[string]
	LocalKind Opt[string]
	RemoteIP  netip.Addr // of a connected TCP or UDP socket, unmapped; else invalid
}

// ConnectionEnd is a process that holds an object, all its descriptors of one
// access together.
type ConnectionEnd struct {
	Process int32 // index of Processes
	FD      int32 // the lowest
	Count   int32 // descriptors
	Access  uint8 // index of AccessText
	object  int32
}

// AccessText is the access of a ConnectionEnd, "" unknown.
func (e *ConnectionEnd) AccessText() string { return dirAccess[e.Access] }

// CanRead and CanWrite tell what an end may do; an unknown access neither.
func (e *ConnectionEnd) CanRead() bool  { return e.Access == dirRead || e.Access == dirBoth }
func (e *ConnectionEnd) CanWrite() bool { return e.Access == dirWrite || e.Access == dirBoth }

// connections is what a scan of them keeps from one to the next.
type connections struct {
	out     HostConnections
	objects map[objectKey]int32
	ends    map[endKey]int32
	peers   map[uint64]uint64 // inode of a UNIX socket to that of its peer
	pairs   map[inetKey]int32 // connected socket to its object

	pipeDev, socketDev uint64 // st_dev of pipefs and sockfs
}

type endKey struct {
	object, process int32
	access          uint8
}

// ScanConnections lists who holds which pipe, FIFO and socket, and joins each
// socket with its other end.
//
// Shape:  a TCP or UDP end is a candidate: the socket with the reversed pair of
// addresses in the same network namespace that somebody holds.
// Absent: what a limit cut off, and processes and namespaces that were denied, are
// warnings.
// Errors: those of reading the mount.
// Effect: none on any process. Nothing is read from a descriptor, and no remote
// file system is asked.
// Source: /proc/PID/fd, whose links have the access of a descriptor as their mode
// (tid_fd_update_inode in fs/proc/fd.c); sock_diag(7); /proc/PID/net where that is
// refused.
func (s *DescriptorScanner) ScanConnections(limits HostLimits) (*HostConnections, error) {
	if limits.Descriptors <= 0 {
		limits.Descriptors = maxDescriptors
	}
	if limits.Time <= 0 {
		limits.Time = maxDescriptorTime
	}
	c := s.beginConnections()
	began := time.Now()
	// The tables of sockets, and putting it all together, need their part of the time.
	s.deadline = began.Add(limits.Time * 7 / 8)
	w := &s.walk
	w.begin(0, limits.Descriptors, began.Add(limits.Time*5/8))
	if err := w.run(s.keepConnection); err != nil {
		return nil, err
	}
	c.out.Descriptors, c.out.Inspected = w.looked, w.processes
	s.joinConnections()
	c.out.Warnings = append(c.out.Warnings, w.warnings(limits)...)
	c.sortEnds()
	s.tables.forget()
	return &c.out, nil
}

func (s *DescriptorScanner) beginConnections() *connections {
	if s.conns == nil {
		s.conns = &connections{objects: map[objectKey]int32{}, ends: map[endKey]int32{}, peers: map[uint64]uint64{}, pairs: map[inetKey]int32{}}
		s.conns.pipeDev, s.conns.socketDev = anonymousDevices()
	}
	c := s.conns
	o := &c.out
	clear(o.Objects) // let go of the texts
	o.Processes, o.Objects, o.Ends, o.Warnings = o.Processes[:0], o.Objects[:0], o.Ends[:0], nil
	clear(c.objects)
	clear(c.ends)
	clear(c.peers)
	s.turn, s.turnKnown = 0, false
	clear(s.hostIndex)
	return c
}

// anonymousDevices asks an own pipe and an own socket for the device of theirs.
func anonymousDevices() (pipe, socket uint64) {
	var st unix.Stat_t
	var ends [2]int
	if unix.Pipe2(ends[:], unix.O_CLOEXEC) == nil {
		if unix.Fstat(ends[0], &st) == nil {
			pipe = st.Dev
		}
		closeFD(ends[0])
		closeFD(ends[1])
	}
	if fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err == nil {
		if unix.Fstat(fd, &st) == nil {
			socket = st.Dev
		}
		closeFD(fd)
	}
	return pipe, socket
}

// keepConnection adds a visited descriptor to the ends of its object.
func (s *DescriptorScanner) keepConnection(v *visited) {
	c := s.conns
	class, inode := classifyLink(v.link)
	key := objectKey{class: class, inode: inode}
	access := uint8(dirBoth) // every socket is open for both, sock_alloc_file in net/socket.c
	kind := FDSocket
	switch class {
	case linkSocket:
		key.device = c.socketDev
	case linkPipe:
		kind, key.device = FDPipe, c.pipeDev
		access = linkAccess(v)
	case linkPath:
		var st unix.Statx_t
		if statxRaw(v.dir, &v.name[0], &st) != nil || uint32(st.Mode)&unix.S_IFMT != unix.S_IFIFO {
			return
		}
		kind, key.inode, key.device = FDFIFO, st.Ino, unix.Mkdev(st.Dev_major, st.Dev_minor)
		access = linkAccess(v)
	default:
		return
	}
	process, ok := s.connectionProcess(v)
	if !ok || key.inode == 0 {
		return
	}
	at, known := c.objects[key]
	if !known {
		at = int32(len(c.out.Objects))
		c.objects[key] = at
		o := HostObject{Kind: kind, Device: key.device, Inode: key.inode, Peer: -1}
		if kind == FDFIFO {
			o.Path = string(v.link)
		}
		c.out.Objects = append(c.out.Objects, o)
	}
	if p := &c.out.Processes[process]; kind == FDSocket && p.namespace == (nsID{}) {
		p.namespace, _ = namespaceAt(v.dir, v.up+"ns/net")
	}
	e, known := c.ends[endKey{at, process, access}]
	if !known {
		c.ends[endKey{at, process, access}] = int32(len(c.out.Ends))
		c.out.Ends = append(c.out.Ends, ConnectionEnd{Process: process, FD: v.fd, Count: 1, Access: access, object: at})
		return
	}
	end := &c.out.Ends[e]
	end.Count++
	end.FD = min(end.FD, v.fd)
}

// connectionProcess returns the index of the process that the walk is at.
func (s *DescriptorScanner) connectionProcess(v *visited) (int32, bool) {
	if s.turn == v.turn {
		return s.hostProcess, s.turnKnown
	}
	// The handle of the directory belongs to one process for good, and so does what
	// is read through it, whatever happens to the number.
	s.turn, s.turnKnown = v.turn, false
	st, ok := statBelow(v.dir, v.up+"stat", s.info)
	if !ok {
		return 0, false // ended since
	}
	s.turnKnown = true
	id := ID{PID: v.pid, StartTicks: st.start}
	at, again := s.hostIndex[id]
	if !again {
		at = int32(len(s.conns.out.Processes))
		s.hostIndex[id] = at
		s.conns.out.Processes = append(s.conns.out.Processes, HostProcess{ID: id, Name: string(st.comm)})
	}
	s.hostProcess = at
	return at, true
}

// linkAccess tells the access of a descriptor by the mode of its link.
func linkAccess(v *visited) uint8 {
	var st unix.Statx_t
	_, _, e := unix.Syscall6(unix.SYS_STATX, uintptr(v.dir), uintptr(unsafe.Pointer(&v.name[0])), unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_DONT_SYNC,
		unix.STATX_MODE, uintptr(unsafe.Pointer(&st)), 0)
	if e != 0 {
		return dirUnknown
	}
	switch st.Mode & (unix.S_IRUSR | unix.S_IWUSR) {
	case unix.S_IRUSR:
		return dirRead
	case unix.S_IWUSR:
		return dirWrite
	case 0:
		return dirNone
	}
	return dirBoth
}

// sortEnds puts objects and ends in order.
func (c *connections) sortEnds() {
	o := &c.out
	order := make([]int32, len(o.Objects))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int {
		a, b := &o.Objects[i], &o.Objects[j]
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Inode, b.Inode))
	})
	place := make([]int32, len(order))
	sorted := make([]HostObject, len(order))
	for at, i := range order {
		place[i], sorted[at] = int32(at), o.Objects[i]
	}
	for i := range sorted {
		if p := sorted[i].Peer; p >= 0 {
			sorted[i].Peer = place[p]
		}
	}
	for i := range o.Ends {
		o.Ends[i].object = place[o.Ends[i].object]
	}
	slices.SortFunc(o.Ends, func(a, b ConnectionEnd) int {
		return cmp.Or(cmp.Compare(a.object, b.object),
			cmp.Compare(o.Processes[a.Process].ID.PID, o.Processes[b.Process].ID.PID),
			cmp.Compare(o.Processes[a.Process].ID.StartTicks, o.Processes[b.Process].ID.StartTicks),
			cmp.Compare(a.Access, b.Access))
	})
	for i := range o.Ends {
		x := &sorted[o.Ends[i].object]
		if x.Count == 0 {
			x.First = int32(i)
		}
		x.Count++
	}
	o.Objects = sorted
}
