package elf

import (
	"compress/zlib"
	delf "debug/elf"
	"encoding/binary"
	"fmt"
	"io"
)

const (
	maxInflated     = 64 << 20 // bytes of one section after decompression, or read whole
	maxInflateRatio = 10       // times the compressed size
	maxFreeInflate  = 8 << 20  // bytes up to which the ratio does not matter: glibc's libmvec has 33 times
)

// Data returns the bytes of a section, decompressed (zlib and zstd of
// SHF_COMPRESSED, zlib of .zdebug_). The length is charged to the budget of f:
// whoever does not keep the bytes gives it back with f.release.
//
// Errors: ErrTooBig over 64 MiB, or over 8 MiB and 10 times the compressed size,
// checked before memory is taken; ErrFormat; ErrNoData; ErrBudget.
// Source: Elf64_Chdr of elf(5); ELFCOMPRESS_ZSTD since binutils 2.40.
func (f *File) Data(s Section) ([]byte, error) {
	b, err := f.sectionData(s)
	if err != nil {
		return nil, fmt.Errorf("read section %s: %w", s.Name, err)
	}
	return b, nil
}

// release gives back what Data charged for bytes that are not kept.
func (f *File) release(b []byte) {
	if len(b) > 0 {
		_ = f.charge(-int64(len(b))) // giving back never fails
	}
}

func (f *File) sectionData(s Section) ([]byte, error) {
	if s.Type == delf.SHT_NOBITS {
		return nil, ErrNoData
	}
	if s.Offset > uint64(f.size) || s.Size > uint64(f.size)-s.Offset {
		return nil, fmt.Errorf("%d bytes at %#x of a file of %d: %w", s.Size, s.Offset, f.size, ErrFormat)
	}
	if !s.Compressed {
		if s.Size > maxInflated {
			return nil, fmt.Errorf("%d bytes: %w", s.Size, ErrTooBig)
		}
		if err := f.charge(int64(s.Size)); err != nil {
			return nil, err
		}
		b, err := f.readAt(s.Offset, s.Size)
		if err != nil {
			_ = f.charge(-int64(s.Size))
			return nil, err
		}
		return b, nil
	}
	c, err := f.compression(s)
	if err != nil {
		return nil, err
	}
	if err := f.charge(int64(c.size)); err != nil {
		return nil, err
	}
	b, err := f.inflate(s, c)
	if err != nil {
		_ = f.charge(-int64(c.size))
		return nil, err
	}
	return b, nil
}

// compression is what the head of a compressed section says.
type compression struct {
	typ  delf.CompressionType
	size uint64 // decompressed, within the limits
	head uint64 // bytes before the compressed stream
}

// DataSize returns the number of bytes that Data would return, without reading them.
//
// Errors: as Data, except ErrBudget.
func (f *File) DataSize(s Section) (uint64, error) {
	if !s.Compressed || s.Type == delf.SHT_NOBITS {
		return s.Size, nil
	}
	c, err := f.compression(s)
	return c.size, err
}

func (f *File) compression(s Section) (compression, error) {
	c := compression{typ: delf.COMPRESS_ZLIB, head: 12}
	old := s.Flags&delf.SHF_COMPRESSED == 0
	if !old {
		c.head = f.layout().chdr
	}
	if s.Size < c.head {
		return compression{}, fmt.Errorf("compression header in %d bytes: %w", s.Size, ErrFormat)
	}
	h, err := f.readAt(s.Offset, c.head)
	if err != nil {
		return compression{}, err
	}
	switch {
	case old && string(h[:4]) != "ZLIB":
		return compression{}, fmt.Errorf("no ZLIB magic: %w", ErrFormat)
	case old:
		c.size = binary.BigEndian.Uint64(h[4:])
	case f.class == 64:
		c.typ, c.size = delf.CompressionType(le.Uint32(h)), le.Uint64(h[8:])
	default:
		c.typ, c.size = delf.CompressionType(le.Uint32(h)), uint64(le.Uint32(h[4:]))
	}
	if c.typ != delf.COMPRESS_ZLIB && c.typ != delf.COMPRESS_ZSTD {
		return compression{}, fmt.Errorf("compression %v: %w", c.typ, ErrFormat)
	}
	if c.size > maxInflated || c.size > maxFreeInflate && c.size/maxInflateRatio > s.Size {
		return compression{}, fmt.Errorf("%d bytes say they inflate to %d: %w", s.Size, c.size, ErrTooBig)
	}
	return c, nil
}

