package run

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Client is the server's side: it starts the helper, asks it, and starts another one
// when it dies. What the dead one had launched is adopted by the next. Safe for
// concurrent use.
type Client struct {
	o      helperOptions
	events *Events
	log    func(what string, err error)

	mu      sync.Mutex
	link    *link // nil while there is no helper
	closing bool
	done    chan struct{}
}

// link is the connection to one helper.
type link struct {
	socket *os.File
	wire   wire
	pid    int

	mu    sync.Mutex
	next  uint64
	calls map[uint64]chan frame
	gone  bool
}

const (
	helperPause = time.Second // before another helper is started
	helperStart = 15 * time.Second
	helperWait  = 5 * time.Second // for another helper, before a call is refused
)

var errHelperGone = fail(CodeHelperGone, "The process that holds the runs has ended; another one is being started and will list what it left as adopted.")

// StartHelper starts the helper and returns when it is ready. log is told, for people,
// when one dies and when another is there.
//
// Errors: it cannot be started.
func StartHelper(o Options, keep bool, log func(what string, err error)) (*Client, error) {
	o.Event = nil
	c := &Client{o: helperOptions{o, keep}, events: NewEvents(), log: log, done: make(chan struct{})}
	c.events.Watched = c.follow
	l, err := c.connect()
	if err != nil {
		return nil, err
	}
	c.link = l
	go c.keep(l)
	return c, nil
}

// Events are those of all helpers.
func (c *Client) Events() *Events { return c.events }

// connect starts a helper.
func (c *Client) connect() (*link, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket for the helper: %w", err)
	}
	unix.SetNonblock(pair[0], true) // a socket that was just made
	l := &link{socket: os.NewFile(uintptr(pair[0]), "helper"), calls: map[uint64]chan frame{}}
	l.wire.w = l.socket
	// In a session of its own: the Ctrl-C of a terminal is the server's.
	l.pid, err = syscall.ForkExec("/proc/self/exe", []string{"procinsh", HelperArgument}, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2, uintptr(pair[1])}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	unix.Close(pair[1])
	if err != nil {
		l.socket.Close()
		return nil, fmt.Errorf("start the helper: %w", err)
	}
	in := bufio.NewReader(l.socket)
	l.socket.SetReadDeadline(time.Now().Add(helperStart))
	body, err := json.Marshal(c.o)
	if err == nil {
		err = l.wire.send(frame{Call: 1, Method: "open", Body: body})
	}
	var f frame
	if err == nil {
		f, err = readFrame(in)
	}
	if err == nil && f.Failed != "" {
		err = errors.New(f.Failed)
	}
	if err != nil {
		l.socket.Close()
		unix.Kill(l.pid, unix.SIGKILL) // our child, not yet reaped
		l.reap()
		return nil, fmt.Errorf("start the helper: %w", err)
	}
	l.socket.SetReadDeadline(time.Time{})
	l.next = 1
	go c.receive(l, in)
	return l, nil
}

func (l *link) lost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone
}

// reap waits for the end of the helper.
func (l *link) reap() {
	for {
		if _, err := unix.Wait4(l.pid, nil, 0, nil); err != unix.EINTR {
			return
		}
	}
}

// receive passes on what the helper says, until it is gone.
func (c *Client) receive(l *link, in *bufio.Reader) {
	for {
		f, err := readFrame(in)
		if err != nil {
			break
		}
		if f.Event != nil {
			c.events.Add(*f.Event)
			continue
		}
		l.mu.Lock()
		answer := l.calls[f.Call]
		delete(l.calls, f.Call)
		l.mu.Unlock()
		if answer != nil {
			answer <- f
		}
	}
	l.mu.Lock()
	l.gone = true
	for _, answer := range l.calls {
		close(answer)
	}
	l.calls = nil
	l.mu.Unlock()
	l.socket.Close()
}

