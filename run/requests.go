package run

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

const (
	// maxOutputRead is how many bytes of output one answer carries.
	maxOutputRead = 1 << 20
	maxLogLines   = 10_000
	defaultTail   = 200
	// inputPatience is how long a command may take to read what is written to it.
	inputPatience = 5 * time.Second
)

// OutputQuery chooses a part of the output.
type OutputQuery struct {
	ID     string `json:"id"`
	Since  int64  `json:"since"`
	Max    int    `json:"max"` // bytes, 0: 1 MiB
	WaitMS int64  `json:"wait_ms"`
	Stream Stream `json:"stream"` // "" all
}

// Output returns output from an offset on; with WaitMS it waits for some.
func (s *Supervisor) Output(ctx context.Context, q OutputQuery) (Output, error) {
	r, err := s.find(q.ID)
	if err != nil {
		return Output{}, err
	}
	limit := maxOutputRead
	if q.Max > 0 {
		limit = min(q.Max, limit)
	}
	wait, cancel := context.WithTimeout(ctx, min(milliseconds(q.WaitMS), maxOutputWait))
	defer cancel()
	for {
		o, wake := r.ring.read(q.Since, limit, q.Stream)
		if len(o.Chunks) > 0 || o.EOF || q.WaitMS <= 0 {
			return o, nil
		}
		q.Since = o.Next // what is of another stream
		select {
		case <-wake:
		case <-wait.Done():
			return o, ctx.Err()
		}
	}
}

// LogQuery chooses lines.
type LogQuery struct {
	ID     string `json:"id"`
	Offset *int   `json:"offset"` // first line, from 0; nil: the last ones
	Limit  int    `json:"limit"`  // lines
	Tail   int    `json:"tail"`   // 0: 200
}

// Log is a part of the kept output as lines of plain text.
type Log struct {
	Lines   []string `json:"lines"`
	Offset  int      `json:"offset"`      // number of the first line
	Total   int      `json:"total_lines"` // that are kept
	Dropped int64    `json:"dropped"`     // bytes that fell out before
}

// Log returns lines of what is kept.
func (s *Supervisor) Log(_ context.Context, q LogQuery) (Log, error) {
	r, err := s.find(q.ID)
	if err != nil {
		return Log{}, err
	}
	lines := strings.Split(s.text(r), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	l := Log{Total: len(lines), Dropped: r.ring.extent().Dropped, Lines: []string{}}
	limit := maxLogLines
	if q.Limit > 0 {
		limit = min(q.Limit, limit)
	}
	if q.Offset != nil {
		l.Offset = min(max(*q.Offset, 0), len(lines))
	} else {
		tail := defaultTail
		if q.Tail > 0 {
			tail = q.Tail
		}
		l.Offset = max(0, len(lines)-min(tail, limit))
	}
	l.Lines = append(l.Lines, lines[l.Offset:min(len(lines), l.Offset+limit)]...)
	return l, nil
}

// InputRequest is what to type: one of Text, Bytes, Keys with Hex and Literal, Paste and
// Submit; EOF ends the input after it.
type InputRequest struct {
	ID        string   `json:"id"`
	Text      *string  `json:"text"`
	Bytes     []byte   `json:"bytes"`
	Keys      []string `json:"keys"`
	Hex       []string `json:"hex"`
	Literal   string   `json:"literal"`
	Paste     *string  `json:"paste"`
	Bracketed *bool    `json:"bracketed"` // nil: yes
	Submit    bool     `json:"submit"`
	EOF       bool     `json:"eof"`
}

// Written is what became of an input.
type Written struct {
	Written  int      `json:"written"`
	Warnings []string `json:"warnings"`
}

// Input writes to a run's input.
//
// Errors: bad_request, unknown_key, run_ended, stdin_closed.
func (s *Supervisor) Input(_ context.Context, q InputRequest) (Written, error) {
	r, err := s.find(q.ID)
	if err != nil {
		return Written{}, err
	}
	keys := q.Keys != nil || q.Hex != nil || q.Literal != ""
	kinds := 0
	for _, given := range []bool{q.Text != nil, q.Bytes != nil, keys, q.Paste != nil, q.Submit} {
		if given {
			kinds++
		}
	}
	if kinds > 1 || kinds == 0 && !q.EOF {
		return Written{}, fail(CodeBadRequest, "Give exactly one of text, base64, keys (with hex and literal), paste and submit; eof may go with each or alone.")
	}
	if r.state() == StateStarting {
		return Written{}, fail(CodeStdinClosed, "Run %q is only being started.", q.ID)
	}
	if r.over() {
		return Written{}, fail(CodeEnded, "Run %q has ended.", q.ID)
	}
	w := Written{Warnings: []string{}}
	var b []byte
	switch {
	case q.Text != nil:
		b = []byte(*q.Text)
	case q.Bytes != nil:
		b = q.Bytes
	case keys:
		var warnings []string
		if b, warnings, err = encodeKeys(q.Literal, q.Hex, q.Keys, r.applicationKeys.Load()); err != nil {
			return Written{}, err
		}
		w.Warnings = append(w.Warnings, warnings...)
	case q.Paste != nil:
		b = paste(*q.Paste, q.Bracketed == nil || *q.Bracketed)
	case q.Submit:
		b = []byte("\r")
	}
	if q.EOF && r.terminal != nil {
		b = append(b, 4) // EOT, as a terminal has no other end
	}
	w.Written, err = r.write(b, inputPatience)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.Warnings = append(w.Warnings, "the command did not read the rest in time, it was not written")
		err = nil
	}
	if err != nil {
		return Written{}, err
	}
	if q.EOF && r.terminal == nil {
		r.endInput()
	}
	return w, nil
}

