package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// startClock is what start times count from, once it was found out.
type startClock struct {
	declared time.Duration // what the namespace adds to CLOCK_BOOTTIME
	added    time.Duration // what is added to field 22 of stat: declared, or 0
}

// StartOffset returns what the kernel adds to the time since boot when it tells the
// reader when a process began.
//
// Units:  the sum is what field 22 of stat counts, in ticks, rounded down; it is
// unsigned and wraps for a process older than the namespace says the host is.
// Absent: a kernel without time namespaces gives 0.
// Errors: those of reading the files; *ParseError. They are not kept.
// Source: /proc/PID/timens_offsets, time_namespaces(7), Linux 5.6. Before 5.11 the
// offset is in CLOCK_BOOTTIME and not in stat: which it is, is seen once from the
// start of a thread that begins for it, and kept.
func (fs *FS) StartOffset() (time.Duration, error) {
	c, err := fs.startClock()
	return c.added, err
}

func (fs *FS) startClock() (startClock, error) {
	if c := fs.clock.Load(); c != nil {
		return *c, nil
	}
	declared, err := fs.declaredOffset()
	if err != nil {
		return startClock{}, err
	}
	added, err := addedOffset(declared, fs.beginThread)
	if err != nil {
		return startClock{declared: declared, added: declared}, err
	}
	c := &startClock{declared, added}
	fs.clock.Store(c)
	return *c, nil
}

func (fs *FS) declaredOffset() (time.Duration, error) {
	var buf [256]byte
	fd, err := openAt(fs.dir, "self/timens_offsets", unix.O_RDONLY)
	if err != nil {
		return noOffset(err)
	}
	n, err := readRaw(fd, buf[:])
	closeFD(fd)
	if err != nil {
		return 0, fmt.Errorf("read self/timens_offsets: %w", err)
	}
	offset, ok := parseBootOffset(buf[:n])
	if !ok {
		return 0, &ParseError{File: "timens_offsets"}
	}
	return offset, nil
}

func noOffset(err error) (time.Duration, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return 0, fmt.Errorf("open self/timens_offsets: %w", err)
}

// parseBootOffset reads the line "boottime S NS"; NS is from 0 to 999,999,999, also
// when S is negative.
func parseBootOffset(b []byte) (time.Duration, bool) {
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) != 3 || string(f[0]) != "boottime" {
			continue
		}
		sec, err1 := strconv.ParseInt(string(f[1]), 10, 64)
		ns, err2 := strconv.ParseInt(string(f[2]), 10, 64)
		const most = (1<<63-1)/int64(time.Second) - 1
		if err1 != nil || err2 != nil || sec > most || sec < -most || ns < 0 || ns >= int64(time.Second) {
			return 0, false
		}
		return time.Duration(sec)*time.Second + time.Duration(ns), true
	}
	return 0, false
}

// begun is a thread that began between two readings of CLOCK_BOOTTIME, ns, and what
// field 22 of its stat says.
type begun struct {
	after, before int64
	ticks         uint64
}

// fits tells whether the thread can have begun then, were the clock off by shift.
func (b begun) fits(shift time.Duration) bool {
	const tick = int64(time.Second / userHZ)
	began := int64(b.ticks) // negative: wrapped, and nothing that begins now is
	return began >= 0 && (b.after+int64(shift))/tick <= began && began <= (b.before+int64(shift))/tick
}

// beginTries is how often a thread is begun to see the offset, and how many threads
// that the runtime kept are passed over to get a new one.
const beginTries = 64

// addedOffset tells which part of the declared offset is in field 22: all or nothing.
// An offset below a tick may hide within the tick of every try; then it is all.
func addedOffset(declared time.Duration, begin func() (begun, error)) (time.Duration, error) {
	if declared == 0 {
		return 0, nil
	}
	for range beginTries {
		b, err := begin()
		if err != nil {
			return 0, err
		}
		switch with, without := b.fits(0), b.fits(-declared); {
		case with && !without:
			return declared, nil
		case without && !with:
			return 0, nil
		}
	}
	return declared, nil
}

// beginThread makes the runtime begin a thread and looks at it.
func (fs *FS) beginThread() (begun, error) {
	b := begun{after: clockBootNS()}
	known, err := fs.ownThreads()
	if err != nil {
		return begun{}, err
	}
	type answer struct {
		stat stat
		err  error
	}
	release := make(chan struct{})
	defer close(release)
	for range len(known) + beginTries {
		seen := make(chan answer)
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var a answer
			text, err := fs.readFile("thread-self/stat", nil)
			if a.err = err; err == nil {
				var ok bool
				if a.stat, ok = parseStat(text); !ok {
					a.err = &ParseError{File: "thread-self/stat"}
				}
			}
			seen <- a
			<-release // one that was known must not come again
		}()
		a := <-seen
		if a.err != nil {
			return begun{}, a.err
		}
		if !known[a.stat.pid] {
			b.before, b.ticks = clockBootNS(), a.stat.start
			return b, nil
		}
	}
	return begun{}, errors.New("begin a thread: the runtime begins none")
}

func (fs *FS) ownThreads() (map[int32]bool, error) {
	dir, err := openAt(fs.dir, "self/task", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, fmt.Errorf("open %s/self/task: %w", fs.mount, err)
	}
	defer closeFD(dir)
	tids := map[int32]bool{}
	err = entries(dir, make([]byte, 4096), func(name []byte) bool {
		tid, ok := parsePID(name)
		tids[tid] = ok
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("read %s/self/task: %w", fs.mount, err)
	}
	return tids, nil
}
