package proc

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Requests and rows of sock_diag(7), as bytes. Sizes are those of the structs in
// include/uapi/linux/{inet,unix,netlink,packet,vm_sockets}_diag.h.
const (
	inetDiagReqSize    = 56 // struct inet_diag_req_v2
	inetDiagMsgSize    = 72 // struct inet_diag_msg
	unixDiagReqSize    = 24 // struct unix_diag_req
	unixDiagMsgSize    = 16 // struct unix_diag_msg
	netlinkDiagReqSize = 20 // struct netlink_diag_req
	netlinkDiagMsgSize = 28 // struct netlink_diag_msg
	packetDiagReqSize  = 20 // struct packet_diag_req
	packetDiagMsgSize  = 16 // struct packet_diag_msg
	vsockDiagReqSize   = 24 // struct vsock_diag_req
	vsockDiagMsgSize   = 32 // struct vsock_diag_msg
)

// udiag_show and attributes, include/uapi/linux/unix_diag.h (3.3).
const (
	udiagShowName  = 1 << 0
	udiagShowVFS   = 1 << 1
	udiagShowPeer  = 1 << 2
	udiagShowRQLen = 1 << 4

	unixDiagName  = 0
	unixDiagVFS   = 1
	unixDiagPeer  = 2
	unixDiagRQLen = 4
)

// inetDiagProtocol is INET_DIAG_REQ_PROTOCOL: the protocol number of a request
// when it does not fit the byte of the struct (MPTCP is 262), Linux 5.9.
const inetDiagProtocol = 3

// Socket states, include/net/tcp_states.h.
const (
	tcpEstablished = 1
	tcpFinWait1    = 4
	tcpFinWait2    = 5
	tcpTimeWait    = 6
	tcpClose       = 7
	tcpCloseWait   = 8
	tcpListen      = 10
	tcpNewSynRecv  = 12
)

// liveStates leaves out what has no inode: TIME_WAIT and half-open requests.
const liveStates = ^uint32(1<<tcpTimeWait | 1<<tcpNewSynRecv)

// transport tells which sockets can talk to each other.
type transport uint8

const (
	transportTCP transport = 1 + iota
	transportUDP
	transportUDPLite
	transportRaw
	transportPing
	transportSCTP
	transportMPTCP
)

// addr16 is an IPv6 address, or an IPv4 one as ::ffff:a.b.c.d.
type addr16 [16]byte

// pair is two ends as one socket sees them; ports in host order.
type pair struct {
	local, remote         addr16
	localPort, remotePort uint16
}

func (p pair) reversed() pair {
	return pair{p.remote, p.local, p.remotePort, p.localPort}
}

func pairOf(local, remote netip.AddrPort) pair {
	return pair{local.Addr().As16(), remote.Addr().As16(), local.Port(), remote.Port()}
}

// inetSocket is a row of an inet_diag dump or of /proc/PID/net/tcp and its kin.
type inetSocket struct {
	pair
	inode         uint64 // 0: no file, TIME_WAIT or not yet accepted
	uid           uint32
	receive, send uint32 // bytes; of a listener: connections waiting, and how many may
	transport     transport
	six           bool // AF_INET6
	state         uint8
	namespace     uint32 // of the network, where sockets of several come together; else 0
}

// parseInetDiag reads a struct inet_diag_msg.
func parseInetDiag(b []byte, t transport) (inetSocket, bool) {
	if len(b) < inetDiagMsgSize || b[0] != unix.AF_INET && b[0] != unix.AF_INET6 {
		return inetSocket{}, false
	}
	s := inetSocket{
		transport: t, six: b[0] == unix.AF_INET6, state: b[1],
		receive: binary.NativeEndian.Uint32(b[56:]), send: binary.NativeEndian.Uint32(b[60:]),
		uid: binary.NativeEndian.Uint32(b[64:]), inode: uint64(binary.NativeEndian.Uint32(b[68:])),
	}
	s.localPort, s.remotePort = binary.BigEndian.Uint16(b[4:]), binary.BigEndian.Uint16(b[6:])
	if s.six {
		copy(s.local[:], b[8:24])
		copy(s.remote[:], b[24:40])
	} else {
		s.local, s.remote = mapped(b[8:12]), mapped(b[24:28])
	}
	return s, true
}

func mapped(b []byte) addr16 {
	return addr16{10: 0xff, 11: 0xff, 12: b[0], 13: b[1], 14: b[2], 15: b[3]}
}

// unixSocket is a row of a unix_diag dump, or of /proc/PID/net/unix, which knows
// neither peer nor queues.
type unixSocket struct {
	inode         uint64
	peer          uint64 // inode of the other end; 0: none, or not accepted yet
	receive, send uint32 // bytes; of a listener: connections waiting, and how many may
	name          []byte // as bound: a path, or a NUL and an abstract name; nil unbound
	device        uint64 // of the file that it is bound to, with that file's inode; 0 unknown or none
	file          uint32
	kind          uint8 // SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET
	state         uint8
	queues        bool // receive and send are known
}

