package elf

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// noFuncs is a unit with nothing but a line table.
func noFuncs(*dwAsm) {}

func TestLineProgram(t *testing.T) {
	// Special opcode: line_base -5, line_range 14, opcode_base 13.
	special := func(addr uint64, line int64) uint8 { return uint8(int64(addr)*14 + (line + 5) + 13) }
	start := func() *dwAsm { return new(dwAsm).add(setAddress(0x1100)) }
	for _, c := range []struct {
		name  string
		table []byte
		want  string // address=line of each change, "-" for none
	}{
		{"copy and advance", dwLineOf(start().u8(dwLNSAdvanceLine).sleb(4).u8(dwLNSCopy, dwLNSAdvancePC).ulebs(8).u8(dwLNSAdvanceLine).sleb(-2).u8(dwLNSCopy, dwLNSAdvancePC).ulebs(8).add(endSequence).b),
			"0x1100=5 0x1108=3 0x1110=-"},
		{"special opcodes", dwLineOf(start().u8(special(0, 6), special(3, 1), special(2, -3), dwLNSAdvancePC).ulebs(4).add(endSequence).b),
			"0x1100=7 0x1103=8 0x1105=5 0x1109=-"},
		{"constant and fixed advance", dwLineOf(start().u8(dwLNSCopy, dwLNSConstAddPC, special(0, 1), dwLNSFixedAdvance).u16(0x20).add(endSequence).b),
			"0x1100=1 0x1111=2 0x1131=-"},
		{"no row at line 0", dwLineOf(start().u8(dwLNSCopy, dwLNSAdvanceLine).sleb(-1).u8(dwLNSAdvancePC).ulebs(4).u8(dwLNSCopy, dwLNSAdvanceLine).sleb(7).u8(dwLNSAdvancePC).ulebs(4).u8(dwLNSCopy, dwLNSAdvancePC).ulebs(4).add(endSequence).b),
			"0x1100=1 0x1104=0 0x1108=7 0x110c=-"},
		{"a line below 0 is none", dwLineOf(start().u8(dwLNSAdvanceLine).sleb(-5).u8(dwLNSCopy, dwLNSAdvancePC).ulebs(4).add(endSequence).b),
			"0x1100=0 0x1104=-"},
		{"later row of one address", dwLineOf(start().u8(dwLNSCopy, special(0, 3), special(0, 3), dwLNSAdvancePC).ulebs(4).add(endSequence).b),
			"0x1100=7 0x1104=-"},
		{"gap and second sequence below", dwLineOf(start().u8(dwLNSCopy, dwLNSAdvancePC).ulebs(4).add(endSequence).add(setAddress(0x1080)).u8(special(0, 1), dwLNSAdvancePC).ulebs(4).add(endSequence).b),
			"0x1080=2 0x1084=- 0x1100=1 0x1104=-"},
		{"sequences that overlap", dwLineOf(start().u8(dwLNSCopy, dwLNSAdvancePC).ulebs(16).add(endSequence).add(setAddress(0x1104)).u8(special(0, 1), dwLNSAdvancePC).ulebs(4).add(endSequence).b),
			"0x1100=1 0x1104=2 0x1108=1 0x1110=-"},
		{"rows that fall", dwLineOf(start().u8(dwLNSCopy, special(8, 2)).add(setAddress(0x1104)).u8(special(0, 2)).add(setAddress(0x110c)).add(endSequence).b),
			"0x1100=1 0x1104=5 0x1108=3 0x110c=-"},
		{"no end", dwLineOf(start().u8(dwLNSCopy, dwLNSAdvancePC).ulebs(4).u8(dwLNSCopy).b), ""},
		{"empty sequence", dwLineOf(new(dwAsm).add(endSequence).add(start().b).u8(dwLNSCopy, dwLNSAdvancePC).ulebs(4).add(endSequence).b),
			"0x1100=1 0x1104=-"},
		{"dropped function at 0", dwLineOf(new(dwAsm).add(setAddress(0)).u8(special(0, 9), dwLNSAdvancePC).ulebs(0x2000).add(endSequence).add(start().b).u8(dwLNSCopy, dwLNSAdvancePC).ulebs(4).add(endSequence).b),
			"0x1100=1 0x1104=-"},
		{"sequence over the end of addresses", dwLineOf(new(dwAsm).add(setAddress(^uint64(0)-4)).u8(special(0, 9), dwLNSAdvancePC).ulebs(0x2000).add(endSequence).b), ""},
		{"unknown and vendor opcodes", dwLineOf(start().u8(0, 3, 0x80, 1, 2, 0, 2, 4, 7, dwLNSCopy, dwLNSAdvancePC).ulebs(4).u8(6, 7, 10, 11, 12).ulebs(3).add(endSequence).b),
			"0x1100=1 0x1104=-"},
		{"set_address of an odd size", dwLineOf(start().u8(dwLNSCopy, 0, 4, dwLNESetAddress, 1, 2, 3, dwLNSAdvancePC).ulebs(4).add(endSequence).b),
			"0x1100=1 0x1104=-"},
		{"instructions of 4 bytes", dwLineWith(4, 4, 1, nil, start().u8(dwLNSCopy, special(2, 1), dwLNSAdvancePC).ulebs(1).add(endSequence).b),
			"0x1100=1 0x1108=2 0x110c=-"},
		// 3 operations in an instruction of 8 bytes: 1, 2 stay in the first, 4 is the second.
		{"several operations in one instruction", dwLineWith(4, 8, 3, nil, start().u8(dwLNSCopy, special(1, 1), special(1, 1), special(2, 1), dwLNSAdvancePC).ulebs(5).add(endSequence).b),
			"0x1100=3 0x1108=4 0x1118=-"},
		{"no operations in an instruction", dwLineWith(4, 1, 0, nil, start().u8(dwLNSCopy, dwLNSAdvancePC).ulebs(4).add(endSequence).b),
			"0x1100=1 0x1104=-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := dwProgram(t, c.table, noFuncs)
			var got []string
			last := "-"
			for a := uint64(testLow); a < testLow+testSize; a++ {
				locs, err := f.Locate(a)
				if err != nil {
					t.Fatal(err)
				}
				now := "-"
				if locs != nil {
					now = fmt.Sprint(locs[0].Line)
					if locs[0].File != "/dir/a.c" || locs[0].Function != "" || len(locs) != 1 {
						t.Fatalf("%#x: %v", a, locs)
					}
				}
				if now != last {
					got = append(got, fmt.Sprintf("%#x=%s", a, now))
					last = now
				}
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("got %s, want %s", s, c.want)
			}
			checkCharges(t, f)
		})
	}
}

