package bpf

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// State is what a sensor does at present.
type State string

// The states of a sensor.
const (
	StateIdle        State = "idle"        // not opened
	StateStarting    State = "starting"    // loaded, not yet seen to report
	StateObserving   State = "observing"   // attached and reporting
	StateUnavailable State = "unavailable" // this kernel or these privileges do not allow it
	StateError       State = "error"       // it should work here and does not
)

// SensorStatus is the state of one sensor and why.
type SensorStatus struct {
	State  State
	Reason string // "" when there is nothing to say
}

// Status is the state of all three sensors.
//
// Units: counters of keys or operations since Open.
type Status struct {
	CPU, IPC, Files SensorStatus
	Coverage        []string // what CPU and IPC do not count here, or count in another way
	FilesCoverage   []string // the same for files
	Lost            uint64   // CPU and IPC observations that found no place
	CPULost         uint64   // those of them that are CPU's
	Unresolved      uint64   // operations of kernel threads and of files that were gone; switches that no program saw
	FilesLost       uint64   // file observations that found no place
}

// Process is a process of the reader's PID namespace.
type Process struct {
	TGID  uint32 // in the reader's PID namespace
	Start uint64 // start_boottime of the group leader, ns, without any time namespace offset
}

// CPU is the processor time that a process took in a window.
type CPU struct {
	Process
	Runtime        uint64 // ns, as in /proc/PID/schedstat: without steal and interrupts
	Switches       uint64 // times that a thread of it left a CPU
	RunningThreads int    // on a CPU when the window ended
	CPUs           []int  // the CPUs they were on, ascending
}

// Kind says what a resource is.
type Kind uint8

// The kinds of resources.
const (
	Pipe Kind = iota + 1
	Socket
	File
)

// Resource is an open object: device, inode and generation.
type Resource struct {
	Kind         Kind
	Major, Minor uint32 // st_dev of the file system
	Inode        uint64
	Generation   uint32 // i_generation; 0 for pipes, sockets and file systems without one
}

// Transfer is what a process moved to or from a resource in a window.
type Transfer struct {
	Process
	Resource
	Write   bool
	Bytes   uint64 // of successful operations
	Count   uint64 // successful operations
	Path    string // of files: from the root of their mount namespace, at the first operation in the window
	HasPath bool
}

// Window is what happened between two drains.
//
// Shape: CPU is ordered by TGID and start, IPC and Files by TGID, start,
// resource and direction.
type Window struct {
	Began, Ended time.Time
	CPU          []CPU
	IPC, Files   []Transfer
}

// Options changes what Open does; the zero value is right for everything but tests.
type Options struct {
	TableSlots      int  // slots per CPU, bank and table; 0 means the usual number
	SpillEntries    int  // entries of each overflow table; 0 means the usual number
	RingBytes       int  // bytes of the ring of paths; 0 means the usual number
	WithoutFentry   bool // act as a kernel that refuses fentry and fexit
	WithoutKfuncs   bool // act as a kernel without bpf_rdonly_cast
	WithoutLengths  bool // act as a kernel without the socket length tracepoints
	WithoutPathWalk bool // act as a kernel that refuses bpf_probe_read_kernel
	CountOwnProc    bool // count what this process reads of procfs as well, which is left out else
	OnlyCPU         bool // leave the other two idle: to measure what each costs
}

// ErrClosed says that the sensors were closed.
var ErrClosed = errors.New("sensors are closed")

// maxWindowRows bounds each list of a window.
const maxWindowRows = 8192

// Sensors are the loaded programs. One caller drains; Status may be called at
// the same time as Drain.
type Sensors struct {
	closed bool
	last   time.Time // end of the window before
	cpu    *cpuSensor
	io     *ioSensor

	cpuFails, ioFails failures
	ended             counts // of sensors that were detached

	mu     sync.Mutex
	status Status
}

