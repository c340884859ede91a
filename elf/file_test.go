package elf

import (
	"bytes"
	delf "debug/elf"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestOpen(t *testing.T) {
	tests := []struct {
		name     string
		class    int
		machine  delf.Machine
		typ      delf.Type
		entry    uint64
		segments int
		sections int
	}{
		{"prog", 64, delf.EM_X86_64, delf.ET_DYN, 0x24b, 2, 21},
		{"prog32", 32, delf.EM_386, delf.ET_EXEC, 0x8048101, 2, 16},
		{"prog.debug", 64, delf.EM_X86_64, delf.ET_DYN, 0x24b, 2, 21},
	}
	for _, tt := range tests {
		f := openProg(t, tt.name)
		if f.Class() != tt.class || f.Machine() != uint16(tt.machine) || f.Type() != tt.typ || f.Entry() != tt.entry {
			t.Errorf("%s: class %d machine %d type %v entry %#x", tt.name, f.Class(), f.Machine(), f.Type(), f.Entry())
		}
		if len(f.Segments()) != tt.segments || len(f.Sections()) != tt.sections || len(f.Warnings()) != 0 {
			t.Errorf("%s: %d segments, %d sections, warnings %q; want %d and %d", tt.name, len(f.Segments()), len(f.Sections()), f.Warnings(), tt.segments, tt.sections)
		}
		// What the standard library says of the same file.
		b := progFile(t, tt.name)
		ref, err := delf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range ref.Sections {
			got := f.Sections()[i]
			if got.Name != s.Name || got.Type != s.Type || got.Flags != s.Flags || got.Addr != s.Addr || got.Offset != s.Offset ||
				got.Size != s.FileSize || got.Link != s.Link || got.Info != s.Info || got.EntSize != s.Entsize {
				t.Errorf("%s: section %d is %+v, want %+v", tt.name, i, got, s.SectionHeader)
			}
		}
		i := 0
		for _, p := range ref.Progs {
			if p.Type != delf.PT_LOAD {
				continue
			}
			want := Segment{p.Off, p.Vaddr, p.Filesz, p.Memsz, uint32(p.Flags)}
			if f.Segments()[i] != want {
				t.Errorf("%s: segment %d is %+v, want %+v", tt.name, i, f.Segments()[i], want)
			}
			i++
		}
	}
}

func TestBuildID(t *testing.T) {
	const want = "8a53a3b7486c378c8a15d28025a51496218dff91"
	for _, name := range []string{"prog", "prog.debug", "prog.stripped", "prog.mini", "prog.zstd"} {
		if got := fmt.Sprintf("%x", openProg(t, name).BuildID()); got != want {
			t.Errorf("%s: build-id %s, want %s", name, got, want)
		}
	}
	// Without section headers the note is found through the segments.
	b := progFile(t, "prog32")
	id := openBytes(t, b).BuildID()
	le.PutUint32(b[32:], 0) // e_shoff
	if f := openBytes(t, b); !bytes.Equal(f.BuildID(), id) || len(id) != 20 || len(f.Sections()) != 0 {
		t.Errorf("without sections: build-id %x of %d sections, want %x", f.BuildID(), len(f.Sections()), id)
	}

	note := func(namesz, descsz, typ uint32, body string) []byte {
		b := make([]byte, 12)
		le.PutUint32(b, namesz)
		le.PutUint32(b[4:], descsz)
		le.PutUint32(b[8:], typ)
		return append(b, body...)
	}
	other := note(4, 4, 1, "GNU\x00abcd")
	for _, tt := range []struct {
		name string
		b    []byte
		want string
	}{
		{"second note", append(bytes.Clone(other), note(4, 3, 3, "GNU\x00xyz\x00")...), "xyz"},
		{"no padding at the end", note(4, 3, 3, "GNU\x00xyz"), "xyz"},
		{"another owner", note(4, 4, 3, "FOO\x00abcd"), ""},
		{"empty", note(4, 0, 3, "GNU\x00"), ""},
		{"too long", note(4, 65, 3, "GNU\x00"+strings.Repeat("x", 68)), ""},
		{"value beyond the end", note(4, 40, 3, "GNU\x00abcd"), ""},
		{"name beyond the end", note(1<<31, 4, 3, "GNU\x00abcd"), ""},
		{"sizes that wrap", note(1<<32-1, 1<<32-1, 3, "GNU\x00abcd"), ""},
		{"cut header", note(4, 4, 3, "")[:8], ""},
	} {
		if got := buildIDFromNotes(tt.b); string(got) != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Headers that lie are refused, or what they describe is left out with a warning.
func TestOpenRefuses(t *testing.T) {
	edit := func(f func(b []byte)) []byte {
		b := progFile(t, "prog")
		f(b)
		return b
	}
	tests := []struct {
		name string
		b    []byte
		want error
		warn string
	}{
		{"empty", nil, ErrFormat, ""},
		{"magic only", []byte("\x7fELF"), ErrFormat, ""},
		{"text", []byte(strings.Repeat("#!/bin/sh\n", 20)), ErrFormat, ""},
		{"header cut", progFile(t, "prog")[:40], ErrFormat, ""},
		{"big endian", edit(func(b []byte) { b[5] = 2 }), ErrFormat, ""},
		{"class 3", edit(func(b []byte) { b[4] = 3 }), ErrFormat, ""},
		{"program headers outside", edit(func(b []byte) { le.PutUint64(b[32:], 1<<40) }), ErrFormat, ""},
		{"program headers at the end of the address space", edit(func(b []byte) { le.PutUint64(b[32:], ^uint64(0)) }), ErrFormat, ""},
		{"65534 program headers", edit(func(b []byte) { le.PutUint16(b[56:], 0xfffe) }), ErrTooBig, ""},
		{"program headers of 57 bytes", edit(func(b []byte) { le.PutUint16(b[54:], 57) }), ErrFormat, ""},
		{"sections outside", edit(func(b []byte) { le.PutUint64(b[40:], 1<<40) }), nil, "no sections"},
		{"sections at the end of the address space", edit(func(b []byte) { le.PutUint64(b[40:], ^uint64(0)-8) }), nil, "no sections"},
		{"65279 sections", edit(func(b []byte) { le.PutUint16(b[60:], 0xfeff) }), nil, "no sections"},
		{"sections of 65 bytes", edit(func(b []byte) { le.PutUint16(b[58:], 65) }), nil, "section headers of 65 bytes"},
		{"names outside", edit(func(b []byte) { le.PutUint64(b[0x1748+20*64+24:], 1<<50) }), nil, "no sections"},
		{"2 MiB of names", edit(func(b []byte) { le.PutUint64(b[0x1748+20*64+32:], 2<<20) }), nil, "no sections"},
		{"count in section 0", edit(func(b []byte) { le.PutUint16(b[60:], 0); le.PutUint64(b[0x1748+32:], 1<<60) }), nil, "no sections"},
	}
	for _, tt := range tests {
		f, err := Open(bytes.NewReader(tt.b), int64(len(tt.b)))
		if tt.want != nil {
			if !errors.Is(err, tt.want) || f != nil {
				t.Errorf("%s: file %v, error %v, want %v", tt.name, f != nil, err, tt.want)
			}
			continue
		}
		if err != nil || len(f.Sections()) != 0 || len(f.Segments()) != 2 || !strings.Contains(strings.Join(f.Warnings(), "\n"), tt.warn) {
			t.Errorf("%s: error %v, warnings %q; want no sections, two segments and %q", tt.name, err, f.Warnings(), tt.warn)
		}
	}
	if f, err := Open(bytes.NewReader(nil), maxFileSize+1); !errors.Is(err, ErrTooBig) || f != nil {
		t.Errorf("over 1 GiB: %v, want ErrTooBig", err)
	}
	if f, err := Open(bytes.NewReader(nil), -1); !errors.Is(err, ErrFormat) || f != nil {
		t.Errorf("negative size: %v, want ErrFormat", err)
	}
	// A file that is shorter than it was said to be.
	b := progFile(t, "prog")
	if f, err := Open(bytes.NewReader(b[:100]), int64(len(b))); !errors.Is(err, io.ErrUnexpectedEOF) || f != nil {
		t.Errorf("shorter than said: %v, want an early end", err)
	}
}

// Numbers that do not fit their header field stand in section 0.
func TestExtendedNumbers(t *testing.T) {
	b := progFile(t, "prog")
	const zero = 0x1748 // section header 0
	le.PutUint16(b[56:], 0xffff)
	le.PutUint32(b[zero+44:], 7)
	le.PutUint16(b[60:], 0)
	le.PutUint64(b[zero+32:], 21)
	le.PutUint16(b[62:], 0xffff)
	le.PutUint32(b[zero+40:], 20)
	want := openProg(t, "prog")
	f := openBytes(t, b)
	if len(f.Segments()) != len(want.Segments()) || len(f.Sections()) != 21 || f.Sections()[5].Name != ".text" {
		t.Errorf("%d segments, %d sections, warnings %q", len(f.Segments()), len(f.Sections()), f.Warnings())
	}
}

func TestSection(t *testing.T) {
	f := openProg(t, "prog")
	s, ok := f.Section(".text")
	if !ok || s.Addr != 0x229 || s.Size != 0x40 {
		t.Errorf(".text: %+v, %v", s, ok)
	}
	if s, ok := f.Section(".missing"); ok || s != (Section{}) {
		t.Errorf(".missing: %+v", s)
	}
	if s, ok := f.sectionAt(0x230); !ok || s.Name != ".text" {
		t.Errorf("at 0x230: %q", s.Name)
	}
	if s, ok := f.sectionAt(0x269); ok {
		t.Errorf("behind .text: %q", s.Name)
	}
	if s, ok := openProg(t, "prog.zdebug").Section(".debug_info"); !ok || s.Name != ".zdebug_info" || !s.Compressed {
		t.Errorf("old compressed name: %+v, %v", s, ok)
	}
	b := make([]byte, 4)
	if n, err := f.ReaderAt(s).ReadAt(b, 0); n != 4 || err != nil || !bytes.Equal(b, progFile(t, "prog")[0x229:0x22d]) {
		t.Errorf("ReaderAt: %d bytes %x, %v", n, b, err)
	}
	nobits, _ := openProg(t, "prog.debug").Section(".text")
	if n, err := openProg(t, "prog.debug").ReaderAt(nobits).ReadAt(b, 0); n != 0 || err != io.EOF {
		t.Errorf("ReaderAt of SHT_NOBITS: %d bytes, %v", n, err)
	}
}
