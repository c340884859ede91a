package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Root is a folder below which runs may work, from --root NAME=DIR[,env=VAR].
type Root struct {
	Name string `json:"name"` // "a" or "a/b"
	Dir  string `json:"dir"`  // absolute
	Env  string `json:"env"`  // variable that names the folder in every run, "" without
}

// ParseRoot reads NAME=DIR[,env=VAR].
func ParseRoot(text string) (Root, error) {
	name, dir, ok := strings.Cut(text, "=")
	if !ok || !rootName(name) {
		return Root{}, errors.New("not NAME=DIR, with NAME like a or a/b")
	}
	dir, variable, given := strings.Cut(dir, ",env=")
	if given && (variable == "" || strings.ContainsAny(variable, "=,")) {
		return Root{}, errors.New("env= needs the name of a variable")
	}
	if !filepath.IsAbs(dir) {
		return Root{}, errors.New("the folder has to be absolute")
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return Root{}, errors.New("there is no such folder")
	}
	return Root{Name: name, Dir: filepath.Clean(dir), Env: variable}, nil
}

func rootName(s string) bool {
	parts := strings.Split(s, "/")
	for _, p := range parts {
		if p == "" || strings.ContainsFunc(p, func(r rune) bool {
			return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_' && r != '.'
		}) {
			return false
		}
	}
	return len(parts) <= 2
}

// openFolder opens the working directory that cwd names: absolute, or @name[/sub] below
// a root. With roots nothing outside them is opened, symbolic links and ".." included,
// by the kernel's word (openat2, 5.6). "" is "/", or the first root.
//
// Errors: unknown_root, invalid_cwd, directory_not_found.
func openFolder(roots []Root, cwd string) (*os.File, string, error) {
	if cwd == "" {
		if len(roots) == 0 {
			cwd = "/"
		} else {
			cwd = roots[0].Dir
		}
	}
	if rest, ok := strings.CutPrefix(cwd, "@"); ok {
		root, sub, err := findRoot(roots, rest)
		if err != nil {
			return nil, "", err
		}
		return openBeneath(root, sub, cwd)
	}
	if !filepath.IsAbs(cwd) {
		return nil, "", fail(CodeInvalidCwd, "The working directory %q is relative: give an absolute one, or @NAME/… below a root.", cwd)
	}
	if len(roots) == 0 {
		return openBeneath(Root{Dir: "/"}, strings.TrimPrefix(cwd, "/"), cwd)
	}
	err := error(fail(CodeInvalidCwd, "The working directory %q is outside every folder given with --root.", cwd))
	// The innermost root that holds the path.
	sorted := slices.Clone(roots)
	slices.SortStableFunc(sorted, func(a, b Root) int { return len(b.Dir) - len(a.Dir) })
	for _, r := range sorted {
		sub, ok := strings.CutPrefix(filepath.Clean(cwd), strings.TrimSuffix(r.Dir, "/"))
		if ok && (sub == "" || sub[0] == '/') {
			return openBeneath(r, strings.TrimPrefix(sub, "/"), cwd)
		}
	}
	return nil, "", err
}

func findRoot(roots []Root, rest string) (Root, string, error) {
	parts := strings.SplitN(rest, "/", 3)
	for n := min(2, len(parts)); n > 0; n-- { // the longest match wins
		name := strings.Join(parts[:n], "/")
		for _, r := range roots {
			if r.Name == name {
				return r, strings.TrimPrefix(strings.TrimPrefix(rest, name), "/"), nil
			}
		}
	}
	unknown := "@" + parts[0]
	var known []string
	for _, r := range roots {
		known = append(known, "@"+r.Name)
		if strings.HasPrefix(r.Name, parts[0]+"/") && len(parts) > 1 {
			unknown = "@" + parts[0] + "/" + parts[1]
		}
	}
	if known == nil {
		known = []string{"none"}
	}
	return Root{}, "", fail(CodeUnknownRoot, "The root %s is unknown; known: %s.", unknown, strings.Join(known, ", "))
}

func openBeneath(root Root, sub, asked string) (*os.File, string, error) {
	top, err := unix.Open(root.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EACCES) {
		return nil, "", fail(CodeInvalidCwd, "The user of the run may not enter the working directory %q.", asked)
	}
	if err != nil {
		return nil, "", fail(CodeNoDirectory, "There is no directory %s.", asked)
	}
	defer unix.Close(top)
	if sub == "" {
		sub = "."
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	if root.Dir == "/" {
		// Everything is beneath it, also what an absolute link leads to.
		how.Resolve = unix.RESOLVE_IN_ROOT
	}
	fd, err := unix.Openat2(top, sub, &how)
	switch {
	case errors.Is(err, unix.EXDEV):
		return nil, "", fail(CodeInvalidCwd, "The working directory %q leads out of its root.", asked)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENAMETOOLONG):
		return nil, "", fail(CodeNoDirectory, "There is no directory %s.", asked)
	case errors.Is(err, unix.EACCES):
		return nil, "", fail(CodeInvalidCwd, "The user of the run may not enter the working directory %q.", asked)
	case errors.Is(err, unix.ENOSYS):
		return nil, "", fmt.Errorf("open %s: openat2 is refused: it needs Linux 5.6, and a system call filter that lets it through: %w", asked, err)
	case err != nil:
		return nil, "", fmt.Errorf("open %s: %w", asked, err)
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		unix.Close(fd)
		return nil, "", fmt.Errorf("open %s: %w", asked, err)
	}
	return os.NewFile(uintptr(fd), path), path, nil
}
