package elf

import (
	"errors"
	"strings"
	"testing"
)

func TestDwBufLEB(t *testing.T) {
	for _, c := range []struct {
		in       string
		unsigned uint64
		signed   int64
		bad      bool
	}{
		{"\x00", 0, 0, false},
		{"\x7f", 0x7f, -1, false},
		{"\x80\x01", 128, 128, false},
		{"\xff\x7e", 0x3f7f, -129, false},
		{"\xff\x00", 127, 127, false},
		{"\x80\x80\x80\x00", 0, 0, false}, // padded
		{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 1<<64 - 1, -1, false},
		{"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f", 1 << 63, -1 << 63, false},
		{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 1<<64 - 1, -1, false}, // beyond 64 bits
		{"\x80", 0, 0, true},
		{"", 0, 0, true},
		{strings.Repeat("\x80", maxLEB) + "\x00", 0, 0, true},
	} {
		u, s := dwBuf{b: []byte(c.in)}, dwBuf{b: []byte(c.in)}
		if got := u.uleb(); got != c.unsigned && !c.bad || u.bad != c.bad || !c.bad && u.left() != 0 {
			t.Errorf("uleb(%x) = %#x, bad %v, %d left", c.in, got, u.bad, u.left())
		}
		if got := s.sleb(); got != c.signed && !c.bad || s.bad != c.bad || !c.bad && s.left() != 0 {
			t.Errorf("sleb(%x) = %#x, bad %v, %d left", c.in, got, s.bad, s.left())
		}
	}
}

func TestDwBufEnd(t *testing.T) {
	for name, read := range map[string]func(*dwBuf){
		"u16": func(r *dwBuf) { r.u16() }, "u32": func(r *dwBuf) { r.u32() }, "u64": func(r *dwBuf) { r.u64() },
		"uint 3": func(r *dwBuf) { r.uint(3) }, "cstr": func(r *dwBuf) { r.cstr() }, "take": func(r *dwBuf) { r.take(1 << 63) },
		"skip": func(r *dwBuf) { r.skip(1<<64 - 1) }, "length": func(r *dwBuf) { r.length() },
	} {
		r := dwBuf{b: []byte{1, 2}}
		if name == "u16" {
			r.b = r.b[:1]
		}
		if read(&r); !r.bad {
			t.Errorf("%s: not bad", name)
		}
		if r.u8() != 0 || r.uleb() != 0 || r.cstr() != nil || r.take(0) != nil {
			t.Errorf("%s: something is read after the end", name)
		}
	}
}

// The size that a form says it has is what reading and passing over it take.
func TestFormSizes(t *testing.T) {
	body := new(dwAsm).u8(2, 0, 0, 0, 'x', 0).zeros(40).b
	for _, enc := range []dwEnc{{2, 4, 4}, {3, 8, 4}, {4, 8, 8}, {5, 4, 4}, {5, 8, 8}} {
		known := 0
		for form := range uint16(0x2100) {
			size := enc.size(form)
			r := dwBuf{b: body}
			enc.read(&r, form, 7)
			if size == dwSizeUnknown {
				if !r.bad {
					t.Errorf("form %#x of no known size is read", form)
				}
				continue
			}
			known++
			if form == dwFormIndirect { // the 2 stands for no form
				if !r.bad {
					t.Error("indirect form 2 is read")
				}
				continue
			}
			if r.bad || size >= 0 && r.pos != size || size < 0 && r.pos == 0 {
				t.Errorf("form %#x of size %d takes %d bytes", form, size, r.pos)
			}
			abbrev := new(dwAsm).ulebs(1, dwTagSubprogram).u8(0).ulebs(dwAtName, uint64(form))
			if form == dwFormImplicit {
				abbrev.sleb(-3)
			}
			table, err := parseAbbrevs(abbrev.ulebs(dwAtCallLine, dwFormData2, 0, 0, 0).b, dwAbbrevKey{enc: enc}, 0)
			if err != nil {
				t.Fatalf("form %#x: %v", form, err)
			}
			p := dwBuf{b: body}
			if table.find(1).pass(&p, enc); p.pos != r.pos+2 {
				t.Errorf("form %#x: passed over %d bytes and 2, not %d", form, p.pos, r.pos)
			}
		}
		if known != 48 {
			t.Errorf("%d forms are known", known)
		}
	}
}

func TestFormIndirect(t *testing.T) {
	enc := dwEnc{4, 8, 4}
	r := dwBuf{b: []byte{dwFormData2, 0x34, 0x12}}
	if v := enc.read(&r, dwFormIndirect, 0); v.u != 0x1234 || v.form != dwFormData2 || r.bad {
		t.Errorf("%+v, bad %v", v, r.bad)
	}
	for _, form := range []uint64{dwFormIndirect, dwFormImplicit, 1 << 20} {
		r := dwBuf{b: new(dwAsm).ulebs(form, dwFormData1, 1).b}
		if enc.read(&r, dwFormIndirect, 0); !r.bad {
			t.Errorf("indirect form %#x is read", form)
		}
	}
}

func TestAbbrevs(t *testing.T) {
	sparse := new(dwAsm).ulebs(700, dwTagSubprogram).u8(1).ulebs(0, 0).ulebs(3, 0x24).u8(0).ulebs(dwAtName, dwFormString, 0, 0).ulebs(1<<63, dwTagInlined).u8(0).ulebs(dwAtRanges, dwFormSecOffset, 0, 0, 0).b
	table, err := parseAbbrevs(sparse, dwAbbrevKey{enc: dwEnc{4, 8, 4}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for code, tag := range map[uint64]uint16{700: dwTagSubprogram, 3: 0x24, 1 << 63: dwTagInlined, 0: 0, 1: 0, 701: 0} {
		a := table.find(code)
		if (a == nil) != (tag == 0) || a != nil && (a.tag != tag || a.code != code) {
			t.Errorf("code %d: %+v", code, a)
		}
	}
	if a := table.find(700); !a.children || a.hasPC || a.fixed != 0 {
		t.Errorf("%+v", a)
	}
	if a := table.find(1 << 63); a.children || !a.hasPC || a.fixed != 4 {
		t.Errorf("%+v", a)
	}

	many := new(dwAsm).ulebs(1, dwTagInlined).u8(0)
	for range maxAbbrevAttrs + 1 {
		many.ulebs(dwAtCallFile, dwFormImplicit).sleb(1)
	}
	huge := new(dwAsm).add(dwAbbrevOf())
	huge.b = huge.b[:len(huge.b)-1]
	for code := uint64(tNone); len(huge.b) < maxAbbrevBytes+100; code++ {
		huge.ulebs(code, 0x24).u8(0).ulebs(dwAtName, dwFormString, 0, 0)
	}
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"cut":             {sparse[:len(sparse)-1], ErrFormat},
		"unknown form":    {new(dwAsm).ulebs(1, dwTagInlined).u8(0).ulebs(dwAtName, 0x77, 0, 0, 0).b, ErrFormat},
		"form of 64 bits": {new(dwAsm).ulebs(1, dwTagInlined).u8(0).ulebs(dwAtName, 1<<40+dwFormString, 0, 0, 0).b, ErrFormat},
		"attributes":      {many.ulebs(0, 0, 0).b, ErrTooBig},
		"table":           {huge.u8(0).b, ErrTooBig},
	} {
		f := dwFile(t, map[string][]byte{".debug_info": dwUnitOf(noFuncs), ".debug_abbrev": c.b})
		if locs, err := f.Locate(testLow); locs != nil || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v; want %v", name, locs, err, c.want)
		}
		checkCharges(t, f)
	}
}
