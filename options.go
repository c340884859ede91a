package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	launcher "procinsh/run"
)

const help = `procinsh shows the processes of this host in a browser and to curl.

Usage: procinsh [serve] [options]
       procinsh doctor [--json]                     what works here, and what would help
       procinsh snapshot PID [--json] [--no-stop]   the stack of every thread
       procinsh run [options] -- COMMAND…           a command, and all it starts
       procinsh runs [ls|show|stop|…]               those of a server, see runs --help

  --listen ADDRESS   where to listen: 127.0.0.1:PORT, [::1]:PORT, localhost:PORT
                     for both, unix:PATH, or for other machines ADDRESS:PORT,
                     :PORT for all; may be given several times (127.0.0.1:8080)
  --interval TIME    between two observations of a process that is watched,
                     100ms to 60s (1s)
  --allow-user NAME  a user who may ask, beside root, the one who started it and
                     the one who ran sudo; may be given several times
  --token-file FILE  holds the token; who shows it may ask, from wherever. Without,
                     one is made at start for other machines: printed on a
                     terminal, else in $RUNTIME_DIRECTORY/token or
                     /run/procinsh/token
  --allow-host NAME  a host name that clients may use for this machine; may be given
                     several times
  --tls-cert FILE    certificate and key (PEM) for https, with HTTP/2
  --tls-key FILE
  --no-auth          let everybody ask
  --runs             let who may ask start programs, as the user they are
  --run-user NAME    who programs run as when nobody knows who asks
  --run-allow PATH   a program that may be started, and no others but those; may be
                     given several times
  --run-wrapper 'PROGRAM ARGS'  goes before every command that is started
  --root NAME=DIR[,env=VAR]     a folder that programs may work in, as @NAME, and
                     no others but those; may be given several times
  --keep-runs        leave running programs alone when the server ends
  --stop-orphans     end what a dead server left running
  --log FILTER       what goes to stderr: debug, info, warn, error or off, and the
                     same for a package: info,api=debug (info; or $PROCINSH_LOG)
  --version          print the version
  --help             print this
`

const (
	defaultListen    = "127.0.0.1:8080"
	shortestInterval = 100 * time.Millisecond
	longestInterval  = time.Minute
)

var (
	errHelp    = errors.New("help")
	errVersion = errors.New("version")
)

// options are those of serve.
type options struct {
	listen   []address
	interval time.Duration
	uids     []uint32 // users that may ask
	noAuth   bool
	log      logFilter

	tokenFile       string
	allowHosts      []string
	tlsCert, tlsKey string

	runs        bool
	run         launcher.Options
	keepRuns    bool
	stopOrphans bool
}

// remote tells whether other machines may reach the server.
func (o *options) remote() bool { return slices.ContainsFunc(o.listen, address.remote) }

// scheme is how the TCP listeners are spoken to.
func (o *options) scheme() string {
	if o.tlsCert != "" {
		return "https://"
	}
	return "http://"
}

