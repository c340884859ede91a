package elf

// Location is a source position and the function it belongs to.
//
// Absent: Function and File are "" and Line is 0 when they are not known.
type Location struct {
	Function, File string
	Line           int
}

// Locate returns the functions at vaddr, innermost first: entry 0 has the exact
// position, each next one the position of the call, the last is the physical
// function. nil when the file has no debug information for it.
func (f *File) Locate(vaddr uint64) ([]Location, error) { return nil, nil }
