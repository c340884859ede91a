package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Self returns the calling process as it is listed, and st_dev of the mount that it
// reads.
//
// Errors: those of reading the mount; *ParseError.
func (fs *FS) Self() (id ID, device uint64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fs.dir, &st); err != nil {
		return ID{}, 0, fmt.Errorf("stat %s: %w", fs.mount, err)
	}
	text, err := os.ReadFile(fs.mount + "/self/stat")
	if err != nil {
		return ID{}, 0, fmt.Errorf("read own stat: %w", err)
	}
	parsed, ok := parseStat(text)
	pid, okPID := parsePID(text[:max(0, bytes.IndexByte(text, ' '))])
	if !ok || !okPID {
		return ID{}, 0, &ParseError{File: "self/stat"}
	}
	return ID{PID: pid, StartTicks: parsed.start}, st.Dev, nil
}

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
