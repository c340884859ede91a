package elf

import (
	"container/list"
	"errors"
	"fmt"
	"sync"
)

// DefaultLimit is the number of bytes that loaded symbol data may take in all.
const DefaultLimit = maxSymbolBytes

const maxSymbolBytes = 96 << 20 // bytes of symbol data kept by one Symbolizer

// ErrBudget: the data does not fit beside what is in use at this moment.
var ErrBudget = errors.New("over the memory limit of symbol data")

// account is the byte budget that several files share. Files that are in use are
// never dropped, so the sum stays within the limit whatever the files hold.
type account struct {
	limit int64

	mu    sync.Mutex
	bytes int64
	lru   *list.List // of *File, most recently used first

	// forget is called under mu before a file that nobody holds is dropped whole;
	// it returns false when the file must stay and only its data may go.
	forget func(*File) bool
}

type lruPos = *list.Element

func newAccount(limit int64) *account { return &account{limit: limit, lru: list.New()} }

// loaded is what a File has read and keeps. It goes as a whole when room is needed.
type loaded struct {
	pins  int   // guarded by account.mu
	bytes int64 // guarded by account.mu

	// One field for each thing a file can be asked for; add others here.
	symbols lazy[*symbolTable]
	plt     lazy[*pltTable]
	cfi     lazy[*CFI]

	dwarf    dwData // of the file itself
	dwarfAlt dwData // as the alternate of another file
}

// retry gives what failed for want of room another chance.
func (d *loaded) retry() {
	d.symbols.retry()
	d.plt.retry()
	d.cfi.retry()
	d.cfi.mu.Lock()
	defer d.cfi.mu.Unlock()
	if d.cfi.v != nil {
		d.cfi.v.retry()
	}
	d.dwarf.retry()
	d.dwarfAlt.retry()
}

// use keeps the loaded data of f from being dropped until done is called. Every
// method that reads or fills f.data calls it first; calls may nest.
func (f *File) use() *loaded {
	a := f.acct
	a.mu.Lock()
	defer a.mu.Unlock()
	if f.data == nil {
		f.data = new(loaded)
	}
	f.data.pins++
	a.touch(f)
	return f.data
}

func (f *File) done() {
	f.acct.mu.Lock()
	f.data.pins--
	f.acct.mu.Unlock()
}

// charge accounts for n more bytes that f keeps, or gives back -n. When there is
// no room it drops the data of the files used longest ago; ErrBudget when even
// that is not enough. It must be called between use and done, before the memory
// is taken.
func (f *File) charge(n int64) error {
	a := f.acct
	a.mu.Lock()
	defer a.mu.Unlock()
	if f.data == nil {
		f.data = new(loaded)
		a.touch(f)
	}
	if n > 0 && !a.makeRoom(f, n) {
		return fmt.Errorf("keep %d bytes beside %d of %d: %w", n, a.bytes, a.limit, ErrBudget)
	}
	n = max(n, -f.data.bytes)
	f.data.bytes += n
	a.bytes += n
	return nil
}

// touch moves f to the front. a.mu is held.
func (a *account) touch(f *File) {
	if f.pos == nil {
		f.pos = a.lru.PushFront(f)
		return
	}
	a.lru.MoveToFront(f.pos)
}

// makeRoom drops data until n more bytes fit. a.mu is held.
func (a *account) makeRoom(keep *File, n int64) bool {
	if n > a.limit {
		return false
	}
	for e := a.lru.Back(); e != nil && a.bytes > a.limit-n; {
		f := e.Value.(*File)
		e = e.Prev()
		if f == keep || f.data != nil && f.data.pins > 0 {
			continue
		}
		a.drop(f)
		if a.forget != nil && a.forget(f) {
			a.remove(f)
		}
	}
	return a.bytes <= a.limit-n
}

// drop lets go of the loaded data of f. a.mu is held.
func (a *account) drop(f *File) {
	if f.data != nil {
		a.bytes -= f.data.bytes
		f.data = nil
	}
}

// remove takes f out of the account altogether. a.mu is held.
func (a *account) remove(f *File) {
	a.drop(f)
	a.bytes -= f.base
	f.base = 0
	if f.pos != nil {
		a.lru.Remove(f.pos)
		f.pos = nil
	}
}

// lazy is a value that is made at its first use, once, also when many ask at the
// same time. A failure is kept like a value, until the data is dropped or the
// next session begins.
type lazy[T any] struct {
	mu   sync.Mutex
	made bool
	v    T
	err  error
}

// get returns the value, making it first. If load panics nothing is kept.
func (l *lazy[T]) get(load func() (T, error)) (T, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.made {
		l.v, l.err = load()
		l.made = true
	}
	return l.v, l.err
}

// retry forgets a failure that may not happen again: no room, no descriptor.
func (l *lazy[T]) retry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made && l.err != nil && !permanent(l.err) {
		var zero T
		l.made, l.v, l.err = false, zero, nil
	}
}

// permanent tells whether an error is about the contents of a file.
func permanent(err error) bool { return errors.Is(err, ErrFormat) || errors.Is(err, ErrTooBig) }
