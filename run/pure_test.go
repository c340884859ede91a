package run

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

func TestRing(t *testing.T) {
	r := newRing(16)
	r.write(Stdout, []byte("0123456789"))
	r.write(Stderr, []byte("abcdef"))
	r.write(Stdout, []byte("XY"))
	o, _ := r.read(0, 100, "")
	if o.From != 2 || o.Dropped != 2 || o.Next != 18 || o.EOF || len(o.Chunks) != 3 || string(o.Chunks[0].Data) != "23456789" || o.Chunks[0].From != 2 || o.Chunks[1].Stream != Stderr {
		t.Errorf("got %+v", o)
	}
	if o, _ := r.read(0, 100, Stderr); len(o.Chunks) != 1 || string(o.Chunks[0].Data) != "abcdef" || o.Chunks[0].From != 10 || o.Next != 18 {
		t.Errorf("of one stream: %+v", o)
	}
	if o, _ := r.read(5, 3, ""); string(o.Chunks[0].Data) != "567" || o.Next != 8 {
		t.Errorf("a part: %+v", o)
	}
	r.end()
	if o, _ := r.read(18, 3, ""); !o.EOF || o.Chunks != nil {
		t.Errorf("the end: %+v", o)
	}
	r = newRing(1 << 20)
	for range maxMarks {
		r.write(Stdout, []byte("a"))
		r.write(Stderr, []byte("b"))
	}
	if e := r.extent(); e.First != maxMarks || len(r.marks) > 2*maxMarks+1 {
		t.Errorf("%+v, %d marks", e, len(r.marks))
	}
}

// A sequence of UTF-8 is never cut, wherever a reader stops.
func TestRingKeepsRunes(t *testing.T) {
	text := strings.Repeat("a€😀é", 40)
	for _, size := range []int{4096, 61} {
		r := newRing(size)
		for rest := []byte(text); len(rest) > 0; {
			n := min(7, len(rest))
			n -= cutRune(rest[:n])
			r.write(Stdout, rest[:n])
			rest = rest[n:]
		}
		for step := 1; step < 12; step++ {
			for at := int64(0); at < r.next; {
				o, _ := r.read(at, step, "")
				for _, c := range o.Chunks {
					if !utf8.Valid(c.Data) {
						t.Fatalf("ring %d, step %d: %q at %d is cut", size, step, c.Data, o.From)
					}
				}
				if o.Next <= at {
					t.Fatalf("ring %d, step %d: no way on from %d", size, step, at)
				}
				at = o.Next
			}
		}
	}
}

