package run

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"procinsh/proc"
)

// What an Event tells.
const (
	EventStarted = "run.started"
	EventExited  = "run.exited"
	EventTimeout = "run.timeout"
	EventAdded   = "process.added"
	EventRemoved = "process.exited"
	EventOutput  = "output"
	EventHelper  = "helper" // the helper was lost, or is there again
)

// Event is something that happened to a run.
type Event struct {
	Sequence uint64        `json:"sequence"`
	Type     string        `json:"type"`
	At       int64         `json:"at"`
	Run      string        `json:"run"`
	Scope    string        `json:"scope"`
	Reason   string        `json:"reason"`
	Exit     *Exit         `json:"exit"`
	Process  *MemberStatus `json:"process"`
	Counts   *Counts       `json:"counts"`
	Next     int64         `json:"next"` // of the output
}

// maxEvents is how many events are kept for who comes back.
const maxEvents = 4_096

// maxViewers is how many may follow the events.
const maxViewers = 32

// ErrFull says that all places of those who follow the events are taken.
var ErrFull = errors.New("all event streams are in use")

// Events keeps the newest events and hands them to who follows. Safe for concurrent use.
type Events struct {
	Watched func(bool) // told when the first comes and the last leaves; nil: nobody

	mu      sync.Mutex
	list    []Event // by Sequence, without gaps
	next    uint64
	wake    chan struct{}
	viewers int
}

// NewEvents returns an empty list.
func NewEvents() *Events { return &Events{next: 1, wake: make(chan struct{})} }

// Add numbers an event and keeps it.
func (e *Events) Add(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ev.Sequence = e.next
	e.next++
	e.list = append(e.list, ev)
	if len(e.list) > 2*maxEvents {
		e.list = slices.Clone(e.list[len(e.list)-maxEvents:])
	}
	close(e.wake)
	e.wake = make(chan struct{})
}

// Enter takes a place. The caller leaves with leave. last is the number of the newest
// event.
//
// Errors: ErrFull.
func (e *Events) Enter() (last uint64, leave func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.viewers == maxViewers {
		return 0, nil, ErrFull
	}
	e.viewers++
	if e.viewers == 1 && e.Watched != nil {
		e.Watched(true)
	}
	return e.next - 1, sync.OnceFunc(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.viewers--
		if e.viewers == 0 && e.Watched != nil {
			e.Watched(false)
		}
	}), nil
}

func (e *Events) watched() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.viewers > 0
}

// After waits for events with a number above last and returns them, with how many in
// between are not kept any more.
func (e *Events) After(ctx context.Context, last uint64) (list []Event, lost uint64, err error) {
	for {
		e.mu.Lock()
		if last >= e.next { // of an earlier server
			last = 0
		}
		if first := e.next - uint64(len(e.list)); last+1 < first {
			lost = first - 1 - last
			last = first - 1
		}
		list = slices.Clone(e.list[len(e.list)-int(e.next-1-last):])
		wake := e.wake
		e.mu.Unlock()
		if len(list) > 0 || lost > 0 {
			return list, lost, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

const (
	followPause = time.Second            // between two looks at all members
	outputPause = 100 * time.Millisecond // between two events of one output
)

// following tells whether somebody follows the events.
type following struct {
	mu     sync.Mutex
	on     bool
	change chan struct{}
}

func (f *following) is() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.on
}

// Follow says whether somebody follows the events. Without, nobody looks at members and
// no output is told of.
func (s *Supervisor) Follow(on bool) {
	s.following.mu.Lock()
	s.following.on = on
	s.following.mu.Unlock()
	select {
	case s.following.change <- struct{}{}:
	default: // it looks anyway
	}
}

// follow tells which members come and go, while somebody wants to know.
func (s *Supervisor) follow() {
	known := map[*live]map[proc.ID]MemberStatus{}
	var tick <-chan time.Time
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.following.change:
			tick = nil
			if s.following.is() {
				tick = time.After(0)
			} else {
				known = map[*live]map[proc.ID]MemberStatus{}
			}
		case <-tick:
			s.mu.Lock()
			runs := slices.Collect(maps.Values(s.runs))
			s.mu.Unlock()
			s.compare(runs, known)
			tick = time.After(followPause)
		}
	}
}

func (s *Supervisor) compare(runs []*live, known map[*live]map[proc.ID]MemberStatus) {
	for r := range known {
		if !slices.Contains(runs, r) {
			delete(known, r)
		}
	}
	for _, r := range runs {
		before := known[r]
		if st := r.state(); st == StateStarting || r.over() && len(before) == 0 {
			continue
		}
		var list []member
		if !r.over() {
			var err error
			if list, _, err = s.membersOf(r, false); err != nil {
				continue // the next look tries again
			}
		}
		r.mu.Lock()
		roots := slices.Clone(r.hold.roots)
		r.mu.Unlock()
		all, counts := s.describe(r.id, list, roots, false, false)
		now := map[proc.ID]MemberStatus{}
		for i := range all {
			id, err := ParseID(all[i].ID)
			if err != nil {
				continue // written by FormatID
			}
			now[id] = all[i]
			if _, ok := before[id]; !ok {
				s.emit(Event{Type: EventAdded, Run: r.id, Scope: r.scope, Process: &all[i], Counts: &counts})
			}
		}
		for id, m := range before {
			if _, ok := now[id]; !ok {
				s.emit(Event{Type: EventRemoved, Run: r.id, Scope: r.scope, Process: &m, Counts: &counts})
			}
		}
		known[r] = now
	}
}

// noteOutputOf returns what a run's readers call after each piece: at most ten times a
// second, and only while somebody follows, that becomes an event.
func (s *Supervisor) noteOutputOf(r *live) func() {
	var mu sync.Mutex
	pending := false
	return func() {
		if !s.following.is() {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if pending {
			return
		}
		pending = true
		time.AfterFunc(outputPause, func() {
			mu.Lock()
			pending = false
			mu.Unlock()
			s.emit(Event{Type: EventOutput, Run: r.id, Scope: r.scope, Next: r.ring.extent().Next})
		})
	}
}
