package bpf

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ioOptions are the ways that this kernel can be made to take. Where functions
// can be hooked, the first is by functions.
var ioOptions = []struct {
	name    string
	options Options
}{
	{"best", Options{}},
	{"typed", Options{WithoutFentry: true}},
	{"copied", Options{WithoutFentry: true, WithoutKfuncs: true}},
	{"sockets at functions", Options{WithoutLengths: true}},
	{"all at typed system calls", Options{WithoutFentry: true, WithoutLengths: true}},
	{"all at copied system calls", Options{WithoutFentry: true, WithoutLengths: true, WithoutKfuncs: true}},
}

// watched sums up what this process did.
type watched struct {
	t     *testing.T
	s     *Sensors
	w     Window
	sums  map[done]amount
	paths map[done][]string // of files, each window's
	rows  map[done]Transfer // the last
}

// done is a direction of a resource.
type done struct {
	kind  Kind
	inode uint64
	write bool
}

type amount struct{ bytes, count uint64 }

// watchIO opens sensors for pipes, sockets and files; see opened.
func watchIO(t *testing.T, o Options) *watched {
	t.Helper()
	o.CountOwnProc = true
	return watchAs(t, o)
}

func watchAs(t *testing.T, o Options) *watched {
	t.Helper()
	s := opened(t, o, func(st Status) []SensorStatus { return []SensorStatus{st.IPC, st.Files} })
	w := &watched{t: t, s: s}
	w.reset()
	w.drain()
	w.reset()
	return w
}

func (w *watched) reset() {
	w.sums, w.paths, w.rows = map[done]amount{}, map[done][]string{}, map[done]Transfer{}
}

// drain takes one window into the sums.
func (w *watched) drain() {
	w.t.Helper()
	if err := w.s.Drain(&w.w); err != nil {
		w.t.Fatalf("drain: %v", err)
	}
	for _, rows := range [][]Transfer{w.w.IPC, w.w.Files} {
		for _, r := range rows {
			if r.TGID != uint32(os.Getpid()) {
				continue
			}
			k := done{r.Kind, r.Inode, r.Write}
			a := w.sums[k]
			w.sums[k] = amount{a.bytes + r.Bytes, a.count + r.Count}
			w.rows[k] = r
			if r.HasPath {
				w.paths[k] = append(w.paths[k], r.Path)
			}
		}
	}
}

// stat is fstat of a descriptor.
func stat(t *testing.T, fd int) unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	return st
}

