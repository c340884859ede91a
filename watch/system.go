package watch

import (
	"context"
	"slices"
	"sync"
	"time"

	"procinsh/bpf"
	"procinsh/proc"
)

const (
	// activityInterval is the time between two windows of the sensors.
	activityInterval = 100 * time.Millisecond
	// quietInterval is the same when no sensor reports: only the status is told.
	quietInterval = time.Second
	// maxKeptWindows is how many windows a viewer may be behind before it has lost
	// some, maxKeptRows how many rows they hold together.
	maxKeptWindows = 16
	maxKeptRows    = 65_536
	// retryWait is the time before a list that failed is asked again.
	retryWait = time.Second
)

// sensors is *bpf.Sensors.
type sensors interface {
	Drain(w *bpf.Window) error
	Status() bpf.Status
	Close() error
}

// SystemWant is what a viewer of the host asks for.
type SystemWant struct {
	Summaries bool // map summaries instead of the mappings
}

// SystemHooks are told of changes, from the collection's own goroutines and without
// any lock held. Each may be nil.
type SystemHooks struct {
	Started   func()          // the first viewer came
	Stopped   func()          // the last viewer left, and the sensors are detached
	Failed    func(err error) // a reading failed, and the one before did not or for another reason
	Recovered func()
	// Sensor is called when a sensor is in another state than it was told last;
	// idle and starting are not told.
	Sensor func(name, state, reason string)
	// Structure is called after each reading of the structure.
	Structure func(t *Topology, took time.Duration)
}

// SystemOptions configure a System.
type SystemOptions struct {
	MaxViewers int // 32 when 0
	Hooks      SystemHooks
	// Tables lets the structure come from the kernel's own tables of open files.
	Tables bool
}

// System watches the host: its structure, its processes and, with sensors in the
// kernel, what they do. Safe for concurrent use.
//
// It starts with the first viewer, and after the last one nothing of it runs and the
// sensors are detached. The processes come from a List, whose scans it shares.
type System struct {
	list   *List
	source structureSource
	open   func() sensors
	names  *names
	max    int
	hooks  SystemHooks

	closing chan struct{}
	work    sync.WaitGroup
	fail    failures
	took    *Durations // of readings of the structure

	mu          sync.Mutex // guards all below
	closed      bool
	viewers     int
	summaries   int // viewers that want summaries; the others want mappings
	run         *systemRun
	ended       chan struct{} // closed when the last run has ended; nil before the first
	changed     chan struct{} // closed and replaced when there is something new
	current     *Topology     // the newest, also without viewers
	previous    *Topology     // the one before, nil without
	metrics     *ListState
	metricsSeq  uint64
	windows     []*Activity // the newest last
	activitySeq uint64
	capturedAt  int64 // of the newest activity, ever
	status      SystemStatus
	told        map[string]bpf.SensorStatus // the last known state of each sensor that is not idle or starting
	counted     counted
}

// systemRun is one collection, from the first viewer to the last.
type systemRun struct {
	ctx    context.Context
	cancel context.CancelFunc
	kick   chan struct{} // the structure is wanted before its time
	list   *ListViewer   // nil until the list was subscribed to
	states int           // of the list, published in this run
}

// NewSystem returns a system that does nothing until it is asked. The scans of list
// are its clock: about one a second.
func NewSystem(fs *proc.FS, list *List, o SystemOptions) *System {
	open := func() sensors { return bpf.Open(bpf.Options{}) }
	var t *tables[DescriptorReader]
	if o.Tables {
		t = newTables(func() (DescriptorReader, error) { return OpenDescriptorTables(fs) })
	}
	return newSystem(list, newHostStructure(fs, t), open, newNames(nil), o)
}

// Source says what the structure is read from while there are viewers: as it was found
// out last, or as it is expected.
func (s *System) Source() Source { return s.source.Source() }

func newSystem(list *List, source structureSource, open func() sensors, n *names, o SystemOptions) *System {
	if o.MaxViewers <= 0 {
		o.MaxViewers = maxViewers
	}
	return &System{
		list: list, source: source, open: open, names: n, max: o.MaxViewers, hooks: o.Hooks,
		fail:    failures{failed: o.Hooks.Failed, recovered: o.Hooks.Recovered},
		took:    newScanDurations(),
		closing: make(chan struct{}), changed: make(chan struct{}),
		current: &Topology{CapturedAt: time.Now(), Warnings: []string{}}, status: idleStatus(), told: map[string]bpf.SensorStatus{},
	}
}

