package sandbox

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Piece is one protection.
type Piece struct {
	Active bool
	Reason string // why it is not, a sentence; "" when it is
}

// Report says what Enter did.
type Report struct {
	Capabilities string // why there are more of them than were to be kept, sentences; "" when all is as meant
	NoNewPrivs   Piece
	Seccomp      Piece
	// Admin has CAP_SYS_ADMIN at hand; nil when the process never had it, or has it
	// in effect all the time.
	Admin *Admin
}

// Complete tells whether every protection is active.
func (r Report) Complete() bool {
	return r.Capabilities == "" && r.NoNewPrivs.Active && r.Seccomp.Active
}

// Enter closes the sandbox. What has to be opened for writing, listened on or
// executed must be so before; there is no way back. It is called once, by a program
// without cgo.
//
// Shape: whatever cannot be had is named in the report, the rest is done.
// Effect: on all threads of the calling process, and on those that come; see
// capabilities.go and rules.go.
// Source: capabilities(7); PR_SET_NO_NEW_PRIVS (3.5); seccomp(2) with
// SECCOMP_FILTER_FLAG_TSYNC (3.17).
func Enter() Report {
	var r Report
	err := everywhere(unix.PR_SET_NO_NEW_PRIVS, 1, 0)
	if err != nil {
		r.NoNewPrivs.Reason = failed("prctl(PR_SET_NO_NEW_PRIVS)", err)
	} else {
		r.NoNewPrivs.Active = true
	}
	reasons, admin := dropCapabilities()
	r.Capabilities = strings.Join(reasons, " ")
	r.Admin = admin
	if errors.Is(err, unix.ENOTSUP) {
		// The C library starts threads with clone3, whose flags no filter can see.
		r.Seccomp.Reason = failed("The filter of system calls", err)
		return r
	}
	switch err := install(program(rules(unix.Getpid()))); {
	case err == nil:
		r.Seccomp.Active = true
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL):
		r.Seccomp.Reason = "This kernel cannot filter the system calls of all threads (CONFIG_SECCOMP_FILTER, 3.17)."
	default:
		r.Seccomp.Reason = failed("seccomp(2)", err)
	}
	return r
}

// everywhere is prctl(2) on every thread of the process.
func everywhere(option, a, b uintptr) error {
	if _, _, e := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, option, a, b, 0, 0, 0); e != 0 {
		return e
	}
	return nil
}

// failed is a sentence about a system call on all threads.
func failed(call string, err error) string {
	if errors.Is(err, unix.ENOTSUP) {
		return call + " for all threads takes a binary that was built without cgo."
	}
	return fmt.Sprintf("%s failed: %v.", call, err)
}
