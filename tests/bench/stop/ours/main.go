// Command ours takes a snapshot of a process for each line of standard input and
// prints how many threads it has and how long the target stood, in µs.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"procinsh/proc"
	"procinsh/ptrace"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "ours:", err)
		os.Exit(1)
	}
}

func run() error {
	pid, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	start, err := strconv.ParseUint(fields[22-3], 10, 64)
	if err != nil {
		return err
	}
	fs, err := proc.Open("/proc")
	if err != nil {
		return err
	}
	p, err := fs.OpenProcess(proc.ID{PID: int32(pid), StartTicks: start})
	if err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		raw, err := ptrace.Capture(context.Background(), p, ptrace.Options{})
		if err != nil {
			return err
		}
		if len(raw.NotStopped) > 0 {
			return fmt.Errorf("%d threads were not stopped", len(raw.NotStopped))
		}
		for _, t := range raw.Threads {
			if !t.Registers || len(t.Stack.Bytes) == 0 || len(t.Code.Bytes) == 0 {
				return fmt.Errorf("thread %d is not complete", t.TID)
			}
		}
		fmt.Println(len(raw.Threads), raw.Paused.Microseconds())
	}
	return in.Err()
}
