package proc

import (
	"bytes"
	"strconv"
)

// Limit is a line of /proc/PID/limits; unknown is unlimited.
type Limit struct {
	Name string // "Max open files"
	Unit string // "files"; "" for the two priorities, which have none
	Soft Opt[uint64]
	Hard Opt[uint64]
}

// limitNameWidth is the column of the names; they have blanks inside
// (proc_pid_limits, fs/proc/base.c).
const limitNameWidth = 25

// parseLimits parses the text of /proc/PID/limits, proc_pid_limits(5), 2.6.24.
func parseLimits(b []byte) ([]Limit, bool) {
	head, b, _ := bytes.Cut(b, []byte{'\n'})
	if !bytes.HasPrefix(head, []byte("Limit ")) {
		return nil, false
	}
	limits := make([]Limit, 0, 16) // RLIM_NLIMITS
	for len(b) > 0 {
		var l []byte
		l, b, _ = bytes.Cut(b, []byte{'\n'})
		if len(l) <= limitNameWidth || l[limitNameWidth] != ' ' {
			return nil, false
		}
		f := bytes.Fields(l[limitNameWidth:])
		if len(f) < 2 || len(f) > 3 {
			return nil, false
		}
		v := Limit{Name: string(bytes.TrimSpace(l[:limitNameWidth]))}
		var ok1, ok2 bool
		v.Soft, ok1 = parseLimit(f[0])
		v.Hard, ok2 = parseLimit(f[1])
		if !ok1 || !ok2 || v.Name == "" {
			return nil, false
		}
		if len(f) == 3 {
			v.Unit = string(f[2])
		}
		limits = append(limits, v)
	}
	return limits, true
}

func parseLimit(b []byte) (Opt[uint64], bool) {
	if string(b) == "unlimited" {
		return Opt[uint64]{}, true
	}
	v, err := strconv.ParseUint(string(b), 10, 64)
	return Some(v), err == nil
}