// parseUnixDiag reads a struct unix_diag_msg and its attributes; name is part of b.
func parseUnixDiag(b []byte) (unixSocket, bool) {
	if len(b) < unixDiagMsgSize || b[0] != unix.AF_UNIX {
		return unixSocket{}, false
	}
	s := unixSocket{kind: b[1], state: b[2], inode: uint64(binary.NativeEndian.Uint32(b[4:]))}
	eachAttribute(b[unixDiagMsgSize:], func(kind uint16, v []byte) {
		switch {
		case kind == unixDiagName:
			s.name = v
		case kind == unixDiagVFS && len(v) >= 8: // struct unix_diag_vfs: inode, device as the kernel has it
			dev := binary.NativeEndian.Uint32(v[4:])
			s.file, s.device = binary.NativeEndian.Uint32(v), unix.Mkdev(dev>>20, dev&(1<<20-1))
		case kind == unixDiagPeer && len(v) >= 4:
			s.peer = uint64(binary.NativeEndian.Uint32(v))
		case kind == unixDiagRQLen && len(v) >= 8:
			s.receive, s.send, s.queues = binary.NativeEndian.Uint32(v), binary.NativeEndian.Uint32(v[4:]), true
		}
	})
	return s, true
}

// unixEnds reads inode and peer of a struct unix_diag_msg, and nothing else.
func unixEnds(b []byte) (inode, peer uint64, ok bool) {
	if len(b) < unixDiagMsgSize || b[0] != unix.AF_UNIX {
		return 0, 0, false
	}
	inode = uint64(binary.NativeEndian.Uint32(b[4:]))
	for b = b[unixDiagMsgSize:]; len(b) >= 8; {
		size := int(binary.NativeEndian.Uint16(b))
		if size < 4 || size > len(b) {
			break
		}
		if binary.NativeEndian.Uint16(b[2:]) == unixDiagPeer && size >= 8 {
			peer = uint64(binary.NativeEndian.Uint32(b[4:]))
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return inode, peer, true
}

// plainSocket is a row of a family without peers.
type plainSocket struct {
	inode  uint64
	family uint8
	state  uint8 // 0 unknown
	number uint16
	// noAddress: of vsock the addresses are not known.
	noAddress bool
	local     [2]uint32 // netlink: port id; vsock: cid, port
	remote    [2]uint32
}

// parsePlainDiag reads a struct netlink_diag_msg, packet_diag_msg or vsock_diag_msg.
func parsePlainDiag(b []byte) (plainSocket, bool) {
	if len(b) < packetDiagMsgSize {
		return plainSocket{}, false
	}
	u32 := func(at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
	switch {
	case b[0] == unix.AF_NETLINK && len(b) >= netlinkDiagMsgSize:
		return plainSocket{family: b[0], number: uint16(b[2]), local: [2]uint32{u32(4)}, remote: [2]uint32{u32(8)}, inode: uint64(u32(16))}, true
	case b[0] == unix.AF_PACKET:
		return plainSocket{family: b[0], number: binary.NativeEndian.Uint16(b[2:]), inode: uint64(u32(4))}, true
	case b[0] == unix.AF_VSOCK && len(b) >= vsockDiagMsgSize:
		return plainSocket{family: b[0], state: b[2], local: [2]uint32{u32(4), u32(8)}, remote: [2]uint32{u32(12), u32(16)}, inode: uint64(u32(20))}, true
	}
	return plainSocket{}, false
}

// The dumps: each request has room for its header in front.

func inetDump(family uint8, protocol uint16) []byte {
	req := make([]byte, nlHeader+inetDiagReqSize, nlHeader+inetDiagReqSize+8)
	b := req[nlHeader:]
	b[0], b[1] = family, uint8(protocol)
	binary.NativeEndian.PutUint32(b[4:], liveStates)
	if protocol > 255 {
		b[1] = 0 // a kernel that does not know the attribute has no such table: ENOENT
		req = binary.NativeEndian.AppendUint16(req, 8)
		req = binary.NativeEndian.AppendUint16(req, inetDiagProtocol)
		req = binary.NativeEndian.AppendUint32(req, uint32(protocol))
	}
	return req
}

func unixDump(show uint32) []byte {
	req := make([]byte, nlHeader+unixDiagReqSize)
	b := req[nlHeader:]
	b[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(b[4:], ^uint32(0))
	binary.NativeEndian.PutUint32(b[12:], show)
	return req
}

// unixRequest asks for the one socket with this inode.
func unixRequest(inode uint32) []byte {
	req := unixDump(udiagShowName | udiagShowPeer | udiagShowRQLen)
	b := req[nlHeader:]
	binary.NativeEndian.PutUint32(b[8:], inode)
	for i := range b[16:24] {
		b[16+i] = 0xff // no cookie
	}
	return req
}

func netlinkDump() []byte {
	req := make([]byte, nlHeader+netlinkDiagReqSize)
	req[nlHeader], req[nlHeader+1] = unix.AF_NETLINK, 255 // NDIAG_PROTO_ALL
	return req
}

func packetDump() []byte {
	req := make([]byte, nlHeader+packetDiagReqSize)
	req[nlHeader] = unix.AF_PACKET
	return req
}

func vsockDump() []byte {
	req := make([]byte, nlHeader+vsockDiagReqSize)
	req[nlHeader] = unix.AF_VSOCK
	binary.NativeEndian.PutUint32(req[nlHeader+4:], ^uint32(0))
	return req
}
