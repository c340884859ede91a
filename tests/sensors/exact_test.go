package sensors

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"procinsh/bpf"
)

// sums are bytes and operations of one process on one object.
type sums struct {
	wroteBytes, wrote, readBytes, read uint64
}

// expected is what a command moves through one object.
type expected struct {
	object  string
	process string // "" is main
	sums
	gap string // the word with which coverage admits that less is seen
}

// scenario is a command of the fixture and what it moves. Objects without figures
// must not show up at all.
type scenario struct {
	command string
	want    []expected
}

var scenarios = []scenario{
	{"files", []expected{
		{object: "data", sums: sums{50167, 6, 40229, 7}},
		{object: "copy"}, // by sendfile alone
	}},
	{"devices", []expected{
		{object: "zero", sums: sums{0, 0, 500, 5}},
		{object: "null", sums: sums{192, 3, 0, 0}},
		{object: "event"},
	}},
	{"unlinked", []expected{
		{object: "gone", sums: sums{300, 3, 300, 1}},
		{object: "memfd", sums: sums{246, 2, 50, 1}},
	}},
	{"roots", []expected{
		{object: "jailed", process: "jail", sums: sums{31, 1, 0, 0}},
		{object: "mounted", process: "mounts", sums: sums{77, 1, 0, 0}},
		{object: "bound", process: "mounts", sums: sums{78, 1, 0, 0}},
	}},
	{"namespaces", []expected{
		{object: "spaced", process: "pid namespace", sums: sums{41, 1, 0, 0}},
		{object: "timed", process: "time namespace", sums: sums{43, 1, 0, 0}},
		{object: "offsets", sums: sums{16, 1, 0, 0}},
	}},
	{"threads", []expected{
		{object: "threads", sums: sums{34, 2, 0, 0}},
		{object: "own table", sums: sums{19, 1, 0, 0}},
		{object: "leaderless", process: "leaderless", sums: sums{23, 1, 0, 0}},
	}},
	{"pipes", []expected{
		{object: "pipe", sums: sums{3060, 4, 3060, 3}},
		{object: "full", sums: sums{65536, 1, 65536, 2}},
		{object: "spliced from", sums: sums{500, 1, 200, 1}},
		{object: "spliced to", sums: sums{0, 0, 400, 1}},
		{object: "fifo", sums: sums{25, 2, 25, 1}},
	}},
	{"unix", []expected{
		{object: "stream out", sums: sums{240, 4, 0, 0}},
		{object: "stream in", sums: sums{0, 0, 240, 4}},
		{object: "datagram out", sums: sums{140, 2, 0, 0}},
		{object: "datagram in", sums: sums{0, 0, 50, 2}},
		{object: "packets out", sums: sums{500, 5, 0, 0}},
		{object: "packets in", sums: sums{0, 0, 500, 5}},
		{object: "many out", sums: sums{180, 3, 0, 0}, gap: "sendmmsg"},
		{object: "many in", sums: sums{0, 0, 180, 3}, gap: "recvmmsg"},
	}},
	{"tcp", []expected{
		{object: "tcp out", sums: sums{10000, 10, 0, 0}},
		{object: "tcp in", sums: sums{0, 0, 10700, 11}},
		{object: "sent", sums: sums{500, 1, 0, 0}},
		{object: "spliced into a socket", sums: sums{200, 1, 0, 0}},
	}},
	{"udp", []expected{
		{object: "udp out", sums: sums{533, 6, 0, 0}},
		{object: "udp in", sums: sums{0, 0, 773, 10}},
		{object: "udp many out", sums: sums{240, 4, 0, 0}, gap: "sendmmsg"},
		{object: "refused", sums: sums{12, 1, 0, 0}},
	}},
}

