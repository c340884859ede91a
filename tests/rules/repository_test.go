package rules

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxFile is the most a file of the repository may have: what is larger is built
// or fetched.
const maxFile = 3 << 20

// A script that is started by name can be started, and nothing but text, pictures
// and declared fixtures is in the tree.
func TestFiles(t *testing.T) {
	for _, f := range tracked(t) {
		full := filepath.Join(root(), f)
		st, err := os.Lstat(full)
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode()&os.ModeSymlink != 0 {
			to, err := os.Readlink(full)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(f, "/testdata/") {
				continue // a fixture of /proc is full of links to nowhere
			}
			if _, err := os.Stat(full); err != nil || filepath.IsAbs(to) {
				t.Errorf("%s is a link to %s: not a file of this tree", f, to)
			}
			continue
		}
		if st.Size() > maxFile {
			t.Errorf("%s has %d bytes, more than %d", f, st.Size(), maxFile)
		}
		b := read(t, f)
		if bytes.HasPrefix(b, []byte("\x7fELF")) && !strings.Contains(f, "/testdata/") && !strings.HasPrefix(f, "bpf/obj/") {
			t.Errorf("%s is a binary: build it instead", f)
		}
		if bytes.HasPrefix(b, []byte("#!")) && st.Mode()&0o111 == 0 {
			t.Errorf("%s begins with #! and is not executable", f)
		}
		if strings.HasSuffix(f, ".sh") && !bytes.HasPrefix(b, []byte("#!")) {
			t.Errorf("%s has no #! line", f)
		}
		if isText(b) && !strings.Contains(f, "/testdata/") && bytes.Contains(b, []byte("\r\n")) {
			t.Errorf("%s has lines that end in CR LF", f)
		}
	}
}

func isText(b []byte) bool { return !bytes.Contains(b[:min(len(b), 8000)], []byte{0}) }

// machinePaths are paths that mean something on this machine alone: where the
// tree lies, and the home of who builds it.
func machinePaths(t *testing.T) []*regexp.Regexp {
	paths := []string{root()}
	if home, err := os.UserHomeDir(); err == nil && strings.Count(home, "/") > 1 {
		paths = append(paths, home)
	}
	for _, name := range []string{"GOMODCACHE", "GOCACHE"} {
		paths = append(paths, strings.TrimSpace(string(run(t, "go", "env", name))))
	}
	var all []*regexp.Regexp
	for _, p := range paths {
		if strings.Count(p, "/") < 2 {
			continue // "/src" would be found everywhere
		}
		all = append(all, regexp.MustCompile(`(^|[^A-Za-z0-9_./-])`+regexp.QuoteMeta(p)+`($|[^A-Za-z0-9_-])`))
	}
	if len(all) == 0 {
		t.Skip("this tree lies too near the root of the file system to tell its path from others")
	}
	return all
}

func TestNoPathOfThisMachine(t *testing.T) {
	paths := machinePaths(t)
	for _, f := range tracked(t) {
		if st, err := os.Lstat(filepath.Join(root(), f)); err != nil || !st.Mode().IsRegular() {
			continue
		}
		b := read(t, f)
		for _, p := range paths {
			if m := p.FindIndex(b); m != nil {
				t.Errorf("%s:%d holds a path of this machine: %s", f, 1+bytes.Count(b[:m[0]], []byte{'\n'}), bytes.TrimSpace(b[m[0]:m[1]]))
			}
		}
	}
}

// The binary is static, has no build path in it and says which modules it has.
func TestBinary(t *testing.T) {
	exe := filepath.Join(t.TempDir(), module)
	cmd := exec.Command("go", "build", "-trimpath", "-o", exe, ".")
	cmd.Dir = root()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	info, err := buildinfo.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	if info.Path != module {
		t.Errorf("the binary's package is %s, want %s", info.Path, module)
	}
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	if i := bytes.Index(b, []byte(root()+"/")); i >= 0 && strings.Count(root(), "/") > 1 {
		t.Errorf("the binary holds the build path: %q", b[i:min(i+80, len(b))])
	}
	if bytes.Contains(b, []byte("/lib64/ld-linux")) {
		t.Error("the binary asks for a dynamic loader; it is to be static")
	}
}
