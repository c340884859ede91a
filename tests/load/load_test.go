package load

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"procinsh/tests/server"
)

var soak = os.Getenv("PROCINSH_SOAK") != ""

// scale is how much is asked of a server at once.
type scale struct {
	processes   int
	viewers     int // of each kind: list, process, host
	connections int // opened one after the other and left open
	requests    int // each second
	time        time.Duration
}

// The long form (PROCINSH_SOAK=1; PROCINSH_LOAD sets another time) is what the server
// promises, the short one the same with less of everything.
func scaleOf(t *testing.T) scale {
	if !soak {
		return scale{processes: 200, viewers: 4, connections: 1200, requests: 40, time: 6 * time.Second}
	}
	s := scale{processes: 5000, viewers: 32, connections: 10_000, requests: 200, time: 10 * time.Minute}
	if text := os.Getenv("PROCINSH_LOAD"); text != "" {
		var err error
		if s.time, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

const (
	maxRSS         = 256 << 20 // bytes, the server's promise
	maxConnections = 512       // beside those of streams, the server's promise
	// maxAsking is how many requests are under way, each with two files of a target.
	maxAsking   = 300
	maxReadings = 2*maxAsking + 50 // and the sensors
	interval    = time.Second      // of the list and of a process
)

// A server with all the viewers that it takes, more connections than it keeps and
// requests all the time answers each of them, stays on time and within its memory, and
// is afterwards what it was before.
func TestLoad(t *testing.T) {
	n := scaleOf(t)
	raiseFileLimit(t, uint64(n.connections)+2000)
	targets := population(t, n.processes)
	s := startServer(t)
	before := descriptors(t, s.PID)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	var work sync.WaitGroup
	late := map[string]*lateness{"processes_delta": {}, "observation": {}, "metrics": {}}
	for i := range n.viewers {
		for _, kind := range []viewer{
			{path: "/api/processes/stream?maps=summary&io=1", event: "processes_delta"},
			{path: "/api/processes/events?maps=changed&" + targets[i%len(targets)], event: "observation"},
			{path: "/api/system/events?maps=summary&delta=1", event: "metrics"},
		} {
			// To unpack all streams would take more than the server does: one of a kind.
			var notes *lateness
			if i == 0 {
				notes = late[kind.event]
			}
			work.Go(func() { kind.run(ctx, t, s.URL, notes) })
		}
	}
	work.Go(func() { crowd(ctx, t, s.URL, n) })
	var asked answers
	work.Go(func() { asked.ask(ctx, t, s.URL, n, targets) })

	var rss []uint64
	open, host := 0, 0
	for end := time.Now().Add(n.time); time.Now().Before(end); time.Sleep(time.Second) {
		rss = append(rss, resident(t, s.PID))
		open = max(open, descriptors(t, s.PID))
		host = max(host, processes(t))
	}
	stop()
	work.Wait()
	kept := host // of processes: io, and beside texts more
	if listSource(t, s) == "text" {
		kept = 2 * host
	}

	t.Logf("%d processes, %d viewers of each kind, %v: RSS up to %d MiB, median %d MiB; %v of CPU time", n.processes, n.viewers, n.time,
		slices.Max(rss)>>20, median(rss)>>20, cpuTime(t, s.PID))
	t.Logf("descriptors: %d before, up to %d", before, open)
	t.Logf("answers by status: %v", asked.counts())
	for event, l := range late {
		t.Logf("%s: %d events, late: %v", event, l.count(), l)
	}
	if most := slices.Max(rss); most >= maxRSS {
		t.Errorf("RSS went up to %d MiB, want less than %d", most>>20, maxRSS>>20)
	}
	if most := before + maxConnections + 3*n.viewers + maxReadings + kept; open > most {
		t.Errorf("the server held %d descriptors, want at most %d: %d connections beside those of streams, %d kept of processes", open, most, maxConnections, kept)
	}
	for answer, times := range asked.counts() {
		if answer != "200" && answer != "429 busy" {
			t.Errorf("%d answers %s", times, answer)
		}
	}
	for event, l := range late {
		if p := l.percentile(99); p >= interval && soak { // a busy machine is late by itself
			t.Errorf("one of a hundred events %s is %v late, want less than %v", event, p, interval)
		}
	}
	if strings.Contains(s.Log(), "level=ERROR") {
		t.Errorf("the log has errors:\n%.4000s", s.Log())
	}
	// What the viewers needed is given back when the last is gone; idle connections
	// are closed by the clients.
	var after int
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		if after = descriptors(t, s.PID); after <= before {
			break
		}
		if time.Now().After(end) {
			t.Errorf("%d descriptors before, %d a minute after", before, after)
			break
		}
	}
	if a, status, err := s.Raw("/healthz", nil); err != nil || status != 200 {
		t.Errorf("afterwards: %s %d %v", a, status, err)
	}
}

// crowd opens connections and leaves them open, each after a request; the server keeps
// some of them.
func crowd(ctx context.Context, t *testing.T, url string, n scale) {
	addr := strings.TrimPrefix(url, "http://")
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	pause := n.time * 3 / 4 / time.Duration(n.connections)
	for range n.connections {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			if ctx.Err() == nil {
				t.Errorf("connect: %v", err)
			}
			return
		}
		open = append(open, c)
		fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n", addr)
		time.Sleep(pause)
	}
	<-ctx.Done()
}

