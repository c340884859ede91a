package elf

import (
	"bufio"
	"compress/zlib"
	delf "debug/elf"
	"fmt"
	"io"
)

const (
	inflateStep  = 64 << 10 // bytes that are inflated at least at a time
	inflateState = 64 << 10 // bytes that a running decompressor takes
	// stringStep is the first look at a string; names are mostly shorter.
	stringStep = 256
	// What a read counts as in maxDebugWork: a system call as much as readWork DIEs,
	// and every byteWork bytes as much as one.
	readWork, byteWork = 64, 64
)

// dwSource is one debug section. A compressed one is inflated from its beginning
// only as far as somebody looks, since that is most of the cost of a first
// answer; of others only the wanted pieces are read.
type dwSource struct {
	d    *dwData
	name string
	size uint64 // bytes, inflated
	step uint64 // least bytes of one read of an uncompressed section

	opened bool
	ok     bool // there is such a section and it has data
	err    error
	s      Section

	mem []byte    // what is inflated so far
	z   io.Reader // the rest; nil at the end

	last    []byte // the piece of an uncompressed section that was read last
	lastOff uint64
}

// open looks for the section. Its absence is no error.
func (s *dwSource) open() error {
	if s.opened {
		return s.err
	}
	s.opened = true
	s.err = s.find()
	if s.err != nil {
		s.err = fmt.Errorf("read section %s: %w", s.name, s.err)
	}
	return s.err
}

func (s *dwSource) find() error {
	sec, ok := s.d.f.Section(s.name)
	if !ok || sec.Type == delf.SHT_NOBITS || sec.Size == 0 {
		return nil
	}
	if sec.Offset > uint64(s.d.f.size) || sec.Size > uint64(s.d.f.size)-sec.Offset {
		return fmt.Errorf("%d bytes at %#x of a file of %d: %w", sec.Size, sec.Offset, s.d.f.size, ErrFormat)
	}
	s.s, s.size = sec, sec.Size
	if !sec.Compressed {
		s.ok = true
		return nil
	}
	c, err := s.d.f.compression(sec)
	if err != nil {
		return err
	}
	s.size = c.size
	if err := s.d.charge(int64(c.size) + inflateState); err != nil {
		s.opened = false // there may be room another time
		return err
	}
	stream := io.NewSectionReader(s.d.f.r, int64(sec.Offset+c.head), int64(sec.Size-c.head))
	if c.typ == delf.COMPRESS_ZLIB {
		s.z, err = zlib.NewReader(bufio.NewReaderSize(stream, inflateStep))
	} else {
		s.z, err = zstdReader(stream, c.size)
	}
	if err != nil {
		s.z = nil
		s.d.release(int64(c.size) + inflateState)
		return fmt.Errorf("inflate: %w", err)
	}
	s.mem = make([]byte, 0, c.size)
	s.ok = true
	return nil
}

// inflate makes the first n bytes available.
func (s *dwSource) inflate(n uint64) error {
	if n <= uint64(len(s.mem)) {
		return nil
	}
	if s.err != nil {
		return s.err
	}
	from := len(s.mem)
	to := int(min(s.size, max(n, uint64(from)+inflateStep)))
	m, err := io.ReadFull(s.z, s.mem[from:to])
	s.mem = s.mem[:from+m]
	if err == nil && uint64(to) == s.size {
		// The checksum is looked at when the stream ends.
		var extra int
		if extra, err = s.z.Read(make([]byte, 1)); extra != 0 {
			err = ErrFormat
		} else if err == io.EOF {
			err = nil
		}
		s.z = nil
		_ = s.d.charge(-inflateState)
	}
	if err != nil {
		s.err = fmt.Errorf("read section %s: inflate %d bytes: %w", s.name, s.size, err)
	}
	return s.err
}

