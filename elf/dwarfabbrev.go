package elf

import (
	"fmt"
	"slices"
	"unsafe"
)

const (
	maxAbbrevBytes = 4 << 20 // bytes of one unit's abbreviation table
	maxAbbrevAttrs = 256     // attributes of one abbreviation; compilers use up to about 30
	abbrevStep     = 4 << 10 // bytes of the first look
)

// dwAttr is one attribute of an abbreviation.
type dwAttr struct {
	attr, form uint16
	implicit   int64 // DW_FORM_implicit_const
}

// dwStep is a part of a DIE that is passed over: n bytes, or a form whose size
// stands in the DIE.
type dwStep struct {
	n    uint16
	form uint16
}

// dwAbbrev says how DIEs of one kind are laid out.
type dwAbbrev struct {
	code     uint64
	tag      uint16
	children bool
	hasPC    bool  // DW_AT_low_pc or DW_AT_ranges: DIEs that have code
	fixed    int32 // bytes of the whole DIE, -1 when it varies
	attrs    []dwAttr
	steps    []dwStep // how to pass over one that varies
}

type dwAbbrevKey struct {
	off uint64
	enc dwEnc
}

// dwAbbrevs is the abbreviation table of one or more units.
type dwAbbrevs struct {
	key   dwAbbrevKey
	list  []dwAbbrev
	dense bool // code i+1 is list[i], as all compilers number
	refs  int  // units that use it
	bytes int64
}

// find returns the abbreviation of a code.
func (t *dwAbbrevs) find(code uint64) *dwAbbrev {
	if t.dense {
		if code-1 < uint64(len(t.list)) {
			return &t.list[code-1]
		}
		return nil
	}
	i, ok := slices.BinarySearchFunc(t.list, code, func(a dwAbbrev, code uint64) int {
		switch {
		case a.code < code:
			return -1
		case a.code > code:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return &t.list[i]
}

// readAbbrevs reads the table at off. With only != 0 it stops at that code,
// which is enough for the root of a unit.
func readAbbrevs(s *dwSource, key dwAbbrevKey, only uint64) (*dwAbbrevs, error) {
	for n := uint64(abbrevStep); ; n *= 4 {
		n = min(n, maxAbbrevBytes)
		b, err := s.window(key.off, n)
		if err != nil {
			return nil, err
		}
		t, err := parseAbbrevs(b, key, only)
		if err == nil {
			return t, nil
		}
		if uint64(len(b)) < n {
			return nil, err // the section ends here
		}
		if n == maxAbbrevBytes {
			return nil, fmt.Errorf("read abbreviations at %#x: %w", key.off, ErrTooBig)
		}
	}
}

func parseAbbrevs(b []byte, key dwAbbrevKey, only uint64) (*dwAbbrevs, error) {
	t := &dwAbbrevs{key: key, dense: true}
	r := dwBuf{b: b}
	var attrs []dwAttr
	var steps []dwStep
	type extent struct{ attr, attrEnd, step, stepEnd int }
	var at []extent // the slices grow: cut them up at the end
	for {
		code := r.uleb()
		if r.bad {
			return nil, dwFormatError("read abbreviations at %#x", key.off)
		}
		if code == 0 {
			break
		}
		a := dwAbbrev{code: code, tag: uint16(min(r.uleb(), 0xffff)), children: r.u8() != 0}
		e := extent{attr: len(attrs), step: len(steps)}
		for {
			attr, form := r.uleb(), r.uleb()
			if r.bad {
				return nil, dwFormatError("read abbreviation %d at %#x", code, key.off)
			}
			if attr == 0 && form == 0 {
				break
			}
			if form > 0xffff || key.enc.size(uint16(form)) == dwSizeUnknown {
				return nil, dwFormatError("read abbreviation %d at %#x: form %#x", code, key.off, form)
			}
			if len(attrs)-e.attr >= maxAbbrevAttrs {
				return nil, fmt.Errorf("read abbreviation %d at %#x: over %d attributes: %w", code, key.off, maxAbbrevAttrs, ErrTooBig)
			}
			x := dwAttr{attr: uint16(min(attr, 0xffff)), form: uint16(form)}
			if form == dwFormImplicit {
				x.implicit = r.sleb()
			}
			a.hasPC = a.hasPC || x.attr == dwAtLowPC || x.attr == dwAtRanges
			attrs = append(attrs, x)
			steps = addStep(steps, e.step, key.enc, x.form)
		}
		e.attrEnd, e.stepEnd = len(attrs), len(steps)
		a.fixed = -1
		switch {
		case e.stepEnd == e.step:
			a.fixed = 0
		case e.stepEnd == e.step+1 && steps[e.step].form == 0:
			a.fixed = int32(steps[e.step].n)
		}
		t.dense = t.dense && code == uint64(len(t.list))+1
		t.list, at = append(t.list, a), append(at, e)
		if code == only {
			break
		}
	}
	for i, e := range at {
		t.list[i].attrs = attrs[e.attr:e.attrEnd:e.attrEnd]
		t.list[i].steps = steps[e.step:e.stepEnd:e.stepEnd]
	}
	if !t.dense {
		slices.SortStableFunc(t.list, func(a, b dwAbbrev) int {
			switch {
			case a.code < b.code:
				return -1
			case a.code > b.code:
				return 1
			}
			return 0
		})
	}
	t.bytes = int64(cap(t.list))*int64(unsafe.Sizeof(dwAbbrev{})) + int64(cap(attrs))*int64(unsafe.Sizeof(dwAttr{})) + int64(cap(steps))*int64(unsafe.Sizeof(dwStep{}))
	return t, nil
}

// addStep adds a form to the steps of the abbreviation that begin at first.
func addStep(steps []dwStep, first int, enc dwEnc, form uint16) []dwStep {
	n := enc.size(form)
	switch {
	case n == 0:
	case n > 0 && len(steps) > first && steps[len(steps)-1].form == 0:
		steps[len(steps)-1].n += uint16(n) // at most maxAbbrevAttrs * 16
	case n > 0:
		steps = append(steps, dwStep{n: uint16(n)})
	default:
		steps = append(steps, dwStep{form: form})
	}
	return steps
}

// pass goes over the attributes of a DIE.
func (a *dwAbbrev) pass(r *dwBuf, enc dwEnc) {
	if a.fixed >= 0 {
		r.skip(uint64(a.fixed))
		return
	}
	for _, s := range a.steps {
		if s.form == 0 {
			r.skip(uint64(s.n))
		} else {
			enc.read(r, s.form, 0)
		}
	}
}
