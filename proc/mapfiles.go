package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	maxWalkParts = 256 // parts of a path, those of its symbolic links counted in
	maxWalkLinks = 40  // symbolic links on the way, as in the kernel's own walk
)

var (
	// ErrServed: the file lies where another process or another host answers for
	// it, and may not: FUSE, NFS and their kin. It is never opened.
	ErrServed = errors.New("on a file system that another process or host serves")
	// ErrNotRegular: a device, a FIFO, a socket or a directory.
	ErrNotRegular = errors.New("no regular file")
)

// Files opens files as a process sees them: what it has mapped, and what lies
// below its root, in its mount namespace. Never does it open another file that
// has the same path here. It is safe for concurrent use.
//
// What it opens are regular files, for reading, that answer without anybody's
// help: no FIFO or device, and nothing on a file system that somebody serves.
type Files struct {
	mu     sync.Mutex // above all below
	p      *Process
	looked bool
	root   int    // O_PATH, -1 unknown
	text   string // of the root link
	mounts mountTable
}

// OpenFiles returns the files of the process that id names.
//
// Errors: those of OpenProcess.
func (fs *FS) OpenFiles(id ID) (*Files, error) {
	p, err := fs.OpenProcess(id)
	if err != nil {
		return nil, err
	}
	return &Files{p: p, root: -1}, nil
}

// OwnFiles returns the files of the calling process.
func (fs *FS) OwnFiles() (*Files, error) {
	text, err := fs.readFile(strconv.Itoa(os.Getpid())+"/stat", nil)
	if err != nil {
		return nil, err
	}
	st, ok := parseStat(text)
	if !ok {
		return nil, &ParseError{File: "stat"}
	}
	return fs.OpenFiles(ID{int32(os.Getpid()), st.start})
}

// Close releases the handles. Files that were opened stay open.
func (f *Files) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.root >= 0 {
		closeFD(f.root)
		f.root = -1
	}
	f.looked = true
	return f.p.Close()
}

// SameRoot tells whether g sees the same tree of files: the same directory of the
// same mount is the root of both. It is false when that cannot be told.
//
// Source: stx_mnt_id of statx(2), 5.8.
func (f *Files) SameRoot(g *Files) bool {
	a, okA := f.rootMount()
	b, okB := g.rootMount()
	return okA && okB && a.Mask&b.Mask&unix.STATX_MNT_ID != 0 && a.Mnt_id == b.Mnt_id && sameInode(&a, &b)
}

func (f *Files) rootMount() (st unix.Statx_t, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look()
	if f.root < 0 {
		return st, false
	}
	err := unix.Statx(f.root, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &st)
	return st, err == nil
}

// OpenMapping opens the file behind a mapping: through map_files, which also
// leads to deleted files, memfds and files of other mount namespaces, else by its
// path below the root of the process, if device and inode are those of the mapping.
//
// Errors: fs.ErrNotExist for a mapping of no file; ErrServed; ErrNotRegular;
// ErrGone; fs.ErrPermission; those of open(2).
// Source: /proc/PID/map_files, for CAP_SYS_ADMIN since 3.3, for
// CAP_CHECKPOINT_RESTORE since 5.9; fs/proc/base.c.
func (f *Files) OpenMapping(m Mapping) (*os.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := f.openMapping(&m)
	if err != nil {
		return nil, f.p.wrap(mapName(&m), err)
	}
	return file, nil
}

func mapName(m *Mapping) string { return fmt.Sprintf("map_files/%x-%x", m.Start, m.End) }

func (f *Files) openMapping(m *Mapping) (*os.File, error) {
	if m.Inode == 0 {
		return nil, fs.ErrNotExist
	}
	f.look()
	// The link is not even followed when the device is known to be served: the
	// kernel may ask on the way.
	if f.mounts.served(m.Major, m.Minor) {
		return nil, ErrServed
	}
	file, err := f.throughLink(m)
	if err == nil || errors.Is(err, ErrServed) || errors.Is(err, ErrNotRegular) || errors.Is(err, ErrGone) {
		return file, err
	}
	path := m.Path
	if f.text != "/" {
		// Paths of maps are printed from the root of the mount namespace.
		below, ok := strings.CutPrefix(path, f.text)
		if !ok {
			return nil, err
		}
		path = below
	}
	if !strings.HasPrefix(path, "/") || m.Deleted.Or(false) {
		return nil, err
	}
	file, walkErr := f.open(path, noLinks, func(st *unix.Statx_t) error {
		if st.Dev_major != m.Major || st.Dev_minor != m.Minor || st.Ino != m.Inode {
			return fs.ErrNotExist
		}
		return nil
	})
	if walkErr != nil {
		return nil, err
	}
	return file, nil
}

