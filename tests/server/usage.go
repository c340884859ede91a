package server

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// CPUTime is what a process has used so far, its ended threads included.
func CPUTime(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	var ticks int64
	for _, text := range StatFields(b)[11:13] { // utime, stime
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100, nil
}

// StatFields are the fields of /proc/PID/stat from the state on.
func StatFields(b []byte) []string { return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])) }

// RSS is the memory of a process, in bytes.
func RSS(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.Fields(string(b))[1], 10, 64)
	return n * uint64(os.Getpagesize()), err
}
