package elf

import (
	"bytes"
	delf "debug/elf"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"
)

const (
	local  = delf.STB_LOCAL
	weak   = delf.STB_WEAK
	global = delf.STB_GLOBAL
	fn     = delf.STT_FUNC
	notype = delf.STT_NOTYPE
	object = delf.STT_OBJECT
	ifunc  = delf.STT_GNU_IFUNC
)

// lookup is a lookup as "name+offset size", with a ? for a guess.
func lookup(f *File, vaddr uint64) string {
	s, guess, ok := f.Symbol(vaddr)
	if !ok {
		if s != (Symbol{}) || guess {
			return fmt.Sprintf("not found, but %+v %v", s, guess)
		}
		return ""
	}
	text := fmt.Sprintf("%s+%#x %d", s.Name, vaddr-s.Value, s.Size)
	if guess {
		text += "?"
	}
	return text
}

func TestSymbol(t *testing.T) {
	f := openProg(t, "prog")
	f32 := openProg(t, "prog32")
	mini := openProg(t, "prog.mini")
	tests := []struct {
		f     *File
		vaddr uint64
		want  string
	}{
		{f, 0x22d, "inner+0x0 6"},
		{f, 0x232, "inner+0x5 6"},
		{f, 0x233, "outer+0x0 14"},
		{f, 0x24a, "other_name+0x9 10"}, // global before weak, no underscores
		{f, 0x268, "_start+0x1d 30"},
		{f, 0x269, ""},              // behind the end of the last function
		{f, 0x22a, "bare+0x1 0?"},   // assembler without a size
		{f, 0x228, ""},              // before the first
		{f, 0x2000, ""},             // data
		{f, 0xffffffffffffffff, ""}, // nowhere
		{f32, 0x80480e0, "inner+0x4 5"},
		{f32, 0x8048120, "_start+0x1f 32"},
		{f32, 0x80480d9, "bare+0x1 0?"},
		{mini, 0x22f, "inner+0x2 6"},
		{mini, 0x240, "outer+0xd 14"},
		{mini, 0x241, "weak_name+0x0 10"},
		{mini, 0x24b, ""}, // left out of the small table: no name, not the one before
		{mini, 0x229, ""},
		{openProg(t, "prog.stripped"), 0x22d, ""},
		{openProg(t, "prog.debug"), 0x22d, "inner+0x0 6"}, // .text has no bits there
	}
	for _, tt := range tests {
		if got := lookup(tt.f, tt.vaddr); got != tt.want {
			t.Errorf("%#x: %q, want %q", tt.vaddr, got, tt.want)
		}
	}
	for _, f := range []*File{f, f32, mini} {
		if err := f.SymbolError(); err != nil {
			t.Error(err)
		}
	}
}

