package elf

import (
	"container/list"
	delf "debug/elf"
	"errors"
	"fmt"
	"sync"
	"unsafe"
)

const (
	maxDebugUnits   = 1 << 18  // units of one file; a browser has some 60,000
	maxDebugRanges  = 1 << 20  // address ranges of one file's units, and of one unit's functions
	maxDebugRows    = 4 << 20  // rows of one unit's line table
	maxDebugWork    = 1 << 27  // DIEs, attributes, ranges, rows and their like read from one file in one go: some seconds
	maxDebugDepth   = 1024     // nested DIEs
	maxDebugName    = 4096     // bytes of a function, file or directory name
	maxInlined      = 128      // functions inlined into each other that are told
	maxOrigins      = 16       // DIEs that a function's name is followed through
	maxUnitsKept    = 32 << 20 // bytes of parsed units kept for one file
	debugUnitCost   = 768      // bytes a unit is charged beside its tables
	debugNameCost   = 64       // bytes a kept name is charged beside its text
	maxLineFiles    = 1 << 17  // files and directories of one unit's line table
	maxLineFormats  = 32       // fields of a file or directory entry; DWARF 5 knows five
	maxScopesNested = 64       // namespaces, classes and functions told before a name
)

// Location is a source position and the function it belongs to.
//
// Shape: Function is the linkage name where there is one (C++, Rust: mangled);
// else the name in the source, behind its namespaces and classes in C++. File is
// absolute when the compiler recorded its directory.
// Absent: Function and File are "" and Line is 0 when they are not known.
type Location struct {
	Function, File string
	Line           int
}

// Locate returns the functions at vaddr, innermost first: entry 0 has the exact
// position, each next one the position of the call, the last is the physical
// function. Where nothing is inlined there is one entry.
//
// Shape: at most 128 entries; of a longer chain the innermost and the physical
// function are told. An assembler source gives an entry with no Function. So does
// split DWARF, whose functions are in .dwo files that are not read.
// Absent: nil when there is no debug information for vaddr.
// Errors: ErrFormat, ErrTooBig, ErrBudget, or what the file returned; the result
// is nil then. An error may concern one unit of the file only.
// Source: DWARF 2 to 5; GNU extensions of dwz(1).
func (f *File) Locate(vaddr uint64) ([]Location, error) {
	l := f.use()
	defer f.done()
	locs, err := l.dwarf.locate(f, vaddr)
	if err != nil {
		return nil, fmt.Errorf("locate %#x: %w", vaddr, err)
	}
	return locs, nil
}

// dwData is what has been read of the debug information of one file. Nothing is
// read before it is needed, and parsed units go when others need the room.
//
// A file that is another one's alternate has a second dwData for that, so that
// files which name each other cannot wait for each other.
type dwData struct {
	mu sync.Mutex // above all fields; of a file before that of its alternate

	f     *File // nil until the first use
	isAlt bool
	bytes int64    // charged to the budget
	work  int64    // see spend
	stale bool     // something failed that may not fail again
	exec  []dwSpan // segments with code

	info, abbrev, line, strs, lineStr, strOffsets, addr, aranges, ranges, rnglists dwSource

	// The units by address.
	listed    bool
	listErr   error
	spans     []dwSpan // of .debug_aranges
	spanUnits []uint64 // offsets in .debug_info, by the id of a span
	scanned   bool
	scanErr   error
	more      []dwSpan // of the other units; same ids

	// The units by offset.
	starts   []uint64
	next     uint64 // where the header behind starts is
	startErr error

	units     map[uint64]*dwUnit
	lru       *list.List // of *dwUnit, most recently used first
	unitBytes int64      // charged by units
	tables    map[dwAbbrevKey]*dwAbbrevs

	alt     *dwData // locked, for the present call
	altFile *File
}

