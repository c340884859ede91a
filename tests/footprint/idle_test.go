// Package footprint holds the promise that a server nobody looks at does nothing.
package footprint

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"procinsh/tests/server"
)

const (
	maxStartRSS = 24 << 20 // bytes, after start
	maxSwitches = 60       // context switches of all threads in a minute
	maxTicks    = 1        // CPU time in a minute
)

// usage is what the server has used so far.
type usage struct {
	ticks    uint64
	switches map[int]uint64 // by thread
}

func fields(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

func number(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func read(t *testing.T, pid int) usage {
	t.Helper()
	f := fields(t, fmt.Sprintf("/proc/%d/stat", pid))
	u := usage{ticks: number(t, f[11]) + number(t, f[12]), switches: map[int]uint64{}}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(tasks) == 0 {
		t.Fatalf("threads of the server: %d, %v", len(tasks), err)
	}
	for _, path := range tasks {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		tid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for line := range strings.SplitSeq(string(b), "\n") {
			if k, v, _ := strings.Cut(line, ":"); strings.HasSuffix(k, "voluntary_ctxt_switches") {
				u.switches[tid] += number(t, strings.TrimSpace(v))
				found++
			}
		}
		if found != 2 {
			t.Fatalf("%s: %d switch counters, want 2", path, found)
		}
	}
	return u
}

func rss(t *testing.T, pid int) uint64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	return number(t, strings.Fields(string(b))[1]) * uint64(os.Getpagesize())
}

// Settling and watching take 30 s and 60 s in the long form (PROCINSH_SOAK=1), 12 s
// and 10 s in the short one, where the same limits hold for the shorter time.
func TestIdle(t *testing.T) {
	settle, watch := 12*time.Second, 10*time.Second
	if os.Getenv("PROCINSH_SOAK") != "" {
		settle, watch = 30*time.Second, time.Minute
	}
	exe, err := server.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.Start(exe)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	if got := rss(t, s.PID); got > maxStartRSS {
		t.Errorf("RSS after start: %d KiB, want at most %d", got>>10, maxStartRSS>>10)
	} else {
		t.Logf("RSS after start: %d KiB", got>>10)
	}

	// A viewer of the list, one of this process, and a request for all that opens
	// descriptors of a target; then all are gone.
	self := fmt.Sprintf("?pid=%d&start_time_ticks=%s", os.Getpid(), fields(t, "/proc/self/stat")[19])
	done := make(chan error, 2)
	for _, path := range []string{"/api/processes/stream?maps=summary&io=1", "/api/processes/events" + self} {
		go func() {
			n := 0
			err := s.Events(path, nil, 20*time.Second, func(server.Event) bool { n++; return n < 5 })
			if err == nil && n < 5 {
				err = fmt.Errorf("%s ended after %d events", path, n)
			}
			done <- err
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	for _, what := range []string{"observation", "threads", "maps", "fds", "environment", "auxv", "signals", "context"} {
		var v any
		if err := s.Get("/api/processes/"+what+self, nil, &v); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("RSS with viewers gone: %d KiB", rss(t, s.PID)>>10)

	time.Sleep(settle)
	before := read(t, s.PID)
	time.Sleep(watch)
	after := read(t, s.PID)

	if got := after.ticks - before.ticks; got > maxTicks {
		t.Errorf("idle for %v: CPU time grew by %d ticks, want at most %d", watch, got, maxTicks)
	}
	var switches uint64
	for tid, n := range after.switches {
		switches += n - before.switches[tid]
	}
	if most := uint64(maxSwitches * watch / time.Minute); switches > most {
		t.Errorf("idle for %v: %d context switches, want at most %d", watch, switches, most)
	}
	t.Logf("idle for %v: %d ticks, %d context switches", watch, after.ticks-before.ticks, switches)
	checkDescriptors(t, s.PID)
}

// checkDescriptors fails when the server holds a descriptor of a target: anything
// below a /proc/PID that is not its own.
func checkDescriptors(t *testing.T, pid int) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		to, err := os.Readlink(filepath.Join(dir, n.Name()))
		if err != nil {
			t.Errorf("descriptor %s: %v", n.Name(), err)
			continue
		}
		rest, ok := strings.CutPrefix(to, "/proc/")
		if who, _, _ := strings.Cut(rest, "/"); ok && who != "" && who[0] >= '0' && who[0] <= '9' && who != strconv.Itoa(pid) {
			t.Errorf("descriptor %s is %s: of a target", n.Name(), to)
		}
		if strings.HasPrefix(to, "anon_inode:[pidfd]") {
			t.Errorf("descriptor %s is a pidfd: of a target, or of nobody", n.Name())
		}
		// A link of a process that has ended says so.
		if strings.HasPrefix(to, "/proc (deleted)") || strings.HasSuffix(to, " (deleted)") {
			t.Errorf("descriptor %s is %s", n.Name(), to)
		}
	}
}
