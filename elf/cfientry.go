package elf

import (
	"bytes"
	"fmt"
	"slices"
)

const maxFrameRecord = 256 << 10 // bytes of one CIE or FDE

// record is one entry of a table, its bytes valid until the next is read.
type record struct {
	body       []byte // behind the CIE id or pointer
	bodyOff    uint64 // of body in the table
	id, idOff  uint64
	end        uint64
	isCIE      bool
	terminator bool
}

// cie is what the functions of one compiler and language share.
type cie struct {
	codeAlign uint64
	dataAlign int64
	ra        uint64 // column of the return address
	enc       uint8  // of addresses in its FDEs
	augmented bool   // FDEs have augmentation data
	signal    bool
	code      []byte
}

// fde is one function. code is valid until the next record is read.
type fde struct {
	cie           *cie
	start, length uint64
	code          []byte
	codeAddr      uint64 // vaddr of code, for addresses relative to themselves
}

// readRecord reads the entry at off.
func (t *frameTable) readRecord(off uint64) (record, error) {
	var head [12]byte
	if err := t.data.read(head[:4], off); err != nil {
		return record{}, err
	}
	n, at := uint64(le.Uint32(head[:])), off+4
	if n == 0 {
		return record{end: at, terminator: true}, nil
	}
	wide := n == 0xffffffff // 64-bit DWARF
	if wide {
		if err := t.data.read(head[4:], at); err != nil {
			return record{}, err
		}
		n, at = le.Uint64(head[4:]), at+8
	}
	idSize := uint64(4)
	if wide && t.debug {
		idSize = 8
	}
	if n < idSize || at > t.data.size || n > t.data.size-at {
		return record{}, fmt.Errorf("entry of %d bytes at %#x of a table of %d: %w", n, off, t.data.size, ErrFormat)
	}
	if n > maxFrameRecord {
		return record{}, fmt.Errorf("entry of %d bytes at %#x: %w", n, off, ErrTooBig)
	}
	t.buf = slices.Grow(t.buf[:0], int(n))[:n]
	if err := t.data.read(t.buf, at); err != nil {
		return record{}, err
	}
	rec := record{body: t.buf[idSize:], bodyOff: at + idSize, idOff: at, end: at + n}
	if idSize == 8 {
		rec.id = le.Uint64(t.buf)
		rec.isCIE = rec.id == 1<<64-1
	} else {
		rec.id = uint64(le.Uint32(t.buf))
		rec.isCIE = t.debug && rec.id == 1<<32-1 || !t.debug && rec.id == 0
	}
	return rec, nil
}

// readFDE reads the function whose record begins at off.
func (t *frameTable) readFDE(off uint64) (fde, error) {
	rec, err := t.readRecord(off)
	if err != nil {
		return fde{}, err
	}
	if rec.isCIE || rec.terminator {
		return fde{}, fmt.Errorf("no function at %#x: %w", off, ErrFormat)
	}
	return t.parseFDE(rec)
}

func (t *frameTable) parseFDE(rec record) (fde, error) {
	at := rec.id
	if !t.debug {
		at = rec.idOff - rec.id // the pointer is a distance back
		if rec.id > rec.idOff {
			return fde{}, fmt.Errorf("CIE before the table at %#x: %w", rec.idOff, ErrFormat)
		}
	}
	c, err := t.cieAt(at, &rec)
	if err != nil {
		return fde{}, err
	}
	r := cfiReader{b: rec.body, addr: t.data.addr + rec.bodyOff, noBase: true}
	f := fde{cie: c, start: r.pointer(c.enc)}
	f.length = r.pointer(c.enc & 0x0f)
	if c.augmented {
		r.skip(r.uleb())
	}
	if r.bad || c.enc&0x80 != 0 || f.start+f.length < f.start {
		return fde{}, fmt.Errorf("function entry at %#x: %w", rec.bodyOff, ErrFormat)
	}
	f.code, f.codeAddr = rec.body[r.at:], t.data.addr+rec.bodyOff+uint64(r.at)
	return f, nil
}

