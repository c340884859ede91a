package run

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// memberPause is the time between two looks at a run without a cgroup, or with
	// members outside it, that is waited for to be empty.
	memberPause = 250 * time.Millisecond
	// groupPause is the same where the cgroup tells of itself; it is only a net.
	groupPause = 5 * time.Second
)

// supervise follows a run from its start to its end.
func (s *Supervisor) supervise(r *live) {
	s.startTimers(r)
	if g := r.cgroup(); g != nil {
		s.watcher.add(g, r.event)
		defer s.watcher.remove(g)
	}
	var status unix.WaitStatus
	select {
	case status = <-r.exitStatus:
	case <-s.ctx.Done():
		return
	}
	r.mu.Lock()
	r.rootEnd = time.Now()
	r.mu.Unlock()
	r.quietened()
	r.mu.Lock()
	r.exit = exitOf(status, r.forced)
	if r.at == StateRunning {
		r.at = StateDraining
	}
	r.changedLocked()
	r.mu.Unlock()
	if r.kill {
		s.work.Go(func() { s.stopLive(s.ctx, r, r.grace, "") })
	}
	if !s.waitEmpty(r) {
		return
	}
	s.finish(r)
}

func (s *Supervisor) startTimers(r *live) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timeout > 0 {
		r.timers = append(r.timers, time.AfterFunc(r.timeout, func() { s.expired(r, ReasonTimeout) }))
	}
	if r.silence > 0 {
		var t *time.Timer
		t = time.AfterFunc(r.silence, func() {
			if left := r.silence - time.Since(time.Unix(0, r.lastOutput.Load())); left > 0 {
				r.mu.Lock()
				defer r.mu.Unlock()
				if !r.gone {
					t.Reset(left)
				}
				return
			}
			s.expired(r, ReasonSilence)
		})
		r.timers = append(r.timers, t)
	}
}

func (s *Supervisor) expired(r *live, reason string) {
	r.mu.Lock()
	over := r.gone
	r.mu.Unlock()
	if over {
		return
	}
	s.emit(Event{Type: EventTimeout, Run: r.id, Scope: r.scope, Reason: reason})
	s.stopLive(s.ctx, r, r.grace, reason)
}

const (
	// betweenPause and betweenScans are how long a scan waits for processes in the middle
	// of exec, of which nobody knows whether they are members.
	betweenPause = 20 * time.Millisecond
	betweenScans = 10
)

// membersOf returns the members of a run by a scan.
func (s *Supervisor) membersOf(r *live, fresh bool) ([]member, int, error) {
	r.mu.Lock()
	since := r.startedAt
	if r.rootEnd.After(since) {
		since = r.rootEnd
	}
	r.mu.Unlock()
	tb, err := s.tracker.scan(fresh, since)
	for n := 1; err == nil && fresh && tb.between > 0 && r.cgroup() == nil && n < betweenScans; n++ {
		time.Sleep(betweenPause)
		tb, err = s.tracker.scan(fresh, since)
	}
	if err != nil {
		return nil, 0, err
	}
	if tb.denied > 0 && r.cgroup() == nil {
		if s.tracker.uid == 0 {
			r.warn("the environment of some processes is unreadable, so that a mark may be missed: CAP_SYS_PTRACE is missing")
		} else {
			r.warn("the environment of some of your processes is unreadable, so that a mark may be missed: they do not let others look into them")
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return s.tracker.members(tb, &r.hold)
}

// waitEmpty waits until nothing of the run lives; false: it is not followed any more.
func (s *Supervisor) waitEmpty(r *live) bool {
	empty := 0
	group := r.cgroup()
	for {
		pause := memberPause
		populated := false
		if group != nil {
			var err error
			if populated, err = group.populated(); err != nil {
				r.warn(err.Error())
			}
		}
		if populated {
			empty, pause = 0, groupPause
		} else if list, _, err := s.membersOf(r, true); err == nil && len(list) == 0 {
			// Without a group a process can be between two parents for one scan.
			if empty++; group != nil || empty > 1 {
				return true
			}
			pause = 10 * time.Millisecond
		} else {
			empty = 0
		}
		select {
		case <-r.event:
		case <-time.After(pause):
		case <-s.ctx.Done():
			return false
		}
	}
}

// finish ends the record of a run that is empty. Only its supervisor calls it, once.
func (s *Supervisor) finish(r *live) {
	r.quietened()
	r.closeStreams()
	for slices.ContainsFunc(r.output, func(o *reader) bool { return !o.done.Load() }) {
		time.Sleep(time.Millisecond) // closed: the reader is on its way out
	}
	r.ring.end()
	var cpu *int64
	if g := r.cgroup(); g != nil {
		if n, ok := g.cpuUsec(); ok {
			cpu = &n
		}
		if err := g.remove(); err != nil {
			r.warn(err.Error())
		}
	}
	r.mu.Lock()
	r.at, r.end, r.gone, r.cpu = StateExited, time.Now(), true, cpu
	for _, t := range r.timers {
		t.Stop()
	}
	exit := r.exit
	r.changedLocked()
	r.mu.Unlock()
	s.mu.Lock()
	delete(s.ending, r)
	s.mu.Unlock()
	s.emit(Event{Type: EventExited, Run: r.id, Scope: r.scope, Exit: exit, Counts: &Counts{}})
	s.retain()
	time.AfterFunc(outputKept, s.retain)
}

// await waits as a launch asks and returns the run.
func (s *Supervisor) await(ctx context.Context, r *live, l Launch) (Status, error) {
	if l.WaitMS == 0 {
		return s.status(r, false), nil
	}
	wait, cancel := context.WithTimeout(ctx, milliseconds(l.WaitMS))
	defer cancel()
	err := r.until(wait, func() bool { return r.at == StateExited || r.exit != nil && !r.kill })
	if err != nil && ctx.Err() != nil && l.Disconnect == "stop" {
		s.stopLive(s.ctx, r, r.grace, ReasonManual)
		return Status{}, ctx.Err()
	}
	st := s.status(r, false)
	text := s.text(r)
	st.Text = &text
	return st, nil
}

// text is the kept output as plain text.
func (s *Supervisor) text(r *live) string {
	var p Plain
	var b []byte
	o, _ := r.ring.read(0, maxOutput, "")
	for _, c := range o.Chunks {
		b = append(b, p.Write(c.Data)...)
	}
	return string(append(b, p.Flush()...))
}
