package run

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

// What runs may use up.
const (
	maxLiveRuns     = 64
	maxOutputs      = 128 << 20 // bytes of output of all runs that are kept
	maxEndedOutputs = 64 << 20  // of those, of runs that have ended
	maxEndedRuns    = 50        // ended runs whose output is kept
	maxRecords      = 2_000     // ended runs that are known at all
	// outputKept is how long the output of an ended run is kept.
	outputKept = 30 * time.Minute
)

// Options are what a Supervisor is made of.
type Options struct {
	Mount     string      // of procfs, "/proc"
	Roots     []Root      // folders that runs may work in; none: everywhere
	Allow     []string    // programs that may be started; none: every one
	Wrapper   []string    // program and arguments before each command
	User      string      // to run as when who asks has no user id, "" nobody
	Environ   []string    // to take the variables from that a command may get
	Event     func(Event) `json:"-"`
	NoCgroup  bool        // fallback even where cgroups work
	JoinBirth bool        // enter the cgroup by its file even where birth works
}

// Supervisor launches runs and answers for them. There is one in a process, and that
// process starts nothing else. Safe for concurrent use.
type Supervisor struct {
	o        Options
	files    *files
	accounts accounts
	tracker  *tracker
	groups   *groups // nil: none
	birth    string
	why      string // of birth
	children children
	owner    string // mark of the runs, pid-start of this process
	silent   string // of an ender: the mark of the supervisor that it stands in for
	watcher  *groupWatcher

	following following
	leftovers leftovers

	mu     sync.Mutex
	runs   map[string]*live
	ending map[*live]bool // deleted, but not over
	scopes map[string]*scopeTurn
	closed bool

	work sync.WaitGroup
	stop context.CancelFunc
	ctx  context.Context
}

// scopeTurn lets one replacement at a time happen in a scope.
type scopeTurn struct {
	sync.Mutex
	users int
}

// Open returns a supervisor that is ready to launch. It makes this process the reaper
// of every process whose parent ends below it, and reaps.
//
// Errors: the mount of procfs is unreadable. Without cgroups it works all the same, see
// Capabilities.
func Open(o Options) (*Supervisor, error) {
	f := newFiles(cmp.Or(o.Mount, "/proc"))
	self, err := f.stat(int32(os.Getpid()))
	if err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become child subreaper: %w", err)
	}
	s := &Supervisor{
		o: o, files: f, accounts: accounts{"/etc"}, tracker: newTracker(f), birth: birthNone, owner: FormatID(self.id),
		children: children{own: map[int]chan<- unix.WaitStatus{}}, runs: map[string]*live{}, ending: map[*live]bool{},
		scopes: map[string]*scopeTurn{}, following: following{change: make(chan struct{}, 1)},
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	s.work.Go(func() {
		defer signal.Stop(ended)
		for {
			select {
			case <-ended:
				s.children.reap()
			case <-s.ctx.Done():
				s.children.reap()
				return
			}
		}
	})
	s.work.Go(s.follow)
	s.openCgroups()
	return s, nil
}

// openCgroups finds out how commands get into a cgroup here, by doing it.
func (s *Supervisor) openCgroups() {
	if s.o.NoCgroup {
		s.why = "cgroups are switched off"
		return
	}
	g, err := openGroups(s.files)
	if err != nil {
		s.why = err.Error()
		if errors.Is(err, fs.ErrPermission) {
			s.why += "; start it as root, or with systemd-run --user --scope -p Delegate=yes"
		}
		return
	}
	if s.watcher, err = newGroupWatcher(); err != nil {
		g.close()
		s.why = err.Error()
		return
	}
	s.work.Go(s.watcher.run)
	s.groups = g
	births := []string{birthCgroup, birthJoin}
	if s.o.JoinBirth {
		births = births[1:]
	}
	var reasons []error
	for _, birth := range births {
		if err := s.probe(birth); err != nil {
			reasons = append(reasons, fmt.Errorf("%s: %w", birth, err))
			continue
		}
		s.birth = birth
		break
	}
	if err := errors.Join(reasons...); err != nil {
		s.why = err.Error()
	}
	if s.birth == birthNone {
		s.groups = nil
		g.close()
	}
}

