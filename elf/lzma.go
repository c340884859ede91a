package elf

import (
	"encoding/binary"
	"fmt"
)

// This file decodes LZMA2 from and into memory. The output is its own dictionary,
// so the dictionary size that a stream claims costs nothing.
//
// Source: the .xz file format 1.2.1, section 5.3.1, and the LZMA specification of
// the LZMA SDK; doc/ of xz-utils.

// decodeLZMA2 appends one LZMA2 stream to out, which must not grow beyond its
// capacity, and returns what follows the stream in b.
func decodeLZMA2(out, b []byte, dictSize uint32) (_, rest []byte, err error) {
	d := &lzma{out: out, dictStart: len(out), dictSize: dictSize}
	needDict, needProps, needState := true, true, true
	for {
		if len(b) == 0 {
			return nil, nil, fmt.Errorf("lzma2: no end: %w", ErrFormat)
		}
		control := b[0]
		b = b[1:]
		if control == 0 {
			return d.out, b, nil
		}
		if control > 2 && control < 0x80 {
			return nil, nil, fmt.Errorf("lzma2: control byte %#x: %w", control, ErrFormat)
		}
		if control == 1 || control >= 0xe0 {
			needDict, d.dictStart = false, len(d.out)
			needProps = true
		}
		if needDict || len(b) < 2 {
			return nil, nil, fmt.Errorf("lzma2: bad start of chunk: %w", ErrFormat)
		}
		size := int(binary.BigEndian.Uint16(b)) + 1
		b = b[2:]
		if control <= 2 { // stored
			if size > len(b) || size > cap(d.out)-len(d.out) {
				return nil, nil, fmt.Errorf("lzma2: stored chunk of %d bytes: %w", size, ErrFormat)
			}
			d.out = append(d.out, b[:size]...)
			b = b[size:]
			continue
		}
		size += int(control&0x1f) << 16
		if len(b) < 2 {
			return nil, nil, fmt.Errorf("lzma2: chunk ends early: %w", ErrFormat)
		}
		packed := int(binary.BigEndian.Uint16(b)) + 1
		b = b[2:]
		switch reset := control >> 5 & 3; {
		case reset >= 2:
			if len(b) == 0 || !d.setProps(b[0]) {
				return nil, nil, fmt.Errorf("lzma2: properties: %w", ErrFormat)
			}
			b = b[1:]
			needProps, needState = false, false
			d.resetState()
		case reset == 1:
			needState = false
			d.resetState()
		}
		if needProps || needState || packed > len(b) || size > cap(d.out)-len(d.out) {
			return nil, nil, fmt.Errorf("lzma2: chunk of %d bytes from %d: %w", size, packed, ErrFormat)
		}
		if !d.chunk(b[:packed], size) {
			return nil, nil, fmt.Errorf("lzma2: chunk of %d bytes from %d: corrupt: %w", size, packed, ErrFormat)
		}
		b = b[packed:]
	}
}

const (
	lzmaStates   = 12
	lzmaPosBits  = 4 // at most; pb
	lzmaProbInit = 1 << 10
)

type prob = uint16

type lzma struct {
	out       []byte
	dictStart int // index in out where the dictionary begins
	dictSize  uint32

	rc rangeDecoder

	lc, lp, pb uint
	state      uint
	rep        [4]uint32 // distance - 1 of the last four matches

	isMatch    [lzmaStates][1 << lzmaPosBits]prob
	isRep      [lzmaStates]prob
	isRepG0    [lzmaStates]prob
	isRepG1    [lzmaStates]prob
	isRepG2    [lzmaStates]prob
	isRep0Long [lzmaStates][1 << lzmaPosBits]prob
	posSlot    [4][64]prob
	posSpecial [128]prob
	posAlign   [16]prob
	matchLen   lengthCoder
	repLen     lengthCoder
	literal    [0x300 << 4]prob // lc + lp is at most 4 in LZMA2
}

type lengthCoder struct {
	choice, choice2 prob
	low, mid        [1 << lzmaPosBits][8]prob
	high            [256]prob
}