func (f *Files) throughLink(m *Mapping) (*os.File, error) {
	dir, err := f.p.openMapFiles()
	if err != nil {
		return nil, err
	}
	defer closeFD(dir)
	fd, err := openAt(dir, strconv.FormatUint(m.Start, 16)+"-"+strconv.FormatUint(m.End, 16), unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer closeFD(fd)
	return f.reopen(fd, m.Path, func(st *unix.Statx_t) error {
		// maps and stat give different devices on btrfs and some overlays.
		if st.Ino != m.Inode {
			return fs.ErrNotExist
		}
		return nil
	})
}

// Open opens a path below the root of the process, as the process itself would:
// symbolic links lead where they lead for it, and never out of its root.
//
// Errors: as OpenMapping; fs.ErrNotExist.
func (f *Files) Open(path string) (*os.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := f.open(path, allLinks, nil)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return file, nil
}

func (f *Files) open(path string, links linkRule, fits func(*unix.Statx_t) error) (*os.File, error) {
	f.look()
	if f.root < 0 {
		return nil, unix.EACCES
	}
	fd, err := walk(f.root, f.mounts.slow, path, links)
	if err != nil {
		return nil, err
	}
	defer closeFD(fd)
	return f.reopen(fd, path, fits)
}

// reopen opens what an O_PATH handle leads to, once it is known to be a file that
// nobody has to answer for.
func (f *Files) reopen(fd int, name string, fits func(*unix.Statx_t) error) (*os.File, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, ErrNotRegular
	}
	if f.mounts.served(st.Dev_major, st.Dev_minor) {
		return nil, ErrServed
	}
	if fits != nil {
		if err := fits(&st); err != nil {
			return nil, err
		}
	}
	// O_NONBLOCK: a lease on the file is not waited for.
	again, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(again), name), nil
}

// look finds the root and the mounts, once. Mounts may come later; those that a
// target makes in that moment are caught by the device of the file.
func (f *Files) look() {
	if f.looked {
		return
	}
	f.looked = true
	table, cut, err := f.p.readFileMax(f.p.live+"mountinfo", nil, maxMountInfo)
	f.mounts.unknown = err != nil || cut
	f.mounts.add(table)
	f.mounts.slow = servedMounts(table)
	if own, err := f.p.fs.readFile("self/mountinfo", nil); err == nil {
		f.mounts.add(own)
	}
	if f.mounts.unknown {
		return
	}
	if f.text, err = f.p.readLink("root"); err != nil {
		return
	}
	if f.root, err = f.p.openFile("root", unix.O_PATH|unix.O_DIRECTORY); err != nil {
		f.root = -1
	}
}

// mountTable is which devices somebody serves.
type mountTable struct {
	kinds   map[uint64]bool // device to served
	slow    []string        // mount points of the target that are
	unknown bool            // its table could not be read
	backing string          // directory of backing devices; "" is /sys/class/bdi
}

// add notes the devices of a mountinfo text, proc_pid_mountinfo(5).
func (t *mountTable) add(table []byte) {
	if t.kinds == nil {
		t.kinds = make(map[uint64]bool)
	}
	for line := range bytes.Lines(table) {
		fields, kind, ok := bytes.Cut(line, []byte(" - "))
		if !ok {
			continue
		}
		part := bytes.SplitN(fields, []byte{' '}, 4)
		if len(part) < 4 {
			continue
		}
		major, minor, ok := bytes.Cut(part[2], []byte{':'})
		if !ok {
			continue
		}
		a, okA := parseUint32(major)
		b, okB := parseUint32(minor)
		kind, _, _ = bytes.Cut(kind, []byte{' '})
		if okA && okB {
			dev := uint64(a)<<32 | uint64(b)
			t.kinds[dev] = t.kinds[dev] || isServed(string(kind))
		}
	}
}

