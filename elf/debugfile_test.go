package elf

import (
	"bytes"
	delf "debug/elf"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"testing"
)

const progID = "/usr/lib/debug/.build-id/8a/53a3b7486c378c8a15d28025a51496218dff91.debug"

// withoutID returns a copy of a file whose build-id note is of another kind.
func withoutID(b []byte) []byte {
	b = bytes.Clone(b)
	i := bytes.Index(b, []byte("\x03\x00\x00\x00GNU\x00"))
	b[i] = 4
	return b
}

// linkTo changes the checksum in .gnu_debuglink of prog.stripped.
func linkTo(t *testing.T, stripped, debug []byte) []byte {
	t.Helper()
	b := bytes.Clone(stripped)
	i := bytes.Index(b, []byte("prog.debug\x00"))
	if i < 0 {
		t.Fatal("no debug link")
	}
	le.PutUint32(b[i+12:], crc32.ChecksumIEEE(debug))
	return b
}

func TestDebugFile(t *testing.T) {
	stripped, debug := progFile(t, "prog.stripped"), progFile(t, "prog.debug")
	bare := withoutID(debug)
	foreign := bytes.Clone(debug)
	foreign[bytes.Index(foreign, []byte("\x03\x00\x00\x00GNU\x00"))+8] ^= 1
	bits32 := bytes.Clone(progFile(t, "prog32"))
	tests := []struct {
		name  string
		files map[string][]byte
		where string // "" when none is to be found
		warn  string
	}{
		{"build-id", map[string][]byte{progID: debug}, progID, ""},
		{"build-id before link", map[string][]byte{progID: debug, "/opt/prog.debug": debug}, progID, ""},
		{"beside", map[string][]byte{"/opt/prog.debug": debug}, "/opt/prog.debug", ""},
		{".debug", map[string][]byte{"/opt/.debug/prog.debug": debug}, "/opt/.debug/prog.debug", ""},
		{"debug folder", map[string][]byte{"/usr/lib/debug/opt/prog.debug": debug}, "/usr/lib/debug/opt/prog.debug", ""},
		{"none", nil, "", ""},
		{"another build-id", map[string][]byte{progID: foreign}, "", "build-id"},
		{"no build-id at its path", map[string][]byte{progID: bare}, "", "build-id"},
		{"linked, another build-id", map[string][]byte{"/opt/prog.debug": foreign, "": linkTo(t, stripped, foreign)}, "", "build-id"},
		{"linked, no build-id, right checksum", map[string][]byte{"/opt/prog.debug": bare, "": linkTo(t, stripped, bare)}, "/opt/prog.debug", ""},
		{"linked, wrong checksum", map[string][]byte{"/opt/prog.debug": bare}, "", "CRC"},
		{"wrong one first", map[string][]byte{progID: foreign, "/opt/.debug/prog.debug": debug}, "/opt/.debug/prog.debug", ""},
		{"another machine", map[string][]byte{progID: bits32}, "", "not a debug file"},
		{"no ELF file", map[string][]byte{progID: []byte("text")}, "", "ELF header"},
		{"empty", map[string][]byte{progID: nil}, "", "ELF header"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			prog := stripped
			if b, ok := tt.files[""]; ok {
				prog = b
				delete(tt.files, "")
			}
			tr := newTree(t, tt.files)
			tr.write(t, "/opt/prog", prog)
			s := NewSymbolizer(DefaultLimit)
			m := tr.module(t, s, "/opt/prog")
			fr := m.Frame(0x22f)
			want := ""
			if tt.where != "" {
				want = "inner"
			}
			if fr.Symbol != want || want != "" && fr.SymbolOffset != 2 {
				t.Errorf("symbol %q+%d, want %q", fr.Symbol, fr.SymbolOffset, want)
			}
			where := ""
			if d := m.debugFile(); d != nil {
				where = d.finder.path
			}
			if where != tt.where {
				t.Errorf("found %q, want %q", where, tt.where)
			}
			if w := strings.Join(m.Warnings(), "\n"); tt.warn == "" && w != "" || !strings.Contains(w, tt.warn) {
				t.Errorf("warnings %q, want %q", w, tt.warn)
			}
			m.Close()
			tr.idle(t)
		})
	}
}

// The file of the first root that has a right one is taken; the same module is
// looked for again by the next request.
func TestDebugFileRoots(t *testing.T) {
	stripped, debug := progFile(t, "prog.stripped"), progFile(t, "prog.debug")
	target := newTree(t, map[string][]byte{"/opt/prog": stripped})
	host := newTree(t, map[string][]byte{"/opt/prog": stripped})
	s := NewSymbolizer(DefaultLimit)
	m := target.module(t, s, "/opt/prog", target, host)
	if fr := m.Frame(0x22f); fr.Symbol != "" {
		t.Errorf("nowhere: %q", fr.Symbol)
	}
	m.Close()
	host.write(t, progID, debug)
	m = target.module(t, s, "/opt/prog", target, host)
	if fr := m.Frame(0x22f); fr.Symbol != "inner" {
		t.Errorf("in the host's root: %q", fr.Symbol)
	}
	m.Close()
	host.idle(t)
	target.write(t, progID, debug)
	m = target.module(t, s, "/opt/prog", target, host)
	if fr := m.Frame(0x22f); fr.Symbol != "inner" || m.debug.key != target.key(t, progID) {
		t.Errorf("in the target's root: %q", fr.Symbol)
	}
	m.Close()
	target.idle(t)
	host.idle(t)
}

