package proc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoOwner says that no live socket with an owner has these addresses.
var ErrNoOwner = errors.New("no live socket has these addresses")

// maxOwnerWait is how long SocketOwner waits for the kernel.
const maxOwnerWait = time.Second

// SocketOwner returns the user id of the local TCP socket bound to local and
// connected to remote: the client of a loopback connection, seen by the server.
// It asks INET_DIAG for the exact four-tuple in the caller's network namespace.
// A row counts only in ESTABLISHED, FIN_WAIT1, FIN_WAIT2 or CLOSE_WAIT with an
// inode that is not 0: a socket that has been closed shows uid 0 and inode 0.
//
// Absent: an owner whose id has no name in the caller's user namespace is the
// overflow id, 65534.
// Errors: ErrNoOwner; those of socket(2) and of /proc/net/tcp.
// Effect: none on the socket.
// Source: sock_diag(7), struct inet_diag_req_v2 (3.3). A kernel without inet_diag
// is asked through /proc/net/tcp and tcp6, with the same rule.
func SocketOwner(local, remote netip.AddrPort) (uint32, error) {
	local, remote = unmap(local), unmap(remote)
	if !local.IsValid() || !remote.IsValid() || local.Addr().Is4() != remote.Addr().Is4() {
		return 0, fmt.Errorf("owner of socket: %w", ErrNoOwner)
	}
	uid, err := diagOwner(local, remote)
	switch {
	case errors.Is(err, unix.ENOENT):
		// No such socket, or no such module: the kernel has one number for both.
		// The text settles it.
		uid, err = textOwner("/proc/thread-self/net", local, remote)
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		uid, err = textOwner("/proc/thread-self/net", local, remote)
	}
	if err != nil {
		return 0, fmt.Errorf("owner of socket: %w", err)
	}
	return uid, nil
}

func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

func diagOwner(local, remote netip.AddrPort) (uint32, error) {
	c, err := openDiag(nil)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	row, err := c.one(inetRequest(unix.IPPROTO_TCP, local, remote), time.Now().Add(maxOwnerWait))
	if err != nil {
		return 0, err
	}
	s, ok := parseInetDiag(row, transportTCP)
	if !ok {
		return 0, errBadNetlink
	}
	return s.ownerOf(pairOf(local, remote))
}

// ownerOf is the rule of SocketOwner. The pair is compared because the kernel
// answers an exact request with the listener of the port when no connection
// matches (inet_diag_find_one_icsk goes through __inet_lookup).
func (s *inetSocket) ownerOf(want pair) (uint32, error) {
	if s.pair != want || s.inode == 0 {
		return 0, ErrNoOwner
	}
	switch s.state {
	case tcpEstablished, tcpFinWait1, tcpFinWait2, tcpCloseWait:
		return s.uid, nil
	}
	return 0, ErrNoOwner
}

// textOwner is diagOwner through dir/tcp and dir/tcp6: a client that speaks IPv4
// through an IPv6 socket stands in the second.
func textOwner(dir string, local, remote netip.AddrPort) (uint32, error) {
	want := pairOf(local, remote)
	files := []string{"tcp", "tcp6"}
	if !local.Addr().Is4() {
		files = files[1:]
	}
	for _, file := range files {
		text, err := os.ReadFile(dir + "/" + file)
		if errors.Is(err, os.ErrNotExist) && file == "tcp6" {
			continue // a kernel without IPv6
		}
		if err != nil {
			return 0, err
		}
		uid, found := uint32(0), false
		eachInetText(text, file, func(s inetSocket) bool {
			if id, err := s.ownerOf(want); err == nil {
				uid, found = id, true
			}
			return !found
		})
		if found {
			return uid, nil
		}
	}
	return 0, ErrNoOwner
}

// inetRequest asks for one socket: struct nlmsghdr, struct inet_diag_req_v2.
func inetRequest(protocol uint8, local, remote netip.AddrPort) []byte {
	req := make([]byte, nlHeader+inetDiagReqSize)
	b := req[nlHeader:]
	b[0], b[1] = unix.AF_INET6, protocol
	src, dst := local.Addr().AsSlice(), remote.Addr().AsSlice()
	if local.Addr().Is4() {
		b[0] = unix.AF_INET
	}
	binary.NativeEndian.PutUint32(b[4:], ^uint32(0))
	binary.BigEndian.PutUint16(b[8:], local.Port())
	binary.BigEndian.PutUint16(b[10:], remote.Port())
	copy(b[12:28], src)
	copy(b[28:44], dst)
	for i := range b[48:56] {
		b[48+i] = 0xff // INET_DIAG_NOCOOKIE
	}
	return req
}
