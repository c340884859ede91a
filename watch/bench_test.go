package watch

import (
	"fmt"
	"testing"
	"time"

	"procinsh/proc"
)

// BenchmarkCompareRows is what watch adds to a scan of 5,000 processes.
func BenchmarkCompareRows(b *testing.B) {
	rows := make([]proc.Row, 5000)
	for i := range rows {
		rows[i] = fakeRow(int32(i+1), uint64(i), time.Second, uint64(i))
	}
	before := compareRows(rows, nil, maxWindow)
	for i := range rows {
		rows[i].At += int64(time.Second)
	}
	b.ReportAllocs()
	for b.Loop() {
		compareRows(rows, before, maxWindow)
	}
}

// BenchmarkListFanOut hands a state of 5,000 rows to all viewers, scan excluded.
func BenchmarkListFanOut(b *testing.B) {
	for _, viewers := range []int{1, 32} {
		b.Run(fmt.Sprint(viewers), func(b *testing.B) {
			rows := make([]proc.Row, 5000)
			l := newList(newFakeList(), ListOptions{})
			vs := make([]*ListViewer, viewers)
			for i := range vs {
				v, err := l.Subscribe(ListWant{})
				if err != nil {
					b.Fatal(err)
				}
				vs[i] = v
				defer v.Close()
				if _, err := v.Next(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			state := &ListState{Rows: compareRows(rows, nil, maxWindow)}
			encode := func() any { return len(state.Rows) }
			seq := uint64(1 << 32) // above whatever the list scans meanwhile
			b.ReportAllocs()
			for b.Loop() {
				seq++
				l.mu.Lock()
				l.previous, l.current = l.current, &ListState{Sequence: seq, Rows: state.Rows}
				close(l.changed)
				l.changed = make(chan struct{})
				l.mu.Unlock()
				for _, v := range vs {
					u, err := v.Next(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					u.State.Memo("delta", encode)
				}
			}
		})
	}
}

// BenchmarkObserve is what watch adds to a sample of 2,000 threads.
func BenchmarkObserve(b *testing.B) {
	s := proc.Sample{Threads: make([]proc.Thread, 2000)}
	for i := range s.Threads {
		s.Threads[i] = proc.Thread{TID: int32(i), VoluntarySwitches: proc.Some(uint64(i)), NonvoluntarySwitches: proc.Some(uint64(i))}
	}
	before := observe(s, nil, 0)
	b.ReportAllocs()
	for b.Loop() {
		observe(s, before, time.Second)
	}
}
