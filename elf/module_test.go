package elf

import (
	delf "debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// frameText is a Frame as "symbol+offset file:line".
func frameText(fr Frame) string {
	text := fmt.Sprintf("%s+%#x", fr.Symbol, fr.SymbolOffset)
	if fr.Guess {
		text += "?"
	}
	if fr.SourceFile != "" {
		text += fmt.Sprintf(" %s:%d", filepath.Base(fr.SourceFile), fr.Line)
	}
	return text
}

func TestFrame(t *testing.T) {
	debug := progFile(t, "prog.debug")
	for _, tt := range []struct {
		name  string
		file  string
		debug string // at the path of its build-id
		vaddr uint64
		want  string
	}{
		{"all in the file", "prog", "", 0x22d, "inner+0x0 prog.c:4"},
		{"of several names", "prog", "", 0x242, "other_name+0x1 prog.c:6"},
		{"assembler: no debug information", "prog", "", 0x22a, "bare+0x1?"},
		{"outside", "prog", "", 0x269, "+0x0"},
		{"nothing known", "prog.stripped", "", 0x22d, "+0x0"},
		{"separate file", "prog.stripped", "prog.debug", 0x22d, "inner+0x0 prog.c:4"},
		{"separate file, zlib", "prog.stripped", "prog.zlib", 0x24a, "other_name+0x9 prog.c:6"},
		{"separate file, zstd", "prog.stripped", "prog.zstd", 0x24a, "other_name+0x9 prog.c:6"},
		{"separate file, old form", "prog.stripped", "prog.zdebug", 0x24a, "other_name+0x9 prog.c:6"},
		{"small table, no lines", "prog.mini", "", 0x230, "inner+0x3"},
		{"small table, lines elsewhere", "prog.mini", "prog.debug", 0x230, "inner+0x3 prog.c:4"},
		{"32 bits", "prog32", "", 0x80480dd, "inner+0x1 prog.c:4"},
	} {
		tr := newTree(t, map[string][]byte{"/prog": progFile(t, tt.file)})
		if tt.debug != "" {
			tr.write(t, progID, progFile(t, tt.debug))
		}
		m := tr.module(t, NewSymbolizer(DefaultLimit), "/prog")
		fr := m.Frame(tt.vaddr)
		if got := frameText(fr); got != tt.want || len(fr.Inline) != 0 {
			t.Errorf("%s: %q, %d inlined, want %q", tt.name, got, len(fr.Inline), tt.want)
		}
		if w := m.Warnings(); len(w) != 0 {
			t.Errorf("%s: warnings %q", tt.name, w)
		}
		m.Close()
		tr.idle(t)
	}

	// Debug information without a symbol table names functions all the same.
	f := openBytes(t, debug)
	var kept []testSection
	for _, s := range f.Sections()[1:] {
		if s.Name == ".symtab" || s.Name == ".strtab" || s.Name == ".shstrtab" {
			continue
		}
		ts := testSection{name: s.Name, typ: s.Type, flags: s.Flags, addr: s.Addr}
		if s.Type != delf.SHT_NOBITS {
			ts.data = debug[s.Offset : s.Offset+s.Size]
		} else {
			ts.claim = func(o, n uint64) (uint64, uint64) { return o, s.Size }
		}
		kept = append(kept, ts)
	}
	tr := newTree(t, map[string][]byte{"/prog": buildELF(kept...)})
	m := tr.module(t, NewSymbolizer(DefaultLimit), "/prog")
	for vaddr, want := range map[uint64]string{
		0x22e: "inner+0x1 prog.c:4", 0x240: "outer+0xd prog.c:5", 0x24a: "weak_name+0x9 prog.c:6", 0x22a: "+0x0",
	} {
		if got := frameText(m.Frame(vaddr)); got != want {
			t.Errorf("no symbol table, %#x: %q, want %q", vaddr, got, want)
		}
	}
	m.Close()
}

// Names of inlined functions are demangled as well.
func TestFrameInline(t *testing.T) {
	tr := newTree(t, map[string][]byte{"/prog": dwarfFile(t, "names")})
	m := tr.module(t, NewSymbolizer(DefaultLimit), "/prog")
	defer m.Close()
	fr := m.Frame(0x40012a)
	if got, want := frameText(fr), "int shop::pay<int>(int)+0xa names.cc:11"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	want := []Location{
		{"shop::Till::add(int)", "/src/names.cc", 11},
		{"shop::pay<int>(int)::{lambda(int)#1}::operator()(int) const", "/src/names.cc", 39},
		{"int shop::pay<int>(int)", "/src/names.cc", 41},
	}
	if !slices.Equal(fr.Inline, want) {
		t.Errorf("%+v, want %+v", fr.Inline, want)
	}
	if again := m.Frame(0x40012a); frameText(again) != frameText(fr) || !slices.Equal(again.Inline, want) {
		t.Errorf("the second time %+v", again)
	}
}

// What dwz moved into a file of its own is followed there.
func TestFrameAlternate(t *testing.T) {
	tr := newTree(t, map[string][]byte{"/opt/prog": dwarfFile(t, "dwz1")})
	s := NewSymbolizer(DefaultLimit)
	m := tr.module(t, s, "/opt/prog")
	without := m.Frame(0x400150)
	if len(m.Warnings()) == 0 {
		t.Error("no warning that the alternate file is not there")
	}
	m.Close()
	tr.idle(t)

	tr.write(t, "/opt/dwz.alt", dwarfFile(t, "dwz.alt"))
	m = tr.module(t, s, "/opt/prog")
	fr := m.Frame(0x400150)
	if len(fr.Inline) != 2 || fr.Inline[0] != (Location{"outer", "/src/main.c", 12}) || fr.Inline[1].Function != "not_inlined" || len(m.Warnings()) != 0 {
		t.Errorf("%+v, warnings %q; without the file %+v", fr, m.Warnings(), without)
	}
	m.Close()
	tr.idle(t)
}

func dwarfFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "dwarf", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The C library of this system, described by its separate debug file.
func TestLibcDebugFile(t *testing.T) {
	tr, vaddr := libcTree(t)
	s := NewSymbolizer(DefaultLimit)
	m := tr.module(t, s, libcPath)
	if m.debugFile() == nil {
		m.Close()
		t.Skip("no debug file of " + libcPath)
	}
	fr := m.Frame(vaddr)
	if fr.Symbol != "qsort" || fr.Guess || !strings.HasSuffix(fr.SourceFile, "sort.c") || fr.Line == 0 || len(m.Warnings()) != 0 {
		t.Errorf("%+v, warnings %q", fr, m.Warnings())
	}
	m.Close()
	tr.idle(t)
	if st := s.Stats(); st.Files != 2 || st.Bytes > 16<<20 {
		t.Errorf("%+v for one address", st)
	}
}
