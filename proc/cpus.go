package proc

import "bytes"

// Columns of a CPU line of /proc/stat, proc_stat(5). guest and guest_nice are
// left out: they are in user and nice already.
const (
	cpuUser = iota
	cpuNice
	cpuSystem
	cpuIdle
	cpuIOWait
	cpuIRQ
	cpuSoftIRQ
	cpuSteal
	cpuColumns
)

// parseCPUs counts the CPU lines of /proc/stat and returns the sums of the line
// of all. Steal counts as busy: the time went, to somebody else.
func parseCPUs(b []byte) (cores int, busy, idle uint64, ok bool) {
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		if !bytes.HasPrefix(line, []byte("cpu")) {
			break // they come first; the line of interrupts can be very long
		}
		if line = line[3:]; len(line) == 0 || line[0] != ' ' {
			cores++
			continue
		}
		var v [cpuColumns]uint64
		at := skipBlank(line, 0)
		for i := range v {
			n, next, is := parseUint(line, at)
			if !is {
				return 0, 0, 0, false
			}
			v[i], at = n, skipBlank(line, next)
		}
		busy = v[cpuUser] + v[cpuNice] + v[cpuSystem] + v[cpuIRQ] + v[cpuSoftIRQ] + v[cpuSteal]
		idle, ok = v[cpuIdle]+v[cpuIOWait], true
	}
	if !ok || cores == 0 {
		return 0, 0, 0, false
	}
	return cores, busy, idle, true
}
