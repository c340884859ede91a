package proc

import "bytes"

// Bounds of an environment. execve(2) takes up to 6 MiB, and a target can point
// the kernel at any memory it has (PR_SET_MM_ENV_START).
const (
	maxEnvironment        = 1 << 20 // bytes, up to the last whole entry
	maxEnvironmentEntries = 65_536  // a title written over the environment leaves only NULs
)

// EnvironmentEntry is one string of the environment, raw bytes.
type EnvironmentEntry struct {
	Name  string
	Value Opt[string] // unknown when the string has no "="
}

// ReadEnvironment returns the environment at exec, and whether it was cut at
// 1 MiB or 65,536 entries.
//
// Shape:  the order of the target, duplicates and empty strings included. It is the
// memory that exec filled: setenv(3) mostly moves a variable elsewhere, a program
// that writes its title over it shows that.
// Absent: a kernel thread has none.
// Errors: ErrGone; fs.ErrPermission.
// Effect: reads the target's memory; takes its mmap lock for moments.
// Source: /proc/PID/environ, proc_pid_environ(5), fs/proc/base.c.
func (p *Process) ReadEnvironment() (entries []EnvironmentEntry, truncated bool, err error) {
	var text []byte
	_, err = p.readSpace("environ", true, func(fd int) (int, error) {
		var err error
		text, truncated, err = readAll(fd, text[:0:cap(text)], maxEnvironment)
		return len(text), err
	})
	if err == nil {
		err = p.Check()
	}
	if err != nil {
		return nil, false, err
	}
	entries, cut := parseEnvironment(text, truncated)
	return entries, truncated || cut, nil
}

// parseEnvironment splits the text at its NULs and each string at its first "=".
// open says that the text goes on: what follows the last NUL is no whole entry.
func parseEnvironment(b []byte, open bool) (entries []EnvironmentEntry, cut bool) {
	entries = make([]EnvironmentEntry, 0, min(bytes.Count(b, []byte{0})+1, maxEnvironmentEntries))
	for len(b) > 0 {
		s, rest, closed := bytes.Cut(b, []byte{0})
		if !closed && open {
			break
		}
		if len(entries) == maxEnvironmentEntries {
			return entries, true
		}
		name, value, found := bytes.Cut(s, []byte{'='})
		e := EnvironmentEntry{Name: string(name)}
		if found {
			e.Value = Some(string(value))
		}
		entries = append(entries, e)
		b = rest
	}
	return entries, false
}
