package api

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"testing"
)

func TestJoinSums(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		a, b := make([]byte, r.IntN(100)), make([]byte, r.IntN(5000))
		for i := range a {
			a[i] = byte(r.Uint32())
		}
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		want := crc32.ChecksumIEEE(append(bytes.Clone(a), b...))
		if got := joinSums(crc32.ChecksumIEEE(a), crc32.ChecksumIEEE(b), int64(len(b))); got != want {
			t.Fatalf("%d and %d bytes: got %08x, want %08x", len(a), len(b), got, want)
		}
	}
}

// long appends n times a hundred bytes.
func long(n int) func([]byte, spill) []byte {
	return func(b []byte, s spill) []byte {
		for i := range n {
			for j := range 100 {
				b = append(b, byte(i*j))
			}
			b = s(b)
		}
		return b
	}
}

func TestChunks(t *testing.T) {
	inOneGoroutine(t)
	for _, n := range []int{0, 1, chunkBytes / 100, 20_000} {
		want := long(n)(nil, whole)
		p := packChunks(long(n))
		got, err := io.ReadAll(flate.NewReader(io.MultiReader(bytes.NewReader(p.packed), bytes.NewReader(lastBlock))))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d: %d bytes, %v, want %d", n, len(got), err, len(want))
		}
		if p.text != nil || p.size != int64(len(want)) || p.sum != crc32.ChecksumIEEE(want) {
			t.Errorf("%d: size %d, sum %x", n, p.size, p.sum)
		}
		var text []byte
		parts := textChunks(long(n))
		for _, p := range parts {
			text = append(text, p.text...)
		}
		if !bytes.Equal(text, want) || len(parts) != len(want)/(chunkBytes+100)+1 && len(parts) < len(want)/(2*chunkBytes) {
			t.Errorf("%d: %d bytes in %d parts, want %d", n, len(text), len(parts), len(want))
		}
	}
}

// A compressed stream of short and long events is one gzip member.
func TestStreamOfChunks(t *testing.T) {
	w := httptest.NewRecorder()
	st := newTestStream(w, true)
	var want []byte
	if err := st.send("a", pack([]byte("short\n\n"), true)); err != nil {
		t.Fatal(err)
	}
	want = append(want, "short\n\n"...)
	for _, n := range []int{1, 5000} {
		if err := st.send("b", packChunks(long(n))); err != nil {
			t.Fatal(err)
		}
		want = long(n)(want, whole)
	}
	st.end()
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v, want %d", len(got), err, len(want))
	}
}

func TestReplyLong(t *testing.T) {
	want := append(long(5000)(nil, whole), '\n')
	for _, packed := range []bool{false, true} {
		r := request("GET", "/")
		if packed {
			r.Header.Set("Accept-Encoding", "gzip")
		}
		w := httptest.NewRecorder()
		memo := func(_ any, build func() any) any { return build() }
		replyLong(w, r, memo, "long", long(5000))
		body := io.Reader(w.Body)
		if packed {
			z, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			body = z
		}
		if got, err := io.ReadAll(body); err != nil || !bytes.Equal(got, want) || w.Header().Get("Content-Length") == "" {
			t.Errorf("packed %v: %d bytes, %v, want %d; %v", packed, len(got), err, len(want), w.Header())
		}
	}
}
