package e2e

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"procinsh/api"
)

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'; trusted-types procinsh"

func checkHeaders(t *testing.T, a answer) {
	t.Helper()
	for name, want := range map[string]string{
		"Content-Security-Policy": policy,
		"Cache-Control":           "no-store",
		"X-Content-Type-Options":  "nosniff",
		"Referrer-Policy":         "no-referrer",
	} {
		if got := a.header.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for name := range a.header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("there is a CORS header %s", name)
		}
	}
}

func TestEndpoints(t *testing.T) {
	s := start(t, options{})
	pid, _ := sleeper(t)
	id := identity(t, pid)
	var list []api.ProcessSummary
	var observation api.Observation
	var threads []api.Thread
	var maps api.MapsAnswer
	var memory api.MemoryAnswer
	var fds api.DescriptorsAnswer
	var holders api.HoldersAnswer
	var environment api.EnvironmentAnswer
	var auxv api.AuxvAnswer
	var signals api.SignalsAnswer
	var context api.ContextAnswer
	var totals api.Totals
	var config api.Config
	var topology api.Topology
	var status api.SystemStatus
	s.get("/api/processes/maps?"+id).decode(t, &maps)
	if len(maps.Maps) == 0 || maps.Error != nil || maps.CapturedAt == nil {
		t.Fatalf("maps are %+v", maps)
	}
	for path, into := range map[string]any{
		"/api/config":                      &config,
		"/api/processes?maps=summary&io=1": &list,
		"/api/system/totals":               &totals,
		"/api/system/topology":             &topology,
		"/api/system/status":               &status,
		"/api/processes/observation?" + id: &observation,
		"/api/processes/threads?" + id:     &threads,
		"/api/processes/maps?" + id:        &maps,
		"/api/processes/memory?" + id + "&length=4&address=" + maps.Maps[0].Start: &memory,
		"/api/processes/fds?" + id:         &fds,
		"/api/processes/holders?path=/":    &holders,
		"/api/processes/environment?" + id: &environment,
		"/api/processes/auxv?" + id:        &auxv,
		"/api/processes/signals?" + id:     &signals,
		"/api/processes/context?" + id:     &context,
	} {
		a := s.get(path)
		checkHeaders(t, a)
		if ct := a.header.Get("Content-Type"); ct != "application/json" {
			t.Errorf("%s: Content-Type is %q", path, ct)
		}
		a.decode(t, into)
		head := s.do("HEAD", path)
		if head.status != 200 || len(head.body) > 0 || head.header.Get("Content-Length") == "" {
			t.Errorf("HEAD %s: %v %v", path, head, head.header)
		}
		checkHeaders(t, head)
	}
	me := api.Identity{PID: int32(pid)}
	me.StartTimeTicks, _ = ticks(pid)
	found := false
	for _, p := range list {
		if p.Identity != me {
			continue
		}
		found = true
		if p.Name != "sleep" || p.ParentID == nil || p.ParentID.PID != int32(os.Getpid()) || strings.Join(p.CommandLine, " ") != "/bin/sleep 300" ||
			p.MapSummary == nil || len(p.MapSummary.Boxes) == 0 || p.RSSBytes == 0 || p.ThreadCount != 1 {
			t.Errorf("the row is %+v", p)
		}
	}
	if !found {
		t.Error("the target is not in the list")
	}
	for name, got := range map[string]api.Identity{
		"observation": observation.ProcessID, "maps": maps.ProcessID, "memory": memory.ProcessID, "fds": fds.ProcessID,
		"environment": environment.ProcessID, "auxv": auxv.ProcessID, "signals": signals.ProcessID, "context": context.ProcessID,
	} {
		if got != me {
			t.Errorf("%s is of %v, want %v", name, got, me)
		}
	}
	if memory.Bytes != "7f454c46" || memory.Partial {
		t.Errorf("the first mapping begins with %+v, want the magic of ELF", memory)
	}
	if len(threads) != 1 || threads[0].TID != me.PID || threads[0].Name != "sleep" || threads[0].CPUPercent != nil {
		t.Errorf("threads are %+v", threads)
	}
	if len(fds.Entries) < 3 || fds.Entries[0].FD != 0 || fds.Entries[0].Target != "/dev/null" || fds.Entries[0].Kind != "device" {
		t.Errorf("descriptors are %+v", fds.Entries)
	}
	if auxv.WordBits == nil || *auxv.WordBits != 64 || signals.Leader == nil || signals.Leader.TID != me.PID || context.ExecutableState != "present" {
		t.Errorf("word bits %v, leader %+v, executable %s", auxv.WordBits, signals.Leader, context.ExecutableState)
	}
	if totals.Processes == 0 || totals.MemoryTotalBytes == 0 || totals.Self.RSSBytes == 0 || totals.UptimeMS == 0 {
		t.Errorf("totals are %+v", totals)
	}
	if config.IntervalMS != 1000 || config.HistorySeconds != 60 || (config.Sources.Threads.Source == "text") != (config.Sources.Threads.Reason != nil) ||
		(config.Sources.List.Source == "text") != (config.Sources.List.Reason != nil) || (config.Sources.Maps.Source == "text") != (config.Sources.Maps.Reason != nil) ||
		config.Capabilities.Runs.Available || config.Capabilities.Runs.Reason == nil ||
		!config.Sandbox.Seccomp.Active || config.Sandbox.Seccomp.Reason != nil || !config.Sandbox.NoNewPrivs.Active || config.Sandbox.NoNewPrivs.Reason != nil {
		t.Errorf("config is %+v", config)
	}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err == nil && os.Geteuid() == 0 && config.Sources.List.Source != "bpf" {
		t.Errorf("the list is not read from the kernel's tables: %s", *config.Sources.List.Reason)
	}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err == nil && os.Geteuid() == 0 && config.Sources.Descriptors.Source != "bpf" {
		t.Errorf("the structure is not read from the kernel's tables: %s", *config.Sources.Descriptors.Reason)
	}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err == nil && os.Geteuid() == 0 && config.Sources.Maps.Source != "bpf" && !strings.Contains(*config.Sources.Maps.Reason, "for a minute") {
		t.Errorf("map summaries are not read from the kernel's tables: %s", *config.Sources.Maps.Reason)
	}
	if os.Geteuid() == 0 && len(config.Sandbox.Capabilities) == 0 {
		t.Error("root has no capability")
	}
	a := s.get("/healthz")
	checkHeaders(t, a)
	if a.status != 200 || string(a.body) != "ok\n" {
		t.Errorf("healthz: %v", a)
	}
}

