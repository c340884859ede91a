package bpf

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ring reads a BPF ring buffer: a page that we write the consumer's position to,
// a page with the producer's, and the data twice in a row, so that a record that
// wraps is still in one piece. Documentation/bpf/ringbuf.rst, 5.8.
type ring struct {
	consumer memory
	producer memory // the page and twice the data
	size     int    // of the data, a power of two
}

// openRing maps the ring behind t, which keeps its descriptor.
func openRing(t *table) (*ring, error) {
	page, size := os.Getpagesize(), int(t.spec.maxEntries)
	consumer, err := unix.Mmap(t.fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap ring %s: %w", t.name, err)
	}
	producer, err := unix.Mmap(t.fd, int64(page), page+2*size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		unix.Munmap(consumer)
		return nil, fmt.Errorf("mmap ring %s: %w", t.name, err)
	}
	return &ring{consumer: consumer, producer: producer, size: size}, nil
}

// errRing says that a ring is not as the kernel makes it.
var errRing = errors.New("ring: broken record header")

// read shows every record that is complete to f, whose slice is valid in the
// call only.
func (r *ring) read(f func([]byte)) error {
	if r.consumer == nil {
		return ErrClosed
	}
	at, end := r.consumer.u64(0), r.producer.u64(0)
	err := readRecords(r.producer[os.Getpagesize():], uint64(r.size), &at, end, f)
	r.consumer.setU64(0, at)
	return err
}

// readRecords walks from *at to end and leaves *at behind the last record shown.
func readRecords(data memory, size uint64, at *uint64, end uint64, f func([]byte)) error {
	const header = unix.BPF_RINGBUF_HDR_SZ
	if end-*at > size || *at%8 != 0 {
		return errRing
	}
	for *at != end {
		if end-*at < header {
			return errRing
		}
		off := *at & (size - 1)
		h := data.u32(int(off))
		if h&unix.BPF_RINGBUF_BUSY_BIT != 0 {
			return nil // still being written
		}
		length := uint64(h &^ (unix.BPF_RINGBUF_BUSY_BIT | unix.BPF_RINGBUF_DISCARD_BIT))
		step := (length + header + 7) &^ 7
		if step > end-*at {
			return errRing
		}
		if h&unix.BPF_RINGBUF_DISCARD_BIT == 0 {
			f(data[off+header : off+header+length])
		}
		*at += step
	}
	return nil
}

func (r *ring) close() error {
	if r.consumer == nil {
		return nil
	}
	err := errors.Join(unix.Munmap(r.consumer), unix.Munmap(r.producer))
	r.consumer, r.producer = nil, nil
	return err
}
