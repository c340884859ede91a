package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// writePair writes a certificate of the given number and its key.
func writePair(t *testing.T, certFile, keyFile string, number int64) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(number), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, form, form, public, private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		// Two contents within one tick of the file system's clock.
		at := time.Unix(number, 0)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

// A renewed certificate is taken without a restart, and a broken one is not: the one
// before stays, and the failure is told once.
func TestCertificateIsRenewed(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	var failures []error
	c := &certificate{certFile: certFile, keyFile: keyFile, failed: func(err error) { failures = append(failures, err) }}
	if err := c.read(); err == nil {
		t.Error("files that are not there were read")
	}
	number := func() int64 { return c.get().Leaf.SerialNumber.Int64() }
	again := func() { c.looked = time.Now().Add(-certificateAge) }

	writePair(t, certFile, keyFile, 1)
	if err := c.read(); err != nil || number() != 1 {
		t.Fatalf("%v, number %d", err, number())
	}
	c.looked = time.Now().Add(time.Hour)
	writePair(t, certFile, keyFile, 2)
	if got := number(); got != 1 {
		t.Errorf("looked at before its time: number %d", got)
	}
	again()
	if got := number(); got != 2 || len(failures) != 0 {
		t.Errorf("number %d, %v", got, failures)
	}

	writePair(t, certFile, filepath.Join(dir, "other"), 3)
	for range 2 {
		again()
		if got := number(); got != 2 || len(failures) != 1 {
			t.Errorf("with the key of another: number %d, %v", got, failures)
		}
	}
	writePair(t, certFile, keyFile, 4)
	again()
	if got := number(); got != 4 || len(failures) != 1 {
		t.Errorf("number %d, %v", got, failures)
	}
}

// A file that gives no answer keeps nobody out: here a pipe that nobody writes to.
func TestCertificateThatHangs(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile, pipe := filepath.Join(dir, "cert"), filepath.Join(dir, "key"), filepath.Join(dir, "pipe")
	writePair(t, certFile, keyFile, 1)
	c := &certificate{certFile: certFile, keyFile: keyFile, failed: func(err error) { t.Error(err) }}
	if err := c.read(); err != nil {
		t.Fatal(err)
	}
	writePair(t, certFile, keyFile, 2)
	key, err := os.ReadFile(keyFile)
	if err == nil {
		err = errors.Join(unix.Mkfifo(pipe, 0o600), os.Rename(pipe, keyFile))
	}
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.looked = time.Time{}
	c.mu.Unlock()
	var clients sync.WaitGroup
	for range 20 {
		clients.Go(func() {
			if got := c.get().Leaf.SerialNumber.Int64(); got != 1 {
				t.Errorf("number %d", got)
			}
		})
	}
	clients.Wait()
	if err := os.WriteFile(keyFile, key, 0o600); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); c.get().Leaf.SerialNumber.Int64() != 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the new certificate is there, and is not taken")
		}
	}
}
