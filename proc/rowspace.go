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
	sum      uint64    // of the mappings of the last reading; 0 before the first
	made     spaceSums // what summary was made of
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
	if r.spaceDue(row.ID, k, want) || r.hasWalked(row.ID, want) {
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

// lacks tells whether the last reading left out what is asked for now: that does not
// wait for the next turn.
func (k *knownSpace) lacks(want Want) bool {
	return want.Maps && !k.read.Maps || want.Mappings && k.mappings == nil && k.err == nil
}

// spaceDue tells whether the maps are to be read as text.
func (r *reader) spaceDue(id ID, k *knownSpace, want Want) bool {
	return (want.Maps || want.Mappings) && (r.now >= k.due || k.lacks(want)) && !r.hasWalked(id, want)
}

// hasWalked tells whether the tables have in this scan what is wanted of the maps.
func (r *reader) hasWalked(id ID, want Want) bool { return r.walked.id == id && !want.Mappings }

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
	case r.hasWalked(row.ID, want):
		k.due += int64(tablesSlack)
		k.summary, k.made, k.err = r.walked.summary, r.walked.sums, nil
		r.noteEpoch(k, k.made.maps)
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
	sums := sumSpace(list)
	if want.Maps {
		k.summary, k.made = k.summarize(list, sums), sums
		if err != nil {
			k.summary = nil // a picture without its upper end would mislead
			k.err = keepErr(old, err)
		}
	}
	r.noteEpoch(k, sums.maps)
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

// Of FNV-1a.
const (
	fnvStart = 14695981039346656037
	fnvPrime = 1099511628211
)

// sumMaps sums what a reading of kinds and one of names both know of the mappings:
// FNV-1a over their numbers.
func sumMaps(list []Mapping) uint64 {
	h := uint64(fnvStart)
	add := func(v uint64) { h = (h ^ v) * fnvPrime }
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

// spaceSums tell all that SummarizeMaps looks at.
type spaceSums struct {
	maps  uint64 // see sumMaps
	kinds uint64 // the same over the kinds
}

func sumSpace(list []Mapping) spaceSums {
	kinds := uint64(fnvStart)
	for i := range list {
		kinds = (kinds ^ uint64(mapKind(&list[i]))) * fnvPrime
	}
	return spaceSums{sumMaps(list), kinds}
}

// summarize is SummarizeMaps that returns what is kept when it is the same. The sums are
// those of list.
func (k *knownSpace) summarize(list []Mapping, sums spaceSums) *MapSummary {
	if k.summary != nil && k.made == sums {
		return k.summary
	}
	made := SummarizeMaps(list)
	if k.summary != nil && slices.Equal(k.summary.Boxes, made.Boxes) && maps.Equal(k.summary.Totals, made.Totals) {
		return k.summary
	}
	return &made
}
