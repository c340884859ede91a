package ptrace

import (
	"strconv"
	"strings"
	"sync"

	"golang.org/x/arch/x86/x86asm"
)

// mnemonics are the library's names in lower case, changed where it spells like no
// other disassembler.
var mnemonics = sync.OnceValue(func() []string {
	const more = 4096 // than the library has
	list := make([]string, more)
	for op := range x86asm.Op(more) {
		if name := op.String(); !strings.HasPrefix(name, "Op(") {
			list[op] = strings.ToLower(strings.TrimSuffix(name, "_XMM"))
		}
	}
	for op, name := range map[x86asm.Op]string{
		x86asm.LCALL: "call", x86asm.LJMP: "jmp", x86asm.LRET: "retf",
		x86asm.ICEBP: "int1", x86asm.FWAIT: "wait",
		x86asm.FCOMIP: "fcompi", x86asm.FUCOMIP: "fucompi",
		x86asm.VPEXTRW_C5: "vpextrw", x86asm.VPCMPESTRI64: "vpcmpestri", x86asm.VPCMPESTRM64: "vpcmpestrm",
		x86asm.VPCMPISTRI64: "vpcmpistri",
	} {
		list[op] = name
	}
	return list
})

// library decodes with x86asm and writes what it found.
func (t *text) library() bool {
	in, ok := t.ask(false, false)
	if !ok && (t.e.kind == vex || t.e.kind == evex) {
		in, ok = t.askIgnoring()
	}
	if !ok || misread(&in, t.e) {
		return false
	}
	if t.e.kind == plain {
		t.plain(&in)
	} else {
		t.vector(&in)
	}
	return true
}

// askIgnoring asks again with W, L or both as zero: where they have no meaning the
// library's tables know only that.
func (t *text) askIgnoring() (in x86asm.Inst, ok bool) {
	for _, try := range []struct{ w, l bool }{{true, false}, {false, true}, {true, true}} {
		if in, ok = t.ask(try.w, try.l); !ok {
			continue
		}
		name := mnemonics()[in.Op]
		if (!try.w || t.ignoresW(name)) && (!try.l || ignoresL(name)) {
			return in, true
		}
	}
	return x86asm.Inst{}, false
}

