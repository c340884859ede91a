package elf

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
)

// This file reads the .xz container as it stands in .gnu_debugdata: one stream,
// any number of blocks, the LZMA2 filter alone.
//
// Source: The .xz File Format 1.2.1, https://tukaani.org/xz/xz-file-format.txt

const (
	maxXZ       = 16 << 20 // bytes of a compressed .gnu_debugdata
	maxXZBlocks = 1 << 16
)

var (
	xzMagic    = []byte{0xfd, '7', 'z', 'X', 'Z', 0}
	xzTable    = crc64.MakeTable(crc64.ECMA)
	errXZ      = fmt.Errorf("xz: %w", ErrFormat)
	errXZCheck = fmt.Errorf("xz: checksum: %w", ErrFormat)
)

// xzBlock is one record of the index.
type xzBlock struct{ unpadded, size uint64 }

// xzIndex reads the end of an .xz stream: the blocks, and the bytes before them.
// The sum of the sizes is what decodeXZ will allocate.
func xzIndex(b []byte) (blocks []xzBlock, body []byte, total uint64, err error) {
	for len(b) >= 4 && len(b)%4 == 0 && le.Uint32(b[len(b)-4:]) == 0 { // stream padding
		b = b[:len(b)-4]
	}
	if len(b) < 12+12 || !bytes.HasPrefix(b, xzMagic) {
		return nil, nil, 0, errXZ
	}
	head, foot := b[6:12], b[len(b)-12:]
	if string(foot[10:]) != "YZ" || !bytes.Equal(head[:2], foot[8:10]) || head[0] != 0 || head[1] > 15 {
		return nil, nil, 0, errXZ
	}
	if le.Uint32(head[2:]) != crc32.ChecksumIEEE(head[:2]) || le.Uint32(foot) != crc32.ChecksumIEEE(foot[4:10]) {
		return nil, nil, 0, errXZCheck
	}
	size := (uint64(le.Uint32(foot[4:])) + 1) * 4
	body = b[12 : len(b)-12]
	if size > uint64(len(body)) {
		return nil, nil, 0, errXZ
	}
	index := body[uint64(len(body))-size:]
	body = body[:uint64(len(body))-size]
	if len(index) < 8 || index[0] != 0 || le.Uint32(index[len(index)-4:]) != crc32.ChecksumIEEE(index[:len(index)-4]) {
		return nil, nil, 0, errXZCheck
	}
	r := xzReader{b: index[1 : len(index)-4]}
	n := r.vli()
	if n > maxXZBlocks || n > uint64(len(index)) {
		return nil, nil, 0, fmt.Errorf("xz: %d blocks: %w", n, ErrTooBig)
	}
	for range n {
		blk := xzBlock{r.vli(), r.vli()}
		total += blk.size
		if r.bad || blk.size > maxInflated || total > maxInflated {
			return nil, nil, 0, fmt.Errorf("xz: index: %w", errors.Join(ErrTooBig, ErrFormat))
		}
		blocks = append(blocks, blk)
	}
	if r.bad || !r.zeros(3) {
		return nil, nil, 0, errXZ
	}
	return blocks, body, total, nil
}

// decodeXZ decompresses an .xz stream into exactly total bytes, with each check
// that is present verified.
func decodeXZ(b []byte) ([]byte, error) {
	blocks, body, total, err := xzIndex(b)
	if err != nil {
		return nil, err
	}
	check := b[7]
	out := make([]byte, 0, total)
	for _, blk := range blocks {
		padded := (blk.unpadded + 3) &^ 3
		if blk.unpadded > uint64(len(body)) || padded > uint64(len(body)) {
			return nil, errXZ
		}
		before := len(out)
		if out, err = decodeXZBlock(out, body[:padded], check); err != nil {
			return nil, err
		}
		if uint64(len(out)-before) != blk.size {
			return nil, errXZ
		}
		body = body[padded:]
	}
	if len(body) != 0 {
		return nil, errXZ
	}
	return out, nil
}

// decodeXZBlock appends one block: header, LZMA2, padding, check. The padding
// stands before the check, so b ends with the check.
func decodeXZBlock(out, b []byte, check byte) ([]byte, error) {
	if len(b) == 0 || b[0] == 0 {
		return nil, errXZ
	}
	size := (int(b[0]) + 1) * 4
	if size > len(b) {
		return nil, errXZ
	}
	head, data := b[:size-4], b[size:]
	if le.Uint32(b[size-4:]) != crc32.ChecksumIEEE(head) {
		return nil, errXZCheck
	}
	flags := head[1]
	if flags&0x3c != 0 || flags&3 != 0 {
		return nil, fmt.Errorf("xz: filter chain: %w", ErrFormat)
	}
	r := xzReader{b: head[2:]}
	packed, plain := ^uint64(0), ^uint64(0)
	if flags&0x40 != 0 {
		packed = r.vli()
	}
	if flags&0x80 != 0 {
		plain = r.vli()
	}
	const lzma2 = 0x21
	if id := r.vli(); id != lzma2 {
		return nil, fmt.Errorf("xz: filter %#x: %w", id, ErrFormat)
	}
	if r.vli() != 1 || r.bad || len(r.b) == 0 || r.b[0] > 40 {
		return nil, errXZ
	}
	dict := uint32(1<<32 - 1)
	if bits := r.b[0]; bits < 40 {
		dict = uint32(2|bits&1) << (bits/2 + 11)
	}
	r.b = r.b[1:]
	if !r.zeros(1 << 10) {
		return nil, errXZ
	}

	before := len(out)
	out, rest, err := decodeLZMA2(out, data, dict)
	if err != nil {
		return nil, err
	}
	used := len(data) - len(rest)
	if packed != ^uint64(0) && packed != uint64(used) || plain != ^uint64(0) && plain != uint64(len(out)-before) {
		return nil, errXZ
	}
	for used%4 != 0 {
		if len(rest) == 0 || rest[0] != 0 {
			return nil, errXZ
		}
		rest = rest[1:]
		used++
	}
	return out, verifyXZ(check, out[before:], rest)
}

func verifyXZ(check byte, data, sum []byte) error {
	var h hash.Hash
	switch check {
	case 0:
		if len(sum) != 0 {
			return errXZ
		}
		return nil
	case 1:
		h = crc32.NewIEEE()
	case 4:
		h = crc64.New(xzTable)
	case 10:
		h = sha256.New()
	default:
		return fmt.Errorf("xz: check type %d: %w", check, ErrFormat)
	}
	h.Write(data)
	got := h.Sum(nil)
	switch check { // the CRCs are stored little endian
	case 1:
		le.PutUint32(got, binary.BigEndian.Uint32(got))
	case 4:
		le.PutUint64(got, binary.BigEndian.Uint64(got))
	}
	if !bytes.Equal(got, sum) {
		return errXZCheck
	}
	return nil
}

// xzReader reads the variable-length integers of headers and index.
type xzReader struct {
	b   []byte
	bad bool
}

// vli is 7 bits a byte, least significant first, at most 9 bytes, no zero at the end.
func (r *xzReader) vli() uint64 {
	var v uint64
	for i := 0; i < 9 && i < len(r.b); i++ {
		c := r.b[i]
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			if c == 0 && i > 0 {
				break
			}
			r.b = r.b[i+1:]
			return v
		}
	}
	r.bad = true
	return 0
}

// zeros tells whether nothing but at most n zero bytes is left.
func (r *xzReader) zeros(n int) bool {
	return !r.bad && len(r.b) <= n && len(bytes.Trim(r.b, "\x00")) == 0
}