func TestSymbolChoice(t *testing.T) {
	tests := []struct {
		name  string
		syms  []testSymbol
		vaddr uint64
		want  string
	}{
		{"sized before unsized", []testSymbol{{"f", 0x1000, 0x100, fn, local, 1}, {"label", 0x1080, 0, notype, local, 1}}, 0x1090, "f+0x90 256"},
		{"the inner one", []testSymbol{{"all", 0x1000, 0x100, fn, global, 1}, {"part", 0x1040, 0x10, fn, local, 1}}, 0x1044, "part+0x4 16"},
		{"behind the inner one", []testSymbol{{"all", 0x1000, 0x100, fn, global, 1}, {"part", 0x1040, 0x10, fn, local, 1}}, 0x1050, "all+0x50 256"},
		{"behind both", []testSymbol{{"all", 0x1000, 0x100, fn, global, 1}, {"part", 0x1040, 0x10, fn, local, 1}}, 0x1100, ""},
		{"longer of one start", []testSymbol{{"short", 0x1000, 0x10, fn, global, 1}, {"long", 0x1000, 0x100, fn, local, 1}}, 0x1080, "long+0x80 256"},
		{"both of one start", []testSymbol{{"short", 0x1000, 0x10, fn, global, 1}, {"long", 0x1000, 0x100, fn, local, 1}}, 0x1008, "short+0x8 16"},
		{"exported before local", []testSymbol{{"a", 0x1000, 8, fn, local, 1}, {"b", 0x1000, 8, fn, weak, 1}}, 0x1000, "b+0x0 8"},
		{"plain before reserved", []testSymbol{{"__read", 0x1000, 8, fn, global, 1}, {"read", 0x1000, 8, fn, weak, 1}}, 0x1000, "read+0x0 8"},
		{"mangled is not reserved", []testSymbol{{"_Z1fv", 0x1000, 8, fn, global, 1}, {"zz", 0x1000, 8, fn, weak, 1}}, 0x1000, "_Z1fv+0x0 8"},
		{"old version last", []testSymbol{{"f@V1", 0x1000, 8, fn, global, 1}, {"__f", 0x1000, 8, fn, global, 1}}, 0x1000, "__f+0x0 8"},
		{"order does not matter", []testSymbol{{"b", 0x1000, 8, fn, global, 1}, {"a", 0x1000, 8, fn, global, 1}}, 0x1000, "a+0x0 8"},
		{"ifunc", []testSymbol{{"memcpy", 0x1000, 8, ifunc, global, 1}}, 0x1004, "memcpy+0x4 8"},
		{"data is no code", []testSymbol{{"d", 0x1000, 8, object, global, 1}}, 0x1004, ""},
		{"undefined", []testSymbol{{"u", 0x1000, 8, fn, global, 0}}, 0x1004, ""},
		{"absolute", []testSymbol{{"u", 0x1000, 8, fn, global, delf.SHN_ABS}}, 0x1004, ""},
		{"another section", []testSymbol{{"u", 0x1000, 8, fn, global, 2}}, 0x1004, ""},
		{"no such section", []testSymbol{{"u", 0x1000, 8, fn, global, 77}}, 0x1004, ""},
		{"no name", []testSymbol{{"", 0x1000, 8, fn, global, 1}}, 0x1004, ""},
		{"hint", []testSymbol{{"asm", 0x1000, 0, notype, global, 1}}, 0x1004, "asm+0x4 0?"},
		{"hint too far", []testSymbol{{"asm", 0x1000, 0, notype, global, 1}}, 0x1001 + maxGuessDistance, ""},
		{"hint beyond a function", []testSymbol{{"asm", 0x1000, 0, notype, global, 1}, {"f", 0x1010, 4, fn, global, 1}}, 0x1020, ""},
		{"hint outside the section", []testSymbol{{"asm", 0x8ff0, 0, notype, global, 1}}, 0x9000, ""},
		{"size that wraps", []testSymbol{{"f", 0x1000, ^uint64(0), fn, global, 1}}, 0x2000, "f+0x1000 4294967295"},
		{"at the end of the address space", []testSymbol{{"f", ^uint64(0) - 3, 8, fn, global, 1}}, ^uint64(0) - 1, "f+0x2 8"},
	}
	for _, tt := range tests {
		f := openBytes(t, buildELF(symbolSections(".symtab", tt.syms...)...))
		if got := lookup(f, tt.vaddr); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// The exported functions alone are too few for a hint: the function at an
// address between them is a static one.
func TestDynsymAlone(t *testing.T) {
	f := openBytes(t, buildELF(symbolSections(".dynsym",
		testSymbol{"_init", 0x1000, 0, fn, global, 1}, testSymbol{"main", 0x1100, 0x20, fn, global, 1})...))
	for vaddr, want := range map[uint64]string{0x1000: "", 0x1010: "", 0x111f: "main+0x1f 32", 0x1120: "", 0x2000: ""} {
		if got := lookup(f, vaddr); got != want {
			t.Errorf("%#x: %q, want %q", vaddr, got, want)
		}
	}
}

// Many nested symbols cost a bounded number of steps.
func TestNestedSymbols(t *testing.T) {
	var syms []testSymbol
	for i := range uint64(500) {
		syms = append(syms, testSymbol{fmt.Sprintf("f%d", i), 0x1000 + i, 1000 - 2*i, fn, global, 1})
	}
	f := openBytes(t, buildELF(symbolSections(".symtab", syms...)...))
	if got := lookup(f, 0x1000+499); got != "f499+0x0 2" {
		t.Errorf("innermost: %q", got)
	}
	if got := lookup(f, 0x1000+510); got != "f489+0x15 22" {
		t.Errorf("ten levels up: %q", got)
	}
	if got := lookup(f, 0x1000+900); got != "" { // 400 levels up
		t.Errorf("too many levels up: %q", got)
	}
}

// A damaged table names nothing wrongly and says why.
func TestDamagedSymbols(t *testing.T) {
	sections := func(edit func(s []testSection)) []byte {
		s := symbolSections(".symtab", testSymbol{"f", 0x1000, 8, fn, global, 1})
		edit(s)
		return buildELF(s...)
	}
	mini := func(b []byte) []byte {
		return buildELF(testSection{name: ".gnu_debugdata", typ: delf.SHT_PROGBITS, data: b})
	}
	tests := []struct {
		name string
		b    []byte
		want error
	}{
		{"link outside", sections(func(s []testSection) { s[1].link = 99 }), ErrFormat},
		{"table outside", sections(func(s []testSection) { s[1].claim = func(o, n uint64) (uint64, uint64) { return o, 1 << 40 } }), ErrFormat},
		{"compressed", sections(func(s []testSection) { s[1].flags = delf.SHF_COMPRESSED }), ErrFormat},
		{"names outside", sections(func(s []testSection) { s[2].claim = func(o, n uint64) (uint64, uint64) { return 1 << 40, n } }), nil},
		{"name without end", sections(func(s []testSection) {
			s[2].claim = func(o, n uint64) (uint64, uint64) { return o, n - 1 }
		}), nil},
		{"name too long", sections(func(s []testSection) {
			s[2].data = append([]byte{0}, strings.Repeat("x", maxSymbolName+namePiece)...)
		}), nil},
		{"hint without a name", sections(func(s []testSection) {
			le.PutUint64(s[1].data[24+16:], 0) // the size
			s[2].claim = func(o, n uint64) (uint64, uint64) { return 1 << 40, n }
		}), nil},
		{"half an entry", sections(func(s []testSection) { s[1].data = s[1].data[:40] }), nil},
		{"mini: no xz", mini([]byte("not xz at all, though long enough")), ErrFormat},
		{"mini: cut", mini(xzFile(t, "crc64")[:3000]), ErrFormat},
		{"mini: bomb", mini(xzFile(t, "zeros")), ErrTooBig},
		{"mini: no ELF inside", mini(xzFile(t, "crc64")), ErrFormat},
		{"mini: empty", mini(nil), ErrFormat},
	}
	for _, tt := range tests {
		f := openBytes(t, tt.b)
		if got := lookup(f, 0x1004); got != "" {
			t.Errorf("%s: %q, want no name", tt.name, got)
		}
		if err := f.SymbolError(); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// Against the standard library: the system's C library, at every byte of every
// function that overlaps no other.
func TestSymbolsOfLibc(t *testing.T) {
	for _, path := range []string{"/usr/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6"} {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		f := openBytes(t, b)
		ref, err := delf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		syms, err := ref.DynamicSymbols()
		if err != nil {
			t.Fatal(err)
		}
		if more, err := ref.Symbols(); err == nil {
			syms = append(syms, more...)
		}
		names := map[uint64][]string{}
		var order []delf.Symbol
		for _, s := range syms {
			if typ := delf.ST_TYPE(s.Info); (typ == fn || typ == ifunc) && s.Section != delf.SHN_UNDEF && s.Size > 0 {
				names[s.Value] = append(names[s.Value], s.Name)
				order = append(order, s)
			}
		}
		sort.Slice(order, func(i, j int) bool { return order[i].Value < order[j].Value })
		if len(order) < 1000 {
			t.Fatalf("%s: %d functions", path, len(order))
		}
		for i, s := range order {
			if i > 0 && order[i-1].Value+order[i-1].Size > s.Value && order[i-1].Value != s.Value {
				continue
			}
			got, guess, ok := f.Symbol(s.Value + s.Size - 1)
			if !ok || guess || got.Value < s.Value {
				t.Fatalf("%s: %s at its last byte: %+v, %v, %v", path, s.Name, got, guess, ok)
			}
			if got.Value == s.Value && !contains(names[s.Value], got.Name) {
				t.Fatalf("%s: %s: %s is none of %q", path, s.Name, got.Name, names[s.Value])
			}
		}
		return
	}
	t.Skip("no C library found")
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name || unversioned(name) == n {
			return true
		}
	}
	return false
}
