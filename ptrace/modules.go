package ptrace

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"

	"golang.org/x/sys/unix"

	"procinsh/elf"
	"procinsh/proc"
)

const (
	maxVDSO        = 64 << 10 // bytes of the vdso that are read from memory
	maxOpenModules = 4096     // files of one process that are opened for symbols
	cachedFrames   = 16384    // addresses of one answer whose names are kept, as frames and as targets of branches
	maxModWarnings = 32       // warnings of one answer about files
	functionHead   = 64       // bytes at a function's start that are searched for its frame pointer
)

// Symbols is what outlives one answer: the files that were read, and the names
// that just-in-time compilers gave to their code. It is safe for concurrent use.
type Symbols struct {
	files *elf.Symbolizer
	jit   perfMaps
}

// NewSymbols returns a Symbols that keeps at most limit bytes of what it reads
// from files; elf.DefaultLimit is what the server gives it.
func NewSymbols(limit int64) *Symbols {
	return &Symbols{files: elf.NewSymbolizer(limit)}
}

// Stats returns the figures of the files.
func (s *Symbols) Stats() elf.Stats { return s.files.Stats() }

// Modules stands between the addresses of one process and those of the files it
// has mapped. It is of one answer and used by one goroutine. Files are opened when
// an address in them is asked for.
type Modules struct {
	symbols *Symbols
	id      proc.ID
	maps    []proc.Mapping // address order
	memory  Memory         // of the vdso
	files   *proc.Files
	own     *proc.Files // nil when the process sees the same files
	roots   []elf.Roots

	state    map[int]*mapped // by position in maps
	opened   map[fileID]*module
	frames   map[uint64]elf.Frame
	names    map[uint64]string
	jit      *perfMap // nil until looked for
	jitNone  bool
	warnings []string
}

type fileID struct {
	major, minor uint32
	inode        uint64
	path         string // of the vdso, which has no inode
}

// module is a file of which something is mapped.
type module struct {
	elf *elf.Module // nil when it could not be opened
}

// mapped is a mapping of a module.
type mapped struct {
	module *module
	bias   uint64
	ok     bool // the bias is known
}

// OpenModules prepares maps, the mappings of the process in address order. memory
// is what the vdso is read from.
//
// Errors: those of proc.FS.OpenProcess.
func OpenModules(fs *proc.FS, id proc.ID, symbols *Symbols, maps []proc.Mapping, memory Memory) (*Modules, error) {
	files, err := fs.OpenFiles(id)
	if err != nil {
		return nil, err
	}
	m := &Modules{
		symbols: symbols, id: id, maps: maps, memory: memory, files: files,
		state: make(map[int]*mapped), opened: make(map[fileID]*module), frames: make(map[uint64]elf.Frame), names: make(map[uint64]string),
	}
	m.roots = []elf.Roots{root{files}}
	if own, err := fs.OwnFiles(); err == nil {
		if own.SameRoot(files) {
			_ = own.Close() // a handle only
		} else {
			m.own = own
			m.roots = append(m.roots, root{own})
		}
	}
	return m, nil
}

// Close ends the use of all files.
func (m *Modules) Close() {
	for _, o := range m.opened {
		if o.elf != nil {
			o.elf.Close()
		}
	}
	clear(m.opened)
	clear(m.state)
	if m.jit != nil {
		m.symbols.jit.release(m.jit)
		m.jit = nil
	}
	_ = m.files.Close() // handles only, here and below
	if m.own != nil {
		_ = m.own.Close()
	}
}

