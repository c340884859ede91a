package proc

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// HeldFile is a file whose holders are looked for. It is not changed after it was
// looked up.
type HeldFile struct {
	found          bool // its name leads to device and inode
	device, inode  uint64
	kind           uint32   // S_IFREG…, 0 unknown
	names          []string // as the kernel would print it, and as it was asked for
	byName         bool     // a holder's name for it is enough
	livesAsDeleted []uint64 // device and inode of a file whose very name ends in " (deleted)"
}

// lookUp finds out what a path leads to for the caller. It asks nobody: what lies on
// a file system that another process or host serves is known by its name alone.
func (fs *FS) lookUp(text string) (*HeldFile, []string) {
	f := &HeldFile{names: []string{path.Clean(text)}}
	slow := []string{"/"} // an unreadable table of mounts: everything may be served
	if table, err := fs.readFile("self/mountinfo", nil); err == nil {
		slow = servedMounts(table)
	}
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		f.byName = true
		return f, []string{fmt.Sprintf("the file was looked for by its name alone: open /: %v", err)}
	}
	defer closeFD(root)
	var st unix.Statx_t
	printed, err := statWalk(root, slow, text, allLinks, &st)
	switch {
	case err == nil:
		f.found, f.device, f.inode = true, unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino
		f.kind = uint32(st.Mode) & unix.S_IFMT
		f.addName(printed)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		f.byName = true
		// Its directory may still be there, under another name.
		if printed, err := statWalk(root, slow, path.Dir(f.names[0]), allLinks, &st); err == nil {
			f.addName(strings.TrimSuffix(printed, "/") + "/" + path.Base(f.names[0]))
		}
	}
	var warnings []string
	if err != nil {
		f.byName = true
		reason := "nothing has this path here"
		switch {
		case errors.Is(err, ErrServed):
			reason = "the path lies on a file system that another process or host serves"
		case !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR):
			reason = err.Error()
		}
		warnings = append(warnings, "the file was looked for by its name alone, as its holders have it: "+reason)
	}
	for _, name := range f.names {
		if _, err := statWalk(root, slow, name+string(deletedTail), noLinks, &st); err == nil {
			f.livesAsDeleted = append(f.livesAsDeleted, unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino)
		}
	}
	return f, warnings
}

func (f *HeldFile) addName(name string) {
	if strings.HasPrefix(name, "/") && !slices.Contains(f.names, name) {
		f.names = append(f.names, name)
	}
}

// statWalk walks to path and returns how the kernel prints where that is.
func statWalk(root int, slow []string, path string, rule linkRule, st *unix.Statx_t) (printed string, err error) {
	fd, err := walk(root, slow, path, rule)
	switch {
	case err == nil:
		defer closeFD(fd)
	case errors.Is(err, ErrNotRegular): // the root itself
		fd = root
	default:
		return "", err
	}
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, st); err != nil {
		return "", err
	}
	text := make([]byte, unix.PathMax)
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), text)
	if err != nil || n == len(text) {
		return "", nil
	}
	return string(text[:n]), nil
}

// isBound tells whether a UNIX socket is bound to the file.
func (f *HeldFile) isBound(row *unixSocket) bool {
	if len(row.name) == 0 || row.name[0] == 0 {
		return false
	}
	if f.found && row.device != 0 && row.file == uint32(f.inode) && row.device == f.device {
		return true
	}
	name, _ := unixName(row.name)
	// An overlay gives sockets another device than stat does.
	return slices.Contains(f.names, name) && (f.byName || row.device == 0 || row.file == uint32(f.inode))
}

// is tells whether what a link of /proc leads to is the file, and whether that has
// lost its name. text is the link; stat follows it and may fail.
func (f *HeldFile) is(text []byte, stat func(*unix.Statx_t) bool) (deleted Opt[bool], ok bool) {
	exact, tail := f.named(text)
	if !f.found && !exact && !tail {
		return deleted, false
	}
	var st unix.Statx_t
	known := stat(&st)
	device := unix.Mkdev(st.Dev_major, st.Dev_minor)
	switch {
	case known && f.found && device == f.device && st.Ino == f.inode:
		return Some(st.Nlink == 0), true
	case tail && known:
		return Some(true), st.Nlink == 0 || !f.isLivesAsDeleted(device, st.Ino)
	case tail:
		return deleted, true
	case exact && f.byName && known:
		return Some(st.Nlink == 0), true
	case exact && f.byName:
		return deleted, true
	}
	return deleted, false
}

// named tells whether a link is one of the names, as it is or with the tail of a
// file that was deleted.
func (f *HeldFile) named(text []byte) (exact, tail bool) {
	short, cut := bytes.CutSuffix(text, deletedTail)
	for _, name := range f.names {
		exact = exact || string(text) == name
		tail = tail || cut && string(short) == name
	}
	return exact, tail
}

func (f *HeldFile) isLivesAsDeleted(device, inode uint64) bool {
	for i := 0; i < len(f.livesAsDeleted); i += 2 {
		if f.livesAsDeleted[i] == device && f.livesAsDeleted[i+1] == inode {
			return true
		}
	}
	return false
}