// fileDir is a folder on a file system whose files are what stat says: overlayfs
// and btrfs show other numbers than their inodes have.
func fileDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	if fs.Type != unix.OVERLAYFS_SUPER_MAGIC && fs.Type != unix.BTRFS_SUPER_MAGIC {
		return dir
	}
	dir, err := os.MkdirTemp("/dev/shm", "bpf-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// script is a sequence of operations and what they amount to.
type script struct {
	t    *testing.T
	want map[done]amount
	not  []uint64 // inodes of which nothing may be seen
	// Of several messages only the first is counted, as the status says.
	sendGap, receiveGap bool
}

// did adds a successful operation; it checks that the kernel moved n bytes.
func (s *script) did(fd int, kind Kind, write bool, n int) func(int, error) {
	return func(got int, err error) {
		s.t.Helper()
		if err != nil || got != n {
			s.t.Fatalf("moved %d bytes, %v, want %d", got, err, n)
		}
		k := done{kind, stat(s.t, fd).Ino, write}
		a := s.want[k]
		s.want[k] = amount{a.bytes + uint64(n), a.count + 1}
	}
}

// fails wants an operation to fail.
func (s *script) fails(_ int, err error) {
	s.t.Helper()
	if err == nil {
		s.t.Fatal("an operation that should fail did not")
	}
}

// moves wants an operation that is not counted to move n bytes.
func (s *script) moves(n int) func(int, error) {
	return func(got int, err error) {
		s.t.Helper()
		if err != nil || got != n {
			s.t.Fatalf("moved %d bytes, %v, want %d", got, err, n)
		}
	}
}

func (s *script) open(path string, flags int) int {
	s.t.Helper()
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
	if err != nil {
		s.t.Fatalf("open %s: %v", path, err)
	}
	s.t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// check compares what was asked for with what was seen.
func (w *watched) check(s *script) {
	w.t.Helper()
	for k, want := range s.want {
		if got := w.sums[k]; got != want {
			w.t.Errorf("%+v: got %d bytes in %d operations, want %d in %d", k, got.bytes, got.count, want.bytes, want.count)
		}
	}
	for k, got := range w.sums {
		_, asked := s.want[k]
		other := done{k.kind, k.inode, !k.write}
		_, askedOther := s.want[other]
		if slices.Contains(s.not, k.inode) || !asked && askedOther {
			w.t.Errorf("%+v: got %d bytes in %d operations, want none", k, got.bytes, got.count)
		}
	}
}

func vector(parts ...int) [][]byte {
	var v [][]byte
	for _, n := range parts {
		v = append(v, make([]byte, n))
	}
	return v
}

func fileOperations(s *script) {
	path := filepath.Join(fileDir(s.t), "a file")
	fd := s.open(path, unix.O_RDWR|unix.O_CREAT)
	w := func(n int) func(int, error) { return s.did(fd, File, true, n) }
	r := func(n int) func(int, error) { return s.did(fd, File, false, n) }
	w(10)(unix.Write(fd, make([]byte, 10)))
	w(11)(unix.Pwrite(fd, make([]byte, 11), 100))
	w(12)(unix.Writev(fd, vector(4, 8)))
	w(13)(unix.Pwritev(fd, vector(6, 7), 200))
	w(14)(unix.Pwritev2(fd, vector(14), 300, 0))
	w(15)(unix.Pwritev2(fd, vector(1, 14), -1, 0))
	if _, err := unix.Seek(fd, 0, 0); err != nil {
		s.t.Fatal(err)
	}
	r(7)(unix.Read(fd, make([]byte, 7)))
	r(8)(unix.Pread(fd, make([]byte, 8), 0))
	r(9)(unix.Readv(fd, vector(3, 6)))
	r(6)(unix.Preadv(fd, vector(6), 1))
	r(5)(unix.Preadv2(fd, vector(5), 2, 0))
	r(4)(unix.Preadv2(fd, vector(4), -1, 0))
	r(14)(unix.Pread(fd, make([]byte, 999), 300)) // short
	s.moves(0)(unix.Pread(fd, make([]byte, 9), 9999))
	s.moves(0)(unix.Write(fd, nil))
	s.fails(unix.Pread(fd, make([]byte, 9), -1))
	readOnly := s.open(path, unix.O_RDONLY)
	s.fails(unix.Write(readOnly, make([]byte, 9)))
	s.fails(unix.Write(-1, make([]byte, 9)))
	_, _, e := unix.Syscall(unix.SYS_READ, uintptr(fd), 16, 9) // nothing is mapped there
	if e != unix.EFAULT {
		s.t.Fatalf("read into nowhere: %v", e)
	}
	// Beside the calls that count.
	other := s.open(filepath.Join(fileDir(s.t), "copy"), unix.O_RDWR|unix.O_CREAT)
	s.not = append(s.not, stat(s.t, other).Ino)
	s.moves(20)(unix.Sendfile(other, readOnly, nil, 20))
	s.moves(5)(unix.CopyFileRange(readOnly, nil, other, nil, 5, 0))
	m, err := unix.Mmap(fd, 0, 10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		s.t.Fatal(err)
	}
	m[3] = m[4] + 1
	unix.Munmap(m)
}

func deviceOperations(s *script) {
	zero := s.open("/dev/zero", unix.O_RDWR)
	s.did(zero, File, false, 9)(unix.Read(zero, make([]byte, 9)))
	s.did(zero, File, true, 8)(unix.Write(zero, make([]byte, 8)))
	proc := s.open("/proc/self/comm", unix.O_RDONLY)
	n, err := unix.Pread(proc, make([]byte, 64), 0)
	s.did(proc, File, false, n)(n, err)
	memfd := -1
	for memfd < 0 || stat(s.t, memfd).Ino == stat(s.t, 1).Ino || stat(s.t, memfd).Ino == stat(s.t, 2).Ino {
		// Numbers begin at 1 here, and what the test prints goes to a file as well.
		fd, err := unix.MemfdCreate("some thing", unix.MFD_CLOEXEC)
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { unix.Close(fd) })
		memfd = fd
	}
	s.did(memfd, File, true, 5)(unix.Pwrite(memfd, make([]byte, 5), 0))

	// No files, though they are read and written.
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { unix.Close(event) })
	s.not = append(s.not, stat(s.t, event).Ino)
	s.moves(8)(unix.Write(event, []byte{1, 0, 0, 0, 0, 0, 0, 0}))
	s.moves(8)(unix.Read(event, make([]byte, 8)))
	if st := stat(s.t, event); st.Mode&unix.S_IFMT == unix.S_IFREG {
		s.t.Log("this kernel shows anonymous inodes as regular files")
	}
}