// Opcodes below opcode_base that the reader does not know have as many operands
// as the header says; a table may also have fewer opcodes than DWARF defines.
func TestLineOpcodeBase(t *testing.T) {
	head := func(base uint8, lengths ...uint8) *dwAsm {
		return new(dwAsm).u8(1, 1, 1, 0xfb, 14, base).u8(lengths...).u8(0).str("a.c").ulebs(0, 0, 0).u8(0)
	}
	table := func(h *dwAsm, program []byte) []byte {
		return new(dwAsm).u16(4).u32(uint32(len(h.b))).add(h.b).add(program).sized()
	}
	start := new(dwAsm).add(setAddress(0x1100))
	large := head(15, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 2, 0)
	f := dwProgram(t, table(large, new(dwAsm).add(start.b).u8(13).ulebs(300, 5).u8(14, dwLNSCopy, dwLNSAdvancePC).ulebs(4).add(endSequence).b), noFuncs)
	if locs, err := f.Locate(0x1103); err != nil || len(locs) != 1 || locs[0].Line != 1 {
		t.Errorf("opcode 13: %v, %v", locs, err)
	}
	// opcode_base 2: opcode 3 is special, (3-2)%14-5 = -4.
	f = dwProgram(t, table(head(2, 0), new(dwAsm).add(start.b).u8(2+10, dwLNSCopy, 2+14*4).add(endSequence).b), noFuncs)
	if locs, err := f.Locate(0x1103); err != nil || len(locs) != 1 || locs[0].Line != 6 {
		t.Errorf("opcode_base 2: %v, %v", locs, err)
	}
}

