package proc

import "strings"

// Map kinds.
const (
	KindCode      = "code"      // private, executable: programs, libraries, what a JIT made
	KindReadonly  = "readonly"  // private file, only readable
	KindData      = "data"      // private file, writable
	KindHeap      = "heap"      // [heap], the brk area
	KindAnonymous = "anonymous" // private memory of no file; also the stacks of threads, which nothing marks
	KindStack     = "stack"     // [stack] of the main thread; [stack:TID] of Linux 3.4 to 4.4
	KindShared    = "shared"    // everything mapped shared
	KindVDSO      = "vdso"      // [vdso], [vvar], [vsyscall]: from the kernel
	KindGuard     = "guard"     // no access at all
	KindOther     = "other"     // special mappings without a kind of their own
)

// mapKinds is every kind, in the order of their numbers below.
var mapKinds = [...]string{
	KindCode, KindReadonly, KindData, KindHeap, KindAnonymous,
	KindStack, KindShared, KindVDSO, KindGuard, KindOther,
}

const (
	kindCode = iota
	kindReadonly
	kindData
	kindHeap
	kindAnonymous
	kindStack
	kindShared
	kindVDSO
	kindGuard
	kindOther
)

// maxMapBoxes bounds a picture of an address space.
const maxMapBoxes = 64

// MapSummary is the address space for a picture. Immutable.
type MapSummary struct {
	Boxes  []MapBox          // address order, at most maxMapBoxes
	Totals map[string]uint64 // every kind to its mapped bytes, exact however boxes were merged
}

// MapBox is a run of neighbouring mappings, mostly of one kind.
type MapBox struct {
	Kind       string // of the larger part, when more than one was merged
	Start, End uint64 // addresses, half-open; gaps may be inside
	Size       uint64 // mapped bytes
	Count      int    // mappings
}

// SummarizeMaps merges mappings, in address order, into at most 64 boxes.
//
// Mappings of one kind that touch become one box. When that leaves too many, those
// two neighbours are merged whose picture loses least: the gap between them and,
// when their kinds differ, the bytes of the smaller one; the lower address first.
// So the large gaps between the areas of an address space stay to the last.
func SummarizeMaps(maps []Mapping) MapSummary {
	var totals [len(mapKinds)]uint64
	// Most processes have few boxes; a JIT or a database has tens of thousands.
	boxes := make([]mapRun, 0, min(len(maps), 2*maxMapBoxes))
	for i := range maps {
		m := &maps[i]
		kind, size := mapKind(m), m.End-m.Start
		totals[kind] += size
		if n := len(boxes); n > 0 && boxes[n-1].kind == kind && boxes[n-1].end == m.Start {
			b := &boxes[n-1]
			b.end, b.size, b.count = m.End, b.size+size, b.count+1
			continue
		}
		boxes = append(boxes, mapRun{start: m.Start, end: m.End, size: size, count: 1, kind: kind})
	}
	if len(boxes) > maxMapBoxes {
		boxes = mergeRuns(boxes)
	}
	s := MapSummary{Boxes: make([]MapBox, len(boxes)), Totals: make(map[string]uint64, len(mapKinds))}
	for i, b := range boxes {
		s.Boxes[i] = MapBox{Kind: mapKinds[b.kind], Start: b.start, End: b.end, Size: b.size, Count: b.count}
	}
	for k, name := range mapKinds {
		s.Totals[name] = totals[k]
	}
	return s
}

// mapRun is a box on its way.
type mapRun struct {
	start, end, size uint64
	count            int
	next, prev       int // in the list of those that are left, -1 at its ends
	version          int // grows with every merge: an offer made before is void
	kind             uint8
	merged           bool // into the one before
}

// mergeOffer is to merge run at with the one after it.
type mergeOffer struct {
	cost    uint64
	at      int
	version int // of both runs, added
}

// mergeHeap is a binary heap, the best offer first. container/heap would allocate
// for each of some 100,000 offers.
type mergeHeap []mergeOffer

func (h mergeHeap) less(i, j int) bool {
	return h[i].cost < h[j].cost || h[i].cost == h[j].cost && h[i].at < h[j].at
}

func (h mergeHeap) down(i int) {
	for {
		best := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h); c++ {
			if h.less(c, best) {
				best = c
			}
		}
		if best == i {
			return
		}
		h[i], h[best] = h[best], h[i]
		i = best
	}
}

func (h *mergeHeap) push(o mergeOffer) {
	*h = append(*h, o)
	for i := len(*h) - 1; i > 0 && h.less(i, (i-1)/2); i = (i - 1) / 2 {
		(*h)[i], (*h)[(i-1)/2] = (*h)[(i-1)/2], (*h)[i]
	}
}

func (h *mergeHeap) pop() mergeOffer {
	o, last := (*h)[0], len(*h)-1
	(*h)[0] = (*h)[last]
	*h = (*h)[:last]
	h.down(0)
	return o
}

// offer says what it costs the picture to merge run at with the next.
func offer(runs []mapRun, at int) mergeOffer {
	a := &runs[at]
	b := &runs[a.next]
	cost := b.start - a.end
	if a.kind != b.kind {
		if cost += min(a.size, b.size); cost < min(a.size, b.size) {
			cost = 1<<64 - 1
		}
	}
	return mergeOffer{cost, at, a.version + b.version}
}

// mergeRuns merges down to maxMapBoxes, the cheapest merge first.
func mergeRuns(runs []mapRun) []mapRun {
	for i := range runs {
		runs[i].prev, runs[i].next = i-1, i+1
	}
	runs[len(runs)-1].next = -1
	h := make(mergeHeap, len(runs)-1)
	for i := range h {
		h[i] = offer(runs, i)
	}
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
	for left := len(runs); left > maxMapBoxes; {
		o := h.pop()
		a := &runs[o.at]
		if a.merged || a.next < 0 || o.version != a.version+runs[a.next].version {
			continue // one of the two is another by now, and has an offer of its own
		}
		b := &runs[a.next]
		if b.size > a.size {
			a.kind = b.kind
		}
		a.end, a.size, a.count = b.end, a.size+b.size, a.count+b.count
		a.version += b.version + 1
		a.next, b.merged = b.next, true
		left--
		if a.next >= 0 {
			runs[a.next].prev = o.at
			h.push(offer(runs, o.at))
		}
		if a.prev >= 0 {
			h.push(offer(runs, a.prev))
		}
	}
	kept := runs[:0]
	for _, r := range runs {
		if !r.merged {
			kept = append(kept, r)
		}
	}
	return kept
}

// mapKind tells the kind of a mapping by its name and permissions.
func mapKind(m *Mapping) uint8 {
	if strings.HasPrefix(m.Path, "[") {
		switch {
		case m.Path == "[heap]":
			return kindHeap
		case strings.HasPrefix(m.Path, "[stack"):
			return kindStack
		case strings.HasPrefix(m.Path, "[vdso"), strings.HasPrefix(m.Path, "[vvar"), strings.HasPrefix(m.Path, "[vsyscall"):
			return kindVDSO
		}
	}
	// The order matters: memory without access is a guard whatever it is of.
	switch r, w, x := m.Permissions[0] == 'r', m.Permissions[1] == 'w', m.Permissions[2] == 'x'; {
	case !r && !w && !x:
		return kindGuard
	case m.Permissions[3] == 's':
		return kindShared
	case x:
		return kindCode
	case m.Path == "", strings.HasPrefix(m.Path, "[anon"):
		return kindAnonymous
	case strings.HasPrefix(m.Path, "["):
		return kindOther
	case w:
		return kindData
	}
	return kindReadonly
}
