package run

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const groupPrefix, runPrefix = "procinsh-", "run-"

// groups is the cgroup that holds those of the runs: procinsh-<pid> below the one this
// process is in. Its directory stays locked while its owner lives, so that those of
// dead owners can be told, whatever their pid means by then.
type groups struct {
	above string // directory of the own cgroup
	path  string
	lock  *os.File
}

// openGroups makes the group.
//
// Errors: no cgroup v2 mounted, or no right to make a group.
// Source: /proc/self/mountinfo, /proc/self/cgroup; cgroups(7).
func openGroups(f *files) (*groups, error) {
	above, err := ownGroup(f)
	if err != nil {
		return nil, err
	}
	g := &groups{above: above, path: filepath.Join(above, groupPrefix+strconv.Itoa(os.Getpid()))}
	if err := os.Mkdir(g.path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make a cgroup: %w", err)
	}
	if g.lock, err = os.Open(g.path); err != nil {
		return nil, fmt.Errorf("open cgroup: %w", err)
	}
	for range removeTries { // somebody who looks whether the owner lives holds it for a moment
		if err = unix.Flock(int(g.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return g, nil
		}
		time.Sleep(removePause)
	}
	g.lock.Close()
	return nil, fmt.Errorf("lock %s: %w", g.path, err)
}

// ownGroup returns the directory of the own cgroup.
func ownGroup(f *files) (string, error) {
	mounts, err := f.read(f.mount + "/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("read mounts: %w", err)
	}
	own, err := f.read(f.mount + "/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("read own cgroup: %w", err)
	}
	return findGroup(mounts, own)
}

// findGroup returns the directory of the own cgroup in the v2 hierarchy, which may be
// the only one or stand beside others.
func findGroup(mountinfo, own []byte) (string, error) {
	var path string
	found := false
	for line := range bytes.Lines(own) {
		if p, ok := bytes.CutPrefix(bytes.TrimRight(line, "\n"), []byte("0::")); ok {
			path, found = string(p), true
		}
	}
	if !found || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "/..") {
		return "", errors.New("this process is in no cgroup of version 2 that is mounted here")
	}
	for line := range bytes.Lines(mountinfo) {
		f := strings.Fields(string(line))
		dash := slices.Index(f, "-")
		if dash < 6 || dash+1 >= len(f) || f[dash+1] != "cgroup2" {
			continue
		}
		root, point := unescape(f[3]), unescape(f[4])
		rel, err := filepath.Rel(root, path)
		if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			continue // another part of the hierarchy
		}
		return filepath.Join(point, rel), nil
	}
	return "", errors.New("no cgroup file system of version 2 is mounted")
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// close removes the group when no run is left in it.
func (g *groups) close() {
	g.lock.Close()
	os.Remove(g.path) // stays while it holds runs that are to be kept
}

// create makes the group of a run. A group is used once: after cgroup.kill the kernel
// kills whatever is born into it.
func (g *groups) create(id string) (*group, error) {
	for n := 0; ; n++ {
		path := filepath.Join(g.path, runPrefix+id)
		if n > 0 {
			path += "." + strconv.Itoa(n) // an earlier run of this id is still ending
		}
		err := os.Mkdir(path, 0o755)
		if errors.Is(err, fs.ErrExist) && n < maxLiveRuns {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("make a cgroup: %w", err)
		}
		return &group{path: path}, nil
	}
}

// orphaned lists the groups of runs whose owner is dead.
func (g *groups) orphaned() (map[string][]*group, error) {
	owners, err := filepath.Glob(filepath.Join(g.above, groupPrefix+"*"))
	if err != nil {
		return nil, err
	}
	found := map[string][]*group{}
	for _, owner := range owners {
		if owner != g.path && ownedByOther(owner) {
			continue
		}
		runs, err := filepath.Glob(filepath.Join(owner, runPrefix+"*"))
		if err != nil {
			return nil, err
		}
		for _, path := range runs {
			id, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), runPrefix), ".")
			found[id] = append(found[id], &group{path: path})
		}
		if owner != g.path && len(runs) == 0 {
			os.Remove(owner) // nothing is left of it
		}
	}
	return found, nil
}

func ownedByOther(path string) bool {
	d, err := os.Open(path)
	if err != nil {
		return true
	}
	defer d.Close()
	return unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil
}

// group is the cgroup of one run.
type group struct{ path string }

// pids lists the processes in the group and in those below it.
//
// Errors: fs.ErrNotExist when it is gone.
func (g *group) pids() ([]int32, error) {
	var all []int32
	err := eachGroup(g.path, func(dir string) error {
		b, err := os.ReadFile(dir + "/cgroup.procs")
		if err != nil {
			if dir != g.path && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EOPNOTSUPP)) {
				return nil // removed meanwhile, or threaded
			}
			return err
		}
		for line := range bytes.Lines(b) {
			if pid, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 32); err == nil && pid > 0 {
				all = append(all, int32(pid)) // 0: in a pid namespace that we do not see
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read cgroup: %w", err)
	}
	return all, nil
}

// eachGroup calls f for a directory and those below it, the deepest last.
func eachGroup(path string, f func(dir string) error) error {
	if err := f(path); err != nil {
		return err
	}
	list, err := os.ReadDir(path)
	if err != nil {
		return nil // removed meanwhile
	}
	for _, e := range list {
		if e.IsDir() {
			if err := eachGroup(filepath.Join(path, e.Name()), f); err != nil {
				return err
			}
		}
	}
	return nil
}

// populated tells whether a process lives in the group or below it. A group that is
// gone has none.
func (g *group) populated() (bool, error) {
	b, err := os.ReadFile(g.path + "/cgroup.events")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read cgroup: %w", err)
	}
	return bytes.Contains(b, []byte("populated 1")), nil
}

// kill ends every process in the group and below with one write.
//
// Errors: fs.ErrNotExist before Linux 5.14.
func (g *group) kill() error { return os.WriteFile(g.path+"/cgroup.kill", []byte("1"), 0) }

// freeze stops or continues the group (5.2).
func (g *group) freeze(on bool) error {
	text := "0"
	if on {
		text = "1"
	}
	return os.WriteFile(g.path+"/cgroup.freeze", []byte(text), 0)
}

// cpuUsec is the CPU time of all that ever ran in the group, microseconds.
//
// Source: usage_usec of cpu.stat, which needs no controller (4.15).
func (g *group) cpuUsec() (int64, bool) {
	b, err := os.ReadFile(g.path + "/cpu.stat")
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(b) {
		if v, ok := bytes.CutPrefix(line, []byte("usage_usec ")); ok {
			n, err := strconv.ParseInt(string(bytes.TrimSpace(v)), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// removeTries and removePause bound how long an empty group is tried to be removed: the
// kernel says busy for some milliseconds after the last process ended.
const (
	removeTries = 100
	removePause = 10 * time.Millisecond
)

// remove removes the group and those that its processes made below it.
func (g *group) remove() error {
	var err error
	for range removeTries {
		var dirs []string
		eachGroup(g.path, func(dir string) error { dirs = append(dirs, dir); return nil }) // returns what f does
		slices.Reverse(dirs)
		for _, d := range dirs {
			if err = os.Remove(d); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
		if err == nil {
			return nil
		}
		time.Sleep(removePause)
	}
	return fmt.Errorf("remove cgroup: %w", err)
}
