package watch

import "time"

// pace says when the next reading is due: on a grid of the interval, so that
// late timers do not add up, with points left out when a reading is slow.
type pace struct {
	interval time.Duration
	due      time.Time
}

// read moves the grid on after a reading. One that was not in turn, or a whole
// interval late, starts a new grid.
// After a reading of length d nothing is due for another d, so a host or a target
// that is slow to read takes at most half of one core, whatever the interval.
func (p *pace) read(began, ended time.Time, inTurn bool) {
	if !inTurn || began.Sub(p.due) >= p.interval {
		p.due = began
	}
	p.due = p.due.Add(p.interval)
	if behind := ended.Add(ended.Sub(began)).Sub(p.due); behind > 0 {
		steps := (behind + p.interval - 1) / p.interval
		p.due = p.due.Add(steps * p.interval)
	}
}

// wait returns how long it is until the next reading, at most 0 when it is due.
func (p *pace) wait() time.Duration { return time.Until(p.due) }
