// Command procinsh shows the processes of a Linux host in a browser and to curl, and
// the stacks of one on the terminal, and launches commands that it ends for sure.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	launcher "procinsh/run"
)

// The runtime parks the main thread where it ends others, and a tracing thread has
// to end for the kernel to let go what it still holds: nothing else may run here.
func init() { runtime.LockOSThread() }

// version and commit are set by the linker.
var (
	version = "unversioned"
	commit  string // "" when not built by build.sh
)

func main() { os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)) }

// run is the program without the process around it. It returns the exit status:
// 0, 1 for what went wrong, 2 for a command line that is wrong.
func run(args []string, env func(string) string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		switch args[0] {
		case "doctor":
			return runDoctor(args[1:], stdout, stderr)
		case "snapshot":
			return runSnapshot(args[1:], stdout, stderr)
		case "run":
			return runCommand(args[1:], env, stdout, stderr)
		case "runs":
			return runRuns(args[1:], env, stdout, stderr)
		case launcher.KeeperArgument:
			return hidden(launcher.Keep(), 1, stderr)
		case launcher.HelperArgument:
			return hidden(launcher.Help(), 1, stderr)
		case launcher.JoinArgument:
			return hidden(launcher.Join(args[1:]), 126, stderr)
		}
	}
	o, err := parseArgs(args, env)
	switch {
	case errors.Is(err, errHelp):
		fmt.Fprint(stdout, help)
		return 0
	case errors.Is(err, errVersion):
		fmt.Fprintln(stdout, "procinsh", describeVersion(version, revision()))
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "procinsh:", err)
		return 2
	}
	if err := serve(o, stderr); err != nil {
		fmt.Fprintln(stderr, "procinsh:", err)
		return 1
	}
	return 0
}

// hidden is the end of what this program executes itself as.
func hidden(err error, status int, stderr io.Writer) int {
	if err != nil {
		fmt.Fprintln(stderr, "procinsh:", err)
		return status
	}
	return 0
}

// revision is the commit the binary was built from, "" when unknown.
func revision() string {
	if commit != "" {
		return commit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var vcs, changed string
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			vcs = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				changed = "+changed"
			}
		}
	}
	if vcs == "" {
		return ""
	}
	return vcs + changed
}

func describeVersion(version, revision string) string {
	if revision == "" {
		return version
	}
	return version + " (" + revision + ")"
}
