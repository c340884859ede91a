// Package run launches commands, owns every process that descends from them, and
// ends all of it for sure.
//
// A run is contained four ways at once: a cgroup of its own that its first process is
// born in, two variables of the environment that every descendant inherits, a session
// and process group of its own, and the launching process as child subreaper. Which of
// these hold decides how sure the list of its members is; the cgroup alone makes it
// certain.
//
// A process is pid and start time, never a bare pid; signals go through pidfds that
// were checked against both. Nothing is matched by a name or a command line.
package run
