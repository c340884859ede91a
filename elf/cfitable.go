package elf

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
)

const (
	maxFDEs      = 2 << 20  // functions of one table that are indexed
	maxFrameScan = 64 << 20 // bytes of a table that are read to index it; as much as a section may inflate to
	fdeCost      = 16       // bytes of one index entry
)

// frameTable is one .eh_frame or .debug_frame.
type frameTable struct {
	c     *CFI
	data  *frameData
	debug bool // .debug_frame
	hdr   *searchTable
	cies  map[uint64]*cie

	indexed bool
	index   []fdeRange
	err     error // of making the index

	buf []byte // of the record at hand
}

// fdeRange is where a function lies and where its record begins.
type fdeRange struct {
	start  uint64
	length uint32
	offset uint32 // tables end below maxFileSize
}

// searchTable is the sorted part of .eh_frame_hdr.
type searchTable struct {
	data  *frameData
	table uint64 // offset of the first entry
	count uint64
	enc   uint8
	width uint64 // bytes of one value; an entry has two
}

// newEHTable takes what there is of .eh_frame and .eh_frame_hdr. A file without
// section headers has only the header, from its program headers, and from says
// what lies where the header points.
func newEHTable(c *CFI, eh, hdr *frameData, from func(vaddr uint64) (off, size uint64, r io.ReaderAt)) *frameTable {
	t := &frameTable{c: c, data: eh}
	if hdr == nil {
		return t
	}
	search, ehAddr := readSearchTable(hdr)
	if t.data == nil {
		if _, size, r := from(ehAddr); ehAddr != 0 && r != nil {
			t.data = c.data(ehAddr, size, r)
		} else {
			t.data = c.data(0, 0, hdr.r)
		}
	}
	t.hdr = search
	return t
}

// readSearchTable reads the head of .eh_frame_hdr. The table is nil when there is
// none that can be searched; ehAddr is 0 when it is not told.
func readSearchTable(d *frameData) (search *searchTable, ehAddr uint64) {
	head := make([]byte, min(d.size, 64))
	if d.read(head, 0) != nil || len(head) < 4 || head[0] != 1 {
		return nil, 0
	}
	r := cfiReader{b: head, at: 4, addr: d.addr, base: d.addr}
	ehAddr = r.pointer(head[1])
	if r.bad {
		return nil, 0
	}
	count := r.pointer(head[2])
	enc := head[3]
	width := encodedWidth(enc)
	if r.bad || width == 0 || enc&0x80 != 0 || count == 0 {
		return nil, ehAddr
	}
	at := uint64(r.at)
	if count > (d.size-at)/(2*width) {
		return nil, ehAddr
	}
	return &searchTable{data: d, table: at, count: count, enc: enc, width: width}, ehAddr
}

// find returns the vaddr of the record of the last function that starts at or
// below vaddr.
func (s *searchTable) find(vaddr uint64) (fde uint64, err error) {
	var raw [16]byte
	entry := func(i uint64) (start, fde uint64) {
		off := s.table + i*2*s.width
		if e := s.data.read(raw[:2*s.width], off); e != nil {
			err = e
			return 0, 0
		}
		r := cfiReader{b: raw[:2*s.width], addr: s.data.addr + off, base: s.data.addr}
		start = r.pointer(s.enc)
		return start, r.pointer(s.enc)
	}
	n := sort.Search(int(s.count), func(i int) bool {
		start, _ := entry(uint64(i))
		return err != nil || start > vaddr
	})
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, ErrNoFDE
	}
	_, fde = entry(uint64(n - 1))
	return fde, err
}

