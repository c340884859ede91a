package cases

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"procinsh/api"
)

// shown starts one of the programs of tests/targets.
func shown(t *testing.T, name string, args ...string) *Case {
	t.Helper()
	return begin(t, exec.Command(build(t, "../targets/"+name+".c"), append(args, "--stdin")...))
}

func TestTargetChannels(t *testing.T) {
	c := shown(t, "channels")
	child := identity(t, c.Int("CHILD_PID"))
	e, _ := descriptors(t, c.ID)
	o, _ := descriptors(t, child)
	for _, k := range []struct{ key, kind, protocol, relation string }{
		{"PIPE", "pipe", "", "pipe_end"},
		{"FIFO", "fifo", "", "pipe_end"},
		{"STREAM", "socket", "UNIX STREAM", "unix_peer"},
		{"DGRAM", "socket", "UNIX DGRAM", "unix_peer"},
		{"SEQPACKET", "socket", "UNIX SEQPACKET", "unix_peer"},
		{"PATH", "socket", "UNIX STREAM", "unix_peer"},
		{"ABSTRACT", "socket", "UNIX STREAM", "unix_peer"},
		{"TCP", "socket", "TCP", "address_candidate"},
		{"TCP6", "socket", "TCP6", "address_candidate"},
		{"UDP", "socket", "UDP", "address_candidate"},
	} {
		if c.Facts[k.key+"_FD"] == "" {
			t.Logf("%s: not on this kernel", k.key)
			continue
		}
		mine, theirs := int32(c.Int(k.key+"_FD")), int32(c.Int(k.key+"_CHILD_FD"))
		d, x := e[mine], o[theirs]
		is(t, k.key+": kind, inode", []any{d.Kind, d.Inode}, []any{k.kind, c.Facts[k.key+"_INODE"]})
		if k.protocol != "" {
			is(t, k.key+": protocol", d.Protocol, k.protocol)
		} else {
			is(t, k.key+": protocol", d.Protocol, nil)
		}
		is(t, k.key+": peers", ends(d.Peers), []end{{child.PID, theirs}})
		is(t, k.key+": relation", relations(d.Peers), []string{k.relation})
		is(t, k.key+": peers of the child", ends(x.Peers), []end{{c.ID.PID, mine}})
		is(t, k.key+": holders", ends(d.Holders), []end{})
		if k.kind != "socket" {
			is(t, k.key+": access", []any{d.Access, x.Access}, []any{"write", "read"})
		}
	}
	is(t, "path of the listener", e[int32(c.Int("PATH_LISTEN_FD"))].Local, c.Facts["SOCKET_PATH"])
	is(t, "abstract name", e[int32(c.Int("ABSTRACT_LISTEN_FD"))].Local, fmt.Sprintf("@procinsh-target-%d", c.ID.PID))
	is(t, "path of the FIFO", e[int32(c.Int("FIFO_FD"))].Target, c.Facts["FIFO_PATH"])
}

// Where each thread waits, without stopping it.
func TestTargetSleep(t *testing.T) {
	c := shown(t, "sleep")
	byTID := map[int32]api.Thread{}
	for _, th := range get[[]api.Thread](t, "threads", c.ID) {
		byTID[th.TID] = th
	}
	is(t, "threads", len(byTID), int(c.Int("THREADS")))
	for key := range c.Facts {
		call, ok := strings.CutPrefix(key, "TID_")
		if !ok {
			continue
		}
		th := byTID[int32(c.Int(key))]
		is(t, call+": state", th.State, "S")
		if th.Syscall == nil {
			t.Errorf("%s: syscall is null", call)
			continue
		}
		want := []string{call}
		if call == "epoll_wait" {
			want = append(want, "epoll_pwait")
		}
		if !slices.Contains(want, *th.Syscall) {
			t.Errorf("%s: syscall %q", call, *th.Syscall)
		}
		if th.WaitChannel == nil || *th.WaitChannel == "" || *th.WaitChannel == "0" {
			t.Errorf("%s: wait_channel %v", call, value(th.WaitChannel))
		}
	}
}

func TestTargetMmap(t *testing.T) {
	c := shown(t, "mmap")
	m := get[api.MapsAnswer](t, "maps", c.ID)
	file := c.Facts["FILE_PATH"]
	for _, k := range []struct {
		key, permissions string
		path             any
		deleted          any
		rss              uint64
	}{
		{"SHARED_FILE", "rw-s", file, false, 4096},
		{"PRIVATE_FILE", "rw-p", file, false, 4096},
		{"MEMFD", "rw-s", "/memfd:a memfd (deleted)", true, 4096},
		{"GUARD", "---p", nil, nil, 0},
		{"EXECUTABLE", "r-xp", nil, nil, 4096},
	} {
		r := region(t, m.Maps, c.Int(k.key))
		is(t, k.key+": permissions, pathname", []any{r.Permissions, r.Pathname}, []any{k.permissions, k.path})
		if k.deleted != nil {
			is(t, k.key+": deleted", r.Deleted, k.deleted)
		}
		is(t, k.key+": start, rss", []any{r.Start, r.RSSBytes}, []any{fmt.Sprintf("0x%016x", c.Int(k.key)), k.rss})
	}
	del := region(t, m.Maps, c.Int("DELETED_FILE"))
	is(t, "deleted file", del.Deleted, true)

	read := func(address int64, length string) api.MemoryAnswer {
		return get[api.MemoryAnswer](t, "memory", c.ID, "address", fmt.Sprintf("%#x", address), "length", length)
	}
	v := read(c.Int("VALUES"), "48")
	text := fmt.Sprintf("%x", "a string, then numbers")
	is(t, "memory: text", v.Bytes[:len(text)], text)
	is(t, "memory: a number", v.Bytes[64:80], "efcdab8967452301")
	edge := c.Int("EDGE")
	off := read(edge+4096-16, "64")
	is(t, "memory across the end: bytes, partial", []any{off.Bytes, off.Partial, off.RequestedLength}, []any{strings.Repeat("65", 16), true, 64})
	b, code, err := srv.Raw("/api/processes/memory", query(c.ID, "address", fmt.Sprintf("%#x", c.Int("GUARD"))))
	if err != nil {
		t.Fatal(err)
	}
	is(t, "memory of a guard: status", code, 422)
	clear(t, "memory of a guard", b)
}

