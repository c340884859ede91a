package elf

import (
	"errors"
	"fmt"
)

const (
	maxDebugUnits   = 1 << 18  // units of one file; a browser has some 60,000
	maxDebugRanges  = 1 << 20  // address ranges of one file's units, and of one unit's functions
	maxDebugRows    = 4 << 20  // rows of one unit's line table
	maxDebugWork    = 1 << 27  // DIEs, attributes, ranges, rows and their like read from one file in one go: some seconds
	maxDebugDepth   = 1024     // nested DIEs
	maxDebugName    = 4096     // bytes of a function, file or directory name
	maxInlined      = 128      // functions inlined into each other, with the physical one
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
// Shape: at most 128 entries. An assembler source gives an entry with no Function.
// So does split DWARF, whose functions are in .dwo files that are not read.
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
func (u *dwUnit) chain(id uint32, pos Location) (locs []Location, err error) {
	n := 1
	for i := id; u.funcs[i].inlined && u.funcs[i].parent >= 0; n++ {
		i = uint32(u.funcs[i].parent)
	}
	if n > maxInlined {
		return nil, fmt.Errorf("%d functions inlined into each other: %w", n, ErrTooBig)
	}
	locs = make([]Location, n)
	for i := range locs {
		fn := &u.funcs[id]
		if pos.Function, err = u.funcName(uint64(fn.die)); err != nil {
			return nil, err
		}
		locs[i] = pos
		if i == n-1 {
			break
		}
		pos = Location{Line: int(fn.callLine)}
		if pos.File, err = u.file(fn.callFile); err != nil {
			return nil, err
		}
		id = uint32(fn.parent)
	}
	return locs, nil
}
