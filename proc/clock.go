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
// seconds. In a time namespace both CLOCK_BOOTTIME and field 22 of stat are
// shifted by the offset of the reader's namespace, so the sum stays right.
func (fs *FS) bootTime() int64 {
	now, kept := fs.boot(), fs.booted.Load()
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
	var wall, boot unix.Timespec
	unix.ClockGettime(unix.CLOCK_REALTIME, &wall)
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot)
	return (wall.Nano() - boot.Nano()) / 1e6
}

// monotonic returns CLOCK_MONOTONIC in ns.
func monotonic() int64 {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}
