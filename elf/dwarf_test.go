package elf

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// openFixture opens a file of testdata/dwarf.
func openFixture(t testing.TB, name string) *File {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/dwarf", name))
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatalf("open %s: %v", name, err)
	}
	return f
}

// wantRun is one line of a .want file: a run of addresses with one answer.
type wantRun struct {
	lo, hi uint64
	text   string
}

func readWant(t testing.TB, name string) (runs []wantRun) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/dwarf", name+".want"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		addrs, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		a, z, ok := strings.Cut(addrs, "-")
		lo, err1 := strconv.ParseUint(a, 0, 64)
		hi, err2 := strconv.ParseUint(z, 0, 64)
		if !ok || err1 != nil || err2 != nil {
			t.Fatalf("%s.want: %q", name, line)
		}
		runs = append(runs, wantRun{lo, hi, text})
	}
	if len(runs) == 0 {
		t.Fatalf("%s.want is empty", name)
	}
	return runs
}

// chainText formats locations as a .want file has them.
func chainText(locs []Location) string {
	unknown := func(s string) string {
		if s == "" {
			return "??"
		}
		return s
	}
	if len(locs) == 0 {
		return "?? ??:0"
	}
	var parts []string
	for _, l := range locs {
		parts = append(parts, fmt.Sprintf("%s %s:%d", unknown(l.Function), unknown(l.File), l.Line))
	}
	return strings.Join(parts, " < ")
}

// compareWant looks up every address of the expected runs.
func compareWant(t *testing.T, f *File, want string, rename *strings.Replacer) {
	t.Helper()
	for _, run := range readWant(t, want) {
		text := run.text
		if rename != nil {
			text = rename.Replace(text)
		}
		for a := run.lo; a <= run.hi; a++ {
			locs, err := f.Locate(a)
			if err != nil {
				t.Fatalf("Locate(%#x): %v", a, err)
			}
			if got := chainText(locs); got != text {
				t.Errorf("Locate(%#x)\n got %s\nwant %s", a, got, text)
				break
			}
		}
	}
}

func TestLocate(t *testing.T) {
	// gcc gives no linkage name to what only one unit sees.
	scoped := strings.NewReplacer(
		"run /src", "local()::Inside::run /src",
		"hidden /src", "shop::(anonymous namespace)::hidden /src",
		"open /src", "shop::(anonymous namespace)::Secret::open /src",
	)
	for _, c := range []struct {
		file, want, what string
		rename           *strings.Replacer
	}{
		{file: "gcc5", want: "gcc5", what: "DWARF 5, cold partition"},
		{file: "gcc4", want: "gcc5", what: "DWARF 4"},
		{file: "gcc3", want: "gcc5", what: "DWARF 3"},
		{file: "gcc2", want: "gcc2", what: "DWARF 2: DW_FORM_data4 offsets, absolute high_pc"},
		{file: "gcc64", want: "gcc5", what: "64-bit DWARF"},
		{file: "gcc32", want: "gcc32", what: "addresses of 4 bytes"},
		{file: "gcc-o0", want: "gcc-o0", what: "nothing but forced inlining"},
		{file: "zlib", want: "gcc5", what: "SHF_COMPRESSED, zlib"},
		{file: "zstd", want: "gcc5", what: "SHF_COMPRESSED, zstd"},
		{file: "zdebug", want: "gcc5", what: ".zdebug_ sections"},
		{file: "sections", want: "sections", what: "several sequences in odd order, dropped functions"},
		{file: "sections4", want: "sections4", what: "the same with .debug_ranges"},
		{file: "lto", want: "lto", what: "DW_FORM_ref_addr into other units"},
		{file: "split", want: "split", what: "split DWARF: lines without functions"},
		{file: "clang5", want: "clang5", what: "no .debug_aranges; addrx, strx, rnglistx"},
		{file: "clang4", want: "clang5", what: "no .debug_aranges, .debug_ranges"},
		{file: "clang64", want: "clang5", what: "64-bit DWARF 4"},
		{file: "clang-sections", want: "clang-sections", what: "addresses that lld gave up"},
		{file: "clang-lto", want: "clang-lto", what: "one code, several units"},
		{file: "mixed", want: "mixed", what: "one unit in .debug_aranges and one not"},
		{file: "names", want: "names", what: "C++ by gcc", rename: scoped},
		{file: "names-clang", want: "names-clang", what: "C++ by clang"},
		{file: "types4", want: "names", what: "type units in .debug_types", rename: scoped},
		{file: "types5", want: "names", what: "type units in .debug_info", rename: scoped},
		{file: "asm", want: "asm", what: "lines without functions"},
		{file: "rust", want: "rust", what: "Rust; line 0"},
		{file: "dwz-single", want: "lto", what: "partial units"},
	} {
		t.Run(c.file, func(t *testing.T) {
			f := openFixture(t, c.file)
			compareWant(t, f, c.want, c.rename)
			checkCharges(t, f)
			if t.Failed() {
				t.Log(c.what)
			}
		})
	}
}

