package proc

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func init() {
	targets["setuid"] = targetSetuid
}

// targetSetuid has three user ids.
func targetSetuid([]string) {
	must(syscall.Setresuid(1000, 1001, 1002))
	fact("UID", os.Getuid())
}

func TestBothWaysToTheUserAgree(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: starts a process of another user")
	}
	fs := live(t)
	var q ids
	q.probe(fs)
	if !q.pidfd {
		var info unix.PidfdInfo
		fd, err := unix.PidfdOpen(os.Getpid(), 0)
		if err == nil {
			err = unix.IoctlPidfdInfo(fd, &info)
			unix.Close(fd)
		}
		if err == nil {
			t.Fatal("the kernel has PIDFD_GET_INFO, the probe does not find it")
		}
		t.Skipf("needs PIDFD_GET_INFO, Linux 6.13: %v", err)
	}
	tg := startTarget(t, nil, "setuid")
	asked, printed := fs.NewScanner(), fs.NewScanner()
	printed.reader.ids.never = true
	byText := map[ID]Row{}
	for _, row := range scan(t, printed, Want{}) {
		byText[row.ID] = row
	}
	if printed.reader.ids.pidfd {
		t.Fatal("both scanners ask")
	}
	same := 0
	for _, row := range scan(t, asked, Want{}) {
		want, ok := byText[row.ID]
		if !ok {
			continue // started meanwhile
		}
		if row.UID != want.UID || row.EUID != want.EUID {
			t.Errorf("%v: ids %d and %d, status says %d and %d", row.ID, row.UID, row.EUID, want.UID, want.EUID)
		}
		if int(row.ID.PID) == tg.cmd.Process.Pid {
			if row.UID != 1000 || row.EUID != 1001 {
				t.Errorf("ids %d and %d, want 1000 and 1001", row.UID, row.EUID)
			}
			same++
		}
	}
	if same != 1 {
		t.Error("the target is not in both scans")
	}
	if _, _, err := q.ask(1 << 30); err == nil {
		t.Error("there is a process 1073741824")
	}
}

func TestAnotherNumberingIsNotAsked(t *testing.T) {
	var q ids
	q.probe(openFixture(t, "setuid"))
	if q.pidfd {
		t.Error("a fixture's processes are asked for")
	}
	// A procfs of another PID namespace: self has another number, or none.
	for _, self := range []string{"1", strconv.Itoa(os.Getpid() + 1), "none"} {
		dir := copyFixture(t, "setuid")
		if err := os.Symlink(self, filepath.Join(dir, "self")); err != nil {
			t.Fatal(err)
		}
		if q.probe(openTree(t, dir)); q.pidfd {
			t.Errorf("self is %q and the numbers are trusted", self)
		}
	}
}
