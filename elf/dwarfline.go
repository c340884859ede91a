package elf

import (
	"cmp"
	"fmt"
	"slices"
)

// Opcodes of a line number program (DWARF 5, 7.22).
const (
	dwLNSCopy         = 1
	dwLNSAdvancePC    = 2
	dwLNSAdvanceLine  = 3
	dwLNSSetFile      = 4
	dwLNSConstAddPC   = 8
	dwLNSFixedAdvance = 9

	dwLNEEnd        = 1
	dwLNESetAddress = 2
	dwLNEDefineFile = 3
)

// dwRow is the position of the code from off to the next row. Line 0 is code
// that no line stands for. A sequence ends with a row of its own.
type dwRow struct {
	off, line, file uint32 // off from the start of the sequence
}

// dwSeq is a run of rows whose addresses rise.
type dwSeq struct {
	lo       uint64
	first, n uint32
}

// dwLines is the line table of one unit. Sequences of a linked file stand in any
// order: they are looked up, then the rows of one.
type dwLines struct {
	rows  []dwRow
	seqs  []dwSeq
	spans []dwSpan // of seqs

	version  uint8
	lineBase int64
	rng      uint64 // line_range
	minInst  uint64
	maxOps   uint64
	opBase   uint8
	lengths  []byte // of the standard opcodes

	enc   dwEnc
	dirs  []dwPath
	files []dwPath
	paths map[uint32]string
}

// at returns the file number and line of addr; line is 0 when none is known.
func (l *dwLines) at(addr uint64) (file, line uint32, ok bool) {
	span, ok := findSpan(l.spans, addr)
	if !ok {
		return 0, 0, false
	}
	s := l.seqs[span.id]
	rows := l.rows[s.first : s.first+s.n]
	off := uint32(addr - s.lo)
	i, _ := slices.BinarySearchFunc(rows, off, func(r dwRow, off uint32) int {
		if r.off <= off { // the last of equal ones
			return -1
		}
		return 1
	})
	if i == 0 {
		return 0, 0, false
	}
	return rows[i-1].file, rows[i-1].line, true
}

// readLines reads the line table of the unit.
func (u *dwUnit) readLines() error {
	if u.lined || !u.hasLines {
		return u.lineErr
	}
	seqs := dwRanges{d: u.d}
	charged := u.charged
	err := u.loadLines(&seqs)
	if err == nil {
		u.lines.spans, err = seqs.spans(u.charge)
	} else {
		seqs.drop()
	}
	if err != nil {
		u.lines = dwLines{}
		_ = u.charge(charged - u.charged) // giving back never fails
		err = fmt.Errorf("read line table at %#x: %w", u.stmtList, err)
	}
	u.lined, u.lineErr = lasting(err), err
	return err
}

func (u *dwUnit) loadLines(seqs *dwRanges) error {
	src := &u.d.line
	head, err := src.window(u.stmtList, 12)
	if err != nil {
		return err
	}
	r := dwBuf{b: head}
	length, offSize := r.length()
	if r.bad || length > src.size-u.stmtList-uint64(r.pos) {
		return dwFormatError("length %#x", length)
	}
	start := u.stmtList + uint64(r.pos)
	b, charged, err := src.load(start, length)
	if err != nil {
		return err
	}
	// The program is not needed again, the text in its header may be: by offset.
	defer u.d.release(charged)
	r = dwBuf{b: b}
	if err := u.lines.parseHeader(u, &r, offSize, start); err != nil {
		return err
	}
	return u.runLines(&r, start, seqs)
}

// parseHeader reads a header behind its length; at is where that is in the section.
func (l *dwLines) parseHeader(u *dwUnit, r *dwBuf, offSize int, at uint64) error {
	version := r.u16()
	if r.bad || version < 2 || version > 5 {
		return dwFormatError("version %d", version)
	}
	l.enc = dwEnc{version: uint8(version), addr: u.enc.addr, off: uint8(offSize)}
	l.version = uint8(version)
	if version >= 5 {
		l.enc.addr = r.u8()
		if segment := r.u8(); segment != 0 || l.enc.addr != 4 && l.enc.addr != 8 {
			return dwFormatError("addresses of %d bytes", l.enc.addr)
		}
	}
	n := r.uint(offSize)
	if r.bad || n > uint64(r.left()) {
		return dwFormatError("header of %#x bytes", n)
	}
	program := r.pos + int(n)
	l.minInst, l.maxOps = uint64(r.u8()), 1
	if version >= 4 {
		l.maxOps = max(1, uint64(r.u8()))
	}
	r.u8() // default_is_stmt
	l.lineBase, l.rng, l.opBase = int64(int8(r.u8())), uint64(r.u8()), r.u8()
	if r.bad || r.pos > program || l.rng == 0 || l.opBase == 0 {
		return dwFormatError("line range %d, first special opcode %d", l.rng, l.opBase)
	}
	l.lengths = append([]byte(nil), r.take(uint64(l.opBase-1))...)
	if r.pos > program {
		r.bad = true
	}
	h := dwBuf{b: r.b[:program], pos: min(r.pos, program), bad: r.bad}
	if err := l.readFiles(u, &h, at); err != nil {
		return err
	}
	r.pos = program
	return nil
}

