package proc

import "golang.org/x/sys/unix"

// userHZ is the clock tick of /proc. It is USER_HZ, part of the ABI and 100 on
// x86-64 whatever CONFIG_HZ is (include/asm-generic/param.h), so there is nothing
// to ask sysconf for.
const userHZ = 100

// bootStep is how far, in ms, the wall clock may wander from the boot time that
// was kept before that is taken anew. Start times of rows then stay equal from
// scan to scan while the clock is slewed, and follow when it is set.
const bootStep = 1000

// bootTime returns when the host booted, Unix epoch ms.
//
// It is the difference of two clocks and not btime of /proc/stat, which is whole
// seconds. In a time namespace CLOCK_BOOTTIME is shifted by the offset of the
// reader's namespace. So is field 22 of stat, and the sum stays right; where it is
// not, the boot is that much later.
func (fs *FS) bootTime() int64 {
	now, kept := fs.boot(), fs.booted.Load()
	if c, err := fs.startClock(); err == nil {
		now += (c.declared - c.added).Milliseconds()
	}
	if kept != 0 && now-kept <= bootStep && kept-now <= bootStep {
		return kept
	}
	fs.booted.Store(now)
	return now
}

// startedAt converts field 22 of stat to Unix epoch ms.
func (fs *FS) startedAt(ticks uint64) int64 { return fs.bootTime() + ticksMS(ticks) }

func ticksMS(ticks uint64) int64 { return int64(ticks * (1000 / userHZ)) }

// clockBoot asks the two clocks.
func clockBoot() int64 {
	var wall unix.Timespec
	unix.ClockGettime(unix.CLOCK_REALTIME, &wall)
	return (wall.Nano() - clockBootNS()) / 1e6
}

// clockBootNS returns CLOCK_BOOTTIME in ns.
func clockBootNS() int64 {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return t.Nano()
}

// monotonic returns CLOCK_MONOTONIC in ns.
func monotonic() int64 {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}
