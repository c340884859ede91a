package proc

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// PF_EXITING, include/linux/sched.h.
const flagExiting = 0x00000004

// spaceTries bounds how often a file of the address space is read because the
// space went away below the reading, as it does when the target execs. Between
// two readings is a pause of 1 ms, then 2, 4 and 8: as long as an exec may take.
const spaceTries = 5

// readSpace reads name, a file that shows the address space of the process: maps,
// smaps, smaps_rollup, environ, auxv. Such a file stays bound to the space it was
// opened on. When that ends, by exec or exit, the file ends too, without an error
// and maybe in the middle. So after read has come to the end the first byte must
// still be there, else everything is read again from a new space.
//
// read returns how many bytes it saw. It is called again from the start.
// emptyIsWhole says that a space may have nothing to show, as an environment may
// be empty. The result is false without an error for a kernel thread, which has
// no space.
func (p *Process) readSpace(name string, emptyIsWhole bool, read func(fd int) (int, error)) (bool, error) {
	for try := range spaceTries {
		if try > 0 {
			time.Sleep(time.Millisecond << (try - 1))
		}
		empty := false
		fd, err := p.openFile(name, unix.O_RDONLY)
		switch {
		case err == nil:
			n, err := read(fd)
			whole := err == nil && n > 0 && stillThere(fd)
			closeFD(fd)
			if whole {
				return true, nil
			}
			if err != nil && err != unix.ESRCH {
				return true, p.wrap(name, err)
			}
			empty = err == nil && n == 0
		case errors.Is(err, unix.ENOENT) && try == 0:
			// For a moment of an exec, or with a kernel that has no such file.
			continue
		case !errors.Is(err, unix.ESRCH):
			return false, err
		}
		kernel, err := p.spaceEnded(name)
		if kernel || err != nil {
			return false, err
		}
		if empty && emptyIsWhole && p.environmentEmpty() {
			return true, nil
		}
	}
	// Rare: the target execs each time faster than one file is read.
	return false, p.wrap(name, fmt.Errorf("the address space was replaced during each of %d readings: %w", spaceTries, unix.EAGAIN))
}

// stillThere reads the first byte again. For a file of seq_file the kernel makes
// one record for that, not a page.
func stillThere(fd int) bool {
	var b [1]byte
	for {
		n, err := unix.Pread(fd, b[:], 0)
		if err != unix.EINTR {
			return n == 1
		}
	}
}

// environmentEmpty tells whether an environment without a byte is all there is. In
// the middle of exec it is as empty: create_elf_tables sets both ends to the same
// address, then counts the strings. Where the code starts is set after that.
func (p *Process) environmentEmpty() bool {
	const code, start, end = 26 - 3, 50 - 3, 51 - 3 // startcode, env_start and env_end of stat, 3.5
	text, err := p.slurp("stat", p.buf, 0)
	if err != nil {
		return false
	}
	p.buf = text
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	return len(f) <= end || bytes.Equal(f[start], f[end]) && string(f[code]) != "0"
}

// spaceEnded says why a process shows no address space: it is a kernel thread, or
// gone, or neither and worth another try. A leader that is just ending, but not
// yet a zombie, is passed over for another thread.
func (p *Process) spaceEnded(name string) (kernel bool, err error) {
	if err := p.Check(); err != nil {
		return false, p.wrap(name, err)
	}
	st, err := p.stat()
	if err != nil {
		return false, err
	}
	if st.flags&flagKernelThread != 0 {
		return true, nil
	}
	if p.live == "" && st.flags&flagExiting != 0 {
		if st.threads < 2 || !p.passOverLeader() {
			return false, p.wrap(name, ErrGone)
		}
	}
	return false, nil
}

// passOverLeader finds a thread beside the leader that lives. It holds until the
// next Check, which by then sees the leader as the zombie that it becomes.
func (p *Process) passOverLeader() bool {
	fd, err := openAt(p.dir, "task", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer closeFD(fd)
	buf := make([]byte, 4096)
	found := ""
	entries(fd, buf, func(tid []byte) bool {
		if n, _ := parsePID(tid); n == p.id.PID {
			return true
		}
		dir := "task/" + string(tid) + "/"
		if p.lives(dir) {
			found = dir
		}
		return found == ""
	})
	p.live = found
	return found != ""
}