// The pages are there when they were built, else their absence is told.
func TestPages(t *testing.T) {
	s := start(t, options{})
	_, err := os.Stat(filepath.Join("..", "..", "web", "dist", "index.html"))
	for _, path := range []string{"/", "/process/1"} {
		a := s.get(path)
		checkHeaders(t, a)
		if err == nil {
			if a.status != 200 || a.header.Get("Content-Type") != "text/html; charset=utf-8" {
				t.Errorf("%s: %v %v", path, a, a.header)
			}
		} else if a.status != 500 || a.code(t) != "assets_missing" {
			t.Errorf("%s without built pages: %v", path, a)
		}
	}
}

func TestErrors(t *testing.T) {
	s := start(t, options{})
	pid, end := sleeper(t)
	id := identity(t, pid)
	zombie, _ := sleeper(t)
	dead := identity(t, zombie)
	if p, err := os.FindProcess(zombie); err != nil || p.Kill() != nil {
		t.Fatal("cannot end the target")
	}
	waitFor(t, "the target to be a zombie", func() bool {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", zombie))
		return err == nil && strings.Contains(string(data), ") Z ")
	})
	tests := []struct {
		method, path string
		status       int
		code         string
	}{
		{"GET", "/api/processes/maps", 400, "missing_identity"},
		{"GET", "/api/processes/maps?pid=x&start_time_ticks=1", 400, "invalid_pid"},
		{"GET", "/api/processes/memory?" + id, 400, "missing_address"},
		{"GET", "/api/processes/memory?" + id + "&address=0xffffffffffffffff", 400, "address_overflow"},
		{"GET", "/api/processes/memory?" + id + "&address=1&length=65537", 400, "invalid_length"},
		{"GET", "/api/processes?io=yes", 400, "invalid_io"},
		{"GET", "/nothing", 404, "not_found"},
		{"GET", "/api/system/nothing", 404, "not_found"},
		{"POST", "/api/processes", 405, "method_not_allowed"},
		{"GET", fmt.Sprintf("/api/processes/context?pid=%d&start_time_ticks=1", pid), 410, "process_gone"},
		{"GET", "/api/processes/observation?" + dead, 410, "process_gone"},
		{"GET", "/api/processes/fds?" + dead, 410, "process_gone"},
		{"GET", "/api/processes/events?" + dead, 410, "process_gone"},
		{"GET", "/api/processes/memory?" + id + "&address=0", 422, "unmapped"},
	}
	for _, tt := range tests {
		a := s.do(tt.method, tt.path)
		checkHeaders(t, a)
		if a.status != tt.status || a.code(t) != tt.code {
			t.Errorf("%s %s: %v, want %d %s", tt.method, tt.path, a, tt.status, tt.code)
		}
	}
	for _, path := range []string{"/api/processes/stream", "/api/processes/events?" + id} {
		if a := s.do("HEAD", path); a.status != 405 || a.header.Get("Allow") != "GET" {
			t.Errorf("HEAD %s: %v %v", path, a, a.header)
		}
	}
	end()
	if a := s.get("/api/processes/observation?" + id); a.status != 410 {
		t.Errorf("after its end: %v", a)
	}
}

