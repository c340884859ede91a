package run

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

// ticksPerSecond is USER_HZ, which is 100 on x86-64 whatever the kernel's own HZ is.
const ticksPerSecond = 100

// files reads a mounted procfs, "/proc", or a fixture tree.
type files struct {
	mount string
	read  func(path string) ([]byte, error)
	link  func(path string) (string, error)
}

func newFiles(mount string) *files { return &files{mount: mount, read: os.ReadFile, link: os.Readlink} }

func (f *files) path(pid int32, name string) string {
	return f.mount + "/" + strconv.Itoa(int(pid)) + "/" + name
}

// entry is a process as /proc/PID/stat tells.
type entry struct {
	id      proc.ID
	parent  int32
	group   int32
	state   byte
	threads int32
	ticks   uint64 // user and system time
	environ bool   // its memory has one, empty or not
}

// between tells whether a process is in the middle of exec, or ends this moment: it has
// no environment, which only kernel threads and zombies have none of for long.
func (e *entry) between() bool {
	return !e.environ && e.state != 'Z' && e.state != 'X' && e.state != 'x'
}

// alive is false for a zombie without a living thread. The leader of one whose other
// threads run has the same letter; the kernel counts 0 or 1 threads of a dead one.
func (e *entry) alive() bool {
	switch e.state {
	case 'Z', 'X', 'x':
		return e.threads > 1
	}
	return true
}

// stat reads one process.
//
// Errors: proc.ErrGone.
// Source: /proc/PID/stat, proc_pid_stat(5).
func (f *files) stat(pid int32) (entry, error) {
	path := f.path(pid, "stat")
	b, err := f.read(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			err = proc.ErrGone
		}
		return entry{}, fmt.Errorf("read %s: %w", path, err)
	}
	e, ok := parseStat(b)
	if !ok || e.id.PID != pid {
		return entry{}, fmt.Errorf("read %s: not a line of stat", path)
	}
	return e, nil
}

// parseStat parses a line of stat. The name stands between the first "(" and the last
// ")" and may hold anything.
func parseStat(b []byte) (entry, bool) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 2 || end < open {
		return entry{}, false
	}
	pid, err := strconv.ParseInt(string(b[:open-1]), 10, 32)
	f := bytes.Fields(b[end+1:])
	if err != nil || pid < 1 || len(f) < 20 || len(f[0]) != 1 {
		return entry{}, false
	}
	var n [20]int64
	for _, i := range []int{1, 2, 11, 12, 17, 19} { // ppid, pgrp, utime, stime, threads, start
		v, err := strconv.ParseInt(string(f[i]), 10, 64)
		if err != nil {
			return entry{}, false
		}
		n[i] = v
	}
	if n[19] < 0 || n[11] < 0 || n[12] < 0 {
		return entry{}, false
	}
	return entry{
		id: proc.ID{PID: int32(pid), StartTicks: uint64(n[19])}, parent: int32(n[1]), group: int32(n[2]),
		state: f[0][0], threads: int32(n[17]), ticks: uint64(n[11]) + uint64(n[12]),
		environ: len(f) > 48 && string(f[48]) != "0", // env_end, since Linux 3.5
	}, true
}

// pids lists the numbers in the mount.
func (f *files) pids() ([]int32, error) {
	d, err := os.Open(f.mount)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.mount, err)
	}
	list := make([]int32, 0, len(names))
	for _, name := range names {
		if name[0] < '1' || name[0] > '9' {
			continue
		}
		if pid, err := strconv.ParseInt(name, 10, 32); err == nil {
			list = append(list, int32(pid))
		}
	}
	return list, nil
}

// marks are the values of the two variables of a run.
type marks struct{ id, owner string }

// marks reads what a process inherited. It is the environment at exec; a child that
// forked and executed nothing shows its parent's.
//
// Source: /proc/PID/environ, proc_pid_environ(5).
func (f *files) marks(pid int32) (m marks, err error) {
	b, err := f.read(f.path(pid, "environ"))
	if err != nil {
		return marks{}, err
	}
	for len(b) > 0 {
		var line []byte
		line, b, _ = bytes.Cut(b, []byte{0})
		if v, ok := bytes.CutPrefix(line, []byte(markID+"=")); ok && m.id == "" {
			m.id = string(v)
		}
		if v, ok := bytes.CutPrefix(line, []byte(markOwner+"=")); ok && m.owner == "" {
			m.owner = string(v)
		}
	}
	return m, nil
}

// exe is the file a process runs, without the kernel's remark that it was deleted.
func (f *files) exe(pid int32) (string, error) {
	path, err := f.link(f.path(pid, "exe"))
	return strings.TrimSuffix(path, " (deleted)"), err
}

// argv is the command line of a process.
func (f *files) argv(pid int32) []string {
	b, err := f.read(f.path(pid, "cmdline"))
	if err != nil || len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimRight(string(b), "\x00"), "\x00")
}

// memory is the memory that only this process accounts for: anonymous pages in RAM and
// in swap, bytes.
//
// Absent: unreadable, or a kernel before 4.5.
// Source: RssAnon and VmSwap of /proc/PID/status.
func (f *files) memory(pid int32) (rss uint64, own proc.Opt[uint64]) {
	b, err := f.read(f.path(pid, "status"))
	if err != nil {
		return 0, own
	}
	var anon, swap proc.Opt[uint64]
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "VmRSS" && name != "RssAnon" && name != "VmSwap" {
			continue
		}
		kb, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 53)
		if err != nil {
			continue
		}
		switch name {
		case "VmRSS":
			rss = kb << 10
		case "RssAnon":
			anon = proc.Some(kb << 10)
		case "VmSwap":
			swap = proc.Some(kb << 10)
		}
	}
	a, ok1 := anon.Get()
	s, ok2 := swap.Get()
	if !ok1 || !ok2 {
		return rss, own
	}
	return rss, proc.Some(a + s)
}

// FormatID writes an identity as pid-start: "1234-80716".
func FormatID(id proc.ID) string { return fmt.Sprintf("%d-%d", id.PID, id.StartTicks) }

// ParseID reads pid-start.
//
// Errors: invalid_process.
func ParseID(text string) (proc.ID, error) {
	a, b, ok := strings.Cut(text, "-")
	pid, err1 := strconv.ParseUint(a, 10, 31)
	start, err2 := strconv.ParseUint(b, 10, 64)
	id := proc.ID{PID: int32(pid), StartTicks: start}
	if !ok || err1 != nil || err2 != nil || pid == 0 || FormatID(id) != text {
		return proc.ID{}, fail(CodeInvalidProcess, "%q is no process: give pid-start, as in the list.", text)
	}
	return id, nil
}
