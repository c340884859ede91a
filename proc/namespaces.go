package proc

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Namespace is one namespace of a process.
type Namespace struct {
	Inode uint64    // as in "net:[4026531840]"
	Own   Opt[bool] // the caller is in it too; unknown when the FS is not the caller's /proc
}

// namespaceTypes are the entries of /proc/PID/ns, namespaces(7); cgroup since 4.6,
// pid_for_children 4.12, time and time_for_children 5.6.
var namespaceTypes = [...]string{"cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "time_for_children", "user", "uts"}

// readNamespaces returns the namespaces by type. A type that the kernel lacks is
// left out. pid_for_children has no link before the first child of a new one.
//
// Source: the links of /proc/PID/ns, proc_pid_ns(5), 3.8.
func (p *Process) readNamespaces() (map[string]Namespace, error) {
	all := make(map[string]Namespace, len(namespaceTypes))
	own := p.fs.isProc()
	for _, kind := range namespaceTypes {
		text, err := p.readLink("ns/" + kind)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return nil, err
		}
		inode, ok := parseNamespace(text)
		if !ok {
			return nil, p.wrap("ns/"+kind, &ParseError{File: "ns/" + kind})
		}
		ns := Namespace{Inode: inode}
		if own {
			ns.Own = p.fs.ownNamespace(kind, inode)
		}
		all[kind] = ns
	}
	if len(all) == 0 {
		return nil, p.wrap("ns", unix.ENOENT)
	}
	return all, nil
}

// parseNamespace reads "net:[4026531840]". The word before the colon is not always
// the name of the link: pid_for_children leads to "pid:[…]".
func parseNamespace(text string) (uint64, bool) {
	kind, rest, ok := strings.Cut(text, ":[")
	if !ok || kind == "" || !strings.HasSuffix(rest, "]") {
		return 0, false
	}
	inode, err := strconv.ParseUint(strings.TrimSuffix(rest, "]"), 10, 64)
	return inode, err == nil
}

// isProc tells a real procfs from a tree of files. Only there "self" is the caller.
func (fs *FS) isProc() bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fs.dir, &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}

// ownNamespace compares with the namespace of the calling thread: one that has
// entered another for a moment is not "self".
func (fs *FS) ownNamespace(kind string, inode uint64) Opt[bool] {
	var text [64]byte
	n, err := unix.Readlinkat(fs.dir, "self/ns/"+kind, text[:])
	if err != nil {
		return Opt[bool]{}
	}
	own, ok := parseNamespace(string(text[:n]))
	if !ok {
		return Opt[bool]{}
	}
	return Some(own == inode)
}
