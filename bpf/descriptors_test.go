package bpf

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
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

// descriptorRecord makes what the program writes of a descriptor.
func descriptorRecord(mode uint32, text string, values map[int]uint64) []byte {
	head := fileSize
	if mode&isSocket != 0 {
		head = socketSize
	}
	b := append(make([]byte, head), text...)
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	binary.LittleEndian.PutUint32(b[fileMode:], mode)
	copy(b[fileName:], "demo")
	for at, v := range values {
		switch at {
		case fileInode, fileStart, socketPeer:
			binary.LittleEndian.PutUint64(b[at:], v)
		case socketFamily, socketType, socketProtocol, socketState, socketLocalPort, socketRemotePort:
			binary.LittleEndian.PutUint16(b[at:], uint16(v))
		default:
			binary.LittleEndian.PutUint32(b[at:], uint32(v))
		}
	}
	return b
}

func TestParseDescriptor(t *testing.T) {
	socket := descriptorRecord(unix.S_IFSOCK|0o777|isRead|isWritten|isSocket, "\x00name", map[int]uint64{
		fileTGID: 7, fileTID: 8, fileFD: 3, fileDev: 9, fileInode: 1 << 40, fileStart: 123456789,
		socketFamily: unix.AF_UNIX, socketType: unix.SOCK_DGRAM, socketProtocol: 5, socketState: 7, socketNetNS: 4026531833,
		socketPeer: 77, socketLocalPort: 80, socketRemotePort: 8080, socketLocal: 0x0100007f, socketRemote: 0x0200007f,
	})
	file := descriptorRecord(unix.S_IFREG|0o644|isRead, "/a b", map[int]uint64{fileTGID: 7, fileTID: 7, fileFD: 4, fileDev: 259<<20 | 70000, fileInode: 12, fileStart: 5})
	name := [nameSize]byte{'d', 'e', 'm', 'o'}
	var x Descriptor
	for _, c := range []struct {
		record []byte
		tid    uint32
		want   Descriptor
	}{
		{socket, 8, Descriptor{
			PID: 7, FD: 3, Start: 123456789, Name: name, Mode: unix.S_IFSOCK | 0o777, Read: true, Write: true, Device: 9, Inode: 1 << 40,
			SocketFamily: unix.AF_UNIX, SocketType: unix.SOCK_DGRAM, SocketProtocol: 5, SocketState: 7, SocketNetNS: 4026531833,
			SocketPeer: 77, LocalPort: 80, RemotePort: 8080, LocalAddress: [16]byte{127, 0, 0, 1}, RemoteAddress: [16]byte{127, 0, 0, 2}, Text: []byte("\x00name"),
		}},
		{file, 7, Descriptor{PID: 7, FD: 4, Start: 5, Name: name, Mode: unix.S_IFREG | 0o644, Read: true, Device: unix.Mkdev(259, 70000), Inode: 12, Text: []byte("/a b")}},
	} {
		size, tid, err := parseDescriptor(append(slices.Clone(c.record), "more"...), &x)
		if size != len(c.record) || tid != c.tid || err != nil || fmt.Sprint(x) != fmt.Sprint(c.want) {
			t.Errorf("%d bytes, thread %d, %v\ngot  %v\nwant %v", size, tid, err, x, c.want)
		}
		for n := range len(c.record) {
			if size, _, err := parseDescriptor(c.record[:n], &x); size != 0 || err != nil {
				t.Errorf("of %d bytes it took %d, %v", n, size, err)
			}
		}
	}
	for _, size := range []uint32{0, fileSize - 1, maxFileRecord + 1, 1 << 31} {
		b := append(slices.Clone(file), make([]byte, maxFileRecord)...)
		binary.LittleEndian.PutUint32(b, size)
		if got, _, err := parseDescriptor(b, &x); got != 0 || err == nil {
			t.Errorf("a record of %d bytes: took %d, %v", size, got, err)
		}
	}
}

