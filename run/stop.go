package run

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

const (
	newcomerPause = 50 * time.Millisecond // between two looks for who came during the grace
	killPause     = 10 * time.Millisecond
	killTime      = 5 * time.Second // for the kernel to end what was killed
	recordTime    = 5 * time.Second // for the record of an empty run to be finished
)

// target is what a stop sequence is to end.
type target struct {
	members func() ([]member, error)
	groups  []*group
	grace   func() time.Time // when it ends
	sooner  <-chan struct{}  // the grace may be shorter now
	signal  unix.Signal      // the first one, SIGTERM
	note    func(Stopped)    // told how far it is, after each look
	began   func()           // told when the first signals are sent
}

// manner is how to stop.
type manner struct {
	grace time.Duration
	first unix.Signal
	wait  *time.Duration // for the end; nil: until it is there
}

// stopLive ends everything of a run: the signal to all, also to newcomers, then SIGKILL
// by the cgroup. A second call joins the first and can only shorten its grace. reason is
// noted when the root lives; "" leaves the reason to how it ends.
func (s *Supervisor) stopLive(ctx context.Context, r *live, grace time.Duration, reason string) (Stopped, error) {
	return s.stopWith(ctx, r, manner{grace: grace, first: unix.SIGTERM}, reason)
}

func (s *Supervisor) stopWith(ctx context.Context, r *live, how manner, reason string) (Stopped, error) {
	if reason != "" {
		r.force(reason)
	}
	r.mu.Lock()
	if r.gone {
		r.mu.Unlock()
		return Stopped{ID: r.id, Survivors: []string{}}, nil
	}
	st := r.stopping
	if st == nil {
		st = newStopping(r.id, how.grace)
		r.stopping, r.at = st, StateStopping
		r.changedLocked()
		s.work.Go(func() { s.runStop(r, st, how.first) })
	} else {
		st.shorten(time.Now().Add(how.grace))
	}
	r.mu.Unlock()
	return st.await(ctx, how.wait)
}

// runStop carries a stop through, whoever still waits for it.
func (s *Supervisor) runStop(r *live, st *stopping, first unix.Signal) {
	t := target{
		members: func() ([]member, error) { l, _, err := s.membersOf(r, true); return l, err },
		grace:   st.grace, sooner: st.sooner, signal: first, note: st.note, began: st.signalled,
	}
	if g := r.cgroup(); g != nil {
		t.groups = []*group{g}
	}
	end := s.terminate(t)
	if len(end.Survivors) == 0 {
		wait, cancel := context.WithTimeout(s.ctx, recordTime)
		r.until(wait, func() bool { return r.at == StateExited }) // late: the stop is over all the same
		cancel()
	}
	r.mu.Lock()
	r.stopping = nil
	if r.at == StateStopping {
		r.at = StateRunning
		if r.exit != nil {
			r.at = StateDraining
		}
		r.changedLocked()
	}
	r.mu.Unlock()
	st.note(end)
	close(st.done)
}

// terminate runs the stop sequence to its end.
func (s *Supervisor) terminate(t target) Stopped {
	began := time.Now()
	seen := map[proc.ID]bool{}
	empty := 0
	// gone tells that nothing is left: by the cgroup's word, else by two empty looks.
	gone := func(list []member, err error) bool {
		if err != nil || len(list) > 0 {
			empty = 0
			return false
		}
		for _, g := range t.groups {
			if populated, err := g.populated(); err != nil || populated {
				empty = 0
				return false
			}
		}
		empty++
		return empty > 1 || len(t.groups) > 0
	}
	result := func(list []member, pending bool) Stopped {
		st := Stopped{TookMS: time.Since(began).Milliseconds(), Survivors: []string{}, Stopped: len(seen), Pending: pending}
		for _, m := range list {
			st.Survivors = append(st.Survivors, FormatID(m.id))
			if seen[m.id] {
				st.Stopped--
			}
		}
		slices.Sort(st.Survivors)
		return st
	}
	for {
		list, err := t.members()
		if gone(list, err) {
			return result(nil, false)
		}
		t.note(result(list, true))
		for _, m := range list {
			if !seen[m.id] {
				seen[m.id] = true
				s.tracker.signal(m.id, t.signal) // gone already, or left to SIGKILL
				s.tracker.signal(m.id, unix.SIGCONT)
			}
		}
		t.began()
		left := time.Until(t.grace())
		if left <= 0 {
			break
		}
		select {
		case <-time.After(min(left, newcomerPause)):
		case <-t.sooner:
		}
	}
	for deadline := time.Now().Add(killTime); ; {
		whole := s.killGroups(t.groups)
		list, err := t.members()
		if gone(list, err) {
			return result(nil, false)
		}
		t.note(result(list, true))
		for _, m := range list {
			seen[m.id] = true
			if m.escaped || !whole {
				s.tracker.signal(m.id, unix.SIGKILL) // what stays is looked at again
			}
		}
		if time.Now().After(deadline) {
			return result(list, false)
		}
		time.Sleep(killPause)
	}
}

