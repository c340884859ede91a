package proc

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// checkSummary holds what is true of every summary.
func checkSummary(t *testing.T, in []Mapping, s MapSummary) {
	t.Helper()
	if len(s.Boxes) > maxMapBoxes || len(in) > 0 && len(s.Boxes) == 0 {
		t.Fatalf("%d boxes of %d mappings", len(s.Boxes), len(in))
	}
	var size, want, total uint64
	count := 0
	for i, b := range s.Boxes {
		if b.Start >= b.End || b.Size == 0 || b.Size > b.End-b.Start || b.Count < 1 || i > 0 && s.Boxes[i-1].End > b.Start {
			t.Fatalf("box %d: %+v", i, b)
		}
		if !slices.Contains(mapKinds[:], b.Kind) {
			t.Fatalf("box %d is %q", i, b.Kind)
		}
		size += b.Size
		count += b.Count
	}
	for _, m := range in {
		want += m.End - m.Start
	}
	for _, v := range s.Totals {
		total += v
	}
	if size != want || total != want || count != len(in) || len(s.Totals) != len(mapKinds) {
		t.Fatalf("boxes have %d bytes of %d mappings, totals %d, the mappings %d and %d", size, count, total, want, len(in))
	}
}

func TestSummarizeMapsProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	perms := []string{"r-xp", "r--p", "rw-p", "---p", "rw-s", "r--s", "rwxp"}
	paths := []string{"", "", "/lib/a.so", "/lib/b.so", "[heap]", "[stack]", "[vdso]", "[anon:x]", "[uprobes]"}
	for range 300 {
		in := make([]Mapping, r.IntN(400))
		at := uint64(0x10000)
		for i := range in {
			if r.IntN(3) == 0 {
				at += uint64(1+r.IntN(1<<r.IntN(20))) << 12
			}
			size := uint64(1+r.IntN(1<<r.IntN(12))) << 12
			in[i] = Mapping{Start: at, End: at + size, Permissions: [4]byte([]byte(perms[r.IntN(len(perms))])), Path: paths[r.IntN(len(paths))]}
			at += size
		}
		s := SummarizeMaps(in)
		checkSummary(t, in, s)
		totals := map[string]uint64{}
		for i := range in {
			totals[mapKinds[mapKind(&in[i])]] += in[i].End - in[i].Start
		}
		for kind, v := range s.Totals {
			if totals[kind] != v {
				t.Fatalf("%s: %d bytes, want %d", kind, v, totals[kind])
			}
		}
		again := SummarizeMaps(in)
		if !slices.Equal(again.Boxes, s.Boxes) || !maps.Equal(again.Totals, s.Totals) {
			t.Fatal("the same mappings give another summary")
		}
	}
}

func TestSummarizeMapsMerging(t *testing.T) {
	at := func(start, pages uint64, perms, path string) Mapping {
		return Mapping{Start: start, End: start + pages<<12, Permissions: [4]byte([]byte(perms)), Path: path}
	}
	s := SummarizeMaps([]Mapping{
		at(0x1000, 1, "r--p", "/a"), at(0x2000, 2, "r--p", "/b"), at(0x4000, 1, "r-xp", "/b"), at(0x6000, 1, "r-xp", "/b"),
	})
	want := []MapBox{
		{KindReadonly, 0x1000, 0x4000, 0x3000, 2}, // they touch and are of one kind
		{KindCode, 0x4000, 0x5000, 0x1000, 1},
		{KindCode, 0x6000, 0x7000, 0x1000, 1}, // a gap stays visible
	}
	if !slices.Equal(s.Boxes, want) {
		t.Errorf("got %+v, want %+v", s.Boxes, want)
	}

	// Too many: the wide gap between the two halves is the last to go, and the one
	// large mapping keeps its kind against the small ones around it.
	var in []Mapping
	for i := range uint64(100) {
		in = append(in, at(0x10000+i*0x3000, 1, []string{"r--p", "rw-p"}[i%2], "/low"))
	}
	in = append(in, at(0x7f0000000000, 1<<18, "rw-p", ""), at(0x7f0000000000+1<<30, 1, "r-xp", "/x"))
	s = SummarizeMaps(in)
	checkSummary(t, in, s)
	if len(s.Boxes) != maxMapBoxes {
		t.Errorf("%d boxes, want all %d places used", len(s.Boxes), maxMapBoxes)
	}
	for _, b := range s.Boxes {
		if b.Start < 0x7f0000000000 && b.End > 0x7f0000000000 {
			t.Errorf("a box goes over the gap: %+v", b)
		}
		if b.Start == 0x7f0000000000 && b.Kind != KindAnonymous {
			t.Errorf("the large mapping became %+v", b)
		}
	}

	if s := SummarizeMaps(nil); len(s.Boxes) != 0 || s.Boxes == nil || len(s.Totals) != len(mapKinds) {
		t.Errorf("no mappings: %+v", s)
	}
}

