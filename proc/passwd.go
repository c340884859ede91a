package proc

import (
	"bytes"
	"os"

	"golang.org/x/sys/unix"
)

// maxPasswd bounds the user table that is read; users beyond it have no name.
const maxPasswd = 16 << 20

// users are the names of /etc/passwd by user id, read again when the file changed.
// It is read here and not through os/user, which without cgo would do the same
// for each lookup.
type users struct {
	path  string
	names map[uint32]string
	mtime unix.Timespec
	size  int64
	inode uint64

	readings uint64 // how often they were read, or found missing
}

// refresh looks once whether the file changed. A file that cannot be read leaves
// no names.
func (u *users) refresh() {
	var st unix.Stat_t
	if unix.Stat(u.path, &st) != nil {
		if u.names != nil {
			u.readings++
		}
		*u = users{path: u.path, readings: u.readings}
		return
	}
	if u.names != nil && st.Mtim == u.mtime && st.Size == u.size && st.Ino == u.inode {
		return
	}
	u.mtime, u.size, u.inode = st.Mtim, st.Size, st.Ino
	u.readings++
	u.names = map[uint32]string{}
	f, err := os.Open(u.path)
	if err != nil {
		return
	}
	defer f.Close()
	if b, more, err := readAll(int(f.Fd()), nil, maxPasswd); err == nil {
		if more {
			b = b[:bytes.LastIndexByte(b, '\n')+1] // half a number is another user
		}
		u.names = parsePasswd(b)
	}
}

// parsePasswd returns the names by user id, the first of an id as getpwuid(3)
// does. Lines of another form are none.
//
// Source: passwd(5).
func parsePasswd(b []byte) map[uint32]string {
	names := map[uint32]string{}
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		name, rest, _ := bytes.Cut(line, []byte(":"))
		_, rest, _ = bytes.Cut(rest, []byte(":"))
		number, _, ok := bytes.Cut(rest, []byte(":"))
		id, end, numeric := parseUint(number, 0)
		if !ok || !numeric || end != len(number) || id > 1<<32-1 || len(name) == 0 || name[0] == '#' {
			continue
		}
		if _, taken := names[uint32(id)]; !taken {
			names[uint32(id)] = string(name)
		}
	}
	return names
}
