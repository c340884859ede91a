package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// findTracer returns bpftrace when it can do the simplest thing here.
func findTracer(ctx context.Context) (string, error) {
	exe, err := exec.LookPath("bpftrace")
	if err != nil {
		return "", errors.New("not installed")
	}
	if err := trace(ctx, exe, readsByPID, func() error { return nil }); err != nil {
		return "", err
	}
	return exe, nil
}

// trace runs f while a bpftrace program runs.
func trace(ctx context.Context, exe, program string, f func() error) error {
	// In a mount namespace of its own, with a tracefs, which not every machine has mounted.
	cmd := exec.CommandContext(ctx, "sh", "-c", `[ -e /sys/kernel/tracing/events ] || mount -t tracefs none /sys/kernel/tracing; exec "$@"`,
		"sh", exe, "-e", `BEGIN { printf("begun\n"); } `+program)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	if err := cmd.Start(); err != nil {
		return err
	}
	begun := make(chan bool, 1)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		b := make([]byte, 64<<10)
		for said := ""; ; {
			n, err := out.Read(b)
			if len(said) < 1<<12 {
				if said += string(b[:n]); strings.Contains(said, "begun") {
					select {
					case begun <- true:
					default:
					}
				}
			}
			if err != nil {
				close(begun)
				return
			}
		}
	}()
	if !<-begun {
		cmd.Wait()
		return fmt.Errorf("does not start: %s", strings.TrimSpace(complaints.String()))
	}
	time.Sleep(200 * time.Millisecond) // BEGIN comes before the last program is attached
	err = f()
	cmd.Process.Signal(syscall.SIGINT)
	<-drained
	return errors.Join(err, cmd.Wait())
}
