package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// deployed returns a file of deploy.
func deployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// expressions returns the queries of the dashboard and of the alerts.
func expressions(t *testing.T) []string {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(deployed(t, "grafana.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range dashboard.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %q asks nothing", p.Title)
		}
		for _, x := range p.Targets {
			all = append(all, x.Expr)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^ +expr: (.+)$`).FindAllStringSubmatch(deployed(t, "procinsh-rules.yml"), -1) {
		all = append(all, m[1])
	}
	if len(all) < 20 {
		t.Errorf("%d queries found, that cannot be all", len(all))
	}
	return all
}

var (
	queried = regexp.MustCompile(`\b(?:procinsh|process|go)_[a-z_]+`)
	scraped = regexp.MustCompile(`(?m)^([a-z_]+)[{ ]`)
)

// checkDeployed fails for a name in the dashboard or the alerts that a scrape with
// groups does not have, and for a family that neither shows.
func checkDeployed(t *testing.T, scrape []byte) {
	t.Helper()
	there, asked := map[string]bool{}, map[string]bool{}
	for _, m := range scraped.FindAllSubmatch(scrape, -1) {
		there[string(m[1])] = true
	}
	for _, query := range expressions(t) {
		for _, name := range queried.FindAllString(query, -1) {
			asked[name] = true
			if !there[name] {
				t.Errorf("no metric %s for the query %s", name, query)
			}
		}
	}
	for name := range there {
		if strings.HasPrefix(name, "procinsh_group_") && !asked[name] {
			t.Errorf("nothing shows %s", name)
		}
	}
}

// Prometheus takes the configuration, the alerts and the queries of the dashboard.
func TestPrometheusFiles(t *testing.T) {
	var rules strings.Builder
	rules.WriteString("groups: [{name: x, rules: [\n")
	for i, query := range expressions(t) {
		query = strings.NewReplacer("$instance", ".*", "$__rate_interval", "5m").Replace(query)
		fmt.Fprintf(&rules, "{record: 'x:%d', expr: %q},\n", i, query)
	}
	rules.WriteString("]}]\n")
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	promtool(t, nil, "check", "rules", file)
	promtool(t, nil, "check", "config", "--syntax-only", "../../deploy/prometheus.yml")
	promtool(t, nil, "check", "rules", "../../deploy/procinsh-rules.yml")
}

// systemd takes the unit.
func TestUnitIsValid(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("needs systemd-analyze (Debian package systemd)")
	}
	dir := t.TempDir()
	text := strings.Replace(deployed(t, "procinsh.service"), "/usr/local/bin/procinsh", binary, 1)
	unit := filepath.Join(dir, "procinsh.service")
	if err := os.WriteFile(unit, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("systemd-analyze", "verify", unit).CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("procinsh.service")) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}

	// 4.1 of 10 by systemd 257, 4.3 by 252; before 250 it reads no files.
	if major := systemdVersion(t); major >= 250 {
		out, err := exec.Command("systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=45", unit).CombinedOutput()
		if err != nil {
			t.Errorf("systemd-analyze security: %v\n%s", err, tail(string(out), 200))
		}
	}

	// What is denied has none of the calls that the server lives on.
	denied := regexp.MustCompile(`(?m)^SystemCallFilter=~(.+)$`).FindStringSubmatch(text)
	if denied == nil {
		t.Fatal("no SystemCallFilter")
	}
	calls := map[string]bool{}
	for _, set := range strings.Fields(denied[1]) {
		expandSet(t, set, calls)
	}
	if len(calls) < 20 || !calls["init_module"] {
		t.Errorf("%d calls denied: %v", len(calls), calls)
	}
	for call := range strings.SplitSeq("ptrace bpf process_vm_readv setns perf_event_open seccomp capset prctl kcmp pidfd_open sched_setscheduler setpriority openat socket clone clone3 execve setrlimit prlimit64", " ") {
		if calls[call] {
			t.Errorf("the unit denies %s", call)
		}
	}
}

// systemdVersion is the first number of systemd-analyze's version.
func systemdVersion(t *testing.T) int {
	t.Helper()
	out, err := exec.Command("systemd-analyze", "--version").Output()
	if m := regexp.MustCompile(`^systemd (\d+)`).FindSubmatch(out); m != nil {
		n, _ := strconv.Atoi(string(m[1]))
		return n
	}
	t.Fatalf("systemd-analyze --version: %v\n%s", err, out)
	return 0
}

// expandSet adds the system calls of a set of systemd's.
func expandSet(t *testing.T, set string, into map[string]bool) {
	t.Helper()
	out, err := exec.Command("systemd-analyze", "syscall-filter", set).Output()
	if err != nil {
		var e *exec.ExitError
		errors.As(err, &e)
		t.Fatalf("systemd-analyze syscall-filter %s: %v\n%s", set, err, e.Stderr)
	}
	for line := range strings.Lines(string(out)) {
		name := strings.TrimSpace(line)
		switch {
		case name == "" || name == set || strings.HasPrefix(name, "#"):
		case strings.HasPrefix(name, "@"):
			expandSet(t, name, into)
		default:
			into[name] = true
		}
	}
}

// No setting hides processes from the server, or makes it another user.
func TestUnitHidesNothing(t *testing.T) {
	text := deployed(t, "procinsh.service")
	for name := range strings.SplitSeq("ProtectProc ProcSubset PrivateUsers PrivatePIDs PrivateNetwork PrivateIPC PrivateTmp DynamicUser User RootDirectory RootImage InaccessiblePaths TemporaryFileSystem RestrictRealtime IPAddressDeny", " ") {
		if regexp.MustCompile(`(?m)^` + name + `=`).MatchString(text) {
			t.Errorf("the unit sets %s", name)
		}
	}
	for setting := range strings.SplitSeq("Type=notify Restart=always NoNewPrivileges=yes RuntimeDirectory=procinsh ProtectSystem=strict ProtectHome=read-only", " ") {
		if !regexp.MustCompile(`(?m)^` + setting + `$`).MatchString(text) {
			t.Errorf("the unit does not say %s", setting)
		}
	}
}

// A service manager hears that the server is ready when it answers, and the server
// keeps nothing that leads back.
func TestServiceManager(t *testing.T) {
	at := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	heard := make(chan string, 1)
	go func() {
		b := make([]byte, 100)
		n, err := l.Read(b)
		heard <- fmt.Sprintf("%s %v", b[:n], err)
	}()
	s := start(t, options{quiet: true, env: []string{"NOTIFY_SOCKET=" + at}})
	waitFor(t, "a message", func() bool { return len(heard) > 0 })
	if got := <-heard; got != "READY=1 <nil>" {
		t.Errorf("it said %q", got)
	}
	if a := s.get("/healthz"); a.status != 200 {
		t.Errorf("ready: %v", a)
	}
	if text := unixSockets(t, s.cmd.Process.Pid); text != "" {
		t.Errorf("the server still has UNIX sockets:\n%s", text)
	}

	// Nobody there is no reason not to serve.
	l.Close()
	s = start(t, options{env: []string{"NOTIFY_SOCKET=" + at}})
	if !strings.Contains(s.stderr.String(), "level=WARN") || !strings.Contains(s.stderr.String(), "the service manager is not told") {
		t.Errorf("no warning:\n%s", &s.stderr)
	}
}

// unixSockets are the lines of /proc/net/unix about descriptors of a process.
func unixSockets(t *testing.T, pid int) string {
	t.Helper()
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/unix", pid))
	if err != nil {
		t.Fatal(err)
	}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(fds) == 0 {
		t.Fatalf("no descriptors: %v", err)
	}
	var found strings.Builder
	for _, fd := range fds {
		to, err := os.Readlink(fd)
		inode, ok := strings.CutPrefix(to, "socket:[")
		if err != nil || !ok {
			continue
		}
		for line := range strings.Lines(string(table)) {
			if f := strings.Fields(line); len(f) > 6 && f[6]+"]" == inode {
				found.WriteString(line)
			}
		}
	}
	return found.String()
}

// unitCapabilities are those that the unit leaves to the server, without CAP_.
func unitCapabilities(t *testing.T) []string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^CapabilityBoundingSet=(.+)$`).FindStringSubmatch(deployed(t, "procinsh.service"))
	if m == nil {
		t.Fatal("no CapabilityBoundingSet")
	}
	return strings.Fields(strings.ReplaceAll(m[1], "CAP_", ""))
}

// The DaemonSet has the capabilities of the unit, sees the host's processes, and starts
// the server with options that it has.
func TestDaemonSet(t *testing.T) {
	text := deployed(t, "daemonset.yaml")
	list := func(name string) []string {
		m := regexp.MustCompile(`(?m)^ +` + name + `: \[(.+)\]$`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("no list %s", name)
		}
		return strings.Split(strings.ReplaceAll(m[1], "'", ""), ", ")
	}
	if got, want := list("add"), unitCapabilities(t); !slices.Equal(got, want) {
		t.Errorf("capabilities %v, those of the unit are %v", got, want)
	}
	if !strings.Contains(text, "\n      hostPID: true") {
		t.Error("it sees its own processes alone")
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(strings.Repeat("5a", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	args := list("args")
	if len(args) != 5 || args[0] != "serve" || args[1] != "--listen" || args[2] != "0.0.0.0:8080" || args[4] != "/etc/procinsh/token" {
		t.Fatalf("arguments %q", args)
	}
	s := start(t, options{listen: "127.0.0.1:0", args: []string{args[3], token}})
	if a := s.get("/metrics?group=container", "Authorization", "Bearer "+strings.Repeat("5a", 32)); a.status != 200 {
		t.Errorf("a scrape with the token: %v", a)
	}
}

// With the capabilities of the unit alone everything works: sensors, memory and
// snapshots of other users' processes.
func TestUnitCapabilitiesAreEnough(t *testing.T) {
	needRoot(t)
	set := "-all"
	for _, name := range unitCapabilities(t) {
		set += ",+" + strings.ToLower(name)
	}
	s := start(t, options{shell: fmt.Sprintf(`exec setpriv --no-new-privs --bounding-set=%s -- "$0" "$@"`, set)})
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil || bytes.Contains(status, []byte("CapEff:\t000001ffffffffff")) || !bytes.Contains(status, []byte("NoNewPrivs:\t1")) {
		t.Fatalf("the set was not taken: %v\n%s", err, status)
	}
	target := exec.Command("/bin/sleep", "300")
	target.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if err := target.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		target.Process.Kill()
		target.Wait()
	})
	if a := s.post(named(t, target.Process.Pid)); a.status != 200 || !bytes.Contains(a.body, []byte(`"symbol":"`)) {
		t.Errorf("snapshot: %v", a)
	}
	id := identity(t, target.Process.Pid)
	for _, path := range []string{"maps", "fds", "environment", "auxv", "context"} {
		a := s.get("/api/processes/" + path + "?" + id)
		if a.status != 200 || regexp.MustCompile(`[Pp]ermission[^s]`).Match(a.body) {
			t.Errorf("%s: %v", path, a)
		}
	}
	if a := s.get("/api/processes/stacks?" + id); a.status != 200 || bytes.Contains(a.body, []byte(`"kernel_stack":null`)) {
		t.Errorf("stacks: %v", a)
	}
	host, _ := s.open("/api/system/events?maps=summary")
	waitFor(t, "an activity event with all sensors observing", func() bool {
		e := host.must()
		return e.name == "activity" && strings.Count(e.data, `"state":"observing"`) == 3
	})
}
