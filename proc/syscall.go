package proc

import "golang.org/x/sys/unix"

//go:generate go run ./internal/syscallgen

// x32Bit marks the calls of the x32 ABI, which share the numbers below 512 with
// x86-64: __X32_SYSCALL_BIT, arch/x86/include/uapi/asm/unistd.h.
const x32Bit = 0x40000000

// syscallName returns the system call a thread waits in, by the table names. It
// is unknown for "running", for "-1" (stopped in user mode) and for a number the
// table does not have.
//
// Source: /proc/PID/task/TID/syscall, proc_pid_syscall(5).
func syscallName(text []byte, names []string) Opt[string] {
	number, end, ok := parseUint(text, 0)
	if !ok || end < len(text) && text[end] != ' ' && text[end] != '\n' {
		return Opt[string]{}
	}
	number &^= x32Bit
	if number >= uint64(len(names)) || names[number] == "" {
		return Opt[string]{}
	}
	return Some(names[number])
}

// names returns the table of system calls that fits the process. The file does
// not tell by which entry a call was made, so the class of the executable
// decides. It is looked at again after exec.
func (p *Process) names(st *stat) []string {
	if p.table == nil || p.tableStack != st.stack {
		p.table, p.tableStack = syscallsAMD64, st.stack
		if p.class32() {
			p.table = syscalls386
		}
	}
	return p.table
}

// class32 tells whether the executable is a 32-bit ELF file. When it cannot be
// read it is taken for a 64-bit one, as nearly all are.
func (p *Process) class32() bool {
	fd, err := openAt(p.dir, p.path("exe"), unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return false
	}
	defer closeFD(fd)
	const class, class32 = 4, 1 // EI_CLASS, ELFCLASS32: elf(5)
	var head [class + 1]byte
	n, err := readRaw(fd, head[:])
	return err == nil && n == len(head) && string(head[:class]) == "\x7fELF" && head[class] == class32
}
