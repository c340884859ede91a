package watch

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"procinsh/bpf"
	"procinsh/proc"
)

// MappingReader reads the kernel's tables of mappings until it is closed. Not safe for
// concurrent use.
type MappingReader interface {
	// Read calls each with some mappings at a time until it returns false.
	Read(each func([]bpf.Mapping) bool) error
	Close() error
}

const (
	// walkPatience is how long a reading of the tables of mappings waits for the next
	// mappings, maxWalkTime how long it may take.
	walkPatience = time.Second
	maxWalkTime  = 4 * time.Second
	// walkRest is how long after one that was given up there is no other.
	walkRest = time.Minute
)

var (
	errHeldWalk = errors.New("a process held whoever reads its mappings: all are read as text for a minute, or as long as it does")
	errLongWalk = fmt.Errorf("the mappings of all processes take longer than %v: all are read as text for a minute", maxWalkTime)
)

// mappingTables opens the kernel's tables of mappings when they are first asked for while
// there are viewers, and closes them after the last one; after an error there are none
// until then. nil opens none. Safe for concurrent use.
//
// The kernel walks the mappings of a process under its mmap lock, which a thread of it can
// hold for as long as it likes; see proc.Scanner.Leave. So each reading has a goroutine,
// which is given up when it does not go on. It is not called back: there is no other as
// long as it is held, and none for a while after that.
type mappingTables struct {
	open           func() (MappingReader, error)
	patience, most time.Duration // walkPatience and maxWalkTime

	mu     sync.Mutex // guards all below
	wanted bool
	reader MappingReader
	failed error     // why there are none until the last viewer has left
	walk   *mapWalk  // under way, or held
	again  time.Time // not before

	source toldSource
}

// mapWalk is one reading of the tables.
type mapWalk struct {
	pieces chan []bpf.Mapping // valid until taken
	taken  chan struct{}
	left   chan struct{} // closed when nobody takes any more
	ended  chan error
}

func newMappingTables(open func() (MappingReader, error)) *mappingTables {
	t := &mappingTables{open: open, patience: walkPatience, most: maxWalkTime}
	t.source.expect()
	return t
}

func (t *mappingTables) begin() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wanted, t.failed = true, nil
}

func (t *mappingTables) end() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wanted = false
	t.closeLocked()
}

// closeLocked closes the reader unless a walk has it, which then does that.
func (t *mappingTables) closeLocked() {
	if t.reader != nil && t.walk == nil {
		t.reader.Close() // of a link and maps: there is nothing to lose
		t.reader = nil
	}
}

// start begins a walk, unless there is to be none now.
func (t *mappingTables) start() *mapWalk {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.wanted || t.failed != nil || t.walk != nil || time.Now().Before(t.again) {
		return nil
	}
	if t.reader == nil {
		r, err := t.open()
		t.source.found(err)
		if err != nil {
			t.failed = err
			return nil
		}
		t.reader = r
	}
	w := &mapWalk{make(chan []bpf.Mapping), make(chan struct{}), make(chan struct{}), make(chan error, 1)}
	t.walk = w
	go t.run(w, t.reader)
	return w
}

func (t *mappingTables) run(w *mapWalk, r MappingReader) {
	err := guard(func() error {
		return r.Read(func(list []bpf.Mapping) bool {
			select {
			case w.pieces <- list:
			case <-w.left:
				return false
			}
			select {
			case <-w.taken:
				return true
			case <-w.left:
				return false
			}
		})
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.walk = nil
	select {
	case <-w.left:
		t.again = time.Now().Add(walkRest)
	default:
	}
	if err != nil {
		t.failed = err
	}
	if err != nil || !t.wanted {
		t.closeLocked()
	}
	w.ended <- err
}

// ReadMappings gives up after a second without a mapping, and after four.
func (t *mappingTables) ReadMappings(each func(*proc.KernelMapping)) (whole bool) {
	w := t.start()
	if w == nil {
		return false
	}
	defer close(w.left)
	over := time.NewTimer(t.most)
	defer over.Stop()
	silent := time.NewTimer(t.patience)
	defer silent.Stop()
	for {
		select {
		case list := <-w.pieces:
			for i := range list {
				each((*proc.KernelMapping)(&list[i]))
			}
			w.taken <- struct{}{}
			silent.Reset(t.patience)
		case err := <-w.ended:
			t.source.found(err)
			return err == nil
		case <-silent.C:
			t.source.found(errHeldWalk)
			return false
		case <-over.C:
			t.source.found(errLongWalk)
			return false
		}
	}
}

func (t *mappingTables) now() Source {
	if t == nil {
		return Source{Reason: errNoTables.Error()}
	}
	return t.source.get()
}

// OpenMappingTables opens the kernel's tables of mappings for a scanner of fs.
//
// Errors: why there are none here, in words for people.
func OpenMappingTables(fs *proc.FS) (MappingReader, error) {
	if !fs.SharesNumbers() {
		return nil, errNumbering
	}
	m, err := bpf.OpenMappings()
	if err != nil {
		return nil, err
	}
	return m, nil
}
