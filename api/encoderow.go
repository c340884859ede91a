package api

import (
	"cmp"
	"slices"
	"sort"

	"procinsh/proc"
	"procinsh/watch"
)

var noDetails proc.Details

// appendSummary appends a row as a ProcessSummary. What want does not ask for is
// null, also when another viewer's scan has read it.
func appendSummary(b []byte, r *watch.ListRow, want watch.ListWant) []byte {
	d := r.Details
	if d == nil {
		d = &noDetails
	}
	b = append(b, `{"identity":`...)
	b = appendIdentity(b, r.ID)
	b = append(b, `,"parent_id":`...)
	b = appendOptIdentity(b, r.Parent)
	b = append(b, `,"name":`...)
	b = appendString(b, d.Name)
	b = append(b, `,"executable":`...)
	b = appendNullableString(b, d.Executable)
	b = append(b, `,"command_line":`...)
	b = appendStrings(b, d.CommandLine)
	b = append(b, `,"command_line_truncated":`...)
	b = appendBool(b, d.CommandLineTruncated)
	b = append(b, `,"kernel_thread":`...)
	b = appendBool(b, r.KernelThread)
	b = append(b, `,"uid":`...)
	b = appendUint(b, uint64(r.UID))
	b = append(b, `,"euid":`...)
	b = appendUint(b, uint64(r.EUID))
	b = append(b, `,"username":`...)
	b = appendNullableString(b, d.Username)
	b = append(b, `,"effective_username":`...)
	b = appendNullableString(b, d.EffectiveUsername)
	b = append(b, `,"state":`...)
	b = appendState(b, r.State)
	b = append(b, `,"cpu_percent":`...)
	b = appendOptFloat(b, r.CPUPercent)
	b = append(b, `,"rss_bytes":`...)
	b = appendUint(b, r.RSS)
	b = append(b, `,"thread_count":`...)
	b = appendInt(b, int64(r.Threads))
	b = append(b, `,"started_at":`...)
	b = appendInt(b, r.StartedAt)
	b = append(b, `,"cgroup":`...)
	b = appendNullableString(b, d.Cgroup)
	b = append(b, `,"container":`...)
	b = appendNullableString(b, d.Container)
	b = append(b, `,"vms_bytes":`...)
	b = appendUint(b, r.VMS)
	b = append(b, `,"nice":`...)
	b = appendInt(b, int64(r.Nice))
	b = append(b, `,"tty":`...)
	b = appendNullableString(b, d.TTY)
	b = append(b, `,"processor":`...)
	b = appendInt(b, int64(r.Processor))
	b = append(b, `,"read_bytes_rate":`...)
	if want.IO {
		b = appendOptFloat(b, r.ReadRate)
		b = append(b, `,"write_bytes_rate":`...)
		b = appendOptFloat(b, r.WriteRate)
	} else {
		b = append(b, `null,"write_bytes_rate":null`...)
	}
	b = append(b, `,"run_id":`...)
	b = appendNullableString(b, textOrNull(r.Run))
	b = append(b, `,"map_summary":`...)
	if want.Maps {
		b = appendMapSummary(b, r.Maps)
	} else {
		b = append(b, "null"...)
	}
	return append(b, '}')
}

func appendMapSummary(b []byte, m *proc.MapSummary) []byte {
	if m == nil {
		return append(b, "null"...)
	}
	b = append(b, `{"boxes":`...)
	b = appendList(b, m.Boxes, appendMapBox)
	b = append(b, `,"totals":{`...)
	var room [16]string // there are ten kinds
	kinds := room[:0]
	for kind := range m.Totals {
		kinds = append(kinds, kind)
	}
	sort.Strings(kinds)
	for i, kind := range kinds {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, kind)
		b = append(b, ':')
		b = appendUint(b, m.Totals[kind])
	}
	return append(b, '}', '}')
}

