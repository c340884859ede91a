package elf

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestFlattenRanges(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []dwRange
		want []dwSpan
	}{
		{"none", nil, []dwSpan{}},
		{"apart, unsorted", []dwRange{{20, 30, 1, 0}, {0, 10, 0, 0}}, []dwSpan{{0, 10, 0}, {20, 10, 1}}},
		{"empty, inverted, too long", []dwRange{{5, 5, 0, 0}, {9, 3, 1, 0}, {0, 1 << 33, 2, 0}, {4, 6, 3, 0}}, []dwSpan{{4, 2, 3}}},
		{"touching, same owner", []dwRange{{0, 10, 1, 0}, {10, 20, 1, 0}}, []dwSpan{{0, 20, 1}}},
		{"inner", []dwRange{{0, 30, 0, 0}, {10, 20, 1, 1}}, []dwSpan{{0, 10, 0}, {10, 10, 1}, {20, 10, 0}}},
		{"inner of equal extent", []dwRange{{0, 30, 0, 0}, {0, 30, 1, 1}}, []dwSpan{{0, 30, 1}}},
		{"inner over a seam of the outer", []dwRange{{0, 10, 0, 0}, {10, 20, 0, 0}, {5, 15, 1, 1}}, []dwSpan{{0, 5, 0}, {5, 10, 1}, {15, 5, 0}}},
		{"inner beyond the outer", []dwRange{{0, 10, 0, 0}, {5, 15, 1, 1}}, []dwSpan{{0, 5, 0}, {5, 10, 1}}},
		{"same depth: the later start", []dwRange{{0, 30, 7, 0}, {10, 20, 1, 0}}, []dwSpan{{0, 10, 7}, {10, 10, 1}, {20, 10, 7}}},
		{"same depth and start: the higher id", []dwRange{{0, 30, 1, 0}, {0, 10, 0, 0}}, []dwSpan{{0, 30, 1}}},
		{"to the last address", []dwRange{{^uint64(0) - 9, ^uint64(0), 1, 0}}, []dwSpan{{^uint64(0) - 9, 9, 1}}},
	} {
		if got := flattenRanges(c.in); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// Every address has the owner that the rule gives it.
func TestFlattenRangesRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		var in []dwRange
		for id := range 1 + rnd.IntN(30) {
			lo := rnd.Uint64N(200)
			in = append(in, dwRange{lo, lo + rnd.Uint64N(60), uint32(id), uint32(rnd.IntN(4))})
		}
		spans := flattenRanges(slices.Clone(in))
		checkSpans(t, spans, len(in))
		if len(spans) > 2*len(in) {
			t.Fatalf("%d spans of %d ranges", len(spans), len(in))
		}
		for a := range uint64(300) {
			var best *dwRange
			for i := range in {
				r := &in[i]
				if a < r.lo || a >= r.hi {
					continue
				}
				if best == nil || r.depth > best.depth || r.depth == best.depth && (r.lo > best.lo || r.lo == best.lo && r.id > best.id) {
					best = r
				}
			}
			s, ok := findSpan(spans, a)
			if ok != (best != nil) || ok && s.id != best.id {
				t.Fatalf("%d: found %v %v, want %v", a, s, ok, best)
			}
		}
	}
}

// checkSpans: sorted, without overlap, owners below n.
func checkSpans(t testing.TB, spans []dwSpan, n int) {
	t.Helper()
	for i, s := range spans {
		if s.n == 0 || int(s.id) >= n || i > 0 && (s.lo < spans[i-1].lo || s.lo-spans[i-1].lo < uint64(spans[i-1].n)) {
			t.Fatalf("span %d of %d is %+v of %d owners", i, len(spans), s, n)
		}
	}
}