// cieAt returns the CIE at off. Reading it overwrites the record at hand, which is
// restored.
func (t *frameTable) cieAt(off uint64, rec *record) (*cie, error) {
	if c := t.cies[off]; c != nil {
		return c, nil
	}
	keep := t.buf
	t.buf = nil
	defer func() { t.buf = keep }()
	cr, err := t.readRecord(off)
	if err != nil {
		return nil, err
	}
	if !cr.isCIE {
		return nil, fmt.Errorf("no CIE at %#x: %w", off, ErrFormat)
	}
	c, err := t.parseCIE(cr)
	if err != nil {
		return nil, fmt.Errorf("CIE at %#x: %w", off, err)
	}
	if len(t.cies) < cachedCIEs && t.c.charge(cieCost+int64(len(c.code))) == nil {
		if t.cies == nil {
			t.cies = make(map[uint64]*cie)
		}
		t.cies[off] = c
	}
	return c, nil
}

func (t *frameTable) parseCIE(rec record) (*cie, error) {
	r := cfiReader{b: rec.body, addr: t.data.addr + rec.bodyOff, noBase: true}
	c := &cie{enc: encAbsPtr}
	version := r.u8()
	if version != 1 && version != 3 && version != 4 {
		return nil, fmt.Errorf("version %d: %w", version, ErrFormat)
	}
	aug := r.cString()
	if version == 4 {
		if addressSize, segmentSize := r.u8(), r.u8(); addressSize != 8 || segmentSize != 0 {
			return nil, fmt.Errorf("addresses of %d bytes, segments of %d: %w", addressSize, segmentSize, ErrFormat)
		}
	}
	if bytes.HasPrefix(aug, []byte("eh")) { // gcc before 3.0: a pointer, which nobody needs
		r.skip(8)
		aug = aug[2:]
	}
	c.codeAlign, c.dataAlign = r.uleb(), r.sleb()
	if version == 1 {
		c.ra = uint64(r.u8())
	} else {
		c.ra = r.uleb()
	}
	if err := c.augmentation(&r, aug); err != nil {
		return nil, err
	}
	if r.bad || c.ra >= numRegisters {
		return nil, fmt.Errorf("return address in column %d: %w", c.ra, ErrFormat)
	}
	c.code = bytes.Clone(rec.body[r.at:])
	return c, nil
}

// augmentation reads what the letters say.
func (c *cie) augmentation(r *cfiReader, letters []byte) error {
	if len(letters) == 0 {
		return nil
	}
	if letters[0] != 'z' {
		return fmt.Errorf("augmentation %q: %w", letters, ErrFormat)
	}
	c.augmented = true
	n := r.uleb()
	if r.bad || n > uint64(len(r.b)-r.at) {
		r.bad = true
		return nil
	}
	end := r.at + int(n)
	defer func() { r.at = end }() // the length holds also for letters unknown here
	for _, l := range letters[1:] {
		switch l {
		case 'R':
			c.enc = r.u8()
		case 'L':
			r.u8()
		case 'P':
			r.pointer(r.u8() &^ 0x80) // of the personality routine: only its length matters
		case 'S':
			c.signal = true
		case 'B', 'G': // AArch64, pointer authentication and memory tagging
		default:
			return nil
		}
		if r.at > end {
			r.bad = true
			return nil
		}
	}
	return nil
}

// Pointer encodings, DW_EH_PE_* of the LSB: the low four bits are the format.
const (
	encAbsPtr = 0x00
	encOmit   = 0xff
)

// encodedWidth is the size of a fixed-size pointer format, 0 for the others.
func encodedWidth(enc uint8) uint64 {
	switch enc & 0x0f {
	case 0x00, 0x04, 0x0c: // absptr, udata8, sdata8
		return 8
	case 0x03, 0x0b: // udata4, sdata4
		return 4
	case 0x02, 0x0a: // udata2, sdata2
		return 2
	}
	return 0
}