func TestMapKind(t *testing.T) {
	for _, c := range []struct{ perms, path, want string }{
		{"r-xp", "/bin/x", KindCode},
		{"rwxp", "", KindCode},
		{"r--p", "/bin/x", KindReadonly},
		{"rw-p", "/bin/x", KindData},
		{"rw-p", "[heap]", KindHeap},
		{"rw-p", "", KindAnonymous},
		{"r--p", "", KindAnonymous},
		{"rw-p", "[anon:glibc: malloc]", KindAnonymous},
		{"rw-p", "[stack]", KindStack},
		{"rwxp", "[stack]", KindStack},
		{"rw-p", "[stack:77]", KindStack},
		{"rw-s", "/dev/shm/x", KindShared},
		{"r--s", "/usr/lib/locale/C.utf8/LC_CTYPE", KindShared},
		{"r-xs", "/x", KindShared},
		{"rw-s", "[anon_shmem:x]", KindShared},
		{"r-xp", "[vdso]", KindVDSO},
		{"r--p", "[vvar]", KindVDSO},
		{"r--p", "[vvar_vclock]", KindVDSO},
		{"--xp", "[vsyscall]", KindVDSO},
		{"---p", "", KindGuard},
		{"---p", "/lib/x.so", KindGuard},
		{"---s", "/dev/dri/card0", KindGuard},
		{"r--p", "[uprobes_data]", KindOther},
		{"rw-p", "anon_inode:[io_uring]", KindData},
	} {
		m := Mapping{Permissions: [4]byte([]byte(c.perms)), Path: c.path}
		if got := mapKinds[mapKind(&m)]; got != c.want {
			t.Errorf("%s %s is %s, want %s", c.perms, c.path, got, c.want)
		}
	}
}

// What readMapKinds keeps of the paths is enough to tell the kinds.
func TestReadMapKinds(t *testing.T) {
	p := openLive(t, startTarget(t, nil, "idle").pid())
	whole, err := p.ReadMaps(nil)
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := p.readMapKinds(nil)
	if err != nil {
		t.Fatal(err)
	}
	a, b := SummarizeMaps(whole), SummarizeMaps(kinds)
	checkSummary(t, whole, a)
	for _, kind := range []string{KindCode, KindReadonly, KindData, KindAnonymous, KindStack, KindVDSO} {
		if a.Totals[kind] == 0 {
			t.Errorf("a Go program without %s", kind)
		}
	}
	if !slices.Equal(a.Boxes, b.Boxes) || !maps.Equal(a.Totals, b.Totals) {
		t.Errorf("got %+v, want %+v", b, a)
	}
	if n := testing.AllocsPerRun(5, func() { kinds, err = p.readMapKinds(kinds[:0]) }); n > 3 {
		t.Errorf("reading again allocates %v times", n)
	}
}

func init() { targets["idle"] = func([]string) {} }
