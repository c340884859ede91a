package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	keyring   = "/usr/share/keyrings/debian-archive-keyring.gpg"
	freshFor  = 7 * 24 * time.Hour // then Debian is asked again for a newer kernel
	qemuSuite = "bookworm"
)

// store is where kernels and QEMU are kept between runs. Nothing is installed:
// packages are fetched by apt, from lists of their own, and unpacked here.
type store struct{ dir string }

// kernel is an unpacked kernel package.
type kernel struct{ name, image, modules string }

// kernel returns the newest cloud kernel of a version, or the one of the last
// run when Debian cannot be asked.
func (s store) kernel(ctx context.Context, version string) (*kernel, error) {
	unlock, err := s.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	suite := suites[version]
	mark := filepath.Join(s.dir, "kernel-"+version)
	kept, keptErr := s.unpacked(mark)
	if st, err := os.Stat(mark); keptErr == nil && err == nil && time.Since(st.ModTime()) < freshFor {
		return kept, nil
	}
	name, err := s.newest(ctx, suite, "linux-image-cloud-amd64", "linux-image-"+version+".")
	if err == nil && (keptErr != nil || kept.name != name) {
		err = s.fetch(ctx, suite, name, "kernel-"+version, false)
	}
	if err == nil {
		if err = os.WriteFile(mark, []byte(name), 0o644); err == nil {
			return s.unpacked(mark)
		}
	}
	var m missing
	if keptErr == nil && errors.As(err, &m) {
		fmt.Printf("== %s of an earlier run: %v\n", kept.name, err)
		return kept, nil
	}
	return nil, err
}

func (s store) unpacked(mark string) (*kernel, error) {
	name, err := os.ReadFile(mark)
	if err != nil {
		return nil, err
	}
	k := &kernel{name: string(name)}
	root := mark + ".root"
	for pattern, to := range map[string]*string{"boot/vmlinuz-*": &k.image, "*lib/modules/*": &k.modules, "usr/lib/modules/*": &k.modules} {
		if found, _ := filepath.Glob(filepath.Join(root, pattern)); len(found) == 1 {
			*to = found[0]
		}
	}
	if k.image == "" || k.modules == "" {
		return nil, fmt.Errorf("no kernel in %s", root)
	}
	return k, nil
}

// qemu returns the words that start the emulator: the installed one, else one
// that is unpacked here with all the libraries it needs.
func (s store) qemu(ctx context.Context) ([]string, error) {
	if exe, err := exec.LookPath("qemu-system-x86_64"); err == nil {
		return []string{exe}, nil
	}
	unlock, err := s.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	root := filepath.Join(s.dir, "qemu.root")
	exe := filepath.Join(root, "usr/bin/qemu-system-x86_64")
	if _, err := os.Stat(exe); err != nil {
		if _, err := s.newest(ctx, qemuSuite, "qemu-system-x86", ""); err != nil {
			return nil, err
		}
		if err := s.fetch(ctx, qemuSuite, "qemu-system-x86", "qemu", true); err != nil {
			return nil, err
		}
	}
	lib := filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	path := strings.Join([]string{filepath.Join(root, "lib/x86_64-linux-gnu"), lib, filepath.Join(lib, "pulseaudio")}, ":")
	return []string{"env", "QEMU_MODULE_DIR=" + filepath.Join(lib, "qemu"),
		filepath.Join(root, "lib64/ld-linux-x86-64.so.2"), "--library-path", path, exe,
		"-L", filepath.Join(root, "usr/share/qemu"), "-L", filepath.Join(root, "usr/share/seabios")}, nil
}

func (s store) lock() (unlock func(), err error) {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, missing{"no place to keep kernels: " + err.Error()}
	}
	f, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, missing{"no place to keep kernels: " + err.Error()}
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return func() { f.Close() }, nil
}

