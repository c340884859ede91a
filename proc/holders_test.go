package proc

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// heldBy looks for holders and writes those of some processes as
// "PID/FD relation access" and, of a file, whether it is deleted.
func heldBy(t *testing.T, q Sought, pids ...int32) ([]string, *Holders) {
	t.Helper()
	mount := live(t)
	h, err := mount.NewDescriptorScanner().FindHolders(q)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range h.PIDs {
		if uses, err := mount.FindUses(pid, h.File); err == nil {
			h.Add(uses)
		} else if slices.Contains(pids, pid) {
			t.Fatal(err)
		}
	}
	h.Finish()
	list := []string{}
	for _, x := range h.List {
		if !slices.Contains(pids, x.ID.PID) {
			continue
		}
		if x.ID.StartTicks == 0 || x.Name == "" {
			t.Errorf("nobody: %+v", x)
		}
		fd := "-"
		if n, ok := x.FD.Get(); ok {
			fd = strconv.Itoa(int(n))
		}
		text := fmt.Sprintf("%d/%s %s %s", x.ID.PID, fd, x.Relation, x.Access.Or("?"))
		if gone, ok := x.Deleted.Get(); ok && gone {
			text += " deleted"
		}
		list = append(list, text)
	}
	return list, h
}

func wantHeld(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func init() {
	// map-file PATH: maps it, then keeps no descriptor of it; its directory is the
	// working directory.
	targets["map-file"] = func(args []string) {
		fd := must2(unix.Open(args[0], unix.O_RDWR|unix.O_CLOEXEC, 0))
		m := must2(unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED))
		must(unix.Close(fd))
		must(unix.Chdir(filepath.Dir(args[0])))
		keepMapped = m
	}
}

var keepMapped []byte

// A port in two network namespaces: listener and connections of both, told apart.
func TestHoldersOfPort(t *testing.T) {
	needRoot(t)
	l := listenTCP(t, "127.0.0.1:0")
	defer l.Close()
	listener := check2[*os.File](t)(l.(*net.TCPListener).File())
	defer listener.Close()
	port := l.Addr().(*net.TCPAddr).Port
	client := check2[net.Conn](t)(net.Dial("tcp", l.Addr().String()))
	defer client.Close()
	accepted := check2[net.Conn](t)(l.Accept())
	server := check2[*os.File](t)(accepted.(*net.TCPConn).File())
	defer server.Close()
	accepted.Close()
	_, other := freePorts(t)
	far := startTarget(t, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}, "tcp-pair", strconv.Itoa(port), other)
	tg := startTargetWith(t, nil, []*os.File{listener, server}, "hold")

	_, h := heldBy(t, Sought{Port: uint16(port)})
	got := map[string]Holder{}
	for _, x := range h.List {
		fd, _ := x.FD.Get()
		got[fmt.Sprintf("%d/%d", x.ID.PID, fd)] = x
	}
	here, there := namespaceInode(t, os.Getpid()), namespaceInode(t, int(far.pid()))
	if here == there {
		t.Fatal("both are in one network namespace")
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	for key, want := range map[string]struct {
		state, remote string
		namespace     uint64
	}{
		fmt.Sprintf("%d/3", tg.pid()):                            {"LISTEN", "?", here},
		fmt.Sprintf("%d/4", tg.pid()):                            {"ESTABLISHED", client.LocalAddr().String(), here},
		fmt.Sprintf("%d/%d", os.Getpid(), listener.Fd()):         {"LISTEN", "?", here},
		fmt.Sprintf("%d/%d", far.pid(), far.fact("ACCEPTED_FD")): {"ESTABLISHED", "127.0.0.1:" + other, there},
	} {
		x, ok := got[key]
		if !ok {
			t.Errorf("%s is missing in %v; warnings %q", key, got, h.Warnings)
			continue
		}
		if x.Socket == nil || x.Socket.State != Some(want.state) || x.Socket.Local != Some(address) || x.Socket.Remote.Or("?") != want.remote ||
			x.Namespace != Some(want.namespace) || x.Access != Some(AccessReadWrite) || x.Deleted.Known() || x.Path.Known() {
			t.Errorf("%s: got %+v %+v, want %+v", key, x, x.Socket, want)
		}
	}
	// The client's local port is another one.
	for key := range got {
		if fd, _ := strings.CutPrefix(key, fmt.Sprintf("%d/", far.pid())); fd == strconv.Itoa(far.fact("CLIENT_FD")) {
			t.Errorf("the client's end is among %v", got)
		}
	}
	udp := check2[net.PacketConn](t)(net.ListenPacket("udp", "127.0.0.1:0"))
	defer udp.Close()
	_, h = heldBy(t, Sought{Port: uint16(udp.LocalAddr().(*net.UDPAddr).Port)})
	found := false
	for _, x := range h.List {
		found = found || x.ID.PID == int32(os.Getpid()) && x.Socket.Protocol == Some(ProtocolUDP) && x.Socket.State == Some("UNCONNECTED")
	}
	if !found {
		t.Errorf("UDP: got %+v", h.List)
	}
}

