package watch

import (
	"time"
)

// historyLength is how far a viewer's history goes back.
const historyLength = 60 * time.Second

// maxHistoryPoints is how many samples the history of an interval has: 601 at
// 100 ms, 61 at 1 s, 2 at 60 s; older ones are dropped.
func maxHistoryPoints(interval time.Duration) int { return int(historyLength/interval) + 1 }

// history is the points of a sampler's last 60 s. A copy of it stays valid and
// unchanged when points are added: they only go behind what the copy sees.
type history struct {
	points []HistoryPoint
	times  []time.Time // monotonic, same order: a clock step ages nothing
	first  uint64      // number of points[0]; the first ever is 1
}

// add appends a point that was read at the time at.
func (h *history) add(p HistoryPoint, at time.Time, limit int) {
	if len(h.points) == 0 && h.first == 0 {
		h.first = 1
	}
	h.points = append(h.points, p)
	h.times = append(h.times, at)
	drop := max(len(h.points)-limit, 0)
	for at.Sub(h.times[drop]) > historyLength {
		drop++
	}
	h.points, h.times, h.first = h.points[drop:], h.times[drop:], h.first+uint64(drop)
}

// last returns the number of the newest point, or of the first one to come.
func (h *history) last() uint64 {
	if len(h.points) == 0 {
		return max(h.first, 1)
	}
	return h.first + uint64(len(h.points)) - 1
}

// since returns the points from number from on.
func (h *history) since(from uint64) []HistoryPoint {
	skip := 0
	if from > h.first {
		skip = min(int(from-h.first), len(h.points))
	}
	return h.points[skip:len(h.points):len(h.points)]
}
