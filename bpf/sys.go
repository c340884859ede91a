package bpf

import (
	"errors"
	"fmt"
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
	_, _                                           uint32 // inner_map_fd, numa_node
	name                                           [unix.BPF_OBJ_NAME_LEN]byte
	_, _, _, _                                     uint32 // map_ifindex, btf_fd, btf_key_type_id, btf_value_type_id
}

type attrMapElem struct {
	mapFD uint32
	_     uint32
	key   unsafe.Pointer
	value unsafe.Pointer
	_     uint64 // flags
}

type attrBatch struct {
	inBatch, outBatch, keys, values unsafe.Pointer
	count, mapFD                    uint32
	_, _                            uint64 // elem_flags, flags
}

type attrProgLoad struct {
	progType, insnCount            uint32
	insns, license                 unsafe.Pointer
	logLevel, logSize              uint32
	logBuf                         unsafe.Pointer
	_, _                           uint32 // kern_version, prog_flags
	name                           [unix.BPF_OBJ_NAME_LEN]byte
	_                              uint32 // prog_ifindex
	expectedAttachType, progBTFFD  uint32
	funcInfoRecSize                uint32
	funcInfo                       unsafe.Pointer
	funcInfoCount, lineInfoRecSize uint32
	lineInfo                       unsafe.Pointer
	lineInfoCount, attachBTFID     uint32
	_, _                           uint32 // attach_btf_obj_fd
}

type attrRawTracepoint struct {
	_      unsafe.Pointer // name: none for programs that know their hook
	progFD uint32
	_      uint32
}

type attrTestRun struct {
	progFD, retval uint32
	_, _           uint32         // data_size_in, data_size_out
	_, _           unsafe.Pointer // data_in, data_out
	_, _           uint32         // repeat, duration
	ctxSizeIn      uint32
	_              uint32 // ctx_size_out
	ctxIn          unsafe.Pointer
	_              unsafe.Pointer // ctx_out
	_, _, _, _     uint32         // flags, cpu, batch_size
}

type attrBTFLoad struct {
	btf  unsafe.Pointer
	_    unsafe.Pointer // btf_log_buf
	size uint32
	_    [3]uint32 // btf_log_size, btf_log_level
}

type attrInfo struct {
	fd, infoLen uint32
	info        unsafe.Pointer
}

// loadRetries bounds the repetition of a program load that a signal broke.
// The Go runtime sends itself signals all the time.
const loadRetries = 30

// sysBPF is bpf(2).
func sysBPF[T any](cmd uintptr, attr *T) (int, error) {
	for try := 0; ; try++ {
		r, _, errno := unix.Syscall(unix.SYS_BPF, cmd, uintptr(unsafe.Pointer(attr)), unsafe.Sizeof(*attr))
		runtime.KeepAlive(attr)
		switch {
		case errno == 0:
			return int(r), nil
		case errno == unix.EAGAIN && cmd == unix.BPF_PROG_LOAD && try < loadRetries:
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

// raiseMemlock lifts RLIMIT_MEMLOCK as far as it may: before 5.11 maps and programs
// count against it. It says whether trying again makes sense.
func raiseMemlock() bool {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l) != nil || l.Cur == unix.RLIM_INFINITY {
		return false
	}
	for _, most := range []uint64{unix.RLIM_INFINITY, l.Max} {
		if most > l.Cur && unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: most, Max: max(most, l.Max)}) == nil {
			return true
		}
	}
	return false
}

// Prepare does what loading may need before a process gives up CAP_SYS_RESOURCE: it
// lifts its own RLIMIT_MEMLOCK where maps count against that.
func Prepare() {
	if countsMemlock() {
		raiseMemlock()
	}
}

// countsMemlock says whether maps count against a limit that this process has.
func countsMemlock() bool {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l) != nil || l.Cur == unix.RLIM_INFINITY {
		return false
	}
	major, minor, ok := kernelVersion()
	return ok && (major < 5 || major == 5 && minor < 11)
}

// kernelVersion is what the running kernel calls itself.
func kernelVersion() (major, minor int, ok bool) {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return 0, 0, false
	}
	n, _ := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	return major, minor, n == 2
}

// retryMemlock calls f again if the limit on locked memory may have stopped it.
func retryMemlock(f func() error) error {
	err := f()
	if errors.Is(err, unix.EPERM) && raiseMemlock() {
		return f()
	}
	return err
}