func pipeOperations(s *script) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		s.t.Fatal(err)
	}
	fifo := filepath.Join(fileDir(s.t), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		s.t.Fatal(err)
	}
	for _, ends := range [][2]int{p, {s.open(fifo, unix.O_RDWR|unix.O_NONBLOCK), s.open(fifo, unix.O_WRONLY|unix.O_NONBLOCK)}} {
		in, out := ends[0], ends[1]
		s.fails(unix.Read(in, make([]byte, 9))) // EAGAIN
		s.did(out, Pipe, true, 10)(unix.Write(out, make([]byte, 10)))
		s.did(out, Pipe, true, 11)(unix.Writev(out, vector(5, 6)))
		s.did(in, Pipe, false, 8)(unix.Read(in, make([]byte, 8)))
		s.did(in, Pipe, false, 9)(unix.Readv(in, vector(4, 5)))
		s.did(in, Pipe, false, 4)(unix.Read(in, make([]byte, 99)))
		s.fails(unix.Pread(in, make([]byte, 9), 0)) // ESPIPE
	}
	// splice and tee move bytes that no call returns to the process.
	var q [2]int
	if err := unix.Pipe2(q[:], unix.O_CLOEXEC); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		for _, fd := range []int{p[0], p[1], q[0], q[1]} {
			unix.Close(fd)
		}
	})
	s.did(p[1], Pipe, true, 6)(unix.Write(p[1], make([]byte, 6)))
	n, err := unix.Tee(p[0], q[1], 6, 0)
	s.moves(6)(int(n), err)
	n, err = unix.Splice(p[0], nil, q[1], nil, 6, 0)
	s.moves(6)(int(n), err)
	s.did(q[0], Pipe, false, 12)(unix.Read(q[0], make([]byte, 99)))
	if _, _, e := unix.Syscall(unix.SYS_CLOSE, uintptr(p[1]), 0, 0); e != 0 {
		s.t.Fatal(e)
	}
	s.moves(0)(unix.Read(p[0], make([]byte, 9))) // end of file
}

// socketPair makes two connected sockets.
func (s *script) socketPair(family, kind int) (int, int) {
	s.t.Helper()
	p, err := unix.Socketpair(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { unix.Close(p[0]); unix.Close(p[1]) })
	return p[0], p[1]
}

// message is struct mmsghdr.
type message struct {
	header unix.Msghdr
	length uint32
	_      uint32
}

// messages makes the argument of sendmmsg and recvmmsg.
func messages(sizes ...int) ([]message, []unix.Iovec) {
	all, vectors := make([]message, len(sizes)), make([]unix.Iovec, len(sizes))
	for i, n := range sizes {
		b := make([]byte, max(n, 1))
		vectors[i].Base = &b[0]
		vectors[i].SetLen(n)
		all[i].header.Iov = &vectors[i]
		all[i].header.SetIovlen(1)
	}
	return all, vectors
}

// many is sendmmsg or recvmmsg of all messages.
func (s *script) many(call uintptr, fd int, all []message, vectors []unix.Iovec) {
	s.t.Helper()
	n, _, e := unix.Syscall6(call, uintptr(fd), uintptr(unsafe.Pointer(&all[0])), uintptr(len(all)), 0, 0, 0)
	runtime.KeepAlive(vectors)
	if e != 0 || int(n) != len(all) {
		s.t.Fatalf("call %d: %d messages, %v, want %d", call, n, e, len(all))
	}
}

func unixSocketOperations(s *script) {
	for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET} {
		a, b := s.socketPair(unix.AF_UNIX, kind)
		out := func(n int) func(int, error) { return s.did(a, Socket, true, n) }
		in := func(n int) func(int, error) { return s.did(b, Socket, false, n) }
		receive := func(want, flags int) {
			s.t.Helper()
			n, _, err := unix.Recvfrom(b, make([]byte, want), flags)
			if flags&unix.MSG_PEEK != 0 {
				s.moves(want)(n, err)
			} else {
				in(want)(n, err)
			}
		}
		out(10)(unix.Write(a, make([]byte, 10)))
		receive(10, unix.MSG_PEEK)
		receive(10, unix.MSG_PEEK)
		receive(10, 0)
		out(11)(unix.Writev(a, vector(5, 6)))
		in(11)(unix.Read(b, make([]byte, 11)))
		out(12)(unix.SendmsgN(a, make([]byte, 12), nil, nil, 0))
		n, _, _, _, err := unix.Recvmsg(b, make([]byte, 12), nil, unix.MSG_PEEK)
		s.moves(12)(n, err)
		n, _, _, _, err = unix.Recvmsg(b, make([]byte, 12), nil, 0)
		in(12)(n, err)
		if err := unix.Send(a, make([]byte, 13), 0); err != nil {
			s.t.Fatal(err)
		}
		out(13)(13, nil)
		in(13)(unix.Readv(b, vector(6, 7)))
		s.fails(unix.Read(b, make([]byte, 9)))
		s.fails(unix.Read(a, make([]byte, 9)))
		if kind != unix.SOCK_STREAM {
			all, vectors := messages(3, 4, 5)
			s.many(unix.SYS_SENDMMSG, a, all, vectors)
			for _, n := range []int{3, 4, 5} {
				out(n)(n, nil)
			}
			all, vectors = messages(99, 99, 99)
			s.many(unix.SYS_RECVMMSG, b, all, vectors)
			for i, n := range []int{3, 4, 5} {
				if i == 0 || !s.receiveGap {
					in(n)(n, nil)
				}
			}
			if all[2].length != 5 {
				s.t.Fatalf("third message has %d bytes, want 5", all[2].length)
			}
		}
		// A file into a socket is no call of the socket's.
		file := s.open("/proc/self/exe", unix.O_RDONLY)
		if kind == unix.SOCK_STREAM {
			s.moves(20)(unix.Sendfile(a, file, nil, 20))
			in(20)(unix.Read(b, make([]byte, 99)))
		}
	}
}

