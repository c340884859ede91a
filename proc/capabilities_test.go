package proc

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCapabilityNames(t *testing.T) {
	for _, c := range []struct {
		set  uint64
		want []string
	}{
		{0, []string{}},
		{1, []string{"CAP_CHOWN"}},
		{1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_CHECKPOINT_RESTORE | 1<<41, []string{"CAP_SYS_PTRACE", "CAP_CHECKPOINT_RESTORE", "CAP_41"}},
		{1 << 63, []string{"CAP_63"}},
	} {
		if got := CapabilityNames(c.set); !slices.Equal(got, c.want) || got == nil {
			t.Errorf("%#x: got %v, want %v", c.set, got, c.want)
		}
	}
	if len(capabilityNames) != unix.CAP_LAST_CAP+1 {
		t.Errorf("%d names for %d capabilities", len(capabilityNames), unix.CAP_LAST_CAP+1)
	}
	for n, name := range map[int]string{unix.CAP_SETPCAP: "CAP_SETPCAP", unix.CAP_NET_RAW: "CAP_NET_RAW", unix.CAP_SYS_ADMIN: "CAP_SYS_ADMIN",
		unix.CAP_AUDIT_READ: "CAP_AUDIT_READ", unix.CAP_PERFMON: "CAP_PERFMON", unix.CAP_BPF: "CAP_BPF", unix.CAP_SYSLOG: "CAP_SYSLOG"} {
		if capabilityNames[n] != name {
			t.Errorf("capability %d is %s, want %s", n, capabilityNames[n], name)
		}
	}
}
