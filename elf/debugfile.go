package elf

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

const (
	maxLinkBytes = 4096 // bytes of .gnu_debuglink and .gnu_debugaltlink
	debugDir     = "/usr/lib/debug"
)

// Roots is a directory tree in which separate debug files are looked for: the
// host's, or the one a target sees.
//
// Open opens an absolute, clean path inside the tree and never leaves it, not by
// symbolic links either. It opens regular files only and does not block. The key
// is read from the open descriptor. A file that is not there is fs.ErrNotExist.
type Roots interface {
	Open(path string) (io.ReaderAt, int64, Key, io.Closer, error)
}

// finder looks for the files that describe another file.
type finder struct {
	s     *Symbolizer
	roots []Roots
	path  string // of the described file in the roots, or ""
}

// debug returns the separate debug file of e, with owner as its user, and where
// it was; a nil entry when there is none. The error says which candidates exist
// but do not belong to the file.
//
// Source: GDB manual, "Separate Debug Files"; objcopy(1) --add-gnu-debuglink.
func (f *finder) debug(e *entry, file *File, owner any) (*entry, string, error) {
	var rejected error
	search := func(p string, fits func(*entry, *File) error) *entry {
		for _, root := range f.roots {
			d, err := f.try(root, p, owner, func(d *entry, df *File) error {
				if d == e || df.machine != file.machine || df.class != file.class {
					return errors.New("not a debug file of this file")
				}
				return fits(d, df)
			})
			if err == nil {
				return d
			}
			if !errors.Is(err, fs.ErrNotExist) {
				rejected = errors.Join(rejected, fmt.Errorf("debug file %s: %w", p, err))
			}
		}
		return nil
	}
	if p := buildIDPath(file.buildID); p != "" {
		d := search(p, func(_ *entry, df *File) error { return sameBuildID(file.buildID, df.buildID) })
		if d != nil {
			return d, p, nil
		}
	}
	name, sum, ok := file.debugLink()
	if !ok || !path.IsAbs(f.path) {
		return nil, "", rejected
	}
	for _, p := range linkPaths(path.Dir(f.path), name) {
		d := search(p, func(d *entry, df *File) error {
			if len(file.buildID) > 0 && len(df.buildID) > 0 {
				if err := sameBuildID(file.buildID, df.buildID); err != nil {
					return err
				}
			}
			got, err := d.checksum()
			if err == nil && got != sum {
				err = fmt.Errorf("CRC %08x, expected %08x", got, sum)
			}
			return err
		})
		if d != nil {
			return d, p, nil
		}
	}
	return nil, "", rejected
}

// alternate returns the file that .gnu_debugaltlink of e names, nil when there
// is no such section. It must have the build-id that stands beside the name.
//
// Source: dwz(1), "-m"; the section holds a path, a NUL and the build-id.
func (f *finder) alternate(e *entry) (*entry, error) {
	file, err := e.opened.get(e.open)
	if err != nil {
		return nil, err
	}
	s, ok := file.Section(".gnu_debugaltlink")
	if !ok || s.Compressed || s.Size > maxLinkBytes {
		return nil, nil
	}
	b, err := file.readAt(s.Offset, s.Size)
	if err != nil {
		return nil, fmt.Errorf("read .gnu_debugaltlink: %w", err)
	}
	name, id, ok := bytes.Cut(b, []byte{0})
	if !ok || len(name) == 0 || len(id) == 0 || len(id) > maxBuildID {
		return nil, fmt.Errorf("read .gnu_debugaltlink: %w", ErrFormat)
	}
	var paths []string
	switch {
	case path.IsAbs(string(name)):
		paths = append(paths, path.Clean(string(name)))
	case path.IsAbs(f.path):
		paths = append(paths, path.Join(path.Dir(f.path), string(name)))
	}
	paths = append(paths, buildIDPath(id), path.Join(debugDir, ".dwz", path.Base(string(name))))
	rejected := fmt.Errorf("alternate debug file %q: %w", name, fs.ErrNotExist)
	for _, p := range paths {
		for _, root := range f.roots {
			d, err := f.try(root, p, e, func(d *entry, df *File) error {
				if d == e {
					return errors.New("the file itself")
				}
				return sameBuildID(id, df.buildID)
			})
			if err == nil {
				return d, nil
			}
			if !errors.Is(err, fs.ErrNotExist) {
				rejected = fmt.Errorf("alternate debug file %s: %w", p, err)
			}
		}
	}
	return nil, rejected
}

// try opens one path and keeps it if it fits.
func (f *finder) try(root Roots, p string, owner any, fits func(*entry, *File) error) (*entry, error) {
	open := func() (io.ReaderAt, int64, Key, io.Closer, error) { return root.Open(p) }
	r, _, key, c, err := open()
	if err != nil {
		return nil, err
	}
	d, err := f.s.acquireOpened(key, open, owner, r, c)
	if err != nil {
		return nil, err
	}
	file, err := d.opened.get(d.open)
	if err == nil {
		err = d.guard("check", func() error { return fits(d, file) })
	}
	if err != nil {
		d.release(owner)
		return nil, err
	}
	if isModule(owner) {
		d.setFinder(&finder{s: f.s, roots: f.roots, path: p})
	}
	return d, nil
}

func sameBuildID(want, got []byte) error {
	if !bytes.Equal(want, got) {
		return fmt.Errorf("build-id %x, expected %x", got, want)
	}
	return nil
}

// buildIDPath returns where a debug file of that build-id is installed.
func buildIDPath(id []byte) string {
	if len(id) < 2 {
		return ""
	}
	h := hex.EncodeToString(id)
	return path.Join(debugDir, ".build-id", h[:2], h[2:]+".debug")
}

// linkPaths returns where a file of that name may lie for a file in dir. A
// distribution that merged /lib into /usr/lib may have debug files from before.
func linkPaths(dir, name string) []string {
	paths := []string{path.Join(dir, name), path.Join(dir, ".debug", name), path.Join(debugDir, dir, name)}
	if old, ok := strings.CutPrefix(dir, "/usr/"); ok {
		paths = append(paths, path.Join(debugDir, old, name))
	}
	return slices.Compact(paths)
}

// debugLink returns the name and the CRC-32 that .gnu_debuglink holds: a base
// name, NUL, padding to 4 bytes, the checksum.
func (f *File) debugLink() (name string, sum uint32, ok bool) {
	s, ok := f.Section(".gnu_debuglink")
	if !ok || s.Compressed || s.Size < 8 || s.Size > maxLinkBytes {
		return "", 0, false
	}
	b, err := f.readAt(s.Offset, s.Size)
	if err != nil {
		return "", 0, false
	}
	name = cString(b, 0, len(b))
	at := (len(name) + 1 + 3) &^ 3
	if at+4 > len(b) || name == "" || name == "." || name == ".." || strings.Contains(name, "/") || len(name) > 255 {
		return "", 0, false
	}
	return name, le.Uint32(b[at:]), true
}

// crcOf is the checksum of .gnu_debuglink over a whole file, in pieces.
func crcOf(r io.Reader) (uint32, error) {
	h := crc32.NewIEEE()
	if _, err := io.CopyBuffer(h, r, make([]byte, 256<<10)); err != nil {
		return 0, fmt.Errorf("checksum: %w", err)
	}
	return h.Sum32(), nil
}
