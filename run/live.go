package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

const (
	defaultGrace = 3 * time.Second
	maxGrace     = time.Minute
	// waitedTimeout is the overall timeout of a run whose caller waits and names none.
	waitedTimeout = 30 * time.Minute
	// quiet is how long an output must have been silent after the root's end to count
	// as read to its end, and outputRest how long that is waited for.
	quiet      = 250 * time.Millisecond
	outputRest = 2 * time.Second
	// hintAfter is how long a run with an open input must have been silent to be one
	// that waits for it.
	hintAfter = 15 * time.Second
)

// reader is one stream of output.
type reader struct {
	file   *os.File
	stream Stream
	done   atomic.Bool
}

// pending tells whether there are bytes that were not read yet.
func (o *reader) pending() bool {
	if o.done.Load() {
		return false
	}
	c, err := o.file.SyscallConn()
	if err != nil {
		return false // closed
	}
	ready := false
	c.Control(func(fd uintptr) { // the same
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, 0)
		ready = err == nil && n > 0 && p[0].Revents&unix.POLLIN != 0
	})
	return ready
}

// live is a run, also after its end.
type live struct {
	id       string
	argv     []string
	command  *string
	scope    string
	grace    time.Duration
	timeout  time.Duration // 0 none
	silence  time.Duration // 0 none
	kill     bool          // what is left at the root's end
	ring     *ring
	created  time.Time
	watching watchTerminal // the terminal's reader alone uses it

	// Set before the run is known to be running, then constant.
	cwd, user  string
	terminal   *terminal
	output     []*reader
	exitStatus chan unix.WaitStatus
	noteOutput func()

	applicationKeys atomic.Bool
	lastOutput      atomic.Int64 // Unix ns

	inputMu sync.Mutex // held while input is written
	input   *os.File

	mu        sync.Mutex
	at        State
	startedAt time.Time
	rootEnd   time.Time
	end       time.Time
	exit      *Exit
	forced    string // the first reason somebody had to end it
	warnings  []string
	size      *Size
	stdin     string
	hold      holding
	births    map[int32]started // of those in its cgroup, as the last look at memberships found them
	cpu       *int64            // when it ended
	stopping  *stopping
	timers    []*time.Timer
	gone      bool          // finished or given up
	wake      chan struct{} // closed and replaced by each change
	event     chan struct{} // its cgroup changed
}

func newLive(l Launch) *live {
	r := &live{
		id: l.ID, argv: l.Argv, command: l.Command, scope: l.Scope, grace: defaultGrace, kill: l.WaitMS > 0,
		ring: newRing(defaultOutput), created: time.Now(), exitStatus: make(chan unix.WaitStatus, 1),
		at: StateStarting, stdin: "closed", wake: make(chan struct{}), event: make(chan struct{}, 1),
	}
	if l.GraceMS != nil {
		r.grace = time.Duration(*l.GraceMS) * time.Millisecond
	}
	if l.Leftovers != "" {
		r.kill = l.Leftovers == "kill"
	}
	if l.MaxOutput > 0 {
		r.ring = newRing(l.MaxOutput)
	}
	r.timeout, r.silence = l.timeouts()
	return r
}

// validID tells whether text can be a run's id.
func validID(text string) bool {
	return len(text) >= 1 && len(text) <= 64 && !strings.ContainsFunc(text, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_'
	})
}

