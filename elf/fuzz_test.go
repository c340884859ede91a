package elf

import (
	"bytes"
	delf "debug/elf"
	"os"
	"path/filepath"
	"testing"
)

// FuzzOpen opens any bytes and asks for all that this file's author can have
// lied about: no panic, an error means no file, and what is kept stays within
// the limit.
func FuzzOpen(f *testing.F) {
	progs, err := filepath.Glob("testdata/prog/*")
	if err != nil || len(progs) == 0 {
		f.Fatal("no fixtures", err)
	}
	for _, path := range progs {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	itself := buildELF(testSection{name: ".gnu_debuglink", typ: delf.SHT_PROGBITS, data: []byte("itself\x00\x00\x01\x02\x03\x04")},
		testSection{name: ".gnu_debugaltlink", typ: delf.SHT_PROGBITS, data: []byte("itself\x00\x01\x02\x03\x04")})
	f.Add(itself)
	f.Add(buildELF(testSection{name: ".gnu_debugdata", typ: delf.SHT_PROGBITS, data: xzFile(f, "zeros")}))
	f.Add(buildELF(testSection{name: ".gnu_debugdata", typ: delf.SHT_PROGBITS, data: xzFile(f, "stored")}))
	f.Add(buildELF(testSection{name: ".debug_x", typ: delf.SHT_PROGBITS, flags: delf.SHF_COMPRESSED, data: chdr(delf.COMPRESS_ZLIB, 16<<20, deflated(16<<20))}))
	f.Add(buildELF(testSection{name: ".debug_x", typ: delf.SHT_PROGBITS, flags: delf.SHF_COMPRESSED, data: chdr(delf.COMPRESS_ZSTD, 1<<20, []byte{0x28, 0xb5, 0x2f, 0xfd})}))
	f.Add(buildELF(symbolSections(".symtab", testSymbol{"f", 0x1000, ^uint64(0), fn, global, 1}, testSymbol{"g", 0x1004, 0, fn, local, 1})...))

	f.Fuzz(func(t *testing.T, b []byte) {
		acct := newAccount(4 << 20)
		file, err := open(bytes.NewReader(b), int64(len(b)), acct)
		if err != nil {
			if file != nil {
				t.Fatal("a file with an error")
			}
			return
		}
		if len(file.Sections())*40 > len(b) || len(file.Segments())*32 > len(b) || len(file.BuildID()) > maxBuildID {
			t.Fatalf("%d sections and %d segments of %d bytes", len(file.Sections()), len(file.Segments()), len(b))
		}
		var addresses []uint64
		for _, s := range file.Sections() {
			if len(s.Name) > maxSectionLen {
				t.Fatalf("name of %d bytes", len(s.Name))
			}
			data, err := file.Data(s)
			if err != nil && data != nil || uint64(len(data)) > max(s.Size, maxFreeInflate, s.Size*maxInflateRatio+maxInflateRatio) {
				t.Fatalf("%d bytes of a section of %d, %v", len(data), s.Size, err)
			}
			if size, err := file.DataSize(s); data != nil && (err != nil || size != uint64(len(data))) {
				t.Fatalf("size %d of %d bytes, %v", size, len(data), err)
			}
			file.release(data)
			if len(addresses) < 64 {
				addresses = append(addresses, s.Addr, s.Addr+s.Size/2, s.Addr+s.Size)
			}
		}
		if acct.bytes != 0 {
			t.Fatalf("%d bytes stay charged", acct.bytes)
		}
		for _, a := range append(addresses, 0, ^uint64(0), file.Entry()) {
			sym, guess, ok := file.Symbol(a)
			switch {
			case !ok && (guess || sym != Symbol{}):
				t.Fatalf("not found, but %+v", sym)
			case ok && (sym.Name == "" || len(sym.Name) > maxSymbolName+len("@plt") || sym.Value > a):
				t.Fatalf("%#x: %+v", a, sym)
			case ok && !guess && sym.Size > 0 && a-sym.Value >= sym.Size:
				t.Fatalf("%#x is outside %+v", a, sym)
			case ok && guess && (sym.Size != 0 || a-sym.Value > maxGuessDistance):
				t.Fatalf("%#x: no hint: %+v", a, sym)
			}
		}
		_ = file.SymbolError()
		if name, _, ok := file.debugLink(); ok && (name == "" || filepath.Base(name) != name) {
			t.Fatalf("debug link %q", name)
		}
		if acct.bytes > acct.limit || acct.bytes < 0 {
			t.Fatalf("%d bytes charged of %d", acct.bytes, acct.limit)
		}
	})
}