// Topology returns the newest structure, of a time when somebody watched; its
// sequence is 0 before that. It starts nothing.
func (s *System) Topology() *Topology {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Status returns what the sensors are doing. It starts nothing.
func (s *System) Status() SystemStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Capability tells whether a sensor (cpu, ipc or files) works here: by what it was
// when it last ran, before that by what speaks against it. It starts nothing.
func (s *System) Capability(name string) (available bool, reason string) {
	s.mu.Lock()
	last, ran := s.told[name]
	s.mu.Unlock()
	if !ran {
		last = bpf.Expect()
		return last.State == bpf.StateIdle, last.Reason
	}
	return last.State == bpf.StateObserving, last.Reason
}

// Subscribe takes a viewer slot.
//
// Errors: ErrFull, ErrStopping.
func (s *System) Subscribe(want SystemWant) (*SystemViewer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrStopping
	}
	if s.viewers >= s.max {
		return nil, ErrFull
	}
	had := s.wantLocked()
	s.viewers++
	if want.Summaries {
		s.summaries++
	}
	v := &SystemViewer{system: s, want: want}
	if s.run == nil {
		before, ended := s.ended, make(chan struct{})
		ctx, cancel := context.WithCancel(context.Background())
		run := &systemRun{ctx: ctx, cancel: cancel, kick: make(chan struct{}, 1)}
		s.run, s.ended = run, ended
		s.work.Go(func() { s.collect(run, before, ended) })
		return v, nil
	}
	if now := s.wantLocked(); now != had {
		s.tellWantLocked()
		select {
		case s.run.kick <- struct{}{}:
		default:
		}
	}
	return v, nil
}

// wantLocked is what the list is asked for.
func (s *System) wantLocked() ListWant {
	return ListWant{Maps: s.summaries > 0, mappings: s.viewers > s.summaries}
}

func (s *System) tellWantLocked() {
	if s.run != nil && s.run.list != nil {
		s.run.list.setWant(s.wantLocked())
	}
}

// Close ends all viewers with ErrStopping and waits for the collection to end, at
// most 1 s for a reading that hangs in the kernel.
func (s *System) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
		s.endLocked()
	}
	s.mu.Unlock()
	waitAtMost(&s.work, closeWait)
}

// endLocked ends the collection. The structure stays, what viewers made of it does
// not.
func (s *System) endLocked() {
	if s.run != nil {
		s.run.cancel()
		s.run = nil
	}
	s.current.memo.clear()
	s.previous, s.metrics, s.windows = nil, nil, nil
	s.status = idleStatus()
}

// collect runs one collection: it begins when the one before has ended.
func (s *System) collect(run *systemRun, before, ended chan struct{}) {
	defer close(ended)
	if before != nil {
		<-before
	}
	if run.ctx.Err() != nil {
		return
	}
	call(s.hooks.Started)
	defer call(s.hooks.Stopped)
	s.source.Begin()
	defer s.source.End()
	var parts sync.WaitGroup
	for _, part := range []func(*systemRun){s.follow, s.read, s.observe} {
		parts.Go(func() { part(run) })
	}
	parts.Go(func() { s.names.run(run.ctx) })
	parts.Wait()
}

func call(f func()) {
	if f != nil {
		f()
	}
}

// wakeLocked tells everybody who waits that there is something new.
func (s *System) wakeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// publish calls set with the lock held, unless run is over, and wakes the viewers.
func (s *System) publish(run *systemRun, set func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != run {
		return false
	}
	set()
	s.wakeLocked()
	return true
}

