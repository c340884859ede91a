package watch

import "procinsh/bpf"

// ListStats is what a list has done since the start.
type ListStats struct {
	Scans   DurationCounts // those that succeeded
	Failed  uint64         // scans that did not
	Dropped uint64         // states that viewers were too slow for
}

// Stats returns the figures so far. It starts nothing.
func (l *List) Stats() ListStats {
	l.mu.Lock()
	failed := l.failures
	l.mu.Unlock()
	return ListStats{l.took.Read(), failed, l.dropped.Load()}
}

// Dropped is how many states the viewers of processes were too slow for.
func (w *Processes) Dropped() uint64 { return w.dropped.Load() }

// SystemStats is what the watch of the host has done since the start.
type SystemStats struct {
	Structures DurationCounts // readings of the structure that succeeded
	Dropped    uint64         // windows that viewers were too slow for

	CPU, IPC, Files SensorStats
	Unresolved      uint64 // as in bpf.Status, of all activations together
}

// SensorStates are all that a sensor can be in.
var SensorStates = []string{string(bpf.StateIdle), string(bpf.StateStarting), string(bpf.StateObserving), string(bpf.StateUnavailable), string(bpf.StateError)}

// SensorStats is what a sensor has counted, of all activations together.
type SensorStats struct {
	Events uint64 // switches or operations
	Lost   uint64 // those that found no place
}

// counted are the figures that grow with windows.
type counted struct {
	dropped         uint64
	cpu, ipc, files SensorStats
	unresolved      uint64
}

// Stats returns the figures so far. It starts nothing.
func (s *System) Stats() SystemStats {
	took := s.took.Read()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.counted
	return SystemStats{Structures: took, Dropped: c.dropped, CPU: c.cpu, IPC: c.ipc, Files: c.files, Unresolved: c.unresolved}
}

// List is the list that the scans are shared with.
func (s *System) List() *List { return s.list }

// count adds a window, and what the sensors lost since the status before.
func (s *System) count(w *bpf.Window, before, now *bpf.Status) {
	var switches uint64
	for i := range w.CPU {
		switches += w.CPU[i].Switches
	}
	operations := func(list []bpf.Transfer) (n uint64) {
		for i := range list {
			n += list[i].Count
		}
		return n
	}
	ipc, files := operations(w.IPC), operations(w.Files)
	ipcLost := func(x *bpf.Status) uint64 { return x.Lost - x.CPULost }

	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.counted
	c.cpu = SensorStats{c.cpu.Events + switches, c.cpu.Lost + gained(before.CPULost, now.CPULost)}
	c.ipc = SensorStats{c.ipc.Events + ipc, c.ipc.Lost + gained(ipcLost(before), ipcLost(now))}
	c.files = SensorStats{c.files.Events + files, c.files.Lost + gained(before.FilesLost, now.FilesLost)}
	c.unresolved += gained(before.Unresolved, now.Unresolved)
}

// gained is what a counter grew by; one that went backwards did not grow.
func gained(before, after uint64) uint64 {
	if after < before {
		return 0
	}
	return after - before
}
