package elf

import (
	"errors"
	"fmt"
)

// dwFunc is a function with code of its own, or one that was inlined.
type dwFunc struct {
	die                uint32 // from the start of the unit
	parent             int32  // the function it stands in, -1 for none
	callFile, callLine uint32 // of an inlined one
	depth              uint16 // functions around it
	inlined            bool
}

// dwScope is a DIE whose name goes before those of the functions in it, or a
// function that may have such in it.
type dwScope struct {
	start, end uint32 // from the start of the unit
	parent     int32  // -1 for none
}

// lasting tells whether an error lies in the file, so that a second try would be in vain.
func lasting(err error) bool {
	return err == nil || errors.Is(err, ErrFormat) || errors.Is(err, ErrTooBig)
}

// walk reads the functions of the unit and where each has code.
func (u *dwUnit) walk() error {
	if u.walked {
		return u.walkErr
	}
	ranges, charged := dwRanges{d: u.d}, u.charged
	err := u.readFuncs(&ranges)
	if err == nil {
		u.spans, err = ranges.spans(u.charge)
	} else {
		ranges.drop()
	}
	if err != nil {
		u.funcs, u.scopes, u.spans = nil, nil, nil
		_ = u.charge(charged - u.charged) // giving back never fails
		err = fmt.Errorf("read DWARF unit at %#x: %w", u.off, err)
	}
	u.walked, u.walkErr = lasting(err), err
	return err
}

// dwNest is what the children of a DIE stand in.
type dwNest struct{ fn, scope int32 }

func (u *dwUnit) readFuncs(ranges *dwRanges) error {
	r := dwBuf{b: u.bytes, pos: int(u.first)}
	named := u.isCPP()
	cur := dwNest{-1, -1}
	var stack []dwNest
	var work int64
	for r.left() > 0 {
		if work++; work >= 4096 {
			if err := u.d.spend(work); err != nil {
				return err
			}
			work = 0
		}
		at := uint32(r.pos)
		code := r.uleb()
		if code == 0 {
			if len(stack) == 0 {
				break // padding
			}
			outer := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if cur.scope != outer.scope {
				u.scopes[cur.scope].end = at
			}
			if cur = outer; len(stack) == 0 {
				break
			}
			continue
		}
		a := u.abbrevs.find(code)
		if a == nil {
			return dwFormatError("DIE at %#x: no abbreviation %d", at, code)
		}
		inner := cur
		switch {
		case a.tag == dwTagInlined || a.tag == dwTagSubprogram && a.hasPC:
			work += int64(len(a.attrs))
			if err := u.readFunc(&r, a, at, cur.fn, ranges); err != nil {
				return err
			}
			inner.fn = int32(len(u.funcs) - 1)
		case a.tag == dwTagSubprogram:
			inner.fn = -1
			a.pass(&r, u.enc)
		default:
			a.pass(&r, u.enc)
		}
		if r.bad {
			return dwFormatError("DIE at %#x", at)
		}
		if !a.children {
			if len(stack) == 0 {
				break // a root alone
			}
			continue
		}
		if len(stack) >= maxDebugDepth {
			return fmt.Errorf("DIE at %#x: over %d nested ones: %w", at, maxDebugDepth, ErrTooBig)
		}
		if named && isScope(a.tag) {
			var err error
			if u.scopes, err = grow(u.charge, u.scopes); err != nil {
				return err
			}
			inner.scope = int32(len(u.scopes))
			u.scopes = append(u.scopes, dwScope{start: at, end: uint32(len(u.bytes)), parent: cur.scope})
		}
		stack = append(stack, cur)
		cur = inner
	}
	u.funcs, u.scopes = fit(u.charge, u.funcs), fit(u.charge, u.scopes)
	return u.d.spend(work)
}

func isScope(tag uint16) bool {
	switch tag {
	case dwTagNamespace, dwTagClass, dwTagStructure, dwTagUnion, dwTagSubprogram:
		return true
	}
	return false
}

// readFunc appends a function and its ranges.
func (u *dwUnit) readFunc(r *dwBuf, a *dwAbbrev, at uint32, parent int32, ranges *dwRanges) (err error) {
	fn := dwFunc{die: at, parent: parent, inlined: a.tag == dwTagInlined}
	if parent >= 0 {
		fn.depth = u.funcs[parent].depth + 1 // at most maxDebugDepth
	}
	var pc dwPC
	for _, x := range a.attrs {
		v := u.enc.read(r, x.form, x.implicit)
		switch x.attr {
		case dwAtLowPC, dwAtHighPC, dwAtRanges:
			pc.note(x.attr, v)
		case dwAtCallFile:
			fn.callFile = v.number()
		case dwAtCallLine:
			fn.callLine = v.number()
		}
	}
	if r.bad {
		return dwFormatError("DIE at %#x", at)
	}
	if u.funcs, err = grow(u.charge, u.funcs); err != nil {
		return err
	}
	id := uint32(len(u.funcs))
	u.funcs = append(u.funcs, fn)
	return u.each(&pc, func(lo, hi uint64) error {
		return ranges.add(dwRange{lo: lo, hi: hi, id: id, depth: uint32(fn.depth)})
	})
}
