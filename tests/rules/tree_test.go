// Package rules holds the rules of this tree as tests: who may import whom, what
// is said about each package, cap and route, and what may lie in the repository.
// A failure names the rule and the reason for it.
package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// goPackage is what these tests read of go list -json.
type goPackage struct {
	Dir          string
	ImportPath   string
	Name         string
	Imports      []string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
	CgoFiles     []string
	Standard     bool
	Module       *struct {
		Path string
		Main bool
	}
}

const module = "procinsh"

// root is the top of the tree: the folder of go.mod.
var root = sync.OnceValue(func() string {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		panic(err)
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
})

func run(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = root()
	out, err := cmd.Output()
	if err != nil {
		if e := new(exec.ExitError); errors.As(err, &e) {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, e.Stderr)
		}
		t.Fatal(err)
	}
	return out
}

func list(t *testing.T, args ...string) []goPackage {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(run(t, "go", append([]string{"list", "-json"}, args...)...)))
	var ps []goPackage
	for {
		var p goPackage
		if err := dec.Decode(&p); err == io.EOF {
			return ps
		} else if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
}

// tracked lists the files that git has, or will have, in this tree.
func tracked(t *testing.T) []string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root(), ".git")); err != nil {
		t.Skip("this tree is no git checkout")
	}
	var files []string
	for f := range strings.SplitSeq(string(run(t, "git", "ls-files", "-z")), "\x00") {
		if f == "" {
			continue
		}
		if _, err := os.Lstat(filepath.Join(root(), f)); err == nil { // not one deleted just now
			files = append(files, f)
		}
	}
	if len(files) < 20 {
		t.Fatalf("git knows %d files, that cannot be all", len(files))
	}
	return files
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root(), path))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
