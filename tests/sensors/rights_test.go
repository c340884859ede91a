package sensors

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"procinsh/tests/server"
)

// launched starts a server with other rights or in other namespaces; the options
// are those of the fixture's launch.
func launched(t *testing.T, options ...string) *server.Server {
	t.Helper()
	own(t)
	for _, f := range []*string{&exe, &fixture} { // where the other user can start them
		to := filepath.Join(work, filepath.Base(*f))
		if *f == to {
			continue
		}
		b, err := os.ReadFile(*f)
		if err == nil {
			err = os.WriteFile(to, b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		*f = to
	}
	runtime.LockOSThread() // as in TestMain
	t.Cleanup(runtime.UnlockOSThread)
	s, err := server.StartWith(slices.Concat([]string{fixture, "launch"}, options, []string{"--", exe}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		for line := range strings.Lines(s.Log()) {
			if strings.Contains(line, "level=ERROR") {
				t.Errorf("the server logged: %s", line)
			}
		}
	})
	return s
}

// As nobody with CAP_BPF (39) and CAP_PERFMON (38) every sensor works, to the byte.
func TestCapabilitiesSuffice(t *testing.T) {
	root(t)
	// Before 5.11 maps count as locked memory, as a unit file would allow it.
	s := launched(t, "memlock=1000000000", "uid=65534", "caps=c000000000")
	w := watch(t, s)
	exactly(t, w, begin(t))
}

// needed is a reason that says what would help.
var needed = regexp.MustCompile(`CAP_BPF.*CAP_PERFMON`)

// refused holds a server without sensors to what it must say and still do.
func refused(t *testing.T, s *server.Server, reason *regexp.Regexp) {
	t.Helper()
	w := watch(t, s)
	if err := w.await(patience, func() error {
		st := w.status()
		for name, sensor := range map[string]state{"cpu": st.CPU, "ipc": st.IPC, "files": st.Files} {
			if sensor.State != "unavailable" || sensor.Reason == nil || !reason.MatchString(*sensor.Reason) {
				return fmt.Errorf("%s: got %v, want unavailable because of %v", name, sensor, reason)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	w.more(2)
	for _, a := range w.get() {
		if len(a.CPU)+len(a.IPC)+len(a.Files) > 0 {
			t.Errorf("a server without sensors tells of activity: %+v", a)
		}
	}
	var config struct {
		Capabilities map[string]struct {
			Available bool    `json:"available"`
			Reason    *string `json:"reason"`
		} `json:"capabilities"`
	}
	if err := s.Get("/api/config", nil, &config); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bpf_cpu", "bpf_ipc", "bpf_files"} {
		if c := config.Capabilities[name]; c.Available || c.Reason == nil || !reason.MatchString(*c.Reason) {
			t.Errorf("/api/config says of %s: %+v, want a reason like %v", name, c, reason)
		}
	}
	warned := 0
	for line := range strings.Lines(s.Log()) {
		if strings.Contains(line, "level=WARN") && reason.MatchString(line) {
			warned++
		}
	}
	if warned == 0 || warned > 3 {
		t.Errorf("%d warnings that sensors are unavailable, want one for each or one for all:\n%s", warned, s.Log())
	}
	var list []struct {
		Identity id `json:"identity"`
	}
	if err := s.Get("/api/processes", nil, &list); err != nil || len(list) == 0 {
		t.Errorf("the list has %d processes, %v: the rest must work", len(list), err)
	}
}

func TestWithoutCapabilities(t *testing.T) {
	refused(t, launched(t, "uid=65534"), needed)
}

func TestWithOneCapability(t *testing.T) {
	for name, caps := range map[string]string{"CAP_BPF": "8000000000", "CAP_PERFMON": "4000000000"} {
		t.Run(name, func(t *testing.T) {
			refused(t, launched(t, "memlock=1000000000", "uid=65534", "caps="+caps), needed)
		})
	}
}

// A kernel without type information: its file is hidden from the server.
func TestWithoutBTF(t *testing.T) {
	own(t)
	for _, pattern := range []string{"/boot/vmlinux-*", "/lib/modules/*/vmlinux-*", "/lib/modules/*/build/vmlinux", "/usr/lib/debug/boot/vmlinux*"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			t.Skipf("%s has type information too", found[0])
		}
	}
	refused(t, launched(t, "hide=/sys/kernel/btf"), regexp.MustCompile(`BTF`))
}

// Under lockdown=confidentiality a sensor works or says why not, and what it
// tells is right.
func TestLockdown(t *testing.T) {
	root(t)
	b, err := os.ReadFile("/sys/kernel/security/lockdown")
	if err != nil || !strings.Contains(string(b), "[confidentiality]") {
		t.Skip("kernel lockdown is not at confidentiality")
	}
	w := watch(t, srv)
	if err := w.await(patience, func() error {
		st := w.status()
		for name, s := range map[string]state{"cpu": st.CPU, "ipc": st.IPC, "files": st.Files} {
			if s.State != "observing" && (s.State != "unavailable" || s.Reason == nil || !strings.Contains(*s.Reason, "lockdown")) {
				return fmt.Errorf("%s: got %v, want observing, or unavailable because of lockdown", name, s)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	st := w.status()
	t.Logf("cpu %v, ipc %v, files %v; coverage %q, files %q", st.CPU, st.IPC, st.Files, st.Coverage, st.FilesCoverage)
	if st.CPU.State != "observing" {
		t.Errorf("cpu: %v: it needs nothing that lockdown refuses", st.CPU)
	}
	if !st.ready() {
		return // 5.10 cannot do without what is refused
	}
	if !st.covers("lockdown") {
		t.Error("nothing says what lockdown takes away")
	}
	exactly(t, w, begin(t))
}

// agree compares how the stream, the list and the fixture name one process.
func agree(t *testing.T, s *server.Server, r *runner) {
	t.Helper()
	w := watch(t, s)
	w.observing()
	perform(w, r, "pipes", scenarios[slices.IndexFunc(scenarios, func(s scenario) bool { return s.command == "pipes" })].want)
	attempt(w, func() error {
		before := w.runtime(r.main)
		r.do("account 1 500")
		account := r.int("ACCOUNT_NS")
		return w.await(patience, func() error { // what does not fit into its window comes in the next
			if ns := w.runtime(r.main) - before; float64(ns) < 0.9*float64(account) {
				return fmt.Errorf("%v: got %d ns of processor time, its account says %d", r.main, ns, account)
			}
			return nil
		})
	})
	var list []struct {
		Identity id `json:"identity"`
	}
	if err := s.Get("/api/processes", nil, &list); err != nil {
		t.Fatal(err)
	}
	known := map[int]uint64{}
	for _, p := range list {
		known[p.Identity.PID] = p.Identity.Start
	}
	if known[r.main.PID] != r.main.Start {
		t.Errorf("the list says %d began at %d, the fixture %d", r.main.PID, known[r.main.PID], r.main.Start)
	}
	compared := 0
	for _, a := range w.get() {
		for _, c := range a.CPU {
			if start, alive := known[c.Process.PID]; alive && c.Process.PID != 0 {
				compared++
				if start < c.Process.Start {
					t.Errorf("the stream says that %d began at %d, the list %d", c.Process.PID, c.Process.Start, start)
				}
			}
		}
	}
	if compared == 0 {
		t.Error("the stream named no process of the list")
	}
}

// A server in a PID namespace names processes as it sees them, and only those.
func TestServerInPIDNamespace(t *testing.T) {
	root(t)
	s := launched(t, "pidns")
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", s.PID, s.PID))
	if err != nil {
		t.Fatal(err)
	}
	inner := strings.TrimSpace(string(children))
	r := begin(t, "enter="+inner)
	agree(t, s, r)
	outside := begin(t)
	w := watch(t, s)
	w.observing()
	outside.do("pipes")
	pipe := outside.object("pipe")
	perform(w, r, "pipes", []expected{{object: "pipe", sums: sums{3060, 4, 3060, 3}}})
	for _, a := range w.get() {
		for _, x := range a.IPC {
			if pipe.is(x.Resource) {
				t.Errorf("a process outside the namespace shows up: %+v", x)
			}
		}
	}
}

// A server in a time namespace tells start times as its own /proc has them.
func TestServerInTimeNamespace(t *testing.T) {
	root(t)
	if _, err := os.Stat("/proc/self/timens_offsets"); err != nil {
		t.Skip("this kernel has no time namespaces")
	}
	for _, offset := range []string{"86400", "-1"} {
		t.Run(offset, func(t *testing.T) {
			s := launched(t, "timens="+offset)
			before := time.Now()
			r := begin(t)
			after := time.Now()
			outside := r.main
			var list []struct {
				Identity  id    `json:"identity"`
				StartedAt int64 `json:"started_at"`
			}
			if err := s.Get("/api/processes", nil, &list); err != nil {
				t.Fatal(err)
			}
			for _, p := range list {
				if p.Identity.PID != r.main.PID {
					continue
				}
				r.main = p.Identity
				const slack = 500 * time.Millisecond // half the smallest offset
				if began := time.UnixMilli(p.StartedAt); began.Before(before.Add(-slack)) || began.After(after.Add(slack)) {
					t.Errorf("%v is said to have begun at %v, it was between %v and %v", p.Identity, began, before, after)
				}
			}
			// Before Linux 5.11 /proc tells start times without the offset.
			release, err := os.ReadFile("/proc/sys/kernel/osrelease")
			if err != nil {
				t.Fatal(err)
			}
			if older := strings.HasPrefix(string(release), "5.10."); (r.main == outside) != older {
				t.Fatalf("%v is %v in a namespace whose boot was %s s earlier, on %s", outside, r.main, offset, release)
			}
			agree(t, s, r)
		})
	}
}
