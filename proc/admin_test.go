package proc

import (
	"os"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// What needs CAP_SYS_ADMIN goes through SetAdmin, and only that.
func TestSetAdmin(t *testing.T) {
	files, err := Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	calls, changed := 0, 0
	files.SetAdmin(func(f func() bool) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		calls++
		if !f() {
			changed++
		}
	})
	id, _, err := files.Identify(int32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	p, err := files.OpenProcess(id)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := files.NewScanner().Scan(Want{}); err != nil {
		t.Fatal(err)
	}
	if calls != 0 {
		t.Errorf("%d calls before anything needed it", calls)
	}
	if _, err := p.ReadWait(id.PID); err != nil || calls != 1 {
		t.Errorf("a kernel stack: %v, %d calls", err, calls)
	}
	ns, err := unix.Open("/proc/"+strconv.Itoa(os.Getpid())+"/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ns)
	c, err := files.diagIn(ns, nil)
	if err != nil || calls != 2 || changed != 0 {
		t.Fatalf("a socket: %v, %d calls, %d threads changed", err, calls, changed)
	}
	c.Close()
}
