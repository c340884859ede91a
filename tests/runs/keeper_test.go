package runs

import (
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"procinsh/api"
)

func (s *server) capabilities() api.RunCapabilities {
	s.t.Helper()
	var c api.RunCapabilities
	if status, code := s.do("GET", "/api/runs/capabilities", nil, &c); status != 200 {
		s.t.Fatalf("capabilities: %d %s", status, code)
	}
	return c
}

// The helper dies while a run lives: the server says so, and another one ends the run.
func TestHelperKilled(t *testing.T) {
	s := start(t, 0, "--runs")
	s.create(api.RunRequest{ID: "lost", Command: ptr("setsid sleep 6102 & exec sleep 6103")})
	wait(t, "both", func() bool { r := s.get("lost", ""); return r.Members != nil && *r.Members == 2 })
	var c api.RunCapabilities
	s.do("GET", "/api/runs/capabilities", nil, &c)
	if err := syscall.Kill(c.HelperPID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, "another helper", func() bool { return strings.Contains(s.log.String(), "another helper is ready") })
	if r := s.get("lost", ""); !r.Adopted || r.Members == nil || *r.Members != 2 {
		t.Errorf("got %+v", r)
	}
	var st api.RunStopped
	if status, code := s.do("POST", "/api/runs/lost/stop", nil, &st); status != 200 || st.Stopped != 2 {
		t.Errorf("stop: %d %s, %+v", status, code, st)
	}
	if status, _ := s.do("GET", "/api/runs/lost", nil, nil); status != 404 {
		t.Errorf("after it: %d", status)
	}
	if c.CgroupRoot != nil {
		if _, err := os.Stat(*c.CgroupRoot); err == nil {
			t.Errorf("%s of the dead helper is left", *c.CgroupRoot)
		}
	}
	if r := s.create(api.RunRequest{ID: "lost", Argv: []string{"true"}, WaitMS: 60_000}); r.State != "exited" || r.Adopted {
		t.Errorf("the next run: %+v", r)
	}
}

// The keeper dies: the server says so and goes on. When the helper dies too, nothing
// waits for another one.
func TestKeeperKilled(t *testing.T) {
	s := start(t, 0, "--runs")
	c := s.capabilities()
	if c.KeeperPID == nil {
		t.Fatal("there is no keeper")
	}
	if err := syscall.Kill(*c.KeeperPID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, "the server to say so", func() bool { return strings.Contains(s.log.String(), "the keeper of the helper died") })
	wait(t, "the keeper to be reaped", func() bool { return syscall.Kill(*c.KeeperPID, 0) == syscall.ESRCH })
	if c := s.capabilities(); c.KeeperPID != nil {
		t.Errorf("keeper %d", *c.KeeperPID)
	}
	if r := s.create(api.RunRequest{Argv: []string{"true"}, WaitMS: 60_000}); r.State != "exited" {
		t.Errorf("a run is %s", r.State)
	}
	if err := syscall.Kill(c.HelperPID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, "the loss", func() bool { return strings.Contains(s.log.String(), "the helper that holds the runs died") })
	if status, code := s.do("GET", "/api/runs", nil, nil); status != 503 || code != "helper_gone" {
		t.Errorf("list: %d %s", status, code)
	}
	var config api.Config
	if status, _ := s.do("GET", "/api/config", nil, &config); status != 200 || config.Capabilities.Runs.Available || config.Capabilities.Runs.Reason == nil {
		t.Errorf("config: %d, %+v", status, config.Capabilities.Runs)
	}
	if c.CgroupRoot != nil {
		if err := os.Remove(*c.CgroupRoot); err != nil { // empty; the next helper would do it
			t.Error(err)
		}
	}
}

// The helper stands still: every route answers all the same, and runs can be ended.
func TestHelperSilent(t *testing.T) {
	s := start(t, 0, "--runs")
	s.create(api.RunRequest{ID: "stop", Command: ptr("setsid sleep 6111 & exec sleep 6112")})
	s.create(api.RunRequest{ID: "delete", Argv: []string{"sleep", "6113"}})
	wait(t, "both", func() bool { r := s.get("stop", ""); return r.Members != nil && *r.Members == 2 })
	c := s.capabilities()
	if err := syscall.Kill(c.HelperPID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// Some that wait while the others are asked.
	waits := make(chan int, 8)
	for range cap(waits) {
		go func() {
			a, err := http.Get(s.url + "/api/runs/delete/output?wait_ms=30000")
			if err != nil {
				waits <- 0
				return
			}
			a.Body.Close()
			waits <- a.StatusCode
		}()
	}
	for _, r := range []struct{ method, path string }{
		{"GET", "/api/runs"}, {"POST", "/api/runs"}, {"GET", "/api/runs/stop"}, {"GET", "/api/runs/stop/processes"}, {"GET", "/api/runs/stop/log"},
		{"POST", "/api/runs/stop/input"}, {"GET", "/api/runs/capabilities"}, {"POST", "/api/scopes/x/stop"}, {"DELETE", "/api/runs"},
		{"POST", "/api/runs/none/stop"}, {"DELETE", "/api/runs/none"},
	} {
		var body any
		if r.method == "POST" && r.path == "/api/runs" {
			body = api.RunRequest{ID: "late", Argv: []string{"true"}}
		}
		if status, code := s.do(r.method, r.path, body, nil); status != 504 || code != "helper_silent" {
			t.Errorf("%s %s: %d %s", r.method, r.path, status, code)
		}
	}
	for range cap(waits) {
		if status := <-waits; status != 504 {
			t.Errorf("output: %d", status)
		}
	}
	var st api.RunStopped
	if status, code := s.do("POST", "/api/runs/stop/stop", nil, &st); status != 200 || st.Stopped != 2 {
		t.Errorf("stop: %d %s, %+v", status, code, st)
	}
	if status, code := s.do("DELETE", "/api/runs/delete", nil, nil); status != 409 || code != "run_active" {
		t.Errorf("delete: %d %s", status, code)
	}
	if status, code := s.do("DELETE", "/api/runs/delete?force=1", nil, nil); status != 204 {
		t.Errorf("delete with force: %d %s", status, code)
	}
	if err := syscall.Kill(c.HelperPID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	wait(t, "the helper to answer", func() bool { status, _ := s.do("GET", "/api/runs", nil, nil); return status == 200 })
	if r := s.get("stop", "?wait_ms=60000"); r.State != "exited" || r.Members == nil || *r.Members != 0 {
		t.Errorf("stopped: %+v", r)
	}
	// What nobody waits for any more was not begun.
	if status, _ := s.do("GET", "/api/runs/late", nil, nil); status != 404 {
		t.Errorf("late: %d", status)
	}
	if n := s.capabilities(); n.HelperPID != c.HelperPID {
		t.Errorf("another helper: %+v", n)
	}
}

// A helper that stands still when the server ends does not stay.
func TestSilentAtTheEnd(t *testing.T) {
	id := ends(t, syscall.SIGSTOP, "--runs")
	other := start(t, 0, "--runs")
	if status, _ := other.do("GET", "/api/runs/"+id, nil, nil); status != 404 {
		t.Errorf("still there: %d", status)
	}
}
