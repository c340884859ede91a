package watch

import (
	"errors"
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

// TableReader reads the kernel's tables until it is closed. Not safe for concurrent
// use.
type TableReader interface {
	proc.TaskSource
	Close() error
}

var (
	errNoTables  = errors.New("not asked for")
	errNumbering = errors.New("/proc numbers processes as another PID namespace does")
)

// tables opens the kernel's tables for a scanner while there are viewers. After an
// error scans do without until the last viewer has left. nil opens none.
type tables struct {
	open func() (TableReader, error)

	mu     sync.Mutex // held for as long as a scan takes; guards all below
	wanted bool
	reader TableReader

	sourceMu sync.Mutex
	source   Source
}

func newTables(open func() (TableReader, error)) *tables {
	t := &tables{open: open, source: Source{Tables: true}}
	if s := bpf.Expect(); s.State != bpf.StateIdle {
		t.source = Source{Reason: s.Reason}
	}
	return t
}

// scan begins a scan; what it returns ends it.
func (t *tables) scan(s scanner) func() {
	if t == nil {
		return func() {}
	}
	t.mu.Lock()
	if t.wanted && t.reader == nil {
		t.wanted = false // one try
		r, err := t.open()
		if err == nil {
			t.reader = r
			s.ReadFrom(r)
		}
		t.found(err)
	}
	return func() {
		defer t.mu.Unlock()
		if err := s.TablesError(); err != nil && t.reader != nil {
			t.found(err)
			t.closeLocked()
		}
	}
}

func (t *tables) begin() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wanted = t.reader == nil
}

func (t *tables) end(s scanner) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wanted = false
	if t.reader != nil {
		s.ReadFrom(nil)
		t.closeLocked()
	}
}

func (t *tables) closeLocked() {
	t.reader.Close() // of a link and maps: there is nothing to lose
	t.reader = nil
}

func (t *tables) found(err error) {
	t.sourceMu.Lock()
	defer t.sourceMu.Unlock()
	t.source = Source{Tables: err == nil}
	if err != nil {
		t.source.Reason = err.Error()
	}
}

func (t *tables) now() Source {
	if t == nil {
		return Source{Reason: errNoTables.Error()}
	}
	t.sourceMu.Lock()
	defer t.sourceMu.Unlock()
	return t.source
}

func (s *hostList) Begin() { s.tables.begin() }

func (s *hostList) End() { s.tables.end(s.scanner) }

func (s *hostList) Source() Source { return s.tables.now() }

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

func (k *kernelTables) ReadTasks() ([]proc.Task, error) {
	list, err := k.Read()
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
			RSS: t.RSS * pageSize, VMS: t.VMS * pageSize, Name: t.Name, Mark: t.Mark,
		})
	}
	return k.rows, nil
}
