package bpf

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// Sizes and positions in src/threads.bpf.c.
const (
	oneThreadSize   = 80 // without the CPUs
	oneTGID         = 0
	oneTID          = 4
	oneState        = 8
	oneFlags        = 12
	onePolicy       = 16
	onePriority     = 20
	oneNice         = 24
	oneCPU          = 28
	oneRun          = 32
	oneStart        = 40
	oneVoluntary    = 48
	oneNonvoluntary = 56
	oneName         = 64
)

// Thread is one thread of a process as the kernel's tables have it.
type Thread struct {
	TID                     int32
	State                   byte   // the letter of stat
	Flags                   uint32 // PF_*
	Policy                  uint32 // SCHED_*
	Priority, Nice          int32  // Priority as in field 18 of stat
	Processor               int32
	Start                   uint64 // ns, in the first time namespace
	Runtime                 uint64 // ns on CPUs
	Voluntary, Nonvoluntary uint64 // switches
	Name                    [nameSize]byte
	CPUs                    []byte // that it may run on: bit n of byte n/8 is CPU n
}

// Threads reads the threads of single processes from the kernel's own tables. Not
// safe for concurrent use.
//
// Effect on the targets: none; nothing is stopped and no lock of theirs is taken.
// Source: bpf_iter_task bound to a process, kernel/bpf/task_iter.c, 6.1.
type Threads struct {
	unit    *unit
	walk    *program
	mask    int // bytes of a set of CPUs
	buf     []byte
	threads []Thread
}

// OpenThreads loads the iterator.
//
// Errors: why there is none here, in words for people.
func OpenThreads() (*Threads, error) {
	t, err := openThreads()
	if errors.Is(err, errUnbound) {
		return nil, err
	}
	if err != nil {
		return nil, errors.New(explain(err).Reason)
	}
	return t, nil
}

var errUnbound = errors.New("this kernel binds no iterator to one process (Linux 6.1)")

func openThreads() (_ *Threads, err error) {
	if has, initial := mayLoad(); !has || !initial {
		return nil, unix.EPERM
	}
	kernel, err := loadKernel()
	if err != nil {
		return nil, err
	}
	if !bindsTasks(kernel) {
		return nil, errUnbound
	}
	obj, err := parseObject(threadsObject)
	if err != nil {
		return nil, err
	}
	namespace, err := pidNamespace()
	if err != nil {
		return nil, err
	}
	cpus, err := possibleCPUs()
	if err != nil {
		return nil, err
	}
	t := &Threads{unit: newUnit(obj, kernel), mask: (cpus + 63) / 64 * 8}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	u := t.unit
	if err = u.setAll(map[string]uint64{"ns_inum": uint64(namespace), "mask_bytes": uint64(t.mask)}); err != nil {
		return nil, err
	}
	if err = u.create(); err != nil {
		return nil, err
	}
	if t.walk, err = u.load("threads"); err != nil {
		return nil, err
	}
	u.release()
	return t, nil
}

// bindsTasks tells whether an iterator over tasks can be bound to a process. An older
// kernel takes what should bind it, and walks over all.
func bindsTasks(kernel *btf.Spec) bool {
	var info *btf.Union
	if kernel.TypeByName("bpf_iter_link_info", &info) != nil {
		return false
	}
	return slices.ContainsFunc(info.Members, func(m btf.Member) bool { return m.Name == "task" })
}

// iterTask is the member task of union bpf_iter_link_info.
type iterTask struct{ tid, pid, pidFD uint32 }

// attrBoundIter mirrors members of union bpf_attr.
type attrBoundIter struct {
	progFD     uint32
	_          uint32 // target_fd
	attachType uint32
	_          uint32 // flags
	info       uint64 // pointer
	infoLength uint32
	_          uint32
}

// bindIter makes the program an iterator over the threads of one process.
func (p *program) bindIter(pid int32) error {
	info := &iterTask{pid: uint32(pid)}
	var pinner runtime.Pinner
	pinner.Pin(info)
	defer pinner.Unpin()
	attr := attrBoundIter{progFD: uint32(p.fd), attachType: unix.BPF_TRACE_ITER,
		info: uint64(uintptr(unsafe.Pointer(info))), infoLength: uint32(unsafe.Sizeof(*info))}
	fd, err := sysBPF(unix.BPF_LINK_CREATE, &attr)
	if err != nil {
		return fmt.Errorf("bind program %s to a process: %w", p.name, err)
	}
	p.link = descriptor{fd}
	return nil
}

// Read returns the threads of the process that has the number now, by TID; none when
// none has it. The slice and what it points to are valid until the next Read. The
// rows are not of one instant.
//
// Source: BPF_LINK_CREATE with iter_info, 6.1.
func (t *Threads) Read(pid int32) (_ []Thread, err error) {
	if err := t.walk.bindIter(pid); errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.walk.link.close()) }()
	if t.buf, err = t.walk.readIter(t.buf[:0]); err != nil {
		return nil, err
	}
	if t.threads, err = parseThreads(t.buf, t.mask, pid, t.threads[:0]); err != nil {
		return nil, err
	}
	return t.threads, nil
}

// Close frees the iterator. A second call does nothing.
func (t *Threads) Close() error { return t.unit.close() }

// parseThreads reads the records, of which each has mask bytes at its end.
func parseThreads(b []byte, mask int, pid int32, threads []Thread) ([]Thread, error) {
	size := oneThreadSize + mask
	if len(b)%size != 0 {
		return nil, fmt.Errorf("%d bytes are no records of %d", len(b), size)
	}
	le := binary.LittleEndian
	for ; len(b) > 0; b = b[size:] {
		r := b[:size:size]
		tid := int32(le.Uint32(r[oneTID:]))
		if tid <= 0 {
			continue // the reader's namespace does not have it
		}
		if tgid := int32(le.Uint32(r[oneTGID:])); tgid != pid {
			return nil, fmt.Errorf("a thread of process %d among those of %d", tgid, pid)
		}
		threads = append(threads, Thread{
			TID: tid, State: stateLetter(le.Uint32(r[oneState:])), Flags: le.Uint32(r[oneFlags:]), Policy: le.Uint32(r[onePolicy:]),
			Priority: int32(le.Uint32(r[onePriority:])) - rtPriorities, Nice: int32(le.Uint32(r[oneNice:])), Processor: int32(le.Uint32(r[oneCPU:])),
			Start: le.Uint64(r[oneStart:]), Runtime: le.Uint64(r[oneRun:]), Voluntary: le.Uint64(r[oneVoluntary:]),
			Nonvoluntary: le.Uint64(r[oneNonvoluntary:]), Name: [nameSize]byte(r[oneName:]), CPUs: r[oneThreadSize:],
		})
	}
	byTID := func(a, b Thread) int { return cmp.Compare(a.TID, b.TID) }
	if !slices.IsSortedFunc(threads, byTID) {
		slices.SortFunc(threads, byTID)
	}
	return threads, nil
}

// rtPriorities is MAX_RT_PRIO, include/linux/sched/prio.h: field 18 of stat is a
// priority less that.
const rtPriorities = 100
