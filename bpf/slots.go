package bpf

import (
	"cmp"
	"encoding/binary"
)

// Layout of struct key, slot, head and spill_value in src/io.bpf.c.
const (
	ioKeySize  = 32
	ioKeyStart = 0
	ioKeyInode = 8
	ioKeyDev   = 16
	ioKeyGen   = 20
	ioKeyTGID  = 24
	ioKeyKind  = 28

	ioSlotSize  = 64
	ioSlotEpoch = 0
	ioSlotCount = 4
	ioSlotBytes = 8
	ioSlotKey   = 16
	ioSlotPID   = 48
	ioSlotNext  = 52

	ioHeadSize  = 64
	ioHeadEpoch = 0
	ioHeadFirst = 4

	ioSpillKeySize   = 40
	ioSpillValueSize = 24
	ioSpillBytes     = 0
	ioSpillCount     = 8
	ioSpillPID       = 16

	ioKindMask  = 3
	ioKindWrite = 4
)

// transferKey is what a count belongs to, with the number of the reader's PID
// namespace in place of the first one's.
type transferKey struct {
	process  Process
	resource Resource
	write    bool
}

// counted is bytes and operations of one key, seen in one place.
type counted struct {
	key   transferKey
	bytes uint64
	count uint64
}

func (c counted) transfer() Transfer {
	return Transfer{Process: c.key.process, Resource: c.key.resource, Write: c.key.write, Bytes: c.bytes, Count: c.count}
}

// compare is the order of Window.
func (k transferKey) compare(o transferKey) int {
	a, b := &k.resource, &o.resource
	write := 0
	if k.write != o.write {
		write = 1
		if o.write {
			write = -1
		}
	}
	return cmp.Or(
		cmp.Compare(k.process.TGID, o.process.TGID), cmp.Compare(k.process.Start, o.process.Start),
		cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Major, b.Major), cmp.Compare(a.Minor, b.Minor),
		cmp.Compare(a.Inode, b.Inode), cmp.Compare(a.Generation, b.Generation), write,
	)
}

// newKey makes a key of the fields of struct key. It is false for a process that
// has no number here, and for a kind that programs do not write.
func newKey(pid uint32, start, inode uint64, dev, gen, kind uint32) (transferKey, bool) {
	k := Kind(kind & ioKindMask)
	if pid == 0 || k < Pipe || k > File {
		return transferKey{}, false
	}
	return transferKey{
		process: Process{pid, start},
		// The kernel's own encoding of a device, include/linux/kdev_t.h; stat has another.
		resource: Resource{Kind: k, Major: dev >> 20, Minor: dev & (1<<20 - 1), Inode: inode, Generation: gen},
		write:    kind&ioKindWrite != 0,
	}, true
}

// parseKey reads struct key.
func parseKey(b []byte, pid uint32) (transferKey, bool) {
	le := binary.LittleEndian
	return newKey(pid, le.Uint64(b[ioKeyStart:]), le.Uint64(b[ioKeyInode:]), le.Uint32(b[ioKeyDev:]), le.Uint32(b[ioKeyGen:]), le.Uint32(b[ioKeyKind:]))
}

// parseSpill reads struct spill_key and spill_value.
func parseSpill(k, v []byte) (counted, bool) {
	if len(k) < ioSpillKeySize || len(v) < ioSpillValueSize {
		return counted{}, false
	}
	le := binary.LittleEndian
	key, ok := parseKey(k, le.Uint32(v[ioSpillPID:]))
	if !ok {
		return counted{}, false
	}
	return counted{key, le.Uint64(v[ioSpillBytes:]), le.Uint64(v[ioSpillCount:])}, true
}

// slotReader reads the slots of all CPUs and regions while programs write them.
//
// A program may be late: the machine under it was halted in the middle of an
// operation, and it writes a bank that was read already. So a bank is looked at
// twice, and what is more than the first time counts then.
type slotReader struct {
	slots, heads memory
	perBank      int // slots of one bank
	tables       int // CPUs times regions
	epoch        uint32
	firsts       []uint32 // of each table, as they stood when bank was called
	read         []readSlot
}

// readSlot is what was taken out of a slot.
type readSlot struct {
	at    int // offset
	bytes uint64
	count uint32
}

// bank appends what stands in the bank of an epoch.
func (r *slotReader) bank(to []counted, epoch uint32) []counted {
	r.epoch = epoch
	r.read = r.read[:0]
	if r.firsts == nil {
		r.firsts = make([]uint32, r.tables)
	}
	clear(r.firsts)
	return r.walk(to)
}

// late appends what came into that bank after it was read.
func (r *slotReader) late(to []counted) []counted {
	if r.firsts == nil {
		return to
	}
	for i := range r.read {
		to = r.take(to, &r.read[i])
	}
	return r.walk(to)
}

// walk appends the slots that were claimed since the last walk: each table has a
// list of them, the newest first.
func (r *slotReader) walk(to []counted) []counted {
	for t := range r.tables {
		bank := 2*t + int(r.epoch&1)
		if r.heads.u32(bank*ioHeadSize+ioHeadEpoch) != r.epoch {
			continue
		}
		first := r.heads.u32(bank*ioHeadSize + ioHeadFirst)
		next := first
		for n := 0; n < r.perBank && next != r.firsts[t] && next != 0 && next <= uint32(r.perBank); n++ {
			at := (bank*r.perBank + int(next-1)) * ioSlotSize
			r.read = append(r.read, readSlot{at: at})
			to = r.take(to, &r.read[len(r.read)-1])
			next = r.slots.u32(at + ioSlotNext)
		}
		r.firsts[t] = first
	}
	return to
}

// take appends what a slot holds more than was taken before.
func (r *slotReader) take(to []counted, s *readSlot) []counted {
	m := r.slots[s.at : s.at+ioSlotSize]
	if m.u32(ioSlotEpoch) != r.epoch {
		return to
	}
	count, bytes := m.u32(ioSlotCount), m.u64(ioSlotBytes)
	if count == s.count && bytes == s.bytes {
		return to
	}
	const k = ioSlotKey
	key, ok := newKey(m.u32(ioSlotPID), m.u64(k+ioKeyStart), m.u64(k+ioKeyInode), m.u32(k+ioKeyDev), m.u32(k+ioKeyGen), m.u32(k+ioKeyKind))
	if ok {
		to = append(to, counted{key, bytes - s.bytes, uint64(count - s.count)})
	}
	s.bytes, s.count = bytes, count
	return to
}
