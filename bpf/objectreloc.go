package bpf

import (
	delf "debug/elf"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf/asm"
)

// relocations resolves what one relocation section says about a code section.
// Clang writes SHT_REL: the addend is in the instruction.
func (r *objectReader) relocations(s *delf.Section) error {
	if s.Type != delf.SHT_REL && s.Type != delf.SHT_RELA {
		return nil
	}
	if int(s.Info) >= len(r.file.Sections) {
		return fmt.Errorf("relocates section %d, which is not there", s.Info)
	}
	code := r.file.Sections[s.Info]
	if code.Flags&delf.SHF_EXECINSTR == 0 {
		return nil // .BTF.ext and debug sections, whose readers know their offsets
	}
	if s.Type != delf.SHT_REL {
		return errors.New("relocations with addends are not understood")
	}
	b, err := contents(s)
	if err != nil {
		return err
	}
	const entry = 16 // Elf64_Rel
	if len(b)%entry != 0 {
		return fmt.Errorf("%d bytes are no whole relocations", len(b))
	}
	for ; len(b) > 0; b = b[entry:] {
		offset, info := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		n := info >> 32
		if n == 0 || n > uint64(len(r.symbols)) {
			return fmt.Errorf("symbol %d is not there", n)
		}
		if err := r.relocate(int(s.Info), offset, uint32(info), &r.symbols[n-1]); err != nil {
			return fmt.Errorf("offset %#x: %w", offset, err)
		}
	}
	return nil
}

// instruction finds the function and the index of a section's instruction.
func (r *objectReader) instruction(section int, offset uint64) (*function, int, bool) {
	for at, name := range r.functionAt {
		f := r.out.functions[name]
		if at.section != section || offset < at.offset || offset >= at.offset+f.insns.Size() {
			continue
		}
		want := offset - at.offset
		iter := f.insns.Iterate()
		for iter.Next() {
			if iter.Offset.Bytes() == want {
				return f, iter.Index, true
			}
		}
	}
	return nil, 0, false
}

func (r *objectReader) relocate(section int, offset uint64, kind uint32, sym *delf.Symbol) error {
	f, i, ok := r.instruction(section, offset)
	if !ok {
		return errors.New("no instruction of a function")
	}
	ins := &f.insns[i]
	ref := reference{at: i}
	switch kind {
	case relocCall:
		if ins.OpCode.JumpOp() != asm.Call {
			return fmt.Errorf("%v is no call", ins.OpCode)
		}
		if sym.Section == delf.SHN_UNDEF {
			ref.kind, ref.name = toKernel, sym.Name
			break
		}
		to := uint64(int64(sym.Value) + (ins.Constant+1)*asm.InstructionSize)
		name, ok := r.functionAt[place{int(sym.Section), to}]
		if !ok {
			return fmt.Errorf("no function at %#x of section %d", to, sym.Section)
		}
		ref.kind, ref.name = toFunction, name
	case relocLoad64:
		if !ins.OpCode.IsDWordLoad() {
			return fmt.Errorf("%v loads no address", ins.OpCode)
		}
		if int(sym.Section) >= len(r.file.Sections) || sym.Section == delf.SHN_UNDEF {
			return fmt.Errorf("%s is not in this object", sym.Name)
		}
		to := sym.Value + uint64(ins.Constant)
		target := r.file.Sections[sym.Section].Name
		if target == ".maps" {
			name, ok := r.tableAt[to]
			if !ok {
				return fmt.Errorf("no map at %#x", to)
			}
			ref.kind, ref.name = toTable, name
			break
		}
		d, ok := r.out.data[target]
		if !ok {
			return fmt.Errorf("address in section %s", target)
		}
		if to >= uint64(len(d.contents)) {
			return fmt.Errorf("offset %#x is outside section %s", to, target)
		}
		ref.kind, ref.name, ref.offset = toData, target, uint32(to)
	default:
		return fmt.Errorf("relocation type %d is not understood", kind)
	}
	f.refs = append(f.refs, ref)
	return nil
}

// localCalls finds calls inside one section, which have no relocation: their
// distance is in the instruction.
func (r *objectReader) localCalls(f *function) error {
	known := map[int]bool{}
	for _, ref := range f.refs {
		if known[ref.at] {
			return fmt.Errorf("instruction %d is relocated twice", ref.at)
		}
		known[ref.at] = true
	}
	section, start := -1, r.starts[f.name]
	for at, name := range r.functionAt {
		if name == f.name {
			section = at.section
		}
	}
	iter := f.insns.Iterate()
	for iter.Next() {
		if !iter.Ins.IsFunctionCall() || known[iter.Index] {
			continue
		}
		to := uint64(int64(start) + int64(iter.Offset.Bytes()) + (iter.Ins.Constant+1)*asm.InstructionSize)
		name, ok := r.functionAt[place{section, to}]
		if !ok {
			return fmt.Errorf("call to %#x, where no function begins", to)
		}
		f.refs = append(f.refs, reference{at: iter.Index, kind: toFunction, name: name})
	}
	return nil
}
