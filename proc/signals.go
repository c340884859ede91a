package proc

// Signals is the signal sets of a process's threads, by TID.
type Signals struct {
	Threads  []SignalState
	Warnings []string
}

// SignalState is the sets of one thread; bit n-1 is signal n.
type SignalState struct {
	TID                                              int32
	Name                                             string
	Pending, SharedPending, Blocked, Ignored, Caught uint64
	QueuedUsed, QueuedLimit                          uint64
}

// ReadSignals returns the sets of at most 4,096 threads, within 2 s.
func (p *Process) ReadSignals() (*Signals, error) { panic("stub") }

// SignalNames lists the signals of a set as "SIGUSR1 [10]", 32 to 64 as "RT n [n]".
func SignalNames(set uint64) []string { panic("stub") }
