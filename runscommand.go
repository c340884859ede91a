package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"procinsh/api"
	launcher "procinsh/run"
)

const runsHelp = `procinsh runs asks a server about the commands it launched.

Usage: procinsh runs [options] [COMMAND]

  ls                      all runs, the newest first (also without COMMAND)
  show ID                 one run
  ps ID                   its processes and their ports
  logs [-f] ID            its output as text; -f: until it ends
  poll ID [OFFSET]        its output from an offset on, then the next offset
  write ID TEXT           types TEXT
  keys ID KEY…            presses keys: enter, up, C-c, M-x, f1 …
  paste ID TEXT           pastes TEXT
  submit ID               presses enter
  wait ID                 until it has ended; the exit status is the run's
  stop ID [TIME]          ends all of it, with grace
  kill ID                 ends all of it at once
  rm [-f] ID              forgets it; -f: ends it first
  clear                   forgets all that ended
  events                  what happens, line by line
  doctor                  how runs work on this host

  --server URL   http://127.0.0.1:8080 (or $PROCINSH_SERVER), https://…, or unix:PATH
  --token-file FILE  the server's token (or $PROCINSH_TOKEN)
  --json         answers as they come
`

const defaultServer = "http://127.0.0.1:8080"

var errUsage = errors.New("see procinsh runs --help")

// runsClient is one call of procinsh runs.
type runsClient struct {
	*remote
	json bool
	out  io.Writer
}

