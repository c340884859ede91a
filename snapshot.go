package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"procinsh/api"
	"procinsh/elf"
	"procinsh/proc"
	"procinsh/ptrace"
)

const snapshotHelp = `procinsh snapshot prints the stack of every thread of a process. It stops all threads
for a moment, some 0.1 ms for one and 10 ms for 500, and lets them go on as they were.

Usage: procinsh snapshot PID [--json] [--no-stop]

  --json      what POST /api/processes/snapshot answers: registers, code and mappings
              too; of GET /api/processes/stacks when nothing is stopped
  --no-stop   stop nothing: the stacks of threads that sleep, with what they wait for
  --help      print this

Exit status: 0, 1 when there is no snapshot, 2 for a wrong command line.
`

// snapshotOptions are those of procinsh snapshot.
type snapshotOptions struct {
	pid    int32
	json   bool
	noStop bool
}

// parseSnapshotArgs reads what follows "snapshot"; options may stand on both sides
// of the PID. Its errors are lines for the user; errHelp asks for the help.
func parseSnapshotArgs(args []string) (o snapshotOptions, err error) {
	for _, arg := range args {
		switch {
		case arg == "--json" || arg == "-json":
			o.json = true
		case arg == "--no-stop" || arg == "-no-stop":
			o.noStop = true
		case arg == "--help" || arg == "-help" || arg == "-h":
			return snapshotOptions{}, errHelp
		case strings.HasPrefix(arg, "-") && !isNumber(arg[1:]):
			return snapshotOptions{}, fmt.Errorf("unknown option --%s, see procinsh snapshot --help", strings.TrimLeft(arg, "-"))
		case o.pid != 0:
			return snapshotOptions{}, fmt.Errorf("unexpected argument %q, see procinsh snapshot --help", arg)
		default:
			pid, err := strconv.ParseUint(arg, 10, 31)
			if err != nil || pid == 0 {
				return snapshotOptions{}, fmt.Errorf("PID %q is not a whole number from 1 to 2147483647", arg)
			}
			o.pid = int32(pid)
		}
	}
	if o.pid == 0 {
		return snapshotOptions{}, errors.New("a PID is needed: procinsh snapshot PID")
	}
	return o, nil
}

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 64)
	return err == nil
}

// runSnapshot is procinsh snapshot. It returns the exit status.
func runSnapshot(args []string, stdout, stderr io.Writer) int {
	o, err := parseSnapshotArgs(args)
	switch {
	case errors.Is(err, errHelp):
		fmt.Fprint(stdout, snapshotHelp)
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "procinsh:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := printSnapshot(ctx, o, stdout); err != nil {
		fmt.Fprintln(stderr, "procinsh:", snapshotFailure(ctx, o.pid, err))
		return 1
	}
	return 0
}

var errNoProcess = errors.New("no such process")

// snapshotFailure is one line.
func snapshotFailure(ctx context.Context, pid int32, err error) string {
	switch {
	case ctx.Err() != nil:
		return "interrupted"
	case errors.Is(err, errNoProcess):
		return fmt.Sprintf("there is no process %d", pid)
	}
	text := api.Explain(err)
	return fmt.Sprintf("process %d: %s", pid, strings.ToLower(text[:1])+printable(text[1:]))
}

// printSnapshot writes nothing before all is known.
func printSnapshot(ctx context.Context, o snapshotOptions, stdout io.Writer) error {
	files, err := proc.Open("/proc")
	if err != nil {
		return err
	}
	defer files.Close()
	id, name, err := files.Identify(o.pid)
	if errors.Is(err, proc.ErrGone) {
		return errNoProcess
	}
	if err != nil {
		return err
	}
	symbols := ptrace.NewSymbols(elf.DefaultLimit)
	out := bufio.NewWriter(stdout)
	if o.noStop {
		s, err := ptrace.ReadStacks(ctx, files, id, 0, symbols)
		if err != nil {
			return err
		}
		if o.json {
			out.Write(api.AppendStacks(nil, s))
		} else {
			writeStacks(out, name, s)
		}
		return out.Flush()
	}
	s, err := ptrace.Take(ctx, files, id, symbols)
	if err != nil {
		return err
	}
	if o.json {
		out.Write(api.AppendSnapshot(nil, s))
	} else {
		writeSnapshot(out, name, s)
	}
	return out.Flush()
}
