package elf

import (
	delf "debug/elf"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	maxSymbols  = 2 << 20 // function symbols that one file may have in the index, 48 MiB of it
	symbolCost  = 24      // bytes, the size of symbol
	symbolChunk = 64 << 10
)

// readSymbols builds the index. The exported functions and .gnu_debugdata are
// read only when there is no full table: the latter leaves out what .dynsym has.
func (f *File) readSymbols() (*symbolTable, error) {
	t := new(symbolTable)
	if f.hasSymtab() {
		s, _ := f.Section(".symtab")
		err := f.addSymbols(t, f, s)
		if err == nil && len(t.syms) > 0 {
			t.full = true
			t.link()
			return t, nil
		}
		t.err = err
	}
	if s, ok := f.Section(".dynsym"); ok {
		t.err = errors.Join(t.err, f.addSymbols(t, f, s))
	}
	if s, ok := f.Section(".gnu_debugdata"); ok {
		t.err = errors.Join(t.err, f.addMini(t, s))
	}
	// What may go better the next time is no answer: a file that could not be read,
	// or no room and nothing to show for it.
	if t.err != nil && (len(t.syms) == 0 || !permanent(t.err) && !errors.Is(t.err, ErrBudget)) {
		return nil, t.err
	}
	t.link()
	return t, nil
}

// addSymbols appends the function symbols of one table of from, which is f or
// the small file inside it. Names are read from the linked section later.
func (f *File) addSymbols(t *symbolTable, from *File, s Section) error {
	if s.Type == delf.SHT_NOBITS {
		return nil
	}
	if s.Compressed {
		return fmt.Errorf("read section %s: compressed: %w", s.Name, ErrFormat)
	}
	if int(s.Link) >= len(from.sections) {
		return fmt.Errorf("read section %s: names in section %d of %d: %w", s.Name, s.Link, len(from.sections), ErrFormat)
	}
	strs := from.sections[s.Link]
	if s.Offset > uint64(from.size) || s.Size > uint64(from.size)-s.Offset {
		return fmt.Errorf("read section %s: %d bytes at %#x of a file of %d: %w", s.Name, s.Size, s.Offset, from.size, ErrFormat)
	}
	table := uint8(len(t.names))
	t.names = append(t.names, from.ReaderAt(strs))

	size := from.layout().sym
	chunk := make([]byte, symbolChunk/size*size)
	charged := cap(t.syms)
	for off := uint64(0); off+size <= s.Size; off += uint64(len(chunk)) {
		chunk = chunk[:min(uint64(len(chunk)), (s.Size-off)/size*size)]
		if _, err := io.ReadFull(io.NewSectionReader(from.r, int64(s.Offset+off), int64(len(chunk))), chunk); err != nil {
			return fmt.Errorf("read section %s: %w", s.Name, err)
		}
		for b := chunk; len(b) > 0; b = b[size:] {
			sym, ok := from.functionSymbol(b)
			if !ok {
				continue
			}
			if len(t.syms) == maxSymbols {
				return fmt.Errorf("read section %s: more than %d functions: %w", s.Name, maxSymbols, ErrTooBig)
			}
			if len(t.syms) == cap(t.syms) {
				// Grown by hand, so that it is charged before it is taken.
				grow := max(256, cap(t.syms)/2)
				if err := f.charge(int64(grow) * symbolCost); err != nil {
					return fmt.Errorf("read section %s: %w", s.Name, err)
				}
				charged += grow
				next := make([]symbol, len(t.syms), charged)
				copy(next, t.syms)
				t.syms = next
			}
			sym.table = table
			t.syms = append(t.syms, sym)
		}
	}
	return nil
}

// functionSymbol parses one Elf64_Sym or Elf32_Sym; ok is false unless it names
// code of this file.
func (f *File) functionSymbol(b []byte) (s symbol, ok bool) {
	var info byte
	var shndx delf.SectionIndex
	var size uint64
	s.name = le.Uint32(b)
	if f.class == 64 {
		info, shndx, s.value, size = b[4], delf.SectionIndex(le.Uint16(b[6:])), le.Uint64(b[8:]), le.Uint64(b[16:])
	} else {
		s.value, size = uint64(le.Uint32(b[4:])), uint64(le.Uint32(b[8:]))
		info, shndx = b[12], delf.SectionIndex(le.Uint16(b[14:]))
	}
	s.size = uint32(min(size, 1<<32-1))
	switch delf.ST_BIND(info) {
	case delf.STB_LOCAL:
	case delf.STB_WEAK:
		s.bind = 1
	default: // STB_GLOBAL and STB_GNU_UNIQUE
		s.bind = 2
	}
	switch delf.ST_TYPE(info) {
	case delf.STT_FUNC, delf.STT_GNU_IFUNC, delf.STT_NOTYPE:
	default:
		return symbol{}, false
	}
	if s.name == 0 || shndx == delf.SHN_UNDEF || shndx == delf.SHN_ABS || shndx == delf.SHN_COMMON {
		return symbol{}, false
	}
	return s, f.isCode(shndx, s.value)
}

// isCode tells whether a symbol of section i lies in code.
func (f *File) isCode(i delf.SectionIndex, vaddr uint64) bool {
	if int(i) < len(f.sections) {
		return f.sections[i].Flags&delf.SHF_EXECINSTR != 0
	}
	for _, s := range f.segments { // SHN_XINDEX
		if s.Flags&uint32(delf.PF_X) != 0 && vaddr >= s.Vaddr && vaddr-s.Vaddr < s.Memsz {
			return true
		}
	}
	return false
}

// lazyNames keeps the names that were read once.
type lazyNames struct {
	mu sync.Mutex
	m  map[uint64]string
}

func (n *lazyNames) get(id uint64) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name, ok := n.m[id]
	return name, ok
}

func (n *lazyNames) put(id uint64, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.m == nil {
		n.m = make(map[uint64]string)
	}
	n.m[id] = name
}