// inet makes a connected pair over loopback.
func (s *script) inet(kind int) (int, int) {
	s.t.Helper()
	open := func() int {
		fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	server, client := open(), open()
	must := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	loopback := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	must(unix.Bind(server, loopback))
	address, err := unix.Getsockname(server)
	must(err)
	if kind == unix.SOCK_DGRAM {
		must(unix.Connect(client, address))
		return client, server
	}
	must(unix.Listen(server, 1))
	must(unix.Connect(client, address))
	accepted, _, err := unix.Accept4(server, unix.SOCK_CLOEXEC)
	must(err)
	s.t.Cleanup(func() { unix.Close(accepted) })
	return client, accepted
}

// udp makes a socket that is connected to nobody.
func (s *script) udp() int {
	s.t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// address is where a socket is bound.
func (s *script) address(fd int) *unix.RawSockaddrInet4 {
	s.t.Helper()
	name, err := unix.Getsockname(fd)
	if err != nil {
		s.t.Fatal(err)
	}
	in := name.(*unix.SockaddrInet4)
	raw := &unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: in.Addr}
	raw.Port = uint16(in.Port)<<8 | uint16(in.Port)>>8
	return raw
}

func inetOperations(s *script) {
	for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM} {
		a, b := s.inet(kind)
		out := func(n int) func(int, error) { return s.did(a, Socket, true, n) }
		in := func(n int) func(int, error) { return s.did(b, Socket, false, n) }
		out(10)(unix.Write(a, make([]byte, 10)))
		n, _, err := unix.Recvfrom(b, make([]byte, 10), unix.MSG_PEEK)
		s.moves(10)(n, err)
		in(10)(unix.Read(b, make([]byte, 10)))
		out(11)(unix.SendmsgN(a, make([]byte, 11), nil, nil, 0))
		n, _, err = unix.Recvfrom(b, make([]byte, 11), unix.MSG_WAITALL)
		in(11)(n, err)
		all, vectors := messages(6, 7)
		s.many(unix.SYS_SENDMMSG, a, all, vectors)
		out(6)(6, nil)
		out(7)(7, nil)
		if kind == unix.SOCK_DGRAM {
			in(6)(unix.Read(b, make([]byte, 6)))
			in(7)(unix.Read(b, make([]byte, 99)))
		} else {
			n, _, err = unix.Recvfrom(b, make([]byte, 13), unix.MSG_WAITALL)
			in(13)(n, err)
		}
		if kind == unix.SOCK_DGRAM {
			// Several messages to one address, which the kernel checks once.
			c, address := s.udp(), s.address(b)
			all, vectors := messages(8, 9)
			for i := range all {
				all[i].header.Name, all[i].header.Namelen = (*byte)(unsafe.Pointer(address)), unix.SizeofSockaddrInet4
			}
			s.many(unix.SYS_SENDMMSG, c, all, vectors)
			s.did(c, Socket, true, 8)(8, nil)
			if !s.sendGap {
				s.did(c, Socket, true, 9)(9, nil)
			}
			in(8)(unix.Read(b, make([]byte, 99)))
			in(9)(unix.Read(b, make([]byte, 99)))
			// Without data there is no operation, in either direction.
			s.moves(0)(unix.SendmsgN(a, nil, nil, nil, 0))
			s.moves(0)(unix.Read(b, make([]byte, 9)))
			// An error queue has messages that nobody sent to this socket.
			n, _, err = unix.Recvfrom(b, make([]byte, 9), unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
			s.fails(n, err)
		}
	}
}

// TestOperations compares every call that moves bytes with what is counted, in
// every way that this kernel has.
func TestOperations(t *testing.T) {
	for _, way := range ioOptions {
		t.Run(way.name, func(t *testing.T) {
			w := watchIO(t, way.options)
			for _, c := range []struct {
				name string
				run  func(*script)
			}{
				{"file", fileOperations},
				{"device, proc, memfd", deviceOperations},
				{"pipe and fifo", pipeOperations},
				{"unix sockets", unixSocketOperations},
				{"tcp and udp", inetOperations},
			} {
				t.Run(c.name, func(t *testing.T) {
					w.reset()
					s := &script{t: t, want: map[done]amount{}, sendGap: covers(w.s, "sendmmsg with one address"), receiveGap: covers(w.s, "recvmmsg: only the first")}
					c.run(s)
					w.t = t
					w.drain()
					w.check(s)
				})
			}
			w.t = t
		})
	}
}

// covers says whether a line of coverage of pipes and sockets begins so.
func covers(s *Sensors, begin string) bool {
	return slices.ContainsFunc(s.Status().Coverage, func(c string) bool { return strings.HasPrefix(c, begin) })
}

// What the reader itself reads of procfs fills no table; its other files are counted,
// and what it writes to procfs.
func TestOwnProc(t *testing.T) {
	w := watchAs(t, Options{})
	if w.s.io.namespace != 0 {
		t.Skip("not in the first PID namespace: the program does not know its reader there")
	}
	s := &script{t: t, want: map[done]amount{}}
	proc := s.open("/proc/self/comm", unix.O_RDWR)
	s.moves(2)(unix.Pread(proc, make([]byte, 2), 0))
	s.did(proc, File, true, 4)(unix.Write(proc, []byte("name")))
	zero := s.open("/dev/zero", unix.O_RDONLY)
	s.did(zero, File, false, 9)(unix.Read(zero, make([]byte, 9)))
	w.drain()
	w.check(s)
	if read := (done{kind: File, inode: stat(t, proc).Ino}); w.sums[read] != (amount{}) {
		t.Errorf("its own reading of procfs: %+v", w.sums[read])
	}
}

// TestResources compares resources with stat and processes with /proc.
func TestResources(t *testing.T) {
	w := watchIO(t, Options{})
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	s := &script{t: t, want: map[done]amount{}}
	a, b := s.socketPair(unix.AF_UNIX, unix.SOCK_STREAM)
	file := s.open(filepath.Join(fileDir(t), "f"), unix.O_RDWR|unix.O_CREAT)
	shm := s.open("/dev/zero", unix.O_RDWR)
	unix.Write(p[1], []byte("x"))
	unix.Write(a, []byte("x"))
	unix.Write(file, []byte("x"))
	unix.Write(shm, []byte("x"))
	w.drain()
	for _, c := range []struct {
		fd   int
		kind Kind
	}{{p[1], Pipe}, {a, Socket}, {file, File}, {shm, File}} {
		st := stat(t, c.fd)
		r, ok := w.rows[done{c.kind, st.Ino, true}]
		if !ok {
			t.Errorf("no row of kind %d inode %d", c.kind, st.Ino)
			continue
		}
		if unix.Mkdev(r.Major, r.Minor) != st.Dev {
			t.Errorf("kind %d: device %d:%d, want %d:%d", c.kind, r.Major, r.Minor, unix.Major(st.Dev), unix.Minor(st.Dev))
		}
		generation := uint32(0)
		if c.fd == file {
			var arg uint64 // FS_IOC_GETVERSION, include/uapi/linux/fs.h
			_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(c.fd), 0x80087601, uintptr(unsafe.Pointer(&arg)))
			if e != 0 {
				t.Logf("the file system tells no generation: %v", e)
				continue
			}
			generation = uint32(arg)
		} else if c.kind == File {
			continue
		}
		if r.Generation != generation {
			t.Errorf("kind %d: generation %d, want %d", c.kind, r.Generation, generation)
		}
	}
	r := w.rows[done{Pipe, stat(t, p[1]).Ino, true}]
	if got, want := (r.Start+startOffset(t))/1e7, startTicks(t, os.Getpid()); got != want {
		t.Errorf("start %d ns is %d ticks, /proc says %d", r.Start, got, want)
	}
	unix.Close(p[0])
	unix.Close(p[1])
	_ = b
}

