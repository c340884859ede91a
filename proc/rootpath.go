package proc

import (
	"bytes"
	"strings"

	"golang.org/x/sys/unix"
)

// maxMountInfo bounds the mount table of a target; a longer one is as good as
// none, see rootPaths.
const maxMountInfo = 4 << 20 // bytes

type pathState int

const (
	pathUnreachable pathState = iota // not below the target's root, or not to be asked
	pathMissing                      // its directory is there, it is not
	pathFound
)

// rootPaths looks up what a path means to the target: below its root, in its
// mount namespace. The zero value is ready; it serves one process.
//
// A target can mount a FUSE file system of its own and answer no request, so a
// path on a file system that somebody else serves is not looked up at all.
type rootPaths struct {
	opened bool
	dir    int    // O_PATH of the root, -1 when it cannot be had
	text   string // of the root link
	slow   []string
}

func (r *rootPaths) open(p *Process) {
	r.opened, r.dir = true, -1
	text, err := p.readLink("root")
	if err != nil {
		return
	}
	table, cut, err := p.readFileMax(p.live+"mountinfo", nil, maxMountInfo)
	if err != nil || cut {
		return
	}
	r.text, r.slow = text, servedMounts(table)
	if r.dir, err = p.openFile("root", unix.O_PATH|unix.O_DIRECTORY); err != nil {
		r.dir = -1
	}
}

func (r *rootPaths) close() {
	if r.opened && r.dir >= 0 {
		closeFD(r.dir)
	}
}

// stat looks path up. It is a path as the kernel prints it, without "..", without
// links: a link on the way is another path, and not followed.
func (r *rootPaths) stat(p *Process, path string) (pathState, unix.Statx_t) {
	var st unix.Statx_t
	if !r.opened {
		r.open(p)
	}
	if r.dir < 0 || !strings.HasPrefix(path, "/") {
		return pathUnreachable, st
	}
	if r.text != "/" { // the target is chrooted: paths are printed from above
		below, ok := strings.CutPrefix(path, r.text)
		if !ok || !strings.HasPrefix(below, "/") {
			return pathUnreachable, st
		}
		path = below
	}
	for _, mount := range r.slow {
		if mount == "/" || path == mount || strings.HasPrefix(path, mount+"/") {
			return pathUnreachable, st
		}
	}
	dir, rest := r.dir, path[1:]
	for {
		name, after, more := strings.Cut(rest, "/")
		if !more {
			break
		}
		next, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if dir != r.dir {
			closeFD(dir)
		}
		if err != nil {
			return pathUnreachable, st
		}
		dir, rest = next, after
	}
	err := unix.Statx(dir, rest, unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, &st)
	if dir != r.dir {
		closeFD(dir)
	}
	switch err {
	case nil:
		return pathFound, st
	case unix.ENOENT:
		return pathMissing, st
	}
	return pathUnreachable, st
}

// servedMounts returns the mount points of a mountinfo text, proc_pid_mountinfo(5),
// whose lookups wait for a process or another host.
func servedMounts(table []byte) []string {
	var points []string
	for len(table) > 0 {
		var l []byte
		l, table, _ = bytes.Cut(table, []byte{'\n'})
		// 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw
		fields, kind, ok := bytes.Cut(l, []byte(" - "))
		if !ok {
			continue
		}
		kind, _, _ = bytes.Cut(kind, []byte{' '})
		if !isServed(string(kind)) {
			continue
		}
		if f := bytes.SplitN(fields, []byte{' '}, 6); len(f) > 4 {
			points = append(points, unescapeOctal(f[4]))
		}
	}
	return points
}

// isServed tells the file systems whose answers come from elsewhere. fuseblk is
// one too: ntfs-3g is a process.
func isServed(kind string) bool {
	if strings.HasPrefix(kind, "fuse") || strings.HasPrefix(kind, "nfs") {
		return true
	}
	switch kind {
	case "9p", "afs", "autofs", "ceph", "cifs", "coda", "gfs2", "lustre", "ocfs2", "orangefs", "smb3", "virtiofs":
		return true
	}
	return false
}

// unescapeOctal undoes the \ooo of seq_path.
func unescapeOctal(b []byte) string {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] == '\\' && i+3 < len(b) && isOctal(b[i+1]) && isOctal(b[i+2]) && isOctal(b[i+3]) {
			out = append(out, (b[i+1]-'0')<<6|(b[i+2]-'0')<<3|(b[i+3]-'0'))
			i += 3
			continue
		}
		out = append(out, b[i])
	}
	return string(out)
}

func isOctal(c byte) bool { return c-'0' < 8 }
