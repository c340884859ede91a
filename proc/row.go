package proc

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	detailsAge = 10 * time.Second        // nobody keeps details longer
	detailsDue = 8500 * time.Millisecond // read again; with a scan each second no one is late
	mapsAge    = 5 * time.Second         // map summaries and mappings are not read more often

	// detailsWhole is how old details may grow, but for the command line, while a mark of
	// the tables says that they are the same.
	detailsWhole = 5 * time.Minute
)

// known is what a scanner keeps of one process from scan to scan.
type known struct {
	id        ID
	ppid      int32
	uid, euid uint32
	stack     uint64 // field 28 of stat: another one after exec
	details   *Details
	sum       uint64 // of the raw texts of details
	title     uint64 // of the raw command line
	tty       int32
	mark      uint64 // Task.Mark of before details were read; 0 without tables
	users     uint64 // readings of the names of users before
	read, due int64  // monotonic ns when details were read, and are due again
	whole     int64  // when they are due, whatever the mark says
	space     knownSpace

	signs    signs // of before the sizes were read
	vms, rss uint64
	files    *keptFiles // nil: none
	io       *keptIO    // nil: none
}

// reader reads rows. It holds what is reused from process to process.
type reader struct {
	fs  *FS
	buf []byte // one file, or directory entries

	ask    func() int64 // monotonic; set in tests
	now    int64        // what it said at the start of the scan
	begun  time.Time
	oldest int64  // details read at or before this time would grow too old
	mark   uint64 // Task.Mark of the process that is being read; 0 without tables
	boot   int64  // ms

	ids   ids
	texts texts   // of details
	proc  Process // borrows the handle of the process that is being read
	maps  []Mapping
	none  *MapSummary // of kernel threads
	turn  *turn

	shared map[uint64]*sharedTexts // by Task.Mark, in this scan

	walked   walkedSpace // of the process that is being read; empty without tables
	mappings int         // kept of all processes, in this scan
	epoch    uint64      // the last one given
}

func newReader(fs *FS) *reader {
	return &reader{fs: fs, ask: monotonic, buf: make([]byte, 32<<10), texts: newTexts(fs), shared: map[uint64]*sharedTexts{}}
}

// start sets the clock. The runtime reads CLOCK_MONOTONIC in the vdso but tells
// only differences; one system call gives them their origin.
func (r *reader) start(boot int64) {
	r.begun, r.now, r.boot, r.oldest = time.Now(), r.ask(), boot, 0
	r.walked = walkedSpace{}
	r.texts.users.refresh()
	clear(r.shared)
	r.ids.probe(r.fs)
}

func (r *reader) clock() int64 { return r.now + int64(time.Since(r.begun)) }

// Names below /proc/PID with the NUL that openat wants.
var (
	nameStat   = []byte("stat\x00")
	nameStatus = []byte("status\x00")
	nameStatm  = []byte("statm\x00")
	nameIO     = []byte("io\x00")
	nameCgroup = []byte("cgroup\x00")
)

