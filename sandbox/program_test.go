package sandbox

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// ask runs a program on a call as the kernel does.
func ask(t testing.TB, code []instruction, arch, number uint32, args ...uint64) uint32 {
	t.Helper()
	var data [64]byte // struct seccomp_data
	binary.NativeEndian.PutUint32(data[dataNumber:], number)
	binary.NativeEndian.PutUint32(data[dataArch:], arch)
	for i, a := range args {
		binary.NativeEndian.PutUint64(data[dataArgs+8*i:], a)
	}
	var a uint32
	for at := 0; at < len(code); at++ {
		switch i := code[at]; i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = binary.NativeEndian.Uint32(data[i.K:])
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= i.K
		case unix.BPF_JMP | unix.BPF_JA:
			at += int(i.K)
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			yes := a == i.K
			if i.Code&0xf0 == unix.BPF_JGE {
				yes = a >= i.K
			}
			if yes {
				at += int(i.Jt)
			} else {
				at += int(i.Jf)
			}
		case unix.BPF_RET | unix.BPF_K:
			return i.K
		default:
			t.Fatalf("instruction %d: %+v is none that a program of this package has", at, i)
		}
	}
	t.Fatalf("the program ran off its end")
	return 0
}

const ownPID = 4711

func TestProgramAnswers(t *testing.T) {
	code := program(rules(ownPID))
	if len(code) > 4096 { // BPF_MAXINSNS
		t.Fatalf("%d instructions, the kernel takes 4096", len(code))
	}
	const high = 1 << 32
	for _, c := range []struct {
		name   string
		number uint32
		args   []uint64
		want   uint32
	}{
		{"read", unix.SYS_READ, nil, allow},
		{"a BPF table", unix.SYS_BPF, []uint64{unix.BPF_MAP_CREATE}, allow},
		{"a BPF program", unix.SYS_BPF, []uint64{unix.BPF_PROG_LOAD}, allow},
		{"an iterator", unix.SYS_BPF, []uint64{unix.BPF_ITER_CREATE}, allow},
		{"a name for a BPF object", unix.SYS_BPF, []uint64{unix.BPF_OBJ_PIN}, refuse},
		{"a BPF object by its name", unix.SYS_BPF, []uint64{unix.BPF_OBJ_GET}, refuse},
		{"a BPF table by its number", unix.SYS_BPF, []uint64{unix.BPF_MAP_GET_FD_BY_ID}, refuse},
		{"a BPF program taken off a cgroup", unix.SYS_BPF, []uint64{unix.BPF_PROG_DETACH}, refuse},
		{"another program for a link", unix.SYS_BPF, []uint64{unix.BPF_LINK_UPDATE}, refuse},
		{"statistics of all BPF programs", unix.SYS_BPF, []uint64{unix.BPF_ENABLE_STATS}, refuse},
		{"a UDP socket", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, 0}, allow},
		{"an SCTP socket, for which a module is loaded", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, refuse},
		{"a UNIX socket", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, 0}, refuse},
		{"a UNIX socket for datagrams", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM, 0}, refuse},
		{"a socket of the kernel's ciphers", unix.SYS_SOCKET, []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, refuse},
		{"a vsock socket", unix.SYS_SOCKET, []uint64{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, refuse},
		{"a pair of sockets", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, 0}, allow},
		{"a pair of sockets for datagrams", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC, 0}, refuse},
		{"listen", unix.SYS_LISTEN, []uint64{5, 1}, refuse},
		{"setsockopt: keep alive", unix.SYS_SETSOCKOPT, []uint64{5, unix.SOL_SOCKET, unix.SO_KEEPALIVE}, allow},
		{"setsockopt: how long a client may stall", unix.SYS_SETSOCKOPT, []uint64{5, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT}, allow},
		{"setsockopt: one family", unix.SYS_SETSOCKOPT, []uint64{5, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY}, allow},
		{"setsockopt: congestion control, for which a module is loaded", unix.SYS_SETSOCKOPT, []uint64{5, unix.IPPROTO_TCP, unix.TCP_CONGESTION}, refuse},
		{"setsockopt: another protocol above TCP", unix.SYS_SETSOCKOPT, []uint64{5, unix.IPPROTO_TCP, unix.TCP_ULP}, refuse},
		{"setsockopt: the packet filter", unix.SYS_SETSOCKOPT, []uint64{5, unix.IPPROTO_IP, 64}, refuse},
		{"setsockopt: the packet filter of IPv6", unix.SYS_SETSOCKOPT, []uint64{5, unix.IPPROTO_IPV6, 64}, refuse},
		{"setsockopt: a multicast group", unix.SYS_SETSOCKOPT, []uint64{5, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP}, refuse},
		{"getsockopt: an error", unix.SYS_GETSOCKOPT, []uint64{5, unix.SOL_SOCKET, unix.SO_ERROR}, allow},
		{"getsockopt: the packet filter", unix.SYS_GETSOCKOPT, []uint64{5, unix.IPPROTO_IP, 64}, refuse},
		{"prctl: a name of memory", unix.SYS_PRCTL, []uint64{unix.PR_SET_VMA}, allow},
		{"prctl: how exactly it wakes up", unix.SYS_PRCTL, []uint64{unix.PR_SET_TIMERSLACK, 1}, allow},
		{"prctl: the core of another process", unix.SYS_PRCTL, []uint64{unix.PR_SCHED_CORE, unix.PR_SCHED_CORE_SHARE_TO, 1}, refuse},
		{"a TCP socket", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_STREAM, 0}, allow},
		{"a socket of sock_diag", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG}, allow},
		{"a socket of rtnetlink", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, refuse},
		{"a socket of the packet filter", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, refuse},
		{"a packet socket", unix.SYS_SOCKET, []uint64{unix.AF_PACKET, unix.SOCK_RAW, 0}, refuse},
		{"accept4", unix.SYS_ACCEPT4, nil, allow},
		{"process_vm_readv", unix.SYS_PROCESS_VM_READV, nil, allow},
		{"pidfd_open", unix.SYS_PIDFD_OPEN, nil, allow},
		{"kcmp", unix.SYS_KCMP, nil, allow},
		{"capset", unix.SYS_CAPSET, nil, allow},
		{"memfd_create", unix.SYS_MEMFD_CREATE, nil, allow},
		{"the last known call", firstUnknown - 1, nil, allow},
		{"the first unknown call", firstUnknown, nil, unknown},
		{"a number that x32 once had", 520, nil, unknown},
		{"read of x32", x32Bit | unix.SYS_READ, nil, refuse},
		{"execve of x32", x32Bit | 520, nil, refuse},
		{"number -1", 1<<32 - 1, nil, refuse},

		{"open to read", unix.SYS_OPEN, []uint64{0, unix.O_RDONLY | unix.O_CLOEXEC}, allow},
		{"open to write", unix.SYS_OPEN, []uint64{0, unix.O_WRONLY}, refuse},
		{"openat to read", unix.SYS_OPENAT, []uint64{1, 0, unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOFOLLOW}, allow},
		{"openat of a directory", unix.SYS_OPENAT, []uint64{1, 0, unix.O_RDONLY | unix.O_DIRECTORY}, allow},
		{"openat of a path alone", unix.SYS_OPENAT, []uint64{1, 0, unix.O_PATH | unix.O_DIRECTORY}, allow},
		{"openat, high half set, which the kernel drops", unix.SYS_OPENAT, []uint64{1, 0, high | unix.O_RDONLY}, allow},
		{"openat to write", unix.SYS_OPENAT, []uint64{1, 0, unix.O_WRONLY}, refuse},
		{"openat to write, high half set", unix.SYS_OPENAT, []uint64{1, 0, high | unix.O_WRONLY}, refuse},
		{"openat to read and write", unix.SYS_OPENAT, []uint64{1, 0, unix.O_RDWR}, refuse},
		{"openat with access mode 3", unix.SYS_OPENAT, []uint64{1, 0, 3}, refuse},
		{"openat that makes", unix.SYS_OPENAT, []uint64{1, 0, unix.O_RDONLY | unix.O_CREAT}, refuse},
		{"openat that empties", unix.SYS_OPENAT, []uint64{1, 0, unix.O_RDONLY | unix.O_TRUNC}, refuse},
		{"openat of a file without a name", unix.SYS_OPENAT, []uint64{1, 0, unix.O_TMPFILE | unix.O_RDWR}, refuse},
		{"O_TMPFILE alone", unix.SYS_OPENAT, []uint64{1, 0, unix.O_TMPFILE}, refuse},

		{"PTRACE_SEIZE", unix.SYS_PTRACE, []uint64{unix.PTRACE_SEIZE, 1, 0, unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEEXEC}, allow},
		{"PTRACE_SEIZE that would kill", unix.SYS_PTRACE, []uint64{unix.PTRACE_SEIZE, 1, 0, unix.PTRACE_O_EXITKILL | unix.PTRACE_O_TRACECLONE}, refuse},
		{"PTRACE_INTERRUPT", unix.SYS_PTRACE, []uint64{unix.PTRACE_INTERRUPT, 1}, allow},
		{"PTRACE_GETREGSET", unix.SYS_PTRACE, []uint64{unix.PTRACE_GETREGSET, 1, 1, 1<<64 - 1}, allow},
		{"PTRACE_GETEVENTMSG", unix.SYS_PTRACE, []uint64{unix.PTRACE_GETEVENTMSG, 1}, allow},
		{"PTRACE_DETACH", unix.SYS_PTRACE, []uint64{unix.PTRACE_DETACH, 1}, allow},
		{"PTRACE_DETACH, high half set", unix.SYS_PTRACE, []uint64{high | unix.PTRACE_DETACH, 1}, refuse},
		{"PTRACE_TRACEME", unix.SYS_PTRACE, []uint64{unix.PTRACE_TRACEME}, refuse},
		{"PTRACE_ATTACH", unix.SYS_PTRACE, []uint64{unix.PTRACE_ATTACH, 1}, refuse},
		{"PTRACE_CONT", unix.SYS_PTRACE, []uint64{unix.PTRACE_CONT, 1, 0, 9}, refuse},
		{"PTRACE_POKEDATA", unix.SYS_PTRACE, []uint64{unix.PTRACE_POKEDATA, 1}, refuse},
		{"PTRACE_POKEUSR", unix.SYS_PTRACE, []uint64{unix.PTRACE_POKEUSR, 1}, refuse},
		{"PTRACE_SETREGS", unix.SYS_PTRACE, []uint64{unix.PTRACE_SETREGS, 1}, refuse},
		{"PTRACE_SETREGSET", unix.SYS_PTRACE, []uint64{unix.PTRACE_SETREGSET, 1}, refuse},
		{"PTRACE_SETSIGINFO", unix.SYS_PTRACE, []uint64{unix.PTRACE_SETSIGINFO, 1}, refuse},
		{"PTRACE_SETSIGMASK", unix.SYS_PTRACE, []uint64{unix.PTRACE_SETSIGMASK, 1}, refuse},
		{"PTRACE_SETOPTIONS", unix.SYS_PTRACE, []uint64{unix.PTRACE_SETOPTIONS, 1}, refuse},
		{"PTRACE_KILL", unix.SYS_PTRACE, []uint64{unix.PTRACE_KILL, 1}, refuse},

		{"tgkill of an own thread", unix.SYS_TGKILL, []uint64{ownPID, ownPID + 1, 23}, allow},
		{"tgkill of another", unix.SYS_TGKILL, []uint64{1, 1, 0}, refuse},
		{"tgkill of another, high half set", unix.SYS_TGKILL, []uint64{high | 1, 1, 0}, refuse},
		{"kill of itself", unix.SYS_KILL, []uint64{ownPID, 6}, allow},
		{"kill of another", unix.SYS_KILL, []uint64{1, 0}, refuse},
		{"kill of the own group", unix.SYS_KILL, []uint64{0, 0}, refuse},
		{"kill of everybody", unix.SYS_KILL, []uint64{1<<64 - 1, 0}, refuse},
		{"kill of the own group by number", unix.SYS_KILL, []uint64{1<<64 - ownPID, 0}, refuse},

		{"a thread", unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_SYSVSEM | unix.CLONE_THREAD}, allow},
		{"a child", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, refuse},
		{"a child like vfork", unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_VFORK | uint64(unix.SIGCHLD)}, refuse},
		{"a thread in another namespace", unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_SIGHAND | unix.CLONE_THREAD | unix.CLONE_NEWNET}, refuse},
		{"setns of the network", unix.SYS_SETNS, []uint64{5, unix.CLONE_NEWNET}, allow},
		{"setns of mounts", unix.SYS_SETNS, []uint64{5, unix.CLONE_NEWNS}, refuse},
		{"setns of whatever it is", unix.SYS_SETNS, []uint64{5, 0}, refuse},
		{"own limits", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_NOFILE}, allow},
		{"limits of another", unix.SYS_PRLIMIT64, []uint64{1, unix.RLIMIT_NOFILE}, refuse},
		{"own scheduler", unix.SYS_SCHED_SETSCHEDULER, []uint64{0, 1}, allow},
		{"scheduler of another", unix.SYS_SCHED_SETSCHEDULER, []uint64{1, 1}, refuse},
		{"own CPUs", unix.SYS_SCHED_SETAFFINITY, []uint64{0, 8}, allow},
		{"CPUs of another", unix.SYS_SCHED_SETAFFINITY, []uint64{1, 8}, refuse},
		{"own nice", unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 0}, allow},
		{"nice of another", unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 1}, refuse},
		{"nice of a user", unix.SYS_SETPRIORITY, []uint64{unix.PRIO_USER, 0}, refuse},
		{"fcntl: another descriptor", unix.SYS_FCNTL, []uint64{3, unix.F_DUPFD_CLOEXEC}, allow},
		{"fcntl: a lease", unix.SYS_FCNTL, []uint64{3, unix.F_SETLEASE}, refuse},
		{"fcntl: a lock", unix.SYS_FCNTL, []uint64{3, unix.F_OFD_SETLK}, refuse},
		{"fcntl: who gets signals", unix.SYS_FCNTL, []uint64{3, unix.F_SETOWN, 1}, refuse},
		{"ioctl: ask a pidfd", unix.SYS_IOCTL, []uint64{3, unix.PIDFD_GET_INFO}, allow},
		{"ioctl: file attributes", unix.SYS_IOCTL, []uint64{3, unix.FS_IOC_SETFLAGS}, refuse},
		{"ioctl: type into a terminal", unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}, refuse},
	} {
		if got := ask(t, code, unix.AUDIT_ARCH_X86_64, c.number, c.args...); got != c.want {
			t.Errorf("%s: got %#x, want %#x", c.name, got, c.want)
		}
		if got := ask(t, code, unix.AUDIT_ARCH_I386, c.number, c.args...); got != refuse {
			t.Errorf("%s by 32-bit code: got %#x, want it refused", c.name, got)
		}
	}
}

