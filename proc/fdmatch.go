package proc

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Relations of endpoints.
const (
	RelationPipeEnd   = "pipe_end"            // the other direction of a pipe or FIFO
	RelationSamePipe  = "same_pipe_direction" // the same direction
	RelationSame      = "same_object"
	RelationUnixPeer  = "unix_peer"
	RelationCandidate = "address_candidate" // a socket with the reversed address pair
)

// objectKey names what descriptors can hold together: pipes and sockets by inode,
// FIFOs (class linkPath) and memfds by device and inode, eventfds by id.
type objectKey struct {
	class  linkClass
	inode  uint64
	device uint64
}

// object is a thing of which the holders are looked for: one that the target
// holds, or the other end of one.
type object struct {
	key  objectKey
	ends [5][]end // by direction
	more bool     // ends were left out
	// of a socket of the target:
	peers    []uint64 // inodes of the other side
	direct   uint64   // the one of them that the kernel calls its peer
	relation string   // of those
	info     *socketInfo
}

// end is a descriptor somewhere on the host.
type end struct {
	process int32 // index of s.procs; 0 is the target
	fd      int32
	own     int32 // index of s.own and 1 when it is the target's, else 0
	access  uint8 // dirUnknown…
}

// Directions, as index of object.ends.
const (
	dirUnknown = iota
	dirNone
	dirRead
	dirWrite
	dirBoth
)

var dirAccess = [5]string{dirNone: AccessNone, dirRead: AccessRead, dirWrite: AccessWrite, dirBoth: AccessReadWrite}

func directionOf(access Opt[string]) uint8 {
	a, _ := access.Get()
	return uint8(max(0, slices.Index(dirAccess[:], a)))
}

// process is a process that holds ends.
type endProcess struct {
	id   ID
	name string
}

const (
	// maxDescriptorEndpoints is how many peers and holders together one
	// descriptor gets.
	maxDescriptorEndpoints = 64
	// maxEndpoints is how many a whole answer gets.
	maxEndpoints = 8192
)

// objectOf returns the index of the object with this key.
func (s *DescriptorScanner) objectOf(key objectKey) int32 {
	if i, ok := s.index[key]; ok {
		return i
	}
	i := int32(len(s.objects))
	s.index[key] = i
	s.objects = append(s.objects, object{key: key})
	switch key.class {
	case linkPath:
		s.wantFIFO = true
	case linkMemfd:
		s.wantMemfd = true
	case linkEventfd:
		s.wantEventfd = true
	}
	return i
}

// add notes an end, one more of each direction than an answer can show: the
// descriptor that is asked for is one of them.
func (o *object) add(e end) {
	list := &o.ends[e.access]
	if len(*list) > maxDescriptorEndpoints {
		o.more = true
		return
	}
	*list = append(*list, e)
}

// full tells whether more ends could change nothing.
func (o *object) full() bool {
	const enough = maxDescriptorEndpoints + 1
	if o.key.class == linkPipe || o.key.class == linkPath {
		return len(o.ends[dirRead]) >= enough && len(o.ends[dirWrite]) >= enough
	}
	return len(o.ends[dirUnknown])+len(o.ends[dirNone])+len(o.ends[dirRead])+len(o.ends[dirWrite])+len(o.ends[dirBoth]) >= enough
}

// visit is called with each descriptor of other processes.
func (s *DescriptorScanner) visit(v *visited) {
	class, inode := classifyLink(v.link)
	key := objectKey{class: class, inode: inode}
	switch class {
	case linkPipe, linkSocket:
	case linkPath, linkMemfd:
		if class == linkPath && !s.wantFIFO || class == linkMemfd && !s.wantMemfd {
			return
		}
		var st unix.Statx_t
		if statxRaw(v.dir, &v.name[0], &st) != nil || class == linkPath && uint32(st.Mode)&unix.S_IFMT != unix.S_IFIFO {
			return
		}
		key.inode, key.device = st.Ino, unix.Mkdev(st.Dev_major, st.Dev_minor)
	case linkEventfd:
		if !s.wantEventfd {
			return
		}
		id, ok := s.infoOf(v).event.Get()
		if !ok {
			return
		}
		key.inode = id
	default:
		return
	}
	i, ok := s.index[key]
	if !ok {
		return
	}
	o := &s.objects[i]
	if o.full() {
		o.more = true
		return
	}
	if s.turn != v.turn {
		// The handle of the directory belongs to one process for good, and so does
		// what is read through it, whatever happens to the number.
		s.turn, s.turnKnown = v.turn, false
		if st, ok := statBelow(v.dir, v.up+"stat", s.info); ok {
			s.turnKnown = true
			s.procs = append(s.procs, endProcess{ID{PID: v.pid, StartTicks: st.start}, string(st.comm)})
		}
	}
	if !s.turnKnown {
		return // ended since
	}
	e := end{process: int32(len(s.procs) - 1), fd: v.fd}
	if flags, ok := s.infoOf(v).flags.Get(); ok {
		e.access = directionOf(Some(accessOf(flags)))
	}
	o.add(e)
}

// infoOf reads the fdinfo of a visited descriptor.
func (s *DescriptorScanner) infoOf(v *visited) fdInfo {
	s.path = append(append(s.path[:0], "../fdinfo/"...), v.name...)
	text, ok := s.readInfo(v.dir, &s.path[0])
	if !ok {
		return fdInfo{}
	}
	return parseFDInfo(text)
}

