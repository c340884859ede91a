package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func readSample(t testing.TB, fs *FS, id ID, s *Sample) {
	t.Helper()
	p, err := fs.OpenProcess(id)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.ReadSample(s); err != nil {
		t.Fatal(err)
	}
}

func TestReadSample(t *testing.T) {
	var got Sample
	readSample(t, openFixture(t, "threads"), ID{25564, 177957}, &got)
	if got.At.IsZero() {
		t.Error("no time")
	}
	got.At = Sample{}.At
	affinity := Some("0-1")
	want := Sample{
		ID: ID{25564, 177957}, State: 'S', CPUTicks: 187,
		RSS: Some[uint64](333 * 4096), VMS: Some[uint64](4717 * 4096), Swap: Some[uint64](0),
		MinorFaults: 61, VoluntarySwitches: Some[uint64](2), NonvoluntarySwitches: Some[uint64](299),
		IO: Some(IO{}), CPU: 1, Priority: 20,
		Threads: []Thread{
			{
				TID: 25564, StartTicks: 177957, Name: "threads", State: 'S', CPU: 1, Priority: 20, Scheduler: "OTHER", Affinity: affinity,
				VoluntarySwitches: Some[uint64](1), NonvoluntarySwitches: Some[uint64](0), WaitChannel: Some("futex_do_wait"), Syscall: Some("futex"),
			},
			{
				TID: 25567, StartTicks: 177957, Name: "sleeper", State: 'S', Priority: 20, Scheduler: "BATCH", Affinity: affinity,
				VoluntarySwitches: Some[uint64](1), NonvoluntarySwitches: Some[uint64](0), WaitChannel: Some("__do_sys_pause"), Syscall: Some("pause"),
			},
			{
				TID: 25568, StartTicks: 177957, Name: "x) Z 0 (y", State: 'R', CPU: 1, CPUTicks: 187, Priority: 20, Scheduler: "OTHER", Affinity: Some("1"),
				VoluntarySwitches: Some[uint64](0), NonvoluntarySwitches: Some[uint64](299),
			},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestSleepingThreadsAreAskedOnce(t *testing.T) {
	dir := copyFixture(t, "threads")
	p, err := openTree(t, dir).OpenProcess(ID{25564, 177957})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var s Sample
	read := func() Thread {
		t.Helper()
		if err := p.ReadSample(&s); err != nil {
			t.Fatal(err)
		}
		return s.Threads[0]
	}
	file := func(name string) string { return filepath.Join(dir, "25564/task/25564", name) }
	first := read()
	edit(t, file("syscall"), "202 ", "0 ")
	edit(t, file("wchan"), "futex_do_wait", "pipe_read")
	if got := read(); got != first {
		t.Errorf("without a switch: %+v, want %+v", got, first)
	}
	for _, counter := range []string{"nonvoluntary_ctxt_switches:\t0", "\nvoluntary_ctxt_switches:\t1"} {
		edit(t, file("status"), counter, counter+"7")
		want := "read"
		if counter[0] == '\n' {
			edit(t, file("syscall"), "0 ", "1 ")
			want = "write"
		}
		if got := read(); got.Syscall != Some(want) || got.WaitChannel != Some("pipe_read") {
			t.Errorf("after a switch: %+v, want %s", got, want)
		}
	}
	edit(t, file("syscall"), "1 ", "3 ")
	edit(t, file("stat"), ") S ", ") D ")
	if got := read(); got.Syscall != Some("close") {
		t.Errorf("in another state: %+v", got)
	}
	edit(t, file("stat"), ") D ", ") R ")
	if got := read(); got.Syscall.Known() || got.WaitChannel.Known() {
		t.Errorf("running: %+v", got)
	}
}

func TestReadSampleOfAZombieLeader(t *testing.T) {
	var got Sample
	readSample(t, openFixture(t, "zombie-leader"), ID{25563, 177957}, &got)
	if got.State != 'S' || got.RSS != Some[uint64](398*4096) || got.VMS != Some[uint64](4749*4096) || !got.Swap.Known() {
		t.Errorf("got %+v", got)
	}
	if len(got.Threads) != 3 || got.Threads[0].State != 'Z' || got.Threads[0].WaitChannel.Known() || got.Threads[1].Name != "sleeper" || got.Threads[2].Name != "poller" {
		t.Errorf("threads %+v", got.Threads)
	}
}

func TestReadSampleReuse(t *testing.T) {
	dir := copyFixture(t, "threads")
	fs := openTree(t, dir)
	id := ID{25564, 177957}
	var s, fresh Sample
	readSample(t, fs, id, &s)
	first := s.Threads
	if err := os.RemoveAll(filepath.Join(dir, "25564/task/25567")); err != nil {
		t.Fatal(err)
	}
	edit(t, filepath.Join(dir, "25564/task/25568/stat"), "(x) Z 0 (y)", "(renamed)")
	os.Remove(filepath.Join(dir, "25564/task/25568/status"))
	edit(t, filepath.Join(dir, "25564/task/25564/status"), "Cpus_allowed_list:\t0-1", "Cpus_allowed_list:\t1")
	edit(t, filepath.Join(dir, "25564/task/25564/wchan"), "futex_do_wait", "0")
	edit(t, filepath.Join(dir, "25564/task/25564/syscall"), "202 ", "-1 ")
	os.Remove(filepath.Join(dir, "25564/io"))
	readSample(t, fs, id, &s)
	readSample(t, fs, id, &fresh)
	s.At, fresh.At = first0, first0
	if !reflect.DeepEqual(s, fresh) {
		t.Errorf("a sample that was used before differs:\n%+v\n%+v", s, fresh)
	}
	if &first[0] != &s.Threads[0] {
		t.Error("the slice was not used again")
	}
	// The thread whose status went is taken to have ended meanwhile.
	if len(s.Threads) != 1 || s.Threads[0].Affinity != Some("1") || s.Threads[0].WaitChannel.Known() || s.Threads[0].Syscall.Known() || s.IO.Known() {
		t.Errorf("got %+v", s)
	}
}

var first0 = Sample{}.At

func TestReadSampleTruncates(t *testing.T) {
	dir := copyFixture(t, "threads")
	task := filepath.Join(dir, "25564/task")
	for tid := 100000; tid < 100000+maxThreads-2; tid++ {
		if err := os.Symlink("25567", filepath.Join(task, fmt.Sprint(tid))); err != nil {
			t.Fatal(err)
		}
	}
	p, err := openTree(t, dir).OpenProcess(ID{25564, 177957})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var s Sample
	if err := p.ReadSample(&s); err != nil {
		t.Fatal(err)
	}
	if !s.ThreadsTruncated || len(s.Threads) != maxThreads || s.VoluntarySwitches.Known() || s.NonvoluntarySwitches.Known() {
		t.Errorf("%d threads, truncated %v, switches %+v", len(s.Threads), s.ThreadsTruncated, s.VoluntarySwitches)
	}
	for i := 1; i < len(s.Threads); i++ {
		if s.Threads[i-1].TID >= s.Threads[i].TID {
			t.Fatalf("thread %d after %d", s.Threads[i].TID, s.Threads[i-1].TID)
		}
	}
	if err := os.Remove(filepath.Join(task, "100000")); err != nil {
		t.Fatal(err)
	}
	if err := p.ReadSample(&s); err != nil {
		t.Fatal(err)
	}
	if s.ThreadsTruncated || len(s.Threads) != maxThreads || !s.VoluntarySwitches.Known() {
		t.Errorf("%d threads, truncated %v", len(s.Threads), s.ThreadsTruncated)
	}
}

func TestLiveSample(t *testing.T) {
	fs := live(t)
	tg := startTarget(t, nil, "thread")
	var s Sample
	readSample(t, fs, idOf(t, fs, tg.cmd.Process.Pid), &s)
	if len(s.Threads) < 2 || s.RSS.Or(0) == 0 || s.VMS.Or(0) == 0 || !s.Swap.Known() || !s.VoluntarySwitches.Known() {
		t.Errorf("got %+v", s)
	}
	found, asleep := false, 0
	for _, th := range s.Threads {
		if int(th.TID) == tg.number("TID") {
			found = true
		}
		if th.Name == "" || th.Affinity.Or("") == "" || th.Scheduler != "OTHER" || th.StartTicks == 0 {
			t.Errorf("thread %+v", th)
		}
		if th.State == 'S' && th.Syscall.Known() && th.WaitChannel.Known() {
			asleep++ // one that woke up meanwhile has neither
		}
	}
	if asleep == 0 && os.Geteuid() == 0 {
		t.Errorf("no thread sleeps in a system call: %+v", s.Threads)
	}
	if !found {
		t.Errorf("thread %s is missing", tg.facts["TID"])
	}
}

func TestSyscallName(t *testing.T) {
	for _, c := range []struct {
		text        string
		amd64, i386 string
	}{
		{"0 0x3 0x7f 0x0\n", "read", "restart_syscall"},
		{"202 0x7f877a23f990 0x109 0x0\n", "futex", "getegid32"},
		{"232", "epoll_wait", "listxattr"},
		{"435 0x0", "clone3", "clone3"},
		{"1073741825 0x1\n", "write", "exit"}, // x32
		{"running\n", "", ""}, {"-1 0x7ffe 0x7f\n", "", ""}, {"", "", ""}, {"99999 0x0\n", "", ""}, {"12x", "", ""}, {"18446744073709551616", "", ""},
	} {
		for table, want := range map[*[]string]string{&syscallsAMD64: c.amd64, &syscalls386: c.i386} {
			got := syscallName([]byte(c.text), *table)
			if got.Known() != (want != "") || got.Or("") != want {
				t.Errorf("%q: got %+v, want %q", c.text, got, want)
			}
		}
	}
}

func TestSyscallTablesFollowTheExecutable(t *testing.T) {
	dir := copyFixture(t, "threads")
	fs := openTree(t, dir)
	exe := filepath.Join(dir, "25564/exe")
	id := ID{25564, 177957}
	for _, c := range []struct{ head, want string }{
		{"\x7fELF\x01", "getegid32"}, {"\x7fELF\x02", "futex"}, {"#!/bin", "futex"}, {"", "futex"},
	} {
		os.Remove(exe)
		writeFile(t, exe, c.head)
		var s Sample
		readSample(t, fs, id, &s)
		if got := s.Threads[0].Syscall; got != Some(c.want) {
			t.Errorf("exe %q: %+v, want %s", c.head, got, c.want)
		}
	}
	// After exec the handle looks again.
	p, err := fs.OpenProcess(id)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var s Sample
	if err := p.ReadSample(&s); err != nil {
		t.Fatal(err)
	}
	writeFile(t, exe, "\x7fELF\x01")
	edit(t, filepath.Join(dir, "25564/stat"), "140729871281056", "140729871280000")
	edit(t, filepath.Join(dir, "25564/task/25564/status"), "\nvoluntary_ctxt_switches:\t1", "\nvoluntary_ctxt_switches:\t9") // it ran
	if err := p.ReadSample(&s); err != nil || s.Threads[0].Syscall != Some("getegid32") {
		t.Errorf("after exec: %+v, %v", s.Threads[0].Syscall, err)
	}
}

func TestScheduler(t *testing.T) {
	for policy, want := range []string{"OTHER", "FIFO", "RR", "BATCH", "UNKNOWN", "IDLE", "DEADLINE", "EXT", "UNKNOWN"} {
		if got := scheduler(uint32(policy)); got != want {
			t.Errorf("policy %d: %s, want %s", policy, got, want)
		}
	}
}

func TestParseWchan(t *testing.T) {
	for text, want := range map[string]string{"": "", "0": "", "0\n": "", "\n": "", "do_epoll_wait": "do_epoll_wait", "pipe_read\n": "pipe_read"} {
		if got := parseWchan([]byte(text)); string(got) != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestMoreActive(t *testing.T) {
	for _, c := range []struct{ a, b, want byte }{
		{'Z', 'S', 'S'}, {'S', 'R', 'R'}, {'R', 'S', 'R'}, {'S', 'D', 'D'}, {'T', 'S', 'S'}, {'Z', 'Z', 'Z'}, {'X', '?', '?'}, {'?', 'I', 'I'}, {'Z', 'X', 'Z'},
	} {
		if got := moreActive(c.a, c.b); got != c.want {
			t.Errorf("%c and %c: %c, want %c", c.a, c.b, got, c.want)
		}
	}
}