// Warnings returns what could not be used, as sentences.
func (m *Modules) Warnings() []string {
	all := slices.Clone(m.warnings)
	for _, o := range m.opened {
		if o.elf != nil {
			all = append(all, o.elf.Warnings()...)
		}
	}
	if m.jit != nil {
		if w := m.jit.warning(); w != "" {
			all = append(all, w)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if more := len(all) - maxModWarnings; more > 0 {
		all = append(all[:maxModWarnings], fmt.Sprintf("%d more warnings about files", more))
	}
	return all
}

// Mapping returns the mapping that holds addr, nil when nothing is mapped there.
func (m *Modules) Mapping(addr uint64) *proc.Mapping {
	if i := m.find(addr); i >= 0 {
		return &m.maps[i]
	}
	return nil
}

func (m *Modules) find(addr uint64) int {
	i := sort.Search(len(m.maps), func(i int) bool { return m.maps[i].End > addr })
	if i == len(m.maps) || addr < m.maps[i].Start {
		return -1
	}
	return i
}

// Executable tells whether addr lies in code.
func (m *Modules) Executable(addr uint64) bool {
	v := m.Mapping(addr)
	return v != nil && v.Permissions[2] == 'x'
}

// Fixed tells whether the memory at addr cannot change: it is readable and not writable.
func (m *Modules) Fixed(addr uint64) bool {
	v := m.Mapping(addr)
	return v != nil && v.Permissions[0] == 'r' && v.Permissions[1] != 'w'
}

// Code32 tells whether addr lies in a file for 32-bit processes.
func (m *Modules) Code32(addr uint64) bool {
	s := m.at(addr)
	return s != nil && s.module.elf != nil && s.module.elf.File().Class() == 32
}

// at returns the module at addr, nil where no file is mapped.
func (m *Modules) at(addr uint64) *mapped {
	i := m.find(addr)
	if i < 0 {
		return nil
	}
	if s, ok := m.state[i]; ok {
		return s
	}
	s := m.place(&m.maps[i])
	m.state[i] = s
	return s
}

// place finds the module of a mapping and the bias. The bias belongs to the
// mapping: a program may map a piece of a file a second time, as V8 does with the
// code of node.
func (m *Modules) place(v *proc.Mapping) *mapped {
	id := fileID{v.Major, v.Minor, v.Inode, ""}
	if v.Inode == 0 {
		if v.Path != "[vdso]" {
			return nil
		}
		id.path = v.Path
	}
	o := m.opened[id]
	if o == nil {
		o = &module{}
		if len(m.opened) < maxOpenModules {
			o.elf = m.open(v)
		} else {
			m.warn(fmt.Sprintf("more than %d files are mapped; the others were not read for symbols", maxOpenModules))
		}
		m.opened[id] = o
	}
	s := &mapped{module: o}
	if o.elf != nil {
		s.bias, s.ok = biasOf(o.elf.File().Segments(), v)
	}
	return s
}

// biasOf returns the difference between the addresses of a mapping and those in
// the file. Where two segments share a page of the file, the one with the
// permissions of the mapping counts.
func biasOf(segments []elf.Segment, v *proc.Mapping) (bias uint64, ok bool) {
	const page = 4096
	for _, s := range segments {
		from := s.Offset &^ (page - 1)
		if v.FileOffset < from || v.FileOffset-from >= s.Filesz+(s.Offset-from) {
			continue
		}
		// Wraps where the mapping starts in the page before the segment.
		here := v.Start - (s.Vaddr + (v.FileOffset - s.Offset))
		const executable = 1 // PF_X
		if exec := v.Permissions[2] == 'x'; exec == (s.Flags&executable != 0) {
			return here, true
		}
		if !ok {
			bias, ok = here, true
		}
	}
	return bias, ok
}

// open opens the file of a mapping, nil when it is no ELF file or cannot be read.
func (m *Modules) open(v *proc.Mapping) *elf.Module {
	if v.Path == "[vdso]" && v.Inode == 0 {
		return m.openVDSO(v)
	}
	mapping := *v
	first, key, err := openKeyed(func() (*os.File, error) { return m.files.OpenMapping(mapping) })
	if err != nil {
		m.warn("no symbols of " + v.Path + ": " + err.Error())
		return nil
	}
	defer func() {
		if first != nil {
			_ = first.Close() // only looked at
		}
	}()
	var magic [4]byte
	if _, err := first.ReadAt(magic[:], 0); err != nil || string(magic[:]) != "\x7fELF" {
		return nil // mapped data
	}
	open := func() (io.ReaderAt, int64, elf.Key, io.Closer, error) {
		return opened(func() (*os.File, error) { return m.files.OpenMapping(mapping) })
	}
	module, err := m.symbols.files.File(key, open, m.roots, v.Path)
	if err != nil {
		m.warn("no symbols of " + v.Path + ": " + err.Error())
		return nil
	}
	return module
}

func (m *Modules) warn(text string) {
	if len(m.warnings) <= maxModWarnings && !slices.Contains(m.warnings, text) {
		m.warnings = append(m.warnings, text)
	}
}

// openVDSO reads the vdso, which is in no file system, from memory. Its contents
// are its key: all processes of a kernel share one.
func (m *Modules) openVDSO(v *proc.Mapping) *elf.Module {
	b := make([]byte, min(v.End-v.Start, maxVDSO))
	if n, _ := m.memory.ReadAt(b, v.Start); n < len(b) {
		m.warn("no symbols of [vdso]: it could not be read")
		return nil
	}
	sum := sha256.Sum256(b)
	key := elf.Key{
		Dev: ^uint64(0), Inode: binary.LittleEndian.Uint64(sum[:]),
		Size: int64(len(b)), MTime: int64(binary.LittleEndian.Uint64(sum[8:])),
	}
	open := func() (io.ReaderAt, int64, elf.Key, io.Closer, error) {
		return bytes.NewReader(b), key.Size, key, io.NopCloser(nil), nil
	}
	module, err := m.symbols.files.File(key, open, nil, "")
	if err != nil {
		m.warn("no symbols of [vdso]: " + err.Error())
		return nil
	}
	return module
}

// root is a tree of files as the elf package wants it.
type root struct{ files *proc.Files }

// Open implements elf.Roots.
func (r root) Open(path string) (io.ReaderAt, int64, elf.Key, io.Closer, error) {
	return opened(func() (*os.File, error) { return r.files.Open(path) })
}

func opened(open func() (*os.File, error)) (io.ReaderAt, int64, elf.Key, io.Closer, error) {
	f, key, err := openKeyed(open)
	if err != nil {
		return nil, 0, elf.Key{}, nil, err
	}
	return f, key.Size, key, f, nil
}

// openKeyed opens a file and says from the descriptor what it is.
func openKeyed(open func() (*os.File, error)) (*os.File, elf.Key, error) {
	f, err := open()
	if err != nil {
		return nil, elf.Key{}, err
	}
	c, err := f.SyscallConn()
	if err != nil {
		return nil, elf.Key{}, err
	}
	var st unix.Stat_t
	ctlErr := c.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &st) })
	if ctlErr != nil || err != nil {
		_ = f.Close() // only looked at
		return nil, elf.Key{}, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	return f, elf.Key{Dev: st.Dev, Inode: st.Ino, Size: st.Size, MTime: st.Mtim.Nano()}, nil
}