// onThread runs f on a thread of its own, which ends with it: what f changes of
// the thread stays there.
func onThread(t *testing.T, f func() error) {
	t.Helper()
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		result <- f()
	}()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}

func TestPaths(t *testing.T) {
	for _, way := range ioOptions[:3] {
		t.Run(way.name, func(t *testing.T) { testPaths(t, watchIO(t, way.options)) })
	}
}

func testPaths(t *testing.T, w *watched) {
	needRoot(t)
	dir, err := filepath.EvalSymlinks(fileDir(t))
	if err != nil {
		t.Fatal(err)
	}
	s := &script{t: t, want: map[done]amount{}}
	write := func(fd int) []string {
		t.Helper()
		w.reset()
		if n, err := unix.Write(fd, []byte("x")); n != 1 || err != nil {
			t.Fatalf("write: %d, %v", n, err)
		}
		w.drain()
		return w.paths[done{File, stat(t, fd).Ino, true}]
	}
	expect := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	create := func(path string) int { return s.open(path, unix.O_RDWR|unix.O_CREAT) }
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	odd := filepath.Join(dir, " two  blanks\nand a line \xff")
	expect("odd name", write(create(odd)), odd)
	fd := create(filepath.Join(dir, "first"))
	expect("name", write(fd), dir+"/first")
	do(os.Rename(filepath.Join(dir, "first"), filepath.Join(dir, "second")))
	expect("renamed", write(fd), dir+"/second")
	do(os.Link(filepath.Join(dir, "second"), filepath.Join(dir, "third")))
	expect("opened by another link", write(s.open(filepath.Join(dir, "third"), unix.O_RDWR)), dir+"/third")
	do(os.Remove(filepath.Join(dir, "second")))
	expect("unlinked", write(fd), dir+"/second (deleted)")
	link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	do(err)
	expect("as the link says", write(fd), link)
	for _, path := range []string{"/dev/zero", "/dev/null", "/proc/self/comm"} {
		fd := s.open(path, unix.O_RDWR)
		link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		do(err)
		expect(path, write(fd), link)
	}
	memfd, err := unix.MemfdCreate("my mem", unix.MFD_CLOEXEC)
	do(err)
	defer unix.Close(memfd)
	expect("memfd", write(memfd), "/memfd:my mem (deleted)")
	if tmp, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600); err == nil {
		defer unix.Close(tmp)
		link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", tmp))
		do(err)
		expect("without a name", write(tmp), link)
	} else if !errors.Is(err, unix.EOPNOTSUPP) {
		t.Fatal(err)
	}

	// Deep and long paths have none, and their bytes count.
	deep := dir
	for range 70 {
		deep += "/d"
	}
	do(os.MkdirAll(deep, 0o700))
	fd = create(deep + "/f")
	expect("too deep", write(fd))
	if a := w.sums[done{File, stat(t, fd).Ino, true}]; a != (amount{1, 1}) {
		t.Errorf("too deep: got %+v, want one byte", a)
	}
	long, at := dir, s.open(dir, unix.O_PATH)
	for len(long) < 4300 {
		name := strings.Repeat("n", 200)
		do(unix.Mkdirat(at, name, 0o700))
		if at, err = unix.Openat(at, name, unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
			t.Fatal(err)
		}
		defer unix.Close(at)
		long += "/" + name
		if len(long) < 3800 || len(long) > 4200 {
			fd, err := unix.Openat(at, "f", unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
			do(err)
			defer unix.Close(fd)
			if len(long) < 4000 {
				expect("long", write(fd), long+"/f")
			} else {
				expect("too long", write(fd))
			}
		}
	}

	// A process sees itself below its root; a path begins at the mount namespace's.
	onThread(t, func() error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return err
		}
		if err := unix.Chroot(dir); err != nil {
			return err
		}
		fd, err := unix.Open("/in the root", unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		expect("chroot", write(fd), dir+"/in the root")
		return nil
	})
	onThread(t, func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
			return err
		}
		at := filepath.Join(dir, "mount")
		bound := filepath.Join(dir, "bound file")
		return errors.Join(
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			os.Mkdir(at, 0o700),
			unix.Mount("none", at, "tmpfs", 0, ""),
			func() error {
				fd, err := unix.Open(at+"/f", unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
				if err != nil {
					return err
				}
				defer unix.Close(fd)
				expect("file system of a namespace", write(fd), at+"/f")
				if err := os.WriteFile(bound, nil, 0o600); err != nil {
					return err
				}
				if err := unix.Mount(at+"/f", bound, "", unix.MS_BIND, ""); err != nil {
					return err
				}
				fd, err = unix.Open(bound, unix.O_RDWR|unix.O_CLOEXEC, 0)
				if err != nil {
					return err
				}
				defer unix.Close(fd)
				expect("bound file", write(fd), bound)
				// A new root: the path begins there.
				if err := os.Mkdir(at+"/old", 0o700); err != nil {
					return err
				}
				if err := unix.PivotRoot(at, at+"/old"); errors.Is(err, unix.EINVAL) && rootIsInitial(t) {
					t.Log("not tried with a new root: this one is the initial file system, which cannot be changed")
					return nil
				} else if err != nil {
					return err
				}
				if err := unix.Chdir("/"); err != nil {
					return err
				}
				fd, err = unix.Open("/f", unix.O_RDWR|unix.O_CLOEXEC, 0)
				if err != nil {
					return err
				}
				defer unix.Close(fd)
				expect("new root", write(fd), "/f")
				return nil
			}(),
		)
	})
}

