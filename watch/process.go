package watch

import (
	"context"
	"time"

	"procinsh/proc"
)

// ProcessState is one whole state of a watched process. Immutable; History is the
// viewer's own, the rest is shared by the viewers of the process.
type ProcessState struct {
	Row            ListRow      // as at connect
	Observation    *Observation // nil when nothing could be read
	History        []HistoryPoint
	Maps           []proc.Mapping
	MapsEpoch      uint64 // changes when Maps changed
	MapsTruncated  bool
	MapsCapturedAt time.Time // zero: never
	MapsErr        error
	Rollup         *proc.Rollup
	Exited         bool
	Err            error // the last reading failed; Observation is the one before
}

// Observation is a sample with what two samples say.
type Observation struct {
	proc.Sample
	CPUPercent proc.Opt[float64]
	ThreadCPU  []proc.Opt[float64] // same order as Threads
	Rates      Rates
}

// Rates are per second.
type Rates struct {
	MinorFaults, MajorFaults                proc.Opt[float64]
	VoluntarySwitches, NonvoluntarySwitches proc.Opt[float64]
	ReadBytes, WriteBytes                   proc.Opt[float64]
}

// HistoryPoint is one sample of a viewer's last 60 s.
type HistoryPoint struct {
	At         time.Time
	CPUPercent proc.Opt[float64]
	RSS, VMS   proc.Opt[uint64]
}

// ProcessOptions configure Processes.
type ProcessOptions struct {
	Interval   time.Duration
	MaxViewers int
}

// Processes watches single processes, one sampler for all viewers of a process.
// Safe for concurrent use.
type Processes struct{}

// NewProcesses returns a watch that does nothing until it is asked.
func NewProcesses(fs *proc.FS, o ProcessOptions) *Processes { panic("stub") }

// Subscribe takes a viewer slot and makes the first reading, so that a process
// that is gone is an error here.
//
// Errors: ErrFull, ErrStopping, proc.ErrGone, fs.ErrPermission.
func (w *Processes) Subscribe(ctx context.Context, id proc.ID) (*ProcessViewer, error) { panic("stub") }

// Close ends all viewers with ErrStopping and waits for the samplers to end.
func (w *Processes) Close() { panic("stub") }

// ProcessViewer is one viewer. Not safe for concurrent use.
type ProcessViewer struct{}

// Next returns the first state at once, then waits for each newer one. After a
// state with Exited it returns io.EOF.
func (v *ProcessViewer) Next(ctx context.Context) (*ProcessState, error) { panic("stub") }

// Close gives the slot back.
func (v *ProcessViewer) Close() { panic("stub") }
