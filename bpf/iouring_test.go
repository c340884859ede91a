package bpf

import (
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// uring is just enough of io_uring to have one operation done.
//
// Source: include/uapi/linux/io_uring.h, 5.1; IORING_OP_SEND and RECV 5.6.
type uring struct {
	fd                int
	submission, queue memory // the rings and the entries
	offsets           uringParams
}

type uringParams struct {
	entries, completions, flags, cpu, idle, features, wq uint32
	_                                                    [3]uint32
	sq                                                   struct {
		head, tail, mask, entries, flags, dropped, array, _ uint32
		_                                                   uint64
	}
	cq struct {
		head, tail, mask, entries, overflow, cqes, flags, _ uint32
		_                                                   uint64
	}
}

const (
	uringRead, uringWrite, uringSend, uringReceive = 22, 23, 26, 27 // enum io_uring_op
	uringRings, uringEntries                       = 0, 0x10000000  // IORING_OFF_SQ_RING, IORING_OFF_SQES
	uringSingleMap                                 = 1              // IORING_FEAT_SINGLE_MMAP, 5.4
	uringGetEvents                                 = 1              // IORING_ENTER_GETEVENTS
)

// newUring skips where the machine does not allow io_uring.
func newUring(t *testing.T) *uring {
	t.Helper()
	u := &uring{}
	fd, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&u.offsets)), 0)
	if e == unix.ENOSYS || e == unix.EPERM {
		t.Skipf("this machine allows no io_uring: %v", e)
	}
	if e != 0 {
		t.Fatalf("io_uring_setup: %v", e)
	}
	u.fd = int(fd)
	t.Cleanup(func() { unix.Close(u.fd) })
	if u.offsets.features&uringSingleMap == 0 {
		t.Skip("the rings are two, before 5.4")
	}
	o := &u.offsets
	size := max(int(o.sq.array+4*o.entries), int(o.cq.cqes+16*o.completions))
	for _, m := range []struct {
		to     *memory
		size   int
		offset int64
	}{{&u.submission, size, uringRings}, {&u.queue, 64 * int(o.entries), uringEntries}} {
		b, err := unix.Mmap(u.fd, m.offset, m.size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Munmap(b) })
		*m.to = b
	}
	return u
}

// do has one operation done and returns its result.
func (u *uring) do(op byte, fd int, b []byte) (int, error) {
	o := &u.offsets
	tail := u.submission.u32(int(o.sq.tail))
	at := tail & u.submission.u32(int(o.sq.mask))
	entry := u.queue[64*at : 64*at+64]
	var pin runtime.Pinner // its address stands in memory that Go does not look at
	defer pin.Unpin()
	pin.Pin(&b[0])
	clear(entry)
	entry[0] = op
	entry.setU32(4, uint32(fd))
	entry.setU64(16, uint64(uintptr(unsafe.Pointer(&b[0]))))
	entry.setU32(24, uint32(len(b)))
	u.submission.setU32(int(o.sq.array+4*at), at)
	u.submission.setU32(int(o.sq.tail), tail+1)
	head := u.submission.u32(int(o.cq.head))
	// A signal ends the wait early; what was submitted stays so.
	for submit := uintptr(1); head == u.submission.u32(int(o.cq.tail)); submit = 0 {
		if _, _, e := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(u.fd), submit, 1, uringGetEvents, 0, 0); e != 0 && (e != unix.EINTR || submit == 1) {
			return -1, e
		}
	}
	result := int32(u.submission.u32(int(o.cq.cqes+16*(head&u.submission.u32(int(o.cq.mask)))) + 8))
	u.submission.setU32(int(o.cq.head), head+1)
	if result < 0 {
		return -1, unix.Errno(-result)
	}
	return int(result), nil
}

// TestIOUringIsOutside moves bytes that coverage says are not counted.
func TestIOUringIsOutside(t *testing.T) {
	for _, way := range ioOptions {
		t.Run(way.name, func(t *testing.T) {
			w := watchIO(t, way.options)
			if covers(w.s, "io_uring on sockets is counted") {
				t.Skip("this kernel counts it, as its coverage says")
			}
			u := newUring(t)
			s := &script{t: t, want: map[done]amount{}}
			zero := s.open("/dev/zero", unix.O_RDWR)
			var p [2]int
			if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
				t.Fatal(err)
			}
			defer unix.Close(p[0])
			defer unix.Close(p[1])
			a, b := s.socketPair(unix.AF_UNIX, unix.SOCK_STREAM)
			s.not = []uint64{stat(t, zero).Ino, stat(t, p[0]).Ino, stat(t, a).Ino}
			buffer := make([]byte, 32)
			s.moves(9)(u.do(uringRead, zero, buffer[:9]))
			s.moves(8)(u.do(uringWrite, p[1], buffer[:8]))
			s.moves(7)(u.do(uringSend, a, buffer[:7]))
			s.moves(6)(u.do(uringSend, a, buffer[:6]))
			s.did(b, Socket, false, 10)(unix.Read(b, buffer[:10]))
			s.moves(3)(u.do(uringReceive, b, buffer[:3]))
			w.drain()
			w.check(s)
			if w.sums[done{Pipe, stat(t, p[1]).Ino, true}] != (amount{}) {
				t.Error("a pipe's bytes are counted")
			}
		})
	}
}
