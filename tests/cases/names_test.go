package cases

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"procinsh/api"
	"procinsh/tests/server"
)

// Names of processes and threads that look like the fields around them.
func TestCommParen(t *testing.T) {
	for _, c := range []struct{ name, comm, thread string }{
		{"the rest of a stat line", ") R 1 (a\nb) S 9", "x) Z 0 (y"},
		{"opening", "((((", "("},
		{"closing", "))))", ")"},
		{"blanks", "  a  b  ", " "},
		{"empty", "", ""},
		{"newlines", "\n\n", "a\nState:\tZ"},
		{"backslash", `a\nb\\`, `\012`},
		{"no UTF-8", "\xff\xfe(\x80)", "\xc3"},
		{"cut inside a character", "fourteen-byte-é", "fourteen-bytesé"},
		{"control characters", "\x01\x1b[31m\x7f", "\t\r"},
		{"quotes and markup", `"</script>'&`, `{"a":1}`},
		{"like a kernel worker", "kworker/u4:2-ev", "ksoftirqd/0"},
		{"like status", "Name:\tx\nPid:\t1", "Tgid:\t1\nPPid:\t1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			target := target(t, "comm", hex.EncodeToString([]byte(c.comm)), hex.EncodeToString([]byte(c.thread)))
			name, thread := lossy(c.comm[:min(15, len(c.comm))]), lossy(c.thread[:min(15, len(c.thread))])
			tid := int32(target.Int("THREAD_TID"))
			row := listed(t, target.ID)
			is(t, "list: name", row.Name, name)
			is(t, "list: state", row.State, "S")
			is(t, "list: parent", row.ParentID, identity(t, target.Int("PPID")))
			is(t, "list: thread_count", row.ThreadCount, 2)
			is(t, "list: kernel_thread", row.KernelThread, false)
			o := get[api.Observation](t, "observation", target.ID)
			is(t, "observation: state and identity", []any{o.State, o.ProcessID}, []any{"S", target.ID})
			threads := get[[]api.Thread](t, "threads", target.ID)
			if len(threads) != 2 {
				t.Fatalf("threads: got %d, want 2", len(threads))
			}
			is(t, "threads: leader", []any{threads[0].TID, threads[0].Name, threads[0].State}, []any{target.ID.PID, name, "S"})
			is(t, "threads: second", []any{threads[1].TID, threads[1].Name, threads[1].State}, []any{tid, thread, "S"})
			s := get[api.SignalsAnswer](t, "signals", target.ID)
			if len(s.Threads) != 2 || s.Leader == nil {
				t.Fatalf("signals: got %d threads, leader %v", len(s.Threads), s.Leader)
			}
			is(t, "signals: names", []string{s.Leader.Name, s.Threads[1].Name}, []string{name, thread})
			e := observations(t, target.ID, 1)[0]
			is(t, "events: name, state, parent", []any{e.Summary.Name, e.Summary.State, e.Summary.ParentID}, []any{name, "S", identity(t, target.Int("PPID"))})
			ctx := get[api.ContextAnswer](t, "context", target.ID)
			is(t, "context: parent", ctx.ParentID, identity(t, target.Int("PPID")))
		})
	}
	t.Cleanup(func() { complete(t) })
}

// started runs hold with these arguments, argv[0] included.
func started(t *testing.T, args []string) *Case {
	t.Helper()
	cmd := exec.Command(build(t, "testdata/hold.c"))
	cmd.Args = args
	return begin(t, cmd)
}

// lossyAll is what JSON shows of raw arguments.
func lossyAll(args []string) []string {
	all := make([]string, len(args))
	for i, a := range args {
		all[i] = lossy(a)
	}
	return all
}

