package proc

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func openedText(t *testing.T, f *os.File, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func filesOf(t *testing.T, p *Process) *Files {
	t.Helper()
	files, err := p.fs.OpenFiles(p.ID())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	return files
}

// The target maps one file of each kind; its text is the name of the kind.
func init() {
	targets["mapper"] = func(args []string) {
		dir := args[0]
		page := func(text string) []byte { return append([]byte(text), make([]byte, 4096-len(text))...) }
		mapped := func(kind string, fd int) {
			b := must2(unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE))
			fact(kind, fmt.Sprintf("%p", &b[0]))
		}
		for _, kind := range []string{"present", "deleted", "replaced", "moved (deleted)"} {
			path := filepath.Join(dir, kind)
			must(os.WriteFile(path, page(kind), 0o600))
			f := must2(os.Open(path))
			mapped(strings.Fields(kind)[0], int(f.Fd()))
		}
		must(os.Remove(filepath.Join(dir, "deleted")))
		must(os.Remove(filepath.Join(dir, "replaced")))
		must(os.WriteFile(filepath.Join(dir, "replaced"), page("another"), 0o600))
		fd := must2(unix.MemfdCreate("a memfd", 0))
		must2(unix.Write(fd, page("memfd")))
		mapped("memfd", fd)
		b := must2(unix.Mmap(-1, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON))
		fact("anonymous", fmt.Sprintf("%p", &b[0]))
		zero := must2(os.OpenFile("/dev/zero", os.O_RDWR, 0))
		mapped("device", int(zero.Fd()))
	}
}

func TestOpenMapping(t *testing.T) {
	needRoot(t)
	tg := startTarget(t, nil, "mapper", t.TempDir())
	p := openLive(t, tg.pid())
	maps, err := p.ReadMaps(nil)
	if err != nil {
		t.Fatal(err)
	}
	files := filesOf(t, p)
	for _, tt := range []struct {
		kind, text string
		err        error
	}{
		{"present", "present", nil}, {"deleted", "deleted", nil}, {"replaced", "replaced", nil}, {"moved", "moved (deleted)", nil},
		{"memfd", "memfd", nil}, {"anonymous", "", fs.ErrNotExist}, {"device", "", ErrNotRegular},
	} {
		start, err := strconv.ParseUint(tg.facts[tt.kind], 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range maps {
			if m.Start != start {
				continue
			}
			f, err := files.OpenMapping(m)
			if tt.err != nil {
				if !errors.Is(err, tt.err) || f != nil {
					t.Errorf("%s: got %v, want %v", tt.kind, err, tt.err)
				}
				continue
			}
			if text := strings.TrimRight(openedText(t, f, err), "\x00"); text != tt.text {
				t.Errorf("%s: opened %q", tt.kind, text)
			}
			// Without map_files only a path that still leads to the file serves.
			files.look()
			m.End += 4096 // no such link
			f, err = files.OpenMapping(m)
			if reachable := tt.kind == "present" || tt.kind == "moved"; (err == nil) != reachable {
				t.Errorf("%s by path: %v", tt.kind, err)
			}
			if err == nil {
				f.Close()
			}
		}
	}
}

// A process in a mount namespace of its own has another file at the same path.
func TestFilesOfMountNamespace(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("host"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`mount --make-rprivate / && mount -t tmpfs t %[1]s && printf inside >%[1]s/f && ln -s f %[1]s/link &&
		ln -s /%[1]s/../../../../../../../../%[1]s/f %[1]s/far && ln -s loop %[1]s/loop && mkfifo %[1]s/fifo && mkdir %[1]s/fuse &&
		mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 none %[1]s/fuse && echo READY && read x`, dir)
	cmd := exec.Command("unshare", "--mount", "sh", "-c", script)
	// A FUSE file system that answers no request.
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no /dev/fuse: ", err)
	}
	defer fuse.Close()
	cmd.ExtraFiles = []*os.File{fuse}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer stdin.Close()
	if _, err := io.ReadFull(stdout, make([]byte, 6)); err != nil {
		t.Fatal("the namespace could not be made")
	}
	files := filesOf(t, openLive(t, int32(cmd.Process.Pid)))
	own, err := files.p.fs.OwnFiles()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if again := filesOf(t, own.p); !own.SameRoot(again) || own.SameRoot(files) || files.SameRoot(own) {
		t.Error("roots: its own must be the same, that of another mount namespace must not")
	}
	f, err := own.Open(path)
	if got := openedText(t, f, err); got != "host" {
		t.Errorf("own root: %q", got)
	}
	for _, name := range []string{"f", "link", "far", "../" + filepath.Base(dir) + "/./f"} {
		f, err := files.Open(dir + "/" + name)
		if got := openedText(t, f, err); got != "inside" {
			t.Errorf("%s: %q", name, got)
		}
	}
	for name, want := range map[string]error{
		dir + "/none": fs.ErrNotExist, dir + "/loop": unix.ELOOP, dir + "/fifo": ErrNotRegular, dir + "/fuse/x": ErrServed, dir + "/fuse": ErrServed, dir: ErrNotRegular, "/": ErrNotRegular,
		"relative": unix.EINVAL, "": unix.EINVAL, dir + "/f/x": unix.ENOTDIR, "/" + strings.Repeat("a/", 300): unix.ENAMETOOLONG,
	} {
		if name == "/"+strings.Repeat("a/", 300) {
			if _, err := files.Open(name); err == nil {
				t.Error("a path of 300 parts was opened")
			}
			continue
		}
		if _, err := files.Open(name); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", name, err, want)
		}
	}
}

