package cases

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"procinsh/api"
)

func region(t *testing.T, maps []api.Mapping, address int64) api.Mapping {
	t.Helper()
	at := fmt.Sprintf("0x%016x", address)
	i := slices.IndexFunc(maps, func(m api.Mapping) bool { return m.Start <= at && at < m.End })
	if i < 0 {
		t.Fatalf("no region at %s", at)
	}
	return maps[i]
}

func near(t *testing.T, what string, got *uint64, want, slack float64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s: got null, want about %.0f", what, want)
	} else if math.Abs(float64(*got)-want) > slack {
		t.Errorf("%s: got %d, want %.0f, give or take %.0f", what, *got, want, slack)
	}
}

// rollup reads smaps_rollup beside the server, bytes by name.
func rollup(t *testing.T, pid int32) map[string]float64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for line := range strings.SplitSeq(string(b), "\n") {
		if f := strings.Fields(line); len(f) == 3 && f[2] == "kB" {
			n, _ := strconv.ParseFloat(f[1], 64)
			all[strings.TrimSuffix(f[0], ":")] = n * 1024
		}
	}
	return all
}

// reserve makes four huge pages where the caller has allowed it: a test changes no
// setting of a host by itself.
func reserve(t *testing.T) {
	t.Helper()
	const setting = "/proc/sys/vm/nr_hugepages"
	if os.Getenv("PROCINSH_TEST_HUGEPAGES") == "" {
		return
	}
	old, err := os.ReadFile(setting)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(old)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(setting, []byte(strconv.Itoa(n+4)), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(setting, old, 0); err != nil {
			t.Errorf("%s is not put back: %v", setting, err)
		}
	})
}

// Huge pages of hugetlbfs are in no RSS and no PSS of the kernel. It needs four
// free ones, or PROCINSH_TEST_HUGEPAGES=1 to reserve them for the time of the test.
func TestHugetlb(t *testing.T) {
	reserve(t)
	c := target(t, "hugetlb")
	k := rollup(t, c.ID.PID)
	const slack = 1 << 20
	row := listed(t, c.ID)
	near(t, "list: rss_bytes", &row.RSSBytes, k["Rss"], slack)
	huge, normal := c.Int("HUGE_BYTES"), c.Int("NORMAL_BYTES")
	if row.VMSBytes < uint64(2*huge+normal) {
		t.Errorf("list: vms_bytes: got %d, want the huge pages in it", row.VMSBytes)
	}
	o := get[api.Observation](t, "observation", c.ID)
	near(t, "observation: rss_bytes", o.RSSBytes, k["Rss"], slack)
	m := get[api.MapsAnswer](t, "maps", c.ID)
	for _, key := range []string{"PRIVATE", "SHARED"} {
		r := region(t, m.Maps, c.Int(key))
		is(t, key+": end", r.End, fmt.Sprintf("0x%016x", c.Int(key)+huge))
		is(t, key+": rss, pss", []any{r.RSSBytes, r.PSSBytes}, []any{0, 0})
	}
	near(t, "normal region: rss_bytes", region(t, m.Maps, c.Int("NORMAL")).RSSBytes, float64(normal), slack)
	if m.Rollup == nil {
		t.Fatal("rollup is null")
	}
	near(t, "rollup: rss", &m.Rollup.RSSBytes, k["Rss"], slack)
	near(t, "rollup: pss", &m.Rollup.PSSBytes, k["Pss"], slack)
	near(t, "rollup: private", &m.Rollup.PrivateBytes, k["Private_Clean"]+k["Private_Dirty"], slack)
}

