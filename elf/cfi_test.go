package elf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// cfiBytes builds a table: values are bytes, strings or numbers with a width.
func cfiBytes(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, byte(p))
		case string:
			b = append(b, p...)
		case uint16:
			b = le.AppendUint16(b, p)
		case uint32:
			b = le.AppendUint32(b, p)
		case uint64:
			b = le.AppendUint64(b, p)
		case []byte:
			b = append(b, p...)
		default:
			panic(fmt.Sprintf("%T", p))
		}
	}
	return b
}

// sized puts the length of a record before it.
func sized(b []byte) []byte { return append(le.AppendUint32(nil, uint32(len(b))), b...) }

// testTable is one CIE and one FDE for [0x1000, 0x1100).
func testTable(cieCode, code []byte) []byte {
	// CFA = RSP+8, RA at CFA-8.
	cie := sized(cfiBytes(uint32(0), 1, "zR\x00", 1, 0x78, 16, 1, 0x00, 0x0c, 7, 8, 0x90, 1, cieCode))
	fde := sized(cfiBytes(uint32(len(cie)+4), uint64(0x1000), uint64(0x100), 0, code))
	return append(append(cie, fde...), 0, 0, 0, 0)
}

// describeRules prints rules like readelf does: the CFA and then registers.
func describeRules(r Rules) string {
	reg := func(n int64) string {
		names := []string{"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "ra"}
		if n < 0 || n >= int64(len(names)) {
			return fmt.Sprintf("r%d", n)
		}
		return names[n]
	}
	parts := []string{"exp"}
	if r.cfa.kind == ruleIs {
		parts[0] = fmt.Sprintf("%s%+d", reg(int64(r.reg)), r.cfa.n)
	}
	for n, v := range r.regs {
		text := ""
		switch v.kind {
		case ruleNone:
			continue
		case ruleUndefined:
			text = "u"
		case ruleSame:
			text = "s"
		case ruleAt:
			text = fmt.Sprintf("c%+d", v.n)
		case ruleIs:
			text = fmt.Sprintf("v%+d", v.n)
		case ruleRegister:
			text = reg(v.n)
		case ruleAtExpr:
			text = "exp"
		case ruleIsExpr:
			text = "vexp"
		}
		parts = append(parts, reg(int64(n))+"="+text)
	}
	return strings.Join(parts, " ")
}

func TestCallFrameInstructions(t *testing.T) {
	for _, tt := range []struct {
		name  string
		code  []byte
		vaddr uint64
		want  string
	}{
		{"initial", nil, 0x1000, "rsp+8 ra=c-8"},
		{"advance, before", cfiBytes(0x41, 0x0e, 16), 0x1000, "rsp+8 ra=c-8"},
		{"advance, at", cfiBytes(0x41, 0x0e, 16), 0x1001, "rsp+16 ra=c-8"},
		{"advance1", cfiBytes(0x02, 0x20, 0x0e, 16), 0x101f, "rsp+8 ra=c-8"},
		{"advance1, at", cfiBytes(0x02, 0x20, 0x0e, 16), 0x1020, "rsp+16 ra=c-8"},
		{"advance2", cfiBytes(0x03, uint16(0x80), 0x0e, 16), 0x1080, "rsp+16 ra=c-8"},
		{"advance4", cfiBytes(0x04, uint32(0x80), 0x0e, 16), 0x107f, "rsp+8 ra=c-8"},
		{"advance8", cfiBytes(0x1d, uint64(0x80), 0x0e, 16), 0x1080, "rsp+16 ra=c-8"},
		{"advance past the end of addresses", cfiBytes(0x1d, ^uint64(0), 0x0e, 16), 0x1080, "rsp+8 ra=c-8"},
		{"set_loc", cfiBytes(0x01, uint64(0x1010), 0x0e, 16), 0x1010, "rsp+16 ra=c-8"},
		{"set_loc, before", cfiBytes(0x01, uint64(0x1010), 0x0e, 16), 0x100f, "rsp+8 ra=c-8"},
		{"offset", cfiBytes(0x83, 2), 0x1000, "rsp+8 rbx=c-16 ra=c-8"},
		{"offset_extended", cfiBytes(0x05, 12, 3), 0x1000, "rsp+8 r12=c-24 ra=c-8"},
		{"offset_extended_sf", cfiBytes(0x11, 12, 0x7f), 0x1000, "rsp+8 r12=c+8 ra=c-8"},
		{"GNU_negative_offset_extended", cfiBytes(0x2f, 12, 2), 0x1000, "rsp+8 r12=c+16 ra=c-8"},
		{"a vector register", cfiBytes(0x05, 20, 3), 0x1000, "rsp+8 ra=c-8"},
		{"undefined", cfiBytes(0x07, 16), 0x1000, "rsp+8 ra=u"},
		{"same_value", cfiBytes(0x08, 3), 0x1000, "rsp+8 rbx=s ra=c-8"},
		{"register", cfiBytes(0x09, 6, 12), 0x1000, "rsp+8 rbp=r12 ra=c-8"},
		{"restore", cfiBytes(0x83, 2, 0xc3), 0x1000, "rsp+8 ra=c-8"},
		{"restore of the return address", cfiBytes(0x90, 5, 0xd0), 0x1000, "rsp+8 ra=c-8"},
		{"restore_extended", cfiBytes(0x05, 12, 3, 0x06, 12), 0x1000, "rsp+8 ra=c-8"},
		{"remember and restore", cfiBytes(0x0a, 0x0e, 32, 0x86, 2, 0x41, 0x0b), 0x1001, "rsp+8 ra=c-8"},
		{"remembered, before restore", cfiBytes(0x0a, 0x0e, 32, 0x86, 2, 0x41, 0x0b), 0x1000, "rsp+32 rbp=c-16 ra=c-8"},
		{"remember twice", cfiBytes(0x0a, 0x0e, 16, 0x0a, 0x0e, 24, 0x0b), 0x1000, "rsp+16 ra=c-8"},
		{"def_cfa", cfiBytes(0x0c, 6, 16), 0x1000, "rbp+16 ra=c-8"},
		{"def_cfa_sf", cfiBytes(0x12, 6, 0x7e), 0x1000, "rbp+16 ra=c-8"},
		{"def_cfa_register", cfiBytes(0x0d, 6), 0x1000, "rbp+8 ra=c-8"},
		{"def_cfa_offset", cfiBytes(0x0e, 0x80, 2), 0x1000, "rsp+256 ra=c-8"},
		{"def_cfa_offset_sf", cfiBytes(0x13, 0x7e), 0x1000, "rsp+16 ra=c-8"},
		{"def_cfa_expression", cfiBytes(0x0f, 2, 0x77, 8), 0x1000, "exp ra=c-8"},
		{"expression", cfiBytes(0x10, 6, 2, 0x77, 8), 0x1000, "rsp+8 rbp=exp ra=c-8"},
		{"val_expression", cfiBytes(0x16, 6, 2, 0x77, 8), 0x1000, "rsp+8 rbp=vexp ra=c-8"},
		{"val_offset", cfiBytes(0x14, 7, 2), 0x1000, "rsp+8 rsp=v-16 ra=c-8"},
		{"val_offset_sf", cfiBytes(0x15, 7, 0x7e), 0x1000, "rsp+8 rsp=v+16 ra=c-8"},
		{"GNU_args_size", cfiBytes(0x2e, 0x90, 1, 0x0e, 16), 0x1000, "rsp+16 ra=c-8"},
		{"padding", make([]byte, 20), 0x10ff, "rsp+8 ra=c-8"},
	} {
		r, err := ParseCFI(testTable(nil, tt.code), 0).Rules(tt.vaddr)
		if err != nil || describeRules(r) != tt.want || r.Start != 0x1000 || r.End != 0x1100 {
			t.Errorf("%s: got %q of %#x-%#x, %v, want %q", tt.name, describeRules(r), r.Start, r.End, err, tt.want)
		}
	}
	for name, code := range map[string][]byte{
		"restore_state alone": {0x0b}, "restore in a cut instruction": {0x06}, "unknown": {0x3f}, "cut offset": {0x83}, "cut advance": {0x03, 1},
		"cut expression": {0x0f, 5, 0x77}, "set_loc back": cfiBytes(0x01, uint64(0xfff)), "half of an expression": {0x0f, 1, 0x30, 0x0e, 8},
		"CFA of an unknown register": {0x0c, 33, 8}, "LEB128 without an end": append([]byte{0x0e}, bytes.Repeat([]byte{0xff}, 30)...),
		"states without an end": bytes.Repeat([]byte{0x0a}, maxCFAStates+1), "an expression too long": {0x0f, 0x81, 0x20},
	} {
		if r, err := ParseCFI(testTable(nil, code), 0).Rules(0x1000); err == nil || r.exprs != nil || describeRules(r) != describeRules(Rules{}) {
			t.Errorf("%s: got %q, %v, want an error", name, describeRules(r), err)
		}
	}
	if _, err := ParseCFI(testTable([]byte{0xc3}, nil), 0).Rules(0x1000); !errors.Is(err, ErrFormat) {
		t.Errorf("restore in a CIE: %v", err)
	}
	for _, vaddr := range []uint64{0, 0xfff, 0x1100, ^uint64(0)} {
		if _, err := ParseCFI(testTable(nil, nil), 0).Rules(vaddr); !errors.Is(err, ErrNoFDE) {
			t.Errorf("%#x: %v, want ErrNoFDE", vaddr, err)
		}
	}
}

func TestCIEForms(t *testing.T) {
	fde := func(cie []byte, rest ...any) []byte {
		return append(append([]byte{}, cie...), sized(cfiBytes(append([]any{uint32(len(cie) + 4)}, rest...)...))...)
	}
	plain := cfiBytes(uint64(0x1000), uint64(0x100))
	for _, tt := range []struct {
		name, want string
		table      []byte
		signal     bool
	}{
		{"no augmentation", "rsp+8 ra=c-8", fde(sized(cfiBytes(uint32(0), 1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1)), plain), false},
		{"version 3", "rsp+8 ra=c-8", fde(sized(cfiBytes(uint32(0), 3, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1)), plain), false},
		{"version 4", "rsp+8 ra=c-8", fde(sized(cfiBytes(uint32(0), 4, 0, 8, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1)), plain), false},
		{"gcc 2", "rsp+8 ra=c-8", fde(sized(cfiBytes(uint32(0), 1, "eh\x00", uint64(5), 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1)), plain), false},
		{"personality, LSDA and signal", "rsp+8 ra=c-8",
			fde(sized(cfiBytes(uint32(0), 1, "zPLRS\x00", 1, 0x78, 16, 7, 0x1b, uint32(99), 0x1b, 0x00, 0x0c, 7, 8, 0x90, 1)), plain, 4, uint32(7)), true},
		{"aligned personality", "rsp+8 ra=c-8",
			fde(sized(cfiBytes(uint32(0), 1, "zRP\x00", 1, 0x78, 16, 15, 0x00, 0x50, 0, 0, 0, 0, 0, uint64(9), 0x0c, 7, 8, 0x90, 1)), plain, 0), false},
		{"letters unknown here", "rsp+8 ra=c-8", fde(sized(cfiBytes(uint32(0), 1, "zRB?\x00", 1, 0x78, 16, 3, 0x00, 1, 2, 0x0c, 7, 8, 0x90, 1)), plain, 0), false},
		{"relative addresses", "rsp+8 ra=c-8", func() []byte {
			cie := sized(cfiBytes(uint32(0), 1, "zR\x00", 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1))
			at := len(cie) + 8 // of the address field; the table lies at 0
			return fde(cie, uint32(0x1000-at), uint32(0x100), 0)
		}(), false},
		{"extended length", "rsp+8 ra=c-8", func() []byte {
			cie := testTable(nil, nil)[:0]
			body := cfiBytes(uint32(0), 1, "zR\x00", 1, 0x78, 16, 1, 0x00, 0x0c, 7, 8, 0x90, 1)
			cie = append(cie, cfiBytes(^uint32(0), uint64(len(body)), body)...)
			body = cfiBytes(uint32(len(cie)+12), plain, 0)
			return append(cie, cfiBytes(^uint32(0), uint64(len(body)), body)...)
		}(), false},
	} {
		r, err := ParseCFI(tt.table, 0).Rules(0x1080)
		if err != nil || describeRules(r) != tt.want || r.Signal != tt.signal {
			t.Errorf("%s: got %q, signal %v, %v", tt.name, describeRules(r), r.Signal, err)
		}
	}
	for name, table := range map[string][]byte{
		"version 2":               fde(sized(cfiBytes(uint32(0), 2, 0, 1, 0x78, 16, 0x0c, 7, 8)), plain),
		"4-byte addresses":        fde(sized(cfiBytes(uint32(0), 4, 0, 4, 0, 1, 0x78, 16, 0x0c, 7, 8)), plain),
		"unknown augmentation":    fde(sized(cfiBytes(uint32(0), 1, "q\x00", 1, 0x78, 16, 0x0c, 7, 8)), plain),
		"return address too high": fde(sized(cfiBytes(uint32(0), 1, 0, 1, 0x78, 17, 0x0c, 7, 8)), plain),
		"augmentation too long":   fde(sized(cfiBytes(uint32(0), 1, "zR\x00", 1, 0x78, 16, 99, 0, 0x0c, 7, 8)), plain, 0),
		"indirect addresses":      fde(sized(cfiBytes(uint32(0), 1, "zR\x00", 1, 0x78, 16, 1, 0x80, 0x0c, 7, 8)), plain, 0),
		"data-relative addresses": fde(sized(cfiBytes(uint32(0), 1, "zR\x00", 1, 0x78, 16, 1, 0x30, 0x0c, 7, 8)), plain, 0),
		"function past the end":   fde(sized(cfiBytes(uint32(0), 1, 0, 1, 0x78, 16, 0x0c, 7, 8)), uint64(0x1000), ^uint64(0)),
		"pointer before the table": func() []byte {
			b := testTable(nil, nil)
			le.PutUint32(b[len(b)-4-25:], 0x1000)
			return b
		}(),
	} {
		if r, err := ParseCFI(table, 0).Rules(0x1080); err == nil {
			t.Errorf("%s: got %q", name, describeRules(r))
		}
	}
}

// words is memory of one value at each address.
type words map[uint64]uint64

func (m words) ReadAt(b []byte, addr uint64) (int, error) {
	v, ok := m[addr]
	if !ok {
		return 0, errors.New("not there")
	}
	return copy(b, le.AppendUint64(nil, v)), nil
}

func TestExpressions(t *testing.T) {
	var regs Registers
	regs.Set(RegRSP, 0x7000)
	regs.Set(RegRIP, 0x40100b)
	regs.Set(RegRBX, ^uint64(4)) // -5
	memory := words{0x7008: 0x1122334455667788, 0x7010: 0x7008}
	cfa := uint64(0x7020)
	for _, tt := range []struct {
		name string
		expr []byte
		want uint64
	}{
		{"lit", cfiBytes(0x30 + 7), 7},
		{"const1u", cfiBytes(0x08, 0xff), 0xff}, {"const1s", cfiBytes(0x09, 0xff), ^uint64(0)},
		{"const2u", cfiBytes(0x0a, uint16(0xfffe)), 0xfffe}, {"const2s", cfiBytes(0x0b, uint16(0xfffe)), ^uint64(1)},
		{"const4u", cfiBytes(0x0c, uint32(0xfffffffe)), 0xfffffffe}, {"const4s", cfiBytes(0x0d, uint32(0xfffffffe)), ^uint64(1)},
		{"const8u", cfiBytes(0x0e, uint64(1<<63)), 1 << 63}, {"const8s", cfiBytes(0x0f, uint64(1<<63)), 1 << 63},
		{"constu", cfiBytes(0x10, 0x80, 1), 128}, {"consts", cfiBytes(0x11, 0x7f), ^uint64(0)},
		{"deref", cfiBytes(0x77, 8, 0x06), 0x1122334455667788}, {"deref twice", cfiBytes(0x77, 16, 0x06, 0x06), 0x1122334455667788},
		{"deref_size 1", cfiBytes(0x77, 8, 0x94, 1), 0x88}, {"deref_size 4", cfiBytes(0x77, 8, 0x94, 4), 0x55667788},
		{"dup plus", cfiBytes(0x35, 0x12, 0x22), 10}, {"drop", cfiBytes(0x31, 0x32, 0x13), 1}, {"over", cfiBytes(0x31, 0x32, 0x14), 1},
		{"pick", cfiBytes(0x31, 0x32, 0x33, 0x15, 2), 1}, {"swap", cfiBytes(0x31, 0x33, 0x16, 0x1c), 2},
		{"rot", cfiBytes(0x31, 0x32, 0x33, 0x17), 2}, {"rot, second", cfiBytes(0x31, 0x32, 0x33, 0x17, 0x13), 1}, {"rot, third", cfiBytes(0x31, 0x32, 0x33, 0x17, 0x13, 0x13), 3},
		{"abs", cfiBytes(0x73, 0, 0x19), 5}, {"neg", cfiBytes(0x35, 0x1f), ^uint64(4)}, {"not", cfiBytes(0x30, 0x20), ^uint64(0)},
		{"and or xor", cfiBytes(0x3c, 0x3a, 0x1a, 0x33, 0x21, 0x31, 0x27), 10}, {"minus", cfiBytes(0x35, 0x33, 0x1c), 2}, {"mul", cfiBytes(0x35, 0x33, 0x1e), 15},
		{"div", cfiBytes(0x73, 0, 0x32, 0x1b), ^uint64(1)}, {"mod", cfiBytes(0x37, 0x34, 0x1d), 3},
		{"smallest divided by -1", cfiBytes(0x0e, uint64(1<<63), 0x09, 0xff, 0x1b), 1 << 63},
		{"plus_uconst", cfiBytes(0x35, 0x23, 0x80, 1), 133}, {"shl", cfiBytes(0x31, 0x34, 0x24), 16}, {"shr", cfiBytes(0x73, 0, 0x08, 63, 0x25), 1}, {"shra", cfiBytes(0x73, 0, 0x31, 0x26), ^uint64(2)},
		{"shift too far", cfiBytes(0x31, 0x08, 64, 0x24), 0}, {"shift much too far", cfiBytes(0x73, 0, 0x08, 200, 0x26), ^uint64(0)},
		{"eq ne", cfiBytes(0x31, 0x31, 0x29, 0x30, 0x2e), 1}, {"signed lt", cfiBytes(0x73, 0, 0x30, 0x2d), 1}, {"le", cfiBytes(0x31, 0x31, 0x2c), 1}, {"ge", cfiBytes(0x73, 0, 0x30, 0x2a), 0}, {"gt", cfiBytes(0x31, 0x30, 0x2b), 1},
		{"skip", cfiBytes(0x31, 0x2f, uint16(1), 0x3f), 1}, {"bra taken", cfiBytes(0x31, 0x31, 0x28, uint16(1), 0x3f), 1}, {"bra not taken", cfiBytes(0x31, 0x30, 0x28, uint16(1), 0x3f), 15},
		{"a loop that ends", cfiBytes(0x35, 0x31, 0x1c, 0x12, 0x28, uint16(0xfffa)), 0},
		{"bregx", cfiBytes(0x92, 7, 8), 0x7008}, {"negative offset", cfiBytes(0x77, 0x78), 0x6ff8}, {"nop", cfiBytes(0x31, 0x96), 1},
		{"call_frame_cfa", cfiBytes(0x9c), 0x7020}, {"the CFA is on the stack", cfiBytes(0x96), 0x7020}, {"stack_value ends", cfiBytes(0x31, 0x9f, 0xff), 1},
		{"PLT", cfiBytes(0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22), 0x7010},
	} {
		u := Unwinder{Memory: memory}
		if got, err := u.eval(tt.expr, &regs, &cfa); err != nil || got != tt.want {
			t.Errorf("%s: got %#x, %v, want %#x", tt.name, got, err, tt.want)
		}
	}
	for _, tt := range []struct {
		name string
		expr []byte
		want error
	}{
		{"empty stack", cfiBytes(0x13, 0x13), ErrFormat}, {"no result", cfiBytes(0x13), ErrFormat}, {"divided by zero", cfiBytes(0x31, 0x30, 0x1b), ErrFormat}, {"mod zero", cfiBytes(0x31, 0x30, 0x1d), ErrFormat},
		{"unknown operation", cfiBytes(0x03, uint64(0)), ErrFormat}, {"pick too deep", cfiBytes(0x15, 9), ErrFormat}, {"jump out", cfiBytes(0x2f, uint16(0x7fff)), ErrFormat}, {"jump before", cfiBytes(0x2f, uint16(0xff00)), ErrFormat},
		{"cut", cfiBytes(0x0e, 1), ErrFormat}, {"register 17", cfiBytes(0x92, 17, 0), ErrFormat}, {"deref_size 3", cfiBytes(0x77, 8, 0x94, 3), ErrFormat}, {"deref_size 16", cfiBytes(0x77, 8, 0x94, 16), ErrFormat},
		{"a register nobody knows", cfiBytes(0x76, 0), ErrUnknownRegister}, {"a loop", cfiBytes(0x2f, uint16(0xfffd)), ErrTooBig},
		{"stack without an end", bytes.Repeat([]byte{0x31}, maxExprStack+1), ErrFormat},
	} {
		u := Unwinder{Memory: memory}
		if got, err := u.eval(tt.expr, &regs, &cfa); !errors.Is(err, tt.want) || got != 0 {
			t.Errorf("%s: got %#x, %v, want %v", tt.name, got, err, tt.want)
		}
	}
	u := Unwinder{Memory: memory}
	if _, err := u.eval([]byte{0x9c}, &regs, nil); !errors.Is(err, ErrFormat) {
		t.Errorf("the CFA within its own expression: %v", err)
	}
	if _, err := u.eval(cfiBytes(0x30, 0x06), &regs, nil); err == nil || err.Error() != "not there" {
		t.Errorf("memory that cannot be read: %v", err)
	}
}

func TestCaller(t *testing.T) {
	memory := words{0x7018: 0x401234, 0x7010: 0xbbbb, 0x7008: 0x7010, 0x9000: 0xcccc}
	var regs Registers
	regs.Set(RegRSP, 0x7000)
	regs.Set(RegRIP, 0x1010)
	regs.Set(RegR12, 0x1212)
	regs.Set(RegRAX, 0xaaaa)
	rules := func(code ...any) Rules {
		r, err := ParseCFI(testTable(nil, cfiBytes(append([]any{0x0e, 0x20}, code...)...)), 0).Rules(0x1010)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	get := func(r Registers, n int) string {
		if v, ok := r.Get(n); ok {
			return fmt.Sprintf("%#x", v)
		}
		return "?"
	}
	for _, tt := range []struct {
		name  string
		rules Rules
		want  string // RSP RIP RBX RBP R12 RAX
	}{
		{"plain", rules(), "0x7020 0x401234 ? ? 0x1212 ?"},
		{"saved", rules(0x83, 2), "0x7020 0x401234 0xbbbb ? 0x1212 ?"},
		{"saved where nothing can be read", rules(0x83, 9), "0x7020 0x401234 ? ? 0x1212 ?"},
		{"saved by expression", rules(0x10, 3, 2, 0x70+7, 8), "0x7020 0x401234 0x7010 ? 0x1212 ?"},
		{"is an expression", rules(0x16, 3, 2, 0x70+7, 8), "0x7020 0x401234 0x7008 ? 0x1212 ?"},
		{"in a register", rules(0x09, 6, 12), "0x7020 0x401234 ? 0x1212 0x1212 ?"},
		{"lost", rules(0x07, 12), "0x7020 0x401234 ? ? ? ?"},
		{"kept although the ABI does not", rules(0x08, 0), "0x7020 0x401234 ? ? 0x1212 0xaaaa"},
		{"stack pointer of its own", rules(0x14, 7, 2), "0x7010 0x401234 ? ? 0x1212 ?"},
		{"return address in a register", rules(0x09, 16, 12), "0x7020 0x1212 ? ? 0x1212 ?"},
	} {
		u := Unwinder{Memory: memory}
		c, err := u.Caller(&tt.rules, &regs)
		got := strings.Join([]string{get(c, RegRSP), get(c, RegRIP), get(c, RegRBX), get(c, RegRBP), get(c, RegR12), get(c, RegRAX)}, " ")
		if err != nil || got != tt.want {
			t.Errorf("%s: got %s, %v, want %s", tt.name, got, err, tt.want)
		}
	}
	for name, tt := range map[string]struct {
		rules Rules
		want  error
	}{
		"frame address in a register nobody knows": {rules(0x0d, 6), ErrUnknownRegister},
		"return address in one":                    {rules(0x09, 16, 6), ErrUnknownRegister},
	} {
		u := Unwinder{Memory: memory}
		if c, err := u.Caller(&tt.rules, &regs); !errors.Is(err, tt.want) || c != (Registers{}) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	lost := rules(0x90, 9)
	u := Unwinder{Memory: memory}
	if c, err := u.Caller(&lost, &regs); err == nil || err.Error() != "not there" || c != (Registers{}) {
		t.Errorf("a return address that cannot be read: %+v, %v", c, err)
	}
	if end := rules(0x07, 16); !end.Last() || lost.Last() {
		t.Error("only an undefined return address is the end")
	}
	u.Memory = randomMemory(0)
	all := rules()
	if n := testing.AllocsPerRun(100, func() { _, _ = u.Caller(&all, &regs) }); n > 0 {
		t.Errorf("%v allocations for one frame", n)
	}
}

var (
	interpFDE = regexp.MustCompile(`FDE cie=[0-9a-f]+ pc=([0-9a-f]+)\.\.([0-9a-f]+)`)
	interpRow = regexp.MustCompile(`^([0-9a-f]{16}) +(\S+) *(.*)$`)
)

// Every row of every function is what readelf says.
func TestRulesAsReadelf(t *testing.T) {
	if _, err := exec.LookPath("readelf"); err != nil {
		t.Skip("readelf is not installed")
	}
	libc := "/lib/x86_64-linux-gnu/libc.so.6"
	if _, err := os.Stat(libc); err != nil {
		t.Skip("no ", libc)
	}
	dir := t.TempDir()
	noHeader := filepath.Join(dir, "without-header")
	debugFrame := filepath.Join(dir, "debug-frame")
	if out, err := exec.Command("objcopy", "--remove-section", ".eh_frame_hdr", libc, noHeader).CombinedOutput(); err != nil {
		t.Fatalf("objcopy: %v %s", err, out)
	}
	cmd := exec.Command("gcc", "-g", "-gz=zlib", "-O2", "-fno-asynchronous-unwind-tables", "-x", "c", "-o", debugFrame, "-")
	cmd.Stdin = strings.NewReader("#include <stdlib.h>\nint f(int*p){char*q=__builtin_alloca(*p);q[0]=rand();return q[0]+rand();}\nint main(int c,char**v){int r=0;for(int i=0;i<c;i++)r+=f(&i);return r+atoi(v[0]);}\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("gcc: %v %s", err, out)
	}
	for _, tt := range []struct {
		path string
		rows int
	}{{libc, 20000}, {noHeader, 20000}, {debugFrame, 10}} {
		rows := compareRules(t, tt.path)
		t.Logf("%s: %d rows equal", filepath.Base(tt.path), rows)
		if rows < tt.rows {
			t.Errorf("%s: only %d rows", tt.path, rows)
		}
	}
}

func compareRules(t *testing.T, path string) (rows int) {
	t.Helper()
	out, err := exec.Command("readelf", "--debug-dump=frames-interp", path).Output()
	if len(out) == 0 { // it complains of much and goes on
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(file, st.Size())
	if err != nil {
		t.Fatal(err)
	}
	var columns []string
	var start, end uint64
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if m := interpFDE.FindStringSubmatch(line); m != nil {
			start, _ = strconv.ParseUint(m[1], 16, 64)
			end, _ = strconv.ParseUint(m[2], 16, 64)
			columns = nil
			continue
		}
		if strings.Contains(line, " CIE ") {
			start, end = 0, 0
		}
		if strings.HasPrefix(line, "LOC") {
			columns = strings.Fields(line)[2:]
			continue
		}
		m := interpRow.FindStringSubmatch(line)
		if m == nil || end == 0 || columns == nil {
			continue
		}
		loc, _ := strconv.ParseUint(m[1], 16, 64)
		values := strings.Fields(m[3])
		if loc < start || loc >= end || len(values) != len(columns) {
			continue
		}
		want := map[string]string{}
		for i, c := range columns {
			if values[i] != "u" || c == "ra" { // readelf says u also for what is not said
				want[c] = values[i]
			}
		}
		r, err := f.Rules(loc)
		if err != nil {
			t.Errorf("%s %#x: %v", path, loc, err)
			return rows
		}
		got := map[string]string{}
		for _, part := range strings.Fields(describeRules(r))[1:] {
			reg, v, _ := strings.Cut(part, "=")
			if v != "u" || reg == "ra" {
				got[reg] = v
			}
		}
		cfa := strings.Fields(describeRules(r))[0]
		if cfa != m[2] || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s %#x: got %s, want %s %v", path, loc, describeRules(r), m[2], want)
			return rows
		}
		rows++
	}
	return rows
}

func TestSearchTableForms(t *testing.T) {
	// Three functions, and a header with entries of every width.
	cie := sized(cfiBytes(uint32(0), 1, "zR\x00", 1, 0x78, 16, 1, 0x00, 0x0c, 7, 8, 0x90, 1))
	table := bytes.Clone(cie)
	const at = 0x400000 // of .eh_frame
	var offsets []int
	starts := []uint64{0x1000, 0x2000, 0x3000}
	for i, s := range starts {
		offsets = append(offsets, len(table))
		table = append(table, sized(cfiBytes(uint32(len(table)+4), s, uint64(0x100), 0, 0x0e, 16*(i+1)))...)
	}
	for _, enc := range []struct {
		name  string
		enc   int
		value func(v, here, header uint64) []byte
	}{
		{"data-relative sdata4", 0x3b, func(v, _, h uint64) []byte { return cfiBytes(uint32(v - h)) }},
		{"relative sdata8", 0x1c, func(v, here, _ uint64) []byte { return cfiBytes(v - here) }},
		{"absolute udata4", 0x03, func(v, _, _ uint64) []byte { return cfiBytes(uint32(v)) }},
		{"absolute", 0x00, func(v, _, _ uint64) []byte { return cfiBytes(v) }},
	} {
		const header = 0x300000
		hdr := cfiBytes(1, 0x1b, 0x03, enc.enc, uint32(at-(header+4)), uint32(len(starts)))
		for i, s := range starts {
			hdr = append(hdr, enc.value(s, header+uint64(len(hdr)), header)...)
			hdr = append(hdr, enc.value(at+uint64(offsets[i]), header+uint64(len(hdr)), header)...)
		}
		for _, cut := range []int{0, 1} {
			c := ParseCFI(table, at)
			search, ehAddr := readSearchTable(&frameData{addr: header, size: uint64(len(hdr) - cut), whole: hdr[:len(hdr)-cut]})
			if ehAddr != at || (search == nil) != (cut == 1) {
				t.Fatalf("%s, %d bytes cut: table %v of .eh_frame at %#x", enc.name, cut, search, ehAddr)
			}
			c.tables[0].hdr = search
			for i, s := range starts {
				for _, in := range []uint64{0, 0xff} {
					r, err := c.Rules(s + in)
					if want := fmt.Sprintf("rsp+%d ra=c-8", 16*(i+1)); err != nil || describeRules(r) != want {
						t.Errorf("%s: %#x: %s, %v, want %s", enc.name, s+in, describeRules(r), err, want)
					}
				}
				for _, out := range []uint64{s - 1, s + 0x100} {
					if _, err := c.Rules(out); !errors.Is(err, ErrNoFDE) {
						t.Errorf("%s: %#x: %v, want ErrNoFDE", enc.name, out, err)
					}
				}
			}
		}
	}
	for name, hdr := range map[string][]byte{"empty": nil, "version 2": cfiBytes(2, 0x1b, 3, 0x3b, uint32(0), uint32(1)), "no pointer": cfiBytes(1, 0x1b), "too many": cfiBytes(1, 0x1b, 3, 0x3b, uint32(4), ^uint32(0), uint64(0)),
		"variable width": cfiBytes(1, 0x1b, 3, 0x01, uint32(4), uint32(1), 1, 1), "indirect": cfiBytes(1, 0x1b, 3, 0xbb, uint32(4), uint32(1), uint64(0)), "omitted": cfiBytes(1, 0x1b, 0xff, 0xff, uint32(4))} {
		if search, _ := readSearchTable(&frameData{size: uint64(len(hdr)), whole: hdr}); search != nil {
			t.Errorf("%s: %+v", name, search)
		}
	}
}

// randomMemory answers every address with bytes made from it.
type randomMemory uint64

func (m randomMemory) ReadAt(b []byte, addr uint64) (int, error) {
	for i := range b {
		x := (addr + uint64(i)) * 0x9e3779b97f4a7c15
		b[i] = byte(x>>40) ^ byte(m)
	}
	return len(b), nil
}

func FuzzCFI(f *testing.F) {
	f.Add(testTable(nil, cfiBytes(0x41, 0x0e, 16, 0x83, 2, 0x0a, 0x0b, 0x0f, 2, 0x77, 8, 0x16, 7, 1, 0x9c)), uint64(0x1010), false)
	f.Add(sized(cfiBytes(^uint32(0), 4, 0, 8, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1)), uint64(0), true)
	if exe, err := os.Executable(); err == nil {
		if b, err := os.ReadFile(exe); err == nil {
			if file, err := Open(bytes.NewReader(b), int64(len(b))); err == nil {
				if s, ok := file.Section(".eh_frame"); ok && s.Size < 1<<14 {
					f.Add(b[s.Offset:s.Offset+s.Size], uint64(0x1000), false)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, table []byte, vaddr uint64, debug bool) {
		c := ParseCFI(table, 0x400000)
		if debug {
			c = ParseDebugFrame(table)
		}
		for _, at := range []uint64{vaddr, 0x1010} {
			r, err := c.Rules(at)
			if err != nil {
				if describeRules(r) != describeRules(Rules{}) || r.exprs != nil {
					t.Errorf("rules %s with an error %v", describeRules(r), err)
				}
				continue
			}
			if at < r.Start || at >= r.End {
				t.Errorf("rules of %#x-%#x for %#x", r.Start, r.End, at)
			}
			if again, err := c.Rules(at); err != nil || describeRules(again) != describeRules(r) {
				t.Errorf("asked again: %s %v, before %s", describeRules(again), err, describeRules(r))
			}
			var regs Registers
			for n := range numRegisters {
				regs.Set(n, vaddr*uint64(n))
			}
			u := Unwinder{Memory: randomMemory(vaddr)}
			caller, err := u.Caller(&r, &regs)
			if err != nil && caller != (Registers{}) {
				t.Errorf("a caller with an error: %v", err)
			}
		}
		for _, tb := range c.tables {
			if len(tb.index) > len(table)/4 {
				t.Errorf("%d functions from %d bytes", len(tb.index), len(table))
			}
		}
	})
}

func FuzzSearchTable(f *testing.F) {
	f.Add(cfiBytes(1, 0x1b, 3, 0x3b, uint32(4), uint32(1), uint32(0x1000), uint32(0)), testTable(nil, nil), uint64(0x1000))
	f.Fuzz(func(t *testing.T, hdr, table []byte, vaddr uint64) {
		search, _ := readSearchTable(&frameData{addr: 0x300000, size: uint64(len(hdr)), whole: hdr})
		if search == nil {
			return
		}
		if search.count > uint64(len(hdr)) {
			t.Errorf("%d entries in %d bytes", search.count, len(hdr))
		}
		c := ParseCFI(table, 0x400000)
		c.tables[0].hdr = search
		if r, err := c.Rules(vaddr); err == nil && (vaddr < r.Start || vaddr >= r.End) {
			t.Errorf("rules of %#x-%#x for %#x", r.Start, r.End, vaddr)
		}
	})
}

func FuzzExpression(f *testing.F) {
	f.Add(cfiBytes(0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22))
	f.Add(cfiBytes(0x2f, uint16(0xfffd)))
	f.Fuzz(func(t *testing.T, expr []byte) {
		var regs Registers
		regs.Set(RegRSP, 0x7000)
		u := Unwinder{Memory: randomMemory(1)}
		if v, err := u.eval(expr, &regs, nil); err != nil && v != 0 {
			t.Errorf("%#x with %v", v, err)
		}
	})
}

func BenchmarkRules(b *testing.B) {
	file, err := os.Open("/lib/x86_64-linux-gnu/libc.so.6")
	if err != nil {
		b.Skip(err)
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		b.Fatal(err)
	}
	f, err := Open(file, st.Size())
	if err != nil {
		b.Fatal(err)
	}
	text, _ := f.Section(".text")
	b.Run("warm", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			_, _ = f.Rules(text.Addr + uint64(i%64)*4096)
		}
	})
	b.Run("new address", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			_, _ = f.Rules(text.Addr + uint64(i)*37%text.Size)
		}
	})
}
