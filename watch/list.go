package watch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"procinsh/proc"
)

var (
	// ErrFull says that all viewer slots are taken.
	ErrFull = errors.New("all viewer slots are taken")
	// ErrStopping says that the server is going down.
	ErrStopping = errors.New("shutting down")

	errClosed = errors.New("viewer is closed")
)

const (
	// maxViewers is how many viewers of one kind there are, unless the options say
	// otherwise; the next one gets ErrFull.
	maxViewers = 32
	// shortestListInterval is the shortest time between two scans.
	shortestListInterval = time.Second
	// wantMemory is how long a one-shot's wish stays in the scans that are made
	// anyway, so that a client that asks again and again does not double them.
	wantMemory = 10 * time.Second
	// closeWait is how long Close waits for a reading that the kernel does not
	// finish, such as one of a command line on a file system that hangs.
	closeWait = time.Second
)

// ListWant is what a viewer of the list asks for beside the plain rows.
type ListWant struct {
	Maps bool
	IO   bool

	mappings bool // of the structure of the host, which goes with the list's scans
}

func (w ListWant) has(o ListWant) bool {
	return (w.Maps || !o.Maps) && (w.IO || !o.IO) && (w.mappings || !o.mappings)
}

// ListRow is a row with what two samples say.
//
// Absent: CPUPercent without a second reading of the same process, when the earlier
// one is more than 60 s old, or when its CPU time went backwards; the rates also
// when the scan did not ask for them and when io is unreadable.
type ListRow struct {
	proc.Row
	CPUPercent          proc.Opt[float64] // percent of one core
	ReadRate, WriteRate proc.Opt[float64] // storage bytes per second
	Run                 string            // id of the run it belongs to, "" of none
}

// Totals is the host as a whole, with what two samples say.
type Totals struct {
	proc.Totals
	CoresBusy           proc.Opt[float64] // at most Cores
	ReadRate, WriteRate proc.Opt[float64] // storage bytes per second
	SelfCPUPercent      proc.Opt[float64] // percent of one core
	Processes, Threads  int
	States              map[byte]int // letter of Row.State to processes
}

// ListState is the list at one time. Immutable, shared by all viewers.
type ListState struct {
	Sequence   uint64    // 1 for the first scan, then one more each scan
	CapturedAt time.Time // when the scan began
	Want       ListWant  // what was read: the union of what viewers asked for
	Rows       []ListRow // by PID
	Totals     Totals
	TotalsErr  error // the host could not be read; Totals then holds only the counts

	totalsAt time.Time // monotonic, under the rates of Totals
	memo     memo
}

// Memo returns the value of key, made once for all viewers of the state: the first
// caller of a key runs build, others wait for it. A panic of build reaches each
// caller. Values live as long as the state; List keeps the newest and the one
// before. Safe for concurrent use.
func (s *ListState) Memo(key any, build func() any) any { return s.memo.get(key, build) }

// ListUpdate is what a viewer gets: State, and the state it had before. Base is
// nil for the first update and for a viewer that fell behind: send it whole.
// Otherwise Base.Sequence is State.Sequence - 1.
type ListUpdate struct {
	State *ListState
	Base  *ListState
}

// ListHooks are told of changes, from the collection's own goroutines and without
// any lock held. Each may be nil.
type ListHooks struct {
	Started   func()          // the first viewer came
	Stopped   func()          // the last viewer left
	Failed    func(err error) // a scan failed, the one before did not or for another reason
	Recovered func()          // a scan succeeded after one that failed
}

// ListOptions configure a List.
type ListOptions struct {
	Interval   time.Duration // between scans with a viewer, at least 1 s
	MaxViewers int           // 32 when 0
	RunOf      RunOf         // nil without runs
	Hooks      ListHooks
	// Tables lets scans take from the kernel's own tables what those have, while there
	// are viewers.
	Tables bool
}

