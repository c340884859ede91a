package ptrace

import (
	"strconv"
	"unicode"
	"unicode/utf8"
)

// maxSymbolText is the most of a symbol that is shown beside an operand, in bytes;
// "…" stands for the rest.
const maxSymbolText = 256

// text writes one instruction.
type text struct {
	e    *encoding
	next uint64 // address of the instruction behind
	name func(addr uint64) string
	buf  []byte
	room [96]byte

	target    uint64 // what the RIP-relative operand means
	hasTarget bool
}

func (t *text) put(s string) { t.buf = append(t.buf, s...) }

// operand starts the next one.
func (t *text) operand(first bool) {
	if first {
		t.put(" ")
	} else {
		t.put(", ")
	}
}

// number writes v: small ones are read best in decimal.
func (t *text) number(v int64) {
	if v < 0 {
		t.put("-")
		t.unsigned(-uint64(v))
		return
	}
	t.unsigned(uint64(v))
}

func (t *text) unsigned(v uint64) {
	if v < 10 {
		t.buf = strconv.AppendUint(t.buf, v, 10)
		return
	}
	t.put("0x")
	t.buf = strconv.AppendUint(t.buf, v, 16)
}

// branch writes the place a branch goes to.
func (t *text) branch(distance int64) { t.address(t.next + uint64(distance)) }

func (t *text) address(addr uint64) {
	t.put("0x")
	t.buf = strconv.AppendUint(t.buf, addr, 16)
	if t.name != nil {
		t.symbol(t.name(addr))
	}
}

func (t *text) symbol(name string) {
	if name == "" {
		return
	}
	t.put(" <")
	// Names come from the target's files.
	start := len(t.buf)
	for _, c := range name {
		if !unicode.IsPrint(c) {
			c = unicode.ReplacementChar
		}
		if len(t.buf)-start+utf8.RuneLen(c) > maxSymbolText {
			t.put("…")
			break
		}
		t.buf = utf8.AppendRune(t.buf, c)
	}
	t.put(">")
}

// comment writes behind the instruction what its RIP-relative operand means.
func (t *text) comment() {
	if t.hasTarget {
		t.put("  # ")
		t.address(t.target)
	}
}

// Register names by number.
var (
	names64 = [...]string{"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
		"r16", "r17", "r18", "r19", "r20", "r21", "r22", "r23", "r24", "r25", "r26", "r27", "r28", "r29", "r30", "r31"}
	names32  = wider("d", "eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi")
	names16  = wider("w", "ax", "cx", "dx", "bx", "sp", "bp", "si", "di")
	names8   = wider("b", "al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil")
	namesOld = [...]string{"al", "cl", "dl", "bl", "ah", "ch", "dh", "bh"}
	namesX   = numbered("xmm", 32)
	namesY   = numbered("ymm", 32)
	namesZ   = numbered("zmm", 32)
	namesK   = numbered("k", 8)
	namesMM  = numbered("mm", 8)
	namesTMM = numbered("tmm", 8)
	namesBND = numbered("bnd", 4)
)

func wider(suffix string, first ...string) (list [32]string) {
	copy(list[:], first)
	for i := len(first); i < len(list); i++ {
		list[i] = names64[i] + suffix
	}
	return list
}

func numbered(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = prefix + strconv.Itoa(i)
	}
	return list
}

// vector is a register of the size in bytes: 16, 32 or 64.
func vector(size int, n byte) string {
	switch size {
	case 64:
		return namesZ[n&31]
	case 32:
		return namesY[n&31]
	}
	return namesX[n&31]
}

// Size words, by bytes.
func sizeWord(bytes int) string {
	switch bytes {
	case 1:
		return "byte ptr "
	case 2:
		return "word ptr "
	case 4:
		return "dword ptr "
	case 6:
		return "fword ptr "
	case 8:
		return "qword ptr "
	case 10:
		return "tbyte ptr "
	case 16:
		return "xmmword ptr "
	case 32:
		return "ymmword ptr "
	case 64:
		return "zmmword ptr "
	}
	return ""
}

func segmentName(prefix byte) string {
	switch prefix {
	case 0x26:
		return "es:"
	case 0x2e:
		return "cs:"
	case 0x36:
		return "ss:"
	case 0x3e:
		return "ds:"
	case 0x64:
		return "fs:"
	case 0x65:
		return "gs:"
	}
	return ""
}

// memory writes the operand that ModRM, SIB and displacement make. index is the
// size of the vector register that is the index, 0 for a general one; scale is
// what an 8-bit displacement of EVEX counts in.
func (t *text) memory(size string, index, scale int) {
	e := t.e
	t.put(size)
	t.put(segmentName(e.segment))
	t.put("[")
	regs := &names64
	if e.addr32 {
		regs = &names32
	}
	disp := int64(e.disp)
	if e.kind == evex && e.opmap != 4 && e.dispLen == 1 {
		disp *= int64(scale)
	}
	some := true
	switch {
	case e.relative():
		t.target, t.hasTarget = t.next+uint64(disp), true
		if e.addr32 {
			t.target = uint64(uint32(t.target))
			t.put("e")
		} else {
			t.put("r")
		}
		t.put("ip")
	case !e.hasSIB:
		t.put(regs[e.rm()|e.b])
	default:
		some = t.sibAddress(regs, index)
	}
	switch {
	case !some:
		if e.addr32 {
			disp = int64(uint32(disp))
		}
		t.number(disp)
	case disp > 0:
		t.put(" + ")
		t.number(disp)
	case disp < 0:
		t.put(" - ")
		t.unsigned(-uint64(disp))
	}
	t.put("]")
}

// sibAddress writes base and index; false when there is neither.
func (t *text) sibAddress(regs *[32]string, index int) bool {
	e := t.e
	hasBase := e.sib&7 != 5 || e.mod() != 0
	if hasBase {
		t.put(regs[e.sib&7|e.b])
	}
	n := e.sib>>3&7 | e.x
	name := regs[n]
	switch {
	case index != 0:
		name = vector(index, n|e.vhigh)
	case n == 4:
		// No index; a scale without one is not worth a word.
		return hasBase
	}
	if hasBase {
		t.put(" + ")
	}
	if s := e.sib >> 6; s != 0 {
		t.put([...]string{"", "2*", "4*", "8*"}[s])
	}
	t.put(name)
	return true
}
