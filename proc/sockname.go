package proc

import (
	"bytes"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// How sockets, their protocols, states and addresses are written.

// Protocols.
const (
	ProtocolTCP           = "TCP"
	ProtocolTCP6          = "TCP6"
	ProtocolUDP           = "UDP"
	ProtocolUDP6          = "UDP6"
	ProtocolUnixStream    = "UNIX STREAM"
	ProtocolUnixDgram     = "UNIX DGRAM"
	ProtocolUnixSeqpacket = "UNIX SEQPACKET"
	ProtocolNetlink       = "NETLINK"
	ProtocolPacket        = "PACKET"
	ProtocolVsock         = "VSOCK"
	protocolUnix          = "UNIX" // the type is not known
)

// protocolNames are the names of struct proto that are written otherwise here.
// The rest stands as the kernel has it: MPTCP, SCTP, XDP, ALG, TIPC, …
var protocolNames = map[string]string{
	"TCPv6": ProtocolTCP6, "UDPv6": ProtocolUDP6, "RAWv6": "RAW6",
	"UDP-Lite": "UDPLITE", "UDPLITEv6": "UDPLITE6",
	"PING": "ICMP", "PINGv6": "ICMP6",
	"MPTCPv6": "MPTCP6", "SCTPv6": "SCTP6",
	"UNIX-STREAM": ProtocolUnixStream, // Linux 5.15; before, and of other types, "UNIX"
	"AF_VSOCK":    ProtocolVsock,
}

func protocolName(kernel string) string {
	if name, ok := protocolNames[kernel]; ok {
		return name
	}
	return kernel
}

// inetProtocol is the name of a row's protocol.
func (s *inetSocket) protocol() string {
	name := [...]string{transportTCP: "TCP", transportUDP: "UDP", transportUDPLite: "UDPLITE", transportRaw: "RAW", transportPing: "ICMP", transportSCTP: "SCTP", transportMPTCP: "MPTCP"}[s.transport]
	if s.six {
		name += "6"
	}
	return name
}

func (s *unixSocket) protocol() string {
	switch s.kind {
	case unix.SOCK_STREAM:
		return ProtocolUnixStream
	case unix.SOCK_DGRAM:
		return ProtocolUnixDgram
	case unix.SOCK_SEQPACKET:
		return ProtocolUnixSeqpacket
	}
	return protocolUnix
}

// stateNames are those of include/net/tcp_states.h, which every family uses.
var stateNames = [...]string{
	1: "ESTABLISHED", 2: "SYN_SENT", 3: "SYN_RECV", 4: "FIN_WAIT1", 5: "FIN_WAIT2", 6: "TIME_WAIT", 7: "CLOSE",
	8: "CLOSE_WAIT", 9: "LAST_ACK", 10: "LISTEN", 11: "CLOSING", 12: "NEW_SYN_RECV", 13: "BOUND_INACTIVE",
}

// stateName is unknown for a number without a name. CLOSE is what a socket is in
// that is not connected: for UDP and UNIX datagrams, "UNCONNECTED".
func stateName(state uint8, connects bool) Opt[string] {
	if state == tcpClose && !connects {
		return Some("UNCONNECTED")
	}
	if int(state) >= len(stateNames) || stateNames[state] == "" {
		return Opt[string]{}
	}
	return Some(stateNames[state])
}

// end writes an address as "ip:port" or "[v6]:port". A mapped address of an IPv6
// socket stays "[::ffff:127.0.0.1]:80": it is a socket of IPv6.
func (s *inetSocket) end(a addr16, port uint16) string {
	ip := netip.AddrFrom16(a)
	if !s.six {
		ip = ip.Unmap()
	}
	return netip.AddrPortFrom(ip, port).String()
}

// connected tells whether the socket has a remote end. It says nothing of a
// listener or an unconnected UDP socket.
func (s *inetSocket) connected() bool { return s.remotePort != 0 && s.state != tcpListen }

// bound tells whether the socket has a local end: one of a table of the network has.
func (s *inetSocket) bound() bool { return s.localPort != 0 || s.connected() || s.state != tcpClose }

// Kinds of local names.
const (
	LocalInet     = "inet"
	LocalPath     = "path"
	LocalAbstract = "abstract"
	LocalUnnamed  = "unnamed"
)

// unixName writes the name that a UNIX socket is bound to, and its kind. An
// abstract name begins with "@", and NULs in it are "@" too, as in
// /proc/net/unix.
func unixName(name []byte) (text, kind string) {
	if len(name) == 0 {
		return "", LocalUnnamed
	}
	if name[0] == 0 {
		return strings.ReplaceAll(string(name), "\x00", "@"), LocalAbstract
	}
	path, _, _ := bytes.Cut(name, []byte{0})
	return string(path), LocalPath
}

// netlinkNames are the protocols of netlink(7), include/uapi/linux/netlink.h.
var netlinkNames = [...]string{
	0: "NETLINK_ROUTE", 2: "NETLINK_USERSOCK", 3: "NETLINK_FIREWALL", 4: "NETLINK_SOCK_DIAG", 5: "NETLINK_NFLOG",
	6: "NETLINK_XFRM", 7: "NETLINK_SELINUX", 8: "NETLINK_ISCSI", 9: "NETLINK_AUDIT", 10: "NETLINK_FIB_LOOKUP",
	11: "NETLINK_CONNECTOR", 12: "NETLINK_NETFILTER", 13: "NETLINK_IP6_FW", 14: "NETLINK_DNRTMSG", 15: "NETLINK_KOBJECT_UEVENT",
	16: "NETLINK_GENERIC", 18: "NETLINK_SCSITRANSPORT", 19: "NETLINK_ECRYPTFS", 20: "NETLINK_RDMA", 21: "NETLINK_CRYPTO", 22: "NETLINK_SMC",
}

func netlinkName(protocol uint16) string {
	if int(protocol) < len(netlinkNames) && netlinkNames[protocol] != "" {
		return netlinkNames[protocol]
	}
	return "netlink protocol " + strconv.Itoa(int(protocol))
}

// vsockEnd writes an address of vsock(7) as "cid:port"; any is "*".
func vsockEnd(a [2]uint32) string {
	part := func(v uint32) string {
		if v == 1<<32-1 {
			return "*"
		}
		return strconv.FormatUint(uint64(v), 10)
	}
	return part(a[0]) + ":" + part(a[1])
}

// waitingNote says what the two queue numbers of a listener are.
func waitingNote(n, most uint32) string {
	return fmt.Sprintf("%d of at most %d connections wait to be accepted", n, most)
}
