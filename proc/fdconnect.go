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
	sockets inodeTable
	pipes   inodeTable
	named   map[objectKey]int32 // FIFOs
	last    []int32             // of each object the end that came last
	peers   map[uint64]uint64   // inode of a UNIX socket to that of its peer
	pairs   map[inetKey]int32   // connected socket to its object

	fifos  map[objectKey]objectKey // of the tables, as the kernel and as stat(2) names it
	vsocks []vsockHolder           // of the tables

	anonymous
}

// anonymous are the devices of what has no name in a file system: st_dev of pipefs and
// sockfs.
type anonymous struct{ pipeDev, socketDev uint64 }

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
// Source: the kernel's own tables after ReadFrom. Else /proc/PID/fd, whose links have
// the access of a descriptor as their mode (tid_fd_update_inode in fs/proc/fd.c);
// sock_diag(7); /proc/PID/net where that is refused.
func (s *DescriptorScanner) ScanConnections(limits HostLimits) (*HostConnections, error) {
	limits.complete()
	c := s.beginConnections()
	began := time.Now()
	// The tables of sockets, and putting it all together, need their part of the time.
	s.deadline = began.Add(limits.Time * 7 / 8)
	w := &s.walk
	w.begin(0, limits.Descriptors, began.Add(limits.Time*5/8))
	var read tableReading
	if s.source != nil {
		if s.sourceErr = s.readConnections(limits, &read); s.sourceErr != nil {
			s.source = nil
			return s.ScanConnections(limits)
		}
		w.visitListed(s.keepConnection)
	} else if err := w.run(s.keepConnection); err != nil {
		return nil, err
	}
	c.out.Descriptors, c.out.Inspected = read.looked+w.looked, read.processes+w.processes
	s.joinConnections()
	c.out.Warnings = append(c.out.Warnings, read.warnings(w, limits)...)
	c.sortEnds()
	s.tables.forget()
	return &c.out, nil
}

func (s *DescriptorScanner) beginConnections() *connections {
	if s.conns == nil {
		s.conns = &connections{named: map[objectKey]int32{}, peers: map[uint64]uint64{}, pairs: map[inetKey]int32{}, fifos: map[objectKey]objectKey{}}
		s.conns.anonymous = s.anonymous
	}
	c := s.conns
	o := &c.out
	clear(o.Objects) // let go of the texts
	o.Processes, o.Objects, o.Ends, o.Warnings = o.Processes[:0], o.Objects[:0], o.Ends[:0], nil
	c.sockets.reset(c.sockets.used) // as many as the scan before had
	c.pipes.reset(c.pipes.used)
	clear(c.named)
	c.last = c.last[:0]
	clear(c.peers)
	c.vsocks = c.vsocks[:0]
	s.turn, s.turnKnown = 0, false
	clear(s.hostIndex)
	return c
}

// anonymousDevices asks an own pipe and own sockets for the device of theirs.
func anonymousDevices() (a anonymous) {
	var st unix.Stat_t
	var ends [2]int
	if unix.Pipe2(ends[:], unix.O_CLOEXEC) == nil {
		if unix.Fstat(ends[0], &st) == nil {
			a.pipeDev = st.Dev
		}
		closeFD(ends[0])
		closeFD(ends[1])
	}
	if ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
		if unix.Fstat(ends[0], &st) == nil {
			a.socketDev = st.Dev
		}
		closeFD(ends[0])
		closeFD(ends[1])
	}
	return a
}

// keepConnection adds a visited descriptor to the ends of its object.
func (s *DescriptorScanner) keepConnection(v *visited) {
	c := s.conns
	class, inode := classifyLink(v.link)
	key := objectKey{class: class, inode: inode}
	access := uint8(dirBoth) // every socket is open for both, sock_alloc_file in net/socket.c
	switch class {
	case linkSocket:
		key.device = c.socketDev
	case linkPipe:
		key.device = c.pipeDev
		access = linkAccess(v)
	case linkPath:
		var st unix.Statx_t
		if statxRaw(v.dir, &v.name[0], &st) != nil || uint32(st.Mode)&unix.S_IFMT != unix.S_IFIFO {
			return
		}
		key.inode, key.device = st.Ino, unix.Mkdev(st.Dev_major, st.Dev_minor)
		access = linkAccess(v)
	default:
		return
	}
	process, ok := s.connectionProcess(v)
	if !ok || key.inode == 0 {
		return
	}
	at, fresh := c.object(key)
	if fresh && class == linkPath {
		c.out.Objects[at].Path = string(v.link)
	}
	if p := &c.out.Processes[process]; class == linkSocket && p.namespace == (nsID{}) && (fresh || s.source == nil) {
		p.namespace, _ = namespaceAt(v.dir, v.up+"ns/net")
	}
	c.hold(at, process, access, v.fd)
}

