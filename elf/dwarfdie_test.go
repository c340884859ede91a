package elf

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cpuTime is what this process has used, which a busy machine does not stretch.
func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// at returns what Locate says, as text.
func at(t *testing.T, f *File, addr uint64) string {
	t.Helper()
	locs, err := f.Locate(addr)
	if err != nil {
		t.Fatalf("Locate(%#x): %v", addr, err)
	}
	return chainText(locs)
}

func TestInlineChain(t *testing.T) {
	f := dwProgram(t, dwLineSimple(), func(a *dwAsm) {
		one := uint32(len(a.b))
		a.ulebs(tOrigin).str("one").u8(1)
		two := uint32(len(a.b))
		a.ulebs(tOrigin).str("two").u8(1)
		a.ulebs(tFunc).str("f").u64(0x1100).u64(0x100)
		a.ulebs(tInline).u32(one).u64(0x1110).u64(0x40).u8(1).u16(11)
		a.ulebs(tInline).u32(two).u64(0x1120).u64(0x10).u8(1).u16(22).u8(0)
		a.u8(0)
		a.ulebs(tInline).u32(two).u64(0x1180).u64(0x10).u8(9).u16(33).u8(0)
		a.u8(0)
	})
	for addr, want := range map[uint64]string{
		0x1100: "f /dir/a.c:10",
		0x1110: "one /dir/a.c:10 < f /dir/a.c:11",
		0x1120: "two /dir/a.c:10 < one /dir/a.c:22 < f /dir/a.c:11",
		0x112f: "two /dir/a.c:10 < one /dir/a.c:22 < f /dir/a.c:11",
		0x1130: "one /dir/a.c:10 < f /dir/a.c:11",
		0x1150: "f /dir/a.c:10",
		0x1180: "two /dir/a.c:10 < f ??:33", // there is no file 9
		0x11ff: "f /dir/a.c:10",
		0x1200: "?? /dir/a.c:10",
		0x2000: "?? ??:0",
	} {
		if got := at(t, f, addr); got != want {
			t.Errorf("%#x: got %s, want %s", addr, got, want)
		}
	}
}

