package run

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Port is where a member listens.
type Port struct {
	Protocol string `json:"protocol"` // tcp or udp
	Address  string `json:"address"`  // an address, or "*" for all
	Port     uint16 `json:"port"`
	Process  string `json:"process"` // pid-start of who holds it
}

// maxPortDescriptors is how many descriptors of one process are looked at for ports.
const maxPortDescriptors = 16_384

// portReader reads which sockets listen, once for each network namespace.
type portReader struct {
	files  *files
	udp    bool
	spaces map[string]map[uint64]Port // namespace to inode to port
}

// ports returns where a process listens, in its own network namespace: by port, all
// addresses first, then by address.
//
// Source: /proc/PID/fd and /proc/PID/net/{tcp,tcp6,udp,udp6}.
func (r *portReader) ports(pid int32, id string) []Port {
	d, err := os.Open(r.files.path(pid, "fd"))
	if err != nil {
		return nil
	}
	names, _ := d.Readdirnames(maxPortDescriptors) // what came before an error counts
	d.Close()
	var found []Port
	var space map[uint64]Port
	for _, name := range names {
		link, err := r.files.link(r.files.path(pid, "fd/"+name))
		if err != nil {
			continue
		}
		text, ok := strings.CutPrefix(link, "socket:[")
		if !ok {
			continue
		}
		inode, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 64)
		if err != nil {
			continue
		}
		if space == nil {
			space = r.space(pid)
		}
		if p, ok := space[inode]; ok {
			p.Process = id
			found = append(found, p)
		}
	}
	return sortPorts(found)
}

// sortPorts orders ports and leaves out what is there twice: a wildcard of both
// families is one.
func sortPorts(list []Port) []Port {
	slices.SortFunc(list, func(a, b Port) int {
		wild := func(p Port) int {
			if p.Address == "*" {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(wild(a), wild(b)), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Process, b.Process))
	})
	return slices.Compact(list)
}

func (r *portReader) space(pid int32) map[uint64]Port {
	key, err := r.files.link(r.files.path(pid, "ns/net"))
	if err != nil {
		key = "of " + strconv.Itoa(int(pid))
	}
	if m, ok := r.spaces[key]; ok {
		return m
	}
	m := map[uint64]Port{}
	for _, file := range []string{"tcp", "tcp6", "udp", "udp6"} {
		protocol := strings.TrimSuffix(file, "6")
		if protocol == "udp" && !r.udp {
			continue
		}
		if text, err := r.files.read(r.files.path(pid, "net/"+file)); err == nil {
			parseListeners(text, protocol, m)
		}
	}
	if r.spaces == nil {
		r.spaces = map[string]map[uint64]Port{}
	}
	r.spaces[key] = m
	return m
}

// States of the column st: a TCP listener, and an unconnected UDP socket
// (include/net/tcp_states.h).
const (
	stateListen = "0A"
	stateClose  = "07"
)

// parseListeners adds the listening sockets of a table of the kernel, by inode.
func parseListeners(text []byte, protocol string, into map[uint64]Port) {
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		if len(f) < 10 || f[3] != stateListen && (protocol == "tcp" || f[3] != stateClose) {
			continue
		}
		addr, port, ok := parseHexAddress(f[1])
		inode, err := strconv.ParseUint(f[9], 10, 64)
		if !ok || err != nil || inode == 0 {
			continue
		}
		p := Port{Protocol: protocol, Address: addr.String(), Port: port}
		if addr.IsUnspecified() {
			p.Address = "*"
		}
		into[inode] = p
	}
}

// parseHexAddress reads "0100007F:1F90": 32-bit words of the machine's byte order.
func parseHexAddress(text string) (netip.Addr, uint16, bool) {
	host, portText, _ := strings.Cut(text, ":")
	port, err := strconv.ParseUint(portText, 16, 16)
	b, err2 := hex.DecodeString(host)
	if err != nil || err2 != nil || len(b) != 4 && len(b) != 16 {
		return netip.Addr{}, 0, false
	}
	for i := 0; i < len(b); i += 4 {
		slices.Reverse(b[i : i+4])
	}
	a, ok := netip.AddrFromSlice(b)
	return a.Unmap(), uint16(port), ok
}
