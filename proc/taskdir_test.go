package proc

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOpenTasks(t *testing.T) {
	fs := live(t)
	p, err := fs.OpenProcess(idOf(t, fs, os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	fd, err := p.OpenTasks()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	if st.Nlink < 3 {
		t.Errorf("links: got %d, want two more than there are threads", st.Nlink)
	}
	if err := unix.Faccessat(fd, strconv.Itoa(os.Getpid())+"/stat", unix.F_OK, 0); err != nil {
		t.Errorf("stat of the main thread: %v", err)
	}
}
