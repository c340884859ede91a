package elf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Module is a file as one request uses it: the file, the separate file that has
// its debug information, and where to look for that. Its methods may be called
// from any number of goroutines until Close.
type Module struct {
	s    *Symbolizer
	path string
	find finder
	main *entry

	mu       sync.Mutex // above the fields below
	looked   bool
	debug    *entry // nil when there is none
	warnings []string
	closed   bool
}

// Frame is what is known of one address.
//
// Shape: Symbol is demangled, RawSymbol as the linker wrote it, without a symbol
// version. Inline is empty when nothing is inlined there; otherwise innermost
// first, entry 0 with the position of the address, the physical function last.
// Absent: Symbol is "" when no name is known; Guess is true when the name is only
// the nearest one; SourceFile is "" and Line 0 without debug information.
type Frame struct {
	Symbol       string
	RawSymbol    string
	SymbolOffset uint64
	Guess        bool
	SourceFile   string
	Line         int
	Inline       []Location
}

// Close ends the use of the file. With its last Module its descriptor is closed,
// and those of the files that belong to it.
func (m *Module) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.closed = true
	if m.debug != nil {
		m.debug.release(m)
		m.debug = nil
	}
	m.main.release(m)
}

// Warnings returns what could not be used, as sentences, each once.
func (m *Module) Warnings() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.warnings)
}

const maxModuleWarnings = 16 // warnings of one module; further ones are dropped

// warn keeps an error as a warning. m.mu is not held.
func (m *Module) warn(err error) {
	if err == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.warnLocked(err)
}

func (m *Module) warnLocked(err error) {
	text := fmt.Sprintf("%s: %v", m.name(), err)
	if len(m.warnings) < maxModuleWarnings && !slices.Contains(m.warnings, text) {
		m.warnings = append(m.warnings, text)
	}
}

func (m *Module) name() string {
	if m.path != "" {
		return m.path
	}
	return fmt.Sprintf("file %d:%d", m.main.key.Dev, m.main.key.Inode)
}

// File returns the mapped file itself.
func (m *Module) File() *File {
	f, _ := m.main.opened.get(m.main.open) // it succeeded when the Module was made
	return f
}

// Guard asks one kind of question of the mapped file. A panic on its contents
// comes back as an error; the same kind of question then fails at once for this
// file, until it is read anew.
func (m *Module) Guard(kind string, ask func(*File) error) error {
	f := m.File()
	err := m.main.guard(kind, func() error { return ask(f) })
	m.warn(err)
	return err
}

// debugFile finds the separate debug file, once.
func (m *Module) debugFile() *entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.looked || m.closed {
		return m.debug
	}
	m.looked = true
	f := m.File()
	var err error
	m.debug, _, err = m.find.debug(m.main, f, m)
	if err != nil {
		m.warnLocked(err)
	}
	return m.debug
}

// Symbol returns the name at vaddr and how far behind its start vaddr is: from
// the file, or from its debug file when that alone has a full table. The name is
// demangled; ok is false when no name is known.
func (m *Module) Symbol(vaddr uint64) (name string, offset uint64, guess, ok bool) {
	sym, guess, ok := m.symbol(vaddr)
	if !ok {
		return "", 0, false, false
	}
	return m.demangle(sym.Name), vaddr - sym.Value, guess, true
}

func (m *Module) symbol(vaddr uint64) (sym Symbol, guess, ok bool) {
	f := m.File()
	order := []*entry{m.main}
	if !f.hasSymtab() {
		if d := m.debugFile(); d != nil {
			order = []*entry{d, m.main}
		}
	}
	var hint Symbol
	for _, e := range order {
		err := e.guard("symbols", func() error {
			f, err := e.opened.get(e.open)
			if err != nil {
				return err
			}
			sym, guess, ok = f.Symbol(vaddr)
			return f.SymbolError()
		})
		m.warn(err)
		if ok && !guess {
			return sym, false, true
		}
		if ok && hint.Name == "" {
			hint = sym
		}
	}
	return hint, hint.Name != "", hint.Name != ""
}

// Frame returns what is known of vaddr. For a return address the caller looks up
// the byte before it. Nothing known is a zero Frame, never an error: what went
// wrong is in Warnings.
//
// The name comes from the symbol that covers vaddr, else from the debug
// information, else it is the nearest one, as a guess.
func (m *Module) Frame(vaddr uint64) Frame {
	var fr Frame
	sym, guess, named := m.symbol(vaddr)
	locs, e := m.locate(vaddr)
	if n := len(locs); n > 0 && locs[n-1].Function != "" && (!named || guess) {
		if start, ok := m.functionStart(e, vaddr); ok {
			sym, guess, named = Symbol{Name: locs[n-1].Function, Value: start}, false, true
		}
	}
	if named {
		fr.RawSymbol = unversioned(sym.Name)
		fr.Symbol = m.demangle(sym.Name)
		fr.SymbolOffset, fr.Guess = vaddr-sym.Value, guess
	}
	if len(locs) == 0 {
		return fr
	}
	fr.SourceFile, fr.Line = locs[0].File, locs[0].Line
	if len(locs) > 1 {
		for i := range locs {
			locs[i].Function = m.demangle(locs[i].Function)
		}
		fr.Inline = locs
	}
	return fr
}

// locate asks the file that has debug information, and returns which one it was.
// The result is the caller's.
func (m *Module) locate(vaddr uint64) ([]Location, *entry) {
	e := m.main
	if _, ok := m.File().Section(".debug_info"); !ok {
		if e = m.debugFile(); e == nil {
			return nil, nil
		}
	}
	var locs []Location
	m.warn(e.guard("lines", func() error {
		f, err := e.opened.get(e.open)
		if err != nil {
			return err
		}
		locs, err = f.Locate(vaddr)
		if cause := errors.Unwrap(err); cause != nil {
			err = cause // without the address: one warning for all
		}
		// Names that stand in the alternate file are left out without it.
		_, altErr := f.Alt()
		return errors.Join(err, altErr)
	}))
	return locs, e
}

func (m *Module) functionStart(e *entry, vaddr uint64) (start uint64, ok bool) {
	m.warn(e.guard("lines", func() error {
		f, err := e.opened.get(e.open)
		if err != nil {
			return err
		}
		start, ok = f.functionStart(vaddr)
		return nil
	}))
	return start, ok
}

// demangle cuts the symbol version off and demangles, a panic inside.
func (m *Module) demangle(raw string) string {
	raw = unversioned(raw)
	out := raw
	m.warn(m.main.guard("demangling", func() error {
		out = Demangle(raw)
		return nil
	}))
	return out
}

// unversioned cuts what binutils appends to a name in .symtab: memcpy@@GLIBC_2.14.
func unversioned(name string) string {
	i := strings.IndexByte(name, '@')
	if i <= 0 || name[i:] == "@plt" {
		return name
	}
	return name[:i]
}