// object returns the index of the object with this key, and whether it is new.
func (c *connections) object(key objectKey) (at int32, fresh bool) {
	at, known := int32(len(c.out.Objects)), false
	kind := FDSocket
	switch key.class {
	case linkSocket:
		at, known = c.sockets.add(key.inode, at)
	case linkPipe:
		kind = FDPipe
		at, known = c.pipes.add(key.inode, at)
	default:
		kind = FDFIFO
		if before, ok := c.named[key]; ok {
			at, known = before, true
		} else {
			c.named[key] = at
		}
	}
	if !known {
		c.out.Objects = append(c.out.Objects, HostObject{Kind: kind, Device: key.device, Inode: key.inode, Peer: -1})
		c.last = append(c.last, -1)
	}
	return at, !known
}

// hold notes a descriptor of an object. What a process holds of one with one access is
// one end when sortEnds is done, here that is so for those that come one after another.
func (c *connections) hold(at, process int32, access uint8, fd int32) {
	if i := c.last[at]; i >= 0 {
		if e := &c.out.Ends[i]; e.Process == process && e.Access == access {
			e.Count++
			e.FD = min(e.FD, fd)
			return
		}
	}
	c.last[at] = int32(len(c.out.Ends))
	c.out.Ends = append(c.out.Ends, ConnectionEnd{Process: process, FD: fd, Count: 1, Access: access, object: at})
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
	order := make([]objectOrder, len(o.Objects))
	for i := range order {
		x := &o.Objects[i]
		order[i] = objectOrder{x.Kind, x.Device, x.Inode, int32(i)}
	}
	slices.SortFunc(order, func(a, b objectOrder) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.device, b.device), cmp.Compare(a.inode, b.inode))
	})
	place := make([]int32, len(order))
	sorted := make([]HostObject, len(order))
	for to := range order {
		from := order[to].at
		place[from], sorted[to] = int32(to), o.Objects[from]
	}
	for i := range sorted {
		if p := sorted[i].Peer; p >= 0 {
			sorted[i].Peer = place[p]
		}
	}
	o.Objects = sorted
	o.Ends = c.gather(place)
}

type objectOrder struct {
	kind          string
	device, inode uint64
	at            int32
}

// gather returns the ends in the order of their objects, which are where place says,
// and tells the objects which are theirs.
func (c *connections) gather(place []int32) []ConnectionEnd {
	o := &c.out
	for i := range o.Ends {
		e := &o.Ends[i]
		e.object = place[e.object]
		o.Objects[e.object].Count++
	}
	next := int32(0)
	for i := range o.Objects {
		x := &o.Objects[i]
		x.First, next = next, next+x.Count
		x.Count = 0
	}
	ends := make([]ConnectionEnd, len(o.Ends))
	for i := range o.Ends {
		x := &o.Objects[o.Ends[i].object]
		ends[x.First+x.Count] = o.Ends[i]
		x.Count++
	}
	compare := func(a, b ConnectionEnd) int {
		x, y := o.Processes[a.Process].ID, o.Processes[b.Process].ID
		return cmp.Or(cmp.Compare(x.PID, y.PID), cmp.Compare(x.StartTicks, y.StartTicks), cmp.Compare(a.Access, b.Access))
	}
	kept := int32(0)
	for i := range o.Objects {
		x := &o.Objects[i]
		own := ends[x.First : x.First+x.Count]
		slices.SortFunc(own, compare)
		x.First = kept
		for _, e := range own {
			if kept > x.First && compare(ends[kept-1], e) == 0 {
				l := &ends[kept-1]
				l.FD, l.Count = min(l.FD, e.FD), l.Count+e.Count
				continue
			}
			ends[kept] = e
			kept++
		}
		x.Count = kept - x.First
	}
	return ends[:kept]
}
