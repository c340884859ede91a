package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	launcher "procinsh/run"
)

const runHelp = `procinsh run starts a command, shows what it prints, and ends all that it started.

Usage: procinsh run [options] -- COMMAND [ARG…]
       procinsh run [options] -c 'TEXT FOR sh'

  --name ID          the run's id
  --cwd DIR          working directory (this one; on a server: /)
  --env NAME=VALUE   may be given several times
  --scope NAME       group it with other runs; --replace ends those first
  --pty              on a terminal of its own
  --stdin            pass standard input on
  --timeout TIME     end it after so long
  --silence TIME     end it when it prints nothing for so long
  --grace TIME       between SIGTERM and SIGKILL (3s)
  --leftovers WHAT   kill or keep what still lives when the command ends (kill)
  --raw              bytes as they come, also where output is no terminal
  --detach           print the id and leave it running; needs a server
  --server URL       http://127.0.0.1:8080 or unix:PATH (or $PROCINSH_SERVER);
                     without, the command runs here and now
  --token-file FILE  the server's token (or $PROCINSH_TOKEN)

The exit status is that of the command; 128+n when signal n ended it, 124 for a
timeout, 125 when procinsh itself failed, 126 not executable, 127 not found.
Ctrl-C ends the command with grace, a second one at once.
`

// Exit statuses of procinsh run beside the command's own.
const (
	statusTimeout  = 124
	statusOwn      = 125
	statusNotExec  = 126
	statusNotFound = 127
)

// runOptions are those of procinsh run.
type runOptions struct {
	launch launcher.Launch
	detach bool
	raw    bool
	stdin  bool
	server string
	token  string
}

func parseRun(args []string, env func(string) string) (runOptions, error) {
	o := runOptions{server: env("PROCINSH_SERVER")}
	l := &o.launch
	var help, pty bool
	var tokenFile string
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&help, "help", false, "")
	flags.BoolVar(&help, "h", false, "")
	flags.StringVar(&l.ID, "name", "", "")
	flags.StringVar(&l.Cwd, "cwd", "", "")
	flags.StringVar(&l.Scope, "scope", "", "")
	flags.BoolVar(&l.Replace, "replace", false, "")
	flags.BoolVar(&pty, "pty", false, "")
	flags.BoolVar(&o.stdin, "stdin", false, "")
	flags.BoolVar(&o.detach, "detach", false, "")
	flags.BoolVar(&o.raw, "raw", false, "")
	flags.StringVar(&o.server, "server", o.server, "")
	flags.StringVar(&tokenFile, "token-file", "", "")
	flags.Func("env", "", func(text string) error {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return errors.New("not NAME=VALUE")
		}
		if l.Env == nil {
			l.Env = map[string]string{}
		}
		l.Env[name] = value
		return nil
	})
	span := func(name string, to **int64) {
		flags.Func(name, "", func(text string) error {
			d, err := time.ParseDuration(text)
			if err != nil || d < 0 {
				return errors.New("not a time like 30s")
			}
			n := d.Milliseconds()
			*to = &n
			return nil
		})
	}
	span("timeout", &l.TimeoutMS)
	span("silence", &l.SilenceMS)
	span("grace", &l.GraceMS)
	flags.StringVar(&l.Leftovers, "leftovers", "", "")
	flags.Func("c", "", func(text string) error { l.Command = &text; return nil })
	if err := flags.Parse(args); err != nil {
		return o, flagError(err)
	}
	if help {
		return o, errHelp
	}
	var err error
	if o.token, err = tokenOf(tokenFile, env); err != nil {
		return o, err
	}
	if l.Command == nil {
		l.Argv = flags.Args()
	}
	switch {
	case l.Command != nil && flags.NArg() > 0:
		return o, fmt.Errorf("-c takes its text alone, %q is too much", flags.Arg(0))
	case l.Command == nil && flags.NArg() == 0:
		return o, errors.New("no command, see procinsh run --help")
	case o.detach && o.server == "":
		return o, errors.New("--detach needs --server or $PROCINSH_SERVER")
	case o.detach && o.stdin:
		return o, errors.New("--detach goes with no --stdin")
	}
	if l.Leftovers == "" {
		l.Leftovers = "kill"
		if o.detach {
			l.Leftovers = "keep"
		}
	}
	if o.stdin {
		l.Stdin = "open"
	}
	if pty {
		l.PTY, l.Fallback = &launcher.Size{Columns: 120, Rows: 30}, true
		if w, err := unix.IoctlGetWinsize(1, unix.TIOCGWINSZ); err == nil && w.Col > 0 && w.Row > 0 {
			l.PTY = &launcher.Size{Columns: w.Col, Rows: w.Row}
		}
	}
	if l.Cwd == "" && o.server == "" {
		if l.Cwd, err = os.Getwd(); err != nil {
			return o, fmt.Errorf("working directory: %w", err)
		}
	}
	return o, nil
}

// runner is where a command of procinsh run is launched: here, or by a server.
type runner interface {
	Create(ctx context.Context, l launcher.Launch) (launcher.Status, error)
	Get(ctx context.Context, q launcher.GetQuery) (launcher.Status, error)
	Output(ctx context.Context, q launcher.OutputQuery) (launcher.Output, error)
	Input(ctx context.Context, q launcher.InputRequest) (launcher.Written, error)
	Stop(ctx context.Context, q launcher.StopQuery) (launcher.Stopped, error)
}

