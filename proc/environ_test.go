package proc

import (
	"slices"
	"strings"
	"testing"
)

func TestParseEnvironment(t *testing.T) {
	entry := func(name, value string) EnvironmentEntry { return EnvironmentEntry{name, Some(value)} }
	for _, c := range []struct {
		name, text string
		open       bool
		want       []EnvironmentEntry
	}{
		{"none", "", false, []EnvironmentEntry{}},
		{"in order, duplicates kept", "A=1\x00B=2\x00A=3\x00", false, []EnvironmentEntry{entry("A", "1"), entry("B", "2"), entry("A", "3")}},
		{"first = splits", "EQ=a=b==c\x00", false, []EnvironmentEntry{entry("EQ", "a=b==c")}},
		{"empty value, no value, no name", "E=\x00N\x00=leading\x00=\x00", false,
			[]EnvironmentEntry{entry("E", ""), {Name: "N"}, entry("", "leading"), entry("", "")}},
		{"empty entries", "\x00A=1\x00\x00", false, []EnvironmentEntry{{}, entry("A", "1"), {}}},
		{"raw bytes", "BIN=x\xff\xfe\x01y\x00NL=1\n2\n\x00", false, []EnvironmentEntry{entry("BIN", "x\xff\xfe\x01y"), entry("NL", "1\n2\n")}},
		{"no NUL at the end", "A=1\x00B=2", false, []EnvironmentEntry{entry("A", "1"), entry("B", "2")}},
		{"cut in an entry", "A=1\x00B=2", true, []EnvironmentEntry{entry("A", "1")}},
		{"cut between two", "A=1\x00B=2\x00", true, []EnvironmentEntry{entry("A", "1"), entry("B", "2")}},
		{"cut in the first", "A=1", true, []EnvironmentEntry{}},
	} {
		got, cut := parseEnvironment([]byte(c.text), c.open)
		if !slices.Equal(got, c.want) || got == nil || cut {
			t.Errorf("%s: got %v, %v, want %v", c.name, got, cut, c.want)
		}
	}
	got, cut := parseEnvironment(make([]byte, maxEnvironment), false)
	if len(got) != maxEnvironmentEntries || !cut {
		t.Errorf("NULs: %d entries, cut %v", len(got), cut)
	}
	got, cut = parseEnvironment(make([]byte, maxEnvironmentEntries), false)
	if len(got) != maxEnvironmentEntries || cut {
		t.Errorf("exactly the cap: %d entries, cut %v", len(got), cut)
	}
}

var oddEnvironment = []string{"A=1", "A=2", "EMPTY=", "NOEQUALS", "=leading", "EQ=a=b==c", "NL=line1\nline2\n", "BIN=x\xff\xfe\x01y",
	"", "UTF8=プロ", "<b>K</b>=<img src=x onerror=alert(1)>", "a b=c d"}

func TestReadEnvironment(t *testing.T) {
	p := openLive(t, int32(startProgram(t, "/bin/sleep", []string{"sleep", "1000"}, append(slices.Clone(oddEnvironment), "LAST=end")).Pid))
	got, cut, err := p.ReadEnvironment()
	if err != nil || cut || len(got) != len(oddEnvironment)+1 {
		t.Fatalf("%d entries, %v, %v", len(got), cut, err)
	}
	for i, want := range append(slices.Clone(oddEnvironment), "LAST=end") {
		text := got[i].Name
		if v, ok := got[i].Value.Get(); ok {
			text += "=" + v
		}
		if text != want || got[i].Value.Known() != strings.Contains(want, "=") {
			t.Errorf("entry %d: got %+v, want %q", i, got[i], want)
		}
	}
}

func TestReadEnvironmentCut(t *testing.T) {
	env := slices.Clone(oddEnvironment)
	for _, c := range "abcdefghijkl" {
		env = append(env, "BIG"+string(c)+"="+strings.Repeat("v", 120_000-5))
	}
	p := openLive(t, int32(startProgram(t, "/bin/sleep", []string{"sleep", "1000"}, append(env, "LAST=end")).Pid))
	got, cut, err := p.ReadEnvironment()
	if err != nil || !cut {
		t.Fatalf("%d entries, cut %v, %v", len(got), cut, err)
	}
	// 1 MiB holds eight of the large ones whole.
	if len(got) != len(oddEnvironment)+8 {
		t.Errorf("%d entries, want %d", len(got), len(oddEnvironment)+8)
	}
	for _, e := range got[len(oddEnvironment):] {
		if len(e.Name)+1+len(e.Value.Or("")) != 120_000 {
			t.Errorf("%s has %d bytes", e.Name, len(e.Value.Or("")))
		}
	}
}

func FuzzEnvironment(f *testing.F) {
	f.Add([]byte("A=1\x00=b\x00\x00N\x00"), false)
	f.Add([]byte("A=1\x00half"), true)
	f.Fuzz(func(t *testing.T, text []byte, open bool) {
		got, cut := parseEnvironment(text, open)
		var back []byte
		for _, e := range got {
			back = append(back, e.Name...)
			if v, ok := e.Value.Get(); ok {
				back = append(append(back, '='), v...)
			}
			back = append(back, 0)
		}
		// What comes out is what went in, up to the last whole entry.
		if cut {
			text = text[:min(len(text), len(back))]
		} else if open {
			text = text[:strings.LastIndexByte(string(text), 0)+1]
		} else if len(text) > 0 && text[len(text)-1] != 0 {
			text = append(slices.Clone(text), 0)
		}
		if string(back) != string(text) {
			t.Errorf("got %q of %q", back, text)
		}
	})
}