// parseArgs reads the command line. Its errors are lines for the user; errHelp and
// errVersion ask for those texts.
func parseArgs(args []string, env func(string) string) (options, error) {
	o := options{interval: time.Second, uids: ownUsers(env), log: logFilter{level: slog.LevelInfo}}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		if args[0] != "serve" {
			return options{}, fmt.Errorf("unknown command %q, see procinsh --help", args[0])
		}
		args = args[1:]
	}
	if text := env("PROCINSH_LOG"); text != "" {
		var err error
		if o.log, err = parseLogFilter(text); err != nil {
			return options{}, fmt.Errorf("PROCINSH_LOG: %w", err)
		}
	}

	flags := flag.NewFlagSet("procinsh", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Func("listen", "", func(text string) error {
		a, err := parseAddress(text)
		o.listen = append(o.listen, a...)
		return err
	})
	flags.Func("interval", "", func(text string) (err error) {
		if o.interval, err = time.ParseDuration(text); err != nil || o.interval < shortestInterval || o.interval > longestInterval {
			return errors.New("not a time from 100ms to 60s")
		}
		return nil
	})
	flags.Func("allow-user", "", func(text string) error {
		uid, err := userID(text)
		o.uids = append(o.uids, uid)
		return err
	})
	flags.BoolFunc("no-auth", "", func(text string) (err error) {
		if o.noAuth, err = strconv.ParseBool(text); err != nil {
			return errors.New("it takes no value")
		}
		return nil
	})
	flags.StringVar(&o.tokenFile, "token-file", "", "")
	flags.StringVar(&o.tlsCert, "tls-cert", "", "")
	flags.StringVar(&o.tlsKey, "tls-key", "", "")
	flags.Func("allow-host", "", func(text string) error {
		name, err := validHost(text)
		o.allowHosts = append(o.allowHosts, name)
		return err
	})
	yes := func(name string, to *bool) {
		flags.BoolFunc(name, "", func(text string) (err error) {
			if *to, err = strconv.ParseBool(text); err != nil {
				return errors.New("it takes no value")
			}
			return nil
		})
	}
	yes("runs", &o.runs)
	yes("keep-runs", &o.keepRuns)
	yes("stop-orphans", &o.stopOrphans)
	flags.Func("run-user", "", func(text string) error {
		o.run.User = text
		_, err := userID(text)
		return err
	})
	flags.Func("run-allow", "", func(text string) error {
		path, err := exec.LookPath(text)
		if err != nil {
			return errors.New("no such program")
		}
		if path, err = filepath.Abs(path); err != nil {
			return err
		}
		o.run.Allow = append(o.run.Allow, path)
		return nil
	})
	flags.Func("run-wrapper", "", func(text string) error {
		if o.run.Wrapper = strings.Fields(text); len(o.run.Wrapper) == 0 {
			return errors.New("it names no program")
		}
		return nil
	})
	flags.Func("root", "", func(text string) error {
		root, err := launcher.ParseRoot(text)
		if slices.ContainsFunc(o.run.Roots, func(r launcher.Root) bool { return r.Name == root.Name }) && err == nil {
			err = errors.New("this name was given already")
		}
		o.run.Roots = append(o.run.Roots, root)
		return err
	})
	flags.Func("log", "", func(text string) (err error) {
		o.log, err = parseLogFilter(text)
		return err
	})
	showVersion := flags.Bool("version", false, "")
	showHelp := flags.Bool("help", false, "")
	flags.BoolVar(showHelp, "h", false, "")

	if err := flags.Parse(args); err != nil {
		return options{}, flagError(err)
	}
	switch {
	case *showHelp:
		return options{}, errHelp
	case *showVersion:
		return options{}, errVersion
	case flags.NArg() > 0:
		return options{}, fmt.Errorf("unexpected argument %q, see procinsh --help", flags.Arg(0))
	}
	switch {
	case (o.tlsCert == "") != (o.tlsKey == ""):
		return options{}, errors.New("--tls-cert and --tls-key go together")
	case o.noAuth && o.tokenFile != "":
		return options{}, errors.New("--no-auth asks for no token: leave out --token-file")
	}
	if !o.runs {
		for _, name := range []string{"run-user", "run-allow", "run-wrapper", "root", "keep-runs", "stop-orphans"} {
			if given(flags, name) {
				return options{}, fmt.Errorf("option --%s needs --runs", name)
			}
		}
	}
	if len(o.listen) == 0 {
		var err error
		if o.listen, err = parseAddress(defaultListen); err != nil {
			return options{}, err
		}
	}
	return o, nil
}

// given tells whether an option stands on the command line.
func given(flags *flag.FlagSet, name string) (found bool) {
	flags.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// flagError puts an error of package flag into one line in the words of the help.
func flagError(err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		return fmt.Errorf("unknown option --%s, see procinsh --help", strings.TrimPrefix(name, "-"))
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return fmt.Errorf("option --%s needs a value", name)
	}
	return errors.New(badValue.ReplaceAllString(text, "option --$2 cannot be $1: $3"))
}

var badValue = regexp.MustCompile(`^invalid (?:boolean )?value (".*") for (?:flag )?-([a-z-]+): (.*)$`)

// ownUsers are the users who may always ask: root, the server's own and the one
// who ran sudo.
func ownUsers(env func(string) string) []uint32 {
	uids := []uint32{0}
	if own := uint32(os.Geteuid()); own != 0 {
		uids = append(uids, own)
	}
	if uid, ok := sudoUser(env); ok {
		uids = append(uids, uid)
	}
	return uids
}

// sudoUser is the user who ran sudo.
func sudoUser(env func(string) string) (uint32, bool) {
	uid, err := strconv.ParseUint(env("SUDO_UID"), 10, 32)
	return uint32(uid), err == nil
}

// noUser is the number that the kernel gives to nobody: -1 in chown(2).
const noUser = 1<<32 - 1

// userID finds a user by name or number.
func userID(name string) (uint32, error) {
	if uid, err := strconv.ParseUint(name, 10, 32); err == nil && uid != noUser {
		return uint32(uid), nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, errors.New("no such user")
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("user id %q is no number", u.Uid)
	}
	return uint32(uid), nil
}
