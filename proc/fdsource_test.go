package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fakeFiles are tables that say what a test wants.
type fakeFiles struct {
	files []OpenFile
	paths bool
	fail  error // after the last one
	read  int   // readings
	asked bool  // for paths
}

func (f *fakeFiles) TellsPaths() bool { return f.paths }

func (f *fakeFiles) ReadDescriptors(paths bool, each func(*OpenFile) bool) error {
	f.read++
	f.asked = paths
	for i := range f.files {
		if !each(&f.files[i]) {
			return nil
		}
	}
	return f.fail
}

// fixtureOfFiles is a mount with process 7, which has a pipe, a FIFO and a socket.
func fixtureOfFiles(t *testing.T) *FS {
	t.Helper()
	dir := t.TempDir()
	for _, pid := range []string{"7", "8"} {
		for _, d := range []string{"fd", "ns", "net"} {
			if err := os.MkdirAll(filepath.Join(dir, pid, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		text := pid + " (text) S 1 7 7 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 500 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
		if err := os.WriteFile(filepath.Join(dir, pid, "stat"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"7/fd/3": "pipe:[30]", "7/fd/4": fifo, "7/fd/5": "socket:[50]", "8/fd/3": "pipe:[30]"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	fs, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	return fs
}

// files7 is what the tables say of it, by the clock of the kernel.
func files7(s *DescriptorScanner) []OpenFile {
	begun := OpenFile{PID: 7, Start: 5e9, Name: [16]byte{'t', 'a', 'b', 'l', 'e'}}
	with := func(fd int32, change func(*OpenFile)) OpenFile {
		f := begun
		f.FD = fd
		change(&f)
		return f
	}
	return []OpenFile{
		with(2, func(f *OpenFile) {
			f.Mode, f.Device, f.Inode, f.Text = unix.S_IFREG, 1, 1, []byte("/a b")
		}),
		with(3, func(f *OpenFile) {
			f.Mode, f.Device, f.Inode, f.Read = unix.S_IFIFO, s.anonymous.pipeDev, 30, true
		}),
		with(4, func(f *OpenFile) { f.Mode, f.Device, f.Inode, f.Write = unix.S_IFIFO, 99, 40, true }),
		with(5, func(f *OpenFile) {
			f.Mode, f.Device, f.Inode, f.SocketFamily, f.SocketType = unix.S_IFSOCK, s.anonymous.socketDev, 50, unix.AF_UNIX, unix.SOCK_STREAM
			f.SocketState, f.SocketPeer, f.Text = tcpEstablished, 51, []byte("\x00near")
		}),
		with(6, func(f *OpenFile) {
			f.Mode, f.Device, f.Inode, f.SocketFamily, f.SocketType = unix.S_IFSOCK, s.anonymous.socketDev, 51, unix.AF_UNIX, unix.SOCK_STREAM
			f.SocketState, f.SocketPeer = tcpEstablished, 50
		}),
		with(7, func(f *OpenFile) {
			f.Mode, f.Device, f.Inode, f.SocketFamily = unix.S_IFSOCK, s.anonymous.socketDev, 52, unix.AF_VSOCK
			f.SocketState = tcpListen
		}),
	}
}

// The tables give what they have; a process that they hide comes from its texts.
func TestConnectionsFromTables(t *testing.T) {
	fs := fixtureOfFiles(t)
	s := fs.NewDescriptorScanner()
	source := &fakeFiles{files: files7(s)}
	s.ReadFrom(source)
	var st unix.Stat_t
	if err := unix.Stat(fs.mount+"/fifo", &st); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second with the buffers of the first
		c, err := s.ScanConnections(HostLimits{})
		if err != nil || s.TablesError() != nil {
			t.Fatal(err, s.TablesError())
		}
		if source.asked || c.Descriptors != 7 || c.Inspected != 2 || len(c.Warnings) != 0 {
			t.Errorf("asked for paths %v, %d descriptors of %d processes, %q", source.asked, c.Descriptors, c.Inspected, c.Warnings)
		}
		var got []string
		for i := range c.Objects {
			o := &c.Objects[i]
			text := fmt.Sprintf("%s %d:%d %s peer %d", o.Kind, o.Device, o.Inode, o.Path, o.Peer)
			if o.Socket != nil {
				text += fmt.Sprintf(" %s %s local %q remote %q", o.Socket.Protocol.Or(""), o.Socket.State.Or(""), o.Socket.Local.Or(""), o.Socket.Remote.Or(""))
			}
			for _, e := range c.Ends[o.First : o.First+o.Count] {
				p := c.Processes[e.Process]
				text += fmt.Sprintf("; %v %s %d %s", p.ID, p.Name, e.FD, e.AccessText())
			}
			got = append(got, text)
		}
		want := []string{
			fmt.Sprintf("fifo %d:%d %s/fifo peer -1; {7 500} table 4 write", st.Dev, st.Ino, fs.mount),
			fmt.Sprintf("pipe %d:30  peer -1; {7 500} table 3 read; {8 500} text 3 read/write", s.anonymous.pipeDev),
			fmt.Sprintf(`socket %d:50  peer 3 UNIX STREAM ESTABLISHED local "@near" remote ""; {7 500} table 5 read/write`, s.anonymous.socketDev),
			fmt.Sprintf(`socket %d:51  peer 2 UNIX STREAM ESTABLISHED local "" remote "@near"; {7 500} table 6 read/write`, s.anonymous.socketDev),
			fmt.Sprintf(`socket %d:52  peer -1 VSOCK LISTEN local "" remote ""; {7 500} table 7 read/write`, s.anonymous.socketDev),
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func TestHostFromTables(t *testing.T) {
	fs := fixtureOfFiles(t)
	s := fs.NewDescriptorScanner()
	source := &fakeFiles{files: files7(s), paths: true}
	source.files[2].Text = []byte("/tmp/fifo")
	s.ReadFrom(source)
	h, err := s.ScanHost(HostLimits{})
	if err != nil || s.TablesError() != nil || !source.asked {
		t.Fatal(err, s.TablesError(), source.asked)
	}
	var got []string
	for i := range h.Rows {
		d := &h.Rows[i]
		got = append(got, fmt.Sprintf("%d %d %s %d %d", h.Processes[d.Process].ID.PID, d.FD, h.Target(i), d.Peer, d.PeerRow))
	}
	want := []string{"7 2 /a b 0 -1", "7 3 pipe:[30] 0 -1", "7 4 /tmp/fifo 0 -1", "7 5 socket:[50] 51 4", "7 6 socket:[51] 50 3", "7 7 socket:[52] 0 -1", "8 3 pipe:[30] 0 -1"}
	if !slices.Equal(got, want) || h.Joined != 2 {
		t.Errorf("%d joined; got\n%s\nwant\n%s", h.Joined, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// Tables without paths are not enough here.
	source.paths = false
	if h, err = s.ScanHost(HostLimits{}); err != nil || len(h.Rows) != 4 || source.read != 1 || s.TablesError() != nil {
		t.Errorf("%v: %d rows, %d readings, %v", err, len(h.Rows), source.read, s.TablesError())
	}
}

// After an error the texts are read, in the same scan and in those after it.
func TestConnectionsAfterTables(t *testing.T) {
	s := fixtureOfFiles(t).NewDescriptorScanner()
	broken := errors.New("broken")
	source := &fakeFiles{files: files7(s), fail: broken}
	s.ReadFrom(source)
	for range 2 {
		c, err := s.ScanConnections(HostLimits{})
		if err != nil || !errors.Is(s.TablesError(), broken) || source.read != 1 {
			t.Errorf("%v; %v after %d readings", err, s.TablesError(), source.read)
		}
		if len(c.Objects) != 3 || len(c.Processes) != 2 || c.Processes[0].Name != "text" || c.Descriptors != 4 {
			t.Errorf("%d objects of %+v, %d descriptors", len(c.Objects), c.Processes, c.Descriptors)
		}
	}
	s.ReadFrom(nil)
	if err := s.TablesError(); err != nil {
		t.Errorf("the error is kept: %v", err)
	}
}

func TestTableLimits(t *testing.T) {
	s := fixtureOfFiles(t).NewDescriptorScanner()
	source := &fakeFiles{files: files7(s)}
	s.ReadFrom(source)
	c, err := s.ScanConnections(HostLimits{TableDescriptors: 2})
	if want := []string{"the limit of 2 descriptors looked at was reached"}; err != nil || c.Descriptors != 2 || c.Inspected != 1 || !slices.Equal(c.Warnings, want) {
		t.Errorf("%v: %d descriptors of %d processes, %q", err, c.Descriptors, c.Inspected, c.Warnings)
	}
	for len(source.files) <= tableEvery {
		source.files = append(source.files, source.files[0])
	}
	c, err = s.ScanConnections(HostLimits{Time: time.Nanosecond})
	if want := []string{"the limit of 1ns was reached"}; err != nil || c.Descriptors != tableEvery || !slices.Equal(c.Warnings, want) {
		t.Errorf("%v: %d descriptors, %q", err, c.Descriptors, c.Warnings)
	}
}

// Equal addresses in two network namespaces are two connections.
func TestNamespacesOfTables(t *testing.T) {
	s := fixtureOfFiles(t).NewDescriptorScanner()
	source := &fakeFiles{}
	for i, ns := range []uint32{1, 2, 2, 1, 3} {
		f := OpenFile{PID: 9, Start: 1, FD: int32(i), Mode: unix.S_IFSOCK, Device: s.anonymous.socketDev, Inode: uint64(100 + i)}
		f.SocketFamily, f.SocketType, f.SocketProtocol, f.SocketState, f.SocketNetNS = unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP, tcpEstablished, ns
		f.LocalAddress, f.RemoteAddress = [16]byte{127, 0, 0, 1}, [16]byte{127, 0, 0, 1}
		f.LocalPort, f.RemotePort = 80, 8080
		if i >= 2 {
			f.LocalPort, f.RemotePort = 8080, 80
		}
		source.files = append(source.files, f)
	}
	s.ReadFrom(source)
	c, err := s.ScanConnections(HostLimits{})
	if err != nil {
		t.Fatal(err)
	}
	for inode, want := range map[uint64]uint64{100: 103, 101: 102, 102: 101, 103: 100, 104: 0} {
		at, ok := s.conns.socket(inode)
		if !ok {
			t.Fatalf("no socket %d", inode)
		}
		got := uint64(0)
		for i := range c.Objects {
			if o := &c.Objects[i]; o.Inode == inode && o.Peer >= 0 {
				got = c.Objects[o.Peer].Inode
			}
		}
		if got != want {
			t.Errorf("socket %d, object %d, has the peer %d, want %d", inode, at, got, want)
		}
	}
}

func TestInodeTableGrows(t *testing.T) {
	var x inodeTable
	x.reset(0)
	for i := range int32(50_000) {
		if at, known := x.add(uint64(i)*4096+1, i); at != i || known {
			t.Fatalf("inode %d is mapped to %d already", i, at)
		}
	}
	for i := range int32(50_000) {
		if at, known := x.add(uint64(i)*4096+1, -1); at != i || !known {
			t.Fatalf("inode %d is mapped to %d, %v", i, at, known)
		}
	}
	if at, ok := x.get(7); ok {
		t.Errorf("an inode that was not added is mapped to %d", at)
	}
}
