package elf

import (
	"container/list"
	"fmt"
)

// Unit types of DWARF 5, 7.5.1.
const (
	dwUTCompile      = 1
	dwUTType         = 2
	dwUTPartial      = 3
	dwUTSkeleton     = 4
	dwUTSplitCompile = 5
	dwUTSplitType    = 6
)

const (
	unitHeaderMax = 40  // bytes of the longest unit header
	rootStep      = 512 // bytes of the first look at a unit
)

// dwUnit is one unit of .debug_info. What a look-up needs of it is read when it
// is needed: the header and root, the bytes, the functions, the lines.
type dwUnit struct {
	d        *dwData
	off, end uint64 // in .debug_info
	first    uint32 // of the root DIE, from off
	enc      dwEnc
	kind     uint8
	abbrevAt uint64

	// Attributes of the root.
	compDir                         string
	language                        uint64
	base                            uint64 // DW_AT_low_pc
	pc                              dwPC
	stmtList                        uint64
	hasLines                        bool
	strBase, addrBase, rnglistsBase uint64

	bytes   []byte // the whole unit, from off
	abbrevs *dwAbbrevs
	charged int64 // bytes this unit costs the budget
	pos     *list.Element
	err     error // why there is nothing else here

	walked  bool
	walkErr error
	funcs   []dwFunc
	spans   []dwSpan // of funcs
	scopes  []dwScope

	lined   bool
	lineErr error
	lines   dwLines

	names map[uint32]string // of functions, by DIE
}

// readHeader reads the header of the unit at off.
func (d *dwData) readHeader(off uint64) (*dwUnit, error) {
	b, err := d.info.window(off, unitHeaderMax)
	if err != nil {
		return nil, err
	}
	u := &dwUnit{d: d, off: off}
	if err := u.parseHeader(b, d.info.size-off); err != nil {
		return nil, fmt.Errorf("read DWARF unit at %#x: %w", off, err)
	}
	return u, nil
}

func (u *dwUnit) parseHeader(b []byte, room uint64) error {
	r := dwBuf{b: b}
	length, offSize := r.length()
	head := uint64(r.pos)
	version := r.u16()
	if r.bad || length > room-head || version < 2 || version > 5 {
		return dwFormatError("length %#x, version %d", length, version)
	}
	u.end = u.off + head + length
	u.enc = dwEnc{version: uint8(version), off: uint8(offSize)}
	u.kind = dwUTCompile
	if version >= 5 {
		u.kind, u.enc.addr = r.u8(), r.u8()
		u.abbrevAt = r.uint(offSize)
	} else {
		u.abbrevAt = r.uint(offSize)
		u.enc.addr = r.u8()
	}
	switch u.kind {
	case dwUTSkeleton, dwUTSplitCompile:
		r.skip(8)
	case dwUTType, dwUTSplitType:
		r.skip(8 + uint64(offSize))
	case dwUTCompile, dwUTPartial:
	default:
		r.bad = true
	}
	if r.bad || u.enc.addr != 4 && u.enc.addr != 8 || u.off+uint64(r.pos) > u.end {
		return dwFormatError("unit type %d, addresses of %d bytes", u.kind, u.enc.addr)
	}
	u.first = uint32(r.pos)
	return nil
}

// readRoot reads the attributes of the root DIE without loading the unit.
func (u *dwUnit) readRoot() error {
	for n := uint64(rootStep); ; n *= 8 {
		b, err := u.bytes, error(nil)
		if b == nil {
			if b, err = u.d.info.window(u.off, min(n, u.end-u.off)); err != nil {
				return err
			}
		}
		r := dwBuf{b: b, pos: int(u.first)}
		code := r.uleb()
		if code == 0 || r.bad {
			return nil // an empty unit
		}
		t := u.abbrevs
		if t == nil {
			if t, err = readAbbrevs(&u.d.abbrev, dwAbbrevKey{u.abbrevAt, u.enc}, code); err != nil {
				return err
			}
		}
		a := t.find(code)
		if a == nil {
			return dwFormatError("read DWARF unit at %#x: no abbreviation %d", u.off, code)
		}
		if err := u.d.spend(int64(len(a.attrs))); err != nil {
			return err
		}
		again, err := u.parseRoot(&r, a)
		if !again || err != nil {
			return err
		}
		if uint64(len(b)) == u.end-u.off {
			return dwFormatError("read root of DWARF unit at %#x", u.off)
		}
	}
}