func TestInlineDepth(t *testing.T) {
	nested := func(depth int) *File {
		return dwProgram(t, dwLineSimple(), func(a *dwAsm) {
			origins := make([]uint32, depth)
			for i := range origins {
				origins[i] = uint32(len(a.b))
				a.ulebs(tOrigin).str(fmt.Sprint("level", i)).u8(1)
			}
			a.ulebs(tFunc).str("physical").u64(0x1100).u64(0x100)
			for i := range depth {
				a.ulebs(tInline).u32(origins[i]).u64(0x1100).u64(0x100).u8(1).u16(uint16(i))
			}
			a.zeros(depth + 1)
		})
	}
	locs, err := nested(maxInlined - 1).Locate(0x1100)
	if err != nil || len(locs) != maxInlined {
		t.Fatalf("%d locations, %v", len(locs), err)
	}
	for i, want := range map[int]Location{
		0:              {"level126", "/dir/a.c", 10},
		1:              {"level125", "/dir/a.c", 126},
		maxInlined - 2: {"level0", "/dir/a.c", 1},
		maxInlined - 1: {"physical", "/dir/a.c", 0},
	} {
		if locs[i] != want {
			t.Errorf("%d: %v, want %v", i, locs[i], want)
		}
	}
	if locs, err := nested(maxInlined).Locate(0x1100); locs != nil || !errors.Is(err, ErrTooBig) {
		t.Errorf("one more: %v, %v", locs, err)
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("x", maxDebugName+1)
	var self, a1, long1, chainLast uint32
	body := func(a *dwAsm) {
		fn := func(ref *uint32, addr uint64) {
			*ref = uint32(len(a.b))
			a.ulebs(tRef).u32(*ref).u64(addr).u64(0x10)
		}
		fn(&self, 0x1100)
		a1 = uint32(len(a.b))
		a.ulebs(tRef).u32(a1 + 21).u64(0x1110).u64(0x10)
		a.ulebs(tRef).u32(a1).u64(0x1120).u64(0x10)
		a.ulebs(tRef).u32(1 << 30).u64(0x1130).u64(0x10)
		a.ulebs(tRef).u32(3).u64(0x1140).u64(0x10) // into the header
		a.ulebs(tRefAddr).u32(1 << 30).u64(0x1150).u64(0x10)
		long1 = uint32(len(a.b))
		a.ulebs(tOrigin).str(long).u8(1)
		a.ulebs(tRef).u32(long1).u64(0x1160).u64(0x10)
		a.ulebs(tOrigin).str("end").u8(1)
		chainLast = uint32(len(a.b)) - 6
		for i := range maxOrigins - 1 {
			a.ulebs(tRef).u32(chainLast).u64(0x1200 + uint64(i)*0x10).u64(0x10)
			chainLast = uint32(len(a.b)) - 21
		}
		a.ulebs(tRef).u32(chainLast).u64(0x1300).u64(0x10)
	}
	f := dwProgram(t, dwLineSimple(), body)
	for addr, want := range map[uint64]string{
		0x1100: "??", 0x1110: "??", 0x1120: "??", 0x1130: "??", 0x1140: "??", 0x1150: "??", 0x1160: "??",
		0x1200: "end", 0x12d0: "end", 0x12e0: "end", 0x1300: "??",
	} {
		if got, want := at(t, f, addr), want+" /dir/a.c:10"; got != want {
			t.Errorf("%#x: got %s, want %s", addr, got, want)
		}
	}
	checkCharges(t, f)
}

// References to other units, ahead and back.
func TestRefAddr(t *testing.T) {
	other := new(dwAsm).zeros(4).u16(4).u32(0).u8(8).ulebs(tScope).str("root").b
	named := uint32(len(other))
	other = new(dwAsm).add(other).ulebs(tOrigin).str("elsewhere").u8(1).u8(0).b
	le.PutUint32(other, uint32(len(other)-4))
	for name, behind := range map[string]bool{"ahead": true, "back": false} {
		unit := func(base uint32) []byte {
			return dwUnitOf(func(a *dwAsm) { a.ulebs(tRefAddr).u32(base + named).u64(0x1100).u64(0x10) })
		}
		info := append(append([]byte(nil), other...), unit(0)...)
		if behind {
			n := uint32(len(unit(0)))
			info = append(unit(n), other...)
		}
		f := dwFile(t, map[string][]byte{".debug_info": info, ".debug_abbrev": dwAbbrevOf(), ".debug_line": dwLineSimple()})
		if got := at(t, f, 0x1100); got != "elsewhere /dir/a.c:10" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestRanges4(t *testing.T) {
	base := ^uint64(0)
	f := dwFile(t, map[string][]byte{
		".debug_info": dwUnitOf(func(a *dwAsm) {
			a.ulebs(tRanges).str("far").u32(0)
		}),
		".debug_abbrev": dwAbbrevOf(),
		".debug_line":   dwLineSimple(),
		".debug_ranges": new(dwAsm).u64(0x10).u64(0x20).u64(5).u64(5).u64(base).u64(0x1800).u64(1).u64(3).u64(0x20).u64(0x10).u64(0).u64(0).b,
	})
	for addr, want := range map[uint64]string{0x100f: "??", 0x1010: "far", 0x101f: "far", 0x1020: "??", 0x1800: "??", 0x1801: "far", 0x1803: "??"} {
		if got, want := at(t, f, addr), want+" /dir/a.c:10"; got != want {
			t.Errorf("%#x: got %s, want %s", addr, got, want)
		}
	}
}

func TestDIEHostile(t *testing.T) {
	endless := new(dwAsm)
	for range 2000 {
		endless.u64(0x10).u64(0x20)
	}
	shared := new(dwAsm)
	for range 60000 {
		shared.u64(0x10).u64(0x20)
	}
	shared.u64(0).u64(0)
	funcs := func(n int) func(*dwAsm) {
		return func(a *dwAsm) {
			for range n {
				a.ulebs(tRanges).str("f").u32(0)
			}
		}
	}
	deep := func(n int) func(*dwAsm) {
		return func(a *dwAsm) {
			for range n {
				a.ulebs(tFunc).str("f").u64(0x1100).u64(0x10)
			}
			a.zeros(n)
		}
	}
	for _, c := range []struct {
		name   string
		body   func(*dwAsm)
		ranges []byte
		want   error
	}{
		{"deep as allowed", deep(maxDebugDepth - 1), nil, nil},
		{"too deep", deep(maxDebugDepth), nil, ErrTooBig},
		{"unknown abbreviation", func(a *dwAsm) { a.ulebs(99) }, nil, ErrFormat},
		{"DIE cut", func(a *dwAsm) { a.ulebs(tFunc).str("f") }, nil, ErrFormat},
		{"text without end", func(a *dwAsm) { a.ulebs(tBase).add([]byte("xxx")) }, nil, nil},
		{"ranges elsewhere", func(a *dwAsm) { a.ulebs(tRanges).str("f").u32(1 << 30) }, endless.b, ErrFormat},
		{"ranges without end", funcs(1), endless.b, ErrFormat},
		{"one list for many", funcs(20), shared.b, ErrTooBig},
		{"more ends than beginnings", func(a *dwAsm) { a.zeros(50) }, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := dwFile(t, map[string][]byte{".debug_info": dwUnitOf(c.body), ".debug_abbrev": dwAbbrevOf(), ".debug_line": dwLineSimple(), ".debug_ranges": c.ranges})
			for range 2 {
				if locs, err := f.Locate(0x1101); !errors.Is(err, c.want) || (err == nil) == (locs == nil) {
					t.Errorf("%v, %v; want %v", locs, err, c.want)
				}
			}
			checkCharges(t, f)
		})
	}
}

func TestUnitHostile(t *testing.T) {
	good := dwUnitOf(noFuncs)
	change := func(at int, b ...byte) []byte {
		u := append([]byte(nil), good...)
		copy(u[at:], b)
		return u
	}
	for name, info := range map[string][]byte{
		"short":                  {1, 2, 3},
		"length over section":    change(0, 0xff, 0xff, 0xff, 0x7f),
		"reserved length":        change(0, 0xf0, 0xff, 0xff, 0xff),
		"64-bit length":          change(0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
		"length 0":               change(0, 0, 0, 0, 0),
		"length of no header":    change(0, 3, 0, 0, 0),
		"version 1":              change(4, 1),
		"version 6":              change(4, 6),
		"abbreviations outside":  change(6, 0xff, 0xff, 0xff, 0x7f),
		"addresses of 3 bytes":   change(10, 3),
		"no such abbreviation":   change(11, 77),
		"unit type of version 5": new(dwAsm).u32(20).u16(5).u8(99, 8).zeros(16).b,
	} {
		f := dwFile(t, map[string][]byte{".debug_info": info, ".debug_abbrev": dwAbbrevOf(), ".debug_line": dwLineSimple()})
		if locs, err := f.Locate(testLow); locs != nil || !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v, %v", name, locs, err)
		}
		checkCharges(t, f)
	}
	// An empty root is no error: there is nothing.
	f := dwFile(t, map[string][]byte{".debug_info": change(11, 0), ".debug_abbrev": dwAbbrevOf()})
	if locs, err := f.Locate(testLow); locs != nil || err != nil {
		t.Errorf("empty root: %v, %v", locs, err)
	}
}

func TestAranges(t *testing.T) {
	info := dwUnitOf(func(a *dwAsm) { a.ulebs(tFunc).str("f").u64(0x1100).u64(0x100).u8(0) })
	set := func(version uint16, unit uint32, size uint8, tuples ...uint64) *dwAsm {
		a := new(dwAsm).u16(version).u32(unit).u8(size, 0)
		if size == 8 {
			a.zeros(4)
		}
		for _, v := range tuples {
			a.u64(v)
		}
		return new(dwAsm).add(a.sized())
	}
	for _, c := range []struct {
		name    string
		aranges []byte
		want    string
		err     error
	}{
		{"right", set(2, 0, 8, 0x1000, 0x1000, 0, 0).b, "f /dir/a.c:10", nil},
		{"no such unit", set(2, 0x7000, 8, 0x1000, 0x1000, 0, 0).b, "", ErrFormat},
		{"another address: the unit says itself", set(2, 0x7000, 8, 0x3000, 0x1000, 0, 0).b, "f /dir/a.c:10", nil},
		{"version 7: the unit says itself", set(7, 0, 8, 0x1000, 0x1000).b, "f /dir/a.c:10", nil},
		{"cut", set(2, 0, 8, 0x1000, 0x1000).b[:20], "f /dir/a.c:10", nil},
		{"overflow", set(2, 0, 8, ^uint64(0)-5, 0x1000, 0x1000, ^uint64(0), 0, 0).b, "f /dir/a.c:10", nil},
		{"set after the end of another", set(2, 0, 8, 0x9000, 0x10, 0, 0).add(set(2, 0, 8, 0x1000, 0x1000, 0, 0).b).b, "f /dir/a.c:10", nil},
		{"no terminator", set(2, 0, 8, 0x1000, 0x1000).b, "f /dir/a.c:10", nil},
	} {
		f := dwFile(t, map[string][]byte{".debug_info": info, ".debug_abbrev": dwAbbrevOf(), ".debug_line": dwLineSimple(), ".debug_aranges": c.aranges})
		locs, err := f.Locate(0x1100)
		if !errors.Is(err, c.err) || err == nil && chainText(locs) != c.want || err != nil && locs != nil {
			t.Errorf("%s: %v, %v", c.name, locs, err)
		}
		checkCharges(t, f)
	}
	// When nothing is found, what could not be read is told.
	f := dwFile(t, map[string][]byte{".debug_info": info, ".debug_abbrev": dwAbbrevOf(), ".debug_line": dwLineSimple(), ".debug_aranges": set(7, 0, 8).b})
	if locs, err := f.Locate(0x9999); locs != nil || !errors.Is(err, ErrFormat) {
		t.Errorf("%v, %v", locs, err)
	}
}

// Lists of nothing but base addresses cost time and yield no range: what one file
// may cost is limited, until it is opened anew.
func TestWorkLimit(t *testing.T) {
	list := new(dwAsm)
	for i := range uint64(1 << 16) {
		list.u64(^uint64(0)).u64(i)
	}
	list.u64(0).u64(0)
	f := dwFile(t, map[string][]byte{
		".debug_info": dwUnitOf(func(a *dwAsm) {
			a.ulebs(tFunc).str("good").u64(0x1100).u64(0x10).u8(0)
			for range 20000 {
				a.ulebs(tRanges).str("f").u32(0)
			}
		}),
		".debug_abbrev": dwAbbrevOf(), ".debug_line": dwLineSimple(), ".debug_ranges": list.b,
	})
	f.use().dwarf.work = maxDebugWork - 1<<21 // the rest of it takes long
	f.done()
	begin := cpuTime()
	for range 3 {
		if locs, err := f.Locate(0x1101); locs != nil || !errors.Is(err, ErrTooBig) {
			t.Fatalf("%v, %v", locs, err)
		}
	}
	if took := cpuTime() - begin; took > 30*time.Second {
		t.Errorf("the limit is reached after %v of CPU time", took)
	}
	checkCharges(t, f)
	f.use().retry()
	f.done()
	if d := &f.data.dwarf; d.work != 0 || d.bytes != 0 || f.data.bytes != 0 {
		t.Errorf("afterwards %d bytes stay charged, and work is %d", d.bytes, d.work)
	}
}

// Whatever the budget is, an answer is right or ErrBudget, and later there is
// room again.
func TestLocateBudget(t *testing.T) {
	for _, name := range []string{"gcc5", "zlib", "clang5", "lto", "names"} {
		b, err := os.ReadFile("testdata/dwarf/" + name)
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		for limit := int64(0); limit < 512<<10; limit += 997 + limit/8 {
			acct := newAccount(limit)
			f, err := open(strings.NewReader(string(b)), int64(len(b)), acct)
			if err != nil {
				t.Fatal(err)
			}
			lo := f.Entry()
			locs, err := f.Locate(lo)
			if err != nil {
				if !errors.Is(err, ErrBudget) || locs != nil {
					t.Fatalf("%s within %d: %v, %v", name, limit, locs, err)
				}
			} else {
				if want == "" {
					want = chainText(locs)
				}
				if got := chainText(locs); got != want || got == chainText(nil) {
					t.Fatalf("%s within %d: %s, want %s", name, limit, got, want)
				}
			}
			checkCharges(t, f)
			if acct.bytes > limit {
				t.Fatalf("%d bytes of %d", acct.bytes, limit)
			}
			acct.limit = 64 << 20
			f.use().retry()
			f.done()
			if locs, err := f.Locate(lo); err != nil || want != "" && chainText(locs) != want {
				t.Fatalf("%s with room: %v, %v", name, locs, err)
			}
			checkCharges(t, f)
		}
		if want == "" {
			t.Errorf("%s: no budget was enough", name)
		}
	}
}

// Units that are dropped for others are read again, and give back all they took.
func TestUnitsDropped(t *testing.T) {
	for _, name := range []string{"gcc5", "clang5", "zlib"} {
		f := openFixture(t, name)
		runs := readWant(t, map[string]string{"gcc5": "gcc5", "zlib": "gcc5", "clang5": "clang5"}[name])
		var least int64 = -1
		for range 3 {
			for _, run := range runs {
				if got := at(t, f, run.lo); got != run.text {
					t.Fatalf("%s %#x: %s, want %s", name, run.lo, got, run.text)
				}
				d := &f.data.dwarf
				d.keepUnits(0)
				if d.unitBytes != 0 || len(d.units) != 0 || d.lru.Len() != 0 || len(d.tables) != 0 {
					t.Fatalf("%s: %d bytes of %d units and %d tables stay", name, d.unitBytes, len(d.units), len(d.tables))
				}
			}
			d := &f.data.dwarf
			if least < 0 {
				least = d.bytes
			} else if d.bytes != least {
				t.Fatalf("%s: %d bytes are charged without units, before it was %d", name, d.bytes, least)
			}
		}
		checkCharges(t, f)
	}
}

// A read that fails once is tried again when the file is opened anew.
func TestLocateReadError(t *testing.T) {
	for _, name := range []string{"gcc5", "zlib"} {
		b, err := os.ReadFile("testdata/dwarf/" + name)
		if err != nil {
			t.Fatal(err)
		}
		r := &failingReader{b: b, left: 1 << 30}
		f, err := Open(r, int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		for n := range 40 {
			r.left = n
			locs, err := f.Locate(f.Entry())
			if err == nil {
				if n == 0 || chainText(locs) == chainText(nil) {
					t.Fatalf("%s after %d reads: %v", name, n, locs)
				}
				break
			}
			if locs != nil || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("%s after %d reads: %v, %v", name, n, locs, err)
			}
			checkCharges(t, f)
			f.use().retry()
			f.done()
			if n == 39 {
				t.Errorf("%s: 40 reads are not enough", name)
			}
		}
	}
}

// failingReader fails after so many reads.
type failingReader struct {
	b    []byte
	left int
}

func (r *failingReader) ReadAt(b []byte, off int64) (int, error) {
	if r.left == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	r.left--
	return copy(b, r.b[off:]), nil
}
