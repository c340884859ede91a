package proc

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// Mapping is one line of maps, with what smaps says of it.
type Mapping struct {
	Start, End   uint64  // addresses, half-open
	Permissions  [4]byte // "r-xp"
	FileOffset   uint64  // bytes
	Major, Minor uint32  // device of the file
	Inode        uint64
	Path         string      // "" for anonymous memory; raw bytes; ends in " (deleted)" when Deleted
	Deleted      Opt[bool]   // the file has lost this name; unknown for what is no file and when it cannot be told
	RSS          Opt[uint64] // bytes, as the three below: known when smaps was read
	PSS          Opt[uint64]
	Swap         Opt[uint64]
	Dirty        Opt[uint64] // Shared_Dirty + Private_Dirty
}

// Bounds of one reading of maps or smaps. A target chooses how many mappings it
// has (vm.max_map_count goes to 2^31) and how long their names are.
const (
	maxMaps         = 200_000  // mappings
	maxMapLine      = 64 << 10 // bytes of a line; the rest of a longer path is left out
	maxMapPathBytes = 16 << 20 // bytes of all distinct paths
	maxMapLinks     = 10_000   // names that only a link of map_files tells; Deleted is unknown beyond
)

// ErrTruncated says that a result is good but stops at a cap; the text of the
// error names the cap.
var ErrTruncated = errors.New("cut")

// ReadMaps appends the mappings of the process to dst, from maps alone.
//
// Shape:  address order, no two overlap. A kernel thread has none and no error.
// Absent: RSS, PSS, Swap and Dirty are unknown. Deleted is unknown where the text
// ends in " (deleted)" and neither map_files nor the file system settles whether
// that is part of the name.
// Errors: ErrGone; fs.ErrPermission; with the mappings read so far *ParseError
// and ErrTruncated.
// Effect: none on the target but its mmap lock, for a page of text at a time; so a
// target that maps meanwhile is not seen at one instant.
// Source: /proc/PID/maps, proc_pid_maps(5), fs/proc/task_mmu.c; map_files since
// 3.3, for everyone who may trace since 4.3.
func (p *Process) ReadMaps(dst []Mapping) ([]Mapping, error) { return p.readMappings("maps", dst) }

var mapBuffers = sync.Pool{New: func() any { return new([maxMapLine]byte) }}

func (p *Process) readMappings(name string, dst []Mapping) ([]Mapping, error) {
	buf := mapBuffers.Get().(*[maxMapLine]byte)
	defer mapBuffers.Put(buf)
	m := mapReader{file: name, dst: dst, base: len(dst)}
	_, err := p.readSpace(name, false, func(fd int) (int, error) {
		m.reset()
		return m.readFD(fd, buf[:])
	})
	var form *ParseError
	if err != nil && !errors.Is(err, ErrTruncated) && !errors.As(err, &form) {
		return dst, err
	}
	if gone := p.resolveMapLinks(&m, maxMapLinks); gone != nil {
		return dst, gone
	}
	if err == nil && m.cut != "" {
		err = p.wrap(name, fmt.Errorf("%s: %w", m.cut, ErrTruncated))
	}
	return m.dst, err
}

// mapReader parses the text of maps and smaps, block by block.
type mapReader struct {
	file      string // for errors
	kindsOnly bool   // keep of a path only what mapKind looks at
	dst       []Mapping
	base      int // length of dst before this reading
	line      int
	path      string // of the last mapping that had one
	pathBytes int
	ambiguous []int // positions in dst of paths that the text does not settle
	cut       string
}

func (m *mapReader) reset() {
	m.dst, m.line, m.path, m.pathBytes, m.ambiguous, m.cut = m.dst[:m.base], 0, "", 0, m.ambiguous[:0], ""
}

// readFD reads fd to its end and returns how many bytes it saw.
func (m *mapReader) readFD(fd int, buf []byte) (int, error) {
	return m.read(func(b []byte) (int, error) { return readRaw(fd, b) }, buf)
}

// read calls next until it gives nothing, with buf as its only memory. The kernel
// hands out a page of whole lines at a time, so hardly a line is ever moved.
func (m *mapReader) read(next func([]byte) (int, error), buf []byte) (total int, err error) {
	have, skip := 0, false
	for {
		n, err := next(buf[have:])
		if err != nil {
			return total, err
		}
		if n == 0 {
			break
		}
		total += n
		block := buf[:have+n]
		if skip {
			nl := bytes.IndexByte(block, '\n')
			if nl < 0 {
				have = 0
				continue
			}
			block, skip = block[nl+1:], false
		}
		used, err := m.parse(block)
		if err != nil {
			return total, err
		}
		have = copy(buf, block[used:])
		if have == len(buf) {
			m.cut = fmt.Sprintf("a line of more than %d bytes", len(buf))
			if err := m.parseLine(buf); err != nil {
				return total, err
			}
			have, skip = 0, true
		}
	}
	if have > 0 { // no kernel leaves a line open
		if err := m.parseLine(buf[:have]); err != nil {
			return total, err
		}
	}
	if m.cut != "" {
		return total, fmt.Errorf("%s: %w", m.cut, ErrTruncated)
	}
	return total, nil
}

// parse takes the whole lines of b and returns how many bytes they are.
func (m *mapReader) parse(b []byte) (int, error) {
	at := 0
	for {
		nl := bytes.IndexByte(b[at:], '\n')
		if nl < 0 {
			return at, nil
		}
		if err := m.parseLine(b[at : at+nl]); err != nil {
			return at, err
		}
		at += nl + 1
	}
}

