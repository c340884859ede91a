package ptrace

import "encoding/binary"

// longestInstruction is what the processor takes, in bytes: a longer one faults.
const longestInstruction = 15

// How the opcode of an instruction is introduced.
const (
	plain = iota // legacy prefixes and REX
	vex          // C4, C5
	evex         // 62
	xop          // 8F, AMD's
	rex2         // D5, with the registers 16 to 31 of APX
)

// Opcode maps: the number that VEX and EVEX carry. XOP uses 8 to 10, 3DNow! has
// its opcode at the end.
const (
	mapOne  = 0 // one byte
	map0F   = 1
	map0F38 = 2
	map0F3A = 3
)

// encoding is one instruction cut into its fields, whatever it means. The length
// of an instruction follows from them alone, so what has no name here still ends
// at the right byte.
type encoding struct {
	code []byte // all of it, len(code) is the length

	kind    int
	segment byte // the last segment prefix, 0 none
	rep     byte // the last of F2 and F3, 0 none
	lock    bool
	opsize  int  // how many 66
	addr32  bool // 67
	rex     byte // the REX byte, 0 none

	start  int // of the VEX, EVEX, XOP or REX2 prefix, else of the opcode
	opmap  int
	opcode byte
	pp     byte // mandatory prefix by VEX numbering: 0, 1 = 66, 2 = F3, 3 = F2
	w      bool
	r, x   byte // what the prefixes add to ModRM.reg and the index: 0, 8, 16 or 24
	b      byte // … and to ModRM.rm or the base
	v      byte // vvvv, right way up; with V' for EVEX
	l      byte // vector length: 128, 256, 512 bits as 0, 1, 2
	aaa    byte // mask register
	zero   bool // EVEX.z
	bcast  bool // EVEX.b: broadcast, or rounding and exceptions
	vhigh  byte // EVEX.V', 16 or 0: also the index's fifth bit

	hasModRM bool
	modrm    byte
	sib      byte
	hasSIB   bool
	disp     int32
	dispLen  int
	imm      int // offset of the immediate, len(code) without one
}

func (e *encoding) mod() byte      { return e.modrm >> 6 }
func (e *encoding) reg() byte      { return e.modrm >> 3 & 7 }
func (e *encoding) rm() byte       { return e.modrm & 7 }
func (e *encoding) memory() bool   { return e.hasModRM && e.mod() != 3 }
func (e *encoding) relative() bool { return e.memory() && e.mod() == 0 && e.rm() == 5 }

// imm8 is the first byte of the immediate.
func (e *encoding) imm8() byte {
	if e.imm < len(e.code) {
		return e.code[e.imm]
	}
	return 0
}

// parseEncoding finds the fields and the end of the first instruction of code.
// It is not ok when the instruction is cut off, is too long or starts with a byte
// that starts none in 64-bit mode; cut tells the first of these.
func parseEncoding(code []byte) (e encoding, ok, cut bool) {
	tooLong := len(code) >= longestInstruction
	if tooLong {
		code = code[:longestInstruction]
	}
	r := reader{code: code}
	ok = e.parse(&r)
	if r.short {
		return encoding{}, false, !tooLong
	}
	e.code = code[:r.at]
	return e, ok, false
}

// reader hands out bytes and remembers that there were too few.
type reader struct {
	code  []byte
	at    int
	short bool
}

func (r *reader) byte() byte {
	if r.at >= len(r.code) {
		r.short = true
		return 0
	}
	r.at++
	return r.code[r.at-1]
}

func (r *reader) peek() byte {
	if r.at >= len(r.code) {
		r.short = true
		return 0
	}
	return r.code[r.at]
}

func (r *reader) skip(n int) {
	if n > len(r.code)-r.at {
		r.short = true
		n = len(r.code) - r.at
	}
	r.at += n
}

func (e *encoding) parse(r *reader) bool {
	for prefixes := true; prefixes; {
		switch p := r.peek(); p {
		case 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65:
			e.segment = p
		case 0xf2, 0xf3:
			e.rep = p
		case 0xf0:
			e.lock = true
		case 0x66:
			e.opsize++
		case 0x67:
			e.addr32 = true
		default:
			if p&0xf0 == 0x40 {
				// Only the one directly before the opcode counts.
				r.skip(1)
				if n := r.peek(); isLegacyPrefix(n) || n&0xf0 == 0x40 {
					continue
				}
				e.rex = p
			}
			prefixes = false
			continue
		}
		if r.short {
			return false
		}
		r.skip(1)
	}
	e.start = r.at
	switch {
	case e.rep == 0xf2:
		e.pp = 3
	case e.rep == 0xf3:
		e.pp = 2
	case e.opsize > 0:
		e.pp = 1
	}
	e.w, e.r, e.x, e.b = e.rex&8 != 0, e.rex&4<<1, e.rex&2<<2, e.rex&1<<3

	op := r.byte()
	if e.rex == 0 {
		switch op {
		case 0xc5:
			return e.parseVEX2(r)
		case 0xc4:
			return e.parseVEX3(r, vex)
		case 0x8f:
			// Maps below 8 are POP with ModRM.reg 0.
			if next := r.peek(); next&0x1f >= 8 {
				return e.parseVEX3(r, xop)
			}
		case 0x62:
			return e.parseEVEX(r)
		case 0xd5:
			return e.parseREX2(r)
		}
	}
	if op == 0x0f {
		switch op = r.byte(); op {
		case 0x38:
			e.opmap, op = map0F38, r.byte()
		case 0x3a:
			e.opmap, op = map0F3A, r.byte()
		default:
			e.opmap = map0F
		}
	}
	e.opcode = op
	return e.parsePlain(r)
}

