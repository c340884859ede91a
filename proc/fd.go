package proc

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Descriptor is one open file descriptor. Lists may be shared between entries;
// nobody changes them.
type Descriptor struct {
	FD           int32
	Kind         string      // FDFile…
	Target       string      // link text, raw bytes
	Inode        Opt[uint64] // of the file, pipe or socket; anonymous ones of one kind may share it
	Access       Opt[string] // AccessRead…; unknown when fdinfo is unreadable
	Flags        []string    // O_* names; nil unreadable
	Position     Opt[uint64] // bytes; only where lseek works: files, directories, block devices
	Deleted      bool        // the file has no name any more
	Protocol     Opt[string] // of a socket: TCP, UNIX STREAM…, else the name of the kernel's struct proto
	State        Opt[string] // ESTABLISHED LISTEN…; UNCONNECTED for UDP and UNIX sockets
	Local        Opt[string]
	Remote       Opt[string] // unknown when not connected, or connected to a socket without a name
	LocalKind    Opt[string] // LocalInet…
	TIDs         []int32     // set only when threads hold tables of their own
	ReceiveQueue Opt[uint64] // bytes; unknown for listeners, whose Note says how many wait
	SendQueue    Opt[uint64] // bytes
	PeerInode    Opt[uint64] // of a UNIX socket's peer
	Peers        []Endpoint  // by PID, FD
	Holders      []Endpoint  // by PID, FD; without the descriptor itself
	Note         Opt[string]
}

// Endpoint is a descriptor of some process at the other side of, or holding, an object.
type Endpoint struct {
	ID       ID
	Name     string // comm of the process, raw bytes
	FD       int32
	Access   Opt[string]
	Relation string // RelationPipeEnd…
}

// Descriptors is the answer of a descriptor reading.
type Descriptors struct {
	Entries  []Descriptor // by FD, then by first TID
	Warnings []string
}

const (
	// maxDescriptors is how many descriptors one reading looks at, those of the
	// target included.
	maxDescriptors = 100_000
	// maxOwnDescriptors is how many of them may be the target's: the rest is kept
	// for the other ends.
	maxOwnDescriptors = 50_000
	// maxDescriptorTime is how long one reading takes, maxOwnTime how much of it
	// the target's own descriptors may.
	maxDescriptorTime = 3 * time.Second
	maxOwnTime        = 1500 * time.Millisecond
)

// DescriptorScanner reads descriptors and looks for their other ends on the
// whole host, with buffers of its own. Not safe for concurrent use.
type DescriptorScanner struct {
	fs         *FS
	live       bool // the mount is a procfs, not a fixture: sockets can be asked for
	ownNumbers bool // its PIDs are those of the caller's namespace
	walk       hostWalk
	info       []byte // a fdinfo or stat file
	path       []byte
	diag       []byte // what sock_diag answers
	text       []byte // a file of /proc/PID/net
	flags      map[uint64][]string

	// Of ScanHost.
	host        *HostDescriptors
	hostIndex   map[ID]int32
	hostProcess int32
	sockets     inodeTable
	ends        map[pair]uint64

	conns *connections // of ScanConnections

	// Of both, with tables.
	source    DescriptorSource
	sourceErr error
	listed    map[int32]struct{} // processes that the tables have
	inet      []inetSocket       // connected sockets, of ScanHost
	pairs     inodeTable         // their ends to the index of the first; likewise
	anonymous anonymous

	// One reading.
	own                              []ownDescriptor
	ownEnd, deadline                 time.Time
	index                            map[objectKey]int32
	objects                          []object
	procs                            []endProcess
	turn                             int
	turnKnown                        bool
	wantFIFO, wantMemfd, wantEventfd bool
	namespace                        nsID
	tables                           socketTables
}

// NewDescriptorScanner returns a scanner.
func (fs *FS) NewDescriptorScanner() *DescriptorScanner {
	s := &DescriptorScanner{
		fs: fs, live: fs.isProc(), anonymous: anonymousDevices(), ownNumbers: fs.ownNumbers(),
		info: make([]byte, 4096), diag: make([]byte, diagBuffer),
		flags: map[uint64][]string{}, ends: map[pair]uint64{}, hostIndex: map[ID]int32{}, listed: map[int32]struct{}{},
	}
	s.walk = hostWalk{fs: fs, dents: make([]byte, walkRest), link: make([]byte, 4096)}
	return s
}

