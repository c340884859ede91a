package watch

import (
	"sync"
	"time"

	"procinsh/bpf"
	"procinsh/proc"
)

// ThreadReader reads the kernel's tables of threads until it is closed. Not safe for concurrent
// use.
type ThreadReader interface {
	proc.ThreadSource
	Close() error
}

// threadTables opens the kernel's tables when the threads of a process are first
// asked for, and closes them after the last process that is open. After an error
// there are none until then. nil opens none. Safe for concurrent use.
type threadTables struct {
	open func() (ThreadReader, error)

	mu     sync.Mutex // held for as long as a reading takes; guards all below
	users  int
	reader ThreadReader
	failed error

	source toldSource
}

func newThreadTables(open func() (ThreadReader, error)) *threadTables {
	t := &threadTables{open: open}
	t.source.expect()
	return t
}

func (t *threadTables) begin() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.users++
}

func (t *threadTables) end() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.users--; t.users == 0 {
		t.failed = nil
		t.closeLocked()
	}
}

func (t *threadTables) closeLocked() {
	if t.reader != nil {
		t.reader.Close() // of a program and maps: there is nothing to lose
		t.reader = nil
	}
}

// ReadThreads opens the tables when they are not. What it gives is the caller's.
func (t *threadTables) ReadThreads(pid int32, rows []proc.TaskThread) ([]proc.TaskThread, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed != nil {
		return rows, t.failed
	}
	if t.reader == nil {
		r, err := t.open()
		t.source.found(err)
		if err != nil {
			t.failed = err
			return rows, err
		}
		t.reader = r
	}
	rows, err := t.reader.ReadThreads(pid, rows)
	if err != nil {
		t.failed = err
		t.closeLocked()
		t.source.found(err)
	}
	return rows, err
}

func (t *threadTables) now() Source {
	if t == nil {
		return Source{Reason: errNoTables.Error()}
	}
	return t.source.get()
}

// kernelThreads are the rows of bpf as a process takes them.
type kernelThreads struct{ *bpf.Threads }

// OpenThreadTables opens the kernel's tables of threads for processes of fs.
//
// Errors: why there are none here, in words for people.
func OpenThreadTables(fs *proc.FS) (ThreadReader, error) {
	if !fs.SharesNumbers() {
		return nil, errNumbering
	}
	t, err := bpf.OpenThreads()
	if err != nil {
		return nil, err
	}
	return kernelThreads{t}, nil
}

func (k kernelThreads) ReadThreads(pid int32, rows []proc.TaskThread) ([]proc.TaskThread, error) {
	list, err := k.Read(pid)
	if err != nil {
		return rows, err
	}
	var sets []byte // the reader's own are written over by the next reading
	for i := range list {
		t := &list[i]
		if sets == nil {
			sets = make([]byte, 0, len(list)*len(t.CPUs))
		}
		sets = append(sets, t.CPUs...)
		rows = append(rows, proc.TaskThread{
			TID: t.TID, State: t.State, Flags: t.Flags, Policy: t.Policy, Priority: t.Priority, Nice: t.Nice,
			Processor: t.Processor, Start: t.Start, Runtime: time.Duration(t.Runtime), Voluntary: t.Voluntary,
			Nonvoluntary: t.Nonvoluntary, Name: t.Name, CPUs: sets[len(sets)-len(t.CPUs):],
		})
	}
	return rows, nil
}
