package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Context is who and where a process is. A part that could not be read is nil or
// unknown and named in Warnings.
type Context struct {
	Parent                Opt[ID] // unknown for PID 1, kthreadd and a parent outside the PID namespace
	Children              []ID    // by PID; at most maxChildren
	ProcessGroup          int32
	Session               int32
	TTY                   Opt[string]          // "pts/3"; unknown without a controlling terminal
	StartedAt             int64                // Unix epoch ms
	Cwd, Root             Opt[string]          // link texts
	Executable            Opt[string]          // link text; unknown for a kernel thread
	ExecutableState       string               // present deleted replaced memfd unreadable
	CommandLine           []string             // nil unreadable, empty for a kernel thread
	Cgroups               map[string]string    // controller to path; CgroupUnified is v2
	Container             Opt[string]          // short id or unit; unknown outside of either
	Namespaces            map[string]Namespace // by type
	NSPIDs                []int32              // outermost first, as the caller's PID namespace sees it
	UIDs, GIDs            Opt[[4]uint32]       // real, effective, saved, filesystem
	Groups                []uint32             // supplementary
	Capabilities          Opt[Capabilities]
	Seccomp               Opt[string] // none strict filter
	NoNewPrivs            Opt[bool]
	SecurityLabel         Opt[string]
	OOMScore, OOMScoreAdj Opt[int32]
	Limits                []Limit
	Personality           Opt[uint64]
	Warnings              []string
}

// CgroupUnified is the key of the v2 hierarchy, which has no controllers of its
// own in /proc/PID/cgroup.
const CgroupUnified = "unified"

// Executable states.
const (
	ExecutablePresent    = "present"    // its path names it
	ExecutableDeleted    = "deleted"    // its path names nothing
	ExecutableReplaced   = "replaced"   // its path names another file
	ExecutableMemfd      = "memfd"      // it never had a path: memfd_create(2)
	ExecutableUnreadable = "unreadable" // not permitted, or there is none
)

// ReadContext reads all of it. Parts come from many files and are not of one
// instant.
//
// Errors: ErrGone, and *ParseError for stat. Whatever else fails is a warning.
// Effect: none on the target. For the children it may read the stat of every process.
// Source: see each reader.
func (p *Process) ReadContext() (*Context, error) {
	c := &Context{ExecutableState: ExecutableUnreadable, Warnings: []string{}}
	st, err := p.stat()
	if err != nil {
		return nil, err
	}
	c.ProcessGroup, c.Session = st.pgrp, st.session
	c.StartedAt = p.fs.startedAt(st.start)
	kernel := st.flags&flagKernelThread != 0
	if st.tty != 0 {
		if c.TTY = p.fs.ttyName(st.tty); !c.TTY.Known() {
			c.warn("tty", fmt.Errorf("no driver has the device number %#x", uint32(st.tty)))
		}
	}
	c.Parent, err = p.readParent(st.ppid)
	c.warn("parent_id", err)
	c.Children, err = p.readChildren(c, maxChildren)
	c.warn("children", err)
	c.Cwd = c.link(p, "cwd")
	c.Root = c.link(p, "root")
	if !kernel {
		c.Executable = c.link(p, "exe")
		if text, ok := c.Executable.Get(); ok {
			c.ExecutableState, err = p.executableState(text)
			c.warn("executable_state", err)
		}
	}
	var cut bool
	c.CommandLine, cut, err = p.readCommandLine(true)
	c.warn("command_line", err)
	if cut {
		c.warn("command_line", fmt.Errorf("cut at %d bytes", maxCommandLine))
	}
	c.readCgroups(p)
	c.Namespaces, err = p.readNamespaces()
	c.warn("namespaces", err)
	c.readStatus(p)
	c.SecurityLabel, err = p.readLabel()
	c.warn("security_label", err)
	c.OOMScore, err = p.readNumber("oom_score")
	c.warn("oom_score", err)
	c.OOMScoreAdj, err = p.readNumber("oom_score_adj")
	c.warn("oom_score_adj", err)
	c.readLimits(p)
	c.readPersonality(p)
	if err := p.Check(); err != nil {
		return nil, err
	}
	return c, nil
}

