package proc

import "errors"

// ErrGone says that the process has ended, is a zombie without a live thread, or
// that its PID now names another process.
var ErrGone = errors.New("process is gone")

// ID names one process for good.
type ID struct {
	PID        int32
	StartTicks uint64 // clock ticks since boot, field 22 of /proc/PID/stat
}

// Process is an open /proc/PID directory whose start time was checked. Not safe
// for concurrent use.
type Process struct {
	id ID
}

// OpenProcess opens the process that id names.
//
// Errors: ErrGone; fs.ErrPermission (hidepid).
func (fs *FS) OpenProcess(id ID) (*Process, error) { panic("stub") }

// ID returns the identity it was opened with.
func (p *Process) ID() ID { return p.id }

// Check tells whether the process is still the one that was opened: call it after
// each read. It returns ErrGone when it is not.
func (p *Process) Check() error { panic("stub") }

// Close releases the handle.
func (p *Process) Close() error { panic("stub") }
