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
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"procinsh/bpf"
	"procinsh/tests/bench/judge"
)

func main() {
	exact := flag.Bool("exact", false, "judge figures that repeat exactly")
	flag.Parse()
	if *exact {
		judge.Main("sensors", instructions)
	}
	judge.Main("sensors", compare)
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
	out, err := exec.CommandContext(ctx, filepath.Join(judge.Bin, "sensors-load"), kind, strconv.Itoa(count)).Output()
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
