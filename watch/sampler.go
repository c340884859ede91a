package watch

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"procinsh/proc"
)

// sampler reads one process each interval for all its viewers, until the last one
// has left or the process has ended. Its goroutine owns everything that is not
// under mu.
type sampler struct {
	watch *Processes
	id    proc.ID
	ready chan struct{} // closed when the first reading is there, or err
	err   error         // why there is no first reading; set before ready is closed

	viewers int // guarded by the watch's mu

	stop    chan struct{}
	stopped sync.Once

	scratch     proc.Sample
	observation *Observation
	last        time.Time // monotonic time of observation
	sampleErr   error     // of the last sample
	failure     string    // its text, as told to the hooks
	points      history
	maps        mapsKeeper
	pace        pace

	mu      sync.Mutex // guards all below
	current *reading
	changed chan struct{} // closed and replaced at each reading
}

// reading is the part of a state that the viewers of a process share. Immutable.
type reading struct {
	number      uint64
	observation *Observation
	err         error
	exited      bool
	points      history
	maps        []proc.Mapping
	truncated   bool
	epoch       uint64
	mapsAt      time.Time
	mapsErr     error
	rollup      *proc.Rollup
	memo        *memo
	mapsMemo    *memo
}

// state is the reading for a viewer whose history begins at point from.
func (r *reading) state(row ListRow, from uint64) *ProcessState {
	return &ProcessState{
		Row:            row,
		Observation:    r.observation,
		History:        r.points.since(from),
		Maps:           r.maps,
		MapsEpoch:      r.epoch,
		MapsTruncated:  r.truncated,
		MapsCapturedAt: r.mapsAt,
		MapsErr:        r.mapsErr,
		Rollup:         r.rollup,
		Exited:         r.exited,
		Err:            r.err,
		memo:           r.memo,
		mapsMemo:       r.mapsMemo,
	}
}

func newSampler(w *Processes, id proc.ID) *sampler {
	return &sampler{
		watch:   w,
		id:      id,
		ready:   make(chan struct{}),
		stop:    make(chan struct{}),
		maps:    mapsKeeper{memo: new(memo)},
		pace:    pace{interval: w.interval},
		changed: make(chan struct{}),
	}
}

// end makes the sampler stop at once.
func (s *sampler) end() { s.stopped.Do(func() { close(s.stop) }) }

// newest returns the newest reading and what is closed when there is a newer one.
func (s *sampler) newest() (*reading, chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current, s.changed
}

func (s *sampler) run() {
	w := s.watch
	defer w.forget(s)
	var t target
	err := guard(func() (err error) {
		t, err = w.src.Open(s.id)
		return err
	})
	if err != nil {
		s.fail(fmt.Errorf("open process %d: %w", s.id.PID, err))
		return
	}
	defer t.Close()
	if !s.first(t) {
		return
	}
	if w.hooks.Stopped != nil {
		defer w.hooks.Stopped(s.id)
	}
	timer := time.NewTimer(s.pace.wait())
	defer timer.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-timer.C:
		}
		if !s.turn(t) {
			return
		}
		timer.Reset(s.pace.wait())
	}
}

// first makes the reading that Subscribe waits for. It carries the maps, however
// long they take.
func (s *sampler) first(t target) bool {
	s.startMaps()
	if err := s.sample(t); errors.Is(err, proc.ErrGone) {
		s.fail(err)
		return false
	}
	select {
	case r := <-s.maps.pending:
		s.maps.take(r)
	case <-s.stop:
		s.fail(ErrStopping)
		return false
	}
	if hook := s.watch.hooks.Started; hook != nil {
		hook(s.id)
	}
	s.tell()
	now := time.Now() // intervals count from what the viewer gets first
	s.pace.read(now, now, false)
	s.publish(false)
	close(s.ready)
	return true
}

// turn makes the next reading and tells whether there is another one to come.
func (s *sampler) turn(t target) bool {
	w := s.watch
	began := time.Now()
	begunMaps := s.maps.pending == nil && s.maps.due.Sub(began) < mapsSlack
	if begunMaps {
		s.startMaps()
	}
	err := s.sample(t)
	s.pace.read(began, time.Now(), true)
	exited := errors.Is(err, proc.ErrGone)
	if exited {
		w.forget(s) // who subscribes from here on opens it anew and finds it gone
	} else {
		s.awaitMaps(begunMaps)
	}
	select {
	case <-s.stop:
		return false
	default:
	}
	if !exited {
		s.tell()
	} else if w.hooks.Exited != nil {
		w.hooks.Exited(s.id)
	}
	s.publish(exited)
	return !exited
}

// sample makes the next observation; after an error the last one stays.
func (s *sampler) sample(t target) error {
	began := time.Now()
	err := guard(func() error { return t.ReadSample(&s.scratch) })
	s.sampleErr = err
	if err != nil {
		return err
	}
	sample := s.scratch
	sample.Threads = slices.Clone(sample.Threads)
	s.observation = observe(sample, s.observation, began.Sub(s.last))
	s.last = began
	s.points.add(HistoryPoint{
		At:         sample.At,
		CPUPercent: s.observation.CPUPercent,
		RSS:        sample.RSS,
		VMS:        sample.VMS,
	}, began, maxHistoryPoints(s.watch.interval))
	return nil
}

// startMaps reads the maps beside the samples, which stay in step when the address
// space is large or its lock is taken.
func (s *sampler) startMaps() {
	spare, done := s.maps.spare, make(chan *mapsReading, 1)
	s.maps.spare, s.maps.pending = nil, done
	s.watch.read(func() { done <- readMaps(s.watch.src, s.id, spare) })
}

// awaitMaps takes a reading of the maps that is there, or soon is when it was begun
// with this sample.
func (s *sampler) awaitMaps(begun bool) {
	if s.maps.pending == nil {
		return
	}
	var patience time.Duration
	if begun {
		patience = min(s.watch.interval/4, mapsPatience)
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case r := <-s.maps.pending:
		s.maps.take(r)
	case <-t.C:
		select { // a timer of 0 may win over a reading that is there
		case r := <-s.maps.pending:
			s.maps.take(r)
		default:
		}
	case <-s.stop:
	}
}

// publish shows what there is to the viewers.
func (s *sampler) publish(exited bool) {
	k := &s.maps
	r := &reading{
		number:      1,
		observation: s.observation,
		err:         s.sampleErr,
		exited:      exited,
		points:      s.points,
		maps:        k.maps,
		truncated:   k.truncated,
		epoch:       k.epoch,
		mapsAt:      k.at,
		mapsErr:     k.err,
		rollup:      k.rollup,
		memo:        new(memo),
		mapsMemo:    k.memo,
	}
	if exited { // which says it all
		r.err = nil
		if errors.Is(r.mapsErr, proc.ErrGone) {
			r.mapsErr = nil
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		r.number = s.current.number + 1
	}
	s.current = r
	close(s.changed)
	s.changed = make(chan struct{})
}

// tell calls the hooks when a sample ended otherwise than the one before.
func (s *sampler) tell() {
	hooks, was := s.watch.hooks, s.failure
	s.failure = ""
	if s.sampleErr != nil {
		s.failure = s.sampleErr.Error()
	}
	switch {
	case s.failure != "" && s.failure != was && hooks.Failed != nil:
		hooks.Failed(s.id, s.sampleErr)
	case s.failure == "" && was != "" && hooks.Recovered != nil:
		hooks.Recovered(s.id)
	}
}

// fail ends the waiting for a first reading.
func (s *sampler) fail(err error) {
	s.err = err
	close(s.ready)
}
