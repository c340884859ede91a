package proc

import "bytes"

// parseIO returns the storage bytes of /proc/PID/io, proc_pid_io(5).
func parseIO(b []byte) (IO, bool) {
	var v IO
	seen := 0
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		key, text, _ := bytes.Cut(line, []byte(": "))
		var field *uint64
		switch string(key) {
		case "read_bytes":
			field = &v.ReadBytes
		case "write_bytes":
			field = &v.WriteBytes
		default:
			continue
		}
		n, ok := parseCount(text)
		if !ok {
			return IO{}, false
		}
		*field = n.Or(0)
		seen++
	}
	if seen != 2 {
		return IO{}, false
	}
	return v, true
}
