package bpf

import (
	"bytes"
	delf "debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// object is a parsed object file. It is never changed, and asks the kernel nothing.
type object struct {
	license   string
	tables    map[string]tableSpec
	data      map[string]dataSpec  // by section name
	functions map[string]*function // programs and what they call
}

// function is one function of an object file, before relocation.
type function struct {
	name    string
	section string // ".text" for what is only called
	insns   asm.Instructions
	refs    []reference // by at
}

// isProgram says whether the function has an attach point of its own.
func (f *function) isProgram() bool { return f.section != ".text" }

// reference is an instruction that a name stands behind.
type reference struct {
	at     int // index in insns
	kind   referenceKind
	name   string
	offset uint32 // in a data section
}

type referenceKind uint8

const (
	toTable referenceKind = iota
	toData
	toFunction
	toKernel // a kfunc
)

// dataSpec is a section of global variables.
type dataSpec struct {
	contents  []byte // zero for .bss
	readOnly  bool
	variables map[string]span
}

type span struct{ offset, size int }

// Relocation types of BPF objects, Documentation/bpf/llvm_reloc.rst.
const (
	relocLoad64 = 1  // R_BPF_64_64
	relocCall   = 10 // R_BPF_64_32
)

// objectLimit bounds an object file; ours are a tenth of it.
const objectLimit = 4 << 20

// dataLimit bounds a section of variables, which for .bss is not in the file.
const dataLimit = 1 << 20

// parseObject reads an object file as clang writes them for -target bpf.
//
// Errors: whatever in the file is not understood, with the section it is in.
func parseObject(raw []byte) (*object, error) {
	if len(raw) > objectLimit {
		return nil, fmt.Errorf("object of %d bytes is too large", len(raw))
	}
	file, err := delf.NewFile(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	if file.Class != delf.ELFCLASS64 || file.Data != delf.ELFDATA2LSB || file.Machine != delf.EM_BPF || file.Type != delf.ET_REL {
		return nil, fmt.Errorf("read object: %v %v %v %v is no BPF object", file.Class, file.Data, file.Machine, file.Type)
	}
	spec, info, err := btf.LoadSpecAndExtInfosFromReader(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("read types of object: %w", err)
	}
	symbols, err := file.Symbols()
	if err != nil {
		return nil, fmt.Errorf("read symbols of object: %w", err)
	}
	r := objectReader{
		file: file, symbols: symbols, info: info,
		tableAt: map[uint64]string{}, functionAt: map[place]string{},
		out: &object{tables: map[string]tableSpec{}, data: map[string]dataSpec{}, functions: map[string]*function{}},
	}
	for i, s := range file.Sections {
		if err := r.section(i, s, spec); err != nil {
			return nil, fmt.Errorf("section %s: %w", s.Name, err)
		}
	}
	for _, s := range file.Sections {
		if err := r.relocations(s); err != nil {
			return nil, fmt.Errorf("section %s: %w", s.Name, err)
		}
	}
	for _, f := range r.out.functions {
		slices.SortFunc(f.refs, func(a, b reference) int { return a.at - b.at })
		if err := r.localCalls(f); err != nil {
			return nil, fmt.Errorf("function %s: %w", f.name, err)
		}
	}
	if r.out.license == "" {
		return nil, errors.New("read object: no license section")
	}
	return r.out, nil
}

// place is a position in a section.
type place struct {
	section int
	offset  uint64
}

type objectReader struct {
	file       *delf.File
	symbols    []delf.Symbol // without the null symbol: number n is at n-1
	info       *btf.ExtInfos
	tableAt    map[uint64]string
	functionAt map[place]string
	starts     map[string]uint64 // of functions, in their section
	out        *object
}

// contents reads a section; debug/elf does not bound what NOBITS claims.
func contents(s *delf.Section) ([]byte, error) {
	if s.Flags&delf.SHF_COMPRESSED != 0 {
		return nil, errors.New("is compressed")
	}
	if s.Size > objectLimit {
		return nil, fmt.Errorf("%d bytes are too many", s.Size)
	}
	if s.Type == delf.SHT_NOBITS {
		if s.Size > dataLimit {
			return nil, fmt.Errorf("%d bytes are too many", s.Size)
		}
		return make([]byte, s.Size), nil
	}
	b := make([]byte, s.Size)
	if _, err := io.ReadFull(io.NewSectionReader(s, 0, int64(s.Size)), b); err != nil {
		return nil, err
	}
	return b, nil
}

func isData(name string) bool {
	for _, p := range []string{".data", ".rodata", ".bss"} {
		if name == p || strings.HasPrefix(name, p+".") {
			return true
		}
	}
	return false
}

func (r *objectReader) section(index int, s *delf.Section, spec *btf.Spec) error {
	switch {
	case s.Name == "license":
		b, err := contents(s)
		if err != nil {
			return err
		}
		r.out.license = logText(b)
	case s.Name == ".maps":
		return r.tableSection(index, spec)
	case isData(s.Name) && s.Flags&delf.SHF_ALLOC != 0 && s.Size > 0:
		return r.dataSection(index, s)
	case s.Type == delf.SHT_PROGBITS && s.Flags&delf.SHF_EXECINSTR != 0 && s.Size > 0:
		return r.codeSection(index, s)
	}
	return nil
}

// in returns the symbols of one kind in a section.
func (r *objectReader) in(section int, kind delf.SymType) []delf.Symbol {
	var in []delf.Symbol
	for _, s := range r.symbols {
		if int(s.Section) == section && delf.ST_TYPE(s.Info) == kind && s.Name != "" {
			in = append(in, s)
		}
	}
	slices.SortStableFunc(in, func(a, b delf.Symbol) int {
		switch {
		case a.Value < b.Value:
			return -1
		case a.Value > b.Value:
			return 1
		}
		return 0
	})
	return in
}

func (r *objectReader) dataSection(index int, s *delf.Section) error {
	if _, again := r.out.data[s.Name]; again {
		return errors.New("twice")
	}
	b, err := contents(s)
	if err != nil {
		return err
	}
	d := dataSpec{contents: b, readOnly: s.Flags&delf.SHF_WRITE == 0, variables: map[string]span{}}
	for _, sym := range r.in(index, delf.STT_OBJECT) {
		if sym.Value > uint64(len(b)) || sym.Size > uint64(len(b))-sym.Value {
			return fmt.Errorf("variable %s lies outside", sym.Name)
		}
		d.variables[sym.Name] = span{int(sym.Value), int(sym.Size)}
	}
	r.out.data[s.Name] = d
	return nil
}

func (r *objectReader) codeSection(index int, s *delf.Section) error {
	b, err := contents(s)
	if err != nil {
		return err
	}
	funcs, lines, relos := r.info.Section(s.Name)
	if r.starts == nil {
		r.starts = map[string]uint64{}
	}
	end := uint64(0)
	for _, sym := range r.in(index, delf.STT_FUNC) {
		if sym.Value%asm.InstructionSize != 0 || sym.Size%asm.InstructionSize != 0 || sym.Size == 0 {
			return fmt.Errorf("function %s is not made of whole instructions", sym.Name)
		}
		if sym.Value < end || sym.Value > uint64(len(b)) || sym.Size > uint64(len(b))-sym.Value {
			return fmt.Errorf("function %s lies outside or in another", sym.Name)
		}
		end = sym.Value + sym.Size
		if _, again := r.out.functions[sym.Name]; again {
			return fmt.Errorf("function %s is there twice", sym.Name)
		}
		insns, err := asm.AppendInstructions(nil, bytes.NewReader(b[sym.Value:end]), binary.LittleEndian, "linux")
		if err != nil {
			return fmt.Errorf("function %s: %w", sym.Name, err)
		}
		f := &function{name: sym.Name, section: s.Name, insns: insns}
		from, to := asm.RawInstructionOffset(sym.Value/asm.InstructionSize), asm.RawInstructionOffset(end/asm.InstructionSize)
		f.annotate(from, to, funcs, lines, relos)
		r.out.functions[sym.Name] = f
		r.functionAt[place{index, sym.Value}] = sym.Name
		r.starts[sym.Name] = sym.Value
	}
	return nil
}

// annotate puts the notes of .BTF.ext, whose offsets count from the section's
// start, on the instructions of f.
func (f *function) annotate(from, to asm.RawInstructionOffset, funcs btf.FuncOffsets, lines btf.LineOffsets, relos btf.CORERelocationOffsets) {
	at := map[asm.RawInstructionOffset]int{}
	iter := f.insns.Iterate()
	for iter.Next() {
		at[from+iter.Offset] = iter.Index
	}
	f.insns[0] = f.insns[0].WithSymbol(f.name)
	for _, o := range funcs {
		if i, ok := at[o.Offset]; ok && o.Offset == from {
			f.insns[i] = btf.WithFuncMetadata(f.insns[i], o.Func)
		}
	}
	for _, o := range lines {
		if i, ok := at[o.Offset]; ok && o.Offset < to {
			f.insns[i] = f.insns[i].WithSource(o.Line)
		}
	}
	for _, o := range relos {
		if i, ok := at[o.Offset]; ok && o.Offset < to {
			f.insns[i] = btf.WithCORERelocationMetadata(f.insns[i], o.Relo)
		}
	}
}
