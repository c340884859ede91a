package proc

import (
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ids asks for the user ids of processes. status tells them too, but printing it
// is half of what a scan costs, so where the kernel can be asked directly, it is.
type ids struct {
	never bool // set in tests
	pidfd bool // pidfd_open and PIDFD_GET_INFO work, and number processes as the mount does
	info  unix.PidfdInfo
}

// probe finds out which way works: it asks both about the caller.
func (q *ids) probe(fs *FS) {
	if q.pidfd = false; q.never || !fs.SharesNumbers() {
		return
	}
	q.pidfd = true
	uid, euid, err := q.ask(int32(os.Getpid()))
	q.pidfd = err == nil && int(uid) == os.Getuid() && int(euid) == os.Geteuid()
}

// SharesNumbers tells whether the mount numbers processes as the caller's system calls
// do. A fixture does not, nor does the procfs of another PID namespace.
func (fs *FS) SharesNumbers() bool {
	var self [16]byte
	n, err := readlinkAt(fs.dir, "self", self[:])
	return err == nil && string(self[:n]) == strconv.Itoa(os.Getpid())
}

// ask returns the real and effective user id of the process that has the number
// pid now: PIDFD_GET_INFO, include/uapi/linux/pidfd.h, Linux 6.13.
func (q *ids) ask(pid int32) (uid, euid uint32, err error) {
	fd, err := pidfdOpen(pid)
	if err != nil {
		return 0, 0, err
	}
	uid, euid, err = q.of(fd)
	closeFD(fd)
	if err == nil && q.info.Tgid != uint32(pid) {
		err = unix.ESRCH
	}
	return uid, euid, err
}

// of is ask of the process of a pidfd; it fails when that was reaped.
func (q *ids) of(pidfd int) (uid, euid uint32, err error) {
	q.info = unix.PidfdInfo{Mask: unix.PIDFD_INFO_PID | unix.PIDFD_INFO_CREDS}
	_, _, e := unix.RawSyscall(unix.SYS_IOCTL, uintptr(pidfd), unix.PIDFD_GET_INFO, uintptr(unsafe.Pointer(&q.info)))
	if e != 0 {
		return 0, 0, e
	}
	return q.info.Ruid, q.info.Euid, nil
}

func pidfdOpen(pid int32) (int, error) {
	fd, _, e := unix.Syscall(unix.SYS_PIDFD_OPEN, uintptr(pid), 0, 0)
	if e != 0 {
		return -1, e
	}
	return int(fd), nil
}

func readlinkAt(dir int, name string, buf []byte) (int, error) {
	var path [pathPart]byte
	if len(name) >= len(path) {
		return 0, unix.ENAMETOOLONG
	}
	copy(path[:], name)
	return readlinkRaw(dir, &path[0], buf)
}
