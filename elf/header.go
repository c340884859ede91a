package elf

import (
	"bytes"
	delf "debug/elf"
	"encoding/binary"
	"fmt"
)

var le = binary.LittleEndian

// layout is where the fields of one ELF class lie (elf(5), Elf32_* and Elf64_*).
type layout struct {
	class                       int
	ehdr, phdr, shdr, sym, chdr uint64 // sizes
}

var (
	layout64 = layout{64, 64, 56, 64, 24, 24}
	layout32 = layout{32, 52, 32, 40, 16, 12}
)

func (f *File) layout() layout {
	if f.class == 32 {
		return layout32
	}
	return layout64
}

// readHeaders reads the ELF header and both tables. debug/elf is not used for
// it: it trusts counts and string offsets, and keeps a copy of every name.
func (f *File) readHeaders() error {
	n := min(uint64(f.size), layout64.ehdr)
	h, err := f.readAt(0, n)
	if err != nil {
		return fmt.Errorf("read ELF header: %w", err)
	}
	if len(h) < 20 || string(h[:4]) != delf.ELFMAG {
		return fmt.Errorf("read ELF header: no ELF magic: %w", ErrFormat)
	}
	switch delf.Class(h[delf.EI_CLASS]) {
	case delf.ELFCLASS64:
		f.class = 64
	case delf.ELFCLASS32:
		f.class = 32
	default:
		return fmt.Errorf("read ELF header: class %d: %w", h[delf.EI_CLASS], ErrFormat)
	}
	if delf.Data(h[delf.EI_DATA]) != delf.ELFDATA2LSB {
		return fmt.Errorf("read ELF header: not little endian: %w", ErrFormat)
	}
	l := f.layout()
	if uint64(len(h)) < l.ehdr {
		return fmt.Errorf("read ELF header: %d bytes: %w", len(h), ErrFormat)
	}
	f.typ, f.machine = delf.Type(le.Uint16(h[16:])), le.Uint16(h[18:])

	var phoff, shoff uint64
	var rest []byte // e_flags and what follows
	if f.class == 64 {
		f.entry, phoff, shoff, rest = le.Uint64(h[24:]), le.Uint64(h[32:]), le.Uint64(h[40:]), h[48:]
	} else {
		f.entry, phoff, shoff, rest = uint64(le.Uint32(h[24:])), uint64(le.Uint32(h[28:])), uint64(le.Uint32(h[32:])), h[36:]
	}
	phentsize, phnum := uint64(le.Uint16(rest[6:])), uint64(le.Uint16(rest[8:]))
	shentsize, shnum, shstrndx := uint64(le.Uint16(rest[10:])), uint64(le.Uint16(rest[12:])), uint64(le.Uint16(rest[14:]))

	if shoff != 0 {
		if shentsize != l.shdr {
			f.warn("section headers of %d bytes are not read", shentsize)
		} else if err := f.readSections(shoff, shnum, shstrndx, &phnum); err != nil {
			f.warn("no sections: %v", err)
			f.sections = nil
		}
	}
	if phnum == 0 || phoff == 0 {
		return nil
	}
	if phentsize != l.phdr {
		return fmt.Errorf("read program headers: %d bytes each: %w", phentsize, ErrFormat)
	}
	return f.readSegments(phoff, phnum)
}

func (f *File) warn(format string, args ...any) {
	f.warnings = append(f.warnings, fmt.Sprintf(format, args...))
}

func (f *File) readSegments(off, n uint64) error {
	if n > maxSegments {
		return fmt.Errorf("read program headers: %d of them: %w", n, ErrTooBig)
	}
	size := f.layout().phdr
	b, err := f.readAt(off, n*size)
	if err != nil {
		return fmt.Errorf("read program headers: %w", err)
	}
	for ; len(b) > 0; b = b[size:] {
		var s Segment
		if f.class == 64 {
			s = Segment{le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint64(b[32:]), le.Uint64(b[40:]), le.Uint32(b[4:])}
		} else {
			s = Segment{uint64(le.Uint32(b[4:])), uint64(le.Uint32(b[8:])), uint64(le.Uint32(b[16:])), uint64(le.Uint32(b[20:])), le.Uint32(b[24:])}
		}
		switch delf.ProgType(le.Uint32(b)) {
		case delf.PT_LOAD:
			f.segments = append(f.segments, s)
		case delf.PT_NOTE:
			f.notes = append(f.notes, s)
		case delf.PT_GNU_EH_FRAME:
			f.ehFrameHdr = s
		}
	}
	return nil
}

