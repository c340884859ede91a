package api

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"procinsh/proc"
	"procinsh/watch"
)

// The contract types made the slow way, for comparison with what the encoders
// write, and random values to make them from.

func state(b byte) string { return string(rune(b)) }

func optID(o proc.Opt[uint64]) *string { return decimal(o) }

func wireSummary(r *watch.ListRow, want watch.ListWant) ProcessSummary {
	d := r.Details
	if d == nil {
		d = &proc.Details{}
	}
	s := ProcessSummary{
		Identity: identity(r.ID), ParentID: optIdentity(r.Parent), Name: d.Name, Executable: d.Executable,
		CommandLine: d.CommandLine, CommandLineTruncated: d.CommandLineTruncated, KernelThread: r.KernelThread,
		UID: r.UID, EUID: r.EUID, Username: d.Username, EffectiveUsername: d.EffectiveUsername,
		State: state(r.State), CPUPercent: r.CPUPercent.Ptr(), RSSBytes: r.RSS, ThreadCount: r.Threads,
		StartedAt: r.StartedAt, Cgroup: d.Cgroup, Container: d.Container, VMSBytes: r.VMS, Nice: r.Nice,
		TTY: d.TTY, Processor: r.Processor, RunID: textOrNull(r.Run),
	}
	if want.IO {
		s.ReadBytesRate, s.WriteBytesRate = r.ReadRate.Ptr(), r.WriteRate.Ptr()
	}
	if want.Maps && r.Maps != nil {
		m := MapSummary{Boxes: []MapBox{}, Totals: map[string]uint64{}}
		for _, x := range r.Maps.Boxes {
			m.Boxes = append(m.Boxes, MapBox{x.Kind, hex16(x.Start), hex16(x.End), x.Size, x.Count})
		}
		for k, v := range r.Maps.Totals {
			m.Totals[k] = v
		}
		s.MapSummary = &m
	}
	return s
}

func wireMapping(m *proc.Mapping) Mapping {
	w := Mapping{
		Start: hex16(m.Start), End: hex16(m.End), Permissions: string(m.Permissions[:]),
		Readable: m.Permissions[0] == 'r', Writable: m.Permissions[1] == 'w',
		Executable: m.Permissions[2] == 'x', Private: m.Permissions[3] == 'p',
		FileOffset: "0x" + strconv.FormatUint(m.FileOffset, 16), Device: fmt.Sprintf("%02x:%02x", m.Major, m.Minor),
		Inode: strconv.FormatUint(m.Inode, 10), Deleted: m.Deleted.Ptr(),
		RSSBytes: m.RSS.Ptr(), PSSBytes: m.PSS.Ptr(), SwapBytes: m.Swap.Ptr(), DirtyBytes: m.Dirty.Ptr(),
	}
	if m.Path != "" {
		w.Pathname = &m.Path
	}
	return w
}

func wireMappings(maps []proc.Mapping) []Mapping {
	w := make([]Mapping, len(maps))
	for i := range maps {
		w[i] = wireMapping(&maps[i])
	}
	return w
}

func wireRollup(r *proc.Rollup) *Rollup {
	if r == nil {
		return nil
	}
	return &Rollup{r.RSS, r.PSS, r.Private, r.Swap}
}

func wireThreads(threads []proc.Thread, cpu []proc.Opt[float64]) []Thread {
	w := make([]Thread, len(threads))
	for i, t := range threads {
		w[i] = Thread{
			TID: t.TID, Name: t.Name, State: state(t.State), CPU: t.CPU, Priority: t.Priority, Nice: t.Nice,
			Scheduler: t.Scheduler, Affinity: t.Affinity.Ptr(),
			VoluntaryContextSwitches: t.VoluntarySwitches.Ptr(), NonvoluntaryContextSwitches: t.NonvoluntarySwitches.Ptr(),
			WaitChannel: t.WaitChannel.Ptr(), Syscall: t.Syscall.Ptr(),
		}
		if i < len(cpu) {
			w[i].CPUPercent = cpu[i].Ptr()
		}
	}
	return w
}

