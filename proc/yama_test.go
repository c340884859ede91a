package proc

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestReadYamaScope(t *testing.T) {
	for text, want := range map[string]int{"0\n": 0, "1\n": 1, "2": 2, "3\n": 3} {
		path := filepath.Join(t.TempDir(), "ptrace_scope")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readYamaScope(path); err != nil || got != want {
			t.Errorf("%q is %d, %v, want %d", text, got, err, want)
		}
	}
	if got, err := readYamaScope(filepath.Join(t.TempDir(), "none")); err != nil || got != 0 {
		t.Errorf("a kernel without Yama has scope %d, %v", got, err)
	}
	for _, text := range []string{"", "x\n", "-1\n"} {
		path := filepath.Join(t.TempDir(), "ptrace_scope")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var form *ParseError
		if got, err := readYamaScope(path); !errors.As(err, &form) || got != 0 {
			t.Errorf("%q is %d, %v, want a ParseError", text, got, err)
		}
	}
}
