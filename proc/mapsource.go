package proc

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// KernelMapping is what the kernel's own tables say of a mapping. The process ID is that
// of the reader's PID namespace.
type KernelMapping struct {
	PID   int32
	Begun uint64 // the process: ns since boot, in the first time namespace

	Start, End   uint64 // addresses, half-open
	Permissions  [4]byte
	FileOffset   uint64 // bytes; 0 of what is no file
	Major, Minor uint32 // of the file's device, as in maps
	Inode        uint64

	// Name stands for the name in maps: "" for none or one that a program gave to memory,
	// "/" for any file, [heap] and [stack], [vdso] for that and its data, [special] for
	// any other that the kernel gives.
	Name string
	// Unsettled says that only maps tells whether this is [heap].
	Unsettled bool
	// Vsyscall says that the process has the mapping [vsyscall], where the host has one: it
	// is in no table.
	Vsyscall bool
}

// MappingSource reads the tables.
type MappingSource interface {
	// ReadMappings calls each with the mappings of the host, those of one process together
	// and in the order of addresses, and tells whether these were all. It returns false at
	// once when there are no tables now. Some processes may be hidden.
	ReadMappings(each func(*KernelMapping)) (whole bool)
}

// tablesSlack is how much later than from the tables map summaries are read as text: when
// no reading of the tables had the process.
const tablesSlack = 2 * time.Second

// spaceTable are the address spaces as the last reading of the tables has them.
type spaceTable struct {
	source MappingSource
	due    int64 // monotonic ns of the next reading
	walked []walkedSpace
	at     int // where in walked the walk is

	gate     *Mapping // [vsyscall], from the texts of this process; nil without
	gateRead bool

	// Of the process whose mappings are coming.
	now      walkedSpace
	begun    uint64
	vsyscall bool
	texts    bool // maps is to be read: the tables leave something open
	list     mapReader
}

// walkedSpace is one address space from the tables.
type walkedSpace struct {
	id      ID
	sums    spaceSums
	summary *MapSummary
}

// ReadMappingsFrom makes scans take map summaries from the tables, of all processes at
// once, while nobody wants the mappings themselves. Those that the tables do not have are
// read as text; nil makes it all of them.
func (s *Scanner) ReadMappingsFrom(tables MappingSource) { s.spaces.source = tables }

// readSpaces reads the tables when that is due.
func (s *Scanner) readSpaces(want Want) {
	t := &s.spaces
	t.walked, t.at = t.walked[:0], 0
	if t.source == nil || !want.Maps || want.Mappings || s.reader.now < t.due {
		return
	}
	offset, err := s.fs.StartOffset()
	if err != nil {
		return
	}
	t.now = walkedSpace{}
	whole := t.source.ReadMappings(func(m *KernelMapping) {
		if m.PID != t.now.id.PID || m.Begun != t.begun {
			s.finishSpace()
			t.begun, t.vsyscall, t.texts = m.Begun, m.Vsyscall, !t.findGate(s.fs)
			t.now = walkedSpace{id: ID{PID: m.PID, StartTicks: (m.Begun + uint64(offset)) / nsPerTick}}
			t.list.dst = t.list.dst[:0]
		}
		t.add(m)
	})
	if whole {
		s.finishSpace()
		t.due = s.reader.now + int64(mapsAge)
	}
	if cap(t.list.dst) > maxKeptMaps {
		t.list.dst = nil
	}
	byPID := func(a, b walkedSpace) int { return cmp.Compare(a.id.PID, b.id.PID) }
	if !slices.IsSortedFunc(t.walked, byPID) {
		slices.SortStableFunc(t.walked, byPID)
	}
}

// findGate reads how the host shows [vsyscall]: the same in every process that shows it.
func (t *spaceTable) findGate(fs *FS) bool {
	if t.gateRead {
		return true
	}
	id, _, err := fs.Self()
	if err != nil {
		return false
	}
	p, err := fs.OpenProcess(id)
	if err != nil {
		return false
	}
	defer p.Close()
	list, err := p.readMapKinds(nil)
	if err != nil {
		return false
	}
	if i := slices.IndexFunc(list, func(m Mapping) bool { return strings.HasPrefix(m.Path, "[vsyscall") }); i >= 0 {
		t.gate = &list[i]
	}
	t.gateRead = true
	return true
}

func (t *spaceTable) add(m *KernelMapping) {
	t.texts = t.texts || m.Unsettled
	t.list.dropBefore(m.Start)
	t.append(Mapping{
		Start: m.Start, End: m.End, Permissions: m.Permissions, FileOffset: m.FileOffset,
		Major: m.Major, Minor: m.Minor, Inode: m.Inode, Path: m.Name,
	})
}

func (t *spaceTable) append(m Mapping) {
	if len(t.list.dst) >= maxMaps {
		t.texts = true // says it in the same words
		return
	}
	t.list.dst = append(t.list.dst, m)
}

// finishSpace keeps what came of one process.
func (s *Scanner) finishSpace() {
	t := &s.spaces
	if t.vsyscall && t.gate != nil {
		t.append(*t.gate)
	}
	if t.now.id.PID == 0 || t.texts {
		return
	}
	var k knownSpace
	at, found := slices.BinarySearchFunc(s.known, t.now.id.PID, func(k known, pid int32) int { return cmp.Compare(k.id.PID, pid) })
	if found && s.known[at].id == t.now.id {
		k = s.known[at].space
	}
	t.now.sums = sumSpace(t.list.dst)
	t.now.summary = k.summarize(t.list.dst, t.now.sums)
	t.walked = append(t.walked, t.now)
}

// of returns what the tables said of pid in this scan, nothing if that is not known,
// walking them in step with the callers' numbers.
func (t *spaceTable) of(pid int32) walkedSpace {
	for t.at < len(t.walked) && t.walked[t.at].id.PID < pid {
		t.at++
	}
	if t.at == len(t.walked) || t.walked[t.at].id.PID != pid {
		return walkedSpace{}
	}
	return t.walked[t.at]
}