func wireObservation(o *watch.Observation) *Observation {
	if o == nil {
		return nil
	}
	w := &Observation{
		Timestamp: o.At.UnixMilli(), ProcessID: identity(o.ID), State: state(o.State), CPUPercent: o.CPUPercent.Ptr(),
		RSSBytes: o.RSS.Ptr(), VMSBytes: o.VMS.Ptr(), SwapBytes: o.Swap.Ptr(),
		MinorFaults: o.MinorFaults, MajorFaults: o.MajorFaults,
		VoluntaryContextSwitches: o.VoluntarySwitches.Ptr(), NonvoluntaryContextSwitches: o.NonvoluntarySwitches.Ptr(),
		Rates: Rates{
			o.Rates.MinorFaults.Ptr(), o.Rates.MajorFaults.Ptr(), o.Rates.VoluntarySwitches.Ptr(),
			o.Rates.NonvoluntarySwitches.Ptr(), o.Rates.ReadBytes.Ptr(), o.Rates.WriteBytes.Ptr(),
		},
		Threads: wireThreads(o.Threads, o.ThreadCPU), ThreadsTruncated: o.ThreadsTruncated,
		CPU: o.CPU, Nice: o.Nice, Priority: o.Priority,
	}
	if io, ok := o.IO.Get(); ok {
		w.IO = &IO{io.ReadBytes, io.WriteBytes}
	}
	return w
}

func wireObservationEvent(s *watch.ProcessState, withMaps bool) ObservationEvent {
	e := ObservationEvent{
		Summary: wireSummary(&s.Row, watch.ListWant{}), Observation: wireObservation(s.Observation),
		History: []HistoryPoint{}, MapsError: errorText(s.MapsErr), MapsTruncated: s.MapsTruncated,
		Rollup: wireRollup(s.Rollup), Exited: s.Exited, Error: errorText(s.Err),
	}
	for _, h := range s.History {
		e.History = append(e.History, HistoryPoint{h.At.UnixMilli(), h.CPUPercent.Ptr(), h.RSS.Ptr(), h.VMS.Ptr()})
	}
	if withMaps {
		e.Maps = wireMappings(s.Maps)
	}
	if !s.MapsCapturedAt.IsZero() {
		at := s.MapsCapturedAt.UnixMilli()
		e.MapsCapturedAt = &at
	}
	return e
}

func wireEndpoints(list []proc.Endpoint) []Endpoint {
	w := make([]Endpoint, len(list))
	for i, e := range list {
		w[i] = Endpoint{identity(e.ID), e.Name, e.FD, e.Access.Ptr(), e.Relation}
	}
	return w
}

func wireHolder(h *proc.Holder) Holder {
	w := Holder{
		ProcessID: identity(h.ID), Name: h.Name, FD: h.FD.Ptr(), Access: h.Access.Ptr(), Relation: h.Relation,
		Path: h.Path.Ptr(), Deleted: h.Deleted.Ptr(), NetworkNamespace: optID(h.Namespace),
	}
	if s := h.Socket; s != nil {
		w.Protocol, w.State, w.Local, w.Remote = s.Protocol.Ptr(), s.State.Ptr(), s.Local.Ptr(), s.Remote.Ptr()
	}
	return w
}

func wireDescriptor(d *proc.Descriptor) Descriptor {
	return Descriptor{
		FD: d.FD, Kind: d.Kind, Target: d.Target, Inode: optID(d.Inode), Access: d.Access.Ptr(), Flags: d.Flags,
		Position: d.Position.Ptr(), Deleted: d.Deleted, Protocol: d.Protocol.Ptr(), State: d.State.Ptr(),
		Local: d.Local.Ptr(), Remote: d.Remote.Ptr(), LocalKind: d.LocalKind.Ptr(), TIDs: d.TIDs,
		ReceiveQueue: d.ReceiveQueue.Ptr(), SendQueue: d.SendQueue.Ptr(), PeerInode: optID(d.PeerInode),
		Peers: wireEndpoints(d.Peers), Holders: wireEndpoints(d.Holders), Note: d.Note.Ptr(),
	}
}

// random makes values of every shape the kernel or a target can give, and some
// that they cannot.
type random struct{ *rand.Rand }

func newRandom(seed uint64) random { return random{rand.New(rand.NewPCG(seed, 1))} }

