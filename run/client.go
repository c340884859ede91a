package run

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Client is the server's side: it asks the helper. A keeper starts that, and another one
// when it dies, so that the server executes nothing itself once StartHelper returned.
// What a dead helper had launched is adopted by the next. Safe for concurrent use.
type Client struct {
	events *Events
	log    func(what string, err error)
	keeper *link
	pass   *passage // the keeper's socket

	mu      sync.Mutex
	link    *link // to the helper; nil while there is none
	closing bool
}

const (
	helperWait = 5 * time.Second // for another helper, before a call is refused
	// helperPatience is how long a helper may say nothing at all before a call is given
	// up; a stop is given to the keeper after stopPatience.
	helperPatience = 5 * time.Second
	stopPatience   = time.Second
)

var (
	errHelperGone   = fail(CodeHelperGone, "The process that holds the runs has ended; another one is being started and will list what it left as adopted.")
	errHelperLost   = fail(CodeHelperGone, "The process that holds the runs has ended, and so has the one that would start another: start procinsh again.")
	errHelperSilent = fail(CodeHelperSilent, "The process that holds the runs does not answer: it is stopped, or waits for the kernel. Runs can be stopped all the same.")
)

// StartHelper starts the keeper, which starts the helper, and returns when that is
// ready. log is told, for people, when one of them dies and when another helper is there.
//
// Errors: they cannot be started.
func StartHelper(o Options, keep bool, log func(what string, err error)) (*Client, error) {
	o.Event = nil
	c := &Client{events: NewEvents(), log: log}
	c.events.Watched = c.follow
	h := helperOptions{o, keep}
	if c.inScope(context.Background(), h) {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*helperStart)
	defer cancel()
	if err := c.startKeeper(ctx, "/proc/self/exe", []string{"procinsh", KeeperArgument}, h); err != nil {
		return nil, err
	}
	return c, nil
}

// startKeeper starts a keeper and waits for its first helper.
func (c *Client) startKeeper(ctx context.Context, program string, argv []string, o helperOptions) error {
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	if c.pass, err = newPassage(ours); err != nil {
		return err
	}
	pid, err := execute(program, argv, theirs)
	if err != nil {
		c.pass.Close()
		return fmt.Errorf("start the keeper of runs: %w", err)
	}
	over := make(chan struct{})
	go func() { reap(pid); close(over) }()
	deadline, _ := ctx.Deadline()
	c.pass.SetDeadline(deadline)
	body, err := json.Marshal(o)
	if err == nil {
		err = (&wire{w: c.pass}).send(frame{Body: body})
	}
	in := bufio.NewReader(c.pass)
	var f frame
	if err == nil {
		f, err = readFrame(in)
	}
	if err == nil {
		err = c.meet(f.Helper)
	}
	if err != nil {
		c.pass.Close() // ends the keeper
		select {
		case <-over:
		case <-ctx.Done():
			unix.Kill(pid, unix.SIGKILL) // our child: what does not even read
		}
		return fmt.Errorf("start the keeper of runs: %w", err)
	}
	c.pass.SetDeadline(time.Time{})
	c.keeper = newLink(c.pass, pid)
	go c.attend(in)
	return nil
}

// Events are those of all helpers.
func (c *Client) Events() *Events { return c.events }

// meet takes over a helper that the keeper has started.
func (c *Client) meet(news *helperNews) error {
	switch {
	case news == nil:
		return errors.New("start the helper: the keeper said something else")
	case news.Failed != "":
		return errors.New(news.Failed)
	}
	socket, err := c.pass.take()
	if err != nil {
		return fmt.Errorf("start the helper: %w", err)
	}
	l := newLink(socket, news.PID)
	c.mu.Lock()
	if c.closing {
		socket.Close()
	}
	c.link = l
	c.mu.Unlock()
	go func() {
		l.receive(bufio.NewReader(socket), func(f frame) {
			if f.Event != nil {
				c.events.Add(*f.Event)
			}
		})
		c.lose(l)
	}()
	return nil
}

// lose tells that a helper has died.
func (c *Client) lose(l *link) {
	c.mu.Lock()
	if c.link == l {
		c.link = nil
	}
	closing := c.closing
	c.mu.Unlock()
	if closing {
		return
	}
	c.log("the helper that holds the runs died; what it had launched is adopted", nil)
	c.events.Add(Event{Type: EventHelper, At: time.Now().UnixMilli(), Reason: "lost"})
}

// attend hears of further helpers until the keeper is gone.
func (c *Client) attend(in *bufio.Reader) {
	c.keeper.receive(in, func(f frame) {
		if f.Helper == nil {
			return
		}
		if err := c.meet(f.Helper); err != nil {
			c.log("the helper cannot be started", err)
			return
		}
		c.log("another helper is ready", nil)
		c.events.Add(Event{Type: EventHelper, At: time.Now().UnixMilli(), Reason: "ready"})
		if c.events.watched() {
			c.follow(true)
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closing {
		c.log("the keeper of the helper died; when the helper dies too there will be no other", nil)
	}
}

// Close lets the helper go. It stops its runs, with their grace, and ends, and the
// keeper with it; nobody waits for that.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = true
	if c.link != nil {
		c.link.socket.Close()
	}
	c.keeper.socket.Close()
}

// follow tells the helper whether somebody follows the events. Nothing waits for it.
func (c *Client) follow(on bool) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), helperStart)
		defer cancel()
		call[struct{}](ctx, c, "follow", on) // a helper that is gone is told when the next is there
	}()
}

