package proc

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Sought is what holders are looked for; one of its fields is set.
type Sought struct {
	Port   uint16 // local port of TCP, MPTCP, UDP, UDP-Lite or SCTP
	Path   string // absolute, as the caller sees it
	Socket uint64 // inode
}

// Relations of holders that hold a file otherwise than by a descriptor, which is
// RelationSame.
const (
	RelationExecutable = "executable" // /proc/PID/exe
	RelationCwd        = "cwd"
	RelationRoot       = "root"
	RelationMapping    = "mapping"
)

// relations is their order behind the descriptors.
var relations = []string{RelationSame, RelationExecutable, RelationCwd, RelationRoot, RelationMapping}

// Holder is one way in which a process holds what was looked for.
type Holder struct {
	ID        ID
	Name      string      // comm, raw bytes
	FD        Opt[int32]  // unknown when it is no descriptor
	Access    Opt[string] // AccessRead…; of a mapping what its pages allow
	Relation  string
	Path      Opt[string] // of a file, as the process has it; raw bytes
	Deleted   Opt[bool]   // the file has no name any more, or not this one; unknown of sockets
	Socket    *HostSocket // nil for files, and for a socket in no table
	Namespace Opt[uint64] // inode of the network namespace that the socket is in
}

// Holders are those of one port, file or socket.
type Holders struct {
	List     []Holder // in order after Finish
	Warnings []string
	File     *HeldFile // when a path was asked for
	PIDs     []int32   // with File: the processes there were
	cut      bool
}

const (
	// maxHolders is how many ways of holding one answer has.
	maxHolders = 8192
	// maxHolderDescriptors is how many descriptors are looked at for holders.
	maxHolderDescriptors = 1_000_000
	// maxHolderTime is how long descriptors and tables of sockets are looked at.
	maxHolderTime = 3 * time.Second
)

// FindHolders looks through the descriptors of all processes for a port, a file or
// a socket.
//
// Shape:  what Finish puts in order. A listening socket and the connections that
// were accepted from it have the same local port and differ in State. A file is one
// with the device and the inode that Path leads to, whatever name it was opened by;
// or one that had this name and lost it; or, where Path cannot be looked up or
// leads nowhere here, one that its holder has under this name. The file of a UNIX
// socket stands for the sockets bound to it. FindUses tells who holds a file
// without a descriptor.
// Absent: a network namespace that no process is in; the descriptor tables that
// threads have to themselves, but that of a process whose leader has ended. What a
// limit cut off, and processes and namespaces that were denied, are warnings.
// Errors: those of reading the mount.
// Effect: none on any process. Nothing is read from a descriptor, and no remote
// file system is asked.
// Source: /proc/PID/fd, proc_pid_fd(5); sock_diag(7), /proc/PID/net where that is
// refused.
func (s *DescriptorScanner) FindHolders(q Sought) (*Holders, error) {
	began := time.Now()
	s.deadline = began.Add(maxHolderTime * 3 / 4)
	h := &holderSearch{s: s, q: q, sockets: map[uint64]heldSocket{}}
	h.out.Warnings = []string{}
	defer s.tables.forget()
	s.turn, s.turnKnown = 0, false
	if q.Path != "" {
		var warnings []string
		h.out.File, warnings = s.fs.lookUp(q.Path)
		h.out.Warnings = append(h.out.Warnings, warnings...)
	}
	f := h.out.File
	switch {
	case q.Port != 0:
		if err := h.askNamespaces(wantTCP|wantUDP|wantUDPLite|wantSCTP, nil); err != nil {
			return nil, err
		}
		if len(h.sockets) == 0 {
			return &h.out, nil
		}
	case f != nil && (f.kind == unix.S_IFSOCK || f.byName):
		if err := h.askNamespaces(wantUnix, nil); err != nil {
			return nil, err
		}
	}
	w := &s.walk
	w.begin(0, maxHolderDescriptors, began.Add(maxHolderTime))
	if err := w.run(h.visit); err != nil {
		return nil, err
	}
	h.out.Warnings = append(h.out.Warnings, w.warnings(HostLimits{Descriptors: maxHolderDescriptors, Time: maxHolderTime})...)
	if f != nil {
		h.out.PIDs = slices.Clone(w.pids)
	}
	if q.Socket != 0 && len(h.out.List) > 0 {
		s.deadline = time.Now().Add(maxHolderTime / 4)
		if err := h.describeSocket(); err != nil {
			return nil, err
		}
	}
	return &h.out, nil
}

