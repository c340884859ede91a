// Command vm runs the tests of sensors and of runs on Debian's own kernels, in a virtual machine
// that QEMU emulates in software.
//
//	vm [-short] [-cache DIR] [-run REGEXP] [5.10|6.1|6.12 ...]
//
// It exits with 1 when a test fails and with 3 when QEMU or a kernel cannot be
// had, which is not the same: a machine without a network is no failure.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// suites are the Debian releases that carry a kernel version.
var suites = map[string]string{"5.10": "bullseye", "6.1": "bookworm", "6.12": "trixie"}

var versions = []string{"5.10", "6.1", "6.12"}

// missing says that the machine cannot run this, and why; nothing was tested.
type missing struct{ reason string }

func (m missing) Error() string { return m.reason }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:])
	stop()
	var m missing
	switch {
	case err == nil:
	case errors.As(err, &m):
		fmt.Fprintln(os.Stderr, "vm: not run:", m.reason)
		os.Exit(3)
	default:
		fmt.Fprintln(os.Stderr, "vm:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("vm", flag.ContinueOnError)
	short := set.Bool("short", false, "the short form of the tests")
	only := set.String("run", "", "run only the tests that match")
	cache := set.String("cache", defaultCache(), "where kernels and QEMU are kept")
	parts := set.String("parts", "", "what to run: bpf, sandbox, sensors, restricted, cost, runs")
	limit := set.Duration("timeout", 15*time.Minute, "for one machine, from power on to power off")
	if err := set.Parse(args); err != nil {
		return err
	}
	wanted := set.Args()
	if len(wanted) == 0 {
		wanted = versions
	}
	for _, v := range wanted {
		if suites[v] == "" {
			return fmt.Errorf("unknown kernel %q: one of %v", v, versions)
		}
	}
	if *parts == "" {
		*parts = "bpf,sandbox,sensors,restricted,cost,runs"
		if *short { // the tests of package bpf ask much the same, and take longer
			*parts = "sandbox,sensors,restricted,cost"
		}
	}
	b, err := build(ctx, strings.Split(*parts, ","))
	if err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	store := store{dir: *cache}
	emulator, err := store.qemu(ctx)
	if err != nil {
		return err
	}
	var failed []string
	for _, v := range wanted {
		k, err := store.kernel(ctx, v)
		if err != nil {
			return err
		}
		for _, m := range b.machines(v, *short, *only) {
			fmt.Printf("== %s: %s\n", k.name, m.name)
			from := time.Now()
			if err := m.boot(ctx, emulator, k, b, *limit); err != nil {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				fmt.Printf("== %s: %s: FAILED: %v\n", k.name, m.name, err)
				failed = append(failed, v+" "+m.name)
				continue
			}
			fmt.Printf("== %s: %s: ok, %.0f s\n", k.name, m.name, time.Since(from).Seconds())
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}

// defaultCache is outside the tree: a fresh clone finds what was fetched before.
func defaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = filepath.Join(os.TempDir(), fmt.Sprintf("procinsh-cache-%d", os.Getuid()))
	}
	return filepath.Join(dir, "procinsh", "vm")
}

// built is what goes into every machine.
type built struct {
	dir, root string
	files     map[string]string // path in the machine to path here
	parts     []string
}

func (b *built) has(part string) bool { return slices.Contains(b.parts, part) }

func build(ctx context.Context, parts []string) (*built, error) {
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOMOD: %w", err)
	}
	b := &built{root: filepath.Dir(strings.TrimSpace(string(mod))), files: map[string]string{}, parts: parts}
	if b.dir, err = os.MkdirTemp("", "procinsh-vm-"); err != nil {
		return nil, err
	}
	for _, c := range []struct {
		file string
		argv []string // the empty one becomes the output
	}{
		{"init", []string{"go", "build", "-trimpath", "-o", "", "./tests/vm/init"}},
		{"bin/procinsh", []string{"go", "build", "-trimpath", "-o", "", "."}},
		{"bin/bpf.test", []string{"go", "test", "-c", "-trimpath", "-o", "", "./bpf"}},
		{"bin/run.test", []string{"go", "test", "-c", "-trimpath", "-o", "", "./run"}},
		{"bin/sandbox.test", []string{"go", "test", "-c", "-trimpath", "-o", "", "./sandbox"}},
		{"bin/sensors.test", []string{"go", "test", "-c", "-trimpath", "-o", "", "./tests/sensors"}},
		{"bin/fixture", []string{"gcc", "-static", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", "", "tests/sensors/testdata/fixture.c"}},
		{"bin/sensors", []string{"go", "-C", "tests/bench", "build", "-trimpath", "-o", "", "./sensors"}},
		{"bin/true", []string{"gcc", "-static", "-O2", "-o", "", "-x", "c", "-"}},
		{"bin/sensors-load", []string{"gcc", "-static", "-O2", "-Wall", "-Wextra", "-Werror", "-o", "", "tests/bench/sensors/c/load.c"}},
	} {
		if c.file == "bin/run.test" && !b.has("runs") {
			continue // the short form has no use for it
		}
		out := filepath.Join(b.dir, filepath.Base(c.file))
		c.argv[slices.Index(c.argv, "")] = out
		cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
		cmd.Dir = b.root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		cmd.Stdin = strings.NewReader("int main(void) { return 0; }\n")
		if text, err := cmd.CombinedOutput(); err != nil {
			os.RemoveAll(b.dir)
			return nil, fmt.Errorf("%s: %w\n%s", strings.Join(c.argv, " "), err, text)
		}
		b.files[c.file] = out
	}
	if b.has("runs") {
		if err := b.tools(ctx, "sh", "cat", "env", "head", "id", "nohup", "printf", "setsid", "sleep", "stty", "touch", "tr", "yes"); err != nil {
			os.RemoveAll(b.dir)
			return nil, err
		}
	}
	for _, dir := range []string{"bpf/testdata", "bpf/obj"} { // where the tests of bpf look for them
		err := filepath.WalkDir(filepath.Join(b.root, dir), func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				rel, _ := filepath.Rel(b.root, path)
				b.files["src/"+rel] = path
			}
			return nil // a tree without the folder
		})
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}