// A file that says it describes itself is not followed.
func TestDebugFileItself(t *testing.T) {
	tr := newTree(t, map[string][]byte{progID: progFile(t, "prog.stripped")})
	s := NewSymbolizer(DefaultLimit)
	m := tr.module(t, s, progID)
	if fr := m.Frame(0x22f); fr.Symbol != "" || m.debugFile() != nil {
		t.Errorf("symbol %q", fr.Symbol)
	}
	m.Close()
	tr.idle(t)
}

func TestDebugLink(t *testing.T) {
	for _, tt := range []struct {
		data string
		name string
		sum  uint32
	}{
		{"a.debug\x00\x01\x02\x03\x04", "a.debug", 0x04030201},
		{"ab.debug\x00\x00\x00\x00\x01\x02\x03\x04", "ab.debug", 0x04030201},
		{"../a.debug\x00\x00\x01\x02\x03\x04", "", 0},
		{"/etc/shadow\x00\x01\x02\x03\x04", "", 0},
		{"..\x00\x00\x01\x02\x03\x04", "", 0},
		{"\x00\x00\x00\x00\x01\x02\x03\x04", "", 0},
		{"no end of the name", "", 0},
		{"abcdefg\x00\x01\x02\x03", "", 0},
		{strings.Repeat("x", 256) + "\x00\x00\x00\x00\x01\x02\x03\x04", "", 0},
		{"", "", 0},
	} {
		f := openBytes(t, buildELF(testSection{name: ".gnu_debuglink", typ: delf.SHT_PROGBITS, data: []byte(tt.data)}))
		name, sum, ok := f.debugLink()
		if name != tt.name || sum != tt.sum || ok != (tt.name != "") {
			t.Errorf("%.20q: %q %08x %v, want %q %08x", tt.data, name, sum, ok, tt.name, tt.sum)
		}
	}
}

func TestLinkPaths(t *testing.T) {
	got := linkPaths("/usr/lib/x", "n")
	want := []string{"/usr/lib/x/n", "/usr/lib/x/.debug/n", "/usr/lib/debug/usr/lib/x/n", "/usr/lib/debug/lib/x/n"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAlternateFile(t *testing.T) {
	alt := progFile(t, "prog.debug")
	id := openBytes(t, alt).BuildID()
	link := func(name string, id []byte) []byte {
		return buildELF(testSection{name: ".gnu_debugaltlink", typ: delf.SHT_PROGBITS, data: append([]byte(name+"\x00"), id...)})
	}
	tests := []struct {
		name  string
		file  []byte
		alt   string
		found bool
		fails bool
	}{
		{"absolute", link("/usr/lib/debug/.dwz/pkg", id), "/usr/lib/debug/.dwz/pkg", true, false},
		{"relative", link("../.dwz/pkg", id), "/opt/.dwz/pkg", true, false},
		{"upwards stays inside", link("../../../../../alt", id), "/alt", true, false},
		{"by build-id", link("/gone", id), progID, true, false},
		{"in the dwz folder", link("/gone/pkg", id), "/usr/lib/debug/.dwz/pkg", true, false},
		{"another build-id", link("/alt", []byte("12345678901234567890")), "/alt", false, true},
		{"not there", link("/gone", id), "/alt", false, true},
		{"the file itself", link("/opt/bin/prog", id), "/alt", false, true},
		{"no build-id", link("/alt", nil), "/alt", false, true},
		{"no section", buildELF(), "/alt", false, false},
	}
	for _, tt := range tests {
		tr := newTree(t, map[string][]byte{"/opt/bin/prog": tt.file, tt.alt: alt})
		s := NewSymbolizer(DefaultLimit)
		m := tr.module(t, s, "/opt/bin/prog")
		f, err := m.File().Alt()
		if (f != nil) != tt.found || (err != nil) != tt.fails {
			t.Errorf("%s: found %v, %v", tt.name, f != nil, err)
		}
		if again, _ := m.File().Alt(); again != f {
			t.Errorf("%s: another file the second time", tt.name)
		}
		if f != nil && lookup(f, 0x22f) != "inner+0x2 6" {
			t.Errorf("%s: not readable", tt.name)
		}
		m.Close()
		tr.idle(t)
		if f, _ := m.File().Alt(); f != nil {
			t.Errorf("%s: opened after Close", tt.name)
		}
		tr.idle(t)
	}
}

// Two files that name each other as alternates, looked for from both at once.
func TestAlternateCircle(t *testing.T) {
	note := func(id string) testSection {
		return testSection{name: ".note.gnu.build-id", typ: delf.SHT_NOTE, data: []byte("\x04\x00\x00\x00\x04\x00\x00\x00\x03\x00\x00\x00GNU\x00" + id)}
	}
	link := func(to, id string) testSection {
		return testSection{name: ".gnu_debugaltlink", typ: delf.SHT_PROGBITS, data: []byte(to + "\x00" + id)}
	}
	tr := newTree(t, map[string][]byte{
		"/a": buildELF(note("aaaa"), link("/b", "bbbb")),
		"/b": buildELF(note("bbbb"), link("/a", "aaaa")),
		"/c": buildELF(note("cccc"), link("/c", "cccc")),
	})
	s := NewSymbolizer(DefaultLimit)
	for range 50 {
		var wg sync.WaitGroup
		for _, p := range []string{"/a", "/b", "/c"} {
			wg.Go(func() {
				m := tr.module(t, s, p)
				defer m.Close()
				f, err := m.File().Alt()
				if p == "/c" {
					if f != nil || err == nil {
						t.Error("the file is its own alternate")
					}
					return
				}
				if err != nil || f == nil {
					t.Errorf("%s: %v", p, err)
				}
			})
		}
		wg.Wait()
		tr.idle(t)
	}
}