func TestLongCommandLine(t *testing.T) {
	const limit = 4096
	long := []string{"hold", "--first", "two words", "", "a\nb", "\xff\xfe", ""}
	for i := range 12_000 {
		long = append(long, fmt.Sprintf("--option-%d=%s", i, strings.Repeat("x", 80)))
	}
	long = append(long, "", "THE-END")
	exact := []string{"hold", strings.Repeat("e", limit-len("hold")-2)} // 4,096 bytes with the NULs
	for _, c := range []struct {
		name string
		args []string
		cut  bool
	}{
		{"short", []string{"hold", "a", "", "b"}, false},
		{"exactly the limit", exact, false},
		{"one byte more", []string{"hold", exact[1] + "e"}, true},
		{"one argument beyond all", []string{"hold", strings.Repeat("z", 120_000)}, true},
		{"the cut inside a character", []string{"hold", strings.Repeat("é", 4000)}, true},
		{"the cut inside another character", []string{"hold!", strings.Repeat("é", 4000)}, true},
		{"over 1 MB, odd ones first", long, true},
		{"empty arguments to the cut", append(append([]string{"hold"}, make([]string, 5000)...), "end"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			target := started(t, c.args)
			want := lossyAll(c.args)
			row := listed(t, target.ID)
			is(t, "list: command_line_truncated", row.CommandLineTruncated, c.cut)
			if row.CommandLine == nil {
				t.Fatal("list: command_line is null")
			}
			if !c.cut {
				is(t, "list: command_line", row.CommandLine, want)
			} else {
				last := len(row.CommandLine) - 1
				if last < 0 || last >= len(want) {
					t.Fatalf("list: command_line has %d pieces", last+1)
				}
				is(t, "list: whole pieces", row.CommandLine[:last], want[:last])
				if !strings.HasPrefix(want[last], row.CommandLine[last]) {
					t.Errorf("list: last piece %.60q is no beginning of the argument", row.CommandLine[last])
				}
				bytes := 0
				for _, a := range row.CommandLine {
					bytes += len(a) + 1
					if !utf8.ValidString(a) {
						t.Errorf("list: a piece is no UTF-8")
					}
				}
				// U+FFFD takes three bytes where the target had one.
				if bytes > limit+1+3*strings.Count(strings.Join(row.CommandLine, ""), "\ufffd") {
					t.Errorf("list: %d bytes of command line, want at most %d", bytes, limit)
				}
				// Empty arguments up to the cut may be taken for the padding of a title.
				if bytes < limit-4 && c.args[1] != "" {
					t.Errorf("list: %d bytes of command line, cut before %d", bytes, limit)
				}
			}
			ctx := get[api.ContextAnswer](t, "context", target.ID)
			is(t, "context: command_line", ctx.CommandLine, want)
		})
	}
	t.Cleanup(func() { complete(t) })
}

// A command line of a megabyte is not sent again and again.
func TestLongCommandLineStream(t *testing.T) {
	args := []string{"hold"}
	for i := range 10_000 {
		args = append(args, fmt.Sprintf("%d%s", i, strings.Repeat("x", 90)))
	}
	target := started(t, args)
	whole, deltas := 0, 0
	err := srv.Events("/api/processes/stream", nil, 20*time.Second, func(e server.Event) bool {
		switch e.Name {
		case "processes":
			whole++
		case "processes_delta":
			deltas++
			var d api.ProcessesDelta
			if err := json.Unmarshal(e.Data, &d); err != nil {
				t.Error(err)
			}
			for _, r := range d.Changed {
				if b, _ := json.Marshal(r); r.Identity == target.ID && len(b) > 32<<10 {
					t.Errorf("a delta carries %d bytes of the target", len(b))
				}
			}
		}
		return deltas < 3
	})
	if err != nil {
		t.Fatal(err)
	}
	is(t, "whole lists in one stream", whole, 1)
}

