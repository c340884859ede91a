package proc

// Descriptor is one open file descriptor.
type Descriptor struct {
	FD           int32
	Kind         string
	Target       string // link text
	Inode        Opt[uint64]
	Access       Opt[string] // read, write, read/write, none
	Flags        []string    // O_* names; nil unreadable
	Position     Opt[uint64]
	Deleted      bool
	Protocol     Opt[string]
	State        Opt[string]
	Local        Opt[string]
	Remote       Opt[string]
	LocalKind    Opt[string]
	TIDs         []int32 // set only when threads hold tables of their own
	ReceiveQueue Opt[uint64]
	SendQueue    Opt[uint64]
	PeerInode    Opt[uint64]
	Peers        []Endpoint
	Holders      []Endpoint
	Note         Opt[string]
}

// Endpoint is a descriptor of some process at the other side of, or holding, an object.
type Endpoint struct {
	ID       ID
	Name     string
	FD       int32
	Access   Opt[string]
	Relation string
}

// Descriptors is the answer of a descriptor reading.
type Descriptors struct {
	Entries  []Descriptor // by FD
	Warnings []string
}

// DescriptorScanner reads descriptors and looks for their other ends on the
// whole host, with buffers of its own.
type DescriptorScanner struct{}

// NewDescriptorScanner returns a scanner.
func (fs *FS) NewDescriptorScanner() *DescriptorScanner { panic("stub") }

// Read returns the descriptors of p with peers and holders.
func (s *DescriptorScanner) Read(p *Process) (*Descriptors, error) { panic("stub") }
