package ptrace

import (
	"sort"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

// Kind says what a value would point to.
type Kind string

const (
	KindInteger   Kind = "integer" // nothing is mapped there
	KindStack     Kind = "stack"   // of any thread
	KindHeap      Kind = "heap"    // the one that brk(2) grows
	KindLibrary   Kind = "shared_library"
	KindProgram   Kind = "executable"
	KindFile      Kind = "file" // mapped data
	KindAnonymous Kind = "anonymous"
)

// Register is one register with what its value would point to.
//
// Absent: Mapping is nil and Offset 0 for an integer.
type Register struct {
	Name    string
	Value   uint64
	Kind    Kind
	Mapping *proc.Mapping // of the snapshot
	Offset  uint64        // bytes from the start of Mapping
}

const maxStackMapping = 16 << 20 // bytes of an anonymous mapping that is taken for a thread's stack whole

// kinds classifies addresses by the mappings of one snapshot.
type kinds struct {
	maps    []proc.Mapping
	stacks  map[int]bool   // positions in maps
	pieces  []Copy         // stacks within larger mappings
	code    map[inode]bool // files that are mapped executable
	program inode
}

type inode struct {
	major, minor uint32
	number       uint64
}

func inodeOf(m *proc.Mapping) inode { return inode{m.Major, m.Minor, m.Inode} }

// newKinds prepares the classification. program is an address in the code of the
// executable.
func newKinds(raw *Raw) *kinds {
	k := &kinds{maps: raw.Maps, stacks: map[int]bool{}, code: map[inode]bool{}}
	if m := k.mapping(raw.program); m != nil {
		k.program = inodeOf(m)
	}
	for i := range k.maps {
		if m := &k.maps[i]; m.Permissions[2] == 'x' && m.Inode != 0 {
			k.code[inodeOf(m)] = true
		}
	}
	for i := range raw.Threads {
		t := &raw.Threads[i]
		if !t.Registers {
			continue
		}
		at := k.find(t.Regs.Rsp)
		if at < 0 || k.maps[at].Inode != 0 {
			continue
		}
		if m := &k.maps[at]; m.End-m.Start <= maxStackMapping {
			k.stacks[at] = true
		} else {
			// Stacks that lie in a heap, as those of goroutines do.
			k.pieces = append(k.pieces, t.Stack)
		}
	}
	sort.Slice(k.pieces, func(i, j int) bool { return k.pieces[i].Address < k.pieces[j].Address })
	return k
}

func (k *kinds) find(addr uint64) int {
	i := sort.Search(len(k.maps), func(i int) bool { return k.maps[i].End > addr })
	if i == len(k.maps) || addr < k.maps[i].Start {
		return -1
	}
	return i
}

func (k *kinds) mapping(addr uint64) *proc.Mapping {
	if i := k.find(addr); i >= 0 {
		return &k.maps[i]
	}
	return nil
}

// of says what addr points to.
func (k *kinds) of(addr uint64) (Kind, *proc.Mapping) {
	i := k.find(addr)
	if i < 0 {
		return KindInteger, nil
	}
	m := &k.maps[i]
	switch {
	case m.Path == "[stack]" || k.stacks[i] || k.inPiece(addr):
		return KindStack, m
	case m.Path == "[heap]":
		return KindHeap, m
	case m.Path == "[vdso]":
		return KindLibrary, m
	case m.Inode == 0:
		return KindAnonymous, m
	case k.program == inodeOf(m):
		return KindProgram, m
	case k.code[inodeOf(m)]:
		return KindLibrary, m
	}
	return KindFile, m
}

func (k *kinds) inPiece(addr uint64) bool {
	i := sort.Search(len(k.pieces), func(i int) bool { return k.pieces[i].Address > addr })
	return i > 0 && addr-k.pieces[i-1].Address < uint64(len(k.pieces[i-1].Bytes))
}

// registers lists the registers in the order people read them. RFLAGS points
// nowhere.
func (k *kinds) registers(r *unix.PtraceRegs) []Register {
	list := []Register{
		{Name: "RIP", Value: r.Rip}, {Name: "RSP", Value: r.Rsp}, {Name: "RBP", Value: r.Rbp},
		{Name: "RAX", Value: r.Rax}, {Name: "RBX", Value: r.Rbx}, {Name: "RCX", Value: r.Rcx}, {Name: "RDX", Value: r.Rdx},
		{Name: "RSI", Value: r.Rsi}, {Name: "RDI", Value: r.Rdi},
		{Name: "R8", Value: r.R8}, {Name: "R9", Value: r.R9}, {Name: "R10", Value: r.R10}, {Name: "R11", Value: r.R11},
		{Name: "R12", Value: r.R12}, {Name: "R13", Value: r.R13}, {Name: "R14", Value: r.R14}, {Name: "R15", Value: r.R15},
		{Name: "RFLAGS", Value: r.Eflags, Kind: KindInteger},
	}
	for i := range list[:len(list)-1] {
		v := &list[i]
		if v.Kind, v.Mapping = k.of(v.Value); v.Mapping != nil {
			v.Offset = v.Value - v.Mapping.Start
		}
	}
	return list
}
