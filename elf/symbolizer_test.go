package elf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// tree is a Roots below a folder; it counts what it has open.
type tree struct {
	dir   string
	open  *atomic.Int64 // descriptors
	opens *atomic.Int64 // since the start
}

func newTree(t testing.TB, files map[string][]byte) tree {
	tr := tree{t.TempDir(), new(atomic.Int64), new(atomic.Int64)}
	for name, b := range files {
		tr.write(t, name, b)
	}
	return tr
}

func (tr tree) write(t testing.TB, name string, b []byte) {
	t.Helper()
	path := filepath.Join(tr.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func (tr tree) Open(path string) (io.ReaderAt, int64, Key, io.Closer, error) {
	f, err := os.Open(filepath.Join(tr.dir, path))
	if err != nil {
		return nil, 0, Key{}, nil, err
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &st); err != nil {
		return nil, 0, Key{}, nil, err
	}
	tr.open.Add(1)
	tr.opens.Add(1)
	key := Key{st.Dev, st.Ino, st.Size, st.Mtim.Nano()}
	return f, st.Size, key, closer{f, tr.open}, nil
}

type closer struct {
	f    *os.File
	open *atomic.Int64
}

func (c closer) Close() error {
	c.open.Add(-1)
	return c.f.Close()
}

func (tr tree) key(t testing.TB, path string) Key {
	t.Helper()
	_, _, key, c, err := tr.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	return key
}

func (tr tree) module(t testing.TB, s *Symbolizer, path string, roots ...Roots) *Module {
	t.Helper()
	if roots == nil {
		roots = []Roots{tr}
	}
	m, err := s.File(tr.key(t, path), func() (io.ReaderAt, int64, Key, io.Closer, error) { return tr.Open(path) }, roots, path)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// idle checks that a tree has nothing open.
func (tr tree) idle(t testing.TB) {
	t.Helper()
	if n := tr.open.Load(); n != 0 {
		t.Errorf("%d descriptors stay open", n)
	}
}

func TestModuleDescriptors(t *testing.T) {
	tr := newTree(t, map[string][]byte{"/bin/prog": progFile(t, "prog")})
	s := NewSymbolizer(DefaultLimit)
	m := tr.module(t, s, "/bin/prog")
	if name, off, guess, ok := m.Symbol(0x22f); name != "inner" || off != 2 || guess || !ok {
		t.Errorf("symbol %q+%#x, %v, %v", name, off, guess, ok)
	}
	if tr.open.Load() == 0 {
		t.Error("nothing open while the module is")
	}
	m.Close()
	m.Close() // does nothing
	tr.idle(t)
	if _, err := m.main.src.ReadAt(make([]byte, 1), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("read after Close: %v", err)
	}

	// What is known needs no descriptor.
	before := tr.opens.Load()
	m = tr.module(t, s, "/bin/prog")
	if name, _, _, _ := m.Symbol(0x22f); name != "inner" {
		t.Errorf("symbol %q", name)
	}
	if n := tr.opens.Load() - before; n != 1 { // the one that asks for the key
		t.Errorf("%d opens for a known symbol, want 1", n)
	}
	// What is not known is read from the file, opened once more.
	if name, _, _, _ := m.Symbol(0x234); name != "outer" {
		t.Errorf("symbol %q", name)
	}
	m.Close()
	tr.idle(t)
	if st := s.Stats(); st.Hits != 1 || st.Misses != 1 || st.Files != 1 || st.Bytes <= 0 || st.Bytes > st.Limit {
		t.Errorf("stats %+v", st)
	}
}

// A file that is another one when it is opened again is not read.
func TestModuleChanged(t *testing.T) {
	prog := progFile(t, "prog")
	other := bytes.Clone(prog)
	other[0x1c8+16] ^= 1 // the build-id
	for name, second := range map[string]func() (io.ReaderAt, int64, Key, io.Closer, error){
		"another key": func() (io.ReaderAt, int64, Key, io.Closer, error) {
			return bytes.NewReader(prog), 1, Key{Inode: 9}, io.NopCloser(nil), nil
		},
		"another build-id": func() (io.ReaderAt, int64, Key, io.Closer, error) {
			return bytes.NewReader(other), 1, Key{Size: int64(len(prog))}, io.NopCloser(nil), nil
		},
		"no ELF file": func() (io.ReaderAt, int64, Key, io.Closer, error) {
			return bytes.NewReader(nil), 1, Key{Size: int64(len(prog))}, io.NopCloser(nil), nil
		},
	} {
		s := NewSymbolizer(DefaultLimit)
		key := Key{Size: int64(len(prog))}
		first := func() (io.ReaderAt, int64, Key, io.Closer, error) {
			return bytes.NewReader(prog), key.Size, key, io.NopCloser(nil), nil
		}
		m, err := s.File(key, first, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		m.Close()
		if m, err = s.File(key, second, nil, ""); err != nil {
			t.Fatal(err)
		}
		if fr := m.Frame(0x22f); fr.Symbol != "" {
			t.Errorf("%s: symbol %q of a file that changed", name, fr.Symbol)
		}
		if w := m.Warnings(); len(w) == 0 {
			t.Errorf("%s: no warning", name)
		}
		m.Close()
		// With the right file it works again.
		if m, err = s.File(key, first, nil, ""); err != nil {
			t.Fatal(err)
		}
		if fr := m.Frame(0x22f); fr.Symbol != "inner" {
			t.Errorf("%s: afterwards symbol %q", name, fr.Symbol)
		}
		m.Close()
	}
	s := NewSymbolizer(DefaultLimit)
	_, err := s.File(Key{Size: 5}, func() (io.ReaderAt, int64, Key, io.Closer, error) { return nil, 0, Key{}, nil, os.ErrPermission }, nil, "")
	if !errors.Is(err, os.ErrPermission) || s.Stats().Files != 0 || s.Stats().Bytes != 0 {
		t.Errorf("open that fails: %v, %+v", err, s.Stats())
	}
}

// What Open could not use is told with the path of the file.
func TestModuleOpenWarnings(t *testing.T) {
	b := progFile(t, "prog")
	le.PutUint64(b[40:], 1<<40) // e_shoff
	tr := newTree(t, map[string][]byte{"/prog": b})
	m := tr.module(t, NewSymbolizer(DefaultLimit), "/prog")
	defer m.Close()
	if w := m.Warnings(); len(w) != 1 || !strings.HasPrefix(w[0], "/prog: no sections: ") {
		t.Errorf("warnings %q", w)
	}
}

type panicReader struct{}

func (panicReader) ReadAt([]byte, int64) (int, error) { panic("reader on fire") }
func (panicReader) Close() error                      { return nil }

func TestPanicStaysInside(t *testing.T) {
	s := NewSymbolizer(DefaultLimit)
	key := Key{Dev: 1, Inode: 2, Size: 100}
	burning := func() (io.ReaderAt, int64, Key, io.Closer, error) { return panicReader{}, 100, key, panicReader{}, nil }
	for range 2 {
		if m, err := s.File(key, burning, nil, ""); !errors.Is(err, ErrPanic) || m != nil {
			t.Fatalf("open: %v, want ErrPanic", err)
		}
	}
	if st := s.Stats(); st.Files != 0 || st.Bytes != 0 {
		t.Errorf("left behind: %+v", st)
	}

	tr := newTree(t, map[string][]byte{"/prog": progFile(t, "prog")})
	m := tr.module(t, s, "/prog")
	calls := 0
	for range 3 {
		err := m.Guard("test", func(f *File) error {
			calls++
			var table []byte
			_ = table[f.Class()]
			return nil
		})
		if !errors.Is(err, ErrPanic) {
			t.Errorf("guard: %v, want ErrPanic", err)
		}
	}
	if calls != 1 {
		t.Errorf("asked %d times after a panic, want once", calls)
	}
	if w := m.Warnings(); len(w) != 1 || !strings.Contains(w[0], "/prog: test of file") {
		t.Errorf("warnings %q", w)
	}
	if fr := m.Frame(0x22f); fr.Symbol != "inner" {
		t.Errorf("other questions: symbol %q", fr.Symbol)
	}
	m.Close()
	tr.idle(t)
}

// Many at once: the file is opened once and parsed once.
func TestSymbolizerSingleflight(t *testing.T) {
	tr := newTree(t, map[string][]byte{"/prog": progFile(t, "prog")})
	s := NewSymbolizer(DefaultLimit)
	key := tr.key(t, "/prog")
	before := tr.opens.Load()
	var wg sync.WaitGroup
	mods := make([]*Module, 50)
	for i := range mods {
		wg.Go(func() {
			m, err := s.File(key, func() (io.ReaderAt, int64, Key, io.Closer, error) { return tr.Open("/prog") }, nil, "")
			if err != nil {
				t.Error(err)
				return
			}
			mods[i] = m
			if name, _, _, _ := m.Symbol(0x22f); name != "inner" {
				t.Errorf("symbol %q", name)
			}
		})
	}
	wg.Wait()
	if n := tr.opens.Load() - before; n != 1 {
		t.Errorf("opened %d times, want once", n)
	}
	if mods[0].File() != mods[49].File() {
		t.Error("two copies of one file")
	}
	for _, m := range mods {
		m.Close()
	}
	tr.idle(t)
	if st := s.Stats(); st.Misses != 1 || st.Hits != 49 {
		t.Errorf("stats %+v", st)
	}
}

// Whatever files are asked for, the bytes stay within the limit, and answers
// stay right.
func TestSymbolizerBudget(t *testing.T) {
	const files, limit = 40, 150 << 10
	content := map[string][]byte{}
	for i := range files {
		var syms []testSymbol
		for j := range uint64(200 + 20*i) {
			syms = append(syms, testSymbol{fmt.Sprintf("f%d_%d", i, j), 0x1000 + 8*j, 8, fn, global, 1})
		}
		content[fmt.Sprintf("/%d", i)] = buildELF(symbolSections(".symtab", syms...)...)
	}
	tr := newTree(t, content)
	s := NewSymbolizer(limit)
	stop := make(chan struct{})
	var watch, wg sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if st := s.Stats(); st.Bytes > limit || st.Bytes < 0 {
					t.Errorf("%d bytes of %d", st.Bytes, st.Limit)
					return
				}
			}
		}
	})
	for g := range uint64(4) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(g, 1))
			for range 300 {
				i, j := rnd.IntN(files), rnd.Uint64N(200)
				m := tr.module(t, s, fmt.Sprintf("/%d", i))
				if name, _, _, _ := m.Symbol(0x1000 + 8*j); name != fmt.Sprintf("f%d_%d", i, j) {
					t.Errorf("file %d symbol %d: %q", i, j, name)
				}
				m.Close()
			}
		})
	}
	wg.Wait()
	close(stop)
	watch.Wait()
	tr.idle(t)
	st := s.Stats()
	if st.Files >= files || st.Files == 0 || st.Bytes > limit {
		t.Errorf("nothing was dropped: %+v", st)
	}
	var sum int64
	s.acct.mu.Lock()
	for e := s.acct.lru.Front(); e != nil; e = e.Next() {
		f := e.Value.(*File)
		sum += f.base
		if f.data != nil {
			sum += f.data.bytes
			if f.data.pins != 0 {
				t.Errorf("%d pins left", f.data.pins)
			}
		}
	}
	if sum != s.acct.bytes || s.acct.lru.Len() != len(s.entries) {
		t.Errorf("%d bytes counted, %d kept; %d files listed, %d known", s.acct.bytes, sum, s.acct.lru.Len(), len(s.entries))
	}
	s.acct.mu.Unlock()
}