// dwLineState is the state machine of a line number program, as far as a look-up
// by address needs it.
type dwLineState struct {
	addr, op uint64
	file     uint32
	line     uint32

	lo     uint64 // where the sequence begins
	first  int    // its first row
	sorted bool
	begun  bool
}

func (s *dwLineState) advance(l *dwLines, n uint64) {
	if l.maxOps == 1 {
		s.addr += n * l.minInst
		return
	}
	s.addr += l.minInst * ((s.op + n) / l.maxOps)
	s.op = (s.op + n) % l.maxOps
}

// runLines runs the program in r, which begins at at of the section.
func (u *dwUnit) runLines(r *dwBuf, at uint64, seqs *dwRanges) error {
	l := &u.lines
	start := dwLineState{file: 1, line: 1, sorted: true}
	s := start
	s.first = len(l.rows)
	var work int64
	for r.left() > 0 {
		if work++; work >= 4096 {
			if err := u.d.spend(work); err != nil {
				return err
			}
			work = 0
		}
		op := r.u8()
		if op >= l.opBase {
			n := uint64(op - l.opBase)
			s.advance(l, n/l.rng)
			s.line += uint32(l.lineBase + int64(n%l.rng))
			if err := u.addRow(&s); err != nil {
				return err
			}
			continue
		}
		switch op {
		case 0:
			body := dwBuf{b: r.take(r.uleb())}
			switch body.u8() {
			case dwLNEEnd:
				if err := u.endSequence(&s, seqs); err != nil {
					return err
				}
				s = start
				s.first = len(l.rows)
			case dwLNESetAddress:
				if n := body.left(); n == 4 || n == 8 {
					s.addr, s.op = body.uint(n), 0
				}
			case dwLNEDefineFile:
				// body stands at the end of what is read of b.
				if _, err := l.readFile4(u, &body, at+uint64(r.pos-len(body.b))); err != nil {
					return err
				}
			}
		case dwLNSCopy:
			if err := u.addRow(&s); err != nil {
				return err
			}
		case dwLNSAdvancePC:
			s.advance(l, r.uleb())
		case dwLNSAdvanceLine:
			s.line += uint32(r.sleb())
		case dwLNSSetFile:
			s.file = uint32(min(r.uleb(), 1<<32-1))
		case dwLNSConstAddPC:
			s.advance(l, uint64(255-l.opBase)/l.rng)
		case dwLNSFixedAdvance:
			s.addr, s.op = s.addr+uint64(r.u16()), 0
		default: // has no effect on a look-up, or is not known
			for range l.lengths[op-1] {
				r.uleb()
			}
		}
		if r.bad {
			return dwFormatError("line number program ends in an instruction")
		}
	}
	l.rows = l.rows[:s.first] // a sequence without an end has no last address
	l.rows, l.seqs = fit(u.charge, l.rows), fit(u.charge, l.seqs)
	return u.d.spend(work)
}

// addRow appends a row, unless it says nothing new.
func (u *dwUnit) addRow(s *dwLineState) error {
	l := &u.lines
	if !s.begun {
		s.begun, s.lo = true, s.addr
	}
	off := s.addr - s.lo
	if off > maxSpan {
		off = maxSpan // the end of the sequence will be as far: it is dropped then
	}
	row := dwRow{off: uint32(off), line: s.line, file: s.file}
	if row.line > 1<<31-1 {
		row.line = 0
	}
	if n := len(l.rows); n > s.first {
		last := &l.rows[n-1]
		switch {
		case row.off < last.off:
			s.sorted = false
		case row.off == last.off: // the later one holds
			*last = row
			return nil
		case row.line == last.line && row.file == last.file:
			return nil
		}
	}
	if len(l.rows) >= maxDebugRows {
		return fmt.Errorf("over %d rows: %w", maxDebugRows, ErrTooBig)
	}
	var err error
	if l.rows, err = grow(u.charge, l.rows); err == nil {
		l.rows = append(l.rows, row)
	}
	return err
}

// endSequence keeps the rows since the last end if they are code of this file.
func (u *dwUnit) endSequence(s *dwLineState, seqs *dwRanges) (err error) {
	l := &u.lines
	rows := l.rows[s.first:]
	if !s.sorted {
		slices.SortStableFunc(rows, func(a, b dwRow) int { return cmp.Compare(a.off, b.off) })
	}
	if len(rows) == 0 || !u.d.isCode(s.lo, s.addr) {
		l.rows = l.rows[:s.first]
		return nil
	}
	if l.seqs, err = grow(u.charge, l.seqs); err != nil {
		return err
	}
	if err := seqs.add(dwRange{lo: s.lo, hi: s.addr, id: uint32(len(l.seqs))}); err != nil {
		return err
	}
	l.seqs = append(l.seqs, dwSeq{s.lo, uint32(s.first), uint32(len(rows))})
	return nil
}
