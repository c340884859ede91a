package proc

import (
	"strings"
	"testing"
)

const statRest = " S 1 10 10 34816 10 4194304 100 200 3 4 50 60 7 8 20 -5 2 0 12345 8192000 300 18446744073709551615 1 2 140730000000000 0 0 0 0 0 0 0 0 0 17 3 0 2 0 0 0 1 2 3 4 5 6 7 0\n"

func TestParseStat(t *testing.T) {
	got, ok := parseStat([]byte("42 (cat)" + statRest))
	if !ok {
		t.Fatal("not parsed")
	}
	if string(got.comm) != "cat" {
		t.Errorf("comm %q", got.comm)
	}
	got.comm = nil
	want := stat{
		pid: 42, state: 'S', ppid: 1, pgrp: 10, session: 10, tty: 34816, flags: 4194304,
		minorFault: 100, majorFault: 3, utime: 50, stime: 60, priority: 20, nice: -5, threads: 2,
		start: 12345, stack: 140730000000000, processor: 3, policy: 2,
	}
	if got.pid != want.pid || got.state != want.state || got.ppid != want.ppid || got.pgrp != want.pgrp || got.session != want.session ||
		got.tty != want.tty || got.flags != want.flags || got.minorFault != want.minorFault || got.majorFault != want.majorFault ||
		got.utime != want.utime || got.stime != want.stime || got.priority != want.priority || got.nice != want.nice ||
		got.threads != want.threads || got.start != want.start || got.stack != want.stack || got.processor != want.processor || got.policy != want.policy {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestParseStatNames(t *testing.T) {
	for _, name := range []string{"", ")", "(", "a b", ") R 1 (a\nb) S 9", "x) Z 0 (y", "((()))", "\xff\xfe", "a\n"} {
		got, ok := parseStat([]byte("7 (" + name + ")" + statRest))
		if !ok || string(got.comm) != name || got.state != 'S' || got.start != 12345 {
			t.Errorf("%q: comm %q, state %c, start %d, %v", name, got.comm, got.state, got.start, ok)
		}
	}
}

func TestParseStatRefuses(t *testing.T) {
	for _, text := range []string{
		"", "42", "42 (cat", "42 cat)" + statRest, "42 (cat) S", "42 (cat) S 1 2 3\n", "(cat)" + statRest, "x (cat)" + statRest,
		"0 (cat)" + statRest, "42(cat)" + statRest, "42 (cat)S 1" + statRest,
		"42 (cat)" + strings.Replace(statRest, "12345", "123x5", 1),
		"42 (cat)" + strings.Replace(statRest, "12345", "99999999999999999999", 1),
		"42 (cat)" + strings.Replace(statRest, " 12345", "", 1) + ")",
	} {
		if got, ok := parseStat([]byte(text)); ok {
			t.Errorf("%q is parsed as %+v", text, got)
		} else if got.comm != nil || got.pid != 0 || got.start != 0 {
			t.Errorf("%q: refused with %+v", text, got)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (cat)" + statRest))
	f.Add([]byte("7 () R 1 (a\nb) S 9)" + statRest))
	f.Add([]byte("1 (a) Z"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := parseStat(b)
		if !ok {
			if got.comm != nil || got.pid != 0 || got.state != 0 || got.start != 0 {
				t.Fatalf("refused with %+v", got)
			}
			return
		}
		if got.pid <= 0 || len(got.comm) > len(b) {
			t.Fatalf("pid %d, name of %d bytes from %d", got.pid, len(got.comm), len(b))
		}
	})
}

func TestParseStatm(t *testing.T) {
	for _, c := range []struct {
		text     string
		vms, rss uint64
		ok       bool
	}{
		{"4579 2881 948 1 0 2397 0\n", 4579 * 4096, 2881 * 4096, true},
		{"0 0 0 0 0 0 0\n", 0, 0, true},
		{"10 2", 10 * 4096, 2 * 4096, true},
		{"", 0, 0, false}, {"10", 0, 0, false}, {"10 ", 0, 0, false}, {"10 x", 0, 0, false}, {"10\t2", 0, 0, false},
		{"18446744073709551615 1", 0, 0, false},
	} {
		vms, rss, ok := parseStatm([]byte(c.text))
		if vms != c.vms || rss != c.rss || ok != c.ok {
			t.Errorf("%q: %d, %d, %v; want %d, %d, %v", c.text, vms, rss, ok, c.vms, c.rss, c.ok)
		}
	}
}

func FuzzParseStatm(f *testing.F) {
	f.Add([]byte("4579 2881 948 1 0 2397 0\n"))
	f.Add([]byte("18446744073709551615 1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		vms, rss, ok := parseStatm(b)
		if vms%pageSize != 0 || rss%pageSize != 0 || !ok && (vms != 0 || rss != 0) {
			t.Fatalf("%q: %d, %d, %v", b, vms, rss, ok)
		}
	})
}

func TestParseIO(t *testing.T) {
	got, ok := parseIO([]byte("rchar: 6976\nwchar: 1\nsyscr: 10\nsyscw: 0\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 5\n"))
	if want := (IO{ReadBytes: 4096, WriteBytes: 8192}); !ok || got != want {
		t.Errorf("got %+v, %v; want %+v", got, ok, want)
	}
	for _, text := range []string{"", "read_bytes: 1\n", "read_bytes: 1\nwrite_bytes: -2\n", "read_bytes: 1\nwrite_bytes: x\n", "read_bytes:1\nwrite_bytes:2\n"} {
		if got, ok := parseIO([]byte(text)); ok || got != (IO{}) {
			t.Errorf("%q: got %+v, %v", text, got, ok)
		}
	}
}

func FuzzParseIO(f *testing.F) {
	f.Add([]byte("read_bytes: 4096\nwrite_bytes: 8192\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, ok := parseIO(b); !ok && got != (IO{}) {
			t.Fatalf("refused with %+v", got)
		}
	})
}
