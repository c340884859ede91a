package rules

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestOnePackageComment(t *testing.T) {
	for _, p := range list(t, "./...") {
		var with []string
		for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles) {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Fatal(err)
			}
			if f.Doc == nil {
				continue
			}
			with = append(with, name)
			first := "Package " + p.Name
			if p.Name == "main" {
				first = ""
			}
			if text := f.Doc.Text(); !strings.HasPrefix(text, first) {
				t.Errorf("%s/%s: the package comment begins %.40q, want %q", p.ImportPath, name, text, first)
			}
		}
		if len(with) != 1 {
			t.Errorf("%s has %d package comments, want exactly one: %v", p.ImportPath, len(with), with)
		}
	}
}

func TestGofmt(t *testing.T) {
	args := []string{"-l"}
	for _, f := range tracked(t) {
		if strings.HasSuffix(f, ".go") {
			args = append(args, f)
		}
	}
	if out := run(t, "gofmt", args...); len(out) > 0 {
		t.Errorf("gofmt would change:\n%s", out)
	}
}