func FuzzRing(f *testing.F) {
	f.Add([]byte("abc\xe2\x82\xac"), int64(1), 2)
	f.Fuzz(func(t *testing.T, data []byte, since int64, limit int) {
		if limit < 1 || limit > 1<<20 {
			return
		}
		r := newRing(32)
		for i, b := range data {
			r.write([]Stream{Stdout, Stderr}[i%2], []byte{b})
		}
		o, _ := r.read(since, limit, "")
		n := int64(0)
		for _, c := range o.Chunks {
			n += int64(len(c.Data))
		}
		if o.From < 0 || o.Next-o.From != n || o.Next > int64(len(data)) || n > 32 || n > int64(limit)+utf8.UTFMax {
			t.Errorf("%+v of %d bytes from %d, %d", o, len(data), since, limit)
		}
	})
}

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"a\nb":                                    "a\nb",
		"\x1b[1;31mred\x1b[0m\n":                  "red\n",
		" 10%\r 50%\r100%\n":                      "100%\n",
		"long line\rshort\x1b[K\n":                "short\n",
		"\x1b]0;title\x07text\n":                  "text\n",
		"\x1b]8;;u\x1b\\link\n":                   "link\n",
		"\x1b(Bx\x1b=y\a\b\n":                     "xy\n",
		"bad\xff\xe2\x82\n":                       "bad\uFFFD\uFFFD\uFFFD\n",
		"tab\there\r\n":                           "tab\there\n",
		"\x1bPdcs\x1b\\after\u0085\n":             "after\n",
		"old\r\x1b[2Knew\n":                       "new\n",
		"end\xe2\x82":                             "end\uFFFD\uFFFD",
		"\x1b[" + strings.Repeat("1", 500) + "mx": "x",
	} {
		var p Plain
		parts := ""
		for i := range len(in) {
			parts += p.Write([]byte(in[i : i+1]))
		}
		if got := PlainText([]byte(in)); got != want || parts+p.Flush() != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func FuzzPlain(f *testing.F) {
	f.Add([]byte("\x1b[31mx\r\n\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := PlainText(b)
		if strings.ContainsFunc(got, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 }) || !utf8.ValidString(got) {
			t.Errorf("%q gives %q", b, got)
		}
		if len(got) > 3*len(b) {
			t.Errorf("%d bytes of %d", len(got), len(b))
		}
	})
}

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		name        string
		application bool
		want        string // "" unknown
	}{
		{"enter", false, "\r"}, {"Tab", false, "\t"}, {"escape", false, "\x1b"}, {"space", false, " "}, {"bspace", false, "\x7f"},
		{"up", false, "\x1b[A"}, {"up", true, "\x1bOA"}, {"C-up", true, "\x1b[1;5A"}, {"S-M-left", false, "\x1b[1;4D"}, {"home", false, "\x1b[H"},
		{"pageup", false, "\x1b[5~"}, {"C-delete", false, "\x1b[3;5~"}, {"f1", false, "\x1bOP"}, {"f5", false, "\x1b[15~"}, {"f12", false, "\x1b[24~"},
		{"C-c", false, "\x03"}, {"^d", false, "\x04"}, {"C-space", false, "\x00"}, {"M-x", false, "\x1bx"}, {"C-M-a", false, "\x1b\x01"}, {"S-tab", false, "\x1b[Z"},
		{"a", false, "a"}, {"é", false, "é"}, {"kp5", false, "5"}, {"^[", false, "\x1b"},
		{"nokey", false, ""}, {"X-a", false, ""}, {"C-é", false, ""}, {"", false, ""},
	} {
		got, ok := encodeKey(c.name, c.application)
		if string(got) != c.want || ok != (c.want != "") {
			t.Errorf("%s: got %q, %v, want %q", c.name, got, ok, c.want)
		}
	}
	out, warnings, err := encodeKeys("ls", []string{"0d", "zz"}, []string{"up", "nokey"}, false)
	if string(out) != "ls\r\x1b[A" || len(warnings) != 2 || err != nil {
		t.Errorf("got %q, %q, %v", out, warnings, err)
	}
	if _, _, err := encodeKeys("", nil, []string{"nokey"}, false); CodeOf(err) != CodeUnknownKey {
		t.Errorf("got %v", err)
	}
	if got := paste("a\nb\x1b[20\x1b[201~1~", true); string(got) != "\x1b[200~a\rb\x1b[201~" {
		t.Errorf("paste: %q", got)
	}
	if got := paste("a\r\nb", false); string(got) != "a\rb" {
		t.Errorf("paste without brackets: %q", got)
	}
}

func TestWatchTerminal(t *testing.T) {
	var w watchTerminal
	var answers []byte
	for _, part := range []string{"text\x1b", "[?1", "h\x1b[6", "n\x1b[5n", "\x1b]0;x"} {
		answers = append(answers, w.take([]byte(part))...)
	}
	if !w.application || string(answers) != "\x1b[1;1R\x1b[0n" {
		t.Errorf("application %v, answers %q", w.application, answers)
	}
	if w.take([]byte("\x1b[?1l")); w.application {
		t.Error("the mode was not switched off")
	}
}

func TestTimeoutsOf(t *testing.T) {
	s := func(n int64) *int64 { n *= 1000; return &n }
	for _, c := range []struct {
		l                Launch
		overall, silence time.Duration
	}{
		{Launch{}, 0, 0},
		{Launch{WaitMS: 1}, waitedTimeout, 0},
		{Launch{WaitMS: 1, TimeoutMS: s(0)}, 0, 0},
		{Launch{TimeoutMS: s(1000), Watchdog: "fresh"}, 1000 * time.Second, 600 * time.Second},
		{Launch{TimeoutMS: s(300), Watchdog: "fresh"}, 300 * time.Second, 240 * time.Second},
		{Launch{TimeoutMS: s(100), Watchdog: "fresh"}, 100 * time.Second, 99 * time.Second},
		{Launch{TimeoutMS: s(1000), Watchdog: "resume"}, 1000 * time.Second, 180 * time.Second},
		{Launch{TimeoutMS: s(100), Watchdog: "resume"}, 100 * time.Second, 60 * time.Second},
		{Launch{TimeoutMS: s(30), Watchdog: "resume"}, 30 * time.Second, 29 * time.Second},
		{Launch{TimeoutMS: ptr(int64(1) << 60)}, milliseconds(1 << 60), 0},
	} {
		if o, q := c.l.timeouts(); o != c.overall || q != c.silence || o < 0 {
			t.Errorf("%+v: %v, %v, want %v, %v", c.l, o, q, c.overall, c.silence)
		}
	}
}

