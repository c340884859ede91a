package proc

import (
	"errors"
	"sync"
)

// ErrLeft says that a scan was taken out of the hands of the goroutine that made
// it, by Leave.
var ErrLeft = errors.New("the scan was left")

const (
	// maxHeldReadings is how many readings of a scanner the kernel may hold at one
	// time, each with a thread of ours. Beyond it no command line and no map summary
	// is read.
	maxHeldReadings = 64
	// maxHeldReadingsOfUser is the same for the processes of one user: beyond it no
	// command line and no map summary of that user's is read.
	maxHeldReadingsOfUser = 8
)

// A process can make the kernel wait in the reading of its command line or maps,
// for as long as it likes and also after it was killed: both take its mmap lock,
// which a thread of it holds while it maps a file of a file system that does not
// answer. Nobody can tell beforehand, and nobody can call a reader back. So such a
// reading is a turn that another goroutine can look at and take away: Turn, Leave
// and Resume of Scanner.
type turn struct {
	mu     sync.Mutex
	number uint64 // of the reading under way, or of the last one
	inside bool
	now    heldReading
	held   map[uint64]heldReading // those that were taken away and are not back
}

type heldReading struct {
	id  ID
	uid uint32
}

// enter begins a reading of the process of row, unless one of it is held already
// or too many are. Its number is for leave.
func (t *turn) enter(row *Row) (number uint64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.held) > 0 && !t.allowedLocked(row) {
		return 0, false
	}
	t.number++
	t.inside, t.now = true, heldReading{row.ID, row.UID}
	return t.number, true
}

func (t *turn) allowedLocked(row *Row) bool {
	if len(t.held) >= maxHeldReadings {
		return false
	}
	user := 0
	for _, h := range t.held {
		if h.id == row.ID {
			return false
		}
		if h.uid == row.UID {
			user++
		}
	}
	return user < maxHeldReadingsOfUser
}

// leave ends a reading and tells whether the scan is still the caller's.
func (t *turn) leave(number uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.inside && t.number == number {
		t.inside = false
		return true
	}
	delete(t.held, number)
	return false
}

// Turn returns the number of the reading under way that the kernel may hold, 0
// when there is none. It may be called at any time, from any goroutine.
func (s *Scanner) Turn() uint64 {
	t := s.turn
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.inside {
		return 0
	}
	return t.number
}

// Leave takes the scan away from the goroutine that is in the reading with that
// number, and tells whether it is still in it. That goroutine touches the scanner
// no more; its Scan or Resume returns ErrLeft whenever the kernel lets it. The
// scan now belongs to the caller, who ends it with Resume.
func (s *Scanner) Leave(number uint64) bool {
	t := s.turn
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.inside || t.number != number {
		return false
	}
	t.inside = false
	if t.held == nil {
		t.held = make(map[uint64]heldReading)
	}
	t.held[number] = t.now
	return true
}

// Resume goes on with a scan after Leave and returns what Scan would have. The
// process whose reading is held is listed without its command line and map
// summary, as long as that lasts.
//
// Errors: ErrLeft.
func (s *Scanner) Resume() ([]Row, error) {
	// What the held reading may still write to stays with it.
	was, r := s.reader, newReader(s.fs)
	r.ask, r.now, r.begun, r.oldest, r.boot = was.ask, was.now, was.begun, was.oldest, was.boot
	r.ids, r.none, r.turn = was.ids, was.none, was.turn
	r.mappings, r.epoch = was.mappings, was.epoch
	r.texts.users, r.texts.ttys, r.texts.seed = was.texts.users, was.texts.ttys, was.texts.seed
	s.reader = r
	return s.walk()
}