// current is the helper that lives; while another is being started, it is waited for.
func (c *Client) current(ctx context.Context) *link {
	for deadline := time.Now().Add(helperWait); ; time.Sleep(20 * time.Millisecond) {
		c.mu.Lock()
		l, closing := c.link, c.closing
		c.mu.Unlock()
		if l != nil && l.lost() {
			l = nil
		}
		if l != nil || closing || c.keeper.lost() || ctx.Err() != nil || time.Now().After(deadline) {
			return l
		}
	}
}

// call asks the helper.
//
// Errors: *Error, context errors; helper_gone when it died before it answered,
// helper_silent when it says nothing.
func call[R any](ctx context.Context, c *Client, method string, arg any) (R, error) {
	return callFor[R](ctx, c, method, arg, helperPatience, false)
}

func callFor[R any](ctx context.Context, c *Client, method string, arg any, patience time.Duration, lasting bool) (result R, err error) {
	l := c.current(ctx)
	if l == nil {
		return result, c.goneError()
	}
	f, err := l.call(ctx, method, arg, patience, lasting)
	switch {
	case errors.Is(err, errLinkGone):
		return result, c.goneError()
	case errors.Is(err, errLinkSilent):
		return result, errHelperSilent
	case err != nil:
		return result, err
	}
	return decode[R](f)
}

// Lost tells why there will be no runs any more: neither a helper nor what starts one.
// Nil while there is one of them.
func (c *Client) Lost() *Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keeper.lost() && (c.link == nil || c.link.lost()) {
		return errHelperLost
	}
	return nil
}

func (c *Client) goneError() error {
	if c.keeper.lost() {
		return errHelperLost
	}
	return errHelperGone
}

// end asks the helper to end something, and the keeper when the helper says nothing or
// is gone: that knows no records, but finds cgroups and marks.
func end[R any](ctx context.Context, c *Client, method string, arg any) (R, error) {
	result, err := callFor[R](ctx, c, method, arg, stopPatience, true)
	if code := CodeOf(err); code != CodeHelperSilent && code != CodeHelperGone {
		return result, err
	}
	f, failure := c.keeper.call(ctx, method, arg, helperPatience, false)
	if failure != nil {
		if ctx.Err() != nil {
			return result, ctx.Err()
		}
		return result, err
	}
	ended, failure := decode[R](f)
	if CodeOf(failure) == CodeNotFound {
		return result, err // there may be a record of what has ended already
	}
	return ended, failure
}

// The calls of a Supervisor, by the helper.

func (c *Client) Create(ctx context.Context, l Launch) (Status, error) {
	return call[Status](ctx, c, "create", l)
}

func (c *Client) List(ctx context.Context, f Filter) ([]Status, error) {
	return call[[]Status](ctx, c, "list", f)
}

func (c *Client) Get(ctx context.Context, q GetQuery) (Status, error) {
	return call[Status](ctx, c, "get", q)
}

func (c *Client) Processes(ctx context.Context, q MembersQuery) (Members, error) {
	return call[Members](ctx, c, "processes", q)
}

func (c *Client) Output(ctx context.Context, q OutputQuery) (Output, error) {
	return call[Output](ctx, c, "output", q)
}

func (c *Client) Log(ctx context.Context, q LogQuery) (Log, error) {
	return call[Log](ctx, c, "log", q)
}

func (c *Client) Input(ctx context.Context, q InputRequest) (Written, error) {
	return call[Written](ctx, c, "input", q)
}

func (c *Client) Resize(ctx context.Context, q ResizeRequest) error {
	_, err := call[struct{}](ctx, c, "resize", q)
	return err
}

func (c *Client) Stop(ctx context.Context, q StopQuery) (Stopped, error) {
	return end[Stopped](ctx, c, "stop", q)
}

func (c *Client) StopProcess(ctx context.Context, q StopQuery) (Stopped, error) {
	return end[Stopped](ctx, c, "stopProcess", q)
}

func (c *Client) Take(ctx context.Context, q TakeRequest) (Taken, error) {
	return call[Taken](ctx, c, "take", q)
}

func (c *Client) Scope(ctx context.Context, q ScopeQuery) (Scope, error) {
	return call[Scope](ctx, c, "scope", q)
}

func (c *Client) StopScope(ctx context.Context, q ScopeQuery) ([]Stopped, error) {
	return call[[]Stopped](ctx, c, "stopScope", q)
}

func (c *Client) Delete(ctx context.Context, q DeleteQuery) error {
	_, err := end[struct{}](ctx, c, "delete", q)
	return err
}

func (c *Client) Clear(ctx context.Context, q DeleteQuery) (Removed, error) {
	return call[Removed](ctx, c, "clear", q)
}

func (c *Client) Capabilities(ctx context.Context) (Capabilities, error) {
	a, err := call[Capabilities](ctx, c, "capabilities", struct{}{})
	if !c.keeper.lost() {
		a.KeeperPID = &c.keeper.pid
	}
	return a, err
}

func (c *Client) StopOrphans(ctx context.Context) ([]Stopped, error) {
	return call[[]Stopped](ctx, c, "stopOrphans", struct{}{})
}