// slurp reads a short file in one read: the kernel prints it whole when the
// buffer is large enough.
func slurp(dir int, name, buf []byte) ([]byte, error) {
	fd, err := openRaw(dir, &name[0], unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	n, err := readRaw(fd, buf)
	closeFD(fd)
	return buf[:n], err
}

// row reads the process whose directory dir is. k is what was known of its PID
// before, and is brought up to date. All files are opened below the one handle,
// so they are of one process whatever happens to the number.
func (r *reader) row(dir int, pid int32, want Want, row *Row, k *known) error {
	// A pidfd is opened by number and not below the handle. But stat is read below
	// it afterwards: when that works, the number was this process's all the time.
	asked := false
	if r.ids.pidfd {
		uid, euid, err := r.ids.ask(pid)
		row.UID, row.EUID, asked = uid, euid, err == nil
	}
	text, err := slurp(dir, nameStat, r.buf)
	if err != nil {
		return err
	}
	st, ok := parseStat(text)
	if !ok {
		return &ParseError{File: "stat"}
	}
	uid, euid := row.UID, row.EUID
	r.plain(&st, pid, row)
	if k.id != row.ID {
		*k = known{id: row.ID}
	}
	k.ppid = st.ppid
	stale := r.changed(&st, k) || r.due(k)
	r.texts.comm = append(r.texts.comm[:0], st.comm...) // buf is about to be used again

	switch {
	case asked:
		row.UID, row.EUID = uid, euid
	case row.KernelThread && k.details != nil:
		row.UID, row.EUID = k.uid, k.euid // it keeps the ids it was made with
	default:
		if text, err = slurp(dir, nameStatus, r.buf); err != nil {
			return err
		}
		if row.UID, row.EUID, ok = statusUID(text); !ok {
			return &ParseError{File: "status"}
		}
	}
	stale = stale || row.UID != k.uid || row.EUID != k.euid

	r.proc.id, r.proc.fs, r.proc.dir, r.proc.live = row.ID, r.fs, dir, ""
	if st.ended() && st.threads > 1 && r.proc.findLive() == nil {
		row.State = r.proc.busiest(row.State)
	}
	if row.State == 'X' || row.State == 'x' {
		return ErrGone // being taken off the list this moment
	}
	if err := r.memory(&st, row); err != nil {
		return err
	}
	k.signs, k.vms, k.rss = signsOf(&st), row.VMS, row.RSS
	if want.IO {
		if text, err := slurp(dir, nameIO, r.buf); err == nil {
			row.IO = storage(text)
		}
	}
	return r.rest(&st, stale, want, row, k)
}

func storage(text []byte) Opt[IO] {
	io, ok := parseIO(text)
	if !ok {
		return Opt[IO]{}
	}
	return Some(io)
}

// plain makes the row of what stat says; the ids and sizes are not in it.
func (r *reader) plain(st *stat, pid int32, row *Row) {
	*row = Row{
		ID: ID{pid, st.start}, State: st.state, KernelThread: st.flags&flagKernelThread != 0,
		CPUTicks: st.utime + st.stime, At: r.clock(),
		Threads: st.threads, Nice: st.nice, Processor: st.processor,
		StartedAt: r.boot + ticksMS(st.start),
	}
}

// changed tells whether stat or this scan says that details are others.
func (r *reader) changed(st *stat, k *known) bool {
	return k.details == nil || r.mark != 0 && (r.mark != k.mark || r.now >= k.whole) || r.texts.users.readings != k.users || st.stack != k.stack || st.tty != k.tty ||
		string(st.comm) != k.details.Name
}

// rest reads what is not of each scan.
func (r *reader) rest(st *stat, stale bool, want Want, row *Row, k *known) error {
	if stale {
		if err := r.details(st, row, k); err != nil {
			return err
		}
		k.stack, k.tty, k.uid, k.euid, k.mark, k.users = st.stack, st.tty, row.UID, row.EUID, r.mark, r.texts.users.readings
	}
	row.Details = k.details
	return r.space(row, &k.space, want)
}

// memory reads the sizes, through a live thread when the leader has none.
func (r *reader) memory(st *stat, row *Row) error {
	if row.KernelThread || st.ended() && r.proc.live == "" {
		return nil
	}
	var text []byte
	var err error
	if r.proc.live == "" {
		text, err = slurp(r.proc.dir, nameStatm, r.buf)
	} else {
		text, err = r.proc.readFile("statm", r.buf) // looks for another thread when this one ends
	}
	if err != nil {
		return err
	}
	var ok bool
	if row.VMS, row.RSS, ok = parseStatm(text); !ok {
		return &ParseError{File: "statm"}
	}
	return nil
}

// details reads the texts and keeps the old value when they are the same.
func (r *reader) details(st *stat, row *Row, k *known) error {
	sum, whole, err := r.texts.read(&r.proc, st, row, r.turn)
	if err != nil {
		return err
	}
	r.bearWitness(st)
	r.keep(st, row, k, sum, whole, nil)
	return nil
}

// keep keeps the texts that were read and have that sum; same are details made of such,
// or nil.
func (r *reader) keep(st *stat, row *Row, k *known, sum uint64, whole bool, same *Details) {
	fresh := k.details == nil
	if fresh || whole && sum != k.sum {
		if same == nil {
			same = r.texts.details(st, row)
		}
		k.details, k.sum = same, sum
	}
	k.title = r.texts.titleOf(r.texts.command)
	k.read, k.due, k.whole = r.now, r.now+int64(detailsDue), r.now+int64(detailsWhole)
	if fresh {
		// Those first seen together are spread over the slices, but those that share texts
		// stay together.
		if r.mark != 0 {
			k.whole = r.now + int64(r.mark>>2)%int64(detailsWhole)
		} else {
			k.due = r.now + int64(time.Second) + spread(row.ID)%int64(detailsDue-time.Second)
			k.whole = k.due
		}
	}
}

// due tells whether details are to be read for their age.
func (r *reader) due(k *known) bool { return r.now >= k.due || k.read <= r.oldest }

// spread returns a number that looks random and is the same for a process.
func spread(id ID) int64 {
	h := (uint64(id.PID)<<32 ^ id.StartTicks) * 0x9e3779b97f4a7c15 // 2^64 / golden ratio
	return int64(h >> 2)
}

// maxLeaderless is how many threads are looked at for the state of a process
// whose leader has ended.
const maxLeaderless = 256

// activity orders state letters, the most active first.
const activity = "RDStTI"

// busiest returns the letter of the most active live thread, or letter when there
// is none.
func (p *Process) busiest(letter byte) byte {
	fd, err := openAt(p.dir, "task", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return letter
	}
	defer closeFD(fd)
	looked := 0
	entries(fd, p.task, func(tid []byte) bool {
		data, err := p.slurp("task/"+string(tid)+"/stat", p.buf, 0)
		if err == nil {
			p.buf = data
			if st, ok := parseStat(data); ok {
				letter = moreActive(letter, st.state)
			}
		}
		looked++
		return looked < maxLeaderless && letter != activity[0]
	})
	return letter
}

// moreActive returns the letter that says more about a process that lives.
func moreActive(a, b byte) byte {
	rank := func(c byte) int {
		if c == 'Z' || c == 'X' || c == 'x' {
			return len(activity) + 1
		}
		for i := range activity {
			if activity[i] == c {
				return i
			}
		}
		return len(activity)
	}
	if rank(b) < rank(a) {
		return b
	}
	return a
}
