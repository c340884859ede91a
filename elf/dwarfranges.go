package elf

import "fmt"

// Range list entries of DWARF 5, 7.25.
const (
	dwRLEEnd          = 0
	dwRLEBaseAddrx    = 1
	dwRLEStartxEndx   = 2
	dwRLEStartxLength = 3
	dwRLEOffsetPair   = 4
	dwRLEBase         = 5
	dwRLEStartEnd     = 6
	dwRLEStartLength  = 7
)

// rangeStep is the first look at a range list in bytes; most are shorter.
const rangeStep = 512

// dwPC holds the attributes that say where a DIE has code.
type dwPC struct {
	low, high, ranges          dwVal
	hasLow, hasHigh, hasRanges bool
}

// note keeps an attribute if it is one of them.
func (p *dwPC) note(attr uint16, v dwVal) {
	switch attr {
	case dwAtLowPC:
		p.low, p.hasLow = v, true
	case dwAtHighPC:
		p.high, p.hasHigh = v, true
	case dwAtRanges:
		p.ranges, p.hasRanges = v, true
	}
}

// each calls add with the ranges of p that can be code of this file.
func (u *dwUnit) each(p *dwPC, add func(lo, hi uint64) error) error {
	check := func(lo, hi uint64) error {
		if !u.d.isCode(lo, hi) {
			return nil
		}
		return add(lo, hi)
	}
	if p.hasRanges {
		off, err := u.rangesOffset(p.ranges)
		if err != nil {
			return err
		}
		if u.enc.version >= 5 {
			return u.rnglist(off, check)
		}
		return u.ranges4(off, check)
	}
	if !p.hasLow || !p.hasHigh {
		return nil
	}
	lo, err := u.address(p.low)
	if err != nil {
		return err
	}
	hi := lo + p.high.u // an offset since DWARF 4
	if p.high.isAddress() {
		if hi, err = u.address(p.high); err != nil {
			return err
		}
	}
	return check(lo, hi)
}

// address returns the address an attribute holds, directly or through .debug_addr.
func (u *dwUnit) address(v dwVal) (uint64, error) {
	if v.form == dwFormAddr || !v.isAddress() {
		return v.u, nil
	}
	return u.addrx(v.u)
}

func (u *dwUnit) addrx(i uint64) (uint64, error) {
	if i > maxFileSize {
		return 0, dwFormatError("address %d of .debug_addr", i)
	}
	return u.d.addr.uintAt(u.addrBase+i*uint64(u.enc.addr), int(u.enc.addr))
}

// rangesOffset returns the offset of a list in .debug_ranges or .debug_rnglists.
func (u *dwUnit) rangesOffset(v dwVal) (uint64, error) {
	if v.form != dwFormRnglistx {
		return v.u, nil
	}
	if v.u > maxFileSize {
		return 0, dwFormatError("range list %d", v.u)
	}
	off, err := u.d.rnglists.uintAt(u.rnglistsBase+v.u*uint64(u.enc.off), int(u.enc.off))
	return u.rnglistsBase + off, err
}

// list reads a list with parse, which says whether it saw the end, and looks at
// more bytes until it does.
func (u *dwUnit) list(s *dwSource, off uint64, parse func(r *dwBuf) (end bool, err error)) error {
	for n := uint64(rangeStep); ; n *= 8 {
		n = min(n, maxInflated)
		b, err := s.window(off, n)
		if err != nil {
			return err
		}
		r := dwBuf{b: b}
		end, err := parse(&r)
		if end || err != nil {
			return err
		}
		if uint64(len(b)) < n || n == maxInflated {
			return dwFormatError("range list at %#x of %s has no end", off, s.name)
		}
	}
}

// ranges4 reads a list of .debug_ranges (DWARF 4, 2.17.3).
func (u *dwUnit) ranges4(off uint64, add func(lo, hi uint64) error) error {
	size := int(u.enc.addr)
	all := ^uint64(0) >> (64 - 8*size)
	base, done := u.base, 0
	return u.list(&u.d.ranges, off, func(r *dwBuf) (bool, error) {
		r.skip(uint64(done))
		for {
			lo, hi := r.uint(size), r.uint(size)
			if r.bad {
				return false, nil
			}
			done = r.pos
			if lo == 0 && hi == 0 {
				return true, nil
			}
			if err := u.d.spend(1); err != nil {
				return false, err
			}
			if lo == all {
				base = hi
				continue
			}
			if lo >= hi {
				continue
			}
			if err := add(base+lo, base+hi); err != nil {
				return false, err
			}
		}
	})
}

// rnglist reads a list of .debug_rnglists.
func (u *dwUnit) rnglist(off uint64, add func(lo, hi uint64) error) error {
	size := int(u.enc.addr)
	base, done := u.base, 0
	return u.list(&u.d.rnglists, off, func(r *dwBuf) (bool, error) {
		r.skip(uint64(done))
		for {
			kind := r.u8()
			var a, b uint64
			switch kind {
			case dwRLEEnd:
			case dwRLEBaseAddrx:
				a = r.uleb()
			case dwRLEStartxEndx, dwRLEStartxLength, dwRLEOffsetPair:
				a, b = r.uleb(), r.uleb()
			case dwRLEBase:
				a = r.uint(size)
			case dwRLEStartEnd:
				a, b = r.uint(size), r.uint(size)
			case dwRLEStartLength:
				a, b = r.uint(size), r.uleb()
			default:
				return false, dwFormatError("range list entry %#x", kind)
			}
			if r.bad {
				return false, nil
			}
			done = r.pos
			if kind == dwRLEEnd {
				return true, nil
			}
			if err := u.d.spend(1); err != nil {
				return false, err
			}
			var err error
			switch kind {
			case dwRLEBaseAddrx, dwRLEStartxEndx, dwRLEStartxLength:
				if a, err = u.addrx(a); err != nil {
					return false, err
				}
			}
			switch kind {
			case dwRLEBaseAddrx, dwRLEBase:
				base = a
				continue
			case dwRLEStartxEndx:
				if b, err = u.addrx(b); err != nil {
					return false, err
				}
			case dwRLEOffsetPair:
				if a >= b {
					continue
				}
				a, b = base+a, base+b
			case dwRLEStartxLength, dwRLEStartLength:
				b += a
			}
			if err := add(a, b); err != nil {
				return false, err
			}
		}
	})
}

// isCode tells whether a range can be code of this file. What a linker dropped
// still has debug information, with addresses of 0 or 1 (GNU ld), of the highest
// values or small ones (lld).
func (d *dwData) isCode(lo, hi uint64) bool {
	if hi <= lo || hi-lo > maxSpan || lo <= 1 {
		return false
	}
	if len(d.exec) == 0 { // no program headers
		return true
	}
	_, ok := findSpan(d.exec, lo)
	return ok
}

// spend accounts for work that the contents of the file ask for.
func (d *dwData) spend(n int64) error {
	d.work += n
	if d.work > maxDebugWork {
		return fmt.Errorf("%d DIEs, attributes, ranges and rows read since the file was opened: %w", d.work, ErrTooBig)
	}
	return nil
}
