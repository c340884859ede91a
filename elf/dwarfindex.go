package elf

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"
)

// dwRanges collects ranges within a limit, charged for as long as they are there.
type dwRanges struct {
	d    *dwData
	list []dwRange
}

func (c *dwRanges) add(r dwRange) error {
	if len(c.list) >= maxDebugRanges {
		return fmt.Errorf("over %d address ranges: %w", maxDebugRanges, ErrTooBig)
	}
	var err error
	if c.list, err = grow(c.d.charge, c.list); err != nil {
		return err
	}
	c.list = append(c.list, r)
	return nil
}

// spans flattens what was collected and lets it go. charge is for the result.
func (c *dwRanges) spans(charge func(int64) error) ([]dwSpan, error) {
	n := int64(len(c.list))
	// Flattening may keep all ranges a second time, and gives at most twice as many spans.
	scratch := n * int64(unsafe.Sizeof(dwRange{})+2*unsafe.Sizeof(dwSpan{}))
	if err := c.d.charge(scratch); err != nil {
		c.drop()
		return nil, err
	}
	spans := slices.Clip(flattenRanges(c.list))
	c.d.release(scratch)
	c.drop()
	if err := charge(int64(len(spans)) * int64(unsafe.Sizeof(dwSpan{}))); err != nil {
		return nil, err
	}
	return spans, nil
}

func (c *dwRanges) drop() {
	c.d.release(int64(cap(c.list)) * int64(unsafe.Sizeof(dwRange{})))
	c.list = nil
}

// unitAt returns the offset of the unit that has code at vaddr. First .debug_aranges
// is asked. Clang and Go do not write it, and a linker mixes units that are in it
// with units that are not: whatever it does not list is looked through, once.
func (d *dwData) unitAt(vaddr uint64) (off uint64, ok bool, err error) {
	if !d.listed {
		if err := d.readAranges(); errors.Is(err, ErrBudget) {
			return 0, false, err
		} else if err != nil {
			d.listErr = fmt.Errorf("read section .debug_aranges: %w", err)
		}
		d.listed = true
	}
	if s, ok := findSpan(d.spans, vaddr); ok {
		return d.spanUnits[s.id], true, nil
	}
	if !d.scanned {
		if err := d.scan(); errors.Is(err, ErrBudget) {
			return 0, false, err
		} else if err != nil {
			d.scanErr = err
		}
		d.scanned = true
	}
	if s, ok := findSpan(d.more, vaddr); ok {
		return d.spanUnits[s.id], true, nil
	}
	return 0, false, errors.Join(d.listErr, d.scanErr)
}

// readAranges fills spans from .debug_aranges. After an error it holds what came before.
func (d *dwData) readAranges() error {
	if err := d.aranges.open(); err != nil || !d.aranges.ok {
		return err
	}
	b, charged, err := d.aranges.load(0, d.aranges.size)
	if err != nil {
		return err
	}
	c := dwRanges{d: d}
	err = d.parseAranges(b, &c)
	d.aranges.close(charged)
	if errors.Is(err, ErrBudget) {
		c.drop()
		return err
	}
	spans, spanErr := c.spans(d.charge)
	d.spans = spans
	return errors.Join(err, spanErr)
}

// parseAranges reads the sets of .debug_aranges (DWARF 5, 6.1.2).
func (d *dwData) parseAranges(b []byte, c *dwRanges) error {
	for all := (dwBuf{b: b}); all.left() > 0; {
		at := all.pos
		length, offSize := all.length()
		set := dwBuf{b: all.take(length)}
		if all.bad {
			return dwFormatError("set at %#x of %d bytes", at, length)
		}
		head := all.pos - int(length) - at
		version := set.u16()
		off := set.uint(offSize)
		size := int(set.u8())
		segment := set.u8()
		if set.bad || version != 2 || size != 4 && size != 8 || segment != 0 {
			return dwFormatError("set at %#x: version %d, addresses of %d bytes", at, version, size)
		}
		// The first tuple is aligned to the size of a tuple, from the start of the set.
		if odd := (head + set.pos) % (2 * size); odd != 0 {
			set.skip(uint64(2*size - odd))
		}
		id := uint32(len(d.spanUnits))
		before := len(c.list)
		for set.left() >= 2*size {
			lo, n := set.uint(size), set.uint(size)
			if lo == 0 && n == 0 {
				break
			}
			err := d.spend(1)
			if err == nil && d.isCode(lo, lo+n) {
				err = c.add(dwRange{lo: lo, hi: lo + n, id: id})
			}
			if err != nil {
				c.list = c.list[:before]
				return err
			}
		}
		if err := d.addUnit(off, c, before); err != nil {
			return err
		}
	}
	return nil
}

