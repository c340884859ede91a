package api

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"net/http"
	"runtime"
	"slices"
	"sync"
)

// chunkBytes is how much of a long event is text at one time while it is compressed.
const chunkBytes = 256 << 10

// spill takes what an encoder has appended so far, when that is long enough, and
// returns the buffer to go on with. Encoders of long answers call it between items.
type spill func(b []byte) []byte

// whole keeps everything in one buffer.
func whole(b []byte) []byte { return b }

// flateWriters5 are for what is long and sent once for all: level 5 gives three
// quarters of the size of the fastest for less than half as much time again.
var flateWriters5 = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, 5)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}}

// packChunks is the compressed form of what encode appends. Of the text it never
// holds more than a chunk: a structure of 5,000 processes is 20 MB of it.
func packChunks(encode func(b []byte, s spill) []byte) part {
	var out bytes.Buffer
	z := flateWriters5.Get().(*flate.Writer)
	z.Reset(&out)
	var p part
	take := func(b []byte) {
		p.sum = crc32.Update(p.sum, crc32.IEEETable, b)
		p.size += int64(len(b))
		z.Write(b) // into memory
	}
	rest := encode(make([]byte, 0, chunkBytes+chunkBytes/4), func(b []byte) []byte {
		if len(b) < chunkBytes {
			return b
		}
		take(b)
		return b[:0]
	})
	take(rest)
	z.Flush()
	flateWriters5.Put(z)
	p.packed = out.Bytes()
	return p
}

// textChunks is the text of what encode appends, in pieces: one long buffer would be
// copied again and again as it grows.
func textChunks(encode func(b []byte, s spill) []byte) []part {
	var parts []part
	rest := encode(make([]byte, 0, chunkBytes+chunkBytes/4), func(b []byte) []byte {
		if len(b) < chunkBytes {
			return b
		}
		parts = append(parts, part{text: b})
		return make([]byte, 0, chunkBytes+chunkBytes/4)
	})
	return append(parts, part{text: rest})
}

// longParts is an event that may be long: the first viewer who needs it makes it for
// all, in pieces. The key tells the two forms apart.
func longParts(memo func(any, func() any) any, key any, event string, packed bool, data func([]byte, spill) []byte) []part {
	encode := func(b []byte, s spill) []byte {
		return append(data(appendEventHead(b, event), s), '\n', '\n')
	}
	return memo(key, func() any {
		if packed {
			return []part{packChunks(encode)}
		}
		return textChunks(encode)
	}).([]part)
}

// joinSums is the CRC-32 of two texts one after the other, from those of each and the
// length of the second: the first is moved on by as many zero bytes, a multiplication
// modulo the polynomial (Mark Adler's crc32_combine of zlib works like this).
func joinSums(first, second uint32, length int64) uint32 {
	// A row of a matrix over GF(2) is the sum that one bit becomes.
	var odd, even [32]uint32
	odd[0] = crc32.IEEE // one zero bit
	for i := 1; i < 32; i++ {
		odd[i] = 1 << (i - 1)
	}
	square(&even, &odd) // two
	square(&odd, &even) // four
	from, to := &odd, &even
	for ; length > 0; length >>= 1 {
		square(to, from) // eight for the first bit of length: a byte
		if length&1 != 0 {
			first = times(to, first)
		}
		from, to = to, from
	}
	return first ^ second
}

func times(m *[32]uint32, v uint32) (sum uint32) {
	for i := 0; v != 0; i, v = i+1, v>>1 {
		if v&1 != 0 {
			sum ^= m[i]
		}
	}
	return sum
}

func square(to, from *[32]uint32) {
	for i := range from {
		to[i] = times(from, from[i])
	}
}

// longKey names an answer of a state in one of its two forms.
type longKey struct {
	answer any
	packed bool
}

// replyLong sends what encode appends as a 200: an answer of an immutable state, made
// once for all who ask for it at the same time.
func replyLong(w http.ResponseWriter, r *http.Request, memo func(any, func() any) any, answer any, encode func(b []byte, s spill) []byte) {
	packed := acceptsGzip(r)
	shared := memo(longKey{answer, packed}, func() any { return new(fleeting[[]byte]) }).(*fleeting[[]byte])
	body := shared.get(func() *[]byte { return longBody(encode, packed) })
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Add("Vary", "Accept-Encoding")
	if packed {
		h.Set("Content-Encoding", "gzip")
	}
	send(w, r, http.StatusOK, *body)
	runtime.KeepAlive(body) // who comes while it is sent shares it
}

// longBody never holds the text of a body that is compressed.
func longBody(encode func(b []byte, s spill) []byte, packed bool) *[]byte {
	line := func(b []byte, s spill) []byte { return append(encode(b, s), '\n') }
	if !packed {
		b := line(nil, whole)
		return &b
	}
	p := packChunks(line)
	b := slices.Concat(gzipHeader, p.packed, lastBlock)
	b = binary.LittleEndian.AppendUint32(b, p.sum)
	b = binary.LittleEndian.AppendUint32(b, uint32(p.size))
	return &b
}
