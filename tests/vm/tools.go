package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// tools adds programs of this host, with the libraries that they need.
func (b *built) tools(ctx context.Context, names ...string) error {
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			return missing{err.Error()}
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
		b.files["bin/"+name] = path
		out, err := exec.CommandContext(ctx, "ldd", path).CombinedOutput()
		if err != nil {
			if strings.Contains(string(out), "not a dynamic executable") || strings.Contains(string(out), "statically linked") {
				continue
			}
			return fmt.Errorf("ldd %s: %w: %s", path, err, out)
		}
		for line := range strings.Lines(string(out)) {
			for _, word := range strings.Fields(line) {
				if strings.HasPrefix(word, "/") {
					b.files[strings.TrimPrefix(word, "/")] = word
				}
			}
		}
	}
	return nil
}
