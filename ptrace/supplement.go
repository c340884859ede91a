package ptrace

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// special is an instruction that the library does not know, or whose operands it
// loses; see supplementLegacy for how they are written down.
type special struct {
	pp       int8   // mandatory prefix by VEX numbering, -1 any
	w, l     int8   // -1 any
	size     int8   // operand size in bytes by 66 and W, 0 any
	reg      int8   // ModRM.reg, -1 any
	modrm    int16  // all of ModRM, -1 any
	imm      int16  // immediate, -1 any
	form     byte   // 'r' or 'm', 0 either
	sized    bool   // an operand goes by 66 and W
	name     string // mnemonic
	operands []string
}

// specials are the entries by kind of prefix, map and opcode.
type specials map[uint32][]special

func specialKey(kind, opmap int, opcode byte) uint32 {
	return uint32(kind)<<16 | uint32(opmap)<<8 | uint32(opcode)
}

var specialTable = sync.OnceValue(func() specials {
	table := specials{}
	for _, list := range []string{supplementLegacy, supplementVEX, supplementEVEX, supplementXOP} {
		for line := range strings.Lines(list) {
			if err := table.add(line); err != nil {
				panic(err) // constants, all read by a test
			}
		}
	}
	return table
})

// add reads one line: PREFIX.MAP.OPCODE CONDITIONS NAME OPERANDS.
func (table specials) add(line string) error {
	f := strings.Fields(line)
	if len(f) == 0 || f[0] == "#" {
		return nil
	}
	if len(f) < 3 || len(f) > 4 {
		return fmt.Errorf("instruction %q: %d fields", line, len(f))
	}
	kinds := map[byte]int{'l': plain, 'v': vex, 'e': evex, 'x': xop}
	place, opcode, _ := strings.Cut(f[0], ".")
	op, err := strconv.ParseUint(opcode, 16, 8)
	opmap, err2 := strconv.ParseUint(place[1:], 10, 4)
	kind, ok := kinds[place[0]]
	if err != nil || err2 != nil || !ok {
		return fmt.Errorf("instruction %q: place %q", line, f[0])
	}
	s := special{pp: -1, w: -1, l: -1, reg: -1, modrm: -1, imm: -1, name: f[2]}
	if len(f) == 4 {
		s.operands = strings.Split(f[3], ",")
		s.sized = strings.Contains(f[3]+",", "v,")
	}
	for c := range strings.SplitSeq(f[1], ",") {
		if err := s.condition(c); err != nil {
			return fmt.Errorf("instruction %q: %w", line, err)
		}
	}
	key := specialKey(kind, int(opmap), byte(op))
	table[key] = append(table[key], s)
	return nil
}

func (s *special) condition(c string) error {
	switch c {
	case "-":
	case "np":
		s.pp = 0
	case "66":
		s.pp = 1
	case "f3":
		s.pp = 2
	case "f2":
		s.pp = 3
	case "w0", "w1":
		s.w = int8(c[1] - '0')
	case "l0", "l1", "l2":
		s.l = int8(c[1] - '0')
	case "o16", "o32", "o64":
		s.size = map[string]int8{"o16": 2, "o32": 4, "o64": 8}[c]
	case "r", "m":
		s.form = c[0]
	default:
		n, err := strconv.ParseUint(c[1:], 16, 8)
		switch {
		case err != nil:
			return fmt.Errorf("condition %q", c)
		case c[0] == '/' && n < 8:
			s.reg = int8(n)
		case c[0] == '=':
			s.modrm = int16(n)
		case c[0] == '+':
			s.imm = int16(n)
		default:
			return fmt.Errorf("condition %q", c)
		}
	}
	return nil
}

func (s *special) matches(e *encoding) bool {
	switch {
	case s.pp >= 0 && byte(s.pp) != e.pp,
		s.w >= 0 && (s.w == 1) != e.w,
		s.l >= 0 && byte(s.l) != e.l,
		s.size != 0 && int(s.size) != e.operandSize(),
		s.reg >= 0 && byte(s.reg) != e.reg(),
		s.modrm >= 0 && byte(s.modrm) != e.modrm,
		s.imm >= 0 && byte(s.imm) != e.imm8(),
		s.form == 'r' && e.memory(),
		s.form == 'm' && !e.memory():
		return false
	}
	return true
}

// operandSize is that of most instructions: 2, 4 or 8 bytes.
func (e *encoding) operandSize() int {
	switch {
	case e.w:
		return 8
	case e.opsize > 0:
		return 2
	}
	return 4
}

