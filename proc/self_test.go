package proc

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestSelf(t *testing.T) {
	fs := live(t)
	id, device, err := fs.Self()
	var st unix.Stat_t
	if err2 := unix.Stat("/proc/1/stat", &st); err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	if id != idOf(t, fs, os.Getpid()) || device != st.Dev {
		t.Errorf("got %v on device %d, want %v on %d", id, device, idOf(t, fs, os.Getpid()), st.Dev)
	}
	if id, device, err := openTree(t, t.TempDir()).Self(); err == nil || id != (ID{}) || device != 0 {
		t.Errorf("without a stat of its own: %v, %d, %v", id, device, err)
	}
}

func TestOwnUsage(t *testing.T) {
	fs := live(t)
	before, err := fs.OwnUsage()
	if err != nil {
		t.Fatal(err)
	}
	if before.RSS == 0 || before.VMS < before.RSS || before.Threads < 1 || before.FDs < 3 || before.StartedAt <= 0 || before.StartedAt > time.Now().UnixMilli() {
		t.Errorf("got %+v", before)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	after, err := fs.OwnUsage()
	if err != nil || after.FDs != before.FDs+1 || after.CPUTicks < before.CPUTicks || after.MaxFDs.Or(1<<40) < uint64(after.FDs) {
		t.Errorf("with one descriptor more: %+v, %v, before %+v", after, err, before)
	}
	if u, err := openTree(t, t.TempDir()).OwnUsage(); err == nil || u != (Usage{}) {
		t.Errorf("without files of its own: %+v, %v", u, err)
	}
}