func TestLocateAlternate(t *testing.T) {
	f := openFixture(t, "dwz1")
	alt := openFixture(t, "dwz.alt")
	f.findAlt = func() (*File, error) { return alt, nil }
	compareWant(t, f, "dwz1", nil)
	if alt.data.pins != 0 {
		t.Errorf("the alternate file is still in use %d times", alt.data.pins)
	}
}

// Without its alternate file a program still has its lines, and no wrong names.
func TestLocateAlternateMissing(t *testing.T) {
	for name, find := range map[string]func() (*File, error){
		"nobody looks": nil,
		"not there":    func() (*File, error) { return nil, os.ErrNotExist },
	} {
		t.Run(name, func(t *testing.T) {
			f := openFixture(t, "dwz1")
			f.findAlt = find
			for _, run := range readWant(t, "dwz1") {
				locs, err := f.Locate(run.lo)
				if err != nil {
					t.Fatal(err)
				}
				want := strings.Split(run.text, " < ")
				got := strings.Split(chainText(locs), " < ")
				if len(got) != len(want) {
					t.Fatalf("Locate(%#x): %q, want %q", run.lo, got, want)
				}
				for i := range want {
					_, wantPos, _ := strings.Cut(want[i], " ")
					gotName, gotPos, _ := strings.Cut(got[i], " ")
					if gotPos != wantPos || gotName != "??" && !strings.HasPrefix(want[i], gotName+" ") {
						t.Errorf("Locate(%#x): %q, want %q", run.lo, got[i], want[i])
					}
				}
			}
		})
	}
}

// A file that names itself, and files that name each other, are hostile.
func TestLocateAlternateLoop(t *testing.T) {
	a, b := openFixture(t, "dwz1"), openFixture(t, "dwz1")
	a.findAlt = func() (*File, error) { return b, nil }
	b.findAlt = func() (*File, error) { return a, nil }
	self := openFixture(t, "dwz1")
	self.findAlt = func() (*File, error) { return self, nil }
	var wg sync.WaitGroup
	for _, f := range []*File{a, b, self, a, b, self} {
		wg.Go(func() {
			for _, run := range readWant(t, "dwz1") {
				if _, err := f.Locate(run.lo); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// What a look-up returns and what it keeps does not depend on how many ask at once.
func TestLocateConcurrent(t *testing.T) {
	for _, name := range []string{"clang5", "zlib"} {
		f := openFixture(t, name)
		want := map[string]string{"clang5": "clang5", "zlib": "gcc5"}[name]
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { compareWant(t, f, want, nil) })
		}
		wg.Wait()
		checkCharges(t, f)
	}
}

// checkCharges compares what f is charged for with what its parts say they took.
func checkCharges(t testing.TB, f *File) {
	t.Helper()
	if f.data == nil {
		return
	}
	d := &f.data.dwarf
	if d.f == nil {
		return
	}
	if f.data.bytes != d.bytes+f.data.dwarfAlt.bytes {
		t.Errorf("file is charged %d bytes, its debug information %d", f.data.bytes, d.bytes)
	}
	var units int64
	for e := d.lru.Front(); e != nil; e = e.Next() {
		units += e.Value.(*dwUnit).charged
	}
	if units != d.unitBytes || len(d.units) != d.lru.Len() {
		t.Errorf("%d units are charged %d bytes, together %d", d.lru.Len(), units, d.unitBytes)
	}
	if d.bytes < d.unitBytes || d.bytes < 0 {
		t.Errorf("debug information is charged %d bytes, its units %d", d.bytes, d.unitBytes)
	}
	if f.data.pins != 0 {
		t.Errorf("file is in use %d times", f.data.pins)
	}
}

func TestLocateOutside(t *testing.T) {
	f := openFixture(t, "gcc5")
	for _, a := range []uint64{0, 1, 0x1000, 0x4000ef, 0x4002c9, 0x400132, 1 << 63, ^uint64(0)} {
		if locs, err := f.Locate(a); locs != nil || err != nil {
			t.Errorf("Locate(%#x) = %v, %v", a, locs, err)
		}
	}
}

func TestLocateNoDebugInfo(t *testing.T) {
	f := openFixture(t, "dwz.alt") // has .debug_info, but no code
	if locs, err := f.Locate(0x4000f0); locs != nil || err != nil {
		t.Errorf("alternate file: %v, %v", locs, err)
	}
	b, err := os.ReadFile("testdata/dwarf/gcc5")
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.ReplaceAll(b, []byte(".debug_info"), []byte(".nobug_info"))
	if f, err = Open(bytes.NewReader(b), int64(len(b))); err != nil {
		t.Fatal(err)
	}
	if locs, err := f.Locate(0x4000f0); locs != nil || err != nil {
		t.Errorf("no debug information: %v, %v", locs, err)
	}
}
