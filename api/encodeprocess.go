package api

import (
	"strconv"

	"procinsh/proc"
	"procinsh/watch"
)

// appendMapping appends a Mapping.
func appendMapping(b []byte, m *proc.Mapping) []byte {
	b = append(b, `{"start":`...)
	b = appendAddress(b, m.Start)
	b = append(b, `,"end":`...)
	b = appendAddress(b, m.End)
	b = append(b, `,"permissions":`...)
	b = appendString(b, string(m.Permissions[:]))
	b = append(b, `,"readable":`...)
	b = appendBool(b, m.Permissions[0] == 'r')
	b = append(b, `,"writable":`...)
	b = appendBool(b, m.Permissions[1] == 'w')
	b = append(b, `,"executable":`...)
	b = appendBool(b, m.Permissions[2] == 'x')
	b = append(b, `,"private":`...)
	b = appendBool(b, m.Permissions[3] == 'p')
	b = append(b, `,"file_offset":`...)
	b = appendOffset(b, m.FileOffset)
	b = append(b, `,"device":"`...)
	b = appendDevicePart(b, m.Major)
	b = append(b, ':')
	b = appendDevicePart(b, m.Minor)
	b = append(b, `","inode":"`...)
	b = appendUint(b, m.Inode)
	b = append(b, `","pathname":`...)
	if m.Path == "" {
		b = append(b, "null"...)
	} else {
		b = appendString(b, m.Path)
	}
	b = append(b, `,"deleted":`...)
	b = appendOptBool(b, m.Deleted)
	b = append(b, `,"rss_bytes":`...)
	b = appendOptUint(b, m.RSS)
	b = append(b, `,"pss_bytes":`...)
	b = appendOptUint(b, m.PSS)
	b = append(b, `,"swap_bytes":`...)
	b = appendOptUint(b, m.Swap)
	b = append(b, `,"dirty_bytes":`...)
	b = appendOptUint(b, m.Dirty)
	return append(b, '}')
}

// appendDevicePart appends a device number in the kernel's form, "%02x".
func appendDevicePart(b []byte, v uint32) []byte {
	if v < 16 {
		b = append(b, '0')
	}
	return strconv.AppendUint(b, uint64(v), 16)
}

func appendRollup(b []byte, r *proc.Rollup) []byte {
	if r == nil {
		return append(b, "null"...)
	}
	b = append(b, `{"rss_bytes":`...)
	b = appendUint(b, r.RSS)
	b = append(b, `,"pss_bytes":`...)
	b = appendUint(b, r.PSS)
	b = append(b, `,"private_bytes":`...)
	b = appendUint(b, r.Private)
	b = append(b, `,"swap_bytes":`...)
	b = appendUint(b, r.Swap)
	return append(b, '}')
}

// appendThread appends a Thread.
func appendThread(b []byte, t *proc.Thread, cpu proc.Opt[float64]) []byte {
	b = append(b, `{"tid":`...)
	b = appendInt(b, int64(t.TID))
	b = append(b, `,"name":`...)
	b = appendString(b, t.Name)
	b = append(b, `,"state":`...)
	b = appendState(b, t.State)
	b = append(b, `,"cpu":`...)
	b = appendInt(b, int64(t.CPU))
	b = append(b, `,"cpu_percent":`...)
	b = appendOptFloat(b, cpu)
	b = append(b, `,"priority":`...)
	b = appendInt(b, int64(t.Priority))
	b = append(b, `,"nice":`...)
	b = appendInt(b, int64(t.Nice))
	b = append(b, `,"scheduler":`...)
	b = appendString(b, t.Scheduler)
	b = append(b, `,"affinity":`...)
	b = appendOptString(b, t.Affinity)
	b = append(b, `,"voluntary_context_switches":`...)
	b = appendOptUint(b, t.VoluntarySwitches)
	b = append(b, `,"nonvoluntary_context_switches":`...)
	b = appendOptUint(b, t.NonvoluntarySwitches)
	b = append(b, `,"wait_channel":`...)
	b = appendOptString(b, t.WaitChannel)
	b = append(b, `,"syscall":`...)
	b = appendOptString(b, t.Syscall)
	return append(b, '}')
}