// ignoresL: the instruction works on one element, whatever the vector length.
func ignoresL(name string) bool {
	for _, s := range []string{"ss", "sd", "si"} {
		if strings.HasSuffix(name, s) {
			return true
		}
	}
	for _, p := range []string{"vcvts", "vcvtusi", "vcvttss", "vcvttsd"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// ignoresW: W has no meaning. With VEX it mostly has none, with EVEX it mostly has.
func (t *text) ignoresW(name string) bool {
	if t.e.kind == vex {
		return !fixedWVEX[name]
	}
	return ignoredWEVEX[name]
}

var (
	fixedWVEX = wordSet("kmovb kmovw kunpckbw vbcstnebf162ps vbcstnesh2ps vblendvpd vblendvps vbroadcastf128 vbroadcasti128 vbroadcastsd vbroadcastss " +
		"vcvtneebf162ps vcvtneeph2ps vcvtneobf162ps vcvtneoph2ps vcvtneps2bf16 vcvtph2ps vcvtps2ph vextractf128 vextracti128 vgf2p8mulb " +
		"vinsertf128 vinserti128 vmaskmovpd vmaskmovps vpblendd vpblendvb vpbroadcastb vpbroadcastd vpbroadcastq vpbroadcastw vpdpbssd " +
		"vpdpbssds vpdpbsud vpdpbsuds vpdpbusd vpdpbusds vpdpbuud vpdpbuuds vpdpwssd vpdpwssds vpdpwsud vpdpwsuds vpdpwusd vpdpwusds " +
		"vpdpwuud vpdpwuuds vperm2f128 vperm2i128 vpermd vpermilpd vpermilps vpermps vpsravd vsha512msg1 vsha512msg2 vsha512rnds2 vsm3msg1 " +
		"vsm3msg2 vsm3rnds2 vsm4key4 vsm4rnds4 vtestpd vtestps")
	ignoredWEVEX = wordSet("vaesdec vaesdeclast vaesenc vaesenclast vextractps vpabsb vpabsw vpacksswb vpackuswb vpaddb vpaddsb vpaddsw vpaddusb vpaddusw " +
		"vpaddw vpavgb vpavgw vpclmulqdq vpcmpeqb vpcmpeqw vpcmpgtb vpcmpgtw vpextrb vpextrw vpinsrb vpinsrw vpmaddubsw vpmaddwd vpmaxsb " +
		"vpmaxsw vpmaxub vpmaxuw vpminsb vpminsw vpminub vpminuw vpmovsxbd vpmovsxbq vpmovsxbw vpmovsxwd vpmovsxwq vpmovzxbd vpmovzxbq " +
		"vpmovzxbw vpmovzxwd vpmovzxwq vpmulhrsw vpmulhuw vpmulhw vpmullw vpsadbw vpshufb vpshufhw vpshuflw vpslldq vpsllw vpsraw vpsrldq " +
		"vpsrlw vpsubb vpsubsb vpsubsw vpsubusb vpsubusw vpsubw vpunpckhbw vpunpckhwd vpunpcklbw vpunpcklwd")
)

func wordSet(s string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(s) {
		m[w] = true
	}
	return m
}

// misread: the library takes memory for a register or the other way round, where
// the processor knows no such instruction.
func misread(in *x86asm.Inst, e *encoding) bool {
	switch in.Op {
	case x86asm.RDRAND:
		return true // written from the supplement
	case x86asm.RDFSBASE, x86asm.RDGSBASE, x86asm.WRFSBASE, x86asm.WRGSBASE:
		return e.memory()
	case x86asm.MOVLPD, x86asm.MOVHPD:
		return !e.memory()
	}
	return false
}

// ask gives the instruction to x86asm without prefixes that change nothing, and
// with W or L as zero.
func (t *text) ask(noW, noL bool) (in x86asm.Inst, ok bool) {
	e := t.e
	var b [longestInstruction]byte
	n := 0
	put := func(p byte) { b[n] = p; n++ }
	switch e.kind {
	case vex, evex:
		if e.badVector() {
			return in, false
		}
		if e.kind == evex && e.opmap > map0F3A {
			return in, false // taken for maps 1 to 3
		}
		if e.kind == vex && e.opmap == map0F && e.opcode == 0x77 {
			return in, false // taken for one with operands
		}
	case plain:
		if e.lock {
			put(0xf0)
		}
		if e.rep != 0 {
			put(e.rep)
		}
		if e.opsize > 0 {
			put(0x66)
		}
		// With VEX it does not know this prefix, and its answer does not depend on it.
		if e.addr32 {
			put(0x67)
		}
		if e.rex != 0 {
			put(e.rex)
		}
	default:
		return in, false
	}
	size := n + copy(b[n:], e.code[e.start:])
	switch {
	case e.kind == vex && b[0] == 0xc4:
		if noW {
			b[2] &^= 0x80
		}
		if noL {
			b[2] &^= 4
		}
	case e.kind == vex:
		if noL {
			b[1] &^= 4
		}
	case e.kind == evex:
		if noW {
			b[2] &^= 0x80
		}
		if noL {
			b[3] &^= 0x60
		}
	}
	in, err := x86asm.Decode(b[:size], 64)
	if err != nil || in.Op == 0 || in.Len != size {
		return x86asm.Inst{}, false
	}
	return in, true
}

// plain writes an instruction of the old maps.
func (t *text) plain(in *x86asm.Inst) {
	e := t.e
	var rep, opsize bool
	for _, p := range in.Prefix {
		switch p & 0xff {
		case 0xf2, 0xf3:
			rep = rep || p&x86asm.PrefixImplicit != 0
		case 0x66:
			opsize = opsize || p&x86asm.PrefixImplicit != 0
		}
	}
	name := mnemonics()[in.Op]
	t.prefixes(rep, opsize, name)
	args := in.Args[:]
	switch in.Op {
	case x86asm.CMPPS, x86asm.CMPPD, x86asm.CMPSS, x86asm.CMPSD_XMM:
		if named, ok := withPredicate(name, predicatesSSE, e.imm8()); ok {
			name, args = named, args[:2]
		}
	case x86asm.MOV:
		if e.opmap == mapOne && (e.opcode&0xfc == 0xa0 && !e.addr32 || e.opcode&0xf8 == 0xb8 && e.w) {
			name = "movabs"
		}
	case x86asm.XCHG:
		if e.opcode > 0x87 || !e.memory() { // both orders are right, this is the common one
			args[0], args[1] = args[1], args[0]
		}
	}
	t.put(name)
	for i, a := range args {
		if a == nil {
			break
		}
		t.operand(i == 0)
		t.argument(in, i, a)
	}
}

func (t *text) argument(in *x86asm.Inst, i int, a x86asm.Arg) {
	switch a := a.(type) {
	case x86asm.Reg:
		t.register(in, i, a)
	case x86asm.Imm:
		t.libraryImmediate(in, a)
	case x86asm.Rel:
		t.branch(int64(a))
	case x86asm.Mem:
		if !t.e.hasModRM {
			t.absolute(in.MemBytes)
			return
		}
		scale, index := 1, 0
		if t.e.kind == evex && t.e.dispLen == 1 && t.e.disp != 0 {
			scale = int(a.Disp / int64(t.e.disp))
		}
		switch {
		case a.Index >= x86asm.Z0 && a.Index <= x86asm.Z31:
			index = 64
		case a.Index >= x86asm.Y0 && a.Index <= x86asm.Y31:
			index = 32
		case a.Index >= x86asm.X0 && a.Index <= x86asm.X31:
			index = 16
		}
		t.memory(sizeWord(memorySize(in, t.e)), index, scale)
	}
}

// absolute writes the operand of MOV that is an address and nothing else.
func (t *text) absolute(size int) {
	t.put(sizeWord(size))
	t.put(segmentName(t.e.segment))
	t.put("[0x")
	var addr uint64
	for i, b := range t.e.code[t.e.imm:] {
		addr |= uint64(b) << (8 * i)
	}
	t.buf = strconv.AppendUint(t.buf, addr, 16)
	t.put("]")
}

// memorySize is what the size word tells, 0 none.
func memorySize(in *x86asm.Inst, e *encoding) int {
	switch in.Op {
	case x86asm.FLD, x86asm.FSTP:
		if in.MemBytes == 0 {
			return 10
		}
	case x86asm.FBLD, x86asm.FBSTP:
		return 10
	case x86asm.PREFETCHNTA, x86asm.PREFETCHT0, x86asm.PREFETCHT1, x86asm.PREFETCHT2, x86asm.INVLPG:
		return 1
	}
	return in.MemBytes
}

// libraryImmediate writes an immediate: with a sign when it is shorter than the
// operation and extended, or a byte to count with, else as the number that it is.
func (t *text) libraryImmediate(in *x86asm.Inst, a x86asm.Imm) {
	e := t.e
	size := len(e.code) - e.imm
	if e.kind != plain || e.opmap != mapOne {
		t.unsigned(uint64(e.imm8()))
		return
	}
	switch in.Op {
	case x86asm.RET, x86asm.LRET, x86asm.ENTER, x86asm.INT, x86asm.IN, x86asm.OUT,
		x86asm.SHL, x86asm.SHR, x86asm.SAR, x86asm.ROL, x86asm.ROR, x86asm.RCL, x86asm.RCR:
		if a < 0 {
			a &= 1<<16 - 1
		}
		t.unsigned(uint64(a))
		return
	case x86asm.PUSH:
	default:
		switch {
		case size == 1:
			a = x86asm.Imm(int8(a))
		case size == 2:
			a &= 1<<16 - 1
		case size == 4 && !e.w:
			a &= 1<<32 - 1
		}
	}
	t.number(int64(a))
}

func (t *text) register(in *x86asm.Inst, i int, r x86asm.Reg) {
	switch {
	case r >= x86asm.AL && r <= x86asm.BH:
		t.put(namesOld[r-x86asm.AL])
	case r >= x86asm.SPB && r <= x86asm.R15B:
		t.put(names8[r-x86asm.SPB+4])
	case r >= x86asm.AX && r <= x86asm.R15W:
		t.put(names16[r-x86asm.AX])
	case r >= x86asm.EAX && r <= x86asm.R15L:
		t.put(names32[r-x86asm.EAX])
	case r >= x86asm.RAX && r <= x86asm.R15:
		t.put(names64[r-x86asm.RAX])
	case r >= x86asm.M0 && r <= x86asm.M7:
		t.put(namesMM[r-x86asm.M0])
	case r >= x86asm.X0 && r <= x86asm.X31:
		t.put(namesX[r-x86asm.X0])
	case r >= x86asm.Y0 && r <= x86asm.Y31:
		t.put(namesY[r-x86asm.Y0])
	case r >= x86asm.Z0 && r <= x86asm.Z31:
		t.put(namesZ[r-x86asm.Z0])
	case r >= x86asm.K0 && r <= x86asm.K7:
		t.put(namesK[r-x86asm.K0])
	case r >= x86asm.F0 && r <= x86asm.F7:
		t.put("st")
		// The one that is always the top of the stack is not written with its number.
		implied := in.Args[1] != nil && (i == 0) == (t.e.opcode&7 != 4 && t.e.opcode&7 != 6)
		if !implied {
			t.buf = append(t.buf, '(', '0'+byte(r-x86asm.F0), ')')
		}
	default:
		t.put(strings.ToLower(r.String()))
	}
}

// prefixes writes what of the prefixes is neither part of the opcode nor seen in
// the operands. rep and opsize: one of those is.
func (t *text) prefixes(rep, opsize bool, name string) {
	e := t.e
	extra := e.opsize
	if opsize && extra > 0 || name == "nop" && extra > 0 {
		extra--
	}
	for range extra {
		t.put("data16 ")
	}
	if e.addr32 && !e.hasModRM && !addressed[name] {
		t.put("addr32 ")
	}
	branch := name == "jmp" || name == "call"
	if e.segment == 0x3e && branch && e.hasModRM {
		t.put("notrack ")
	}
	if e.rep != 0 && !rep {
		switch {
		case e.rep == 0xf2 && (branch || name == "ret" || e.conditional()):
			t.put("bnd ")
		case e.memory() && (e.lock || name == "xchg"):
			t.put([...]string{"xacquire ", "xrelease "}[e.rep&1])
		case e.memory() && e.rep == 0xf3 && name == "mov":
			t.put("xrelease ")
		case e.rep == 0xf2:
			t.put("repne ")
		case e.opmap == mapOne && (e.opcode&^1 == 0xa6 || e.opcode&^1 == 0xae):
			t.put("repe ")
		default:
			t.put("rep ")
		}
	}
	if e.lock {
		t.put("lock ")
	}
}

// conditional: one of the Jcc.
func (e *encoding) conditional() bool {
	return e.opmap == mapOne && e.opcode&0xf0 == 0x70 || e.opmap == map0F && e.opcode&0xf0 == 0x80
}

// addressed are the instructions without ModRM that a 67 prefix changes.
var addressed = wordSet("movabs mov jecxz jrcxz loop loope loopne xlatb movsb movsw movsd movsq cmpsb cmpsw cmpsd cmpsq " +
	"stosb stosw stosd stosq lodsb lodsw lodsd lodsq scasb scasw scasd scasq insb insw insd outsb outsw outsd")