func (m *mapReader) parseLine(l []byte) error {
	m.line++
	// Keys of smaps begin with a capital, addresses are lower-case hex.
	if len(l) > 0 && l[0]-'A' < 26 {
		if len(m.dst) == m.base || !m.dst[len(m.dst)-1].figure(l) {
			return m.malformed()
		}
		return nil
	}
	return m.parseMapping(l)
}

func (m *mapReader) malformed() error { return &ParseError{File: m.file, Line: m.line} }

// mapPathColumn is where the kernel begins a path when the fields before it are
// short enough; a longer line has two blanks after its inode (show_vma_header_prefix
// and seq_pad). With it a path that begins with a blank is read right.
const mapPathColumn = 73

func (m *mapReader) parseMapping(l []byte) error {
	var v Mapping
	var major, minor uint64
	i, ok := 0, true
	field := func(end byte) uint64 {
		n, next := parseHex(l, i)
		ok = ok && next > i && next < len(l) && l[next] == end
		i = next + 1
		return n
	}
	v.Start, v.End = field('-'), field(' ')
	if !ok || v.Start >= v.End || i+5 > len(l) || l[i+4] != ' ' {
		return m.malformed()
	}
	v.Permissions = [4]byte(l[i : i+4])
	i += 5
	v.FileOffset, major, minor = field(' '), field(':'), field(' ')
	if !ok || major > 1<<32-1 || minor > 1<<32-1 {
		return m.malformed()
	}
	v.Major, v.Minor = uint32(major), uint32(minor)
	if v.Inode, i, ok = parseUint(l, i); !ok {
		return m.malformed()
	}
	start := max(mapPathColumn, i+2)
	if first := skipBlank(l, i); first < start || start > len(l) {
		start = first
	}
	path := l[start:]

	m.dropBefore(v.Start)
	if len(m.dst)-m.base >= maxMaps {
		return fmt.Errorf("more than %d mappings: %w", maxMaps, ErrTruncated)
	}
	if len(path) > 0 {
		unsettled := path[0] == '/' && (bytes.HasSuffix(path, deletedSuffix) || bytes.Contains(path, escapedNewline))
		if path[0] == '/' && !unsettled {
			v.Deleted = Some(false)
		}
		if unsettled && !m.kindsOnly {
			m.ambiguous = append(m.ambiguous, len(m.dst))
		}
		if v.Path, ok = m.intern(path); !ok {
			return fmt.Errorf("more than %d bytes of paths: %w", maxMapPathBytes, ErrTruncated)
		}
	}
	m.dst = append(m.dst, v)
	return nil
}

var (
	deletedSuffix  = []byte(" (deleted)")
	escapedNewline = []byte(`\012`) // a newline, or these four bytes: the kernel escapes no backslash
)

// dropBefore keeps the order of addresses. The text comes in pieces, and the
// kernel goes on after the address it ended at, so this is for a mapping that
// changed between two pieces: what was read last holds.
func (m *mapReader) dropBefore(start uint64) {
	n := len(m.dst)
	for n > m.base && m.dst[n-1].Start >= start {
		n--
	}
	m.dst = m.dst[:n]
	if n > m.base && m.dst[n-1].End > start {
		m.dst[n-1].End = start
	}
	for k := len(m.ambiguous); k > 0 && m.ambiguous[k-1] >= n; k-- {
		m.ambiguous = m.ambiguous[:k-1]
	}
}

// intern returns path as a string. Neighbours are mostly of one file, and a
// reader that hands in the slice of its last reading has most paths already.
func (m *mapReader) intern(path []byte) (string, bool) {
	if m.kindsOnly && path[0] != '[' {
		return "/", true
	}
	if string(path) == m.path {
		return m.path, true
	}
	if n := len(m.dst); n < cap(m.dst) {
		if old := m.dst[:n+1][n].Path; old == string(path) {
			m.path = old
			return old, true
		}
	}
	if m.pathBytes += len(path); m.pathBytes > maxMapPathBytes {
		return "", false
	}
	m.path = strings.Clone(string(path))
	return m.path, true
}

// readMapKinds is ReadMaps that keeps of the paths only what SummarizeMaps looks
// at: it allocates nothing once dst is large enough, and asks map_files nothing.
func (p *Process) readMapKinds(dst []Mapping) ([]Mapping, error) {
	buf := mapBuffers.Get().(*[maxMapLine]byte)
	defer mapBuffers.Put(buf)
	m := mapReader{file: "maps", kindsOnly: true, dst: dst, base: len(dst)}
	_, err := p.readSpace("maps", false, func(fd int) (int, error) {
		m.reset()
		return m.readFD(fd, buf[:])
	})
	return m.dst, err
}

// hexDigits has the value of each hex digit, 255 for any other byte.
var hexDigits = func() (t [256]byte) {
	for i := range t {
		t[i] = 255
	}
	for i, c := range "0123456789abcdef" {
		t[c] = byte(i)
	}
	return t
}()

// parseHex reads the hex number at b[i:], at most 16 digits, and returns the
// position after it; that is i when there is none.
func parseHex(b []byte, i int) (v uint64, next int) {
	for end := i + 16; i < len(b) && i < end; i++ {
		d := hexDigits[b[i]]
		if d > 15 {
			break
		}
		v = v<<4 | uint64(d)
	}
	return v, i
}