// FindUses tells how a process holds a file otherwise than by a descriptor: as its
// executable, its working directory, its root, or mapped. A process that the caller
// may not look at has none.
//
// Shape:  at most one of each, in this order; Access of the mapping is what the pages
// of all mappings of the file allow.
// Errors: ErrGone; those of reading maps.
// Effect: none on the target but its mmap lock, see ReadMaps.
// Source: /proc/PID/exe, cwd, root and maps; map_files where a name is ambiguous.
func (fs *FS) FindUses(pid int32, f *HeldFile) ([]Holder, error) {
	id, name, err := fs.Identify(pid)
	if err != nil {
		return nil, err
	}
	p, err := fs.OpenProcess(id)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	var uses []Holder
	for _, use := range []struct{ link, relation string }{{"exe", RelationExecutable}, {"cwd", RelationCwd}, {"root", RelationRoot}} {
		text, err := p.readLink(use.link)
		if err != nil {
			continue // a kernel thread, or not to be looked at
		}
		deleted, ok := f.is([]byte(text), func(st *unix.Statx_t) bool {
			var err error
			*st, err = statFollow(p.dir, p.path(use.link))
			return err == nil
		})
		if ok {
			uses = append(uses, Holder{ID: id, Name: name, Relation: use.relation, Path: Some(text), Deleted: deleted})
		}
	}
	if f.kind == 0 || f.kind == unix.S_IFREG || f.kind == unix.S_IFCHR || f.kind == unix.S_IFBLK {
		use, ok, err := p.findMapping(f)
		if err != nil {
			return nil, err
		}
		if ok {
			use.ID, use.Name = id, name
			uses = append(uses, use)
		}
	}
	return uses, p.Check()
}

// findMapping reads of maps only the lines that may be of the file.
func (p *Process) findMapping(f *HeldFile) (use Holder, found bool, err error) {
	var needles [][]byte
	if f.found {
		needles = append(needles, fmt.Appendf(nil, " %d ", f.inode))
	}
	for _, name := range f.names {
		needle := strings.ReplaceAll(name, "\n", string(escapedNewline))
		if f.found {
			needle += string(deletedTail)
		}
		needles = append(needles, []byte(needle))
	}
	buf := mapBuffers.Get().(*[maxMapLine]byte)
	defer mapBuffers.Put(buf)
	m := mapReader{file: "maps"}
	_, err = p.readSpace("maps", false, func(fd int) (int, error) {
		m.reset()
		return eachBlock(fd, buf[:], func(lines []byte) {
			if !slices.ContainsFunc(needles, func(n []byte) bool { return bytes.Contains(lines, n) }) {
				return
			}
			for line := range bytes.Lines(lines) {
				line = bytes.TrimSuffix(line, []byte{'\n'})
				if len(m.dst) < maxHeldMappings && slices.ContainsFunc(needles, func(n []byte) bool { return bytes.Contains(line, n) }) {
					m.parseMapping(line) // one that has no known form is none of the file
				}
			}
		})
	})
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return use, false, nil
	case err != nil:
		return use, false, err
	}
	if err := p.resolveMapLinks(&m, maxHeldMappings); err != nil {
		return use, false, err
	}
	read, write := false, false
	for i := range m.dst {
		v := &m.dst[i]
		deleted, ok := f.isMapped(v)
		if !ok {
			continue
		}
		if !found {
			use, found = Holder{Relation: RelationMapping, Path: Some(v.Path), Deleted: deleted}, true
		}
		read, write = read || v.Permissions[0] == 'r', write || v.Permissions[1] == 'w'
	}
	access := AccessNone
	switch {
	case read && write:
		access = AccessReadWrite
	case read:
		access = AccessRead
	case write:
		access = AccessWrite
	}
	use.Access = Some(access)
	return use, found, nil
}

// maxHeldMappings is how many mappings of one process are looked at more closely:
// those whose line has the inode or the name of the file.
const maxHeldMappings = 1024

// isMapped is is for a mapping, of which the text gives device and inode.
func (f *HeldFile) isMapped(v *Mapping) (deleted Opt[bool], ok bool) {
	exact, tail := f.named([]byte(v.Path))
	same := f.found && v.Inode == f.inode
	switch {
	case same && unix.Mkdev(v.Major, v.Minor) == f.device:
		return v.Deleted, true
	case same && (exact || tail && v.Deleted.Or(true)): // btrfs and overlays: maps has another device than stat
		return v.Deleted, true
	case tail:
		return v.Deleted, v.Deleted.Or(true)
	case exact && f.byName:
		return v.Deleted, true
	}
	return deleted, false
}

// eachBlock reads fd to its end and calls f with whole lines, as many as there are
// at a time. Of a line longer than buf only the end is seen.
func eachBlock(fd int, buf []byte, f func(lines []byte)) (total int, err error) {
	have := 0
	for {
		n, err := readRaw(fd, buf[have:])
		if err != nil || n == 0 {
			if have > 0 {
				f(buf[:have])
			}
			return total, err
		}
		total += n
		have += n
		end := bytes.LastIndexByte(buf[:have], '\n') + 1
		if end > 0 {
			f(buf[:end])
		}
		if have = copy(buf, buf[end:have]); have == len(buf) {
			have = 0
		}
	}
}
