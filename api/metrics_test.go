package api

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"procinsh/proc"
	"procinsh/ptrace"
)

// scrape returns the samples by name and labels.
func scrape(t *testing.T, s *Server, target string, header ...string) map[string]sample {
	t.Helper()
	w := do(s, request("GET", target, header...))
	if w.Code != 200 || w.Header().Get("Vary") != "Accept" {
		t.Fatalf("%s: %d, Vary %q", target, w.Code, w.Header().Get("Vary"))
	}
	open := len(header) > 0
	want := textType
	if open {
		want = openType
	}
	if got := w.Header().Get("Content-Type"); got != want {
		t.Errorf("%s: Content-Type %q, want %q", target, got, want)
	}
	return checkExposition(t, w.Body.String(), open)
}

// find returns the value of the sample with these labels, pairs.
func find(t *testing.T, samples map[string]sample, name string, labels ...string) float64 {
	t.Helper()
	s := sample{name: name}
	for i := 0; i < len(labels); i += 2 {
		s.labels = append(s.labels, [2]string{labels[i], labels[i+1]})
	}
	found, ok := samples[s.key()]
	if !ok {
		t.Fatalf("no sample %s %q", name, labels)
	}
	return found.value
}

// Both forms say the same, a scrape within half a second of another scans nothing, and
// nobody is left watching.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s, _ := testServer(t, nil)
	began := time.Now()
	for _, group := range []string{"", "?group=unit", "?group=container", "?group=user"} {
		text := scrape(t, s, "/metrics"+group)
		open := scrape(t, s, "/metrics"+group, "Accept", "application/openmetrics-text")
		if len(text) != len(open) {
			t.Errorf("%q: %d samples as text, %d as OpenMetrics", group, len(text), len(open))
		}
		for key := range text {
			if _, ok := open[key]; !ok {
				t.Errorf("%q: OpenMetrics lacks %s", group, key)
			}
		}
		if group == "" {
			continue
		}
		var processes, all float64
		for _, x := range text {
			switch x.name {
			case "procinsh_group_processes":
				processes += x.value
			case "procinsh_processes":
				all += x.value
			}
		}
		if processes == 0 || processes != all {
			t.Errorf("%s: %v processes in groups, %v in states", group, processes, all)
		}
	}
	samples := scrape(t, s, "/metrics")
	if find(t, samples, "procinsh_build_info", "version", "1.2", "revision", "abc", "goversion", runtime.Version()) != 1 ||
		find(t, samples, "process_resident_memory_bytes") < 1<<20 || find(t, samples, "go_goroutines") < 2 ||
		find(t, samples, "procinsh_sensor_state", "sensor", "cpu", "state", "idle") != 1 ||
		find(t, samples, "procinsh_sensor_state", "sensor", "files", "state", "observing") != 0 {
		t.Errorf("got %v", samples)
	}
	for _, answer := range []string{"list", "threads", "descriptors", "maps"} {
		bpf, text := find(t, samples, "procinsh_source", "answer", answer, "source", "bpf"), find(t, samples, "procinsh_source", "answer", answer, "source", "text")
		if bpf+text != 1 || answer == "list" && text != 1 { // this list was given no tables
			t.Errorf("%s: bpf %v, text %v", answer, bpf, text)
		}
	}
	if scans := find(t, samples, "procinsh_scan_duration_seconds_count", "scan", "list"); scans < 1 || scans > 1+float64(time.Since(began)/scrapeAge) {
		t.Errorf("%v scans for 9 scrapes in %v", scans, time.Since(began))
	}
	if n := find(t, samples, "procinsh_http_responses_total", "code", "2xx"); n != 8 {
		t.Errorf("%v answers counted, want the 8 before", n)
	}
	if _, ok := samples[sample{name: "procinsh_structure_processes"}.key()]; ok {
		t.Error("the structure is told of before anybody watched")
	}
	before := s.list.Stats().Scans.Sum
	time.Sleep(1500 * time.Millisecond) // a viewer would have been served a scan by then
	if after := s.list.Stats().Scans.Sum; after != before {
		t.Error("a scrape left a scan behind")
	}
	for _, target := range []string{"/metrics?group=", "/metrics?group=pid", "/metrics?group=unit&group=user"} {
		if w := do(s, request("GET", target)); w.Code != 400 {
			t.Errorf("%s: status %d", target, w.Code)
		}
	}
	if n := find(t, scrape(t, s, "/metrics"), "procinsh_http_responses_total", "code", "4xx"); n != 3 {
		t.Errorf("%v refusals counted, want 3", n)
	}
}

func TestMetricsOfSnapshots(t *testing.T) {
	s, _ := testServer(t, nil)
	_, cmd := sleeping(t)
	id := proc.ID{PID: int32(cmd.Process.Pid), StartTicks: startTicks(t, cmd.Process.Pid)}
	fail := false
	s.take = func(context.Context, *proc.FS, proc.ID, *ptrace.Symbols) (*ptrace.Snapshot, error) {
		if fail {
			return nil, errors.New("no")
		}
		return &ptrace.Snapshot{Paused: 3 * time.Millisecond}, nil
	}
	if _, err := s.snapshot(t.Context(), id, time.Now()); err != nil {
		t.Fatal(err)
	}
	fail = true
	if _, err := s.snapshot(t.Context(), id, time.Now()); err == nil {
		t.Fatal("no error")
	}
	samples := scrape(t, s, "/metrics")
	for _, c := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"procinsh_snapshot_pause_seconds_bucket", []string{"le", "0.0025"}, 0},
		{"procinsh_snapshot_pause_seconds_bucket", []string{"le", "0.005"}, 1},
		{"procinsh_snapshot_pause_seconds_count", nil, 1},
		{"procinsh_snapshot_pause_seconds_sum", nil, 0.003},
		{"procinsh_snapshot_failures_total", nil, 1},
	} {
		if got := find(t, samples, c.name, c.labels...); got != c.want {
			t.Errorf("%s %q is %v, want %v", c.name, c.labels, got, c.want)
		}
	}
}

// Every route that is a stream is counted, and closed streams are not.
func TestMetricsOfStreams(t *testing.T) {
	for _, r := range routes {
		named := 0
		for _, k := range streamKinds {
			if k.path == r.pattern {
				named++
			}
		}
		if r.stream != (named == 1) {
			t.Errorf("%s: a stream %v, %d names in metrics", r.pattern, r.stream, named)
		}
	}
	s, _ := testServer(t, nil)
	opened := func() float64 {
		return find(t, scrape(t, s, "/metrics"), "procinsh_streams_open", "stream", "list")
	}
	for _, encoding := range []string{"gzip", "identity"} {
		var during float64
		runStream(t, s, request("GET", "/api/processes/stream", "Accept-Encoding", encoding), func(string) bool {
			during = opened()
			return true
		})
		if after := opened(); during != 1 || after != 0 {
			t.Errorf("%s: %v streams during one, %v after it", encoding, during, after)
		}
	}
}