// served tells whether a file of the device may need somebody's answer. A device
// that no mount names is none of the kind on btrfs, where each subvolume has its
// own, and of a memfd; or it is a file system that was unmounted after the file
// was mapped. Then the name of its backing device tells: FUSE has 0:52-fuse or
// 8:1-fuseblk, NFS plain 0:52 (super_setup_bdi_name in fs/fuse/inode.c and
// fs/nfs/super.c, 4.12); local ones have none that begins so.
func (t *mountTable) served(major, minor uint32) bool {
	if served, ok := t.kinds[uint64(major)<<32|uint64(minor)]; ok {
		return served
	}
	dir := t.backing
	if dir == "" {
		dir = "/sys/class/bdi"
	}
	name := dir + "/" + strconv.FormatUint(uint64(major), 10) + ":" + strconv.FormatUint(uint64(minor), 10)
	suffixes := []string{"-fuse", "-fuseblk"}
	if major == 0 {
		suffixes = append(suffixes, "")
	}
	for _, suffix := range suffixes {
		if unix.Access(name+suffix, unix.F_OK) == nil {
			return true
		}
	}
	return unix.Access(dir, unix.F_OK) != nil && !internalDevice(major, minor)
}

// internalDevice tells whether the device is the kernel's own tmpfs, that of
// memfds and shared anonymous memory.
func internalDevice(major, minor uint32) bool {
	fd, err := unix.MemfdCreate("device", unix.MFD_CLOEXEC)
	if err != nil {
		return false
	}
	defer closeFD(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && unix.Major(st.Dev) == major && unix.Minor(st.Dev) == minor
}

// linkRule says which symbolic links of a path are followed.
type linkRule int

const (
	noLinks  linkRule = iota // none: the path is one that the kernel printed
	dirLinks                 // all but that of the file itself
	allLinks
)

// walk returns an O_PATH handle of path below root. Symbolic links lead where they
// lead for a process with that root; ".." at the root stays there. What lies on a
// path of slow is not touched.
func walk(root int, slow []string, path string, rule linkRule) (int, error) {
	if !strings.HasPrefix(path, "/") {
		return -1, unix.EINVAL
	}
	type step struct {
		fd   int
		path string
	}
	at := []step{{root, ""}}
	defer func() {
		for _, s := range at[1:] {
			closeFD(s.fd)
		}
	}()
	up := func(n int) {
		for len(at) > n {
			closeFD(at[len(at)-1].fd)
			at = at[:len(at)-1]
		}
	}
	links, todo := 0, strings.Split(path, "/")
	for parts := 0; len(todo) > 0; parts++ {
		if parts > maxWalkParts || len(todo) > maxWalkParts {
			return -1, unix.ENAMETOOLONG
		}
		name := todo[0]
		todo = todo[1:]
		here := at[len(at)-1]
		switch name {
		case "", ".":
			continue
		case "..":
			up(max(1, len(at)-1))
			continue
		}
		full := here.path + "/" + name
		for _, mount := range slow {
			if mount == "/" || full == mount || strings.HasPrefix(full, mount+"/") {
				return -1, ErrServed
			}
		}
		fd, err := unix.Openat(here.fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, err
		}
		var st unix.Statx_t
		if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &st); err != nil {
			closeFD(fd)
			return -1, err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			at = append(at, step{fd, full})
			continue
		}
		if links++; links > maxWalkLinks || rule == noLinks || rule == dirLinks && len(todo) == 0 {
			closeFD(fd)
			return -1, unix.ELOOP
		}
		text := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(fd, "", text)
		closeFD(fd)
		if err != nil {
			return -1, err
		}
		if n == 0 || n == len(text) {
			return -1, unix.ENAMETOOLONG
		}
		if text[0] == '/' {
			up(1)
		}
		todo = append(strings.Split(string(text[:n]), "/"), todo...)
	}
	if len(at) == 1 {
		return -1, ErrNotRegular
	}
	fd := at[len(at)-1].fd
	at = at[:len(at)-1]
	return fd, nil
}