// A process may write over its own arguments.
func TestTitle(t *testing.T) {
	for _, c := range []struct {
		name, mode, text string
		times            int
		want             [][]string
	}{
		{"shorter than the arguments", "over", "daemon: idle", 1, [][]string{{"daemon: idle"}}},
		{"on into the environment", "into", "serving;", 100, [][]string{{strings.Repeat("serving;", 100)}}},
		{"blanks at its end", "into", "serving ", 100, [][]string{{strings.TrimSuffix(strings.Repeat("serving ", 100), " ")}}},
		{"nothing but NUL", "zero", "", 0, nil}, // no title, or many empty arguments: nothing tells them apart
		{"no argument area", "none", "", 0, [][]string{{}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			exe := build(t, "testdata/title.c")
			cmd := exec.Command(exe, c.mode, c.text, strconv.Itoa(c.times), strings.Repeat("-", 40))
			cmd.Env = []string{"ROOM=" + strings.Repeat("r", 2000)}
			target := begin(t, cmd)
			row := listed(t, target.ID)
			is(t, "list: name", row.Name, "kworker/0:9-eve")
			is(t, "list: kernel_thread", row.KernelThread, false)
			is(t, "list: executable", row.Executable, exe)
			if row.CommandLine == nil {
				t.Error("list: command_line is null")
			} else if c.want == nil {
				is(t, "list: command_line", strings.Join(row.CommandLine, ""), "")
			} else if !slices.ContainsFunc(c.want, func(w []string) bool { return slices.Equal(row.CommandLine, w) }) {
				t.Errorf("list: command_line: got %q, want %q", row.CommandLine, c.want)
			}
			if row.RSSBytes == 0 {
				t.Error("list: rss_bytes is 0")
			}
			everything(t, target.ID)
			m := get[api.MapsAnswer](t, "maps", target.ID)
			is(t, "maps: count", len(m.Maps), lines(t, fmt.Sprintf("/proc/%d/maps", target.ID.PID)))
		})
	}
}

// kernelThread finds one by its flag.
func kernelThread(t *testing.T) api.Identity {
	t.Helper()
	for pid := range pids(t) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		var flags uint64
		if _, err := fmt.Sscan(f[6], &flags); err == nil && flags&0x200000 != 0 { // PF_KTHREAD
			return identity(t, int64(pid))
		}
	}
	t.Skip("no kernel thread is visible in this PID namespace")
	panic("unreachable")
}

// A kernel thread has no user memory: empty answers or a reason, never a fault.
func TestKernelThread(t *testing.T) {
	id := kernelThread(t)
	row := listed(t, id)
	is(t, "list: kernel_thread", row.KernelThread, true)
	is(t, "list: executable", row.Executable, nil)
	is(t, "list: command_line", row.CommandLine, []string{})
	for what, key := range map[string]string{"maps": "maps", "environment": "entries", "auxv": "entries", "fds": "entries"} {
		b, code, err := srv.Raw("/api/processes/"+what, query(id))
		if err != nil {
			t.Fatal(err)
		}
		switch code {
		case 200:
			var a map[string]any
			if err := json.Unmarshal(b, &a); err != nil {
				t.Fatal(err)
			}
			is(t, what, a[key], []any{})
		case 422:
			clear(t, what, b)
		default:
			t.Errorf("%s: status %d: %s", what, code, b)
		}
	}
	b, code, err := srv.Raw("/api/processes/memory", query(id, "address", "0x1000"))
	if err != nil {
		t.Fatal(err)
	}
	is(t, "memory: status", code, 422)
	clear(t, "memory", b)
	for _, what := range []string{"observation", "threads", "signals", "context"} {
		get[any](t, what, id)
	}
	e := observations(t, id, 2)
	is(t, "events: exited", e[1].Exited, false)
	is(t, "events: maps", len(e[0].Maps), 0)
}

// clear fails unless the body is an error that a person can act on.
func clear(t *testing.T, what string, body []byte) {
	t.Helper()
	var e api.ErrorAnswer
	if err := json.Unmarshal(body, &e); err != nil || len(e.Error) < 10 || e.Code == "" {
		t.Errorf("%s: not a clear error: %s", what, body)
	}
}

