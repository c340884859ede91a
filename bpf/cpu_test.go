package bpf

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

// threads is what the kernel says about the threads of a process.
type threads struct{ run, switches uint64 }

// readThreads sums the first column of schedstat and the switches of status.
func readThreads(t *testing.T, pid int) threads {
	t.Helper()
	var sum threads
	dirs, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no threads of %d: %v", pid, err)
	}
	for _, d := range dirs {
		b, err := os.ReadFile(d + "/schedstat")
		if err != nil {
			t.Fatal(err)
		}
		var run uint64
		fmt.Sscan(string(b), &run)
		sum.run += run
		if b, err = os.ReadFile(d + "/status"); err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(string(b), "\n") {
			if name, n, ok := strings.Cut(line, ":"); ok && strings.HasSuffix(name, "voluntary_ctxt_switches") {
				v, err := strconv.ParseUint(strings.TrimSpace(n), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				sum.switches += v
			}
		}
	}
	return sum
}

// stop stops a process and waits until none of its threads is on a CPU or about
// to be: the state says T a moment before a thread leaves, and one that is
// preempted in that moment runs once more. Only /proc/TID/syscall waits for that.
// A second look finds the thread that another was starting during the first.
func stop(t *testing.T, pid int) {
	t.Helper()
	unix.Kill(pid, unix.SIGSTOP)
	var last []string
	eventually(t, "every thread stops", func() bool {
		dirs, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		same := slices.Equal(dirs, last)
		last = nil
		for _, d := range dirs {
			b, err := os.ReadFile(d + "/stat")
			if err != nil {
				return false
			}
			_, after, _ := strings.Cut(string(b), ") ")
			if !strings.HasPrefix(after, "T") {
				return false
			}
			if b, err = os.ReadFile(d + "/syscall"); err != nil || strings.HasPrefix(string(b), "running") {
				return false
			}
		}
		last = dirs
		return same && len(dirs) > 0
	})
}

