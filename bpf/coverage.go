package bpf

import (
	"errors"
	"slices"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// status returns the states of what goes through pipes and sockets, and of files.
func (s *ioSensor) status() (ipc, files SensorStatus) {
	ipc, files = s.partStatus(&s.plan.vfs), s.partStatus(&s.plan.vfs)
	// Part of the picture is better than none, and coverage names what is missing.
	for _, p := range []*part{&s.plan.out, &s.plan.in} {
		if st := s.partStatus(p); ipc.State != StateObserving && st.State == StateObserving {
			ipc = st
		}
	}
	return ipc, files
}

func (s *ioSensor) partStatus(p *part) SensorStatus {
	if p.way().name != byNothing && s.unit != nil {
		return SensorStatus{State: StateObserving}
	}
	err := p.err()
	if refusesReading(err) {
		return SensorStatus{StateUnavailable, "refused by kernel lockdown"}
	}
	return explain(err)
}

// lost returns the operations that are in no window.
func (s *ioSensor) lost() (ipc, files uint64) {
	ipc, files = s.cutIPC+s.missed.ipc, s.cutFiles+s.missed.files
	if s.unit != nil {
		ipc += s.counters.lost.u64(0)
		files += s.counters.filesLost.u64(0)
	}
	return ipc, files
}

// unresolved returns the operations whose process or file could not be told.
func (s *ioSensor) unresolved() uint64 {
	if s.unit == nil {
		return 0
	}
	return s.counters.unresolved.u64(0)
}

// What no way sees. The kernel moves these bytes without the hooks, or for
// somebody who cannot be told.
var (
	neverSeen = []string{
		"splice, sendfile, tee, copy_file_range, io_uring and io_submit are not counted",
		"bytes moved through mmap are not counted",
		"operations of kernel threads and io workers are not attributed: unresolved counts them",
	}
	sysExitCoverage = []string{
		"32-bit and x32 system calls are not counted",
		"a descriptor that another thread closes or replaces during the call may be taken for its successor",
		"while observed, every system call takes the slower way out of the kernel, about 0.1 µs",
	}
)

// ipcCoverage names what is not counted, or is counted in another way, on this
// kernel.
func (s *ioSensor) ipcCoverage() []string {
	if s.unit == nil {
		return nil
	}
	all := append([]string(nil), neverSeen...)
	all = append(all, s.sysExitLines(s.plan.bySys()&^files)...)
	for _, m := range []struct {
		part *part
		what string
	}{{&s.plan.vfs, "pipes"}, {&s.plan.out, "bytes sent on sockets"}, {&s.plan.in, "bytes received on sockets"}} {
		if m.part.way().name == byNothing {
			all = append(all, m.what+" are not counted: "+s.partStatus(m.part).Reason)
		}
	}
	if s.plan.out.way().name == bySockets {
		all = append(all, "sendmmsg with one address for all messages: only the first message is counted (before 6.3)")
	}
	if s.plan.in.way().name == bySockets {
		all = append(all, "recvmmsg: only the first message is counted (before 6.3)")
	}
	if (s.plan.out.way().name == bySockets || s.plan.in.way().name == bySockets) && !s.tellsCalls {
		all = append(all, "io_uring on sockets is counted where it runs in the calling thread (before 5.15)")
	}
	return all
}

// filesCoverage is ipcCoverage for files.
func (s *ioSensor) filesCoverage() []string {
	if s.unit == nil || s.plan.vfs.way().name == byNothing {
		return nil
	}
	all := append([]string(nil), neverSeen...)
	all = append(all, s.sysExitLines(s.plan.bySys()&files)...)
	all = append(all,
		"bytes are those of successful calls, the page cache included: no disk transfers",
		"paths start at the root of the mount namespace, not at the root that a process was given",
		"on btrfs and overlayfs the device number of a resource is not the one that stat shows",
	)
	switch {
	case s.plan.walk:
	case errors.Is(s.plan.walkErr, errOption):
		all = append(all, "paths unavailable: switched off")
	default:
		all = append(all, "paths unavailable: kernel lockdown")
	}
	if s.pathsMissing {
		all = append(all, "some paths were not reported: their buffer was full")
	}
	return all
}

// losesPaths says whether the first path was lost since it was last asked, which
// changes filesCoverage.
func (s *ioSensor) losesPaths() bool {
	if s.pathsMissing || s.unit == nil || s.counters.pathsLost.u64(0) == 0 {
		return false
	}
	s.pathsMissing = true
	return true
}

// sysExitLines says why system calls are looked at in place of functions, and what
// that leaves out; c is what of it concerns the reader.
func (s *ioSensor) sysExitLines(c class) []string {
	if c == 0 {
		return nil
	}
	var lines []string
	if c&(pipes|files) != 0 {
		reason := "counted at system calls"
		switch err := s.plan.vfs.firstErr(); {
		case errors.Is(err, errOption):
			reason = "fentry switched off; " + reason
		case errors.Is(err, errSilent):
			reason = "function hooks do not report; " + reason
		case errors.Is(err, unix.EPERM):
			reason = "kernel refuses fentry; " + reason
		case err != nil:
			reason = "no function hooks (" + explain(err).Reason + "); " + reason
		}
		lines = append(lines, reason)
	}
	if c&(socketsOut|socketsIn) != 0 {
		lines = append(lines, "sockets are counted at system calls")
	}
	return append(lines, sysExitCoverage...)
}

// tellsCalls says whether programs at sockets can tell in which system call they
// run: whether the kernel has the helper bpf_task_pt_regs (5.15).
func tellsCalls(kernel *btf.Spec) bool {
	var helpers *btf.Enum
	if kernel.TypeByName("bpf_func_id", &helpers) != nil {
		return false
	}
	return slices.ContainsFunc(helpers.Values, func(v btf.EnumValue) bool { return v.Name == "BPF_FUNC_task_pt_regs" })
}
