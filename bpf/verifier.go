package bpf

import (
	"bytes"
	"fmt"
	"strings"
)

// VerifierError is a program that the kernel did not take.
type VerifierError struct {
	Prog string // function name in the object
	Log  string // what the verifier wrote; "" if it was never asked
	Err  error  // of the first attempt, which had no log
}

func (e *VerifierError) Error() string {
	if line := e.LastLine(); line != "" {
		return fmt.Sprintf("load program %s: %v: %s", e.Prog, e.Err, line)
	}
	return fmt.Sprintf("load program %s: %v", e.Prog, e.Err)
}

func (e *VerifierError) Unwrap() error { return e.Err }

// LastLine returns the line of the log that says why, without the statistics
// that some kernels write after it.
func (e *VerifierError) LastLine() string {
	lines := strings.Split(strings.TrimSpace(e.Log), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		l := strings.TrimSpace(lines[i])
		if l == "" || strings.HasPrefix(l, "processed ") || strings.HasPrefix(l, "verification time ") || strings.HasPrefix(l, "stack depth ") {
			continue
		}
		return l
	}
	return ""
}

// logText is a log buffer up to its end.
func logText(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}