// rootIsInitial says whether the root is what the kernel unpacked at boot, as in
// a machine without a disk.
//
// Source: pivot_root(2), EINVAL.
func rootIsInitial(t *testing.T) bool {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		if f := strings.Fields(line); len(f) > 4 && f[4] == "/" && strings.Contains(line, " - rootfs ") {
			return true
		}
	}
	return false
}

// TestWithoutPaths counts everything where the kernel refuses to read names.
func TestWithoutPaths(t *testing.T) {
	w := watchIO(t, Options{WithoutPathWalk: true})
	s := &script{t: t, want: map[done]amount{}}
	fileOperations(s)
	w.drain()
	w.check(s)
	if len(w.paths) != 0 {
		t.Errorf("paths %v, want none", w.paths)
	}
	if c := w.s.Status().FilesCoverage; !slices.ContainsFunc(c, func(l string) bool { return strings.HasPrefix(l, "paths unavailable") }) {
		t.Errorf("coverage does not say that there are no paths: %q", c)
	}
}

// TestDescriptorClosedMeanwhile has a read end after its descriptor is gone. At
// functions it is still known; at system calls it is unresolved.
func TestDescriptorClosedMeanwhile(t *testing.T) {
	for _, way := range ioOptions[:3] {
		t.Run(way.name, func(t *testing.T) {
			w := watchIO(t, way.options)
			before := w.s.Status().Unresolved
			var p [2]int
			if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
				t.Fatal(err)
			}
			defer unix.Close(p[1])
			inode := stat(t, p[0]).Ino
			tid, read := make(chan int), make(chan error)
			go func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				tid <- unix.Gettid()
				n, err := unix.Read(p[0], make([]byte, 5))
				if n != 5 && err == nil {
					err = fmt.Errorf("read %d bytes, want 5", n)
				}
				read <- err
			}()
			path := fmt.Sprintf("/proc/self/task/%d/syscall", <-tid)
			eventually(t, "the thread waits in read", func() bool {
				b, err := os.ReadFile(path)
				return err == nil && strings.HasPrefix(string(b), fmt.Sprintf("0 %#x ", p[0]))
			})
			unix.Close(p[0])
			// Nothing else may take the number before the read has ended.
			if n, err := unix.Write(p[1], make([]byte, 5)); n != 5 || err != nil {
				t.Fatalf("write: %d, %v", n, err)
			}
			if err := <-read; err != nil {
				t.Fatal(err)
			}
			w.drain()
			seen := w.sums[done{Pipe, inode, false}]
			gone := w.s.Status().Unresolved - before
			if seen != (amount{5, 1}) && gone == 0 {
				t.Errorf("a read of 5 bytes is neither seen (%+v) nor unresolved", seen)
			}
			if got, want := w.sums[done{Pipe, inode, true}], (amount{5, 1}); got != want {
				t.Errorf("write: got %+v, want %+v", got, want)
			}
		})
	}
}