func isLegacyPrefix(p byte) bool {
	switch p {
	case 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0xf2, 0xf3, 0xf0, 0x66, 0x67:
		return true
	}
	return false
}

func (e *encoding) parseVEX2(r *reader) bool {
	p := r.byte()
	e.kind, e.opmap, e.opcode = vex, map0F, r.byte()
	e.r = ^p >> 7 << 3
	e.unpack(p & 0x7f)
	return e.parseVector(r)
}

func (e *encoding) parseVEX3(r *reader, kind int) bool {
	p, q := r.byte(), r.byte()
	e.kind, e.opmap, e.opcode = kind, int(p&0x1f), r.byte()
	e.r, e.x, e.b = ^p>>7<<3, ^p>>6&1<<3, ^p>>5&1<<3
	e.unpack(q)
	return e.parseVector(r)
}

// unpack takes the last byte of a VEX prefix: W, vvvv, L, pp.
func (e *encoding) unpack(q byte) {
	e.w, e.v, e.l, e.pp = q&0x80 != 0, ^q>>3&15, q>>2&1, q&3
}

func (e *encoding) parseEVEX(r *reader) bool {
	p0, p1, p2 := r.byte(), r.byte(), r.byte()
	e.kind, e.opmap, e.opcode = evex, int(p0&0xf), r.byte() // bit 3 is APX
	e.r = ^p0>>7<<3 | ^p0>>4&1<<4
	e.x, e.b = ^p0>>6&1<<3, ^p0>>5&1<<3
	e.vhigh = ^p2 >> 3 & 1 << 4
	e.w, e.v, e.pp = p1&0x80 != 0, ^p1>>3&15|e.vhigh, p1&3
	e.aaa, e.l, e.bcast, e.zero = p2&7, p2>>5&3, p2>>4&1 != 0, p2>>7 != 0
	return e.parseVector(r)
}

func (e *encoding) parseREX2(r *reader) bool {
	p := r.byte()
	e.kind, e.opmap, e.opcode = rex2, int(p>>7), r.byte()
	e.w = p&8 != 0
	e.r = p&4<<1 | p>>6&1<<4
	e.x = p&2<<2 | p>>5&1<<4
	e.b = p&1<<3 | p>>4&1<<4
	if e.opmap == mapOne && e.opcode == 0xa1 { // JMPABS
		e.imm = r.at
		r.skip(8)
		return true
	}
	return e.parsePlain(r)
}

// parsePlain reads what follows an opcode of the old maps.
func (e *encoding) parsePlain(r *reader) bool {
	modrm, imm := plainForm(e.opmap, e.opcode)
	if modrm {
		e.parseModRM(r, e.opmap == map0F && e.opcode&0xfc == 0x20)
	}
	wide := 4 // z: an immediate of the operand's size, 4 bytes for 8
	if e.opsize > 0 && !e.w {
		wide = 2
	}
	e.imm = r.at
	switch imm {
	case immNone:
	case immByte:
		r.skip(1)
	case immWord:
		r.skip(2)
	case immZ:
		r.skip(wide)
	case immV:
		if e.w {
			wide = 8
		}
		r.skip(wide)
	case immRel:
		r.skip(4)
	case immAddr:
		if e.addr32 {
			r.skip(4)
		} else {
			r.skip(8)
		}
	case immEnter:
		r.skip(3)
	case immGroup3: // TEST has an immediate, its neighbours have not
		if e.reg() < 2 {
			if e.opcode == 0xf6 {
				wide = 1
			}
			r.skip(wide)
		}
	case immExtract: // EXTRQ, INSERTQ
		if e.pp == 1 || e.pp == 3 {
			r.skip(2)
		}
	case immBad:
		return false
	}
	return true
}

// parseVector reads what follows an opcode after a VEX, EVEX or XOP prefix.
func (e *encoding) parseVector(r *reader) bool {
	opmap := e.opmap
	if e.kind == evex {
		opmap &= 7
	}
	if opmap == mapOne || e.kind == vex && (opmap == 4 || opmap > 7) || e.kind == xop && opmap > 10 {
		return false
	}
	if e.kind == vex && e.opmap == map0F && e.opcode == 0x77 { // VZEROUPPER, VZEROALL
		e.imm = r.at
		return true
	}
	e.parseModRM(r, false)
	e.imm = r.at
	switch {
	case e.kind == xop:
		switch opmap {
		case 8:
			r.skip(1)
		case 10:
			r.skip(4)
		}
	case opmap == map0F:
		switch e.opcode {
		case 0x70, 0x71, 0x72, 0x73, 0xc2, 0xc4, 0xc5, 0xc6:
			r.skip(1)
		}
	case opmap == map0F3A:
		r.skip(1)
	case opmap == 4:
		r.skip(e.promotedImm())
	case opmap == 7:
		r.skip(4)
	}
	return true
}

