package run

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// adopted is what is left of runs whose supervisor is dead, by id: found by their
// groups, and by marks whose owner lives no more.
func (s *Supervisor) adopted(fresh bool) (map[string][]*holding, *table, error) {
	tb, err := s.tracker.scan(fresh, time.Time{})
	if err != nil {
		return nil, nil, err
	}
	found := map[string][]*holding{}
	if s.groups != nil {
		groups, err := s.groups.orphaned()
		if err != nil {
			return nil, nil, err
		}
		s.mu.Lock()
		own := map[string]bool{}
		for _, r := range s.runs {
			if g := r.cgroup(); g != nil {
				own[g.path] = true
			}
		}
		for r := range s.ending {
			if g := r.cgroup(); g != nil {
				own[g.path] = true
			}
		}
		s.mu.Unlock()
		for id, list := range groups {
			for _, g := range list {
				populated, err := g.populated()
				switch {
				case own[g.path]:
				case err == nil && populated && validID(id):
					found[id] = append(found[id], &holding{group: g})
				case err == nil && !s.within(g):
					g.remove() // empty, and nobody's; what cannot be removed is nobody's either
				}
			}
		}
	}
	for m := range tb.marked {
		if !validID(m.id) || m.owner == s.owner {
			continue
		}
		if owner, err := ParseID(m.owner); err == nil && m.owner != s.silent {
			if e, ok := tb.all[owner.PID]; ok && e.id == owner && e.alive() {
				continue
			}
		}
		found[m.id] = append(found[m.id], &holding{key: m})
	}
	return found, tb, nil
}

// adoptedServes is how long a list goes without another look for what dead servers left:
// that takes a scan of all processes, and the living servers are not among them.
const adoptedServes = 10 * time.Second

// leftovers are the ids of adopted runs as they were seen last.
type leftovers struct {
	mu  sync.Mutex
	at  time.Time
	ids []string
}

// adoptedIDs are the ids of what dead servers left, ten seconds old at most.
func (s *Supervisor) adoptedIDs() ([]string, error) {
	l := &s.leftovers
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.at.IsZero() && time.Since(l.at) < adoptedServes {
		return l.ids, nil
	}
	found, _, err := s.adopted(false)
	if err != nil {
		return nil, err
	}
	l.at, l.ids = time.Now(), slices.Sorted(maps.Keys(found))
	return l.ids, nil
}

// within tells whether a group is one that this supervisor made, which may be about to
// be used.
func (s *Supervisor) within(g *group) bool { return s.groups != nil && runParent(g) == s.groups.path }

// lookAdopted returns how to find the members of an adopted run.
//
// Errors: run_not_found.
func (s *Supervisor) lookAdopted(id string) (look func(fresh bool) ([]member, error), groups []*group, err error) {
	found, _, err := s.adopted(true)
	if err != nil {
		return nil, nil, err
	}
	holds := found[id]
	if len(holds) == 0 {
		return nil, nil, fail(CodeNotFound, "There is no run %q.", id)
	}
	for _, h := range holds {
		if h.group != nil {
			groups = append(groups, h.group)
		}
	}
	return func(fresh bool) ([]member, error) {
		tb, err := s.tracker.scan(fresh, time.Time{})
		if err != nil {
			return nil, err
		}
		var all []member
		for _, h := range holds {
			list, _, err := s.tracker.members(tb, h)
			if err != nil {
				return nil, err
			}
			for _, m := range list {
				at := slices.IndexFunc(all, func(o member) bool { return o.id == m.id })
				if at < 0 {
					all = append(all, m)
				}
			}
		}
		for i := range all {
			// Each holding knows its own group alone.
			all[i].escaped = len(groups) > 0 && !slices.ContainsFunc(groups, func(g *group) bool {
				in, _ := s.tracker.inGroup(all[i].id.PID, g)
				return in
			})
		}
		return all, nil
	}, groups, nil
}

func (s *Supervisor) stopAdopted(ctx context.Context, q StopQuery) (Stopped, error) {
	look, groups, err := s.lookAdopted(q.ID)
	if err != nil {
		return Stopped{}, err
	}
	how, err := q.parse(defaultGrace)
	if err != nil {
		return Stopped{}, err
	}
	return s.endAdopted(q.ID, look, groups, how).await(ctx, how.wait)
}

func (s *Supervisor) endAdopted(id string, look func(bool) ([]member, error), groups []*group, how manner) *stopping {
	return s.endLoose(id, how, groups, func() ([]member, error) { return look(true) }, func() {
		for _, g := range groups {
			if !s.within(g) { // else its supervisor looks at it yet
				g.remove() // what stays is empty
			}
		}
		if s.groups != nil {
			s.groups.orphaned() // removes the owner's group when that is empty now
		}
	})
}

// StopOrphans ends what is left of dead servers' runs and returns what it ended.
func (s *Supervisor) StopOrphans(ctx context.Context) ([]Stopped, error) {
	found, _, err := s.adopted(true)
	if err != nil {
		return nil, err
	}
	list := []Stopped{}
	for id := range found {
		st, err := s.stopAdopted(ctx, StopQuery{ID: id})
		if CodeOf(err) == CodeNotFound {
			continue
		}
		if err != nil {
			return list, err
		}
		list = append(list, st)
	}
	slices.SortFunc(list, func(a, b Stopped) int { return compareText(a.ID, b.ID) })
	return list, nil
}