func appendMapBox(b []byte, x *proc.MapBox) []byte {
	b = append(b, `{"kind":`...)
	b = appendString(b, x.Kind)
	b = append(b, `,"start":`...)
	b = appendAddress(b, x.Start)
	b = append(b, `,"end":`...)
	b = appendAddress(b, x.End)
	b = append(b, `,"size":`...)
	b = appendUint(b, x.Size)
	b = append(b, `,"count":`...)
	b = appendInt(b, int64(x.Count))
	return append(b, '}')
}

// appendProcesses appends the rows as the body of GET /api/processes: CPU
// descending, unknown as 0, then by PID.
func appendProcesses(b []byte, rows []watch.ListRow, want watch.ListWant, s spill) []byte {
	order := make([]*watch.ListRow, len(rows))
	for i := range rows {
		order[i] = &rows[i]
	}
	slices.SortFunc(order, func(x, y *watch.ListRow) int {
		if c := cmp.Compare(y.CPUPercent.Or(0), x.CPUPercent.Or(0)); c != 0 {
			return c
		}
		return cmp.Compare(x.ID.PID, y.ID.PID)
	})
	b = append(b, '[')
	for i, r := range order {
		if i > 0 {
			b = append(b, ',')
		}
		b = s(appendSummary(b, r, want))
	}
	return append(b, ']')
}

// appendProcessesEvent appends the data of event processes.
func appendProcessesEvent(b []byte, s *watch.ListState, want watch.ListWant, sp spill) []byte {
	b = append(b, `{"sequence":`...)
	b = appendUint(b, s.Sequence)
	b = append(b, `,"captured_at":`...)
	b = appendInt(b, s.CapturedAt.UnixMilli())
	b = append(b, `,"processes":`...)
	b = appendProcesses(b, s.Rows, want, sp)
	return append(b, '}')
}

// appendProcessesDelta appends the data of event processes_delta, which makes
// base into s. Both lists are by PID. A PID that names another process now is
// among the removed and among the changed.
func appendProcessesDelta(b []byte, s, base *watch.ListState, want watch.ListWant) []byte {
	b = append(b, `{"sequence":`...)
	b = appendUint(b, s.Sequence)
	b = append(b, `,"base_sequence":`...)
	b = appendUint(b, base.Sequence)
	b = append(b, `,"captured_at":`...)
	b = appendInt(b, s.CapturedAt.UnixMilli())
	b = append(b, `,"changed":[`...)
	var room [64]proc.ID
	removed := room[:0]
	old := base.Rows
	first := true
	for i := range s.Rows {
		r := &s.Rows[i]
		for len(old) > 0 && old[0].ID.PID < r.ID.PID {
			removed = append(removed, old[0].ID)
			old = old[1:]
		}
		rowWant := want
		if len(old) > 0 && old[0].ID.PID == r.ID.PID {
			o := &old[0]
			old = old[1:]
			if o.ID != r.ID {
				removed = append(removed, o.ID)
			} else {
				if sameSummary(o, r, want) {
					continue
				}
				rowWant.Maps = want.Maps && o.Maps != r.Maps
			}
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = appendSummary(b, r, rowWant)
	}
	for i := range old {
		removed = append(removed, old[i].ID)
	}
	b = append(b, `],"removed":[`...)
	for i, id := range removed {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendIdentity(b, id)
	}
	return append(b, ']', '}')
}

// sameSummary tells whether two rows of one process give the same JSON. The CPU
// ticks and the time they were read are in no summary.
func sameSummary(a, b *watch.ListRow, want watch.ListWant) bool {
	return a.State == b.State && a.CPUPercent == b.CPUPercent && a.RSS == b.RSS &&
		a.Processor == b.Processor && a.Details == b.Details && a.Parent == b.Parent &&
		a.Threads == b.Threads && a.VMS == b.VMS && a.UID == b.UID && a.EUID == b.EUID &&
		a.Nice == b.Nice && a.Run == b.Run && a.StartedAt == b.StartedAt && a.KernelThread == b.KernelThread &&
		(!want.IO || a.ReadRate == b.ReadRate && a.WriteRate == b.WriteRate) &&
		(!want.Maps || a.Maps == b.Maps)
}