func FuzzDescriptors(f *testing.F) {
	f.Add(slices.Concat(descriptorRecord(unix.S_IFREG, "/a", map[int]uint64{fileTGID: 1}), descriptorRecord(isSocket, "", map[int]uint64{fileTGID: 1})))
	f.Fuzz(func(t *testing.T, b []byte) {
		var x Descriptor
		for len(b) > 0 {
			size, _, err := parseDescriptor(b, &x)
			if size < 0 || size > len(b) || size > 0 && (err != nil || size < fileSize+len(x.Text)) {
				t.Fatalf("%d of %d bytes, %v, %v", size, len(b), x, err)
			}
			if size == 0 {
				return
			}
			b = b[size:]
		}
	})
}

func openedDescriptors(t *testing.T, typed bool) *Descriptors {
	t.Helper()
	if has, initial := mayLoad(); !has || !initial {
		unavailable(t, unix.EPERM.Error())
	}
	d, err := openDescriptors(typed)
	return untilEnd(t, d, err)
}

// kernelFiles are the tables as a scanner takes them.
type kernelFiles struct{ *Descriptors }

func (k kernelFiles) ReadDescriptors(paths bool, each func(*proc.OpenFile) bool) error {
	return k.Read(paths, func(d *Descriptor) bool { return each((*proc.OpenFile)(d)) })
}

