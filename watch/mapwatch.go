package watch

import (
	"errors"
	"slices"
	"time"

	"procinsh/proc"
)

const (
	// mapsInterval is the time between two readings of the maps.
	mapsInterval = 5 * time.Second
	// mapsRest is how many times the cost of a reading passes before the next one,
	// so that a large address space costs at most 5 % of a core and its owner's mmap
	// lock is free at least 95 % of the time: 60,000 maps with smaps are 170 ms.
	mapsRest = 20
	// maxWatchedMaps is how many mappings of one process are kept; the state says when it
	// is cut. It is a little more than a process may have by default (65,530,
	// vm.max_map_count); one of 60,000 takes 10 MB here, twice while it changes.
	maxWatchedMaps = 65_536
	// mapsSlack lets a reading be due with a sample that is a little early.
	mapsSlack = 50 * time.Millisecond
	// mapsPatience is how long a sample at most waits for the maps read beside
	// it; what comes later goes with the next sample.
	mapsPatience = 500 * time.Millisecond
)

// mapsReading is one reading of the maps, made beside the sampler.
type mapsReading struct {
	maps      []proc.Mapping
	truncated bool
	rollup    *proc.Rollup
	at        time.Time
	cost      time.Duration
	err       error
}

// readMaps reads the mappings into spare and the rollup with them, through a handle
// of its own.
func readMaps(src processSource, id proc.ID, spare []proc.Mapping) (r *mapsReading) {
	r = &mapsReading{maps: spare, at: time.Now()}
	r.err = guard(func() error {
		t, err := src.Open(id)
		if err != nil {
			return err
		}
		defer t.Close()
		maps, err := t.ReadSmaps(spare[:0])
		cut := errors.Is(err, proc.ErrTruncated)
		if err != nil && !cut && !errors.Is(err, proc.ErrGone) {
			// Not permitted, or a kernel without CONFIG_PROC_PAGE_MONITOR.
			maps, err = t.ReadMaps(spare[:0])
			cut = errors.Is(err, proc.ErrTruncated)
		}
		if err != nil && !cut {
			return err
		}
		if len(maps) > maxWatchedMaps {
			maps, cut = slices.Clone(maps[:maxWatchedMaps]), true
		}
		r.maps, r.truncated = maps, cut
		if rollup, err := t.ReadRollup(); err == nil {
			r.rollup = &rollup
		}
		return nil
	})
	r.cost = time.Since(r.at)
	return r
}

// mapsKeeper holds the newest maps of a process in two buffers: what is read goes
// into the one that no state has, and is published only when it differs.
type mapsKeeper struct {
	maps      []proc.Mapping
	spare     []proc.Mapping
	truncated bool
	epoch     uint64
	at        time.Time
	rollup    *proc.Rollup
	err       error
	memo      *memo

	due     time.Time
	pending chan *mapsReading // nil when no reading is being made
}

// take keeps a reading.
func (k *mapsKeeper) take(r *mapsReading) {
	k.pending = nil
	k.due = r.at.Add(max(mapsInterval, r.cost*(mapsRest+1)))
	k.err = r.err
	if r.err != nil {
		k.spare = r.maps
		return
	}
	k.at, k.rollup = r.at, r.rollup
	if k.epoch != 0 && r.truncated == k.truncated && slices.Equal(r.maps, k.maps) {
		k.spare = r.maps
		return
	}
	k.maps, k.truncated = r.maps, r.truncated
	k.spare = nil // the old one may be with a viewer
	k.epoch++
	k.memo = new(memo)
}
