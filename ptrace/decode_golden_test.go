package ptrace

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/arch/x86/x86asm"
)

// goldenFile holds instructions and what LLVM says of them, a line each: bytes and
// text, in Intel syntax with decimal numbers. They stand slot by slot behind
// goldenBase. UPDATE=1 makes it anew from the files PROCINSH_DISASM names and from
// the sweeps; that takes minutes and llvm-objdump.
const (
	goldenFile = "testdata/disasm/golden.txt"
	goldenBase = 0x100000
	goldenMost = 300 << 10 // bytes
)

func TestDecodeGolden(t *testing.T) {
	if os.Getenv("UPDATE") != "" {
		updateGolden(t)
	}
	data, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > goldenMost {
		t.Errorf("%s has %d bytes, want at most %d", goldenFile, len(data), goldenMost)
	}
	n := 0
	names := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if line[0] == '#' {
			continue
		}
		raw, want, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		code, err := hex.DecodeString(raw)
		if !ok || err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		pc := uint64(goldenBase + n*slot)
		n++
		// What follows must not matter, nor must its absence.
		for _, tail := range []string{"", "\x90\x90\x90\x90\x90\x90\x90\x90", "\xff\xff\xff\xff\xff\xff\xff\xff"} {
			got := Decode(append(slices.Clone(code), tail...), pc, 1, nil)
			if len(got) != 1 || got[0].Address != pc || len(got[0].Bytes) != len(code) {
				t.Errorf("%s: got %d instructions %+v, want one of %d bytes (%s)", raw, len(got), got, len(code), want)
				break
			}
			_, g := commonText(got[0].Text)
			name, w := commonText(want)
			names[name] = true
			if g != w {
				t.Errorf("%s: got %q, want %q", raw, got[0].Text, want)
				break
			}
		}
	}
	if n < 4000 || len(names) < 1500 {
		t.Errorf("%d instructions with %d mnemonics were compared, want 4000 with 1500", n, len(names))
	}
}

// The unwinder takes instructions one by one too: none may end at the wrong byte, or
// seem to leave the general registers alone when it writes one.
func TestUnwinderKeepsStep(t *testing.T) {
	data, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	known, vectors := 0, 0
	for line := range strings.Lines(string(data)) {
		raw, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		code, err := hex.DecodeString(raw)
		if line[0] == '#' || err != nil {
			continue
		}
		inst, size, ok := decode(append(slices.Clone(code), "\x90\x90\x90\x90\x90\x90\x90\x90"...))
		if !ok {
			continue // the walk goes another way
		}
		known++
		if size != len(code) {
			t.Errorf("%s %s: %d bytes", raw, text, size)
		}
		e, _, _ := parseEncoding(code)
		if inst.Op == x86asm.NOP && e.vectorsAlone() {
			vectors++
			operands := strings.TrimLeft(strings.TrimPrefix(text, firstWord(text)), " \t")
			if first, _, _ := strings.Cut(operands, ","); generalRegister.MatchString(first) {
				t.Errorf("%s %s: taken for one that writes no general register", raw, text)
			}
		}
	}
	if known < 3000 || vectors < 1000 {
		t.Errorf("%d instructions are known, %d of vectors alone", known, vectors)
	}
}

var generalRegister = regexp.MustCompile(`^([re]?[abcd]x|[abcd][lh]|[re]?[sd]il?|[re]?[sb]pl?|r\d+[dwb]?)$`)

func firstWord(s string) string {
	if i := strings.IndexAny(s, " \t"); i >= 0 {
		return s[:i]
	}
	return s
}

// llvmIsOther tells where this decoder differs from LLVM on purpose.
func llvmIsOther(in llvmInstruction) string {
	e, _, _ := parseEncoding(in.code)
	name, _ := commonText(in.text)
	switch {
	case e.kind == rex2, e.kind == evex && (e.opmap == 4 || apx[name]):
		return "APX is known by its length alone"
	case e.kind == plain && e.opsize > 0 && e.opmap <= map0F && (e.conditional() || e.opcode == 0xe8 || e.opcode == 0xe9):
		return "a 66 prefix is ignored by Intel's branches, AMD's are 16 bits then"
	case e.kind == plain && e.opsize > 0 && e.rep != 0:
		return "LLVM mixes sizes when 66 and F2 come together"
	case e.kind == plain && e.opmap == map0F && (e.opcode == 0x12 || e.opcode == 0x16) && e.opsize > 0 && !e.memory():
		return "no instruction"
	case e.kind == plain && e.rep != 0 && e.opmap != mapOne && (strings.HasSuffix(name, "ps") || mmx[name]):
		return "no instruction with F2 or F3"
	case rexBeforePrefix(in.code):
		return "a REX that is not the last prefix counts for nothing, what follows it does"
	case strings.Contains(in.text, "riz"), strings.Contains(in.text, "1*"):
		return "an index that changes nothing is not shown"
	case strings.HasPrefix(name, "vgatherpf"), strings.HasPrefix(name, "vscatterpf"):
		return "LLVM counts their displacement in other units than the SDM"
	case strings.HasPrefix(name, "vgf2p8affine") && e.bcast, name == "vmovw", name == "urdmsr", name == "rstorssp", name == "clrssbsy":
		return "LLVM has another size or order than the SDM"
	case name == "lfs", name == "lgs", name == "lss", e.kind == plain && e.opmap == mapOne && e.opcode == 0xff && (e.reg() == 3 || e.reg() == 5):
		return "far pointers are shown with their size"
	case e.opcode == 0x90 && e.rep == 0xf3:
		return "PAUSE stays PAUSE with REX.W"
	case e.opmap == mapOne && e.opcode&0xfc == 0xa0, name == "ret", name == "retf", name == "retfq", name == "enter", name == "push" && e.opsize > 0:
		return "addresses and counts have no sign"
	}
	return ""
}

