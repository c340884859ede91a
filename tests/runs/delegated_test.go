package runs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"procinsh/api"
)

// delegate makes a cgroup below this process's own that belongs to a user, as a scope of
// systemd with Delegate=yes does, and returns its directory.
func delegate(t *testing.T, uid int) string {
	t.Helper()
	c := start(t, 0, "--runs").capabilities()
	if c.CgroupRoot == nil {
		t.Fatalf("root has no cgroup here: %s", c.Reason)
	}
	dir, err := os.MkdirTemp(filepath.Dir(*c.CgroupRoot), "test-delegated-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wait(t, "the delegated cgroup to be empty", func() bool { return os.Remove(dir) == nil }) })
	for _, name := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
		if err := os.Chown(filepath.Join(dir, name), uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A user whose server was started in a cgroup of his own has runs with cgroups.
func TestDelegated(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: gives another user a cgroup")
	}
	dir := delegate(t, nobody)
	group, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	s := startWith(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, UseCgroupFD: true, CgroupFD: int(group.Fd())}, "--runs", "--no-auth", "--run-user", "65534")
	if c := s.capabilities(); c.Birth != "cgroup" || c.Confidence != "high" || c.CgroupRoot == nil || !strings.HasPrefix(*c.CgroupRoot, dir+"/") {
		t.Fatalf("capabilities %+v", c)
	}
	s.create(api.RunRequest{ID: "own", Command: ptr("(setsid sleep 6117 &); exec sleep 6118")})
	wait(t, "both", func() bool { r := s.get("own", ""); return r.Members != nil && *r.Members == 2 })
	if r := s.get("own", ""); r.Confidence != "high" || r.User == nil || *r.User != "nobody" {
		t.Errorf("got %+v", r)
	}
	var st api.RunStopped
	if status, code := s.do("POST", "/api/runs/own/stop", nil, &st); status != 200 || st.Stopped != 2 {
		t.Errorf("stop: %d %s, %+v", status, code, st)
	}
}

// A user without the right to make a cgroup gets one from his systemd.
func TestScope(t *testing.T) {
	const manager = "/lib/systemd/systemd"
	if os.Geteuid() != 0 {
		t.Skip("needs root: starts the systemd of another user")
	}
	for _, program := range []string{manager, "systemd-run", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("not installed: %v", err)
		}
	}
	dir := delegate(t, nobody)
	session := filepath.Join(dir, "session") // root's: the user can make nothing in it
	if err := os.Mkdir(session, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0); err != nil {
			t.Error(err)
		}
		wait(t, "the cgroups of systemd to be empty", func() bool {
			below := 0
			filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				if err == nil && d.IsDir() && path != dir {
					below++
					os.Remove(path) // what holds others: the next time
				}
				return nil
			})
			return below == 0
		})
	})
	home, err := os.MkdirTemp("", "procinsh-scope-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	for _, d := range []string{home, home + "/run", home + "/units"} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(d, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(home+"/units/none.target", []byte("[Unit]\nDescription=nothing\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	group, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	// It runs only where a systemd has booted the host, which /run tells; here nothing but
	// this one sees that.
	systemd := exec.Command("unshare", "-m", "sh", "-c", "mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec setpriv --reuid 65534 --regid 65534 --clear-groups "+
		manager+" --user --unit=none.target --log-target=console")
	systemd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_RUNTIME_DIR=" + home + "/run", "SYSTEMD_UNIT_PATH=" + home + "/units"}
	systemd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	var said text
	systemd.Stdout, systemd.Stderr = &said, &said
	if err := systemd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		systemd.Process.Kill()
		systemd.Wait() // killed
	}()
	wait(t, "systemd", func() bool { _, err := os.Stat(home + "/run/systemd/private"); return err == nil })

	inside, err := os.Open(session)
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	t.Setenv("XDG_RUNTIME_DIR", home+"/run")
	s := startWith(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, UseCgroupFD: true, CgroupFD: int(inside.Fd())}, "--runs", "--no-auth", "--run-user", "65534")
	c := s.capabilities()
	if c.Confidence != "high" || c.CgroupRoot == nil || !strings.Contains(*c.CgroupRoot, ".scope/procinsh-") {
		t.Fatalf("capabilities %+v\n%s\n%s", c, s.log.String(), said.String())
	}
	s.create(api.RunRequest{ID: "scope", Command: ptr("(setsid sleep 6119 &); exec sleep 6120")})
	wait(t, "both", func() bool { r := s.get("scope", ""); return r.Members != nil && *r.Members == 2 })
	// The next helper is in the same scope and finds what the dead one left.
	if err := syscall.Kill(c.HelperPID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, "another helper", func() bool { return strings.Contains(s.log.String(), "another helper is ready") })
	if r := s.get("scope", ""); !r.Adopted || r.Confidence != "high" {
		t.Errorf("got %+v", r)
	}
	var st api.RunStopped
	if status, code := s.do("POST", "/api/runs/scope/stop", nil, &st); status != 200 || st.Stopped != 2 {
		t.Errorf("stop: %d %s, %+v", status, code, st)
	}
}
