package elf

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// ErrPanic: the reader of this file failed on its contents. The file is left
// alone until it is read anew; other files are not affected.
var ErrPanic = errors.New("its contents broke the reader")

const (
	fileCost    = 1024 // bytes an open File is charged beside its sections
	sectionCost = 128  // bytes of one section header with its name
	segmentCost = 40
)

// Symbolizer keeps what was read from files between requests: least recently
// used out, never more bytes than its limit. It holds no descriptor that no open
// Module needs, and starts no goroutine. Its methods may be called from any
// number of goroutines; work that several ask for at the same time is done once.
type Symbolizer struct {
	acct    *account
	entries map[Key]*entry // guarded by acct.mu

	hits, misses atomic.Uint64
}

// entry is one file of a Symbolizer, whichever path led to it.
type entry struct {
	key    Key
	s      *Symbolizer
	src    *source
	opened lazy[*File]
	crc    lazy[uint32] // of the whole file, for .gnu_debuglink

	file   *File // guarded by acct.mu; nil until opened
	users  int   // guarded by acct.mu; open Modules, and files whose alternate this is
	direct int   // guarded by acct.mu; the users that are Modules

	altMu sync.Mutex // held while the alternate file is looked for; taken before mu

	mu        sync.Mutex // above the fields below; taken before acct.mu
	broken    map[string]error
	finder    *finder // of an open Module
	altLooked bool    // for the alternate file, since a Module is open
	alt       *entry  // nil when there is none
	altErr    error   // why
}

// NewSymbolizer returns a Symbolizer that keeps at most limit bytes of what it
// has read; DefaultLimit is what the server gives it.
func NewSymbolizer(limit int64) *Symbolizer {
	s := &Symbolizer{acct: newAccount(limit), entries: make(map[Key]*entry)}
	s.acct.forget = s.forget
	return s
}

// Stats is what a Symbolizer holds and how often it did not have to read.
//
// Units: Bytes of Limit; Hits and Misses count files asked for since the start.
type Stats struct {
	Bytes, Limit int64
	Files        int
	Hits, Misses uint64
}

// Stats returns the present figures.
func (s *Symbolizer) Stats() Stats {
	s.acct.mu.Lock()
	defer s.acct.mu.Unlock()
	return Stats{s.acct.bytes, s.acct.limit, len(s.entries), s.hits.Load(), s.misses.Load()}
}

// File returns a Module of the file that key names, opening it if it is not
// known. The caller closes the Module when its request is done.
//
// open is kept until then: it is called only when something has to be read. What
// it opens is used only if its key is still the same. roots are where separate
// debug files are looked for, in this order, and path is where the file itself
// lies in those roots, for files that are found beside it; path may be "".
//
// Errors: those of Open and of open; ErrPanic; ErrChanged.
func (s *Symbolizer) File(key Key, open OpenFunc, roots []Roots, path string) (*Module, error) {
	m := &Module{s: s, path: path, find: finder{s: s, roots: roots, path: path}}
	e, err := s.acquire(key, open, m)
	if err != nil {
		return nil, err
	}
	m.main = e
	for _, w := range m.File().Warnings() {
		m.warn(errors.New(w))
	}
	e.setFinder(&m.find)
	return m, nil
}

// acquire returns the entry of a key with one more user. owner is what release
// is called with.
func (s *Symbolizer) acquire(key Key, open OpenFunc, owner any) (*entry, error) {
	return s.acquireOpened(key, open, owner, nil, nil)
}

// acquireOpened is acquire for a file that is open already, which is closed here
// or with the last user.
func (s *Symbolizer) acquireOpened(key Key, open OpenFunc, owner any, r io.ReaderAt, c io.Closer) (*entry, error) {
	s.acct.mu.Lock()
	e := s.entries[key]
	if e == nil {
		e = &entry{key: key, s: s, src: &source{key: key}}
		s.entries[key] = e
		s.misses.Add(1)
	} else {
		s.hits.Add(1)
	}
	e.users++
	if isModule(owner) {
		e.direct++
	}
	fresh := e.users == 1
	s.acct.mu.Unlock()

	e.src.add(owner, open)
	if c != nil {
		e.src.adopt(r, c)
	}
	f, err := e.opened.get(e.open)
	if err != nil {
		s.discard(e)
		e.release(owner)
		return nil, err
	}
	if fresh {
		f.use().retry()
		f.done()
		e.crc.retry()
	}
	return e, nil
}

