package sandbox

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kept are the capabilities that stay in effect: to look into any process, to read
// what its files say, to load the sensors, to raise the priority of the thread that a
// snapshot stops others with, to ask sock_diag, and to open map_files.
const kept = 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_BPF | 1<<unix.CAP_PERFMON |
	1<<unix.CAP_SYS_NICE | 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_CHECKPOINT_RESTORE

// admin stays permitted: one thread raises it for a moment, see Admin.
const admin = 1 << unix.CAP_SYS_ADMIN

// sets are those of capget(2).
type sets struct{ Effective, Permitted, Inheritable uint64 }

func ownSets() (sets, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return sets{}, err
	}
	join := func(low, high uint32) uint64 { return uint64(high)<<32 | uint64(low) }
	return sets{
		join(data[0].Effective, data[1].Effective),
		join(data[0].Permitted, data[1].Permitted),
		join(data[0].Inheritable, data[1].Inheritable),
	}, nil
}

func (s sets) data() *[2]unix.CapUserData {
	return &[2]unix.CapUserData{
		{Effective: uint32(s.Effective), Permitted: uint32(s.Permitted), Inheritable: uint32(s.Inheritable)},
		{Effective: uint32(s.Effective >> 32), Permitted: uint32(s.Permitted >> 32), Inheritable: uint32(s.Inheritable >> 32)},
	}
}

// reduced is what is left of s on a kernel that knows the capabilities up to last.
// Before 5.9, where CAP_CHECKPOINT_RESTORE came, only CAP_SYS_ADMIN opens map_files;
// before 5.8, where CAP_BPF and CAP_PERFMON came, only it loads programs: there it
// stays in effect.
func (s sets) reduced(last int) sets {
	s.Permitted &= kept | admin
	s.Effective = s.Permitted
	if last >= unix.CAP_CHECKPOINT_RESTORE {
		s.Effective &= kept
	}
	s.Inheritable = 0
	return s
}

// dropCapabilities reduces the sets of all threads. It returns sentences about what
// is not as it should be, and the thread that may raise CAP_SYS_ADMIN.
func dropCapabilities() (reasons []string, a *Admin) {
	have, err := ownSets()
	if err != nil {
		return []string{failed("capget(2)", err)}, nil
	}
	last := lastCapability()
	// Without CAP_SETPCAP the bounding set stays. It only limits what an executed file
	// may gain, which is nothing after no_new_privs.
	if have.Effective&(1<<unix.CAP_SETPCAP) != 0 {
		if err := dropBounding(last); err != nil {
			reasons = append(reasons, "The bounding set stays: "+failed("prctl(PR_CAPBSET_DROP)", err))
		}
	}
	err = everywhere(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0)
	if err != nil && !errors.Is(err, unix.EINVAL) { // before 4.3 there is no ambient set
		reasons = append(reasons, "The ambient set stays: "+failed("prctl(PR_CAP_AMBIENT)", err))
	}
	want := have.reduced(last)
	if err := setEverywhere(want); err != nil {
		return append(reasons, "All capabilities stay: "+failed("capset(2)", err)), nil
	}
	switch {
	case want.Permitted&admin == 0:
		return reasons, nil
	case want.Effective&admin == 0:
		return reasons, newAdmin(want)
	}
	missing := "CAP_CHECKPOINT_RESTORE (5.9)"
	if last < unix.CAP_BPF {
		missing = "CAP_BPF and CAP_PERFMON (5.8), nor " + missing
	}
	return append(reasons, fmt.Sprintf("CAP_SYS_ADMIN stays in effect: this kernel has no %s.", missing)), nil
}

func dropBounding(last int) error {
	for c := range last + 1 {
		if (kept|admin)>>c&1 != 0 {
			continue
		}
		if err := everywhere(unix.PR_CAPBSET_DROP, uintptr(c), 0); err != nil {
			return err
		}
	}
	return nil
}

// lastCapability is the highest that the kernel knows, of those that x/sys names.
func lastCapability() int {
	for c := unix.CAP_LAST_CAP; c > 0; c-- {
		if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0); err == nil {
			return c
		}
	}
	return 0
}

// setEverywhere is capset(2) on every thread.
func setEverywhere(s sets) error {
	header, data := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, s.data()
	_, _, e := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(header)), uintptr(unsafe.Pointer(data)), 0)
	runtime.KeepAlive(header)
	runtime.KeepAlive(data)
	if e != 0 {
		return e
	}
	return nil
}