// warn names a part that is missing, and why.
func (c *Context) warn(part string, err error) {
	if err == nil {
		return
	}
	reason := err.Error()
	switch {
	case errors.Is(err, fs.ErrPermission):
		reason = "not permitted; the same owner, kernel.yama.ptrace_scope or CAP_SYS_PTRACE decides"
	case errors.Is(err, fs.ErrNotExist):
		reason = "the kernel has none"
	}
	c.Warnings = append(c.Warnings, part+": "+reason)
}

func (c *Context) link(p *Process, name string) Opt[string] {
	text, err := p.readLink(name)
	if name == "exe" {
		name = "executable"
	}
	c.warn(name, err)
	if err != nil {
		return Opt[string]{}
	}
	return Some(text)
}

// readParent names the parent. Its number cannot be another's as long as it is
// still our ppid: a parent that ends is replaced there first.
func (p *Process) readParent(ppid int32) (Opt[ID], error) {
	for range 4 {
		if ppid == 0 {
			return Opt[ID]{}, nil
		}
		parent, ok := p.fs.readStat(ppid)
		now, err := p.stat()
		if err != nil {
			return Opt[ID]{}, err
		}
		if ok && now.ppid == ppid {
			return Some(ID{ppid, parent.start}), nil
		}
		if !ok && now.ppid == ppid {
			return Opt[ID]{}, fs.ErrPermission // hidepid
		}
		ppid = now.ppid
	}
	return Opt[ID]{}, errors.New("it changed during each reading")
}

// readStat reads the stat of some process; comm is not valid.
func (fs *FS) readStat(pid int32) (stat, bool) {
	var name [pathPart]byte
	b := strconv.AppendInt(name[:0], int64(pid), 10)
	copy(name[len(b):], "/stat")
	fd, err := openRaw(fs.dir, &name[0], unix.O_RDONLY)
	if err != nil {
		return stat{}, false
	}
	var buf [1024]byte
	n, err := readRaw(fd, buf[:])
	closeFD(fd)
	if err != nil {
		return stat{}, false
	}
	st, ok := parseStat(buf[:n])
	st.comm = nil
	return st, ok
}

// executableState compares the file that runs with what its path names now, below
// the root of the target and in its mount namespace. A path that cannot be looked
// up there is as the kernel's text says.
func (p *Process) executableState(text string) (string, error) {
	state := ExecutablePresent
	name, marked := strings.CutSuffix(text, string(deletedSuffix))
	if marked {
		state = ExecutableDeleted
	}
	exe, err := p.statLink("exe")
	if err != nil {
		if marked && strings.HasPrefix(text, "/memfd:") {
			state = ExecutableMemfd
		}
		return state, err
	}
	if exe.Nlink == 0 && strings.HasPrefix(text, "/memfd:") {
		return ExecutableMemfd, nil
	}
	var root rootPaths
	defer root.close()
	switch found, at := root.stat(p, text); {
	case found == pathFound && sameInode(&at, &exe):
		return ExecutablePresent, nil
	case found == pathFound && !marked:
		return ExecutableReplaced, nil // something is mounted over it
	}
	if !marked {
		return state, nil
	}
	switch found, at := root.stat(p, name); {
	case found == pathFound && sameInode(&at, &exe): // linked anew
		return ExecutablePresent, nil
	case found == pathFound:
		return ExecutableReplaced, nil
	}
	return ExecutableDeleted, nil
}

// statLink stats what the link name leads to.
func (p *Process) statLink(name string) (st unix.Statx_t, err error) {
	_, err = p.retry(name, func(path string) (int, error) {
		var err error
		st, err = statFollow(p.dir, path)
		return 0, err
	})
	return st, err
}

