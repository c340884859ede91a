package proc

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// HostLimits bounds a scan of the whole host. Zero is the limit of a reading.
type HostLimits struct {
	Descriptors      int           // looked at in the texts
	TableDescriptors int           // looked at in the kernel's tables
	Time             time.Duration // from the start of the scan
}

func (l *HostLimits) complete() {
	if l.Descriptors <= 0 {
		l.Descriptors = maxDescriptors
	}
	if l.TableDescriptors <= 0 {
		l.TableDescriptors = maxTableDescriptors
	}
	if l.Time <= 0 {
		l.Time = maxDescriptorTime
	}
}

// HostDescriptors is every descriptor of every process, each socket joined with
// its other end. It is valid until the next call of the scanner.
type HostDescriptors struct {
	Processes []HostProcess
	Rows      []HostDescriptor // of one process together unless it has very many
	Joined    int              // rows with a PeerRow
	Warnings  []string

	text []byte
}

// HostProcess is a process whose descriptors were listed.
type HostProcess struct {
	ID   ID
	Name string // comm, raw bytes

	namespace nsID // of its network, when it holds a socket
}

// HostDescriptor is one descriptor.
type HostDescriptor struct {
	Process int32  // index of Processes
	FD      int32  // number
	PeerRow int32  // row that holds the other end of a socket, -1 none
	at, len int32  // of the link text
	Inode   uint64 // of a pipe or socket; 0 of others
	Peer    uint64 // inode of the other end of a socket, 0 unknown or none
	class   linkClass
}

// IsPipe and IsSocket tell what Inode is of.
func (d *HostDescriptor) IsPipe() bool   { return d.class == linkPipe }
func (d *HostDescriptor) IsSocket() bool { return d.class == linkSocket }

// Target returns the link text of a row.
func (h *HostDescriptors) Target(row int) string {
	switch d := &h.Rows[row]; d.class {
	case linkPipe:
		return fmt.Sprintf("pipe:[%d]", d.Inode)
	case linkSocket:
		return fmt.Sprintf("socket:[%d]", d.Inode)
	default:
		return string(h.text[d.at : d.at+d.len])
	}
}

// ScanHost lists the descriptors of all processes and joins the UNIX, TCP and UDP
// sockets of each network namespace with their other ends.
//
// Shape:  a TCP or UDP end is a candidate: the socket with the reversed pair of
// addresses in the same namespace.
// Absent: what a limit cut off, and processes and namespaces that were denied, are
// warnings.
// Errors: those of reading the mount.
// Effect: none on any process.
// Source: the kernel's own tables after ReadFrom, if they tell paths; else
// /proc/PID/fd, sock_diag(7).
func (s *DescriptorScanner) ScanHost(limits HostLimits) (*HostDescriptors, error) {
	limits.complete()
	if s.host == nil {
		s.host = &HostDescriptors{}
	}
	h := s.host
	h.Processes, h.Rows, h.text, h.Joined, h.Warnings = h.Processes[:0], h.Rows[:0], h.text[:0], 0, nil
	s.turn, s.turnKnown = 0, false
	clear(s.hostIndex)
	deadline := time.Now().Add(limits.Time)
	w := &s.walk
	w.begin(0, limits.Descriptors, deadline)
	var read tableReading
	if s.source != nil && s.source.TellsPaths() {
		if s.sourceErr = s.readHost(limits, &read); s.sourceErr != nil {
			s.source = nil
			return s.ScanHost(limits)
		}
		w.visitListed(s.keep)
	} else if err := w.run(s.keep); err != nil {
		return nil, err
	}
	s.joinHost(deadline)
	h.Warnings = append(h.Warnings, read.warnings(w, limits)...)
	return h, nil
}

// keep adds a visited descriptor as a row.
func (s *DescriptorScanner) keep(v *visited) {
	h := s.host
	if s.turn != v.turn {
		s.turn, s.turnKnown = v.turn, false
		if st, ok := statBelow(v.dir, v.up+"stat", s.info); ok {
			s.turnKnown = true
			id := ID{PID: v.pid, StartTicks: st.start}
			at, again := s.hostIndex[id]
			if !again {
				at = int32(len(h.Processes))
				s.hostIndex[id] = at
				h.Processes = append(h.Processes, HostProcess{ID: id, Name: string(st.comm)})
			}
			s.hostProcess = at
		}
	}
	if !s.turnKnown {
		return // ended since
	}
	row := HostDescriptor{Process: s.hostProcess, FD: v.fd, PeerRow: -1}
	row.class, row.Inode = classifyLink(v.link)
	switch row.class {
	case linkPipe:
	case linkSocket:
		if p := &h.Processes[row.Process]; p.namespace == (nsID{}) {
			p.namespace, _ = namespaceAt(v.dir, v.up+"ns/net")
		}
	default:
		row.at, row.len = int32(len(h.text)), int32(len(v.link))
		h.text = append(h.text, v.link...)
	}
	h.Rows = append(h.Rows, row)
}

