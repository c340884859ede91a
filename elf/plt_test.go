package elf

import (
	delf "debug/elf"
	"testing"
)

func TestPLT(t *testing.T) {
	tests := []struct {
		file  string
		vaddr uint64
		want  string
	}{
		{"stub.lazy", 0x2b0, ""}, // what all stubs share
		{"stub.lazy", 0x2c0, "first@plt+0x0 16"},
		{"stub.lazy", 0x2cb, "first@plt+0xb 16"},
		{"stub.lazy", 0x2d0, "third@plt+0x0 8"},
		{"stub.lazy", 0x2d7, "third@plt+0x7 8"},
		{"stub.now", 0x2c4, "first@plt+0x4 16"},
		{"stub.now", 0x2d2, "third@plt+0x2 8"},
		{"stub.cet", 0x320, ""},
		{"stub.cet", 0x330, "first@plt+0x0 16"}, // .plt: pushes a number
		{"stub.cet", 0x344, "third@plt+0x4 16"}, // .plt.got
		{"stub.cet", 0x350, "first@plt+0x0 16"}, // .plt.sec
		{"stub.cet", 0x35f, "first@plt+0xf 16"},
	}
	for _, tt := range tests {
		if got := lookup(openProg(t, tt.file), tt.vaddr); got != tt.want {
			t.Errorf("%s %#x: %q, want %q", tt.file, tt.vaddr, got, tt.want)
		}
	}
}

// Relocations and stubs that contradict each other name nothing.
func TestDamagedPLT(t *testing.T) {
	stub := append([]byte{0xff, 0x25, 0xfa, 0x0f, 0, 0}, make([]byte, 10)...) // jmp *0x2000
	rela := func(slot uint64, sym, typ uint32) []byte {
		b := make([]byte, relaSize)
		le.PutUint64(b, slot)
		le.PutUint64(b[8:], uint64(sym)<<32|uint64(typ))
		return b
	}
	build := func(stub, rel []byte, claim func(o, n uint64) (uint64, uint64)) *File {
		s := symbolSections(".dynsym", testSymbol{"puts", 0, 0, fn, global, 0})
		s[0] = testSection{name: ".plt", typ: delf.SHT_PROGBITS, flags: delf.SHF_ALLOC | delf.SHF_EXECINSTR, addr: 0x1000, data: stub}
		return openBytes(t, buildELF(append(s, testSection{name: ".rela.plt", typ: delf.SHT_RELA, data: rel, claim: claim})...))
	}
	const jumpSlot = uint32(delf.R_X86_64_JMP_SLOT)
	for _, tt := range []struct {
		name string
		f    *File
		want string
	}{
		{"right", build(stub, rela(0x2000, 1, jumpSlot), nil), "puts@plt+0x4 16"},
		{"another slot", build(stub, rela(0x2008, 1, jumpSlot), nil), ""},
		{"no symbol", build(stub, rela(0x2000, 0, jumpSlot), nil), ""},
		{"no such symbol", build(stub, rela(0x2000, 1<<31, jumpSlot), nil), ""},
		{"another kind", build(stub, rela(0x2000, 1, uint32(delf.R_X86_64_IRELATIVE)), nil), ""},
		{"half a relocation", build(stub, rela(0x2000, 1, jumpSlot)[:20], nil), ""},
		{"too many", build(stub, rela(0x2000, 1, jumpSlot), func(o, n uint64) (uint64, uint64) { return o, (maxRelocs + 1) * relaSize }), ""},
		{"outside", build(stub, rela(0x2000, 1, jumpSlot), func(o, n uint64) (uint64, uint64) { return 1 << 40, n }), ""},
		{"half a stub", build(stub[:12], rela(0x2000, 1, jumpSlot), nil), ""},
		{"a number beyond the table", build(append([]byte{0x68, 1, 0, 0, 0}, stub[:11]...), rela(0x2000, 1, jumpSlot), nil), ""},
		{"a number", build(append([]byte{0x68, 0, 0, 0, 0}, stub[:11]...), rela(0x2000, 1, jumpSlot), nil), "puts@plt+0x4 16"},
	} {
		if got := lookup(tt.f, 0x1004); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