func (c *Context) readCgroups(p *Process) {
	text, err := p.readFile("cgroup", nil)
	if err != nil {
		c.warn("cgroups", err)
		c.warn("container", err)
		return
	}
	var ok bool
	if c.Cgroups, ok = parseCgroups(text); !ok {
		c.warn("cgroups", &ParseError{File: "cgroup"})
	}
	if path, ok := parseCgroup(text); ok {
		if id := containerOf(path); id != "" {
			c.Container = Some(id)
		}
	}
}

// parseCgroups parses "4:cpu,cpuacct:/path" lines: each controller to its path, a
// named v1 hierarchy as "name=systemd", v2 ("0::/path") as CgroupUnified.
//
// Source: /proc/PID/cgroup, cgroups(7), 2.6.24.
func parseCgroups(b []byte) (map[string]string, bool) {
	all := make(map[string]string)
	for len(b) > 0 {
		var l []byte
		l, b, _ = bytes.Cut(b, []byte{'\n'})
		number, rest, ok1 := strings.Cut(string(l), ":")
		controllers, path, ok2 := strings.Cut(rest, ":")
		if _, err := strconv.ParseUint(number, 10, 32); err != nil || !ok1 || !ok2 {
			return nil, false
		}
		if controllers == "" {
			controllers = CgroupUnified
		}
		for name := range strings.SplitSeq(controllers, ",") {
			all[name] = path
		}
	}
	return all, len(all) > 0
}

// readStatus takes what status says: the name spaces' PIDs (4.1), ids, groups,
// capabilities (ambient 4.3), seccomp (3.8) and no_new_privs (4.10).
func (c *Context) readStatus(p *Process) {
	text, err := p.readFile("status", nil)
	var s contextStatus
	if err == nil {
		s, err = parseContextStatus(text)
	}
	if err != nil {
		for _, part := range []string{"ns_pids", "uids", "gids", "groups", "capabilities", "seccomp", "no_new_privs"} {
			c.warn(part, err)
		}
		return
	}
	c.NSPIDs, c.UIDs, c.GIDs, c.Groups = s.nsPIDs, s.uids, s.gids, s.groups
	c.Capabilities, c.Seccomp, c.NoNewPrivs = s.capabilities, s.seccomp, s.noNewPrivs
	for part, known := range s.parts() {
		if !known {
			c.warn(part, fs.ErrNotExist)
		}
	}
}

// contextStatus is what a context takes of status. A line that an older kernel
// does not print is unknown or nil.
type contextStatus struct {
	nsPIDs       []int32
	uids, gids   Opt[[4]uint32]
	groups       []uint32
	capabilities Opt[Capabilities]
	seccomp      Opt[string]
	noNewPrivs   Opt[bool]
}

func (s *contextStatus) parts() func(yield func(string, bool) bool) {
	return func(yield func(string, bool) bool) {
		_ = yield("ns_pids", s.nsPIDs != nil) && yield("uids", s.uids.Known()) && yield("gids", s.gids.Known()) &&
			yield("groups", s.groups != nil) && yield("capabilities", s.capabilities.Known()) &&
			yield("seccomp", s.seccomp.Known()) && yield("no_new_privs", s.noNewPrivs.Known())
	}
}

