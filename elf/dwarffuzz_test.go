package elf

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

// fuzzLimit is the budget of one input: everything has to fit, or to fail.
const fuzzLimit = 4 << 20

func fuzzOpen(t *testing.T, b []byte) *File {
	t.Helper()
	f, err := open(bytes.NewReader(b), int64(len(b)), newAccount(fuzzLimit))
	if err != nil {
		t.Skip("no ELF file")
	}
	return f
}

// checkLocate looks up an address and holds the answer to what is promised.
func checkLocate(t *testing.T, f *File, addr uint64) []Location {
	t.Helper()
	locs, err := f.Locate(addr)
	if err != nil && locs != nil {
		t.Fatalf("%v with %v", locs, err)
	}
	if len(locs) > maxInlined {
		t.Fatalf("%d locations", len(locs))
	}
	for _, l := range locs {
		if len(l.Function) > maxDebugName || len(l.File) > maxDebugName || l.Line < 0 || strings.IndexByte(l.Function+l.File, 0) >= 0 {
			t.Fatalf("%+v", l)
		}
	}
	again, err2 := f.Locate(addr)
	if !slices.Equal(locs, again) || (err == nil) != (err2 == nil) {
		t.Fatalf("first %v, %v; then %v, %v", locs, err, again, err2)
	}
	if f.acct.bytes > f.acct.limit || f.acct.bytes < 0 {
		t.Fatalf("%d bytes of %d", f.acct.bytes, f.acct.limit)
	}
	checkCharges(t, f)
	return locs
}

// checkUnits holds what is kept of parsed units to its own rules.
func checkUnits(t *testing.T, f *File, input int) {
	t.Helper()
	d := &f.data.dwarf
	checkSpans(t, d.spans, len(d.spanUnits))
	checkSpans(t, d.more, len(d.spanUnits))
	for _, u := range d.units {
		checkSpans(t, u.spans, len(u.funcs))
		checkSpans(t, u.lines.spans, len(u.lines.seqs))
		// A row, a file and a function each take a byte of the input at least.
		if l := &u.lines; len(l.rows) > input || len(l.files)+len(l.dirs) > input || len(u.funcs) > input || len(u.scopes) > input {
			t.Fatalf("%d rows, %d files, %d functions, %d scopes of %d bytes", len(l.rows), len(l.files), len(u.funcs), len(u.scopes), input)
		}
		for _, s := range u.lines.seqs {
			if s.n == 0 || uint64(s.first)+uint64(s.n) > uint64(len(u.lines.rows)) {
				t.Fatalf("sequence %+v of %d rows", s, len(u.lines.rows))
			}
			rows := u.lines.rows[s.first : s.first+s.n]
			if !slices.IsSortedFunc(rows, func(a, b dwRow) int { return int(int64(a.off) - int64(b.off)) }) {
				t.Fatal("rows are not sorted")
			}
		}
		for i, fn := range u.funcs {
			if int(fn.parent) >= i || fn.parent < -1 {
				t.Fatalf("function %d stands in %d", i, fn.parent)
			}
		}
		for i, s := range u.scopes {
			if int(s.parent) >= i || s.parent < -1 || s.end < s.start {
				t.Fatalf("scope %d is %+v", i, s)
			}
		}
	}
}

// FuzzLine reads any bytes as the line table of a unit.
func FuzzLine(f *testing.F) {
	f.Add(dwLineSimple(), uint16(0x800))
	f.Add(dwLineWith(5, 1, 1, new(dwAsm).u8(1).ulebs(dwLNCTPath, dwFormString).ulebs(1).str("/d").u8(2).ulebs(dwLNCTPath, dwFormString, dwLNCTDir, dwFormData1).ulebs(1).str("a.c").u8(0).b,
		new(dwAsm).add(setAddress(testLow)).u8(dwLNSSetFile, 0, dwLNSCopy, 0x21, 0x33, dwLNSAdvancePC).ulebs(0x100).add(endSequence).b), uint16(3))
	f.Add(dwLineWith(4, 8, 3, nil, new(dwAsm).add(setAddress(testLow)).u8(0x44, 0x55, dwLNSConstAddPC, dwLNSFixedAdvance, 1, 2).add(endSequence).b), uint16(9))
	f.Add(dwLineWith(2, 1, 1, nil, new(dwAsm).u8(0, 9, dwLNEDefineFile, 'x', 0, 0, 0, 0, 0, 0, 0, dwLNSCopy).b), uint16(1))
	f.Fuzz(func(t *testing.T, table []byte, off uint16) {
		b := dwBytes(map[string][]byte{".debug_info": dwUnitOf(noFuncs), ".debug_abbrev": dwAbbrevOf(), ".debug_line": table})
		file := fuzzOpen(t, b)
		locs := checkLocate(t, file, testLow+uint64(off)%testSize)
		if len(locs) > 1 {
			t.Fatalf("%v of a unit without functions", locs)
		}
		checkUnits(t, file, len(table)+len(b))
	})
}

