package elf

import (
	"cmp"
	"container/heap"
	"slices"
)

// dwRange is a piece of code that belongs to id. Of ranges that overlap the
// deeper one wins, then the one that begins later, then the higher id.
type dwRange struct {
	lo, hi    uint64
	id, depth uint32
}

// dwSpan is n bytes from lo that belong to id. A list of them is sorted and does
// not overlap.
type dwSpan struct {
	lo    uint64
	n, id uint32
}

// maxSpan is the length of one span in bytes; a File is smaller.
const maxSpan = 1<<32 - 1

// findSpan returns the span that holds addr.
func findSpan(spans []dwSpan, addr uint64) (dwSpan, bool) {
	i, ok := slices.BinarySearchFunc(spans, addr, func(s dwSpan, addr uint64) int { return cmp.Compare(s.lo, addr) })
	if !ok {
		i--
	}
	if i < 0 || addr-spans[i].lo >= uint64(spans[i].n) {
		return dwSpan{}, false
	}
	return spans[i], true
}

// flattenRanges gives every address to one owner. It sorts rs. The result has
// at most twice as many entries.
func flattenRanges(rs []dwRange) []dwSpan {
	byLow := func(a, b dwRange) int { return cmp.Compare(a.lo, b.lo) }
	if !slices.IsSortedFunc(rs, byLow) {
		slices.SortStableFunc(rs, byLow)
	}
	out := make([]dwSpan, 0, len(rs))
	emit := func(lo, hi uint64, id uint32) {
		if n := len(out); n > 0 {
			last := &out[n-1]
			if last.id == id && last.lo+uint64(last.n) == lo && uint64(last.n)+(hi-lo) <= maxSpan {
				last.n += uint32(hi - lo)
				return
			}
		}
		out = append(out, dwSpan{lo, uint32(hi - lo), id})
	}
	var active rangeHeap
	var at uint64 // everything below is given away
	upTo := func(limit uint64) {
		for len(active) > 0 && at < limit {
			top := active[0]
			if top.hi > at {
				end := min(top.hi, limit)
				emit(at, end, top.id)
				at = end
			}
			if top.hi <= at {
				heap.Pop(&active)
			}
		}
		at = limit
	}
	for i, r := range rs {
		if r.hi <= r.lo || r.hi-r.lo > maxSpan {
			continue
		}
		upTo(r.lo)
		if len(active) == 0 && (i+1 == len(rs) || rs[i+1].lo >= r.hi) { // nothing overlaps, as is usual
			emit(r.lo, r.hi, r.id)
			at = r.hi
			continue
		}
		heap.Push(&active, r)
	}
	upTo(^uint64(0))
	return out
}

type rangeHeap []dwRange

func (h rangeHeap) Len() int      { return len(h) }
func (h rangeHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h rangeHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	if a.depth != b.depth {
		return a.depth > b.depth
	}
	if a.lo != b.lo {
		return a.lo > b.lo
	}
	return a.id > b.id
}
func (h *rangeHeap) Push(x any) { *h = append(*h, x.(dwRange)) }
func (h *rangeHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
