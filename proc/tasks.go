package proc

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"time"
)

// Task is what the kernel's own tables say of a process: what stat, status and statm
// say as text. Process IDs are those of the reader's PID namespace.
type Task struct {
	PID, PPID int32  // PPID 0: none
	State     byte   // the letter of stat, of the leader
	Flags     uint32 // PF_*
	UID, EUID uint32
	Threads   int32
	Nice      int32
	Processor int32
	Start     uint64        // ns since boot, in the first time namespace
	Runtime   time.Duration // on CPUs, all threads, ended ones included
	Stack     uint64        // field 28 of stat
	RSS, VMS  uint64        // bytes
	Name      [16]byte      // ends at the first NUL
	// Mark is another number when the executable's name, directory or file, the cgroup or
	// the terminal is another; 0: not asked for, or the source cannot tell.
	Mark uint64
	// Command is the beginning of cmdline, at most maxListCommandLine bytes; nil: not asked
	// for, or the source cannot tell.
	Command    []byte
	CommandCut bool // there is more of it
}

// TaskSource reads the tables.
type TaskSource interface {
	// ReadTasks returns every process by PID, bar some that the kernel may hide, with
	// marks and command lines of one of so many slices of them; 0 slices: of none. What it
	// returns may be reused by the next call.
	ReadTasks(slices, slice uint32) ([]Task, error)
}

const (
	// hiddenAge is how old the list of processes that the tables hide may be.
	hiddenAge = 10 * time.Second
	nsPerTick = uint64(time.Second / userHZ)
)

// ReadFrom makes scans take from the tables what they have, command lines in slices. The
// rest comes from the texts as before: executable, cgroup and terminal of processes that
// share theirs with no others, io and maps when asked for, and the processes that the
// tables hide, looked for every 10 s. After the first error scans go on with
// the texts alone; nil makes them do so at once.
func (s *Scanner) ReadFrom(tables TaskSource) { s.tables, s.tablesErr, s.hiddenAt = tables, nil, 0 }

// TablesError returns why scans left the tables, nil while they have not.
func (s *Scanner) TablesError() error { return s.tablesErr }

// readTasks reads the tables.
func (s *Scanner) readTasks() {
	s.tasks, s.taskAt = nil, 0
	if s.tables == nil {
		return
	}
	offset, err := s.fs.StartOffset()
	if err == nil {
		s.startOffset, s.tasksAt = uint64(offset), s.reader.clock()
		s.tasks, err = s.tables.ReadTasks(s.nextSlice())
	}
	if err != nil {
		s.tables, s.tablesErr, s.tasks = nil, err, nil
	}
}

// nextSlice returns of which processes a scan asks all: at first of each, then of so many
// that none is due again before its turn.
func (s *Scanner) nextSlice() (slices, slice uint32) {
	if len(s.known) == 0 {
		return 1, 0
	}
	interval := max(time.Duration(s.interval).Round(time.Second), time.Second)
	s.slices = max(uint32(detailsDue/interval), 1)
	s.slice = (s.slice + 1) % s.slices
	return s.slices, s.slice
}

// listPIDs fills pids: those of the tables and those that they hide, or all.
func (s *Scanner) listPIDs() error {
	if s.tasks == nil {
		return s.list()
	}
	if s.hiddenAt == 0 || s.reader.now-s.hiddenAt >= int64(hiddenAge) {
		if err := s.findHidden(); err != nil {
			return err
		}
		s.hiddenAt = s.reader.now
	}
	s.pids = s.pids[:0]
	for i := range s.tasks {
		s.pids = append(s.pids, s.tasks[i].PID)
	}
	for _, pid := range s.hidden {
		if at, known := slices.BinarySearch(s.pids, pid); !known {
			s.pids = slices.Insert(s.pids, at, pid)
		}
	}
	return nil
}

// findHidden finds the processes that the tables do not have. A listing takes as long as
// the tables themselves, so it is made only when the host has other threads than those
// of the tables and of what they hid before: at first the one process that a kernel is
// known to hide.
func (s *Scanner) findHidden() error {
	threads := 0
	for i := range s.tasks {
		threads += int(s.tasks[i].Threads)
	}
	if s.hiddenAt == 0 {
		s.hidden = append(s.hidden[:0], 1)
	}
	s.hidden = slices.DeleteFunc(s.hidden, func(pid int32) bool {
		n := s.hiddenThreads(pid)
		threads += n
		return n == 0
	})
	if all, ok := s.fs.threads(); ok && all == threads {
		return nil
	}
	if err := s.list(); err != nil {
		return err
	}
	s.hidden = s.hidden[:0]
	for _, pid := range s.pids {
		if s.taskOf(pid) == nil { // or it began since they were read
			s.hidden = append(s.hidden, pid)
		}
	}
	s.taskAt = 0
	return nil
}