// joinHost asks each network namespace that holds sockets for their other ends.
func (s *DescriptorScanner) joinHost(deadline time.Time) {
	h := s.host
	n := 0
	for i := range h.Rows {
		if h.Rows[i].class == linkSocket {
			n++
		}
	}
	s.sockets.reset(n)
	for i := range h.Rows {
		if d := &h.Rows[i]; d.class == linkSocket {
			s.sockets.put(d.Inode, int32(i))
		}
	}
	s.joinTables()
	seen := map[nsID]bool{}
	refused, more, full := 0, false, false
	for i := range h.Processes {
		p := &h.Processes[i]
		if p.namespace == (nsID{}) || seen[p.namespace] {
			continue
		}
		if more = len(seen) >= maxNamespaces; more {
			break
		}
		seen[p.namespace] = true
		switch err := s.joinNamespace(p, deadline); {
		case errors.Is(err, errFull):
			full = true
		case err != nil:
			refused++
		}
	}
	// A socket that several descriptors hold was joined through one of them.
	for i := range h.Rows {
		d := &h.Rows[i]
		if d.class != linkSocket {
			continue
		}
		if at, ok := s.sockets.get(d.Inode); ok {
			d.Peer, d.PeerRow = h.Rows[at].Peer, h.Rows[at].PeerRow
		}
		if d.PeerRow >= 0 {
			h.Joined++
		}
	}
	if more {
		h.Warnings = append(h.Warnings, fmt.Sprintf("only %d network namespaces were asked for the other ends of sockets", maxNamespaces))
	}
	if full {
		h.Warnings = append(h.Warnings, fmt.Sprintf("a network namespace holds more than %d connected sockets: the rest were not joined", maxSocketRows))
	}
	if refused > 0 {
		h.Warnings = append(h.Warnings, fmt.Sprintf("network namespaces that could not be asked for the other ends of sockets (needs CAP_SYS_ADMIN): %d", refused))
	}
}

// joinNamespace joins the sockets of the namespace that p is in.
func (s *DescriptorScanner) joinNamespace(p *HostProcess, deadline time.Time) error {
	ns, err := openAt(s.fs.dir, fmt.Sprintf("%d/ns/net", p.ID.PID), unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer closeFD(ns)
	if id, err := namespaceOf(ns); err != nil || id != p.namespace {
		return fmt.Errorf("network namespace of %d: %w", p.ID.PID, ErrGone)
	}
	conn, err := s.fs.diagIn(ns, s.diag)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = conn.dump(unixDump(udiagShowPeer), deadline, func(b []byte) bool {
		if inode, peer, ok := unixEnds(b); ok && peer != 0 {
			s.tie(inode, peer)
		}
		return true
	})
	if err != nil && !noDiag(err) {
		return err
	}
	group := 0
	for _, source := range tableSources {
		if source.want&(wantTCP|wantUDP) == 0 {
			continue
		}
		if group != source.want {
			clear(s.ends)
			group = source.want
		}
		full := false
		err := conn.dump(inetDump(source.family, source.protocol), deadline, func(b []byte) bool {
			row, ok := parseInetDiag(b, source.transport)
			if !ok || row.inode == 0 || !row.connected() {
				return true
			}
			if far, ok := s.ends[row.reversed()]; ok {
				s.tie(row.inode, far)
				s.tie(far, row.inode)
			}
			s.ends[row.pair] = row.inode
			full = len(s.ends) >= maxSocketRows
			return !full
		})
		if full {
			return errFull
		}
		if err != nil && !noDiag(err) {
			return err
		}
	}
	return nil
}

// errFull says that a namespace has more sockets than are looked at.
var errFull = errors.New("too many sockets")

// tie notes that the socket inode talks to the socket peer.
func (s *DescriptorScanner) tie(inode, peer uint64) {
	i, ok := s.sockets.get(inode)
	if !ok {
		return
	}
	row := &s.host.Rows[i]
	row.Peer = peer
	if j, ok := s.sockets.get(peer); ok {
		row.PeerRow = j
	}
}

// inodeTable maps inodes to rows: open addressing.
type inodeTable struct {
	slots []inodeSlot
	shift uint
	used  int // by add
}

type inodeSlot struct {
	inode uint64 // 0 is free
	row   int32
}

// reset empties the table and makes it at least twice as large as n.
func (t *inodeTable) reset(n int) {
	size, bits := 1024, uint(10)
	for size < 2*n {
		size, bits = 2*size, bits+1
	}
	if len(t.slots) == size {
		clear(t.slots)
	} else {
		t.slots = make([]inodeSlot, size)
	}
	t.shift = 64 - bits
	t.used = 0
}

// add maps an inode that is not 0 to row unless it is mapped, and returns what it is
// mapped to and whether it was. The table grows.
func (t *inodeTable) add(inode uint64, row int32) (int32, bool) {
	s := t.slot(inode)
	if s.inode != 0 {
		return s.row, true
	}
	*s = inodeSlot{inode, row}
	if t.used++; 2*t.used > len(t.slots) {
		grown := inodeTable{}
		grown.reset(2 * t.used)
		for _, s := range t.slots {
			if s.inode != 0 {
				*grown.slot(s.inode) = s
			}
		}
		grown.used = t.used
		*t = grown
	}
	return row, false
}

// slot is where inode is, or would be. The multiplier is 2^64 divided by the
// golden ratio (Knuth, multiplicative hashing): inodes come in runs.
func (t *inodeTable) slot(inode uint64) *inodeSlot {
	for i := inode * 0x9E3779B97F4A7C15 >> t.shift; ; i = (i + 1) & uint64(len(t.slots)-1) {
		if s := &t.slots[i]; s.inode == inode || s.inode == 0 {
			return s
		}
	}
}

func (t *inodeTable) put(inode uint64, row int32) {
	if inode != 0 {
		*t.slot(inode) = inodeSlot{inode, row}
	}
}

func (t *inodeTable) get(inode uint64) (int32, bool) {
	if inode == 0 || len(t.slots) == 0 {
		return -1, false
	}
	s := t.slot(inode)
	return s.row, s.inode != 0
}