func namespaceInode(t *testing.T, pid int) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

// A socket by its inode: of TCP, of a UNIX pair, and one that is in no table.
func TestHoldersOfSocket(t *testing.T) {
	server, client := tcpPair(t, "127.0.0.1:0", "127.0.0.1")
	_, theirs := pairFiles(t, unix.SOCK_STREAM)
	unbound := file(t, check2[int](t)(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)))
	tg := startTargetWith(t, nil, []*os.File{server, theirs, unbound}, "hold")
	self := int32(os.Getpid())
	for _, c := range []struct {
		file            *os.File
		fd              int
		protocol, state string
	}{
		{server, 3, ProtocolTCP, "ESTABLISHED"}, {theirs, 4, ProtocolUnixStream, "ESTABLISHED"}, {unbound, 5, ProtocolTCP, "?"},
	} {
		got, h := heldBy(t, Sought{Socket: inode(t, c.file)}, self, tg.pid())
		want := []string{fmt.Sprintf("%d/%d same_object read/write", self, c.file.Fd()), fmt.Sprintf("%d/%d same_object read/write", tg.pid(), c.fd)}
		slices.SortFunc(want, func(a, b string) int { return pidOf(a) - pidOf(b) })
		wantHeld(t, c.protocol, got, want...)
		for _, x := range h.List {
			if x.Socket == nil || x.Socket.Protocol != Some(c.protocol) || x.Socket.State.Or("?") != c.state || x.Namespace.Known() != (c.state != "?") {
				t.Errorf("%s: got %+v %+v", c.protocol, x, x.Socket)
			}
		}
	}
	if _, h := heldBy(t, Sought{Socket: 1<<64 - 1}); len(h.List) > 0 {
		t.Errorf("got %+v", h.List)
	}
	client.Close()
}

func pidOf(text string) int {
	pid, _, _ := strings.Cut(text, "/")
	n, _ := strconv.Atoi(pid)
	return n
}

// Files with names that look like something else.
func TestHoldersOfFile(t *testing.T) {
	// The working directory of the target has to be another one than this one.
	dir := check2[string](t)(filepath.EvalSymlinks(t.TempDir()))
	for _, name := range []string{"plain", "two  blanks ", "line\nbreak", `back\012slash`, "x (deleted)", "\xff\xfe", "socket:[1]"} {
		t.Run(strconv.Quote(name), func(t *testing.T) {
			path := filepath.Join(dir, name)
			write := check2[*os.File](t)(os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600))
			defer write.Close()
			if err := write.Truncate(4096); err != nil {
				t.Fatal(err)
			}
			read := check2[*os.File](t)(os.Open(path))
			defer read.Close()
			tg := startTargetWith(t, nil, []*os.File{read, write}, "map-file", path)
			pid := tg.pid()
			want := []string{fmt.Sprintf("%d/3 same_object read", pid), fmt.Sprintf("%d/4 same_object write", pid), fmt.Sprintf("%d/- mapping read/write", pid)}
			got, h := heldBy(t, Sought{Path: path}, pid)
			wantHeld(t, "by path", got, want...)
			for _, x := range h.List {
				if x.ID.PID == pid && (x.Path != Some(path) || x.Socket != nil) {
					t.Errorf("the path is %q", x.Path.Or(""))
				}
			}
			link := filepath.Join(dir, "link")
			if err := os.Symlink(name, link); err != nil {
				t.Fatal(err)
			}
			defer os.Remove(link)
			hard := filepath.Join(dir, "hard")
			if err := os.Link(path, hard); err != nil {
				t.Fatal(err)
			}
			for _, other := range []string{link, hard, dir + "/./../" + filepath.Base(dir) + "//" + name} {
				got, _ = heldBy(t, Sought{Path: other}, pid)
				wantHeld(t, "by another name", got, want...)
			}
			// Without its name, which another file has by now, it is still found by it,
			// and by the name that is left.
			os.Remove(path)
			for i := range want {
				want[i] += " deleted"
			}
			got, _ = heldBy(t, Sought{Path: path}, pid)
			wantHeld(t, "by the name it had", got, want...)
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			got, _ = heldBy(t, Sought{Path: path}, pid)
			wantHeld(t, "by the name it had, which is another's now", got, want...)
			os.Remove(hard)
			got, _ = heldBy(t, Sought{Path: path}, pid)
			wantHeld(t, "by the name it had, the last one gone", got, want...)
			os.Remove(path)
		})
	}
	// A file whose very name ends so is not a deleted one of the shorter name.
	name := filepath.Join(dir, "short")
	f := check2[*os.File](t)(os.Create(name + " (deleted)"))
	defer f.Close()
	got, _ := heldBy(t, Sought{Path: name}, int32(os.Getpid()))
	wantHeld(t, "a shorter name", got)
}

