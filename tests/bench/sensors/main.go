// Command sensors measures what the sensors of procinsh cost the programs that
// they watch: the same load with them off and on, in turns in one run. Compared is
// the CPU time of the load alone; a ratio is the median of the ratios round by
// round, so that the figures hold on a machine that does other work too.
//
//	sensors            the table, with bpftrace where it is installed
//	sensors -exact     in a machine whose clock counts instructions: the path
//	                   length that the sensors add, the same figure on every run
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"procinsh/bpf"
)

var (
	quick  = os.Getenv("QUICK") != ""
	bin    string // where the built programs are
	missed []string
)

func main() {
	runtime.LockOSThread() // children are told when this very thread ends
	exact := flag.Bool("exact", false, "judge figures that repeat exactly")
	flag.Parse()
	exe, err := os.Executable()
	if err == nil {
		bin = filepath.Dir(exe)
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		if *exact {
			err = instructions(ctx)
		} else {
			err = compare(ctx)
		}
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sensors:", err)
		os.Exit(1)
	}
	if len(missed) > 0 {
		fmt.Println("\nmissed:")
		for _, m := range missed {
			fmt.Println(" ", m)
		}
		os.Exit(1)
	}
}

// which sensors are on.
type which string

const (
	off which = "off"
	cpu which = "cpu"
	all which = "all"
)

// with runs f while sensors are on, and drained as the server does.
func with(w which, f func() error) error {
	if w == off {
		return f()
	}
	s := bpf.Open(bpf.Options{OnlyCPU: w == cpu})
	stop, ended := make(chan struct{}), make(chan error)
	var b bpf.Window
	drain := func() error { return s.Drain(&b) }
	err := errors.Join(drain(), drain())
	if st := s.Status(); err == nil {
		for name, sensor := range map[string]bpf.SensorStatus{"cpu": st.CPU, "ipc": st.IPC, "files": st.Files} {
			if sensor.State != bpf.StateObserving && (w == all || name == "cpu") {
				err = fmt.Errorf("sensor %s is %s: %s", name, sensor.State, sensor.Reason)
			}
		}
	}
	if err != nil {
		return errors.Join(err, s.Close())
	}
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				ended <- nil
				return
			case <-tick.C:
				if err := drain(); err != nil {
					<-stop
					ended <- err
					return
				}
			}
		}
	}()
	err = f()
	close(stop)
	return errors.Join(err, <-ended, s.Close())
}

// load runs one kind of operation and returns its CPU time, ns for each.
func load(ctx context.Context, kind string, count int) (float64, error) {
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "sensors-load"), kind, strconv.Itoa(count)).Output()
	if err != nil {
		return 0, fmt.Errorf("load %s: %w", kind, err)
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}

// command runs a program and returns the CPU time of it and its children, ns.
func command(ctx context.Context, argv ...string) (float64, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
	}
	return float64(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()), nil
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	switch n := len(v); {
	case n == 0:
		return 0
	case n%2 == 0:
		return (v[n/2-1] + v[n/2]) / 2
	default:
		return v[n/2]
	}
}