// RunOf tells of each process that belongs to a run which that is. It is called once
// for a scan, or for the row of one process, and must not take long.
type RunOf func() map[proc.ID]string

// List watches all processes. Safe for concurrent use.
//
// While there is a viewer it scans each interval, once for all; without one only
// Now scans. It keeps the newest state and the one before.
type List struct {
	src      listSource
	interval time.Duration
	max      int
	runOf    RunOf
	hooks    ListHooks
	closing  chan struct{}
	work     sync.WaitGroup // scans and the collection

	failure string // the last scan's error; only the running scan touches it
	took    *Durations
	dropped atomic.Uint64 // states that viewers were too slow for

	mu                sync.Mutex // guards all below
	closed            bool
	viewers           int
	inner             int // of them: this package's own, which take no slot
	wantMaps, wantIO  int // viewers that want it
	wantMappings      int
	askedMaps         time.Time
	askedIO           time.Time
	current, previous *ListState
	running           *listScan
	pace              pace
	changed           chan struct{} // closed and replaced when a scan ends
	failures          uint64        // scans that failed
	lastErr           error         // of the last one that did
	stop              chan struct{} // closed to end the collection; nil without one
	ended             chan struct{} // closed when the last collection has ended; nil before the first
}

// listScan is one scan that is being made.
type listScan struct {
	want   ListWant
	inTurn bool          // at the collection's time, whoever asked
	done   chan struct{} // closed when state and err are set
	state  *ListState
	err    error
}

// NewList returns a list that does nothing until it is asked.
func NewList(fs *proc.FS, o ListOptions) *List {
	var t *tables[TableReader]
	var m *mappingTables
	if o.Tables {
		t = newTables(func() (TableReader, error) { return OpenTables(fs) })
		m = newMappingTables(func() (MappingReader, error) { return OpenMappingTables(fs) })
	}
	return newList(newHostList(fs, t, m), o)
}

// Source says what scans read while there are viewers: as it was found out last, or
// as it is expected.
func (l *List) Source() Source { return l.src.Source() }

// MapsSource says the same of map summaries.
func (l *List) MapsSource() Source { return l.src.MapsSource() }

func newList(src listSource, o ListOptions) *List {
	if o.MaxViewers <= 0 {
		o.MaxViewers = maxViewers
	}
	interval := max(o.Interval, shortestListInterval)
	return &List{
		src:      src,
		interval: interval,
		max:      o.MaxViewers,
		runOf:    o.RunOf,
		hooks:    o.Hooks,
		closing:  make(chan struct{}),
		changed:  make(chan struct{}),
		pace:     pace{interval: interval},
		took:     newScanDurations(),
	}
}

// Now returns the newest state: the shared one when it is younger than the
// interval and has what is wanted, else a new scan, compared with the one before.
// Callers at the same time share one scan, and viewers get it too.
//
// Errors: ErrStopping; ctx's; why the scan failed.
func (l *List) Now(ctx context.Context, want ListWant) (*ListState, error) {
	return l.NotOlder(ctx, want, l.interval)
}

// NotOlder is Now for who takes only a state that is younger than age, which may be
// shorter than the interval.
func (l *List) NotOlder(ctx context.Context, want ListWant, age time.Duration) (*ListState, error) {
	for {
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return nil, ErrStopping
		}
		l.rememberLocked(want)
		if s := l.current; s != nil && s.Want.has(want) && time.Since(s.CapturedAt) < age {
			l.mu.Unlock()
			return s, nil
		}
		c := l.scanLocked()
		l.mu.Unlock()
		select {
		case <-c.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-l.closing:
			return nil, ErrStopping
		}
		if c.want.has(want) { // else it had begun without what is wanted here
			return c.state, c.err
		}
	}
}

// rememberLocked notes what a one-shot wants.
func (l *List) rememberLocked(want ListWant) {
	now := time.Now()
	if want.Maps {
		l.askedMaps = now
	}
	if want.IO {
		l.askedIO = now
	}
}

