package elf

import "bytes"

// maxLEB is the number of bytes one LEB128 may take; 10 hold 64 bits, a producer
// may pad.
const maxLEB = 16

// dwBuf reads DWARF encodings. A read past the end sets bad and gives zero, and
// so does every read after it: whoever loops looks at bad.
type dwBuf struct {
	b   []byte
	pos int
	bad bool
}

// take returns the next n bytes, nil when there are not as many.
func (r *dwBuf) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)-r.pos) {
		r.bad = true
		return nil
	}
	b := r.b[r.pos : r.pos+int(n)]
	r.pos += int(n)
	return b
}

func (r *dwBuf) skip(n uint64) { r.take(n) }

func (r *dwBuf) left() int { return len(r.b) - r.pos }

func (r *dwBuf) u8() uint8 {
	if r.bad || r.pos >= len(r.b) {
		r.bad = true
		return 0
	}
	v := r.b[r.pos]
	r.pos++
	return v
}

func (r *dwBuf) u16() uint16 {
	if b := r.take(2); b != nil {
		return le.Uint16(b)
	}
	return 0
}

func (r *dwBuf) u32() uint32 {
	if b := r.take(4); b != nil {
		return le.Uint32(b)
	}
	return 0
}

func (r *dwBuf) u64() uint64 {
	if b := r.take(8); b != nil {
		return le.Uint64(b)
	}
	return 0
}

// uint reads n bytes, little endian; n is 0 to 8.
func (r *dwBuf) uint(n int) uint64 {
	switch n {
	case 4:
		return uint64(r.u32())
	case 8:
		return r.u64()
	}
	var v uint64
	for i, c := range r.take(uint64(n)) {
		v |= uint64(c) << (8 * i)
	}
	return v
}

// uleb reads an unsigned LEB128; bits beyond 64 are dropped.
func (r *dwBuf) uleb() uint64 {
	if !r.bad && r.pos < len(r.b) && r.b[r.pos] < 0x80 {
		r.pos++
		return uint64(r.b[r.pos-1])
	}
	v, _ := r.leb()
	return v
}

// sleb reads a signed LEB128.
func (r *dwBuf) sleb() int64 {
	v, n := r.leb()
	if n < 64 && v>>(n-1)&1 != 0 {
		v |= ^uint64(0) << n
	}
	return int64(v)
}

// leb returns the bits of a LEB128 and how many they are, at least 7.
func (r *dwBuf) leb() (v uint64, bits uint) {
	for range maxLEB {
		c := r.u8()
		v |= uint64(c&0x7f) << bits
		bits += 7
		if c < 0x80 {
			return v, bits
		}
	}
	r.bad = true
	return 0, 7
}

// cstr returns the bytes up to a NUL and goes behind it.
func (r *dwBuf) cstr() []byte {
	if r.bad {
		return nil
	}
	i := bytes.IndexByte(r.b[r.pos:], 0)
	if i < 0 {
		r.bad = true
		return nil
	}
	s := r.b[r.pos : r.pos+i]
	r.pos += i + 1
	return s
}

// length reads an initial length (DWARF 5, 7.4): off is 4, or 8 in 64-bit DWARF.
func (r *dwBuf) length() (n uint64, off int) {
	v := r.u32()
	if v == 0xffffffff {
		return r.u64(), 8
	}
	if v >= 0xfffffff0 { // reserved
		r.bad = true
	}
	return uint64(v), 4
}
