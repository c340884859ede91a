package ptrace

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

func TestProbed(t *testing.T) {
	unreadable := errors.New("unreadable")
	tests := []struct {
		name    string
		errno   unix.Errno
		capable bool
		scope   int
		err     error
		ok      bool
		reason  string
	}{
		{"root", unix.ESRCH, true, 0, nil, true, ""},
		{"root with scope 2", unix.ESRCH, true, 2, nil, true, ""},
		{"root with an unreadable scope", unix.ESRCH, true, 0, unreadable, true, ""},
		{"nobody may", unix.ESRCH, true, 3, nil, false, "ptrace_scope is 3"},
		{"filtered", unix.EPERM, true, 0, nil, false, "system call filter"},
		{"filtered away", unix.ENOSYS, true, 0, nil, false, "system call filter"},
		{"owner", unix.ESRCH, false, 0, nil, true, "same user"},
		{"owner with scope 1", unix.ESRCH, false, 1, nil, false, "CAP_SYS_PTRACE"},
		{"owner with scope 2", unix.ESRCH, false, 2, nil, false, "CAP_SYS_PTRACE"},
		{"owner with an unreadable scope", unix.ESRCH, false, 0, unreadable, true, "unreadable"},
	}
	for _, tt := range tests {
		ok, reason := probed(tt.errno, tt.capable, tt.scope, tt.err)
		if ok != tt.ok || (reason == "") != (tt.reason == "") || !strings.Contains(reason, tt.reason) {
			t.Errorf("%s: %v %q, want %v %q", tt.name, ok, reason, tt.ok, tt.reason)
		}
	}
}

func TestProbe(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: knows what is allowed")
	}
	procFS, err := proc.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer procFS.Close()
	if ok, reason := Probe(procFS); !ok || reason != "" {
		t.Errorf("root is told %v %q", ok, reason)
	}
}
