package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

func TestVerifierError(t *testing.T) {
	for _, c := range []struct{ log, last string }{
		{"", ""},
		{"0: R1=ctx()\n1: invalid mem access 'scalar'\nprocessed 2 insns (limit 1000000)\n", "1: invalid mem access 'scalar'"},
		{"bad\nverification time 12 usec\nstack depth 0\nprocessed 1 insns\n\n", "bad"},
		{"processed 0 insns\n", ""},
	} {
		err := &VerifierError{Prog: "p", Log: c.log, Err: unix.EINVAL}
		if got := err.LastLine(); got != c.last {
			t.Errorf("last line %q, want %q", got, c.last)
		}
		if !errors.Is(err, unix.EINVAL) || !strings.HasPrefix(err.Error(), "load program p: invalid argument") || !strings.HasSuffix(err.Error(), c.last) {
			t.Errorf("error %q", err)
		}
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		err  error
		want SensorStatus
	}{
		{nil, SensorStatus{StateObserving, ""}},
		{fmt.Errorf("x: %w", errNoBTF), SensorStatus{StateUnavailable, "kernel has no BTF (CONFIG_DEBUG_INFO_BTF)"}},
		{fmt.Errorf("create map m: %w", unix.ENOSYS), SensorStatus{StateUnavailable, "kernel without BPF"}},
		{&hookError{"vfs_read", "not in this kernel"}, SensorStatus{StateUnavailable, "no hook for vfs_read: not in this kernel"}},
		{&VerifierError{"p", "R1 bad\nprocessed 1 insns\n", unix.EACCES}, SensorStatus{StateError, "verifier: R1 bad"}},
		{fmt.Errorf("create map m: %w", unix.ENOMEM), SensorStatus{StateError, "create map m: cannot allocate memory"}},
	} {
		if got := explain(c.err); got != c.want {
			t.Errorf("explain(%v) = %+v, want %+v", c.err, got, c.want)
		}
	}
}

// The reasons as a user meets them: a child under the condition opens the sensors.
func TestReasons(t *testing.T) {
	needRoot(t)
	openedCPU(t, Options{OnlyCPU: true})
	with := func(env string) func(*exec.Cmd) {
		return func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, env) }
	}
	userNamespace := func(cmd *exec.Cmd) {
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids}
	}
	for _, c := range []struct {
		name   string
		change func(*exec.Cmd)
		want   SensorStatus
	}{
		{"root", nil, SensorStatus{StateObserving, ""}},
		{"nobody with CAP_BPF and CAP_PERFMON", asNobody(unix.CAP_BPF, unix.CAP_PERFMON), SensorStatus{StateObserving, ""}},
		{"nobody with CAP_BPF", asNobody(unix.CAP_BPF), SensorStatus{StateUnavailable, "needs CAP_BPF and CAP_PERFMON"}},
		{"nobody with CAP_PERFMON", asNobody(unix.CAP_PERFMON), SensorStatus{StateUnavailable, "needs CAP_BPF and CAP_PERFMON"}},
		{"nobody", asNobody(), SensorStatus{StateUnavailable, "needs CAP_BPF and CAP_PERFMON"}},
		{"root of a user namespace", userNamespace, SensorStatus{StateUnavailable, "needs CAP_BPF and CAP_PERFMON in the initial user namespace"}},
		{"no bpf(2)", with(fmt.Sprintf("%s=%d", seccompErrno, unix.ENOSYS)), SensorStatus{StateUnavailable, "kernel without BPF"}},
		{"seccomp", with(fmt.Sprintf("%s=%d", seccompErrno, unix.EPERM)), SensorStatus{StateUnavailable, "refused by kernel policy (lockdown, LSM, seccomp)"}},
		{"no BTF", func(cmd *exec.Cmd) {
			with(hideBTF + "=1")(cmd)
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		}, SensorStatus{StateUnavailable, "kernel has no BTF (CONFIG_DEBUG_INFO_BTF)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _, _, _ := ask(t, "status", c.change)
			if a.Status.CPU != c.want {
				t.Errorf("processor time is %+v, want %+v", a.Status.CPU, c.want)
			}
			for name, st := range map[string]SensorStatus{"pipes and sockets": a.Status.IPC, "files": a.Status.Files} {
				if st.State == StateError || c.want.State == StateUnavailable && st != c.want {
					t.Errorf("%s are %+v, want %+v", name, st, c.want)
				}
			}
		})
	}
}

// The verifier's own words reach the error, and the first errno stands.
func TestRefusedProgram(t *testing.T) {
	openedCPU(t, Options{OnlyCPU: true})
	kernel, err := loadKernel()
	if err != nil {
		t.Fatal(err)
	}
	broken := *parsed(t, cpuObject)
	good := broken.functions["cpu_switch"]
	end := asm.Return().WithMetadata(good.insns[0].Metadata) // without a result
	broken.functions = map[string]*function{good.name: {name: good.name, section: good.section, insns: asm.Instructions{end}}}
	u := newUnit(&broken, kernel)
	defer u.close()
	if err := u.create(); err != nil {
		t.Fatal(err)
	}
	_, err = u.load("cpu_switch")
	var v *VerifierError
	if !errors.As(err, &v) || v.Prog != "cpu_switch" || !strings.Contains(v.LastLine(), "R0") {
		t.Fatalf("error %v, want the verifier's word on R0", err)
	}
	if st := explain(err); st.State != StateError || !strings.HasPrefix(st.Reason, "verifier: ") {
		t.Errorf("explained as %+v", st)
	}
	if len(u.programs) != 0 {
		t.Errorf("%d programs are loaded", len(u.programs))
	}
}