// parseRoot returns true when it needs more bytes.
func (u *dwUnit) parseRoot(r *dwBuf, a *dwAbbrev) (again bool, err error) {
	var dir dwVal
	headSize := uint64(u.enc.off) * 2 // of .debug_addr and .debug_str_offsets (DWARF 5, 7.26 and 7.27)
	u.addrBase, u.strBase, u.rnglistsBase = headSize, headSize, headSize+4
	u.pc = dwPC{}
	for _, x := range a.attrs {
		v := u.enc.read(r, x.form, x.implicit)
		u.pc.note(x.attr, v)
		switch x.attr {
		case dwAtStmtList:
			u.stmtList, u.hasLines = v.u, true
		case dwAtCompDir:
			dir = v
		case dwAtLanguage:
			u.language = v.u
		case dwAtStrBase:
			u.strBase = v.u
		case dwAtAddrBase:
			u.addrBase = v.u
		case dwAtRnglistsBase:
			u.rnglistsBase = v.u
		}
	}
	if r.bad {
		return true, nil
	}
	if u.pc.hasLow {
		if u.base, err = u.address(u.pc.low); err != nil {
			return false, err
		}
	}
	u.compDir, err = u.str(dir)
	return false, err
}

// str returns the text of an attribute, "" for none and for one that is too long.
func (u *dwUnit) str(v dwVal) (string, error) {
	var off uint64
	s := &u.d.strs
	switch v.form {
	case 0:
		return "", nil
	case dwFormString:
		if len(v.str) > maxDebugName {
			return "", nil
		}
		return string(v.str), nil
	case dwFormStrp:
		off = v.u
	case dwFormLineStrp:
		s, off = &u.d.lineStr, v.u
	case dwFormStrx, dwFormStrx1, dwFormStrx2, dwFormStrx3, dwFormStrx4:
		if v.u > maxFileSize {
			return "", dwFormatError("string %d", v.u)
		}
		var err error
		if off, err = u.d.strOffsets.uintAt(u.strBase+v.u*uint64(u.enc.off), int(u.enc.off)); err != nil {
			return "", err
		}
	case dwFormStrpSup, dwFormGNUStrpAlt:
		alt, err := u.d.alternate()
		if err != nil || alt == nil {
			return "", nil // Alt says why
		}
		s, off = &alt.strs, v.u
	default:
		return "", nil
	}
	text, _, err := s.str(off)
	return text, err
}

// load makes the bytes and the abbreviations of the unit available.
func (u *dwUnit) load() error {
	b, charged, err := u.d.info.load(u.off, u.end-u.off)
	if err != nil {
		return err
	}
	u.bytes, u.charged = b, u.charged+charged
	u.d.unitBytes += charged
	u.abbrevs, err = u.d.abbrevTable(dwAbbrevKey{u.abbrevAt, u.enc})
	return err
}

// charge accounts for n more bytes of this unit.
func (u *dwUnit) charge(n int64) error {
	if err := u.d.charge(n); err != nil {
		return err
	}
	u.charged += n
	u.d.unitBytes += n
	return nil
}

// die returns a reader behind the code of the DIE at off from the start of the
// unit, and its abbreviation.
func (u *dwUnit) die(off uint64) (r dwBuf, a *dwAbbrev, err error) {
	if off < uint64(u.first) || off >= uint64(len(u.bytes)) {
		return r, nil, dwFormatError("read DIE at %#x+%#x", u.off, off)
	}
	r = dwBuf{b: u.bytes, pos: int(off)}
	code := r.uleb()
	if a = u.abbrevs.find(code); a == nil || r.bad {
		return r, nil, dwFormatError("read DIE at %#x+%#x: abbreviation %d", u.off, off, code)
	}
	return r, a, nil
}