// hiddenThreads returns how many threads a process has that is not in the tables, 0 when
// it is there or has ended.
func (s *Scanner) hiddenThreads(pid int32) int {
	if _, there := slices.BinarySearchFunc(s.tasks, pid, func(t Task, pid int32) int { return cmp.Compare(t.PID, pid) }); there {
		return 0
	}
	text, err := s.reader.slurpNumber(pid, "/stat")
	if st, ok := parseStat(text); err == nil && ok {
		return int(st.threads)
	}
	return 0
}

// taskOf returns what the tables say of pid, nil if nothing, walking them in step
// with the callers' numbers.
func (s *Scanner) taskOf(pid int32) *Task {
	for s.taskAt < len(s.tasks) && s.tasks[s.taskAt].PID < pid {
		s.taskAt++
	}
	if s.taskAt == len(s.tasks) || s.tasks[s.taskAt].PID != pid {
		return nil
	}
	return &s.tasks[s.taskAt]
}

// task makes a row of what the tables say, and tells whether that is all: nothing of
// the texts is new or asked for.
//
// Errors: ErrLeft.
func (r *reader) task(t *Task, at int64, offset uint64, want Want, row *Row, k *known) (whole bool, err error) {
	if (t.State == 'Z' || t.State == 'X') && t.Threads > 1 {
		return false, nil // it lives on in threads, which have its memory
	}
	start := (t.Start + offset) / nsPerTick
	id := ID{t.PID, start}
	kernelThread := t.Flags&flagKernelThread != 0
	name, _, _ := bytes.Cut(t.Name[:], []byte{0})
	worker := kernelThread && bytes.HasPrefix(name, []byte("kworker")) // its name in stat tells what it does
	due := r.due(k)
	space := &k.space
	if k.id != id {
		space = &knownSpace{}
	}
	switch {
	case want.IO && (k.io == nil || k.id != id),
		due && (worker || t.Mark == 0),
		!kernelThread && t.State != 'Z' && t.State != 'X' && r.spaceDue(id, space, want):
		return false, nil
	}
	*row = Row{
		ID: id, UID: t.UID, EUID: t.EUID, State: t.State, KernelThread: kernelThread,
		CPUTicks: uint64(t.Runtime) / nsPerTick, At: at, RSS: t.RSS, VMS: t.VMS,
		Threads: t.Threads, Nice: t.Nice, Processor: t.Processor,
		StartedAt: r.boot + ticksMS(start),
	}
	if want.IO && !r.io(k.io, row) {
		k.io = nil
		return false, nil
	}
	asked := t.Mark != 0
	switch {
	case k.id != id, k.details == nil,
		t.Stack != k.stack, t.UID != k.uid, t.EUID != k.euid,
		!kernelThread && string(name) != k.details.Name, // of a kernel thread stat says more
		asked && t.Mark != k.mark,
		r.texts.users.readings != k.users,
		asked && r.now >= k.whole,
		t.Command != nil && r.texts.titleOf(t.Command) != k.title:
		if !r.share(t, row, k, name) {
			k.due = r.now
			return false, nil
		}
	case worker:
	case asked && t.Command == nil && t.Stack != 0:
		if same, err := r.sameTitle(row, k); !same || err != nil {
			k.due = r.now
			return false, err
		}
		fallthrough
	case asked:
		k.read, k.due = r.now, r.now+int64(detailsDue)
	}
	row.Details = k.details
	k.ppid = t.PPID
	return r.space(row, &k.space, want) == nil, nil
}

// sameTitle tells whether the process has the command line that is known. The number
// may be another process's by now: one with that command line changes nothing, any
// other is read whole.
func (r *reader) sameTitle(row *Row, k *known) (bool, error) {
	number, ok := r.turn.enter(row)
	if !ok {
		return false, nil
	}
	var path [pathPart]byte
	copy(path[len(strconv.AppendInt(path[:0], int64(row.ID.PID), 10)):], "/cmdline")
	r.texts.readCommand(r.fs.dir, &path[0])
	title := r.texts.titleOf(r.texts.command)
	if !r.turn.leave(number) {
		return false, ErrLeft
	}
	return title == k.title, nil
}
