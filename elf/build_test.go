package elf

import (
	"bytes"
	delf "debug/elf"
	"os"
	"path/filepath"
	"testing"
)

// testSection is a section of a file made by buildELF. Its offset and size are
// filled in unless claim overrides them.
type testSection struct {
	name    string
	typ     delf.SectionType
	flags   delf.SectionFlag
	addr    uint64
	data    []byte
	link    uint32
	entsize uint64
	claim   func(offset, size uint64) (uint64, uint64)
}

// buildELF makes an ELF64 file for x86-64 of the sections, numbered from 1, with
// the names as the last one.
func buildELF(sections ...testSection) []byte {
	l := layout64
	names := []byte{0}
	offsets := make([]uint32, len(sections)+1)
	for i, s := range sections {
		offsets[i] = uint32(len(names))
		names = append(append(names, s.name...), 0)
	}
	offsets[len(sections)] = uint32(len(names))
	names = append(names, ".shstrtab\x00"...)
	sections = append(sections[:len(sections):len(sections)], testSection{name: ".shstrtab", typ: delf.SHT_STRTAB, data: names})

	b := make([]byte, l.ehdr)
	headers := make([]byte, l.shdr)
	for i, s := range sections {
		for len(b)%8 != 0 {
			b = append(b, 0)
		}
		off, size := uint64(len(b)), uint64(len(s.data))
		b = append(b, s.data...)
		if s.claim != nil {
			off, size = s.claim(off, size)
		}
		h := make([]byte, l.shdr)
		le.PutUint32(h, offsets[i])
		le.PutUint32(h[4:], uint32(s.typ))
		le.PutUint64(h[8:], uint64(s.flags))
		le.PutUint64(h[16:], s.addr)
		le.PutUint64(h[24:], off)
		le.PutUint64(h[32:], size)
		le.PutUint32(h[40:], s.link)
		le.PutUint64(h[56:], s.entsize)
		headers = append(headers, h...)
	}
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	copy(b, delf.ELFMAG)
	b[delf.EI_CLASS], b[delf.EI_DATA], b[delf.EI_VERSION] = byte(delf.ELFCLASS64), byte(delf.ELFDATA2LSB), byte(delf.EV_CURRENT)
	le.PutUint16(b[16:], uint16(delf.ET_DYN))
	le.PutUint16(b[18:], uint16(delf.EM_X86_64))
	le.PutUint32(b[20:], 1)
	le.PutUint64(b[40:], uint64(len(b)))
	le.PutUint16(b[52:], uint16(l.ehdr))
	le.PutUint16(b[54:], uint16(l.phdr))
	le.PutUint16(b[58:], uint16(l.shdr))
	le.PutUint16(b[60:], uint16(len(sections)+1))
	le.PutUint16(b[62:], uint16(len(sections)))
	return append(b, headers...)
}

// testSymbol is an entry of a symbol table made by symbolSections.
type testSymbol struct {
	name        string
	value, size uint64
	typ         delf.SymType
	bind        delf.SymBind
	shndx       delf.SectionIndex
}

// symbolSections makes a .text at 0x1000 as section 1, .symtab or .dynsym as
// section 2 and its names as section 3.
func symbolSections(table string, syms ...testSymbol) []testSection {
	names := []byte{0}
	tab := make([]byte, 24)
	for _, s := range syms {
		b := make([]byte, 24)
		le.PutUint32(b, uint32(len(names)))
		b[4] = delf.ST_INFO(s.bind, s.typ)
		le.PutUint16(b[6:], uint16(s.shndx))
		le.PutUint64(b[8:], s.value)
		le.PutUint64(b[16:], s.size)
		tab = append(tab, b...)
		names = append(append(names, s.name...), 0)
	}
	typ, strs := delf.SHT_SYMTAB, ".strtab"
	if table == ".dynsym" {
		typ, strs = delf.SHT_DYNSYM, ".dynstr"
	}
	return []testSection{
		{name: ".text", typ: delf.SHT_PROGBITS, flags: delf.SHF_ALLOC | delf.SHF_EXECINSTR, addr: 0x1000, data: make([]byte, 0x8000)},
		{name: table, typ: typ, data: tab, link: 3, entsize: 24},
		{name: strs, typ: delf.SHT_STRTAB, data: names},
	}
}

func openBytes(t testing.TB, b []byte) *File {
	t.Helper()
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// progFile reads one of the files that testdata/prog/make.sh makes.
func progFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "prog", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func openProg(t testing.TB, name string) *File {
	t.Helper()
	return openBytes(t, progFile(t, name))
}
