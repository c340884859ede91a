package proc

import (
	"time"

	"golang.org/x/sys/unix"
)

// Totals is one reading of the host.
type Totals struct {
	At                               time.Time
	Cores                            int         // CPUs that are online
	BusyTicks, IdleTicks             uint64      // sums over all CPUs; idle includes iowait
	MemoryTotal, MemoryUsed          uint64      // bytes; used = MemTotal - MemAvailable
	SwapTotal, SwapUsed              uint64      // bytes
	StorageReadBytes, StorageWritten Opt[uint64] // whole disks, cumulative
	Load                             [3]float64
	Pressure                         [3]Opt[Pressure] // cpu, memory, io
	Uptime                           time.Duration
	SelfCPUTicks                     uint64 // user and system time of the caller
	SelfRSS                          uint64 // bytes
}

// Pressure is the avg10 values of one resource, percent.
type Pressure struct {
	Some, Full Opt[float64]
}

// ReadTotals fills t.
//
// Absent: storage without diskstats or without a disk in it; a pressure where the
// kernel has no PSI.
// Errors: a file that every kernel has is unreadable; *ParseError. t is of no use
// then.
// Source: /proc/{stat,meminfo,loadavg,uptime,diskstats}, proc(5); pressure/*,
// Documentation/accounting/psi.rst, since Linux 4.20; self/statm; getrusage(2).
func (fs *FS) ReadTotals(t *Totals) error {
	*t = Totals{At: time.Now()}
	buf := make([]byte, 16<<10)
	for _, part := range []struct {
		name  string
		parse func(b []byte) bool
	}{
		{"stat", func(b []byte) (ok bool) {
			t.Cores, t.BusyTicks, t.IdleTicks, ok = parseCPUs(b)
			return ok
		}},
		{"meminfo", func(b []byte) bool {
			m, ok := parseMeminfo(b)
			t.MemoryTotal, t.MemoryUsed, t.SwapTotal, t.SwapUsed = m.total, m.used, m.swapTotal, m.swapUsed
			return ok
		}},
		{"loadavg", func(b []byte) (ok bool) {
			t.Load, ok = parseLoad(b)
			return ok
		}},
		{"uptime", func(b []byte) (ok bool) {
			t.Uptime, ok = parseUptime(b)
			return ok
		}},
		{"self/statm", func(b []byte) (ok bool) {
			_, t.SelfRSS, ok = parseStatm(b)
			return ok
		}},
	} {
		text, err := fs.readFile(part.name, buf)
		if err != nil {
			return err
		}
		if !part.parse(text) {
			return &ParseError{File: part.name}
		}
	}
	if text, err := fs.readFile("diskstats", buf); err == nil {
		t.StorageReadBytes, t.StorageWritten = parseDiskstats(text)
	}
	for i, name := range [...]string{"pressure/cpu", "pressure/memory", "pressure/io"} {
		if text, err := fs.readFile(name, buf); err == nil {
			if p, ok := parsePressure(text); ok {
				t.Pressure[i] = Some(p)
			}
		}
	}
	var self unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &self); err != nil {
		return err
	}
	t.SelfCPUTicks = uint64(self.Utime.Nano()+self.Stime.Nano()) / (1e9 / userHZ)
	return nil
}
