package rules

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var capName = regexp.MustCompile(`^max[A-Z]`)

// value evaluates a constant that needs no other package and no other constant.
func value(e ast.Expr) (int64, bool) {
	tv, err := types.Eval(token.NewFileSet(), types.NewPackage("p", "p"), token.NoPos, types.ExprString(e))
	if err != nil || tv.Value == nil {
		return 0, false
	}
	return constant.Int64Val(constant.ToInt(tv.Value))
}

// spellings are the ways LIMITS.md may write n: 4096, 4,096, 4 KiB …
func spellings(n int64) []string {
	plain := strconv.FormatInt(n, 10)
	var grouped strings.Builder
	for i, c := range plain {
		if i > 0 && (len(plain)-i)%3 == 0 {
			grouped.WriteByte(',')
		}
		grouped.WriteRune(c)
	}
	all := []string{plain, grouped.String()}
	for i, unit := range []string{"KiB", "MiB", "GiB"} {
		if shift := 10 * (i + 1); n>>shift<<shift == n && n > 0 {
			all = append(all, fmt.Sprintf("%d %s", n>>shift, unit))
		}
	}
	return all
}

func holds(row string, n int64) bool {
	for _, s := range spellings(n) {
		if regexp.MustCompile(`(^|[^0-9,.])` + regexp.QuoteMeta(s) + `($|[^0-9,])`).MatchString(row) {
			return true
		}
	}
	return false
}

func TestSpellings(t *testing.T) {
	for _, c := range []struct {
		row  string
		n    int64
		want bool
	}{
		{"| maxThreads | 4,096 | threads |", 4096, true},
		{"| maxThreads | 4096 |", 4096, true},
		{"| maxBody | 64 KiB |", 65536, true},
		{"| maxBody | 164 KiB |", 65536, false},
		{"| maxFDs | 100,000 |", 100000, true},
		{"| maxFDs | 1,100,000 |", 100000, false},
		{"| maxFDs | 100 |", 100000, false},
		{"| maxBoxes | 64 |", 64, true},
		{"| maxBoxes | 640 |", 64, false},
	} {
		if got := holds(c.row, c.n); got != c.want {
			t.Errorf("holds(%q, %d) = %v, want %v", c.row, c.n, got, c.want)
		}
	}
}

// Every cap is a constant max… and has a row with its number in LIMITS.md, and
// LIMITS.md names none that is gone.
func TestLimits(t *testing.T) {
	rows := map[string]string{} // name to its line
	named := regexp.MustCompile("`(max[A-Z][A-Za-z0-9]*)`")
	for line := range strings.SplitSeq(string(read(t, "LIMITS.md")), "\n") {
		for _, m := range named.FindAllStringSubmatch(line, -1) {
			rows[m[1]] += line
		}
	}
	have := map[string]bool{}
	for _, p := range list(t, "-deps", ".") { // what no user meets yet has no row yet
		if _, ours := short(p.ImportPath); !ours {
			continue
		}
		walk(t, p, func(fset *token.FileSet, n ast.Node) {
			d, ok := n.(*ast.GenDecl)
			if !ok || d.Tok != token.CONST {
				return
			}
			for _, s := range d.Specs {
				v := s.(*ast.ValueSpec)
				for i, name := range v.Names {
					if !capName.MatchString(name.Name) {
						continue
					}
					have[name.Name] = true
					row, ok := rows[name.Name]
					if !ok {
						t.Errorf("%s: cap %s is not in LIMITS.md", fset.Position(name.Pos()), name.Name)
						continue
					}
					if i >= len(v.Values) {
						continue
					}
					if want, ok := value(v.Values[i]); ok && !holds(row, want) {
						t.Errorf("LIMITS.md does not say that %s is %d: %s", name.Name, want, row)
					}
				}
			}
		})
	}
	if len(have) < 5 {
		t.Errorf("%d caps found in the code, that cannot be all", len(have))
	}
	for name := range rows {
		if !have[name] {
			t.Errorf("LIMITS.md names %s, which is no constant of this tree", name)
		}
	}
}
