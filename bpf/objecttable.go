package bpf

import (
	delf "debug/elf"
	"errors"
	"fmt"

	"github.com/cilium/ebpf/btf"
)

// tableSpec is a BPF map as an object file declares it.
type tableSpec struct {
	kind       uint32 // BPF_MAP_TYPE_…
	keySize    uint32
	valueSize  uint32
	maxEntries uint32
	flags      uint32 // BPF_F_…
}

// tableSection reads the declarations of .maps: variables whose struct type says
// everything in the types of its members. Numbers are pointers to arrays of that
// length, key and value are pointers to their types.
func (r *objectReader) tableSection(index int, spec *btf.Spec) error {
	var section *btf.Datasec
	if err := spec.TypeByName(".maps", &section); err != nil {
		return err
	}
	declared := map[string]*btf.Struct{}
	for _, v := range section.Vars {
		variable, ok := v.Type.(*btf.Var)
		if !ok {
			return fmt.Errorf("%v is no variable", v.Type)
		}
		s, ok := btf.UnderlyingType(variable.Type).(*btf.Struct)
		if !ok {
			return fmt.Errorf("%s is no struct", variable.Name)
		}
		declared[variable.Name] = s
	}
	for _, sym := range r.in(index, delf.STT_OBJECT) {
		s, ok := declared[sym.Name]
		if !ok {
			return fmt.Errorf("%s has no type", sym.Name)
		}
		t, err := parseTable(s)
		if err != nil {
			return fmt.Errorf("%s: %w", sym.Name, err)
		}
		r.out.tables[sym.Name] = t
		r.tableAt[sym.Value] = sym.Name
	}
	return nil
}

func parseTable(s *btf.Struct) (tableSpec, error) {
	var t tableSpec
	for _, m := range s.Members {
		p, ok := btf.UnderlyingType(m.Type).(*btf.Pointer)
		if !ok {
			return tableSpec{}, fmt.Errorf("member %s is no pointer", m.Name)
		}
		into, number := map[string]*uint32{
			"type": &t.kind, "max_entries": &t.maxEntries, "map_flags": &t.flags,
			"key_size": &t.keySize, "value_size": &t.valueSize,
		}[m.Name]
		switch {
		case number:
			a, ok := btf.UnderlyingType(p.Target).(*btf.Array)
			if !ok {
				return tableSpec{}, fmt.Errorf("member %s is no number", m.Name)
			}
			*into = a.Nelems
		case m.Name == "key" || m.Name == "value":
			n, err := btf.Sizeof(p.Target)
			if err != nil {
				return tableSpec{}, fmt.Errorf("member %s: %w", m.Name, err)
			}
			if m.Name == "key" {
				t.keySize = uint32(n)
			} else {
				t.valueSize = uint32(n)
			}
		default:
			return tableSpec{}, fmt.Errorf("member %s is not understood", m.Name)
		}
	}
	if t.kind == 0 {
		return tableSpec{}, errors.New("no type")
	}
	return t, nil
}
