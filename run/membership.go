package run

import (
	"context"
	"time"

	"procinsh/proc"
)

// Membership is who belongs to a live run.
type Membership struct {
	Run     string    `json:"run"`
	Members []proc.ID `json:"members"`
}

const (
	// knownFor is how long a member keeps its start time without another look: the same
	// number in the same cgroup is the same process, but for one that was born there
	// with a number just freed.
	knownFor = 10 * time.Second
	// membershipPatience is how long the list of processes waits for a helper that says
	// nothing.
	membershipPatience = 500 * time.Millisecond
)

// started is when a member was started, as it was read.
type started struct {
	ticks uint64
	at    time.Time
}

// Memberships are those of all live runs. A run with a cgroup costs no scan: who lives
// outside of the group is there as the last scan found it.
//
// Errors: the processes cannot be listed.
func (s *Supervisor) Memberships(context.Context) ([]Membership, error) {
	s.mu.Lock()
	var runs []*live
	for _, r := range s.runs {
		if !r.over() {
			runs = append(runs, r)
		}
	}
	s.mu.Unlock()
	list := make([]Membership, 0, len(runs))
	for _, r := range runs {
		m := Membership{Run: r.id}
		if g := r.cgroup(); g != nil {
			pids, err := g.pids()
			if err != nil && !isGone(err) {
				return nil, err
			}
			m.Members = s.identify(r, pids)
		} else {
			members, _, err := s.membersOf(r, false)
			if err != nil {
				return nil, err
			}
			for _, e := range members {
				m.Members = append(m.Members, e.id)
			}
		}
		if len(m.Members) > 0 {
			list = append(list, m)
		}
	}
	return list, nil
}

// identify finds the start times of the processes of a run's cgroup and adds who is
// known to live outside of it.
func (s *Supervisor) identify(r *live, pids []int32) (ids []proc.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	known := make(map[int32]started, len(pids))
	for _, pid := range pids {
		k, ok := r.births[pid]
		if !ok || now.Sub(k.at) >= knownFor {
			e, err := s.files.stat(pid)
			if err != nil || !e.alive() {
				continue
			}
			k = started{e.id.StartTicks, now}
		}
		known[pid] = k
		ids = append(ids, proc.ID{PID: pid, StartTicks: k.ticks})
	}
	r.births = known
	for id := range r.hold.sticky {
		if _, ok := known[id.PID]; !ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// RunOf tells of each process that belongs to a live run which that is.
//
// Absent: nil without runs, and while the helper does not answer.
func (c *Client) RunOf() map[proc.ID]string {
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	if l == nil {
		return nil
	}
	f, err := l.call(context.Background(), "memberships", nil, membershipPatience, false)
	if err != nil {
		return nil
	}
	list, err := decode[[]Membership](f)
	if err != nil || len(list) == 0 {
		return nil
	}
	runs := map[proc.ID]string{}
	for _, m := range list {
		for _, id := range m.Members {
			runs[id] = m.Run
		}
	}
	return runs
}
