package main

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"procinsh/api"
)

const (
	tokenBytes = 32 // of randomness
	// maxTokenFile is how much of a token file is read.
	maxTokenFile = 4 << 10
	// shortToken is the length below which a token is warned of.
	shortToken = 32
)

// tokenForm is what fits into a header and a cookie without quotes: RFC 6750.
var tokenForm = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// readToken reads the token that stands alone in a file.
//
// Errors: a line that names the file and tells nothing of what stands in it.
func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read token file %s: %w", path, cause(err))
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return "", fmt.Errorf("read token file %s: %w", path, cause(err))
	}
	text := strings.TrimSpace(string(b))
	switch {
	case len(b) > maxTokenFile:
		return "", fmt.Errorf("the token file %s is longer than %d bytes", path, maxTokenFile)
	case text == "":
		return "", fmt.Errorf("the token file %s is empty", path)
	case !tokenForm.MatchString(text):
		return "", fmt.Errorf("the token file %s holds something else than one token of letters, digits and -._~+/", path)
	}
	return text, nil
}

// secret is the token of this server, as it came to be.
type secret struct {
	text string // "" without one
	file string // where it was read; "" when it was made
}

// newSecret reads the token, or makes one: where others than the users of this
// machine can come in, and where there is a place for it anyway.
func newSecret(o options, env func(string) string) (secret, error) {
	if o.noAuth {
		return secret{}, nil
	}
	if o.tokenFile != "" {
		text, err := readToken(o.tokenFile)
		return secret{text, o.tokenFile}, err
	}
	if !o.remote() && env("RUNTIME_DIRECTORY") == "" {
		return secret{}, nil
	}
	random := make([]byte, tokenBytes)
	rand.Read(random) // never fails
	return secret{text: base64.RawURLEncoding.EncodeToString(random)}, nil
}

// tell lets the user know the token that was made: on a terminal as an address to
// open, else in a file that only the server's user can read. The log names that file.
//
// Errors: the file cannot be written, and nobody could get in without it.
func (s secret) tell(o options, listeners []net.Listener, env func(string) string, stderr io.Writer, log *slog.Logger) error {
	switch {
	case s.text == "":
		return nil
	case s.file != "":
		s.warn(log)
		return nil
	case isTerminal(stderr):
		for _, l := range listeners {
			if a, ok := l.Addr().(*net.TCPAddr); ok {
				fmt.Fprintf(stderr, "open %s?token=%s\n", pageURL(a, o), s.text)
			}
		}
		return nil
	}
	dir, _, _ := strings.Cut(env("RUNTIME_DIRECTORY"), ":") // systemd.exec(5): a list
	if dir == "" {
		dir = "/run/procinsh"
	}
	path := filepath.Join(dir, "token")
	if err := writeToken(dir, path, s.text); err != nil {
		err = fmt.Errorf("write the token to %s: %w", path, cause(err))
		if o.remote() {
			return fmt.Errorf("%w: give one with --token-file, or set RUNTIME_DIRECTORY", err)
		}
		log.Warn("there is no token for other users", "error", err)
		return nil
	}
	log.Info("who shows the token is let in", "path", path)
	return nil
}

// warn tells what is wrong with a token file, but not what stands in it.
func (s secret) warn(log *slog.Logger) {
	if len(s.text) < shortToken {
		log.Warn("the token is short enough to be guessed", "path", s.file, "characters", len(s.text), "want", shortToken)
	}
	if info, err := os.Stat(s.file); err == nil && info.Mode().IsRegular() && info.Mode()&0o077 != 0 {
		log.Warn("other users can read the token: chmod 600", "path", s.file)
	}
}

// writeToken replaces path in one step; a reader finds the old token or the new one.
func writeToken(dir, path, text string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".token-") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(text + "\n")
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// pageURL is the address of the list page at a listener, as another machine finds it.
func pageURL(a *net.TCPAddr, o options) string {
	if !a.IP.IsUnspecified() {
		return o.scheme() + a.String() + "/"
	}
	host := "localhost"
	if len(o.allowHosts) > 0 {
		host = o.allowHosts[0]
	} else if addrs, err := net.InterfaceAddrs(); err == nil {
		for _, x := range addrs {
			if n, ok := x.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && (n.IP.To4() != nil || a.IP.To4() == nil) {
				host = n.IP.String()
				break
			}
		}
	}
	return o.scheme() + net.JoinHostPort(host, fmt.Sprint(a.Port)) + "/"
}

// warnAccess says at every start what is open to whom.
func warnAccess(o options, listeners []net.Listener, log *slog.Logger) {
	if o.noAuth {
		whom := "every local user"
		if o.remote() {
			whom = "everybody who reaches this address"
		}
		log.Warn(whom+" may read what this server can read (--no-auth)", "listen", listenText(listeners, o))
	}
	for _, l := range listeners {
		a, ok := l.Addr().(*net.TCPAddr)
		switch {
		case !ok || a.IP.IsLoopback():
		case o.tlsCert == "":
			log.Warn("other machines reach this address, and what it sends, the token too, can be read on the way: use --tls-cert and --tls-key", "listen", a.String())
		default:
			log.Warn("other machines reach this address", "listen", a.String())
		}
	}
}

// validHost is the value of --allow-host.
func validHost(text string) (string, error) {
	if name := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"); api.ValidHost(name) {
		return name, nil
	}
	return "", errors.New("not a host name without a port")
}
