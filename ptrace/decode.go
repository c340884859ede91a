package ptrace

// Instruction is one machine instruction.
//
// Shape: Text is mnemonic and operands in Intel syntax, with the address and, when
// known, the symbol that a branch or a RIP-relative operand means; "(unknown)"
// for an instruction whose end is known and whose name is not; "(bad)" for one
// byte where no instruction of 64-bit mode starts. It has no control characters.
type Instruction struct {
	Address uint64
	Bytes   []byte // part of the code that was given, never empty
	Text    string
}

// Text of what has no name.
const (
	textUnknown = "(unknown)"
	textBad     = "(bad)"
)

// Decode returns up to n instructions of 64-bit code that stands at pc, the first
// at pc itself. It ends where code ends; an instruction that goes on beyond it is
// left out. name gives the symbol for an address ("main+0x10") and "" where there
// is none; it may be nil.
//
// Source: Intel SDM volume 2, AMD64 manual volumes 3 to 6; spelling as in LLVM.
func Decode(code []byte, pc uint64, n int, name func(addr uint64) string) []Instruction {
	var list []Instruction
	for len(list) < n && len(code) > 0 {
		e, ok, cut := parseEncoding(code)
		if cut {
			break
		}
		in := Instruction{Address: pc, Text: textBad}
		size := 1
		if ok {
			size = len(e.code)
			in.Text = describe(&e, pc, name)
		}
		in.Bytes = code[:size:size]
		list = append(list, in)
		code, pc = code[size:], pc+uint64(size)
	}
	return list
}

// describe gives the text of one instruction.
func describe(e *encoding, pc uint64, name func(addr uint64) string) string {
	t := text{e: e, next: pc + uint64(len(e.code)), name: name}
	t.buf = t.room[:0]
	if !t.supplement() && !t.library() {
		return textUnknown
	}
	t.comment()
	return string(t.buf)
}
