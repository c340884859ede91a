// Command stop measures how long a process stands still for a snapshot, seen from
// inside: its own threads watch their clock. Compared are the floor (stop and let
// go, nothing else), procinsh and gdb, in turns in one run.
//
// A round is measured when the target has seen no gap for a moment, so that other
// work of the machine is hardly in the figures. A ratio is the median of the ratios
// round by round. Arguments choose sizes: stop idle-1 spin-64.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/tests/bench/judge"
)

const (
	mostOverFloor = 2.5
	quietFor      = 10 * time.Millisecond
	quietGap      = 300 * time.Microsecond
	quietPatience = 4 * time.Second
	gdbPatience   = 120 * time.Second
)

type size struct {
	mode    string
	threads int
	gdb     float64 // how many times shorter than gdb's stop; 0: shown only
}

var sizes = []size{
	{"idle", 1, 100}, {"idle", 8, 100}, {"idle", 64, 100}, {"idle", 512, 60},
	{"spin", 1, 100}, {"spin", 8, 100}, {"spin", 64, 100}, {"spin", 512, 0},
}

func main() { judge.Main("stop", run) }

func run(ctx context.Context) error {
	// Nothing of this may go on, at this priority, without the script that started it.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0); err != nil {
		return fmt.Errorf("prctl: %w", err)
	}
	if os.Getuid() != 0 {
		return errors.New("needs root: real-time priority is part of what is measured")
	}
	if err := aside(); err != nil {
		return err
	}
	_, err := exec.LookPath("gdb")
	gdb := err == nil
	fmt.Print("Stop of a target, seen by its own clock, in µs (median). \"idle\": one thread watches, the others sleep; \"spin\": all\n" +
		"watch, and the stop is the time in which none ran. \"none\": the longest gap in 20 ms without any tool.\n\n")
	fmt.Println("| threads | none | floor | procinsh | its own figure | procinsh / floor | gdb | gdb / procinsh | goals |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	for _, s := range sizes {
		name := fmt.Sprintf("%s-%d", s.mode, s.threads)
		if judge.Quick && s.threads > 64 || len(os.Args) > 1 && !slices.Contains(os.Args[1:], name) {
			continue
		}
		if err := s.compare(ctx, gdb); err != nil {
			return fmt.Errorf("%d threads, %s: %w", s.threads, s.mode, err)
		}
	}
	if !gdb {
		fmt.Println("\ngdb is not installed: its columns are empty")
	}
	return nil
}

// aside puts all of it, the target and every tool alike, before the other work of
// the machine: sched(7), "The autogroup feature".
func aside() error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, -20); err != nil {
		return fmt.Errorf("set priority: %w", err)
	}
	if _, err := unix.Setsid(); err != nil {
		return fmt.Errorf("start a session: %w", err)
	}
	err := os.WriteFile("/proc/self/autogroup", []byte("-20"), 0)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // kernel without
		return fmt.Errorf("set priority of the session: %w", err)
	}
	return nil
}

// figures of one size, ns.
type figures struct {
	none, floor, ours, own, gdb []float64
	overFloor                   []float64
	noisy                       int
	gdbLate                     bool
}

