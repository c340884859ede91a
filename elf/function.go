package elf

import "slices"

// functionStart returns where the function that Locate names last begins, or the
// piece of it that holds vaddr: a compiler may move a rare part elsewhere.
func (f *File) functionStart(vaddr uint64) (start uint64, ok bool) {
	l := f.use()
	defer f.done()
	d := &l.dwarf
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begin(f)
	defer d.endAlternate()
	off, ok, err := d.unitAt(vaddr)
	if err != nil || !ok {
		return 0, false
	}
	u, err := d.unit(off)
	if err != nil || u.walk() != nil {
		return 0, false
	}
	return u.pieceStart(vaddr)
}

// pieceStart walks back over the spans of one physical function.
func (u *dwUnit) pieceStart(vaddr uint64) (start uint64, ok bool) {
	span, ok := findSpan(u.spans, vaddr)
	if !ok {
		return 0, false
	}
	fn := u.physical(span.id)
	i, _ := slices.BinarySearchFunc(u.spans, span.lo, func(s dwSpan, lo uint64) int {
		switch {
		case s.lo < lo:
			return -1
		case s.lo > lo:
			return 1
		}
		return 0
	})
	for ; i > 0; i-- {
		before := u.spans[i-1]
		if before.lo+uint64(before.n) != u.spans[i].lo || u.physical(before.id) != fn {
			break
		}
	}
	return u.spans[i].lo, true
}

// physical returns the function that id is inlined into in the end.
func (u *dwUnit) physical(id uint32) uint32 {
	for u.funcs[id].inlined && u.funcs[id].parent >= 0 {
		id = uint32(u.funcs[id].parent)
	}
	return id
}