// find returns the rules at vaddr.
func (t *frameTable) find(vaddr uint64) (Rules, error) {
	if t.hdr != nil {
		addr, err := t.hdr.find(vaddr)
		if err != nil {
			return Rules{}, err
		}
		off := addr - t.data.addr // wraps to a large number below
		if off >= t.data.size {
			return Rules{}, fmt.Errorf("record at %#x is outside .eh_frame: %w", addr, ErrFormat)
		}
		return t.rulesAt(off, vaddr)
	}
	if !t.indexed {
		t.err = t.makeIndex()
		t.indexed = true
	}
	// Functions do not overlap; where a file says they do the last start counts.
	n := sort.Search(len(t.index), func(i int) bool { return t.index[i].start > vaddr })
	if n == 0 || vaddr-t.index[n-1].start >= uint64(t.index[n-1].length) {
		return Rules{}, cmp.Or(t.err, ErrNoFDE)
	}
	return t.rulesAt(uint64(t.index[n-1].offset), vaddr)
}

func (t *frameTable) rulesAt(off, vaddr uint64) (Rules, error) {
	f, err := t.readFDE(off)
	if err != nil {
		return Rules{}, err
	}
	if vaddr < f.start || vaddr-f.start >= f.length {
		return Rules{}, ErrNoFDE
	}
	return t.c.run.rules(f, vaddr)
}

// makeIndex reads the table from end to end. What follows a record that cannot be
// read is left out: without its length there is no next one.
func (t *frameTable) makeIndex() error {
	if t.data.size > maxFrameScan {
		return fmt.Errorf("index %d bytes of unwind tables: %w", t.data.size, ErrTooBig)
	}
	defer t.sortIndex()
	scan := frameTable{c: t.c, data: t.data.inOrder(), debug: t.debug}
	for off := uint64(0); off < t.data.size; {
		rec, err := scan.readRecord(off)
		if err != nil {
			if errors.Is(err, ErrFormat) {
				return nil
			}
			return err
		}
		if !rec.terminator && !rec.isCIE {
			if f, err := scan.parseFDE(rec); err == nil && f.length > 0 && f.length < 1<<32 {
				if err := t.add(fdeRange{f.start, uint32(f.length), uint32(off)}); err != nil {
					return err
				}
			}
		}
		// A terminator need not be the last: a linker that joins sections leaves
		// those of its inputs inside.
		off = rec.end
	}
	return nil
}

func (t *frameTable) add(f fdeRange) error {
	if len(t.index) >= maxFDEs {
		return fmt.Errorf("more than %d functions with unwind information: %w", maxFDEs, ErrTooBig)
	}
	if n := len(t.index); n == cap(t.index) {
		more := max(64, n)
		if err := t.c.charge(int64(more) * fdeCost); err != nil {
			return err
		}
		t.index = append(make([]fdeRange, 0, n+more), t.index...)
	}
	t.index = append(t.index, f)
	return nil
}

func (t *frameTable) sortIndex() {
	slices.SortStableFunc(t.index, func(a, b fdeRange) int { return cmp.Compare(a.start, b.start) })
}

// inOrder is d for one reading from front to back: in large pieces, none kept.
func (d *frameData) inOrder() *frameData {
	if d.r == nil {
		return d
	}
	return &frameData{addr: d.addr, size: d.size, r: d.r, ahead: &readAhead{r: d.r, size: int64(d.size)}}
}

// readAhead reads 256 KiB at a time.
type readAhead struct {
	r    io.ReaderAt
	size int64
	at   int64
	buf  []byte
}

// read fills b from off on; both lie within size.
func (a *readAhead) read(b []byte, off int64) error {
	const piece = 256 << 10
	if off < a.at || off+int64(len(b)) > a.at+int64(len(a.buf)) {
		n := max(min(piece, a.size-off), int64(len(b)))
		if int64(cap(a.buf)) < n {
			a.buf = make([]byte, n)
		}
		a.buf, a.at = a.buf[:n], off
		if m, err := a.r.ReadAt(a.buf, off); int64(m) < n {
			a.buf = a.buf[:0]
			return fmt.Errorf("read unwind table at %#x: %w", off, cmp.Or(err, io.ErrUnexpectedEOF))
		}
	}
	copy(b, a.buf[off-a.at:])
	return nil
}
