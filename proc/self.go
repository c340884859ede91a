package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// OwnCapabilities returns the effective capabilities of the calling process.
//
// Source: CapEff of /proc/self/status, proc_pid_status(5).
func (fs *FS) OwnCapabilities() (uint64, error) {
	path := fs.mount + "/self/status"
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read own capabilities: %w", err)
	}
	for line := range bytes.Lines(text) {
		if hex, ok := bytes.CutPrefix(line, []byte("CapEff:")); ok {
			set, err := strconv.ParseUint(string(bytes.TrimSpace(hex)), 16, 64)
			if err == nil {
				return set, nil
			}
		}
	}
	return 0, &ParseError{File: "self/status"}
}
