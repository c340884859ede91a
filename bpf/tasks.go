package bpf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// Sizes and positions in src/tasks.bpf.c.
const (
	threadSize  = 24
	threadTGID  = 4
	threadState = 12
	threadRun   = 16

	taskSize    = 112
	markedSize  = 176
	taskPPID    = 24
	taskThreads = 28
	taskUID     = 32
	taskEUID    = 36
	taskFlags   = 40
	taskNice    = 44
	taskCPU     = 48
	taskCommand = 52
	taskStart   = 56
	taskEnded   = 64
	taskStack   = 72
	taskRSS     = 80
	taskVMS     = 88
	taskName    = 96

	nameSize = 16

	// Of taskCommand: how many bytes follow the record, padded to eight, and what they are.
	commandBytes = 1<<16 - 1
	commandKnown = 1 << 16
	commandTitle = 1 << 17

	maxCommand = 4096 // bytes of a command line
)

// maxOffsets is how many CPUs have their part added to the size of a process; a host
// with more gets the kernel's own estimate.
const maxOffsets = 1024

// Task is one process as the kernel's tables have it. Process IDs are those of the
// reader's PID namespace, user IDs those of the first user namespace.
type Task struct {
	PID, PPID     int32  // PPID 0: no parent that the reader's namespace has
	State         byte   // the letter of /proc/PID/stat, of the leader
	Flags         uint32 // PF_*
	UID, EUID     uint32
	Threads, Nice int32
	Processor     int32          // last CPU of the leader
	Start         uint64         // ns, start_boottime of the leader, in the first time namespace
	Runtime       uint64         // ns on CPUs, all threads, ended ones included
	Stack         uint64         // where its stack began: another address after exec; 0 without memory
	RSS, VMS      uint64         // pages; 0 without memory
	Name          [nameSize]byte // ends at the first NUL
	// Mark is another number when the file that it executes has another name or directory,
	// or it has another file, cgroup or terminal. A directory above says nothing here. 0:
	// not asked for.
	Mark uint64
	// Command is what /proc/PID/cmdline gives, at most 4,096 bytes of it; nil: not asked
	// for, or it cannot be told without waiting, as when it is not in memory. Valid until
	// the next Read.
	Command    []byte
	CommandCut bool // there is more of it
}

// Tasks reads the process list from the kernel's own tables. Not safe for
// concurrent use.
//
// Command lines are copied through the page tables of their processes, as far as they
// are in memory. A program that may sleep would wait in a page fault or for a lock of
// the target for as long as that one likes, and all of the host's BPF with it.
//
// Effect on the targets: none; nothing is stopped and no lock of theirs is taken.
// Source: bpf_iter_task, kernel/bpf/task_iter.c, 5.8.
type Tasks struct {
	unit *unit
	walk *program
	// Commands tells whether command lines can be read.
	Commands      bool
	slices, slice memory
	buf           []byte
	tasks         []Task
	late          []lateThread
}

// lateThread is a thread that came before its leader.
type lateThread struct {
	tgid int32
	run  uint64
}

// OpenTasks loads the iterator.
//
// Errors: why there is none here, in words for people.
func OpenTasks() (*Tasks, error) {
	t, err := openTasks()
	if err != nil {
		return nil, errors.New(explain(err).Reason)
	}
	return t, nil
}

func openTasks() (_ *Tasks, err error) {
	if has, initial := mayLoad(); !has || !initial {
		return nil, unix.EPERM
	}
	kernel, err := loadKernel()
	if err != nil {
		return nil, err
	}
	obj, err := parseObject(tasksObject)
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
	t := &Tasks{unit: newUnit(obj, kernel)}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	exact := uint64(0)
	if perCPUSizes(kernel) && cpus <= maxOffsets {
		exact = 1
	}
	u := t.unit
	if err = u.setAll(map[string]uint64{"cpus": uint64(cpus), "ns_inum": uint64(namespace), "exact_rss": exact}); err != nil {
		return nil, err
	}
	if err = u.create(); err != nil {
		return nil, err
	}
	if exact == 1 {
		find, err := u.load("find_offsets")
		if err != nil {
			return nil, err
		}
		if status, err := find.run(); err != nil {
			return nil, err
		} else if status != 0 {
			return nil, errors.New("find the memory of each CPU: one has none")
		}
	}
	if err = t.findMemory(); err != nil {
		return nil, err
	}
	if t.walk, err = u.load("tasks"); err != nil {
		return nil, err
	}
	if err = t.walk.attachIter(); err != nil {
		return nil, err
	}
	u.release()
	return t, nil
}

// perCPUSizes tells whether the kernel counts the pages of a process per CPU, as it
// does since 6.2.
func perCPUSizes(kernel *btf.Spec) bool {
	var s *btf.Struct
	return kernel.TypeByName("mm_rss_stat", &s) != nil
}

// Read returns every process by PID, with marks and command lines of those whose number
// modulo slices is slice (the number in the first namespace); of none with 0 slices.
// The slice is valid until the next Read. The rows are not of one instant. A kernel may
// leave a process out, as one does with the first: compare with a listing of /proc.
func (t *Tasks) Read(slices, slice uint32) ([]Task, error) {
	var err error
	t.slices.setU32(0, slices)
	t.slice.setU32(0, slice)
	if t.buf, err = t.walk.readIter(t.buf[:0]); err != nil {
		return nil, err
	}
	if t.tasks, t.late, err = parseTasks(t.buf, t.tasks[:0], t.late[:0]); err != nil {
		return nil, err
	}
	return t.tasks, nil
}

