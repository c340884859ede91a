package ptrace

import (
	"errors"
	"fmt"

	"procinsh/proc"
)

// ErrNotCopied: the address lies in memory that changes while the process runs,
// and it was not copied while it stood.
var ErrNotCopied = errors.New("not copied")

// Memory is the address space of a process, or what is known of it. ReadAt fills
// b from addr on and fails when it cannot fill all of it; n bytes are good then.
// It is used by one goroutine at a time.
type Memory interface {
	ReadAt(b []byte, addr uint64) (n int, err error)
}

// Copy is a piece of memory as it was at one moment.
type Copy struct {
	Address uint64
	Bytes   []byte
}

// ReadAt implements Memory for the piece alone.
func (c Copy) ReadAt(b []byte, addr uint64) (int, error) {
	off := addr - c.Address // wraps to a large number below Address
	if off >= uint64(len(c.Bytes)) {
		return 0, ErrNotCopied
	}
	n := copy(b, c.Bytes[off:])
	if n < len(b) {
		return n, ErrNotCopied
	}
	return n, nil
}

// Copies is several pieces; a read must lie within one of them. They are few.
type Copies []Copy

// ReadAt implements Memory.
func (c Copies) ReadAt(b []byte, addr uint64) (int, error) {
	best := 0
	for _, piece := range c {
		n, err := piece.ReadAt(b, addr)
		if err == nil {
			return n, nil
		}
		best = max(best, n)
	}
	return best, ErrNotCopied
}

// Layers is several memories, of which the first that has all bytes counts.
type Layers []Memory

// ReadAt implements Memory.
func (l Layers) ReadAt(b []byte, addr uint64) (n int, err error) {
	err = ErrNotCopied
	for _, m := range l {
		if n, err = m.ReadAt(b, addr); err == nil {
			break
		}
	}
	return n, err
}

// Live reads a process as it runs.
//
// Effect: that of proc.Process.ReadMemory.
type Live struct{ Process *proc.Process }

// ReadAt implements Memory.
func (l Live) ReadAt(b []byte, addr uint64) (int, error) {
	n, err := l.Process.ReadMemory(addr, b)
	if err == nil && n < len(b) {
		err = fmt.Errorf("read memory at %#x: %w", addr+uint64(n), proc.ErrUnmapped)
	}
	return n, err
}

// Stood is the memory of a process that stood still and runs again: what was
// copied, and beside it only what does not change, the code and constants that
// are mapped without permission to write.
type Stood struct {
	Copied Memory
	Live   Memory
	Fixed  func(addr uint64) bool // not writable, see Modules.Fixed
}

// ReadAt implements Memory.
func (s Stood) ReadAt(b []byte, addr uint64) (int, error) {
	n, err := s.Copied.ReadAt(b, addr)
	if err == nil || len(b) == 0 {
		return n, err
	}
	if last := addr + uint64(len(b)-1); last < addr || !s.Fixed(addr) || !s.Fixed(last) {
		return n, err
	}
	return s.Live.ReadAt(b, addr)
}