// setProps takes the byte that holds (pb * 5 + lp) * 9 + lc.
func (d *lzma) setProps(b byte) bool {
	if b >= 9*5*5 {
		return false
	}
	d.lc, d.lp, d.pb = uint(b)%9, uint(b)/9%5, uint(b)/45
	return d.lc+d.lp <= 4
}

func (d *lzma) resetState() {
	d.state, d.rep = 0, [4]uint32{}
	fill := func(p []prob) {
		for i := range p {
			p[i] = lzmaProbInit
		}
	}
	for i := range d.isMatch {
		fill(d.isMatch[i][:])
		fill(d.isRep0Long[i][:])
	}
	fill(d.isRep[:])
	fill(d.isRepG0[:])
	fill(d.isRepG1[:])
	fill(d.isRepG2[:])
	for i := range d.posSlot {
		fill(d.posSlot[i][:])
	}
	fill(d.posSpecial[:])
	fill(d.posAlign[:])
	for _, l := range []*lengthCoder{&d.matchLen, &d.repLen} {
		l.choice, l.choice2 = lzmaProbInit, lzmaProbInit
		for i := range l.low {
			fill(l.low[i][:])
			fill(l.mid[i][:])
		}
		fill(l.high[:])
	}
	fill(d.literal[:])
}

// chunk decodes exactly size bytes from all of b.
func (d *lzma) chunk(b []byte, size int) bool {
	if !d.rc.init(b) {
		return false
	}
	end := len(d.out) + size
	for len(d.out) < end {
		if d.rc.over { // out of input: what is decoded now is made up
			return false
		}
		posState := uint(len(d.out)-d.dictStart) & (1<<d.pb - 1)
		if d.rc.bit(&d.isMatch[d.state][posState]) == 0 {
			d.literalByte()
			continue
		}
		var n int
		if d.rc.bit(&d.isRep[d.state]) == 0 {
			d.rep[3], d.rep[2], d.rep[1] = d.rep[2], d.rep[1], d.rep[0]
			n = d.length(&d.matchLen, posState)
			d.rep[0] = d.distance(n)
			d.state = next(d.state, 7, 10)
		} else if n = d.repeated(posState); n == 0 {
			return false
		}
		have := len(d.out) - d.dictStart
		if n > end-len(d.out) || uint64(d.rep[0]) >= uint64(have) || d.rep[0] >= d.dictSize {
			return false
		}
		from := len(d.out) - int(d.rep[0]) - 1
		for i := range n { // may overlap what it writes
			d.out = append(d.out, d.out[from+i])
		}
	}
	return d.rc.finished()
}

// next is the state after a match: a if the one before was a literal, else b.
func next(state, a, b uint) uint {
	if state < 7 {
		return a
	}
	return b
}

func (d *lzma) literalByte() {
	pos := uint(len(d.out) - d.dictStart)
	var prev byte
	if pos > 0 {
		prev = d.out[len(d.out)-1]
	}
	probs := d.literal[0x300*((pos&(1<<d.lp-1))<<d.lc+uint(prev)>>(8-d.lc)):][:0x300]
	sym := uint(1)
	if d.state >= 7 { // after a match: the byte at its distance is a likely one
		var match uint
		if uint(d.rep[0]) < pos {
			match = uint(d.out[len(d.out)-int(d.rep[0])-1])
		}
		offset := uint(0x100)
		for sym < 0x100 {
			match <<= 1
			m := match & offset
			bit := d.rc.bit(&probs[offset+m+sym])
			sym = sym<<1 | bit
			if bit == 0 {
				offset &^= m
			} else {
				offset &= m
			}
		}
	} else {
		for sym < 0x100 {
			sym = sym<<1 | d.rc.bit(&probs[sym])
		}
	}
	d.out = append(d.out, byte(sym))
	switch {
	case d.state < 4:
		d.state = 0
	case d.state < 10:
		d.state -= 3
	default:
		d.state -= 6
	}
}

