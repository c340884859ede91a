package watch

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"procinsh/proc"
)

// heldScanner is a scanner of which each reading in holds lasts until let is closed.
type heldScanner struct {
	let    chan struct{}
	holds  int // readings that are held
	passes int // readings that take a moment, before those
	panics bool

	turn  atomic.Uint64
	left  int
	moved atomic.Int32 // goroutines that came back and found the scan taken
}

func (s *heldScanner) Scan(proc.Want) ([]proc.Row, error) {
	for range s.passes {
		s.turn.Add(1)
		time.Sleep(scanPatience * 9 / 10)
	}
	return s.Resume()
}

func (s *heldScanner) Resume() ([]proc.Row, error) {
	if s.panics {
		panic("a mistake")
	}
	if s.left == s.holds {
		s.turn.Store(0)
		return make([]proc.Row, 3), nil
	}
	s.turn.Add(1)
	<-s.let
	s.moved.Add(1)

	return nil, proc.ErrLeft
}

func (s *heldScanner) ReadFrom(proc.TaskSource) {}
func (s *heldScanner) TablesError() error       { return nil }
func (s *heldScanner) Keep(bool)                {}

func (s *heldScanner) Turn() uint64 { return s.turn.Load() }

func (s *heldScanner) Leave(n uint64) bool {
	s.left++
	return n == s.turn.Load()
}

func TestScanGoesOnWithoutHeldReadings(t *testing.T) {
	for _, c := range []struct {
		name          string
		holds, passes int
		longest       time.Duration
	}{
		{"nothing held", 0, 0, 0},
		{"slow but moving", 0, 5, 5 * scanPatience},
		{"one", 1, 0, 2 * scanPatience},
		{"many", 20, 0, 2*scanPatience + 19*2*scanImpatience},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &heldScanner{let: make(chan struct{}), holds: c.holds, passes: c.passes}
				began := time.Now()
				rows, err := (&hostList{scanner: s}).Scan(proc.Want{})
				if len(rows) != 3 || err != nil {
					t.Fatalf("%d rows, %v", len(rows), err)
				}
				if took := time.Since(began); took > c.longest {
					t.Errorf("took %v, more than %v", took, c.longest)
				}
				if s.left != c.holds {
					t.Errorf("%d readings left, want %d", s.left, c.holds)
				}
				close(s.let)
				synctest.Wait()
				if int(s.moved.Load()) != c.holds {
					t.Errorf("%d of %d goroutines ended", s.moved.Load(), c.holds)
				}
			})
		})
	}
}

func TestScanPassesOnPanics(t *testing.T) {
	_, err := (&hostList{scanner: &heldScanner{panics: true}}).Scan(proc.Want{})
	var p *PanicError
	if !errors.As(err, &p) || p.Value != "a mistake" || len(p.Stack) == 0 {
		t.Errorf("%v", err)
	}
}
