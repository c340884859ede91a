package ptrace

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"procinsh/proc"
)

// interruptedCalls makes the warning about system calls that return EINTR since
// their threads were stopped; "" when there are none.
//
// The kernel restarts most calls as if nothing had happened. Those that return
// EINTR after any stop are epoll_wait and epoll_pwait, sigtimedwait, semtimedop,
// io_uring_enter, and recv and accept on a socket with a timeout: signal(7),
// "Interruption of system calls and library functions by stop signals". A thread
// that is in one shows it: EINTR is its result already.
func interruptedCalls(threads []RawThread) string {
	calls := map[string]int{}
	for i := range threads {
		t := &threads[i]
		if nr, _ := t.Syscall(); t.Interrupted() {
			calls[proc.SyscallName(nr, t.Code32).Or(fmt.Sprintf("system call %d", nr))]++
		}
	}
	if len(calls) == 0 {
		return ""
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		parts = append(parts, fmt.Sprintf("%s (%s)", name, count(calls[name], "thread")))
	}
	return "these calls return EINTR to the program because it was stopped: " + strings.Join(parts, ", ")
}

// count writes a number with its noun.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
