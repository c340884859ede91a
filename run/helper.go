package run

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/unix"
)

// HelperArgument is the hidden first argument of this program that makes it a helper.
const HelperArgument = "run-helper"

// helperMemory is where the helper's garbage collector begins to work harder, so that it
// stays below 256 MiB with all outputs full. GOMEMLIMIT sets another.
const helperMemory = 208 << 20

// helperOptions are what the server tells its helper first.
type helperOptions struct {
	Options
	Keep bool `json:"keep"`
}

// Help is the helper process, a child of the keeper: it launches runs for the server at
// the other end of descriptor 3 and answers for them until the server is gone. Then it stops its runs,
// or leaves them where that was asked for, and returns.
func Help() error {
	unix.CloseOnExec(parentSocket)
	if err := unix.SetNonblock(parentSocket, true); err != nil {
		return fmt.Errorf("open the helper's socket: %w", err)
	}
	defer dropSignals()()
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(helperMemory)
	}
	socket := os.NewFile(parentSocket, "socket")
	defer socket.Close()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGTERM)
	defer signal.Stop(ended)
	go func() {
		for range ended {
			socket.Close()
		}
	}()
	return help(socket)
}

func help(socket io.ReadWriter) error {
	in := bufio.NewReader(socket)
	first, err := readFrame(in)
	if err != nil {
		return err
	}
	var o helperOptions
	if err := json.Unmarshal(first.Body, &o); err != nil {
		return fmt.Errorf("decode options: %w", err)
	}
	out := &wire{w: socket}
	o.Event = func(e Event) { out.send(frame{Event: &e}) } // a server that is gone is noticed below
	s, err := Open(o.Options)
	if err != nil {
		out.send(frame{Call: first.Call, Failed: err.Error()})
		return err
	}
	out.send(frame{Call: first.Call, Body: json.RawMessage("{}")})
	serveCalls(in, out.send, func(ctx context.Context, f frame) (any, error) {
		m := methods[f.Method]
		if m == nil {
			return nil, errors.New("unknown method " + f.Method)
		}
		return m(ctx, s, f.Body)
	})
	s.Close(o.Keep)
	return nil
}

// serveCalls answers until the other end is gone.
func serveCalls(in *bufio.Reader, send func(frame) error, answer func(context.Context, frame) (any, error)) {
	ctx, stop := context.WithCancel(context.Background())
	var calls sync.WaitGroup
	var mu sync.Mutex
	under := map[uint64]context.CancelFunc{}
	defer calls.Wait()
	defer stop()
	places := make(chan struct{}, maxCalls)
	for {
		f, err := readFrame(in)
		switch {
		case err != nil:
			return
		case f.Method == "ping":
			send(frame{}) // who is gone is noticed above
			continue
		case f.Method == "cancel":
			mu.Lock()
			if cancel := under[f.Call]; cancel != nil {
				cancel()
			}
			mu.Unlock()
			continue
		case f.Until != 0 && monotonic() > f.Until:
			send(frame{Call: f.Call, Late: true})
			continue
		}
		call, cancel := context.WithCancel(ctx)
		mu.Lock()
		under[f.Call] = cancel
		mu.Unlock()
		places <- struct{}{}
		calls.Go(func() {
			value, err := answer(call, f)
			mu.Lock()
			delete(under, f.Call)
			mu.Unlock()
			cancel()
			<-places
			send(reply(f.Call, value, err))
		})
	}
}

// reply is the answer to a call.
func reply(call uint64, value any, err error) frame {
	f := frame{Call: call}
	var known *Error
	switch {
	case errors.As(err, &known):
		f.Error = known
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		f.Left = true
		return f
	case err != nil:
		f.Failed = err.Error()
		return f
	}
	b, err := json.Marshal(value)
	if err != nil {
		return frame{Call: call, Failed: err.Error()}
	}
	f.Body = b
	return f
}
