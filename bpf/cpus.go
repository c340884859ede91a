package bpf

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// maxCPUs bounds what a list of CPUs may name: CONFIG_NR_CPUS of x86-64.
const maxCPUs = 8192

// possibleCPUs returns the number of CPUs that the kernel has room for; their
// numbers are below it.
//
// Source: /sys/devices/system/cpu/possible, Documentation/admin-guide/cputopology.rst.
func possibleCPUs() (int, error) {
	const path = "/sys/devices/system/cpu/possible"
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", path, err)
	}
	n, err := parseCPUs(string(b))
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", path, err)
	}
	return n, nil
}

// parseCPUs returns one more than the highest number in a list like 0-3,8.
func parseCPUs(list string) (int, error) {
	highest := -1
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		low, err := strconv.ParseUint(from, 10, 32)
		if err != nil {
			return 0, fmt.Errorf("%q is no CPU list", list)
		}
		high, err := strconv.ParseUint(to, 10, 32)
		if err != nil || high < low || high >= maxCPUs {
			return 0, fmt.Errorf("%q is no CPU list", list)
		}
		highest = max(highest, int(high))
	}
	return highest + 1, nil
}