// runRuns is procinsh runs. It returns the exit status.
func runRuns(args []string, env func(string) string, stdout, stderr io.Writer) int {
	server := env("PROCINSH_SERVER")
	if server == "" {
		server = defaultServer
	}
	c := runsClient{out: stdout}
	var help, force bool
	var tokenFile string
	flags := flag.NewFlagSet("runs", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&server, "server", server, "")
	flags.StringVar(&tokenFile, "token-file", "", "")
	flags.BoolVar(&c.json, "json", false, "")
	flags.BoolVar(&force, "f", false, "")
	flags.BoolVar(&help, "help", false, "")
	flags.BoolVar(&help, "h", false, "")
	// Options may stand on both sides of the command.
	var words []string
	for rest := args; ; {
		if err := flags.Parse(rest); err != nil {
			fmt.Fprintln(stderr, "procinsh runs:", flagError(err))
			return 2
		}
		rest = flags.Args()
		if len(rest) == 0 {
			break
		}
		words = append(words, rest[0])
		if rest = rest[1:]; len(words) >= 2 && takesText[words[0]] {
			words = append(words, rest...) // may begin with a dash
			break
		}
	}
	if help {
		fmt.Fprint(stdout, runsHelp)
		return 0
	}
	if len(words) == 0 {
		words = []string{"ls"}
	}
	token, err := tokenOf(tokenFile, env)
	if err == nil {
		c.remote, err = newRemote(server, token)
	}
	if err == nil {
		var status int
		if status, err = c.do(context.Background(), words[0], words[1:], force); err == nil {
			return status
		}
	}
	fmt.Fprintln(stderr, "procinsh runs:", sentenceOf(err))
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

var takesText = map[string]bool{"write": true, "keys": true, "paste": true}

// do carries one command out and returns the exit status.
func (c *runsClient) do(ctx context.Context, command string, args []string, force bool) (int, error) {
	least, most := 1, 1 // arguments
	switch command {
	case "ls", "clear", "events", "doctor":
		least, most = 0, 0
	case "poll", "stop":
		most = 2
	case "write", "paste":
		least, most = 2, 2
	case "keys":
		least, most = 2, 1<<10
	case "show", "ps", "logs", "submit", "wait", "kill", "rm":
	default:
		return 0, fmt.Errorf("unknown command %q, %w", command, errUsage)
	}
	if len(args) < least || len(args) > most {
		return 0, fmt.Errorf("%s has another number of arguments, %w", command, errUsage)
	}
	id := ""
	if len(args) > 0 {
		id = args[0]
	}
	switch command {
	case "ls":
		return 0, c.list(ctx)
	case "show":
		return 0, c.print(ctx, "GET", runPath(id, ""), nil)
	case "ps":
		return 0, c.processes(ctx, id)
	case "logs":
		return 0, c.logs(ctx, id, force)
	case "poll":
		since := "0"
		if len(args) == 2 {
			since = args[1]
		}
		return 0, c.poll(ctx, id, since)
	case "write":
		return 0, c.print(ctx, "POST", runPath(id, "/input"), api.RunInput{Text: &args[1]})
	case "keys":
		return 0, c.print(ctx, "POST", runPath(id, "/input"), api.RunInput{Keys: args[1:]})
	case "paste":
		return 0, c.print(ctx, "POST", runPath(id, "/input"), api.RunInput{Paste: &args[1]})
	case "submit":
		return 0, c.print(ctx, "POST", runPath(id, "/input"), api.RunInput{Submit: true})
	case "wait":
		return c.wait(ctx, id)
	case "stop":
		var q api.RunStopRequest
		if len(args) == 2 {
			d, err := time.ParseDuration(args[1])
			if err != nil {
				return 0, fmt.Errorf("%q is no time like 3s", args[1])
			}
			n := d.Milliseconds()
			q.GraceMS = &n
		}
		return 0, c.print(ctx, "POST", runPath(id, "/stop"), q)
	case "kill":
		return 0, c.print(ctx, "POST", runPath(id, "/stop"), api.RunStopRequest{GraceMS: new(int64)})
	case "rm":
		path := runPath(id, "")
		if force {
			path += "?force=1"
		}
		_, err := c.ask(ctx, "DELETE", path, nil, nil)
		return 0, err
	case "clear":
		return 0, c.print(ctx, "DELETE", "/api/runs", nil)
	case "events":
		return 0, c.events(ctx)
	}
	return 0, c.doctor(ctx)
}

// print shows an answer as it is, indented for people.
func (c *runsClient) print(ctx context.Context, method, path string, body any) error {
	raw, err := c.ask(ctx, method, path, body, nil)
	if err != nil {
		return err
	}
	if !c.json {
		var b bytes.Buffer
		if json.Indent(&b, raw, "", "  ") == nil {
			raw = b.Bytes()
		}
	}
	_, err = c.out.Write(raw)
	return err
}

func (c *runsClient) list(ctx context.Context) error {
	if c.json {
		return c.print(ctx, "GET", "/api/runs", nil)
	}
	var runs []api.Run
	if _, err := c.ask(ctx, "GET", "/api/runs", nil, &runs); err != nil {
		return err
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATE\tEXIT\tMEMBERS\tSTARTED\tCOMMAND")
	for _, r := range runs {
		exit, members := "-", "?"
		if r.Exit != nil {
			exit = r.Exit.Reason
			if r.Exit.Code != nil {
				exit += " " + strconv.Itoa(*r.Exit.Code)
			}
		}
		if r.Members != nil {
			members = strconv.Itoa(*r.Members)
		}
		command := strings.Join(r.Argv, " ")
		if r.Command != nil {
			command = *r.Command
		}
		if r.Adopted {
			command = "(left by a procinsh that is gone)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.State, exit, members, time.UnixMilli(r.CreatedAt).Format(time.DateTime), oneLine(command))
	}
	return w.Flush()
}

// oneLine is text without what would move a terminal's cursor.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
}

func (c *runsClient) processes(ctx context.Context, id string) error {
	path := runPath(id, "/processes?ports=1")
	if c.json {
		return c.print(ctx, "GET", path, nil)
	}
	var m api.RunProcesses
	if _, err := c.ask(ctx, "GET", path, nil, &m); err != nil {
		return err
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROCESS\tROLE\tORIGIN\tPORTS\tCOMMAND")
	for _, p := range m.Processes {
		var ports []string
		for _, port := range p.Ports {
			ports = append(ports, fmt.Sprintf("%s:%d", port.Address, port.Port))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", p.ID, p.Role, p.Origin, strings.Join(ports, " "), oneLine(p.Command))
	}
	return w.Flush()
}

// logs prints what is kept, with follow until the end.
func (c *runsClient) logs(ctx context.Context, id string, follow bool) error {
	var plain launcher.Plain
	for at := int64(0); ; {
		wait := int64(0)
		if follow {
			wait = 10_000
		}
		o, err := c.Output(ctx, launcher.OutputQuery{ID: id, Since: at, WaitMS: wait})
		if err != nil {
			return err
		}
		for _, chunk := range o.Chunks {
			if _, err := io.WriteString(c.out, plain.Write(chunk.Data)); err != nil {
				return err
			}
		}
		at = o.Next
		if o.EOF || !follow && len(o.Chunks) == 0 {
			_, err := io.WriteString(c.out, plain.Flush())
			return err
		}
	}
}

func (c *runsClient) poll(ctx context.Context, id, since string) error {
	q := url.Values{"since": {since}}
	if c.json {
		return c.print(ctx, "GET", runPath(id, "/output?"+q.Encode()), nil)
	}
	q.Set("format", "text")
	a, err := c.open(ctx, "GET", runPath(id, "/output?"+q.Encode()), nil)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if _, err := io.Copy(c.out, a.Body); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	_, err = fmt.Fprintf(c.out, "\nnext: %s\n", a.Header.Get("X-Next-Offset"))
	return err
}

func (c *runsClient) wait(ctx context.Context, id string) (int, error) {
	for {
		st, err := c.Get(ctx, launcher.GetQuery{ID: id, Until: "exited", WaitMS: 60_000})
		if err != nil {
			return 0, err
		}
		if st.Ended() {
			return exitStatus(st.Exit), nil
		}
	}
}

func (c *runsClient) events(ctx context.Context) error {
	a, err := c.open(ctx, "GET", "/api/runs/events", nil)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	_, err = io.Copy(c.out, a.Body)
	return err
}

func (c *runsClient) doctor(ctx context.Context) error {
	if c.json {
		return c.print(ctx, "GET", "/api/runs/capabilities", nil)
	}
	var r api.RunCapabilities
	if _, err := c.ask(ctx, "GET", "/api/runs/capabilities", nil, &r); err != nil {
		return err
	}
	birth := map[string]string{"cgroup": "each command is born in a cgroup of its own", "join": "each command joins a cgroup of its own before it is executed",
		"none": "no cgroups: members are found by marks in the environment and by their parents"}[r.Birth]
	fmt.Fprintf(c.out, "containment  %s\nconfidence   %s\n", birth, r.Confidence)
	if r.Reason != "" {
		fmt.Fprintf(c.out, "reason       %s\n", oneLine(r.Reason))
	}
	if r.CgroupRoot != nil {
		fmt.Fprintf(c.out, "cgroup       %s\n", *r.CgroupRoot)
	}
	for _, root := range r.Roots {
		fmt.Fprintf(c.out, "root         @%s = %s\n", root.Name, root.Dir)
	}
	fmt.Fprintf(c.out, "live runs    %d of %d\nhelper       %d\n", r.Live, r.MaxRuns, r.HelperPID)
	if r.KeeperPID == nil {
		fmt.Fprintln(c.out, "keeper       has ended: when the helper dies there is no other; start the server again")
	}
	_, err := fmt.Fprintln(c.out, "not members  what a daemon starts on a run's behalf: docker run, systemd-run, at")
	return err
}