// supplement writes the instruction if it is one of those listed here.
func (t *text) supplement() bool {
	e := t.e
	if e.kind != plain && e.kind != rex2 && e.badVector() {
		return false
	}
	list := specialTable()[specialKey(e.kind, e.opmap, e.opcode)]
	for i := range list {
		if s := &list[i]; s.matches(e) {
			t.special(s)
			return true
		}
	}
	return false
}

// badVector: prefixes that VEX, EVEX and XOP replace must not stand before them.
func (e *encoding) badVector() bool {
	return e.rex != 0 || e.rep != 0 || e.opsize > 0 || e.lock
}

func (t *text) special(s *special) {
	e := t.e
	if e.kind == plain {
		t.prefixes(s.pp >= 2, s.pp == 1 || s.size == 2 || s.sized && !e.w, s.name)
	}
	name, operands := s.name, s.operands
	if n := len(operands); n > 0 {
		var ok bool
		switch operands[n-1] {
		case "Cmp":
			name, ok = withPredicate(name, predicates, e.imm8())
		case "Com":
			name, ok = withPredicate(name, predicatesXOP, e.imm8())
		}
		if ok {
			operands = operands[:n-1]
		}
	}
	t.put(name)
	first, masked := true, false
	for _, o := range operands {
		if (o == "er" || o == "sae") && (!e.bcast || e.memory()) {
			continue
		}
		t.operand(first)
		first = false
		t.specialOperand(o)
		if !masked {
			t.mask()
			masked = true
		}
	}
}

// mask writes the mask register of an AVX-512 instruction behind its destination.
func (t *text) mask() {
	if t.e.kind != evex || t.e.aaa == 0 {
		return
	}
	t.put(" {")
	t.put(namesK[t.e.aaa])
	t.put("}")
	if t.e.zero {
		t.put(" {z}")
	}
}

// vectorSize is the length of the vectors in bytes.
func (e *encoding) vectorSize() int {
	if e.kind == evex && e.bcast && !e.memory() {
		return 64 // rounding takes the place of the length
	}
	return 16 << min(e.l, 2)
}

// specialOperand writes one operand by its code, which is close to that of the
// opcode maps in the Intel SDM. The first letter says where it is encoded:
//
//	G ModRM.reg   E ModRM.rm   R the same, register only   M the same, memory only
//	B VEX.vvvv    I immediate  X [rsi]   Y [rdi]           $ a fixed register
//	V W H L       vector in ModRM.reg, ModRM.rm, VEX.vvvv, the immediate's high half
//	P Q           MMX in ModRM.reg, ModRM.rm
//	K T N         mask, tile and bound registers
//	er sae        how EVEX rounds, if it says so
//	Cmp Com       a predicate that has no name
//
// The rest is the size: see sizeCode, part and vectorOperand.
func (t *text) specialOperand(o string) {
	e := t.e
	size := o[1:]
	switch o[0] {
	case 'G':
		t.general(size, e.reg()|e.r)
	case 'B':
		t.general(size, e.v)
	case 'E', 'R', 'M':
		if e.memory() {
			bytes := e.sizeCode(size)
			t.memory(sizeWord(bytes), 0, max(bytes, 1))
		} else {
			if size == "W" {
				size = "d"
			}
			t.general(size, e.rm()|e.b)
		}
	case 'I':
		t.immediate(size)
	case 'K':
		switch size {
		case "r":
			t.put(namesK[e.reg()])
		case "b":
			t.put(namesK[e.rm()])
		case "p":
			t.put(namesK[e.reg()&^1])
		}
	case 'N': // MPX
		switch {
		case size == "Dr":
			t.put(namesBND[e.reg()&3])
		case e.memory():
			t.memory("xmmword ptr ", 0, 1)
		default:
			t.put(namesBND[e.rm()&3])
		}
	case 'P':
		t.put(namesMM[e.reg()])
	case 'Q':
		if e.memory() {
			t.memory("qword ptr ", 0, 1)
		} else {
			t.put(namesMM[e.rm()])
		}
	case 'T':
		switch size {
		case "r":
			t.put(namesTMM[e.reg()])
		case "m":
			t.put(namesTMM[e.rm()])
		case "v":
			t.put(namesTMM[e.v&7])
		}
	case 'V':
		t.put(vector(e.part(size), e.reg()|e.r))
	case 'H':
		t.put(vector(e.part(size), e.v))
	case 'L':
		t.put(vector(e.part(size), e.imm8()>>4))
	case 'W':
		t.vectorOperand(size)
	case 'X':
		t.stringOperand(e.sizeCode(size), segmentName(e.segment), "si")
	case 'Y':
		t.stringOperand(e.sizeCode(size), "es:", "di")
	case 'e':
		t.put([...]string{"{rn-sae}", "{rd-sae}", "{ru-sae}", "{rz-sae}"}[e.l&3])
	case 's':
		t.put("{sae}")
	case 'C':
		t.unsigned(uint64(e.imm8()))
	case '$': // a fixed one
		t.put(size)
	}
}

