package proc

import "fmt"

// ParseError says which kernel text did not have a form this package knows. It
// carries nothing of the text, which may be a target's.
type ParseError struct {
	File string // "stat", relative to the process or the mount
	Line int    // from 1; 0 when the file is one record
}

func (e *ParseError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s has an unknown form", e.File)
	}
	return fmt.Sprintf("%s:%d has an unknown form", e.File, e.Line)
}

// parseUint reads the decimal number at b[i:] and returns the position after it.
// It fails without a digit and above 2^64-1.
func parseUint(b []byte, i int) (v uint64, next int, ok bool) {
	from := i
	for ; i < len(b); i++ {
		c := uint64(b[i] - '0')
		if c > 9 {
			break
		}
		if i-from >= 19 && (v > (1<<64-1)/10 || v*10 > 1<<64-1-c) {
			return 0, from, false
		}
		v = v*10 + c
	}
	return v, i, i > from
}

// skipBlank returns the position of the first byte from i on that is no blank.
func skipBlank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
		i++
	}
	return i
}

// parseUint32 reads a number that is all there is.
func parseUint32(b []byte) (uint32, bool) {
	v, next, ok := parseUint(b, 0)
	return uint32(v), ok && next == len(b) && v <= 1<<32-1
}
