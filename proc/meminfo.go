package proc

import "bytes"

// meminfo is what is used of /proc/meminfo, bytes.
type meminfo struct {
	total, used, swapTotal, swapUsed uint64
}

// parseMeminfo returns the memory of the host. Before Linux 3.14 there is no
// MemAvailable; what is free and what holds file pages stands for it.
//
// Source: proc_meminfo(5).
func parseMeminfo(b []byte) (meminfo, bool) {
	var total, free, available, buffers, cached, swapTotal, swapFree Opt[uint64]
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		key, text, _ := bytes.Cut(line, []byte(":"))
		var field *Opt[uint64]
		switch string(key) {
		case "MemTotal":
			field = &total
		case "MemFree":
			field = &free
		case "MemAvailable":
			field = &available
		case "Buffers":
			field = &buffers
		case "Cached":
			field = &cached
		case "SwapTotal":
			field = &swapTotal
		case "SwapFree":
			field = &swapFree
		default:
			continue
		}
		v, ok := parseKB(text[skipBlank(text, 0):])
		if !ok {
			return meminfo{}, false
		}
		*field = v
	}
	if !total.Known() || !free.Known() {
		return meminfo{}, false
	}
	usable, ok := available.Get()
	if !ok {
		usable = free.Or(0) + buffers.Or(0) + cached.Or(0)
	}
	return meminfo{
		total: total.Or(0), used: less(total.Or(0), usable),
		swapTotal: swapTotal.Or(0), swapUsed: less(swapTotal.Or(0), swapFree.Or(0)),
	}, true
}

// less returns a - b, not below 0: the numbers are not of one instant.
func less(a, b uint64) uint64 {
	if b > a {
		return 0
	}
	return a - b
}
