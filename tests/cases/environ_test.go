package cases

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"procinsh/api"
)

// withEnvironment starts a process with exactly these strings as its environment.
func withEnvironment(t *testing.T, entries []string) *Case {
	t.Helper()
	file := filepath.Join(t.TempDir(), "env")
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(e + "\x00")
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return begin(t, exec.Command(build(t, "testdata/environ.c"), file))
}

func entry(name, value string) api.EnvironmentEntry {
	return api.EnvironmentEntry{Name: name, Value: &value}
}

func TestEnvironOdd(t *testing.T) {
	for _, c := range []struct {
		name  string
		env   []string
		want  []api.EnvironmentEntry
		lossy bool
	}{
		{name: "none", env: nil, want: []api.EnvironmentEntry{}},
		{name: "duplicates in order", env: []string{"A=1", "B=x", "A=2"}, want: []api.EnvironmentEntry{entry("A", "1"), entry("B", "x"), entry("A", "2")}},
		{name: "empty value", env: []string{"EMPTY="}, want: []api.EnvironmentEntry{entry("EMPTY", "")}},
		{name: "no equals sign", env: []string{"NOEQUALS", "X=1"}, want: []api.EnvironmentEntry{{Name: "NOEQUALS"}, entry("X", "1")}},
		{name: "empty name", env: []string{"=leading", "=", "==="}, want: []api.EnvironmentEntry{entry("", "leading"), entry("", ""), entry("", "==")}},
		{name: "more equals signs", env: []string{"EQ=a=b==c"}, want: []api.EnvironmentEntry{entry("EQ", "a=b==c")}},
		{name: "newlines and tabs", env: []string{"NL=line1\nline2\n\t\r"}, want: []api.EnvironmentEntry{entry("NL", "line1\nline2\n\t\r")}},
		{name: "no UTF-8", env: []string{"BIN=x\xff\xfe\x01y", "\xc3=\xe2\x82"}, lossy: true,
			want: []api.EnvironmentEntry{entry("BIN", "x\ufffd\ufffd\x01y"), entry("\ufffd", "\ufffd\ufffd")}},
		{name: "UTF-8", env: []string{"UTF8=プロ", "Ω=\U0001f600\u202e"}, want: []api.EnvironmentEntry{entry("UTF8", "プロ"), entry("Ω", "\U0001f600\u202e")}},
		{name: "markup", env: []string{"<b>K</b>=<img src=x onerror=alert(1)>"}, want: []api.EnvironmentEntry{entry("<b>K</b>", "<img src=x onerror=alert(1)>")}},
		{name: "blanks", env: []string{"a b=c d", " = "}, want: []api.EnvironmentEntry{entry("a b", "c d"), entry(" ", " ")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := withEnvironment(t, c.env)
			a := get[api.EnvironmentAnswer](t, "environment", target.ID)
			is(t, "entries", a.Entries, c.want)
			is(t, "lossy_utf8", a.LossyUTF8, c.lossy)
			is(t, "truncated", a.Truncated, false)
			is(t, "process_id", a.ProcessID, target.ID)
		})
	}
}

// An empty string between others is an entry or none, but what follows it is there.
func TestEnvironEmptyString(t *testing.T) {
	target := withEnvironment(t, []string{"A=1", "", "", "LAST=end"})
	var named []api.EnvironmentEntry
	for _, e := range get[api.EnvironmentAnswer](t, "environment", target.ID).Entries {
		if e.Name != "" || e.Value != nil {
			named = append(named, e)
		}
	}
	is(t, "entries", named, []api.EnvironmentEntry{entry("A", "1"), entry("LAST", "end")})
}

// Over 1 MiB the first 1 MiB is answered, up to the last whole entry.
func TestEnvironLarge(t *testing.T) {
	const limit = 1 << 20
	env := []string{"FIRST=1"}
	for i := range 12 {
		name := "BIG" + string(rune('a'+i))
		env = append(env, name+"="+strings.Repeat("v", 100_000-len(name)-1))
	}
	env = append(env, "LAST=end")
	target := withEnvironment(t, env)
	a := get[api.EnvironmentAnswer](t, "environment", target.ID)
	is(t, "truncated", a.Truncated, true)
	total, whole := 0, 0
	for _, e := range env {
		if total += len(e) + 1; total <= limit {
			whole++
		}
	}
	if len(a.Entries) != whole {
		t.Fatalf("entries: got %d, want the %d that lie whole in the first MiB", len(a.Entries), whole)
	}
	for i, e := range a.Entries {
		if e.Value == nil || e.Name+"="+*e.Value != env[i] {
			t.Errorf("entry %d (%s) is not the one of the target", i, e.Name)
		}
	}
	// One entry alone is larger than the limit of a string the kernel takes, so the
	// limit is reached exactly by entries that fit to the byte.
	fit := []string{}
	for range 8 {
		fit = append(fit, "X="+strings.Repeat("y", 131072-3)) // 8 × 128 KiB = 1 MiB
	}
	a = get[api.EnvironmentAnswer](t, "environment", withEnvironment(t, fit).ID)
	is(t, "entries that fill 1 MiB exactly", len(a.Entries), 8)
	is(t, "truncated at exactly 1 MiB", a.Truncated, false)
}
