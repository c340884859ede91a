package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// spawn starts the command of a reserved run.
func (s *Supervisor) spawn(r *live, l Launch) error {
	who, err := s.account(l)
	if err != nil {
		return err
	}
	var dir *os.File
	var path string
	err = who.asUser(func() (err error) {
		dir, path, err = openFolder(s.o.Roots, l.Cwd)
		return err
	})
	if err != nil {
		return err
	}
	defer dir.Close()
	r.mu.Lock()
	r.user, r.cwd, r.hold.uid = who.String(), path, who.uid
	r.mu.Unlock()
	more := []string{markID + "=" + r.id, markOwner + "=" + s.owner}
	for _, root := range s.o.Roots {
		if root.Env != "" {
			more = append(more, root.Env+"="+root.Dir)
		}
	}
	if l.PTY != nil {
		more = append(more, "TERM=xterm-256color")
		if term, ok := l.Env["TERM"]; ok {
			more[len(more)-1] = "TERM=" + term
		}
	}
	env, err := environment(s.o.Environ, who, l.Env, more)
	if err != nil {
		return err
	}
	cmd := &command{argv: l.Argv, env: env, dir: dir, who: who, birth: s.birth}
	if l.Command != nil {
		cmd.argv = []string{"sh", "-c", *l.Command}
	}
	program, err := s.program(cmd, path)
	if err != nil {
		return err
	}
	if program != nil {
		defer program.Close()
	}
	if s.groups != nil {
		if cmd.group, err = s.groups.create(r.id); err != nil {
			return err
		}
		r.mu.Lock()
		r.hold.group = cmd.group
		r.mu.Unlock()
	}
	err = s.start(r, l, cmd)
	if err != nil && cmd.group != nil {
		cmd.group.remove() // empty: nothing was born
		r.mu.Lock()
		r.hold.group = nil
		r.mu.Unlock()
	}
	return err
}

// account is the user that a run starts as: that of the peer who asked.
//
// Errors: run_user_unknown.
func (s *Supervisor) account(l Launch) (account, error) {
	own := uint32(os.Geteuid())
	var who account
	var err error
	switch {
	case l.User != "" && (l.UID == nil || *l.UID != 0):
		return account{}, fail(CodeUserUnknown, "Only root may name another user.")
	case l.User != "":
		who, err = s.accounts.byName(l.User)
	case l.UID != nil:
		who, err = s.accounts.byUID(*l.UID)
	case s.o.User != "":
		who, err = s.accounts.byName(s.o.User)
	default:
		return account{}, fail(CodeUserUnknown, "Nobody knows which user asks, so that there is none to run as: start procinsh with --run-user NAME.")
	}
	if err == nil && own != 0 && who.uid != own {
		return account{}, fail(CodeUserUnknown, "This procinsh runs as user %d and can start programs as no other.", own)
	}
	return who, err
}

// program resolves what is to be executed, checks the allow-list and puts the wrapper
// before it. The file that was checked is the one that is executed; program is to be
// closed after the start.
func (s *Supervisor) program(cmd *command, dir string) (program *os.File, err error) {
	path, err := findProgram(cmd.argv[0], pathOf(cmd.env), dir)
	if err != nil {
		return nil, err
	}
	cmd.path = path
	if len(s.o.Allow) > 0 {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, &spawnError{126, "not executable: " + cmd.argv[0]}
		}
		program = os.NewFile(uintptr(fd), path)
		if !allowed(program, s.o.Allow) {
			program.Close()
			return nil, fail(CodeCommandDenied, "The program %s is none of those given with --run-allow.", path)
		}
		if len(s.o.Wrapper) == 0 && !isScript(path) {
			cmd.path = fmt.Sprintf("/proc/self/fd/%d", fd)
		}
	}
	if cmd.path, err = s.wrapped(cmd, pathOf(cmd.env), dir); err != nil && program != nil {
		program.Close()
	}
	return program, err
}

// isScript tells whether a file names an interpreter, which would have to open it again
// and cannot by a descriptor that is closed by then.
func isScript(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var b [2]byte
	n, _ := f.Read(b[:]) // unreadable is no script
	return string(b[:n]) == "#!"
}

