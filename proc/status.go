package proc

import "bytes"

// status is what is used of /proc/PID/status or /proc/PID/task/TID/status,
// proc_pid_status(5). The name in it has its newlines escaped, so a line that
// begins with a key is that key's.
type status struct {
	tgid         int32
	uid          [4]uint32 // real, effective, saved, filesystem
	gid          [4]uint32
	swap         Opt[uint64] // VmSwap, bytes; unknown without user memory
	voluntary    Opt[uint64] // context switches
	nonvoluntary Opt[uint64]
	affinity     []byte // Cpus_allowed_list, part of the text that was parsed
}

// parseStatus fails without the keys that every kernel writes.
func parseStatus(b []byte) (status, bool) {
	var s status
	const wantTGID, wantUID, wantGID = 1, 2, 4
	seen := 0
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		colon := bytes.IndexByte(line, ':')
		if colon < 0 {
			continue
		}
		at := skipBlank(line, colon+1)
		ok := true
		switch string(line[:colon]) {
		case "Tgid":
			s.tgid, ok = parsePID(line[at:])
			seen |= wantTGID
		case "Uid":
			s.uid, ok = parseIDs(line[at:])
			seen |= wantUID
		case "Gid":
			s.gid, ok = parseIDs(line[at:])
			seen |= wantGID
		case "VmSwap":
			s.swap, ok = parseKB(line[at:])
		case "Cpus_allowed_list":
			s.affinity = line[at:]
		case "voluntary_ctxt_switches":
			s.voluntary, ok = parseCount(line[at:])
		case "nonvoluntary_ctxt_switches":
			s.nonvoluntary, ok = parseCount(line[at:])
		}
		if !ok {
			return status{}, false
		}
	}
	if seen != wantTGID|wantUID|wantGID {
		return status{}, false
	}
	return s, true
}

// statusUID returns the real and effective user id alone, for a scan.
func statusUID(b []byte) (uid, euid uint32, ok bool) {
	i := bytes.Index(b, []byte("\nUid:"))
	if i < 0 {
		return 0, 0, false
	}
	line, _ := cutLine(b[i+1:])
	ids, ok := parseIDs(line[skipBlank(line, len("Uid:")):])
	return ids[0], ids[1], ok
}

// statusTGID returns the thread group alone: the PID of the process.
func statusTGID(b []byte) (int32, bool) {
	i := bytes.Index(b, []byte("\nTgid:"))
	if i < 0 {
		return 0, false
	}
	line, _ := cutLine(b[i+1:])
	return parsePID(line[skipBlank(line, len("Tgid:")):])
}

// cutLine returns the first line without its newline, and the rest.
func cutLine(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// parseIDs reads four ids, separated by blanks.
func parseIDs(b []byte) ([4]uint32, bool) {
	var ids [4]uint32
	i := 0
	for k := range ids {
		v, next, ok := parseUint(b, i)
		if !ok || v > 1<<32-1 {
			return [4]uint32{}, false
		}
		ids[k], i = uint32(v), skipBlank(b, next)
	}
	return ids, i == len(b)
}

// parseKB reads "123 kB" as bytes.
func parseKB(b []byte) (Opt[uint64], bool) {
	v, next, ok := parseUint(b, 0)
	if !ok || v > (1<<64-1)/1024 || string(b[next:]) != " kB" {
		return Opt[uint64]{}, false
	}
	return Some(v * 1024), true
}

// parseCount reads a number that is all there is.
func parseCount(b []byte) (Opt[uint64], bool) {
	v, next, ok := parseUint(b, 0)
	if !ok || next != len(b) {
		return Opt[uint64]{}, false
	}
	return Some(v), true
}
