package watch

import (
	"slices"
	"sync"
	"time"
)

// Durations counts how long something took, by bounds that do not change. Make it
// with NewDurations. Safe for concurrent use.
type Durations struct {
	mu sync.Mutex
	c  DurationCounts
}

// DurationCounts is what Durations counted.
type DurationCounts struct {
	Bounds []time.Duration // ascending
	Counts []uint64        // Counts[i] took at most Bounds[i] and more than the bound before; the last more than all
	Sum    time.Duration
}

// NewDurations returns an empty count with ascending bounds.
func NewDurations(bounds ...time.Duration) *Durations {
	return &Durations{c: DurationCounts{Bounds: bounds, Counts: make([]uint64, len(bounds)+1)}}
}

// Add counts one more.
func (d *Durations) Add(took time.Duration) {
	took = max(took, 0)
	at, _ := slices.BinarySearch(d.c.Bounds, took)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.c.Counts[at]++
	d.c.Sum += took
}

// Read returns the counts so far.
func (d *Durations) Read() DurationCounts {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.c
	c.Counts = slices.Clone(c.Counts)
	return c
}

// newScanDurations has bounds for readings of the whole host.
func newScanDurations() *Durations {
	return NewDurations(time.Millisecond, 2500*time.Microsecond, 5*time.Millisecond, 10*time.Millisecond, 25*time.Millisecond,
		50*time.Millisecond, 100*time.Millisecond, 250*time.Millisecond, 500*time.Millisecond, time.Second, 2500*time.Millisecond, 5*time.Second)
}
