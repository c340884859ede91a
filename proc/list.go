package proc

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Want is what a scan reads beside stat, status and statm.
type Want struct {
	IO       bool // /proc/PID/io
	Maps     bool // map summaries, re-read at most every 5 s
	Mappings bool // the mappings themselves, at most maxListedMaps, in the same step
}

// Row is one process of a scan. It is comparable with ==; Details and Maps point
// to immutable values that keep their address while their content is unchanged.
type Row struct {
	ID           ID
	Parent       Opt[ID] // unknown for PID 1 and kthreadd (no parent) and when the parent ended mid-scan
	State        byte    // the letter of stat; of a live thread when the leader has ended
	KernelThread bool    // PF_KTHREAD
	UID, EUID    uint32
	CPUTicks     uint64 // utime + stime, all threads
	At           int64  // CLOCK_MONOTONIC ns when stat was read
	RSS, VMS     uint64 // bytes, exact (statm); 0 for kernel threads and zombies, which have no memory
	Threads      int32
	Nice         int32
	Processor    int32 // last CPU
	StartedAt    int64 // Unix epoch ms
	IO           Opt[IO]
	Details      *Details
	Maps         *MapSummary // nil: not asked for or unreadable
	Mappings     *Mappings   // nil: not asked for or unreadable
	MapsEpoch    uint64      // of the reading of maps: another number when they changed; 0 before the first
	MapsErr      error       // why what was asked for of maps is not known; the same value while the reason is the same
}

// Mappings is what a scan keeps of the mappings of a process. Immutable.
type Mappings struct {
	Maps  []Mapping // address order, from maps alone
	Total int       // mappings of the process; more than len(Maps) when it was cut
}

// IO is the storage traffic of a process, cumulative bytes.
type IO struct {
	ReadBytes, WriteBytes uint64 // read_bytes, write_bytes of /proc/PID/io
}

// Scanner reads the list of processes again and again, with buffers of its own.
// Not safe for concurrent use.
type Scanner struct {
	// Denied is how many processes of the last scan are missing from it because
	// their files could not be read (hidepid=1), not because they ended.
	Denied int

	fs   *FS
	rows []Row
	pids []int32

	// What is known of each process from scan to scan, by PID. A scan walks the
	// two in step and drops who is not there any more.
	known, next []known
	old         []known // what of known the walk has not passed
	at          int     // where in pids the walk is
	want        Want

	reader   *reader
	last     int64 // monotonic ns of the scan before
	interval int64 // ns between the last two scans
	turn     *turn

	files     int // descriptors that are kept of processes
	mostFiles int // at most; 0: none

	tables      TaskSource // nil: texts alone
	tablesErr   error      // why the tables were left
	tasks       []Task     // of this scan; nil: without tables
	tasksAt     int64      // monotonic ns when they were read
	taskAt      int        // where in tasks the walk is
	slices      uint32     // of command lines
	slice       uint32     // the last one read
	startOffset uint64     // ns that the reader's time namespace adds to start times
	hidden      []int32    // what the tables do not show
	hiddenAt    int64      // when that was looked for

	spaces spaceTable
}

// NewScanner returns a scanner with empty caches.
func (fs *FS) NewScanner() *Scanner {
	s := &Scanner{fs: fs, turn: new(turn)}
	s.reader = newReader(fs)
	s.reader.turn = s.turn
	return s
}

// Scan returns every process by PID. The slice is valid until the next Scan; the
// rows may be copied. The first scan reads the details of all; later ones only
// those that are due, at once when the name or the user changed or the process
// called exec.
//
// Each process is read through a handle of its directory, so a row is never put
// together from two that had one number. Processes that end meanwhile are left
// out; so are those that may not be read, which Denied counts. A zombie is listed
// with state Z and no memory.
//
// Errors: the directory of processes could not be read; no descriptor is left to read
// them with; ErrLeft.
// Effect: none on the targets; cmdline takes their mmap lock for a moment.
// Source: /proc/PID/{stat,status,statm}, and cmdline, exe, cgroup, io, maps.
func (s *Scanner) Scan(want Want) ([]Row, error) {
	if len(s.next) > 0 {
		s.release() // the scan before did not come to its end
	}
	s.begin()
	s.readTasks()
	if err := s.listPIDs(); err != nil {
		return nil, err
	}
	s.rows, s.next, s.Denied = s.rows[:0], s.next[:0], 0
	s.old, s.at, s.want = s.known, 0, want
	s.reader.mappings = 0
	s.readSpaces(want)
	return s.walk()
}

// walk reads the processes from at on and ends the scan.
func (s *Scanner) walk() ([]Row, error) {
	s.rows, s.next = slices.Grow(s.rows, len(s.pids)-s.at), slices.Grow(s.next, len(s.pids)-s.at)
	for ; s.at < len(s.pids); s.at++ {
		pid := s.pids[s.at]
		s.pass(pid)
		var k known
		var files *keptFiles
		var io *keptIO
		if len(s.old) > 0 && s.old[0].id.PID == pid {
			k = s.old[0]
			files, io = k.files, k.io
		}
		id := k.id
		var row Row
		err := s.readPID(s.reader, pid, s.taskOf(pid), s.spaces.of(pid), &row, &k)
		if err == ErrLeft {
			return nil, err // s is somebody else's now
		}
		if err != nil || k.files != files {
			s.drop(files)
		}
		if err != nil || k.io != io {
			s.dropIO(io)
		}
		switch {
		case err == nil:
			if k.files == nil && k.id == id {
				s.keep(&row, &k) // most that are seen once end soon
			}
			if k.io == nil && k.id == id && s.want.IO {
				s.keepIO(&row, &k)
			}
			s.rows, s.next = append(s.rows, row), append(s.next, k)
		case OutOfDescriptors(err):
			s.release()
			return nil, fmt.Errorf("read %s/%d: %w", s.fs.mount, pid, err) // the rest would look as if it had ended
		case !vanished(err):
			s.Denied++
		}
	}
	s.pass(math.MaxInt32)
	clear(s.known[:cap(s.known)]) // let go of the details of processes that ended
	s.known, s.next, s.old = s.next, s.known[:0], nil
	s.parents()
	return s.rows, nil
}

