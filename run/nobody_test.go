package run

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// All of it works for a user without any right and without a cgroup of its own, by marks.
func TestAsNobody(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: becomes another user; this is one already")
	}
	dir, err := os.MkdirTemp("", "procinsh-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for _, p := range []string{dir, filepath.Join(dir, "tmp")} {
		if err := os.MkdirAll(p, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	// Where go test keeps the program only root may enter.
	program := filepath.Join(dir, "run.test")
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	cmd := exec.Command(program, "-test.count=1", "-test.v", "-test.run",
		"^Test(LeftBehind|StopIsWhole|Daemons|Timeouts|Terminal|OutputIsWhole|ManyRuns|Storm|StaleProcess|Replace|OneEnd|FirstReason|StopBehind|Ports|Refused|ForcedDelete|Waited|Take|Memberships)$")
	cmd.Env = append(os.Environ(), "HOME=/", "TMPDIR="+filepath.Join(dir, "tmp"))
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as user %d: %v\n%s", nobody, err, out)
	}
}
