package watch

import (
	"context"
	"errors"
	"time"

	"procinsh/proc"
)

var (
	// ErrFull says that all viewer slots are taken.
	ErrFull = errors.New("all viewer slots are taken")
	// ErrStopping says that the server is going down.
	ErrStopping = errors.New("shutting down")
)

// ListWant is what a viewer of the list asks for beside the plain rows.
type ListWant struct {
	Maps bool
	IO   bool
}

// ListRow is a row with what two samples say.
type ListRow struct {
	proc.Row
	CPUPercent          proc.Opt[float64] // percent of one core
	ReadRate, WriteRate proc.Opt[float64] // storage bytes per second
}

// Totals is the host as a whole, with what two samples say.
type Totals struct {
	proc.Totals
	CoresBusy           proc.Opt[float64]
	ReadRate, WriteRate proc.Opt[float64]
	SelfCPUPercent      proc.Opt[float64]
	Processes, Threads  int
	States              map[byte]int
}

// ListState is the list at one time. Immutable, shared by all viewers.
type ListState struct {
	Sequence   uint64
	CapturedAt time.Time
	Rows       []ListRow // by PID
	Totals     Totals
}

// ListUpdate is what a viewer gets: State, and the state it had before. Base is
// nil for the first update and for a viewer that fell behind: send it whole.
type ListUpdate struct {
	State *ListState
	Base  *ListState
}

// ListOptions configure a List.
type ListOptions struct {
	Interval   time.Duration // between scans with a viewer, at least 1 s
	MaxViewers int
}

// List watches all processes. Safe for concurrent use.
type List struct{}

// NewList returns a list that does nothing until it is asked.
func NewList(fs *proc.FS, o ListOptions) *List { panic("stub") }

// Now returns the newest state: the shared one when it is younger than the
// interval and has what is wanted, else a new scan, compared with the one before.
func (l *List) Now(ctx context.Context, want ListWant) (*ListState, error) { panic("stub") }

// Subscribe takes a viewer slot.
//
// Errors: ErrFull, ErrStopping.
func (l *List) Subscribe(want ListWant) (*ListViewer, error) { panic("stub") }

// Close ends all viewers with ErrStopping and waits for the collection to end.
func (l *List) Close() { panic("stub") }

// ListViewer is one viewer. Not safe for concurrent use.
type ListViewer struct{}

// Next waits for a state newer than the last one returned.
func (v *ListViewer) Next(ctx context.Context) (ListUpdate, error) { panic("stub") }

// Close gives the slot back.
func (v *ListViewer) Close() { panic("stub") }
