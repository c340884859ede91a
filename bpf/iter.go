package bpf

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// attrLinkCreate and attrIterCreate mirror members of union bpf_attr.
type attrLinkCreate struct {
	progFD     uint32
	_          uint32 // target_fd
	attachType uint32
	_          [5]uint32 // flags, iter_info, iter_info_len
}

type attrIterCreate struct {
	linkFD uint32
	_      uint32 // flags
}

// iterPiece is how much one read asks for. The kernel gives at most 32 KiB.
const iterPiece = 64 << 10

// attachIter makes the program an iterator that can be read again and again.
//
// Source: BPF_LINK_CREATE for iterators, 5.8.
func (p *program) attachIter() error {
	attr := attrLinkCreate{progFD: uint32(p.fd), attachType: unix.BPF_TRACE_ITER}
	fd, err := sysBPF(unix.BPF_LINK_CREATE, &attr)
	if err != nil {
		return fmt.Errorf("attach program %s: %w", p.name, err)
	}
	p.link = descriptor{fd}
	return nil
}

// readIter runs an attached iterator once and appends what it wrote to buf.
func (p *program) readIter(buf []byte) (_ []byte, err error) {
	err = p.runIter(func(fd int) (int, error) {
		buf = slices.Grow(buf, iterPiece)
		n, err := unix.Read(fd, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+max(n, 0)]
		return n, err
	})
	return buf, err
}

// errEnough ends a run of an iterator before its time.
var errEnough = errors.New("enough was read")

// readPieces runs an attached iterator once, with memory for a piece alone: take gets
// what was written since it last took something, and tells how much of it it took. It
// may end the run with errEnough.
func (p *program) readPieces(buf []byte, take func(b []byte) (int, error)) error {
	have := 0
	err := p.runIter(func(fd int) (int, error) {
		n, err := unix.Read(fd, buf[have:])
		if n <= 0 || err != nil {
			return n, err
		}
		have += n
		used, err := take(buf[:have])
		have = copy(buf, buf[used:have])
		return n, err
	})
	switch {
	case errors.Is(err, errEnough):
		return nil
	case err == nil && have > 0:
		return fmt.Errorf("read iterator %s: %d bytes are left of a record", p.name, have)
	}
	return err
}

// runIter opens an attached iterator and calls read until it reads nothing more.
func (p *program) runIter(read func(fd int) (int, error)) (err error) {
	attr := attrIterCreate{linkFD: uint32(p.link.fd)}
	fd, err := sysBPF(unix.BPF_ITER_CREATE, &attr)
	if err != nil {
		return fmt.Errorf("open iterator %s: %w", p.name, err)
	}
	d := descriptor{fd}
	defer func() { err = errors.Join(err, d.close()) }()
	for {
		n, err := read(fd)
		switch {
		case err == unix.EINTR, err == unix.EAGAIN: // after a million objects without output
		case err != nil:
			return fmt.Errorf("read iterator %s: %w", p.name, err)
		case n == 0:
			return nil
		}
	}
}