// promotedImm is the size of the immediate of an instruction in map 4.
func (e *encoding) promotedImm() int {
	wide := 4
	if e.pp == 1 && !e.w {
		wide = 2
	}
	switch e.opcode {
	case 0x24, 0x2c, 0x6b, 0x80, 0x83, 0xc0, 0xc1, 0xd4:
		return 1
	case 0x69, 0x81:
		return wide
	case 0xf6:
		if e.reg() < 2 {
			return 1
		}
	case 0xf7:
		if e.reg() < 2 {
			return wide
		}
	}
	return 0
}

// parseModRM reads ModRM, SIB and displacement; MOV to and from control and debug
// registers takes every ModRM as one with two registers.
func (e *encoding) parseModRM(r *reader, registers bool) {
	e.hasModRM, e.modrm = true, r.byte()
	if registers {
		e.modrm |= 0xc0
	}
	if e.mod() == 3 {
		return
	}
	if e.rm() == 4 {
		e.hasSIB, e.sib = true, r.byte()
	}
	switch {
	case e.mod() == 1:
		e.dispLen = 1
	case e.mod() == 2, e.rm() == 5, e.hasSIB && e.sib&7 == 5:
		e.dispLen = 4
	}
	at := r.at
	r.skip(e.dispLen)
	if r.short {
		return
	}
	switch e.dispLen {
	case 1:
		e.disp = int32(int8(r.code[at]))
	case 4:
		e.disp = int32(binary.LittleEndian.Uint32(r.code[at:]))
	}
}

// Immediates of the old maps.
const (
	immNone = iota
	immByte
	immWord
	immZ
	immV
	immRel
	immAddr
	immEnter
	immGroup3
	immExtract
	immBad // no instruction of 64-bit mode
)

// plainForm says what follows an opcode of the old maps.
func plainForm(opmap int, op byte) (modrm bool, imm int) {
	switch opmap {
	case mapOne:
		return oneByteForm(op)
	case map0F:
		return twoByteForm(op)
	case map0F3A:
		return true, immByte
	}
	return true, immNone
}

func oneByteForm(op byte) (modrm bool, imm int) {
	if op < 0x40 {
		switch op & 7 {
		case 0, 1, 2, 3:
			return true, immNone
		case 4:
			return false, immByte
		case 5:
			return false, immZ
		}
		return false, immBad // segment registers and decimal arithmetic; the rest are prefixes
	}
	switch op {
	case 0x60, 0x61, 0x62, 0x82, 0x9a, 0xc4, 0xc5, 0xce, 0xd4, 0xd5, 0xd6, 0xea:
		return false, immBad
	case 0x63:
		return true, immNone
	case 0x69, 0x81, 0xc7:
		return true, immZ
	case 0x6b, 0x80, 0x83, 0xc0, 0xc1, 0xc6:
		return true, immByte
	case 0x68, 0xa9:
		return false, immZ
	case 0x6a, 0xa8, 0xcd, 0xe0, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xeb:
		return false, immByte
	case 0xa0, 0xa1, 0xa2, 0xa3:
		return false, immAddr
	case 0xc2, 0xca:
		return false, immWord
	case 0xc8:
		return false, immEnter
	case 0xd0, 0xd1, 0xd2, 0xd3, 0xfe, 0xff:
		return true, immNone
	case 0xe8, 0xe9:
		return false, immRel
	case 0xf6, 0xf7:
		return true, immGroup3
	}
	switch {
	case op&0xf0 == 0x70, op&0xf8 == 0xb0:
		return false, immByte
	case op >= 0x84 && op <= 0x8f, op&0xf8 == 0xd8:
		return true, immNone
	case op&0xf8 == 0xb8:
		return false, immV
	}
	return false, immNone
}

func twoByteForm(op byte) (modrm bool, imm int) {
	switch op {
	case 0x04, 0x0a, 0x0c, 0x24, 0x25, 0x26, 0x27, 0x36, 0x39, 0x3b, 0x3c, 0x3d, 0x3e, 0x3f:
		return false, immBad
	case 0x05, 0x06, 0x07, 0x08, 0x09, 0x0b, 0x0e, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x37, 0x77,
		0xa0, 0xa1, 0xa2, 0xa8, 0xa9, 0xaa:
		return false, immNone
	case 0x0f, 0x70, 0x71, 0x72, 0x73, 0xa4, 0xac, 0xba, 0xc2, 0xc4, 0xc5, 0xc6:
		return true, immByte
	case 0x78:
		return true, immExtract
	}
	switch {
	case op&0xf0 == 0x80:
		return false, immRel
	case op&0xf8 == 0xc8:
		return false, immNone
	}
	return true, immNone
}
