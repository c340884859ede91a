package proc

import "time"

// Sample is one reading of a process and its threads.
type Sample struct {
	ID                       ID
	At                       time.Time
	State                    byte
	CPUTicks                 uint64
	RSS, VMS, Swap           Opt[uint64] // bytes
	MinorFaults, MajorFaults uint64      // cumulative, all threads
	VoluntarySwitches        Opt[uint64] // sum over live threads; unknown when any is
	NonvoluntarySwitches     Opt[uint64]
	IO                       Opt[IO]
	CPU, Nice, Priority      int32
	Threads                  []Thread // by TID
	ThreadsTruncated         bool
}

// Thread is one thread of a process.
type Thread struct {
	TID                                     int32
	StartTicks                              uint64
	Name                                    string
	State                                   byte
	CPU                                     int32 // last CPU
	CPUTicks                                uint64
	Priority, Nice                          int32
	Scheduler                               string // OTHER FIFO RR BATCH IDLE DEADLINE EXT UNKNOWN
	Affinity                                Opt[string]
	VoluntarySwitches, NonvoluntarySwitches Opt[uint64]
	WaitChannel                             Opt[string] // kernel function; unknown when running or not permitted
	Syscall                                 Opt[string] // name; unknown when running, in user mode, or not permitted
}

// ReadSample fills s, reusing its thread slice and strings.
func (p *Process) ReadSample(s *Sample) error { panic("stub") }
