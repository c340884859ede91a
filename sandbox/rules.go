package sandbox

import "golang.org/x/sys/unix"

// rule is about one system call. It is allowed when all tests of one of the
// alternatives hold; without alternatives it is refused.
type rule struct {
	number  uint32
	allowed [][]test
}

// test holds when the argument, after the mask, is one of the values. An int of the
// call is looked at as the kernel does, by its low half.
type test struct {
	argument int
	mask     uint32 // 0: none
	values   []uint32
	wide     bool // a long: the high half must be 0
}

const (
	// x32Bit marks the calls of the x32 ABI, __X32_SYSCALL_BIT of asm/unistd.h.
	x32Bit = 0x40000000
	// firstUnknown is the first number that was not given to a call when this was
	// written. What comes later may change files, so it answers as on a kernel that
	// does not have it.
	firstUnknown = unix.SYS_RSEQ_SLICE_YIELD + 1
)

// forbidden are refused whatever their arguments.
var forbidden = []uint32{
	// Every way to change a file. One that is open for reading cannot be changed.
	unix.SYS_CREAT, unix.SYS_OPENAT2, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_TRUNCATE, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE,
	unix.SYS_RENAME, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2,
	unix.SYS_UNLINK, unix.SYS_UNLINKAT, unix.SYS_MKDIR, unix.SYS_MKDIRAT, unix.SYS_RMDIR,
	unix.SYS_LINK, unix.SYS_LINKAT, unix.SYS_SYMLINK, unix.SYS_SYMLINKAT, unix.SYS_MKNOD, unix.SYS_MKNODAT,
	unix.SYS_CHMOD, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2,
	unix.SYS_CHOWN, unix.SYS_FCHOWN, unix.SYS_LCHOWN, unix.SYS_FCHOWNAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
	unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT,
	unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT, unix.SYS_UTIMENSAT, unix.SYS_FILE_SETATTR,
	unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	unix.SYS_BIND,   // makes the file of a UNIX socket
	unix.SYS_LISTEN, // binds a socket that is not
	unix.SYS_FLOCK,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,

	// What reaches into other processes.
	unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE,
	unix.SYS_PIDFD_GETFD, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_TKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO,
	unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETPARAM, unix.SYS_IOPRIO_SET,
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
	unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT, unix.SYS_PERF_EVENT_OPEN,

	// What would run something else.
	unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_CLONE3, unix.SYS_USELIB,

	// What changes the kernel, a mount or a namespace.
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_CREATE_MODULE,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR,
	unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	unix.SYS_UNSHARE, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS__SYSCTL, unix.SYS_SYSLOG,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_IOPL, unix.SYS_IOPERM,
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
}

// oTmpfile is O_TMPFILE without O_DIRECTORY, include/uapi/asm-generic/fcntl.h.
const oTmpfile = 0o20000000

// socketTypes are the bits of a socket's type, SOCK_TYPE_MASK of include/linux/net.h.
const socketTypes = 0xf

// namespaces are the flags of clone(2) that make new ones.
const namespaces = unix.CLONE_NEWCGROUP | unix.CLONE_NEWIPC | unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID |
	unix.CLONE_NEWUSER | unix.CLONE_NEWUTS

