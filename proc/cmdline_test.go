package proc

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParseCommandLine(t *testing.T) {
	for _, c := range []struct {
		what string
		raw  string
		want []string
	}{
		{"nothing", "", []string{}},
		{"one", "sleep\x00", []string{"sleep"}},
		{"several", "sleep\x0060\x00", []string{"sleep", "60"}},
		{"empty inside", "a\x00\x00b\x00", []string{"a", "", "b"}},
		{"empty at the end", "a\x00b\x00\x00", []string{"a", "b", ""}},
		{"one empty after the name", "a\x00\x00", []string{"a", ""}},
		{"three empty after the name", "a\x00\x00\x00\x00", []string{"a", "", "", ""}},
		{"an empty name", "\x00", []string{""}},
		{"an empty name and more", "\x00\x00", []string{"", ""}},
		{"newline and bad bytes", "a\nb\x00\xff\xfe\x00", []string{"a\nb", "\xff\xfe"}},
		{"a name with a blank", "my prog\x00x\x00", []string{"my prog", "x"}},
		{"blanks at the end of an argument", "a\x00b  \x00", []string{"a", "b  "}},
		{"title that fills its place", "nginx: worker process", []string{"nginx: worker process"}},
		{"title with blanks after it", "sendmail: accepting connections        ", []string{"sendmail: accepting connections"}},
		{"title with NULs after it", "sshd: root@pts/0\x00\x00\x00\x00\x00\x00", []string{"sshd: root@pts/0"}},
		{"title with blanks and one NUL", "postgres: writer    \x00", []string{"postgres: writer"}},
		{"title with blanks and NULs", "postgres: writer    \x00\x00", []string{"postgres: writer"}},
		{"title of one word", "worker" + strings.Repeat("\x00", 20), []string{"worker"}},
		{"only blanks", "   ", []string{"   "}},
	} {
		if got := parseCommandLine([]byte(c.raw), false); got == nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q gives %q, want %q", c.what, c.raw, got, c.want)
		}
	}
}

func TestParseCommandLineCutsBetweenCharacters(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{"a\x00bé", "bé"},
		{"a\x00b\xc3", "b"},
		{"a\x00b\xe2\x82", "b"},
		{"a\x00b\xf0\x9f\x92", "b"},
		{"a\x00b\xff", "b\xff"}, // never was a character
	} {
		got := parseCommandLine([]byte(c.raw), true)
		if len(got) != 2 || got[1] != c.want {
			t.Errorf("%q gives %q, want %q", c.raw, got, c.want)
		}
	}
}

func FuzzParseCommandLine(f *testing.F) {
	for _, raw := range []string{"", "sleep\x0060\x00", "a\x00\x00b\x00", "sshd: root\x00\x00\x00", "title", "a\x00b\xe2\x82", "\x00"} {
		f.Add([]byte(raw), false)
		f.Add([]byte(raw), true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, cut bool) {
		args := parseCommandLine(raw, cut)
		if args == nil {
			t.Fatal("nil is unreadable, not empty")
		}
		if len(args) > len(raw) {
			t.Fatalf("%d arguments of %d bytes", len(args), len(raw))
		}
		size := 0
		for _, a := range args {
			size += len(a)
			if strings.IndexByte(a, 0) >= 0 {
				t.Fatalf("a NUL in %q", a)
			}
		}
		if size > len(raw) {
			t.Fatalf("%d bytes of %d", size, len(raw))
		}
		if cut && utf8.Valid(bytes.TrimRight(raw, "\x80\xff")) && len(args) > 0 && utf8.Valid(raw) && !utf8.ValidString(strings.Join(args, "")) {
			t.Fatalf("%q is cut inside a character: %q", raw, args)
		}
	})
}
