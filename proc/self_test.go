package proc

import (
	"os"
	"testing"

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
