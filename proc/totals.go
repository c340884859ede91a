package proc

import "time"

// Totals is one reading of the host.
type Totals struct {
	At                               time.Time
	Cores                            int
	BusyTicks, IdleTicks             uint64 // sums over all CPUs; idle includes iowait
	MemoryTotal, MemoryUsed          uint64 // used = MemTotal - MemAvailable
	SwapTotal, SwapUsed              uint64
	StorageReadBytes, StorageWritten Opt[uint64] // whole disks, cumulative
	Load                             [3]float64
	Pressure                         [3]Opt[Pressure] // cpu, memory, io
	Uptime                           time.Duration
	SelfCPUTicks                     uint64
	SelfRSS                          uint64
}

// Pressure is the avg10 values of one resource, percent.
type Pressure struct {
	Some, Full Opt[float64]
}

// ReadTotals fills t.
func (fs *FS) ReadTotals(t *Totals) error { panic("stub") }