// probe starts a command in a group of its own and looks whether it was there.
func (s *Supervisor) probe(birth string) error {
	g, err := s.groups.create(".probe")
	if err != nil {
		return err
	}
	defer g.remove() // what stays is tried again by the next server
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	dir, err := os.Open("/")
	if err != nil {
		return err
	}
	defer dir.Close()
	who, err := s.accounts.byUID(uint32(os.Geteuid()))
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := &command{argv: []string{"sh", "-c", "cat /proc/self/cgroup"}, dir: dir, who: who, group: g, birth: birth}
	env, err := environment(s.o.Environ, who, nil, nil)
	if err == nil {
		cmd.env = env
		cmd.path, err = s.wrapped(cmd, pathOf(env), "/")
	}
	if err != nil {
		w.Close()
		return err
	}
	cmd.stdio = [3]int{int(null.Fd()), int(w.Fd()), int(null.Fd())}
	exit := make(chan unix.WaitStatus, 1)
	_, err = s.children.start(s.files, cmd, exit)
	w.Close()
	if err != nil {
		return cmd.explain(err)
	}
	// A program that does not end is not waited for any longer than this.
	r.SetReadDeadline(time.Now().Add(probeTime))
	buf := make([]byte, 16<<10)
	n := 0
	for n < len(buf) {
		m, err := r.Read(buf[n:])
		n += m
		if err != nil {
			break
		}
	}
	select {
	case status := <-exit:
		if status.ExitStatus() != 0 {
			return fmt.Errorf("the test command ended with %s", describeStatus(status))
		}
	case <-time.After(probeTime):
		g.kill()
		return errors.New("the test command does not end")
	}
	if !containsGroup(string(buf[:n]), g) {
		return errors.New("the test command was not in its cgroup")
	}
	return nil
}

// probeTime is how long the self-test of a start may take.
const probeTime = 5 * time.Second

// Close stops every run, with its own grace, or leaves them all where keep is set, and
// ends the supervisor.
func (s *Supervisor) Close(keep bool) {
	s.mu.Lock()
	s.closed = true
	var all []*live
	for _, r := range s.runs {
		all = append(all, r)
	}
	for r := range s.ending {
		all = append(all, r)
	}
	s.mu.Unlock()
	if !keep {
		var stops sync.WaitGroup
		for _, r := range all {
			if !r.over() {
				stops.Go(func() { s.stopLive(context.Background(), r, r.grace, ReasonManual) })
			}
		}
		stops.Wait()
	}
	for _, r := range all {
		r.abandon()
	}
	s.stop()
	if s.watcher != nil {
		s.watcher.close()
	}
	s.work.Wait()
	if s.groups != nil {
		s.groups.close()
	}
}

// Capabilities tells what this supervisor can do here.
func (s *Supervisor) Capabilities() Capabilities {
	c := Capabilities{Birth: s.birth, Reason: s.why, Confidence: ConfidenceBestEffort, Roots: s.o.Roots, MaxRuns: maxLiveRuns, HelperPID: os.Getpid()}
	if s.groups != nil {
		c.CgroupRoot, c.Confidence = &s.groups.path, ConfidenceHigh
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		if !r.over() {
			c.Live++
		}
	}
	return c
}

// Create launches a run. With WaitMS it waits that long for its end; a caller that
// leaves while it waits ends the run when Disconnect says so.
//
// Errors: *Error with any of the codes of a launch.
func (s *Supervisor) Create(ctx context.Context, l Launch) (Status, error) {
	if err := l.check(); err != nil {
		return Status{}, err
	}
	if l.Replace {
		leave := s.enterScope(l.Scope)
		_, err := s.StopScope(ctx, ScopeQuery{Scope: l.Scope})
		if err == nil {
			s.forgetEnded(l.ID, l.Scope)
			var r *live
			if r, err = s.launch(l); err == nil {
				leave()
				return s.await(ctx, r, l)
			}
		}
		leave()
		return Status{}, err
	}
	r, err := s.launch(l)
	if err != nil {
		return Status{}, err
	}
	return s.await(ctx, r, l)
}

func (s *Supervisor) enterScope(scope string) (leave func()) {
	s.mu.Lock()
	turn := s.scopes[scope]
	if turn == nil {
		turn = &scopeTurn{}
		s.scopes[scope] = turn
	}
	turn.users++
	s.mu.Unlock()
	turn.Lock()
	return func() {
		turn.Unlock()
		s.mu.Lock()
		if turn.users--; turn.users == 0 {
			delete(s.scopes, scope)
		}
		s.mu.Unlock()
	}
}

