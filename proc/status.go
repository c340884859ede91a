package proc

import "bytes"

// statusTGID returns the thread group of a status text: the PID of the process.
func statusTGID(b []byte) (int32, bool) {
	i := bytes.Index(b, []byte("\nTgid:"))
	if i < 0 {
		return 0, false
	}
	i = skipBlank(b, i+len("\nTgid:"))
	v, _, ok := parseUint(b, i)
	return int32(v), ok && v <= 1<<31-1
}