// alphabet holds what an encoder can get wrong: quotes, controls, HTML, lone
// bytes, parts of runes, line separators, runes beyond 16 bits.
var alphabet = []string{"a", "b", "z", " ", "/", "\"", "\\", "<", ">", "&", "\n", "\r", "\t", "\b", "\f", "\x00", "\x01",
	"\x1b", "\x1f", "\x7f", "\x80", "\xbf", "\xc3", "\xe2\x80", "\xff", "é", "\u2028", "\u2029", "\u2027", "\ufffd", "\ufeff", "😀", "\xed\xa0\x80"}

func (r random) text() string {
	var b strings.Builder
	for range r.IntN(12) {
		b.WriteString(alphabet[r.IntN(len(alphabet))])
	}
	return b.String()
}

func (r random) textPtr() *string {
	if r.IntN(3) == 0 {
		return nil
	}
	s := r.text()
	return &s
}

func (r random) texts() []string {
	if r.IntN(4) == 0 {
		return nil
	}
	list := make([]string, r.IntN(4))
	for i := range list {
		list[i] = r.text()
	}
	return list
}

func (r random) u64() uint64 { return r.Uint64() >> r.IntN(64) }
func (r random) i32() int32  { return int32(r.Uint32()) }
func (r random) yes() bool   { return r.IntN(2) == 0 }

func (r random) float() float64 {
	switch r.IntN(5) {
	case 0:
		return 0
	case 1:
		return float64(r.IntN(4000)) / 10
	case 2:
		return r.Float64() * math.Pow(10, float64(r.IntN(60)-30))
	case 3:
		return -r.Float64()
	default:
		f := math.Float64frombits(r.Uint64())
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return 1
		}
		return f
	}
}

func opt[T any](r random, make func() T) proc.Opt[T] {
	if r.IntN(3) == 0 {
		return proc.Opt[T]{}
	}
	return proc.Some(make())
}

func (r random) id() proc.ID { return proc.ID{PID: r.Int32(), StartTicks: r.u64()} }

func (r random) at() time.Time { return time.UnixMilli(r.Int64N(1 << 42)) }

func (r random) summaryOfMaps() *proc.MapSummary {
	if r.yes() {
		return nil
	}
	m := &proc.MapSummary{Totals: map[string]uint64{}}
	for range r.IntN(5) {
		kind := []string{proc.KindCode, proc.KindHeap, proc.KindStack, proc.KindOther}[r.IntN(4)]
		m.Boxes = append(m.Boxes, proc.MapBox{Kind: kind, Start: r.u64(), End: r.u64(), Size: r.u64(), Count: r.IntN(100)})
		m.Totals[kind] += r.u64()
	}
	return m
}

func (r random) row() watch.ListRow {
	row := watch.ListRow{
		Row: proc.Row{
			ID: r.id(), Parent: opt(r, r.id), State: byte(r.IntN(256)), KernelThread: r.yes(), UID: r.Uint32(), EUID: r.Uint32(),
			CPUTicks: r.u64(), At: r.Int64(), RSS: r.u64(), VMS: r.u64(), Threads: r.i32(), Nice: r.i32(), Processor: r.i32(),
			StartedAt: r.Int64(), Maps: r.summaryOfMaps(),
		},
		CPUPercent: opt(r, r.float), ReadRate: opt(r, r.float), WriteRate: opt(r, r.float),
	}
	if r.yes() {
		row.Run = r.text()
	}
	if r.IntN(20) > 0 {
		row.Details = &proc.Details{
			Name: r.text(), Executable: r.textPtr(), CommandLine: r.texts(), CommandLineTruncated: r.yes(),
			Username: r.textPtr(), EffectiveUsername: r.textPtr(), Cgroup: r.textPtr(), Container: r.textPtr(), TTY: r.textPtr(),
		}
	}
	return row
}

func (r random) mapping() proc.Mapping {
	m := proc.Mapping{Start: r.u64(), End: r.u64(), FileOffset: r.u64(), Major: r.Uint32() >> r.IntN(32), Minor: r.Uint32() >> r.IntN(32),
		Inode: r.u64(), Path: r.text(), Deleted: opt(r, r.yes), RSS: opt(r, r.u64), PSS: opt(r, r.u64), Swap: opt(r, r.u64), Dirty: opt(r, r.u64)}
	copy(m.Permissions[:], []string{"r-xp", "rw-s", "---p", "rwxp"}[r.IntN(4)])
	return m
}

func many[T any](r random, n int, make func() T) []T {
	var list []T
	for range r.IntN(n) {
		list = append(list, make())
	}
	return list
}

