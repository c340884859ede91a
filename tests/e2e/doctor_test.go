package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"procinsh/api"
)

// diagnosis is what procinsh doctor --json prints.
type diagnosis struct {
	UID    int  `json:"uid"`
	Works  bool `json:"works"`
	Checks []struct {
		Name, State, Says string
		Help              *string
	} `json:"checks"`
}

func doctor(t *testing.T, o options) (d diagnosis, states map[string]string) {
	t.Helper()
	status, out, errs := runToEnd(t, o, "doctor", "--json")
	if err := json.Unmarshal([]byte(out), &d); err != nil || errs != "" {
		t.Fatalf("doctor: %v\n%s%s", err, out, errs)
	}
	if (status == 0) != d.Works || status > 1 || len(d.Checks) < 10 {
		t.Errorf("status %d, works %v, %d checks", status, d.Works, len(d.Checks))
	}
	states = map[string]string{}
	for _, c := range d.Checks {
		states[c.Name] = c.State
		if !slices.Contains([]string{"works", "partly", "missing"}, c.State) || !strings.HasSuffix(c.Says, ".") || c.State == "works" && c.Help != nil {
			t.Errorf("a finding is %+v", c)
		}
	}
	return d, states
}

func TestDoctor(t *testing.T) {
	groups, err := os.ReadDir("/sys/fs/cgroup")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	d, states := doctor(t, options{})
	if d.UID != os.Geteuid() {
		t.Errorf("uid %d", d.UID)
	}
	if os.Geteuid() == 0 { // as root what is missing is a failure
		for name, state := range states {
			if state != "works" && name != "runs" { // that is its own test's matter
				t.Errorf("%s: %s as root", name, state)
			}
		}
	}
	if after, err := os.ReadDir("/sys/fs/cgroup"); err == nil && len(after) > len(groups) {
		t.Errorf("a cgroup was left: %d and then %d entries", len(groups), len(after))
	}
	status, out, errs := runToEnd(t, options{}, "doctor")
	if (status == 0) != d.Works || errs != "" || !strings.HasPrefix(out, "procinsh ") || strings.Count(out, "\n") < len(d.Checks) {
		t.Errorf("as text: %d\n%s%s", status, out, errs)
	}
}

// An unprivileged user is told what is missing, and how to have it.
func TestDoctorOfAUser(t *testing.T) {
	needRoot(t)
	d, states := doctor(t, options{uid: nobody})
	if d.Works || d.UID != nobody {
		t.Errorf("works %v for user %d", d.Works, d.UID)
	}
	for name, want := range map[string]string{
		"list of processes": "works", "who asks on loopback": "works", "sandbox of the server": "works", "kernel types (BTF)": "works",
		"memory, maps, descriptors": "partly", "other network namespaces": "partly", "files behind mappings": "partly", "list and descriptors from the kernel's tables": "partly",
		"map summaries from the kernel's tables": "partly",
		"kernel stacks":                          "missing", "sensor of processor time": "missing", "sensor of pipes and sockets": "missing", "sensor of files": "missing",
	} {
		if states[name] != want {
			t.Errorf("%s: %q, want %q", name, states[name], want)
		}
	}
	for _, c := range d.Checks {
		if c.State != "works" && (c.Help == nil || !strings.Contains(*c.Help, "CAP_") && !strings.Contains(*c.Help, "root")) {
			t.Errorf("%s does not say what would help: %+v", c.Name, c)
		}
	}
}

// hiding starts procinsh over a /proc that hides what is not the user's own.
func hiding(uid int) options {
	return options{
		shell: fmt.Sprintf(`mount -t proc -o hidepid=2 proc /proc || exit 9; exec setpriv --reuid=%d --regid=%d --clear-groups "$0" "$@"`, uid, uid),
		args:  []string{"--allow-user", "root"}, flags: syscall.CLONE_NEWNS,
	}
}

// A process that /proc hides is not said to have ended, and with CAP_SYS_PTRACE
// nothing is hidden.
func TestHiddenProcesses(t *testing.T) {
	needRoot(t)
	pid, _ := sleeper(t)
	id := identity(t, pid)
	list := func(s *server) (found, own bool) {
		var all []api.ProcessSummary
		s.get("/api/processes").decode(t, &all)
		for _, p := range all {
			found = found || p.Identity.PID == int32(pid)
			own = own || p.Identity.PID == int32(s.cmd.Process.Pid)
		}
		return found, own
	}

	s := start(t, hiding(nobody))
	if found, own := list(s); found || !own {
		t.Errorf("the list has the hidden process: %v, its own: %v", found, own)
	}
	for _, path := range []string{"observation?", "maps?", "threads?", "context?", "stacks?"} {
		a := s.get("/api/processes/" + path + id)
		if a.status != 422 || a.code(t) != "permission_denied" || !strings.Contains(string(a.body), "hidepid") || !strings.Contains(string(a.body), "CAP_SYS_PTRACE") {
			t.Errorf("%s of a hidden process: %v", path, a)
		}
	}
	d, states := doctor(t, options{shell: hiding(nobody).shell, flags: syscall.CLONE_NEWNS})
	if states["list of processes"] != "partly" || !strings.Contains(d.Checks[0].Says, "hidepid") || d.Checks[0].Help == nil {
		t.Errorf("the doctor says %+v", d.Checks[0])
	}

	s = start(t, hiding(0))
	if found, _ := list(s); !found {
		t.Error("root does not see the process through hidepid")
	}
	if a := s.get("/api/processes/observation?" + id); a.status != 200 {
		t.Errorf("observation by root: %v", a)
	}
}