func TestOpenPerfMap(t *testing.T) {
	needRoot(t)
	tg := startTarget(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}, "waits")
	files := filesOf(t, openLive(t, tg.pid()))
	path := fmt.Sprintf("/tmp/perf-%d.map", tg.pid())
	if _, err := files.OpenPerfMap(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no map: %v", err)
	}
	defer os.Remove(path)
	if err := os.WriteFile(path, []byte("1000 10 f\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		uid int
		ok  bool
	}{{0, true}, {65534, true}, {1234, false}} {
		if err := os.Chown(path, tt.uid, tt.uid); err != nil {
			t.Fatal(err)
		}
		f, err := files.OpenPerfMap()
		if tt.ok {
			if got := openedText(t, f, err); got != "1000 10 f\n" {
				t.Errorf("of user %d: %q", tt.uid, got)
			}
		} else if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("of user %d: %v, want no permission", tt.uid, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", path); err != nil {
		t.Fatal(err)
	}
	if f, err := files.OpenPerfMap(); !errors.Is(err, unix.ELOOP) || f != nil {
		t.Errorf("a symbolic link: %v", err)
	}
	os.Remove(path)
	if err := unix.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := files.OpenPerfMap(); done <- err }()
	select {
	case err := <-done:
		if !errors.Is(err, ErrNotRegular) {
			t.Errorf("a FIFO: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("a FIFO was waited for")
	}
}

func TestServedDevices(t *testing.T) {
	backing := t.TempDir()
	for _, name := range []string{"0:70-fuse", "8:17-fuseblk", "0:71", "8:1", "btrfs-1"} {
		if err := os.Mkdir(filepath.Join(backing, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	table := mountTable{backing: backing}
	table.add([]byte(`22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
24 22 0:22 / /home rw - fuse.sshfs a@b:/ rw
25 22 0:23 / /mnt ro master:2 - nfs4 host:/x rw,vers=4.2
27 22 8:1 / /win rw - fuseblk /dev/sda1 rw
28 22 0:25 / /tmp rw - tmpfs tmpfs rw
29 22 x:y / /tmp rw - tmpfs tmpfs rw
broken
`))
	for _, tt := range []struct {
		major, minor uint32
		served       bool
		why          string
	}{
		{254, 0, false, "ext4"}, {0, 22, true, "sshfs"}, {0, 23, true, "nfs"}, {8, 1, true, "ntfs-3g"}, {0, 25, false, "tmpfs"},
		{0, 70, true, "FUSE that was unmounted"}, {8, 17, true, "a FUSE disk that was unmounted"}, {0, 71, true, "NFS that was unmounted"},
		{0, 99, false, "a subvolume of btrfs"}, {8, 99, false, "a disk that was unmounted"},
	} {
		if got := table.served(tt.major, tt.minor); got != tt.served {
			t.Errorf("%d:%d, %s: served %v", tt.major, tt.minor, tt.why, got)
		}
	}
	blind := mountTable{backing: filepath.Join(backing, "none")}
	var st unix.Stat_t
	fd, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	if !blind.served(0, 9999) || blind.served(unix.Major(st.Dev), unix.Minor(st.Dev)) {
		t.Error("without /sys a device that no mount names must be taken for served, that of memfds not")
	}
}

func TestWalkKeepsAwayFromServed(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/mnt/x", 0o700); err != nil {
		t.Fatal(err)
	}
	for path, to := range map[string]string{"/link": "mnt/f", "/up": "mnt2/../mnt/f", "/out": "/../../../../mnt2/f"} {
		if err := os.Symlink(to, dir+path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir+"/mnt2", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"/mnt/f", "/mnt2/f"} {
		if err := os.WriteFile(dir+f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	for path, want := range map[string]error{"/mnt/f": ErrServed, "/mnt/x": ErrServed, "/link": ErrServed, "/up": ErrServed, "/mnt2/f": nil, "/mnt2/../mnt2/f": nil, "/out": nil, "/../mnt2/f": nil} {
		fd, err := walk(root, []string{"/mnt"}, path, allLinks)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		if err == nil {
			unix.Close(fd)
		}
	}
	for path, rule := range map[string]linkRule{"/link": dirLinks, "/out": noLinks} {
		if _, err := walk(root, nil, path, rule); err != unix.ELOOP {
			t.Errorf("%s by rule %d: %v, want ELOOP", path, rule, err)
		}
	}
}

func FuzzMountTable(f *testing.F) {
	f.Add([]byte("24 22 0:22 / /home/a\\040b rw - fuse.sshfs a@b:/ rw\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var table mountTable
		table.add(text)
		if len(table.kinds) > strings.Count(string(text), "\n")+1 {
			t.Errorf("%d devices from %q", len(table.kinds), text)
		}
	})
}