func TestCPUHook(t *testing.T) {
	kernel := needKernel(t)
	if err := cpuHook.fits(kernel); err != nil {
		t.Error(err)
	}
	for _, c := range []struct{ parameters, why string }{
		{"8 32 *task_struct *task_struct", "takes ("}, // the order of 5.18-rc
		{"8 *task_struct *mm_struct", "takes ("},
	} {
		other := cpuHook
		other.parameters = c.parameters
		var h *hookError
		if err := other.fits(kernel); !errors.As(err, &h) || !strings.Contains(h.why, c.why) {
			t.Errorf("%s: %v", c.parameters, err)
		}
	}
	gone := hook{"no_such_tracepoint", true, "", ""}
	if st := explain(gone.fits(kernel)); st.State != StateUnavailable || !strings.HasPrefix(st.Reason, "no hook for tracepoint no_such_tracepoint") {
		t.Errorf("a kernel without the tracepoint: %+v", st)
	}
}

// bpfObjects are the descriptors of BPF objects that a process holds, by their
// IDs in the kernel.
func bpfObjects(t *testing.T, pid int) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	dir := fmt.Sprintf("/proc/%d/fdinfo", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(dir + "/" + e.Name())
		if err != nil {
			continue // closed meanwhile
		}
		for line := range bytes.Lines(b) {
			name, value, _ := strings.Cut(strings.TrimSpace(string(line)), ":")
			for _, kind := range []string{"prog", "map", "link"} {
				if name == kind+"_id" && !(kind == "prog" && bytes.Contains(b, []byte("link_id"))) {
					all[kind+" "+strings.TrimSpace(value)] = true
				}
			}
		}
	}
	return all
}

// nextIDs are the commands that list objects from outside.
var nextIDs = map[string]uintptr{"prog": unix.BPF_PROG_GET_NEXT_ID, "map": unix.BPF_MAP_GET_NEXT_ID, "link": unix.BPF_LINK_GET_NEXT_ID}

// inKernel lists every BPF object of the kernel, whoever owns it.
func inKernel(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for kind, cmd := range nextIDs {
		var attr struct{ start, next, flags uint32 }
		for {
			if _, err := sysBPF(cmd, &attr); errors.Is(err, unix.ENOENT) {
				break
			} else if err != nil {
				t.Fatalf("list %ss: %v", kind, err)
			}
			all[fmt.Sprintf("%s %d", kind, attr.next)] = true
			attr.start = attr.next
		}
	}
	return all
}

// After Close nothing of a process that lives on is left in the kernel.
func TestNothingIsLeft(t *testing.T) {
	needRoot(t)
	openedCPU(t, Options{OnlyCPU: true})
	a, cmd, out, in := ask(t, "held", nil)
	if a.Status.CPU.State != StateObserving {
		t.Fatalf("the child's sensor is %+v", a.Status.CPU)
	}
	held := bpfObjects(t, cmd.Process.Pid)
	all := inKernel(t)
	kinds := map[string]int{}
	for id := range held {
		if !all[id] {
			t.Errorf("%s of the child is not in the kernel's list", id)
		}
		kind, _, _ := strings.Cut(id, " ")
		kinds[kind]++
	}
	if kinds["prog"] < 2 || kinds["map"] < 6 || kinds["link"] < 1 {
		t.Fatalf("the child holds %v", kinds)
	}
	fmt.Fprintln(in)
	readAnswer(t, out)
	if left := bpfObjects(t, cmd.Process.Pid); len(left) > 0 {
		t.Errorf("the child still holds %v", left)
	}
	var left []string
	eventually(t, "the kernel frees everything", func() bool {
		left = nil
		for id := range inKernel(t) {
			if held[id] {
				left = append(left, id)
			}
		}
		return len(left) == 0
	})
	fmt.Fprintln(in)
}

// Opening and closing again and again keeps no descriptor, also when a step in
// the middle fails.
func TestDescriptorsAreClosedOnce(t *testing.T) {
	openedCPU(t, Options{OnlyCPU: true})
	before := len(bpfObjects(t, os.Getpid()))
	for range 3 {
		s := Open(Options{OnlyCPU: true})
		if len(bpfObjects(t, os.Getpid())) <= before {
			t.Error("open sensors hold nothing")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
		var w Window
		if err := s.Drain(&w); !errors.Is(err, ErrClosed) {
			t.Errorf("drain after close: %v", err)
		}
	}
	kernel, err := loadKernel()
	if err != nil {
		t.Fatal(err)
	}
	// The overflow table cannot be made: the tables before it are given back.
	if _, err := openCPU(kernel, 0, Options{SpillEntries: 1 << 31}); err == nil {
		t.Error("a table of 2,147,483,648 entries was made")
	}
	if after := len(bpfObjects(t, os.Getpid())); after != before {
		t.Errorf("%d objects are held, %d before", after, before)
	}
}

func TestRecursionMisses(t *testing.T) {
	s := needCPU(t, Options{OnlyCPU: true})
	n, err := s.unit.programs[0].recursionMisses()
	if err != nil {
		t.Fatal(err)
	}
	if n > 1<<32 {
		t.Errorf("%d runs were skipped: that is another field", n)
	}
}