// apt runs an apt program on package lists of its own, as if nothing were
// installed, without touching the machine's.
func (s store) apt(ctx context.Context, suite, program string, args ...string) ([]byte, error) {
	at := filepath.Join(s.dir, "apt-"+suite)
	for _, dir := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(at, dir), 0o755); err != nil {
			return nil, err
		}
	}
	var list strings.Builder
	fmt.Fprintf(&list, "deb [signed-by=%s arch=amd64] http://deb.debian.org/debian %s main\n", keyring, suite)
	fmt.Fprintf(&list, "deb [signed-by=%s arch=amd64] http://deb.debian.org/debian-security %s-security main\n", keyring, suite)
	if err := os.WriteFile(filepath.Join(at, "sources.list"), []byte(list.String()), 0o644); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(at, "status"), nil, 0o644); err != nil {
		return nil, err
	}
	options := []string{"-q", "-o", "Dir::Etc::sourcelist=" + filepath.Join(at, "sources.list"), "-o", "Dir::Etc::sourceparts=-",
		"-o", "Dir::State::lists=" + filepath.Join(at, "lists"), "-o", "Dir::State::status=" + filepath.Join(at, "status"),
		"-o", "Dir::Cache=" + filepath.Join(at, "cache"), "-o", "APT::Architecture=amd64", "-o", "APT::Architectures=amd64", "-o", "Debug::NoLocking=1",
		"-o", "Acquire::Languages=none", "-o", "Acquire::Retries=2", "-o", "Acquire::http::Timeout=30",
		"-o", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false"}
	if os.Getuid() == 0 {
		options = append(options, "-o", "APT::Sandbox::User=root") // the folder need not be open to _apt
	}
	cmd := exec.CommandContext(ctx, program, append(options, args...)...)
	cmd.Dir = filepath.Join(at, "cache/archives")
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return nil, missing{fmt.Sprintf("%s %s for %s: %v: %s", program, args[0], suite, err, lastLine(complaints.Bytes()))}
	}
	return out, nil
}

func lastLine(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

// newest asks Debian what a package is now: itself, or for a prefix the package
// that it depends on.
func (s store) newest(ctx context.Context, suite, name, prefix string) (string, error) {
	for _, tool := range []string{"apt-get", "apt-cache", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", missing{tool + " is missing: kernels come from Debian packages"}
		}
	}
	if _, err := os.Stat(keyring); err != nil {
		return "", missing{keyring + " is missing (package debian-archive-keyring)"}
	}
	fmt.Printf("== asking Debian %s for %s\n", suite, name)
	// An update that cannot fetch a list warns and succeeds; what cannot be found then fails below.
	if _, err := s.apt(ctx, suite, "apt-get", "update"); err != nil {
		return "", err
	}
	if prefix == "" {
		return name, nil
	}
	out, err := s.apt(ctx, suite, "apt-cache", "depends", name)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(out)) {
		if on, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: "); ok && strings.HasPrefix(on, prefix) {
			return on, nil
		}
	}
	return "", missing{fmt.Sprintf("%s of Debian %s depends on no %s…", name, suite, prefix)}
}

// fetch downloads a package, all it depends on if asked, and unpacks it into
// NAME.root, which replaces an earlier one only when it is whole.
func (s store) fetch(ctx context.Context, suite, name, into string, dependencies bool) error {
	fmt.Printf("== fetching %s from Debian %s\n", name, suite)
	archives := filepath.Join(s.dir, "apt-"+suite, "cache/archives")
	if err := removeAll(filepath.Join(archives, "*.deb")); err != nil {
		return err
	}
	args := []string{"download", name}
	if dependencies {
		args = []string{"install", "--download-only", "--yes", "--no-install-recommends", name}
	}
	if _, err := s.apt(ctx, suite, "apt-get", args...); err != nil {
		return err
	}
	packages, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	if err != nil {
		return err
	}
	if len(packages) == 0 {
		return missing{"apt fetched nothing for " + name}
	}
	root, part := filepath.Join(s.dir, into+".root"), filepath.Join(s.dir, into+".part")
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	slices.Sort(packages)
	for _, p := range packages {
		if out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", p, part).CombinedOutput(); err != nil {
			return fmt.Errorf("dpkg-deb -x %s: %w: %s", p, err, lastLine(out))
		}
	}
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	if err := os.Rename(part, root); err != nil {
		return err
	}
	return removeAll(filepath.Join(archives, "*.deb"))
}

func removeAll(pattern string) error {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	for _, f := range found {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
