package proc

import "strconv"

// Capabilities are the five sets of a thread leader; bit n is capability n.
type Capabilities struct {
	Inheritable, Permitted, Effective, Bounding, Ambient uint64
}

// capabilityNames is capabilities(7), include/uapi/linux/capability.h. The last
// three came with 5.8, 5.8 and 5.9; nothing was added up to 6.18.
var capabilityNames = [...]string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID",
	"CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_SETPCAP", "CAP_LINUX_IMMUTABLE",
	"CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_IPC_LOCK",
	"CAP_IPC_OWNER", "CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE",
	"CAP_SYS_PACCT", "CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_NICE", "CAP_SYS_RESOURCE",
	"CAP_SYS_TIME", "CAP_SYS_TTY_CONFIG", "CAP_MKNOD", "CAP_LEASE", "CAP_AUDIT_WRITE",
	"CAP_AUDIT_CONTROL", "CAP_SETFCAP", "CAP_MAC_OVERRIDE", "CAP_MAC_ADMIN", "CAP_SYSLOG",
	"CAP_WAKE_ALARM", "CAP_BLOCK_SUSPEND", "CAP_AUDIT_READ", "CAP_PERFMON", "CAP_BPF",
	"CAP_CHECKPOINT_RESTORE",
}

// CapabilityNames lists a set as "CAP_SYS_PTRACE", by bit. A bit that has no name
// yet is "CAP_41"; an empty set is an empty list.
func CapabilityNames(set uint64) []string {
	names := []string{}
	for n := range 64 {
		switch {
		case set>>n&1 == 0:
		case n < len(capabilityNames):
			names = append(names, capabilityNames[n])
		default:
			names = append(names, "CAP_"+strconv.Itoa(n))
		}
	}
	return names
}