// Close frees the iterator. A second call does nothing.
func (t *Tasks) Close() error { return t.unit.close() }

// parseTasks reads the records. They come by thread ID: a thread comes before its
// leader only when numbers began anew between the two.
func parseTasks(b []byte, tasks []Task, late []lateThread) ([]Task, []lateThread, error) {
	le := binary.LittleEndian
	last := -1 // the process of the thread before: those of one process come together
	for len(b) > 0 {
		size := threadSize
		if len(b) >= threadSize {
			size = int(le.Uint32(b))
		}
		if size != threadSize && size != taskSize && (size < markedSize || size > markedSize+2*maxCommand) || size > len(b) {
			return nil, nil, fmt.Errorf("record of %d bytes among the last %d", size, len(b))
		}
		r := b[:size]
		b = b[size:]
		tgid, run := int32(le.Uint32(r[threadTGID:])), le.Uint64(r[threadRun:])
		if tgid <= 0 {
			continue // the reader's namespace does not have it
		}
		if size == threadSize {
			if last < 0 || tasks[last].PID != tgid {
				if last = find(tasks, tgid); last < 0 {
					late = append(late, lateThread{tgid, run})
					continue
				}
			}
			tasks[last].Runtime += run
			continue
		}
		t := Task{
			PID: tgid, PPID: int32(le.Uint32(r[taskPPID:])), State: stateLetter(le.Uint32(r[threadState:])), Flags: le.Uint32(r[taskFlags:]),
			UID: le.Uint32(r[taskUID:]), EUID: le.Uint32(r[taskEUID:]),
			Threads: int32(le.Uint32(r[taskThreads:])), Nice: int32(le.Uint32(r[taskNice:])), Processor: int32(le.Uint32(r[taskCPU:])),
			Start: le.Uint64(r[taskStart:]), Runtime: run + le.Uint64(r[taskEnded:]), Stack: le.Uint64(r[taskStack:]),
			RSS: le.Uint64(r[taskRSS:]), VMS: le.Uint64(r[taskVMS:]), Name: [nameSize]byte(r[taskName:]),
		}
		if size > taskSize {
			t.Mark = mark(r[taskSize:markedSize])
		}
		if c := le.Uint32(r[taskCommand:]); c&commandKnown != 0 {
			if markedSize+int(c&commandBytes) > size {
				return nil, nil, fmt.Errorf("command line of %d bytes in a record of %d", c&commandBytes, size)
			}
			t.Command, t.CommandCut = commandLine(r[markedSize:markedSize+int(c&commandBytes)], c&commandTitle != 0)
		}
		if n := len(tasks); n == 0 || tasks[n-1].PID < t.PID {
			tasks = append(tasks, t)
			continue
		}
		// In a nested namespace the numbers are not those that the kernel walks by.
		last = -1
		at, known := slices.BinarySearchFunc(tasks, t.PID, byPID)
		if known {
			tasks[at] = t // the number was given again meanwhile
		} else {
			tasks = slices.Insert(tasks, at, t)
		}
	}
	for _, l := range late {
		if at := find(tasks, l.tgid); at >= 0 {
			tasks[at].Runtime += l.run
		}
	}
	return tasks, late, nil
}

// commandLine does what the kernel does with the bytes of a title, and cuts as the list
// does.
func commandLine(b []byte, title bool) (command []byte, cut bool) {
	if title {
		if end := bytes.IndexByte(b, 0); end >= 0 {
			b = b[:end+1]
		}
	}
	return b[:min(len(b), maxCommand):len(b)], len(b) > maxCommand
}

// mark makes one number of many. They are addresses of the kernel, which nobody
// chooses.
func mark(b []byte) uint64 {
	sum := uint64(0)
	for ; len(b) >= 8; b = b[8:] {
		sum = bits.RotateLeft64((sum^binary.LittleEndian.Uint64(b))*0x9e3779b97f4a7c15, 29) // 2^64 / golden ratio
	}
	return sum | 1
}

func byPID(t Task, pid int32) int { return cmp.Compare(t.PID, pid) }

// find returns where the process is, -1 if it is not there.
func find(tasks []Task, pid int32) int {
	if at, ok := slices.BinarySearchFunc(tasks, pid, byPID); ok {
		return at
	}
	return -1
}

// stateLetters are the letters of /proc/PID/stat by the length of the state in bits.
//
// Source: task_state_array, fs/proc/array.c.
const stateLetters = "RSDTtXZPI"

// Bits of task_struct's __state, include/linux/sched.h.
const (
	stateUninterruptible = 0x0002
	stateReport          = 0x007f // what has a letter of its own
	stateNoLoad          = 0x0400
	stateRTLockWait      = 0x1000 // 5.16
	stateFrozen          = 0x8000 // 6.1
	stateIdle            = stateUninterruptible | stateNoLoad
)

// stateLetter does what task_state_index does: raw is __state, and exit_state from
// bit 16 on.
func stateLetter(raw uint32) byte {
	state := raw & 0xffff
	report := (state | raw>>16) & stateReport
	switch {
	case state&stateIdle == stateIdle:
		return 'I'
	case state&(stateRTLockWait|stateFrozen) != 0:
		report = stateUninterruptible
	}
	return stateLetters[bits.Len32(report)]
}