func startTicks(t *testing.T, pid int) uint64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+2:]))
	v, err := strconv.ParseUint(f[19], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// startOffset is what /proc here adds to a start time, in nanoseconds.
func startOffset(t *testing.T) uint64 {
	t.Helper()
	fs, err := proc.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	offset, err := fs.StartOffset()
	if err != nil {
		t.Fatal(err)
	}
	return uint64(offset)
}

// A process that is stopped before and after has the same time and the same
// number of switches in the windows as in schedstat and status: exactly.
func TestCPUEqualsSchedstat(t *testing.T) {
	for _, c := range []struct {
		name    string
		role    string
		options Options
	}{
		{"all", "spin", Options{OnlyCPU: true}},
		{"all", "pingpong", Options{OnlyCPU: true}},
		{"running threads by copies", "spin", Options{OnlyCPU: true, WithoutKfuncs: true}},
		{"running threads unseen", "spin", Options{OnlyCPU: true, WithoutKfuncs: true, WithoutPathWalk: true}},
		{"overflow table", "pingpong", Options{OnlyCPU: true, TableSlots: 1}},
	} {
		t.Run(c.name+" "+c.role, func(t *testing.T) {
			s := openedCPU(t, c.options)
			pid := started(t, c.role)
			stop(t, pid)
			var w Window
			settled(t, s.cpu, func() { drain(t, s, &w) }, pid)
			before := readThreads(t, pid)
			unix.Kill(pid, unix.SIGCONT)
			var got threads
			windows := 0
			take := func() {
				drain(t, s, &w)
				windows++
				width := uint64(w.Ended.Sub(w.Began))
				total := uint64(0)
				for _, row := range w.CPU {
					total += row.Runtime
					if row.TGID == uint32(pid) {
						got.run += row.Runtime
						got.switches += row.Switches
						if want := startTicks(t, pid); (row.Start+startOffset(t))/1e7 != want {
							t.Errorf("start %d is not tick %d", row.Start, want)
						}
						if row.RunningThreads != len(row.CPUs) {
							t.Errorf("%d threads run on %v", row.RunningThreads, row.CPUs)
						}
					}
				}
				if most := width * uint64(s.cpu.cpus); total > most {
					t.Errorf("a window of %d ns holds %d ns on %d CPUs", width, total, s.cpu.cpus)
				}
			}
			for range 10 {
				time.Sleep(50 * time.Millisecond)
				take()
			}
			stop(t, pid)
			settled(t, s.cpu, take, pid)
			after := readThreads(t, pid)
			want := threads{after.run - before.run, after.switches - before.switches}
			// A kernel that hides switches of some threads hides who comes after.
			hidden := s.Status().Unresolved
			few := got.switches < want.switches && want.switches-got.switches <= hidden
			if got != want && !(few && got.run < want.run && got.run > want.run*9/10) {
				t.Errorf("%d windows hold %d ns and %d switches, the kernel says %d and %d and hid %d", windows, got.run, got.switches, want.run, want.switches, hidden)
			}
			if want.run < 1e6 {
				t.Errorf("the process had %d ns, which is no load", want.run)
			}
			if lost := s.Status().Lost; lost != 0 {
				t.Errorf("%d lost", lost)
			}
		})
	}
}

// settled takes windows until no account holds anything back for processes that do
// not run.
func settled(t *testing.T, s *cpuSensor, take func(), pids ...int) {
	t.Helper()
	windows := 0
	eventually(t, "the accounts are even", func() bool {
		time.Sleep(20 * time.Millisecond)
		take()
		windows++
		for _, a := range s.accounts {
			for _, e := range a.entries {
				if slices.Contains(pids, int(e.process.TGID)) {
					return false
				}
			}
		}
		return windows >= 4
	})
}

func drain(t *testing.T, s *Sensors, w *Window) {
	t.Helper()
	if err := s.Drain(w); err != nil {
		t.Fatal(err)
	}
	if st := s.Status().CPU; st.State != StateObserving {
		t.Fatalf("after a window the sensor is %+v", st)
	}
}

func TestShortLivedProcesses(t *testing.T) {
	s := openedCPU(t, Options{OnlyCPU: true})
	var w Window
	got := map[uint32]uint64{}
	take := func() {
		drain(t, s, &w)
		for _, row := range w.CPU {
			got[row.TGID] += row.Runtime
		}
	}
	take()
	clear(got)
	const processes = 200
	var pids []int
	var used time.Duration
	for i := range processes {
		cmd := exec.Command("/bin/true")
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, cmd.Process.Pid)
		used += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		if i%20 == 19 {
			take()
		}
	}
	settled(t, s.cpu, take, pids...)
	// A kernel that hides switches of some threads hides who comes after.
	hidden := s.Status().Unresolved
	missing := uint64(0)
	var seen time.Duration
	for _, pid := range pids {
		if got[uint32(pid)] == 0 {
			missing++
			if missing > hidden {
				t.Errorf("process %d is in no window", pid)
			}
		}
		seen += time.Duration(got[uint32(pid)])
	}
	// The kernel stops counting for its parent a moment before a process is off its CPU.
	if seen < used*97/100 && hidden == 0 || seen < used*80/100 || seen > used*120/100 {
		t.Errorf("%d processes had %v in the windows, their parent was told %v", processes, seen, used)
	}
}

