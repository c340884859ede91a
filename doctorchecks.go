package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"procinsh/proc"
	"procinsh/ptrace"
	launcher "procinsh/run"
	"procinsh/sandbox"
)

// privileges are what a process may do, as far as the checks of the doctor ask.
type privileges struct {
	uid  int
	caps uint64 // in effect
}

func newPrivileges(files *proc.FS) privileges {
	set, err := files.OwnCapabilities()
	if err != nil {
		set = 0 // the most careful answer
	}
	return privileges{os.Geteuid(), set}
}

func (p privileges) has(capability int) bool { return p.caps>>capability&1 != 0 }

// get says how to come to capabilities.
func (p privileges) get(capabilities string) string {
	if p.uid != 0 {
		return "start procinsh with sudo, or give it " + capabilities + "."
	}
	return "this root lacks " + capabilities + ", as in a container: start procinsh outside, or add what is missing with --cap-add."
}

// checkList is about the list of processes.
func (p privileges) checkList(files *proc.FS) finding {
	const name = "list of processes"
	hides, err := files.ReadHiding()
	if err != nil {
		return lacks(name, statePartly, "How /proc is mounted cannot be read: "+err.Error()+".", "")
	}
	if hides == proc.HidesNothing || p.has(unix.CAP_SYS_PTRACE) {
		return works(name, "Every process of this PID namespace is listed.")
	}
	says := "/proc is mounted with hidepid=" + string(hides) + ": processes of other users are not listed."
	if hides == proc.HidesContents {
		says = "/proc is mounted with hidepid=" + string(hides) + ": processes of other users are listed without any detail."
	}
	return lacks(name, statePartly, says, p.get("CAP_SYS_PTRACE")+" A group can be let in with the mount option gid= too.")
}

// checkInside is about what only who may trace a process reads of it.
func (p privileges) checkInside() finding {
	const name = "memory, maps, descriptors"
	if p.has(unix.CAP_SYS_PTRACE) {
		return works(name, "Those of every process can be read.")
	}
	return lacks(name, statePartly, fmt.Sprintf("Only those of processes of %s can be read.", userText(p.uid)), p.get("CAP_SYS_PTRACE"))
}

func (p privileges) checkSnapshots(files *proc.FS) finding {
	const name = "stacks and snapshots"
	switch ok, reason := ptrace.Probe(files); {
	case ok && reason == "":
		return works(name, "Every process can be stopped for a snapshot.")
	case ok:
		return lacks(name, statePartly, reason, p.get("CAP_SYS_PTRACE"))
	default:
		return lacks(name, stateMissing, reason, p.get("CAP_SYS_PTRACE"))
	}
}

func checkYama(files *proc.FS, p privileges) finding {
	const name = "Yama"
	scope, err := files.YamaScope()
	switch {
	case err != nil:
		return lacks(name, statePartly, err.Error()+".", "make the file readable: it says who may trace.")
	case scope == 0:
		return works(name, "kernel.yama.ptrace_scope is 0, or there is no Yama: an owner may trace.")
	case scope >= 3:
		return lacks(name, stateMissing, "kernel.yama.ptrace_scope is 3: nobody may trace.", "set it lower and boot again: it cannot be lowered before.")
	case p.has(unix.CAP_SYS_PTRACE):
		return works(name, fmt.Sprintf("kernel.yama.ptrace_scope is %d, which CAP_SYS_PTRACE passes by.", scope))
	}
	return lacks(name, stateMissing, fmt.Sprintf("kernel.yama.ptrace_scope is %d: an owner may not trace.", scope),
		p.get("CAP_SYS_PTRACE")+" Else an administrator may choose to set it to 0.")
}

func (p privileges) checkKernelStacks() finding {
	const name = "kernel stacks"
	switch _, err := os.ReadFile("/proc/thread-self/stack"); {
	case err == nil:
		return works(name, "Where a thread waits inside the kernel can be read.")
	case errors.Is(err, fs.ErrNotExist):
		return lacks(name, stateMissing, "This kernel has none (CONFIG_STACKTRACE).", "")
	case p.has(unix.CAP_SYS_ADMIN):
		return lacks(name, stateMissing, fmt.Sprintf("They cannot be read in spite of CAP_SYS_ADMIN: %v.", errors.Unwrap(err)), "start procinsh in the first user namespace of the host, without a filter.")
	}
	return lacks(name, stateMissing, "They cannot be read; wait channels and system calls of own processes can.", p.get("CAP_SYS_ADMIN"))
}

func (p privileges) checkNamespaces() finding {
	const name = "other network namespaces"
	if p.has(unix.CAP_SYS_ADMIN) {
		return works(name, "Sockets of containers have exact peers.")
	}
	return lacks(name, statePartly, "Their sockets are read from /proc/PID/net as far as that is readable, UNIX sockets without peers.", p.get("CAP_SYS_ADMIN"))
}