// begin names the sections. d.mu is held.
func (d *dwData) begin(f *File) {
	if d.f != nil {
		return
	}
	d.f = f
	d.units, d.lru = make(map[uint64]*dwUnit), list.New()
	d.tables = make(map[dwAbbrevKey]*dwAbbrevs)
	source := func(name string, step uint64) dwSource { return dwSource{d: d, name: name, step: step} }
	const block = 4 << 10 // tables in which the next look is near the last
	d.info = source(".debug_info", 0)
	d.abbrev = source(".debug_abbrev", 0)
	d.line = source(".debug_line", 0)
	d.strs = source(".debug_str", 0)
	d.lineStr = source(".debug_line_str", block)
	d.strOffsets = source(".debug_str_offsets", block)
	d.addr = source(".debug_addr", block)
	d.aranges = source(".debug_aranges", 0)
	d.ranges = source(".debug_ranges", block)
	d.rnglists = source(".debug_rnglists", block)
	var exec []dwRange
	for _, s := range f.segments {
		if s.Flags&uint32(delf.PF_X) != 0 {
			exec = append(exec, dwRange{lo: s.Vaddr, hi: s.Vaddr + min(s.Memsz, maxSpan)})
		}
	}
	d.exec = flattenRanges(exec)
}

// charge accounts for n more bytes.
func (d *dwData) charge(n int64) error {
	if err := d.f.charge(n); err != nil {
		return err
	}
	d.bytes += n
	return nil
}

// release gives n bytes back.
func (d *dwData) release(n int64) {
	d.bytes -= n
	_ = d.f.charge(-n) // giving back never fails
}

// retry lets what failed for want of room, or for a file that could not be read,
// be tried again, and gives back what such a failure left behind.
func (d *dwData) retry() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.work = 0
	if d.f != nil && d.stale {
		d.reset()
	}
}

// reset forgets everything. d.mu is held.
func (d *dwData) reset() {
	d.release(d.bytes)
	d.f, d.bytes, d.work, d.stale = nil, 0, 0, false
	d.listed, d.listErr, d.spans, d.spanUnits = false, nil, nil, nil
	d.scanned, d.scanErr, d.more = false, nil, nil
	d.starts, d.next, d.startErr = nil, 0, nil
	d.units, d.lru, d.unitBytes, d.tables = nil, nil, 0, nil
}

func (d *dwData) locate(f *File, vaddr uint64) ([]Location, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begin(f)
	defer d.endAlternate()
	locs, err := d.lookUp(vaddr)
	if errors.Is(err, ErrBudget) && d.unitBytes > 0 {
		d.keepUnits(0)
		locs, err = d.lookUp(vaddr)
	}
	d.keepUnits(maxUnitsKept)
	if err != nil {
		lasting := errors.Is(err, ErrFormat) || errors.Is(err, ErrTooBig) && d.work <= maxDebugWork
		d.stale = d.stale || !lasting
		return nil, err
	}
	return locs, nil
}

func (d *dwData) lookUp(vaddr uint64) ([]Location, error) {
	if err := d.info.open(); err != nil || !d.info.ok {
		return nil, err
	}
	off, ok, err := d.unitAt(vaddr)
	if err != nil || !ok {
		return nil, err
	}
	u, err := d.unit(off)
	if err != nil {
		return nil, err
	}
	if err := u.walk(); err != nil {
		return nil, err
	}
	if err := u.readLines(); err != nil {
		return nil, err
	}
	file, line, known := u.lines.at(vaddr)
	span, inFunc := findSpan(u.spans, vaddr)
	if !known && !inFunc {
		return nil, nil
	}
	pos := Location{Line: int(line)}
	if known {
		if pos.File, err = u.file(file); err != nil {
			return nil, err
		}
	}
	if !inFunc {
		return []Location{pos}, nil
	}
	return u.chain(span.id, pos)
}

// chain follows the functions outward from id, whose position is pos.
func (u *dwUnit) chain(id uint32, pos Location) ([]Location, error) {
	n := 1
	for i := id; u.funcs[i].inlined && u.funcs[i].parent >= 0; n++ {
		i = uint32(u.funcs[i].parent)
	}
	locs := make([]Location, 0, min(n, maxInlined))
	for i := 0; i < n; i++ {
		fn := &u.funcs[id]
		if i < maxInlined-1 || i == n-1 {
			var err error
			if pos.Function, err = u.funcName(uint64(fn.die)); err != nil {
				return nil, err
			}
			locs = append(locs, pos)
		}
		if i == n-1 {
			break
		}
		pos = Location{Line: int(fn.callLine)}
		var err error
		if pos.File, err = u.file(fn.callFile); err != nil {
			return nil, err
		}
		id = uint32(fn.parent)
	}
	return locs, nil
}

