package bpf

import (
	"fmt"
	"math/bits"
	"os"

	"golang.org/x/sys/unix"
)

// maxTableBytes is what all tables may take of the kernel's memory; a host with so
// many CPUs that they do not fit goes without the sensor. Each of the two objects has
// its share.
const (
	maxTableBytes = 32 << 20
	cpuTableShare = 8 << 20
	cpuSlotShare  = 4 << 20 // of it, for the slots
	ioTableShare  = maxTableBytes - cpuTableShare
)

// bytes is what a table takes of the kernel's memory.
//
// Source: map_mem_usage of kernel/bpf/{arraymap,hashtab,ringbuf}.c, 6.4.
func (t tableSpec) bytes(cpus int) int {
	round8 := func(n uint32) int { return (int(n) + 7) &^ 7 }
	pages := func(n int) int { page := os.Getpagesize(); return (n + page - 1) &^ (page - 1) }
	n := int(t.maxEntries)
	switch t.kind {
	case unix.BPF_MAP_TYPE_ARRAY:
		return pages(n * round8(t.valueSize))
	case unix.BPF_MAP_TYPE_PERCPU_ARRAY:
		return n * (8 + cpus*round8(t.valueSize))
	case unix.BPF_MAP_TYPE_HASH: // all elements are there from the start, and one more for each CPU
		const element, bucket = 48, 16
		buckets := 1 << bits.Len(uint(n-1))
		return (n+cpus)*(element+round8(t.keySize)+round8(t.valueSize)) + buckets*bucket
	case unix.BPF_MAP_TYPE_RINGBUF:
		return n + 3*os.Getpagesize()
	}
	panic(fmt.Sprintf("no size is known for tables of kind %d", t.kind))
}

// sized is the table as create makes it.
func (u *unit) sized(name string) tableSpec {
	if t, ok := u.resized[name]; ok {
		return t
	}
	return u.obj.tables[name]
}

// bytes is what all tables of the unit take of the kernel's memory.
func (u *unit) bytes(cpus int) int {
	sum := 0
	for name := range u.obj.tables {
		sum += u.sized(name).bytes(cpus)
	}
	return sum
}

// tooManyCPUs is the error of a unit whose tables do not fit, whatever is left out.
func (u *unit) tooManyCPUs(cpus, share int) error {
	if got := u.bytes(cpus); got > share {
		return fmt.Errorf("the tables for %d CPUs would take %d MiB of the kernel's memory, more than %d", cpus, got>>20, share>>20)
	}
	return nil
}

// slotsPerBank is the largest power of two up to want with which two banks in each of
// the tables take at most so many bytes, and at least one.
func slotsPerBank(want, tables, slot, most int) int {
	n := 1
	for 2*n <= want && 2*2*n*tables*slot <= most {
		n *= 2
	}
	return n
}
