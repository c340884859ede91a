package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// address is a place to listen at.
type address struct {
	network string // "tcp", "tcp4", "tcp6" or "unix"
	text    string // "127.0.0.1:8080", or a path
}

func (a address) String() string {
	if a.network == "unix" {
		return "unix:" + a.text
	}
	return a.text
}

// remote tells whether other machines may reach it.
func (a address) remote() bool {
	if a.network == "unix" {
		return false
	}
	at, err := netip.ParseAddrPort(a.text)
	return err != nil || !at.Addr().IsLoopback()
}

// parseAddress reads the value of --listen. localhost is both loopback addresses, no
// address is all of both families.
func parseAddress(text string) ([]address, error) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		if path == "" {
			return nil, errors.New("unix: needs a path")
		}
		if len(path) >= len(syscall.RawSockaddrUnix{}.Path) {
			return nil, fmt.Errorf("the path of a UNIX socket cannot be longer than %d bytes", len(syscall.RawSockaddrUnix{}.Path)-1)
		}
		return []address{{"unix", path}}, nil
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return nil, errors.New("not ADDRESS:PORT or unix:PATH")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return nil, errors.New("the port has to be a number from 0 to 65535")
	}
	if strings.EqualFold(host, "localhost") {
		return []address{{"tcp4", net.JoinHostPort("127.0.0.1", port)}, {"tcp6", net.JoinHostPort("::1", port)}}, nil
	}
	if host == "" {
		return []address{{"tcp", ":" + port}}, nil
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return nil, errors.New("not an IP address or localhost")
	case ip.Zone() != "":
		return nil, errors.New("an address with a zone cannot stand in a URL: use another, or [::]")
	}
	// "tcp" would make both families of 0.0.0.0.
	network := "tcp6"
	if ip = ip.Unmap(); ip.Is4() {
		network = "tcp4"
	}
	return []address{{network, net.JoinHostPort(ip.String(), port)}}, nil
}

// listenAll opens every address, or none.
//
// Errors: a line that names the address.
func listenAll(list []address, env func(string) string) ([]net.Listener, error) {
	var open []net.Listener
	for i, a := range list {
		// Port 0 of localhost is the same port on both.
		if i > 0 && a.text == "[::1]:0" && list[i-1].text == "127.0.0.1:0" {
			_, port, _ := net.SplitHostPort(open[i-1].Addr().String())
			a.text = strings.TrimSuffix(a.text, "0") + port
		}
		l, err := listen(a, env)
		if err != nil {
			for _, o := range open {
				o.Close()
			}
			err = cause(err)
			if errors.Is(err, syscall.EADDRINUSE) {
				err = fmt.Errorf("%w: choose another with --listen", err)
			}
			return nil, fmt.Errorf("listen on %s: %w", a, err)
		}
		open = append(open, l)
	}
	return open, nil
}

// cause is the kernel's word for what went wrong, without the call.
func cause(err error) error {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number
	}
	return err
}

func listen(a address, env func(string) string) (net.Listener, error) {
	if a.network == "unix" {
		return listenUnix(a.text, env)
	}
	return net.Listen(a.network, a.text)
}

// listenUnix makes a socket that only its owner and root can open: the user who
// ran sudo, else the one who started procinsh. A socket file that a server left is
// replaced: when one ends, its sandbox lets it delete nothing.
func listenUnix(path string, env func(string) string) (net.Listener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// Between bind and chmod nobody else must be able to connect. Nothing else runs
	// yet that could mind the mask.
	before := syscall.Umask(0o177)
	l, err := net.Listen("unix", path)
	syscall.Umask(before)
	if err != nil {
		return nil, err
	}
	if uid, ok := sudoUser(env); ok && os.Geteuid() == 0 {
		if err := os.Lchown(path, int(uid), -1); err != nil {
			l.Close()
			return nil, err
		}
	}
	return l, nil
}

// removeStale removes a socket file that nobody listens on any more.
//
// Errors: the address is in use; path is something else than a socket.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return errors.New("there is a file that is no socket")
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
		return syscall.EADDRINUSE
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}
