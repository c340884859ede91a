package watch

import (
	"slices"
	"testing"
	"time"

	"procinsh/proc"
)

func TestObserve(t *testing.T) {
	thread := func(tid int32, start, ticks, voluntary, nonvoluntary uint64) proc.Thread {
		return proc.Thread{TID: tid, StartTicks: start, CPUTicks: ticks,
			VoluntarySwitches: proc.Some(voluntary), NonvoluntarySwitches: proc.Some(nonvoluntary)}
	}
	unreadable := proc.Thread{TID: 2, StartTicks: 1, CPUTicks: 5}
	const u = -1 // unknown
	for _, tt := range []struct {
		name          string
		before, after proc.Sample
		window        time.Duration
		cpu           float64
		threads       []float64
		faults        [2]float64 // minor, major
		switches      [2]float64 // voluntary, nonvoluntary
		io            [2]float64
	}{
		{
			name:    "all known",
			before:  proc.Sample{CPUTicks: 100, MinorFaults: 10, MajorFaults: 1, IO: proc.Some(proc.IO{ReadBytes: 100, WriteBytes: 0}), Threads: []proc.Thread{thread(1, 1, 60, 7, 3), thread(2, 1, 40, 1, 1)}},
			after:   proc.Sample{CPUTicks: 300, MinorFaults: 30, MajorFaults: 1, IO: proc.Some(proc.IO{ReadBytes: 300, WriteBytes: 50}), Threads: []proc.Thread{thread(1, 1, 160, 9, 3), thread(2, 1, 140, 5, 11)}},
			cpu:     100,
			threads: []float64{50, 50}, faults: [2]float64{10, 0}, switches: [2]float64{3, 5}, io: [2]float64{100, 25},
		},
		{
			// The sums of the two samples fall from 1,010 to 32.
			name:    "a busy thread ends, another begins",
			before:  proc.Sample{CPUTicks: 100, Threads: []proc.Thread{thread(1, 1, 0, 10, 0), thread(2, 1, 99, 1000, 1000)}},
			after:   proc.Sample{CPUTicks: 102, Threads: []proc.Thread{thread(1, 1, 2, 12, 4), thread(3, 9, 1, 20, 20)}},
			cpu:     1,
			threads: []float64{1, u}, switches: [2]float64{1, 2}, io: [2]float64{u, u},
		},
		{
			name:    "a thread's number is used again",
			before:  proc.Sample{Threads: []proc.Thread{thread(1, 1, 0, 10, 0), thread(2, 1, 99, 1000, 1000)}},
			after:   proc.Sample{Threads: []proc.Thread{thread(1, 1, 0, 10, 0), thread(2, 8, 100, 2000, 2000)}},
			threads: []float64{0, u}, io: [2]float64{u, u},
		},
		{
			name:     "all threads are new",
			before:   proc.Sample{Threads: []proc.Thread{thread(1, 1, 0, 0, 0)}},
			after:    proc.Sample{Threads: []proc.Thread{thread(2, 2, 0, 0, 0)}},
			threads:  []float64{u},
			switches: [2]float64{u, u}, io: [2]float64{u, u},
		},
		{
			name:    "counters go backwards",
			before:  proc.Sample{CPUTicks: 100, MinorFaults: 10, MajorFaults: 10, IO: proc.Some(proc.IO{ReadBytes: 100, WriteBytes: 100}), Threads: []proc.Thread{thread(1, 1, 60, 7, 3), thread(2, 1, 40, 1, 1)}},
			after:   proc.Sample{CPUTicks: 99, MinorFaults: 9, MajorFaults: 12, IO: proc.Some(proc.IO{ReadBytes: 99, WriteBytes: 120}), Threads: []proc.Thread{thread(1, 1, 59, 6, 3), thread(2, 1, 50, 9, 1)}},
			cpu:     u,
			threads: []float64{u, 5}, faults: [2]float64{u, 1}, switches: [2]float64{u, 0}, io: [2]float64{u, 10},
		},
		{
			name:    "switches of a thread are unreadable",
			before:  proc.Sample{Threads: []proc.Thread{thread(1, 1, 0, 0, 0), unreadable}},
			after:   proc.Sample{Threads: []proc.Thread{thread(1, 1, 0, 0, 0), unreadable}},
			threads: []float64{0, 0}, switches: [2]float64{u, u}, io: [2]float64{u, u},
		},
		{
			name:    "threads are cut",
			before:  proc.Sample{Threads: []proc.Thread{thread(1, 1, 0, 0, 0)}},
			after:   proc.Sample{Threads: []proc.Thread{thread(1, 1, 0, 4, 4)}, ThreadsTruncated: true},
			threads: []float64{0}, switches: [2]float64{u, u}, io: [2]float64{u, u},
		},
		{
			name:    "io became unreadable",
			before:  proc.Sample{IO: proc.Some(proc.IO{})},
			after:   proc.Sample{},
			threads: []float64{}, switches: [2]float64{u, u}, io: [2]float64{u, u},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first := observe(tt.before, nil, 0)
			if first.CPUPercent.Known() || first.Rates != (Rates{}) || slices.ContainsFunc(first.ThreadCPU, proc.Opt[float64].Known) {
				t.Errorf("the first observation has differences: %+v", first)
			}
			o := observe(tt.after, first, 2*time.Second)
			threads := []float64{}
			for _, c := range o.ThreadCPU {
				threads = append(threads, c.Or(u))
			}
			r := o.Rates
			if got := o.CPUPercent.Or(u); got != tt.cpu {
				t.Errorf("CPU %v, want %v", got, tt.cpu)
			}
			if !slices.Equal(threads, tt.threads) {
				t.Errorf("thread CPU %v, want %v", threads, tt.threads)
			}
			for _, c := range []struct {
				name string
				got  [2]proc.Opt[float64]
				want [2]float64
			}{
				{"faults", [2]proc.Opt[float64]{r.MinorFaults, r.MajorFaults}, tt.faults},
				{"switches", [2]proc.Opt[float64]{r.VoluntarySwitches, r.NonvoluntarySwitches}, tt.switches},
				{"io", [2]proc.Opt[float64]{r.ReadBytes, r.WriteBytes}, tt.io},
			} {
				if got := [2]float64{c.got[0].Or(u), c.got[1].Or(u)}; got != c.want {
					t.Errorf("%s %v, want %v", c.name, got, c.want)
				}
			}
		})
	}
}