// Add takes what FindUses found.
func (h *Holders) Add(uses []Holder) {
	for _, u := range uses {
		if h.cut = h.cut || len(h.List) >= 2*maxHolders; !h.cut {
			h.List = append(h.List, u)
		}
	}
}

// Finish puts the holders in order: by PID and start time, the descriptors by number,
// then executable, cwd, root and mapping. Of too many the listening sockets stay.
func (h *Holders) Finish() {
	compare := func(a, b Holder) int {
		return cmp.Or(cmp.Compare(a.ID.PID, b.ID.PID), cmp.Compare(a.ID.StartTicks, b.ID.StartTicks),
			cmp.Compare(slices.Index(relations, a.Relation), slices.Index(relations, b.Relation)), cmp.Compare(a.FD.Or(-1), b.FD.Or(-1)))
	}
	slices.SortFunc(h.List, compare)
	if len(h.List) > maxHolders {
		h.cut = true
		slices.SortStableFunc(h.List, func(a, b Holder) int { return cmp.Compare(b.listening(), a.listening()) })
		h.List = h.List[:maxHolders]
		slices.SortFunc(h.List, compare)
	}
	if h.cut {
		h.Warnings = append(h.Warnings, fmt.Sprintf("only %d holders are listed", maxHolders))
	}
}

func (h *Holder) listening() int {
	if h.Socket != nil && h.Socket.State == Some(stateNames[tcpListen]) {
		return 1
	}
	return 0
}

// holderSearch is one FindHolders.
type holderSearch struct {
	s       *DescriptorScanner
	q       Sought
	out     Holders
	sockets map[uint64]heldSocket // by inode, of a port or a path
	id      ID
	name    string
}

type heldSocket struct {
	socket    *HostSocket
	namespace uint64
}

// askNamespaces takes the sockets that are looked for from the tables of the network
// namespaces that processes are in, those of first before the others, until all are
// asked or a socket that was asked for by its inode is found.
func (h *holderSearch) askNamespaces(want int, first []int32) error {
	seen := map[nsID]bool{}
	var problems namespaceProblems
	denied := 0
	ask := func(pid int32) bool {
		id, err := namespaceAt(h.s.fs.dir, strconv.Itoa(int(pid))+"/ns/net")
		if err != nil {
			if errors.Is(err, fs.ErrPermission) {
				denied++
			}
			return true
		}
		if seen[id] {
			return true
		}
		if problems.more = len(seen) >= maxNamespaces; problems.more {
			return false
		}
		st, _, err := h.s.fs.Identify(pid)
		if err == nil && h.s.readNamespace(&HostProcess{ID: st, namespace: id}, want, &problems) {
			seen[id] = true
			h.take(id.ino)
		}
		return h.q.Socket == 0 || len(h.sockets) == 0
	}
	for _, pid := range first {
		if !ask(pid) {
			break
		}
	}
	var pids []int32
	err := h.s.walk.eachPID(func(pid int32) bool {
		pids = append(pids, pid)
		return true
	})
	if err != nil {
		return err
	}
	if len(first) == 0 || len(h.sockets) == 0 {
		for _, pid := range pids {
			if !ask(pid) {
				break
			}
		}
	}
	h.out.Warnings = append(h.out.Warnings, problems.warnings()...)
	if denied > 0 && h.q.Port != 0 {
		h.out.Warnings = append(h.out.Warnings, fmt.Sprintf("processes whose network namespace could not be told (needs the same owner, or CAP_SYS_PTRACE): %d", denied))
	}
	return nil
}

