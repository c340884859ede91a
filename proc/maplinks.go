package proc

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// What /proc/PID/map_files says about the mappings whose text in maps can be read
// in two ways. The kernel appends " (deleted)" to a name that was unlinked and
// writes a newline as \012, and escapes neither text where a name really has it.

// mapLink is what one lookup found.
type mapLink struct {
	path    string // "" unknown
	deleted Opt[bool]
}

type mapLinkKey struct {
	major, minor uint32
	inode        uint64
	text         string
}

// resolveMapLinks settles the ambiguous paths of m. It fails only when the
// process is gone; what it cannot settle, or what is beyond the most names to look
// up, keeps the text of maps.
func (p *Process) resolveMapLinks(m *mapReader, most int) error {
	if len(m.ambiguous) == 0 {
		return nil
	}
	dir, err := p.openMapFiles()
	if err != nil {
		return p.Check()
	}
	defer closeFD(dir)
	known := make(map[mapLinkKey]mapLink)
	var root rootPaths
	defer root.close()
	for _, at := range m.ambiguous {
		v := &m.dst[at]
		key := mapLinkKey{v.Major, v.Minor, v.Inode, v.Path}
		link, ok := known[key]
		if !ok {
			if len(known) == most {
				m.cut = fmt.Sprintf("more than %d names that only a link tells", most)
				continue
			}
			link = p.readMapLink(dir, v, &root)
			known[key] = link
		}
		if link.path != "" {
			v.Path = link.path
		}
		v.Deleted = link.deleted
	}
	return nil
}

// openMapFiles opens map_files. Only the directory of a process has one, but that
// of a thread, which no listing shows, counts as such: it serves when the leader
// has ended.
func (p *Process) openMapFiles() (int, error) {
	if p.live == "" {
		return p.openFile("map_files", unix.O_PATH|unix.O_DIRECTORY)
	}
	tid := strings.TrimSuffix(strings.TrimPrefix(p.live, "task/"), "/")
	fd, err := openAt(p.fs.dir, tid+"/map_files", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	if !p.lives(p.live) { // the number could be another's by now
		closeFD(fd)
		return -1, unix.ESRCH
	}
	return fd, nil
}

func (p *Process) readMapLink(dir int, v *Mapping, root *rootPaths) mapLink {
	// The names have no leading zeros, unlike the addresses in maps.
	var name [pathPart]byte
	b := strconv.AppendUint(name[:0], v.Start, 16)
	b = append(b, '-')
	strconv.AppendUint(b, v.End, 16)
	var text [4096]byte
	n, err := readlinkRaw(dir, &name[0], text[:])
	if err != nil || n == 0 || n == len(text) {
		return mapLink{} // unmapped since, or not permitted
	}
	path := string(text[:n])
	if !strings.HasSuffix(path, string(deletedSuffix)) {
		return mapLink{path, Some(false)}
	}
	// To follow the link takes CAP_CHECKPOINT_RESTORE (5.9; CAP_SYS_ADMIN before).
	st, err := statFollow(dir, string(name[:len(b)+len(strconv.FormatUint(v.End, 16))]))
	if err != nil {
		st = unix.Statx_t{Dev_major: v.Major, Dev_minor: v.Minor, Ino: v.Inode}
		switch found, at := root.stat(p, path); {
		case found == pathFound && sameInode(&at, &st):
			return mapLink{path, Some(false)}
		case found == pathMissing:
			return mapLink{path, Some(true)}
		}
		// Another file has the name, or maps gives another device than stat does
		// (btrfs, overlay).
		return mapLink{path: path}
	}
	if st.Nlink == 0 {
		return mapLink{path, Some(true)}
	}
	// The file has another name left, or this very one.
	switch found, at := root.stat(p, path); found {
	case pathFound:
		return mapLink{path, Some(!sameInode(&at, &st))}
	case pathMissing:
		return mapLink{path, Some(true)}
	}
	return mapLink{path: path}
}

// statFollow stats what a link of /proc leads to, with what the kernel has at
// hand: a FUSE or network file system is not asked.
func statFollow(dir int, name string) (st unix.Statx_t, err error) {
	for {
		err = unix.Statx(dir, name, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, &st)
		if err != unix.EINTR {
			return st, err
		}
	}
}

func sameInode(a, b *unix.Statx_t) bool {
	return a.Dev_major == b.Dev_major && a.Dev_minor == b.Dev_minor && a.Ino == b.Ino
}