// rules returns the unwind rules at addr and the bias of their addresses.
func (m *Modules) rules(addr uint64) (r elf.Rules, bias uint64, err error) {
	s := m.at(addr)
	if s == nil || s.module.elf == nil || !s.ok {
		return elf.Rules{}, 0, elf.ErrNoFDE
	}
	r, err = s.module.elf.Rules(addr - s.bias)
	return r, s.bias, err
}

// function returns the start of the function that is known to hold addr.
func (m *Modules) function(addr uint64) (start uint64, ok bool) {
	_, offset, ok := m.symbol(addr)
	return addr - offset, ok
}

// lookup returns what the files say of addr.
func (m *Modules) lookup(addr uint64) elf.Frame {
	if f, ok := m.frames[addr]; ok {
		return f
	}
	var f elf.Frame
	if s := m.at(addr); s != nil && s.module.elf != nil && s.ok {
		f = s.module.elf.Frame(addr - s.bias)
	}
	if f.Symbol == "" {
		if name, offset, ok := m.jitName(addr); ok {
			f.Symbol, f.RawSymbol, f.SymbolOffset = elf.Demangle(name), name, offset
		}
	}
	if len(m.frames) < cachedFrames {
		m.frames[addr] = f
	}
	return f
}

// Name returns the function at addr as "name" or "name+0x10", "" when none is
// known for sure; a disassembler shows it for the targets of branches. It reads
// symbol tables, no debug information.
func (m *Modules) Name(addr uint64) string {
	if name, ok := m.names[addr]; ok {
		return name
	}
	name, offset, ok := m.symbol(addr)
	switch {
	case !ok:
		name = ""
	case offset != 0:
		name = fmt.Sprintf("%s+%#x", name, offset)
	}
	if len(m.names) < cachedFrames {
		m.names[addr] = name
	}
	return name
}

// symbol returns the function that is known to hold addr.
func (m *Modules) symbol(addr uint64) (name string, offset uint64, ok bool) {
	if s := m.at(addr); s != nil && s.module.elf != nil && s.ok {
		name, offset, guess, ok := s.module.elf.Symbol(addr - s.bias)
		return name, offset, ok && !guess
	}
	if name, offset, ok = m.jitName(addr); ok {
		name = elf.Demangle(name)
	}
	return name, offset, ok
}

// Frame is one call of a stack, with names.
//
// Absent: Symbol and Module are "", Line is 0. Inline is empty when nothing is inlined.
type Frame struct {
	Address      uint64
	Symbol       string // demangled; the physical function
	SymbolOffset uint64 // of Address
	SourceFile   string
	Line         int
	Module       string // path of the mapped file, or the kernel's name: "[vdso]"
	ModuleOffset uint64 // of Address in that file, bytes
	By           Found
	Guess        bool           // the symbol is only the nearest
	Inline       []elf.Location // innermost first, the physical function last
}

// Symbolize names the frames of a walk. A return address is looked up at the byte
// before it, which belongs to the call.
func (m *Modules) Symbolize(raw []RawFrame) []Frame { return m.symbolize(raw, false) }

// symbolize is Symbolize that with late set reads nothing more.
func (m *Modules) symbolize(raw []RawFrame, late bool) []Frame {
	frames := make([]Frame, len(raw))
	for i, r := range raw {
		f := &frames[i]
		at := r.Lookup()
		known, done := m.frames[at]
		if !done && !late {
			known = m.lookup(at)
		}
		*f = Frame{
			Address: r.PC, Symbol: known.Symbol, SourceFile: known.SourceFile, Line: known.Line,
			By: r.By, Guess: known.Guess, Inline: known.Inline,
		}
		if f.Symbol != "" {
			f.SymbolOffset = known.SymbolOffset + (r.PC - at)
		}
		if v := m.Mapping(at); v != nil && v.Path != "" {
			f.Module = v.Path
			if v.Inode != 0 || v.Path == "[vdso]" {
				f.ModuleOffset = v.FileOffset + (r.PC - v.Start)
			}
		}
	}
	return frames
}
