package bpf

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// batch empties hash tables; its buffers are kept from one time to the next.
type batch struct {
	table        *table
	keys, values []byte
}

// batchLen is the number of elements asked for at once. A bucket that holds more
// is answered with ENOSPC, and none of ours can.
const batchLen = 4096

// take deletes every element and shows it to f, whose slices are valid in the
// call only.
//
// Shape: an element that is added meanwhile may be shown or left.
func (b *batch) take(f func(key, value []byte)) error {
	spec := b.table.spec
	n := min(int(spec.maxEntries), batchLen)
	if b.keys == nil {
		b.keys = make([]byte, n*int(spec.keySize))
		b.values = make([]byte, n*int(spec.valueSize))
	}
	var cursor [2]uint32
	attr := attrBatch{
		outBatch: unsafe.Pointer(&cursor[0]), mapFD: uint32(b.table.fd),
		keys: unsafe.Pointer(unsafe.SliceData(b.keys)), values: unsafe.Pointer(unsafe.SliceData(b.values)),
	}
	for {
		attr.count = uint32(n)
		_, err := sysBPF(unix.BPF_MAP_LOOKUP_AND_DELETE_BATCH, &attr)
		end := errors.Is(err, unix.ENOENT)
		if err != nil && !end {
			return fmt.Errorf("empty map %s: %w", b.table.name, err)
		}
		ks, vs := int(spec.keySize), int(spec.valueSize)
		for i := range min(int(attr.count), n) {
			f(b.keys[i*ks:(i+1)*ks], b.values[i*vs:(i+1)*vs])
		}
		if end {
			return nil
		}
		attr.inBatch = attr.outBatch
	}
}
