package sensors

import (
	"encoding/json"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/tests/server"
)

// stepClock sets the clock of the machine ahead, or back.
func stepClock(t *testing.T, by time.Duration) {
	t.Helper()
	now := unix.NsecToTimespec(time.Now().Add(by).UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &now); err != nil {
		t.Fatalf("set the clock: %v", err)
	}
}

// When somebody sets the clock, windows keep their width, streams their pace and rates
// their meaning; only what is a time of day follows.
func TestClockSteps(t *testing.T) {
	if vm == "" {
		t.Skip("sets the clock of the machine: only in a virtual one")
	}
	root(t)
	w := watch(t, srv)
	w.observing()
	for _, by := range []time.Duration{time.Hour, -2 * time.Hour, time.Hour} {
		from := len(w.get())
		stepClock(t, by)
		began := time.Now()
		var percents []float64
		states := 0
		err := srv.Events("/api/processes/stream", nil, patience, func(e server.Event) bool {
			var body struct {
				Processes []clockRow `json:"processes"`
				Changed   []clockRow `json:"changed"`
			}
			if e.Name != "processes" && e.Name != "processes_delta" {
				return true
			}
			if err := json.Unmarshal(e.Data, &body); err != nil {
				t.Error(err)
				return false
			}
			if states++; states == 1 {
				return true // it may have been read before the step
			}
			for _, p := range append(body.Processes, body.Changed...) {
				if p.CPUPercent != nil {
					percents = append(percents, *p.CPUPercent)
				}
				if at := time.UnixMilli(p.StartedAt); at.After(time.Now().Add(time.Minute)) {
					t.Errorf("after a step of %v: process %d is said to begin at %v", by, p.Identity.PID, at)
				}
			}
			return states < 5
		})
		if err != nil {
			t.Fatalf("after a step of %v: the list: %v", by, err)
		}
		if len(percents) == 0 {
			t.Errorf("after a step of %v: no processor time in %d states", by, states)
		}
		for _, v := range percents {
			if v < 0 || v > 3200 {
				t.Errorf("after a step of %v: %v per cent", by, v)
			}
		}
		w.more(5)
		for _, a := range w.get()[from:] {
			if a.WindowMS <= 0 || a.WindowMS > float64(patience.Milliseconds()) {
				t.Errorf("after a step of %v: a window of %v ms", by, a.WindowMS)
			}
		}
		// Times of windows go on when the clock is set back, one ms each, until it has come there again.
		all := w.get()
		latest := time.Now()
		if was := time.UnixMilli(all[from-1].CapturedAt); was.After(latest) {
			latest = was
		}
		if at := time.UnixMilli(all[len(all)-1].CapturedAt); at.Before(began.Add(-time.Minute)) || at.After(latest.Add(time.Minute)) {
			t.Errorf("after a step of %v: the window is of %v, now is %v", by, at, time.Now())
		}
		for i := from; i < len(all); i++ {
			if all[i].CapturedAt <= all[i-1].CapturedAt {
				t.Errorf("after a step of %v: a window of %d ms comes after one of %d", by, all[i].CapturedAt, all[i-1].CapturedAt)
			}
		}
	}
}

type clockRow struct {
	Identity   id       `json:"identity"`
	CPUPercent *float64 `json:"cpu_percent"`
	StartedAt  int64    `json:"started_at"`
}