// follow publishes the metrics: each state of the list.
func (s *System) follow(run *systemRun) {
	for run.ctx.Err() == nil {
		s.mu.Lock()
		want := s.wantLocked()
		s.mu.Unlock()
		v, err := s.list.subscribe(want, true)
		if err != nil {
			return // the server stops
		}
		s.mu.Lock()
		run.list = v
		v.setWant(s.wantLocked()) // it may be another by now
		s.mu.Unlock()
		for err == nil {
			var u ListUpdate
			if u, err = v.Next(run.ctx); err == nil {
				s.publish(run, func() {
					s.metricsSeq++
					s.metrics = u.State
					run.states++
				})
			}
		}
		s.mu.Lock()
		run.list = nil
		s.mu.Unlock()
		v.Close()
		sleep(run.ctx, retryWait) // the list tells its own failures
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// read publishes the structure.
func (s *System) read(run *systemRun) {
	p := pace{interval: structureInterval, due: time.Now()}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		kicked := false
		select {
		case <-run.ctx.Done():
			return
		case <-run.kick:
			kicked = true
		case <-timer.C:
		}
		rows := s.rows(run)
		if rows == nil {
			return
		}
		began := time.Now()
		var t *Topology
		err := guard(func() error {
			c, err := s.source.Connections(proc.HostLimits{Descriptors: maxStructureFDs, TableDescriptors: maxTableFDs, Time: maxStructureTime})
			if err == nil {
				t = makeTopology(began, rows, c, s.names)
			}
			return err
		})
		s.fail.tell("structure", err)
		took := time.Since(began)
		p.read(began, time.Now(), !kicked)
		if err == nil {
			s.took.Add(took)
			told := s.publish(run, func() {
				t.Sequence = s.current.Sequence + 1
				s.current.memo.clear() // who is sending it has it
				s.previous, s.current = s.current, t
			})
			if told && s.hooks.Structure != nil {
				s.hooks.Structure(t, took)
			}
		}
		timer.Reset(max(p.wait(), 0))
	}
}

// rows waits for a state of the list that has what the viewers want, and knows CPU
// times unless it is no longer the first: a structure without any would differ from the
// next one in every process. It returns nil when the collection is over.
func (s *System) rows(run *systemRun) *ListState {
	for {
		s.mu.Lock()
		state, want, changed, over := s.metrics, s.wantLocked(), s.changed, s.run != run
		first := run.states < 2
		s.mu.Unlock()
		if over {
			return nil
		}
		if state != nil && state.Want.has(want) && (!first || knowsCPU(state)) {
			return state
		}
		select {
		case <-run.ctx.Done():
			return nil
		case <-changed:
		}
	}
}

func knowsCPU(s *ListState) bool {
	return slices.ContainsFunc(s.Rows, func(r ListRow) bool { return r.CPUPercent.Known() })
}

// observe publishes what the sensors see.
func (s *System) observe(run *systemRun) {
	starting := bpf.SensorStatus{State: bpf.StateStarting}
	status := SystemStatus{Active: true, Status: bpf.Status{CPU: starting, IPC: starting, Files: starting}}
	s.publish(run, func() { s.status = status })
	var err error
	for run.ctx.Err() == nil {
		if err = guard(func() error { return s.drain(run) }); err == nil {
			return
		}
		// A mistake of ours: the sensors are closed, the rest of the host is shown.
		s.fail.tell("sensors", err)
		broken := bpf.SensorStatus{State: bpf.StateError, Reason: "the reader of the sensors failed; the log says more"}
		s.setStatus(run, SystemStatus{Active: true, Status: bpf.Status{CPU: broken, IPC: broken, Files: broken}})
		<-run.ctx.Done()
	}
}

// drain opens the sensors and reads them until run is over. It fails only by panic.
func (s *System) drain(run *systemRun) error {
	offset, err := s.source.StartOffset()
	s.fail.tell("time namespace", err)
	own := ownReading{}
	own.id, own.device, err = s.source.Self()
	own.known = err == nil
	s.fail.tell("self", err)
	from := s.open()
	defer from.Close()
	var w bpf.Window
	var before bpf.Status
	interval := activityInterval
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-run.ctx.Done():
			return nil
		case <-timer.C:
		}
		began := time.Now()
		s.fail.tell("sensors", from.Drain(&w))
		status := SystemStatus{Active: true, Status: from.Status()}
		s.count(&w, &before, &status.Status)
		before = status.Status
		if own.known && status.Files.State == bpf.StateObserving {
			status.FilesCoverage = append(slices.Clip(status.FilesCoverage), ownCoverage)
		}
		s.setStatus(run, status)
		a := takeWindow(&w, offset, own)
		a.Status = status
		s.publish(run, func() { s.keepWindowLocked(a, w.Ended) })
		interval = quietInterval
		if status.observing() {
			interval = activityInterval
		}
		timer.Reset(max(interval-time.Since(began), 0))
	}
}

// keepWindowLocked appends a window and drops those that are too many.
func (s *System) keepWindowLocked(a *Activity, ended time.Time) {
	s.activitySeq++
	a.Sequence = s.activitySeq
	s.capturedAt = max(s.capturedAt+1, ended.UnixMilli()) // also over a clock step back
	a.CapturedAt = s.capturedAt
	s.windows = append(s.windows, a)
	rows := 0
	for i := len(s.windows) - 1; i >= 0; i-- {
		x := s.windows[i]
		rows += len(x.CPU) + len(x.IPC) + len(x.Files)
		if i < len(s.windows)-1 && (rows > maxKeptRows || len(s.windows)-i > maxKeptWindows) {
			kept := copy(s.windows, s.windows[i+1:])
			clear(s.windows[kept:])
			s.windows = s.windows[:kept]
			return
		}
	}
}

// setStatus keeps the status and tells what changed.
func (s *System) setStatus(run *systemRun, status SystemStatus) {
	type news struct {
		name string
		bpf.SensorStatus
	}
	var tell []news
	s.mu.Lock()
	if s.run != run {
		s.mu.Unlock()
		return
	}
	s.status = status
	for _, x := range []news{{"cpu", status.CPU}, {"ipc", status.IPC}, {"files", status.Files}} {
		if x.State == bpf.StateStarting || x.State == bpf.StateIdle {
			continue
		}
		if s.told[x.name] != x.SensorStatus {
			s.told[x.name] = x.SensorStatus
			tell = append(tell, x)
		}
	}
	s.mu.Unlock()
	if s.hooks.Sensor != nil {
		for _, x := range tell {
			s.hooks.Sensor(x.name, string(x.State), x.Reason)
		}
	}
}

// failures tells a failure once, until it is over or another. Safe for concurrent use.
type failures struct {
	failed    func(error)
	recovered func()
	mu        sync.Mutex
	last      map[string]string
}

func (f *failures) tell(what string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	f.mu.Lock()
	was := f.last[what]
	if was != text {
		if f.last == nil {
			f.last = map[string]string{}
		}
		f.last[what] = text
	}
	f.mu.Unlock()
	switch {
	case was == text:
	case err == nil:
		call(f.recovered)
	case f.failed != nil:
		f.failed(err)
	}
}
