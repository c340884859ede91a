package proc

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestReadContextFixture(t *testing.T) {
	fs, err := Open("testdata/context")
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	p, err := fs.OpenProcess(ID{4242, 777})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, err := p.ReadContext()
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, ok bool, got any) {
		t.Helper()
		if !ok {
			t.Errorf("%s: got %+v", what, got)
		}
	}
	check("parent", c.Parent == Some(ID{4000, 500}), c.Parent)
	check("children", slices.Equal(c.Children, []ID{{4300, 890}, {4301, 900}}), c.Children)
	check("process group", c.ProcessGroup == 4000 && c.Session == 3999, c.ProcessGroup)
	check("tty", c.TTY == Some("pts/3"), c.TTY)
	check("started", c.StartedAt == fs.startedAt(777), c.StartedAt)
	check("cwd", c.Cwd == Some("/srv/a  b"), c.Cwd)
	check("root", c.Root == Some("/var/lib/container"), c.Root)
	check("executable", c.Executable == Some("/usr/bin/tool (deleted)") && c.ExecutableState == ExecutableDeleted, c.ExecutableState)
	check("command line", slices.Equal(c.CommandLine, []string{"tool", "--flag", "", "last"}), c.CommandLine)
	const docker = "/docker/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	check("cgroups", maps.Equal(c.Cgroups, map[string]string{
		"cpu": docker, "cpuacct": docker, "name=systemd": docker, "memory": "/with:colon", CgroupUnified: docker}), c.Cgroups)
	check("container", c.Container == Some("0123456789ab"), c.Container)
	check("namespaces", len(c.Namespaces) == 8 && c.Namespaces["net"] == (Namespace{Inode: 4026531840}) &&
		c.Namespaces["pid_for_children"].Inode == 4026533005, c.Namespaces) // whose "self" would that be
	check("PIDs", slices.Equal(c.NSPIDs, []int32{4242, 17, 1}), c.NSPIDs)
	check("uids", c.UIDs == Some([4]uint32{1000, 1001, 1002, 1003}), c.UIDs)
	check("gids", c.GIDs == Some([4]uint32{100, 101, 102, 103}), c.GIDs)
	check("groups", slices.Equal(c.Groups, []uint32{4, 27, 4294967294}), c.Groups)
	check("capabilities", c.Capabilities == Some(Capabilities{Permitted: 0xa80425fb, Effective: 0x80000, Bounding: 0x1ffffffffff, Ambient: 0x400}), c.Capabilities)
	check("seccomp", c.Seccomp == Some("filter") && c.NoNewPrivs == Some(true), c.Seccomp)
	check("label", c.SecurityLabel == Some("docker-default (enforce)"), c.SecurityLabel)
	check("oom", c.OOMScore == Some[int32](671) && c.OOMScoreAdj == Some[int32](-17), c.OOMScore)
	check("limits", slices.Equal(c.Limits, []Limit{{Name: "Max cpu time", Unit: "seconds"},
		{Name: "Max open files", Unit: "files", Soft: Some[uint64](1024), Hard: Some[uint64](524288)},
		{Name: "Max nice priority", Soft: Some[uint64](0), Hard: Some[uint64](0)}}), c.Limits)
	check("personality", c.Personality == Some[uint64](0xc40000), c.Personality)
	// The link of the executable leads nowhere here.
	check("warnings", len(c.Warnings) == 1 && strings.HasPrefix(c.Warnings[0], "executable_state: "), c.Warnings)
}

func TestReadChildrenCap(t *testing.T) {
	fs, err := Open("testdata/context")
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	p, err := fs.OpenProcess(ID{4242, 777})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for most, warnings := range map[int]int{1: 1, 2: 0} {
		var c Context
		children, err := p.readChildren(&c, most)
		if err != nil || len(children) != most || len(c.Warnings) != warnings {
			t.Errorf("at most %d: %v, %v, warnings %q", most, children, err, c.Warnings)
		}
	}
}

