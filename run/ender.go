package run

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

// newEnder returns a supervisor that launches nothing: it ends runs of one that hangs or
// is dead, by their cgroups and marks, without its records.
//
// Errors: the mount of procfs is unreadable.
func newEnder(o Options, silent proc.ID) (*Supervisor, error) {
	f := newFiles(cmp.Or(o.Mount, "/proc"))
	self, err := f.stat(int32(os.Getpid()))
	if err != nil {
		return nil, err
	}
	s := &Supervisor{o: o, files: f, tracker: newTracker(f), birth: birthNone, owner: FormatID(self.id), silent: FormatID(silent)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.tracker.protect(silent.PID)
	if above, err := ownGroup(f); err == nil && !o.NoCgroup {
		s.groups = &groups{above: above, path: filepath.Join(above, groupPrefix+strconv.Itoa(int(silent.PID)))}
	}
	return s, nil
}

// closeEnder waits for what is under way.
func (s *Supervisor) closeEnder() {
	s.work.Wait()
	s.stop()
}

// endSilent ends every run of a supervisor that is dead, and removes its cgroups.
func (s *Supervisor) endSilent() {
	found, _, err := s.adopted(true)
	if err != nil {
		return // what is left is listed by the next server
	}
	var ends sync.WaitGroup
	for id, holds := range found {
		for _, h := range holds {
			if h.key.owner == s.silent || h.group != nil && s.within(h.group) {
				ends.Go(func() {
					s.stopAdopted(s.ctx, StopQuery{ID: id}) // the same
				})
				break
			}
		}
	}
	ends.Wait()
	if s.groups == nil {
		return
	}
	groups, err := s.groups.orphaned()
	if err != nil {
		return
	}
	for _, list := range groups {
		for _, g := range list {
			if s.within(g) {
				g.remove()
			}
		}
	}
	unix.Rmdir(s.groups.path) // stays while it holds what cannot be ended
}
