package proc

import (
	"encoding/binary"
	"hash/maphash"

	"golang.org/x/sys/unix"
)

// Details is the text of a row, cached by identity and re-read in slices: each
// process within 10 s, at once when its name changed. Immutable.
type Details struct {
	Name                 string // comm, raw bytes
	Executable           *string
	CommandLine          []string // nil: unreadable
	CommandLineTruncated bool
	Username             *string
	EffectiveUsername    *string
	Cgroup               *string
	Container            *string
	TTY                  *string
}

// texts are the raw texts of one process, in buffers that are reused: most are
// read only to find that nothing changed, which a sum over them tells without
// making a string.
type texts struct {
	users users
	ttys  ttys // read when the first terminal is to be named
	fs    *FS
	seed  maphash.Seed

	comm    []byte
	exe     []byte       // nil: unreadable
	command []byte       // nil: unreadable
	cut     bool         // of command
	cgroup  []byte       // nil: unreadable
	shared  *sharedTexts // what exe and cgroup are of; nil: of the process itself

	exeBuf, commandBuf, cgroupBuf []byte
}

func newTexts(fs *FS) texts {
	return texts{
		fs: fs, users: users{path: "/etc/passwd"}, seed: maphash.MakeSeed(),
		exeBuf: make([]byte, 4096), commandBuf: make([]byte, maxListCommandLine+1), cgroupBuf: make([]byte, 8192),
	}
}

// read reads the texts of a process; comm is there already. It returns their sum,
// and whether they can be trusted: a process on its way out has lost its memory
// before it is a zombie, and what was known of it is better.
//
// Errors: ErrLeft.
func (t *texts) read(p *Process, st *stat, row *Row, turn *turn) (sum uint64, whole bool, err error) {
	t.exe, t.command, t.cut, t.cgroup, t.shared = nil, nil, false, nil, nil
	whole = true
	switch {
	case row.KernelThread:
		t.command = t.commandBuf[:0]
	case st.ended() && p.live == "":
	default:
		var b [pathPart]byte
		copy(b[:], p.path("exe"))
		n, none := readlinkRaw(p.dir, &b[0], t.exeBuf)
		if none == nil {
			t.exe = t.exeBuf[:n]
		}
		leaving := none == unix.ENOENT || none == unix.ESRCH
		if number, ok := turn.enter(row); ok {
			copy(b[:], p.path("cmdline")+"\x00")
			t.readCommand(p.dir, &b[0])
			if !turn.leave(number) {
				return 0, false, ErrLeft
			}
		}
		if leaving && len(t.command) == 0 {
			t.command, whole = nil, false
		}
	}
	if b, err := slurp(p.dir, nameCgroup, t.cgroupBuf); err == nil {
		if path, ok := parseCgroup(b); ok {
			t.cgroup = path
		}
	}
	return t.sum(st, row), whole, nil
}

// readCommand reads the first maxListCommandLine bytes of cmdline, and one more
// that tells whether it is cut.
func (t *texts) readCommand(dir int, path *byte) {
	t.command, t.cut = nil, false
	fd, err := openRaw(dir, path, unix.O_RDONLY)
	if err != nil {
		return
	}
	if b, more, err := readAll(fd, t.commandBuf, maxListCommandLine); err == nil {
		t.command, t.cut = b, more
	}
	closeFD(fd)
}

// titleOf hashes a command line; 0 without one.
func (t *texts) titleOf(command []byte) uint64 {
	if command == nil {
		return 0
	}
	return maphash.Bytes(t.seed, command) | 1
}

// sum hashes the texts and the numbers that become text. The seed is this
// process's own, so nobody can make two texts with one sum.
func (t *texts) sum(st *stat, row *Row) uint64 {
	var h maphash.Hash
	h.SetSeed(t.seed)
	part := func(b []byte, there bool) {
		var size [8]byte
		n := uint64(len(b)) << 1
		if there {
			n |= 1
		}
		binary.LittleEndian.PutUint64(size[:], n)
		h.Write(size[:])
		h.Write(b)
	}
	part(t.comm, true)
	part(t.exe, t.exe != nil)
	part(t.command, t.command != nil)
	part(t.cgroup, t.cgroup != nil)
	for _, uid := range [2]uint32{row.UID, row.EUID} {
		name, ok := t.users.names[uid]
		part(nil, ok)
		h.WriteString(name)
	}
	var numbers [5]byte
	binary.LittleEndian.PutUint32(numbers[:], uint32(st.tty))
	if t.cut {
		numbers[4] = 1
	}
	h.Write(numbers[:])
	return h.Sum64()
}

// details makes the strings.
func (t *texts) details(st *stat, row *Row) *Details {
	d := &Details{Name: string(t.comm), CommandLineTruncated: t.cut}
	if t.command != nil {
		d.CommandLine = parseCommandLine(t.command, t.cut)
	}
	d.Username, d.EffectiveUsername = t.user(row.UID), t.user(row.EUID)
	if t.shared != nil {
		d.Executable, d.Cgroup, d.Container = &t.shared.exe, &t.shared.cgroup, t.shared.container
	} else {
		if t.exe != nil {
			d.Executable = text(string(t.exe))
		}
		if t.cgroup != nil {
			d.Cgroup, d.Container = text(string(t.cgroup)), containerText(t.cgroup)
		}
	}
	if st.tty != 0 {
		if t.ttys == nil {
			t.ttys = t.fs.readTTYs()
		}
		d.TTY = t.ttys.name(st.tty).Ptr()
	}
	return d
}

func containerText(cgroup []byte) *string {
	if name := containerOf(cgroup); name != "" {
		return text(name)
	}
	return nil
}

func (t *texts) user(uid uint32) *string {
	if name, ok := t.users.names[uid]; ok {
		return &name
	}
	return nil
}

func text(s string) *string { return &s }
