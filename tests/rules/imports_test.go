package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// allowed is the import table: which packages of ours a package may import, and
// which from outside the standard library.
var allowed = map[string]struct {
	ours, outside []string
	why           string
}{
	"proc":    {nil, []string{"golang.org/x/sys/unix"}, "it is asked about the kernel and knows nobody who asks"},
	"watch":   {[]string{"proc", "bpf"}, nil, "what lives between requests knows the kernel's side, not HTTP"},
	"web":     {nil, nil, "it only embeds files"},
	"api":     {[]string{"proc", "ptrace", "watch", "run"}, nil, "HTTP alone; it gets the web files as an fs.FS"},
	"":        {[]string{"api", "bpf", "elf", "proc", "ptrace", "run", "sandbox", "watch", "web"}, []string{"golang.org/x/sys/unix"}, "main wires the parts"},
	"bpf":     {nil, []string{"golang.org/x/sys/unix", "github.com/cilium/ebpf/btf", "github.com/cilium/ebpf/asm"}, "it speaks tgid and raw start time; never the library's loader"},
	"elf":     {nil, []string{"github.com/ianlancetaylor/demangle"}, "it knows files, no processes; a demangler is all it may bring"},
	"ptrace":  {[]string{"proc", "elf"}, []string{"golang.org/x/sys/unix", "golang.org/x/arch/x86/x86asm"}, "stop, copy, resume"},
	"sandbox": {nil, []string{"golang.org/x/sys/unix"}, "it closes the process it is in, whatever that is for"},
	"run":     {[]string{"proc"}, []string{"golang.org/x/sys/unix"}, "launched process trees know proc, not HTTP"},
}

// banned are imports from the standard library that would break a layer.
var banned = []struct{ pkg, path, why string }{
	{"proc", "log", "lower layers do not log"},
	{"proc", "log/slog", "lower layers do not log"},
	{"proc", "flag", "lower layers do not read flags"},
	{"proc", "net/http", "proc does not know HTTP"},
	{"proc", "encoding/json", "the wire format belongs to api"},
	{"proc", "os/exec", "nothing is started by a reader"},
	{"proc", "os/user", "names come from the file, the same with and without cgo"},
	{"elf", "log", "lower layers do not log"},
	{"elf", "log/slog", "lower layers do not log"},
	{"elf", "os/exec", "a file is read, never run"},
	{"ptrace", "log", "nothing is logged between stop and resume"},
	{"ptrace", "log/slog", "nothing is logged between stop and resume"},
	{"ptrace", "net/http", "ptrace does not know HTTP"},
	{"ptrace", "encoding/json", "the wire format belongs to api"},
	{"ptrace", "os/exec", "nothing is started by a snapshot"},
	{"watch", "log", "lower layers do not log"},
	{"watch", "log/slog", "lower layers do not log"},
	{"watch", "flag", "lower layers do not read flags"},
	{"watch", "net/http", "watch does not know HTTP"},
	{"watch", "encoding/json", "the wire format belongs to api"},
	{"watch", "os/exec", "nothing is started by a watch"},
	{"api", "flag", "main reads the flags"},
	{"api", "os/exec", "the server starts nothing"},
	{"api", "os/signal", "main stops the parts in order"},
	{"api", "net/http/pprof", "it registers itself on the default mux"},
	{"api", "expvar", "it registers itself on the default mux"},
	{"web", "net/http", "web only embeds files"},
}

func short(path string) (string, bool) {
	if path == module {
		return "", true
	}
	return strings.CutPrefix(path, module+"/")
}

func TestImportTable(t *testing.T) {
	seen := 0
	for _, p := range list(t, "./...") {
		name, ok := short(p.ImportPath)
		if !ok || strings.HasPrefix(name, "tests/") {
			continue
		}
		if p.Name == "main" && strings.Contains(name, "/internal/") {
			continue // writes a source file; nothing can import it
		}
		rule, ok := allowed[name]
		if !ok {
			t.Errorf("package %s is not in the import table", p.ImportPath)
			continue
		}
		seen++
		if len(p.CgoFiles) > 0 {
			t.Errorf("%s uses cgo: the binary is static, CGO_ENABLED=0", p.ImportPath)
		}
		for _, imp := range p.Imports {
			if ours, ok := short(imp); ok {
				if !slices.Contains(rule.ours, ours) {
					t.Errorf("%s imports %s: %s", p.ImportPath, imp, rule.why)
				}
			} else if first, _, _ := strings.Cut(imp, "/"); strings.Contains(first, ".") && !slices.Contains(rule.outside, imp) {
				t.Errorf("%s imports %s from outside: %s", p.ImportPath, imp, rule.why)
			}
			for _, b := range banned {
				if b.pkg == name && b.path == imp {
					t.Errorf("%s imports %s: %s", p.ImportPath, imp, b.why)
				}
			}
		}
	}
	if seen < 5 {
		t.Errorf("%d packages seen, want at least main, api, watch, proc and web", seen)
	}
}

