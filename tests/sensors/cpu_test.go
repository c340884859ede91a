package sensors

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// tolerance of processor time: on the machine itself other work comes between two
// readings, and in a short test a window more or less is much.
func tolerance() float64 {
	if vm != "" && !testing.Short() {
		return 0.01
	}
	return 0.03
}

// seconds of processor load that a test makes.
func seconds() int {
	if testing.Short() {
		return 3
	}
	return 10
}

// schedstat sums the processor time of all live threads of a process, ns.
func schedstat(t *testing.T, pid int) uint64 {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("no threads of %d: %v", pid, err)
	}
	sum := uint64(0)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseUint(strings.Fields(string(b))[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// runtime sums what the windows say of a process.
func (w *windows) runtime(p id) (ns uint64) {
	for _, a := range w.get() {
		for _, c := range a.CPU {
			if c.Process == p {
				ns += c.RuntimeNS
			}
		}
	}
	return ns
}

func near(got, want, part float64) bool { return math.Abs(got-want) <= part*want }

// A process sleeps, computes on its only thread or pings another, and sleeps
// again: what the windows add up to is what the kernel has on its account.
func TestCPUOfAProcess(t *testing.T) {
	root(t)
	w := watch(t, srv)
	w.observing()
	for _, command := range []string{fmt.Sprintf("compute 1 %d", 1000*seconds()), fmt.Sprintf("pingpong %d", 1000*seconds())} {
		attempt(w, func() error {
			r := begin(t)
			w.more(3)
			account, stated := schedstat(t, r.main.PID), w.runtime(r.main)
			r.do(command)
			account = schedstat(t, r.main.PID) - account
			if account < 1e6 {
				t.Fatalf("%s took %d ns by its account", command, account)
			}
			w.more(3)
			got := w.runtime(r.main) - stated
			t.Logf("%s: %.5f of its account", command, float64(got)/float64(account))
			if !near(float64(got), float64(account), tolerance()) {
				return fmt.Errorf("%s: got %d ns, its account says %d: %.4f of it", command, got, account, float64(got)/float64(account))
			}
			if all := r.procs["pong"]; len(all) == 1 { // known from its fork to its end
				got, account := w.runtime(all[0]), 1000*r.int("PONG_US")
				if !near(float64(got), float64(account), tolerance()) {
					return fmt.Errorf("the other end: got %d ns, its account says %d", got, account)
				}
			}
			return nil
		})
	}
}

// Threads that end take their account with them, but not from the windows.
func TestCPUOfThreadsThatEnd(t *testing.T) {
	root(t)
	w := watch(t, srv)
	w.observing()
	attempt(w, func() error {
		r := begin(t)
		w.more(3)
		stated := w.runtime(r.main)
		r.do(fmt.Sprintf("account 3 %d", 1000*seconds()))
		w.more(3)
		got, account := w.runtime(r.main)-stated, r.int("ACCOUNT_NS")
		t.Logf("%.5f of its account", float64(got)/float64(account))
		if !near(float64(got), float64(account), tolerance()) {
			return fmt.Errorf("three threads: got %d ns, the account of the process says %d: %.4f of it", got, account, float64(got)/float64(account))
		}
		return nil
	})
}

// notUsed returns the time since boot in which processors were idle or taken away, ns.
func notUsed(t *testing.T) float64 {
	t.Helper()
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	var v []float64
	for _, f := range strings.Fields(line)[1:] {
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			t.Fatal(err)
		}
		v = append(v, n*1e7)
	}
	if len(v) < 8 {
		t.Fatalf("/proc/stat: %q", line)
	}
	const idle, wait, steal = 3, 4, 7
	return v[idle] + v[wait] + v[steal]
}

// The sum over all processes is the time that the processors were neither idle
// nor taken away.
func TestCPUOfTheHost(t *testing.T) {
	root(t)
	w := watch(t, srv)
	w.observing()
	cpus := cpuCount(t)
	attempt(w, func() error {
		r := begin(t)
		r.send(fmt.Sprintf("compute %d %d", cpus, 1000*(seconds()+2)))
		w.more(3) // the load has begun, on every processor
		first := len(w.get())
		from, idle := time.Now(), notUsed(t)
		time.Sleep(time.Duration(seconds()) * time.Second)
		elapsed, idle2 := time.Since(from), notUsed(t)
		last := len(w.get())
		r.answer("compute")
		sum, width := 0.0, 0.0
		for _, a := range w.get()[first:last] {
			width += a.WindowMS * 1e6
			for _, c := range a.CPU {
				sum += float64(c.RuntimeNS)
			}
		}
		// The windows do not begin and end with the readings: compare what share of the time was used.
		got, want := sum/(width*float64(cpus)), 1-(idle2-idle)/(float64(elapsed)*float64(cpus))
		t.Logf("used of %d processors: %.4f by the windows, %.4f by /proc/stat", cpus, got, want)
		if !near(got, want, tolerance()) {
			return fmt.Errorf("got %.4f of the time of %d processors, /proc/stat says %.4f (windows of %.0f ms in %v)", got, cpus, want, width/1e6, elapsed)
		}
		return nil
	})
}

func cpuCount(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		if len(line) > 3 && strings.HasPrefix(line, "cpu") && line[3] >= '0' && line[3] <= '9' {
			n++
		}
	}
	return n
}