// wrapped returns the program to start, with the wrapper's words before the command's
// when there is one.
func (s *Supervisor) wrapped(cmd *command, path, dir string) (string, error) {
	if len(s.o.Wrapper) == 0 {
		if cmd.path != "" {
			return cmd.path, nil
		}
		return findProgram(cmd.argv[0], path, dir)
	}
	program, err := findProgram(s.o.Wrapper[0], path, "/")
	if err != nil {
		e := err.(*spawnError)
		return "", &spawnError{e.status, "the wrapper " + s.o.Wrapper[0] + " cannot start: " + e.text}
	}
	cmd.argv = append(append([]string(nil), s.o.Wrapper...), cmd.argv...)
	return program, nil
}

func pathOf(env []string) string {
	for _, line := range env {
		if v, ok := strings.CutPrefix(line, "PATH="); ok {
			return v
		}
	}
	return ""
}

// start makes the streams and starts the command.
func (s *Supervisor) start(r *live, l Launch, cmd *command) error {
	var theirs []int
	defer func() {
		for _, fd := range theirs {
			unix.Close(fd)
		}
	}()
	undo := func(err error) error {
		r.closeStreams()
		return err
	}
	if l.PTY != nil {
		t, slave, err := openTerminal(*l.PTY, cmd.who)
		switch {
		case err == nil:
			theirs = append(theirs, slave)
			cmd.stdio, cmd.tty = [3]int{slave, slave, slave}, true
			r.terminal = &t
			r.mu.Lock()
			r.size, r.stdin = l.PTY, "open"
			r.mu.Unlock()
			r.input = t.File
			r.output = []*reader{{file: t.File, stream: Terminal}}
		case l.Fallback:
			r.warn("no terminal could be had, the command runs on pipes: " + err.Error())
		default:
			return &spawnError{126, "no terminal can be had: " + err.Error()}
		}
	}
	if r.terminal == nil {
		if l.Stdin == "open" || l.Input != nil {
			f, fd, err := pipe(true)
			if err != nil {
				return undo(err)
			}
			theirs = append(theirs, fd)
			cmd.stdio[0] = fd
			r.input = f
			r.mu.Lock()
			r.stdin = "open"
			r.mu.Unlock()
		} else {
			fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return undo(err)
			}
			theirs = append(theirs, fd)
			cmd.stdio[0] = fd
		}
		for i, stream := range []Stream{Stdout, Stderr} {
			f, fd, err := pipe(false)
			if err != nil {
				return undo(err)
			}
			theirs = append(theirs, fd)
			cmd.stdio[1+i] = fd
			r.output = append(r.output, &reader{file: f, stream: stream})
		}
	}
	id, err := s.children.start(s.files, cmd, r.exitStatus)
	if err != nil {
		return undo(s.wrapperError(cmd, cmd.explain(err)))
	}
	r.started(id)
	r.noteOutput = s.noteOutputOf(r)
	for _, o := range r.output {
		s.work.Go(func() { r.pump(o) })
	}
	if l.Input != nil {
		s.work.Go(func() { r.feed(*l.Input) })
	}
	return nil
}

// wrapperError names the wrapper when it is what could not be started.
func (s *Supervisor) wrapperError(cmd *command, err error) error {
	var e *spawnError
	if len(s.o.Wrapper) == 0 || !errors.As(err, &e) {
		return err
	}
	return &spawnError{e.status, "the wrapper " + s.o.Wrapper[0] + " cannot start: " + e.text}
}

// feed writes the input of a launch, then ends it.
func (r *live) feed(text string) {
	r.inputMu.Lock()
	defer r.inputMu.Unlock()
	f := r.input
	if f == nil {
		return
	}
	f.SetWriteDeadline(time.Time{})
	f.WriteString(text) // a command that does not read it has ended
	r.endInputLocked()
}

// containsGroup tells whether the text of /proc/PID/cgroup names a group.
func containsGroup(text string, g *group) bool {
	for line := range strings.Lines(text) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return strings.HasSuffix(path, "/"+runDirectory(g)) || filepath.Base(path) == filepath.Base(g.path)
		}
	}
	return false
}
