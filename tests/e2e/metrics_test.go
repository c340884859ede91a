package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// promtool is the checker of Prometheus. As root ./build.sh installs it.
func promtool(t *testing.T, stdin []byte, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		if os.Geteuid() == 0 {
			t.Fatal("promtool is missing (Debian package prometheus)")
		}
		t.Skip("needs promtool (Debian package prometheus)")
	}
	cmd := exec.Command(path, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil || bytes.Contains(out, []byte("should")) {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// sampleValue returns a sample by its text up to the value.
func sampleValue(t *testing.T, text []byte, series string) float64 {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("no sample %s", series)
	}
	v, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// hostileUnit puts a process into a cgroup whose name is that of a unit and breaks a
// format that does not escape, and returns how the label is written. The kernel lets
// nobody put a line feed into such a name.
func hostileUnit(t *testing.T, pid int) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^\S+ \S+ \S+ / (\S+) .* - cgroup2 `).FindSubmatch(mounts)
	if m == nil {
		t.Fatal("no cgroup2 mount whose root is the whole hierarchy")
	}
	dir := filepath.Join(string(m[1]), fmt.Sprintf("a\"b\\nc} 1\xff%d.service", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	move := func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "cgroup.procs"), strconv.AppendInt(nil, int64(pid), 10), 0)
	}
	t.Cleanup(func() {
		if err := move(filepath.Dir(dir)); err != nil {
			t.Error(err)
		}
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	if err := move(dir); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`a\"b\\nc} 1`+"\uFFFD"+`%d.service`, os.Getpid())
}

// Prometheus takes what a busy server says, whatever the groups are called.
func TestMetrics(t *testing.T) {
	needRoot(t)
	s := start(t, options{})
	pid, _ := sleeper(t)
	unit := hostileUnit(t, pid)
	for range 2 {
		if a := s.post(named(t, pid)); a.status != 200 {
			t.Fatalf("snapshot: %v", a)
		}
	}
	host, _ := s.open("/api/system/events?maps=summary")
	list, _ := s.open("/api/processes/stream")
	list.must()
	waitFor(t, "an activity event with all sensors observing", func() bool {
		e := host.must()
		return e.name == "activity" && strings.Count(e.data, `"state":"observing"`) == 3
	})
	waitFor(t, "a structure", func() bool {
		return bytes.Contains(s.get("/metrics").body, []byte("\nprocinsh_structure_descriptors "))
	})

	for _, group := range []string{"", "?group=unit", "?group=container", "?group=user"} {
		text := s.get("/metrics" + group)
		if text.status != 200 || text.header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
			t.Fatalf("%v, %v", text, text.header)
		}
		promtool(t, text.body, "check", "metrics")
		if group == "?group=unit" {
			if n := sampleValue(t, text.body, `procinsh_group_processes{unit="`+unit+`"}`); n != 1 {
				t.Errorf("%v processes in the unit, want the one", n)
			}
			checkDeployed(t, text.body)
		}
	}
	text := s.get("/metrics").body
	for series, holds := range map[string]func(float64) bool{
		`procinsh_streams_open{stream="list"}`:                   func(v float64) bool { return v == 1 },
		`procinsh_streams_open{stream="system"}`:                 func(v float64) bool { return v == 1 },
		`procinsh_streams_open{stream="process"}`:                func(v float64) bool { return v == 0 },
		`procinsh_sensor_state{sensor="cpu",state="observing"}`:  func(v float64) bool { return v == 1 },
		`procinsh_source{answer="list",source="bpf"}`:            func(v float64) bool { return v == 1 },
		`procinsh_source{answer="list",source="text"}`:           func(v float64) bool { return v == 0 },
		`procinsh_sensor_available{sensor="files"}`:              func(v float64) bool { return v == 1 },
		`procinsh_sensor_events_total{sensor="cpu"}`:             func(v float64) bool { return v > 0 },
		`procinsh_snapshot_pause_seconds_count`:                  func(v float64) bool { return v == 2 },
		`procinsh_snapshot_pause_seconds_sum`:                    func(v float64) bool { return v > 0 && v < 4 },
		`procinsh_symbol_cache_requests_total{result="miss"}`:    func(v float64) bool { return v > 0 },
		`procinsh_symbol_cache_requests_total{result="hit"}`:     func(v float64) bool { return v > 0 },
		`procinsh_symbol_cache_bytes`:                            func(v float64) bool { return v > 0 },
		`procinsh_scan_duration_seconds_count{scan="list"}`:      func(v float64) bool { return v > 0 },
		`procinsh_scan_duration_seconds_count{scan="structure"}`: func(v float64) bool { return v > 0 },
		`procinsh_structure_descriptors`:                         func(v float64) bool { return v > 10 },
		`procinsh_http_responses_total{code="5xx"}`:              func(v float64) bool { return v == 0 },
		`process_open_fds`:                                       func(v float64) bool { return v > 5 },
		`procinsh_scan_failures_total`:                           func(v float64) bool { return v == 0 },
	} {
		if v := sampleValue(t, text, series); !holds(v) {
			t.Errorf("%s is %v", series, v)
		}
	}
	host.close()
	list.close()
	waitFor(t, "the streams to be counted closed", func() bool {
		text := s.get("/metrics").body
		return sampleValue(t, text, `procinsh_streams_open{stream="list"}`)+sampleValue(t, text, `procinsh_streams_open{stream="system"}`) == 0
	})
}
