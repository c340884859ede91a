package bpf

import (
	"errors"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The structs below mirror members of union bpf_attr, include/uapi/linux/bpf.h.
// A kernel that knows a shorter union takes a longer one whose tail is zero, so
// one size serves all. Pointers stay unsafe.Pointer: the runtime may move what
// they point to until the call.

type attrMapCreate struct {
	mapType, keySize, valueSize, maxEntries, flags uint32
	innerMapFD, numaNode                           uint32
	name                                           [unix.BPF_OBJ_NAME_LEN]byte
	ifindex, btfFD, btfKeyTypeID, btfValueTypeID   uint32
}

type attrMapElem struct {
	mapFD uint32
	_     uint32
	key   unsafe.Pointer
	value unsafe.Pointer
	flags uint64
}

type attrBatch struct {
	inBatch, outBatch, keys, values unsafe.Pointer
	count, mapFD                    uint32
	elemFlags, flags                uint64
}

type attrProgLoad struct {
	progType, insnCount                        uint32
	insns, license                             unsafe.Pointer
	logLevel, logSize                          uint32
	logBuf                                     unsafe.Pointer
	kernelVersion, progFlags                   uint32
	name                                       [unix.BPF_OBJ_NAME_LEN]byte
	ifindex, expectedAttachType, progBTFFD     uint32
	funcInfoRecSize                            uint32
	funcInfo                                   unsafe.Pointer
	funcInfoCount, lineInfoRecSize             uint32
	lineInfo                                   unsafe.Pointer
	lineInfoCount, attachBTFID, attachBTFObjFD uint32
	_                                          uint32
}

type attrRawTracepoint struct {
	name   unsafe.Pointer
	progFD uint32
	_      uint32
}

type attrTestRun struct {
	progFD, retval, dataSizeIn, dataSizeOut uint32
	dataIn, dataOut                         unsafe.Pointer
	repeat, duration, ctxSizeIn, ctxSizeOut uint32
	ctxIn, ctxOut                           unsafe.Pointer
	flags, cpu, batchSize                   uint32
	_                                       uint32
}

type attrBTFLoad struct {
	btf, logBuf             unsafe.Pointer
	size, logSize, logLevel uint32
	_                       uint32
}

type attrInfo struct {
	fd, infoLen uint32
	info        unsafe.Pointer
}

// maxLoadRetries bounds the repetition of a program load that a signal broke.
// The Go runtime sends itself signals all the time.
const maxLoadRetries = 30

// sysBPF is bpf(2).
func sysBPF[T any](cmd uintptr, attr *T) (int, error) {
	for try := 0; ; try++ {
		r, _, errno := unix.Syscall(unix.SYS_BPF, cmd, uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr))
		runtime.KeepAlive(attr)
		switch {
		case errno == 0:
			return int(r), nil
		case errno == unix.EAGAIN && cmd == unix.BPF_PROG_LOAD && try < maxLoadRetries:
		case errno == unix.EINTR:
		default:
			return -1, errno
		}
	}
}

// descriptor owns one file descriptor and closes it once.
type descriptor struct{ fd int }

func (d *descriptor) close() error {
	if d.fd < 0 {
		return nil
	}
	fd := d.fd
	d.fd = -1
	return unix.Close(fd)
}

// objectName makes a name that the kernel takes: 15 of [A-Za-z0-9_.].
func objectName(s string) (name [unix.BPF_OBJ_NAME_LEN]byte) {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '.':
			return r
		}
		return '_'
	}, s)
	copy(name[:len(name)-1], clean)
	return name
}

// raiseMemlock lifts RLIMIT_MEMLOCK: before 5.11 maps and programs count against
// it. It says whether trying again makes sense.
func raiseMemlock() bool {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l) != nil || l.Cur == unix.RLIM_INFINITY {
		return false
	}
	return unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}) == nil
}

// retryMemlock calls f again if the limit on locked memory may have stopped it.
func retryMemlock(f func() error) error {
	err := f()
	if errors.Is(err, unix.EPERM) && raiseMemlock() {
		return f()
	}
	return err
}
