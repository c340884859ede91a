package watch

import (
	"time"

	"procinsh/proc"
)

// observe adds to s what it says together with the sample before, which is nil for
// the first one. window is the monotonic time between the two.
func observe(s proc.Sample, before *Observation, window time.Duration) *Observation {
	o := &Observation{Sample: s, ThreadCPU: make([]proc.Opt[float64], len(s.Threads))}
	if before == nil {
		return o
	}
	o.CPUPercent = percent(before.CPUTicks, s.CPUTicks, window)
	r := &o.Rates
	r.MinorFaults = perSecond(before.MinorFaults, s.MinorFaults, window)
	r.MajorFaults = perSecond(before.MajorFaults, s.MajorFaults, window)
	r.ReadBytes, r.WriteBytes = ioRates(before.IO, s.IO, window)

	var voluntary, nonvoluntary growth
	j := 0
	for i := range s.Threads {
		t := &s.Threads[i]
		for j < len(before.Threads) && before.Threads[j].TID < t.TID {
			j++
		}
		if j == len(before.Threads) || before.Threads[j].TID != t.TID || before.Threads[j].StartTicks != t.StartTicks {
			continue
		}
		b := &before.Threads[j]
		o.ThreadCPU[i] = percent(b.CPUTicks, t.CPUTicks, window)
		voluntary.add(b.VoluntarySwitches, t.VoluntarySwitches)
		nonvoluntary.add(b.NonvoluntarySwitches, t.NonvoluntarySwitches)
	}
	if !s.ThreadsTruncated && !before.ThreadsTruncated {
		r.VoluntarySwitches = voluntary.rate(window)
		r.NonvoluntarySwitches = nonvoluntary.rate(window)
	}
	return o
}

// growth is the sum of what the counters of matched threads grew by.
type growth struct {
	sum     uint64
	threads int
	unknown bool
}

func (g *growth) add(before, after proc.Opt[uint64]) {
	b, ok1 := before.Get()
	a, ok2 := after.Get()
	if !ok1 || !ok2 || a < b {
		g.unknown = true
		return
	}
	g.sum += a - b
	g.threads++
}

func (g *growth) rate(window time.Duration) proc.Opt[float64] {
	if g.unknown || g.threads == 0 {
		return proc.Opt[float64]{}
	}
	return perSecond(0, g.sum, window)
}
