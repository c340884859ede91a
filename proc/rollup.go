package proc

import "bytes"

// Rollup is smaps_rollup, bytes. Hugetlb pages are in none of the four.
type Rollup struct {
	RSS     uint64
	PSS     uint64
	Private uint64 // Private_Clean + Private_Dirty
	Swap    uint64
}

// ReadRollup returns the sums of the whole address space. A kernel thread has
// none: all are 0.
//
// Errors: ErrGone; fs.ErrPermission; fs.ErrNotExist before Linux 4.14; *ParseError.
// Effect: the kernel walks the page tables of the target, a tenth of the cost of smaps.
// Source: /proc/PID/smaps_rollup, proc_pid_smaps(5), fs/proc/task_mmu.c.
func (p *Process) ReadRollup() (Rollup, error) {
	var r Rollup
	_, err := p.readSpace("smaps_rollup", false, func(fd int) (int, error) {
		var buf [2048]byte // about 800 bytes
		text, _, err := readAll(fd, buf[:], 0)
		if err != nil || len(text) == 0 {
			return 0, err
		}
		var ok bool
		if r, ok = parseRollup(text); !ok {
			return len(text), &ParseError{File: "smaps_rollup"}
		}
		return len(text), nil
	})
	return r, err
}

// parseRollup parses the text: a line like one of maps, then those of smaps. All
// five sums must be there.
func parseRollup(b []byte) (Rollup, bool) {
	var r Rollup
	var seen [5]bool
	for len(b) > 0 {
		var l []byte
		l, b, _ = bytes.Cut(b, []byte{'\n'})
		var to *uint64
		var k int
		switch {
		case hasKey(l, "Rss:"):
			to, k = &r.RSS, 0
		case hasKey(l, "Pss:"):
			to, k = &r.PSS, 1
		case hasKey(l, "Private_Clean:"):
			to, k = &r.Private, 2
		case hasKey(l, "Private_Dirty:"):
			to, k = &r.Private, 3
		case hasKey(l, "Swap:"):
			to, k = &r.Swap, 4
		default:
			continue
		}
		v, ok := lineKB(l)
		if !ok || seen[k] {
			return Rollup{}, false
		}
		seen[k] = true
		*to += v
	}
	if seen != [5]bool{true, true, true, true, true} {
		return Rollup{}, false
	}
	return r, true
}