// Every part that is missing is unknown and named.
func TestReadContextMissing(t *testing.T) {
	mount := t.TempDir()
	writeFiles(t, filepath.Join(mount, "4242"), map[string]string{"stat": strings.Replace(statLine(4242, 0, "x"), "34819", "65535", 1)})
	fs, err := Open(mount)
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	p, err := fs.OpenProcess(ID{4242, 777})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, err := p.ReadContext()
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, w := range c.Warnings {
		part, reason, ok := strings.Cut(w, ": ")
		if !ok || reason == "" || strings.Contains(reason, mount) {
			t.Errorf("warning %q", w)
		}
		parts = append(parts, part)
	}
	want := []string{"tty", "cwd", "root", "executable", "command_line", "cgroups", "container", "namespaces", "ns_pids", "uids", "gids",
		"groups", "capabilities", "seccomp", "no_new_privs", "security_label", "oom_score", "oom_score_adj", "limits", "personality"}
	if !slices.Equal(parts, want) {
		t.Errorf("got warnings of %v, want %v", parts, want)
	}
	if c.Children == nil || len(c.Children) != 0 || c.Parent.Known() {
		t.Errorf("children %v, parent %v: looked and found none", c.Children, c.Parent)
	}
	if c.CommandLine != nil || c.Cgroups != nil || c.Namespaces != nil || c.NSPIDs != nil || c.Groups != nil || c.Limits != nil ||
		c.UIDs.Known() || c.Capabilities.Known() || c.OOMScore.Known() || c.Personality.Known() || c.ExecutableState != ExecutableUnreadable {
		t.Errorf("got %+v", c)
	}
}

func TestReadContextLive(t *testing.T) {
	tg := startTarget(t, nil, "idle")
	c, err := openLive(t, tg.pid()).ReadContext()
	if err != nil {
		t.Fatal(err)
	}
	self := openLive(t, int32(os.Getpid()))
	if c.Parent != Some(self.ID()) {
		t.Errorf("parent %v, want %v", c.Parent, self.ID())
	}
	mine, err := self.ReadContext()
	if err != nil || !slices.ContainsFunc(mine.Children, func(id ID) bool { return id.PID == tg.pid() }) {
		t.Errorf("children %v, %v, want %d among them", mine.Children, err, tg.pid())
	}
	for kind, ns := range c.Namespaces {
		if ns.Own != Some(true) {
			t.Errorf("%s: %+v, want our own", kind, ns)
		}
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(c.Limits, func(l Limit) bool { return l.Name == "Max open files" })
	if i < 0 || c.Limits[i].Unit != "files" || c.Limits[i].Hard != Some(limit.Max) && limit.Max != 1<<64-1 {
		t.Errorf("limits %+v, want %d open files", c.Limits, limit.Max)
	}
	if ids, _ := c.UIDs.Get(); ids[0] != uint32(os.Getuid()) || ids[1] != uint32(os.Geteuid()) {
		t.Errorf("uids %v", c.UIDs)
	}
	if groups, _ := os.Getgroups(); len(groups) != len(c.Groups) {
		t.Errorf("groups %v, want %v", c.Groups, groups)
	}
	for _, w := range c.Warnings {
		if !strings.HasPrefix(w, "security_label: ") { // of a kernel without such a module
			t.Errorf("warning %q", w)
		}
	}
}

func TestExecutableState(t *testing.T) {
	text, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, file string
		then       func(path string) error
		link       string // after the path
		state      string
	}{
		{"present", "tool", func(string) error { return nil }, "", ExecutablePresent},
		{"called deleted", "tool (deleted)", func(string) error { return nil }, "", ExecutablePresent},
		{"renamed", "tool", func(path string) error { return os.Rename(path, path+"2") }, "2", ExecutablePresent},
		{"deleted", "tool", os.Remove, " (deleted)", ExecutableDeleted},
		{"replaced", "tool", func(path string) error {
			if err := os.WriteFile(path+"2", nil, 0o755); err != nil {
				return err
			}
			return os.Rename(path+"2", path)
		}, " (deleted)", ExecutableReplaced},
		{"unlinked, with another name", "tool", func(path string) error {
			if err := os.Link(path, path+"2"); err != nil {
				return err
			}
			return os.Remove(path)
		}, " (deleted)", ExecutableDeleted},
		{"directory gone", "in/tool", func(path string) error { return os.RemoveAll(filepath.Dir(path)) }, " (deleted)", ExecutableDeleted},
		{"replaced by a link", "tool", func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Symlink("/bin/sleep", path)
		}, " (deleted)", ExecutableReplaced},
	} {
		path := filepath.Join(t.TempDir(), c.file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o755); err != nil {
			t.Fatal(err)
		}
		p := openLive(t, int32(startProgram(t, path, []string{"sleep", "1000"}, nil).Pid))
		if err := c.then(path); err != nil {
			t.Fatal(err)
		}
		got, err := p.ReadContext()
		if err != nil {
			t.Fatal(err)
		}
		if got.Executable != Some(path+c.link) || got.ExecutableState != c.state {
			t.Errorf("%s: %v is %s, want %s", c.name, got.Executable, got.ExecutableState, c.state)
		}
	}
}

