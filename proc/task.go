package proc

import (
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Thread is one thread of a process.
type Thread struct {
	TID                                     int32
	StartTicks                              uint64
	Name                                    string
	State                                   byte
	CPU                                     int32 // last CPU
	CPUTicks                                uint64
	Priority, Nice                          int32
	Scheduler                               string // OTHER FIFO RR BATCH IDLE DEADLINE EXT UNKNOWN
	Affinity                                Opt[string]
	VoluntarySwitches, NonvoluntarySwitches Opt[uint64]
	WaitChannel                             Opt[string] // kernel function; unknown when running or not permitted
	Syscall                                 Opt[string] // name; unknown when running, in user mode, or not permitted
}

// maxThreads is how many threads of a process are read.
const maxThreads = 4096

var (
	nameWchan   = []byte("wchan\x00")
	nameSyscall = []byte("syscall\x00")
)

// readThreads fills the threads of s, and swap, which is the same for all.
func (p *Process) readThreads(s *Sample, threads int32, names []string) error {
	if threads >= fewThreads && p.tableThreads(s, names) {
		return nil
	}
	fd, err := p.openFile("task", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	if len(p.task) == 0 {
		p.task = make([]byte, 4096)
	}
	p.tids = p.tids[:0]
	err = entries(fd, p.task, func(name []byte) bool {
		if len(p.tids) == maxThreads {
			s.ThreadsTruncated = true
			return false
		}
		tid, _ := parsePID(name)
		p.tids = append(p.tids, tid)
		return true
	})
	if err != nil && err != unix.ENOENT && err != unix.ESRCH {
		return p.wrap("task", err)
	}
	if !slices.IsSorted(p.tids) {
		slices.Sort(p.tids)
	}
	s.Threads = s.Threads[:0]
	old := p.threads
	for _, tid := range p.tids {
		for len(old) > 0 && old[0].TID < tid {
			old = old[1:]
		}
		var before Thread
		if len(old) > 0 && old[0].TID == tid {
			before = old[0]
		}
		if t, ok := p.readThread(fd, tid, &before, names, s); ok {
			s.Threads = append(s.Threads, t)
		}
	}
	p.threads = append(p.threads[:0], s.Threads...)
	return nil
}

// readThread reads one thread through a handle of its directory. before is what
// was read of that number last; its strings are used again where they are right.
func (p *Process) readThread(task int, tid int32, before *Thread, names []string, s *Sample) (Thread, bool) {
	var path [16]byte
	strconv.AppendInt(path[:0], int64(tid), 10)
	dir, err := openRaw(task, &path[0], unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return Thread{}, false
	}
	defer closeFD(dir)
	if cap(p.buf) < 4096 {
		p.buf = make([]byte, 4096)
	}
	buf := p.buf[:cap(p.buf)]
	text, err := slurp(dir, nameStat, buf)
	if err != nil {
		return Thread{}, false
	}
	st, ok := parseStat(text)
	if !ok {
		return Thread{}, false
	}
	t := Thread{
		TID: tid, StartTicks: st.start, Name: keep(before.Name, st.comm), State: st.state,
		CPU: st.processor, CPUTicks: st.utime + st.stime, Priority: st.priority, Nice: st.nice,
		Scheduler: scheduler(st.policy),
	}
	if text, err = p.slurpStatus(dir); err != nil {
		if vanished(err) {
			return Thread{}, false
		}
	} else if v, ok := parseStatus(text); ok {
		t.VoluntarySwitches, t.NonvoluntarySwitches = v.voluntary, v.nonvoluntary
		if v.affinity != nil {
			t.Affinity = Some(keep(before.Affinity.Or(""), v.affinity))
		}
		if v.swap.Known() {
			s.Swap = v.swap
		}
	}
	if st.state == 'R' || st.ended() {
		return t, true // waits for nothing, and is in no system call it would tell
	}
	if t.slept(before) {
		t.WaitChannel, t.Syscall = before.WaitChannel, before.Syscall
		return t, true
	}
	ok = t.readWaits(dir, buf, before, names)
	return t, ok
}

// readWaits reads where the thread waits through a handle of its directory; it is false
// when the thread has ended since.
func (t *Thread) readWaits(dir int, buf []byte, before *Thread, names []string) bool {
	text, err := slurp(dir, nameWchan, buf)
	if err == nil {
		if name := parseWchan(text); name != nil {
			t.WaitChannel = Some(keep(before.WaitChannel.Or(""), name))
		}
	} else if vanished(err) {
		return false
	}
	if text, err = slurp(dir, nameSyscall, buf); err == nil {
		t.Syscall = syscallName(text, names)
	} else if vanished(err) {
		return false
	}
	return true
}

// slept tells whether the thread is in the very sleep it was in before. To leave
// it and to enter another the thread would have run, and whoever stops running is
// counted as a switch of one kind or the other.
func (t *Thread) slept(before *Thread) bool {
	return t.TID == before.TID && t.StartTicks == before.StartTicks && t.State == before.State &&
		t.VoluntarySwitches.Known() && t.VoluntarySwitches == before.VoluntarySwitches &&
		t.NonvoluntarySwitches.Known() && t.NonvoluntarySwitches == before.NonvoluntarySwitches
}

// slurpStatus reads the whole of status, which a user with many groups makes
// longer than a page.
func (p *Process) slurpStatus(dir int) ([]byte, error) {
	fd, err := openRaw(dir, &nameStatus[0], unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	text, _, err := readAll(fd, p.buf, 0)
	closeFD(fd)
	if err == nil {
		p.buf = text
	}
	return text, err
}

// keep returns old when it has the bytes of b, so that a name that stays makes no
// new string.
func keep(old string, b []byte) string {
	if old == string(b) {
		return old
	}
	return string(b)
}

// scheduler names the policy of stat's field 41: SCHED_*, include/uapi/linux/sched.h;
// DEADLINE since Linux 3.14, EXT since 6.12.
func scheduler(policy uint32) string {
	switch policy {
	case 0:
		return "OTHER"
	case 1:
		return "FIFO"
	case 2:
		return "RR"
	case 3:
		return "BATCH"
	case 5:
		return "IDLE"
	case 6:
		return "DEADLINE"
	case 7:
		return "EXT"
	}
	return "UNKNOWN"
}

// parseWchan returns the kernel function a thread sleeps in. The kernel writes
// "0" for a thread that runs and for one the reader may not look at.
//
// Source: /proc/PID/task/TID/wchan, proc_pid_wchan(5).
func parseWchan(b []byte) []byte {
	for len(b) > 0 && b[len(b)-1] == '\n' {
		b = b[:len(b)-1]
	}
	if len(b) == 0 || string(b) == "0" {
		return nil
	}
	return b
}
