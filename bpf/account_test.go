package bpf

import (
	"math/rand/v2"
	"testing"
)

func TestAccount(t *testing.T) {
	p, q := Process{1, 10}, Process{2, 20}
	type window struct {
		width     uint64
		completed map[Process]uint64
		running   map[Process]uint64
		want      map[Process]uint64
	}
	type m = map[Process]uint64
	for _, c := range []struct {
		name    string
		windows []window
	}{
		{"a slice that ended", []window{{100, m{p: 30}, nil, m{p: 30}}, {100, nil, nil, nil}}},
		{"a slice over three windows", []window{
			{100, nil, m{p: 90}, m{p: 90}},
			{100, nil, m{p: 190}, m{p: 100}},
			{100, m{p: 200}, nil, m{p: 10}},
		}},
		{"the sample lags and does not go back", []window{
			{100, nil, m{p: 90}, m{p: 90}},
			{100, nil, m{p: 90}, nil},
			{100, m{p: 95}, m{q: 3}, m{p: 5, q: 3}},
		}},
		{"a slice that ends between the bank and the cell comes late", []window{
			{100, nil, m{p: 50}, m{p: 50}},
			{100, nil, m{q: 10}, m{q: 10}},
			{100, m{p: 70}, m{q: 10}, m{p: 20}},
		}},
		{"a slice that never comes is forgotten", []window{
			{100, nil, m{p: 50}, m{p: 50}},
			{100, nil, nil, nil},
			{100, nil, nil, nil},
			{100, m{p: 20}, nil, m{p: 20}},
		}},
		{"more than the window waits, and is paid first", []window{
			{100, m{p: 80}, m{q: 60}, m{p: 80, q: 20}},
			{50, m{p: 50}, m{q: 60}, m{q: 0, p: 50}},
			{100, m{q: 70}, nil, m{q: 50}},
		}},
		{"a slice is cut, then whole", []window{
			{100, m{p: 130}, nil, m{p: 100}},
			{100, m{q: 90}, nil, m{p: 30, q: 70}},
			{100, nil, nil, m{q: 20}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var a account
			for i, w := range c.windows {
				for p, run := range w.completed {
					a.add(p, run)
				}
				for p, run := range w.running {
					a.running(p, run)
				}
				got := m{}
				a.settle(w.width, func(p Process, run uint64) { got[p] += run })
				for _, who := range []Process{p, q} {
					if got[who] != w.want[who] {
						t.Errorf("window %d: process %d gets %d, want %d", i, who.TGID, got[who], w.want[who])
					}
				}
			}
		})
	}
}

// Whatever the order of slices and samples: no window holds more than its width,
// and in the end everybody has what he had.
func TestAccountLosesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var a account
		had, got := map[Process]uint64{}, map[Process]uint64{}
		settle := func(width uint64) {
			total := uint64(0)
			a.settle(width, func(p Process, run uint64) { got[p] += run; total += run })
			if total > width {
				t.Fatalf("a window of %d holds %d", width, total)
			}
		}
		now := Process{1, 1}
		slice := uint64(0) // of now, so far
		for range 50 {
			left := uint64(r.IntN(1000)) // of the window
			width := left
			for range r.IntN(6) {
				step := min(left, uint64(r.IntN(400)))
				left -= step
				slice += step
				a.add(now, slice)
				had[now] += slice
				slice = 0
				now = Process{uint32(1 + r.IntN(4)), 1}
			}
			slice += left
			a.running(now, slice-min(slice, uint64(r.IntN(40)))) // the sample lags
			settle(width)
		}
		a.add(now, slice)
		had[now] += slice
		for range 4 {
			settle(1000)
		}
		for p, want := range had {
			if got[p] != want {
				t.Fatalf("process %d was given %d of %d", p.TGID, got[p], want)
			}
		}
		if len(a.entries) != 0 || len(a.index) != 0 {
			t.Fatalf("left over: %+v", a.entries)
		}
	}
}

func TestAccountBoundsWhatItHoldsBack(t *testing.T) {
	var a account
	total := uint64(0)
	for range 10 {
		a.add(Process{1, 1}, 2*maxHeldBack)
		a.settle(maxHeldBack, func(_ Process, run uint64) { total += run })
	}
	for range 5 {
		a.settle(maxHeldBack, func(_ Process, run uint64) { total += run })
	}
	if want := uint64(11 * maxHeldBack); total != want {
		t.Errorf("%d ns reported, want %d: ten full windows and what may be held back", total, want)
	}
}

// A scheduler's clock that is 500 parts in a million fast does not delay what is
// reported by more and more, and one late slice is not given up.
func TestAccountMelts(t *testing.T) {
	const width = 100_000_000
	var a account
	held := func() (ns int64) {
		for _, e := range a.entries {
			ns -= e.ahead
		}
		return ns
	}
	report := func(Process, uint64) {}
	for range 20_000 {
		a.add(Process{1, 1}, width+width/2000)
		a.settle(width, report)
	}
	if h := held(); h > allowance+2*width/melt*standing || h <= 0 {
		t.Errorf("%d ns are held back", h)
	}
	a = account{}
	a.add(Process{1, 1}, 10*width)
	total := uint64(0)
	for range 10 {
		a.settle(width, func(_ Process, run uint64) { total += run })
	}
	if total != 10*width || held() != 0 {
		t.Errorf("%d of %d ns reported, %d held back", total, 10*width, held())
	}
}
