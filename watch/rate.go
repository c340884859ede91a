package watch

import (
	"time"

	"procinsh/proc"
)

// ticksPerSecond is USER_HZ, the unit of every CPU time in /proc on x86-64
// (include/asm-generic/param.h; sysconf(_SC_CLK_TCK)).
const ticksPerSecond = 100

// percent is CPU ticks over a window, percent of one core; unknown when the counter
// went backwards or the window is empty.
func percent(before, after uint64, window time.Duration) proc.Opt[float64] {
	r, ok := perSecond(before, after, window).Get()
	if !ok {
		return proc.Opt[float64]{}
	}
	return proc.Some(r * 100 / ticksPerSecond)
}

// perSecond is a counter's growth over a window; unknown when it went backwards or
// the window is empty.
func perSecond(before, after uint64, window time.Duration) proc.Opt[float64] {
	if after < before || window <= 0 {
		return proc.Opt[float64]{}
	}
	return proc.Some(float64(after-before) / window.Seconds())
}

// perSecondOpt is perSecond for counters that may be unknown.
func perSecondOpt(before, after proc.Opt[uint64], window time.Duration) proc.Opt[float64] {
	b, ok1 := before.Get()
	a, ok2 := after.Get()
	if !ok1 || !ok2 {
		return proc.Opt[float64]{}
	}
	return perSecond(b, a, window)
}

// ioRates are the storage bytes read and written per second.
func ioRates(before, after proc.Opt[proc.IO], window time.Duration) (read, write proc.Opt[float64]) {
	b, ok1 := before.Get()
	a, ok2 := after.Get()
	if !ok1 || !ok2 {
		return
	}
	return perSecond(b.ReadBytes, a.ReadBytes, window), perSecond(b.WriteBytes, a.WriteBytes, window)
}