func TestRoles(t *testing.T) {
	const a, b, c, d = 10, 11, 12, 13
	for name, x := range map[string]struct {
		nodes map[int32]node
		want  map[int32]Role
	}{
		"idle tool with helpers":      {map[int32]node{a: {root: true}, b: {parent: a}, c: {parent: b}}, map[int32]Role{a: RoleRoot, b: RoleSupport, c: RoleSupport}},
		"shell child and descendants": {map[int32]node{a: {root: true}, b: {parent: a, shell: true}, c: {parent: b}, d: {parent: c}}, map[int32]Role{b: RoleStarted, c: RoleStarted, d: RoleStarted}},
		"shell under a helper":        {map[int32]node{a: {root: true}, b: {parent: a}, c: {parent: b, shell: true}, d: {parent: c}}, map[int32]Role{b: RoleSupport, c: RoleStarted, d: RoleStarted}},
		"orphan of an exited shell":   {map[int32]node{a: {root: true}, c: {parent: 999}}, map[int32]Role{c: RoleOrphan}},
		"orphan of an exited root":    {map[int32]node{c: {parent: a}, d: {parent: c}}, map[int32]Role{c: RoleOrphan, d: RoleOrphan}},
		"shell root's child":          {map[int32]node{a: {root: true, shell: true}, b: {parent: a}}, map[int32]Role{a: RoleRoot, b: RoleStarted}},
		"two roots":                   {map[int32]node{a: {root: true}, b: {root: true, parent: a}, c: {parent: b}}, map[int32]Role{a: RoleRoot, b: RoleRoot, c: RoleSupport}},
		"circle":                      {map[int32]node{b: {parent: c}, c: {parent: b}}, map[int32]Role{b: RoleSupport, c: RoleSupport}},
	} {
		for pid, want := range x.want {
			if got := roleOf(x.nodes, pid); got != want {
				t.Errorf("%s: %d is %s, want %s", name, pid, got, want)
			}
		}
	}
}

func TestShells(t *testing.T) {
	for _, c := range []struct {
		exe  string
		argv []string
		want bool
	}{
		{"/bin/bash", []string{"/bin/bash", "-c", "npm test " + strings.Repeat("x", 5000)}, true},
		{"/usr/bin/dash", []string{"sh"}, true}, {"/usr/bin/node", []string{"bash"}, false}, {"", []string{"-zsh"}, true}, {"", nil, false},
		{"/bin/busybox", []string{"sh"}, true}, {"/bin/busybox", []string{"/bin/busybox", "ash"}, true}, {"/bin/busybox", []string{"ls"}, false},
		{"/opt/PWSH.exe", nil, true},
	} {
		if got := isShell(c.exe, c.argv); got != c.want {
			t.Errorf("%q %.3q: %v", c.exe, c.argv, got)
		}
	}
}

func TestLabels(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want string
	}{
		{nil, ""}, {[]string{"/usr/bin/sleep", "5"}, "sleep"}, {[]string{"node", "--import", "x", "/srv/app/server.js", "a"}, "node server.js"},
		{[]string{"python3.11", "-u", "-m", "http.server", "80"}, "python3.11 -m http.server"}, {[]string{"python3", "-c", "import os; x"}, "python3 import"},
		{[]string{"perl", "-e", "print 1"}, "perl print"}, {[]string{"java", "-cp", "a:b", "-jar", "/x/app.jar"}, "java app.jar"}, {[]string{"-bash"}, "bash"},
		{[]string{"bash", "-c", "npm test"}, "bash npm"}, {[]string{"deno", "run", "x.ts"}, "deno run"}, {[]string{"node"}, "node"},
		{[]string{strings.Repeat("é", 50)}, strings.Repeat("é", 39) + "…"}, {[]string{"a\nb"}, "a b"},
	} {
		if got := label(c.argv); got != c.want {
			t.Errorf("%q: got %q, want %q", c.argv, got, c.want)
		}
	}
}