// Files whose names the text of maps cannot tell from other names.
func TestMapNames(t *testing.T) {
	for _, c := range []struct {
		kind, name string
		either     string // a second right name
	}{
		{kind: "k", name: "with some  spaces"},
		{kind: "k", name: "new\nline", either: `new\012line`},
		{kind: "k", name: `new\012line`, either: "new\nline"},
		{kind: "k", name: "still here (deleted)"},
		{kind: "d", name: "gone"},
		{kind: "d", name: "gone (deleted)"},
		{kind: "k", name: "trailing  "},
		{kind: "k", name: "bad\xff\xfebytes\xc3"},
		{kind: "k", name: "tab\tand\x1b[31m"},
		{kind: "k", name: `quotes "and' <b>markup`},
		{kind: "k", name: " leading"},
		{kind: "k", name: "[heap]"},
		{kind: "r", name: "another took its name"},
		{kind: "d", name: "new\nline gone", either: `new\012line gone`},
		{kind: "k", name: "back\\slash"},
		{kind: "k", name: strings.Repeat("n", 250)},
		{kind: "k", name: "プロ\u202egnp"},
		{kind: "m", name: "a memfd  of\nmine", either: `a memfd  of\012mine`},
		{kind: "m", name: "(deleted)"},
		{kind: "k", name: "deleted"},
	} {
		t.Run(fmt.Sprintf("%s %.30q", c.kind, c.name), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			target := target(t, "mapnames", dir, c.kind+hex.EncodeToString([]byte(c.name)))
			gone := c.kind != "k"
			prefix, suffix := dir+"/", ""
			if c.kind == "m" {
				prefix = "/memfd:"
			}
			if gone {
				suffix = " (deleted)"
			}
			want := []string{lossy(prefix + c.name + suffix)}
			if c.either != "" {
				want = append(want, prefix+c.either+suffix)
			}
			check := func(where string, maps []api.Mapping, detailed bool) {
				is(t, where+": regions", len(maps), lines(t, fmt.Sprintf("/proc/%d/maps", target.ID.PID)))
				start := fmt.Sprintf("0x%016x", target.Int("M1"))
				i := slices.IndexFunc(maps, func(m api.Mapping) bool { return m.Start == start })
				if i < 0 {
					t.Fatalf("%s: no region at %s", where, start)
				}
				m := maps[i]
				is(t, where+": end", m.End, fmt.Sprintf("0x%016x", target.Int("M1")+4096))
				is(t, where+": permissions", m.Permissions, "rw-s")
				is(t, where+": inode", m.Inode, target.Facts["M1_INODE"])
				if m.Pathname == nil || !slices.Contains(want, *m.Pathname) {
					t.Errorf("%s: pathname: got %.200q, want %.200q", where, value(m.Pathname), want)
				}
				is(t, where+": deleted", m.Deleted, gone)
				if detailed {
					is(t, where+": rss_bytes", m.RSSBytes, 4096)
				}
			}
			check("maps", get[api.MapsAnswer](t, "maps", target.ID).Maps, true)
			check("events", observations(t, target.ID, 1)[0].Maps, false)
		})
	}
}

// Many odd names in one process: none is lost, none shifts another.
func TestMapNamesTogether(t *testing.T) {
	dir := t.TempDir()
	names := []string{"k a", "ka\nb", "da\\012b", "d (deleted)", "kx (deleted)", "m m", "k\xff", "r same", "k trailing "}
	args := []string{dir}
	for _, n := range names {
		args = append(args, n[:1]+hex.EncodeToString([]byte(n[1:])))
	}
	target := target(t, "mapnames", args...)
	maps := get[api.MapsAnswer](t, "maps", target.ID).Maps
	is(t, "regions", len(maps), lines(t, fmt.Sprintf("/proc/%d/maps", target.ID.PID)))
	for i := 1; i < len(maps); i++ {
		if maps[i-1].End > maps[i].Start { // fixed width, so the text compares like the number
			t.Errorf("regions overlap or are out of order at %s", maps[i].Start)
		}
	}
	for i := range names {
		key := fmt.Sprintf("M%d", i+1)
		start, size := target.Int(key), int64(i+1)*4096
		k := slices.IndexFunc(maps, func(m api.Mapping) bool { return m.Start == fmt.Sprintf("0x%016x", start) })
		if k < 0 {
			t.Errorf("%s: no region at %#x", key, start)
			continue
		}
		is(t, key+": end", maps[k].End, fmt.Sprintf("0x%016x", start+size))
		is(t, key+": inode", maps[k].Inode, target.Facts[key+"_INODE"])
	}
}