// storm is how many operations of each kind the test of loss does.
func storm() int {
	if os.Getenv("PROCINSH_SOAK") != "" {
		return 500_000
	}
	return 50_000
}

// TestNothingIsLost reads, writes and sends from several threads while windows
// are taken, and wants every operation exactly once.
func TestNothingIsLost(t *testing.T) {
	w := watchIO(t, Options{})
	const threads = 4
	each := storm() / threads
	s := &script{t: t, want: map[done]amount{}}
	zero := s.open("/dev/zero", unix.O_RDWR)
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	a, b := s.socketPair(unix.AF_UNIX, unix.SOCK_SEQPACKET)
	var failed atomic.Int64
	var running sync.WaitGroup
	for range threads {
		running.Go(func() {
			buffer := make([]byte, 3)
			check := func(n int, err error) {
				if n != 3 || err != nil {
					failed.Add(1)
				}
			}
			for range each {
				check(unix.Read(zero, buffer))
				check(unix.Write(p[1], buffer))
				check(unix.Read(p[0], buffer))
				for {
					n, err := unix.SendmsgN(a, buffer, nil, nil, 0)
					if err == unix.EAGAIN {
						runtime.Gosched()
						continue
					}
					check(n, err)
					break
				}
				check(unix.Read(b, buffer))
			}
		})
	}
	ended := make(chan struct{})
	go func() { running.Wait(); close(ended) }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for going := true; going; {
		select {
		case <-ended:
			going = false
		case <-tick.C:
			w.drain()
		}
	}
	w.drain()
	w.drain() // what a program was late with
	if n := failed.Load(); n != 0 {
		t.Fatalf("%d operations failed", n)
	}
	want := amount{uint64(3 * threads * each), uint64(threads * each)}
	for what, k := range map[string]done{
		"reads of a file": {File, stat(t, zero).Ino, false},
		"pipe out":        {Pipe, stat(t, p[1]).Ino, true},
		"pipe in":         {Pipe, stat(t, p[0]).Ino, false},
		"socket out":      {Socket, stat(t, a).Ino, true},
		"socket in":       {Socket, stat(t, b).Ino, false},
	} {
		if got := w.sums[k]; got != want {
			t.Errorf("%s: got %+v, want %+v", what, got, want)
		}
	}
}

