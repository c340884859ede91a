package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"procinsh/bpf"
	"procinsh/proc"
)

func TestParseDoctorArgs(t *testing.T) {
	for _, c := range []struct {
		args []string
		json bool
		err  string
	}{
		{nil, false, ""},
		{[]string{"--json"}, true, ""},
		{[]string{"--help"}, false, errHelp.Error()},
		{[]string{"--jsn"}, false, `unexpected argument "--jsn"`},
		{[]string{"--json", "x"}, false, `unexpected argument "x"`},
	} {
		got, err := parseDoctorArgs(c.args)
		if got != c.json || (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%q: %v, %v; want %v, %q", c.args, got, err, c.json, c.err)
		}
	}
}

// What would help fits who asks and what is wrong.
func TestSensorFinding(t *testing.T) {
	root := privileges{0, 1<<41 - 1}
	user := privileges{1000, 0}
	container := privileges{0, 1 << unix.CAP_KILL}
	two := privileges{1000, 1<<unix.CAP_BPF | 1<<unix.CAP_PERFMON}
	observing := bpf.SensorStatus{State: bpf.StateObserving}
	unavailable := func(reason string) bpf.SensorStatus {
		return bpf.SensorStatus{State: bpf.StateUnavailable, Reason: reason}
	}
	for _, c := range []struct {
		name       string
		who        privileges
		st         bpf.SensorStatus
		drain      error
		state      string
		says, help string
	}{
		{"works", root, observing, nil, stateWorks, "It counts at fexit/vfs_read.", ""},
		{"user", user, unavailable("needs CAP_BPF and CAP_PERFMON"), nil, stateMissing, "Needs CAP_BPF and CAP_PERFMON.", "sudo"},
		{"root of a container", container, unavailable("needs CAP_BPF and CAP_PERFMON"), nil, stateMissing, "Needs CAP_BPF", "--cap-add"},
		{"no types", root, unavailable("kernel has no BTF (CONFIG_DEBUG_INFO_BTF)"), nil, stateMissing, "Kernel has no BTF", "CONFIG_DEBUG_INFO_BTF"},
		{"old limit", two, unavailable("RLIMIT_MEMLOCK is too low, which counts before Linux 5.11, or refused by kernel policy"), nil, stateMissing, "RLIMIT_MEMLOCK", "ulimit -l"},
		{"lockdown", root, unavailable("refused by kernel lockdown"), nil, stateMissing, "Refused", "lockdown"},
		{"no reason", root, bpf.SensorStatus{State: bpf.StateError}, nil, stateMissing, ".", ""},
		{"fails", root, observing, errors.New("read: interrupted"), stateMissing, "It does not report: read: interrupted.", ""},
	} {
		f := c.who.sensor("sensor", c.st, []string{"fexit/vfs_read"}, c.drain)
		help := ""
		if f.Help != nil {
			help = *f.Help
		}
		if f.State != c.state || !strings.HasPrefix(f.Says, c.says) || !strings.Contains(help, c.help) || c.help == "" && help != "" {
			t.Errorf("%s: %+v, help %q", c.name, f, help)
		}
	}
	if f := root.sensor("s", observing, []string{"tp_btf/sys_exit"}, nil); !strings.Contains(f.Says, "fentry") {
		t.Errorf("the slower way is not named: %+v", f)
	}
}

// mounted is a procfs with a setting of Yama and an option hidepid.
func mounted(t *testing.T, scope, hidepid string) *proc.FS {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if scope != "" {
		write("sys/kernel/yama/ptrace_scope", scope+"\n")
	}
	write("self/mountinfo", "24 1 0:22 / "+dir+" rw - proc proc rw,hidepid="+hidepid+"\n")
	files, err := proc.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	return files
}

func TestFindingsOfSettings(t *testing.T) {
	root, user, container := privileges{0, 1<<41 - 1}, privileges{1000, 0}, privileges{0, 0}
	for _, c := range []struct {
		name           string
		who            privileges
		scope, hidepid string
		yama, list     string // states
		helps          string // in both, where something helps
	}{
		{"nothing set", user, "", "off", stateWorks, stateWorks, ""},
		{"root", root, "2", "invisible", stateWorks, stateWorks, ""},
		{"a user", user, "1", "invisible", stateMissing, statePartly, "sudo"},
		{"a user, contents hidden", user, "2", "noaccess", stateMissing, statePartly, "sudo"},
		{"root of a container", container, "1", "ptraceable", stateMissing, statePartly, "--cap-add"},
		{"nobody may", root, "3", "off", stateMissing, stateWorks, ""},
	} {
		files := mounted(t, c.scope, c.hidepid)
		yama, list := checkYama(files, c.who), c.who.checkList(files)
		if yama.State != c.yama || list.State != c.list {
			t.Errorf("%s: %+v, %+v", c.name, yama, list)
		}
		for _, f := range []finding{yama, list} {
			if f.State != stateWorks && (f.Help == nil || !strings.Contains(*f.Help, c.helps)) {
				t.Errorf("%s: %s says %q and does not help with %q", c.name, f.Name, f.Says, c.helps)
			}
		}
	}
}

func TestWriteDiagnosis(t *testing.T) {
	var b strings.Builder
	d := diagnosis{Version: "1.2", Kernel: "6.1.0", UID: 1000, Checks: []finding{
		works("short", "All of it."),
		lacks("a longer name", stateMissing, "None.", "start procinsh with sudo."),
		lacks("nothing helps", statePartly, "Some.", ""),
	}}
	if err := writeDiagnosis(&b, d); err != nil {
		t.Fatal(err)
	}
	want := "procinsh 1.2 on Linux 6.1.0, as user 1000\n\n" +
		"works    short          All of it.\n" +
		"missing  a longer name  None.\n" +
		"                        -> start procinsh with sudo.\n" +
		"partly   nothing helps  Some.\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	b.Reset()
	d.UID, d.Works = 0, true
	writeDiagnosis(&b, d)
	if text := b.String(); !strings.Contains(text, "as root\n") || !strings.HasSuffix(text, "\nEverything works.\n") {
		t.Errorf("got\n%s", text)
	}
}
