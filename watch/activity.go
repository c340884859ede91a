package watch

import (
	"strconv"
	"time"

	"procinsh/bpf"
	"procinsh/proc"
)

// Activity is what happened on the host in one window. Immutable, shared by all
// viewers.
type Activity struct {
	Sequence   uint64
	CapturedAt int64         // Unix epoch ms, the end of the window; later than that of the one before
	Window     time.Duration // its real width
	CPU        []CPUActivity // by process
	IPC, Files []Transfer    // by process, resource and direction
	Status     SystemStatus

	memo memo
}

// Memo is as that of ListState.
func (a *Activity) Memo(key any, build func() any) any { return a.memo.get(key, build) }

// CPUActivity is the processor time of a process in a window.
type CPUActivity struct {
	Process        proc.ID
	Runtime        uint64 // ns
	Switches       uint64
	RunningThreads int   // when the window ended
	CPUs           []int // on which they ran then, ascending
}

// Transfer is what a process moved to or from a resource in a window.
type Transfer struct {
	Process  proc.ID
	Resource Resource
	Write    bool
	Bytes    uint64
	Count    uint64           // operations
	Path     proc.Opt[string] // of a file, raw bytes
}

// Resource names a pipe, a socket or a file.
type Resource = bpf.Resource

// AppendResource appends the name that the topology has for the same thing:
// pipe:<st_dev>:<inode> and socket:<st_dev>:<inode>; a file is
// file:<major>:<minor>:<inode>:<generation>.
func AppendResource(b []byte, r Resource) []byte {
	number := func(v uint64) { b = strconv.AppendUint(append(b, ':'), v, 10) }
	switch r.Kind {
	case bpf.Pipe, bpf.Socket:
		if b = append(b, "pipe"...); r.Kind == bpf.Socket {
			b = append(b[:len(b)-len("pipe")], "socket"...)
		}
		number(userDevice(r.Major, r.Minor))
		number(r.Inode)
	default:
		b = append(b, "file"...)
		number(uint64(r.Major))
		number(uint64(r.Minor))
		number(r.Inode)
		number(uint64(r.Generation))
	}
	return b
}

// userDevice is st_dev as stat(2) has it, makedev(3).
func userDevice(major, minor uint32) uint64 {
	return uint64(major&0xfff)<<8 | uint64(major&^0xfff)<<32 | uint64(minor&0xff) | uint64(minor&^0xff)<<12
}

// SystemStatus is what the sensors are and are not able to do. While nobody watches
// all are idle.
type SystemStatus struct {
	Active bool // somebody watches
	bpf.Status
}

func idleStatus() SystemStatus {
	idle := bpf.SensorStatus{State: bpf.StateIdle}
	return SystemStatus{Status: bpf.Status{CPU: idle, IPC: idle, Files: idle}}
}

// observing tells whether any sensor reports, or may yet.
func (s *SystemStatus) observing() bool {
	for _, x := range []bpf.SensorStatus{s.CPU, s.IPC, s.Files} {
		if x.State == bpf.StateObserving || x.State == bpf.StateStarting {
			return true
		}
	}
	return false
}

// ticksOf is field 22 of stat for a raw start time: the reader's time namespace
// added, in ticks, rounded down. The sum is unsigned and wraps, as the kernel's does.
func ticksOf(start uint64, offset time.Duration) uint64 {
	return (start + uint64(offset)) / (uint64(time.Second) / ticksPerSecond)
}

// ownReading is what procinsh does to know all the rest: reading files of procfs,
// three of every process each second. It would hide what the others do.
type ownReading struct {
	id     proc.ID
	device uint64 // st_dev
	known  bool
}

// ownCoverage tells that it is left out.
const ownCoverage = "what procinsh itself reads of /proc is left out"

func (o *ownReading) is(t *Transfer) bool {
	return o.known && t.Process == o.id && !t.Write && t.Resource.Kind == bpf.File && userDevice(t.Resource.Major, t.Resource.Minor) == o.device
}

// takeWindow copies a window, whose memory the next one uses again.
func takeWindow(w *bpf.Window, offset time.Duration, own ownReading) *Activity {
	a := &Activity{CPU: make([]CPUActivity, len(w.CPU)), IPC: takeTransfers(w.IPC, offset, own), Files: takeTransfers(w.Files, offset, own)}
	if !w.Began.IsZero() {
		a.Window = w.Ended.Sub(w.Began)
	}
	cpus := 0
	for i := range w.CPU {
		cpus += len(w.CPU[i].CPUs)
	}
	room := make([]int, 0, cpus)
	for i := range w.CPU {
		c := &w.CPU[i]
		from := len(room)
		room = append(room, c.CPUs...)
		a.CPU[i] = CPUActivity{idOf(c.Process, offset), c.Runtime, c.Switches, c.RunningThreads, room[from:len(room):len(room)]}
	}
	return a
}

func takeTransfers(in []bpf.Transfer, offset time.Duration, own ownReading) []Transfer {
	out := make([]Transfer, 0, len(in))
	for i := range in {
		t := &in[i]
		taken := Transfer{Process: idOf(t.Process, offset), Resource: t.Resource, Write: t.Write, Bytes: t.Bytes, Count: t.Count}
		if own.is(&taken) {
			continue
		}
		if t.HasPath {
			taken.Path = proc.Some(t.Path)
		}
		out = append(out, taken)
	}
	return out
}

func idOf(p bpf.Process, offset time.Duration) proc.ID {
	return proc.ID{PID: int32(p.TGID), StartTicks: ticksOf(p.Start, offset)}
}
