package proc

import "bytes"

// PF_KTHREAD, include/linux/sched.h: the only sure mark of a kernel thread.
const flagKernelThread = 0x00200000

// stat is a line of /proc/PID/stat or /proc/PID/task/TID/stat, proc_pid_stat(5).
// The numbers in comments are the fields as the manual counts them.
type stat struct {
	pid        int32  // 1
	comm       []byte // 2, raw, part of the text that was parsed
	state      byte   // 3
	ppid       int32  // 4
	pgrp       int32  // 5
	session    int32  // 6
	tty        int32  // 7, device number
	flags      uint32 // 9, PF_*
	minorFault uint64 // 10
	majorFault uint64 // 12
	utime      uint64 // 14, clock ticks
	stime      uint64 // 15, clock ticks
	priority   int32  // 18
	nice       int32  // 19
	threads    int32  // 20
	start      uint64 // 22, clock ticks since boot
	vms        uint64 // 23, bytes
	pages      uint64 // 24, of memory, as the kernel estimates
	stack      uint64 // 28, where the stack began; 0 without permission
	processor  int32  // 39, last CPU
	policy     uint32 // 41, scheduling policy
}

// ended tells whether the task itself has no memory and no descriptors any more.
func (s *stat) ended() bool { return s.state == 'Z' || s.state == 'X' || s.state == 'x' }

// Positions in the list of numbers that follow the state: field 4 is number 0.
const (
	statPPID      = 0
	statPGRP      = 1
	statSession   = 2
	statTTY       = 3
	statFlags     = 5
	statMinFlt    = 6
	statMajFlt    = 8
	statUTime     = 10
	statSTime     = 11
	statPriority  = 14
	statNice      = 15
	statThreads   = 16
	statStart     = 18
	statVMS       = 19
	statPages     = 20
	statStack     = 24
	statProcessor = 35
	statPolicy    = 37
	statNumbers   = 38
)

// parseStat parses a stat line. The name stands between the first "(" and the
// last ")": it may itself hold brackets, blanks and newlines.
func parseStat(b []byte) (stat, bool) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 2 || end < open || end+4 >= len(b) || b[open-1] != ' ' || b[end+1] != ' ' || b[end+3] != ' ' {
		return stat{}, false
	}
	pid, ok := parsePID(b[:open-1])
	if !ok {
		return stat{}, false
	}
	var f [statNumbers]uint64
	i := end + 4
	for k := range f {
		negative := i < len(b) && b[i] == '-'
		if negative {
			i++
		}
		v, next, ok := parseUint(b, i)
		if !ok || next < len(b) && b[next] != ' ' && b[next] != '\n' {
			return stat{}, false
		}
		if negative {
			v = -v
		}
		f[k], i = v, next+1
	}
	return stat{
		pid: pid, comm: b[open+1 : end], state: b[end+2],
		ppid: int32(f[statPPID]), pgrp: int32(f[statPGRP]), session: int32(f[statSession]), tty: int32(f[statTTY]),
		flags: uint32(f[statFlags]), minorFault: f[statMinFlt], majorFault: f[statMajFlt],
		utime: f[statUTime], stime: f[statSTime],
		priority: int32(f[statPriority]), nice: int32(f[statNice]), threads: int32(f[statThreads]),
		start: f[statStart], vms: f[statVMS], pages: f[statPages], stack: f[statStack], processor: int32(f[statProcessor]), policy: uint32(f[statPolicy]),
	}, true
}