// usedCPU gives a function that says how much CPU a thread has used since, in percent
// of one core, by the kernel's own count.
func usedCPU(t *testing.T, pid, tid int32) func() float64 {
	t.Helper()
	path := fmt.Sprintf("/proc/%d/task/%d/schedstat", pid, tid)
	read := func() (ns int64) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(string(b), &ns); err != nil {
			t.Fatalf("%s: %q: %v", path, b, err)
		}
		return ns
	}
	before, began := read(), time.Now()
	return func() float64 { return float64(read()-before) / float64(time.Since(began)) * 100 }
}

// aboutCPU compares what a stream said with what the kernel counted around it: the
// windows are nearly the same, and a busy machine changes both.
func aboutCPU(t *testing.T, what string, said []float64, used float64) {
	t.Helper()
	sum := 0.0
	for _, p := range said {
		sum += p
	}
	mean := sum / float64(len(said))
	if used == 0 || mean < used*0.6-1 || mean > used*1.6+1 {
		t.Errorf("%s: CPU %v, mean %.1f, the kernel counted %.1f", what, said, mean, used)
	}
}

func TestTargetCompute(t *testing.T) {
	c := shown(t, "compute", "--threads", "1", "--percent", "30")
	worker := int32(c.Int("WORKER0_TID"))
	var process, thread []float64
	spent := usedCPU(t, c.ID.PID, worker)
	events := observations(t, c.ID, 6)
	used := spent()
	for i, e := range events {
		if i == 0 || e.Observation == nil {
			continue
		}
		if p := e.Observation.CPUPercent; p != nil {
			process = append(process, *p)
		}
		for _, th := range e.Observation.Threads {
			if th.TID == worker && th.CPUPercent != nil {
				thread = append(thread, *th.CPUPercent)
			}
		}
	}
	for name, all := range map[string][]float64{"process": process, "thread": thread} {
		if len(all) < 4 {
			t.Fatalf("%s: %d values of CPU, want one an event after the first", name, len(all))
		}
		aboutCPU(t, name, all, used)
	}
}

// Threads that come and go never make a rate negative or a thread appear twice.
func TestTargetThreads(t *testing.T) {
	c := shown(t, "threads", "--rate", "400", "--life-ms", "30")
	for _, e := range observations(t, c.ID, 6) {
		if e.Observation == nil {
			t.Fatalf("no observation: %v", value(e.Error))
		}
		last := int32(0)
		for _, th := range e.Observation.Threads {
			if th.TID <= last {
				t.Fatalf("threads are not in order: %d after %d", th.TID, last)
			}
			last = th.TID
			if th.CPUPercent != nil && *th.CPUPercent < 0 {
				t.Errorf("thread %d: CPU %f", th.TID, *th.CPUPercent)
			}
		}
		for what, r := range map[string]*float64{"voluntary": e.Observation.Rates.VoluntaryContextSwitches, "nonvoluntary": e.Observation.Rates.NonvoluntaryContextSwitches,
			"minor faults": e.Observation.Rates.MinorFaults} {
			if r != nil && *r < 0 {
				t.Errorf("rate of %s: %f", what, *r)
			}
		}
		if n := len(e.Observation.Threads); n < 1+int(c.Int("STEADY")) {
			t.Errorf("%d threads, want at least the %d steady ones", n, 1+c.Int("STEADY"))
		}
	}
}

func TestTargetRecurse(t *testing.T) {
	c := shown(t, "recurse")
	a := get[api.MemoryAnswer](t, "memory", c.ID, "address", c.Facts["THREAD0_LOCAL"], "length", "8")
	is(t, "a local variable at the bottom", a.Bytes, "efcdab8967452301")
}

func TestTargetAllocate(t *testing.T) {
	c := shown(t, "allocate", "--mib", "64", "--steps", "2", "--step-ms", "60000")
	before := get[api.Observation](t, "observation", c.ID)
	if before.VMSBytes == nil || *before.VMSBytes < 64<<20 {
		t.Errorf("vms_bytes: %v", value(before.VMSBytes))
	}
	c.Send("report")
	is(t, "touched", c.Int("TOUCHED_BYTES"), 0)
	if before.RSSBytes == nil || *before.RSSBytes > 32<<20 {
		t.Errorf("rss_bytes: %v with nothing touched", value(before.RSSBytes))
	}
}

// The counters of this target are exact: what is asked for is done, once.
func TestTargetActivity(t *testing.T) {
	c := shown(t, "activity")
	for range 2 {
		c.Send("all 10 1000")
	}
	for _, k := range []string{"PIPE", "UNIX", "TCP", "FILE"} {
		is(t, k+": writes", []int64{c.Int(k + "_WRITE_CALLS"), c.Int(k + "_WRITE_BYTES"), c.Int(k + "_READ_BYTES")}, []int64{20, 20_000, 20_000})
	}
}