// answers counts the answers to one-shot requests, by status and code.
type answers struct {
	mu     sync.Mutex
	byKind map[string]int
}

func (a *answers) counts() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.byKind)
}

func (a *answers) add(res *http.Response) {
	kind := strconv.Itoa(res.StatusCode)
	if res.StatusCode == http.StatusOK {
		drain(res.Body)
	} else {
		var e struct{ Code string }
		if err := json.NewDecoder(res.Body).Decode(&e); err != nil {
			e.Code = err.Error()
		}
		kind += " " + e.Code
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byKind == nil {
		a.byKind = map[string]int{}
	}
	a.byKind[kind]++
}

// ask sends requests at their rate, whether or not the answers keep up, but no more
// than a few hundred at a time.
func (a *answers) ask(ctx context.Context, t *testing.T, url string, n scale, targets []string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	slots := make(chan struct{}, maxAsking)
	var work sync.WaitGroup
	defer work.Wait()
	tick := time.NewTicker(time.Second / time.Duration(n.requests))
	defer tick.Stop()
	var failed atomic.Bool
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		slots <- struct{}{}
		path := oneShot(i, targets[rand.IntN(len(targets))])
		work.Go(func() {
			defer func() { <-slots }()
			res, err := client.Get(url + path)
			if err != nil {
				if failed.CompareAndSwap(false, true) {
					t.Errorf("%s: %v", path, err)
				}
				return
			}
			defer res.Body.Close()
			a.add(res)
		})
	}
}

// oneShot is the i-th request: every kind of reading, those that look at the whole
// host less often.
func oneShot(i int, target string) string {
	switch {
	case i%100 == 0:
		return "/api/processes?maps=summary"
	case i%100 == 50:
		return "/api/processes/fds?" + target
	}
	kinds := []string{"observation", "threads", "maps", "environment", "auxv", "signals", "context", "stacks", "config", "totals", "status"}
	switch kind := kinds[i%len(kinds)]; kind {
	case "config":
		return "/api/config"
	case "totals", "status":
		return "/api/system/" + kind
	default:
		return "/api/processes/" + kind + "?" + target
	}
}

// Most of what a list costs is done once for all who look at it, of the server's CPU
// time in all: read from the text files of /proc, 32 viewers take at most half as much
// again as one; from the kernel's tables, where one costs little, four times.
func TestFanOut(t *testing.T) {
	if !soak {
		t.Skip("long form only: compares CPU time over minutes with 5,000 processes")
	}
	population(t, 5000)
	for _, tt := range []struct {
		source string
		argv   []string // before the server
		most   float64
	}{
		{"text", []string{"setpriv", "--bounding-set", "-bpf,-perfmon,-sys_admin"}, 1.5},
		{"bpf", nil, 4},
	} {
		t.Run(tt.source, func(t *testing.T) {
			s := startServer(t, tt.argv...)
			var ratios []float64
			for range 3 {
				one, all := viewing(t, s, 1), viewing(t, s, 32)
				ratios = append(ratios, float64(all)/float64(one))
				t.Logf("one viewer %v, 32 viewers %v of CPU time for each event", one, all)
			}
			if source := listSource(t, s); source != tt.source {
				t.Fatalf("the list comes from %q", source)
			}
			slices.Sort(ratios)
			r := ratios[len(ratios)/2]
			t.Logf("32 viewers take %.2f times what one takes (%.2f)", r, ratios)
			if r > tt.most {
				t.Errorf("32 viewers take %.2f times what one takes, want at most %v", r, tt.most)
			}
		})
	}
}

// viewing is the CPU time that the server takes for each change of the list with so many
// viewers: on a busy machine there are fewer than one a second.
func viewing(t *testing.T, s *server.Server, viewers int) time.Duration {
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	var seen lateness
	for i := range viewers {
		v := viewer{path: "/api/processes/stream?maps=summary&io=1", event: "processes_delta"}
		var notes *lateness
		if i == 0 {
			notes = &seen
		}
		work.Go(func() { v.run(ctx, t, s.URL, notes) })
	}
	until := func(events int) time.Duration {
		for end := time.Now().Add(2 * time.Minute); seen.count() < events; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d events in two minutes", seen.count())
			}
		}
		return cpuTime(t, s.PID)
	}
	const first, events = 2, 10 // past the whole list that each gets first
	from := until(first)
	return (until(first+events) - from) / events
}

// listSource is what the watched list was read from last.
func listSource(t *testing.T, s *server.Server) string {
	t.Helper()
	var config struct {
		Sources map[string]struct{ Source string }
	}
	if err := s.Get("/api/config", nil, &config); err != nil {
		t.Fatal(err)
	}
	return config.Sources["list"].Source
}

// processes counts those of the host.
func processes(t *testing.T) int {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// startServer starts a server by another program when argv is one.
func startServer(t *testing.T, argv ...string) *server.Server {
	t.Helper()
	exe, err := server.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.StartWith(append(argv, exe))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return s
}
