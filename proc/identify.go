package proc

import (
	"fmt"
	"strconv"
)

// Identify returns which process has a number now, and its name (raw bytes of
// comm). It is for people who know only the number.
//
// Errors: ErrGone when none has it; ErrHidden; fs.ErrPermission (hidepid=1). A process that
// has ended, and a thread that leads no process, is only found out by OpenProcess.
// Source: fields 2 and 22 of /proc/PID/stat, proc_pid_stat(5).
func (fs *FS) Identify(pid int32) (ID, string, error) {
	text, err := fs.readFile(strconv.Itoa(int(pid))+"/stat", nil)
	if err != nil {
		return ID{}, "", fmt.Errorf("read %s/%d/stat: %w", fs.mount, pid, fs.absent(pid, err))
	}
	st, ok := parseStat(text)
	if !ok {
		return ID{}, "", &ParseError{File: "stat"}
	}
	return ID{PID: pid, StartTicks: st.start}, string(st.comm), nil
}
