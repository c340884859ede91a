package proc

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// The tables of /proc/PID/net, proc_pid_net(5): the sockets of the network
// namespace of PID, readable without entering it. They know no UNIX peers.

// inetText are the files of inet sockets.
var inetText = []struct {
	file      string
	transport transport
	six       bool
}{
	{"tcp", transportTCP, false}, {"tcp6", transportTCP, true},
	{"udp", transportUDP, false}, {"udp6", transportUDP, true},
	{"udplite", transportUDPLite, false}, {"udplite6", transportUDPLite, true},
	{"raw", transportRaw, false}, {"raw6", transportRaw, true},
	{"icmp", transportPing, false}, {"icmp6", transportPing, true},
}

// eachInetText calls f with each row of the file that has a known form, until f
// returns false. Rows without an inode are among them.
func eachInetText(text []byte, file string, f func(inetSocket) bool) {
	for _, t := range inetText {
		if t.file != file {
			continue
		}
		for line := range bytes.Lines(text) {
			if s, ok := parseInetText(line); ok && s.six == t.six {
				s.transport = t.transport
				if !f(s) {
					return
				}
			}
		}
	}
}

// parseInetText reads a row: sl, local, remote, st, tx:rx, tr:when, retrnsmt,
// uid, timeout, inode.
func parseInetText(line []byte) (inetSocket, bool) {
	var f [10][]byte
	if !fields(line, f[:]) || len(f[0]) == 0 || f[0][len(f[0])-1] != ':' {
		return inetSocket{}, false
	}
	var s inetSocket
	var ok [8]bool
	var six [2]bool
	s.local, s.localPort, six[0], ok[0] = parseEnd(f[1])
	s.remote, s.remotePort, six[1], ok[1] = parseEnd(f[2])
	s.six = six[0]
	var state, uid uint64
	state, ok[2] = wholeHex(f[3])
	tx, rx, cut := bytes.Cut(f[4], []byte{':'})
	var send, receive uint64
	send, ok[3] = wholeHex(tx)
	receive, ok[4] = wholeHex(rx)
	ok[5] = cut && six[0] == six[1] && state <= 255 && send <= 1<<32-1 && receive <= 1<<32-1
	uid, ok[6] = wholeUint(f[7])
	s.inode, ok[7] = wholeUint(f[9])
	s.state, s.send, s.receive, s.uid = uint8(state), uint32(send), uint32(receive), uint32(uid)
	for _, good := range ok {
		if !good {
			return inetSocket{}, false
		}
	}
	return s, uid <= 1<<32-1
}

// parseEnd reads "0100007F:1F90", 32-bit words as the CPU has them, or the same
// with four words.
func parseEnd(b []byte) (a addr16, port uint16, six, ok bool) {
	host, p, cut := bytes.Cut(b, []byte{':'})
	v, okPort := wholeHex(p)
	if !cut || !okPort || v > 65535 || len(host) != 8 && len(host) != 32 {
		return addr16{}, 0, false, false
	}
	six = len(host) == 32
	words := a[12:]
	if six {
		words = a[:]
	} else {
		a[10], a[11] = 0xff, 0xff
	}
	for i := 0; i < len(words); i += 4 {
		w, ok := wholeHex(host[2*i : 2*i+8])
		if !ok {
			return addr16{}, 0, false, false
		}
		words[i], words[i+1], words[i+2], words[i+3] = byte(w), byte(w>>8), byte(w>>16), byte(w>>24)
	}
	return a, uint16(v), six, true
}

// eachUnixText calls f with each row of net/unix, until f returns false. A bound name may hold a newline
// and what follows may look like a row, so the caller trusts no inode that it
// sees twice.
func eachUnixText(text []byte, f func(unixSocket) bool) {
	for line := range bytes.Lines(text) {
		if s, ok := parseUnixText(line); ok && !f(s) {
			return
		}
	}
}

// soAcceptCon is __SO_ACCEPTCON in Flags, include/linux/net.h: the socket listens.
const soAcceptCon = 0x10000

// parseUnixText reads a row: Num, RefCount, Protocol, Flags, Type, St, Inode, Path.
func parseUnixText(line []byte) (unixSocket, bool) {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	var f [7][]byte
	if !fields(line, f[:]) || len(f[0]) == 0 || f[0][len(f[0])-1] != ':' {
		return unixSocket{}, false
	}
	flags, ok1 := wholeHex(f[3])
	kind, ok2 := wholeHex(f[4])
	state, ok3 := wholeHex(f[5])
	inode, ok4 := wholeUint(f[6])
	if !ok1 || !ok2 || !ok3 || !ok4 || kind > 255 {
		return unixSocket{}, false
	}
	s := unixSocket{inode: inode, kind: uint8(kind), state: tcpClose}
	switch {
	case flags&soAcceptCon != 0:
		s.state = tcpListen
	case state == 3: // SS_CONNECTED, include/uapi/linux/net.h
		s.state = tcpEstablished
	}
	// The path is all that follows the blank after the inode, blanks included.
	end := 0
	for _, word := range f {
		end = skipBlank(line, end) + len(word)
	}
	if end+1 < len(line) && line[end] == ' ' {
		s.name = bytes.Clone(line[end+1:])
		if s.name[0] == '@' {
			s.name[0] = 0 // abstract; a relative path that begins so looks the same
		}
	}
	return s, true
}

// eachPlainText calls f with each row of net/netlink (family AF_NETLINK) or
// net/packet (AF_PACKET), until f returns false.
func eachPlainText(text []byte, family uint8, f func(plainSocket) bool) {
	columns, number, local, inode := 10, 1, 2, 9 // sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode
	if family == unix.AF_PACKET {
		columns, number, local, inode = 9, 3, -1, 8 // sk RefCnt Type Proto Iface R Rmem User Inode
	}
	for line := range bytes.Lines(text) {
		var c [10][]byte
		if !fields(line, c[:columns]) {
			continue
		}
		s := plainSocket{family: family}
		n, ok := wholeUint(c[number])
		if family == unix.AF_PACKET {
			n, ok = wholeHex(c[number])
		}
		ino, ok2 := wholeUint(c[inode])
		if !ok || !ok2 || n > 65535 {
			continue
		}
		s.number, s.inode = uint16(n), ino
		if local >= 0 {
			id, ok := wholeUint(c[local])
			if !ok || id > 1<<32-1 {
				continue
			}
			s.local[0] = uint32(id)
		}
		if !f(s) {
			return
		}
	}
}

// fields fills f with the first words of line; it is false when there are fewer.
func fields(line []byte, f [][]byte) bool {
	i := 0
	for k := range f {
		i = skipBlank(line, i)
		from := i
		for i < len(line) && line[i] != ' ' && line[i] != '\t' && line[i] != '\n' {
			i++
		}
		if i == from {
			return false
		}
		f[k] = line[from:i]
	}
	return true
}

// wholeUint reads a decimal number that is all of b.
func wholeUint(b []byte) (uint64, bool) {
	v, next, ok := parseUint(b, 0)
	return v, ok && next == len(b)
}

// wholeHex reads a number of 1 to 16 hex digits that is all of b.
func wholeHex(b []byte) (uint64, bool) {
	if len(b) == 0 || len(b) > 16 {
		return 0, false
	}
	v := uint64(0)
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		v = v<<4 | uint64(c)
	}
	return v, true
}