// unit returns the unit at off with its bytes and abbreviations.
func (d *dwData) unit(off uint64) (*dwUnit, error) {
	if u := d.units[off]; u != nil {
		d.lru.MoveToFront(u.pos)
		return u, u.err
	}
	if err := d.charge(debugUnitCost); err != nil {
		return nil, err
	}
	u, err := d.readHeader(off)
	if err == nil {
		if err = u.load(); err == nil {
			err = u.readRoot()
		}
	} else {
		u = &dwUnit{d: d, off: off}
	}
	if err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTooBig) {
		u.charged += debugUnitCost
		d.unitBytes += debugUnitCost
		d.discard(u)
		return nil, err
	}
	u.err = err
	u.charged += debugUnitCost
	d.unitBytes += debugUnitCost
	d.units[off], u.pos = u, d.lru.PushFront(u)
	return u, err
}

// discard gives back what a unit takes.
func (d *dwData) discard(u *dwUnit) {
	if u.pos != nil {
		d.lru.Remove(u.pos)
		delete(d.units, u.off)
	}
	d.unitBytes -= u.charged
	d.release(u.charged)
	if t := u.abbrevs; t != nil {
		if t.refs--; t.refs == 0 {
			delete(d.tables, t.key)
			d.release(t.bytes)
		}
	}
}

// keepUnits drops the units used longest ago until the rest is within limit.
func (d *dwData) keepUnits(limit int64) {
	for d.unitBytes > limit && d.lru.Len() > 0 {
		d.discard(d.lru.Back().Value.(*dwUnit))
	}
}

// abbrevTable returns a table for one more unit. Units often share them.
func (d *dwData) abbrevTable(key dwAbbrevKey) (*dwAbbrevs, error) {
	if t := d.tables[key]; t != nil {
		t.refs++
		return t, nil
	}
	t, err := readAbbrevs(&d.abbrev, key, 0)
	if err != nil {
		return nil, err
	}
	if err := d.spend(t.bytes / int64(unsafe.Sizeof(dwAttr{}))); err != nil {
		return nil, err
	}
	if err := d.charge(t.bytes); err != nil {
		return nil, err
	}
	t.refs = 1
	d.tables[key] = t
	return t, nil
}

// alternate returns the debug information of the alternate file, locked until
// the present call ends; nil when there is none.
func (d *dwData) alternate() (*dwData, error) {
	if d.isAlt || d.alt != nil {
		return d.alt, nil
	}
	f, err := d.f.Alt()
	if err != nil {
		d.stale = d.stale || !lasting(err) // names that are missing now may be there the next time
		return nil, err
	}
	if f == nil {
		return nil, nil
	}
	l := f.use()
	l.dwarfAlt.mu.Lock()
	d.alt, d.altFile = &l.dwarfAlt, f
	d.alt.isAlt = true
	d.alt.begin(f)
	return d.alt, nil
}

func (d *dwData) endAlternate() {
	if d.alt == nil {
		return
	}
	d.alt.keepUnits(maxUnitsKept)
	d.alt.mu.Unlock()
	d.altFile.done()
	d.alt, d.altFile = nil, nil
}

// grow makes room for one more element and charges for it first.
func grow[T any](charge func(int64) error, s []T) ([]T, error) {
	if len(s) < cap(s) {
		return s, nil
	}
	var zero T
	size := int64(unsafe.Sizeof(zero))
	n := max(32, 2*cap(s))
	if err := charge(int64(n) * size); err != nil {
		return nil, err
	}
	t := make([]T, len(s), n)
	copy(t, s)
	return t, charge(-int64(cap(s)) * size)
}

// fit lets spare room go when it is a quarter or more.
func fit[T any](charge func(int64) error, s []T) []T {
	if cap(s)-len(s) < cap(s)/4 {
		return s
	}
	var zero T
	size := int64(unsafe.Sizeof(zero))
	if charge(int64(len(s))*size) != nil {
		return s
	}
	t := make([]T, len(s))
	copy(t, s)
	_ = charge(-int64(cap(s)) * size) // giving back never fails
	return t
}
