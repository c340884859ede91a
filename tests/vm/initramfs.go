package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// modules are what Debian's cloud kernels do not have built in: socket
// diagnosis, and a file system on top of another.
var modules = []string{
	"net/ipv4/inet_diag", "net/ipv4/tcp_diag", "net/ipv4/udp_diag", "net/unix/unix_diag", "fs/overlayfs/overlay",
}

// archive writes files as the kernel unpacks them at boot.
//
// Source: Documentation/driver-api/early-userspace/buffer-format.rst, newc.
type archive struct {
	w     *bufio.Writer
	inode int
	at    int64
	made  map[string]bool
	err   error
}

func (a *archive) write(b []byte) {
	if a.err == nil {
		_, a.err = a.w.Write(b)
	}
	a.at += int64(len(b))
}

func (a *archive) align() {
	for a.at%4 != 0 {
		a.write([]byte{0})
	}
}

func (a *archive) entry(name string, mode uint32, major, minor int, body []byte) {
	a.inode++
	fields := []int{a.inode, int(mode), 0, 0, 1, 0, len(body), 0, 0, major, minor, len(name) + 1, 0}
	var head strings.Builder
	head.WriteString("070701")
	for _, f := range fields {
		fmt.Fprintf(&head, "%08X", f)
	}
	a.write([]byte(head.String()))
	a.write(append([]byte(name), 0))
	a.align()
	a.write(body)
	a.align()
}

func (a *archive) dir(name string) {
	if name == "." || a.made[name] {
		return
	}
	a.dir(path.Dir(name))
	a.made[name] = true
	a.entry(name, 0o040755, 0, 0, nil)
}

func (a *archive) file(name string, mode uint32, body []byte) {
	a.dir(path.Dir(name))
	a.entry(name, 0o100000|mode, 0, 0, body)
}

// initramfs writes everything a machine needs: uncompressed, since an emulated
// processor reads faster than it inflates.
func initramfs(to io.Writer, k *kernel, files map[string]string, texts map[string]string) error {
	a := &archive{w: bufio.NewWriterSize(to, 1<<20), made: map[string]bool{}}
	for _, d := range []string{"proc", "sys", "dev", "tmp", "run", "etc", "bin", "modules", "usr"} {
		a.dir(d)
	}
	a.entry("usr/bin", 0o120777, 0, 0, []byte("../bin"))
	a.entry("dev/console", 0o020600, 5, 1, nil) // the standard output of init until devtmpfs is there
	for _, name := range sortedKeys(files) {
		b, err := os.ReadFile(files[name])
		if err != nil {
			return err
		}
		a.file(name, 0o755, b)
	}
	for _, name := range sortedKeys(texts) {
		a.file(name, 0o644, []byte(texts[name]))
	}
	for i, m := range modules {
		found, err := filepath.Glob(filepath.Join(k.modules, "kernel", m+".ko*"))
		if err != nil || len(found) != 1 {
			return fmt.Errorf("no module %s in %s", m, k.name)
		}
		b, err := inflate(found[0])
		if err != nil {
			return err
		}
		a.file(fmt.Sprintf("modules/%d-%s.ko", i, path.Base(m)), 0o644, b)
	}
	a.entry("TRAILER!!!", 0, 0, 0, nil)
	if a.err != nil {
		return a.err
	}
	return a.w.Flush()
}

func inflate(file string) ([]byte, error) {
	b, err := os.ReadFile(file)
	if err != nil || !strings.HasSuffix(file, ".xz") {
		return b, err
	}
	cmd := exec.Command("xz", "-dc")
	cmd.Stdin = bytes.NewReader(b)
	if b, err = cmd.Output(); err != nil {
		return nil, missing{fmt.Sprintf("xz -dc %s: %v (package xz-utils)", filepath.Base(file), err)}
	}
	return b, nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
