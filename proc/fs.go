package proc

// FS is a mounted procfs. It is safe for concurrent use; the scanners and
// readers made from it are not.
type FS struct {
	mount string
}

// Open opens the procfs mounted at mount ("/proc", or a fixture tree).
func Open(mount string) (*FS, error) { return &FS{mount: mount}, nil }

// Mount returns the mount point.
func (fs *FS) Mount() string { return fs.mount }

// Close releases the directory handle.
func (fs *FS) Close() error { return nil }
