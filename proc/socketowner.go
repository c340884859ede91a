package proc

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoOwner says that no live socket with an owner has these addresses.
var ErrNoOwner = errors.New("no live socket has these addresses")

// maxOwnerWait is how long SocketOwner waits for the kernel.
const maxOwnerWait = time.Second

// SocketOwner returns the user id of the local TCP socket bound to local and
// connected to remote: the client of a loopback connection, seen by the server.
// It asks INET_DIAG for the exact four-tuple in the caller's network namespace.
// A row counts only in ESTABLISHED, FIN_WAIT1, FIN_WAIT2 or CLOSE_WAIT with an
// inode that is not 0: a socket that has been closed shows uid 0 and inode 0.
//
// Absent: an owner whose id has no name in the caller's user namespace is the
// overflow id, 65534.
// Errors: ErrNoOwner; ETIMEDOUT; those of socket(2) and of /proc/net/tcp.
// Effect: none on the socket.
// Source: sock_diag(7), struct inet_diag_req_v2 (3.3). A kernel without inet_diag
// is asked through /proc/net/tcp and tcp6, with the same rule.
func SocketOwner(local, remote netip.AddrPort) (uint32, error) {
	local, remote = unmap(local), unmap(remote)
	if !local.IsValid() || !remote.IsValid() || local.Addr().Is4() != remote.Addr().Is4() {
		return 0, fmt.Errorf("owner of socket: %w", ErrNoOwner)
	}
	uid, err := hostOwners.of(local, remote)
	if err != nil {
		return 0, fmt.Errorf("owner of socket: %w", err)
	}
	return uid, nil
}

// owners finds owners of sockets. Clients that connect and are gone at once are asked
// about as well, by the thousand a second when somebody likes: none may cost a reading
// of all sockets.
type owners struct {
	diag    func(local, remote netip.AddrPort) (uint32, error)
	present func() bool // whether the kernel has INET_DIAG
	text    *textOwners

	known atomic.Bool // it has
}

var hostOwners = owners{diag: diagOwner, present: hasInetDiag, text: newTextOwners("/proc/thread-self/net", maxOwnerWait)}

func (o *owners) of(local, remote netip.AddrPort) (uint32, error) {
	uid, err := o.diag(local, remote)
	switch {
	case err == nil:
		o.known.Store(true)
	case errors.Is(err, unix.ENOENT):
		// No such socket, or no such module: the kernel has one number for both.
		if o.known.Load() || o.present() {
			o.known.Store(true)
			return 0, ErrNoOwner
		}
		return o.text.of(local, remote)
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return o.text.of(local, remote)
	}
	return uid, err
}

func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// diagBuffers are buffers of sockets that were asked one thing.
var diagBuffers = sync.Pool{New: func() any { return new([diagBuffer]byte) }}

// askDiag opens a socket in the caller's network namespace for one question.
func askDiag(ask func(c *diagConn) error) error {
	buf := diagBuffers.Get().(*[diagBuffer]byte)
	defer diagBuffers.Put(buf)
	c, err := openDiag(buf[:])
	if err != nil {
		return err
	}
	defer c.Close()
	return ask(c)
}

func diagOwner(local, remote netip.AddrPort) (uid uint32, err error) {
	err = askDiag(func(c *diagConn) error {
		row, err := c.one(inetRequest(unix.IPPROTO_TCP, local, remote), time.Now().Add(maxOwnerWait))
		if err != nil {
			return err
		}
		s, ok := parseInetDiag(row, transportTCP)
		if !ok {
			return errBadNetlink
		}
		uid, err = s.ownerOf(pairOf(local, remote))
		return err
	})
	return uid, err
}

// hasInetDiag asks for the TCP sockets in no state, which are none: without the module
// that is an error.
func hasInetDiag() bool {
	return askDiag(func(c *diagConn) error {
		req := make([]byte, nlHeader+inetDiagReqSize)
		req[nlHeader], req[nlHeader+1] = unix.AF_INET, unix.IPPROTO_TCP
		return c.dump(req, time.Now().Add(maxOwnerWait), func([]byte) bool { return true })
	}) == nil
}