// window returns the bytes at off, n of them or fewer at the end of the section.
// They are valid until the next call.
func (s *dwSource) window(off, n uint64) ([]byte, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	if !s.ok || off >= s.size {
		return nil, fmt.Errorf("read section %s at %#x of %#x bytes: %w", s.name, off, s.size, ErrFormat)
	}
	n = min(n, s.size-off)
	if s.s.Compressed {
		if err := s.inflate(off + n); err != nil {
			return nil, err
		}
		return s.mem[off : off+n], nil
	}
	if off >= s.lastOff && off-s.lastOff < uint64(len(s.last)) && n <= uint64(len(s.last))-(off-s.lastOff) {
		return s.last[off-s.lastOff:][:n], nil
	}
	want := int(min(max(n, s.step), s.size-off))
	if err := s.d.spend(readWork + int64(want)/byteWork); err != nil {
		return nil, err
	}
	if cap(s.last) < want {
		if err := s.d.charge(int64(want - cap(s.last))); err != nil {
			return nil, err
		}
		s.last = make([]byte, want)
	}
	s.last, s.lastOff = s.last[:want], off
	if err := s.readFull(s.last, off); err != nil {
		s.last = s.last[:0]
		return nil, err
	}
	return s.last[:n], nil
}

// load returns n bytes at off that stay valid. charged is what they cost the
// budget, to be given back by whoever lets them go: nothing when they lie in the
// inflated section.
func (s *dwSource) load(off, n uint64) (b []byte, charged int64, err error) {
	if err := s.open(); err != nil {
		return nil, 0, err
	}
	if !s.ok || off > s.size || n > s.size-off {
		return nil, 0, fmt.Errorf("read %d bytes of section %s at %#x of %#x: %w", n, s.name, off, s.size, ErrFormat)
	}
	if s.s.Compressed {
		if err := s.inflate(off + n); err != nil {
			return nil, 0, err
		}
		return s.mem[off : off+n : off+n], 0, nil
	}
	if n > maxInflated {
		return nil, 0, fmt.Errorf("read %d bytes of section %s: %w", n, s.name, ErrTooBig)
	}
	if err := s.d.spend(readWork + int64(n)/byteWork); err != nil {
		return nil, 0, err
	}
	if err := s.d.charge(int64(n)); err != nil {
		return nil, 0, err
	}
	b = make([]byte, n)
	if err := s.readFull(b, off); err != nil {
		_ = s.d.charge(-int64(n))
		return nil, 0, err
	}
	return b, int64(n), nil
}

// close lets go of everything that was read, and of the charge that load made.
func (s *dwSource) close(charged int64) {
	if s.s.Compressed {
		charged += int64(s.size)
		if s.z != nil {
			charged += inflateState
		}
	}
	charged += int64(cap(s.last))
	s.d.release(charged)
	s.mem, s.z, s.last, s.ok = nil, nil, nil, false
}

func (s *dwSource) readFull(b []byte, off uint64) error {
	n, err := s.d.f.r.ReadAt(b, int64(s.s.Offset+off))
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read section %s: %w", s.name, err)
}

// str returns the NUL-terminated string at off. ok is false for one that is
// longer than maxDebugName.
func (s *dwSource) str(off uint64) (str string, ok bool, err error) {
	for n := uint64(stringStep); ; n *= 4 {
		n = min(n, maxDebugName+1)
		b, err := s.window(off, n)
		if err != nil {
			return "", false, err
		}
		r := dwBuf{b: b}
		if c := r.cstr(); !r.bad {
			return string(c), true, nil
		}
		if n > maxDebugName || uint64(len(b)) < n {
			return "", false, nil
		}
	}
}

// uintAt reads one little endian number of n bytes.
func (s *dwSource) uintAt(off uint64, n int) (uint64, error) {
	b, err := s.window(off, uint64(n))
	if err != nil {
		return 0, err
	}
	if len(b) < n {
		return 0, fmt.Errorf("read section %s at %#x: %w", s.name, off, ErrFormat)
	}
	r := dwBuf{b: b}
	return r.uint(n), nil
}
