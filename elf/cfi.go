package elf

import (
	"bytes"
	delf "debug/elf"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	cachedPages = 64      // pages of unwind tables of one file kept in memory
	cfiPage     = 4 << 10 // bytes
	cachedRules = 1024    // addresses of one file whose rules are kept
	rulesCost   = 512     // bytes charged for one of them
	cachedCIEs  = 512     // parsed CIEs of one file kept
	cieCost     = 128     // bytes charged for one of them beside its instructions
)

// ErrNoFDE: no call frame information covers this address.
var ErrNoFDE = errors.New("no unwind information for this address")

// CFI is the call frame information of one file: how to find the caller of the
// function that holds an address. It may be used from any number of goroutines.
//
// It keeps only what was asked for lately. .eh_frame stays in the file and is
// searched through .eh_frame_hdr; without that header, and for .debug_frame, an
// index of all functions is made at the first question.
//
// Source: DWARF 5 §6.4; LSB Core, Exception Frames; gcc unwind-dw2-fde-dip.c has
// the format of .eh_frame_hdr.
type CFI struct {
	mu     sync.Mutex // above all below; the tables are read under it
	tables []*frameTable
	rules  map[uint64]*Rules
	charge func(int64) error
	run    cfaState
}

// Rules says how to get from a frame of this file, about to execute or having
// called at vaddr, to its caller. Use an address within the calling instruction:
// a return address can already belong to the next function.
//
// Errors: ErrNoFDE; ErrFormat; that of reading the file. Rules is zero then.
func (f *File) Rules(vaddr uint64) (Rules, error) {
	d := f.use()
	defer f.done()
	c, err := d.cfi.get(f.readCFI)
	if err != nil {
		return Rules{}, err
	}
	return c.Rules(vaddr)
}

// Rules is File.Rules of the mapped file, or else of its debug file: a strip that
// keeps debug information apart takes .debug_frame with it.
//
// Errors: as File.Rules; ErrPanic.
func (m *Module) Rules(vaddr uint64) (Rules, error) {
	r, err := m.main.rules(vaddr)
	if err != nil && errors.Is(err, ErrNoFDE) {
		if d := m.debugFile(); d != nil {
			if found, debugErr := d.rules(vaddr); debugErr == nil {
				return found, nil
			}
		}
		return Rules{}, ErrNoFDE
	}
	m.warn(err)
	return r, err
}

func (e *entry) rules(vaddr uint64) (r Rules, err error) {
	err = e.guard("unwinding", func() error {
		f, err := e.opened.get(e.open)
		if err != nil {
			return err
		}
		r, err = f.Rules(vaddr)
		return err
	})
	if err != nil {
		return Rules{}, err
	}
	return r, nil
}

// readCFI finds the tables; it reads little of them.
func (f *File) readCFI() (*CFI, error) {
	c := &CFI{charge: f.charge}
	if f.class != 64 || f.machine != uint16(delf.EM_X86_64) {
		return c, nil
	}
	var eh, hdr *frameData
	if s, ok := f.Section(".eh_frame_hdr"); ok && s.Type != delf.SHT_NOBITS && !s.Compressed {
		hdr = c.section(f, s)
	} else if s := f.ehFrameHdr; !ok && s.Filesz > 0 && s.Offset < uint64(f.size) {
		size := min(s.Filesz, uint64(f.size)-s.Offset)
		hdr = c.data(s.Vaddr, size, io.NewSectionReader(f.r, int64(s.Offset), int64(size)))
	}
	if s, ok := f.Section(".eh_frame"); ok && s.Type != delf.SHT_NOBITS && !s.Compressed {
		eh = c.section(f, s)
	}
	if eh != nil || hdr != nil {
		c.tables = append(c.tables, newEHTable(c, eh, hdr, f.segmentFrom))
	}
	if s, ok := f.Section(".debug_frame"); ok && s.Type != delf.SHT_NOBITS {
		d := c.section(f, s)
		if s.Compressed {
			b, err := f.Data(s)
			if err != nil {
				return nil, err
			}
			d = &frameData{size: uint64(len(b)), whole: b}
		}
		c.tables = append(c.tables, &frameTable{c: c, data: d, debug: true})
	}
	return c, nil
}

// section returns the bytes of a section that is not compressed.
func (c *CFI) section(f *File, s Section) *frameData {
	if s.Offset > uint64(f.size) {
		return c.data(s.Addr, 0, bytes.NewReader(nil))
	}
	size := min(s.Size, uint64(f.size)-s.Offset)
	return c.data(s.Addr, size, io.NewSectionReader(f.r, int64(s.Offset), int64(size)))
}

func (c *CFI) data(addr, size uint64, r io.ReaderAt) *frameData {
	return &frameData{addr: addr, size: size, r: r, charge: c.charge}
}