// inflate decompresses exactly c.size bytes.
func (f *File) inflate(s Section, c compression) ([]byte, error) {
	stream := io.NewSectionReader(f.r, int64(s.Offset+c.head), int64(s.Size-c.head))
	var r io.Reader
	if c.typ == delf.COMPRESS_ZLIB {
		z, err := zlib.NewReader(stream)
		if err != nil {
			return nil, fmt.Errorf("inflate: %w", err)
		}
		defer z.Close()
		r = z
	} else {
		z, err := zstdReader(stream, c.size)
		if err != nil {
			return nil, fmt.Errorf("inflate: %w", err)
		}
		r = z
	}
	out := make([]byte, c.size)
	if _, err := io.ReadFull(r, out); err != nil {
		return nil, fmt.Errorf("inflate %d bytes: %w", c.size, err)
	}
	// The checksum is looked at when the stream ends, so it has to end here.
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return nil, fmt.Errorf("inflate: no end after %d bytes (%v): %w", c.size, err, ErrFormat)
	}
	return out, nil
}

// zstdReader decompresses a zstd stream of a known size. The standard library
// has the decoder only inside debug/elf, so the stream is put into a file of our
// own making that holds nothing but one compressed section.
func zstdReader(stream *io.SectionReader, size uint64) (io.Reader, error) {
	const names = "\x00.debug_z\x00.shstrtab\x00"
	l := layout64
	shoff := l.ehdr + uint64(len(names)+7)&^7
	body := shoff + 3*l.shdr
	head := make([]byte, body+l.chdr)
	copy(head, delf.ELFMAG)
	head[delf.EI_CLASS], head[delf.EI_DATA], head[delf.EI_VERSION] = byte(delf.ELFCLASS64), byte(delf.ELFDATA2LSB), byte(delf.EV_CURRENT)
	le.PutUint16(head[16:], uint16(delf.ET_EXEC))
	le.PutUint16(head[18:], uint16(delf.EM_X86_64))
	le.PutUint32(head[20:], uint32(delf.EV_CURRENT))
	le.PutUint64(head[40:], shoff)
	le.PutUint16(head[52:], uint16(l.ehdr))
	le.PutUint16(head[58:], uint16(l.shdr))
	le.PutUint16(head[60:], 3)
	le.PutUint16(head[62:], 2)
	copy(head[l.ehdr:], names)
	section := func(i, name uint64, typ delf.SectionType, flags delf.SectionFlag, off, n uint64) {
		b := head[shoff+i*l.shdr:]
		le.PutUint32(b, uint32(name))
		le.PutUint32(b[4:], uint32(typ))
		le.PutUint64(b[8:], uint64(flags))
		le.PutUint64(b[24:], off)
		le.PutUint64(b[32:], n)
	}
	section(1, 1, delf.SHT_PROGBITS, delf.SHF_COMPRESSED, body, l.chdr+uint64(stream.Size()))
	section(2, 10, delf.SHT_STRTAB, 0, l.ehdr, uint64(len(names)))
	le.PutUint32(head[body:], uint32(delf.COMPRESS_ZSTD))
	le.PutUint64(head[body+8:], size)
	le.PutUint64(head[body+16:], 1)
	f, err := delf.NewFile(prefixed{head, stream})
	if err != nil {
		return nil, err
	}
	return f.Sections[1].Open(), nil
}

// prefixed is a ReaderAt of some bytes followed by another reader.
type prefixed struct {
	head []byte
	tail io.ReaderAt
}

func (p prefixed) ReadAt(b []byte, off int64) (n int, err error) {
	if off < int64(len(p.head)) {
		n = copy(b, p.head[off:])
		if n == len(b) {
			return n, nil
		}
		off = int64(len(p.head))
	}
	m, err := p.tail.ReadAt(b[n:], off-int64(len(p.head)))
	return n + m, err
}
