package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

const doctorHelp = `procinsh doctor tells what works on this host for the user who asks, and what would make
the rest work. It loads the sensors and makes a cgroup for a moment, and changes nothing.

Usage: procinsh doctor [--json]

  --json   the same as {version, kernel, uid, works, checks: [{name, state, says, help}]}
  --help   print this

Exit status: 0 when everything works, 1 when something does not, 2 for a wrong command line.
`

// The states of a finding.
const (
	stateWorks   = "works"
	statePartly  = "partly"
	stateMissing = "missing"
)

// finding is what the doctor has to say about one ability.
type finding struct {
	Name  string  `json:"name"`
	State string  `json:"state"` // works, partly, missing
	Says  string  `json:"says"`
	Help  *string `json:"help"` // what would make it work; null when it does, or nothing would
}

// diagnosis is all of it, as --json prints it.
type diagnosis struct {
	Version string    `json:"version"`
	Kernel  string    `json:"kernel"`
	UID     int       `json:"uid"`
	Works   bool      `json:"works"` // all of it
	Checks  []finding `json:"checks"`
}

func works(name, says string) finding { return finding{Name: name, State: stateWorks, Says: says} }

func lacks(name, state, says, help string) finding {
	return finding{Name: name, State: state, Says: says, Help: textOrNil(help)}
}

// parseDoctorArgs reads what follows "doctor".
func parseDoctorArgs(args []string) (asJSON bool, err error) {
	for _, arg := range args {
		switch arg {
		case "--json", "-json":
			asJSON = true
		case "--help", "-help", "-h":
			return false, errHelp
		default:
			return false, fmt.Errorf("unexpected argument %q, see procinsh doctor --help", arg)
		}
	}
	return asJSON, nil
}

// runDoctor is procinsh doctor. It returns the exit status.
func runDoctor(args []string, stdout, stderr io.Writer) int {
	asJSON, err := parseDoctorArgs(args)
	switch {
	case errors.Is(err, errHelp):
		fmt.Fprint(stdout, doctorHelp)
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "procinsh:", err)
		return 2
	}
	d, err := diagnose()
	if err == nil && asJSON {
		out := json.NewEncoder(stdout)
		out.SetEscapeHTML(false)
		out.SetIndent("", "  ")
		err = out.Encode(d)
	} else if err == nil {
		err = writeDiagnosis(stdout, d)
	}
	if err != nil {
		fmt.Fprintln(stderr, "procinsh:", err)
		return 1
	}
	if !d.Works {
		return 1
	}
	return 0
}

// diagnose looks at everything. The sandbox comes last: it is closed for good.
func diagnose() (diagnosis, error) {
	files, err := proc.Open("/proc")
	if err != nil {
		return diagnosis{}, err
	}
	defer files.Close()
	d := diagnosis{Version: describeVersion(version, revision()), Kernel: kernelRelease(), UID: os.Geteuid(), Works: true}
	own := newPrivileges(files)
	d.Checks = append(d.Checks, own.checkList(files), own.checkInside(), own.checkSnapshots(files), checkYama(files, own),
		own.checkKernelStacks(), own.checkNamespaces(), own.checkMappings(), checkTypes(), own.checkTables(), own.checkMapTables())
	d.Checks = append(d.Checks, own.checkSensors()...)
	d.Checks = append(d.Checks, own.checkRuns(), checkDebugFiles(), checkPeers(), checkSandbox())
	for _, c := range d.Checks {
		d.Works = d.Works && c.State == stateWorks
	}
	return d, nil
}

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}

// writeDiagnosis prints a line for what is seen and one for what would help.
func writeDiagnosis(w io.Writer, d diagnosis) error {
	var b strings.Builder
	fmt.Fprintf(&b, "procinsh %s on Linux %s, as %s\n\n", d.Version, d.Kernel, userText(d.UID))
	width := 0
	for _, c := range d.Checks {
		width = max(width, len(c.Name))
	}
	for _, c := range d.Checks {
		fmt.Fprintf(&b, "%-8s %-*s  %s\n", c.State, width, c.Name, c.Says)
		if c.Help != nil {
			fmt.Fprintf(&b, "%-8s %-*s  -> %s\n", "", width, "", *c.Help)
		}
	}
	if d.Works {
		b.WriteString("\nEverything works.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func userText(uid int) string {
	if uid == 0 {
		return "root"
	}
	return fmt.Sprintf("user %d", uid)
}
