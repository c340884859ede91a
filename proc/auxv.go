package proc

// Auxv is the auxiliary vector.
type Auxv struct {
	WordBits int // 32 or 64
	Entries  []AuxvEntry
}

// AuxvEntry is one pair.
type AuxvEntry struct {
	Tag, Value  uint64
	Name        string // AT_…
	Kind        string // number address bitmask unknown
	Description string
	Text        Opt[string]
	TextError   Opt[string]
}

// ReadAuxv returns the auxiliary vector with the strings it points to.
func (p *Process) ReadAuxv() (*Auxv, error) { panic("stub") }
