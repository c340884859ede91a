package proc

// pageSize is the unit of statm: PAGE_SIZE of x86-64, arch/x86/include/asm/page_types.h.
const pageSize = 4096

// parseStatm returns the first two numbers of /proc/PID/statm in bytes. statm is
// exact where VmRSS of status may be off by the counters each CPU has not yet
// added up.
func parseStatm(b []byte) (vms, rss uint64, ok bool) {
	vms, i, ok := parseUint(b, 0)
	if !ok || i >= len(b) || b[i] != ' ' {
		return 0, 0, false
	}
	rss, i, ok = parseUint(b, i+1)
	if !ok || i < len(b) && b[i] != ' ' && b[i] != '\n' || vms > (1<<64-1)/pageSize || rss > (1<<64-1)/pageSize {
		return 0, 0, false
	}
	return vms * pageSize, rss * pageSize, true
}
