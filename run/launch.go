package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

// How a command gets into its cgroup.
const (
	birthCgroup = "cgroup" // born there: clone3 with CLONE_INTO_CGROUP (5.7)
	birthJoin   = "join"   // this program goes there itself, then executes the command
	birthNone   = "none"   // no cgroup
)

// JoinArgument is the hidden first argument of this program that makes it Join.
const JoinArgument = "run-join"

// Join moves this process into the cgroup whose cgroup.procs is open as descriptor 3
// and becomes args[0] with the arguments args[1:]. It returns only when that fails.
func Join(args []string) error {
	if len(args) < 2 {
		return errors.New("nothing to execute")
	}
	if _, err := unix.Write(3, []byte("0")); err != nil {
		return fmt.Errorf("join the cgroup: %w", err)
	}
	unix.CloseOnExec(3)
	if err := syscall.Exec(args[0], args[1:], os.Environ()); err != nil {
		return fmt.Errorf("execute %s: %w", args[0], err)
	}
	return nil
}

// command is a program that is ready to be started.
type command struct {
	path  string
	argv  []string
	env   []string
	dir   *os.File
	stdio [3]int // descriptors of the child
	tty   bool   // stdio 0 is its terminal
	who   account
	group *group // nil: none
	birth string
}

// children starts processes and reaps all there are: those it started report to who
// waits for them, those that the kernel hands over (PR_SET_CHILD_SUBREAPER) just end.
// A process that uses it must start no other children: their exit would be taken.
type children struct {
	mu  sync.Mutex // held across a start, so that no pid is reaped before it is known
	own map[int]chan<- unix.WaitStatus
}

// start starts a command; its status is sent to exit, which needs room for one.
func (c *children) start(f *files, cmd *command, exit chan<- unix.WaitStatus) (proc.ID, error) {
	attr := &syscall.ProcAttr{
		Dir: fmt.Sprintf("/proc/self/fd/%d", cmd.dir.Fd()),
		Env: cmd.env,
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: cmd.tty, Ctty: 0},
	}
	for _, fd := range cmd.stdio {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	if os.Geteuid() == 0 {
		attr.Sys.Credential = &syscall.Credential{Uid: cmd.who.uid, Gid: cmd.who.gid, Groups: cmd.who.groups}
	}
	path, argv := cmd.path, cmd.argv
	if cmd.group != nil {
		name := cmd.group.path
		if cmd.birth == birthJoin {
			name += "/cgroup.procs"
			path, argv = "/proc/self/exe", append([]string{"procinsh", JoinArgument, cmd.path}, cmd.argv...)
		}
		flags := unix.O_RDONLY
		if cmd.birth == birthJoin {
			flags = unix.O_WRONLY
		}
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0)
		if err != nil {
			return proc.ID{}, fmt.Errorf("open the run's cgroup: %w", err)
		}
		defer unix.Close(fd)
		if cmd.birth == birthJoin {
			attr.Files = append(attr.Files, uintptr(fd))
		} else {
			attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, fd
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return proc.ID{}, err
	}
	c.own[pid] = exit
	// Also when it has ended already: nobody has reaped it yet.
	e, err := f.stat(int32(pid))
	if err != nil {
		return proc.ID{PID: int32(pid)}, nil
	}
	return e.id, nil
}

// reap takes the status of every child that has ended.
func (c *children) reap() {
	for {
		c.mu.Lock()
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if err == unix.EINTR {
			c.mu.Unlock()
			continue
		}
		if err != nil || pid <= 0 {
			c.mu.Unlock()
			return
		}
		if exit, ok := c.own[pid]; ok {
			delete(c.own, pid)
			exit <- status
		}
		c.mu.Unlock()
	}
}

// spawnError says in words why a command cannot be started, with the status that a
// shell would give.
type spawnError struct {
	status int // 126 or 127
	text   string
}

func (e *spawnError) Error() string { return e.text }

// findProgram resolves the program of a command as execvp(3) would: by PATH, or, with a
// slash, from the working directory.
//
// Errors: *spawnError.
func findProgram(name, path, dir string) (string, error) {
	if name == "" {
		return "", &spawnError{127, "no such command: the name is empty"}
	}
	if strings.ContainsRune(name, '/') {
		full := name
		if !filepath.IsAbs(full) {
			full = filepath.Join(dir, full)
		}
		return full, executable(full, name)
	}
	var denied error
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			continue // a relative one would mean another file in each folder
		}
		full := filepath.Join(d, name)
		switch err := executable(full, name); {
		case err == nil:
			return full, nil
		case err.(*spawnError).status == 126:
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", &spawnError{127, "no such command: " + name}
}

func executable(path, name string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return &spawnError{127, "no such command: " + name}
	case err != nil || info.IsDir() || info.Mode()&0o111 == 0:
		return &spawnError{126, "not executable: " + name}
	}
	return nil
}

// allowed tells whether a program is one of those that may be started: the file that is
// open, not its name.
func allowed(program *os.File, list []string) bool {
	info, err := program.Stat()
	if err != nil {
		return false
	}
	for _, path := range list {
		if a, err := os.Stat(path); err == nil && os.SameFile(a, info) {
			return true
		}
	}
	return false
}

// explain turns an error of the start into one for people.
func (cmd *command) explain(err error) error {
	if cmd.group != nil {
		// A group that is gone reads as ENOENT too.
		if _, gone := os.Stat(cmd.group.path); gone != nil {
			return &spawnError{126, "the run's cgroup was removed"}
		}
	}
	name := cmd.argv[0]
	switch {
	case errors.Is(err, unix.ENOENT):
		return &spawnError{127, "no such command: " + name + ", or the interpreter that it names"}
	case errors.Is(err, unix.ENOEXEC):
		return &spawnError{126, "not executable: " + name + " is no program and names no interpreter"}
	case errors.Is(err, unix.EACCES):
		return &spawnError{126, "not executable: user " + cmd.who.String() + " may not execute " + name + ", or may not enter the working directory"}
	}
	return &spawnError{126, "not executable: " + name + ": " + err.Error()}
}

func (a account) String() string {
	if a.name != "" {
		return a.name
	}
	return fmt.Sprint(a.uid)
}