func rexBeforePrefix(code []byte) bool {
	for i, b := range code[:len(code)-1] {
		if b&0xf0 == 0x40 {
			return isLegacyPrefix(code[i+1]) || code[i+1]&0xf0 == 0x40
		}
		if !isLegacyPrefix(b) {
			break
		}
	}
	return false
}

var (
	apx = wordSet("shrx shlx sarx andn pext pdep bextr bzhi mulx rorx blsr blsi blsmsk tilestored tileloadd tileloaddt1 ldtilecfg sttilecfg kmovb kmovw kmovd kmovq " +
		"cmpoxadd cmpnoxadd cmpbxadd cmpnbxadd cmpzxadd cmpnzxadd cmpbexadd cmpnbexadd cmpsxadd cmpnsxadd cmppxadd cmpnpxadd cmplxadd cmpnlxadd cmplexadd cmpnlexadd")
	mmx = wordSet("comiss ucomiss pextrw pmovmskb vmread vmwrite wrssd wrssq movntq vmptrld vmptrst fxsave fxsave64 fxrstor fxrstor64 movdiri movlhps movhlps ldmxcsr stmxcsr " +
		"vmmcall monitorx clflush xsaveopt xsaveopt64 sfence lfence mfence cldemote movd movq")
)

var (
	reRegister = regexp.MustCompile(`\b([a-d][lh]|[sd]il|[sb]pl|r\d+b|[a-d]x|[sd]i|[sb]p|r\d+w|e[a-d]x|e[sd]i|e[sb]p|r\d+d|r[a-d]x|r[sd]i|r[sb]p|r\d+)\b`)
	reDigits   = regexp.MustCompile(`\d+`)
)

// shape is the text without what does not make it another kind of instruction.
func shape(text string) string {
	_, s := commonText(text)
	s = reRegister.ReplaceAllStringFunc(s, func(r string) string {
		switch {
		case strings.HasSuffix(r, "l"), strings.HasSuffix(r, "h"), strings.HasSuffix(r, "b"):
			return "R8"
		case r[0] == 'e', strings.HasSuffix(r, "d"):
			return "R32"
		case r[0] == 'r' && !strings.HasSuffix(r, "w"):
			return "R64"
		}
		return "R16"
	})
	return reDigits.ReplaceAllString(s, "N")
}

func updateGolden(t *testing.T) {
	objdump := findObjdump(t)
	perName := map[string]int{}
	seen := map[string]bool{}
	var out strings.Builder
	n := 0
	version, err := exec.Command(objdump, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&out, "# made by UPDATE=1 go test -run Golden;%s\n", regexp.MustCompile(`LLVM version [0-9.]+`).Find(version))
	take := func(what string, list []llvmInstruction, most int) {
		slices.SortStableFunc(list, func(a, b llvmInstruction) int {
			// In no order that a form could hide behind.
			return cmp.Compare(crc32.ChecksumIEEE([]byte(shape(a.text))), crc32.ChecksumIEEE([]byte(shape(b.text))))
		})
		// Placed anew, as a branch reads by where it stands.
		var code []byte
		var taken []llvmInstruction
		for _, in := range list {
			name, _ := commonText(in.text)
			key := shape(in.text)
			if strings.Contains(in.text, "<unknown>") || seen[key] || perName[what+name] >= most || llvmIsOther(in) != "" {
				continue
			}
			seen[key] = true
			perName[what+name]++
			taken = append(taken, in)
			start := len(code)
			code = append(code, in.code...)
			for len(code) < start+slot {
				code = append(code, 0x90)
			}
		}
		fmt.Fprintf(&out, "# %s: %d\n", what, len(taken))
		base := uint64(goldenBase + n*slot)
		llvmDecode(t, objdump, code, base, func(in llvmInstruction) {
			if in.address%slot == 0 {
				text, _, _ := strings.Cut(in.text, " #")
				fmt.Fprintf(&out, "%x\t%s\n", in.code, reSymbol.ReplaceAllString(text, ""))
				n++
			}
		})
	}
	for _, file := range strings.Split(os.Getenv("PROCINSH_DISASM"), ":") {
		var s samples
		for _, part := range codeOf(t, file, 4<<20) {
			llvmDecode(t, objdump, part.Bytes, part.Address, s.add)
		}
		take(file[strings.LastIndexByte(file, '/')+1:], s.list, 4)
	}
	for _, what := range []string{"sweep-plain", "sweep-vex", "sweep-evex", "sweep-xop"} {
		forms := 2
		if what == "sweep-evex" {
			forms = 4
		}
		var s samples
		sweep(what, func(code []byte) {
			llvmDecode(t, objdump, code, 0, func(in llvmInstruction) {
				if in.address%slot == 0 {
					s.add(in)
				}
			})
		})
		take(what, s.list, forms)
	}
	if err := os.WriteFile(goldenFile, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// samples keeps one instruction of each shape; many of one mnemonic are not looked
// at, as they are much alike.
type samples struct {
	list  []llvmInstruction
	seen  map[string]bool
	names map[string]int
}

func (s *samples) add(in llvmInstruction) {
	if s.seen == nil {
		s.seen, s.names = map[string]bool{}, map[string]int{}
	}
	name, _, _ := strings.Cut(in.text, " ")
	if s.names[name]++; s.names[name] > 400 {
		return
	}
	if key := shape(in.text); !s.seen[key] {
		s.seen[key] = true
		s.list = append(s.list, in)
	}
}