// TestTinyTables has room for next to nothing: what finds no place is counted.
func TestTinyTables(t *testing.T) {
	const files, each = 400, 3
	w := watchIO(t, Options{TableSlots: 1, SpillEntries: 8, RingBytes: 4096})
	before := w.s.Status()
	dir := fileDir(t)
	inodes := map[uint64]bool{}
	for i := range files {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		for range each {
			if _, err := f.WriteString("four"); err != nil {
				t.Fatal(err)
			}
		}
		inodes[stat(t, int(f.Fd())).Ino] = true
		f.Close()
	}
	w.drain()
	w.drain()
	var seen amount
	for inode := range inodes {
		a := w.sums[done{File, inode, true}]
		if a.bytes != 4*a.count || a.count > each {
			t.Errorf("inode %d: %+v of %d operations of 4 bytes", inode, a, each)
		}
		seen = amount{seen.bytes + a.bytes, seen.count + a.count}
	}
	lost := w.s.Status().FilesLost - before.FilesLost
	if seen.count >= files*each || lost == 0 {
		t.Errorf("seen %d of %d operations and lost %d: tables are not tiny", seen.count, files*each, lost)
	}
	// Others on this machine lose in the same tables, so there may be more.
	if seen.count+lost < files*each {
		t.Errorf("seen %d and lost %d of %d operations", seen.count, lost, files*each)
	}
}

// TestSpill has no room in slots and enough beside them: every count is exact.
func TestSpill(t *testing.T) {
	const files = 300
	w := watchIO(t, Options{TableSlots: 1, RingBytes: 4096})
	dir := fileDir(t)
	var first uint64
	for i := range files {
		path := filepath.Join(dir, fmt.Sprint(i))
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := unix.Write(fd, make([]byte, i+1)); err != nil {
				t.Fatal(err)
			}
		}
		if i == 0 {
			first = stat(t, fd).Ino
		}
		defer unix.Close(fd)
	}
	w.drain()
	w.drain()
	seen, bytes := 0, uint64(0)
	for k, a := range w.sums {
		if r := w.rows[k]; k.write && a.count == 2 && k.kind == File && r.Inode != 0 {
			seen++
			bytes += a.bytes
		}
	}
	if want := uint64(files * (files + 1)); seen < files || bytes < want {
		t.Errorf("seen %d files with %d bytes, want %d with %d", seen, bytes, files, want)
	}
	if got, want := w.sums[done{File, first, true}], (amount{2, 2}); got != want {
		t.Errorf("first file: got %+v, want %+v", got, want)
	}
	// The ring of paths is far too small for all of them, and says so.
	if c := w.s.Status().FilesCoverage; !slices.ContainsFunc(c, func(l string) bool { return strings.HasPrefix(l, "some paths were not reported") }) {
		t.Errorf("coverage does not say that paths are missing: %q", c)
	}
}

// TestManyFiles has a path of its own on each of thousands of files.
func TestManyFiles(t *testing.T) {
	const files = 3000
	w := watchIO(t, Options{})
	dir, err := filepath.EvalSymlinks(fileDir(t))
	if err != nil {
		t.Fatal(err)
	}
	want := map[uint64]string{}
	for i := range files {
		path := filepath.Join(dir, fmt.Sprintf("file-%04d", i))
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Write(fd, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		want[stat(t, fd).Ino] = path
		unix.Close(fd)
		if i%1000 == 999 {
			w.drain()
		}
	}
	w.drain()
	missing, lost := 0, w.s.Status().FilesLost
	for inode, path := range want {
		k := done{File, inode, true}
		a := w.sums[k]
		if a == (amount{}) {
			missing++
			continue
		}
		if a != (amount{10, 1}) {
			t.Errorf("%s: got %+v, want 10 bytes in one operation", path, a)
		}
		if !slices.Equal(w.paths[k], []string{path}) {
			t.Errorf("%s: got paths %q", path, w.paths[k])
		}
	}
	if uint64(missing) > lost {
		t.Errorf("%d of %d files missing, %d operations lost", missing, files, lost)
	}
}

// TestTransfersInPIDNamespace has the sensors opened by process 1 of a namespace.
// They report only if the canary is seen under that number.
func TestTransfersInPIDNamespace(t *testing.T) {
	needRoot(t)
	watchIO(t, Options{})
	a, _, _, _ := ask(t, "status", func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	})
	if a.PID != 1 {
		t.Fatalf("the child is process %d, want 1", a.PID)
	}
	if a.Status.IPC.State != StateObserving || a.Status.Files.State != StateObserving {
		t.Errorf("inside the sensors are %+v and %+v", a.Status.IPC, a.Status.Files)
	}
}

// TestOrderOfWindow finds the rows in the documented order, each key once.
func TestOrderOfWindow(t *testing.T) {
	w := watchIO(t, Options{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for range 5 {
		c, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		d, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c.Write([]byte("to"))
		d.Read(make([]byte, 9))
		c.Close()
		d.Close()
	}
	w.drain()
	for _, rows := range [][]Transfer{w.w.IPC, w.w.Files} {
		for i := 1; i < len(rows); i++ {
			a := transferKey{rows[i-1].Process, rows[i-1].Resource, rows[i-1].Write}
			b := transferKey{rows[i].Process, rows[i].Resource, rows[i].Write}
			if a.compare(b) >= 0 {
				t.Errorf("row %d %+v does not come before %+v", i, a, b)
			}
		}
	}
	if len(w.w.IPC) < 2 {
		t.Errorf("%d rows, want those of five connections", len(w.w.IPC))
	}
}
