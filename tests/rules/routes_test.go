package rules

import (
	"strings"
	"testing"

	"procinsh/api"
)

// Every route of the API stands in the table of endpoints of the README, with its
// method, and the table has no route that is not there.
func TestRoutesAreDocumented(t *testing.T) {
	_, section, ok := strings.Cut(string(read(t, "README.md")), "\n## Endpoints\n")
	if !ok {
		t.Fatal("README.md has no section Endpoints")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]bool{} // "GET /path"
	for line := range strings.SplitSeq(section, "\n") {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cell := strings.Split(line, "|")[1]
		for method := range strings.SplitSeq("GET POST PUT DELETE", " ") {
			if i := strings.Index(cell, method+" "); i >= 0 || strings.Contains(cell, method+"`") {
				for part := range strings.SplitSeq(cell, "`") {
					if path := strings.TrimPrefix(strings.TrimSpace(part), method+" "); strings.HasPrefix(path, "/") {
						path, _, _ = strings.Cut(path, "?")
						documented[method+" "+path] = true
					}
				}
			}
		}
	}
	routes := map[string]bool{}
	for _, r := range api.Routes() {
		key := r.Method + " " + strings.TrimSuffix(r.Pattern, "{$}")
		if r.Method == "HEAD" {
			continue // a GET without body
		}
		routes[key] = true
		if !documented[key] {
			t.Errorf("%s is not in the table of endpoints", key)
		}
	}
	if len(routes) < 10 {
		t.Errorf("api.Routes lists %d routes, that cannot be all", len(routes))
	}
	for key := range documented {
		if !routes[key] {
			t.Errorf("the table of endpoints names %s, which is no route", key)
		}
	}
}
