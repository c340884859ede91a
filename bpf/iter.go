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
	attr := attrIterCreate{linkFD: uint32(p.link.fd)}
	fd, err := sysBPF(unix.BPF_ITER_CREATE, &attr)
	if err != nil {
		return buf, fmt.Errorf("open iterator %s: %w", p.name, err)
	}
	d := descriptor{fd}
	defer func() { err = errors.Join(err, d.close()) }()
	for {
		buf = slices.Grow(buf, iterPiece)
		n, err := unix.Read(fd, buf[len(buf):cap(buf)])
		switch {
		case err == unix.EINTR, err == unix.EAGAIN: // after a million objects without output
		case err != nil:
			return buf, fmt.Errorf("read iterator %s: %w", p.name, err)
		case n == 0:
			return buf, nil
		default:
			buf = buf[:len(buf)+n]
		}
	}
}
