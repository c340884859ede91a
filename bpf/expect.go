package bpf

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Expect says what the sensors would be, without loading anything: idle when nothing
// speaks against them, else unavailable. Only Open finds out what a kernel refuses
// that describes its types to a process with the right capabilities.
func Expect() SensorStatus {
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); errors.Is(err, fs.ErrNotExist) {
		return explain(errNoBTF)
	}
	if has, initial := mayLoad(); !has || !initial {
		return explain(unix.EPERM)
	}
	return SensorStatus{State: StateIdle}
}
