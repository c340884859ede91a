package watch

import (
	"fmt"
	"time"

	"procinsh/proc"
)

const (
	// structureInterval is the time between two readings of the structure.
	structureInterval = 5 * time.Second
	// maxStructureTime is how long one may take, maxStructureFDs how many
	// descriptors it looks at in the texts, maxTableFDs in the kernel's tables.
	maxStructureTime = 4 * time.Second
	maxStructureFDs  = 100_000
	maxTableFDs      = 1_000_000
)

// structureSource is where the connections come from. System calls it from one
// goroutine at a time; the processes and their maps come from its List.
type structureSource interface {
	// Connections returns who holds which pipe, FIFO and socket. The answer is valid
	// until the next call.
	Connections(limits proc.HostLimits) (*proc.HostConnections, error)
	// Begin says that viewers came: what readings need may be made and kept. End says
	// that they left.
	Begin()
	End()
	// Source says what readings read while there are viewers.
	Source() Source
	// StartOffset is what the reader's time namespace adds to the start of a process.
	StartOffset() (time.Duration, error)
	// Self is this process, and the device of the files that it reads about others.
	Self() (proc.ID, uint64, error)
}

// hostStructure is the structure from the kernel's own tables of open files where that
// can be, else from the text files of procfs and sock_diag.
type hostStructure struct {
	fs      *proc.FS
	scanner *proc.DescriptorScanner
	tables  *tables[DescriptorReader] // nil: texts alone
}

func newHostStructure(fs *proc.FS, tables *tables[DescriptorReader]) *hostStructure {
	return &hostStructure{fs, fs.NewDescriptorScanner(), tables}
}

func (s *hostStructure) Connections(limits proc.HostLimits) (*proc.HostConnections, error) {
	defer s.tables.scan(s.reading())()
	return s.scanner.ScanConnections(limits)
}

func (s *hostStructure) Begin() { s.tables.begin() }

func (s *hostStructure) End() { s.tables.end(s.reading()) }

func (s *hostStructure) reading() tableScanner[DescriptorReader] {
	return tableScanner[DescriptorReader]{func(r *DescriptorReader) {
		if r == nil {
			s.scanner.ReadFrom(nil)
		} else {
			s.scanner.ReadFrom(*r)
		}
	}, s.scanner.TablesError}
}

func (s *hostStructure) Source() Source { return s.tables.now() }

func (s *hostStructure) Self() (proc.ID, uint64, error) { return s.fs.Self() }

func (s *hostStructure) StartOffset() (time.Duration, error) { return s.fs.StartOffset() }

// Topology is the structure of the host at one time. Immutable, shared by all
// viewers.
type Topology struct {
	Sequence           uint64 // 0: nothing was read yet
	CapturedAt         time.Time
	Nodes              []ListRow // by PID
	Edges              []Edge    // by ID, as bytes
	Warnings           []string  // what was cut or denied
	InspectedProcesses int       // whose descriptors were listed
	InspectedFDs       int       // looked at

	memo memo
}

// Memo is as that of ListState.
func (t *Topology) Memo(key any, build func() any) any { return t.memo.get(key, build) }

// Edge is a connection between two processes, or between one and somebody who is
// none here. It is comparable with ==.
type Edge struct {
	ID        string // the same as long as the connection lives
	A         Port
	B         proc.Opt[Port] // unknown without a local peer
	Label     string
	Socket    proc.Opt[Socket] // of A's end; unknown for pipes and FIFOs
	Candidate bool             // a possible peer only: found by addresses
	Shared    bool             // both hold the same object
}

// Port is one end of an edge: all descriptors of one process for one object.
type Port struct {
	Process  proc.ID
	FD       int32 // the lowest
	FDCount  int32
	Resource string // pipe:<st_dev>:<inode> or socket:<st_dev>:<inode>
	Kind     string // proc.FDPipe, proc.FDFIFO, proc.FDSocket
	Access   string // proc.AccessRead…, "" unknown
}

// Socket is what is known of a socket; all of it may be unknown.
type Socket struct {
	Protocol, State, Local, Remote proc.Opt[string]
	NetworkPeer                    bool             // TCP or UDP that talks to an address and a port
	RemoteHostname                 proc.Opt[string] // unknown on loopback, and until it is looked up
}

// makeTopology puts together what the list and the connections say.
func makeTopology(at time.Time, rows *ListState, c *proc.HostConnections, hostnames *names) *Topology {
	t := &Topology{CapturedAt: at, Nodes: rows.Rows, InspectedProcesses: c.Inspected, InspectedFDs: c.Descriptors, Warnings: []string{}}
	b := newGraph(rows.Rows, c, hostnames)
	t.Edges = b.build()
	t.Warnings = append(t.Warnings, c.Warnings...)
	t.Warnings = append(t.Warnings, b.warnings...)
	if hostnames.wasFull() {
		t.Warnings = append(t.Warnings, fmt.Sprintf("only %d remote addresses are kept with their names: remote_hostname of the others is null", maxNames))
	}
	if rows.Want.Maps || rows.Want.mappings {
		t.Warnings = append(t.Warnings, mapsWarnings(rows.Rows)...)
	}
	return t
}

// mapsWarnings counts the address spaces that are not whole.
func mapsWarnings(rows []ListRow) (list []string) {
	cut, unknown := 0, 0
	for i := range rows {
		if m := rows[i].Mappings; m != nil && m.Total > len(m.Maps) {
			cut++
		}
		if rows[i].MapsErr != nil {
			unknown++
		}
	}
	if cut > 0 {
		list = append(list, fmt.Sprintf("processes with more mappings than are shown of one: %d (see maps_error)", cut))
	}
	if unknown > 0 {
		list = append(list, fmt.Sprintf("processes whose maps are not known: %d (see maps_error)", unknown))
	}
	return list
}
