package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

// certificateAge is how often the files of a certificate are looked at, by a client
// that comes.
const certificateAge = 10 * time.Second

// certificatePatience is how long the client that came waits for that. Files on a server
// that does not answer, or a pipe, keep nobody out: the certificate before serves on.
const certificatePatience = time.Second

// certificate is a certificate in two files. A renewed one is taken without a restart;
// when that fails the one before stays. Safe for concurrent use.
type certificate struct {
	certFile, keyFile string
	failed            func(error) // a renewed one cannot be read

	stamps [2]stamp // of the reader alone

	mu      sync.Mutex
	now     *tls.Certificate
	looked  time.Time
	reading bool
}

// stamp tells one content of a file from the next.
type stamp struct {
	changed time.Time
	size    int64
}

func stampOf(path string) (stamp, error) {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}, err
	}
	return stamp{info.ModTime(), info.Size()}, nil
}

// newTLS returns the configuration for the files of --tls-cert and --tls-key; nil
// without them.
//
// Errors: one line that names the file.
func newTLS(o options, failed func(error)) (*tls.Config, error) {
	if o.tlsCert == "" {
		return nil, nil
	}
	c := &certificate{certFile: o.tlsCert, keyFile: o.tlsKey, failed: failed}
	if err := c.read(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get(), nil },
	}, nil
}

// read loads both files when one of them is another than before. One at a time.
func (c *certificate) read() error {
	var stamps [2]stamp
	for i, path := range []string{c.certFile, c.keyFile} {
		var err error
		if stamps[i], err = stampOf(path); err != nil {
			return fmt.Errorf("read %s: %w", path, cause(err))
		}
	}
	if stamps == c.stamps {
		return nil
	}
	c.stamps = stamps // the same wrong files are not read again
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	var file *fs.PathError
	switch {
	case errors.As(err, &file):
		return fmt.Errorf("read %s: %w", file.Path, cause(err))
	case err != nil:
		return fmt.Errorf("read certificate %s with key %s: %w", c.certFile, c.keyFile, err)
	}
	c.mu.Lock()
	c.now, c.looked = &pair, time.Now()
	c.mu.Unlock()
	return nil
}

func (c *certificate) get() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading || time.Since(c.looked) < certificateAge {
		return c.now
	}
	c.reading = true
	read := make(chan struct{})
	go func() {
		defer close(read)
		if err := c.read(); err != nil {
			c.failed(err)
		}
		c.mu.Lock()
		c.reading, c.looked = false, time.Now()
		c.mu.Unlock()
	}()
	c.mu.Unlock()
	patience := time.NewTimer(certificatePatience)
	select {
	case <-read:
	case <-patience.C:
	}
	patience.Stop()
	c.mu.Lock()
	return c.now
}
