package watch

import (
	"slices"
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	d := NewDurations(time.Millisecond, time.Second)
	for _, took := range []time.Duration{-1, 0, time.Millisecond, time.Millisecond + 1, time.Second, time.Second + 1, time.Hour} {
		d.Add(took)
	}
	c := d.Read()
	d.Add(0)
	if want := []uint64{3, 2, 2}; !slices.Equal(c.Counts, want) {
		t.Errorf("counts %v, want %v", c.Counts, want)
	}
	if want := 2*time.Millisecond + 2*time.Second + time.Hour + 2; c.Sum != want {
		t.Errorf("sum %v, want %v", c.Sum, want)
	}
}
