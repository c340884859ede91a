package proc

// Want is what a scan reads beside stat, status and statm.
type Want struct {
	IO   bool // /proc/PID/io
	Maps bool // map summaries, re-read at most every 5 s
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
	RSS, VMS     uint64 // bytes, exact (statm)
	Threads      int32
	Nice         int32
	Processor    int32 // last CPU
	StartedAt    int64 // Unix epoch ms
	IO           Opt[IO]
	Details      *Details
	Maps         *MapSummary // nil: not asked for or unreadable
}

// IO is the storage traffic of a process, cumulative bytes.
type IO struct {
	ReadBytes, WriteBytes uint64 // read_bytes, write_bytes of /proc/PID/io
}

// Details is the text of a row, cached by identity and re-read in slices: each
// process within 10 s, at once when its name changed. Immutable.
type Details struct {
	Name                 string // comm, raw bytes
	Executable           *string
	CommandLine          []string // nil: unreadable
	CommandLineTruncated bool
	Username             *string
	EffectiveUsername    *string
	Cgroup               *string
	Container            *string
	TTY                  *string
}

// Scanner reads the list of processes again and again, with buffers of its own.
type Scanner struct{}

// NewScanner returns a scanner with empty caches.
func (fs *FS) NewScanner() *Scanner { panic("stub") }

// Scan returns every process by PID. The slice is valid until the next Scan; the
// rows may be copied.
func (s *Scanner) Scan(want Want) ([]Row, error) { panic("stub") }

// ReadRow returns the row of one process.
func (s *Scanner) ReadRow(p *Process, want Want) (Row, error) { panic("stub") }