// take keeps of the tables just read what is looked for.
func (h *holderSearch) take(namespace uint64) {
	t := &h.s.tables
	keep := func(inode uint64, socket *HostSocket) {
		if _, again := h.sockets[inode]; again && t.text {
			// The text of a table can be forged by a name with a newline.
			socket = &HostSocket{Protocol: Some(protocolUnix)}
		}
		h.sockets[inode] = heldSocket{socket, namespace}
	}
	for i := range t.inet {
		if row := &t.inet[i]; row.inode == h.q.Socket || h.q.Port != 0 && row.localPort == h.q.Port {
			keep(row.inode, row.describe())
		}
	}
	for i := range t.unix {
		row := &t.unix[i]
		if row.inode == h.q.Socket || h.out.File != nil && h.out.File.isBound(row) {
			keep(row.inode, row.describe())
		}
	}
	for i := range t.plain {
		if row := &t.plain[i]; row.inode == h.q.Socket {
			keep(row.inode, row.describe())
		}
	}
}

// visit is called with each descriptor.
func (h *holderSearch) visit(v *visited) {
	class, inode := classifyLink(v.link)
	holder := Holder{FD: Some(v.fd), Relation: RelationSame}
	switch {
	case class == linkSocket:
		found, ok := h.sockets[inode]
		if !ok && (inode == 0 || inode != h.q.Socket) {
			return
		}
		holder.Access = Some(AccessReadWrite) // sock_alloc_file in net/socket.c
		if ok {
			holder.Socket, holder.Namespace = found.socket, Some(found.namespace)
		}
	case h.out.File != nil && (class == linkPath || class == linkMemfd):
		deleted, ok := h.out.File.is(v.link, func(st *unix.Statx_t) bool { return statxRaw(v.dir, &v.name[0], st) == nil })
		if !ok {
			return
		}
		holder.Deleted, holder.Path = deleted, Some(string(v.link))
		if access := linkAccess(v); access != dirUnknown {
			holder.Access = Some(dirAccess[access])
		}
	default:
		return
	}
	if len(h.out.List) >= maxHolders && (holder.listening() == 0 || len(h.out.List) >= 2*maxHolders) {
		h.out.cut = true
		return
	}
	if h.s.turn != v.turn {
		// The handle of the directory belongs to one process for good, and so does
		// what is read through it, whatever happens to the number.
		h.s.turn, h.s.turnKnown = v.turn, false
		if st, ok := statBelow(v.dir, v.up+"stat", h.s.info); ok {
			h.s.turnKnown = true
			h.id, h.name = ID{PID: v.pid, StartTicks: st.start}, string(st.comm)
		}
	}
	if !h.s.turnKnown {
		return // ended since
	}
	holder.ID, holder.Name = h.id, h.name
	h.out.List = append(h.out.List, holder)
}

// describeSocket finds out what the socket is that was asked for by its inode: first
// in the network namespaces of those who hold it.
func (h *holderSearch) describeSocket() error {
	one := h.out.List[0]
	fd, _ := one.FD.Get()
	protocol := h.s.socketProtocol(fmt.Sprintf("%s/%d/fd/%d", h.s.fs.mount, one.ID.PID, fd))
	if want := tablesFor(protocol); want != 0 {
		var holders []int32
		for i := range h.out.List {
			if pid := h.out.List[i].ID.PID; len(holders) == 0 || holders[len(holders)-1] != pid {
				holders = append(holders, pid)
			}
		}
		if err := h.askNamespaces(want, holders); err != nil {
			return err
		}
	}
	found, ok := h.sockets[h.q.Socket]
	if !ok && protocol.Known() {
		found.socket = &HostSocket{Protocol: protocol}
	}
	for i := range h.out.List {
		h.out.List[i].Socket = found.socket
		if ok {
			h.out.List[i].Namespace = Some(found.namespace)
		}
	}
	return nil
}
