package bpf

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// table is a BPF map that this process owns.
type table struct {
	descriptor
	name string
	spec tableSpec
	mem  memory // of a mapped array
}

// createTable makes a map.
func createTable(name string, spec tableSpec) (*table, error) {
	attr := attrMapCreate{
		mapType: spec.kind, keySize: spec.keySize, valueSize: spec.valueSize,
		maxEntries: spec.maxEntries, flags: spec.flags, name: objectName(name),
	}
	var fd int
	err := retryMemlock(func() (err error) {
		fd, err = sysBPF(unix.BPF_MAP_CREATE, &attr)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create map %s: %w", name, err)
	}
	return &table{descriptor: descriptor{fd}, name: name, spec: spec}, nil
}

// stride is the distance of two values in a mapped array.
func (t *table) stride() int { return (int(t.spec.valueSize) + 7) &^ 7 }

// mmap maps an array that was made with BPF_F_MMAPABLE; t.mem is its values.
func (t *table) mmap(writable bool) error {
	page := os.Getpagesize()
	size := (t.stride()*int(t.spec.maxEntries) + page - 1) &^ (page - 1)
	prot := unix.PROT_READ
	if writable {
		prot |= unix.PROT_WRITE
	}
	m, err := unix.Mmap(t.fd, 0, size, prot, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mmap map %s: %w", t.name, err)
	}
	t.mem = m
	return nil
}

func (t *table) close() error {
	var err error
	if t.mem != nil {
		err = unix.Munmap(t.mem)
		t.mem = nil
	}
	return errors.Join(err, t.descriptor.close())
}

// put stores one element.
func (t *table) put(key, value []byte) error {
	if len(key) != int(t.spec.keySize) || len(value) != int(t.spec.valueSize) {
		return fmt.Errorf("update map %s: key of %d and value of %d bytes, want %d and %d", t.name, len(key), len(value), t.spec.keySize, t.spec.valueSize)
	}
	attr := attrMapElem{mapFD: uint32(t.fd), key: unsafe.Pointer(unsafe.SliceData(key)), value: unsafe.Pointer(unsafe.SliceData(value))}
	if _, err := sysBPF(unix.BPF_MAP_UPDATE_ELEM, &attr); err != nil {
		return fmt.Errorf("update map %s: %w", t.name, err)
	}
	return nil
}

// freeze makes the map read-only for system calls, so that the verifier takes
// its values as constants.
func (t *table) freeze() error {
	attr := attrMapElem{mapFD: uint32(t.fd)}
	if _, err := sysBPF(unix.BPF_MAP_FREEZE, &attr); err != nil {
		return fmt.Errorf("freeze map %s: %w", t.name, err)
	}
	return nil
}

// memory is shared with the kernel. Offsets are in bytes and the caller's to
// keep aligned and inside.
type memory []byte

func (m memory) u32(off int) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&m[off : off+4 : off+4][0])))
}

func (m memory) u64(off int) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&m[off : off+8 : off+8][0])))
}

func (m memory) setU32(off int, v uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&m[off : off+4 : off+4][0])), v)
}

func (m memory) setU64(off int, v uint64) {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&m[off : off+8 : off+8][0])), v)
}