// The main thread has ended, three others live on: the process is alive.
func TestZombieLeader(t *testing.T) {
	c := target(t, "zombie")
	sleeper, busy := int32(c.Int("SLEEPER_TID")), int32(c.Int("BUSY_TID"))
	live := fmt.Sprintf("/proc/%d/task/%d/", c.ID.PID, sleeper)
	is(t, "the kernel's state of the leader", statFields(t, fmt.Sprintf("/proc/%d/stat", c.ID.PID))[0], "Z")

	threads := get[[]api.Thread](t, "threads", c.ID)
	states := map[int32]string{}
	names := map[int32]string{}
	for _, th := range threads {
		states[th.TID], names[th.TID] = th.State, th.Name
	}
	is(t, "threads", len(threads), 4)
	is(t, "threads: states of leader and sleeper", []string{states[c.ID.PID], states[sleeper]}, []string{"Z", "S"})
	is(t, "threads: names", []string{names[sleeper], names[busy]}, []string{"sleeper", "busy"})

	row := listed(t, c.ID)
	if row.State == "Z" || row.State == "X" {
		t.Errorf("list: state %s, but threads live", row.State)
	}
	near(t, "list: rss_bytes", &row.RSSBytes, float64(c.Int("MEM_BYTES")), 8<<20)
	is(t, "list: executable", row.Executable, build(t, "testdata/zombie.c"))
	is(t, "list: thread_count", row.ThreadCount, 4)

	o := get[api.Observation](t, "observation", c.ID)
	near(t, "observation: rss_bytes", o.RSSBytes, float64(c.Int("MEM_BYTES")), 8<<20)
	m := get[api.MapsAnswer](t, "maps", c.ID)
	is(t, "maps: error", m.Error, nil)
	is(t, "maps: regions", len(m.Maps), lines(t, live+"maps"))
	if m.Rollup == nil {
		t.Error("maps: rollup is null")
	}
	a := get[api.MemoryAnswer](t, "memory", c.ID, "address", c.Facts["MEM"], "length", "16")
	is(t, "memory", a.Bytes, strings.Repeat("07", 16))

	e, warnings := descriptors(t, c.ID)
	sock, peer := int32(c.Int("SOCK_FD")), int32(c.Int("PEER_FD"))
	is(t, "fds: socket inode", e[sock].Inode, c.Facts["SOCK_INODE"])
	is(t, "fds: socket peer", ends(e[sock].Peers), []end{{c.ID.PID, peer}})
	is(t, "fds: pipe", e[int32(c.Int("PIPE_R_FD"))].Inode, c.Facts["PIPE_INODE"])
	is(t, "fds: the pipe's other end", ends(e[int32(c.Int("PIPE_R_FD"))].Peers), []end{{c.ID.PID, int32(c.Int("PIPE_W_FD"))}})
	if len(e) == 0 {
		t.Errorf("fds: none, warnings %q", warnings)
	}
	for _, what := range []string{"environment", "auxv", "signals", "context"} {
		get[any](t, what, c.ID)
	}
	env := get[api.EnvironmentAnswer](t, "environment", c.ID)
	is(t, "environment: not empty", len(env.Entries) > 0, true)

	var cpu []float64
	spent := usedCPU(t, c.ID.PID, busy)
	events := observations(t, c.ID, 7)
	used := spent()
	for i, o := range events {
		if o.Exited || o.Error != nil {
			t.Fatalf("events: exited %v, error %v", o.Exited, value(o.Error))
		}
		for _, th := range o.Observation.Threads {
			if th.TID == busy && i >= 2 {
				if th.CPUPercent == nil {
					t.Fatal("events: cpu_percent of the busy thread is null")
				}
				cpu = append(cpu, *th.CPUPercent)
			}
		}
	}
	aboutCPU(t, "events: the busy thread", cpu, used)
}

// A process that ends is gone for every endpoint, and its stream says so.
func TestExit(t *testing.T) {
	c := target(t, "hold")
	id := c.ID
	events := make(chan []api.ObservationEvent, 1)
	go func() { events <- observations(t, id, 1000) }() // until the stream ends
	time.Sleep(1500 * time.Millisecond)
	c.in.Close() // the target stops
	all := <-events
	last := all[len(all)-1]
	is(t, "last event: exited", last.Exited, true)
	for i, e := range all[:len(all)-1] {
		if e.Exited {
			t.Errorf("event %d of %d says exited", i, len(all))
		}
	}
	for _, what := range []string{"observation", "threads", "fds", "environment", "auxv", "signals", "context", "events", "maps", "memory?address=0x1000"} {
		path, more, _ := strings.Cut(what, "?")
		q := query(id)
		if more != "" {
			q.Set("address", "0x1000")
		}
		b, code, err := srv.Raw("/api/processes/"+path, q)
		if err != nil {
			t.Fatal(err)
		}
		if code != 410 {
			t.Errorf("%s: status %d, want 410: %.100s", path, code, b)
			continue
		}
		clear(t, path, b)
	}
}

// Another start time is another process.
func TestWrongStartTime(t *testing.T) {
	c := target(t, "hold")
	for _, d := range []int{-1, 1} {
		wrong := c.ID
		wrong.StartTimeTicks += uint64(d)
		for _, path := range []string{"observation", "threads", "maps", "fds", "environment", "auxv", "signals", "context", "events"} {
			b, code, err := srv.Raw("/api/processes/"+path, query(wrong))
			if err != nil {
				t.Fatal(err)
			}
			is(t, path+": status", code, 410)
			clear(t, path, b)
		}
	}
}