// Read returns the descriptors of p with peers and holders.
//
// Shape:  pipes, FIFOs, sockets, memfds and eventfds have holders; of other kinds
// the kernel does not tell one open file from another, and the lists are empty.
// Two descriptors hold the same FIFO or memfd when device and inode are the same.
// The other ends are looked for in the table of each process's leader (of a live
// thread when that has ended), not in those that other processes' threads have to
// themselves. The note of a file says which lock of it the process holds or waits
// for, and who took it or waits; that of an epoll what it watches.
// Absent: each limit that was reached, each process that could not be looked at
// and a network namespace that could not be entered is a warning.
// Errors: ErrGone; fs.ErrPermission; those of reading the directories.
// Effect: none on the target. Nothing is read from a descriptor, and no remote
// file system is asked.
// Source: /proc/PID/fd, fdinfo and net, proc_pid_fd(5); /proc/locks, proc_locks(5);
// sock_diag(7).
func (s *DescriptorScanner) Read(p *Process) (*Descriptors, error) {
	warnings := []string{}
	warn := func(w string) { warnings = append(warnings, w) }
	s.begin()
	defer s.end()

	st, err := p.stat()
	if err != nil {
		return nil, err
	}
	s.procs = append(s.procs, endProcess{p.id, string(st.comm)})
	tables, err := s.fdTables(p, warn)
	if err != nil {
		return nil, err
	}
	for _, t := range tables {
		cut, err := s.readTable(p, t, maxOwnDescriptors)
		if err != nil {
			if t.tids != nil && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH)) {
				continue // the thread has ended since
			}
			return nil, err
		}
		if cut != "" {
			warn(cut)
			break
		}
	}
	slices.SortStableFunc(s.own, func(a, b ownDescriptor) int { return cmp.Compare(a.FD, b.FD) })
	s.noteLocks(p, warn)
	s.readSockets(p, warn)
	for i := range s.own {
		if d := &s.own[i]; d.object >= 0 {
			s.objects[d.object].add(end{fd: d.FD, own: int32(i) + 1, access: directionOf(d.Access)})
		}
	}
	if err := s.search(p, warn); err != nil {
		return nil, err
	}
	s.link(warn)
	if err := p.Check(); err != nil {
		return nil, err
	}
	out := &Descriptors{Entries: make([]Descriptor, len(s.own)), Warnings: warnings}
	for i := range s.own {
		d := &s.own[i].Descriptor
		if d.Peers == nil {
			d.Peers, d.Holders = []Endpoint{}, []Endpoint{}
		}
		out.Entries[i] = *d
	}
	return out, nil
}

func (s *DescriptorScanner) begin() {
	now := time.Now()
	s.ownEnd, s.deadline = now.Add(maxOwnTime), now.Add(maxDescriptorTime)
	s.own, s.objects, s.procs = s.own[:0], s.objects[:0], s.procs[:0]
	s.index = map[objectKey]int32{}
	s.turn, s.turnKnown = 0, false
	s.wantFIFO, s.wantMemfd, s.wantEventfd = false, false, false
	s.namespace = nsID{}
}

// end lets go of what an unusual target made large, and of all that points into
// an answer.
func (s *DescriptorScanner) end() {
	clear(s.own)
	clear(s.objects)
	clear(s.procs)
	s.index = nil
	if cap(s.own) > 4096 {
		s.own, s.objects = nil, nil
	}
	if cap(s.text) > 1<<20 {
		s.text = nil
	}
	s.tables.forget()
}

func (s *DescriptorScanner) ownTimeOver() bool { return !time.Now().Before(s.ownEnd) }

// search looks through the other processes for whoever holds the same objects and
// their other ends.
func (s *DescriptorScanner) search(p *Process, warn func(string)) error {
	if len(s.objects) == 0 {
		return nil
	}
	w := &s.walk
	w.begin(p.id.PID, maxDescriptors-len(s.own), s.deadline)
	if err := w.run(s.visit); err != nil {
		return err
	}
	for _, text := range w.warnings(HostLimits{Descriptors: maxDescriptors, Time: maxDescriptorTime}) {
		warn("peers and holders may be missing: " + text)
	}
	return nil
}

// begin prepares a walk past skip, within a budget.
func (w *hostWalk) begin(skip int32, left int, deadline time.Time) {
	w.skip, w.left, w.deadline = skip, left, deadline
	w.looked, w.processes, w.denied = 0, 0, 0
	w.outOfTime, w.outOfFDs, w.cut = false, false, false
}

// warnings says what a walk did not look at.
func (w *hostWalk) warnings(limits HostLimits) []string {
	var list []string
	if w.cut {
		list = append(list, fmt.Sprintf("the limit of %d descriptors looked at was reached", limits.Descriptors))
	}
	if w.outOfTime {
		list = append(list, fmt.Sprintf("the limit of %v was reached", limits.Time))
	}
	if w.outOfFDs {
		list = append(list, "no descriptor was free to look at the other processes")
	}
	switch {
	case w.denied == 1:
		list = append(list, "1 process was denied (needs the same owner, or CAP_SYS_PTRACE)")
	case w.denied > 1:
		list = append(list, fmt.Sprintf("%d processes were denied (needs the same owner, or CAP_SYS_PTRACE)", w.denied))
	}
	return list
}
