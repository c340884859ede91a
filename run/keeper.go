package run

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

// KeeperArgument is the hidden first argument of this program that makes it a keeper.
const KeeperArgument = "run-keeper"

const (
	helperPause = time.Second // before another helper is started
	helperStart = 15 * time.Second
	// helperEnd is how long a helper may take to end its runs when the server is gone:
	// the longest grace, the kernel's time and some for the records.
	helperEnd = maxGrace + killTime + recordTime + 10*time.Second
)

// helperNews is what a keeper tells the server of a helper. With PID its socket comes
// along.
type helperNews struct {
	PID    int    `json:"pid"`
	Failed string `json:"failed"` // why none could be started
}

// keeper starts the helper, and another one when it dies.
type keeper struct {
	server  *passage
	send    sync.Mutex      // held while a frame is written to the server
	options json.RawMessage // helperOptions
	work    sync.WaitGroup

	mu     sync.Mutex
	helper proc.ID // the newest one; zero before the first
}

// Keep is the keeper process: it starts the helper for the server at the other end of
// descriptor 3, which may execute nothing itself, and passes the helper's socket. It
// ends runs by their cgroups and marks when the helper does not answer, and ends
// when the server and the helper are gone.
func Keep() error {
	unix.CloseOnExec(parentSocket)
	server, err := newPassage(os.NewFile(parentSocket, "socket"))
	if err != nil {
		return err
	}
	defer server.Close()
	defer dropSignals()()
	k := &keeper{server: server}
	in := bufio.NewReader(server)
	first, err := readFrame(in)
	if err != nil {
		return fmt.Errorf("read options: %w", err)
	}
	k.options = first.Body
	var o helperOptions
	if err := json.Unmarshal(first.Body, &o); err != nil {
		return fmt.Errorf("decode options: %w", err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		serveCalls(in, k.tell, func(ctx context.Context, f frame) (any, error) { return k.answer(ctx, o.Options, f) })
	}()
	if k.run(gone) && !o.Keep {
		k.clear(o.Options)
	}
	k.work.Wait()
	return nil
}

// dropSignals takes the signals that tell the server that it is over, and drops them:
// what a process ignores its children would ignore too.
func dropSignals() (stop func()) {
	dropped := make(chan os.Signal, 1)
	signal.Notify(dropped, unix.SIGINT, unix.SIGHUP)
	return func() { signal.Stop(dropped) }
}

func (k *keeper) tell(f frame) error {
	k.send.Lock()
	defer k.send.Unlock()
	return (&wire{w: k.server}).send(f)
}

// run keeps a helper until the server is gone. It returns false when there never was one,
// which the server is told.
func (k *keeper) run(gone <-chan struct{}) bool {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGTERM)
	defer signal.Stop(ended)
	for first := true; ; first = false {
		pid, err := k.start()
		if err != nil {
			k.tell(frame{Helper: &helperNews{Failed: err.Error()}}) // gone: seen below
			if first {
				return false
			}
		} else {
			over := make(chan struct{})
			go func() { reap(pid); close(over) }()
			select {
			case <-over:
			case <-gone:
				k.end(pid, over)
				return true
			}
		}
		select {
		case <-time.After(helperPause):
		case <-ended: // the server was told the same and goes too
			<-gone
			return true
		case <-gone:
			return true
		}
	}
}

// start starts a helper and passes its socket to the server.
func (k *keeper) start() (pid int, err error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return 0, err
	}
	defer ours.Close()
	pid, err = execute("/proc/self/exe", []string{"procinsh", HelperArgument}, theirs)
	if err != nil {
		return 0, fmt.Errorf("start the helper: %w", err)
	}
	ours.SetDeadline(time.Now().Add(helperStart))
	err = (&wire{w: ours}).send(frame{Call: 1, Method: "open", Body: k.options})
	var f frame
	if err == nil {
		f, err = readFrame(bufio.NewReader(ours)) // it says nothing more before it is asked
	}
	if err == nil && f.Failed != "" {
		err = errors.New(f.Failed)
	}
	if err == nil {
		err = k.pass(pid, ours)
	}
	if err != nil {
		unix.Kill(pid, unix.SIGKILL) // our child, not yet reaped
		reap(pid)
		return 0, fmt.Errorf("start the helper: %w", err)
	}
	return pid, nil
}

func (k *keeper) pass(pid int, socket *os.File) error {
	e, err := newFiles("/proc").stat(int32(pid))
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.helper = e.id
	k.mu.Unlock()
	k.send.Lock()
	defer k.send.Unlock()
	return (&wire{w: k.server.with(socket)}).send(frame{Helper: &helperNews{PID: pid}})
}

// end waits for the helper, whose server is gone, to end its runs. One that stands still
// is continued, one that hangs is killed.
func (k *keeper) end(pid int, over <-chan struct{}) {
	unix.Kill(pid, unix.SIGCONT) // our child; reaped at the earliest when over is closed
	select {
	case <-over:
	case <-time.After(helperEnd):
		unix.Kill(pid, unix.SIGKILL)
		<-over
	}
}

// clear ends what a helper that died in the end has left.
func (k *keeper) clear(o Options) {
	s, err := k.ender(o)
	if err != nil {
		return // what is left is listed by the next server
	}
	s.endSilent()
	s.closeEnder()
}

// answer ends a run whose helper does not answer.
func (k *keeper) answer(ctx context.Context, o Options, f frame) (any, error) {
	s, err := k.ender(o)
	if err != nil {
		return nil, err
	}
	defer k.work.Go(s.closeEnder) // what is under way goes on
	switch f.Method {
	case "stop", "stopProcess", "delete":
		return methods[f.Method](ctx, s, f.Body)
	}
	return nil, fmt.Errorf("unknown method %s", f.Method)
}

func (k *keeper) ender(o Options) (*Supervisor, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return newEnder(o, k.helper)
}

// execute starts a program, this one, with a socket as descriptor 3, which is closed
// here. The child has a session of its own: the Ctrl-C of a terminal is the server's.
func execute(program string, argv []string, socket int) (pid int, err error) {
	defer unix.Close(socket)
	return syscall.ForkExec(program, argv, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2, uintptr(socket)}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
}

// reap waits for the end of a child.
func reap(pid int) {
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
			return
		}
	}
}