// No number gets another's answer, whatever side of the tree it is on.
func TestProgramOfEveryNumber(t *testing.T) {
	code := program(rules(ownPID))
	conditional := map[uint32]bool{}
	for _, r := range rules(ownPID) {
		if len(r.allowed) > 0 {
			if conditional[r.number] || slices.Contains(forbidden, r.number) {
				t.Errorf("two rules about call %d", r.number)
			}
			conditional[r.number] = true
		}
	}
	for number := range uint32(firstUnknown + 100) {
		want := uint32(allow)
		switch {
		case conditional[number]:
			continue
		case slices.Contains(forbidden, number):
			want = refuse
		case number >= firstUnknown:
			want = unknown
		}
		if got := ask(t, code, unix.AUDIT_ARCH_X86_64, number); got != want {
			t.Errorf("call %d: got %#x, want %#x", number, got, want)
		}
	}
}

// A leaf longer than a condition can jump is reached and jumped over.
func TestProgramOfLongRules(t *testing.T) {
	long := rule{number: 10, allowed: [][]test{{{argument: 0, values: make([]uint32, 200)}}}}
	for i := range long.allowed[0][0].values {
		long.allowed[0][0].values[i] = uint32(1000 + i)
	}
	again := long
	again.number = 11
	code := program([]rule{again, long, {number: 12}})
	for _, c := range []struct {
		number uint32
		arg    uint64
		want   uint32
	}{{9, 0, allow}, {10, 1000, allow}, {10, 1199, allow}, {10, 1200, refuse}, {11, 1100, allow}, {11, 5, refuse}, {12, 1000, refuse}, {13, 0, allow}} {
		if got := ask(t, code, unix.AUDIT_ARCH_X86_64, c.number, c.arg); got != c.want {
			t.Errorf("call %d with %d: got %#x, want %#x", c.number, c.arg, got, c.want)
		}
	}
}