// runCommand is procinsh run. It returns the exit status.
func runCommand(args []string, env func(string) string, stdout, stderr io.Writer) int {
	o, err := parseRun(args, env)
	if errors.Is(err, errHelp) {
		fmt.Fprint(stdout, runHelp)
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "procinsh run:", err)
		return statusOwn
	}
	var r runner
	if o.server != "" {
		r, err = newRemote(o.server, o.token)
	} else {
		var s *launcher.Supervisor
		if s, err = launcher.Open(launcher.Options{Environ: os.Environ()}); err == nil {
			defer s.Close(false)
			uid := uint32(os.Geteuid())
			o.launch.UID, o.launch.MaxOutput = &uid, 16<<20
			r = s
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "procinsh run:", err)
		return statusOwn
	}
	return follow(r, o, stdout, stderr)
}

// follow launches and stays until all is over.
func follow(r runner, o runOptions, stdout, stderr io.Writer) int {
	ctx := context.Background()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	st, err := r.Create(ctx, o.launch)
	if err != nil {
		fmt.Fprintln(stderr, "procinsh run:", sentenceOf(err))
		return spawnStatus(err)
	}
	if o.detach {
		fmt.Fprintln(stdout, st.ID)
		return 0
	}
	for _, w := range st.Warnings {
		fmt.Fprintln(stderr, "procinsh run: warning:", w)
	}
	go interrupt(r, st.ID, signals)
	if o.stdin {
		go pass(r, st.ID)
	}
	if err := copyOutput(ctx, r, st.ID, o, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "procinsh run:", sentenceOf(err))
		return statusOwn
	}
	until := "exited"
	if o.launch.Leftovers == "keep" {
		until = "root"
	}
	for {
		st, err = r.Get(ctx, launcher.GetQuery{ID: st.ID, Until: until, WaitMS: 60_000})
		if err != nil {
			fmt.Fprintln(stderr, "procinsh run:", sentenceOf(err))
			return statusOwn
		}
		if st.Ended() || st.Exit != nil && until == "root" {
			return exitStatus(st.Exit)
		}
	}
}

// interrupt ends the run: with grace at the first signal, at once at the second.
func interrupt(r runner, id string, signals <-chan os.Signal) {
	var grace *int64
	for range signals {
		q := launcher.StopQuery{ID: id, GraceMS: grace}
		go r.Stop(context.Background(), q) // the end of the output tells
		grace = new(int64)
	}
}

// pass writes standard input to the run.
func pass(r runner, id string) {
	buf := make([]byte, 32<<10)
	for {
		n, err := os.Stdin.Read(buf)
		if n > 0 {
			if _, failure := r.Input(context.Background(), launcher.InputRequest{ID: id, Bytes: buf[:n]}); failure != nil {
				return // the command does not read any more
			}
		}
		if err != nil {
			r.Input(context.Background(), launcher.InputRequest{ID: id, EOF: true}) // or has ended
			return
		}
	}
}

// copyOutput prints until nothing more will come: as it comes on a terminal, else as
// plain text.
func copyOutput(ctx context.Context, r runner, id string, o runOptions, stdout, stderr io.Writer) error {
	type side struct {
		w     io.Writer
		raw   bool
		plain launcher.Plain
	}
	sides := map[launcher.Stream]*side{launcher.Stdout: {w: stdout}, launcher.Stderr: {w: stderr}}
	sides[launcher.Terminal] = sides[launcher.Stdout]
	for _, s := range sides {
		s.raw = o.raw || isTerminal(s.w)
	}
	defer func() {
		for _, s := range []launcher.Stream{launcher.Stdout, launcher.Stderr} {
			io.WriteString(sides[s].w, sides[s].plain.Flush())
		}
	}()
	rootEnd := sync.OnceValue(func() <-chan struct{} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				st, err := r.Get(ctx, launcher.GetQuery{ID: id, Until: "root", WaitMS: 60_000})
				if err != nil || st.Exit != nil {
					return
				}
			}
		}()
		return done
	})
	ended := make(<-chan struct{})
	if o.launch.Leftovers == "keep" {
		ended = rootEnd()
	}
	for at := int64(0); ; {
		over := false
		select {
		case <-ended:
			over = true
		default:
		}
		wait := int64(1_000)
		if over {
			wait = 0
		}
		out, err := r.Output(ctx, launcher.OutputQuery{ID: id, Since: at, WaitMS: wait})
		if err != nil {
			return err
		}
		if out.Dropped > 0 {
			fmt.Fprintf(stderr, "procinsh run: %d bytes of output came faster than they could be printed\n", out.Dropped)
		}
		for _, c := range out.Chunks {
			s := sides[c.Stream]
			if s.raw {
				s.w.Write(c.Data) // who reads us may have left; the command goes on
				continue
			}
			io.WriteString(s.w, s.plain.Write(c.Data))
		}
		at = out.Next
		if out.EOF || over && len(out.Chunks) == 0 {
			return nil
		}
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// sentenceOf is the message of an error without its code.
func sentenceOf(err error) string {
	var e *launcher.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

// spawnStatus is the exit status for a command that was not started.
func spawnStatus(err error) int {
	if launcher.CodeOf(err) == launcher.CodeSpawnFailed {
		switch text := err.Error(); {
		case strings.Contains(text, "no such command"):
			return statusNotFound
		case strings.Contains(text, "not executable"):
			return statusNotExec
		}
	}
	return statusOwn
}

// exitStatus is the exit status for how a command ended.
func exitStatus(e *launcher.Exit) int {
	switch {
	case e == nil:
		return statusOwn
	case e.Reason == launcher.ReasonTimeout || e.Reason == launcher.ReasonSilence:
		return statusTimeout
	case e.Code != nil:
		return *e.Code
	case e.Signal != nil:
		if n := unix.SignalNum(*e.Signal); n != 0 {
			return 128 + int(n)
		}
	}
	return statusOwn
}