// scanLocked returns the scan that is being made, starting one when none is.
func (l *List) scanLocked() *listScan {
	if l.running != nil {
		return l.running
	}
	asked := func(at time.Time) bool { return !at.IsZero() && time.Since(at) < wantMemory }
	c := &listScan{
		want: ListWant{
			Maps: l.wantMaps > 0 || asked(l.askedMaps),
			IO:   l.wantIO > 0 || asked(l.askedIO),

			mappings: l.wantMappings > 0,
		},
		inTurn: l.stop != nil && l.pace.wait() <= 0,
		done:   make(chan struct{}),
	}
	l.running = c
	current, previous := l.current, l.previous
	l.work.Go(func() { l.scan(c, current, previous) })
	return c
}

// scan makes one state and publishes it.
func (l *List) scan(c *listScan, current, previous *ListState) {
	began := time.Now()
	c.err = guard(func() (err error) {
		c.state, err = readList(l.src, c.want, began, baseOf(current, previous, began, l.interval), l.interval)
		if err == nil && l.runOf != nil {
			markRuns(c.state.Rows, l.runOf())
		}
		return err
	})
	l.tell(c.err)
	if c.err == nil {
		l.took.Add(time.Since(began))
	}

	l.mu.Lock()
	if c.err == nil {
		c.state.Sequence = 1
		if current != nil {
			c.state.Sequence = current.Sequence + 1
		}
		l.current, l.previous = c.state, current
	}
	if c.err != nil {
		l.failures++
		l.lastErr = c.err
	}
	l.running = nil
	l.pace.read(began, time.Now(), c.inTurn)
	close(l.changed)
	l.changed = make(chan struct{})
	l.mu.Unlock()
	close(c.done)
}

// tell calls the hooks when a scan ended otherwise than the one before.
func (l *List) tell(err error) {
	was := l.failure
	l.failure = ""
	if err != nil {
		l.failure = err.Error()
	}
	switch {
	case err != nil && l.failure != was && l.hooks.Failed != nil:
		l.hooks.Failed(err)
	case err == nil && was != "" && l.hooks.Recovered != nil:
		l.hooks.Recovered()
	}
}

// collect scans each interval until stop is closed. It begins when the collection
// before it, if any, has told its end.
func (l *List) collect(before, stop, ended chan struct{}, first time.Duration) {
	defer close(ended)
	if before != nil {
		<-before
	}
	if l.hooks.Started != nil {
		l.hooks.Started()
	}
	if l.hooks.Stopped != nil {
		defer l.hooks.Stopped()
	}
	l.src.Begin()
	defer l.src.End()
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-timer.C:
		}
		l.mu.Lock()
		if l.stop != stop {
			l.mu.Unlock()
			return
		}
		c := l.running
		// A one-shot may have scanned meanwhile, which moves the next turn.
		if c == nil && l.pace.wait() <= 0 {
			c = l.scanLocked()
		}
		l.mu.Unlock()
		if c != nil {
			select {
			case <-stop:
				return
			case <-c.done:
			}
		}
		l.mu.Lock()
		wait := l.pace.wait()
		l.mu.Unlock()
		timer.Reset(wait)
	}
}

// Subscribe takes a viewer slot.
//
// Errors: ErrFull, ErrStopping.
func (l *List) Subscribe(want ListWant) (*ListViewer, error) { return l.subscribe(want, false) }