// Open loads and attaches what it can.
//
// Errors: none; Status says for each sensor whether it works and why not.
// Effect: programs run at context switches, system calls or file operations of
// every process until Close.
func Open(o Options) *Sensors {
	s := &Sensors{}
	kernel, err := loadKernel()
	var namespace uint32
	if err == nil {
		namespace, err = pidNamespace()
	}
	if err != nil {
		off := explain(err)
		s.status = Status{CPU: off, IPC: off, Files: off}
		return s
	}
	starting := SensorStatus{State: StateStarting}
	if o.OnlyCPU {
		idle := SensorStatus{State: StateIdle}
		s.status.IPC, s.status.Files = idle, idle
	} else {
		s.io = openIO(kernel, namespace, o)
		if s.io.unit != nil {
			s.io.unit.release()
		}
		s.status.IPC, s.status.Files = s.io.status()
		s.status.Coverage = append(s.status.Coverage, s.io.ipcCoverage()...)
		s.status.FilesCoverage = s.io.filesCoverage()
	}
	if s.cpu, err = openCPU(kernel, namespace, o); err != nil {
		s.status.CPU = explain(err)
	} else {
		s.status.CPU = starting
		s.status.Coverage = append(s.status.Coverage, s.cpu.coverage()...)
	}
	s.last = time.Now()
	if s.cpu != nil {
		s.last = s.cpu.began // a later beginning would make the first window too narrow
	}
	return s
}

// settleTime is how long a program that began before a flip may still write the
// old bank. The programs run with preemption off and take a few microseconds.
const settleTime = time.Millisecond

// Drain fills w with what was counted since the last Drain (since Open at the
// first). The memory of w is used again.
//
// Shape:  at most maxWindowRows entries of each kind; the rest count as lost.
// Errors: ErrClosed; a failing system call, after which w holds what was read.
// Effect: takes 1 to 2 ms, in which it sleeps.
func (s *Sensors) Drain(w *Window) error {
	if s.closed {
		return ErrClosed
	}
	w.CPU, w.IPC, w.Files = w.CPU[:0], w.IPC[:0], w.Files[:0]
	w.Began, w.Ended = s.last, time.Now() // a window ends when its bank does
	s.last = w.Ended
	if s.cpu != nil {
		s.cpu.flip()
	}
	if s.io != nil {
		s.io.flip()
	}
	time.Sleep(settleTime)
	var err error
	if s.cpu != nil {
		err = s.cpu.collect(w)
		if s.cpuFails.tooMany(err) {
			err = errors.Join(err, s.detachCPU(err))
		}
	}
	if s.io != nil {
		errIO := s.io.collect(w)
		if s.ioFails.tooMany(errIO) {
			errIO = errors.Join(errIO, s.detachIO(errIO))
		}
		err = errors.Join(err, errIO)
	}
	s.account(w)
	return err
}

// account brings the status up to date after a window.
func (s *Sensors) account(w *Window) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.ended
	if s.cpu != nil {
		c.addCPU(s.cpu)
	}
	if s.io != nil {
		c.addIO(s.io)
	}
	s.status.Lost, s.status.CPULost, s.status.FilesLost, s.status.Unresolved = c.lost, c.cpuLost, c.filesLost, c.unresolved
	if s.cpu != nil {
		if s.status.CPU.State == StateStarting {
			// This very thread was switched in and is running now.
			s.status.CPU = SensorStatus{State: StateObserving}
			if len(w.CPU) == 0 {
				s.status.CPU = SensorStatus{StateError, errSilent.Error()}
			}
		}
	}
	if s.io != nil {
		if s.io.losesPaths() {
			s.status.FilesCoverage = s.io.filesCoverage()
		}
	}
}

// errSilent says that a hook was attached and never ran.
var errSilent = errors.New("hook attached but does not report")

// Status returns the state of the sensors and their counters as of the last
// Drain.
func (s *Sensors) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.Coverage, st.FilesCoverage = slices.Clone(st.Coverage), slices.Clone(st.FilesCoverage)
	return st
}

// Close detaches everything and frees what the kernel holds for it. Nobody may
// be in another method.
func (s *Sensors) Close() error {
	s.closed = true
	var err error
	if s.cpu != nil {
		err = s.cpu.close()
	}
	if s.io != nil {
		err = errors.Join(err, s.io.close())
	}
	return err
}
