package ptrace

import (
	"strconv"
	"strings"

	"golang.org/x/arch/x86/x86asm"
)

// Comparison predicates, part of the name where there is one for the immediate.
var (
	predicatesSSE = strings.Fields("eq lt le unord neq nlt nle ord")
	predicates    = append(predicatesSSE, strings.Fields("eq_uq nge ngt false neq_oq ge gt true "+
		"eq_os lt_oq le_oq unord_s neq_us nlt_uq nle_uq ord_s eq_us nge_uq ngt_uq false_os neq_os ge_oq gt_oq true_us")...)
	predicatesInt = strings.Split("eq lt le  neq nlt nle", " ")
	predicatesXOP = strings.Fields("lt le gt ge eq neq false true")
)

// withPredicate puts the predicate into the name: VCMPPS to VCMPLTPS.
func withPredicate(name string, list []string, n byte) (string, bool) {
	if int(n) >= len(list) || list[n] == "" {
		return name, false
	}
	for _, stem := range []string{"vpcmp", "vpcom", "vcmp", "cmp"} {
		if rest, ok := strings.CutPrefix(name, stem); ok {
			return stem + list[n] + rest, true
		}
	}
	return name, false
}

// vector writes an instruction with VEX or EVEX.
func (t *text) vector(in *x86asm.Inst) {
	e := t.e
	name := mnemonics()[in.Op]
	args := in.Args[:]
	for i, a := range args {
		if a == nil {
			args = args[:i]
			break
		}
	}
	var list []string
	switch in.Op {
	case x86asm.VCMPPS, x86asm.VCMPPD, x86asm.VCMPSS, x86asm.VCMPSD:
		list = predicates
	case x86asm.VPCMPB, x86asm.VPCMPW, x86asm.VPCMPD, x86asm.VPCMPQ, x86asm.VPCMPUB, x86asm.VPCMPUW, x86asm.VPCMPUD, x86asm.VPCMPUQ:
		list = predicatesInt
	}
	if named, ok := withPredicate(name, list, e.imm8()); ok {
		name, args = named, args[:len(args)-1]
	}
	t.put(name)
	first := true
	rounding := ""
	if in.SAE {
		rounding = t.rounding(name, in.Rounding)
	}
	for i, a := range args {
		if r, ok := a.(x86asm.Reg); ok && i == 1 && e.kind == evex && e.aaa != 0 && r == x86asm.K0+x86asm.Reg(e.aaa) {
			t.mask()
			continue
		}
		last := i == len(args)-1
		_, imm := a.(x86asm.Imm)
		if rounding != "" && last && (imm || strings.HasPrefix(name, "vcvt") && isGeneral(a) && i > 1) {
			t.operand(first)
			t.put(rounding)
			rounding = ""
		}
		t.operand(first)
		first = false
		t.argument(in, i, a)
		if _, ok := a.(x86asm.Mem); ok && in.Broadcast {
			t.broadcast(in, name)
		}
	}
	if rounding != "" {
		t.operand(first)
		t.put(rounding)
	}
}

func isGeneral(a x86asm.Arg) bool {
	r, ok := a.(x86asm.Reg)
	return ok && r >= x86asm.EAX && r <= x86asm.R15
}

// rounding is the operand that says how is rounded, or that exceptions are not
// reported where nothing is rounded.
func (t *text) rounding(name string, mode int8) string {
	if !rounds(name) {
		return "{sae}"
	}
	return [...]string{"{rn-sae}", "{rd-sae}", "{ru-sae}", "{rz-sae}"}[mode&3]
}

func rounds(name string) bool {
	switch {
	case strings.HasPrefix(name, "vcvtt"), name == "vcvtps2pd", name == "vcvtss2sd", name == "vcvtph2ps":
		return false
	}
	for _, p := range []string{"vadd", "vsub", "vmul", "vdiv", "vsqrt", "vscalef", "vfm", "vfnm", "vcvt"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// broadcast writes how often the element in memory is taken.
func (t *text) broadcast(in *x86asm.Inst, name string) {
	n := t.e.vectorSize() / max(in.MemBytes, 1)
	switch in.Op {
	case x86asm.VCVTPS2PD, x86asm.VCVTDQ2PD, x86asm.VCVTUDQ2PD, x86asm.VCVTPS2QQ, x86asm.VCVTPS2UQQ, x86asm.VCVTTPS2QQ, x86asm.VCVTTPS2UQQ:
		n /= 2
	}
	t.put("{1to")
	t.put(strconv.Itoa(n))
	t.put("}")
}