// Executable, working directory, directories and devices.
func TestHoldersWithoutDescriptor(t *testing.T) {
	dir := check2[string](t)(filepath.EvalSymlinks(t.TempDir()))
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	tg := startTarget(t, nil, "map-file", path)
	pid := tg.pid()
	got, _ := heldBy(t, Sought{Path: dir}, pid)
	wantHeld(t, "its directory", got, fmt.Sprintf("%d/- cwd ?", pid))
	self := check2[string](t)(os.Executable())
	got, _ = heldBy(t, Sought{Path: self}, pid)
	if len(got) != 2 || got[0] != fmt.Sprintf("%d/- executable ?", pid) || !strings.HasPrefix(got[1], fmt.Sprintf("%d/- mapping read", pid)) {
		t.Errorf("executable: got %q", got)
	}
	got, _ = heldBy(t, Sought{Path: "/"}, pid)
	wantHeld(t, "root", got, fmt.Sprintf("%d/- root ?", pid))
	null := check2[*os.File](t)(os.Open(os.DevNull))
	defer null.Close()
	got, _ = heldBy(t, Sought{Path: os.DevNull}, int32(os.Getpid()))
	if !slices.Contains(got, fmt.Sprintf("%d/%d same_object read", os.Getpid(), null.Fd())) {
		t.Errorf("device: got %q", got)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	f := check2[*os.File](t)(os.OpenFile(fifo, os.O_RDWR, 0))
	defer f.Close()
	got, _ = heldBy(t, Sought{Path: fifo}, int32(os.Getpid()))
	wantHeld(t, "FIFO", got, fmt.Sprintf("%d/%d same_object read/write", os.Getpid(), f.Fd()))
	got, h := heldBy(t, Sought{Path: filepath.Join(dir, "nothing")}, pid)
	wantHeld(t, "nothing", got)
	if !slicesContain(h.Warnings, "nothing has this path here") {
		t.Errorf("warnings %q", h.Warnings)
	}
	// A memfd has no path but the one that is printed.
	m := file(t, check2[int](t)(unix.MemfdCreate("holders", unix.MFD_CLOEXEC)))
	got, _ = heldBy(t, Sought{Path: "/memfd:holders (deleted)"}, int32(os.Getpid()))
	wantHeld(t, "memfd", got, fmt.Sprintf("%d/%d same_object read/write deleted", os.Getpid(), m.Fd()))
}

// The file of a UNIX socket stands for the listener and what was accepted from it,
// also when it was bound by another name.
func TestHoldersOfUnixPath(t *testing.T) {
	dir := check2[string](t)(filepath.EvalSymlinks(t.TempDir()))
	path := filepath.Join(dir, "s")
	l := file(t, check2[int](t)(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)))
	if err := unix.Bind(int(l.Fd()), &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(int(l.Fd()), 1); err != nil {
		t.Fatal(err)
	}
	tg := startTarget(t, nil, "unix-client", path)
	fd, _, err := unix.Accept4(int(l.Fd()), unix.SOCK_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	accepted := file(t, fd)
	self := int32(os.Getpid())
	moved := filepath.Join(dir, "moved")
	if err := os.Symlink(path, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, filepath.Join(dir, "link"), moved} {
		if name == moved {
			if err := os.Rename(path, moved); err != nil {
				t.Fatal(err)
			}
		}
		got, h := heldBy(t, Sought{Path: name}, self, tg.pid())
		wantHeld(t, name, got, fmt.Sprintf("%d/%d same_object read/write", self, l.Fd()), fmt.Sprintf("%d/%d same_object read/write", self, accepted.Fd()))
		for _, x := range h.List {
			if x.Socket == nil || x.Socket.Local != Some(path) || !x.Namespace.Known() {
				t.Errorf("got %+v %+v", x, x.Socket)
			}
		}
	}
}

// What is beyond the limit is said, and the listening sockets stay.
func TestHoldersAreCut(t *testing.T) {
	h := &Holders{}
	for i := range maxHolders + 10 {
		x := Holder{ID: ID{PID: int32(maxHolders - i), StartTicks: 1}, FD: Some(int32(i)), Relation: RelationSame}
		if i == 0 {
			x.Socket = &HostSocket{State: Some("LISTEN")}
		}
		h.List = append(h.List, x)
	}
	h.Finish()
	if len(h.List) != maxHolders || h.List[maxHolders-1].ID.PID != maxHolders || h.List[0].ID.PID >= h.List[1].ID.PID || !slicesContain(h.Warnings, "only 8192 holders") {
		t.Errorf("%d left, the last %+v, warnings %q", len(h.List), h.List[len(h.List)-1], h.Warnings)
	}
}

// In a tree of files sockets come from the text of PID/net, and a UNIX row that is
// forged by a name is not believed.
func TestHoldersFixture(t *testing.T) {
	head := "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	mount := fixtureTree(t, map[string]string{
		"7/stat": fdStat(7, "a) (b", "S", 1, 70), "7/fd/3": "->socket:[100]", "7/fd/4": "->socket:[101]", "7/ns/net": "x",
		"7/fd/5": "->socket:[200]",
		"7/net/tcp": head +
			"   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 100 1\n" +
			"   1: 0100007F:1F91 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 101 1\n" +
			"   2: 0100007F:1F90 0100007F:C002 06 00000000:00000000 03:00000000 00000000     0        0 0 3\n",
		"7/net/unix": "Num       RefCount Protocol Flags    Type St Inode Path\n" +
			"ffff1: 00000002 00000000 00010000 0001 01 200 /run/a\nffff3: 00000002 00000000 00000000 0001 03 200 /run/forged\n",
		"self/mountinfo": "22 1 0:21 / / rw - ext4 x rw\n",
	})
	h, err := mount.NewDescriptorScanner().FindHolders(Sought{Port: 8080})
	if err != nil {
		t.Fatal(err)
	}
	h.Finish()
	if len(h.List) != 1 || h.List[0].ID != (ID{7, 70}) || h.List[0].Name != "a) (b" || h.List[0].FD != Some[int32](3) || h.List[0].Socket.State != Some("LISTEN") {
		t.Errorf("got %+v, warnings %q", h.List, h.Warnings)
	}
	h, err = mount.NewDescriptorScanner().FindHolders(Sought{Socket: 200})
	if err != nil {
		t.Fatal(err)
	}
	if len(h.List) != 1 || h.List[0].Socket == nil || h.List[0].Socket.Local.Known() {
		t.Errorf("got %+v", h.List)
	}
}

// A path on a file system that another process serves is not looked up: names count.
func TestHoldersServed(t *testing.T) {
	dir := check2[string](t)(filepath.EvalSymlinks(t.TempDir()))
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mount := fixtureTree(t, map[string]string{
		"7/stat": fdStat(7, "x", "S", 1, 70), "7/fd/3": "->" + path, "7/fd/4": "->" + path + "2", "7/fd/5": "->" + path + " (deleted)",
		"self/mountinfo": "22 1 0:21 / / rw - ext4 x rw\n30 22 0:30 / " + dir + " rw - fuse.x x rw\n",
	})
	h, err := mount.NewDescriptorScanner().FindHolders(Sought{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	h.Finish()
	if len(h.List) != 2 || h.List[0].FD != Some[int32](3) || h.List[1].FD != Some[int32](5) || h.File.found || !slicesContain(h.Warnings, "another process or host serves") {
		t.Errorf("got %+v, warnings %q", h.List, h.Warnings)
	}
}