// A file that alone is over the limit has no symbols and a warning; others do.
func TestSymbolizerTooBig(t *testing.T) {
	var syms []testSymbol
	for j := range uint64(4000) {
		syms = append(syms, testSymbol{"f", 0x1000 + 8*j, 8, fn, global, 1})
	}
	tr := newTree(t, map[string][]byte{"/big": buildELF(symbolSections(".symtab", syms...)...), "/prog": progFile(t, "prog")})
	s := NewSymbolizer(50 << 10)
	big, prog := tr.module(t, s, "/big"), tr.module(t, s, "/prog")
	if fr := big.Frame(0x1000 + 8*3999); fr.Symbol != "" {
		t.Errorf("big: symbol %q", fr.Symbol)
	}
	if w := big.Warnings(); len(w) != 1 || !strings.Contains(w[0], "memory limit") {
		t.Errorf("big: warnings %q", w)
	}
	if fr := prog.Frame(0x22f); fr.Symbol != "inner" || len(prog.Warnings()) != 0 {
		t.Errorf("prog: symbol %q, warnings %q", fr.Symbol, prog.Warnings())
	}
	if st := s.Stats(); st.Bytes > st.Limit {
		t.Errorf("stats %+v", st)
	}
	big.Close()
	prog.Close()
	tr.idle(t)
}
