package watch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

// childFile names the file that the target "map" is to map.
const childFile = "PROCINSH_WATCH_FILE"

// mapFile maps a file and says how that went.
func mapFile(path string) {
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err == nil {
		_, err = unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE)
	}
	fmt.Fprintln(os.Stderr, "mapped:", err)
}

// hungFiles is a FUSE file system of one file, x, that answers no reading of it. Who opens
// it for the second time waits in mmap for the first reading to end, with its mmap lock
// held: the pages of that are to be dropped, and are locked.
type hungFiles struct {
	dev   *os.File
	dir   string
	asked chan struct{} // closed when somebody reads the file
	cmd   []*exec.Cmd
}

// mountHung mounts it where only this thread and its children see it.
func mountHung(t *testing.T) *hungFiles {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		if known, _ := os.ReadFile("/proc/filesystems"); os.Geteuid() == 0 && strings.Contains(string(known), "\tfuse\n") {
			t.Fatalf("this is root, and a kernel with FUSE: %v", err)
		}
		t.Skip("not root, or a kernel without FUSE: ", err)
	}
	h := &hungFiles{dir: t.TempDir(), asked: make(chan struct{})}
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		unix.Close(fd)
		if os.Geteuid() == 0 {
			t.Fatalf("no mount namespace, though this is root: %v", err)
		}
		t.Skip("needs CAP_SYS_ADMIN: ", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)
	if err := unix.Mount("none", h.dir, "fuse", 0, options); err != nil {
		t.Fatal(err)
	}
	h.dev = os.NewFile(uintptr(fd), "/dev/fuse") // can be polled from now on
	go h.serve()
	return h
}

// serve answers until the file system is aborted.
func (h *hungFiles) serve() {
	const (
		lookup, forget, getattr, open, read, release, flush, initialize, interrupt, batchForget = 1, 2, 3, 14, 15, 18, 25, 26, 36, 42
		directIO, keepCache                                                                     = 1, 2
	)
	le := binary.LittleEndian
	attributes := func(b []byte, node uint64) {
		le.PutUint64(b, node)
		mode := uint32(unix.S_IFDIR | 0o755)
		if node != 1 {
			mode = unix.S_IFREG | 0o755
			le.PutUint64(b[8:], 1<<20)
		}
		le.PutUint32(b[60:], mode)
		le.PutUint32(b[64:], 1)
		le.PutUint32(b[80:], 4096)
	}
	opened, reads := 0, 0
	in := make([]byte, 1<<20)
	for {
		n, err := h.dev.Read(in)
		if errors.Is(err, unix.ENOENT) {
			continue // taken back
		}
		if err != nil || n < 40 {
			return
		}
		out := make([]byte, 16, 256)
		switch op := le.Uint32(in[4:]); op {
		case initialize:
			out = out[:16+64]
			le.PutUint32(out[16:], 7)
			le.PutUint32(out[20:], 31)
			le.PutUint32(out[36:], 4096) // max_write
		case lookup:
			out = out[:16+128]
			le.PutUint64(out[16:], 2)
			le.PutUint64(out[32:], 3600)
			le.PutUint64(out[40:], 3600)
			attributes(out[56:], 2)
		case getattr:
			out = out[:16+104]
			le.PutUint64(out[16:], 3600)
			attributes(out[32:], le.Uint64(in[16:]))
		case open:
			out = out[:16+16]
			if opened++; opened > 1 {
				le.PutUint32(out[24:], directIO|keepCache)
			}
		case release, flush:
		case read:
			if reads++; reads == 1 {
				close(h.asked)
			}
			continue
		case forget, interrupt, batchForget:
			continue
		default:
			le.PutUint32(out[4:], ^uint32(unix.ENOSYS)+1)
		}
		le.PutUint32(out, uint32(len(out)))
		copy(out[8:16], in[8:16])
		h.dev.Write(out)
	}
}

// start starts a program that will hang.
func (h *hungFiles) start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h.cmd = append(h.cmd, cmd)
}

// end aborts the file system, and ends everything that hung on it.
func (h *hungFiles) end() {
	h.dev.Close()
	for _, c := range h.cmd {
		c.Process.Kill()
		c.Wait()
	}
	h.cmd = nil
	unix.Unmount(h.dir, unix.MNT_DETACH)
}

// A process that holds its mmap lock for ever holds neither the list nor its end: that process
// is shown without a summary, the others have theirs, and the source says why it is text.
func TestListGivesUpAHeldWalk(t *testing.T) {
	fs := openFS(t, "/proc")
	if r, err := OpenMappingTables(fs); err == nil {
		r.Close()
	} else if _, noTypes := os.Stat("/sys/kernel/btf/vmlinux"); noTypes == nil && os.Geteuid() == 0 {
		t.Fatal(err)
	} else {
		t.Skip("not root, or a kernel without BTF: ", err)
	}
	h := mountHung(t)
	defer h.end()
	file := filepath.Join(h.dir, "x")
	h.start(t, exec.Command("cat", file))
	select {
	case <-h.asked:
	case <-time.After(30 * time.Second):
		t.Fatal("the file is not read within 30 s")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	holder := exec.Command(self)
	holder.Env = append(os.Environ(), childEnv+"=map", childFile+"="+file)
	h.start(t, holder)
	for deadline := time.Now().Add(30 * time.Second); !waits(holder.Process.Pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no thread hangs in mmap within 30 s")
		}
	}

	check := checkLeaks(t)
	l := NewList(fs, ListOptions{Tables: true})
	v := subscribe(t, l, ListWant{Maps: true})
	s := next(t, v).State
	source := l.MapsSource()
	if source.Tables || source.Reason != errHeldWalk.Error() {
		t.Errorf("maps are said to come from %+v", source)
	}
	summaries := 0
	for i := range s.Rows {
		r := &s.Rows[i]
		if r.Maps != nil {
			summaries++
		}
		if int(r.ID.PID) == holder.Process.Pid && (r.Maps != nil || !errors.Is(r.MapsErr, proc.ErrHeld)) {
			t.Errorf("the process that holds it: %+v, %v", r.Maps, r.MapsErr)
		}
	}
	if summaries < len(s.Rows)/2 {
		t.Errorf("%d of %d processes have a summary", summaries, len(s.Rows))
	}
	v.Close()
	began := time.Now()
	l.Close()
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("closing took %v", took)
	}
	h.end()
	check() // whoever was held comes back
}

// waits tells whether a thread of the process sleeps where no signal wakes it.
func waits(pid int) bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return slices.ContainsFunc(tasks, func(path string) bool {
		b, _ := os.ReadFile(path)
		return bytes.HasPrefix(b[bytes.LastIndexByte(b, ')')+1:], []byte(" D "))
	})
}
