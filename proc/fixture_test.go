package proc

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// openFixture opens a tree of testdata with a fixed boot time.
func openFixture(t testing.TB, tree string) *FS {
	t.Helper()
	return openTree(t, filepath.Join("testdata", tree))
}

// fixtureBoot is when the fixture host booted, Unix epoch ms.
const fixtureBoot = 1_700_000_000_000

func openTree(t testing.TB, dir string) *FS {
	t.Helper()
	fs, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	fs.boot = func() int64 { return fixtureBoot }
	t.Cleanup(func() { fs.Close() })
	return fs
}

// copyFixture copies a tree so that a test can change it.
func copyFixture(t testing.TB, tree string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), tree)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", tree))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// edit replaces old by new in a file, once.
func edit(t testing.TB, path, old, new string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before := string(b)
	after := strings.Replace(before, old, new, 1)
	if after == before {
		t.Fatalf("%s does not hold %q", path, old)
	}
	writeFile(t, path, after)
}

// live opens the real procfs.
func live(t testing.TB) *FS {
	t.Helper()
	fs, err := Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	return fs
}

// idOf returns the identity of a process that runs now.
func idOf(t testing.TB, fs *FS, pid int) ID {
	t.Helper()
	b, err := fs.readFile(strconv.Itoa(pid)+"/stat", nil)
	if err != nil {
		t.Fatal(err)
	}
	st, ok := parseStat(b)
	if !ok {
		t.Fatalf("stat of %d is not parsed", pid)
	}
	return ID{int32(pid), st.start}
}
