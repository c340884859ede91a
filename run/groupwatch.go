package run

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// groupWatcher tells when the cgroup.events of a run changes, which it does when its
// last process ended.
//
// Source: inotify(7); cgroups(7), "cgroup.events".
type groupWatcher struct {
	file *os.File

	mu    sync.Mutex
	wake  map[int32]chan<- struct{}
	paths map[string]int32
}

func newGroupWatcher() (*groupWatcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch cgroups: %w", err)
	}
	return &groupWatcher{file: os.NewFile(uintptr(fd), "inotify"), wake: map[int32]chan<- struct{}{}, paths: map[string]int32{}}, nil
}

// run passes events on until close.
func (w *groupWatcher) run() {
	buf := make([]byte, 64<<10)
	for {
		n, err := w.file.Read(buf)
		if err != nil {
			return
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			wd := int32(binary.NativeEndian.Uint32(b))
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			w.mu.Lock()
			if c := w.wake[wd]; c != nil {
				select {
				case c <- struct{}{}:
				default: // it will look anyway
				}
			}
			w.mu.Unlock()
			b = b[min(size, len(b)):]
		}
	}
}

func (w *groupWatcher) close() { w.file.Close() }

func (w *groupWatcher) control(f func(fd int)) {
	if c, err := w.file.SyscallConn(); err == nil {
		c.Control(func(fd uintptr) { f(int(fd)) }) // closed: nobody waits any more
	}
}

// add wakes c, which needs room for one, at each change. A group that cannot be watched
// is looked at now and then all the same.
func (w *groupWatcher) add(g *group, c chan<- struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.control(func(fd int) {
		if wd, err := unix.InotifyAddWatch(fd, g.path+"/cgroup.events", unix.IN_MODIFY); err == nil {
			w.wake[int32(wd)], w.paths[g.path] = c, int32(wd)
		}
	})
}

// remove ends what add began. The kernel has ended it already when the group is gone.
func (w *groupWatcher) remove(g *group) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wd, ok := w.paths[g.path]
	if !ok {
		return
	}
	delete(w.paths, g.path)
	delete(w.wake, wd)
	w.control(func(fd int) { unix.InotifyRmWatch(fd, uint32(wd)) })
}
