package proc

// Mapping is one line of maps.
type Mapping struct {
	Start, End   uint64
	Permissions  [4]byte
	FileOffset   uint64
	Major, Minor uint32
	Inode        uint64
	Path         string    // "" for anonymous memory; raw bytes
	Deleted      Opt[bool] // known for file mappings whose link or text decides
	RSS          Opt[uint64]
	PSS          Opt[uint64]
	Swap         Opt[uint64]
	Dirty        Opt[uint64]
}

// Rollup is smaps_rollup, bytes. Hugetlb pages are in none of the four.
type Rollup struct {
	RSS, PSS, Private, Swap uint64
}

// ReadMaps appends the mappings of the process to dst, from maps alone.
func (p *Process) ReadMaps(dst []Mapping) ([]Mapping, error) { panic("stub") }

// ReadSmaps appends the mappings with RSS, PSS, swap and dirty bytes.
func (p *Process) ReadSmaps(dst []Mapping) ([]Mapping, error) { panic("stub") }

// ReadRollup returns the sums of the whole address space (Linux 4.14).
func (p *Process) ReadRollup() (Rollup, error) { panic("stub") }

// Map kinds.
const (
	KindCode      = "code"
	KindReadonly  = "readonly"
	KindData      = "data"
	KindHeap      = "heap"
	KindAnonymous = "anonymous"
	KindStack     = "stack"
	KindShared    = "shared"
	KindVDSO      = "vdso"
	KindGuard     = "guard"
	KindOther     = "other"
)

// MapSummary is the address space for a picture. Immutable.
type MapSummary struct {
	Boxes  []MapBox // address order, at most maxMapBoxes
	Totals map[string]uint64
}

// MapBox is a run of neighbouring mappings of one kind.
type MapBox struct {
	Kind       string
	Start, End uint64
	Size       uint64 // mapped bytes
	Count      int
}

// SummarizeMaps merges mappings into at most 64 boxes.
func SummarizeMaps(maps []Mapping) MapSummary { panic("stub") }