// transfers returns what is stated for a process and an object, and the paths.
func (w *windows) transfers(p id, o object) (s sums, paths []string) {
	for _, a := range w.get()[w.from:] {
		rows := a.IPC
		if o.kind == "file" {
			rows = a.Files
		}
		for _, r := range rows {
			if r.Process != p || !o.is(r.Resource) {
				continue
			}
			if r.Write {
				s.wroteBytes += r.Bytes
				s.wrote += r.Count
			} else {
				s.readBytes += r.Bytes
				s.read += r.Count
			}
			path := "null"
			if r.Path != nil {
				path = *r.Path
			}
			if o.kind == "file" && !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	return s, paths
}

func (s sums) String() string {
	return fmt.Sprintf("%d bytes written in %d operations and %d read in %d", s.wroteBytes, s.wrote, s.readBytes, s.read)
}

func (s sums) within(most sums) bool {
	return s.wroteBytes <= most.wroteBytes && s.wrote <= most.wrote && s.readBytes <= most.readBytes && s.read <= most.read
}

// pathRight says whether the paths of an object are what they must be: the one
// true path, or null where the sensor says that it cannot tell any.
func pathRight(s status, o object, paths []string) bool {
	if o.kind != "file" || len(paths) == 0 {
		return true
	}
	if s.covers("paths unavailable") {
		return slices.Equal(paths, []string{"null"})
	}
	// The kernel itself writes a memfd's path in both ways.
	return slices.Equal(paths, []string{o.path}) || strings.HasPrefix(o.path, "/memfd:") && slices.Equal(paths, []string{strings.TrimSuffix(o.path, " (deleted)")})
}

// settle waits until everything expected has arrived since the mark, then for two
// more windows, so that something that comes twice is seen too.
func settle(w *windows, r *runner, want []expected) error {
	w.t.Helper()
	check := func() error {
		s := w.status()
		for _, e := range want {
			p := r.main
			if e.process != "" {
				p = r.proc(e.process)
			}
			o := r.object(e.object)
			got, paths := w.transfers(p, o)
			switch {
			case e.gap != "" && s.covers(e.gap):
				if !got.within(e.sums) {
					return fmt.Errorf("%s: got %v, want at most %v: not all of %s is covered", e.object, got, e.sums, e.gap)
				}
			case got != e.sums:
				return fmt.Errorf("%s of %v: got %v, want %v (lost %d, files %d, unresolved %d)", e.object, p, got, e.sums, s.Lost, s.FilesLost, s.Unresolved)
			}
			if o.kind == "file" && got != (sums{}) && !pathRight(s, o, paths) {
				return fmt.Errorf("%s: got the paths %q, want %q", e.object, paths, o.path)
			}
		}
		return nil
	}
	gaps := w.gapped()
	if err := w.await(patience/2, func() error {
		if err := check(); err != nil && w.gapped() == gaps {
			return err // what a gap has swallowed is not waited for
		}
		return nil
	}); err != nil {
		return err
	}
	w.more(2)
	return check()
}

// perform gives the fixture a command and holds the windows to what it does.
func perform(w *windows, r *runner, command string, want []expected) {
	w.t.Helper()
	attempt(w, func() error {
		w.mark()
		r.do(command)
		if r.facts["NO_TIME_NAMESPACE"] != "" {
			w.t.Log("this kernel has no time namespaces")
			want = slices.DeleteFunc(slices.Clone(want), func(e expected) bool { return e.object == "timed" || e.object == "offsets" })
		}
		return settle(w, r, want)
	})
}

// noStrangers looks for activity of the fixture that it has not named.
func noStrangers(w *windows, r *runner) {
	w.t.Helper()
	pids := map[int]uint64{}
	for _, all := range r.procs {
		for _, p := range all {
			pids[p.PID] = p.Start
		}
	}
	for _, a := range w.get() {
		for _, x := range slices.Concat(a.IPC, a.Files) {
			if start, ours := pids[x.Process.PID]; ours && (start != x.Process.Start || !r.known(x.Resource)) {
				w.t.Errorf("a row of nothing that the fixture did (its start is %d): %+v", start, x)
			}
		}
	}
}

func exactly(t *testing.T, w *windows, r *runner) {
	t.Helper()
	w.observing()
	for _, s := range scenarios {
		perform(w, r, s.command, s.want)
	}
	noStrangers(w, r)
	for _, word := range []string{"splice", "sendfile", "io_uring", "mmap"} {
		if !w.status().covers(word) {
			t.Errorf("coverage does not say that %s is not counted: %q and %q", word, w.status().Coverage, w.status().FilesCoverage)
		}
	}
}

func root(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("not root: sensors and namespaces need it")
	}
}

// own is for tests of package bpf in this very process.
func own(t *testing.T) {
	t.Helper()
	root(t)
	if live != "" {
		t.Skip("judges a running server only")
	}
}

// Every byte and every operation, as the stream tells them.
func TestExact(t *testing.T) {
	root(t)
	w := watch(t, srv)
	exactly(t, w, begin(t))
	t.Logf("coverage: %q, files: %q", w.status().Coverage, w.status().FilesCoverage)
}

// A file has the path that it had when it was used.
func TestRenamed(t *testing.T) {
	root(t)
	w := watch(t, srv)
	w.observing()
	attempt(w, func() error {
		r := begin(t)
		at := func(o object, path string) (s sums) {
			for _, a := range w.get() {
				for _, x := range a.Files {
					if x.Process == r.main && o.is(x.Resource) && x.Path != nil && *x.Path == path {
						s.wroteBytes += x.Bytes
						s.wrote += x.Count
					}
				}
			}
			return s
		}
		r.do("rename1")
		before := r.object("moving")
		w.more(3) // in another window than what follows
		r.do("rename2")
		after := r.object("moving")
		w.more(3)
		if got := at(before, before.path); got != (sums{10, 1, 0, 0}) {
			return fmt.Errorf("%s: got %v, want 10 bytes in 1 operation", before.path, got)
		}
		if got := at(after, after.path); got != (sums{20, 1, 0, 0}) {
			return fmt.Errorf("%s: got %v, want 20 bytes in 1 operation", after.path, got)
		}
		noStrangers(w, r)
		return nil
	})
}

// The same figures from each way of counting that this kernel offers.
func TestExactByEveryWay(t *testing.T) {
	own(t)
	ways := []struct {
		name string
		o    bpf.Options
	}{
		{"no fentry", bpf.Options{WithoutFentry: true}},
		{"no fentry, no kfuncs", bpf.Options{WithoutFentry: true, WithoutKfuncs: true}},
		{"no socket lengths", bpf.Options{WithoutLengths: true}},
		{"no socket lengths, no fentry", bpf.Options{WithoutLengths: true, WithoutFentry: true}},
		{"no socket lengths, no fentry, no kfuncs", bpf.Options{WithoutLengths: true, WithoutFentry: true, WithoutKfuncs: true}},
		{"no path walk", bpf.Options{WithoutPathWalk: true}},
	}
	if testing.Short() && vm != "" { // each takes a while there; package bpf's own tests have them all too
		ways = ways[:1]
	}
	for _, c := range ways {
		t.Run(c.name, func(t *testing.T) {
			if vm == "" { // an emulated machine has no power for two
				t.Parallel()
			}
			w := drain(t, c.o)
			exactly(t, w, begin(t))
			t.Logf("coverage: %q, files: %q", w.status().Coverage, w.status().FilesCoverage)
		})
	}
}

func storm(t *testing.T, w *windows) {
	t.Helper()
	w.observing()
	before := w.status()
	busy := begin(t)
	busy.send("compute 2 3000") // others want the processors too
	const n = 500_000
	perform(w, begin(t), fmt.Sprintf("storm %d", n), []expected{
		{object: "zero", sums: sums{0, 0, n, n}},
		{object: "pipe", sums: sums{n / 2 * 3, n / 2, n / 2 * 3, n / 2}},
		{object: "stream out", sums: sums{n / 4 * 5, n / 4, 0, 0}},
		{object: "stream in", sums: sums{0, 0, n / 4 * 5, n / 4}},
	})
	busy.answer("compute")
	after := w.status()
	t.Logf("lost meanwhile, of all processes: %d, files %d", after.Lost-before.Lost, after.FilesLost-before.FilesLost)
}

// A million and a quarter of operations while others compute: none is lost.
func TestNothingLost(t *testing.T) {
	root(t)
	storm(t, watch(t, srv))
}

// Three thousand files in a moment: each has its bytes and its own path.
func TestManyFiles(t *testing.T) {
	root(t)
	w := watch(t, srv)
	w.observing()
	const n = 3000
	attempt(w, func() error {
		r, before := begin(t), w.status().FilesLost
		w.mark()
		r.do(fmt.Sprintf("many %d", n))
		w.more(3)
		bytes, count, files, without := uint64(0), uint64(0), map[string]uint64{}, 0
		for _, a := range w.get()[w.from:] {
			for _, x := range a.Files {
				if x.Process != r.main || !x.Write || !strings.HasPrefix(x.Resource, "file:"+strings.ReplaceAll(r.facts["MANY"], " ", ":")+":") {
					continue
				}
				bytes += x.Bytes
				count += x.Count
				if x.Path == nil {
					without++
					continue
				}
				files[*x.Path] += x.Bytes
			}
		}
		lost := w.status().FilesLost - before
		t.Logf("%d files with a path, %d without, lost %d", len(files), without, lost)
		if bytes != 10*count || count > n || count+lost < n {
			return fmt.Errorf("%d bytes in %d operations, %d lost; want %d operations of 10 bytes, or the rest as lost", bytes, count, lost, n)
		}
		for path, n := range files {
			if !strings.HasPrefix(path, r.facts["DIR"]+"/file-") || n != 10 {
				return fmt.Errorf("%s: got %d bytes, want 10 in a file of %s", path, n, r.facts["DIR"])
			}
		}
		return nil
	})
}

// With tables that are far too small, everything that found no place is counted.
func TestEveryLossCounted(t *testing.T) {
	own(t)
	w := drain(t, bpf.Options{TableSlots: 2, SpillEntries: 8})
	w.observing()
	r := begin(t)
	before := w.status().FilesLost
	const n = 3000
	r.do(fmt.Sprintf("many %d", n))
	var seen, lost uint64
	if err := w.await(patience/2, func() error {
		seen = 0
		for _, a := range w.get() {
			for _, x := range a.Files {
				if x.Process == r.main && x.Write && strings.HasPrefix(x.Resource, "file:"+strings.ReplaceAll(r.facts["MANY"], " ", ":")+":") {
					seen += x.Count
				}
			}
		}
		lost = w.status().FilesLost - before
		if seen+lost < n {
			return fmt.Errorf("%d operations seen and %d lost, want %d together", seen, lost, n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if lost == 0 || seen > n {
		t.Errorf("%d operations seen and %d lost: tables of two slots cannot hold %d files", seen, lost, n)
	}
	t.Logf("%d seen, %d lost", seen, lost)
}