// link fills peers and holders of the target's descriptors and says what was left
// out.
func (s *DescriptorScanner) link(warn func(string)) {
	// The same few objects can be held by very many descriptors. Those that need
	// the fewest endpoints in all get theirs first, so that these cannot use up
	// the room of a socket with one peer.
	members := make([][]int32, len(s.objects))
	for i := range s.own {
		if o := s.own[i].object; o >= 0 {
			members[o] = append(members[o], int32(i))
		}
	}
	type need struct {
		object int32
		cost   int
	}
	var needs []need
	for i, m := range members {
		if len(m) > 0 {
			peers, holders := s.endpoints(m[0])
			needs = append(needs, need{int32(i), len(m) * (len(peers) + len(holders))})
		}
	}
	slices.SortStableFunc(needs, func(a, b need) int { return cmp.Compare(a.cost, b.cost) })
	left, cut, full := maxEndpoints, 0, 0
	for _, n := range needs {
		for _, m := range members[n.object] {
			d := &s.own[m]
			if left == 0 && n.cost > 0 {
				cut++
				d.addNote("peers and holders are left out: the answer is full")
				continue
			}
			peers, holders := s.endpoints(m)
			more := s.moreEnds(n.object)
			peers, holders, trimmed := trim(peers, holders, maxDescriptorEndpoints)
			if more || trimmed {
				full++
				d.addNote("has more peers and holders than are listed")
			}
			if peers, holders, trimmed = trim(peers, holders, left); trimmed {
				cut++
				d.addNote("peers and holders are left out: the answer is full")
			}
			left -= len(peers) + len(holders)
			d.Peers, d.Holders = peers, holders
		}
	}
	if full > 0 {
		warn(fmt.Sprintf("%s more than %d peers and holders: only %d are listed", have(full), maxDescriptorEndpoints, maxDescriptorEndpoints))
	}
	if cut > 0 {
		warn(fmt.Sprintf("an answer holds at most %d peers and holders: those of %s are left out", maxEndpoints, descriptors(cut)))
	}
}

// trim cuts both lists to most together; where both are long each gets half.
func trim(peers, holders []Endpoint, most int) (p, h []Endpoint, cut bool) {
	if len(peers)+len(holders) <= most {
		return peers, holders, false
	}
	n := min(len(peers), max(most-most/2, most-len(holders)))
	return peers[:n], holders[:most-n], true
}

func have(n int) string {
	if n == 1 {
		return "1 descriptor has"
	}
	return fmt.Sprintf("%d descriptors have", n)
}

func descriptors(n int) string {
	if n == 1 {
		return "1 descriptor"
	}
	return fmt.Sprintf("%d descriptors", n)
}

// moreEnds tells whether ends of an object or its peers were left out.
func (s *DescriptorScanner) moreEnds(i int32) bool {
	o := &s.objects[i]
	if o.more {
		return true
	}
	for _, inode := range o.peers {
		if p, ok := s.index[objectKey{class: linkSocket, inode: inode}]; ok && s.objects[p].more {
			return true
		}
	}
	return false
}

// endpoints returns peers and holders of the target's descriptor m, by PID and
// number.
func (s *DescriptorScanner) endpoints(m int32) (peers, holders []Endpoint) {
	d := &s.own[m]
	o := &s.objects[d.object]
	mine := directionOf(d.Access)
	peers, holders = []Endpoint{}, []Endpoint{}
	for theirs, ends := range o.ends {
		relation := RelationSame
		if o.key.class == linkPipe || o.key.class == linkPath {
			relation = pipeRelation(mine, uint8(theirs))
		}
		for _, e := range ends {
			switch {
			case e.own == m+1:
			case relation == RelationPipeEnd:
				peers = append(peers, s.endpoint(e, relation))
			default:
				holders = append(holders, s.endpoint(e, relation))
			}
		}
	}
	for _, inode := range o.peers {
		i, ok := s.index[objectKey{class: linkSocket, inode: inode}]
		if !ok {
			continue
		}
		for _, ends := range s.objects[i].ends {
			for _, e := range ends {
				peers = append(peers, s.endpoint(e, o.relation))
			}
		}
	}
	slices.SortFunc(peers, compareEndpoints)
	slices.SortFunc(holders, compareEndpoints)
	return peers, holders
}

// pipeRelation tells what two descriptors of one pipe or FIFO are to each other.
// O_PATH, or a direction that could not be read, is no end.
func pipeRelation(mine, theirs uint8) string {
	switch {
	case mine < dirRead || theirs < dirRead:
		return RelationSame
	case mine == theirs && mine != dirBoth:
		return RelationSamePipe
	}
	return RelationPipeEnd
}

func (s *DescriptorScanner) endpoint(e end, relation string) Endpoint {
	p := &s.procs[e.process]
	ep := Endpoint{ID: p.id, Name: p.name, FD: e.fd, Relation: relation}
	if e.access != dirUnknown {
		ep.Access = Some(dirAccess[e.access])
	}
	return ep
}

func compareEndpoints(a, b Endpoint) int {
	return cmp.Or(cmp.Compare(a.ID.PID, b.ID.PID), cmp.Compare(a.FD, b.FD))
}

func (d *ownDescriptor) addNote(text string) {
	if old, ok := d.Note.Get(); ok {
		text = old + "; " + text
	}
	d.Note = Some(text)
}
