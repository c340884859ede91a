package elf

import (
	"bytes"
	"container/heap"
	"fmt"
	"io"
	"sort"
	"strings"
)

const (
	maxPerfMap      = 64 << 20 // bytes of a perf map that are read
	maxPerfMapNames = 32 << 20 // bytes of names and table kept of one perf map
	maxPerfMapLines = 1 << 20  // lines of one perf map, of any form
	maxPerfMapName  = 1024     // bytes of one name; a longer one is cut
	maxPerfMapLine  = 64 << 10 // bytes of one line; a longer one is skipped
	perfMapCost     = 32 + 32  // bytes of one entry beside its name
)

// PerfMap is what a just-in-time compiler says of the code it has made: the lines
// of a perf-PID.map. The zero PerfMap is empty. It is not safe for concurrent use
// while Read runs.
//
// Source: tools/perf/Documentation/jit-interface.txt of the kernel tree.
type PerfMap struct {
	entries []perfEntry // in the order of the file
	sorted  []perfSpan  // by start, without overlaps; nil until looked up
	lines   int
	kept    int // bytes
	full    bool
	read    int64 // bytes that are done with: whole lines, and pieces of a skipped one
	skip    bool  // inside a line that is skipped
	cut     string
}

type perfEntry struct {
	start, end uint64
	name       string
}

type perfSpan struct {
	start, end uint64
	entry      int
}

// Read reads the lines that were appended since the last Read. size is the size
// of the file now: when it is less than what was read, it is another map and
// everything is read again. A last line without a newline is left for later.
//
// Errors: what r returned; what was read until then is kept.
func (m *PerfMap) Read(r io.ReaderAt, size int64) error {
	if size < m.read {
		*m = PerfMap{}
	}
	if size > maxPerfMap {
		m.cut = fmt.Sprintf("only the first %d MiB of the perf map are read", maxPerfMap>>20)
		size = maxPerfMap
	}
	buf := make([]byte, maxPerfMapLine)
	have := 0
	for at := m.read; at < size && !m.full; {
		n, err := r.ReadAt(buf[have:min(int64(len(buf)), int64(have)+size-at)], at)
		at += int64(n)
		b := buf[:have+n]
		for {
			i := bytes.IndexByte(b, '\n')
			if i < 0 || m.full {
				break
			}
			if !m.skip {
				m.add(b[:i])
			}
			m.skip = false
			m.read += int64(i + 1)
			b = b[i+1:]
		}
		if len(b) == len(buf) { // a line that fills the buffer
			m.read += int64(len(b))
			m.skip, b = true, nil
		}
		have = copy(buf, b)
		if err != nil && err != io.EOF {
			return fmt.Errorf("read perf map: %w", err)
		}
		if n == 0 {
			break
		}
	}
	return nil
}

// add takes one line: start, size and name. Lines of any other form are skipped.
func (m *PerfMap) add(line []byte) {
	if m.lines++; m.lines > maxPerfMapLines {
		m.full = true
		m.cut = fmt.Sprintf("only the first %d lines of the perf map are read", maxPerfMapLines)
		return
	}
	start, rest, ok := hexField(line)
	if !ok {
		return
	}
	size, rest, ok := hexField(rest)
	if !ok || size == 0 || start+size < start {
		return
	}
	name := strings.ToValidUTF8(string(rest[:min(len(rest), maxPerfMapName)]), "\uFFFD")
	name = strings.TrimRight(name, "\r")
	if name == "" {
		return
	}
	if m.kept += perfMapCost + len(name); m.kept > maxPerfMapNames {
		m.kept -= perfMapCost + len(name)
		m.full = true
		m.cut = fmt.Sprintf("the perf map has more than %d MiB of names; the rest is left out", maxPerfMapNames>>20)
		return
	}
	m.entries = append(m.entries, perfEntry{start, start + size, name})
	m.sorted = nil
}

// hexField parses a hexadecimal number, with 0x or without, and the one blank
// behind it.
func hexField(b []byte) (v uint64, rest []byte, ok bool) {
	b = bytes.TrimLeft(b, " \t")
	if len(b) > 1 && b[0] == '0' && (b[1] == 'x' || b[1] == 'X') {
		b = b[2:]
	}
	i := 0
	for ; i < len(b); i++ {
		c := b[i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			c = 16
		}
		if c == 16 {
			break
		}
		if v>>60 != 0 {
			return 0, nil, false
		}
		v = v<<4 | uint64(c)
	}
	if i == 0 || i == len(b) || b[i] != ' ' && b[i] != '\t' {
		return 0, nil, false
	}
	return v, b[i+1:], true
}

// Warning returns what was left out, "" when nothing was.
func (m *PerfMap) Warning() string { return m.cut }

// Len returns the number of lines that are kept.
func (m *PerfMap) Len() int { return len(m.entries) }

// Lookup returns the name at a run-time address and how far behind the start of
// its code it is. Where lines overlap the later one counts: its code replaced the
// other's.
func (m *PerfMap) Lookup(address uint64) (name string, offset uint64, ok bool) {
	if m.sorted == nil {
		m.sorted = m.flatten()
	}
	i := sort.Search(len(m.sorted), func(i int) bool { return m.sorted[i].start > address }) - 1
	if i < 0 || address >= m.sorted[i].end {
		return "", 0, false
	}
	e := m.entries[m.sorted[i].entry]
	return e.name, address - e.start, true
}

// flatten returns the spans that each line still owns.
func (m *PerfMap) flatten() []perfSpan {
	type edge struct {
		at    uint64
		entry int
		open  bool
	}
	edges := make([]edge, 0, 2*len(m.entries))
	for i, e := range m.entries {
		edges = append(edges, edge{e.start, i, true}, edge{e.end, i, false})
	}
	sort.Slice(edges, func(i, j int) bool { return edges[i].at < edges[j].at })
	// The latest open line owns an address: a heap of lines, closed ones are
	// thrown away when they come to the top.
	var open lineHeap // container/heap: the highest line number first
	closed := make([]bool, len(m.entries))
	var spans []perfSpan
	for i := 0; i < len(edges); {
		at := edges[i].at
		for ; i < len(edges) && edges[i].at == at; i++ {
			if edges[i].open {
				heap.Push(&open, edges[i].entry)
			} else {
				closed[edges[i].entry] = true
			}
		}
		for len(open) > 0 && closed[open[0]] {
			heap.Pop(&open)
		}
		if n := len(spans); n > 0 && spans[n-1].end == ^uint64(0) {
			spans[n-1].end = at
		}
		if len(open) > 0 {
			spans = append(spans, perfSpan{at, ^uint64(0), open[0]})
		}
	}
	if spans == nil {
		spans = []perfSpan{}
	}
	return spans
}

type lineHeap []int

func (h lineHeap) Len() int           { return len(h) }
func (h lineHeap) Less(i, j int) bool { return h[i] > h[j] }
func (h lineHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *lineHeap) Push(x any)        { *h = append(*h, x.(int)) }
func (h *lineHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
