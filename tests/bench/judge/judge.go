// Package judge is what the measuring programs share: how one begins and ends, and
// the goals that it missed.
package judge

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
)

// Quick is the short form, QUICK=1: it shows that everything works and misses no
// goal.
var Quick = os.Getenv("QUICK") != ""

// Bin is the folder of this program, where the others are. Main sets it.
var Bin string

var missed []string

// Main runs a program until it is done or told to end, lists the goals that were
// missed and exits: with 1 when there are any, or for an error.
func Main(name string, run func(ctx context.Context) error) {
	runtime.LockOSThread() // children are told when this very thread ends
	exe, err := os.Executable()
	if err == nil {
		Bin = filepath.Dir(exe)
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		err = run(ctx)
		stop()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	if len(missed) > 0 {
		fmt.Println("\nmissed:")
		for _, m := range missed {
			fmt.Println(" ", m)
		}
		os.Exit(1)
	}
	os.Exit(0)
}

// Missed notes a goal that was not reached.
func Missed(format string, args ...any) { missed = append(missed, fmt.Sprintf(format, args...)) }

// Goal returns how a goal is shown beside the figure of what was measured, and notes
// it when it was not reached; the short form is too short for that.
func Goal(what, goal string, reached bool) string {
	if reached {
		return goal + ": OK"
	}
	if !Quick {
		Missed("%s: %s", what, goal)
	}
	return goal + ": over"
}

// Median returns the middle of v, 0 of nothing.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
