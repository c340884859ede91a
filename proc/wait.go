package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	maxWaitThreads = 4096     // threads of a process whose waits are read
	maxWaitText    = 16 << 10 // bytes of one file of a thread; a kernel stack is at most 64 lines
)

// Wait is where one thread stands, as far as the kernel tells without stopping it.
type Wait struct {
	TID         int32
	StartTicks  uint64
	Name        string // raw bytes
	State       byte
	WaitChannel Opt[string] // kernel function; unknown when running or not permitted
	KernelStack []string    // innermost first, "poll_schedule_timeout+0x37/0x90"; nil when not permitted or not told
	Position    Position
	Err         error // of reading Position; nil when the kernel said that the thread runs
}

// Position is the user side of a thread that waits in the kernel: the system call
// it is in and where it will return to. The zero Position is that of a thread that
// runs. Two equal ones say that the thread has not moved, or is back at the very
// same place.
type Position struct {
	Blocked   bool
	Number    int64     // of the system call; -1 in none: a page fault, a stop
	Arguments [6]uint64 // 0 when in none
	SP, PC    uint64
}

// ReadTIDs returns the threads of the process in order, at most 4,096, and tells
// whether there are more.
//
// Errors: ErrGone; fs.ErrPermission.
func (p *Process) ReadTIDs() (tids []int32, more bool, err error) {
	dir, err := p.openFile("task", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, false, err
	}
	defer closeFD(dir)
	err = entries(dir, make([]byte, 32<<10), func(name []byte) bool {
		if len(tids) == maxWaitThreads {
			more = true
			return false
		}
		tid, _ := parsePID(name)
		tids = append(tids, tid)
		return true
	})
	if gone := p.Check(); gone != nil {
		return nil, false, gone
	}
	if err != nil {
		return nil, false, p.wrap("task", err)
	}
	slices.Sort(tids)
	return tids, more, nil
}

// ReadWait reads where a thread of the process stands.
//
// Absent: what is not permitted is unknown; the position of a thread that runs is zero.
// Errors: ErrGone when the thread has ended.
// Effect: none. The kernel looks at the thread without waking it.
// Source: /proc/PID/task/TID/{stat,wchan,stack,syscall}; stack takes CAP_SYS_ADMIN
// and CONFIG_STACKTRACE, syscall CONFIG_HAVE_ARCH_TRACEHOOK and the right to trace;
// fs/proc/base.c, 2.6.29.
func (p *Process) ReadWait(tid int32) (Wait, error) {
	name := "task/" + strconv.Itoa(int(tid))
	dir, err := p.openFile(name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return Wait{}, threadGone(err)
	}
	defer closeFD(dir)
	if cap(p.buf) < maxWaitText {
		p.buf = make([]byte, maxWaitText)
	}
	buf := p.buf[:cap(p.buf)]
	read := func(file []byte) ([]byte, error) {
		text, err := slurp(dir, file, buf)
		if vanished(err) {
			return nil, p.wrap(name, ErrGone)
		}
		return text, err
	}
	text, err := read(nameStat)
	if err != nil {
		return Wait{}, p.wrap(name, err)
	}
	st, ok := parseStat(text)
	if !ok {
		return Wait{}, p.wrap(name, &ParseError{File: "stat"})
	}
	w := Wait{TID: tid, StartTicks: st.start, Name: string(st.comm), State: st.state}
	if st.ended() {
		return w, nil
	}
	if text, err = read(nameSyscall); err == nil {
		if w.Position, ok = parsePosition(text); !ok {
			err = &ParseError{File: "syscall"}
		}
	}
	switch {
	case errors.Is(err, ErrGone):
		return Wait{}, err
	case err != nil:
		w.Err = p.wrap(name+"/syscall", err)
	}
	if text, err = read(nameWchan); err == nil {
		if f := parseWchan(text); f != nil {
			w.WaitChannel = Some(string(f))
		}
	}
	if text, err = p.readKernelStack(dir, buf); err == nil {
		w.KernelStack = parseKernelStack(text)
	}
	return w, nil
}

// readKernelStack reads the stack file of a thread. The kernel asks for CAP_SYS_ADMIN
// of who opened it, not of who reads it: proc_pid_stack of fs/proc/base.c, 4.19.
func (p *Process) readKernelStack(dir int, buf []byte) ([]byte, error) {
	var fd int
	var err error
	p.fs.asAdmin(func() bool {
		fd, err = openRaw(dir, &nameStack[0], unix.O_RDONLY)
		return true
	})
	if err != nil {
		return nil, err
	}
	n, err := readRaw(fd, buf)
	closeFD(fd)
	return buf[:n], err
}

var nameStack = []byte("stack\x00")

func threadGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return err
}

// ReadPosition reads the position of a thread again.
//
// Errors: ErrGone when the thread has ended; fs.ErrPermission.
func (p *Process) ReadPosition(tid int32) (Position, error) {
	name := "task/" + strconv.Itoa(int(tid)) + "/syscall"
	var buf [512]byte
	text, err := p.slurp(name, buf[:], 0)
	if err != nil {
		if err == unix.ENOENT || err == unix.ESRCH {
			err = ErrGone
		}
		return Position{}, p.wrap(name, err)
	}
	pos, ok := parsePosition(text)
	if !ok {
		return Position{}, p.wrap(name, &ParseError{File: "syscall"})
	}
	return pos, nil
}

// SyscallName returns the name of a system call of this process's threads by the
// table of x86-64, or of i386 for a thread in 32-bit code.
func SyscallName(number int64, code32 bool) Opt[string] {
	names := syscallsAMD64
	if code32 {
		names = syscalls386
	} else {
		number &^= x32Bit
	}
	if number < 0 || number >= int64(len(names)) || names[number] == "" {
		return Opt[string]{}
	}
	return Some(names[number])
}

// parsePosition reads "running", "-1 0xSP 0xPC" or the number, six arguments, SP
// and PC.
//
// Source: proc_pid_syscall(5), proc_pid_syscall of fs/proc/base.c.
func parsePosition(b []byte) (Position, bool) {
	b = bytes.TrimSuffix(b, []byte{'\n'})
	if string(b) == "running" {
		return Position{}, true
	}
	fields := bytes.Split(b, []byte{' '})
	number, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil || number < -1 {
		return Position{}, false
	}
	pos := Position{Blocked: true, Number: number}
	values := [8]*uint64{6: &pos.SP, 7: &pos.PC}
	for i := range pos.Arguments {
		values[i] = &pos.Arguments[i]
	}
	want := values[:]
	if number == -1 {
		want = values[6:]
	}
	if len(fields) != 1+len(want) {
		return Position{}, false
	}
	for i, text := range fields[1:] {
		hex, ok := bytes.CutPrefix(text, []byte("0x"))
		v, next := parseHex(hex, 0)
		if !ok || next == 0 || next != len(hex) {
			return Position{}, false
		}
		*want[i] = v
	}
	return pos, true
}

// parseKernelStack returns the functions of a stack text. Its lines begin with a
// place for the address, which is always zero: "[<0>] do_select+0x63a/0x930".
func parseKernelStack(b []byte) []string {
	lines := []string{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		if _, after, ok := strings.Cut(line, "] "); ok && strings.HasPrefix(line, "[<") {
			line = after
		}
		if line == "" {
			continue
		}
		lines = append(lines, line)
	}
	return lines
}