// No window holds more time than its processors had, and what runs is on
// processors that there are.
func TestWindowsHold(t *testing.T) {
	root(t)
	w := watch(t, srv)
	w.observing()
	cpus := cpuCount(t)
	// Beside busy neighbours a window may end while none of the threads is on a processor.
	running := 0
	for n := 0; running == 0 && n < 5; n++ {
		r := begin(t)
		r.do(fmt.Sprintf("compute %d %d", cpus+1, 1000*seconds()))
		w.more(2)
		running = windowsHold(t, w.get(), r.main, cpus)
		if cpus == 1 { // it is the reader that runs when windows end
			return
		}
	}
	if running == 0 {
		t.Error("a process that computed all the time was never seen on a processor")
	}
}

// windowsHold checks the windows and returns on how many processors the process was
// seen at once.
func windowsHold(t *testing.T, all []activity, process id, cpus int) (running int) {
	t.Helper()
	for i, a := range all {
		sum := uint64(0)
		for _, c := range a.CPU {
			sum += c.RuntimeNS
			if c.RunningThreads != len(c.CPUs) || !slices.IsSorted(c.CPUs) || len(c.CPUs) > 0 && (c.CPUs[0] < 0 || c.CPUs[len(c.CPUs)-1] >= cpus) {
				t.Errorf("%d threads on the processors %v of %d", c.RunningThreads, c.CPUs, cpus)
			}
			if c.Process == process {
				running = max(running, c.RunningThreads)
			}
		}
		// A running thread's time is known as of the last tick, at most 10 ms ago, so that
		// much of it may come a window late.
		if most := (a.WindowMS + 11) * 1e6 * float64(cpus); float64(sum) > most {
			t.Errorf("a window of %.1f ms holds %.1f ms on %d processors", a.WindowMS, float64(sum)/1e6, cpus)
		}
		if i > 0 && a.CapturedAt <= all[i-1].CapturedAt {
			t.Errorf("window %d is of %d, the one before of %d", i, a.CapturedAt, all[i-1].CapturedAt)
		}
	}
	return running
}

// Two hundred programs that end at once: each is seen, and all they used.
func TestShortLivedProcesses(t *testing.T) {
	root(t)
	w := watch(t, srv)
	w.observing()
	const n = 200
	attempt(w, func() error {
		r := begin(t)
		before := w.status().Unresolved
		r.do(fmt.Sprintf("brief %d", n))
		if len(r.procs["brief"]) != n {
			t.Fatalf("the fixture named %d processes", len(r.procs["brief"]))
		}
		account := float64(r.int("CHILDREN_US")) * 1000
		w.more(3)
		missing, sum, switches := 0, 0.0, uint64(0)
		for _, p := range r.procs["brief"] {
			ns := w.runtime(p)
			if ns == 0 {
				missing++
			}
			sum += float64(ns)
		}
		for _, a := range w.get() {
			for _, c := range a.CPU {
				if slices.Contains(r.procs["brief"], c.Process) {
					switches += c.Switches
				}
			}
		}
		unresolved := int(w.status().Unresolved - before)
		text := fmt.Sprintf("%d of %d processes not seen, %.4f of the time by their accounts, %d switches, %d unresolved", missing, n, sum/account, switches, unresolved)
		t.Log(text)
		if missing > unresolved || int(switches) < n-unresolved {
			t.Errorf("more is missing than is counted as missing: %s", text)
		}
		if missing > 0 || !near(sum, account, tolerance()) {
			return errors.New(text)
		}
		return nil
	})
}
