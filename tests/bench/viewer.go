package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/tests/bench/judge"
	"procinsh/tests/server"
)

const (
	viewerSettles = 15 * time.Second // until each process had its turn
	viewerWatched = 30 * time.Second
	viewerMemory  = 45 << 20
)

func viewers(ctx context.Context) error {
	for _, c := range []struct {
		processes int
		percent   float64
	}{{size(1000, 100), 1}, {size(5000, 300), 4}} {
		if err := viewer(ctx, c.processes, c.percent); err != nil {
			return err
		}
	}
	return nil
}

// viewer measures the whole server, as one client watches the list, and top on a
// terminal, both at the same time.
func viewer(ctx context.Context, processes int, percent float64) (err error) {
	f, err := start(ctx, "procs", strconv.Itoa(processes))
	if err != nil {
		return err
	}
	defer f.stop()
	s, err := server.Start(filepath.Join(judge.Bin, "procinsh"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	settles, watched := viewerSettles, viewerWatched
	if judge.Quick {
		settles, watched = 2*time.Second, 2*time.Second
	}
	over := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- s.Events("/api/processes/stream", nil, settles+watched+time.Minute, func(server.Event) bool {
			select {
			case <-over:
				return false
			default:
				return true
			}
		})
	}()
	top, stop, err := startTop(ctx)
	if err != nil {
		return err
	}
	defer stop()
	wait := func(d time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			return fmt.Errorf("the stream ended: %w", err)
		case <-time.After(d):
			return nil
		}
	}
	if err := wait(settles); err != nil {
		return err
	}
	pids := []int{s.PID, top}
	var before [2]time.Duration
	var memory uint64
	from := time.Now()
	for i, pid := range pids {
		if before[i], err = server.CPUTime(pid); err != nil {
			return err
		}
	}
	for time.Since(from) < watched {
		if err := wait(time.Second); err != nil {
			return err
		}
		now, err := server.RSS(s.PID)
		if err != nil {
			return err
		}
		memory = max(memory, now)
	}
	var share [2]float64
	seconds := time.Since(from).Seconds()
	for i, pid := range pids {
		now, err := server.CPUTime(pid)
		if err != nil {
			return err
		}
		share[i] = (now - before[i]).Seconds() / seconds * 100
	}
	close(over)
	if err := <-ended; err != nil {
		return err
	}
	title := fmt.Sprintf("one viewer of the list, %s processes", grouped(processes))
	fmt.Printf("\n%s: percent of a core, %.0f s\n", title, seconds)
	fmt.Printf("  %-34s %10.2f   %s\n", "procinsh serve", share[0], judge.Goal(title, fmt.Sprintf("goal ≤ %.0f %%", percent), share[0] <= percent))
	fmt.Printf("  %-34s %10.2f   ratio %.3f   %s\n", "top -d 1", share[1], share[0]/share[1], judge.Goal(title+" / top -d 1", "goal ≤ 0.50", share[0] <= share[1]/2))
	fmt.Printf("  %-34s %10.1f   MiB, %s\n", "RSS of procinsh", float64(memory)/(1<<20), judge.Goal(title+", RSS", "goal ≤ 45", memory <= viewerMemory))
	return nil
}

// startTop starts top -d 1 on a terminal of 50 lines.
func startTop(ctx context.Context) (pid int, stop func(), err error) {
	terminal, other, err := server.Terminal()
	if err != nil {
		return 0, nil, err
	}
	defer func() {
		if err != nil {
			terminal.Close()
		}
	}()
	defer other.Close()
	if err := unix.IoctlSetWinsize(int(other.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 160}); err != nil {
		return 0, nil, err
	}
	cmd := exec.CommandContext(ctx, "top", "-d", "1")
	cmd.Env = append(os.Environ(), "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = other, other, other
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	go func() {
		b := make([]byte, 64<<10)
		for {
			if _, err := terminal.Read(b); err != nil {
				return
			}
		}
	}()
	return cmd.Process.Pid, func() {
		cmd.Process.Kill()
		cmd.Wait()
		terminal.Close()
	}, nil
}
