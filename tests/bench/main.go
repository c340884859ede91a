// Command bench compares procinsh with a minimal C loop and with other tools, side
// by side in one run: bench scan. Programs take turns, another one first each
// round; a ratio is the median of the ratios round by round, of CPU time. A goal
// that is missed gets more rounds before it counts, and ends the run with status 1.
//
// QUICK=1 runs one round on small sizes and judges nothing but that all work.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"procinsh/tests/bench/judge"
)

// program is one thing that is measured. It prints "@ cpu=MS n=N joined=N", or is
// measured as a whole from exec to exit.
type program struct {
	name  string
	argv  []string
	whole bool
	most  float64 // the goal for procinsh's CPU time over this one's; 0: none
	same  bool    // its count must be procinsh's
	host  bool    // … of the whole host, where others come and go; the joined ones too
}

type result struct {
	cpu       float64
	n, joined int
}

const (
	rounds     = 5
	moreRounds = 9
)

var absent = map[string]bool{}

func main() {
	if len(os.Args) < 2 || os.Args[1] != "scan" {
		fmt.Fprintln(os.Stderr, "usage: bench scan [PART...]")
		os.Exit(2)
	}
	judge.Main("bench", func(ctx context.Context) error { return scan(ctx, os.Args[2:]) })
}

// size picks the number for the long or the short form.
func size(long, short int) int {
	if judge.Quick {
		return short
	}
	return long
}

func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// fixture is a population that is there to be looked at.
type fixture struct {
	cmd      *exec.Cmd
	out      io.ReadCloser
	pid      string
	address  string
	children []string
}

func start(ctx context.Context, args ...string) (*fixture, error) {
	f := &fixture{cmd: exec.CommandContext(ctx, filepath.Join(judge.Bin, "fixture"), args...)}
	f.cmd.Stderr = os.Stderr
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	f.cmd.Cancel = func() error { return f.cmd.Process.Signal(syscall.SIGTERM) }
	var err error
	if f.out, err = f.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := f.cmd.Start(); err != nil {
		return nil, err
	}
	in := bufio.NewScanner(f.out)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		w := strings.Fields(in.Text())
		switch {
		case len(w) > 0 && w[0] == "children":
			f.children = w[1:]
		case len(w) > 0 && w[0] == "ready":
			for _, kv := range w[1:] {
				k, v, _ := strings.Cut(kv, "=")
				switch k {
				case "pid":
					f.pid = v
				case "addr":
					f.address = v
				}
			}
			return f, nil
		}
	}
	f.stop()
	return nil, fmt.Errorf("fixture %s ended before it was ready", strings.Join(args, " "))
}

func (f *fixture) stop() {
	f.cmd.Process.Signal(syscall.SIGTERM)
	f.out.Close()
	f.cmd.Wait()
}

// errComplaint says that a program did its job, but said that the host was in its
// way: other programs on it can do that for a while.
var errComplaint = errors.New("left something out")

// once runs one program to its end, again when something was in its way.
func once(ctx context.Context, p program) (r result, err error) {
	for range 5 {
		if r, err = try(ctx, p); !errors.Is(err, errComplaint) {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second):
		}
	}
	return r, err
}

func try(ctx context.Context, p program) (result, error) {
	cmd := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out, complaints strings.Builder
	if !p.whole {
		cmd.Stdout = &out
	}
	cmd.Stderr = &complaints
	err := cmd.Run()
	if ctx.Err() != nil {
		return result{}, ctx.Err()
	}
	// lsof ends with 1 when it could not look at everything.
	if exit := new(exec.ExitError); errors.As(err, &exit) && p.whole && exit.Exited() {
		err = nil
	}
	if err != nil {
		return result{}, fmt.Errorf("%s: %w: %s", p.name, err, complaints.String())
	}
	if p.whole {
		return result{cpu: float64(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()) / 1e6}, nil
	}
	var r result
	if _, err := fmt.Sscanf(out.String(), "@ cpu=%f n=%d joined=%d", &r.cpu, &r.n, &r.joined); err != nil {
		return result{}, fmt.Errorf("%s printed no figure: %q", p.name, out.String())
	}
	if complaints.Len() > 0 {
		return result{}, fmt.Errorf("%s %w: %s", p.name, errComplaint, complaints.String())
	}
	return r, nil
}

// compare measures ours and the others in turn and prints the table.
func compare(ctx context.Context, title string, ours program, others ...program) error {
	all := []program{ours}
	for _, p := range others {
		if _, err := exec.LookPath(p.argv[0]); err != nil {
			absent[p.argv[0]] = true
			continue
		}
		all = append(all, p)
	}
	cpu := make([][]float64, len(all))
	last := make([]result, len(all))
	from := time.Now()
	want := size(rounds, 1)
	for round := 0; round < want; round++ {
		for k := range all {
			i := (k + round) % len(all)
			r, err := once(ctx, all[i])
			if err != nil {
				return err
			}
			cpu[i], last[i] = append(cpu[i], r.cpu), r
		}
		if round == want-1 && want == rounds && !judge.Quick && missing(all, cpu) {
			want = moreRounds
		}
	}
	fmt.Printf("\n%s: CPU ms, median of %d rounds, %.0f s\n", title, want, time.Since(from).Seconds())
	fmt.Printf("  %-34s %10.3f\n", ours.name, judge.Median(cpu[0]))
	for i, p := range all[1:] {
		i++
		ratio := judge.Median(ratios(cpu[0], cpu[i]))
		fmt.Printf("  %-34s %10.3f   %s", p.name, judge.Median(cpu[i]), "ratio "+strconv.FormatFloat(ratio, 'f', 3, 64))
		rate(title+" / "+p.name, ratio, p.most)
		if p.same && !near(last[0].n, last[i].n, p.host) || p.host && !near(last[0].joined, last[i].joined, true) {
			return fmt.Errorf("%s: %s counts %d and %d, %s counts %d and %d: they do not do the same work", title, ours.name, last[0].n, last[0].joined, p.name, last[i].n, last[i].joined)
		}
	}
	return nil
}

// rate ends a line of a table.
func rate(what string, ratio, most float64) {
	switch {
	case most == 0:
		fmt.Println()
	case judge.Quick:
		fmt.Printf("   goal ≤ %.2f   not judged in the short form\n", most)
	case ratio <= most:
		fmt.Printf("   goal ≤ %.2f   OK\n", most)
	default:
		fmt.Printf("   goal ≤ %.2f   over\n", most)
		judge.Missed("%s: %.3f, goal %.2f", what, ratio, most)
	}
}

func ratios(a, b []float64) []float64 {
	r := make([]float64, len(a))
	for i := range a {
		r[i] = a[i] / b[i]
	}
	return r
}

func missing(all []program, cpu [][]float64) bool {
	for i, p := range all[1:] {
		if p.most > 0 && judge.Median(ratios(cpu[0], cpu[i+1])) > p.most {
			return true
		}
	}
	return false
}

// near compares two counts. Those of a whole host differ by what others start and
// end between two programs, which is much beside a small fixture.
func near(a, b int, host bool) bool {
	switch slack := max(a, b); {
	case !host:
		return a == b
	case judge.Quick:
		return max(a-b, b-a) <= slack/3+10
	default:
		return max(a-b, b-a) <= slack/20+10
	}
}
