package rules

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	link   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	quoted = regexp.MustCompile("`([A-Za-z0-9_./-]+/[A-Za-z0-9_.-]+\\.(?:go|sh|mjs|ts|tsx|md|css|html|c|h))`")
)

// slug is the anchor that a heading gets.
func slug(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.ReplaceAll(heading, "`", "")) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for line := range strings.SplitSeq(text, "\n") {
		if h := strings.TrimLeft(line, "#"); h != line && strings.HasPrefix(h, " ") {
			all[slug(strings.TrimSpace(h))] = true
		}
	}
	return all
}

// Every link inside the documentation leads somewhere, and every file of this
// tree that it names is there.
func TestDocumentLinks(t *testing.T) {
	documents := 0
	for _, f := range tracked(t) {
		if !strings.HasSuffix(f, ".md") {
			continue
		}
		documents++
		text := string(read(t, f))
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			to, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			target := f
			if to != "" {
				target = filepath.Join(filepath.Dir(f), to)
			}
			if _, err := os.Stat(filepath.Join(root(), target)); err != nil {
				t.Errorf("%s links to %s, which is not there", f, m[1])
				continue
			}
			if anchor != "" && !anchors(string(read(t, target)))[anchor] {
				t.Errorf("%s links to %s: no such heading", f, m[1])
			}
		}
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(m[1], "/") {
				continue // a path of the system
			}
			_, atRoot := os.Stat(filepath.Join(root(), m[1]))
			_, beside := os.Stat(filepath.Join(root(), filepath.Dir(f), m[1]))
			if atRoot != nil && beside != nil && !generated[m[1]] {
				t.Errorf("%s names %s, which is not there", f, m[1])
			}
		}
	}
	if documents < 5 {
		t.Errorf("%d documents found, want README, ARCHITECTURE, CONTRIBUTING, LIMITS, CHANGELOG and more", documents)
	}
}

// The pictures of the README are small, and none is there that it does not show.
func TestPictures(t *testing.T) {
	const (
		most  = 200 << 10
		movie = 2 << 20
	)
	readme := string(read(t, "README.md"))
	pictures := 0
	for _, f := range tracked(t) {
		if !strings.HasPrefix(f, "web/screenshots/") {
			continue
		}
		pictures++
		size := len(read(t, f))
		limit := most
		if f == "web/screenshots/procinsh.webp" {
			limit = movie
		}
		if size == 0 || size > limit {
			t.Errorf("%s has %d bytes, want 1 to %d", f, size, limit)
		}
		if !strings.Contains(readme, "]("+f+")") {
			t.Errorf("%s is not in the README", f)
		}
	}
	if pictures < 6 {
		t.Errorf("%d pictures, want five and a recording", pictures)
	}
	b := read(t, "web/screenshots/procinsh.webp")
	if len(b) < 16 || string(b[:4]) != "RIFF" || int(binary.LittleEndian.Uint32(b[4:])) != len(b)-8 || string(b[8:16]) != "WEBPVP8X" {
		t.Fatal("the recording is no WebP that moves")
	}
	if frames := bytes.Count(b, []byte("ANMF")); frames < 20 {
		t.Errorf("the recording has %d frames", frames)
	}
}

// generated are files that a build makes.
var generated = map[string]bool{}

func TestDocumentsExist(t *testing.T) {
	for _, f := range []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "LIMITS.md", "CHANGELOG.md", "LICENSE"} {
		if len(strings.TrimSpace(string(read(t, f)))) < 40 {
			t.Errorf("%s says nothing", f)
		}
	}
}
