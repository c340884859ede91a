package elf

import (
	"bytes"
	delf "debug/elf"
	"fmt"
	"sort"
)

const (
	maxPLTBytes   = 1 << 20 // bytes of one procedure linkage table that are read
	maxRelocs     = 1 << 17 // relocations of one file that are read for it, 3 MiB
	pltTableEntry = 16      // bytes of one pltSlot
	relaSize      = 24      // Elf64_Rela
)

// pltTable says which symbol each slot of the global offset table is for.
type pltTable struct {
	slots []pltSlot // by address
	jumps []uint32  // symbol of each entry of .rela.plt, in its order
}

type pltSlot struct {
	addr uint64
	sym  uint32
}

// pltSymbol names a stub through which a function of another file is called, as
// disassemblers do: puts@plt. Stubs have no symbols of their own.
//
// Source: psABI x86-64, "Procedure Linkage Table"; .plt.sec of GNU ld since 2.29.
func (f *File) pltSymbol(d *loaded, vaddr uint64) (Symbol, bool) {
	s, ok := f.sectionAt(vaddr)
	if !ok || f.class != 64 || f.machine != uint16(delf.EM_X86_64) || s.Type == delf.SHT_NOBITS || s.Size > maxPLTBytes {
		return Symbol{}, false
	}
	size := uint64(16)
	switch s.Name {
	case ".plt", ".plt.sec":
	case ".plt.got":
		if s.EntSize == 8 {
			size = 8
		}
	default:
		return Symbol{}, false
	}
	in := (vaddr - s.Addr) / size * size
	if in+size > s.Size {
		return Symbol{}, false
	}
	code, err := f.readAt(s.Offset+in, size)
	if err != nil {
		return Symbol{}, false
	}
	t, err := d.plt.get(f.readPLT)
	if err != nil {
		return Symbol{}, false
	}
	sym, ok := t.target(code, s.Addr+in)
	if !ok {
		return Symbol{}, false
	}
	name, err := f.dynamicName(sym)
	if err != nil || name == "" {
		return Symbol{}, false
	}
	return Symbol{name + "@plt", s.Addr + in, size}, true
}

// target finds what a stub at vaddr jumps to: jmp *slot(%rip), or the number
// that it pushes for the dynamic linker.
func (t *pltTable) target(code []byte, vaddr uint64) (sym uint32, ok bool) {
	at := uint64(0)
	if bytes.HasPrefix(code, []byte{0xf3, 0x0f, 0x1e, 0xfa}) { // endbr64
		at = 4
	}
	if len(code) > int(at) && code[at] == 0xf2 { // bnd
		at++
	}
	b := code[at:]
	switch {
	case len(b) >= 6 && b[0] == 0xff && b[1] == 0x25:
		slot := vaddr + at + 6 + uint64(int64(int32(le.Uint32(b[2:]))))
		i := sort.Search(len(t.slots), func(i int) bool { return t.slots[i].addr >= slot })
		if i < len(t.slots) && t.slots[i].addr == slot {
			return t.slots[i].sym, true
		}
	case len(b) >= 5 && b[0] == 0x68:
		if n := le.Uint32(b[1:]); uint64(n) < uint64(len(t.jumps)) {
			return t.jumps[n], true
		}
	}
	return 0, false
}

// readPLT reads the relocations that fill the slots.
func (f *File) readPLT() (*pltTable, error) {
	t := new(pltTable)
	for _, name := range []string{".rela.plt", ".rela.dyn"} {
		s, ok := f.Section(name)
		if !ok || s.Type != delf.SHT_RELA || s.Compressed {
			continue
		}
		n := s.Size / relaSize
		if n > maxRelocs {
			return nil, fmt.Errorf("read section %s: %d relocations: %w", name, n, ErrTooBig)
		}
		b, err := f.readAt(s.Offset, n*relaSize)
		if err != nil {
			return nil, fmt.Errorf("read section %s: %w", name, err)
		}
		if err := f.charge(int64(n) * (pltTableEntry + 4)); err != nil {
			return nil, err
		}
		for ; len(b) > 0; b = b[relaSize:] {
			info := le.Uint64(b[8:])
			sym := uint32(info >> 32)
			if name == ".rela.plt" {
				t.jumps = append(t.jumps, sym)
			}
			switch delf.R_X86_64(uint32(info)) {
			case delf.R_X86_64_JMP_SLOT, delf.R_X86_64_GLOB_DAT:
				t.slots = append(t.slots, pltSlot{le.Uint64(b), sym})
			}
		}
	}
	sort.SliceStable(t.slots, func(i, j int) bool { return t.slots[i].addr < t.slots[j].addr })
	return t, nil
}

// dynamicName reads the name of symbol i of .dynsym, "" for none.
func (f *File) dynamicName(i uint32) (string, error) {
	s, ok := f.Section(".dynsym")
	if !ok || i == 0 || s.Compressed || s.Type == delf.SHT_NOBITS || int(s.Link) >= len(f.sections) {
		return "", nil
	}
	off := uint64(i) * layout64.sym
	if off+layout64.sym > s.Size {
		return "", nil
	}
	b, err := f.readAt(s.Offset+off, 4)
	if err != nil {
		return "", err
	}
	return readName(f.ReaderAt(f.sections[s.Link]), int64(le.Uint32(b)))
}
