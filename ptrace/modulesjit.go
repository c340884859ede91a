package ptrace

import (
	"errors"
	"io/fs"
	"strings"
	"sync"

	"procinsh/elf"
	"procinsh/proc"
)

const (
	cachedPerfMaps     = 8        // processes whose JIT names are kept between answers
	cachedPerfMapBytes = 32 << 20 // bytes of their files together
)

// perfMaps keeps the names that just-in-time compilers gave to their code, so
// that only what was added to a file has to be read again.
type perfMaps struct {
	mu   sync.Mutex // above all below
	maps []*perfMap // used last comes last
}

// perfMap is the names of one process.
type perfMap struct {
	id proc.ID

	mu    sync.Mutex // above all below
	file  elf.Key    // size and time apart, the file it is of
	read  elf.Key    // as it was read last
	names elf.PerfMap

	users int   // guarded by perfMaps.mu
	bytes int64 // of the file, guarded by perfMaps.mu
}

// open returns the names of the process, brought up to date, nil when it has none.
// It must be released.
func (p *perfMaps) open(id proc.ID, files *proc.Files) (*perfMap, error) {
	f, key, err := openKeyed(files.OpenPerfMap)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	defer f.Close()
	m := p.acquire(id)
	m.mu.Lock()
	defer m.mu.Unlock()
	file := elf.Key{Dev: key.Dev, Inode: key.Inode}
	if m.file != file {
		m.file, m.read, m.names = file, elf.Key{}, elf.PerfMap{}
	}
	if m.read == key {
		return m, nil
	}
	if err := m.names.Read(f, key.Size); err != nil {
		p.release(m)
		return nil, err
	}
	m.read = key
	p.mu.Lock()
	m.bytes = key.Size
	p.mu.Unlock()
	return m, nil
}

func (p *perfMaps) acquire(id proc.ID) *perfMap {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, m := range p.maps {
		if m.id == id {
			p.maps = append(append(p.maps[:i:i], p.maps[i+1:]...), m)
			m.users++
			return m
		}
	}
	m := &perfMap{id: id, users: 1}
	p.maps = append(p.maps, m)
	return m
}

// release ends one use and drops what is too much, used longest ago first.
func (p *perfMaps) release(m *perfMap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.users--
	var bytes int64
	for _, m := range p.maps {
		bytes += m.bytes
	}
	kept := p.maps[:0]
	left := len(p.maps)
	for _, m := range p.maps {
		if m.users == 0 && (left > cachedPerfMaps || bytes > cachedPerfMapBytes) {
			left--
			bytes -= m.bytes
			continue
		}
		kept = append(kept, m)
	}
	clear(p.maps[len(kept):])
	p.maps = kept
}

func (m *perfMap) lookup(addr uint64) (name string, offset uint64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.names.Lookup(addr)
}

func (m *perfMap) warning() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.names.Warning()
}

// jitName returns the name of code that a compiler made at run time, in anonymous
// memory or a memfd.
func (m *Modules) jitName(addr uint64) (name string, offset uint64, ok bool) {
	if m.jitNone {
		return "", 0, false
	}
	v := m.Mapping(addr)
	if v == nil || v.Permissions[2] != 'x' || v.Path == "[vdso]" || v.Path == "[vsyscall]" || v.Inode != 0 && !strings.HasPrefix(v.Path, "/memfd:") {
		return "", 0, false
	}
	if s := m.at(addr); s != nil && s.module.elf != nil {
		return "", 0, false
	}
	if m.jit == nil {
		jit, err := m.symbols.jit.open(m.id, m.files)
		if err != nil {
			m.warn("no names of code made at run time: " + err.Error())
		}
		if m.jit = jit; jit == nil {
			m.jitNone = true
			return "", 0, false
		}
	}
	return m.jit.lookup(addr)
}
