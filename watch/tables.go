package watch

import (
	"errors"
	"io"
	"sync"
	"time"

	"procinsh/bpf"
	"procinsh/proc"
)

// Source is what answers of one kind are read from.
type Source struct {
	Tables bool   // the kernel's own tables, through BPF; else the texts of procfs
	Reason string // why not the tables; "" with them
}

// TableReader reads the kernel's table of processes until it is closed. Not safe for
// concurrent use.
type TableReader interface {
	proc.TaskSource
	Close() error
}

// DescriptorReader is the same for the tables of open files.
type DescriptorReader interface {
	proc.DescriptorSource
	Close() error
}

var (
	errNoTables  = errors.New("not asked for")
	errNumbering = errors.New("/proc numbers processes as another PID namespace does")
)

// tables opens the kernel's tables for a scanner while there are viewers. After an
// error scans do without until the last viewer has left. nil opens none.
type tables[R io.Closer] struct {
	open func() (R, error)

	mu     sync.Mutex // held for as long as a scan takes; guards all below
	wanted bool
	reader *R

	source toldSource
}

// toldSource is what was found out last of what is read. Safe for concurrent use.
type toldSource struct {
	mu  sync.Mutex
	now Source
}

// expect is before anything was found out.
func (t *toldSource) expect() {
	t.now = Source{Tables: true}
	if s := bpf.Expect(); s.State != bpf.StateIdle {
		t.now = Source{Reason: s.Reason}
	}
}

func (t *toldSource) found(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = Source{Tables: err == nil}
	if err != nil {
		t.now.Reason = err.Error()
	}
}

func (t *toldSource) get() Source {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now
}

// tableScanner is what reads them.
type tableScanner[R io.Closer] struct {
	readFrom func(*R) // nil: the texts alone
	failure  func() error
}

func newTables[R io.Closer](open func() (R, error)) *tables[R] {
	t := &tables[R]{open: open}
	t.source.expect()
	return t
}

// scan begins a scan; what it returns ends it.
func (t *tables[R]) scan(s tableScanner[R]) func() {
	if t == nil {
		return func() {}
	}
	t.mu.Lock()
	if t.wanted && t.reader == nil {
		t.wanted = false // one try
		r, err := t.open()
		if err == nil {
			t.reader = &r
			s.readFrom(t.reader)
		}
		t.source.found(err)
	}
	return func() {
		defer t.mu.Unlock()
		if err := s.failure(); err != nil && t.reader != nil {
			t.source.found(err)
			t.closeLocked()
		}
	}
}

func (t *tables[R]) begin() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wanted = t.reader == nil
}

func (t *tables[R]) end(s tableScanner[R]) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wanted = false
	if t.reader != nil {
		s.readFrom(nil)
		t.closeLocked()
	}
}

func (t *tables[R]) closeLocked() {
	(*t.reader).Close() // of a link and maps: there is nothing to lose
	t.reader = nil
}

func (t *tables[R]) now() Source {
	if t == nil {
		return Source{Reason: errNoTables.Error()}
	}
	return t.source.get()
}

func (s *hostList) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scanner.Keep(true)
	s.tables.begin()
	s.mappings.begin()
}

func (s *hostList) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scanner.Keep(false)
	s.tables.end(s.reading())
	s.mappings.end()
}

func (s *hostList) reading() tableScanner[TableReader] {
	return tableScanner[TableReader]{func(r *TableReader) {
		if r == nil {
			s.scanner.ReadFrom(nil)
		} else {
			s.scanner.ReadFrom(*r)
		}
	}, s.scanner.TablesError}
}

func (s *hostList) Source() Source { return s.tables.now() }

func (s *hostList) MapsSource() Source { return s.mappings.now() }

// kernelTables are the rows of bpf as a scanner takes them.
type kernelTables struct {
	*bpf.Tasks
	rows []proc.Task
}

// OpenTables opens the kernel's tables for a scanner of fs.
//
// Errors: why there are none here, in words for people.
func OpenTables(fs *proc.FS) (TableReader, error) {
	if !fs.SharesNumbers() {
		return nil, errNumbering
	}
	t, err := bpf.OpenTasks()
	if err != nil {
		return nil, err
	}
	return &kernelTables{Tasks: t}, nil
}

const pageSize = 4096 // of x86-64

func (k *kernelTables) ReadTasks(slices, slice uint32) ([]proc.Task, error) {
	list, err := k.Read(slices, slice)
	if err != nil {
		return nil, err
	}
	k.rows = k.rows[:0]
	for i := range list {
		t := &list[i]
		k.rows = append(k.rows, proc.Task{
			PID: t.PID, PPID: t.PPID, State: t.State, Flags: t.Flags,
			UID: t.UID, EUID: t.EUID, Threads: t.Threads, Nice: t.Nice, Processor: t.Processor,
			Start: t.Start, Runtime: time.Duration(t.Runtime), Stack: t.Stack,
			RSS: t.RSS * pageSize, VMS: t.VMS * pageSize, Name: t.Name, Mark: t.Mark, Command: t.Command, CommandCut: t.CommandCut,
		})
	}
	return k.rows, nil
}

// kernelFiles are the descriptors of bpf as a scanner takes them.
type kernelFiles struct{ *bpf.Descriptors }

// OpenDescriptorTables opens the kernel's tables of open files for a scanner of fs.
//
// Errors: why there are none here, in words for people.
func OpenDescriptorTables(fs *proc.FS) (DescriptorReader, error) {
	if !fs.SharesNumbers() {
		return nil, errNumbering
	}
	d, err := bpf.OpenDescriptors()
	if err != nil {
		return nil, err
	}
	return kernelFiles{d}, nil
}

func (k kernelFiles) ReadDescriptors(paths bool, each func(*proc.OpenFile) bool) error {
	return k.Read(paths, func(d *bpf.Descriptor) bool { return each((*proc.OpenFile)(d)) })
}