// A server without privileges says what would allow what the kernel refuses.
func TestPermission(t *testing.T) {
	needRoot(t)
	s := start(t, options{uid: nobody, args: []string{"--allow-user", "root"}})
	if !strings.Contains(s.stderr.String(), "start with sudo to see other users' processes") {
		t.Error("the log does not say how to see more")
	}
	pid, _ := sleeper(t)
	id := identity(t, pid)
	for _, path := range []string{"environment?" + id, "memory?address=0x1000&" + id} {
		a := s.get("/api/processes/" + path)
		if a.status != 422 || a.code(t) != "permission_denied" || !strings.Contains(string(a.body), "CAP_SYS_PTRACE") {
			t.Errorf("%s: %v", path, a)
		}
	}
	var maps api.MapsAnswer
	s.get("/api/processes/maps?"+id).decode(t, &maps)
	if maps.Error == nil || maps.CapturedAt != nil || len(maps.Maps) > 0 {
		t.Errorf("maps are %+v, want the reason for none", maps)
	}
	var o api.Observation
	s.get("/api/processes/observation?"+id).decode(t, &o)
	if o.IO != nil || o.ProcessID.PID != int32(pid) {
		t.Errorf("observation is %+v, want no io", o)
	}
}

func TestGuard(t *testing.T) {
	s := start(t, options{})
	_, port, _ := strings.Cut(s.addr, ":")
	tests := []struct {
		name    string
		path    string
		headers []string
		status  int
		code    string
	}{
		{"its own address", "/api/config", nil, 200, ""},
		{"localhost", "/api/config", []string{"Host", "localhost:" + port}, 200, ""},
		{"rebinding", "/api/config", []string{"Host", "evil.example:" + port}, 403, "host_not_allowed"},
		{"no port", "/api/config", []string{"Host", "127.0.0.1"}, 403, "host_not_allowed"},
		{"other loopback address", "/api/config", []string{"Host", "127.0.0.2:" + port}, 403, "host_not_allowed"},
		{"health check", "/healthz", []string{"Host", "evil.example"}, 403, "host_not_allowed"},
		{"unknown path", "/nothing", []string{"Host", "evil.example"}, 403, "host_not_allowed"},
		{"own origin", "/api/config", []string{"Origin", s.url}, 200, ""},
		{"foreign origin", "/api/config", []string{"Origin", "http://evil.example"}, 403, "origin_not_allowed"},
		{"null origin", "/api/config", []string{"Origin", "null"}, 403, "origin_not_allowed"},
		{"same origin", "/api/config", []string{"Sec-Fetch-Site", "same-origin"}, 200, ""},
		{"other site", "/api/processes/stream", []string{"Sec-Fetch-Site", "cross-site"}, 403, "fetch_site_not_allowed"},
		{"link from another site", "/healthz", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 403, "fetch_site_not_allowed"},
	}
	for _, tt := range tests {
		a := s.get(tt.path, tt.headers...)
		checkHeaders(t, a)
		if a.status != tt.status || tt.code != "" && a.code(t) != tt.code {
			t.Errorf("%s: %v, want %d %s", tt.name, a, tt.status, tt.code)
		}
	}
	if a := s.get("/process/1", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"); a.status == 403 {
		t.Errorf("a link to a page: %v", a)
	}
}

func TestGzip(t *testing.T) {
	s := start(t, options{})
	unpack := func(a answer) []byte {
		z, err := gzip.NewReader(strings.NewReader(string(a.body)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	a := s.get("/api/processes", "Accept-Encoding", "gzip")
	if a.header.Get("Content-Encoding") != "gzip" || !json.Valid(unpack(a)) {
		t.Errorf("the list is not compressed: %v", a.header)
	}
	if a := s.get("/api/processes", "Accept-Encoding", "gzip;q=0"); a.header.Get("Content-Encoding") != "" || !json.Valid(a.body) {
		t.Errorf("a client that refuses gzip gets %v", a.header)
	}
	if a := s.get("/nothing", "Accept-Encoding", "gzip"); a.header.Get("Content-Encoding") != "" {
		t.Errorf("a short answer is compressed: %v", a.header)
	}

	// Each event of a stream can be read at once; a stream that ends is whole gzip.
	pid, end := sleeper(t)
	r, err := http.NewRequest("GET", s.url+"/api/processes/events?"+identity(t, pid), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip")
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("the stream is not compressed: %v", res.Header)
	}
	z, err := gzip.NewReader(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, len("event: observation\n"))
	if _, err := io.ReadFull(z, buf); err != nil || string(buf) != "event: observation\n" {
		t.Fatalf("%q, %v", buf, err)
	}
	end()
	rest, err := io.ReadAll(z)
	if err != nil || !strings.Contains(string(rest), `"exited":true`) {
		t.Errorf("%v at the end of %.200q", err, tail(string(rest), 200))
	}
}
