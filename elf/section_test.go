package elf

import (
	"bytes"
	"compress/zlib"
	delf "debug/elf"
	"encoding/binary"
	"errors"
	"testing"
)

// Every compression yields the bytes of the uncompressed file.
func TestData(t *testing.T) {
	plain := openProg(t, "prog.debug")
	for _, name := range []string{"prog.zlib", "prog.zdebug", "prog.zstd"} {
		f := openProg(t, name)
		n := 0
		for _, section := range []string{".debug_info", ".debug_abbrev", ".debug_line", ".debug_str", ".debug_aranges"} {
			ps, _ := plain.Section(section)
			want, err := plain.Data(ps)
			if err != nil {
				t.Fatal(err)
			}
			s, ok := f.Section(section)
			if !ok {
				t.Fatalf("%s: no %s", name, section)
			}
			if s.Compressed {
				n++
			}
			if size, err := f.DataSize(s); err != nil || size != uint64(len(want)) {
				t.Errorf("%s %s: size %d, %v; want %d", name, section, size, err, len(want))
			}
			if got, err := f.Data(s); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s %s: %d bytes, %v; want %d", name, section, len(got), err, len(want))
			}
		}
		if n < 3 {
			t.Errorf("%s: only %d compressed sections", name, n)
		}
	}
}

func deflated(n int) []byte {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = w.Write(make([]byte, n)) // into memory
	_ = w.Close()
	return b.Bytes()
}

// chdr makes the head of a SHF_COMPRESSED section of an ELF64 file.
func chdr(typ delf.CompressionType, size uint64, body []byte) []byte {
	b := make([]byte, 24)
	le.PutUint32(b, uint32(typ))
	le.PutUint64(b[8:], size)
	le.PutUint64(b[16:], 1)
	return append(b, body...)
}

func TestDataRefuses(t *testing.T) {
	zdebug := func(size uint64, body []byte) []byte {
		return append(binary.BigEndian.AppendUint64([]byte("ZLIB"), size), body...)
	}
	bomb := deflated(16 << 20) // 16 KiB
	tests := []struct {
		name string
		s    testSection
		want error
	}{
		{"no bits", testSection{typ: delf.SHT_NOBITS, data: []byte("xx")}, ErrNoData},
		{"outside the file", testSection{data: []byte("xx"), claim: func(o, s uint64) (uint64, uint64) { return o, 1 << 40 }}, ErrFormat},
		{"offset and size wrap", testSection{data: []byte("xx"), claim: func(o, s uint64) (uint64, uint64) { return ^uint64(0) - 10, 20 }}, ErrFormat},
		{"ratio", testSection{flags: delf.SHF_COMPRESSED, data: chdr(delf.COMPRESS_ZLIB, 16<<20, bomb)}, ErrTooBig},
		{"over 64 MiB", testSection{flags: delf.SHF_COMPRESSED, data: chdr(delf.COMPRESS_ZLIB, 65<<20, make([]byte, 7<<20))}, ErrTooBig},
		{"huge", testSection{flags: delf.SHF_COMPRESSED, data: chdr(delf.COMPRESS_ZSTD, 1<<63, bomb)}, ErrTooBig},
		{"says less than there is", testSection{flags: delf.SHF_COMPRESSED, data: chdr(delf.COMPRESS_ZLIB, 1000, deflated(2000))}, ErrFormat},
		{"unknown compression", testSection{flags: delf.SHF_COMPRESSED, data: chdr(3, 8, bomb)}, ErrFormat},
		{"head cut", testSection{flags: delf.SHF_COMPRESSED, data: make([]byte, 23)}, ErrFormat},
		{"old form, ratio", testSection{name: ".zdebug_x", data: zdebug(16<<20, bomb)}, ErrTooBig},
		{"old form, no magic", testSection{name: ".zdebug_x", data: make([]byte, 40)}, ErrFormat},
		{"old form, head cut", testSection{name: ".zdebug_x", data: []byte("ZLIB")}, ErrFormat},
	}
	for _, tt := range tests {
		if tt.s.typ == 0 {
			tt.s.typ = delf.SHT_PROGBITS
		}
		if tt.s.name == "" {
			tt.s.name = ".debug_x"
		}
		f := openBytes(t, buildELF(tt.s))
		b, err := f.Data(f.Sections()[1])
		if !errors.Is(err, tt.want) || b != nil {
			t.Errorf("%s: %d bytes, %v; want %v", tt.name, len(b), err, tt.want)
		}
		if f.acct.bytes != 0 {
			t.Errorf("%s: %d bytes stay charged", tt.name, f.acct.bytes)
		}
	}
	// Streams that do not hold what was said, of both kinds.
	for name, data := range map[string][]byte{
		"zlib cut":        chdr(delf.COMPRESS_ZLIB, 2000, deflated(2000)[:10]),
		"zlib empty":      chdr(delf.COMPRESS_ZLIB, 2000, nil),
		"zlib corrupt":    chdr(delf.COMPRESS_ZLIB, 2000, append([]byte{0xff}, deflated(2000)...)),
		"zlib checksum":   chdr(delf.COMPRESS_ZLIB, 2000, corruptEnd(deflated(2000))),
		"zlib says more":  chdr(delf.COMPRESS_ZLIB, 2001, deflated(2000)),
		"zstd empty":      chdr(delf.COMPRESS_ZSTD, 2000, nil),
		"zstd no frame":   chdr(delf.COMPRESS_ZSTD, 2000, make([]byte, 100)),
		"zstd cut":        chdr(delf.COMPRESS_ZSTD, 0x163, []byte{0x28, 0xb5, 0x2f, 0xfd, 0x60, 0x63, 0, 0x4d}),
		"zstd magic only": chdr(delf.COMPRESS_ZSTD, 1<<20, []byte{0x28, 0xb5, 0x2f, 0xfd}),
	} {
		f := openBytes(t, buildELF(testSection{name: ".debug_x", typ: delf.SHT_PROGBITS, flags: delf.SHF_COMPRESSED, data: data}))
		if b, err := f.Data(f.Sections()[1]); err == nil || b != nil {
			t.Errorf("%s: %d bytes, no error", name, len(b))
		}
		if f.acct.bytes != 0 {
			t.Errorf("%s: %d bytes stay charged", name, f.acct.bytes)
		}
	}
}

func corruptEnd(b []byte) []byte {
	b[len(b)-1] ^= 1
	return b
}

// What Data returns is charged until it is given back.
func TestDataIsCharged(t *testing.T) {
	f := openProg(t, "prog.zlib")
	s, _ := f.Section(".debug_info")
	b, err := f.Data(s)
	if err != nil {
		t.Fatal(err)
	}
	if f.acct.bytes != int64(len(b)) {
		t.Errorf("%d bytes charged, want %d", f.acct.bytes, len(b))
	}
	f.release(b)
	if f.acct.bytes != 0 {
		t.Errorf("%d bytes charged after release", f.acct.bytes)
	}
	f.acct.limit = int64(len(b)) - 1
	if b, err := f.Data(s); !errors.Is(err, ErrBudget) || b != nil {
		t.Errorf("over the limit: %d bytes, %v; want ErrBudget", len(b), err)
	}
}