// forgetEnded drops the record that a replacement takes the place of.
func (s *Supervisor) forgetEnded(id, scope string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[id]; r != nil && r.scope == scope && r.over() {
		delete(s.runs, id)
	}
}

// launch reserves the id and starts the command.
func (s *Supervisor) launch(l Launch) (*live, error) {
	r := newLive(l)
	if err := s.reserve(r, l); err != nil {
		return nil, err
	}
	if err := s.spawn(r, l); err != nil {
		r.failed()
		r.ring.release()
		var known *Error
		var spawn *spawnError
		switch {
		case errors.As(err, &known):
			s.mu.Lock()
			delete(s.runs, r.id) // a request that could not be meant
			s.mu.Unlock()
		case errors.As(err, &spawn):
			err = fail(CodeSpawnFailed, "The command could not be started: %s.", spawn.text)
		default:
			err = fail(CodeSpawnFailed, "The command could not be started: %v.", err)
		}
		return nil, err
	}
	s.emit(Event{Type: EventStarted, Run: r.id, Scope: r.scope})
	s.work.Go(func() { s.supervise(r) })
	return r, nil
}

// reserve takes the id and the room that a run needs.
func (s *Supervisor) reserve(r *live, l Launch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fail(CodeHelperGone, "The runs are being shut down.")
	}
	for r.id == "" {
		var b [4]byte
		rand.Read(b[:]) // never fails
		if id := "r" + hex.EncodeToString(b[:]); s.runs[id] == nil {
			r.id = id
		}
	}
	r.hold.key = marks{r.id, s.owner}
	if old := s.runs[r.id]; old != nil && old.state() != StateFailed {
		return fail(CodeExists, "There is a run %q already: choose another id, or delete it.", r.id)
	}
	liveRuns := len(s.ending)
	promised := r.ring.max
	for _, o := range s.runs {
		if o.over() {
			promised += o.ring.held()
			continue
		}
		liveRuns++
		promised += o.ring.max
	}
	if liveRuns >= maxLiveRuns {
		return fail(CodeBusy, "There are %d live runs, as many as may be: stop one.", liveRuns)
	}
	if promised > maxOutputs {
		promised -= s.dropOutputs(promised - maxOutputs)
	}
	if promised > maxOutputs {
		return fail(CodeBusy, "The outputs of all runs together may hold 128 MiB: ask for a smaller max_output_bytes, or delete a run.")
	}
	s.runs[r.id] = r
	return nil
}

// ended lists the runs that are over, the oldest first.
func (s *Supervisor) ended() []*live {
	var list []*live
	for _, r := range s.runs {
		if r.over() {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *live) int { return a.endedAt().Compare(b.endedAt()) })
	return list
}

// dropOutputs releases outputs of ended runs until so many bytes are free.
func (s *Supervisor) dropOutputs(need int64) (freed int64) {
	for _, r := range s.ended() {
		if freed >= need {
			break
		}
		freed += r.ring.held()
		r.ring.release()
	}
	return freed
}

// retain forgets what has been kept for long enough.
func (s *Supervisor) retain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.ended()
	for len(list) > maxRecords {
		delete(s.runs, list[0].id)
		list = list[1:]
	}
	slices.Reverse(list)
	var bytes int64
	for i, r := range list {
		bytes += r.ring.held()
		if i >= maxEndedRuns || bytes > maxEndedOutputs || time.Since(r.endedAt()) >= outputKept {
			r.ring.release()
		}
	}
}

// find returns a run that is known.
//
// Errors: invalid_run_id, run_not_found.
func (s *Supervisor) find(id string) (*live, error) {
	if !validID(id) {
		return nil, fail(CodeInvalidID, "A run's id has 1 to 64 characters of A-Z a-z 0-9 _ and -.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil {
		return nil, fail(CodeNotFound, "There is no run %q.", id)
	}
	return r, nil
}

func (s *Supervisor) emit(e Event) {
	if s.o.Event != nil {
		e.At = time.Now().UnixMilli()
		s.o.Event(e)
	}
}

func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ESRCH) || errors.Is(err, proc.ErrGone)
}
