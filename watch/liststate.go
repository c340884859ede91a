package watch

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"procinsh/proc"
)

// maxWindow is the age up to which an earlier reading still says something about
// the present; older ones give unknown.
const maxWindow = 60 * time.Second

// baseOf returns the state to compare a scan that began at began with: the newest
// one that is at least half an interval old, so that a scan out of turn does not
// shorten anybody's window. Nil when there is none or it is too old.
func baseOf(current, previous *ListState, began time.Time, interval time.Duration) *ListState {
	for _, s := range []*ListState{current, previous} {
		if s != nil && began.Sub(s.CapturedAt) >= interval/2 {
			if began.Sub(s.CapturedAt) > longestWindow(interval) {
				return nil
			}
			return s
		}
	}
	return nil
}

// longestWindow is maxWindow, with room for the jitter of an interval as long.
func longestWindow(interval time.Duration) time.Duration {
	return max(maxWindow, interval+interval/2)
}

// readList scans and compares with base, which may be nil.
func readList(src listSource, want ListWant, began time.Time, base *ListState, interval time.Duration) (*ListState, error) {
	rows, err := src.Scan(proc.Want{IO: want.IO, Maps: want.Maps, Mappings: want.mappings})
	if err != nil {
		return nil, fmt.Errorf("scan processes: %w", err)
	}
	s := &ListState{CapturedAt: began, Want: want}
	var before []ListRow
	if base != nil {
		before = base.Rows
	}
	s.Rows = compareRows(rows, before, longestWindow(interval))
	s.readTotals(src, base)
	return s, nil
}

// compareRows copies rows and adds the differences to before. Both are by PID.
func compareRows(rows []proc.Row, before []ListRow, longest time.Duration) []ListRow {
	out := make([]ListRow, len(rows))
	j := 0
	for i := range rows {
		r := &out[i]
		r.Row = rows[i]
		for j < len(before) && before[j].ID.PID < r.ID.PID {
			j++
		}
		if j == len(before) || before[j].ID != r.ID {
			continue
		}
		b := &before[j]
		window := time.Duration(r.At - b.At)
		if window > longest {
			continue
		}
		r.CPUPercent = percent(b.CPUTicks, r.CPUTicks, window)
		r.ReadRate, r.WriteRate = ioRates(b.IO, r.IO, window)
	}
	return out
}

// markRuns notes of rows, which are by PID, the runs they belong to.
func markRuns(rows []ListRow, runs map[proc.ID]string) {
	for id, run := range runs {
		i, ok := slices.BinarySearchFunc(rows, id.PID, func(r ListRow, pid int32) int { return cmp.Compare(r.ID.PID, pid) })
		if ok && rows[i].ID == id {
			rows[i].Run = run
		}
	}
}

// readTotals adds the host as a whole.
func (s *ListState) readTotals(src listSource, base *ListState) {
	t := &s.Totals
	t.Processes = len(s.Rows)
	t.States = make(map[byte]int)
	for i := range s.Rows {
		t.Threads += int(s.Rows[i].Threads)
		t.States[s.Rows[i].State]++
	}
	s.totalsAt = time.Now()
	if err := src.ReadTotals(&t.Totals); err != nil {
		t.Totals = proc.Totals{}
		s.TotalsErr = fmt.Errorf("read host totals: %w", err)
		return
	}
	if base == nil || base.TotalsErr != nil {
		return
	}
	b, window := &base.Totals, s.totalsAt.Sub(base.totalsAt)
	if busy, ok := perSecond(b.BusyTicks, t.BusyTicks, window).Get(); ok {
		t.CoresBusy = proc.Some(min(busy/ticksPerSecond, float64(t.Cores)))
	}
	t.ReadRate = perSecondOpt(b.StorageReadBytes, t.StorageReadBytes, window)
	t.WriteRate = perSecondOpt(b.StorageWritten, t.StorageWritten, window)
	t.SelfCPUPercent = percent(b.SelfCPUTicks, t.SelfCPUTicks, window)
}
