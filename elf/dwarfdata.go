package elf

import (
	"container/list"
	delf "debug/elf"
	"errors"
	"sync"
	"unsafe"
)

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