func TestLineFiles(t *testing.T) {
	program := func(file uint64) []byte {
		return new(dwAsm).add(setAddress(testLow)).u8(dwLNSSetFile).ulebs(file).u8(dwLNSCopy, dwLNSAdvancePC).ulebs(testSize).add(endSequence).b
	}
	files4 := new(dwAsm).str("sub").str("/usr/include").str("./x//").u8(0).
		str("main.c").ulebs(0, 0, 0).str("inc.h").ulebs(1, 0, 0).str("stdio.h").ulebs(2, 0, 0).
		str("/abs/y.h").ulebs(1, 0, 0).str("z.h").ulebs(3, 0, 0).str("far.h").ulebs(99, 0, 0).str("<built-in>").ulebs(0, 0, 0).u8(0).b
	// Path and directory as udata, MD5, a vendor's field.
	fields := new(dwAsm).u8(4).ulebs(dwLNCTPath, dwFormString, dwLNCTDir, dwFormUdata, 5, dwFormData16, 0x2001, dwFormBlock1).b
	file5 := func(a *dwAsm, name string, dir uint64) { a.str(name).ulebs(dir).zeros(16).u8(2, 1, 2) }
	a := new(dwAsm).u8(1).ulebs(dwLNCTPath, dwFormString).ulebs(3).str("/build").str("sub").str("/usr/include").add(fields).ulebs(4)
	file5(a, "main.c", 0)
	file5(a, "inc.h", 1)
	file5(a, "stdio.h", 2)
	file5(a, "far.h", 99)
	files5 := a.b
	for _, c := range []struct {
		version uint16
		files   []byte
		n       uint64
		want    string
	}{
		{4, files4, 0, ""}, // before DWARF 5 there is no file 0
		{4, files4, 1, "/dir/main.c"},
		{4, files4, 2, "/dir/sub/inc.h"},
		{4, files4, 3, "/usr/include/stdio.h"},
		{4, files4, 4, "/abs/y.h"},
		{4, files4, 5, "/dir/x/z.h"},
		{4, files4, 6, "/dir/far.h"},
		{4, files4, 7, "<built-in>"},
		{4, files4, 8, ""},
		{4, files4, 1 << 40, ""},
		{2, files4, 2, "/dir/sub/inc.h"},
		{5, files5, 0, "/build/main.c"},
		{5, files5, 1, "/build/sub/inc.h"},
		{5, files5, 2, "/usr/include/stdio.h"},
		{5, files5, 3, "/build/far.h"},
		{5, files5, 4, ""},
	} {
		f := dwProgram(t, dwLineWith(c.version, 1, 1, c.files, program(c.n)), noFuncs)
		locs, err := f.Locate(testLow + 1)
		if err != nil || len(locs) != 1 || locs[0].File != c.want || locs[0].Line != 1 {
			t.Errorf("version %d, file %d: %v, %v; want %q", c.version, c.n, locs, err, c.want)
		}
	}
}

func TestLineDefineFile(t *testing.T) {
	define := new(dwAsm).u8(dwLNEDefineFile).str("late.c").ulebs(0, 0, 0).b
	p := new(dwAsm).add(setAddress(testLow)).u8(0).ulebs(uint64(len(define))).add(define).u8(dwLNSSetFile, 2, dwLNSCopy, dwLNSAdvancePC).ulebs(8).add(endSequence).b
	f := dwProgram(t, dwLineOf(p), noFuncs)
	if locs, err := f.Locate(testLow); err != nil || len(locs) != 1 || locs[0].File != "/dir/late.c" {
		t.Errorf("%v, %v", locs, err)
	}
}