// Every text of a target is markup: the answers carry it as it is, as JSON.
func TestMarkupNames(t *testing.T) {
	dir := t.TempDir()
	target := target(t, "markup", dir)
	for _, path := range []string{"/api/processes", "/api/processes/threads", "/api/processes/maps", "/api/processes/fds", "/api/processes/environment",
		"/api/processes/auxv", "/api/processes/signals", "/api/processes/context", "/api/processes/observation"} {
		r, err := srv.Response(t.Context(), path, query(target.ID))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
		is(t, path+": status, type, nosniff", []any{r.StatusCode, kind, r.Header.Get("X-Content-Type-Options")}, []any{200, "application/json", "nosniff"})
	}
	row := listed(t, target.ID)
	is(t, "list: name", row.Name, "<img src=x>\n")
	is(t, "list: command_line", row.CommandLine, []string{"<img src=x>", dir, "<script>window.pwned=1</script>", "javascript:alert(1)", "&lt;b&gt;", "line1\nline2\u202etxt"})
	env := get[api.EnvironmentAnswer](t, "environment", target.ID)
	is(t, "environment", env.Entries, []api.EnvironmentEntry{entry("<b>ENV</b>", "<svg onload=alert(1)>"), entry("JS", "</script><script>alert(1)</script>"), entry("SSE", "a\n\ndata: {}\n\nevent: x")})
	names := map[int32]string{}
	for _, th := range get[[]api.Thread](t, "threads", target.ID) {
		names[th.TID] = th.Name
	}
	is(t, "threads: name", names[int32(target.Int("THREAD_TID"))], "\"><b>thr</b>")
	e, _ := descriptors(t, target.ID)
	is(t, "fds: file", e[int32(target.Int("FILE_FD"))].Target, dir+"/<i onclick=x>map\n\"'&")
	is(t, "fds: fifo", []string{e[int32(target.Int("FIFO_FD"))].Kind, e[int32(target.Int("FIFO_FD"))].Target}, []string{"fifo", dir + "/<u>fifo"})
	is(t, "fds: socket path", e[int32(target.Int("SOCK_FD"))].Local, dir+"/<b>s")
	is(t, "context: cwd", get[api.ContextAnswer](t, "context", target.ID).Cwd, dir)
	// The streams stay well formed whatever the texts hold: the reader refuses an
	// event with two data lines or a line that is none of the format.
	for _, path := range []string{"/api/processes/stream?maps=summary&io=1", "/api/processes/events?" + query(target.ID).Encode()} {
		n := 0
		if err := srv.Events(path, nil, 20*time.Second, func(e server.Event) bool {
			if !json.Valid(e.Data) {
				t.Errorf("%s: event %s is no JSON", path, e.Name)
			}
			n++
			return n < 4
		}); err != nil {
			t.Error(err)
		}
	}
}

// The name of the executable itself.
func TestExecutableNames(t *testing.T) {
	src := build(t, "testdata/hold.c")
	for _, c := range []struct {
		name    string
		deleted bool
	}{
		{"an exe  with blanks", false}, {"exe (deleted)", false}, {"gone", true}, {"new\nline", false}, {"bytes\xff", false}, {"<b>", true},
	} {
		t.Run(fmt.Sprintf("%q", c.name), func(t *testing.T) {
			t.Parallel()
			exe := filepath.Join(t.TempDir(), c.name)
			// Not written here: a child that another test forks meanwhile would hold the
			// file open for writing, and it could not be started (ETXTBSY).
			if out, err := exec.Command("cp", "--", src, exe).CombinedOutput(); err != nil {
				t.Fatalf("cp: %v: %s", err, out)
			}
			target := begin(t, exec.Command(exe))
			want, state := exe, "present"
			if c.deleted {
				if err := os.Remove(exe); err != nil {
					t.Fatal(err)
				}
				want, state = exe+" (deleted)", "deleted"
			}
			is(t, "list: executable", listed(t, target.ID).Executable, lossy(want))
			ctx := get[api.ContextAnswer](t, "context", target.ID)
			is(t, "context: executable", ctx.Executable, lossy(want))
			is(t, "context: executable_state", ctx.ExecutableState, state)
		})
	}
}
