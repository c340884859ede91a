package bpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// record lays a record into the data of a ring, twice as the kernel maps it.
func record(data []byte, size, at uint64, header uint32, body string) uint64 {
	for _, base := range []uint64{0, size} {
		off := at&(size-1) + base
		if off+8 <= uint64(len(data)) {
			binary.LittleEndian.PutUint32(data[off:], header)
		}
		for i := range body {
			if p := off + 8 + uint64(i); p < uint64(len(data)) {
				data[p] = body[i]
			}
		}
	}
	for i := range body { // the part that wraps
		if p := at&(size-1) + 8 + uint64(i); p >= size {
			data[p-size] = body[i]
		}
	}
	return at + (8+uint64(len(body))+7)&^7
}

func TestReadRecords(t *testing.T) {
	const size = 64
	const busy, discard = unix.BPF_RINGBUF_BUSY_BIT, unix.BPF_RINGBUF_DISCARD_BIT
	type piece struct {
		header uint32
		body   string
	}
	for _, c := range []struct {
		name  string
		from  uint64
		put   []piece
		want  []string
		left  int // pieces not taken
		extra uint64
		err   error
	}{
		{"empty", 0, nil, nil, 0, 0, nil},
		{"two", 0, []piece{{3, "abc"}, {9, "123456789"}}, []string{"abc", "123456789"}, 0, 0, nil},
		{"no bytes", 8, []piece{{0, ""}, {1, "x"}}, []string{"", "x"}, 0, 0, nil},
		{"wraps", 48, []piece{{20, "abcdefghijklmnopqrst"}}, []string{"abcdefghijklmnopqrst"}, 0, 0, nil},
		{"discarded", 0, []piece{{3 | discard, "abc"}, {2, "de"}}, []string{"de"}, 0, 0, nil},
		{"busy", 0, []piece{{3, "abc"}, {4 | busy, "open"}, {1, "x"}}, []string{"abc"}, 2, 0, nil},
		{"far on", 1<<40 + 56, []piece{{3, "abc"}}, []string{"abc"}, 0, 0, nil},
		{"longer than what is there", 0, []piece{{100, "abc"}}, nil, 1, 0, errRing},
		{"no whole header", 0, nil, nil, 0, 4, errRing},
		{"more than the ring holds", 0, nil, nil, 0, size + 8, errRing},
		{"between two records", 4, []piece{{3, "abc"}}, nil, 1, 0, errRing},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := make([]byte, 2*size)
			end, upTo := c.from, c.from
			for i, p := range c.put {
				end = record(data, size, end, p.header, p.body)
				if i < len(c.put)-c.left {
					upTo = end
				}
			}
			at := c.from
			var got []string
			err := readRecords(data, size, &at, end+c.extra, func(b []byte) { got = append(got, string(b)) })
			if !errors.Is(err, c.err) {
				t.Errorf("error %v, want %v", err, c.err)
			}
			if len(got) != len(c.want) {
				t.Fatalf("records %q, want %q", got, c.want)
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("record %d is %q, want %q", i, got[i], c.want[i])
				}
			}
			if at != upTo {
				t.Errorf("read up to %d, want %d", at, upTo)
			}
		})
	}
}

// Whatever is in the ring: no panic, no more bytes than it holds, never past the end.
func FuzzRing(f *testing.F) {
	data := make([]byte, 128)
	end := record(data, 64, 0, 3, "abc")
	end = record(data, 64, end, 20, "abcdefghijklmnopqrst")
	f.Add(data[:64], uint64(0), end)
	f.Add(data[:64], uint64(0), uint64(64))
	f.Add(bytes.Repeat([]byte{0xff}, 64), uint64(1<<40), uint64(1<<40+64))
	f.Fuzz(func(t *testing.T, half []byte, from, to uint64) {
		size := uint64(8)
		for size*2 <= uint64(len(half)) && size < 1<<16 {
			size *= 2
		}
		data := make([]byte, 2*size)
		copy(data, half)
		copy(data[size:], data[:size])
		at, shown := from, uint64(0)
		err := readRecords(data, size, &at, to, func(b []byte) { shown += uint64(len(b)) + 8 })
		if at-from > to-from {
			t.Errorf("read from %d to %d of %d", from, at, to)
		}
		if shown > at-from {
			t.Errorf("%d bytes shown of %d", shown, at-from)
		}
		if err != nil && !errors.Is(err, errRing) {
			t.Errorf("error %v", err)
		}
	})
}
