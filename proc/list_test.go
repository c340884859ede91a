package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// scannerOf returns a scanner with a user table and a clock of its own.
func scannerOf(t testing.TB, fs *FS) (s *Scanner, at *time.Duration) {
	t.Helper()
	s = fs.NewScanner()
	s.reader.texts.users.path = filepath.Join(t.TempDir(), "passwd")
	writeFile(t, s.reader.texts.users.path, "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/:/bin/sh\nbob:x:1001:1001::/:/bin/sh\n")
	at = new(time.Duration)
	*at = time.Hour
	s.reader.ask = func() int64 { return int64(*at) }
	return s, at
}

func scan(t testing.TB, s *Scanner, want Want) []Row {
	t.Helper()
	rows, err := s.Scan(want)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestScanRows(t *testing.T) {
	root := text("root")
	for _, c := range []struct {
		tree    string
		want    Row
		details Details
	}{
		{
			"comm-with-paren",
			Row{ID: ID{25556, 177927}, State: 'S', VMS: 4579 * 4096, RSS: 2881 * 4096, Threads: 1, StartedAt: fixtureBoot + 1779270, IO: Some(IO{})},
			Details{
				Name: ") R 1 (a\nb) S 9", Executable: text("/usr/bin/python3"), CommandLine: []string{"/usr/bin/python3", "demo.py"},
				Username: root, EffectiveUsername: root, Cgroup: text("/"),
			},
		},
		{
			"deleted-exe",
			Row{ID: ID{25557, 177927}, State: 'S', VMS: 730 * 4096, RSS: 441 * 4096, Threads: 1, Processor: 1, StartedAt: fixtureBoot + 1779270, IO: Some(IO{})},
			Details{
				Name: "gone", Executable: text("/srv/demo/gone (deleted)"), CommandLine: []string{"/srv/demo/gone", "600"},
				Username: root, EffectiveUsername: root,
				Cgroup:    text("/system.slice/docker-3f4e9ab1c2d35f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8.scope"),
				Container: text("3f4e9ab1c2d3"),
			},
		},
		{
			"kthread",
			Row{ID: ID{2, 9}, State: 'S', KernelThread: true, Threads: 1, Processor: 1, StartedAt: fixtureBoot + 90, IO: Some(IO{})},
			Details{Name: "kthreadd", CommandLine: []string{}, Username: root, EffectiveUsername: root, Cgroup: text("/")},
		},
		{
			"setuid",
			Row{ID: ID{25555, 177926}, State: 'S', UID: 1000, EUID: 1001, VMS: 730 * 4096, RSS: 454 * 4096, Threads: 1, Processor: 1, StartedAt: fixtureBoot + 1779260, IO: Some(IO{})},
			Details{
				Name: "sleep", CommandLine: []string{"sleep", "600"}, Username: text("alice"), EffectiveUsername: text("bob"),
				Executable: text("/usr/bin/sleep"), Cgroup: text("/user.slice/user-1000.slice/session-4.scope"), Container: text("session-4.scope"), TTY: text("pts/2"),
			},
		},
		{
			"threads",
			Row{ID: ID{25564, 177957}, State: 'S', CPUTicks: 187, VMS: 4717 * 4096, RSS: 333 * 4096, Threads: 3, Processor: 1, StartedAt: fixtureBoot + 1779570, IO: Some(IO{})},
			Details{
				Name: "threads", Executable: text("/srv/demo/threads"), CommandLine: []string{"/srv/demo/threads"},
				Username: root, EffectiveUsername: root, Cgroup: text("/"),
			},
		},
		{
			"zombie",
			Row{ID: ID{25562, 177957}, State: 'Z', Threads: 1, Processor: 1, StartedAt: fixtureBoot + 1779570, IO: Some(IO{})},
			Details{Name: "python3", Username: root, EffectiveUsername: root, Cgroup: text("/")},
		},
		{
			"zombie-leader",
			Row{ID: ID{25563, 177957}, State: 'S', VMS: 4749 * 4096, RSS: 398 * 4096, Threads: 3, StartedAt: fixtureBoot + 1779570, IO: Some(IO{})},
			Details{
				Name: "leaderless", Executable: text("/srv/demo/leaderless"), CommandLine: []string{"/srv/demo/leaderless"},
				Username: root, EffectiveUsername: root, Cgroup: text("/"),
			},
		},
	} {
		t.Run(c.tree, func(t *testing.T) {
			fs := openFixture(t, c.tree)
			s, at := scannerOf(t, fs)
			rows := scan(t, s, Want{IO: true})
			if len(rows) != 1 {
				t.Fatalf("%d rows", len(rows))
			}
			got := rows[0]
			if got.At < int64(*at) || got.At > int64(*at+time.Minute) {
				t.Errorf("At %d", got.At)
			}
			if !reflect.DeepEqual(*got.Details, c.details) {
				t.Errorf("details\ngot  %s\nwant %s", show(got.Details), show(&c.details))
			}
			got.At, got.Details = 0, nil
			if got != c.want {
				t.Errorf("row\ngot  %+v\nwant %+v", got, c.want)
			}
			if s.Denied != 0 {
				t.Errorf("denied %d", s.Denied)
			}

			p, err := fs.OpenProcess(c.want.ID)
			if c.want.State == 'Z' {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			one, err := s.ReadRow(p, Want{IO: true})
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(*one.Details, c.details) {
				t.Errorf("ReadRow details\ngot  %s\nwant %s", show(one.Details), show(&c.details))
			}
			one.At, one.Details = 0, nil
			if one != c.want {
				t.Errorf("ReadRow\ngot  %+v\nwant %+v", one, c.want)
			}
		})
	}
}

func show(d *Details) string {
	p := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	return fmt.Sprintf("%q exe %s args %q cut %v user %s/%s cgroup %s in %s tty %s", d.Name, p(d.Executable), d.CommandLine,
		d.CommandLineTruncated, p(d.Username), p(d.EffectiveUsername), p(d.Cgroup), p(d.Container), p(d.TTY))
}

// family writes a tree of processes: PID, parent and start ticks of each.
func family(t testing.TB, members ...[3]int) string {
	t.Helper()
	dir := t.TempDir()
	for _, m := range members {
		addProcess(t, dir, m[0], m[1], m[2])
	}
	return dir
}

func addProcess(t testing.TB, dir string, pid, ppid, start int) {
	t.Helper()
	d := filepath.Join(dir, fmt.Sprint(pid))
	if err := os.CopyFS(d, os.DirFS("testdata/deleted-exe/25557")); err != nil {
		t.Fatal(err)
	}
	edit(t, filepath.Join(d, "stat"), "25557 (gone) S 25514 ", fmt.Sprintf("%d (gone) S %d ", pid, ppid))
	edit(t, filepath.Join(d, "status"), "Tgid:\t25557\n", fmt.Sprintf("Tgid:\t%d\n", pid))
	edit(t, filepath.Join(d, "stat"), " 177927 ", fmt.Sprintf(" %d ", start))
}

func TestScanFindsParents(t *testing.T) {
	dir := family(t, [3]int{1, 0, 0}, [3]int{2, 0, 0}, [3]int{300, 1, 50}, [3]int{40, 300, 60}, [3]int{301, 300, 50},
		[3]int{500, 40, 59}, [3]int{501, 499, 70}, [3]int{502, 502, 70}, [3]int{503, 1 << 30, 1})
	if err := os.Mkdir(filepath.Join(dir, "notes"), 0o755); err != nil {
		t.Fatal(err)
	}
	fs := openTree(t, dir)
	s, _ := scannerOf(t, fs)
	rows := scan(t, s, Want{})
	want := map[int32]int32{300: 1, 40: 300, 301: 300, 502: 502} // 500 is older than what is 40 now
	var pids []int32
	for _, row := range rows {
		pids = append(pids, row.ID.PID)
		parent, known := row.Parent.Get()
		if known != (want[row.ID.PID] != 0) || parent.PID != want[row.ID.PID] {
			t.Errorf("parent of %d: %+v, want %d", row.ID.PID, row.Parent, want[row.ID.PID])
		}
		p, err := fs.OpenProcess(row.ID)
		if err != nil {
			t.Fatal(err)
		}
		if one, err := s.ReadRow(p, Want{}); err != nil || one.Parent != row.Parent {
			t.Errorf("ReadRow of %d: parent %+v, %v; want %+v", row.ID.PID, one.Parent, err, row.Parent)
		}
		p.Close()
	}
	if want := []int32{1, 2, 40, 300, 301, 500, 501, 502, 503}; !slices.Equal(pids, want) {
		t.Errorf("PIDs %v, want %v", pids, want)
	}
}

func TestScanKeepsDetailsThatDidNotChange(t *testing.T) {
	dir := copyFixture(t, "setuid")
	s, at := scannerOf(t, openTree(t, dir))
	file := func(name string) string { return filepath.Join(dir, "25555", name) }
	before := scan(t, s, Want{})[0]
	for range 30 {
		*at += time.Second
		row := scan(t, s, Want{})[0]
		row.At = before.At
		if row != before {
			t.Fatalf("rows differ:\n%+v\n%+v", row, before)
		}
	}

	// What changes at once, and what within 10 s.
	for _, c := range []struct {
		what   string
		change func()
		now    bool
		holds  func(d *Details) bool
	}{
		{"the name", func() { edit(t, file("stat"), "(sleep)", "(woken)") }, true, func(d *Details) bool { return d.Name == "woken" }},
		{"exec", func() {
			edit(t, file("stat"), "140730019376160", "140730019376000")
			writeFile(t, file("cmdline"), "new\x00")
		}, true, func(d *Details) bool { return len(d.CommandLine) == 1 && d.CommandLine[0] == "new" }},
		{"the user", func() { edit(t, file("status"), "\t1000\t1001", "\t0\t1001") }, true, func(d *Details) bool { return d.Username != nil && *d.Username == "root" }},
		{"an unknown user", func() { edit(t, file("status"), "\t0\t1001", "\t77\t1001") }, true, func(d *Details) bool { return d.Username == nil && *d.EffectiveUsername == "bob" }},
		{"the command line", func() { writeFile(t, file("cmdline"), "title: one") }, false, func(d *Details) bool { return d.CommandLine[0] == "title: one" }},
		{"a long command line", func() { writeFile(t, file("cmdline"), strings.Repeat("é", 4000)) }, false, func(d *Details) bool {
			return d.CommandLineTruncated && len(d.CommandLine[0]) == 4096
		}},
		{"no arguments", func() { writeFile(t, file("cmdline"), "") }, false, func(d *Details) bool {
			return d.CommandLine != nil && len(d.CommandLine) == 0 && !d.CommandLineTruncated
		}},
		{"the control group", func() { writeFile(t, file("cgroup"), "0::/x.service\n") }, false, func(d *Details) bool { return *d.Cgroup == "/x.service" && *d.Container == "x.service" }},
		{"no control group", func() { os.Remove(file("cgroup")) }, false, func(d *Details) bool { return d.Cgroup == nil && d.Container == nil }},
		{"the terminal", func() { edit(t, file("stat"), " 34818 ", " 1025 ") }, false, func(d *Details) bool { return d.TTY != nil && *d.TTY == "tty1" }},
	} {
		before := scan(t, s, Want{})[0].Details
		c.change()
		if c.holds(before) {
			t.Fatalf("%s: holds before", c.what)
		}
		took := time.Duration(0)
		for ; took <= detailsAge; took += time.Second {
			if c.holds(scan(t, s, Want{})[0].Details) {
				break
			}
			*at += time.Second
		}
		if took > detailsAge || c.now && took > 0 {
			t.Errorf("%s: seen after %v", c.what, took)
		}
		if c.holds(before) {
			t.Errorf("%s: the old value was changed", c.what)
		}
	}
}

func TestScanReadsDetailsInSlices(t *testing.T) {
	var members [][3]int
	for pid := 1; pid <= 100; pid++ {
		members = append(members, [3]int{pid, 0, pid})
	}
	dir := family(t, members...)
	for _, step := range []time.Duration{200 * time.Millisecond, time.Second, 3 * time.Second, 7 * time.Second, 20 * time.Second} {
		s, at := scannerOf(t, openTree(t, dir))
		scan(t, s, Want{})
		last := map[int32]int64{}
		most := 0
		for n := range 25 {
			*at += step
			scan(t, s, Want{})
			read := 0
			for _, k := range s.known {
				if k.read == int64(*at) {
					read++
				}
				// The scan after this one comes a step later and may read it.
				if age := time.Duration(int64(*at) - k.read); n > 0 && age+step > max(detailsAge, step) {
					t.Fatalf("step %v: details are %v old and wait for the next scan", step, age)
				}
				last[k.id.PID] = k.read
			}
			most = max(most, read)
		}
		if step <= time.Second && most > 40 {
			t.Errorf("step %v: %d of 100 were read in one scan", step, most)
		}
		if len(last) != 100 {
			t.Errorf("step %v: %d processes", step, len(last))
		}
	}
}

func TestScanForgetsAReusedPID(t *testing.T) {
	dir := family(t, [3]int{10, 0, 100}, [3]int{11, 0, 100}, [3]int{12, 0, 100})
	s, at := scannerOf(t, openTree(t, dir))
	before := slices.Clone(scan(t, s, Want{}))
	if err := os.RemoveAll(filepath.Join(dir, "11")); err != nil {
		t.Fatal(err)
	}
	*at += time.Second
	if rows := scan(t, s, Want{}); len(rows) != 2 || rows[1].ID.PID != 12 || rows[1].Details != before[2].Details {
		t.Errorf("rows %+v", rows)
	}
	addProcess(t, dir, 11, 0, 500)
	writeFile(t, filepath.Join(dir, "11/cmdline"), "other\x00")
	*at += time.Second
	rows := scan(t, s, Want{})
	if len(rows) != 3 || rows[1].ID != (ID{11, 500}) || rows[1].Details.CommandLine[0] != "other" {
		t.Errorf("rows %+v", rows)
	}
	edit(t, filepath.Join(dir, "12/stat"), " 100 ", " 600 ")
	writeFile(t, filepath.Join(dir, "12/cmdline"), "another\x00")
	*at += time.Second
	rows = scan(t, s, Want{})
	if rows[2].ID != (ID{12, 600}) || rows[2].Details.CommandLine[0] != "another" || before[2].Details.CommandLine[0] == "another" {
		t.Errorf("a reused PID has the details of its predecessor: %s", show(rows[2].Details))
	}
	if s.rows[0].Details != before[0].Details {
		t.Error("details that did not change have moved")
	}
}

func TestScanKeepsDetailsOfAProcessOnItsWayOut(t *testing.T) {
	dir := family(t, [3]int{10, 0, 100})
	s, at := scannerOf(t, openTree(t, dir))
	before := scan(t, s, Want{})[0].Details
	// exit_mm comes before the zombie: no executable and no arguments any more.
	os.Remove(filepath.Join(dir, "10/exe"))
	writeFile(t, filepath.Join(dir, "10/cmdline"), "")
	*at += detailsAge
	if got := scan(t, s, Want{})[0].Details; got != before {
		t.Errorf("got %s, want %s", show(got), show(before))
	}
	// One seen first in that moment has no known arguments; not none.
	fresh, _ := scannerOf(t, openTree(t, dir))
	if got := scan(t, fresh, Want{})[0].Details; got.CommandLine != nil || got.Executable != nil {
		t.Errorf("got %s, want nothing known", show(got))
	}
}

func TestEmptyCommandLineIsNoKernelThread(t *testing.T) {
	dir := family(t, [3]int{10, 0, 100})
	edit(t, filepath.Join(dir, "10/stat"), "(gone)", "(kworker/0:9-eve)")
	writeFile(t, filepath.Join(dir, "10/cmdline"), "")
	s, _ := scannerOf(t, openTree(t, dir))
	row := scan(t, s, Want{})[0]
	if row.KernelThread || row.RSS == 0 || row.Details.CommandLine == nil || len(row.Details.CommandLine) != 0 || row.Details.Executable == nil {
		t.Errorf("row %+v, details %s", row, show(row.Details))
	}
}

func TestScanOfUnreadableParts(t *testing.T) {
	for _, c := range []struct {
		file, text string
		denied     int
	}{
		{"stat", "10 (x", 1}, {"status", "Name:\tx\n", 1}, {"statm", "x", 1},
		{"stat", "", 0}, {"status", "", 0}, {"statm", "", 0}, // removed: it ended meanwhile
	} {
		dir := family(t, [3]int{10, 0, 100}, [3]int{11, 0, 100})
		path := filepath.Join(dir, "10", c.file)
		if c.text == "" {
			os.Remove(path)
		} else {
			writeFile(t, path, c.text)
		}
		s, _ := scannerOf(t, openTree(t, dir))
		rows := scan(t, s, Want{})
		if len(rows) != 1 || rows[0].ID.PID != 11 || s.Denied != c.denied {
			t.Errorf("%s %q: %d rows, denied %d; want 1 and %d", c.file, c.text, len(rows), s.Denied, c.denied)
		}
	}
	dir := family(t, [3]int{10, 0, 100})
	os.Remove(filepath.Join(dir, "10/io"))
	s, _ := scannerOf(t, openTree(t, dir))
	if row := scan(t, s, Want{IO: true})[0]; row.IO.Known() {
		t.Errorf("io %+v without the file, want unknown", row.IO)
	}
	if row := scan(t, s, Want{})[0]; row.IO.Known() || row.Maps != nil {
		t.Errorf("io %+v, maps %v without asking", row.IO, row.Maps)
	}
}

func TestScanOfAMountThatWent(t *testing.T) {
	fs := openTree(t, t.TempDir())
	s := fs.NewScanner()
	if rows, err := s.Scan(Want{}); err != nil || len(rows) != 0 {
		t.Errorf("an empty mount: %v, %v", rows, err)
	}
	fs.Close()
	if rows, err := s.Scan(Want{}); err == nil || rows != nil {
		t.Errorf("a closed mount: %v, %v", rows, err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing mount opens")
	}
}

func TestScanMapSummaries(t *testing.T) {
	fs := live(t)
	s, at := scannerOf(t, fs)
	find := func(rows []Row) Row {
		for _, row := range rows {
			if int(row.ID.PID) == os.Getpid() {
				return row
			}
		}
		t.Fatal("this process is not listed")
		return Row{}
	}
	first := find(scan(t, s, Want{Maps: true}))
	if first.Maps == nil || len(first.Maps.Boxes) == 0 {
		t.Fatalf("maps %+v", first.Maps)
	}
	*at += 4 * time.Second
	if again := find(scan(t, s, Want{Maps: true})); again.Maps != first.Maps {
		t.Error("maps were read again within 5 s")
	}
	if none := find(scan(t, s, Want{})); none.Maps != nil {
		t.Error("maps without asking")
	}
	for _, row := range scan(t, s, Want{Maps: true}) {
		if row.KernelThread && (row.Maps == nil || len(row.Maps.Boxes) != 0) {
			t.Errorf("kernel thread %d: maps %+v, want none", row.ID.PID, row.Maps)
		}
	}
}

func TestBootTimeFollowsStepsOnly(t *testing.T) {
	fs := openTree(t, t.TempDir())
	now := int64(fixtureBoot)
	fs.boot = func() int64 { return now }
	for _, c := range []struct{ clock, want int64 }{
		{0, 0}, {500, 0}, {1000, 0}, {-1000, 0}, {1001, 1001}, {900, 1001}, {-1, -1},
	} {
		now = fixtureBoot + c.clock
		if got := fs.bootTime() - fixtureBoot; got != c.want {
			t.Errorf("clock at %d: boot time %d, want %d", c.clock, got, c.want)
		}
	}
	if got, want := fs.startedAt(250), fs.bootTime()+2500; got != want {
		t.Errorf("started at %d, want %d", got, want)
	}
}
