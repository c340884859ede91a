package watch

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"procinsh/proc"
)

const (
	shortestInterval = 100 * time.Millisecond
	longestInterval  = 60 * time.Second
	// maxReaders bounds the goroutines that read processes, per viewer slot: a viewer
	// needs up to three, and one that the kernel holds in a reading may outlive its
	// viewer. Beyond it Subscribe returns ErrFull.
	maxReaders = 4
)

// ProcessState is one whole state of a watched process. Immutable; History is the
// viewer's own, the rest is shared by the viewers of the process.
//
// After a failed reading what was read before stays, and Err or MapsErr says why
// there is nothing newer.
type ProcessState struct {
	Row            ListRow      // as at connect
	Observation    *Observation // nil when nothing could be read
	History        []HistoryPoint
	Maps           []proc.Mapping // by address; with RSS and PSS where smaps is readable
	MapsEpoch      uint64         // changes when Maps changed; 0: never read
	MapsTruncated  bool           // only the first 65,536
	MapsCapturedAt time.Time      // zero: never
	MapsErr        error          // the last re-read failed
	Rollup         *proc.Rollup   // of the time of Maps; nil when unreadable
	Exited         bool           // the last state
	Err            error          // the last reading failed; Observation is the one before

	memo     *memo // of the shared part
	mapsMemo *memo // of Maps
}

// Memo returns the value of key, made once for all viewers of this reading. It must
// not depend on Row and History. A panic of build reaches each caller. Safe for
// concurrent use.
func (s *ProcessState) Memo(key any, build func() any) any { return s.memo.get(key, build) }

// MapsMemo is Memo for what depends on Maps and MapsTruncated alone: it is kept as
// long as MapsEpoch does not change.
func (s *ProcessState) MapsMemo(key any, build func() any) any { return s.mapsMemo.get(key, build) }

// Observation is a sample with what two samples say.
//
// Absent: every difference with the first sample, and of a counter that went
// backwards.
type Observation struct {
	proc.Sample
	CPUPercent proc.Opt[float64]   // percent of one core
	ThreadCPU  []proc.Opt[float64] // same order as Threads; percent of one core
	Rates      Rates
}

// Rates are per second.
//
// The switch rates add the threads that are in both samples, by TID and start time,
// so threads that come and go never make them negative. They are unknown when there
// is no such thread, when one is unreadable, and when the threads are cut.
type Rates struct {
	MinorFaults, MajorFaults                proc.Opt[float64]
	VoluntarySwitches, NonvoluntarySwitches proc.Opt[float64]
	ReadBytes, WriteBytes                   proc.Opt[float64]
}

// HistoryPoint is one sample of a viewer's last 60 s.
type HistoryPoint struct {
	At         time.Time
	CPUPercent proc.Opt[float64]
	RSS, VMS   proc.Opt[uint64]
}

// ProcessHooks are told of changes, from the samplers' goroutines and without any
// lock held. Each may be nil.
type ProcessHooks struct {
	Started   func(id proc.ID)            // the first viewer of a process came
	Stopped   func(id proc.ID)            // its sampler ended: no viewer is left, or it has exited
	Exited    func(id proc.ID)            // before Stopped
	Failed    func(id proc.ID, err error) // a sample failed, the one before did not or for another reason
	Recovered func(id proc.ID)            // a sample succeeded after one that failed
}

// ProcessOptions configure Processes.
type ProcessOptions struct {
	Interval   time.Duration // between samples, 100 ms to 60 s; 1 s when 0
	MaxViewers int           // 32 when 0
	RunOf      RunOf         // nil without runs
	Hooks      ProcessHooks
	// Tables lets the threads of a process that has many come from the kernel's own
	// tables, while somebody watches.
	Tables bool
}

// Processes watches single processes, one sampler for all viewers of a process.
// Safe for concurrent use.
type Processes struct {
	src      processSource
	threads  *threadTables // of src
	interval time.Duration
	max      int
	runOf    RunOf
	hooks    ProcessHooks
	closing  chan struct{}
	work     sync.WaitGroup // the readers
	dropped  atomic.Uint64  // readings that viewers were too slow for

	mu       sync.Mutex // guards all below
	closed   bool
	viewers  int
	readers  int                  // goroutines that read, wanted or not
	samplers map[proc.ID]*sampler // those a viewer can join
}

// NewProcesses returns a watch that does nothing until it is asked.
func NewProcesses(fs *proc.FS, o ProcessOptions) *Processes {
	var threads *threadTables
	if o.Tables {
		threads = newThreadTables(func() (ThreadReader, error) { return OpenThreadTables(fs) })
	}
	w := newProcesses(textProcesses{fs, threads}, o)
	w.threads = threads
	return w
}

// ThreadSource says what the threads of a process that has many are read from: as it
// was found out last, or as it is expected.
func (w *Processes) ThreadSource() Source { return w.threads.now() }

func newProcesses(src processSource, o ProcessOptions) *Processes {
	if o.MaxViewers <= 0 {
		o.MaxViewers = maxViewers
	}
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	return &Processes{
		src:      src,
		interval: min(max(o.Interval, shortestInterval), longestInterval),
		max:      o.MaxViewers,
		hooks:    o.Hooks,
		runOf:    o.RunOf,
		closing:  make(chan struct{}),
		samplers: make(map[proc.ID]*sampler),
	}
}

