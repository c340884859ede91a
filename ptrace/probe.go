package ptrace

import (
	"fmt"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

// noProcess is a number that no process has: the kernel gives none above
// PID_MAX_LIMIT, 4,194,304 (include/linux/threads.h).
const noProcess = 1 << 30

// Probe tells whether snapshots can be taken here. ok with a reason means not of
// every process.
//
// Effect: none. It asks the kernel to trace a process that cannot exist.
// Source: ptrace(2), "Ptrace access mode checking"; Yama.rst.
func Probe(procFS *proc.FS) (ok bool, reason string) {
	errno := ptrace(unix.PTRACE_SEIZE, noProcess, 0, 0)
	set, err := procFS.OwnCapabilities()
	if err != nil {
		set = 0 // the most careful answer
	}
	scope, err := procFS.YamaScope()
	return probed(errno, set>>unix.CAP_SYS_PTRACE&1 != 0, scope, err)
}

// probed judges what Probe found. A system call filter answers before the kernel
// looks for the process.
func probed(errno unix.Errno, capable bool, scope int, scopeErr error) (ok bool, reason string) {
	switch {
	case errno != unix.ESRCH:
		return false, fmt.Sprintf("ptrace(2) is refused whatever the target (%v), as a system call filter does.", errno)
	case scopeErr == nil && scope >= 3:
		return false, fmt.Sprintf("kernel.yama.ptrace_scope is %d: nobody may trace until the next boot.", scope)
	case capable:
		return true, ""
	case scopeErr != nil:
		return true, "Only of processes of the same user, if kernel.yama.ptrace_scope, which is unreadable, lets it; CAP_SYS_PTRACE allows all."
	case scope > 0:
		return false, fmt.Sprintf("kernel.yama.ptrace_scope is %d and CAP_SYS_PTRACE, which passes it by, is missing.", scope)
	}
	return true, "Only of processes of the same user: CAP_SYS_PTRACE allows all."
}