func (l *List) subscribe(want ListWant, inner bool) (*ListViewer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrStopping
	}
	if !inner && l.viewers-l.inner >= l.max {
		return nil, ErrFull
	}
	v := &ListViewer{list: l, want: want, failures: l.failures, inner: inner}
	l.viewers++
	if inner {
		l.inner++
	}
	l.countLocked(want, 1)

	// The newest state is the first update unless it is old. The first viewer's
	// must also have what it wants; one that joins others gets that with the next
	// scan, in their step.
	s := l.current
	age := time.Duration(0)
	if s != nil {
		age = time.Since(s.CapturedAt)
	}
	if l.stop != nil {
		if s == nil || age >= 2*l.interval {
			v.after = l.sequenceLocked()
		}
		return v, nil
	}
	var first time.Duration
	if s != nil && age < l.interval && s.Want.has(want) {
		first = max(l.pace.wait(), 0)
	} else {
		v.after = l.sequenceLocked()
		l.pace.due = time.Now()
	}
	before, stop, ended := l.ended, make(chan struct{}), make(chan struct{})
	l.stop, l.ended = stop, ended
	l.work.Go(func() { l.collect(before, stop, ended, first) })
	return v, nil
}

func (l *List) sequenceLocked() uint64 {
	if l.current == nil {
		return 0
	}
	return l.current.Sequence
}

func (l *List) countLocked(want ListWant, n int) {
	if want.Maps {
		l.wantMaps += n
	}
	if want.IO {
		l.wantIO += n
	}
	if want.mappings {
		l.wantMappings += n
	}
}

// Close ends all viewers with ErrStopping and waits for the collection to end, at
// most 1 s for a scan that hangs in the kernel.
func (l *List) Close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.closing)
		l.endLocked()
	}
	l.mu.Unlock()
	waitAtMost(&l.work, closeWait)
}

// endLocked ends the collection. The two states stay for one-shots, what viewers
// made of them does not.
func (l *List) endLocked() {
	if l.stop != nil {
		close(l.stop)
		l.stop = nil
	}
	for _, s := range []*ListState{l.current, l.previous} {
		if s != nil {
			s.memo.clear()
		}
	}
}

// waitAtMost waits for wg, but no longer than d.
func waitAtMost(wg *sync.WaitGroup, d time.Duration) {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

// ListViewer is one viewer. Not safe for concurrent use.
type ListViewer struct {
	list     *List
	want     ListWant
	failures uint64 // of the list that the viewer knows of
	after    uint64 // sequence of the last state returned, or of one that is too old
	any      bool   // a state was returned
	inner    bool
	done     bool
}

// setWant changes what the viewer asks for, from the next scan on. It may be called
// beside Next.
func (v *ListViewer) setWant(want ListWant) {
	v.list.mu.Lock()
	defer v.list.mu.Unlock()
	if v.done {
		return
	}
	v.list.countLocked(v.want, -1)
	v.want = want
	v.list.countLocked(want, 1)
}

// Next waits for a state newer than the last one returned.
//
// Errors: ErrStopping; ctx's; before the first state, why the scan failed. Later
// failures only make the viewer wait for the next state.
func (v *ListViewer) Next(ctx context.Context) (ListUpdate, error) {
	l := v.list
	for {
		l.mu.Lock()
		s, base, changed, closed := l.current, l.previous, l.changed, l.closed
		failures, err := l.failures, l.lastErr
		l.mu.Unlock()
		switch {
		case closed:
			return ListUpdate{}, ErrStopping
		case v.done:
			return ListUpdate{}, errClosed
		case s != nil && s.Sequence > v.after:
			u := ListUpdate{State: s}
			if v.any && base != nil && base.Sequence == v.after {
				u.Base = base
			}
			if v.any && !v.inner {
				l.dropped.Add(s.Sequence - v.after - 1)
			}
			v.after, v.any = s.Sequence, true
			return u, nil
		case !v.any && failures != v.failures:
			v.failures = failures
			return ListUpdate{}, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ListUpdate{}, ctx.Err()
		case <-l.closing:
		}
	}
}

// Close gives the slot back; the last viewer's ends the collection. Closing twice
// is once.
func (v *ListViewer) Close() {
	l := v.list
	l.mu.Lock()
	defer l.mu.Unlock()
	if v.done {
		return
	}
	v.done = true
	l.viewers--
	if v.inner {
		l.inner--
	}
	l.countLocked(v.want, -1)
	if l.viewers == 0 {
		l.endLocked()
	}
}