func TestListeners(t *testing.T) {
	text := `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1
   1: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12 1
   2: 0100007F:1F91 0100007F:1F92 01 00000000:00000000 00:00000000 00000000     0        0 13 1
   3: 0000000000000000FFFF00000100007F:1F93 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 14
   4: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 15
   5: broken
`
	m := map[uint64]Port{}
	parseListeners([]byte(text), "tcp", m)
	var list []Port
	for _, p := range m {
		list = append(list, p)
	}
	want := []Port{{"tcp", "*", 80, ""}, {"tcp", "127.0.0.1", 8080, ""}, {"tcp", "127.0.0.1", 8083, ""}}
	if got := sortPorts(list); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func FuzzListeners(f *testing.F) {
	f.Add([]byte("0: 0100007F:1F90 0:0 0A 0 0 0 0 0 11\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := map[uint64]Port{}
		parseListeners(b, "tcp", m)
		if len(m) > bytes.Count(b, []byte("\n"))+1 {
			t.Errorf("%d sockets of %d bytes", len(m), len(b))
		}
	})
}

func FuzzStat(f *testing.F) {
	f.Add([]byte("12 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, ok := parseStat(b); !ok && e != (entry{}) || ok && e.id.PID < 1 {
			t.Errorf("%q: %+v, %v", b, e, ok)
		}
	})
}

func TestFindGroup(t *testing.T) {
	hybrid := "30 29 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n38 31 0:38 / /sys/fs/cgroup/uni\\040fied rw,relatime - cgroup2 cgroup2 rw\n"
	pure := "30 29 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
	below := "30 29 0:28 /kube/pod /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
	for _, c := range []struct{ mounts, own, want string }{
		{hybrid, "1:cpu:/x\n0::/\n", "/sys/fs/cgroup/uni fied"}, {pure, "0::/user.slice/a.scope\n", "/sys/fs/cgroup/user.slice/a.scope"},
		{below, "0::/kube/pod/x\n", "/sys/fs/cgroup/x"}, {below, "0::/elsewhere\n", ""}, {pure, "0::/../x\n", ""}, {pure, "1:cpu:/\n", ""}, {"", "0::/\n", ""},
	} {
		if got, err := findGroup([]byte(c.mounts), []byte(c.own)); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q: got %q, %v, want %q", c.own, got, err, c.want)
		}
	}
}