// killGroups kills all members of the groups and tells whether that reached everybody in
// them. Before Linux 5.14 each is killed for itself while the group stands still.
func (s *Supervisor) killGroups(groups []*group) bool {
	whole := len(groups) > 0
	for _, g := range groups {
		err := g.kill()
		if err == nil {
			continue
		}
		populated, _ := g.populated()
		if errors.Is(err, fs.ErrNotExist) && !populated {
			continue // the group itself is gone
		}
		whole = false
		g.freeze(true) // 5.2; without it rounds have to do
		pids, err := g.pids()
		if err != nil {
			pids = nil
		}
		for _, pid := range pids {
			if e, err := s.files.stat(pid); err == nil {
				s.tracker.signal(e.id, unix.SIGKILL)
			}
		}
		g.freeze(false)
	}
	return whole
}

// StopQuery is what to stop and how.
type StopQuery struct {
	ID      string `json:"id"`
	Process string `json:"process"` // pid-start, of StopProcess alone
	GraceMS *int64 `json:"grace_ms"`
	Signal  string `json:"signal"`  // the first one, "" for SIGTERM
	WaitMS  *int64 `json:"wait_ms"` // for the end; nil: until it is there
}

func (q *StopQuery) parse(otherwise time.Duration) (manner, error) {
	how := manner{grace: otherwise, first: unix.SIGTERM}
	if q.GraceMS != nil {
		if *q.GraceMS < 0 || *q.GraceMS > maxGrace.Milliseconds() {
			return manner{}, fail(CodeBadRequest, "grace_ms is from 0 to 60000.")
		}
		how.grace = milliseconds(*q.GraceMS)
	}
	if q.WaitMS != nil {
		if *q.WaitMS < 0 || *q.WaitMS > maxWait.Milliseconds() {
			return manner{}, fail(CodeBadRequest, "wait_ms is from 0 to 120000.")
		}
		wait := milliseconds(*q.WaitMS)
		how.wait = &wait
	}
	if q.Signal != "" {
		name := q.Signal
		if len(name) < 3 || name[:3] != "SIG" {
			name = "SIG" + name
		}
		if how.first = unix.SignalNum(name); how.first == 0 {
			return manner{}, fail(CodeBadRequest, "%q is no signal.", q.Signal)
		}
		if how.first == unix.SIGKILL {
			how.grace = 0
		}
	}
	return how, nil
}

// Stop ends a run, or what is left of one whose record is lost. What is empty is
// stopped already.
//
// Errors: run_not_found when there is neither record nor group nor marked process.
func (s *Supervisor) Stop(ctx context.Context, q StopQuery) (Stopped, error) {
	r, err := s.find(q.ID)
	if CodeOf(err) == CodeNotFound {
		return s.stopAdopted(ctx, q)
	}
	if err != nil {
		return Stopped{}, err
	}
	how, err := q.parse(r.grace)
	if err != nil {
		return Stopped{}, err
	}
	return s.stopWith(ctx, r, how, ReasonManual)
}

