package proc

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrGone says that the process has ended, is a zombie without a live thread, or
// that its PID now names another process.
var ErrGone = errors.New("process is gone")

// ID names one process for good.
type ID struct {
	PID        int32
	StartTicks uint64 // clock ticks since boot, field 22 of /proc/PID/stat
}

// Process is an open /proc/PID directory whose start time was checked. Not safe
// for concurrent use.
//
// The handle itself names one process for good (the kernel binds it to the struct
// pid, not to the number): after the process was reaped every read through it
// fails, also when the number is in use again.
type Process struct {
	id   ID
	fs   *FS
	dir  int    // O_PATH handle of /proc/PID, -1 when closed
	live string // "" or "task/TID/" of a live thread, when the leader has ended
	buf  []byte // of Check and the readers of one short file
	task []byte // directory entries of task

	// Of ReadSample.
	tids       []int32
	threads    []Thread     // as read last
	table      []string     // system call names, nil: not chosen
	tables     ThreadSource // nil: threads come from the texts
	tasks      []TaskThread // as the tables gave them last
	tableStack uint64       // field 28 of stat when the table was chosen: another one after exec
}

// OpenProcess opens the process that id names. The number of a thread that leads
// no process is gone: it names none.
//
// Errors: ErrGone; ErrHidden; fs.ErrPermission (hidepid=1).
func (fs *FS) OpenProcess(id ID) (*Process, error) {
	if id.PID <= 0 {
		return nil, fmt.Errorf("open %s/%d: %w", fs.mount, id.PID, ErrGone)
	}
	fd, err := openAt(fs.dir, strconv.Itoa(int(id.PID)), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, fmt.Errorf("open %s/%d: %w", fs.mount, id.PID, fs.absent(id.PID, err))
	}
	p := &Process{id: id, fs: fs, dir: fd}
	if err := p.open(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Process) open() error {
	if err := p.Check(); err != nil {
		return err
	}
	// /proc/TID of a thread can be opened although no listing shows it. Only
	// status tells it from a process.
	text, err := p.readFile("status", p.buf)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	if tgid, ok := statusTGID(text); ok && tgid != p.id.PID {
		return p.wrap("status", ErrGone)
	}
	return nil
}

// ID returns the identity it was opened with.
func (p *Process) ID() ID { return p.id }

// Check tells whether the process is still the one that was opened: call it after
// each read. It returns ErrGone when it is not.
//
// It also finds out whether the leader has ended while other threads live. Then
// the readers of memory and descriptors go through one of those.
func (p *Process) Check() error {
	st, err := p.stat()
	if err != nil {
		return err
	}
	if st.start != p.id.StartTicks {
		return p.wrap("stat", ErrGone)
	}
	if !st.ended() {
		p.live = ""
		return nil
	}
	return p.findLive()
}

// stat reads the stat of the leader; comm is valid until the next use of p.
func (p *Process) stat() (stat, error) {
	data, err := p.slurp("stat", p.buf, 0)
	if err != nil {
		return stat{}, p.wrap("stat", p.fs.absent(p.id.PID, err))
	}
	p.buf = data
	st, ok := parseStat(data)
	if !ok {
		return stat{}, p.wrap("stat", &ParseError{File: "stat"})
	}
	return st, nil
}

// findLive keeps the thread in live, or looks for another one that lives.
func (p *Process) findLive() error {
	if p.live != "" && p.lives(p.live) {
		return nil
	}
	p.live = ""
	fd, err := openAt(p.dir, "task", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		if err == unix.ENOENT || err == unix.ESRCH {
			err = ErrGone
		}
		return p.wrap("task", err)
	}
	defer closeFD(fd)
	if p.task == nil {
		p.task = make([]byte, 4096)
	}
	err = entries(fd, p.task, func(tid []byte) bool {
		dir := "task/" + string(tid) + "/"
		if p.lives(dir) {
			p.live = dir
		}
		return p.live == ""
	})
	if err != nil && err != unix.ENOENT && err != unix.ESRCH {
		return p.wrap("task", err)
	}
	if p.live != "" {
		return nil
	}
	// A thread that execs ends all others and takes the number of the leader. In
	// between it may be listed under a number that it has no more.
	if st, err := p.stat(); err == nil && st.start == p.id.StartTicks && !st.ended() {
		return nil
	}
	return p.wrap("stat", ErrGone)
}

func (p *Process) lives(task string) bool {
	data, err := p.slurp(task+"stat", p.buf, 0)
	if err != nil {
		return false
	}
	p.buf = data
	st, ok := parseStat(data)
	return ok && !st.ended()
}

// Close releases the handle.
func (p *Process) Close() error {
	if p.dir < 0 {
		return nil
	}
	fd := p.dir
	p.dir = -1
	return unix.Close(fd)
}

// throughThread are the entries of /proc/PID that belong to memory, descriptors
// or file system context: an ended leader has none of them, a live thread has.
// map_files exists for the leader alone.
var throughThread = []string{"auxv", "cmdline", "cwd", "environ", "exe", "fd", "fdinfo", "maps", "mem", "ns", "pagemap", "root", "smaps", "smaps_rollup", "statm"}

// path is where name ("maps", "fd/3") is read: below /proc/PID, or below the
// directory of a live thread when the leader has ended.
func (p *Process) path(name string) string {
	if p.live == "" {
		return name
	}
	first, _, _ := strings.Cut(name, "/")
	if slices.Contains(throughThread, first) {
		return p.live + name
	}
	return name
}

// openFile opens name below /proc/PID; the caller closes it with closeFD.
func (p *Process) openFile(name string, flags int) (int, error) {
	fd, err := p.retry(name, func(path string) (int, error) { return openAt(p.dir, path, flags) })
	if err != nil {
		return -1, err
	}
	return fd, nil
}

// readFile reads name below /proc/PID whole, into buf, which it grows. Owners of
// files that a target can make large use readFileMax or openFile.
//
// Errors: ErrGone; those of open(2) and read(2) (fs.ErrPermission; ESRCH and
// ENOENT of a process that lives: it has no such thing, as a kernel thread has
// no maps).
func (p *Process) readFile(name string, buf []byte) ([]byte, error) {
	data, _, err := p.readFileMax(name, buf, 0)
	return data, err
}

// readFileMax is readFile that stops after max bytes and tells whether there
// were more.
func (p *Process) readFileMax(name string, buf []byte, max int) (data []byte, more bool, err error) {
	_, err = p.retry(name, func(path string) (int, error) {
		fd, err := openAt(p.dir, path, unix.O_RDONLY)
		if err != nil {
			return 0, err
		}
		data, more, err = readAll(fd, buf, max)
		closeFD(fd)
		return 0, err
	})
	return data, more, err
}

// readLink returns the text of the link name below /proc/PID.
func (p *Process) readLink(name string) (string, error) {
	var text [4096]byte // PATH_MAX: the kernel gives no longer one
	n, err := p.retry(name, func(path string) (int, error) {
		var b [pathPart]byte
		if len(path) >= len(b) {
			return 0, unix.ENAMETOOLONG
		}
		copy(b[:], path)
		return readlinkRaw(p.dir, &b[0], text[:])
	})
	if err != nil {
		return "", err
	}
	return string(text[:n]), nil
}

// retry runs f on the path of name. When that says there is no such process or
// file, it looks whether the process is gone, or the thread it was read through,
// in which case it tries once more through another.
func (p *Process) retry(name string, f func(path string) (int, error)) (int, error) {
	path := p.path(name)
	n, err := f(path)
	if err == unix.ESRCH || err == unix.ENOENT {
		if gone := p.Check(); gone != nil {
			return 0, p.wrap(name, gone)
		}
		if again := p.path(name); again != path {
			n, err = f(again)
		}
	}
	if err != nil {
		return 0, p.wrap(name, err)
	}
	return n, nil
}

// wrap is the one place that names the file of an error. An error that was
// wrapped already keeps its first name.
func (p *Process) wrap(name string, err error) error {
	if errors.Is(err, ErrGone) {
		err = ErrGone
	}
	return fmt.Errorf("read %s/%d/%s: %w", p.fs.mount, p.id.PID, name, err)
}

// slurp reads a file of the process with the bare error of the kernel.
func (p *Process) slurp(name string, buf []byte, max int) ([]byte, error) {
	fd, err := openAt(p.dir, name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	data, _, err := readAll(fd, buf, max)
	closeFD(fd)
	return data, err
}