// repeated decodes a match at one of the last four distances and returns its
// length, 0 when nothing has been written that could be repeated.
func (d *lzma) repeated(posState uint) int {
	if len(d.out) == d.dictStart {
		return 0
	}
	if d.rc.bit(&d.isRepG0[d.state]) == 0 {
		if d.rc.bit(&d.isRep0Long[d.state][posState]) == 0 {
			d.state = next(d.state, 9, 11)
			return 1
		}
	} else {
		var dist uint32
		switch {
		case d.rc.bit(&d.isRepG1[d.state]) == 0:
			dist = d.rep[1]
		case d.rc.bit(&d.isRepG2[d.state]) == 0:
			dist = d.rep[2]
			d.rep[2] = d.rep[1]
		default:
			dist = d.rep[3]
			d.rep[3], d.rep[2] = d.rep[2], d.rep[1]
		}
		d.rep[1], d.rep[0] = d.rep[0], dist
	}
	n := d.length(&d.repLen, posState)
	d.state = next(d.state, 8, 11)
	return n
}

func (d *lzma) length(l *lengthCoder, posState uint) int {
	if d.rc.bit(&l.choice) == 0 {
		return 2 + int(d.rc.tree(l.low[posState][:], 3))
	}
	if d.rc.bit(&l.choice2) == 0 {
		return 10 + int(d.rc.tree(l.mid[posState][:], 3))
	}
	return 18 + int(d.rc.tree(l.high[:], 8))
}

// distance decodes a distance - 1 for a match of n bytes.
func (d *lzma) distance(n int) uint32 {
	slot := d.rc.tree(d.posSlot[min(n-2, 3)][:], 6)
	if slot < 4 {
		return uint32(slot)
	}
	bits := slot>>1 - 1
	dist := uint32(2|slot&1) << bits
	if slot < 14 {
		return dist + d.rc.reverse(d.posSpecial[uint(dist)-slot:], bits)
	}
	dist += d.rc.direct(bits-4) << 4
	return dist + d.rc.reverse(d.posAlign[:], 4)
}

// rangeDecoder reads bits, each with a probability that adapts.
type rangeDecoder struct {
	b         []byte
	rng, code uint32
	over      bool // read past the end
}

func (r *rangeDecoder) init(b []byte) bool {
	if len(b) < 5 || b[0] != 0 {
		return false
	}
	*r = rangeDecoder{b: b[5:], rng: 1<<32 - 1, code: binary.BigEndian.Uint32(b[1:])}
	return true
}

func (r *rangeDecoder) finished() bool { return !r.over && len(r.b) == 0 && r.code == 0 }

func (r *rangeDecoder) normalize() {
	if r.rng >= 1<<24 {
		return
	}
	r.rng <<= 8
	r.code <<= 8
	if len(r.b) == 0 {
		r.over = true
		return
	}
	r.code |= uint32(r.b[0])
	r.b = r.b[1:]
}

func (r *rangeDecoder) bit(p *prob) uint {
	r.normalize()
	bound := r.rng >> 11 * uint32(*p)
	if r.code < bound {
		r.rng = bound
		*p += (1<<11 - *p) >> 5
		return 0
	}
	r.rng -= bound
	r.code -= bound
	*p -= *p >> 5
	return 1
}

// tree reads bits, most significant first.
func (r *rangeDecoder) tree(p []prob, bits uint) uint {
	m := uint(1)
	for range bits {
		m = m<<1 | r.bit(&p[m])
	}
	return m - 1<<bits
}

// reverse reads bits, least significant first.
func (r *rangeDecoder) reverse(p []prob, bits uint) uint32 {
	m, v := uint(1), uint32(0)
	for i := range bits {
		b := r.bit(&p[m])
		m = m<<1 | b
		v |= uint32(b) << i
	}
	return v
}

// direct reads bits that have no probability.
func (r *rangeDecoder) direct(bits uint) uint32 {
	var v uint32
	for range bits {
		r.normalize()
		r.rng >>= 1
		v <<= 1
		if r.code >= r.rng {
			r.code -= r.rng
			v |= 1
		}
	}
	return v
}