// open reads the headers; it runs once for an entry.
func (e *entry) open() (f *File, err error) {
	defer func() {
		if p := recover(); p != nil {
			f, err = nil, fmt.Errorf("open ELF file: %w: %v", ErrPanic, p)
		}
	}()
	f, err = open(e.src, e.key.Size, e.s.acct)
	if err != nil {
		return nil, err
	}
	f.findAlt = e.alternate
	e.src.know(f.buildID, f.buildIDAt)
	a := e.s.acct
	a.mu.Lock()
	defer a.mu.Unlock()
	base := int64(fileCost + len(f.sections)*sectionCost + len(f.segments)*segmentCost)
	if !a.makeRoom(f, base) {
		return nil, fmt.Errorf("open ELF file: %w", ErrBudget)
	}
	f.base, f.key = base, e.key
	a.bytes += base
	a.touch(f)
	e.file = f
	return f, nil
}

// forget is called with acct.mu held; see account.
func (s *Symbolizer) forget(f *File) bool {
	e := s.entries[f.key]
	if e == nil || e.file != f {
		return true // replaced or discarded
	}
	if e.users > 0 {
		return false
	}
	delete(s.entries, f.key)
	return true
}

// discard makes the next request for the key begin anew.
func (s *Symbolizer) discard(e *entry) {
	s.acct.mu.Lock()
	defer s.acct.mu.Unlock()
	if s.entries[e.key] == e {
		delete(s.entries, e.key)
	}
	if e.file != nil {
		s.acct.remove(e.file)
	}
}

// isModule tells a Module from an entry that uses another one as its alternate.
func isModule(owner any) bool {
	_, ok := owner.(*Module)
	return ok
}

// release ends the use of an entry by owner; with the last one nothing of it
// stays open. The alternate file goes with the last Module: two files that name
// each other would hold each other for ever.
func (e *entry) release(owner any) {
	e.src.drop(owner)
	e.mu.Lock()
	e.s.acct.mu.Lock()
	e.users--
	if isModule(owner) {
		e.direct--
	}
	over := e.direct == 0
	e.s.acct.mu.Unlock()
	var alt *entry
	if over {
		alt = e.alt
		e.alt, e.altErr, e.altLooked, e.finder = nil, nil, false, nil
	}
	e.mu.Unlock()
	if alt != nil {
		alt.release(e)
	}
}

// setFinder says where the alternate file of e may be looked for, while a Module
// uses e.
func (e *entry) setFinder(f *finder) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.finder = f
}

// alternate returns the file that .gnu_debugaltlink names, nil when it names none.
//
// mu is not held during the search: what is found may be looking for e.
func (e *entry) alternate() (*File, error) {
	e.altMu.Lock()
	defer e.altMu.Unlock()
	e.mu.Lock()
	looked, alt, err, finder := e.altLooked, e.alt, e.altErr, e.finder
	e.mu.Unlock()
	if !looked && finder != nil {
		alt, err = finder.alternate(e)
		e.mu.Lock()
		over := e.finder == nil // the last Module was closed meanwhile
		if !over {
			e.altLooked, e.alt, e.altErr = true, alt, err
		}
		e.mu.Unlock()
		if over && alt != nil {
			alt.release(e)
			alt, err = nil, ErrClosed
		}
	}
	if alt == nil {
		return nil, err
	}
	return alt.opened.get(alt.open)
}

// guard runs one kind of question to a file. A panic in it is turned into an
// error, and the same kind is not asked again of this entry.
func (e *entry) guard(kind string, ask func() error) (err error) {
	e.mu.Lock()
	err = e.broken[kind]
	e.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		err = fmt.Errorf("%s of file %d:%d: %w: %v", kind, e.key.Dev, e.key.Inode, ErrPanic, p)
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.broken == nil {
			e.broken = make(map[string]error)
		}
		e.broken[kind] = err
	}()
	return ask()
}

// checksum returns the CRC-32 of the whole file, once.
func (e *entry) checksum() (uint32, error) {
	return e.crc.get(func() (uint32, error) { return crcOf(io.NewSectionReader(e.src, 0, e.key.Size)) })
}