func TestJoin(t *testing.T) {
	for _, c := range [][3]string{
		{"/a", "b.c", "/a/b.c"}, {"", "b.c", "b.c"}, {"/a/", "b.c", "/a/b.c"}, {"/a", "/b.c", "/b.c"},
		{"/a", "./b.c", "/a/b.c"}, {"/a", "../b.c", "/a/../b.c"}, {"./x", "./y/./z.c", "x/y/z.c"},
		{"/", "b.c", "/b.c"}, {"", "", ""}, {"/a", "", "/a"}, {"a", "..", "a/.."}, {".", ".", ""}, {"//", "//", "/"}, {"", "x./y", "x./y"},
	} {
		if got := join(c[0], c[1]); got != c[2] {
			t.Errorf("join(%q, %q) = %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

func TestLineHostile(t *testing.T) {
	good := dwLineSimple()
	v5 := func(tables []byte) []byte { return dwLineWith(5, 1, 1, tables, nil) }
	many := new(dwAsm)
	for range maxLineFiles + 1 {
		many.str("f").ulebs(0, 0, 0)
	}
	rows := new(dwAsm).add(setAddress(testLow)).add([]byte(strings.Repeat("\x21\x22", maxDebugRows/2+1))).add(endSequence)
	version := func(v uint16) []byte {
		b := append([]byte(nil), good...)
		le.PutUint16(b[4:], v)
		return b
	}
	for _, c := range []struct {
		name  string
		table []byte
		want  error
	}{
		{"empty", []byte{0, 0, 0}, ErrFormat},
		{"reserved length", new(dwAsm).u32(0xfffffff5).zeros(20).b, ErrFormat},
		{"length over the section", new(dwAsm).u32(1 << 30).add(good[4:]).b, ErrFormat},
		{"64-bit length over the section", new(dwAsm).u32(0xffffffff).u64(1 << 63).add(good[4:]).b, ErrFormat},
		{"version 1", version(1), ErrFormat},
		{"version 6", version(6), ErrFormat},
		{"header over the length", new(dwAsm).u16(4).u32(1 << 20).add(good[10:]).sized(), ErrFormat},
		{"line range 0", dwLineWithRange(0, 13), ErrFormat},
		{"opcode base 0", dwLineWithRange(14, 0), ErrFormat},
		{"directories without end", dwLineWith(4, 1, 1, []byte("abc"), nil), ErrFormat},
		{"files of no fields", v5(new(dwAsm).u8(0).ulebs(1 << 62).b), ErrFormat},
		{"files of no bytes", v5(new(dwAsm).u8(1).ulebs(dwLNCTPath, dwFormPresent).ulebs(1 << 62).b), ErrFormat},
		{"more files than bytes", v5(new(dwAsm).u8(1).ulebs(dwLNCTPath, dwFormData1).ulebs(1 << 62).zeros(50).b), ErrFormat},
		{"too many fields", v5(new(dwAsm).u8(200).zeros(500).b), ErrFormat},
		{"unknown form", v5(new(dwAsm).u8(1).ulebs(dwLNCTPath, 0x7f).ulebs(1).zeros(50).b), ErrFormat},
		{"too many files", dwLineWith(4, 1, 1, new(dwAsm).u8(0).add(many.b).u8(0).b, nil), ErrTooBig},
		{"instruction cut", dwLineOf(new(dwAsm).add(setAddress(testLow)).u8(dwLNSAdvancePC, 0x80).b), ErrFormat},
		{"huge LEB128", dwLineOf(new(dwAsm).u8(dwLNSAdvancePC).add([]byte(strings.Repeat("\x80", 40))).u8(0).b), ErrFormat},
		{"extended opcode over the end", dwLineOf(new(dwAsm).u8(0).ulebs(1 << 40).u8(1).b), ErrFormat},
		{"too many rows", dwLineOf(rows.b), ErrTooBig},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := dwProgram(t, c.table, noFuncs)
			for range 2 {
				locs, err := f.Locate(testLow)
				if locs != nil || !errors.Is(err, c.want) {
					t.Errorf("%v, %v; want %v", locs, err, c.want)
				}
			}
			checkCharges(t, f)
			if f.data.dwarf.unitBytes > 64<<10 {
				t.Errorf("%d bytes are kept of a table that is of no use", f.data.dwarf.unitBytes)
			}
		})
	}
}

func dwLineWithRange(rng, base uint8) []byte {
	h := new(dwAsm).u8(1, 1, 1, 0xfb, rng, base).u8(0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1).u8(0).str("a.c").ulebs(0, 0, 0).u8(0)
	return new(dwAsm).u16(4).u32(uint32(len(h.b))).add(h.b).add(endSequence).sized()
}

// The index answers as a walk over all rows does.
func TestLineIndexRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 50 {
		type row struct{ lo, hi, line uint64 }
		var rows []row
		p := new(dwAsm)
		for range 1 + rnd.IntN(6) { // sequences that may overlap
			addr := testLow + rnd.Uint64N(testSize-600)
			p.add(setAddress(addr))
			line := uint64(1)
			for range 1 + rnd.IntN(20) {
				p.u8(dwLNSAdvanceLine).sleb(int64(rnd.IntN(5))).u8(dwLNSCopy)
				line = lineOf(p.b)
				n := uint64(rnd.IntN(12))
				p.u8(dwLNSAdvancePC).ulebs(n)
				rows = append(rows, row{addr, addr + n, line})
				addr += n
			}
			p.add(endSequence)
		}
		f := dwProgram(t, dwLineOf(p.b), noFuncs)
		for a := uint64(testLow); a < testLow+testSize; a++ {
			locs, err := f.Locate(a)
			if err != nil {
				t.Fatal(err)
			}
			covered, right := false, false
			for _, r := range rows {
				if a >= r.lo && a < r.hi {
					covered = true
					right = right || locs != nil && uint64(locs[0].Line) == r.line
				}
			}
			if covered != (locs != nil) || covered && !right {
				t.Fatalf("round %d: Locate(%#x) = %v, covered %v", round, a, locs, covered)
			}
		}
	}
}

// lineOf runs the end of a program by the letter: only what TestLineIndexRandom writes.
func lineOf(p []byte) uint64 {
	line := int64(1)
	for r := (dwBuf{b: p}); r.left() > 0; {
		switch r.u8() {
		case 0:
			if body := r.take(r.uleb()); body[0] == dwLNEEnd {
				line = 1
			}
		case dwLNSAdvanceLine:
			line += r.sleb()
		case dwLNSAdvancePC:
			r.uleb()
		}
	}
	return uint64(line)
}
