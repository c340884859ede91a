package run

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is what this process has used so far.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Who asks for all runs every two seconds costs next to nothing: with cgroups their files
// are read and no process is looked at, without there is one scan for all. The long form
// has 64 runs of 20 members.
func TestListCost(t *testing.T) {
	const size = 20
	ways(t, func(t *testing.T, s *Supervisor, _ *events) {
		runs, polls, pause := long(4, maxLiveRuns), long(3, 15), long(0, 2*time.Second)
		for i := range runs {
			l := shell(fmt.Sprintf("i=1; while [ $i -lt %d ]; do sleep 6022 & i=$((i+1)); done; echo up; wait", size))
			l.ID, l.MaxOutput, l.GraceMS = fmt.Sprintf("cost-%d", i), 4096, ptr(int64(0))
			create(t, s, l)
		}
		for i := range runs {
			id := fmt.Sprintf("cost-%d", i)
			wait(t, "the command", func() bool { return output(t, s, id) == "up\n" })
			wait(t, "all members", func() bool { return len(members(t, s, id)) == size })
		}
		if _, err := s.List(t.Context(), Filter{}); err != nil { // looks for what dead servers left, once in 10 s
			t.Fatal(err)
		}
		first := s.tracker.last
		from, at := cpuTime(t), time.Now()
		for range polls {
			time.Sleep(pause)
			list, err := s.List(t.Context(), Filter{Text: "cost-"}) // another dead server may have left something
			if err != nil || len(list) != runs {
				t.Fatalf("%d runs, %v", len(list), err)
			}
			for _, st := range list {
				if st.Members == nil || *st.Members != size {
					t.Fatalf("run %s has members %v", st.ID, st.Members)
				}
			}
		}
		if pause == 0 {
			if s.groups != nil && s.tracker.last != first && time.Since(at) < adoptedServes {
				t.Error("the processes were scanned")
			}
			return
		}
		share := float64(cpuTime(t)-from) / float64(time.Since(at)) * 100
		t.Logf("%d runs of %d members, asked every %v: %.2f %% of a core", runs, size, pause, share)
		if limit := map[bool]float64{true: 1, false: 3}[s.groups != nil]; share > limit {
			t.Errorf("%.2f %% of a core, want at most %g", share, limit)
		}
	})
}
