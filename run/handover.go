package run

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// parentSocket is the descriptor of the socket that a keeper or a helper is started
// with.
const parentSocket = 3

// socketPair makes a connection between two processes. Ours does not block; both are
// closed at exec.
func socketPair() (ours *os.File, theirs int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, -1, fmt.Errorf("make a socket: %w", err)
	}
	unix.SetNonblock(pair[0], true) // a socket that was just made
	return os.NewFile(uintptr(pair[0]), "socket"), pair[1], nil
}

// passage is a connection that descriptors can be passed through (SCM_RIGHTS, unix(7)).
// One goroutine may read at a time, one may write.
type passage struct {
	*net.UnixConn

	mu     sync.Mutex
	passed []int // came and were not taken yet, the oldest first
}

// maxPassed is how many descriptors may come at once.
const maxPassed = 4

func newPassage(f *os.File) (*passage, error) {
	defer f.Close() // FileConn has its own
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("open socket: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, errors.New("open socket: it is none of the host's own")
	}
	return &passage{UnixConn: u}, nil
}

// Read keeps descriptors that come with the bytes, for take.
func (p *passage) Read(b []byte) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4*maxPassed))
	n, m, _, _, err := p.ReadMsgUnix(b, oob) // closed at exec: MSG_CMSG_CLOEXEC
	if m > 0 {
		messages, bad := unix.ParseSocketControlMessage(oob[:m])
		for i := range messages {
			if fds, wrong := unix.ParseUnixRights(&messages[i]); bad == nil && wrong == nil {
				p.mu.Lock()
				p.passed = append(p.passed, fds...)
				p.mu.Unlock()
			}
		}
	}
	return max(n, 0), err // -1 with an error
}

// take returns the oldest descriptor that came.
func (p *passage) take() (*os.File, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.passed) == 0 {
		return nil, errors.New("no descriptor came")
	}
	fd := p.passed[0]
	p.passed = p.passed[1:]
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("open what came: %w", err)
	}
	return os.NewFile(uintptr(fd), "socket"), nil
}

// with returns a writer that passes a descriptor with its first byte.
func (p *passage) with(f *os.File) *passing { return &passing{p, f} }

type passing struct {
	p *passage
	f *os.File // nil: passed
}

func (w *passing) Write(b []byte) (int, error) {
	done := 0
	if w.f != nil {
		c, err := w.f.SyscallConn()
		if err != nil {
			return 0, err
		}
		failed := c.Control(func(fd uintptr) { done, _, err = w.p.WriteMsgUnix(b, unix.UnixRights(int(fd)), nil) })
		if err = errors.Join(failed, err); err != nil {
			return done, err
		}
		w.f = nil
	}
	n, err := w.p.Write(b[done:])
	return done + n, err
}
