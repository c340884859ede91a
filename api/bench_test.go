package api

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/proc"
	"procinsh/watch"
)

// benchRows are rows as a busy host has them: command lines of about 100 bytes,
// one process in five with CPU time.
func benchRows(n int) []watch.ListRow {
	users := []string{"root", "www-data", "nobody", "postgres"}
	exe, cgroup := "/usr/local/lib/fixture/bin/fixture-worker", "/system.slice/fixture.service"
	container := "fixture.service"
	rows := make([]watch.ListRow, n)
	for i := range rows {
		cpu := 0.0
		if i%5 == 0 {
			cpu = float64(i*37%1000) / 10
		}
		user := &users[i%len(users)]
		rows[i] = watch.ListRow{
			Row: proc.Row{
				ID: proc.ID{PID: int32(1000 + i), StartTicks: uint64(97007 + i*3)}, Parent: proc.Some(proc.ID{PID: 1, StartTicks: 9}),
				State: 'S', UID: uint32(i % 4 * 33), EUID: uint32(i % 4 * 33), RSS: uint64(1400+i%977) << 10, VMS: uint64(9000+i) << 10,
				Threads: int32(1 + i%3), Processor: int32(i % 8), StartedAt: 1796045450647 + int64(i)*30,
				Details: &proc.Details{
					Name: fmt.Sprintf("worker-%d", i), Executable: &exe, Username: user, EffectiveUsername: user, Cgroup: &cgroup, Container: &container,
					CommandLine: []string{"fixture-worker", "idle", fmt.Sprintf("--config=/etc/fixture/worker-%d.toml", i),
						fmt.Sprintf("--role=shard-%d", i%17), fmt.Sprintf("--upstream=10.0.%d.%d:9000", i/250, i%250)},
				},
			},
			CPUPercent: proc.Some(cpu),
		}
	}
	return rows
}

func wireRows(rows []watch.ListRow) []ProcessSummary {
	w := make([]ProcessSummary, len(rows))
	for i := range rows {
		w[i] = wireSummary(&rows[i], watch.ListWant{})
	}
	return w
}

func BenchmarkRowsAppended(b *testing.B) {
	rows := benchRows(5000)
	buf := appendProcesses(nil, rows, watch.ListWant{}, whole)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf = appendProcesses(buf[:0], rows, watch.ListWant{}, whole)
	}
}

func BenchmarkRowsMarshalled(b *testing.B) {
	rows := wireRows(benchRows(5000))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := json.Marshal(rows); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMappingsAppended(b *testing.B) {
	r := newRandom(1)
	maps := make([]proc.Mapping, 60000)
	for i := range maps {
		maps[i] = r.mapping()
	}
	buf := appendList(nil, maps, appendMapping)
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		buf = appendList(buf[:0], maps, appendMapping)
	}
}

// threadCPU is the CPU time of the calling thread; other work on the machine does
// not count. The caller is locked to its thread. getrusage(2) would tell it as of the
// last tick.
func threadCPU(t testing.TB) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		t.Fatal(err)
	}
	return time.Duration(now.Nano())
}

// medianRatio runs a and b in turn and returns the median of a's CPU time over
// b's, round by round.
func medianRatio(t testing.TB, rounds int, a, b func()) float64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cost := func(f func()) time.Duration {
		runtime.GC()
		before := threadCPU(t)
		f()
		return threadCPU(t) - before
	}
	var ratios []float64
	var all [2]time.Duration
	for range rounds {
		x, y := cost(a), cost(b)
		all[0] += x
		all[1] += y
		ratios = append(ratios, float64(x)/float64(y))
	}
	slices.Sort(ratios)
	t.Logf("means %v and %v, ratios %.2f", all[0]/time.Duration(rounds), all[1]/time.Duration(rounds), ratios)
	return ratios[len(ratios)/2]
}

// inBench skips a test of what things cost: a machine at work would fail it, and the
// race detector changes the figures. ./build.sh bench scan asks for it.
func inBench(t *testing.T) {
	t.Helper()
	if os.Getenv("PROCINSH_BENCH") == "" {
		t.Skip("a ratio of CPU times: judged by ./build.sh bench scan")
	}
}

// inOneGoroutine skips a test that the race detector can find nothing in and makes ten
// times as long. ./build.sh test runs this package without it as well.
func inOneGoroutine(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("runs in one goroutine: tested without the race detector")
	}
}

func TestRowsCostLessThanMarshal(t *testing.T) {
	inBench(t)
	rows := benchRows(5000)
	wire := wireRows(rows)
	buf := appendProcesses(nil, rows, watch.ListWant{}, whole)
	const times = 5
	ratio := medianRatio(t, 7, func() {
		for range times {
			buf = appendProcesses(buf[:0], rows, watch.ListWant{}, whole)
		}
	}, func() {
		for range times {
			if _, err := json.Marshal(wire); err != nil {
				t.Fatal(err)
			}
		}
	})
	if ratio > 0.5 {
		t.Errorf("encoding 5,000 rows costs %.2f of json.Marshal, want at most 0.5", ratio)
	}
}

// socketWriter is a ResponseWriter on one end of a TCP connection whose other end
// is read by somebody else.
type socketWriter struct {
	net.Conn
	header http.Header
}

func (w *socketWriter) Header() http.Header { return w.header }
func (w *socketWriter) WriteHeader(int)     {}
func (w *socketWriter) Flush()              {}

func viewers(t testing.TB, n int, packed bool) []*stream {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	list := make([]*stream, n)
	for i := range list {
		reader, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		writer, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { writer.Close(); reader.Close() })
		go io.Copy(io.Discard, reader)
		w := &socketWriter{writer, http.Header{}}
		list[i] = &stream{w: w, rc: http.NewResponseController(w), log: slog.New(slog.DiscardHandler), packed: packed, ping: time.Now().Add(time.Hour)}
	}
	return list
}

func TestFanOutCost(t *testing.T) {
	inBench(t)
	base := &watch.ListState{Sequence: 1, Rows: benchRows(5000)}
	changed := slices.Clone(base.Rows)
	for i := range changed {
		if i%5 == 0 { // those with CPU time
			changed[i].CPUPercent = proc.Some(changed[i].CPUPercent.Or(0) + 0.25)
		}
	}
	for _, tt := range []struct {
		name   string
		packed bool
		delta  bool
	}{
		{"delta, gzip", true, true},
		{"whole, gzip", true, false},
		{"delta, plain", false, true},
		{"whole, plain", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := viewers(t, 32, tt.packed)
			tick := func(to []*stream) func() {
				return func() {
					u := watch.ListUpdate{State: &watch.ListState{Sequence: 2, Rows: changed}}
					if tt.delta {
						u.Base = base
					}
					for _, st := range to {
						if err := sendList(st, u, watch.ListWant{}); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			ratio := medianRatio(t, 7, tick(all), tick(all[:1]))
			if ratio > 6 {
				t.Errorf("encoding for and sending to 32 viewers costs %.2f of one, want at most 6", ratio)
			}
		})
	}
}