// check refuses a launch that cannot be meant.
//
// Errors: invalid_run_id, bad_request.
func (l *Launch) check() error {
	bad := func(text string, args ...any) error { return fail(CodeBadRequest, text, args...) }
	switch {
	case l.ID != "" && !validID(l.ID):
		return fail(CodeInvalidID, "A run's id has 1 to 64 characters of A-Z a-z 0-9 _ and -.")
	case l.Scope != "" && !validID(l.Scope):
		return bad("A scope has 1 to 64 characters of A-Z a-z 0-9 _ and -.")
	case l.Argv != nil && l.Command != nil || l.Argv == nil && l.Command == nil:
		return bad("Give exactly one of argv and command.")
	case l.Command != nil && strings.TrimSpace(*l.Command) == "":
		return bad("The command is blank.")
	case l.Argv != nil && (len(l.Argv) == 0 || l.Argv[0] == ""):
		return bad("argv is empty.")
	case l.Command != nil && strings.ContainsRune(*l.Command, 0) || slices.ContainsFunc(l.Argv, func(s string) bool { return strings.ContainsRune(s, 0) }):
		return bad("A command cannot hold a NUL.")
	case l.Replace && l.Scope == "":
		return bad("replace needs a scope.")
	case l.Stdin != "" && l.Stdin != "open" && l.Stdin != "closed":
		return bad("stdin is open or closed.")
	case l.Input != nil && l.Stdin == "open":
		return bad("input is written and then closed: it goes with no open stdin.")
	case l.Watchdog != "" && l.Watchdog != "fresh" && l.Watchdog != "resume":
		return bad("watchdog is fresh or resume.")
	case l.Watchdog != "" && l.SilenceMS != nil:
		return bad("Give watchdog or no_output_timeout_ms, not both.")
	case l.Leftovers != "" && l.Leftovers != "kill" && l.Leftovers != "keep":
		return bad("leftovers is kill or keep.")
	case l.Disconnect != "" && l.Disconnect != "stop":
		return bad("on_disconnect is stop, or not given.")
	case l.TimeoutMS != nil && *l.TimeoutMS < 0 || l.SilenceMS != nil && *l.SilenceMS < 0:
		return bad("A timeout cannot be negative.")
	case l.GraceMS != nil && (*l.GraceMS < 0 || *l.GraceMS > maxGrace.Milliseconds()):
		return bad("grace_ms is from 0 to 60000.")
	case l.MaxOutput != 0 && (l.MaxOutput < minOutput || l.MaxOutput > maxOutput):
		return bad("max_output_bytes is from 4096 to 16777216.")
	case l.WaitMS < 0 || l.WaitMS > maxWait.Milliseconds():
		return bad("wait_ms is from 0 to 120000.")
	case l.PTY != nil && (l.PTY.Columns == 0 || l.PTY.Rows == 0):
		return bad("A terminal has at least one column and one row.")
	}
	return nil
}

// timeouts are the overall one and that of silence, 0 for none. The watchdog's presets
// are known here alone.
func (l *Launch) timeouts() (overall, silence time.Duration) {
	if l.WaitMS > 0 {
		overall = waitedTimeout
	}
	if l.TimeoutMS != nil {
		overall = milliseconds(*l.TimeoutMS)
	}
	if l.SilenceMS != nil {
		return overall, milliseconds(*l.SilenceMS)
	}
	var share float64
	var least, most time.Duration
	switch l.Watchdog {
	case "fresh":
		share, least, most = 0.8, 180*time.Second, 600*time.Second
	case "resume":
		share, least, most = 0.3, 60*time.Second, 180*time.Second
	default:
		return overall, 0
	}
	if overall == 0 {
		return 0, most
	}
	silence = min(max(time.Duration(share*float64(overall)), least), most)
	return overall, max(min(silence, overall-time.Second), time.Millisecond)
}

// milliseconds never overflows into a time that is shorter.
func milliseconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(n, most)) * time.Millisecond
}

func (r *live) changedLocked() {
	close(r.wake)
	r.wake = make(chan struct{})
}

// cgroup is the run's group, nil without one.
func (r *live) cgroup() *group {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hold.group
}

func (r *live) state() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

func (r *live) over() bool {
	s := r.state()
	return s == StateExited || s == StateFailed
}

func (r *live) endedAt() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end
}

func (r *live) warn(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.warnings, text) {
		r.warnings = append(r.warnings, text)
	}
}

func (r *live) started(root proc.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold.roots = []proc.ID{root}
	r.at, r.startedAt = StateRunning, time.Now()
	r.lastOutput.Store(r.startedAt.UnixNano())
	r.changedLocked()
}

func (r *live) failed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.end, r.gone = StateFailed, time.Now(), true
	r.exit = &Exit{Reason: ReasonSpawn}
	r.ring.end()
	r.changedLocked()
}

// force notes why the run is to end. The first reason stays.
func (r *live) force(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.forced == "" && r.exit == nil {
		r.forced = reason
	}
}

// hungUpPause is the longest pause between two looks at a terminal that nobody has open.
const hungUpPause = 250 * time.Millisecond

