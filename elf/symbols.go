package elf

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
)

const (
	maxSymbolName    = 4096      // bytes of one raw symbol name
	maxNested        = 64        // enclosing symbols that one lookup goes through
	maxAliases       = 64        // names of one address that are compared
	maxGuessDistance = 16 << 10  // bytes behind a symbol without size that it is still a hint for
	namePiece        = 128       // bytes of a name read at once
	keptNameCost     = 16 + 2*24 // bytes of one entry of the name cache beside its text
)

// Symbol is one entry of a symbol table.
//
// Shape: Name is raw, as the linker wrote it.
// Units: Size in bytes, 0 when the table does not say.
type Symbol struct {
	Name        string
	Value, Size uint64
}

// Symbol returns the function symbol at vaddr, from .symtab, or else from
// .dynsym and .gnu_debugdata together.
//
// A symbol whose size covers vaddr wins, the one that starts last if there are
// several. Otherwise guess is true and the symbol is a hint: the nearest lower
// one, which has no size, in the same section. There is no hint behind the end of
// a symbol that has one, and none from .dynsym, which lacks most functions.
// A stub that calls a function of another file is that function's name with @plt.
// Of several names for one address an exported one wins, then one with fewer
// leading underscores, then global before weak, the longer size, the shorter name.
func (f *File) Symbol(vaddr uint64) (sym Symbol, guess, ok bool) {
	d := f.use()
	defer f.done()
	if t, err := d.symbols.get(f.readSymbols); err == nil {
		sym, guess, ok = t.lookup(f, vaddr)
	}
	if !ok || guess {
		if stub, found := f.pltSymbol(d, vaddr); found {
			return stub, false, true
		}
	}
	return sym, guess, ok
}

// SymbolError returns why a file has no symbols although it has a table, nil
// when nothing went wrong. It reads the table if that has not happened yet.
func (f *File) SymbolError() error {
	d := f.use()
	defer f.done()
	t, err := d.symbols.get(f.readSymbols)
	if err != nil {
		return err
	}
	return t.err
}

// hasSymtab tells whether the file has the full table, not only the exported one.
func (f *File) hasSymtab() bool {
	s, ok := f.Section(".symtab")
	return ok && s.Size > 0 && s.Type != 8 // SHT_NOBITS
}

// symbolTable is a compact index of the function symbols of a file. Names stay
// where they are until one is asked for.
type symbolTable struct {
	syms  []symbol      // by value
	names []io.ReaderAt // the string tables, by symbol.table
	full  bool          // from .symtab: a symbol without size may serve as a hint
	err   error         // what was left out

	kept lazyNames
}

// symbol is 24 bytes, since large programs have a million of them.
type symbol struct {
	value  uint64
	size   uint32
	name   uint32 // offset in the string table
	parent uint32 // 1 + index of the nearest earlier symbol that ends later
	table  uint8  // index into symbolTable.names
	bind   uint8  // 0 local, 1 weak, 2 global
}

func (s symbol) end() uint64 {
	if e := s.value + uint64(s.size); e >= s.value {
		return e
	}
	return ^uint64(0)
}

// link sorts the symbols and sets parent. Every symbol that covers an address is
// on the chain of parents of the last symbol that starts at or below it.
func (t *symbolTable) link() {
	slices.SortFunc(t.syms, func(a, b symbol) int {
		switch { // most of the time of a first lookup is spent here
		case a.value < b.value:
			return -1
		case a.value > b.value:
			return 1
		}
		return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.table, b.table), cmp.Compare(a.name, b.name))
	})
	for i := range t.syms {
		p := i
		for p > 0 && t.syms[p-1].end() <= t.syms[i].end() {
			p = int(t.syms[p-1].parent)
		}
		t.syms[i].parent = uint32(p)
	}
}

func (t *symbolTable) lookup(f *File, vaddr uint64) (sym Symbol, guess, ok bool) {
	last := sort.Search(len(t.syms), func(i int) bool { return t.syms[i].value > vaddr }) - 1
	if last < 0 {
		return Symbol{}, false, false
	}
	for i, n := last, 0; i >= 0 && n < maxNested; i, n = int(t.syms[i].parent)-1, n+1 {
		if t.syms[i].end() > vaddr {
			sym, ok = t.best(f, i, func(s symbol) bool { return s.end() > vaddr })
			return sym, false, ok
		}
	}
	s := t.syms[last]
	if !t.full || s.size != 0 || vaddr-s.value > maxGuessDistance || !f.sameSection(s.value, vaddr) {
		return Symbol{}, false, false
	}
	sym, ok = t.best(f, last, func(s symbol) bool { return s.size == 0 })
	return sym, ok, ok
}

// sameSection tells whether two addresses lie in one loaded section. A file
// without section headers cannot say so.
func (f *File) sameSection(a, b uint64) bool {
	s, ok := f.sectionAt(a)
	return ok && b >= s.Addr && b-s.Addr < s.Size
}

// best returns the best of the symbols that start where symbol i does.
func (t *symbolTable) best(f *File, i int, fits func(symbol) bool) (Symbol, bool) {
	value := t.syms[i].value
	for i > 0 && t.syms[i-1].value == value {
		i--
	}
	var best Symbol
	var bestSym symbol
	for n := 0; i < len(t.syms) && t.syms[i].value == value && n < maxAliases; i++ {
		s := t.syms[i]
		if !fits(s) {
			continue
		}
		n++
		name := t.name(f, s)
		if name == "" {
			continue
		}
		if best.Name == "" || better(s, name, bestSym, best.Name) {
			best, bestSym = Symbol{name, s.value, uint64(s.size)}, s
		}
	}
	return best, best.Name != ""
}

func better(a symbol, an string, b symbol, bn string) bool {
	rank := func(s symbol, name string) int {
		switch {
		case s.bind == 0:
			return 0
		case strings.Contains(name, "@"): // an old version of a name that has a newer one elsewhere
			return 1
		}
		return 2
	}
	return cmp.Or(
		cmp.Compare(rank(a, an), rank(b, bn)),
		cmp.Compare(underscores(bn), underscores(an)),
		cmp.Compare(a.bind, b.bind),
		cmp.Compare(a.size, b.size),
		cmp.Compare(len(bn), len(an)),
		cmp.Compare(bn, an)) > 0
}

// underscores counts those a name begins with; the _Z and _R of a mangled name
// are no reservation of the implementation's.
func underscores(name string) int {
	if mangled(name) {
		return 0
	}
	return len(name) - len(strings.TrimLeft(name, "_"))
}

// name reads the name of a symbol, "" when it is outside its table or too long.
func (t *symbolTable) name(f *File, s symbol) string {
	id := uint64(s.table)<<32 | uint64(s.name)
	if name, ok := t.kept.get(id); ok {
		return name
	}
	name, err := readName(t.names[s.table], int64(s.name))
	if err != nil {
		return ""
	}
	if f.charge(int64(len(name)+keptNameCost)) == nil {
		t.kept.put(id, name)
	}
	return name
}

func readName(r io.ReaderAt, off int64) (string, error) {
	var name []byte
	for len(name) < maxSymbolName {
		var piece [namePiece]byte
		n, err := r.ReadAt(piece[:], off+int64(len(name)))
		if i := bytes.IndexByte(piece[:n], 0); i >= 0 {
			return string(append(name, piece[:i]...)), nil
		}
		name = append(name, piece[:n]...)
		if err != nil {
			return "", fmt.Errorf("read symbol name: %w", err)
		}
	}
	return "", fmt.Errorf("read symbol name: over %d bytes: %w", maxSymbolName, ErrTooBig)
}
