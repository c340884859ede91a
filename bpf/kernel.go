package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// errNoBTF says that the kernel does not describe its types.
var errNoBTF = errors.New("kernel has no BTF (CONFIG_DEBUG_INFO_BTF)")

// hookError says that the kernel has no place of a certain name or form.
type hookError struct{ hook, why string }

func (e *hookError) Error() string { return fmt.Sprintf("no hook for %s: %s", e.hook, e.why) }

// loadKernel reads the types of the running kernel. Only they count: the kernel
// looks its own up when a program is attached, so a description from elsewhere
// is of no use.
//
// Source: /sys/kernel/btf/vmlinux, 5.4.
func loadKernel() (*btf.Spec, error) {
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); errors.Is(err, fs.ErrNotExist) {
		return nil, errNoBTF
	}
	spec, err := btf.LoadKernelSpec()
	if errors.Is(err, btf.ErrNotSupported) {
		return nil, errNoBTF
	}
	if err != nil {
		return nil, fmt.Errorf("read kernel types: %w", err)
	}
	return spec, nil
}

// functionID returns the type ID of a kernel function. A name that several
// functions have is no hook: nothing says which one a program would get.
func functionID(kernel *btf.Spec, name string) (*btf.Func, btf.TypeID, error) {
	var f *btf.Func
	if err := kernel.TypeByName(name, &f); err != nil {
		why := "not in this kernel"
		if !errors.Is(err, btf.ErrNotFound) {
			why = "ambiguous in this kernel"
		}
		return nil, 0, &hookError{name, why}
	}
	id, err := kernel.TypeID(f)
	if err != nil {
		return nil, 0, fmt.Errorf("type ID of %s: %w", name, err)
	}
	return f, id, nil
}

// tracepointID returns the type ID that a program for a tracepoint names.
func tracepointID(kernel *btf.Spec, name string) (*btf.Typedef, btf.TypeID, error) {
	var t *btf.Typedef
	if err := kernel.TypeByName("btf_trace_"+name, &t); err != nil {
		return nil, 0, &hookError{"tracepoint " + name, "not in this kernel"}
	}
	id, err := kernel.TypeID(t)
	if err != nil {
		return nil, 0, fmt.Errorf("type ID of tracepoint %s: %w", name, err)
	}
	return t, id, nil
}

// Capabilities that loading needs, include/uapi/linux/capability.h.
const (
	capSysAdmin = unix.CAP_SYS_ADMIN
	capPerfmon  = unix.CAP_PERFMON // 5.8
	capBPF      = unix.CAP_BPF     // 5.8
)

// mayLoad says whether this process holds what loading needs, and whether it
// does so in the initial user namespace, where alone that counts.
func mayLoad() (has, initial bool) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false, true
	}
	have := func(c int) bool { return data[c/32].Effective&(1<<(c%32)) != 0 }
	// PROC_USER_INIT_INO, include/linux/proc_ns.h: fixed since 3.8.
	const initialUserNamespace = 0xEFFFFFFD
	var st unix.Stat_t
	initial = unix.Stat("/proc/self/ns/user", &st) != nil || st.Ino == initialUserNamespace
	return have(capSysAdmin) || have(capBPF) && have(capPerfmon), initial
}

// explain turns what stopped a sensor into what its user reads.
func explain(err error) SensorStatus {
	unavailable := func(reason string) SensorStatus { return SensorStatus{StateUnavailable, reason} }
	var hook *hookError
	var verifier *VerifierError
	switch {
	case err == nil:
		return SensorStatus{State: StateObserving}
	case errors.Is(err, errNoBTF):
		return unavailable(errNoBTF.Error())
	case errors.Is(err, unix.ENOSYS):
		return unavailable("kernel without BPF")
	case errors.As(err, &hook):
		return unavailable(hook.Error())
	case errors.As(err, &verifier) && verifier.LastLine() != "":
		return SensorStatus{StateError, "verifier: " + verifier.LastLine()}
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		has, initial := mayLoad()
		switch {
		case !has:
			return unavailable("needs CAP_BPF and CAP_PERFMON")
		case !initial:
			return unavailable("needs CAP_BPF and CAP_PERFMON in the initial user namespace")
		case countsMemlock():
			return unavailable("RLIMIT_MEMLOCK is too low, which counts before Linux 5.11, or refused by kernel policy")
		}
		return unavailable("refused by kernel policy (lockdown, LSM, seccomp)")
	}
	return SensorStatus{StateError, err.Error()}
}

// pidNamespace returns the inode of the PID namespace whose numbers this process
// uses, and 0 for the first, where no number needs translation.
func pidNamespace() (uint32, error) {
	// PROC_PID_INIT_INO, include/linux/proc_ns.h: fixed since 3.8.
	const initialPIDNamespace = 0xEFFFFFFC
	const path = "/proc/self/ns/pid"
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, fmt.Errorf("stat %s: %w", path, err)
	}
	if st.Ino == initialPIDNamespace {
		return 0, nil
	}
	return uint32(st.Ino), nil
}
