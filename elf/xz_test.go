package elf

import (
	"bytes"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
)

// xzText makes the text of most files in testdata/xz.
func xzText(n int) []byte {
	words := []string{"push", "mov", "call", "ret", "_ZN4demo3hotEi", "symbol", "\x00\x00\x00\x00", "\n"}
	var out []byte
	for x := uint32(1); len(out) < n; {
		x = x*1103515245 + 12345
		out = append(out, words[x>>29]...)
		if x>>16&15 == 0 {
			out = append(out, byte(x>>8))
		}
	}
	return out[:n]
}

// noise makes bytes that do not compress.
func noise(n int) []byte {
	out := make([]byte, n)
	x := uint64(7)
	for i := range out {
		x = x*6364136223846793005 + 1442695040888963407
		out[i] = byte(x >> 56)
	}
	return out
}

func xzFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "xz", name+".xz"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDecodeXZ(t *testing.T) {
	text := xzText(20000)
	for name, want := range map[string][]byte{
		"crc32": text, "crc64": text, "sha256": text, "none": text,
		"blocks": text, "threads": text, "lclppb": text,
		"zeros": make([]byte, 16<<20), "stored": noise(3000),
	} {
		got, err := decodeXZ(xzFile(t, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, error %v; want %d bytes", name, len(got), err, len(want))
		}
		padded, err := decodeXZ(append(xzFile(t, name), 0, 0, 0, 0, 0, 0, 0, 0))
		if err != nil || !bytes.Equal(padded, want) {
			t.Errorf("%s with stream padding: %d bytes, error %v", name, len(padded), err)
		}
	}
}

func TestDecodeXZRefuses(t *testing.T) {
	good := xzFile(t, "crc64")
	edit := func(f func(b []byte)) []byte {
		b := bytes.Clone(good)
		f(b)
		return b
	}
	// resum repairs the CRC of the index and footer after an edit there.
	tests := map[string][]byte{
		"empty":              {},
		"magic only":         good[:6],
		"header only":        good[:12],
		"no footer":          good[:len(good)-12],
		"cut in the middle":  good[:len(good)/2],
		"filter chain":       xzFile(t, "x86"),
		"stream flags":       edit(func(b []byte) { b[7] = 1 }),
		"check type unknown": edit(func(b []byte) { setXZCheck(b, 5) }),
		"block header":       edit(func(b []byte) { b[13] ^= 0x40 }),
		"data":               edit(func(b []byte) { b[1000] ^= 1 }),
		"check":              edit(func(b []byte) { b[len(b)-12-8-1] ^= 1 }),
		"index":              edit(func(b []byte) { b[len(b)-12-6] ^= 1 }),
		"backward size":      edit(func(b []byte) { le.PutUint32(b[len(b)-8:], 1<<30); resumFooter(b) }),
		"trailing garbage":   append(bytes.Clone(good), 1, 2, 3, 4),
		"two streams":        append(bytes.Clone(good), good...),
	}
	for name, b := range tests {
		out, err := decodeXZ(b)
		if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTooBig) || out != nil {
			t.Errorf("%s: %d bytes, error %v; want nothing and ErrFormat", name, len(out), err)
		}
	}
	for n := range good {
		if out, err := decodeXZ(good[:n]); err == nil || out != nil {
			t.Fatalf("cut to %d bytes: %d bytes, no error", n, len(out))
		}
	}
}

func resumFooter(b []byte) {
	f := b[len(b)-12:]
	le.PutUint32(f, crc32.ChecksumIEEE(f[4:10]))
}

// setXZCheck changes the check type in both places, with right checksums.
func setXZCheck(b []byte, typ byte) {
	b[7] = typ
	le.PutUint32(b[8:], crc32.ChecksumIEEE(b[6:8]))
	b[len(b)-3] = typ
	resumFooter(b)
}

// An index may claim any size; nothing is taken for it before it is bounded.
func TestXZClaims(t *testing.T) {
	_, _, total, err := xzIndex(xzFile(t, "zeros"))
	if err != nil || total != 16<<20 {
		t.Errorf("zeros: %d bytes, %v; want %d", total, err, 16<<20)
	}
	b := xzFile(t, "zeros")
	// The index: 0, one record, unpadded size, size as four 7-bit digits.
	i := bytes.LastIndex(b, []byte{0x80, 0x80, 0x80, 0x08})
	if i < 0 {
		t.Fatal("size not found in the index")
	}
	copy(b[i:], []byte{0xff, 0xff, 0xff, 0x7f}) // 256 MiB
	end := len(b) - 12
	start := end - int((le.Uint32(b[len(b)-8:])+1)*4)
	le.PutUint32(b[end-4:], crc32.ChecksumIEEE(b[start:end-4]))
	if _, _, _, err := xzIndex(b); !errors.Is(err, ErrTooBig) {
		t.Errorf("256 MiB claimed: %v, want ErrTooBig", err)
	}
}

func FuzzXZ(f *testing.F) {
	for _, name := range []string{"crc32", "crc64", "sha256", "none", "blocks", "threads", "lclppb", "x86", "zeros", "stored"} {
		f.Add(xzFile(f, name))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, total, err := xzIndex(b)
		if err == nil && total > maxInflated {
			t.Fatalf("index of %d bytes accepted", total)
		}
		if err == nil && total > 4<<20 {
			t.Skip("slow to decode, not different")
		}
		out, err2 := decodeXZ(b)
		switch {
		case err2 != nil && out != nil:
			t.Fatalf("%d bytes with error %v", len(out), err2)
		case err2 == nil && (err != nil || uint64(len(out)) != total):
			t.Fatalf("%d bytes, index says %d (%v)", len(out), total, err)
		}
		// The raw decoder, past the checksums that stop most inputs.
		raw, rest, err := decodeLZMA2(make([]byte, 0, 64<<10), b, 1<<20)
		if err != nil && (raw != nil || rest != nil) || len(raw) > 64<<10 || len(rest) > len(b) {
			t.Fatalf("lzma2: %d bytes, %d left, error %v", len(raw), len(rest), err)
		}
	})
}