func TestParseCgroups(t *testing.T) {
	for _, c := range []struct {
		text string
		want map[string]string
	}{
		{"0::/\n", map[string]string{CgroupUnified: "/"}},
		{"0::/a (deleted)\n", map[string]string{CgroupUnified: "/a (deleted)"}},
		{"4:cpu,cpuacct:/x\n1:name=systemd:/y\n", map[string]string{"cpu": "/x", "cpuacct": "/x", "name=systemd": "/y"}},
		{"", nil}, {"0:\n", nil}, {"x::/\n", nil}, {"::/\n", nil}, {"0::/\nx\n", nil},
	} {
		got, ok := parseCgroups([]byte(c.text))
		if ok != (c.want != nil) || ok && !maps.Equal(got, c.want) {
			t.Errorf("%q: got %v, %v, want %v", c.text, got, ok, c.want)
		}
	}
}

func TestParseContextStatus(t *testing.T) {
	text, err := os.ReadFile("testdata/context/4242/status")
	if err != nil {
		t.Fatal(err)
	}
	// Older kernels lack lines: what they would say is unknown.
	s, err := parseContextStatus([]byte(strings.NewReplacer("CapAmb:", "X:", "NSpid:", "X:", "Seccomp:\t", "X:\t", "NoNewPrivs:", "X:").Replace(string(text))))
	if err != nil || s.capabilities.Known() || s.nsPIDs != nil || s.seccomp.Known() || s.noNewPrivs.Known() || !s.uids.Known() {
		t.Errorf("got %+v, %v", s, err)
	}
	s, err = parseContextStatus([]byte("Groups:\t \n"))
	if err != nil || s.groups == nil || len(s.groups) != 0 {
		t.Errorf("no groups: %+v, %v", s, err)
	}
	for _, line := range []string{"Uid:\t1 2 3", "Uid:\t1 2 3 4 5", "Uid:\t1 2 3 4294967296", "Gid:\tx 1 2 3", "NSpid:\t4294967296", "NSpid:\t-1",
		"Groups:\tx", "CapEff:\t", "CapEff:\t0000000000000000f", "Seccomp:\t3", "Seccomp:\t", "NoNewPrivs:\t2"} {
		s, err := parseContextStatus([]byte("Name:\tx\n" + line + "\n"))
		var form *ParseError
		if !errors.As(err, &form) || form.Line != 2 || s.uids.Known() || s.groups != nil {
			t.Errorf("%q: got %+v, %v", line, s, err)
		}
	}
}

func TestContextWarnPermission(t *testing.T) {
	var c Context
	c.warn("cwd", nil)
	c.warn("root", &fs.PathError{Op: "read", Path: "/x", Err: syscall.EACCES})
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "CAP_SYS_PTRACE") || strings.Contains(c.Warnings[0], "/x") {
		t.Errorf("got %q", c.Warnings)
	}
}

func FuzzContextStatus(f *testing.F) {
	text, err := os.ReadFile("testdata/context/4242/status")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseContextStatus(text)
		if err != nil && (s.uids.Known() || s.gids.Known() || s.groups != nil || s.nsPIDs != nil || s.capabilities.Known() || s.seccomp.Known() || s.noNewPrivs.Known()) {
			t.Errorf("%+v with %v", s, err)
		}
		if len(s.groups) > len(text) || len(s.nsPIDs) > len(text) {
			t.Errorf("%d groups of %d bytes", len(s.groups), len(text))
		}
	})
}

func FuzzCgroups(f *testing.F) {
	f.Add([]byte("4:cpu,cpuacct:/x\n0::/y\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if all, ok := parseCgroups(text); !ok && all != nil && len(all) != 0 || len(all) > len(text) {
			t.Errorf("got %v, %v", all, ok)
		}
	})
}