// rules are those of the process pid.
func rules(pid int) []rule {
	var all []rule
	for _, number := range forbidden {
		all = append(all, rule{number: number})
	}
	only := func(number uint32, alternatives ...[]test) {
		all = append(all, rule{number, alternatives})
	}
	is := func(argument int, values ...uint32) test { return test{argument: argument, values: values} }
	readOnly := func(argument int) test {
		return test{argument: argument, mask: unix.O_ACCMODE | unix.O_CREAT | unix.O_TRUNC | oTmpfile, values: []uint32{unix.O_RDONLY}}
	}
	self := uint32(pid)

	only(unix.SYS_OPEN, []test{readOnly(1)})
	only(unix.SYS_OPENAT, []test{readOnly(2)})

	// What stacks and snapshots use. PTRACE_O_EXITKILL would end the target with the
	// tracer.
	only(unix.SYS_PTRACE,
		[]test{{argument: 0, wide: true, values: []uint32{unix.PTRACE_INTERRUPT, unix.PTRACE_GETREGSET, unix.PTRACE_GETEVENTMSG, unix.PTRACE_DETACH}}},
		[]test{{argument: 0, wide: true, values: []uint32{unix.PTRACE_SEIZE}}, {argument: 3, mask: unix.PTRACE_O_EXITKILL, values: []uint32{0}}})

	// The runtime interrupts its own threads.
	only(unix.SYS_KILL, []test{is(0, self)})
	only(unix.SYS_TGKILL, []test{is(0, self)})
	only(unix.SYS_CLONE, []test{{argument: 0, mask: unix.CLONE_THREAD | namespaces, values: []uint32{unix.CLONE_THREAD}}})
	only(unix.SYS_SETNS, []test{is(1, unix.CLONE_NEWNET)})
	only(unix.SYS_PRLIMIT64, []test{is(0, 0, self)})
	only(unix.SYS_SCHED_SETAFFINITY, []test{is(0, 0)})
	only(unix.SYS_SCHED_SETSCHEDULER, []test{is(0, 0)})
	only(unix.SYS_SETPRIORITY, []test{is(0, unix.PRIO_PROCESS), is(1, 0)})

	// CAP_NET_ADMIN stays for sock_diag; it shall not reach the network's settings, nor
	// have the kernel load a module. Whoever listens on a UNIX socket believes root:
	// what manages services or containers starts whatever it is asked to. Datagrams
	// can be sent to any such socket, from one of a pair as well.
	only(unix.SYS_SOCKET,
		[]test{is(0, unix.AF_INET, unix.AF_INET6), is(2, 0, unix.IPPROTO_TCP, unix.IPPROTO_UDP)},
		[]test{is(0, unix.AF_NETLINK), is(2, unix.NETLINK_SOCK_DIAG)})
	only(unix.SYS_SOCKETPAIR, []test{is(0, unix.AF_UNIX), {argument: 1, mask: socketTypes, values: []uint32{unix.SOCK_STREAM}}})
	// The packet filter's tables are options of every socket, from 64 on of IPPROTO_IP
	// and IPPROTO_IPV6, include/uapi/linux/netfilter_ipv4/ip_tables.h.
	only(unix.SYS_SETSOCKOPT,
		[]test{is(1, unix.SOL_SOCKET)},
		[]test{is(1, unix.IPPROTO_TCP), is(2, unix.TCP_NODELAY, unix.TCP_KEEPIDLE, unix.TCP_KEEPINTVL, unix.TCP_KEEPCNT, unix.TCP_USER_TIMEOUT)},
		[]test{is(1, unix.IPPROTO_IPV6), is(2, unix.IPV6_V6ONLY)})
	only(unix.SYS_GETSOCKOPT, []test{is(1, unix.SOL_SOCKET)})

	// What the sensors use: tables, programs and links that the process made itself,
	// nothing that has a name in a file system or belongs to others.
	only(unix.SYS_BPF, []test{is(0, unix.BPF_MAP_CREATE, unix.BPF_MAP_UPDATE_ELEM, unix.BPF_MAP_LOOKUP_AND_DELETE_BATCH, unix.BPF_MAP_FREEZE,
		unix.BPF_PROG_LOAD, unix.BPF_PROG_TEST_RUN, unix.BPF_BTF_LOAD, unix.BPF_OBJ_GET_INFO_BY_FD,
		unix.BPF_RAW_TRACEPOINT_OPEN, unix.BPF_LINK_CREATE, unix.BPF_ITER_CREATE)})

	// The names of the runtime's memory, and how exactly a snapshot's thread wakes up.
	only(unix.SYS_PRCTL, []test{is(0, unix.PR_SET_VMA, unix.PR_SET_TIMERSLACK)})

	// Descriptors, but no lease on a file, no lock, no attribute, nobody who gets
	// signals of it.
	only(unix.SYS_FCNTL, []test{is(1, unix.F_DUPFD, unix.F_DUPFD_CLOEXEC, unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_SETFL)})
	only(unix.SYS_IOCTL, []test{is(1, unix.PIDFD_GET_INFO, unix.TCGETS)})
	return all
}
