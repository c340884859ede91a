package proc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// diagConn is a NETLINK_SOCK_DIAG socket, sock_diag(7). It stays in the network
// namespace of the thread that opened it, wherever it is used later.
type diagConn struct {
	fd  int
	seq uint32
	buf []byte
}

// diagBuffer holds what one recvmsg can bring: the kernel fills at most 32 KiB a
// message of a dump, netlink_recvmsg in net/netlink/af_netlink.c.
const diagBuffer = 64 << 10

// openDiag opens the socket in the caller's network namespace.
func openDiag(buf []byte) (*diagConn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("open sock_diag socket: %w", err)
	}
	// Connected to port 0, the kernel, it takes messages from nobody else.
	if err := unix.Connect(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("connect sock_diag socket: %w", err)
	}
	if len(buf) < diagBuffer {
		buf = make([]byte, diagBuffer)
	}
	return &diagConn{fd: fd, buf: buf}, nil
}

func (c *diagConn) Close() { unix.Close(c.fd) }

// errInterrupted says that a table changed while it was dumped, so that rows may
// be missing (NLM_F_DUMP_INTR).
var errInterrupted = errors.New("the table changed while it was read")

// errBadNetlink says that a message has no form this package knows.
var errBadNetlink = errors.New("netlink message has an unknown form")

// dump sends req, of which the first nlHeader bytes are left for the header, and
// calls row with the payload of each answer until row returns false or deadline
// has passed (os.ErrDeadlineExceeded as unix.ETIMEDOUT). The payload is valid
// during the call.
//
// Errors: the errno the kernel answered (ENOENT: no such diag module), or
// errInterrupted after all rows.
func (c *diagConn) dump(req []byte, deadline time.Time, row func(payload []byte) bool) error {
	if err := c.send(req, unix.NLM_F_REQUEST|unix.NLM_F_DUMP); err != nil {
		return err
	}
	interrupted, stopped := false, false
	for {
		n, err := c.receive(deadline)
		if err != nil {
			return err
		}
		done, intr, err := eachMessage(c.buf[:n], c.seq, func(payload []byte) bool {
			stopped = stopped || !row(payload)
			return true
		})
		interrupted = interrupted || intr
		switch {
		case err != nil:
			return err
		case done && interrupted && !stopped:
			return errInterrupted
		case done:
			return nil
		}
		// Left early, the rest is read all the same: a socket with a dump under way
		// refuses the next one with EBUSY.
	}
}

// one sends req and returns the payload of the one answer, valid until the next
// request.
func (c *diagConn) one(req []byte, deadline time.Time) ([]byte, error) {
	if err := c.send(req, unix.NLM_F_REQUEST); err != nil {
		return nil, err
	}
	n, err := c.receive(deadline)
	if err != nil {
		return nil, err
	}
	var got []byte
	if _, _, err := eachMessage(c.buf[:n], c.seq, func(payload []byte) bool {
		got = payload
		return false
	}); err != nil {
		return nil, err
	}
	if got == nil {
		return nil, errBadNetlink
	}
	return got, nil
}

// struct nlmsghdr, include/uapi/linux/netlink.h: len, type, flags, seq, pid.
const nlHeader = 16

func (c *diagConn) send(req []byte, flags uint16) error {
	c.seq++
	binary.NativeEndian.PutUint32(req[0:], uint32(len(req)))
	binary.NativeEndian.PutUint16(req[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(req[6:], flags)
	binary.NativeEndian.PutUint32(req[8:], c.seq)
	binary.NativeEndian.PutUint32(req[12:], 0)
	for {
		_, err := unix.Write(c.fd, req)
		if err == nil {
			return nil
		}
		if err != unix.EINTR {
			return fmt.Errorf("ask sock_diag: %w", err)
		}
	}
}

func (c *diagConn) receive(deadline time.Time) (int, error) {
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return 0, fmt.Errorf("read sock_diag: %w", unix.ETIMEDOUT)
		}
		// The kernel answers within the send; the wait is for a kernel that does not.
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}, int(left/time.Millisecond)+1); err == unix.EINTR {
			continue
		}
		n, _, err := unix.Recvfrom(c.fd, c.buf, unix.MSG_DONTWAIT|unix.MSG_TRUNC)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN:
			continue
		case err != nil:
			return 0, fmt.Errorf("read sock_diag: %w", err)
		case n > len(c.buf):
			return 0, fmt.Errorf("read sock_diag: %w", errBadNetlink)
		}
		return n, nil
	}
}

// eachMessage calls row with the payload of each message of b that answers the
// request seq, until row returns false. done tells that the dump is complete.
func eachMessage(b []byte, seq uint32, row func(payload []byte) bool) (done, interrupted bool, err error) {
	for len(b) >= nlHeader {
		size := int(binary.NativeEndian.Uint32(b))
		kind, flags := binary.NativeEndian.Uint16(b[4:]), binary.NativeEndian.Uint16(b[6:])
		if size < nlHeader || size > len(b) {
			return false, false, errBadNetlink
		}
		payload := b[nlHeader:size]
		mine := binary.NativeEndian.Uint32(b[8:]) == seq
		b = b[min((size+3)&^3, len(b)):]
		if !mine {
			continue // of a dump that was left early
		}
		interrupted = interrupted || flags&unix.NLM_F_DUMP_INTR != 0
		switch kind {
		case unix.NLMSG_NOOP:
		case unix.NLMSG_DONE:
			if len(payload) >= 4 {
				if code := int32(binary.NativeEndian.Uint32(payload)); code < 0 {
					return true, interrupted, unix.Errno(-code)
				}
			}
			return true, interrupted, nil
		case unix.NLMSG_ERROR:
			if len(payload) < 4 {
				return false, false, errBadNetlink
			}
			code := int32(binary.NativeEndian.Uint32(payload))
			if code >= 0 {
				return true, interrupted, nil
			}
			return true, interrupted, unix.Errno(-code)
		case unix.SOCK_DIAG_BY_FAMILY:
			if !row(payload) {
				return false, interrupted, nil
			}
		}
	}
	return false, interrupted, nil
}

// eachAttribute calls f with type and value of each netlink attribute in b.
func eachAttribute(b []byte, f func(kind uint16, value []byte)) {
	for len(b) >= 4 {
		size := int(binary.NativeEndian.Uint16(b))
		if size < 4 || size > len(b) {
			return
		}
		f(binary.NativeEndian.Uint16(b[2:]), b[4:size])
		b = b[min((size+3)&^3, len(b)):]
	}
}