// part is the size of a vector operand: all, a half, a quarter or an eighth of the
// vector length, but never less than a register.
func (e *encoding) part(code string) int {
	size := e.vectorSize()
	switch code[0] {
	case 'o':
		return 16
	case 'y':
		return 32
	case 'z':
		return 64
	case 'h':
		size /= 2
	case 'q':
		size /= 4
	case 'e':
		size /= 8
	}
	return max(size, 16)
}

// vectorOperand writes a register or memory operand: "x" is of the vector length,
// "x2" too, with elements of 2 bytes that may be broadcast; "h2" and "q2" a half
// and a quarter of it; "4" a scalar of 4 bytes.
func (t *text) vectorOperand(code string) {
	e := t.e
	full, part := e.vectorSize(), 1
	switch code[0] {
	case 'x':
	case 'h':
		part = 2
	case 'q':
		part = 4
	case 'e':
		part = 8
	default:
		full, _ = strconv.Atoi(code)
		code = ""
	}
	if !e.memory() {
		n := e.rm() | e.b
		if e.kind == evex {
			n |= e.x << 1
		}
		t.put(vector(max(full/part, 16), n))
		return
	}
	full /= part
	element := 0
	if len(code) > 1 {
		element = int(code[1] - '0')
	}
	if e.kind != evex {
		t.memory(sizeWord(full), 0, 1)
		return
	}
	if !e.bcast || element == 0 {
		t.memory(sizeWord(full), 0, full)
		return
	}
	t.memory(sizeWord(element), 0, element)
	t.put("{1to")
	t.put(strconv.Itoa(full / element))
	t.put("}")
}

func (t *text) stringOperand(size int, segment, register string) {
	t.put(sizeWord(size))
	t.put(segment)
	t.put("[")
	if t.e.addr32 {
		t.put("e")
	} else {
		t.put("r")
	}
	t.put(register)
	t.put("]")
}

// sizeCode is the bytes of an operand: b w d q x z fixed, v by operand size, y 4 or
// 8 by W, n none that is shown.
func (e *encoding) sizeCode(code string) int {
	if code == "" {
		return 0
	}
	switch code[0] {
	case 'b':
		return 1
	case 'w', 'W': // W: memory only, a register has 4
		return 2
	case 'd':
		return 4
	case 'q':
		return 8
	case 'x':
		return 16
	case 'z':
		return 64
	case 'v':
		return e.operandSize()
	case 'y':
		if e.w {
			return 8
		}
		return 4
	case 'a': // as wide as an address
		if e.addr32 {
			return 4
		}
		return 8
	}
	return 0
}

func (t *text) general(code string, n byte) {
	t.put(t.e.generalName(t.e.sizeCode(code), n))
}

func (e *encoding) generalName(size int, n byte) string {
	switch size {
	case 1:
		if e.rex == 0 && e.kind == plain && n < 8 {
			return namesOld[n]
		}
		return names8[n&31]
	case 2:
		return names16[n&31]
	case 4:
		return names32[n&31]
	}
	return names64[n&31]
}

// immediate writes the bytes behind the operands: b one byte, w two, d four, B the
// second byte, 4 the low half of one byte.
func (t *text) immediate(code string) {
	b := t.e.code[t.e.imm:]
	switch {
	case code == "b" && len(b) > 0:
		t.unsigned(uint64(b[0]))
	case code == "w" && len(b) > 1:
		t.unsigned(uint64(b[0]) | uint64(b[1])<<8)
	case code == "B" && len(b) > 1:
		t.unsigned(uint64(b[1]))
	case code == "4" && len(b) > 0:
		t.unsigned(uint64(b[0] & 15))
	case code == "d" && len(b) > 3:
		t.unsigned(uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24)
	}
}
