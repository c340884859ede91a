package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/bpf"
)

// sensorPatience is how long a sensor may take to report for the first time.
const sensorPatience = 5 * time.Second

// checkSensors loads the sensors, waits for their first report and detaches them.
func (p privileges) checkSensors() []finding {
	s := bpf.Open(bpf.Options{})
	defer s.Close()
	var w bpf.Window
	var err error
	for until := time.Now().Add(sensorPatience); err == nil && time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if err = s.Drain(&w); s.Status().CPU.State != bpf.StateStarting {
			break
		}
	}
	st := s.Status()
	cpu, ipc, files := s.Backends()
	return []finding{
		p.sensor("sensor of processor time", st.CPU, cpu, err),
		p.sensor("sensor of pipes and sockets", st.IPC, ipc, err),
		p.sensor("sensor of files", st.Files, files, err),
	}
}

// checkTables reads processes and descriptors the way they are read while somebody
// watches.
func (p privileges) checkTables() finding {
	const name = "list and descriptors from the kernel's tables"
	tasks, err := bpf.OpenTasks()
	if err == nil {
		_, err = tasks.Read(0, 0)
		err = errors.Join(err, tasks.Close())
	}
	if err == nil {
		var files *bpf.Descriptors
		if files, err = bpf.OpenDescriptors(); err == nil {
			err = errors.Join(files.Read(false, func(*bpf.Descriptor) bool { return true }), files.Close())
		}
	}
	if err == nil {
		return works(name, "A list that is watched, and who holds what on the host, are read by iterators (BPF, 5.8).")
	}
	return lacks(name, statePartly, "A list that is watched, or who holds what on the host, is read from the texts of /proc, at several times the cost: "+err.Error()+".",
		p.sensorHelp(bpf.SensorStatus{Reason: err.Error()}))
}

// checkMapTables loads what reads map summaries while somebody watches. It reads none: the
// kernel may hold whoever does.
func (p privileges) checkMapTables() finding {
	const name = "map summaries from the kernel's tables"
	m, err := bpf.OpenMappings()
	if err == nil {
		err = m.Close()
	}
	if err == nil {
		return works(name, "Map summaries of a list or host that is watched are read by an iterator (BPF, 5.12).")
	}
	return lacks(name, statePartly, "Map summaries are read from the texts of /proc, at some three times the cost: "+err.Error()+".",
		p.sensorHelp(bpf.SensorStatus{Reason: err.Error()}))
}

// sensor is the finding about one of them.
func (p privileges) sensor(name string, st bpf.SensorStatus, hooks []string, drain error) finding {
	switch {
	case st.State == bpf.StateObserving && drain == nil:
		says := "It counts at " + strings.Join(hooks, ", ") + "."
		for _, hook := range hooks {
			if hook == "tp_btf/sys_exit" {
				says += " This kernel refuses fentry, or has no such function: every system call takes about 0.1 µs longer while somebody watches."
				break
			}
		}
		return works(name, says)
	case drain != nil:
		return lacks(name, stateMissing, fmt.Sprintf("It does not report: %v.", drain), "")
	}
	return lacks(name, stateMissing, strings.ToUpper(st.Reason[:min(1, len(st.Reason))])+st.Reason[min(1, len(st.Reason)):]+".", p.sensorHelp(st))
}

// sensorHelp is what would make a sensor work.
func (p privileges) sensorHelp(st bpf.SensorStatus) string {
	switch {
	case !p.has(unix.CAP_SYS_ADMIN) && !(p.has(unix.CAP_BPF) && p.has(unix.CAP_PERFMON)):
		return p.get("CAP_BPF and CAP_PERFMON (Linux 5.8; before, CAP_SYS_ADMIN)")
	case strings.Contains(st.Reason, "BTF"):
		return "use a kernel with CONFIG_DEBUG_INFO_BTF."
	case strings.Contains(st.Reason, "RLIMIT_MEMLOCK"):
		return "raise the limit on locked memory (ulimit -l unlimited, LimitMEMLOCK=infinity)."
	case strings.Contains(st.Reason, "user namespace"):
		return "start procinsh in the first user namespace of the host."
	case strings.Contains(st.Reason, "policy"), strings.Contains(st.Reason, "lockdown"):
		return "see /sys/kernel/security/lockdown, the security modules and the container's filter of system calls: one of them refuses bpf(2)."
	}
	return ""
}