func (r random) thread() proc.Thread {
	return proc.Thread{TID: r.i32(), Name: r.text(), State: byte(r.IntN(256)), CPU: r.i32(), Priority: r.i32(), Nice: r.i32(),
		Scheduler: "OTHER", Affinity: opt(r, r.text), VoluntarySwitches: opt(r, r.u64), NonvoluntarySwitches: opt(r, r.u64),
		WaitChannel: opt(r, r.text), Syscall: opt(r, r.text)}
}

func (r random) observation() *watch.Observation {
	if r.IntN(8) == 0 {
		return nil
	}
	o := &watch.Observation{
		Sample: proc.Sample{ID: r.id(), At: r.at(), State: byte(r.IntN(256)), RSS: opt(r, r.u64), VMS: opt(r, r.u64), Swap: opt(r, r.u64),
			MinorFaults: r.u64(), MajorFaults: r.u64(), VoluntarySwitches: opt(r, r.u64), NonvoluntarySwitches: opt(r, r.u64),
			IO:  opt(r, func() proc.IO { return proc.IO{ReadBytes: r.u64(), WriteBytes: r.u64()} }),
			CPU: r.i32(), Nice: r.i32(), Priority: r.i32(), Threads: many(r, 4, r.thread), ThreadsTruncated: r.yes()},
		CPUPercent: opt(r, r.float),
		Rates: watch.Rates{MinorFaults: opt(r, r.float), MajorFaults: opt(r, r.float), VoluntarySwitches: opt(r, r.float),
			NonvoluntarySwitches: opt(r, r.float), ReadBytes: opt(r, r.float), WriteBytes: opt(r, r.float)},
	}
	for range o.Threads {
		o.ThreadCPU = append(o.ThreadCPU, opt(r, r.float))
	}
	return o
}

func (r random) err() error {
	return []error{nil, nil, proc.ErrGone, proc.ErrUnmapped, watch.ErrFull}[r.IntN(5)]
}

func (r random) processState() *watch.ProcessState {
	s := &watch.ProcessState{Row: r.row(), Observation: r.observation(), Maps: many(r, 5, r.mapping), MapsTruncated: r.yes(),
		MapsErr: r.err(), Exited: r.yes(), Err: r.err()}
	s.History = many(r, 5, func() watch.HistoryPoint {
		return watch.HistoryPoint{At: r.at(), CPUPercent: opt(r, r.float), RSS: opt(r, r.u64), VMS: opt(r, r.u64)}
	})
	if r.yes() {
		s.MapsCapturedAt = r.at()
	}
	if r.yes() {
		s.Rollup = &proc.Rollup{RSS: r.u64(), PSS: r.u64(), Private: r.u64(), Swap: r.u64()}
	}
	return s
}

func (r random) endpoint() proc.Endpoint {
	return proc.Endpoint{ID: r.id(), Name: r.text(), FD: r.i32(), Access: opt(r, r.text), Relation: r.text()}
}

func (r random) descriptor() proc.Descriptor {
	d := proc.Descriptor{FD: r.i32(), Kind: r.text(), Target: r.text(), Inode: opt(r, r.u64), Access: opt(r, r.text), Flags: r.texts(),
		Position: opt(r, r.u64), Deleted: r.yes(), Protocol: opt(r, r.text), State: opt(r, r.text), Local: opt(r, r.text),
		Remote: opt(r, r.text), LocalKind: opt(r, r.text), ReceiveQueue: opt(r, r.u64), SendQueue: opt(r, r.u64),
		PeerInode: opt(r, r.u64), Peers: many(r, 3, r.endpoint), Holders: many(r, 3, r.endpoint), Note: opt(r, r.text)}
	if r.yes() {
		d.TIDs = many(r, 3, r.i32)
	}
	return d
}

func (r random) holder() proc.Holder {
	h := proc.Holder{ID: r.id(), Name: r.text(), FD: opt(r, r.i32), Access: opt(r, r.text), Relation: r.text(), Path: opt(r, r.text),
		Deleted: opt(r, r.yes), Namespace: opt(r, r.u64)}
	if r.yes() {
		h.Socket = &proc.HostSocket{Protocol: opt(r, r.text), State: opt(r, r.text), Local: opt(r, r.text), Remote: opt(r, r.text)}
	}
	return h
}