func parseContextStatus(b []byte) (contextStatus, error) {
	var s contextStatus
	var sets Capabilities
	line, seen := 0, 0
	for len(b) > 0 {
		var l []byte
		l, b, _ = bytes.Cut(b, []byte{'\n'})
		line++
		key, value, found := bytes.Cut(l, []byte(":\t"))
		if !found {
			continue
		}
		ok := true
		capability := func(to *uint64, bit int) {
			v, next := parseHex(value, 0)
			*to, ok = v, next > 0 && next == len(value)
			seen |= bit
		}
		switch string(key) {
		case "NSpid":
			s.nsPIDs, ok = parseNumbers[int32](value, 31)
		case "Uid":
			s.uids, ok = parseFour(value)
		case "Gid":
			s.gids, ok = parseFour(value)
		case "Groups":
			s.groups, ok = parseNumbers[uint32](value, 32)
		case "CapInh":
			capability(&sets.Inheritable, 1)
		case "CapPrm":
			capability(&sets.Permitted, 2)
		case "CapEff":
			capability(&sets.Effective, 4)
		case "CapBnd":
			capability(&sets.Bounding, 8)
		case "CapAmb":
			capability(&sets.Ambient, 16)
		case "NoNewPrivs":
			if ok = string(value) == "0" || string(value) == "1"; ok {
				s.noNewPrivs = Some(value[0] == '1')
			}
		case "Seccomp":
			modes := []string{"none", "strict", "filter"} // SECCOMP_MODE_*, include/uapi/linux/seccomp.h
			if ok = len(value) == 1 && value[0]-'0' < 3; ok {
				s.seccomp = Some(modes[value[0]-'0'])
			}
		}
		if !ok {
			return contextStatus{}, &ParseError{File: "status", Line: line}
		}
	}
	if seen == 31 {
		s.capabilities = Some(sets)
	}
	return s, nil
}

// parseNumbers reads numbers of the given width in bits with blanks between; no
// number is an empty list, not nil.
func parseNumbers[T int32 | uint32](b []byte, bits int) ([]T, bool) {
	numbers := []T{}
	for f := range bytes.FieldsSeq(b) {
		v, err := strconv.ParseUint(string(f), 10, bits)
		if err != nil {
			return nil, false
		}
		numbers = append(numbers, T(v))
	}
	return numbers, true
}

func parseFour(b []byte) (Opt[[4]uint32], bool) {
	ids, ok := parseNumbers[uint32](b, 32)
	if !ok || len(ids) != 4 {
		return Opt[[4]uint32]{}, false
	}
	return Some([4]uint32(ids)), true
}

// readLabel returns the label of the security module: an AppArmor profile with its
// mode, an SELinux context. Without a module that has labels the kernel says
// EINVAL.
//
// Source: /proc/PID/attr/current, proc_pid_attr(5), 2.6.0.
func (p *Process) readLabel() (Opt[string], error) {
	text, err := p.readFile("attr/current", nil)
	if errors.Is(err, unix.EINVAL) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return Opt[string]{}, err
	}
	label := bytes.TrimRight(text, "\x00\n") // SELinux ends it with NUL, AppArmor with a newline
	if len(label) == 0 {
		return Opt[string]{}, fs.ErrNotExist
	}
	return Some(string(label)), nil
}

// readNumber reads a file that is one decimal number.
func (p *Process) readNumber(name string) (Opt[int32], error) {
	text, err := p.readFile(name, nil)
	if err != nil {
		return Opt[int32]{}, err
	}
	v, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 32)
	if err != nil {
		return Opt[int32]{}, p.wrap(name, &ParseError{File: name})
	}
	return Some(int32(v)), nil
}

func (c *Context) readLimits(p *Process) {
	text, err := p.readFile("limits", nil)
	if err == nil {
		var ok bool
		if c.Limits, ok = parseLimits(text); !ok {
			err = &ParseError{File: "limits"}
		}
	}
	c.warn("limits", err)
}

// readPersonality reads the execution domain and its flags, personality(2), one
// hex number, 2.6.28.
func (c *Context) readPersonality(p *Process) {
	text, err := p.readFile("personality", nil)
	if err == nil {
		text = bytes.TrimSpace(text)
		if v, next := parseHex(text, 0); next > 0 && next == len(text) {
			c.Personality = Some(v)
			return
		}
		err = &ParseError{File: "personality"}
	}
	c.warn("personality", err)
}
