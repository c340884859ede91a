package elf

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func perfMap(t testing.TB, text string) *PerfMap {
	t.Helper()
	m := new(PerfMap)
	if err := m.Read(strings.NewReader(text), int64(len(text))); err != nil {
		t.Fatal(err)
	}
	return m
}

func perfLookup(m *PerfMap, address uint64) string {
	name, off, ok := m.Lookup(address)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s+%#x", name, off)
}

func TestPerfMap(t *testing.T) {
	m := perfMap(t, "7f0000001000 20 JS:*outer /app/file one.js:3:15\n"+ // node
		"0x7f0000002000 0x10 py::f:/path\n"+ // with 0x
		"7F0000003000 8 Upper\n"+
		"7f0000001010 30 replaced part\n"+ // overlaps the first one's end
		"7f0000004000 100 old\n"+
		"7f0000004000 40 newer, shorter\n"+
		"7f0000005000 10 below\n"+
		"7f0000004ff0 100 over all\n"+
		"ffffffffffffff00 ff at the end\n"+
		"7f0000006000 0 empty\n"+
		"7f0000006000 zz bad\n"+
		"\n"+
		"7f0000006000\n"+
		"7f0000006000 10 \n"+
		"fffffffffffffff0 20 wraps\n"+
		"1ffffffffffffffff 10 too many digits\n"+
		"garbage 10 x\n"+
		"7f0000007000 10 windows\r\n"+
		"7f0000008000 10 bad \xff byte\n"+
		"7f0000009000 10 not finished")
	for address, want := range map[uint64]string{
		0x7f0000001000:     "JS:*outer /app/file one.js:3:15+0x0",
		0x7f000000100f:     "JS:*outer /app/file one.js:3:15+0xf",
		0x7f0000001010:     "replaced part+0x0",
		0x7f000000103f:     "replaced part+0x2f",
		0x7f0000001040:     "",
		0x7f0000000fff:     "",
		0x7f000000200f:     "py::f:/path+0xf",
		0x7f0000003007:     "Upper+0x7",
		0x7f0000004000:     "newer, shorter+0x0",
		0x7f0000004040:     "old+0x40",
		0x7f00000040ff:     "old+0xff",
		0x7f0000004100:     "",
		0x7f0000005000:     "over all+0x10",
		0x7f00000050ef:     "over all+0xff",
		0x7f00000050f0:     "",
		0x7f0000006000:     "",
		0x7f0000007000:     "windows+0x0",
		0x7f0000008000:     "bad \uFFFD byte+0x0",
		0x7f0000009000:     "",
		0xfffffffffffffffe: "at the end+0xfe",
		0xffffffffffffffff: "",
		0:                  "",
	} {
		if got := perfLookup(m, address); got != want {
			t.Errorf("%#x: %q, want %q", address, got, want)
		}
	}
	if m.Len() != 11 || m.Warning() != "" {
		t.Errorf("%d lines, warning %q; want 11", m.Len(), m.Warning())
	}
	if got := perfLookup(new(PerfMap), 1); got != "" {
		t.Errorf("empty map: %q", got)
	}
}

// countingReader counts the bytes that were read.
type countingReader struct {
	io.ReaderAt
	n int
}

func (c *countingReader) ReadAt(b []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(b, off)
	c.n += n
	return n, err
}

func TestPerfMapGrows(t *testing.T) {
	var text strings.Builder
	m := new(PerfMap)
	for i := range 2000 {
		fmt.Fprintf(&text, "%x 10 function number %d\n", 0x1000+16*i, i)
		if i%97 != 0 {
			continue
		}
		// In the middle of the next line, too.
		whole := text.String() + "ffff000 10 half"
		r := &countingReader{ReaderAt: strings.NewReader(whole)}
		before := m.read
		if err := m.Read(r, int64(len(whole))); err != nil {
			t.Fatal(err)
		}
		if want := len(whole) - int(before); r.n != want {
			t.Fatalf("line %d: %d bytes read, want %d", i, r.n, want)
		}
		if got, want := perfLookup(m, uint64(0x1000+16*i+3)), fmt.Sprintf("function number %d+0x3", i); got != want {
			t.Fatalf("line %d: %q, want %q", i, got, want)
		}
		if m.Len() != i+1 {
			t.Fatalf("line %d: %d lines", i, m.Len())
		}
	}
	// A shorter file is another one.
	if err := m.Read(strings.NewReader("1000 10 other\n"), 14); err != nil || m.Len() != 1 || perfLookup(m, 0x1000) != "other+0x0" {
		t.Errorf("replaced: %d lines, %q, %v", m.Len(), perfLookup(m, 0x1000), err)
	}
}