// With tables of almost no size every switch is in a window or counted as lost:
// a sensor with room for all says how many there were.
func TestTinyTablesCountEachLoss(t *testing.T) {
	tiny := needCPU(t, Options{OnlyCPU: true, TableSlots: 1, SpillEntries: 1})
	full := needCPU(t, Options{OnlyCPU: true})
	for range 4 {
		started(t, "pingpong")
	}
	flip := func() (lost uint64) {
		tiny.flip()
		lost = tiny.lost.u64(0)
		full.flip()
		return lost
	}
	var w Window
	read := func() (few, all uint64) {
		time.Sleep(2 * time.Millisecond)
		for s, sum := range map[*cpuSensor]*uint64{tiny: &few, full: &all} {
			if err := s.collect(&w); err != nil {
				t.Fatal(err)
			}
			for _, x := range s.times {
				*sum += x.switches
			}
		}
		return few, all
	}
	first := flip()
	read()
	var few, all, last uint64
	eventually(t, "many switches", func() bool {
		time.Sleep(50 * time.Millisecond)
		last = flip()
		f, a := read()
		few, all = few+f, all+a
		return all > 20000 && last-first > 1000
	})
	lost := last - first
	// Between the two flips of one moment a few switches can happen.
	if d := int64(few+lost) - int64(all); d < -200 || d > 200 {
		t.Errorf("%d counted and %d lost, of %d", few, lost, all)
	}
	if full.lostCount() != 0 {
		t.Errorf("the full tables lost %d", full.lostCount())
	}
	t.Logf("%d counted and %d lost, of %d", few, lost, all)
}

// Inside a PID namespace processes have the numbers of that namespace, those
// outside are not there, and what has no number outside has none here.
func TestPIDNamespace(t *testing.T) {
	needRoot(t)
	openedCPU(t, Options{})
	a, _, _, _ := ask(t, "rows", func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	})
	if a.Status.CPU.State != StateObserving {
		t.Fatalf("inside the sensor is %+v", a.Status.CPU)
	}
	if a.PID != 1 {
		t.Fatalf("the child is process %d, want 1", a.PID)
	}
	have := map[uint32]bool{}
	for _, r := range a.Rows {
		have[r.TGID] = true
		if int(r.TGID) > a.Ran[len(a.Ran)-1]+32 {
			t.Errorf("process %d does not belong to the namespace", r.TGID)
		}
	}
	hidden := a.Status.Unresolved
	for _, pid := range append([]int{1}, a.Ran...) {
		if missing := !have[uint32(pid)]; missing && hidden > 0 {
			hidden--
		} else if missing {
			t.Errorf("process %d is missing: %v", pid, a.Rows)
		}
	}
}

// A program that is stopped between two instructions for longer than the reader
// waits adds to a bank that was read. What it adds comes a window later.
func TestLateAdditions(t *testing.T) {
	s := &cpuSensor{cpus: 2, slots: 2, now: 1, homes: make(memory, 2*homeSize(2)), epoch: make(memory, 4), seen: make([]seenSlot, 8)}
	put := func(slot int, epoch, switches uint32, run uint64, pid uint32) {
		m := s.homeOf(slot / 4)[cellSize+(slot%2*2+slot/2%2)*slotSize:]
		m.setU32(slotSwitches, switches)
		m.setU64(slotRun, run)
		m.setU64(slotStart, 7)
		m.setU32(slotPID, pid)
		m.setU32(slotEpoch, epoch)
	}
	check := func(what string, got []spilled, want ...spilled) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	p, q := Process{11, 7}, Process{12, 7}
	// Epoch 1 is bank 1: slots 2 and 3 of CPU 0, 6 and 7 of CPU 1.
	put(2, 1, 3, 30, 11)
	put(7, 1, 1, 5, 12)
	put(6, 1, 1, 5, 0) // of another PID namespace
	s.flip()
	check("late before the first window", s.late)
	check("first reading", s.changes(1, nil), spilled{0, p, 30, 3}, spilled{1, q, 5, 1})
	check("second reading", s.changes(1, nil))
	put(2, 1, 4, 36, 11) // late
	put(3, 1, 1, 9, 12)  // late, a new one
	put(4, 2, 1, 8, 11)  // in time, bank 0
	s.flip()
	check("late", s.late, spilled{0, p, 6, 1}, spilled{0, q, 9, 1})
	check("the next bank", s.changes(2, nil), spilled{1, p, 8, 1})
	put(2, 3, 1, 4, 12) // claimed anew
	s.flip()
	check("nothing late", s.late)
	check("a slot of another process", s.changes(3, nil), spilled{0, q, 4, 1})
	if got := s.epoch.u32(0); got != 4 {
		t.Errorf("the programs are told epoch %d, want 4", got)
	}
}
