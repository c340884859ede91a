package proc

import (
	"bytes"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// TaskThread is what the kernel's own tables say of a thread: what stat and status
// say as text.
type TaskThread struct {
	TID                     int32
	State                   byte   // the letter of stat
	Flags                   uint32 // PF_*
	Policy                  uint32
	Priority, Nice          int32
	Processor               int32
	Start                   uint64 // ns since boot, in the first time namespace
	Runtime                 time.Duration
	Voluntary, Nonvoluntary uint64
	Name                    [16]byte // ends at the first NUL
	CPUs                    []byte   // that it may run on: bit n of byte n/8 is CPU n
}

// ThreadSource reads the tables.
type ThreadSource interface {
	// ReadThreads appends the threads of the process that has the number now, by TID.
	ReadThreads(pid int32, dst []TaskThread) ([]TaskThread, error)
}

// fewThreads are so few that their texts cost less than the tables' programs do.
const fewThreads = 64

// ReadThreadsFrom makes samples of many threads take from the tables what these have
// of each. Where a thread waits, and in which system call, still comes from the texts;
// and all does after the first error.
func (p *Process) ReadThreadsFrom(tables ThreadSource) { p.tables = tables }

// tableThreads fills the threads of s from the tables, and swap. It is false where the
// texts have to serve: the tables do not have the process, its leader has ended, or it
// is a kernel thread, of which stat has the better name.
func (p *Process) tableThreads(s *Sample, names []string) bool {
	if p.tables == nil {
		return false
	}
	offset, err := p.fs.StartOffset()
	if err == nil {
		p.tasks, err = p.tables.ReadThreads(p.id.PID, p.tasks[:0])
	}
	rows := p.tasks
	if err != nil {
		p.tables = nil
		return false
	}
	at, ok := slices.BinarySearchFunc(rows, p.id.PID, func(t TaskThread, tid int32) int { return int(t.TID) - int(tid) })
	if !ok || rows[at].State == 'Z' || rows[at].State == 'X' || (rows[at].Start+uint64(offset))/nsPerTick != p.id.StartTicks || rows[at].Flags&flagKernelThread != 0 {
		return false // or another process has the number by now, which Check will tell
	}
	fd, err := p.openFile("task", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer closeFD(fd)
	if len(rows) > maxThreads {
		rows, s.ThreadsTruncated = rows[:maxThreads], true
	}
	s.Threads = slices.Grow(s.Threads[:0], len(rows))
	old := p.threads
	for i := range rows {
		r := &rows[i]
		for len(old) > 0 && old[0].TID < r.TID {
			old = old[1:]
		}
		before := &Thread{}
		if len(old) > 0 && old[0].TID == r.TID {
			before = &old[0]
		}
		n := len(s.Threads)
		s.Threads = s.Threads[:n+1]
		t := &s.Threads[n]
		r.thread(t, before, uint64(offset))
		if !p.readWaits(fd, t, before, names) {
			s.Threads = s.Threads[:n]
		}
	}
	if text, err := p.readFile("status", p.buf); err == nil {
		p.buf = text
		if v, ok := parseStatus(text); ok {
			s.Swap = v.swap
		}
	}
	p.threads = append(p.threads[:0], s.Threads...)
	return true
}

// thread fills t with what the tables say. before is what was read of that number last;
// its strings are used again where they are right.
func (r *TaskThread) thread(t, before *Thread, offset uint64) {
	name, _, _ := bytes.Cut(r.Name[:], []byte{0})
	var list [256]byte
	*t = Thread{
		TID: r.TID, StartTicks: (r.Start + offset) / nsPerTick, Name: keep(before.Name, name), State: r.State,
		CPU: r.Processor, CPUTicks: uint64(r.Runtime) / nsPerTick, Priority: r.Priority, Nice: r.Nice, Scheduler: scheduler(r.Policy),
		Affinity:          Some(keep(before.Affinity.Or(""), appendCPUList(list[:0], r.CPUs))),
		VoluntarySwitches: Some(r.Voluntary), NonvoluntarySwitches: Some(r.Nonvoluntary),
	}
}

// readWaits fills in where a thread waits, and is false when it has ended since. One
// that sleeps on is not looked at again.
func (p *Process) readWaits(task int, t, before *Thread, names []string) bool {
	if t.State == 'R' || t.State == 'Z' || t.State == 'X' {
		return true
	}
	if t.slept(before) {
		t.WaitChannel, t.Syscall = before.WaitChannel, before.Syscall
		return true
	}
	var path [16]byte
	strconv.AppendInt(path[:0], int64(t.TID), 10)
	dir, err := openRaw(task, &path[0], unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return !vanished(err)
	}
	defer closeFD(dir)
	if cap(p.buf) < 4096 {
		p.buf = make([]byte, 4096)
	}
	return t.readWaits(dir, p.buf[:cap(p.buf)], before, names)
}

// appendCPUList writes a set of CPUs as the kernel does: 0-3,8.
func appendCPUList(b []byte, set []byte) []byte {
	has := func(n int) bool { return n < 8*len(set) && set[n/8]&(1<<(n%8)) != 0 }
	for n := 0; n < 8*len(set); n++ {
		if set[n/8]>>(n%8) == 0 { // nothing more in this byte
			n |= 7
			continue
		}
		n += bits.TrailingZeros8(set[n/8] >> (n % 8))
		first := n
		for has(n + 1) {
			n++
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(first), 10)
		if n > first {
			b = append(b, '-')
			b = strconv.AppendInt(b, int64(n), 10)
		}
	}
	return b
}
