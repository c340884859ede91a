package elf

import (
	delf "debug/elf"
	"errors"
	"fmt"
	"io"
)

const (
	maxFileSize   = 1 << 30 // bytes of one file that is looked at
	maxSections   = 16384   // section headers
	maxSegments   = 2048    // program headers; execve(2) takes at most 64 KiB of them, which is 1170
	maxNameTable  = 1 << 20 // bytes of section names
	maxNoteBytes  = 1 << 16 // bytes of one note section or segment
	maxBuildID    = 64      // bytes; ld writes 16 or 20
	maxSectionLen = 256     // bytes of one section name
)

var (
	// ErrTooBig: the file, or a count or size in it, is over a limit.
	ErrTooBig = errors.New("over the size limit")
	// ErrFormat: the bytes contradict the format or the size of the file.
	ErrFormat = errors.New("malformed")
	// ErrNoData: a section that has no bytes in this file (SHT_NOBITS).
	ErrNoData = errors.New("section has no data in this file")
)

// Segment is one PT_LOAD program header: what execve maps.
//
// Units: bytes; Flags are the PF_X, PF_W, PF_R bits.
type Segment struct {
	Offset, Vaddr, Filesz, Memsz uint64
	Flags                        uint32
}

// Section is one section header.
//
// Units: Offset and Size are bytes in the file, of the compressed form when the
// section is compressed.
// Absent: Addr is 0 for a section that is not loaded.
type Section struct {
	Name         string
	Type         delf.SectionType
	Flags        delf.SectionFlag
	Addr         uint64
	Offset, Size uint64
	Link, Info   uint32
	EntSize      uint64
	Compressed   bool // SHF_COMPRESSED, or the older .zdebug_ name
}

// File is one opened ELF file. It keeps the headers; all else is read when it is
// asked for. Its methods may be called from any number of goroutines.
type File struct {
	r    io.ReaderAt
	size int64

	class    int
	machine  uint16
	typ      delf.Type
	entry    uint64
	sections []Section
	segments []Segment // PT_LOAD
	notes    []Segment // PT_NOTE
	// ehFrameHdr is PT_GNU_EH_FRAME: .eh_frame_hdr, also of a file without sections.
	ehFrameHdr Segment
	buildID    []byte
	buildIDAt  noteAt
	warnings   []string // of Open

	acct *account
	data *loaded // guarded by acct.mu; stable between use and done
	base int64   // bytes of the File itself; guarded by acct.mu
	pos  lruPos  // guarded by acct.mu
	key  Key     // of the Symbolizer's entry

	// findAlt opens the file that .gnu_debugaltlink names; set by the Symbolizer
	// that opened f, nil when there is nobody who could look for it.
	findAlt func() (*File, error)
}

// Open reads the headers of an ELF file for x86: ELF64 or ELF32, little endian.
//
// The File reads from r for as long as it is used and never closes it. What it
// keeps is bounded by a budget of its own; files that share a budget are opened
// by a Symbolizer.
//
// Absent: a section table that lies outside the file is left out with a warning,
// since the program headers alone serve a lot; program headers outside are an error.
// Errors: ErrTooBig, ErrFormat, or what r returned; the File is nil then.
// Source: elf(5), System V gABI; include/uapi/linux/elf.h.
func Open(r io.ReaderAt, size int64) (*File, error) {
	return open(r, size, newAccount(DefaultLimit))
}

func open(r io.ReaderAt, size int64, acct *account) (*File, error) {
	if size > maxFileSize {
		return nil, fmt.Errorf("open ELF file of %d bytes: %w", size, ErrTooBig)
	}
	if size < 0 {
		return nil, fmt.Errorf("open ELF file: size %d: %w", size, ErrFormat)
	}
	f := &File{r: r, size: size, acct: acct}
	if err := f.readHeaders(); err != nil {
		return nil, err
	}
	f.readBuildID()
	return f, nil
}

// Size returns the size of the file in bytes.
func (f *File) Size() int64 { return f.size }

// Segments returns the PT_LOAD segments in file order. It must not be changed.
func (f *File) Segments() []Segment { return f.segments }

// Sections returns all section headers in file order. It must not be changed.
func (f *File) Sections() []Section { return f.sections }

// Class returns 64 or 32.
func (f *File) Class() int { return f.class }

// Machine returns e_machine: 62 is x86-64, 3 is i386.
func (f *File) Machine() uint16 { return f.machine }

// Type returns e_type: delf.ET_EXEC is loaded at its own addresses, delf.ET_DYN anywhere.
func (f *File) Type() delf.Type { return f.typ }

// Entry returns the vaddr of the first instruction, 0 when there is none.
func (f *File) Entry() uint64 { return f.entry }

// BuildID returns the GNU build-id, nil when the file has none.
func (f *File) BuildID() []byte { return f.buildID }

// Warnings returns what Open could not use, as sentences.
func (f *File) Warnings() []string { return f.warnings }

// Section returns the first section of that name. A .debug_ name also finds the
// older compressed form, whose name begins with .zdebug_.
func (f *File) Section(name string) (Section, bool) {
	for _, s := range f.sections {
		if s.Name == name {
			return s, true
		}
	}
	if len(name) > 7 && name[:7] == ".debug_" {
		z := ".zdebug_" + name[7:]
		for _, s := range f.sections {
			if s.Name == z {
				return s, true
			}
		}
	}
	return Section{}, false
}

// Alt returns the file that .gnu_debugaltlink names (dwz -m keeps there what
// several debug files share), nil when there is none.
//
// It is looked for once while a Module is open. The result must not be kept
// beyond one call into f: it is closed with the last Module.
func (f *File) Alt() (*File, error) {
	if f.findAlt == nil {
		return nil, nil
	}
	return f.findAlt()
}

// sectionAt returns the loaded section that holds vaddr.
func (f *File) sectionAt(vaddr uint64) (Section, bool) {
	for _, s := range f.sections {
		if s.Flags&delf.SHF_ALLOC != 0 && s.Flags&delf.SHF_TLS == 0 && vaddr >= s.Addr && vaddr-s.Addr < s.Size {
			return s, true
		}
	}
	return Section{}, false
}

// ReaderAt returns the bytes of a section as they stand in the file, without
// loading them: of a compressed section the compressed bytes, of SHT_NOBITS none.
func (f *File) ReaderAt(s Section) io.ReaderAt {
	if s.Type == delf.SHT_NOBITS {
		return io.NewSectionReader(f.r, 0, 0)
	}
	return io.NewSectionReader(f.r, int64(s.Offset), int64(s.Size))
}

// readAt reads n bytes at off, which the caller has bounded.
func (f *File) readAt(off, n uint64) ([]byte, error) {
	if off > uint64(f.size) || n > uint64(f.size)-off {
		return nil, fmt.Errorf("read %d bytes at %#x of a file of %d: %w", n, off, f.size, ErrFormat)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(f.r, int64(off), int64(n)), b); err != nil {
		return nil, fmt.Errorf("read %d bytes at %#x: %w", n, off, err)
	}
	return b, nil
}
