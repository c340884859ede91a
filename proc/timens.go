package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// BootOffset returns what the reader's time namespace adds to the time since boot.
//
// Units:  the sum is what field 22 of stat counts, in ticks, rounded down; it is
// unsigned and wraps for a process older than the namespace says the host is.
// Absent: a kernel without time namespaces gives 0.
// Errors: those of reading the file; *ParseError.
// Source: /proc/PID/timens_offsets, time_namespaces(7), Linux 5.6.
func (fs *FS) BootOffset() (time.Duration, error) {
	var buf [256]byte
	fd, err := openAt(fs.dir, "self/timens_offsets", unix.O_RDONLY)
	if err != nil {
		return noOffset(err)
	}
	n, err := readRaw(fd, buf[:])
	closeFD(fd)
	if err != nil {
		return 0, fmt.Errorf("read self/timens_offsets: %w", err)
	}
	offset, ok := parseBootOffset(buf[:n])
	if !ok {
		return 0, &ParseError{File: "timens_offsets"}
	}
	return offset, nil
}

func noOffset(err error) (time.Duration, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return 0, fmt.Errorf("open self/timens_offsets: %w", err)
}

// parseBootOffset reads the line "boottime S NS"; NS is from 0 to 999,999,999, also
// when S is negative.
func parseBootOffset(b []byte) (time.Duration, bool) {
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) != 3 || string(f[0]) != "boottime" {
			continue
		}
		sec, err1 := strconv.ParseInt(string(f[1]), 10, 64)
		ns, err2 := strconv.ParseInt(string(f[2]), 10, 64)
		const most = (1<<63-1)/int64(time.Second) - 1
		if err1 != nil || err2 != nil || sec > most || sec < -most || ns < 0 || ns >= int64(time.Second) {
			return 0, false
		}
		return time.Duration(sec)*time.Second + time.Duration(ns), true
	}
	return 0, false
}
