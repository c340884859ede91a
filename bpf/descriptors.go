package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Sizes and positions in src/descriptors.bpf.c.
const (
	fileSize  = 56
	fileTGID  = 4
	fileTID   = 8
	fileFD    = 12
	fileMode  = 16
	fileDev   = 20
	fileInode = 24
	fileStart = 32
	fileName  = 40

	socketSize       = 112
	socketFamily     = 56
	socketType       = 58
	socketProtocol   = 60
	socketState      = 62
	socketLocalPort  = 64
	socketRemotePort = 66
	socketNetNS      = 68
	socketPeer       = 72
	socketLocal      = 80
	socketRemote     = 96

	maxFileRecord = 4152 // fileSize and a path
)

// Descriptor is one open descriptor as the kernel's tables have it. Process IDs are
// those of the reader's PID namespace. What begins with Socket is 0 of what is none.
type Descriptor struct {
	PID   int32
	FD    int32
	Start uint64         // ns, start_boottime of the leader, in the first time namespace
	Name  [nameSize]byte // comm of the leader; ends at the first NUL

	Mode        uint32 // of the inode, as st_mode
	Read, Write bool   // what it was opened for; neither for O_PATH
	Device      uint64 // s_dev of the file system, written as st_dev is
	Inode       uint64

	SocketFamily, SocketType, SocketProtocol uint16
	SocketState                              uint8 // of include/net/tcp_states.h
	SocketNetNS                              uint32
	SocketPeer                               uint64 // inode of the other end of a UNIX socket; 0: none, or one that nobody has accepted
	LocalPort, RemotePort                    uint16 // 0: none
	LocalAddress, RemoteAddress              [16]byte

	// Text is the name that a UNIX socket is bound to, or a path as /proc/PID/fd shows
	// it when those were asked for; empty without one. It is valid during the call.
	Text []byte
}

// Descriptors reads the open descriptors of the host from the kernel's own tables. Not
// safe for concurrent use.
//
// Effect on the targets: none; nothing is stopped, and each file is held for as long as
// its record takes.
// Source: bpf_iter_task_file, kernel/bpf/task_iter.c, 5.8.
type Descriptors struct {
	unit  *unit
	walk  *program
	paths memory
	typed bool
	buf   []byte
}

// OpenDescriptors loads the iterator.
//
// Errors: why there is none here, in words for people.
func OpenDescriptors() (*Descriptors, error) {
	if has, initial := mayLoad(); !has || !initial {
		return nil, errors.New(explain(unix.EPERM).Reason)
	}
	// Before 5.12 the kernel lends iterators no typed socket, and writes no paths.
	d, err := openDescriptors(true)
	if err != nil {
		if d, err = openDescriptors(false); err != nil {
			return nil, errors.New(explain(err).Reason)
		}
	}
	return d, nil
}

func openDescriptors(typed bool) (_ *Descriptors, err error) {
	kernel, err := loadKernel()
	if err != nil {
		return nil, err
	}
	obj, err := parseObject(descriptorsObject)
	if err != nil {
		return nil, err
	}
	namespace, err := pidNamespace()
	if err != nil {
		return nil, err
	}
	d := &Descriptors{unit: newUnit(obj, kernel), typed: typed, buf: make([]byte, iterPiece+maxFileRecord)}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	u := d.unit
	values := map[string]uint64{"ns_inum": uint64(namespace), "typed": 0}
	if typed {
		values["typed"] = 1
	}
	if err = u.setAll(values); err != nil {
		return nil, err
	}
	if err = u.create(); err != nil {
		return nil, err
	}
	if d.paths, err = u.global("paths"); err != nil {
		return nil, err
	}
	if d.walk, err = u.load("descriptors"); err != nil {
		return nil, err
	}
	if err = d.walk.attachIter(); err != nil {
		return nil, err
	}
	u.release()
	return d, nil
}

// TellsPaths tells whether the kernel writes paths, as it does since 5.12.
func (d *Descriptors) TellsPaths() bool { return d.typed }

// Read calls each with every descriptor, until it returns false. Those of one process
// come together: of the table of its leader or, when that has ended, of the first
// thread that lives. The rows are not of one instant. A kernel may leave a process
// out: compare with a listing of /proc.
func (d *Descriptors) Read(paths bool, each func(*Descriptor) bool) error {
	var want uint32
	if paths {
		want = 1
	}
	binary.NativeEndian.PutUint32(d.paths, want)
	threads := map[int32]uint32{} // of processes without a leader: whose table counts
	var x Descriptor
	return d.walk.readPieces(d.buf, func(b []byte) (used int, err error) {
		for {
			size, tid, err := parseDescriptor(b[used:], &x)
			if size == 0 || err != nil {
				return used, err
			}
			used += size
			if tid != uint32(x.PID) {
				first, known := threads[x.PID]
				if !known {
					first, threads[x.PID] = tid, tid
				}
				if first != tid {
					continue
				}
			}
			if !each(&x) {
				return used, errEnough
			}
		}
	})
}

// Close frees the iterator. A second call does nothing.
func (d *Descriptors) Close() error { return d.unit.close() }

// parseDescriptor reads the first record of b into x, which it has filled before or
// which is empty. It tells the size, 0 when the record is not whole, and the thread
// whose table it is from.
func parseDescriptor(b []byte, x *Descriptor) (size int, tid uint32, err error) {
	le := binary.LittleEndian
	if len(b) < fileSize {
		return 0, 0, nil
	}
	size = int(le.Uint32(b))
	mode := le.Uint32(b[fileMode:])
	head := fileSize
	if mode&isSocket != 0 {
		head = socketSize
	}
	if size < head || size > maxFileRecord {
		return 0, 0, fmt.Errorf("record of %d bytes", size)
	}
	if len(b) < size {
		return 0, 0, nil
	}
	if head == fileSize && x.SocketFamily != 0 {
		*x = Descriptor{}
	}
	dev := le.Uint32(b[fileDev:])
	x.PID, x.FD = int32(le.Uint32(b[fileTGID:])), int32(le.Uint32(b[fileFD:]))
	x.Start, x.Name = le.Uint64(b[fileStart:]), [nameSize]byte(b[fileName:])
	x.Mode, x.Read, x.Write = mode&0xffff, mode&isRead != 0, mode&isWritten != 0
	x.Device, x.Inode = unix.Mkdev(dev>>20, dev&(1<<20-1)), le.Uint64(b[fileInode:])
	x.Text = b[head:size]
	if head == socketSize {
		x.SocketFamily, x.SocketType, x.SocketProtocol = le.Uint16(b[socketFamily:]), le.Uint16(b[socketType:]), le.Uint16(b[socketProtocol:])
		x.SocketState, x.SocketNetNS, x.SocketPeer = b[socketState], le.Uint32(b[socketNetNS:]), le.Uint64(b[socketPeer:])
		x.LocalPort, x.RemotePort = le.Uint16(b[socketLocalPort:]), le.Uint16(b[socketRemotePort:])
		x.LocalAddress, x.RemoteAddress = [16]byte(b[socketLocal:]), [16]byte(b[socketRemote:])
	}
	return size, le.Uint32(b[fileTID:]), nil
}

// Bits beside st_mode.
const (
	isRead    = 1 << 16
	isWritten = 1 << 17
	isSocket  = 1 << 31
)
