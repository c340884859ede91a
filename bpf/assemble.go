package bpf

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"
)

// closure returns the function and everything it calls, each once, itself first.
func (o *object) closure(f *function) ([]*function, error) {
	all := []*function{f}
	for i := 0; i < len(all); i++ {
		for _, ref := range all[i].refs {
			if ref.kind != toFunction {
				continue
			}
			callee, ok := o.functions[ref.name]
			if !ok {
				return nil, fmt.Errorf("%s calls %s, which is not there", all[i].name, ref.name)
			}
			if !slices.Contains(all, callee) {
				all = append(all, callee)
			}
		}
	}
	return all, nil
}

// uses returns what the named programs refer to, without the places.
func (o *object) uses(programs []string) (map[reference]bool, error) {
	used := map[reference]bool{}
	for _, name := range programs {
		f, ok := o.functions[name]
		if !ok || !f.isProgram() {
			return nil, fmt.Errorf("no program %s", name)
		}
		all, err := o.closure(f)
		if err != nil {
			return nil, err
		}
		for _, f := range all {
			for _, ref := range f.refs {
				used[reference{kind: ref.kind, name: ref.name}] = true
			}
		}
	}
	return used, nil
}

// link appends the functions that f calls and puts descriptors, offsets and
// kernel functions where names were.
func (u *unit) link(f *function) (asm.Instructions, error) {
	all, err := u.obj.closure(f)
	if err != nil {
		return nil, err
	}
	var insns asm.Instructions
	for _, f := range all {
		from := len(insns)
		insns = append(insns, f.insns...)
		for _, ref := range f.refs {
			if err := u.resolve(&insns[from+ref.at], ref); err != nil {
				return nil, err
			}
		}
	}
	return insns, nil
}

func (u *unit) resolve(ins *asm.Instruction, ref reference) error {
	switch ref.kind {
	case toTable:
		t, ok := u.tables[ref.name]
		if !ok {
			return fmt.Errorf("map %s was not created", ref.name)
		}
		ins.Src, ins.Constant = asm.PseudoMapFD, int64(t.fd)
	case toData:
		t, ok := u.data[ref.name]
		if !ok {
			return fmt.Errorf("section %s was not created", ref.name)
		}
		ins.Src, ins.Constant = asm.PseudoMapValue, int64(uint64(ref.offset)<<32|uint64(uint32(t.fd)))
	case toFunction:
		*ins = ins.WithReference(ref.name)
		ins.Src, ins.Constant = asm.PseudoCall, -1
	case toKernel:
		_, id, err := functionID(u.kernel, ref.name)
		if err != nil {
			return err
		}
		ins.Src, ins.Constant, ins.Offset = asm.PseudoKfuncCall, int64(id), 0
	}
	return nil
}