func (s size) compare(ctx context.Context, gdb bool) error {
	rounds, gdbEach, patience := 41, 10, quietPatience
	if s.threads > 64 {
		rounds, gdbEach = 25, 12
	}
	if s.threads > 64 && s.mode == "spin" { // they leave nobody a turn: a round takes long, and nothing is quiet
		rounds, patience = 15, quietPatience/8
	}
	if judge.Quick {
		rounds, gdbEach = 5, 4
	}
	var f figures
	t, err := s.start(ctx)
	if err != nil {
		return err
	}
	defer func() { t.end() }()
	for r := range rounds {
		if gdb && r%gdbEach == 0 && !f.gdbLate {
			f.noisy += t.quiet(ctx, patience)
			stop, err := t.gdb(ctx)
			if errors.Is(err, errLate) {
				// What gdb leaves behind when it is killed is no state to measure.
				f.gdbLate = true
				t.end()
				if t, err = s.start(ctx); err != nil {
					return err
				}
			} else if err != nil {
				return err
			} else {
				f.gdb = append(f.gdb, stop)
			}
		}
		f.noisy += t.quiet(ctx, patience)
		none, err := t.watch(func() error { time.Sleep(20 * time.Millisecond); return nil })
		if err != nil {
			return err
		}
		f.none = append(f.none, none)
		tools := []*tool{t.floor, t.ours}
		if r%2 == 1 {
			slices.Reverse(tools)
		}
		var stop [2]float64
		for _, tool := range tools {
			f.noisy += t.quiet(ctx, patience)
			gap, err := t.watch(tool.shot)
			if err != nil {
				return err
			}
			if tool.threads != s.threads {
				return fmt.Errorf("%s stopped %d threads", tool.name, tool.threads)
			}
			if tool == t.floor {
				f.floor, stop[0] = append(f.floor, gap), gap
			} else {
				f.ours, stop[1] = append(f.ours, gap), gap
				f.own = append(f.own, tool.own*1000)
			}
		}
		f.overFloor = append(f.overFloor, stop[1]/stop[0])
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	s.row(&f)
	return nil
}

func (s size) row(f *figures) {
	what := fmt.Sprintf("%d threads, %s", s.threads, s.mode)
	var goals []string
	over := judge.Median(f.overFloor)
	goals = append(goals, judge.Goal(what, fmt.Sprintf("≤ %.1f × floor", mostOverFloor), over <= mostOverFloor))
	gdb, times := "–", "–"
	switch {
	case f.gdbLate:
		gdb = fmt.Sprintf("not finished in %.0f s", gdbPatience.Seconds())
	case len(f.gdb) > 0:
		v := judge.Median(f.gdb)
		gdb, times = us(v), fmt.Sprintf("%.0f×", v/judge.Median(f.ours))
		if s.gdb > 0 {
			goals = append(goals, judge.Goal(what, fmt.Sprintf("≥ %.0f × shorter than gdb", s.gdb), v/judge.Median(f.ours) >= s.gdb))
		}
	}
	note := ""
	if f.noisy > 0 {
		note = fmt.Sprintf(" (%d of %d readings without a quiet moment)", f.noisy, len(f.floor)*3+len(f.gdb))
	}
	fmt.Printf("| %d %s | %s | %s | %s | %s | %.2f | %s | %s | %s%s |\n", s.threads, s.mode, us(judge.Median(f.none)), us(judge.Median(f.floor)),
		us(judge.Median(f.ours)), us(judge.Median(f.own)), over, gdb, times, strings.Join(goals, ", "), note)
}

func us(ns float64) string {
	v := strconv.Itoa(int(ns/1000 + 0.5))
	for i := len(v) - 3; i > 0; i -= 3 {
		v = v[:i] + "," + v[i:]
	}
	return v
}

// target is a running target and the tools that wait for a word to stop it.
type target struct {
	cmd         *exec.Cmd
	shared      []byte
	file        string
	floor, ours *tool
}

func (s size) start(ctx context.Context) (*target, error) {
	f, err := os.CreateTemp("/dev/shm", "procinsh-stop-")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t := &target{file: f.Name()}
	if err := f.Truncate(4096); err != nil {
		return nil, err
	}
	if t.shared, err = unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, err
	}
	t.cmd = exec.CommandContext(ctx, filepath.Join(judge.Bin, "stop-target"), s.mode, strconv.Itoa(s.threads), t.file)
	t.cmd.Stderr = os.Stderr
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := t.cmd.Start(); err != nil {
		return nil, err
	}
	for end := time.Now().Add(60 * time.Second); binary.LittleEndian.Uint64(t.shared[16:]) < uint64(s.threads); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.end()
			return nil, errors.New("the target did not get ready in 60 s")
		}
	}
	if t.floor, err = startTool(ctx, "stop-floor", t.cmd.Process.Pid); err == nil {
		t.ours, err = startTool(ctx, "stop-ours", t.cmd.Process.Pid)
	}
	if err != nil {
		t.end()
		return nil, err
	}
	return t, nil
}

func (t *target) end() {
	for _, tool := range []*tool{t.floor, t.ours} {
		if tool != nil {
			tool.in.Close()
			tool.cmd.Wait()
		}
	}
	if t.cmd.Process != nil {
		t.cmd.Process.Kill()
		t.cmd.Wait()
	}
	unix.Munmap(t.shared)
	os.Remove(t.file)
}

// watch returns the longest gap the target saw while f ran, ns.
func (t *target) watch(f func() error) (float64, error) {
	binary.LittleEndian.PutUint64(t.shared, 0)
	if err := f(); err != nil {
		return 0, err
	}
	time.Sleep(2 * time.Millisecond) // the thread that was stopped must run to see it
	return float64(binary.LittleEndian.Uint64(t.shared)), nil
}

// quiet waits until the target runs undisturbed; 1 when that does not happen.
func (t *target) quiet(ctx context.Context, patience time.Duration) int {
	for end := time.Now().Add(patience); ctx.Err() == nil && time.Now().Before(end); {
		gap, _ := t.watch(func() error { time.Sleep(quietFor); return nil })
		if gap > 0 && gap < float64(quietGap) {
			return 0
		}
	}
	return 1
}

var errLate = errors.New("not finished")

func (t *target) gdb(ctx context.Context) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, gdbPatience)
	defer cancel()
	return t.watch(func() error {
		cmd := exec.CommandContext(ctx, "gdb", "-nx", "-batch", "-p", strconv.Itoa(t.cmd.Process.Pid), "-ex", "thread apply all bt")
		cmd.Env = append(os.Environ(), "DEBUGINFOD_URLS=")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		err := cmd.Run()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return errLate
		}
		if err != nil {
			return fmt.Errorf("gdb: %w", err)
		}
		return nil
	})
}

// tool is a program that stops the target once for each line it gets.
type tool struct {
	name    string
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
	threads int
	own     float64 // what it says it took, µs
}

func startTool(ctx context.Context, name string, pid int) (*tool, error) {
	t := &tool{name: name, cmd: exec.CommandContext(ctx, filepath.Join(judge.Bin, name), strconv.Itoa(pid))}
	t.cmd.Stderr = os.Stderr
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if t.in, err = t.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	t.out = bufio.NewScanner(out)
	return t, t.cmd.Start()
}

func (t *tool) shot() error {
	if _, err := io.WriteString(t.in, "\n"); err != nil {
		return err
	}
	if !t.out.Scan() {
		return fmt.Errorf("%s ended", t.name)
	}
	_, err := fmt.Sscan(t.out.Text()+" 0", &t.threads, &t.own)
	return err
}
