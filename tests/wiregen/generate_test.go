package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestGenerate(t *testing.T) {
	const src = "package api\n" +
		"// Inner is small.\n" +
		"type Inner struct {\n\tN int32 `json:\"n\"`\n}\n" +
		"type Outer struct {\n" +
		"\tA string `json:\"a\"` // why\n" +
		"\tB *float64 `json:\"b\"`\n" +
		"\tC []Inner `json:\"c\"`\n" +
		"\tD []string `json:\"d\" wire:\"nullable\"`\n" +
		"\tE []Inner `json:\"e,omitzero\"`\n" +
		"\tF map[string]uint64 `json:\"f\"`\n" +
		"\tG *Inner `json:\"g\"`\n" +
		"\tH []*bool `json:\"h\"`\n" +
		"}\n"
	const want = `
// Inner is small.
export interface Inner {
	n: number;
}

export interface Outer {
	a: string; // why
	b: number | null;
	c: Inner[];
	d: string[] | null;
	e?: Inner[];
	f: Record<string, number>;
	g: Inner | null;
	h: (boolean | null)[];
}
`
	got, err := generate("x.go", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	if rest, ok := strings.CutPrefix(string(got), head); !ok || rest != want {
		t.Errorf("got\n%s\nwant\n%s", rest, want)
	}
}

func TestGenerateRefuses(t *testing.T) {
	tests := []struct{ name, field, want string }{
		{"no tag", "A string", "no json tag"},
		{"no name", "A string `json:\"-\"`", "no json name"},
		{"omitempty", "A string `json:\"a,omitempty\"`", "not part of the contract"},
		{"unknown wire tag", "A string `json:\"a\" wire:\"maybe\"`", "unknown wire tag"},
		{"foreign type", "A Missing `json:\"a\"`", "no contract type"},
		{"interface", "A interface{} `json:\"a\"`", "no contract type"},
		{"array", "A [3]int `json:\"a\"`", "is a slice"},
		{"int keys", "A map[int]string `json:\"a\"`", "string keys"},
		{"unexported", "a string `json:\"a\"`", "exported name"},
		{"embedded", "Other", "exported name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := generate("x.go", []byte("package api\ntype T struct {\n"+tt.field+"\n}\n"))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "x.go:3:") {
				t.Errorf("got error %v, want one at x.go:3 with %q", err, tt.want)
			}
		})
	}
}

// TestCommittedFile holds the TypeScript types to the Go types.
func TestCommittedFile(t *testing.T) {
	src, err := os.ReadFile("../../" + sourceFile)
	if err != nil {
		t.Fatal(err)
	}
	want, err := generate(sourceFile, src)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../" + outputFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from %s: run go run ./tests/wiregen", outputFile, sourceFile)
	}
}
