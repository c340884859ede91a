package elf

import (
	delf "debug/elf"
	"testing"
)

// dwAsm writes DWARF encodings.
type dwAsm struct{ b []byte }

func (a *dwAsm) u8(v ...uint8) *dwAsm     { a.b = append(a.b, v...); return a }
func (a *dwAsm) u16(v uint16) *dwAsm      { a.b = le.AppendUint16(a.b, v); return a }
func (a *dwAsm) u32(v uint32) *dwAsm      { a.b = le.AppendUint32(a.b, v); return a }
func (a *dwAsm) u64(v uint64) *dwAsm      { a.b = le.AppendUint64(a.b, v); return a }
func (a *dwAsm) str(s string) *dwAsm      { a.b = append(append(a.b, s...), 0); return a }
func (a *dwAsm) add(b []byte) *dwAsm      { a.b = append(a.b, b...); return a }
func (a *dwAsm) zeros(n int) *dwAsm       { return a.add(make([]byte, n)) }
func (a *dwAsm) ulebs(v ...uint64) *dwAsm { return a.each(v) }

func (a *dwAsm) each(vs []uint64) *dwAsm {
	for _, v := range vs {
		for v >= 0x80 {
			a.b = append(a.b, byte(v)|0x80)
			v >>= 7
		}
		a.b = append(a.b, byte(v))
	}
	return a
}

func (a *dwAsm) sleb(v int64) *dwAsm {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			a.b = append(a.b, c)
			return a
		}
		a.b = append(a.b, c|0x80)
	}
}

// sized puts a 32-bit length before the bytes.
func (a *dwAsm) sized() []byte { return new(dwAsm).u32(uint32(len(a.b))).add(a.b).b }

// Codes of the abbreviations that dwUnitOf uses.
const (
	tUnit    = 1  // low_pc addr, high_pc data8, stmt_list, comp_dir string, name string; children
	tFunc    = 2  // name string, low_pc addr, high_pc data8; children
	tInline  = 3  // abstract_origin ref4, low_pc addr, high_pc data8, call_file data1, call_line data2; children
	tOrigin  = 4  // name string, inline; no children
	tRanges  = 5  // name string, ranges sec_offset; no children
	tRef     = 6  // subprogram: specification ref4, low_pc addr, high_pc data8; no children
	tRefAddr = 7  // the same with DW_FORM_ref_addr
	tBase    = 8  // a base type: name string
	tScope   = 9  // namespace: name string; children
	tNone    = 10 // the first that is free
)

func dwAbbrevOf() []byte {
	a := new(dwAsm)
	entry := func(code, tag uint64, children uint8, attrs ...uint64) {
		a.ulebs(code, tag).u8(children).ulebs(attrs...).ulebs(0, 0)
	}
	entry(tUnit, dwTagCompile, 1, dwAtLowPC, dwFormAddr, dwAtHighPC, dwFormData8, dwAtStmtList, dwFormSecOffset, dwAtCompDir, dwFormString, dwAtName, dwFormString)
	entry(tFunc, dwTagSubprogram, 1, dwAtName, dwFormString, dwAtLowPC, dwFormAddr, dwAtHighPC, dwFormData8)
	entry(tInline, dwTagInlined, 1, dwAtOrigin, dwFormRef4, dwAtLowPC, dwFormAddr, dwAtHighPC, dwFormData8, dwAtCallFile, dwFormData1, dwAtCallLine, dwFormData2)
	entry(tOrigin, dwTagSubprogram, 0, dwAtName, dwFormString, 0x20, dwFormData1)
	entry(tRanges, dwTagSubprogram, 0, dwAtName, dwFormString, dwAtRanges, dwFormSecOffset)
	entry(tRef, dwTagSubprogram, 0, dwAtSpec, dwFormRef4, dwAtLowPC, dwFormAddr, dwAtHighPC, dwFormData8)
	entry(tRefAddr, dwTagSubprogram, 0, dwAtSpec, dwFormRefAddr, dwAtLowPC, dwFormAddr, dwAtHighPC, dwFormData8)
	entry(tBase, 0x24, 0, dwAtName, dwFormString)
	entry(tScope, dwTagNamespace, 1, dwAtName, dwFormString)
	return a.u8(0).b
}

const (
	unitHead4 = 11 // bytes of a version 4 header
	testLow   = 0x1000
	testSize  = 0x1000
)

// dwUnitOf is a DWARF 4 unit for [testLow, testLow+testSize) whose DIEs below the
// root are written by body. Offsets that body sees are those of the unit.
func dwUnitOf(body func(a *dwAsm)) []byte {
	a := new(dwAsm).zeros(4).u16(4).u32(0).u8(8)
	a.ulebs(tUnit).u64(testLow).u64(testSize).u32(0).str("/dir").str("a.c")
	body(a)
	a.u8(0)
	le.PutUint32(a.b, uint32(len(a.b)-4))
	return a.b
}

// dwLineOf is a line table of version 4 with one file, a.c, and the program.
func dwLineOf(program []byte) []byte { return dwLineWith(4, 1, 1, nil, program) }

// dwLineWith is a line table with the given minimum instruction length, operations
// per instruction and file table; nil is the usual one.
func dwLineWith(version uint16, minInst, maxOps uint8, files, program []byte) []byte {
	if files == nil {
		files = new(dwAsm).u8(0).str("a.c").ulebs(0, 0, 0).u8(0).b
	}
	h := new(dwAsm).u8(minInst)
	if version >= 4 {
		h.u8(maxOps)
	}
	h.u8(1, 0xfb, 14, 13).u8(0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1).add(files)
	a := new(dwAsm).u16(version)
	if version >= 5 {
		a.u8(8, 0)
	}
	return a.u32(uint32(len(h.b))).add(h.b).add(program).sized()
}

func setAddress(addr uint64) []byte { return new(dwAsm).u8(0, 9, dwLNESetAddress).u64(addr).b }

var endSequence = []byte{0, 1, dwLNEEnd}

// dwLineSimple is a table with one line for all of the unit.
func dwLineSimple() []byte {
	p := new(dwAsm).add(setAddress(testLow)).u8(dwLNSAdvanceLine).sleb(9).u8(dwLNSCopy).u8(dwLNSAdvancePC).ulebs(testSize).add(endSequence)
	return dwLineOf(p.b)
}

// dwFile makes a File of debug sections.
func dwFile(t testing.TB, sections map[string][]byte) *File {
	t.Helper()
	return openBytes(t, dwBytes(sections))
}

func dwBytes(sections map[string][]byte) []byte {
	var list []testSection
	for _, name := range []string{".debug_info", ".debug_abbrev", ".debug_line", ".debug_str", ".debug_aranges", ".debug_ranges", ".debug_rnglists", ".debug_addr", ".debug_line_str", ".debug_str_offsets"} {
		if b := sections[name]; b != nil {
			list = append(list, testSection{name: name, typ: delf.SHT_PROGBITS, data: b})
		}
	}
	return buildELF(list...)
}

// dwProgram is a File with one unit, as dwUnitOf.
func dwProgram(t testing.TB, line []byte, body func(a *dwAsm)) *File {
	t.Helper()
	return dwFile(t, map[string][]byte{".debug_info": dwUnitOf(body), ".debug_abbrev": dwAbbrevOf(), ".debug_line": line})
}