// addUnit gives the next id to the unit whose ranges are those from before on. If
// it cannot, they are forgotten; without ranges it need not.
func (d *dwData) addUnit(off uint64, c *dwRanges, before int) (err error) {
	if len(c.list) == before {
		return nil
	}
	if len(d.spanUnits) >= maxDebugUnits {
		err = fmt.Errorf("over %d units: %w", maxDebugUnits, ErrTooBig)
	} else {
		var units []uint64
		if units, err = grow(d.charge, d.spanUnits); err == nil {
			d.spanUnits = append(units, off)
			return nil
		}
	}
	c.list = c.list[:before]
	return err
}

// scan fills more from the roots of the units that .debug_aranges does not list.
// After an error it holds what came before.
func (d *dwData) scan() error {
	err := d.findStarts(^uint64(0))
	if errors.Is(err, ErrBudget) {
		return err
	}
	listed := slices.Clone(d.spanUnits) // small against the units themselves
	slices.Sort(listed)
	first := len(d.spanUnits)
	c := dwRanges{d: d}
	for _, off := range d.starts {
		if _, ok := slices.BinarySearch(listed, off); ok {
			continue
		}
		if rootErr := d.scanRoot(off, &c); rootErr != nil {
			if errors.Is(rootErr, ErrBudget) {
				c.drop()
				d.spanUnits = d.spanUnits[:first]
				return rootErr
			}
			err = errors.Join(err, rootErr)
			break
		}
	}
	spans, spanErr := c.spans(d.charge)
	d.more = spans
	return errors.Join(err, spanErr)
}

func (d *dwData) scanRoot(off uint64, c *dwRanges) error {
	u, err := d.readHeader(off)
	if err != nil || u.kind == dwUTType || u.kind == dwUTPartial {
		return err
	}
	if err := u.readRoot(); err != nil {
		return err
	}
	id := uint32(len(d.spanUnits))
	before := len(c.list)
	if err := u.each(&u.pc, func(lo, hi uint64) error { return c.add(dwRange{lo: lo, hi: hi, id: id}) }); err != nil {
		c.list = c.list[:before]
		return fmt.Errorf("read DWARF unit at %#x: %w", off, err)
	}
	return d.addUnit(off, c, before)
}

// findStarts follows the headers until the unit that holds off is known.
func (d *dwData) findStarts(off uint64) error {
	if err := d.info.open(); err != nil {
		return err
	}
	for d.startErr == nil && d.next <= off && d.next < d.info.size {
		u, err := d.readHeader(d.next)
		if err == nil {
			err = d.spend(1)
		}
		if err == nil && len(d.starts) >= maxDebugUnits {
			err = fmt.Errorf("over %d units: %w", maxDebugUnits, ErrTooBig)
		}
		if err == nil {
			d.starts, err = grow(d.charge, d.starts)
		}
		if err != nil {
			if errors.Is(err, ErrBudget) {
				return err
			}
			d.startErr = err
			break
		}
		d.starts = append(d.starts, d.next)
		d.next = u.end
	}
	return d.startErr
}

// unitWith returns the unit that holds the DIE at off of .debug_info.
func (d *dwData) unitWith(off uint64) (*dwUnit, error) {
	err := d.findStarts(off)
	i, ok := slices.BinarySearch(d.starts, off)
	if !ok {
		i--
	}
	if i < 0 || i == len(d.starts)-1 && off >= d.next {
		return nil, errors.Join(dwFormatError("no DWARF unit holds %#x", off), err)
	}
	return d.unit(d.starts[i])
}
