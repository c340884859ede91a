package elf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

var (
	// ErrChanged: what was opened again is not the file that was read before.
	ErrChanged = errors.New("the file has changed")
	// ErrClosed: no Module holds the file any more.
	ErrClosed = errors.New("no open module")
)

// Key names the contents of a file, as far as the kernel can: the same key means
// the same bytes unless somebody changed them and put the time back. The build-id
// is compared as well when a file is opened again.
//
// Units: Size in bytes, MTime in nanoseconds of Unix time.
type Key struct {
	Dev, Inode  uint64
	Size, MTime int64
}

// OpenFunc opens a file and says, from the open descriptor, what it is. It may
// be called again, from any goroutine, as long as the Module it was given to is open.
type OpenFunc func() (io.ReaderAt, int64, Key, io.Closer, error)

// source reads a file through a descriptor that is opened when it is needed and
// closed when the last Module that uses it is.
type source struct {
	key Key

	mu      sync.RWMutex // above the fields below
	r       io.ReaderAt
	c       io.Closer
	openers []opener // one for each open Module, newest last
	buildID []byte   // compared when the file is opened again; nil until known, or when there is none
	note    noteAt   // where it stands
}

type opener struct {
	owner any
	open  OpenFunc
}

// ReadAt implements io.ReaderAt.
func (s *source) ReadAt(b []byte, off int64) (int, error) {
	s.mu.RLock()
	if s.r == nil {
		s.mu.RUnlock()
		if err := s.reopen(); err != nil {
			return 0, err
		}
		s.mu.RLock()
	}
	defer s.mu.RUnlock()
	if s.r == nil {
		return 0, ErrClosed
	}
	return s.r.ReadAt(b, off)
}

// reopen tries the openers, newest first, until one yields the same file.
func (s *source) reopen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.r != nil {
		return nil
	}
	err := ErrClosed
	for _, o := range slices.Backward(s.openers) {
		r, _, key, c, openErr := o.open()
		if openErr != nil {
			err = openErr
			continue
		}
		if err = s.check(r, key); err != nil {
			_ = c.Close() // only read from
			continue
		}
		s.r, s.c = r, c
		return nil
	}
	return err
}

func (s *source) check(r io.ReaderAt, key Key) error {
	if key != s.key {
		return fmt.Errorf("open again: %w", ErrChanged)
	}
	if s.buildID == nil {
		return nil
	}
	b := make([]byte, s.note.size)
	if _, err := io.ReadFull(io.NewSectionReader(r, int64(s.note.off), int64(len(b))), b); err != nil {
		return fmt.Errorf("open again: read build-id: %w", err)
	}
	if !bytes.Equal(buildIDFromNotes(b), s.buildID) {
		return fmt.Errorf("open again: another build-id: %w", ErrChanged)
	}
	return nil
}

// adopt gives the source a descriptor that is open already, and closes it when
// the source has one.
func (s *source) adopt(r io.ReaderAt, c io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.r != nil {
		_ = c.Close() // only read from
		return
	}
	if err := s.check(r, s.key); err != nil {
		_ = c.Close() // only read from
		return
	}
	s.r, s.c = r, c
}

// know says which build-id the file has, and where.
func (s *source) know(buildID []byte, note noteAt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buildID, s.note = buildID, note
}

func (s *source) add(owner any, open OpenFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openers = append(s.openers, opener{owner, open})
}

// drop takes one opener of owner away and closes the descriptor with the last.
func (s *source) drop(owner any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.openers, func(o opener) bool { return o.owner == owner }); i >= 0 {
		s.openers = slices.Delete(s.openers, i, i+1)
	}
	if len(s.openers) == 0 && s.c != nil {
		_ = s.c.Close() // only read from
		s.r, s.c = nil, nil
	}
}