// pump reads one stream to its end. A terminal that nobody has open is not at its end
// while the root lives: many programs close their descriptors a moment before they
// end, some open the terminal again. To close ours would hang up on them.
func (r *live) pump(o *reader) {
	defer o.done.Store(true)
	defer o.file.Close()
	buf := make([]byte, 64<<10)
	kept := 0
	pause := time.Millisecond
	for {
		n, err := o.file.Read(buf[kept:])
		if errors.Is(err, unix.EIO) && o.stream == Terminal && r.rootEndedAt().IsZero() {
			time.Sleep(pause)
			pause = min(2*pause, hungUpPause)
			continue
		}
		pause = time.Millisecond
		if n > 0 {
			r.lastOutput.Store(time.Now().UnixNano())
			if o.stream == Terminal {
				answer := r.watching.take(buf[kept : kept+n])
				r.applicationKeys.Store(r.watching.application)
				if len(answer) > 0 {
					r.write(answer, time.Second) // a program that does not read it asked in vain
				}
			}
			n += kept
			kept = cutRune(buf[:n])
			r.ring.write(o.stream, buf[:n-kept])
			r.noteOutput()
			copy(buf, buf[n-kept:n])
		}
		if err != nil { // EOF; of a terminal EIO; closed by us
			r.ring.write(o.stream, buf[:kept])
			return
		}
	}
}

// quietened waits until every stream ended or was silent for a moment.
func (r *live) quietened() {
	deadline := time.Now().Add(outputRest)
	for time.Now().Before(deadline) {
		open := slices.ContainsFunc(r.output, func(o *reader) bool { return !o.done.Load() })
		if !open {
			return
		}
		// On a busy host the silence can be ours: what is there has to be read.
		if r.ring.silence() >= quiet && time.Since(r.rootEndedAt()) >= quiet && !slices.ContainsFunc(r.output, (*reader).pending) {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (r *live) rootEndedAt() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rootEnd
}

func (r *live) closeStreams() {
	for _, o := range r.output {
		o.file.Close()
	}
	r.endInput()
}

// write gives bytes to the command's input and returns how many it took in time.
//
// Errors: stdin_closed.
func (r *live) write(b []byte, patience time.Duration) (int, error) {
	r.inputMu.Lock()
	defer r.inputMu.Unlock()
	if r.input == nil {
		return 0, fail(CodeStdinClosed, "The input of run %q is closed.", r.id)
	}
	r.input.SetWriteDeadline(time.Now().Add(patience))
	n, err := r.input.Write(b)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, err
	case err != nil:
		r.endInputLocked()
		return n, fail(CodeStdinClosed, "The command does not read its input any more.")
	}
	return n, nil
}

func (r *live) endInput() {
	// Who writes at this moment is freed first.
	if f := r.input; f != nil && r.terminal == nil {
		f.SetWriteDeadline(time.Now())
	}
	r.inputMu.Lock()
	defer r.inputMu.Unlock()
	r.endInputLocked()
}

// endInputLocked closes a pipe. A terminal's input is its output too: that is only
// forgotten here.
func (r *live) endInputLocked() {
	if r.input == nil {
		return
	}
	if r.terminal == nil {
		r.input.Close()
	}
	r.input = nil
	r.mu.Lock()
	r.stdin = "closed"
	r.mu.Unlock()
}

// abandon lets go of a run that this process does not follow any more.
func (r *live) abandon() {
	r.mu.Lock()
	r.gone = true
	for _, t := range r.timers {
		t.Stop()
	}
	r.changedLocked()
	r.mu.Unlock()
	r.closeStreams()
}

// exitOf says how a root ended.
func exitOf(status unix.WaitStatus, forced string) *Exit {
	e := &Exit{Reason: ReasonExit}
	switch {
	case status.Exited():
		code := status.ExitStatus()
		e.Code = &code
	case status.Signaled():
		name := signalName(status.Signal())
		e.Signal, e.Reason = &name, ReasonSignal
	}
	if forced != "" {
		e.Reason = forced
	}
	return e
}

func signalName(s unix.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}

func describeStatus(status unix.WaitStatus) string {
	if status.Signaled() {
		return signalName(status.Signal())
	}
	return fmt.Sprintf("status %d", status.ExitStatus())
}

// until waits for what ready tells of the run, which it calls with the lock held.
func (r *live) until(ctx context.Context, ready func() bool) error {
	for {
		r.mu.Lock()
		wake, done := r.wake, ready() || r.gone
		r.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
