package proc

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// rowOf scans and returns the row of this test.
func rowOf(t *testing.T, s *Scanner, want Want) Row {
	t.Helper()
	rows, err := s.Scan(want)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(rows, func(r Row) bool { return int(r.ID.PID) == os.Getpid() })
	if i < 0 {
		t.Fatal("the test is not in its list")
	}
	return rows[i]
}

// later makes everything due that is read in turn.
func later(s *Scanner) {
	ask := s.reader.ask
	s.reader.ask = func() int64 { return ask() + 2*int64(mapsAge) }
}

func TestScanMappings(t *testing.T) {
	s := live(t).NewScanner()
	if r := rowOf(t, s, Want{}); r.Mappings != nil || r.Maps != nil || r.MapsEpoch != 0 || r.MapsErr != nil {
		t.Fatalf("maps that nobody asked for: %+v", r)
	}
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	first := rowOf(t, s, Want{Maps: true, Mappings: true})
	if first.Mappings == nil || first.Maps == nil || first.MapsEpoch == 0 || first.MapsErr != nil {
		t.Fatalf("maps that were asked for: %+v", first)
	}
	if m := first.Mappings; len(m.Maps) < 10 || m.Total != len(m.Maps) {
		t.Fatalf("%d mappings of %d", len(m.Maps), m.Total)
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(first.Mappings.Maps, func(m Mapping) bool { return m.Path == exe }) {
		t.Errorf("no mapping is of %s", exe)
	}
	if again := rowOf(t, s, Want{Maps: true, Mappings: true}); again.Mappings != first.Mappings || again.Maps != first.Maps || again.MapsEpoch != first.MapsEpoch {
		t.Error("read again before it was due")
	}
	later(s)
	if err := unix.Munmap(page); err != nil {
		t.Fatal(err)
	}
	changed := rowOf(t, s, Want{Mappings: true})
	if changed.Mappings == nil || changed.MapsEpoch == first.MapsEpoch || changed.Maps != nil {
		t.Errorf("after a mapping went: epoch %d after %d, summary %v", changed.MapsEpoch, first.MapsEpoch, changed.Maps)
	}
	if r := rowOf(t, s, Want{Maps: true}); r.Mappings != nil || r.Maps == nil {
		t.Errorf("only the summary was asked for: %+v", r)
	}
}

// spaceTree is a process with n mappings.
func spaceTree(t *testing.T, n int) *FS {
	t.Helper()
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{
		"stat":      "cpu  1 1 1 1 0 0 0 0 0 0\nbtime 1000\n",
		"7/stat":    "7 (a) S 1 7 7 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 500 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
		"7/status":  "Name:\ta\nUid:\t0\t0\t0\t0\n",
		"7/statm":   "1 1 1 1 0 1 0\n",
		"7/cmdline": "a\x00", "7/cgroup": "0::/\n", "7/exe": "-> /bin/a",
		"7/maps": mapLines(n),
	})
	return openTree(t, dir)
}

func mapLines(n int) string {
	var b []byte
	for i := range n {
		b = append(b, hexAddress(i)...)
		b = append(b, '-')
		b = append(b, hexAddress(i+1)...)
		b = append(b, " r--p 00000000 00:00 0 \n"...)
	}
	return string(b)
}

func hexAddress(i int) string {
	const digits = "0123456789abcdef"
	v := 0x10000 + i*0x1000
	b := make([]byte, 12)
	for k := range b {
		b[11-k] = digits[v&15]
		v >>= 4
	}
	return string(b)
}

func TestScanMappingsAreCut(t *testing.T) {
	s := spaceTree(t, maxListedMaps+5).NewScanner()
	rows, err := s.Scan(Want{Mappings: true})
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	m := rows[0].Mappings
	if m == nil || len(m.Maps) != maxListedMaps || m.Total != maxListedMaps+5 {
		t.Fatalf("got %+v, want the first %d", m, maxListedMaps)
	}
	// As if the processes before this one had left no room.
	s.reader.mappings = maxHostMaps - 1
	var row Row
	var k known
	dir, err := openAt(s.fs.dir, "7", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		t.Fatal(err)
	}
	defer closeFD(dir)
	if err := s.reader.row(dir, 7, Want{Mappings: true}, &row, &k); err != nil {
		t.Fatal(err)
	}
	if row.Mappings != nil || !errors.Is(row.MapsErr, ErrTruncated) {
		t.Errorf("beyond the room of all processes: %v, %v", row.Mappings, row.MapsErr)
	}
}

func TestScanMappingsUnreadable(t *testing.T) {
	tree := spaceTree(t, 3)
	s := tree.NewScanner()
	path := filepath.Join(tree.mount, "7", "maps")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o755); err != nil { // a read of it fails with EISDIR
		t.Fatal(err)
	}
	rows, err := s.Scan(Want{Mappings: true, Maps: true})
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	if r := rows[0]; r.Mappings != nil || r.Maps != nil || r.MapsErr == nil || errors.Is(r.MapsErr, fs.ErrNotExist) {
		t.Fatalf("unreadable maps: %+v", r)
	}
	was := rows[0].MapsErr
	later(s)
	if rows, err = s.Scan(Want{Mappings: true, Maps: true}); err != nil || rows[0].MapsErr != was {
		t.Errorf("the same reason gave another value: %v, %v", rows[0].MapsErr, err)
	}
}
