package proc

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	// maxListedMaps is how many mappings of one process a scan keeps.
	maxListedMaps = 4096
	// maxHostMaps is how many it keeps of all processes together; one is about 150
	// bytes, and ten times that in an answer.
	maxHostMaps = 131_072
	// maxKeptMaps is how large a buffer of mappings stays for the next process.
	maxKeptMaps = 65_536
)

var (
	// ErrHeld says that the kernel holds whoever reads the process, or so many
	// readers that no further one is risked.
	ErrHeld = errors.New("the kernel holds whoever reads this")

	errHostMaps = fmt.Errorf("more than %d mappings of all processes: %w", maxHostMaps, ErrTruncated)
)

// knownSpace is what a scanner keeps of an address space from scan to scan.
type knownSpace struct {
	summary  *MapSummary
	mappings *Mappings
	sum      uint64 // of the mappings of the last reading; 0 before the first
	epoch    uint64
	err      error
	due      int64
	read     Want // what the last reading was for
}

// space fills in what was asked for of the maps, from the last reading unless that
// is due again.
func (r *reader) space(row *Row, k *knownSpace, want Want) error {
	if !want.Mappings {
		k.mappings = nil // nobody looks at them, and they are large
	}
	if !want.Maps && !want.Mappings {
		return nil
	}
	if r.spaceDue(k, want) {
		if err := r.readSpace(row, k, want); err != nil {
			return err
		}
	}
	row.MapsEpoch, row.MapsErr = k.epoch, k.err
	if want.Maps {
		row.Maps = k.summary
	}
	if want.Mappings && k.mappings != nil {
		if r.mappings += len(k.mappings.Maps); r.mappings > maxHostMaps {
			r.mappings -= len(k.mappings.Maps)
			row.MapsErr = errHostMaps
			return nil
		}
		row.Mappings = k.mappings
	}
	return nil
}

// spaceDue tells whether the maps are to be read.
func (r *reader) spaceDue(k *knownSpace, want Want) bool {
	return (want.Maps || want.Mappings) && (r.now >= k.due || k.lacks(want))
}

// lacks tells whether the last reading left out what is asked for now: that does not
// wait for the next turn.
func (k *knownSpace) lacks(want Want) bool {
	return want.Maps && !k.read.Maps || want.Mappings && k.mappings == nil && k.err == nil
}

var noMappings = &Mappings{Maps: []Mapping{}}

// readSpace reads the maps anew.
func (r *reader) readSpace(row *Row, k *knownSpace, want Want) error {
	k.due = r.now + int64(mapsAge) + spread(row.ID)%int64(time.Second)
	k.read = want
	switch {
	case row.KernelThread:
		if r.none == nil {
			none := SummarizeMaps(nil)
			r.none = &none
		}
		k.summary, k.mappings, k.err = r.none, noMappings, nil
		r.noteEpoch(k, 1)
		return nil
	case row.State == 'Z' || row.State == 'X':
		k.summary, k.mappings, k.err = nil, nil, nil
		if want.Mappings {
			k.mappings = noMappings // it has given its memory back
		}
		r.noteEpoch(k, 1)
		return nil
	}
	turn, ok := r.turn.enter(row)
	if !ok {
		k.forget(ErrHeld)
		return nil
	}
	read := r.proc.readMapKinds
	if want.Mappings {
		read = r.proc.ReadMaps
	}
	list, err := read(r.maps[:0])
	if !r.turn.leave(turn) {
		return ErrLeft
	}
	r.maps = list
	if err != nil && !errors.Is(err, ErrTruncated) {
		k.forget(err)
		return nil
	}
	old := k.err
	k.err = nil
	r.noteEpoch(k, sumMaps(list))
	if want.Maps {
		sum := SummarizeMaps(list)
		if k.summary == nil || !slices.Equal(k.summary.Boxes, sum.Boxes) || !maps.Equal(k.summary.Totals, sum.Totals) {
			k.summary = &sum
		}
		if err != nil {
			k.summary = nil // a picture without its upper end would mislead
			k.err = keepErr(old, err)
		}
	}
	if want.Mappings {
		r.keepMappings(k, list)
	}
	if cap(r.maps) > maxKeptMaps {
		r.maps = nil
	}
	return nil
}

// keepMappings keeps the first mappings of list unless they are kept already.
func (r *reader) keepMappings(k *knownSpace, list []Mapping) {
	first := list[:min(len(list), maxListedMaps)]
	if m := k.mappings; m != nil && m.Total == len(list) && slices.Equal(m.Maps, first) {
		return
	}
	if k.mappings != nil {
		// A name may have changed alone, which the sum does not see.
		r.epoch++
		k.epoch = r.epoch
	}
	k.mappings = &Mappings{Maps: slices.Clone(first), Total: len(list)}
}

// forget notes why nothing is known. The epoch stays: whether the maps changed is
// not known either.
func (k *knownSpace) forget(err error) {
	k.summary, k.mappings = nil, nil
	k.err = keepErr(k.err, err)
}

// keepErr returns the old error when it says the same, so that rows stay equal.
func keepErr(old, err error) error {
	if old != nil && old.Error() == err.Error() {
		return old
	}
	return err
}

// noteEpoch gives a new number when the sum of the mappings is another.
func (r *reader) noteEpoch(k *knownSpace, sum uint64) {
	if k.epoch != 0 && k.sum == sum {
		return
	}
	r.epoch++
	k.sum, k.epoch = sum, r.epoch
}

// sumMaps sums what a reading of kinds and one of names both know of the mappings:
// FNV-1a over their numbers.
func sumMaps(list []Mapping) uint64 {
	const prime = 1099511628211
	h := uint64(14695981039346656037)
	add := func(v uint64) { h = (h ^ v) * prime }
	for i := range list {
		m := &list[i]
		add(m.Start)
		add(m.End)
		add(uint64(m.Permissions[0]) | uint64(m.Permissions[1])<<8 | uint64(m.Permissions[2])<<16 | uint64(m.Permissions[3])<<24)
		add(m.FileOffset)
		add(uint64(m.Major)<<32 | uint64(m.Minor))
		add(m.Inode)
	}
	return h
}
