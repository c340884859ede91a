// Package cases judges a real server by targets that have broken tools of this
// kind: names that look like fields, processes without a command line, a leader
// that has ended, sockets whose other end no path names.
//
// Each condition is a C program of testdata, built with what tests/targets
// shares, or a combination of system calls made here. What is right is what the
// kernel says, read beside the server, or what the target did.
package cases

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"procinsh/api"
	"procinsh/tests/server"
)

var (
	srv  *server.Server
	work string // built programs
)

func TestMain(m *testing.M) { os.Exit(with(m)) }

func with(m *testing.M) int {
	var err error
	if work, err = os.MkdirTemp("", "procinsh-cases-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(work)
	exe, err := server.Build(work)
	if err == nil {
		srv, err = server.Start(exe)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	log := srv.Log()
	if err := srv.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop:", err)
		code = 1
	}
	for line := range strings.Lines(log) {
		if strings.Contains(line, "level=ERROR") { // a 5xx or a worker that died
			fmt.Fprint(os.Stderr, "the server logged: ", line)
			code = 1
		}
	}
	return code
}

var (
	buildMu sync.Mutex
	built   = map[string]string{}
)

// build compiles a C program of this folder's testdata or of the targets.
func build(t *testing.T, source string) string {
	t.Helper()
	return buildAs(t, strings.TrimSuffix(filepath.Base(source), ".c"), "gcc", "-g", source)
}

// buildAs compiles a program under a name of its own.
func buildAs(t *testing.T, name, compiler string, args ...string) string {
	t.Helper()
	buildMu.Lock()
	defer buildMu.Unlock()
	if exe := built[name]; exe != "" {
		return exe
	}
	if _, err := exec.LookPath(compiler); err != nil {
		t.Fatalf("no %s: the targets of these tests are C programs", compiler)
	}
	exe := filepath.Join(work, name)
	args = append([]string{"-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-I../targets", "-o", exe}, args...)
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", compiler, args, err, out)
	}
	built[name] = exe
	return exe
}

// Case is a running target and what it says of itself.
type Case struct {
	t     *testing.T
	ID    api.Identity
	Facts map[string]string
	in    io.WriteCloser
	out   *bufio.Reader
}

// target builds and starts testdata/NAME.c.
func target(t *testing.T, name string, args ...string) *Case {
	t.Helper()
	return begin(t, exec.Command(build(t, "testdata/"+name+".c"), args...))
}

// begin starts a target, waits until it is ready and ends it with the test.
func begin(t *testing.T, cmd *exec.Cmd) *Case {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		timer := time.AfterFunc(5*time.Second, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		io.Copy(io.Discard, out)
		cmd.Wait()
		timer.Stop()
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // children that the target left
	})
	c := &Case{t: t, Facts: map[string]string{}, in: in, out: bufio.NewReader(out)}
	c.read("READY")
	if s := c.Facts["SKIP"]; s != "" {
		t.Skip(s)
	}
	if c.Facts["READY"] != "1" {
		cmd.Wait()
		t.Fatalf("the target %s never got ready: %s", cmd.Path, complaints.String())
	}
	c.ID = identity(t, c.Int("PID"))
	readyMu.Lock()
	readyAt = time.Now()
	readyMu.Unlock()
	return c
}

// readyAt is when the last target got ready.
var (
	readyMu sync.Mutex
	readyAt time.Time
)

func (c *Case) read(until string) {
	deadline := time.AfterFunc(30*time.Second, func() { c.in.Close() })
	defer deadline.Stop()
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			return
		}
		k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		c.Facts[k] = v
		if k == until || k == "SKIP" {
			return
		}
	}
}

// Send gives the target one line and waits for the facts it answers with.
func (c *Case) Send(line string) {
	c.t.Helper()
	delete(c.Facts, "DONE")
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
	c.read("DONE")
	if c.Facts["DONE"] != "1" {
		c.t.Fatalf("the target did not do %q: %v", line, c.Facts)
	}
}

// Int returns a fact that is a number, decimal or 0x hex.
func (c *Case) Int(key string) int64 {
	c.t.Helper()
	n, err := strconv.ParseInt(c.Facts[key], 0, 64)
	if err != nil {
		c.t.Fatalf("fact %s: %v", key, err)
	}
	return n
}