// FuzzDIE reads any bytes as DIEs below a root, their abbreviations and their
// range lists.
func FuzzDIE(f *testing.F) {
	abbrevs := dwAbbrevOf()
	body := func(write func(*dwAsm)) []byte { a := new(dwAsm); write(a); return a.b }
	f.Add(body(func(a *dwAsm) {
		a.ulebs(tOrigin).str("one").u8(1).ulebs(tFunc).str("f").u64(0x1100).u64(0x100)
		a.ulebs(tInline).u32(40).u64(0x1110).u64(0x40).u8(1).u16(11).u8(0, 0)
	}), abbrevs, []byte{}, uint16(0x110))
	f.Add(body(func(a *dwAsm) { a.ulebs(tRanges).str("r").u32(0).ulebs(tRef).u32(40).u64(0x1100).u64(1) }), abbrevs,
		new(dwAsm).u64(0x10).u64(0x20).u64(^uint64(0)).u64(0x1800).u64(1).u64(3).u64(0).u64(0).b, uint16(0x12))
	f.Add(body(func(a *dwAsm) {
		a.ulebs(tScope).str("ns").ulebs(tRefAddr).u32(40).u64(0x1100).u64(9).ulebs(tBase).str("int").u8(0)
	}), abbrevs, []byte{}, uint16(0x101))
	f.Fuzz(func(t *testing.T, dies, abbrev, ranges []byte, off uint16) {
		b := dwBytes(map[string][]byte{
			".debug_info":   dwUnitOf(func(a *dwAsm) { a.add(dies) }),
			".debug_abbrev": abbrev, ".debug_line": dwLineSimple(), ".debug_ranges": ranges, ".debug_rnglists": ranges, ".debug_addr": ranges, ".debug_str": dies,
		})
		file := fuzzOpen(t, b)
		checkLocate(t, file, testLow+uint64(off)%testSize)
		checkUnits(t, file, len(b))
	})
}

// FuzzLocate changes bytes of real programs and looks up an address in them.
func FuzzLocate(f *testing.F) {
	names := []string{"gcc5", "gcc4", "gcc2", "gcc32", "gcc64", "lto", "clang5", "clang4", "clang-sections", "clang-lto", "names", "types5", "zlib", "zstd", "zdebug", "split", "dwz1", "rust", "mixed", "asm"}
	var files [][]byte
	for i, name := range names {
		b, err := os.ReadFile("testdata/dwarf/" + name)
		if err != nil {
			f.Fatal(err)
		}
		files = append(files, b)
		for at := 64; at < len(b); at += len(b) / 5 {
			f.Add(uint8(i), uint16(at), []byte{0xff, 0xff, 0x7f}, uint16(at))
		}
	}
	alternate, err := os.ReadFile("testdata/dwarf/dwz.alt")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, which uint8, at uint16, patch []byte, off uint16) {
		b := bytes.Clone(files[int(which)%len(files)])
		copy(b[int(at)%len(b):], patch)
		file := fuzzOpen(t, b)
		altBytes := bytes.Clone(alternate)
		copy(altBytes[int(at)%len(altBytes):], patch)
		alt, err := open(bytes.NewReader(altBytes), int64(len(altBytes)), file.acct)
		file.findAlt = func() (*File, error) { return alt, err }
		addr := file.Entry() + uint64(off)%0x400 - 0x200
		checkLocate(t, file, addr)
		checkLocate(t, file, file.Entry())
		checkUnits(t, file, len(b)*maxInflateRatio+maxFreeInflate)
	})
}