// checkMappings opens a file through map_files, as the reader of symbols does.
func (p privileges) checkMappings() finding {
	const name, dir = "files behind mappings", "/proc/self/map_files/"
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) == 0 {
		err = fs.ErrNotExist
	}
	if err == nil {
		var file *os.File
		if file, err = os.Open(dir + entries[0].Name()); err == nil {
			file.Close()
			return works(name, "They are opened whatever their path means here: deleted ones, and those of containers.")
		}
	}
	need := "CAP_CHECKPOINT_RESTORE (Linux 5.9; before, CAP_SYS_ADMIN)"
	if p.has(unix.CAP_CHECKPOINT_RESTORE) || p.has(unix.CAP_SYS_ADMIN) {
		return lacks(name, statePartly, fmt.Sprintf("/proc/PID/map_files cannot be used: %v.", err), "")
	}
	return lacks(name, statePartly, "They are opened by path, so deleted files have no symbols.", p.get(need))
}

func checkTypes() finding {
	const name, path = "kernel types (BTF)", "/sys/kernel/btf/vmlinux"
	file, err := os.Open(path)
	if err == nil {
		file.Close()
		return works(name, path+" is there.")
	}
	help := "use a kernel with CONFIG_DEBUG_INFO_BTF (5.4): those of Debian 11, Ubuntu 20.10, Fedora 31, RHEL 8.2 and later have it."
	if !errors.Is(err, fs.ErrNotExist) {
		help = "make the file readable."
	}
	return lacks(name, stateMissing, fmt.Sprintf("%s: %v. Without it no sensor can be loaded.", path, errors.Unwrap(err)), help)
}

// checkRuns finds out how launched commands are held together, by doing it.
func (p privileges) checkRuns() finding {
	const name = "runs"
	s, err := launcher.Open(launcher.Options{})
	if err != nil {
		return lacks(name, stateMissing, "Commands cannot be launched: "+err.Error()+".", "")
	}
	c := s.Capabilities()
	s.Close(false)
	if c.Confidence == launcher.ConfidenceHigh && c.Reason == "" {
		return works(name, "Each gets a cgroup of its own: all of its processes are known and can be ended.")
	}
	if c.Confidence == launcher.ConfidenceHigh {
		return works(name, "Each gets a cgroup of its own; "+c.Reason+".")
	}
	why, help, _ := strings.Cut(c.Reason, "; ")
	if help == "" || p.uid == 0 {
		help = "mount cgroup version 2 so that procinsh may make groups below its own."
	}
	return lacks(name, statePartly, "Without a cgroup the processes of a run are found by a mark and by their parents: "+why+".", strings.TrimSuffix(help, ".")+".")
}

// checkDebugFiles never fails: names come from the files themselves as well.
func checkDebugFiles() finding {
	const name, dir = "debug files", "/usr/lib/debug"
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return works(name, "Separate ones are looked for in "+dir+".")
	}
	return works(name, "There are none in "+dir+". Functions are named by what a file itself has; lines and inlined functions of system libraries take their debug packages.")
}

// checkPeers asks for the owner of a socket of this process, as the server does for
// each client.
func checkPeers() finding {
	const name = "who asks on loopback"
	uid, err := ownSocketOwner()
	if err == nil && int(uid) != os.Geteuid() {
		err = fmt.Errorf("an own socket is said to be of user %d", uid)
	}
	if err != nil {
		return lacks(name, stateMissing, fmt.Sprintf("The kernel does not tell whose a connection is: %v. Every client on loopback is refused.", err),
			"use --listen unix:PATH, or a kernel with INET_DIAG or a readable /proc/net/tcp.")
	}
	return works(name, "The kernel tells whose a connection is.")
}

func ownSocketOwner() (uint32, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return 0, err
	}
	defer c.Close()
	address := func(a net.Addr) netip.AddrPort { return a.(*net.TCPAddr).AddrPort() }
	return proc.SocketOwner(address(c.LocalAddr()), address(c.RemoteAddr()))
}

// checkSandbox closes the sandbox of the server around this process.
func checkSandbox() finding {
	const name = "sandbox of the server"
	r := sandbox.Enter()
	if r.Complete() {
		return works(name, "It can be closed whole: capabilities, no_new_privs, filter of system calls.")
	}
	reasons := []string{r.Capabilities, r.NoNewPrivs.Reason, r.Seccomp.Reason}
	return lacks(name, statePartly, strings.Join(strings.Fields(strings.Join(reasons, " ")), " "), "use Linux 5.9 or later, with CONFIG_SECCOMP_FILTER.")
}