// cfiReader takes values from the front of b. After a value that is not there bad
// is set and all further ones are 0.
type cfiReader struct {
	b      []byte
	at     int
	addr   uint64 // vaddr of b[0]
	base   uint64 // of DW_EH_PE_datarel
	noBase bool   // there is none
	bad    bool
}

func (r *cfiReader) left() int { return len(r.b) - r.at }

func (r *cfiReader) take(n int) []byte {
	if r.bad || r.left() < n {
		r.bad = true
		return nil
	}
	b := r.b[r.at : r.at+n]
	r.at += n
	return b
}

func (r *cfiReader) skip(n uint64) {
	if r.bad || uint64(r.left()) < n {
		r.bad = true
		return
	}
	r.at += int(n)
}

func (r *cfiReader) fixed(n int) uint64 {
	b := r.take(n)
	if b == nil {
		return 0
	}
	switch n {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(le.Uint16(b))
	case 4:
		return uint64(le.Uint32(b))
	}
	return le.Uint64(b)
}

func (r *cfiReader) u8() uint8 { return uint8(r.fixed(1)) }

// uleb reads an unsigned LEB128 of at most 64 bits; what does not fit is bad.
func (r *cfiReader) uleb() uint64 {
	var v uint64
	for shift := uint(0); ; shift += 7 {
		b := r.u8()
		part := uint64(b & 0x7f)
		if shift > 63 && part != 0 || shift == 63 && part > 1 || shift > 133 {
			r.bad = true
		}
		if r.bad {
			return 0
		}
		if shift < 64 {
			v |= part << shift
		}
		if b&0x80 == 0 {
			return v
		}
	}
}

// sleb reads a signed LEB128; bits above the 64th are dropped.
func (r *cfiReader) sleb() int64 {
	var v int64
	for shift := uint(0); ; shift += 7 {
		b := r.u8()
		if shift > 133 {
			r.bad = true
		}
		if r.bad {
			return 0
		}
		if shift < 64 {
			v |= int64(b&0x7f) << shift
		}
		if b&0x80 == 0 {
			if shift < 57 && b&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
}

func (r *cfiReader) cString() []byte {
	if r.bad {
		return nil
	}
	n := bytes.IndexByte(r.b[r.at:], 0)
	if n < 0 {
		r.bad = true
		return nil
	}
	s := r.b[r.at : r.at+n]
	r.at += n + 1
	return s
}

// pointer reads an encoded pointer. An indirect one (0x80) is read as the address
// of the pointer; who needs the value has to refuse it.
func (r *cfiReader) pointer(enc uint8) uint64 {
	if enc == encOmit {
		return 0
	}
	if enc&0x70 == 0x50 { // DW_EH_PE_aligned
		at := r.addr + uint64(r.at)
		r.skip(-at & 7)
		return r.fixed(8)
	}
	self := r.addr + uint64(r.at)
	var v uint64
	switch enc & 0x0f {
	case 0x00, 0x04, 0x0c:
		v = r.fixed(8)
	case 0x01:
		v = r.uleb()
	case 0x02:
		v = r.fixed(2)
	case 0x03:
		v = r.fixed(4)
	case 0x09:
		v = uint64(r.sleb())
	case 0x0a:
		v = uint64(int16(r.fixed(2)))
	case 0x0b:
		v = uint64(int32(r.fixed(4)))
	default:
		r.bad = true
		return 0
	}
	switch enc & 0x70 {
	case 0x00:
	case 0x10:
		v += self
	case 0x30:
		if r.noBase {
			r.bad = true
		}
		v += r.base
	default: // textrel and funcrel, which x86-64 does not use
		r.bad = true
	}
	return v
}