// StopProcess ends one member: the signal, and SIGKILL when it stays.
//
// Errors: invalid_process, stale_process, protected_process, not_in_run.
func (s *Supervisor) StopProcess(ctx context.Context, q StopQuery) (Stopped, error) {
	id, err := ParseID(q.Process)
	if err != nil {
		return Stopped{}, err
	}
	how, err := q.parse(defaultGrace)
	if err != nil {
		return Stopped{}, err
	}
	look, _, err := s.look(q.ID)
	if err != nil {
		return Stopped{}, err
	}
	list, err := look(true)
	if err != nil {
		return Stopped{}, err
	}
	if s.tracker.protected[id.PID] {
		return Stopped{}, fail(CodeProtected, "Process %s is procinsh itself or above it.", q.Process)
	}
	is := func(m member) bool { return m.id == id }
	if !slices.ContainsFunc(list, is) {
		e, err := s.files.stat(id.PID)
		switch {
		case err != nil:
			return Stopped{}, fail(CodeNoProcess, "Process %s has ended.", q.Process)
		case e.id != id:
			return Stopped{}, fail(CodeStale, "Process %s has ended, its number is that of %s now.", q.Process, FormatID(e.id))
		}
		return Stopped{}, fail(CodeNotInRun, "Process %s is no member of run %q.", q.Process, q.ID)
	}
	st := s.endLoose(q.ID, how, nil, func() ([]member, error) {
		if e, err := s.files.stat(id.PID); err != nil || e.id != id || !e.alive() {
			return nil, nil
		}
		return []member{{entry: entry{id: id}}}, nil
	}, nil)
	return st.await(ctx, how.wait)
}

// endLoose begins to stop what no record stands for, and carries it through, whoever
// still waits. after is called at the end when nothing survived.
func (s *Supervisor) endLoose(id string, how manner, groups []*group, members func() ([]member, error), after func()) *stopping {
	st := newStopping(id, how.grace)
	s.work.Go(func() {
		end := s.terminate(target{members: members, groups: groups, grace: st.grace, signal: how.first, note: st.note, began: st.signalled})
		if len(end.Survivors) == 0 && after != nil {
			after()
		}
		st.note(end)
		close(st.done)
	})
	return st
}

// ScopeQuery names a scope.
type ScopeQuery struct {
	Scope   string `json:"scope"`
	GraceMS *int64 `json:"grace_ms"`
	Signal  string `json:"signal"`
	WaitMS  *int64 `json:"wait_ms"`
}

// StopScope ends every run of a scope.
//
// Errors: stop_incomplete when something survives.
func (s *Supervisor) StopScope(ctx context.Context, q ScopeQuery) ([]Stopped, error) {
	scope, stop := q.Scope, StopQuery{GraceMS: q.GraceMS, Signal: q.Signal, WaitMS: q.WaitMS}
	if _, err := stop.parse(0); err != nil {
		return nil, err
	}
	if !validID(scope) {
		return nil, fail(CodeBadRequest, "A scope has 1 to 64 characters of A-Z a-z 0-9 _ and -.")
	}
	s.mu.Lock()
	var list []*live
	for _, r := range s.runs {
		if r.scope == scope && !r.over() {
			list = append(list, r)
		}
	}
	for r := range s.ending {
		if r.scope == scope {
			list = append(list, r)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b *live) int { return a.created.Compare(b.created) })
	stopped := make([]Stopped, len(list))
	errs := make(chan error, len(list))
	for i, r := range list {
		s.work.Go(func() {
			// A run that is just being started has nothing to end yet.
			err := r.until(ctx, func() bool { return r.at != StateStarting })
			if err == nil {
				var how manner
				if how, err = stop.parse(r.grace); err == nil {
					stopped[i], err = s.stopWith(ctx, r, how, ReasonManual)
				}
			}
			errs <- err
		})
	}
	var failure error
	for range list {
		failure = errors.Join(failure, <-errs)
	}
	if failure != nil {
		return nil, failure
	}
	if slices.ContainsFunc(stopped, func(st Stopped) bool { return len(st.Survivors) > 0 && !st.Pending }) {
		return stopped, fail(CodeStopIncomplete, "Some processes of scope %q do not end: see the processes of its runs.", scope)
	}
	return stopped, nil
}