// segmentFrom returns the loaded bytes of the file from vaddr to the end of its segment.
func (f *File) segmentFrom(vaddr uint64) (off, size uint64, r io.ReaderAt) {
	for _, s := range f.segments {
		if vaddr < s.Vaddr || vaddr-s.Vaddr >= s.Filesz || s.Offset > uint64(f.size) {
			continue
		}
		in := vaddr - s.Vaddr
		if have := uint64(f.size) - s.Offset; in < have {
			size = min(s.Filesz, have) - in
			return s.Offset + in, size, io.NewSectionReader(f.r, int64(s.Offset+in), int64(size))
		}
	}
	return 0, 0, nil
}

// ParseCFI returns the call frame information of .eh_frame bytes that lie at
// vaddr addr. Nothing is read before it is asked for; ehFrame must not change.
func ParseCFI(ehFrame []byte, addr uint64) *CFI {
	c := &CFI{charge: func(int64) error { return nil }}
	c.tables = []*frameTable{{c: c, data: &frameData{addr: addr, size: uint64(len(ehFrame)), whole: ehFrame}}}
	return c
}

// ParseDebugFrame is ParseCFI for the bytes of .debug_frame, whose addresses are absolute.
func ParseDebugFrame(debugFrame []byte) *CFI {
	c := ParseCFI(debugFrame, 0)
	c.tables[0].debug = true
	return c
}

// Rules is File.Rules for the tables alone.
func (c *CFI) Rules(vaddr uint64) (Rules, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.rules[vaddr]; r != nil {
		return *r, nil
	}
	err := ErrNoFDE
	for _, t := range c.tables {
		var r Rules
		r, tableErr := t.find(vaddr)
		if tableErr == nil {
			c.keep(vaddr, r)
			return r, nil
		}
		if !errors.Is(tableErr, ErrNoFDE) {
			err = fmt.Errorf("read call frame information for %#x: %w", vaddr, tableErr)
		}
	}
	return Rules{}, err
}

// retry gives an index that was not made for want of room another chance.
func (c *CFI) retry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.tables {
		if t.indexed && errors.Is(t.err, ErrBudget) {
			_ = c.charge(-int64(cap(t.index)) * fdeCost) // giving back never fails
			t.indexed, t.index, t.err = false, nil, nil
		}
	}
}

// keep remembers rules. When there are many the rest is forgotten: walks of one
// moment mostly need the same ones again.
func (c *CFI) keep(vaddr uint64, r Rules) {
	if len(c.rules) >= cachedRules {
		_ = c.charge(-int64(len(c.rules)) * rulesCost) // giving back never fails
		clear(c.rules)
	}
	if c.charge(rulesCost) != nil {
		return
	}
	if c.rules == nil {
		c.rules = make(map[uint64]*Rules)
	}
	c.rules[vaddr] = &r
}

// frameData is the bytes of one table, read in pages, or whole when they had to
// be decompressed or lie in memory.
type frameData struct {
	addr, size uint64 // vaddr of the first byte; bytes
	whole      []byte
	r          io.ReaderAt
	ahead      *readAhead // set for one reading in order
	charge     func(int64) error
	pages      map[uint64][]byte
}

// read fills b from off on.
func (d *frameData) read(b []byte, off uint64) error {
	if off > d.size || uint64(len(b)) > d.size-off {
		return fmt.Errorf("%d bytes at %#x of a table of %d: %w", len(b), off, d.size, ErrFormat)
	}
	if d.r == nil {
		copy(b, d.whole[off:])
		return nil
	}
	if d.ahead != nil {
		return d.ahead.read(b, int64(off))
	}
	for len(b) > 0 {
		p, err := d.page(off / cfiPage)
		if err != nil {
			return err
		}
		in := off % cfiPage
		if in >= uint64(len(p)) {
			return io.ErrUnexpectedEOF
		}
		n := copy(b, p[in:])
		b, off = b[n:], off+uint64(n)
	}
	return nil
}

func (d *frameData) page(n uint64) ([]byte, error) {
	if p := d.pages[n]; p != nil {
		return p, nil
	}
	p := make([]byte, min(cfiPage, d.size-n*cfiPage))
	if _, err := d.r.ReadAt(p, int64(n*cfiPage)); err != nil && err != io.EOF {
		return nil, fmt.Errorf("read unwind table at %#x: %w", n*cfiPage, err)
	}
	if len(d.pages) >= cachedPages {
		_ = d.charge(-int64(len(d.pages)) * cfiPage) // giving back never fails
		clear(d.pages)
	}
	if d.charge(cfiPage) == nil {
		if d.pages == nil {
			d.pages = make(map[uint64][]byte)
		}
		d.pages[n] = p
	}
	return p, nil
}
