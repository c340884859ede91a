// Package clock measures the CPU time of a job of a peer.
package clock

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/tests/bench/judge"
)

// Check ends the program on an error.
func Check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, os.Args[0]+":", err)
		os.Exit(1)
	}
}

// Now is the CPU time of this process so far.
func Now() time.Duration {
	var t unix.Timespec
	Check(unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t))
	return time.Duration(t.Nano())
}

// Report runs f once to warm up, then loops times, and prints the median of its
// CPU time and what it returned last: "@ cpu=MS n=N joined=0".
func Report(loops int, f func() int) { ReportEvery(loops, 0, func() (int, int) { return f(), 0 }) }

// ReportEvery is Report for a job that is done at intervals and has two counts.
func ReportEvery(loops int, every time.Duration, f func() (n, joined int)) {
	var cpu []float64
	var n, joined int
	due := time.Now()
	for i := range loops + 1 {
		time.Sleep(time.Until(due))
		due = time.Now().Add(every)
		from := Now()
		n, joined = f()
		if i > 0 {
			cpu = append(cpu, float64(Now()-from)/1e6)
		}
	}
	fmt.Printf("@ cpu=%.4f n=%d joined=%d\n", judge.Median(cpu), n, joined)
}

// ReportParts is Report for a job that measures a part of itself and returns its CPU time
// with its count.
func ReportParts(loops int, f func() (cpu time.Duration, n int)) {
	var cpu []float64
	var n int
	for i := range loops + 1 {
		var took time.Duration
		if took, n = f(); i > 0 {
			cpu = append(cpu, float64(took)/1e6)
		}
	}
	fmt.Printf("@ cpu=%.4f n=%d joined=0\n", judge.Median(cpu), n)
}
