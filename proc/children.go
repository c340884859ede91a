package proc

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// maxChildren bounds the children of one process that are named.
	maxChildren = 8192
	// maxParentThreads is from how many threads on the children are not looked for in
	// the files of each.
	maxParentThreads = 512
)

// readChildren returns the children by PID, at most so many: from the kernel's own
// lists where these can be trusted, else it looks at every process.
func (p *Process) readChildren(c *Context, most int) ([]ID, error) {
	if children, ok := p.listedChildren(most); ok {
		return children, nil
	}
	return p.searchChildren(c, most)
}

// listedChildren reads the lists of all threads, and tells whether nothing can be
// missing in them. A list misses children when one before them ends while it is read
// (proc_pid_children(5)), and those of a thread that ends move to another's: so each
// one that is listed and each thread has to be there afterwards.
//
// Source: /proc/PID/task/TID/children, get_children_pid of fs/proc/array.c, 3.5,
// with CONFIG_PROC_CHILDREN.
func (p *Process) listedChildren(most int) ([]ID, bool) {
	dir, err := p.OpenTasks()
	if err != nil {
		return nil, false
	}
	defer closeFD(dir)
	buf := make([]byte, 4096)
	threads, ok := threadsIn(dir, buf)
	if !ok {
		return nil, false
	}
	pids := []int32{}
	for _, tid := range threads {
		fd, err := openAt(dir, strconv.Itoa(int(tid))+"/children", unix.O_RDONLY)
		if err != nil {
			return nil, false
		}
		text, more, err := readAll(fd, buf, 12*(most+1)) // of each a number and a space
		closeFD(fd)
		if err != nil || more {
			return nil, false
		}
		buf = text[:cap(text)]
		for _, word := range bytes.Fields(text) {
			if string(word) == "0" { // outside of the PID namespace
				continue
			}
			pid, ok := parsePID(word)
			if !ok || len(pids) == most {
				return nil, false
			}
			pids = append(pids, pid)
		}
	}
	children := []ID{}
	for _, pid := range pids {
		st, ok := p.fs.readStat(pid)
		if !ok || st.ppid != p.id.PID {
			return nil, false
		}
		children = append(children, ID{pid, st.start})
	}
	if _, err := unix.Seek(dir, 0, unix.SEEK_SET); err != nil {
		return nil, false
	}
	after, ok := threadsIn(dir, buf)
	if !ok || slices.ContainsFunc(threads, func(tid int32) bool { return !slices.Contains(after, tid) }) {
		return nil, false
	}
	slices.SortFunc(children, byPID)
	return slices.Compact(children), true // one that moved may be in two lists
}

// threadsIn lists the threads, and tells whether there are some and not too many.
func threadsIn(dir int, buf []byte) (tids []int32, ok bool) {
	err := entries(dir, buf, func(name []byte) bool {
		tid, _ := parsePID(name)
		tids = append(tids, tid)
		return len(tids) <= maxParentThreads
	})
	return tids, err == nil && len(tids) > 0 && len(tids) <= maxParentThreads
}

// searchChildren looks at every process.
func (p *Process) searchChildren(c *Context, most int) ([]ID, error) {
	dir, err := openAt(p.fs.dir, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer closeFD(dir)
	children, more := []ID{}, false
	err = entries(dir, make([]byte, 32<<10), func(name []byte) bool {
		pid, _ := parsePID(name)
		if st, ok := p.fs.readStat(pid); ok && st.ppid == p.id.PID {
			if len(children) == most {
				more = true
				return false
			}
			children = append(children, ID{pid, st.start})
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	if more {
		c.warn("children", fmt.Errorf("there are more; the first %d are named", most))
	}
	slices.SortFunc(children, byPID)
	return children, nil
}

func byPID(a, b ID) int { return int(a.PID) - int(b.PID) }
