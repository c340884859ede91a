package proc

// ReadSmaps appends the mappings with RSS, PSS, swap and dirty bytes.
//
// Shape, errors and source are those of ReadMaps, from /proc/PID/smaps (2.6.14).
// Units:  bytes; the kernel prints kB. Pages of hugetlb are in none of the four.
// Absent: unknown when the kernel does not print the line.
// Effect: the kernel walks the page tables of the target, under its mmap lock: some
// 3 µs a mapping and more for large ones. For sums use ReadRollup.
func (p *Process) ReadSmaps(dst []Mapping) ([]Mapping, error) { return p.readMappings("smaps", dst) }

// figure takes a "Key:   123 kB" line of smaps.
func (m *Mapping) figure(l []byte) bool {
	// One mapping has more than twenty of these lines: most are told by a byte.
	var to *Opt[uint64]
	switch l[0] {
	case 'R':
		if hasKey(l, "Rss:") {
			to = &m.RSS
		}
	case 'P':
		if hasKey(l, "Pss:") {
			to = &m.PSS
		} else if hasKey(l, "Private_Dirty:") {
			to = &m.Dirty
		}
	case 'S':
		if hasKey(l, "Swap:") {
			to = &m.Swap
		} else if hasKey(l, "Shared_Dirty:") {
			to = &m.Dirty
		}
	}
	if to == nil {
		return true
	}
	v, ok := lineKB(l)
	if !ok {
		return false
	}
	if to == &m.Dirty { // the sum of two lines
		v += to.Or(0)
	}
	*to = Some(v)
	return true
}

func hasKey(l []byte, key string) bool { return len(l) >= len(key) && string(l[:len(key)]) == key }

// lineKB returns the number of a "Key:   123 kB" line in bytes.
func lineKB(l []byte) (uint64, bool) {
	i := 0
	for i < len(l) && l[i] != ':' {
		i++
	}
	v, next, ok := parseUint(l, skipBlank(l, i+1))
	if !ok || string(l[next:]) != " kB" || v >= 1<<53 {
		return 0, false
	}
	return v << 10, true
}