// identity asks the kernel, not the server.
func identity(t *testing.T, pid int64) api.Identity {
	t.Helper()
	f := statFields(t, fmt.Sprintf("/proc/%d/stat", pid))
	ticks, err := strconv.ParseUint(f[19], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return api.Identity{PID: int32(pid), StartTimeTicks: ticks}
}

// statFields are the fields of a stat file from the state on.
func statFields(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

func query(id api.Identity, more ...string) url.Values {
	q := url.Values{"pid": {strconv.Itoa(int(id.PID))}, "start_time_ticks": {strconv.FormatUint(id.StartTimeTicks, 10)}}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return q
}

// get asks /api/processes/WHAT about one process.
func get[T any](t *testing.T, what string, id api.Identity, more ...string) T {
	t.Helper()
	var v T
	if err := srv.Get("/api/processes/"+what, query(id, more...), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func processes(t *testing.T) []api.ProcessSummary {
	t.Helper()
	var rows []api.ProcessSummary
	if err := srv.Get("/api/processes", nil, &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// listed returns the row of a process. A list may be as old as the interval and
// show a target before it was ready, even before its exec, so this waits until
// none can.
func listed(t *testing.T, id api.Identity) api.ProcessSummary {
	t.Helper()
	readyMu.Lock()
	since := readyAt
	readyMu.Unlock()
	time.Sleep(time.Until(since.Add(1100 * time.Millisecond)))
	for range 30 {
		for _, r := range processes(t) {
			if r.Identity == id {
				return r
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("process %+v is not in the list", id)
	panic("unreachable")
}

// observations reads n events of the process's stream.
func observations(t *testing.T, id api.Identity, n int) []api.ObservationEvent {
	t.Helper()
	var all []api.ObservationEvent
	err := srv.Events("/api/processes/events", query(id), 30*time.Second, func(e server.Event) bool {
		var o api.ObservationEvent
		if e.Name != "observation" {
			t.Errorf("event %q on the observation stream", e.Name)
		} else if err := json.Unmarshal(e.Data, &o); err != nil {
			t.Errorf("observation event: %v", err)
		}
		all = append(all, o)
		return len(all) < n
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("observation stream: %d events, %v", len(all), err)
	}
	return all
}

// descriptors returns the entries by number.
func descriptors(t *testing.T, id api.Identity) (map[int32]api.Descriptor, []string) {
	t.Helper()
	a := get[api.DescriptorsAnswer](t, "fds", id)
	m := map[int32]api.Descriptor{}
	for i, d := range a.Entries {
		if i > 0 && a.Entries[i-1].FD >= d.FD {
			t.Errorf("descriptors are not in order: %d before %d", a.Entries[i-1].FD, d.FD)
		}
		m[d.FD] = d
	}
	return m, a.Warnings
}

// end is one endpoint in short.
type end struct{ pid, fd int32 }

func ends(es []api.Endpoint) []end {
	all := []end{}
	for _, e := range es {
		all = append(all, end{e.ProcessID.PID, e.FD})
	}
	slices.SortFunc(all, func(a, b end) int {
		if a.pid != b.pid {
			return int(a.pid) - int(b.pid)
		}
		return int(a.fd) - int(b.fd)
	})
	return all
}

func relations(es []api.Endpoint) []string {
	var all []string
	for _, e := range es {
		if !slices.Contains(all, e.Relation) {
			all = append(all, e.Relation)
		}
	}
	slices.Sort(all)
	return all
}

func value[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// is fails when a value is not the one that is right. Pointers are compared by
// what they point to.
func is(t *testing.T, what string, got, want any) {
	t.Helper()
	g, err1 := json.Marshal(got)
	w, err2 := json.Marshal(want)
	if err1 != nil || err2 != nil {
		t.Fatalf("%s: %v %v", what, err1, err2)
	}
	if !bytes.Equal(g, w) {
		t.Errorf("%s: got %.300s, want %.300s", what, g, w)
	}
}

// lossy is what JSON shows of raw bytes: each byte that is no UTF-8 becomes U+FFFD.
func lossy(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		b.WriteRune(r)
		s = s[n:]
	}
	return b.String()
}

// everything asks all endpoints about one process; each must answer 200.
func everything(t *testing.T, id api.Identity) {
	t.Helper()
	for _, what := range []string{"observation", "threads", "maps", "fds", "environment", "auxv", "signals", "context"} {
		get[any](t, what, id)
	}
	observations(t, id, 1)
}

// complete fails when a process that /proc showed before and after the list is
// missing from it.
func complete(t *testing.T) {
	t.Helper()
	before := pids(t)
	time.Sleep(1100 * time.Millisecond) // a list is at most one interval old
	have := map[int32]bool{}
	for _, r := range processes(t) {
		have[r.Identity.PID] = true
	}
	after := pids(t)
	for pid := range before {
		if after[pid] == before[pid] && !have[pid] {
			t.Errorf("process %d is missing from the list", pid)
		}
	}
}

// pids maps every process that is no zombie to its start time.
func pids(t *testing.T) map[int32]string {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	all := map[int32]string{}
	for _, n := range names {
		b, err := os.ReadFile(n + "/stat")
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if pid, err := strconv.Atoi(filepath.Base(n)); err == nil && len(f) > 19 && f[0] != "Z" {
			all[int32(pid)] = f[19]
		}
	}
	return all
}

func lines(t *testing.T, path string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(b, []byte{'\n'})
}

// needRoot skips what only root can make, by its name.
func needRoot(t *testing.T, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: " + why)
	}
}