// keep starts another helper when one dies.
func (c *Client) keep(l *link) {
	defer close(c.done)
	for {
		l.reap()
		c.mu.Lock()
		c.link = nil
		closing := c.closing
		c.mu.Unlock()
		if closing {
			return
		}
		l.socket.Close()
		c.log("the helper that holds the runs died; what it had launched is adopted", nil)
		c.events.Add(Event{Type: EventHelper, At: time.Now().UnixMilli(), Reason: "lost"})
		for {
			time.Sleep(helperPause)
			c.mu.Lock()
			closing := c.closing
			c.mu.Unlock()
			if closing {
				return
			}
			next, err := c.connect()
			if err != nil {
				c.log("the helper cannot be started", err)
				continue
			}
			l = next
			break
		}
		c.mu.Lock()
		c.link = l
		closing = c.closing
		c.mu.Unlock()
		if closing {
			l.socket.Close()
			return
		}
		c.log("another helper is ready", nil)
		c.events.Add(Event{Type: EventHelper, At: time.Now().UnixMilli(), Reason: "ready"})
		if c.events.watched() {
			c.follow(true)
		}
	}
}

// Close lets the helper go. It stops its runs, with their grace, and ends; nobody waits
// for that.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = true
	if c.link != nil {
		c.link.socket.Close()
	}
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
		if l != nil || closing || ctx.Err() != nil || time.Now().After(deadline) {
			return l
		}
	}
}

// call asks the helper.
//
// Errors: *Error, context errors; helper_gone when it died before it answered.
func call[R any](ctx context.Context, c *Client, method string, arg any) (R, error) {
	var result R
	body, err := json.Marshal(arg)
	if err != nil {
		return result, fmt.Errorf("encode call: %w", err)
	}
	l := c.current(ctx)
	if l == nil {
		return result, errHelperGone
	}
	answer := make(chan frame, 1)
	l.mu.Lock()
	if l.gone {
		l.mu.Unlock()
		return result, errHelperGone
	}
	l.next++
	number := l.next
	l.calls[number] = answer
	l.mu.Unlock()
	if err := l.wire.send(frame{Call: number, Method: method, Body: body}); err != nil {
		l.mu.Lock()
		delete(l.calls, number)
		l.mu.Unlock()
		return result, errHelperGone
	}
	var f frame
	var ok bool
	select {
	case f, ok = <-answer:
	case <-ctx.Done():
		l.wire.send(frame{Call: number, Method: "cancel"}) // gone: there is nothing to cancel
		// The answer tells that nothing of the call is under way any more; a stop is
		// carried through by itself.
		f, ok = <-answer
		if ok && f.Left {
			return result, ctx.Err()
		}
	}
	switch {
	case !ok:
		return result, errHelperGone
	case f.Left:
		return result, context.Canceled
	case f.Failed != "":
		return result, errors.New(f.Failed)
	}
	if f.Body != nil {
		if err := json.Unmarshal(f.Body, &result); err != nil {
			return result, fmt.Errorf("decode answer: %w", err)
		}
	}
	if f.Error != nil {
		return result, f.Error
	}
	return result, nil
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
	return call[Stopped](ctx, c, "stop", q)
}

func (c *Client) StopProcess(ctx context.Context, q StopQuery) (Stopped, error) {
	return call[Stopped](ctx, c, "stopProcess", q)
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
	_, err := call[struct{}](ctx, c, "delete", q)
	return err
}

func (c *Client) Clear(ctx context.Context, q DeleteQuery) (Removed, error) {
	return call[Removed](ctx, c, "clear", q)
}

func (c *Client) Capabilities(ctx context.Context) (Capabilities, error) {
	return call[Capabilities](ctx, c, "capabilities", struct{}{})
}

func (c *Client) StopOrphans(ctx context.Context) ([]Stopped, error) {
	return call[[]Stopped](ctx, c, "stopOrphans", struct{}{})
}