// ResizeRequest is a new size of a run's terminal.
type ResizeRequest struct {
	ID string `json:"id"`
	Size
}

// Resize changes the size of the terminal; the command gets SIGWINCH.
//
// Errors: no_terminal, bad_request, run_ended.
func (s *Supervisor) Resize(_ context.Context, q ResizeRequest) (struct{}, error) {
	r, err := s.find(q.ID)
	switch {
	case err != nil:
		return struct{}{}, err
	case q.Columns == 0 || q.Rows == 0:
		return struct{}{}, fail(CodeBadRequest, "A terminal has at least one column and one row.")
	case r.over():
		return struct{}{}, fail(CodeEnded, "Run %q has ended.", q.ID)
	case r.state() == StateStarting || r.terminal == nil:
		return struct{}{}, fail(CodeNoTerminal, "Run %q has no terminal.", q.ID)
	}
	if err := r.terminal.resize(q.Size); err != nil {
		return struct{}{}, fail(CodeEnded, "The terminal of run %q is closed.", q.ID)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.size = &Size{q.Columns, q.Rows}
	return struct{}{}, nil
}

// TakeRequest names a process to be taken into a run.
type TakeRequest struct {
	ID         string `json:"id"`
	PID        int32  `json:"pid"`
	StartTicks uint64 `json:"start_time_ticks"`
}

// Taken is a process that was taken into a run.
type Taken struct {
	Process  MemberStatus `json:"process"`
	Warnings []string     `json:"warnings"`
}

// Take moves a process of the run's user into the run, as a further root. Children that
// it has already stay outside of the cgroup; as its descendants they are members.
//
// Errors: process_not_found, stale_process, protected_process, not_in_run for a process
// of another user, run_ended.
func (s *Supervisor) Take(_ context.Context, q TakeRequest) (Taken, error) {
	r, err := s.find(q.ID)
	if err != nil {
		return Taken{}, err
	}
	id := proc.ID{PID: q.PID, StartTicks: q.StartTicks}
	if r.over() {
		return Taken{}, fail(CodeEnded, "Run %q has ended.", q.ID)
	}
	if s.tracker.protected[q.PID] {
		return Taken{}, fail(CodeProtected, "Process %s is procinsh itself or above it.", FormatID(id))
	}
	e, err := s.files.stat(q.PID)
	switch {
	case err != nil || e.id == id && !e.alive():
		return Taken{}, fail(CodeNoProcess, "Process %s has ended.", FormatID(id))
	case e.id != id:
		return Taken{}, fail(CodeStale, "Process %s has ended, its number is that of %s now.", FormatID(id), FormatID(e.id))
	case s.tracker.owner(q.PID) != r.hold.uid:
		return Taken{}, fail(CodeNotInRun, "Process %s belongs to another user than the run.", FormatID(id))
	}
	// The pidfd keeps the number from meaning another process while it is written.
	fd, err := unix.PidfdOpen(int(q.PID), 0)
	if err != nil {
		return Taken{}, fail(CodeNoProcess, "Process %s has ended.", FormatID(id))
	}
	defer unix.Close(fd)
	if e, err := s.files.stat(q.PID); err != nil || e.id != id {
		return Taken{}, fail(CodeStale, "Process %s has ended.", FormatID(id))
	}
	t := Taken{Warnings: []string{}}
	if g := r.cgroup(); g != nil {
		if err := os.WriteFile(g.path+"/cgroup.procs", strconv.AppendInt(nil, int64(q.PID), 10), 0); err != nil {
			return Taken{}, fail(CodeNotInRun, "Process %s cannot be moved: %v.", FormatID(id), err)
		}
	}
	tb, err := s.tracker.scan(true, time.Time{})
	if err != nil {
		return Taken{}, err
	}
	if len(tb.children()[q.PID]) > 0 {
		t.Warnings = append(t.Warnings, "children that it had before stay outside of the run's cgroup")
	}
	r.mu.Lock()
	if !slices.Contains(r.hold.roots, id) {
		r.hold.roots = append(r.hold.roots, id)
	}
	roots := slices.Clone(r.hold.roots)
	list, _, err := s.tracker.members(tb, &r.hold)
	r.mu.Unlock()
	if err != nil {
		return Taken{}, err
	}
	all, _ := s.describe(r.id, list, roots, true, false)
	for _, m := range all {
		if m.ID == FormatID(id) {
			t.Process = m
			return t, nil
		}
	}
	return Taken{}, fail(CodeNoProcess, "Process %s has ended.", FormatID(id))
}

// Scope is what the runs of a scope have in common.
type Scope struct {
	Scope       string   `json:"scope"`
	Runs        []string `json:"runs"` // ids, the oldest first
	Members     Members  `json:"members"`
	CPUUsec     *int64   `json:"cpu_usec"`
	MemoryBytes *int64   `json:"memory_bytes"`
}

// Scope returns the runs of a scope with all their processes.
//
// Errors: run_not_found when it has none.
func (s *Supervisor) Scope(ctx context.Context, q ScopeQuery) (Scope, error) {
	s.mu.Lock()
	var runs []*live
	for _, r := range s.runs {
		if r.scope == q.Scope && q.Scope != "" {
			runs = append(runs, r)
		}
	}
	s.mu.Unlock()
	if len(runs) == 0 {
		return Scope{}, fail(CodeNotFound, "There is no run in scope %q.", q.Scope)
	}
	slices.SortFunc(runs, func(a, b *live) int { return a.created.Compare(b.created) })
	sc := Scope{Scope: q.Scope, Members: Members{ObservedAt: time.Now().UnixMilli(), Confidence: ConfidenceHigh, Processes: []MemberStatus{}}}
	add := func(sum, more *int64) *int64 {
		if sum == nil || more == nil {
			return nil
		}
		n := *sum + *more
		return &n
	}
	sc.CPUUsec, sc.MemoryBytes = new(int64), new(int64)
	for _, r := range runs {
		sc.Runs = append(sc.Runs, r.id)
		st := s.status(r, true)
		sc.CPUUsec = add(sc.CPUUsec, st.CPUUsec)
		if !st.Ended() {
			sc.MemoryBytes = add(sc.MemoryBytes, st.MemoryBytes)
		}
		m, err := s.Processes(ctx, MembersQuery{ID: r.id, Port: true})
		if err != nil {
			continue // deleted meanwhile
		}
		if m.Confidence != ConfidenceHigh {
			sc.Members.Confidence = m.Confidence
		}
		c := &sc.Members.Counts
		c.Left, c.Started, c.Orphan = c.Left+m.Counts.Left, c.Started+m.Counts.Started, c.Orphan+m.Counts.Orphan
		c.Support, c.Root = c.Support+m.Counts.Support, c.Root+m.Counts.Root
		sc.Members.Processes = append(sc.Members.Processes, m.Processes...)
	}
	return sc, nil
}

// DeleteQuery names what to forget: a run, or all that ended.
type DeleteQuery struct {
	ID    string `json:"id"`
	Force bool   `json:"force"` // ends it
	Scope string `json:"scope"`
}

// Delete forgets a run. With Force a live one is forgotten at once, its id is free
// again, and it is stopped to the end behind that.
//
// Errors: run_not_found, run_active.
func (s *Supervisor) Delete(_ context.Context, q DeleteQuery) (struct{}, error) {
	r, err := s.find(q.ID)
	if CodeOf(err) == CodeNotFound {
		look, groups, err := s.lookAdopted(q.ID)
		if err != nil {
			return struct{}{}, err
		}
		if !q.Force {
			return struct{}{}, fail(CodeActive, "Run %q still has processes: stop it, or delete it with force.", q.ID)
		}
		s.endAdopted(q.ID, look, groups, manner{grace: defaultGrace, first: unix.SIGTERM})
		return struct{}{}, nil
	}
	if err != nil {
		return struct{}{}, err
	}
	s.mu.Lock()
	over := r.over()
	if !over && !q.Force {
		s.mu.Unlock()
		return struct{}{}, fail(CodeActive, "Run %q is live: stop it, or delete it with force.", q.ID)
	}
	if s.runs[q.ID] == r {
		delete(s.runs, q.ID)
	}
	if !over {
		s.ending[r] = true
	}
	s.mu.Unlock()
	if over {
		r.ring.release()
		return struct{}{}, nil
	}
	s.work.Go(func() {
		if r.until(s.ctx, func() bool { return r.at != StateStarting }) == nil {
			s.stopLive(s.ctx, r, r.grace, ReasonManual)
		}
		s.mu.Lock()
		delete(s.ending, r) // ended before it was noted there, or cannot be ended
		s.mu.Unlock()
	})
	return struct{}{}, nil
}

// Removed is how many records were forgotten.
type Removed struct {
	Removed int `json:"removed"`
}

// Clear forgets all runs that ended, of one scope or of all.
func (s *Supervisor) Clear(_ context.Context, q DeleteQuery) (Removed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.ended() {
		if q.Scope == "" || r.scope == q.Scope {
			delete(s.runs, r.id)
			r.ring.release()
			n++
		}
	}
	return Removed{n}, nil
}

// Text is what a chunk says, as JSON can carry it.
func (c Chunk) Text() string {
	if utf8.Valid(c.Data) {
		return string(c.Data)
	}
	return strings.ToValidUTF8(string(c.Data), "\uFFFD")
}