// readSections fills f.sections. phnum is corrected when the real number stands
// in section 0 (PN_XNUM), as are the section count and the index of the names.
func (f *File) readSections(off, n, names uint64, phnum *uint64) error {
	size := f.layout().shdr
	const extended = 0xffff // PN_XNUM and SHN_XINDEX
	if n == 0 || names == extended || *phnum == extended {
		b, err := f.readAt(off, size)
		if err != nil {
			return fmt.Errorf("read section header 0: %w", err)
		}
		s, _ := f.parseSection(b)
		if n == 0 {
			n = s.Size
		}
		if names == extended {
			names = uint64(s.Link)
		}
		if *phnum == extended {
			*phnum = uint64(s.Info)
		}
	}
	if n > maxSections {
		return fmt.Errorf("read section headers: %d of them: %w", n, ErrTooBig)
	}
	b, err := f.readAt(off, n*size)
	if err != nil {
		return fmt.Errorf("read section headers: %w", err)
	}
	f.sections = make([]Section, n)
	offsets := make([]uint32, n)
	for i := range f.sections {
		f.sections[i], offsets[i] = f.parseSection(b[uint64(i)*size:])
	}
	if names >= n {
		return nil
	}
	st := f.sections[names]
	if st.Type == delf.SHT_NOBITS || st.Size > maxNameTable {
		return fmt.Errorf("read section names: %d bytes: %w", st.Size, ErrTooBig)
	}
	table, err := f.readAt(st.Offset, st.Size)
	if err != nil {
		return fmt.Errorf("read section names: %w", err)
	}
	for i := range f.sections {
		s := &f.sections[i]
		s.Name = cString(table, uint64(offsets[i]), maxSectionLen)
		if len(s.Name) > 8 && s.Name[:8] == ".zdebug_" {
			s.Compressed = true
		}
	}
	return nil
}

func (f *File) parseSection(b []byte) (s Section, name uint32) {
	name = le.Uint32(b)
	s.Type = delf.SectionType(le.Uint32(b[4:]))
	if f.class == 64 {
		s.Flags = delf.SectionFlag(le.Uint64(b[8:]))
		s.Addr, s.Offset, s.Size = le.Uint64(b[16:]), le.Uint64(b[24:]), le.Uint64(b[32:])
		s.Link, s.Info, s.EntSize = le.Uint32(b[40:]), le.Uint32(b[44:]), le.Uint64(b[56:])
	} else {
		s.Flags = delf.SectionFlag(le.Uint32(b[8:]))
		s.Addr, s.Offset, s.Size = uint64(le.Uint32(b[12:])), uint64(le.Uint32(b[16:])), uint64(le.Uint32(b[20:]))
		s.Link, s.Info, s.EntSize = le.Uint32(b[24:]), le.Uint32(b[28:]), uint64(le.Uint32(b[36:]))
	}
	s.Compressed = s.Flags&delf.SHF_COMPRESSED != 0
	return s, name
}

// cString returns the text at off up to a NUL, the end of b or limit bytes.
func cString(b []byte, off uint64, limit int) string {
	if off >= uint64(len(b)) {
		return ""
	}
	b = b[off:]
	b = b[:min(len(b), limit)]
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// readBuildID looks for NT_GNU_BUILD_ID in the note sections, then in the note
// segments, which a file without section headers still has.
func (f *File) readBuildID() {
	for _, s := range f.sections {
		if s.Type == delf.SHT_NOTE && f.findBuildID(s.Offset, s.Size) {
			return
		}
	}
	for _, s := range f.notes {
		if f.findBuildID(s.Offset, s.Filesz) {
			return
		}
	}
}

func (f *File) findBuildID(off, size uint64) bool {
	if size > maxNoteBytes {
		return false
	}
	b, err := f.readAt(off, size)
	if err != nil {
		return false
	}
	f.buildID, f.buildIDAt = buildIDFromNotes(b), noteAt{off, size}
	return f.buildID != nil
}

// noteAt is where the notes that hold the build-id lie in the file, bytes.
type noteAt struct{ off, size uint64 }

// buildIDFromNotes returns the first build-id of a run of notes, nil if there is
// none or it is of an unlikely length. elf(5): Elf64_Nhdr, names and values are
// padded to 4 bytes.
func buildIDFromNotes(b []byte) []byte {
	const gnuBuildID = 3 // NT_GNU_BUILD_ID, include/elf/common.h of binutils
	for len(b) >= 12 {
		namesz, descsz, typ := uint64(le.Uint32(b)), uint64(le.Uint32(b[4:])), le.Uint32(b[8:])
		b = b[12:]
		nameEnd, descEnd := (namesz+3)&^3, (descsz+3)&^3
		if nameEnd > uint64(len(b)) || descsz > uint64(len(b))-nameEnd {
			return nil
		}
		desc := b[nameEnd : nameEnd+descsz]
		if typ == gnuBuildID && string(b[:namesz]) == "GNU\x00" && descsz > 0 && descsz <= maxBuildID {
			return bytes.Clone(desc)
		}
		b = b[min(nameEnd+descEnd, uint64(len(b))):]
	}
	return nil
}