// pass leaves behind what is known of numbers below pid that the walk did not come by.
func (s *Scanner) pass(pid int32) {
	for len(s.old) > 0 && s.old[0].id.PID < pid {
		if s.at == 0 || s.old[0].id.PID != s.pids[s.at-1] {
			s.drop(s.old[0].files)
			s.dropIO(s.old[0].io)
		}
		s.old = s.old[1:]
	}
}

// ReadRow returns the row of one process, through the same code. Its details are
// read anew. A zombie without a live thread is gone here: who asks for one
// process asks for one that is alive.
//
// Errors: ErrGone; fs.ErrPermission; *ParseError.
func (s *Scanner) ReadRow(p *Process, want Want) (Row, error) {
	if err := p.Check(); err != nil {
		return Row{}, err
	}
	r := s.reader
	r.start(s.fs.bootTime())
	var row Row
	var k known
	if err := r.row(p.dir, p.id.PID, want, &row, &k); err != nil {
		if vanished(err) {
			err = ErrGone
		}
		return Row{}, p.wrap("stat", err)
	}
	if err := p.Check(); err != nil {
		return Row{}, err
	}
	if row.ID != p.id {
		return Row{}, p.wrap("stat", ErrGone)
	}
	row.Parent = s.fs.parent(row.ID, k.ppid)
	return row, nil
}

// begin sets the clocks of a scan.
func (s *Scanner) begin() {
	r := s.reader
	r.start(s.fs.bootTime())
	if s.last != 0 {
		s.interval = r.now - s.last
	}
	s.last = r.now
	r.oldest = r.now + s.interval - int64(detailsAge)
}

// list fills pids, in order. procfs lists them so; a fixture tree does not.
func (s *Scanner) list() error {
	fd, err := openAt(s.fs.dir, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err == nil {
		s.pids = s.pids[:0]
		err = entries(fd, s.reader.buf, func(name []byte) bool {
			pid, _ := parsePID(name)
			s.pids = append(s.pids, pid)
			return true
		})
		closeFD(fd)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", s.fs.mount, err)
	}
	if !slices.IsSorted(s.pids) {
		slices.Sort(s.pids)
	}
	return nil
}

// readPID reads a process from t as far as that goes; t may be nil. Once it reads
// texts it touches nothing of s that changes, only r: it may come back when both are
// in other hands.
func (s *Scanner) readPID(r *reader, pid int32, t *Task, w walkedSpace, row *Row, k *known) error {
	want := s.want
	r.mark, r.walked = 0, w
	if t != nil {
		r.mark = t.Mark
		if whole, err := r.task(t, s.tasksAt, s.startOffset, want, row, k); whole || err != nil {
			return err
		}
	}
	if k.files != nil {
		if done, err := r.again(pid, want, row, k); done || err != nil {
			return err
		}
	}
	dir, err := r.openDir(pid)
	if err != nil {
		return err
	}
	err = r.row(dir, pid, want, row, k)
	closeFD(dir)
	return err
}

// parents finds the parents in the scan itself.
func (s *Scanner) parents() {
	at := 0 // of the last parent found: most processes of a host have few parents
	for i := range s.rows {
		ppid := s.known[i].ppid
		if ppid <= 0 {
			continue
		}
		if at >= len(s.rows) || s.rows[at].ID.PID != ppid {
			low, high := 0, len(s.rows)
			for low < high {
				if mid := (low + high) / 2; s.rows[mid].ID.PID < ppid {
					low = mid + 1
				} else {
					high = mid
				}
			}
			at = low
		}
		if at < len(s.rows) && s.rows[at].ID.PID == ppid {
			s.rows[i].Parent = parentOf(s.rows[i].ID, s.rows[at].ID)
		}
	}
}

// parentOf returns the candidate unless it started after the child: then it has
// the number of a parent that is gone.
func parentOf(child, candidate ID) Opt[ID] {
	if candidate.StartTicks > child.StartTicks {
		return Opt[ID]{}
	}
	return Some(candidate)
}

// parent looks for the parent of one process.
func (fs *FS) parent(child ID, ppid int32) Opt[ID] {
	if ppid <= 0 {
		return Opt[ID]{}
	}
	var buf [2048]byte
	fd, err := openAt(fs.dir, strconv.Itoa(int(ppid))+"/stat", unix.O_RDONLY)
	if err != nil {
		return Opt[ID]{}
	}
	n, err := readRaw(fd, buf[:])
	closeFD(fd)
	if err != nil {
		return Opt[ID]{}
	}
	st, ok := parseStat(buf[:n])
	if !ok {
		return Opt[ID]{}
	}
	return parentOf(child, ID{ppid, st.start})
}

// vanished tells whether a file is missing because its process ended.
func vanished(err error) bool {
	return err == unix.ENOENT || err == unix.ESRCH || errors.Is(err, ErrGone)
}

// OutOfDescriptors tells whether a call failed because this process, or the host, may
// open no more files.
func OutOfDescriptors(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}