// populate opens descriptors of every kind in this process, or says why not, and names
// those that belong together.
func populate(dir string) (ends [][2]int, others map[string]int, err error) {
	others = map[string]int{}
	keep := func(name string, fd int, e error) int {
		if e != nil && err == nil {
			err = fmt.Errorf("%s: %w", name, e)
		}
		others[name] = fd
		return fd
	}
	socket := func(name string, family, kind, protocol int) int {
		fd, e := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
		return keep(name, fd, e)
	}
	check := func(name string, e error) {
		if e != nil && err == nil {
			err = fmt.Errorf("%s: %w", name, e)
		}
	}
	var p [2]int
	check("pipe", unix.Pipe2(p[:], unix.O_CLOEXEC))
	others["pipe to read"], others["pipe to write"] = p[0], p[1]
	again, e := unix.FcntlInt(uintptr(p[1]), unix.F_DUPFD_CLOEXEC, 0)
	keep("pipe again", again, e)
	fifo := filepath.Join(dir, "a  fifo")
	check("mkfifo", unix.Mkfifo(fifo, 0o600))
	for name, flags := range map[string]int{"fifo": unix.O_RDWR, "fifo to read": unix.O_RDONLY | unix.O_NONBLOCK, "fifo, path only": unix.O_PATH} {
		fd, e := unix.Open(fifo, flags|unix.O_CLOEXEC, 0)
		keep(name, fd, e)
	}
	for name, kind := range map[string]int{"stream": unix.SOCK_STREAM, "datagrams": unix.SOCK_DGRAM, "packets": unix.SOCK_SEQPACKET} {
		pair, e := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
		check(name, e)
		ends = append(ends, pair)
	}
	path := filepath.Join(dir, "s")
	for name, address := range map[string]unix.Sockaddr{
		"unix": &unix.SockaddrUnix{Name: path}, "abstract": &unix.SockaddrUnix{Name: "@procinsh test " + dir},
		"tcp": &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}, "tcp6": &unix.SockaddrInet6{Addr: [16]byte{15: 1}},
		"tcp, mapped": &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}},
	} {
		family, server := unix.AF_UNIX, address
		switch address.(type) {
		case *unix.SockaddrInet4:
			family = unix.AF_INET
		case *unix.SockaddrInet6:
			family = unix.AF_INET6
		}
		client := family
		if name == "tcp, mapped" {
			family, server = unix.AF_INET6, &unix.SockaddrInet6{}
		}
		l := socket(name+" listener", family, unix.SOCK_STREAM, 0)
		check(name, unix.Bind(l, server))
		check(name, unix.Listen(l, 4))
		if name, e := unix.Getsockname(l); e == nil {
			switch bound := name.(type) {
			case *unix.SockaddrInet4:
				address = &unix.SockaddrInet4{Port: bound.Port, Addr: [4]byte{127, 0, 0, 1}}
			case *unix.SockaddrInet6:
				if client == unix.AF_INET {
					address = &unix.SockaddrInet4{Port: bound.Port, Addr: [4]byte{127, 0, 0, 1}}
				} else {
					address = bound
				}
			}
		}
		c := socket(name+" client", client, unix.SOCK_STREAM, 0)
		check(name, unix.Connect(c, address))
		a, _, e := unix.Accept4(l, unix.SOCK_CLOEXEC)
		check(name, e)
		ends = append(ends, [2]int{a, c})
		check(name, unix.Connect(socket(name+" not accepted", client, unix.SOCK_STREAM, 0), address))
	}
	x, y := socket("udp", unix.AF_INET, unix.SOCK_DGRAM, 0), socket("udp, other end", unix.AF_INET, unix.SOCK_DGRAM, 0)
	for _, fd := range []int{x, y} {
		check("udp", unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	}
	for _, z := range [][2]int{{x, y}, {y, x}} {
		far, e := unix.Getsockname(z[1])
		check("udp", e)
		if e == nil {
			check("udp", unix.Connect(z[0], far))
		}
	}
	ends = append(ends, [2]int{x, y})
	check("udp6", unix.Bind(socket("udp6, bound", unix.AF_INET6, unix.SOCK_DGRAM, 0), &unix.SockaddrInet6{}))
	log := socket("log", unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	check("log", unix.Bind(log, &unix.SockaddrUnix{Name: path + "log"}))
	check("log", unix.Connect(socket("to the log", unix.AF_UNIX, unix.SOCK_DGRAM, 0), &unix.SockaddrUnix{Name: path + "log"}))
	socket("raw", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
	check("netlink", unix.Bind(socket("netlink", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE), &unix.SockaddrNetlink{}))
	socket("unbound tcp", unix.AF_INET, unix.SOCK_STREAM, 0)

	file, e := unix.Open(filepath.Join(dir, "file"), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	keep("file", file, e)
	gone, e := unix.Open(filepath.Join(dir, "gone"), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	keep("deleted file", gone, e)
	check("deleted file", unix.Unlink(filepath.Join(dir, "gone")))
	folder, e := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	keep("directory", folder, e)
	node, e := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	keep("name of a socket", node, e)
	memory, e := unix.MemfdCreate("two  words", unix.MFD_CLOEXEC)
	keep("memfd", memory, e)
	event, e := unix.Eventfd(0, unix.EFD_CLOEXEC)
	keep("eventfd", event, e)
	poll, e := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	keep("epoll", poll, e)
	timer, e := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC)
	keep("timerfd", timer, e)
	null, e := unix.Open("/dev/null", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	keep("device", null, e)
	for _, pair := range ends {
		others[fmt.Sprint("end ", pair[0])], others[fmt.Sprint("end ", pair[1])] = pair[0], pair[1]
	}
	return ends, others, err
}

// holdDescriptors is a process that holds them until it is killed, in a network
// namespace of its own when it was started in one.
func holdDescriptors() error {
	if err := loopback(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "procinsh")
	if err != nil {
		return err
	}
	ends, _, err := populate(dir)
	if err != nil {
		return err
	}
	os.RemoveAll(dir)
	fmt.Println(ends)
	io.Copy(io.Discard, os.Stdin)
	return nil
}

// told is what a scan says of an object, whatever the order and the rest of the host.
type told struct {
	object string
	holder map[string]string // by process and access
}

func tell(c *proc.HostConnections, pids []int32) map[string]told {
	all := map[string]told{}
	name := func(o *proc.HostObject) string { return fmt.Sprintf("%s %d:%d", o.Kind, o.Device, o.Inode) }
	for i := range c.Objects {
		o := &c.Objects[i]
		x := told{holder: map[string]string{}}
		for _, e := range c.Ends[o.First : o.First+o.Count] {
			if p := c.Processes[e.Process]; slices.Contains(pids, p.ID.PID) {
				x.holder[fmt.Sprint(p.ID, p.Name, e.AccessText())] = fmt.Sprint(e.FD, e.Count)
			}
		}
		if len(x.holder) == 0 {
			continue
		}
		peer := "nobody"
		if o.Peer >= 0 {
			peer = name(&c.Objects[o.Peer])
		}
		x.object = fmt.Sprintf("path %q, peer %s, candidate %v", o.Path, peer, o.Candidate)
		if s := o.Socket; s != nil {
			x.object += fmt.Sprintf(", %v", *s)
		}
		all[name(o)] = x
	}
	return all
}

// What the tables say of descriptors and their other ends is what the texts say.
func TestDescriptorsAgreeWithTexts(t *testing.T) {
	needRoot(t)
	ends, others, err := populate(t.TempDir())
	t.Cleanup(func() {
		for _, fd := range others {
			unix.Close(fd)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	far, out, _ := start(t, "descriptors", func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	})
	if line, err := out.ReadString('\n'); err != nil || !strings.HasPrefix(line, "[[") {
		t.Fatalf("the other namespace said %q, %v", line, err)
	}
	self := int32(os.Getpid())
	pids := []int32{self, int32(far.Process.Pid)}
	fs, err := proc.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	limits := proc.HostLimits{Descriptors: 1_000_000, Time: time.Minute}
	texts := fs.NewDescriptorScanner()
	for _, typed := range []bool{true, false} {
		if typed && !tellsPaths() {
			continue
		}
		t.Run(fmt.Sprintf("typed=%v", typed), func(t *testing.T) {
			tables := fs.NewDescriptorScanner()
			tables.ReadFrom(kernelFiles{openedDescriptors(t, typed)})
			a, err := texts.ScanConnections(limits)
			if err != nil {
				t.Fatal(err)
			}
			want := tell(a, pids)
			b, err := tables.ScanConnections(limits)
			if err != nil || tables.TablesError() != nil {
				t.Fatal(err, tables.TablesError())
			}
			got := tell(b, pids)
			compared := compareTold(t, ends, others, got, want)
			if compared < 70 { // of two processes with some 38 each
				t.Errorf("%d objects were compared", compared)
			}
			compareRows(t, texts, tables, limits, pids)
		})
	}
}

// tellsPaths is what the version says of the kernel.
func tellsPaths() bool {
	major, minor, ok := kernelVersion()
	return ok && (major > 5 || major == 5 && minor >= 12)
}

func compareTold(t *testing.T, ends [][2]int, others map[string]int, got, want map[string]told) int {
	t.Helper()
	nameOf := func(fd int) string {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			t.Fatal(err)
		}
		kind := proc.FDSocket
		if st.Mode&unix.S_IFMT == unix.S_IFIFO {
			kind = proc.FDPipe
			if strings.Contains(want[fmt.Sprintf("%s %d:%d", proc.FDFIFO, st.Dev, st.Ino)].object, "fifo") {
				kind = proc.FDFIFO
			}
		}
		return fmt.Sprintf("%s %d:%d", kind, st.Dev, st.Ino)
	}
	for _, pair := range ends {
		for i := range pair {
			if x := got[nameOf(pair[i])]; !strings.Contains(x.object, "peer "+nameOf(pair[1-i])+",") {
				t.Errorf("descriptors %v belong together, but the tables say %s", pair, x.object)
			}
		}
	}
	// Without unix_diag the texts know no peers of UNIX sockets.
	blind := !strings.Contains(want[nameOf(ends[0][0])].object, nameOf(ends[0][1]))
	unbound := want[nameOf(others["unbound tcp"])].object
	compared := 0
	for name, x := range want {
		y := got[name]
		switch {
		case x.object == unbound && strings.Contains(y.object, "TCP") && strings.Contains(y.object, "CLOSE"):
		case blind && strings.Contains(y.object, proc.FDSocket) && strings.Contains(y.object, "UNIX"):
		case x.object != y.object:
			t.Errorf("%s\ntexts:  %s\ntables: %s", name, x.object, y.object)
		}
		if !maps.Equal(x.holder, y.holder) {
			t.Errorf("%s\ntexts:  held by %v\ntables: held by %v", name, x.holder, y.holder)
		}
		compared++
	}
	for name, x := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: only the tables have it: %v", name, x)
		}
	}
	return compared
}

// compareRows compares the links of all descriptors and their other ends.
func compareRows(t *testing.T, texts, tables *proc.DescriptorScanner, limits proc.HostLimits, pids []int32) {
	t.Helper()
	rows := func(s *proc.DescriptorScanner) map[string]string {
		h, err := s.ScanHost(limits)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		name := func(d *proc.HostDescriptor) string {
			p := h.Processes[d.Process]
			return fmt.Sprintf("%v %s %d", p.ID, p.Name, d.FD)
		}
		for i := range h.Rows {
			d := &h.Rows[i]
			if !slices.Contains(pids, h.Processes[d.Process].ID.PID) || strings.HasPrefix(h.Target(i), "/proc") || strings.HasPrefix(h.Target(i), "anon_inode:bpf") {
				continue // what the scans have open themselves
			}
			peer := "nobody"
			if d.PeerRow >= 0 {
				peer = name(&h.Rows[d.PeerRow])
			}
			all[name(d)] = fmt.Sprintf("%q %d, peer %d of %s", h.Target(i), d.Inode, d.Peer, peer)
		}
		return all
	}
	want, got := rows(texts), rows(tables)
	if err := tables.TablesError(); err != nil {
		t.Fatal(err)
	}
	blind := true
	for _, x := range want {
		blind = blind && (!strings.Contains(x, "socket") || strings.Contains(x, "peer 0"))
	}
	for name, x := range want {
		if y := got[name]; x != y && !blind {
			t.Errorf("%s\ntexts:  %s\ntables: %s", name, x, y)
		}
	}
	if len(want) < 100 || len(got) != len(want) {
		t.Errorf("%d rows of the texts, %d of the tables", len(want), len(got))
	}
}

// A connection that was carried out of its network namespace has its two ends there.
func TestDescriptorsOfAnotherNamespace(t *testing.T) {
	needRoot(t)
	tables := openedDescriptors(t, tellsPaths())
	type made struct {
		server, client int
		err            error
	}
	done := make(chan made)
	go func() { // its thread is not used again
		runtime.LockOSThread()
		var m made
		if m.err = unix.Unshare(unix.CLONE_NEWNET); m.err == nil {
			m.err = loopback()
		}
		if m.err == nil {
			m.server, m.client, m.err = connection()
		}
		done <- m
	}()
	m := <-done
	if m.err != nil {
		t.Fatal(m.err)
	}
	defer unix.Close(m.server)
	defer unix.Close(m.client)
	fs, err := proc.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	s := fs.NewDescriptorScanner()
	s.ReadFrom(kernelFiles{tables})
	c, err := s.ScanConnections(proc.HostLimits{Descriptors: 1_000_000, Time: time.Minute})
	if err != nil || s.TablesError() != nil {
		t.Fatal(err, s.TablesError())
	}
	find := func(fd int) *proc.HostObject {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(c.Objects, func(o proc.HostObject) bool { return o.Inode == st.Ino && o.Device == st.Dev })
		if i < 0 {
			t.Fatalf("descriptor %d is not there", fd)
		}
		return &c.Objects[i]
	}
	a, b := find(m.server), find(m.client)
	if a.Peer < 0 || b.Peer < 0 || &c.Objects[a.Peer] != b || &c.Objects[b.Peer] != a || a.Socket.Remote != b.Socket.Local || b.Socket.Remote != a.Socket.Local {
		t.Errorf("the ends are %+v %v and %+v %v", *a, a.Socket, *b, b.Socket)
	}
}

// connection makes one of TCP through the loopback device.
func connection() (server, client int, err error) {
	l, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	defer unix.Close(l)
	if err := errors.Join(unix.Bind(l, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(l, 1)); err != nil {
		return 0, 0, err
	}
	address, err := unix.Getsockname(l)
	if err != nil {
		return 0, 0, err
	}
	if client, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return 0, 0, err
	}
	if err := unix.Connect(client, address); err != nil {
		return 0, 0, err
	}
	server, _, err = unix.Accept4(l, unix.SOCK_CLOEXEC)
	return server, client, err
}

// loopback sets up the loopback device of a new network namespace.
func loopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo)
}

// Of a process whose leader has ended the table of a thread that lives is read, once.
func TestDescriptorsWithoutLeader(t *testing.T) {
	d := openedDescriptors(t, tellsPaths())
	cmd, out, _ := start(t, "leaderless", nil)
	if line, err := out.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("it said %q, %v", line, err)
	}
	eventually(t, "its leader has ended", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		return err == nil && bytes.Contains(b, []byte(") Z "))
	})
	seen := map[int32]int{}
	if err := d.Read(false, func(x *Descriptor) bool {
		if x.PID == int32(cmd.Process.Pid) {
			seen[x.FD]++
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	for _, fd := range []int32{0, 1, 2} {
		if seen[fd] != 1 {
			t.Errorf("descriptor %d was seen %d times: %v", fd, seen[fd], seen)
		}
	}
}

// Who has read enough ends the walk, and the next one is whole.
func TestDescriptorsEnough(t *testing.T) {
	d := openedDescriptors(t, tellsPaths())
	n := 0
	if err := d.Read(true, func(*Descriptor) bool { n++; return n < 3 }); err != nil || n != 3 {
		t.Errorf("%d descriptors, %v", n, err)
	}
	own := map[int32]bool{}
	if err := d.Read(false, func(x *Descriptor) bool {
		if x.PID == int32(os.Getpid()) {
			own[x.FD] = true
		}
		return true
	}); err != nil || !own[0] || !own[1] || !own[2] {
		t.Errorf("own descriptors %v, %v", own, err)
	}
}

// Inside a PID namespace the numbers are those of the namespace.
func TestDescriptorsInPIDNamespace(t *testing.T) {
	needRoot(t)
	openedDescriptors(t, tellsPaths())
	_, out, _ := start(t, "descriptor numbers", func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	})
	var n, strange int
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(line, &n, &strange); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	// The first number of a namespace may be hidden as that of the host is.
	if strange != 0 || n != 0 && n < 4 {
		t.Errorf("it sees %d descriptors of its own and %d of others", n, strange)
	}
}

// countNumbers prints how many descriptors are those of process 1, and how many not.
func countNumbers() error {
	d, err := OpenDescriptors()
	if err != nil {
		return err
	}
	defer d.Close()
	own, others := 0, 0
	err = d.Read(false, func(x *Descriptor) bool {
		if x.PID == 1 {
			own++
		} else {
			others++
		}
		return true
	})
	fmt.Println(own, others)
	return err
}

// Closing leaves nothing in the kernel.
func TestDescriptorsClose(t *testing.T) {
	openedDescriptors(t, tellsPaths())
	before := len(bpfObjects(t, unix.Getpid()))
	d, err := OpenDescriptors()
	if err != nil {
		t.Fatal(err)
	}
	if d.TellsPaths() != tellsPaths() {
		t.Errorf("it tells paths: %v", d.TellsPaths())
	}
	if err := d.Read(true, func(*Descriptor) bool { return true }); err != nil {
		t.Error(err)
	}
	leavesNothing(t, d, before)
}