// appendThreads appends threads; cpu is empty or in the same order.
func appendThreads(b []byte, threads []proc.Thread, cpu []proc.Opt[float64]) []byte {
	b = append(b, '[')
	for i := range threads {
		if i > 0 {
			b = append(b, ',')
		}
		var percent proc.Opt[float64]
		if i < len(cpu) {
			percent = cpu[i]
		}
		b = appendThread(b, &threads[i], percent)
	}
	return append(b, ']')
}

// appendObservation appends an Observation, null for nil.
func appendObservation(b []byte, o *watch.Observation) []byte {
	if o == nil {
		return append(b, "null"...)
	}
	b = append(b, `{"timestamp":`...)
	b = appendInt(b, o.At.UnixMilli())
	b = append(b, `,"process_id":`...)
	b = appendIdentity(b, o.ID)
	b = append(b, `,"state":`...)
	b = appendState(b, o.State)
	b = append(b, `,"cpu_percent":`...)
	b = appendOptFloat(b, o.CPUPercent)
	b = append(b, `,"rss_bytes":`...)
	b = appendOptUint(b, o.RSS)
	b = append(b, `,"vms_bytes":`...)
	b = appendOptUint(b, o.VMS)
	b = append(b, `,"swap_bytes":`...)
	b = appendOptUint(b, o.Swap)
	b = append(b, `,"minor_faults":`...)
	b = appendUint(b, o.MinorFaults)
	b = append(b, `,"major_faults":`...)
	b = appendUint(b, o.MajorFaults)
	b = append(b, `,"voluntary_context_switches":`...)
	b = appendOptUint(b, o.VoluntarySwitches)
	b = append(b, `,"nonvoluntary_context_switches":`...)
	b = appendOptUint(b, o.NonvoluntarySwitches)
	b = append(b, `,"io":`...)
	if io, ok := o.IO.Get(); ok {
		b = append(b, `{"read_bytes":`...)
		b = appendUint(b, io.ReadBytes)
		b = append(b, `,"write_bytes":`...)
		b = appendUint(b, io.WriteBytes)
		b = append(b, '}')
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"rates":{"minor_faults":`...)
	b = appendOptFloat(b, o.Rates.MinorFaults)
	b = append(b, `,"major_faults":`...)
	b = appendOptFloat(b, o.Rates.MajorFaults)
	b = append(b, `,"voluntary_context_switches":`...)
	b = appendOptFloat(b, o.Rates.VoluntarySwitches)
	b = append(b, `,"nonvoluntary_context_switches":`...)
	b = appendOptFloat(b, o.Rates.NonvoluntarySwitches)
	b = append(b, `,"read_bytes":`...)
	b = appendOptFloat(b, o.Rates.ReadBytes)
	b = append(b, `,"write_bytes":`...)
	b = appendOptFloat(b, o.Rates.WriteBytes)
	b = append(b, `},"threads":`...)
	b = appendThreads(b, o.Threads, o.ThreadCPU)
	b = append(b, `,"threads_truncated":`...)
	b = appendBool(b, o.ThreadsTruncated)
	b = append(b, `,"cpu":`...)
	b = appendInt(b, int64(o.CPU))
	b = append(b, `,"nice":`...)
	b = appendInt(b, int64(o.Nice))
	b = append(b, `,"priority":`...)
	b = appendInt(b, int64(o.Priority))
	return append(b, '}')
}

// appendObservationRest appends what an event observation holds beside summary,
// history and maps, up to its end.
func appendObservationRest(b []byte, s *watch.ProcessState) []byte {
	b = append(b, `,"observation":`...)
	b = appendObservation(b, s.Observation)
	b = append(b, `,"maps_captured_at":`...)
	if s.MapsCapturedAt.IsZero() {
		b = append(b, "null"...)
	} else {
		b = appendInt(b, s.MapsCapturedAt.UnixMilli())
	}
	b = append(b, `,"maps_error":`...)
	b = appendNullableString(b, errorText(s.MapsErr))
	b = append(b, `,"maps_truncated":`...)
	b = appendBool(b, s.MapsTruncated)
	b = append(b, `,"rollup":`...)
	b = appendRollup(b, s.Rollup)
	b = append(b, `,"exited":`...)
	b = appendBool(b, s.Exited)
	b = append(b, `,"error":`...)
	b = appendNullableString(b, errorText(s.Err))
	return append(b, "}\n\n"...)
}

func appendHistoryPoint(b []byte, h *watch.HistoryPoint) []byte {
	b = append(b, `{"timestamp":`...)
	b = appendInt(b, h.At.UnixMilli())
	b = append(b, `,"cpu_percent":`...)
	b = appendOptFloat(b, h.CPUPercent)
	b = append(b, `,"rss_bytes":`...)
	b = appendOptUint(b, h.RSS)
	b = append(b, `,"vms_bytes":`...)
	b = appendOptUint(b, h.VMS)
	return append(b, '}')
}

// appendDescriptor appends a Descriptor.
func appendDescriptor(b []byte, d *proc.Descriptor) []byte {
	b = append(b, `{"fd":`...)
	b = appendInt(b, int64(d.FD))
	b = append(b, `,"kind":`...)
	b = appendString(b, d.Kind)
	b = append(b, `,"target":`...)
	b = appendString(b, d.Target)
	b = append(b, `,"inode":`...)
	b = appendOptID(b, d.Inode)
	b = append(b, `,"access":`...)
	b = appendOptString(b, d.Access)
	b = append(b, `,"flags":`...)
	b = appendStrings(b, d.Flags)
	b = append(b, `,"position":`...)
	b = appendOptUint(b, d.Position)
	b = append(b, `,"deleted":`...)
	b = appendBool(b, d.Deleted)
	b = append(b, `,"protocol":`...)
	b = appendOptString(b, d.Protocol)
	b = append(b, `,"state":`...)
	b = appendOptString(b, d.State)
	b = append(b, `,"local":`...)
	b = appendOptString(b, d.Local)
	b = append(b, `,"remote":`...)
	b = appendOptString(b, d.Remote)
	b = append(b, `,"local_kind":`...)
	b = appendOptString(b, d.LocalKind)
	b = append(b, `,"tids":`...)
	if d.TIDs == nil {
		b = append(b, "null"...)
	} else {
		b = appendList(b, d.TIDs, func(b []byte, tid *int32) []byte { return appendInt(b, int64(*tid)) })
	}
	b = append(b, `,"receive_queue":`...)
	b = appendOptUint(b, d.ReceiveQueue)
	b = append(b, `,"send_queue":`...)
	b = appendOptUint(b, d.SendQueue)
	b = append(b, `,"peer_inode":`...)
	b = appendOptID(b, d.PeerInode)
	b = append(b, `,"peers":`...)
	b = appendList(b, d.Peers, appendEndpoint)
	b = append(b, `,"holders":`...)
	b = appendList(b, d.Holders, appendEndpoint)
	b = append(b, `,"note":`...)
	b = appendOptString(b, d.Note)
	return append(b, '}')
}

func appendEndpoint(b []byte, e *proc.Endpoint) []byte {
	b = append(b, `{"process_id":`...)
	b = appendIdentity(b, e.ID)
	b = append(b, `,"name":`...)
	b = appendString(b, e.Name)
	b = append(b, `,"fd":`...)
	b = appendInt(b, int64(e.FD))
	b = append(b, `,"access":`...)
	b = appendOptString(b, e.Access)
	b = append(b, `,"relation":`...)
	b = appendString(b, e.Relation)
	return append(b, '}')
}