// fixture makes a tree of processes; a nil file is one that denies.
func fixture(t *testing.T, tree map[string]string) *files {
	dir := t.TempDir()
	for name, text := range tree {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f := newFiles(dir)
	f.link = func(path string) (string, error) {
		b, err := os.ReadFile(path)
		return string(b), err
	}
	read := f.read
	f.read = func(path string) ([]byte, error) {
		b, err := read(path)
		if string(b) == "DENIED" {
			return nil, unix.EACCES
		}
		return b, err
	}
	return f
}

const envEnd = " 4096 " // of a process whose environment is there

func statLine(pid, parent, group string, state string, threads string) string {
	return pid + " (x) y) " + state + " " + parent + " " + group + " 1 0 -1 0 0 0 0 0 5 6 0 0 20 0 " + threads + " 0 " + pid + "00" + strings.Repeat(" 7", 28) + envEnd + "0\n"
}

func TestMembersOfFixture(t *testing.T) {
	mine := "A=1\x00" + markID + "=job\x00" + markOwner + "=5-500\x00"
	f := fixture(t, map[string]string{
		"100/stat": statLine("100", "1", "100", "S", "1"), "100/environ": mine, "100/exe": "/bin/dash", "100/cmdline": "sh\x00-c\x00x\x00",
		"101/stat": statLine("101", "100", "101", "S", "2"), "101/environ": "B=1\x00", "101/exe": "/usr/bin/node", "101/cmdline": "node\x00app.js\x00",
		"102/stat": statLine("102", "100", "100", "Z", "0"), "103/stat": statLine("103", "100", "100", "Z", "2"), "103/environ": "DENIED",
		"104/stat": statLine("104", "1", "104", "S", "1"), "104/environ": markID + "=job\x00" + markOwner + "=6-600\x00", "104/exe": "/x",
		"105/stat": statLine("105", "1", "105", "S", "1"), "105/environ": "DENIED", "105/exe": "/x", "106/environ": mine,
	})
	tr := newTracker(f)
	tr.uid = 0
	tb, err := tr.scan(true, time.Time{})
	if err != nil || tb.denied != 2 {
		t.Fatalf("denied %d, %v", tb.denied, err)
	}
	h := &holding{key: marks{"job", "5-500"}, roots: []proc.ID{{PID: 100, StartTicks: 10000}}}
	list, zombies, err := tr.members(tb, h)
	var pids []int32
	for _, m := range list {
		pids = append(pids, m.id.PID)
	}
	slices.Sort(pids)
	if !slices.Equal(pids, []int32{100, 101, 103}) || zombies != 1 || err != nil {
		t.Errorf("members %v, %d zombies, %v", pids, zombies, err)
	}
	s := &Supervisor{files: f, tracker: tr}
	all, counts := s.describe("job", list, h.roots, true, false)
	if counts != (Counts{Left: 1, Started: 2, Root: 1}) || len(all) != 3 || all[1].Label != "node app.js" || all[1].Origin != "background" {
		t.Errorf("counts %+v of %+v", counts, all)
	}
	// The root is gone and its number another's: the children are known all the same.
	if err := os.WriteFile(filepath.Join(f.mount, "100/stat"), []byte(strings.Replace(statLine("100", "1", "100", "S", "1"), "10000", "10007", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(f.mount, "100/environ"))
	os.RemoveAll(filepath.Join(f.mount, "103"))
	tr.marks = map[proc.ID]*remembered{}
	tb, err = tr.scan(true, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	list, _, err = tr.members(tb, h)
	if len(list) != 1 || list[0].id.PID != 101 || err != nil {
		t.Errorf("after the root: %+v, %v", list, err)
	}
}

// A scan that takes longer than it is good for serves all the same, but nobody who asks
// for a fresh one or for one that began later.
func TestScanServes(t *testing.T) {
	f := fixture(t, map[string]string{"100/stat": statLine("100", "1", "1", "S", "1"), "100/environ": ""})
	slow := f.read
	f.read = func(path string) ([]byte, error) {
		if strings.HasSuffix(path, "/stat") {
			time.Sleep(scanServes + scanServes/5)
		}
		return slow(path)
	}
	tr := newTracker(f)
	scan := func(fresh bool, since time.Time) *table {
		tb, err := tr.scan(fresh, since)
		if err != nil {
			t.Fatal(err)
		}
		return tb
	}
	before := time.Now()
	first := scan(false, time.Time{})
	if again := scan(false, before); again != first && time.Since(first.ended) < scanServes {
		t.Error("a second scan, though the first has just ended")
	}
	later := scan(false, first.began.Add(1))
	if later == first {
		t.Error("a scan served who wants a later one")
	}
	if scan(true, time.Time{}) == later {
		t.Error("a scan served who wants a fresh one")
	}
}

// Who had no mark is asked again when it runs another file, or after a second.
func TestMarksAreReadAgain(t *testing.T) {
	f := fixture(t, map[string]string{"100/stat": statLine("100", "1", "1", "S", "1"), "100/environ": "A=1\x00", "100/exe": "/a"})
	tr := newTracker(f)
	tr.uid = 0
	id := proc.ID{PID: 100, StartTicks: 10000}
	now := time.Now()
	look := func(at time.Time) string {
		m, _ := tr.marksOf(id, at, 1)
		return m.id
	}
	if got := look(now); got != "" {
		t.Errorf("got %q", got)
	}
	os.WriteFile(filepath.Join(f.mount, "100/environ"), []byte(markID+"=x\x00"), 0o644)
	if got := look(now.Add(unmarkedFor / 2)); got != "" {
		t.Errorf("asked again too soon: %q", got)
	}
	os.WriteFile(filepath.Join(f.mount, "100/exe"), []byte("/b"), 0o644)
	if got := look(now.Add(unmarkedFor / 2)); got != "x" {
		t.Errorf("another file: %q", got)
	}
	os.WriteFile(filepath.Join(f.mount, "100/environ"), nil, 0o644)
	if got := look(now.Add(time.Hour)); got != "x" {
		t.Errorf("a mark was forgotten: %q", got)
	}
}

// Between the new memory of an exec and its environment a process has no marks yet; that
// is not remembered. One that was given no environment has none.
func TestMarksInTheMiddleOfExec(t *testing.T) {
	ready := statLine("100", "1", "1", "S", "1")
	f := fixture(t, map[string]string{"100/stat": strings.Replace(ready, envEnd, " 0 ", 1), "100/environ": "", "100/exe": "/a"})
	tr := newTracker(f)
	tr.uid = 0
	id := proc.ID{PID: 100, StartTicks: 10000}
	now := time.Now()
	if m, err := tr.marksOf(id, now, 1); err != errBetween {
		t.Errorf("got %v, %v", m, err)
	}
	if tb, err := tr.scan(true, time.Time{}); err != nil || tb.between != 1 || tb.denied != 0 {
		t.Errorf("got %d between, %d denied, %v", tb.between, tb.denied, err)
	}
	os.WriteFile(filepath.Join(f.mount, "100/stat"), []byte(ready), 0o644)
	os.WriteFile(filepath.Join(f.mount, "100/environ"), []byte(markID+"=x\x00"), 0o644)
	if m, err := tr.marksOf(id, now, 1); err != nil || m.id != "x" {
		t.Errorf("its environment is there now: got %v, %v", m, err)
	}

	// A leader that has ended has no memory any more, for as long as its threads live.
	os.WriteFile(filepath.Join(f.mount, "100/environ"), nil, 0o644)
	os.WriteFile(filepath.Join(f.mount, "100/stat"), []byte(strings.Replace(statLine("100", "1", "1", "Z", "2"), envEnd, " 0 ", 1)), 0o644)
	tr = newTracker(f)
	if tb, err := tr.scan(true, time.Time{}); err != nil || tb.between != 0 || tb.denied != 0 {
		t.Errorf("a leader that has ended: got %d between, %d denied, %v", tb.between, tb.denied, err)
	}

	os.WriteFile(filepath.Join(f.mount, "100/stat"), []byte(ready), 0o644)
	tr = newTracker(f)
	if tb, err := tr.scan(true, time.Time{}); err != nil || tb.between != 0 || tb.denied != 0 {
		t.Errorf("without environment: got %d between, %d denied, %v", tb.between, tb.denied, err)
	}
}

func TestIDs(t *testing.T) {
	if id, err := ParseID("12-34"); err != nil || FormatID(id) != "12-34" {
		t.Errorf("got %v, %v", id, err)
	}
	for _, bad := range []string{"", "12", "0-1", "a-b", "1-2-3", "-1-2", "012-3", "99999999999-1", "+1-2"} {
		if id, err := ParseID(bad); CodeOf(err) != CodeInvalidProcess || id != (proc.ID{}) {
			t.Errorf("%q: %v, %v", bad, id, err)
		}
	}
}

func TestRoots(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"in/sub/..x", "out"} {
		os.MkdirAll(filepath.Join(dir, d), 0o755)
	}
	os.Symlink(dir+"/out", dir+"/in/abs")
	os.Symlink("../out", dir+"/in/rel")
	os.Symlink("sub", dir+"/in/ok")
	roots := []Root{{Name: "a", Dir: dir + "/in"}, {Name: "s/b", Dir: dir + "/out"}, {Name: "s/c", Dir: "/"}}
	for _, c := range []struct{ cwd, want, code string }{
		{"", dir + "/in", ""}, {"@a", dir + "/in", ""}, {"@a/sub/..x", dir + "/in/sub/..x", ""}, {"@a/ok", dir + "/in/sub", ""}, {"@s/b", dir + "/out", ""},
		{"@s/c" + dir, dir, ""}, {"@a/abs", "", CodeInvalidCwd}, {"@a/rel", "", CodeInvalidCwd}, {"@a/..", "", CodeInvalidCwd}, {"@a/none", "", CodeNoDirectory},
		{"@s/x", "", CodeUnknownRoot}, {"@z", "", CodeUnknownRoot}, {"sub", "", CodeInvalidCwd}, {dir + "/in/sub", dir + "/in/sub", ""},
	} {
		f, got, err := openFolder(roots, c.cwd)
		if got != c.want || CodeOf(err) != c.code || (err != nil) != (c.code != "") {
			t.Errorf("%q: got %q, %v, want %q %s", c.cwd, got, err, c.want, c.code)
		}
		if f != nil {
			f.Close()
		}
	}
	if _, _, err := openFolder(roots, "@s/x"); !strings.Contains(err.Error(), "@s/x") || !strings.Contains(err.Error(), "@s/b") {
		t.Errorf("got %v", err)
	}
	if _, _, err := openFolder(nil, "@q"); !strings.Contains(err.Error(), "none") {
		t.Errorf("got %v", err)
	}
	for text, ok := range map[string]bool{"a=" + dir: true, "a/b=" + dir + ",env=W": true, "a=rel": false, "a/b/c=" + dir: false, "=" + dir: false, "a=/none/x": false, "a=" + dir + ",env=": false} {
		if _, err := ParseRoot(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAccounts(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(dir+"/passwd", []byte("root:x:0:0::/root:/bin/sh\nann:x:7:8:A:/home/ann:/bin/zsh\nbroken\n"), 0o644)
	os.WriteFile(dir+"/group", []byte("eight:x:8:\nnine:x:9:bob,ann\nten:x:10:bob\n"), 0o644)
	a := accounts{dir}
	u, err := a.byName("ann")
	if err != nil || u.uid != 7 || !slices.Equal(u.groups, []uint32{8, 9}) || u.home != "/home/ann" {
		t.Errorf("got %+v, %v", u, err)
	}
	if u, err := a.byUID(77); err != nil || u.gid != 77 || u.groups != nil {
		t.Errorf("got %+v, %v", u, err)
	}
	if _, err := a.byName("eve"); CodeOf(err) != CodeUserUnknown {
		t.Errorf("got %v", err)
	}
	env, err := environment([]string{"PATH=/p", "SECRET=1", "LC_ALL=C", "HOME=/root"}, account{uid: 7, name: "ann", home: "/home/ann"}, map[string]string{"X": "1"}, []string{"M=2"})
	if err != nil || !slices.Equal(env, []string{"HOME=/home/ann", "LC_ALL=C", "LOGNAME=ann", "M=2", "PATH=/p", "USER=ann", "X=1"}) {
		t.Errorf("got %q, %v", env, err)
	}
	for _, name := range []string{"LD_PRELOAD", "BASH_ENV", "NODE_OPTIONS", "PYTHONPATH", "IFS", "", "A=B", markID} {
		if _, err := environment(nil, account{}, map[string]string{name: "x"}, nil); CodeOf(err) != CodeBadRequest {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestEvents(t *testing.T) {
	e := NewEvents()
	for range 3 * maxEvents {
		e.Add(Event{Type: EventOutput})
	}
	last, leave, err := e.Enter()
	if err != nil || last != 3*maxEvents {
		t.Fatalf("last %d, %v", last, err)
	}
	defer leave()
	list, lost, err := e.After(t.Context(), last-2)
	if len(list) != 2 || lost != 0 || err != nil || list[1].Sequence != last {
		t.Errorf("got %d, lost %d, %v", len(list), lost, err)
	}
	if list, lost, _ := e.After(t.Context(), 0); lost == 0 || int(lost)+len(list) != 3*maxEvents {
		t.Errorf("got %d, lost %d", len(list), lost)
	}
	for range maxViewers - 1 {
		if _, leave, err := e.Enter(); err != nil {
			t.Fatal(err)
		} else {
			defer leave()
		}
	}
	if _, _, err := e.Enter(); !errors.Is(err, ErrFull) {
		t.Errorf("got %v", err)
	}
}

// A frame that is cut, too long or no JSON is an error, and takes no more memory than came.
func FuzzFrame(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x0c{\"call\":1234}"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := readFrame(bufio.NewReader(bytes.NewReader(b)))
		if err != nil && (got.Call != 0 || got.Method != "" || got.Body != nil) {
			t.Errorf("%q: %+v with %v", b, got, err)
		}
		if err == nil {
			var out bytes.Buffer
			w := wire{w: &out}
			if err := w.send(got); err != nil {
				t.Fatal(err)
			}
			again, err := readFrame(bufio.NewReader(&out))
			if err != nil || again.Call != got.Call || again.Method != got.Method {
				t.Errorf("%+v comes back as %+v, %v", got, again, err)
			}
		}
	})
}
