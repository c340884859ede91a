package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// Sizes and positions in src/mappings.bpf.c.
const (
	mappingSize   = 56
	mappingTGID   = 0
	mappingBits   = 4
	mappingBegun  = 8
	mappingStart  = 16
	mappingEnd    = 24
	mappingOffset = 32
	mappingInode  = 40
	mappingDev    = 48

	mappingShared    = 1 << 3
	mappingName      = 4 // from this bit on, and the mask of its bits
	mappingNames     = 7
	mappingVsyscall  = 1 << 7
	mappingUnsettled = 1 << 8
)

// mappingNamed are stand-ins for the names of maps by enum mapping_name; what is beyond is
// none.
var mappingNamed = [mappingNames + 1]string{"", "/", "[heap]", "[stack]", "[vdso]", "[special]"}

// Mapping is one mapping as the kernel's tables have it. The process ID is that of the
// reader's PID namespace.
type Mapping struct {
	PID   int32
	Begun uint64 // ns, start_boottime of the leader, in the first time namespace

	Start, End   uint64 // addresses, half-open
	Permissions  [4]byte
	FileOffset   uint64 // bytes; 0 of what is no file
	Major, Minor uint32 // of the file's device, as in maps
	Inode        uint64

	// Name stands for the name in maps: "" for none or one that a program gave to memory,
	// "/" for any file, [heap] and [stack], [vdso] for that and its data, [special] for
	// any other that the kernel gives.
	Name string
	// Unsettled says that kernels differ in whether maps calls this [heap].
	Unsettled bool
	// Vsyscall says that the process has the mapping [vsyscall], where the host has one: it
	// is in no table.
	Vsyscall bool
}

// Mappings reads the mappings of all processes from the kernel's own tables. Not safe
// for concurrent use.
//
// Effect on the targets: the mmap lock of one at a time is taken for reading, and let go
// when somebody waits for it. A target whose lock is held makes the reader wait as long.
// Source: bpf_iter_task_vma, kernel/bpf/task_iter.c, 5.12.
type Mappings struct {
	unit *unit
	walk *program
	buf  []byte
	list []Mapping
}

// OpenMappings loads the iterator.
//
// Errors: why there is none here, in words for people.
func OpenMappings() (*Mappings, error) {
	m, err := openMappings()
	if errors.Is(err, errUnsafeWalk) {
		return nil, err
	}
	if err != nil {
		return nil, errors.New(explain(err).Reason)
	}
	return m, nil
}

// errUnsafeWalk is about a mistake of the kernel: see holdsSpaces.
var errUnsafeWalk = errors.New("this kernel's iterator over mappings fails when a process ends below it (mended in Linux 6.2 and its stable kernels)")

func openMappings() (_ *Mappings, err error) {
	if has, initial := mayLoad(); !has || !initial {
		return nil, unix.EPERM
	}
	kernel, err := loadKernel()
	if err != nil {
		return nil, err
	}
	if _, _, err := functionID(kernel, "bpf_iter_task_vma"); err != nil {
		return nil, err
	}
	if !holdsSpaces(kernel) {
		return nil, errUnsafeWalk
	}
	obj, err := parseObject(mappingsObject)
	if err != nil {
		return nil, err
	}
	namespace, err := pidNamespace()
	if err != nil {
		return nil, err
	}
	m := &Mappings{unit: newUnit(obj, kernel), buf: make([]byte, iterPiece+mappingSize)}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	u := m.unit
	if err = u.set("ns_inum", uint64(namespace)); err != nil {
		return nil, err
	}
	if err = u.create(); err != nil {
		return nil, err
	}
	if m.walk, err = u.load("mappings"); err != nil {
		return nil, err
	}
	if err = m.walk.attachIter(); err != nil {
		return nil, err
	}
	u.release()
	return m, nil
}

// holdsSpaces tells whether the iterator keeps the address space that it walks: one that
// asks the task for it follows a null pointer once that has ended.
//
// Source: 7ff94f276f8e "bpf: keep a reference to the mm, in case the task is dead.", 6.2.
func holdsSpaces(kernel *btf.Spec) bool {
	var info *btf.Struct
	if kernel.TypeByName("bpf_iter_seq_task_vma_info", &info) != nil {
		return false
	}
	return slices.ContainsFunc(info.Members, func(m btf.Member) bool { return m.Name == "mm" })
}

// Read calls each with some mappings at a time until it returns false; they are valid
// during the call. Those of one process come together, in the order of addresses: of
// its leader or, when that has ended, of a thread that lives. They are not of one instant:
// what changed meanwhile may come again with other bounds. A kernel may leave a process
// out: compare with a listing of /proc.
func (m *Mappings) Read(each func([]Mapping) bool) error {
	return m.walk.readPieces(m.buf, func(b []byte) (used int, err error) {
		if m.list, used, err = parseMappings(b, m.list[:0]); err != nil {
			return used, err
		}
		if len(m.list) > 0 && !each(m.list) {
			return used, errEnough
		}
		return used, nil
	})
}

// Close frees the iterator. A second call does nothing.
func (m *Mappings) Close() error { return m.unit.close() }

// parseMappings reads the whole records of b and tells how many bytes they are.
func parseMappings(b []byte, list []Mapping) (_ []Mapping, used int, err error) {
	le := binary.LittleEndian
	for ; len(b)-used >= mappingSize; used += mappingSize {
		r := b[used : used+mappingSize : used+mappingSize]
		bits, dev := le.Uint32(r[mappingBits:]), le.Uint32(r[mappingDev:])
		x := Mapping{
			PID: int32(le.Uint32(r[mappingTGID:])), Begun: le.Uint64(r[mappingBegun:]),
			Start: le.Uint64(r[mappingStart:]), End: le.Uint64(r[mappingEnd:]),
			FileOffset: le.Uint64(r[mappingOffset:]) << pageShift, Major: dev >> 20, Minor: dev & (1<<20 - 1), Inode: le.Uint64(r[mappingInode:]),
			Permissions: permissions[bits&(2*mappingShared-1)], Name: mappingNamed[bits>>mappingName&mappingNames],
			Unsettled: bits&mappingUnsettled != 0, Vsyscall: bits&mappingVsyscall != 0,
		}
		if x.PID <= 0 || x.Start >= x.End {
			return list, used, fmt.Errorf("mapping of process %d from %#x to %#x", x.PID, x.Start, x.End)
		}
		list = append(list, x)
	}
	return list, used, nil
}

const pageShift = 12 // of x86-64

// permissions are the texts of maps by VM_READ, VM_WRITE, VM_EXEC and mappingShared.
var permissions = func() (t [2 * mappingShared][4]byte) {
	for bits := range t {
		t[bits] = [4]byte{'-', '-', '-', 'p'}
		for i, c := range []byte("rwxs") {
			if bits&(1<<i) != 0 {
				t[bits][i] = c
			}
		}
	}
	return t
}()
