package bpf

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
)

// pathRecord makes a record as walk() of src/io.bpf.c sends it.
func pathRecord(flags uint32, names ...string) []byte {
	b := make([]byte, pathNames)
	le := binary.LittleEndian
	le.PutUint64(b[ioKeyStart:], 7)
	le.PutUint64(b[ioKeyInode:], 42)
	le.PutUint32(b[ioKeyDev:], 8<<20|1)
	le.PutUint32(b[ioKeyTGID:], 1234)
	le.PutUint32(b[ioKeyKind:], uint32(File))
	le.PutUint32(b[pathPID:], 1234)
	le.PutUint32(b[pathFlags:], flags)
	for _, n := range names {
		b = append(append(b, n...), 0)
	}
	le.PutUint32(b[pathLength:], uint32(len(b)-pathNames))
	return b
}

func TestAppendPath(t *testing.T) {
	cut := pathRecord(0, "b", "a")
	for _, c := range []struct {
		name   string
		record []byte
		want   string
		ok     bool
	}{
		{"plain", pathRecord(0, "passwd", "etc"), "/etc/passwd", true},
		{"one name", pathRecord(0, "vmlinuz"), "/vmlinuz", true},
		{"blanks and others", pathRecord(0, " a \n\xff ", "b c"), "/b c/ a \n\xff ", true},
		{"deleted", pathRecord(pathDeleted, "f", "tmp"), "/tmp/f (deleted)", true},
		{"named like deleted", pathRecord(0, "f (deleted)"), "/f (deleted)", true},
		{"memfd", pathRecord(pathDeleted, "memfd:a/b"), "/memfd:a/b (deleted)", true},
		{"root", pathRecord(0), "/", true},
		{"truncated", pathRecord(pathTruncated, "a"), "", false},
		{"empty record", nil, "", false},
		{"header only", cut[:pathNames-1], "", false},
		{"shorter than it says", cut[:len(cut)-1], "", false},
		{"longest", pathRecord(0, strings.Repeat("x", 4095)), "/" + strings.Repeat("x", 4095), true},
	} {
		got, ok := appendPath([]byte("before"), c.record)
		if string(got) != "before"+c.want || ok != c.ok {
			t.Errorf("%s: got %q, %v, want %q, %v", c.name, got, ok, "before"+c.want, c.ok)
		}
	}
}

func TestAddLabel(t *testing.T) {
	s := &ioSensor{}
	s.addLabel(pathRecord(0, "b", "a"))
	s.addLabel(pathRecord(pathTruncated))
	s.addLabel([]byte("no record"))
	foreign := pathRecord(0, "c")
	binary.LittleEndian.PutUint32(foreign[pathPID:], 0)
	s.addLabel(foreign)
	s.addLabel(pathRecord(0, "d"))
	if len(s.labels) != 3 {
		t.Fatalf("%d labels, want 3", len(s.labels))
	}
	want := transferKey{Process{1234, 7}, Resource{File, 8, 1, 42, 0}, false}
	for i, text := range []string{"/a/b", "", "/d"} {
		l := s.labels[i]
		if l.key != want || string(s.text[l.from:l.to]) != text || l.unknown != (text == "") {
			t.Errorf("label %d: %+v %q, want %q", i, l, s.text[l.from:l.to], text)
		}
	}
}

func FuzzPathRecord(f *testing.F) {
	f.Add(pathRecord(0, "passwd", "etc"))
	f.Add(pathRecord(pathDeleted, "f", "tmp"))
	f.Add(pathRecord(0))
	f.Add(pathRecord(pathTruncated, "a"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, record []byte) {
		path, ok := appendPath(nil, record)
		switch {
		case !ok && len(path) != 0:
			t.Errorf("no path, but %q", path)
		case !ok:
		case len(path) > len(record)+len(deletedMark):
			t.Errorf("%d bytes of path from %d", len(path), len(record))
		case path[0] != '/':
			t.Errorf("%q does not begin at the root", path)
		case bytes.IndexByte(path, 0) >= 0:
			t.Errorf("%q holds NUL", path)
		}
		s := &ioSensor{}
		s.addLabel(record)
		if len(s.labels) > 1 || len(s.labels) == 1 && s.labels[0].to > len(s.text) {
			t.Errorf("labels %+v of %d bytes", s.labels, len(s.text))
		}
	})
}

// Programs write paths of the next window before this one is read.
func TestPathsOfTheNextWindow(t *testing.T) {
	s := &ioSensor{}
	of := func(epoch uint32, names ...string) []byte {
		r := pathRecord(0, names...)
		binary.LittleEndian.PutUint32(r[pathEpoch:], epoch)
		return r
	}
	for _, r := range [][]byte{of(1, "old"), of(2, "new", "a"), of(2, "newer", "b")} {
		s.addLabel(r)
	}
	s.keepLabels(2)
	s.addLabel(of(3, "newest"))
	var got []string
	for _, l := range s.labels {
		got = append(got, string(s.text[l.from:l.to]))
	}
	if want := []string{"/a/new", "/b/newer", "/newest"}; !slices.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
	if s.keepLabels(2); len(s.labels) != 2 {
		t.Errorf("%d labels, want the two of their window", len(s.labels))
	}
}