func TestPerfMapBounds(t *testing.T) {
	long := strings.Repeat("x", 3*maxPerfMapLine)
	m := perfMap(t, "1000 10 a\n"+long+"\n2000 10 "+strings.Repeat("n", 5000)+"\n3000 10 c\n")
	if m.Len() != 3 || perfLookup(m, 0x3000) != "c+0x0" {
		t.Errorf("long line: %d lines, %q", m.Len(), perfLookup(m, 0x3000))
	}
	if name, _, _ := m.Lookup(0x2000); len(name) != maxPerfMapName {
		t.Errorf("long name: %d bytes, want %d", len(name), maxPerfMapName)
	}
	// The long line in two readings.
	m = new(PerfMap)
	for _, text := range []string{"1000 10 a\n" + long, "1000 10 a\n" + long + "7000 10 not a line\n2000 10 b\n"} {
		if err := m.Read(strings.NewReader(text), int64(len(text))); err != nil {
			t.Fatal(err)
		}
	}
	if perfLookup(m, 0x7000) != "" || perfLookup(m, 0x2000) != "b+0x0" {
		t.Errorf("long line in two readings: %q, %q", perfLookup(m, 0x7000), perfLookup(m, 0x2000))
	}

	// More names than are kept.
	line := "1000 10 " + strings.Repeat("n", 1000) + "\n"
	m = perfMap(t, strings.Repeat(line, 40000))
	if m.kept > maxPerfMapNames || !strings.Contains(m.Warning(), "32 MiB") {
		t.Errorf("%d bytes kept, warning %q", m.kept, m.Warning())
	}
	// More lines than are looked at.
	m = new(PerfMap)
	if err := m.Read(&endless{c: '\n'}, maxPerfMap); err != nil || m.read > maxPerfMapLines+1 || !strings.Contains(m.Warning(), "1048576 lines") {
		t.Errorf("%d bytes read, warning %q, %v", m.read, m.Warning(), err)
	}
	// A file over the limit: its beginning.
	m = new(PerfMap)
	if err := m.Read(&endless{c: 'x'}, maxPerfMap+100); err != nil || m.read > maxPerfMap || !strings.Contains(m.Warning(), "64 MiB") {
		t.Errorf("%d bytes read, warning %q, %v", m.read, m.Warning(), err)
	}
	// A reader that fails.
	m = new(PerfMap)
	fails := errors.New("no")
	if err := m.Read(&endless{fail: fails}, 100); !errors.Is(err, fails) {
		t.Errorf("error %v", err)
	}
	// A file that is shorter than it was said to be.
	if err := m.Read(strings.NewReader("1000 10 a\n"), 100); err != nil || m.Len() != 1 {
		t.Errorf("%d lines, %v", m.Len(), err)
	}
}

type endless struct {
	c    byte
	fail error
}

func (e *endless) ReadAt(b []byte, off int64) (int, error) {
	if e.fail != nil {
		return 0, e.fail
	}
	for i := range b {
		b[i] = e.c
	}
	return len(b), nil
}

func FuzzPerfMap(f *testing.F) {
	f.Add("7f0000001000 20 JS:*outer /app/file.js:3:15\n0x10 0x20 a b  c\n", uint64(0x18), 30)
	f.Add("10 20 a\n18 8 b\n10 4 c\n", uint64(0x19), 5)
	f.Add("ffffffffffffffff 1 a\n0 ffffffffffffffff b\n", uint64(0), 1)
	f.Add(strings.Repeat("1 1 \xff\n", 10), uint64(1), 3)
	f.Fuzz(func(t *testing.T, text string, address uint64, cut int) {
		whole := perfMap(t, text)
		if whole.Len() > len(text)/6 { // "0 1 a\n"
			t.Fatalf("%d lines of %d bytes", whole.Len(), len(text))
		}
		name, off, ok := whole.Lookup(address)
		// The last line that covers the address, the slow way.
		want, wantOff, found := "", uint64(0), false
		for _, e := range whole.entries {
			if e.start >= e.end {
				t.Fatalf("entry %+v", e)
			}
			if address >= e.start && address < e.end {
				want, wantOff, found = e.name, address-e.start, true
			}
		}
		if name != want || off != wantOff || ok != found {
			t.Fatalf("%#x: %q+%#x %v, want %q+%#x %v", address, name, off, ok, want, wantOff, found)
		}
		// In two readings it is the same map.
		if cut < 0 || cut > len(text) {
			return
		}
		parts := perfMap(t, text[:cut])
		if err := parts.Read(strings.NewReader(text), int64(len(text))); err != nil || parts.Len() != whole.Len() {
			t.Fatalf("cut at %d: %d lines, want %d", cut, parts.Len(), whole.Len())
		}
	})
}