// The tests of this tree may use everything, but nothing that ships uses them.
func TestNothingImportsTests(t *testing.T) {
	for _, p := range list(t, "-deps", ".") {
		if strings.HasPrefix(p.ImportPath, module+"/tests/") {
			t.Errorf("the binary contains %s", p.ImportPath)
		}
	}
}

func TestExternalModules(t *testing.T) {
	want := []string{"github.com/cilium/ebpf", "github.com/ianlancetaylor/demangle", "golang.org/x/arch", "golang.org/x/sys"}
	var got []string
	for _, p := range list(t, "-deps", ".") {
		if p.Module != nil && !p.Module.Main && !slices.Contains(got, p.Module.Path) {
			got = append(got, p.Module.Path)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("modules in the binary: got %v, want exactly %v", got, want)
	}
	used := map[string]bool{} // by a package that is there, in the binary or not yet
	for _, p := range list(t, "-deps", "./...") {
		if p.Module != nil && !p.Module.Main {
			used[p.Module.Path] = true
		}
	}
	mod := string(read(t, "go.mod"))
	for line := range strings.SplitSeq(mod, "\n") {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		switch f[0] {
		case "replace", "exclude", "retract", "tool":
			t.Errorf("go.mod has a %s line: a fresh clone must build from the named versions alone, tools live in tests/tools", f[0])
		}
		if slices.Contains(f, "=>") {
			t.Errorf("go.mod replaces a module: %s", line)
		}
		if f[0] == "require" {
			f = f[1:]
		}
		if len(f) >= 2 && strings.HasPrefix(f[1], "v") && !used[f[0]] {
			t.Errorf("go.mod requires %s, which no package uses: test-only modules live in a module of their own", f[0])
		}
	}
}

// walk visits the syntax of a package's own files, without its tests.
func walk(t *testing.T, p goPackage, visit func(fset *token.FileSet, n ast.Node)) {
	t.Helper()
	for _, name := range p.GoFiles {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if n != nil {
				visit(fset, n)
			}
			return true
		})
	}
}

func TestLayersKeepTheirWord(t *testing.T) {
	for _, p := range list(t, "./...") {
		name, ok := short(p.ImportPath)
		if !ok || strings.HasPrefix(name, "tests/") || strings.Contains(name, "/internal/") {
			continue
		}
		walk(t, p, func(fset *token.FileSet, n ast.Node) {
			at := func() string {
				pos := fset.Position(n.Pos())
				rel, _ := filepath.Rel(root(), pos.Filename)
				pos.Filename = rel
				return pos.String()
			}
			switch n := n.(type) {
			case *ast.GoStmt:
				// One needs a thread that begins now, and waits for it.
				if file := filepath.Base(fset.Position(n.Pos()).Filename); name == "proc" && file != "timens.go" {
					t.Errorf("%s: proc starts a goroutine; it is asked and answers", at())
				}
			case *ast.FuncDecl:
				// Package main locks its thread in one, before anything else can run there.
				if n.Recv == nil && n.Name.Name == "init" && (name != "" || len(n.Body.List) != 1) {
					t.Errorf("%s: an init function: nothing happens at import", at())
				}
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				if ok && x.Name == "os" && n.Sel.Name == "Exit" && name != "" {
					t.Errorf("%s: os.Exit outside main", at())
				}
				if ok && x.Name == "http" && n.Sel.Name == "DefaultServeMux" {
					t.Errorf("%s: the default mux is anybody's", at())
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "print" || f.Name == "println") {
					t.Errorf("%s: %s left behind", at(), f.Name)
				}
			}
		})
	}
}