// Subscribe takes a viewer slot and makes the first reading, so that a process
// that is gone is an error here. When the process is watched already the first
// state is the one its sampler has.
//
// Errors: ErrFull, ErrStopping, proc.ErrGone, fs.ErrPermission; ctx's.
func (w *Processes) Subscribe(ctx context.Context, id proc.ID) (*ProcessViewer, error) {
	w.mu.Lock()
	switch {
	case w.closed:
		w.mu.Unlock()
		return nil, ErrStopping
	case w.viewers >= w.max || w.readers >= maxReaders*w.max:
		w.mu.Unlock()
		return nil, ErrFull
	}
	s := w.samplers[id]
	if s == nil {
		s = newSampler(w, id)
		w.samplers[id] = s
		w.readLocked(s.run)
	}
	w.viewers++
	s.viewers++
	v := &ProcessViewer{watch: w, sampler: s}
	rows := v.readRowLocked()
	w.mu.Unlock()

	if err := v.begin(ctx, rows); err != nil {
		v.Close()
		return nil, err
	}
	return v, nil
}

// read runs f in a goroutine that Close waits for.
func (w *Processes) read(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readLocked(f)
}

func (w *Processes) readLocked(f func()) {
	w.readers++
	w.work.Go(func() {
		defer func() {
			w.mu.Lock()
			w.readers--
			w.mu.Unlock()
		}()
		f()
	})
}

// leave takes a viewer from a sampler and ends it with the last one.
func (w *Processes) leave(s *sampler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.viewers--
	s.viewers--
	if s.viewers == 0 {
		w.forgetLocked(s)
		s.end()
	}
}

// forget lets no further viewer join s.
func (w *Processes) forget(s *sampler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgetLocked(s)
}

func (w *Processes) forgetLocked(s *sampler) {
	if w.samplers[s.id] == s {
		delete(w.samplers, s.id)
	}
}

// Close ends all viewers with ErrStopping and waits for the samplers to end, at
// most 1 s for a reading that hangs in the kernel.
func (w *Processes) Close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.closing)
		for _, s := range w.samplers {
			s.end()
		}
		clear(w.samplers)
	}
	w.mu.Unlock()
	waitAtMost(&w.work, closeWait)
}

// ProcessViewer is one viewer. Not safe for concurrent use.
type ProcessViewer struct {
	watch   *Processes
	sampler *sampler
	row     ListRow
	seen    uint64 // number of the last reading returned, 0 before the first
	from    uint64 // number of the first history point
	exited  bool
	done    bool
}

// rowReading is the row at connect.
type rowReading struct {
	row proc.Row
	run string
	err error
}

// readRowLocked reads the row of a viewer that has just come.
func (v *ProcessViewer) readRowLocked() <-chan rowReading {
	src, id := v.watch.src, v.sampler.id
	done := make(chan rowReading, 1)
	v.watch.readLocked(func() {
		var r rowReading
		r.err = guard(func() error {
			t, err := src.Open(id)
			if err != nil {
				return err
			}
			defer t.Close()
			r.row, err = t.ReadRow()
			if err == nil && v.watch.runOf != nil {
				r.run = v.watch.runOf()[id]
			}
			return err
		})
		done <- r
	})
	return done
}

// begin waits for the row and for the sampler's first reading.
func (v *ProcessViewer) begin(ctx context.Context, rows <-chan rowReading) error {
	ready := v.sampler.ready
	for rows != nil || ready != nil {
		select {
		case r := <-rows:
			if r.err != nil {
				return fmt.Errorf("read process %d: %w", v.sampler.id.PID, r.err)
			}
			v.row.Row, v.row.Run = r.row, r.run
			rows = nil
		case <-ready:
			if v.sampler.err != nil {
				return v.sampler.err
			}
			ready = nil
		case <-ctx.Done():
			return ctx.Err()
		case <-v.watch.closing:
			return ErrStopping
		}
	}
	r, _ := v.sampler.newest()
	if r.observation != nil {
		v.row.CPUPercent = r.observation.CPUPercent
	}
	v.from = r.points.last()
	return nil
}

// Next returns the first state at once, then waits for each newer one. After a
// state with Exited it returns io.EOF.
//
// Errors: io.EOF, ErrStopping, ctx's.
func (v *ProcessViewer) Next(ctx context.Context) (*ProcessState, error) {
	for {
		r, changed := v.sampler.newest()
		switch {
		case v.done:
			return nil, errClosed
		case v.watch.isClosed():
			return nil, ErrStopping
		case v.exited:
			return nil, io.EOF
		case r.number > v.seen:
			if v.seen > 0 {
				v.watch.dropped.Add(r.number - v.seen - 1)
			}
			v.seen = r.number
			v.exited = r.exited
			return r.state(v.row, v.from), nil
		}
		select {
		case <-changed:
		case <-v.watch.closing:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (w *Processes) isClosed() bool {
	select {
	case <-w.closing:
		return true
	default:
		return false
	}
}

// Close gives the slot back; the last viewer's ends the sampler and closes the
// handle of the process. Closing twice is once.
func (v *ProcessViewer) Close() {
	if v.done {
		return
	}
	v.done = true
	v.watch.leave(v.sampler)
}