// ownerOf is the rule of SocketOwner. The pair is compared because the kernel
// answers an exact request with the listener of the port when no connection
// matches (inet_diag_find_one_icsk goes through __inet_lookup).
func (s *inetSocket) ownerOf(want pair) (uint32, error) {
	if s.pair != want || s.inode == 0 {
		return 0, ErrNoOwner
	}
	switch s.state {
	case tcpEstablished, tcpFinWait1, tcpFinWait2, tcpCloseWait:
		return s.uid, nil
	}
	return 0, ErrNoOwner
}

// textOwners finds owners in dir/tcp and dir/tcp6: a client that speaks IPv4 through an
// IPv6 socket stands in the second. One reading is under way at a time; who asks
// meanwhile is answered by the next, together with all others who wait.
type textOwners struct {
	dir  string
	wait time.Duration // for an answer
	turn chan struct{} // holds one while a reading is under way

	mu   sync.Mutex
	next *textReading // of those who wait for one to begin
}

func newTextOwners(dir string, wait time.Duration) *textOwners {
	return &textOwners{dir: dir, wait: wait, turn: make(chan struct{}, 1)}
}

// textReading answers for the pairs asked about. Once it has begun nobody adds to it;
// once done is closed nobody changes it.
type textReading struct {
	asked map[pair]bool
	uids  map[pair]uint32
	err   error
	done  chan struct{}
}

func (o *textOwners) of(local, remote netip.AddrPort) (uint32, error) {
	want := pairOf(local, remote)
	o.mu.Lock()
	if o.next == nil {
		o.next = &textReading{asked: map[pair]bool{}, uids: map[pair]uint32{}, done: make(chan struct{})}
	}
	r := o.next
	r.asked[want] = true
	o.mu.Unlock()
	t := time.NewTimer(o.wait)
	defer t.Stop()
	select {
	case <-r.done:
	case o.turn <- struct{}{}: // the first to have it reads for all
		o.read(r)
		<-o.turn
	case <-t.C:
		return 0, fmt.Errorf("read %s/tcp: %w", o.dir, unix.ETIMEDOUT)
	}
	if uid, ok := r.uids[want]; ok {
		return uid, nil
	}
	return 0, cmp.Or(r.err, ErrNoOwner)
}

// read does the reading when nobody has done it. It is next until then.
func (o *textOwners) read(r *textReading) {
	o.mu.Lock()
	begin := o.next == r
	if begin {
		o.next = nil
	}
	o.mu.Unlock()
	if begin {
		defer close(r.done)
		r.err = cmp.Or(r.read(o.dir, "tcp"), r.read(o.dir, "tcp6"))
	}
}

// read adds those of a file whose owner is known. A kernel without IPv6 has no tcp6.
func (r *textReading) read(dir, file string) error {
	f, err := os.Open(dir + "/" + file)
	if errors.Is(err, os.ErrNotExist) && file == "tcp6" {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadSlice('\n')
		eachInetText(line, file, func(s inetSocket) bool {
			if uid, err := s.ownerOf(s.pair); err == nil && r.asked[s.pair] {
				r.uids[s.pair] = uid
			}
			return true
		})
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// inetRequest asks for one socket: struct nlmsghdr, struct inet_diag_req_v2.
func inetRequest(protocol uint8, local, remote netip.AddrPort) []byte {
	req := make([]byte, nlHeader+inetDiagReqSize)
	b := req[nlHeader:]
	b[0], b[1] = unix.AF_INET6, protocol
	src, dst := local.Addr().AsSlice(), remote.Addr().AsSlice()
	if local.Addr().Is4() {
		b[0] = unix.AF_INET
	}
	binary.NativeEndian.PutUint32(b[4:], ^uint32(0))
	binary.BigEndian.PutUint16(b[8:], local.Port())
	binary.BigEndian.PutUint16(b[10:], remote.Port())
	copy(b[12:28], src)
	copy(b[28:44], dst)
	for i := range b[48:56] {
		b[48+i] = 0xff // INET_DIAG_NOCOOKIE
	}
	return req
}
