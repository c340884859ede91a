package ptrace

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

// errFull and errReplaced end an attempt; Capture tries again.
var (
	errFull     = errors.New("more threads than there is room for")
	errNobody   = fmt.Errorf("all threads that were found had ended: %w", ErrUnstable)
	errReplaced = fmt.Errorf("another program was started in it: %w", ErrUnstable)
)

// How far the tracer has come with a thread.
const (
	isFound   = iota // listed
	isSeized         // traced, runs
	isStopped        // stands
	isFreed          // stood, and was let go
	isEnded          // gone, its exit status was taken or there was none to take
	isZombie         // ended but counted: a main thread whose others live
	isRefused        // the kernel says no; errno says why
	isStuck          // traced, did not stop
)

// What a thread does.
const (
	sleeps  = iota
	blocked // sleeps uninterruptibly
	runs
)

func class(state byte) uint8 {
	switch state {
	case 'R':
		return runs
	case 'D':
		return blocked
	}
	return sleeps
}

// tracee is a thread as the tracer sees it. Nothing in it is allocated.
type tracee struct {
	tid     int32
	state   uint8
	letter  byte   // of /proc, when it was stuck or refused
	foreign bool   // cloned by a thread of the target into another process
	class   uint8  // what it did when it was looked at
	asked   bool   // to stop
	group   bool   // a signal had stopped the whole process before
	seen    uint32 // number of the last scan that listed it
	signal  int32  // what it was about to get when it stopped, 0 nothing
	errno   unix.Errno
	size    int        // of regs as the kernel wrote them; 0 none
	regs    [27]uint64 // user_regs_struct, or the 32-bit one
	whole   bool       // stack reaches the end of its mapping
	stack   span
	head    span    // of stack: what must be of one instant
	tail    span    // of stack: what lies behind that
	other   span    // the stack that a signal handler interrupted
	code    span    // when codeOf is the thread itself
	codeOf  *tracee // the thread whose code it is, its own or that of one at the same place
}

// span is a piece of the target's memory and its place in the arena.
type span struct {
	addr uint64
	off  int
	len  int // wanted
	n    int // copied
}

// tracer does one attempt. Its memory is allocated before any thread stands, and
// belongs to the tracing thread until done is closed.
type tracer struct {
	pid      int32
	tid      int32  // of the tracing thread
	tasks    int    // /proc/PID/task
	watching int    // the same, the watchdog's
	listing  []byte // its directory entries
	stackMax int
	wanted   Priority
	hook     func(stage)

	seizing   atomic.Int64 // monotonic ns since begun when a PTRACE_SEIZE began, 0 none is under way
	rescued   atomic.Int32 // dead threads the watchdog reaped
	cancelled atomic.Bool

	begun    time.Time
	list     []tracee
	slots    []int32 // hash table of list, index + 1
	scans    uint32
	passes   int
	priority Priority
	replaced bool // an exec was seen
	err      error

	// Times since begun, 0: it did not come to that.
	from      time.Duration // the first thread was seized
	since     time.Duration // a thread stood before it was asked
	asked     time.Duration // the first thread was asked to stop
	askedBusy time.Duration // the first that ran
	untilBusy time.Duration // the last thread that ran was let go
	until     time.Duration // the last of all
	reading   time.Duration // spent on copying memory
	at        time.Time     // all stood

	maps  []proc.Mapping
	image [3]uint64 // where code and stack of the program begin, see readImage
	names map[int32]string
	cut   error // maps are incomplete

	dents     []byte
	text      []byte // one small file
	path      [64]byte
	info      siginfo
	iov       unix.Iovec
	arena     []byte
	taken     int       // bytes of the arena
	limit     int       // bytes of one stack
	limitBusy int       // of a thread that runs
	fresh     []*tracee // threads that stand, in the order they came
	planned   int       // of fresh: their registers are read
	copied    int       // of fresh, while others may run
	spans     []*span
	few       int // threads that sleep are stopped at a time
	busy      int // threads that ran when they were looked at

	local  []unix.Iovec
	remote []unix.RemoteIovec
}

// prepare reads what must be known before the stop and makes room for what is read
// then. slots is the number of threads to have room for, 0 for what seems right.
func prepare(p *proc.Process, o Options, slots int) (_ *tracer, err error) {
	t := &tracer{
		pid: p.ID().PID, tasks: -1, watching: -1, stackMax: o.Stack, wanted: o.priority, hook: o.hook, begun: time.Now(),
		dents: make([]byte, 32<<10), text: make([]byte, 4096), names: map[int32]string{},
	}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	if err := p.Check(); err != nil {
		return nil, err
	}
	if t.tasks, err = p.OpenTasks(); err != nil {
		return nil, err
	}
	if t.watching, err = p.OpenTasks(); err != nil {
		return nil, err
	}
	if st, ok := t.readStat(t.pid); ok && st.flags&flagKernelThread != 0 {
		return nil, ErrKernelThread
	}
	n := t.threads()
	if n > maxCaptureThreads {
		return nil, ErrTooMany
	}
	if slots == 0 {
		slots = min(2*n+64, maxCaptureThreads)
	}
	t.list = make([]tracee, 0, slots)
	size := 1
	for size < 4*slots {
		size *= 2
	}
	t.slots = make([]int32, size)
	t.spans = make([]*span, 0, 2*slots)
	t.fresh = make([]*tracee, 0, 2*slots)
	t.local = make([]unix.Iovec, maxIOV)
	t.remote = make([]unix.RemoteIovec, maxIOV)
	t.few = fewThreads
	touch(bytesOf(t.list[:slots]))
	touch(bytesOf(t.spans[:cap(t.spans)]))
	touch(bytesOf(t.fresh[:cap(t.fresh)]))

	t.maps, err = p.ReadMaps(nil)
	if errors.Is(err, proc.ErrTruncated) {
		t.cut = err
	} else if err != nil {
		return nil, err
	}
	tids, _, err := p.ReadTIDs()
	if err != nil {
		return nil, err
	}
	for _, tid := range tids {
		st, ok := t.readStat(tid)
		if !ok {
			continue
		}
		t.names[tid] = st.name
		if c := t.find(tid); c != nil {
			if c.class = class(st.state); c.class == runs {
				t.busy++
			}
		}
		if t.image == [3]uint64{} {
			t.image = st.image
		}
	}
	t.limits(n)
	t.arena = make([]byte, min(maxCopied, min(n+n/8+1, slots)*(t.limit+maxCode)))
	touch(t.arena)
	return t, nil
}

func bytesOf[T any](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

const pageSize = 4096 // x86-64

// touch has the kernel give every page of b now. b keeps its bytes.
func touch(b []byte) {
	for i := 0; i < len(b); i += pageSize {
		b[i] = 0
	}
}

// limits sets how much of each stack is copied when there are n threads. 64 KiB hold 256 frames of all but the strangest programs; 16 KiB those
// of most. Threads that run stand while it is copied, so several of them get less.
func (t *tracer) limits(n int) {
	most := maxStackPart
	if t.stackMax > 0 {
		most = min(most, t.stackMax)
	}
	share := func(total, n int) int {
		return min(most, max(total/max(n, 1)&^4095, 16<<10))
	}
	t.limit = min(share(4<<20, n), maxCopied/(n+1)&^4095)
	t.limitBusy = min(t.limit, share(1<<20, t.busy))
}

func (t *tracer) close() {
	for _, fd := range []*int{&t.tasks, &t.watching} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

// thread is the tracing thread. The kernel lets go of all its tracees when it
// ends, and it ends with this goroutine since it is never unlocked.
func (t *tracer) thread(done chan<- struct{}) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The main thread cannot end, the runtime would only park it. While this
		// goroutine holds it no other one can get it.
		other := make(chan struct{})
		go func() {
			t.thread(done)
			close(other)
		}()
		<-other
		runtime.UnlockOSThread()
		return
	}
	t.tid = int32(unix.Gettid())
	t.trace()
	close(done)
}

func (t *tracer) trace() {
	if t.err = t.attach(); t.err == nil {
		t.err = t.window()
	}
	t.release()
	unix.Close(t.tasks)
}

// attach seizes the threads. They run on, but one that creates a thread from now
// on stops, and so does one that gets a signal.
func (t *tracer) attach() error {
	// The naps of the window are shorter than the slack of ordinary timers.
	unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, 1, 0, 0, 0, 0)
	t.hush()
	t.from = time.Since(t.begun)
	for t.passes < 4 {
		from := len(t.list)
		if err := t.scan(); err != nil {
			return err
		}
		for i := range t.list {
			if t.list[i].state == isFound {
				t.seize(&t.list[i])
			}
			if t.cancelled.Load() {
				return errCancelled
			}
		}
		if t.members() == t.threads() || t.passes > 1 && from == len(t.list) {
			break
		}
	}
	first := int32(0)
	for i := range t.list {
		switch c := &t.list[i]; c.state {
		case isRefused:
			return t.refusal(c)
		case isSeized:
			if first == 0 {
				first = c.tid
			}
		}
	}
	if first == 0 {
		return errNobody
	}
	return t.verify(first)
}

// hush waits until the runtime's monitor is nearly asleep, when several threads of
// the target run. It looks around every 20 µs after something began to run, and more
// and more rarely while nothing happens. With every look it takes the processor that
// threads of the target need to stop: eight that spin on two processors stood half as
// long again. Only calls that the monitor knows nothing of keep it from waking up.
func (t *tracer) hush() {
	if t.busy < 2 {
		return
	}
	for from := time.Since(t.begun); time.Since(t.begun)-from < 10*time.Millisecond; {
		nap(time.Millisecond)
	}
	t.busy = 0
	for i := range t.list {
		c := &t.list[i]
		if c.class = class(t.letter(c.tid)); c.class == runs {
			t.busy++
		}
	}
}

// verify makes sure that what was seized by number is a thread of the process that
// was opened, and that it runs the program whose mappings were read.
func (t *tracer) verify(tid int32) error {
	by, ok := t.tracerOf(tid)
	if !ok || by == 0 {
		return errReplaced // it ended, and an exec took its number
	}
	if by != t.tid {
		return fmt.Errorf("thread %d is traced by %d, not by %d: this procfs is of another PID namespace: %w", tid, by, t.tid, unix.EPERM)
	}
	if image := t.readImage(tid); image != t.image && image != ([3]uint64{}) {
		// An exec came between; the next one would be seen. The new mappings are read
		// afterwards.
		t.image, t.maps = image, nil
	}
	return nil
}

// refusal finds out why a thread could not be seized.
func (t *tracer) refusal(c *tracee) error {
	by, ok := t.tracerOf(c.tid)
	if !ok {
		return errReplaced
	}
	if by > 0 {
		e := &TracedError{TID: c.tid, PID: by}
		if v, ok := statusField(t.readStatus("../../"+strconv.Itoa(int(by))+"/status"), "Tgid:"); ok {
			e.PID = v
		}
		if name, ok := t.readComm("../../" + strconv.Itoa(int(e.PID)) + "/comm"); ok {
			e.Comm = name
		}
		return e
	}
	return fmt.Errorf("seize thread %d of process %d: %w", c.tid, t.pid, c.errno)
}

// seize makes a thread a tracee. Events report new threads and exec. The call may
// wait for an exec of another thread, which waits for us: see watch.
func (t *tracer) seize(c *tracee) {
	for range 4 {
		t.seizing.Store(int64(time.Since(t.begun)) | 1)
		_, _, c.errno = unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(c.tid), 0, unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_TRACEEXEC, 0, 0)
		t.seizing.Store(0)
		switch c.errno {
		case 0:
			c.state = isSeized
			return
		case unix.ESRCH:
			c.state = isEnded
			return
		case unix.EINTR:
			continue
		}
		if t.peek(c.tid) != unix.ECHILD {
			c.state = isSeized // attached by the kernel when a tracee created it
			return
		}
		switch c.letter = t.letter(c.tid); c.letter {
		case 0:
			c.state = isEnded
			return
		case 'Z', 'X':
			c.state = isZombie
			return
		}
		// It may have been one that ended, whose number an exec has taken since.
		c.state = isRefused
		nap(200 * time.Microsecond)
	}
}

// members counts the threads of the list that the kernel counts too.
func (t *tracer) members() int {
	n := 0
	for i := range t.list {
		if c := &t.list[i]; c.state != isEnded && !c.foreign {
			n++
		}
	}
	return n
}

// threads asks how many threads there are, those that have ended and were not
// reaped counted in. 0 when the process is gone.
func (t *tracer) threads() int {
	var st unix.Stat_t
	if _, _, e := unix.RawSyscall6(unix.SYS_FSTAT, uintptr(t.tasks), uintptr(unsafe.Pointer(&st)), 0, 0, 0, 0); e != 0 || st.Nlink < 2 {
		return 0
	}
	return int(st.Nlink) - 2
}

// scan lists the threads. One pass may miss a thread while others come and go.
func (t *tracer) scan() error {
	t.passes++
	t.scans++
	unix.RawSyscall6(unix.SYS_LSEEK, uintptr(t.tasks), 0, 0, 0, 0, 0)
	for {
		n, _, e := unix.RawSyscall6(unix.SYS_GETDENTS64, uintptr(t.tasks), uintptr(unsafe.Pointer(&t.dents[0])), uintptr(len(t.dents)), 0, 0, 0)
		if e != 0 || n == 0 {
			return nil // the caller counts what is left
		}
		if !t.note(t.dents[:n]) {
			return errFull
		}
	}
}

// note takes the thread ids of directory entries.
func (t *tracer) note(b []byte) bool {
	const header = 19 // ino, off, reclen, type: struct linux_dirent64
	for len(b) > header {
		size := int(b[16]) | int(b[17])<<8
		if size <= header || size > len(b) {
			return true
		}
		if tid := number(b[header:size]); tid > 0 {
			c := t.find(tid)
			if c == nil {
				return false
			}
			c.seen = t.scans
			if c.state == isEnded {
				*c = tracee{tid: tid, seen: t.scans} // the number is in use again, or it is not quite gone
			}
		}
		b = b[size:]
	}
	return true
}

// number reads the decimal number that b begins with; 0 when there is none.
func number(b []byte) int32 {
	v := int64(0)
	for _, c := range b {
		if c -= '0'; c > 9 || v > 1<<31-1 {
			break
		}
		v = v*10 + int64(c)
	}
	if v > 1<<31-1 {
		return 0
	}
	return int32(v)
}

// find returns the thread of the list, a new one when there was none, nil when the
// list is full.
func (t *tracer) find(tid int32) *tracee {
	mask := uint32(len(t.slots) - 1)
	for i := uint32(tid) * 0x9e3779b1 & mask; ; i = (i + 1) & mask {
		at := t.slots[i]
		if at == 0 {
			if len(t.list) == cap(t.list) {
				return nil
			}
			t.list = append(t.list, tracee{tid: tid})
			t.slots[i] = int32(len(t.list))
			return &t.list[len(t.list)-1]
		}
		if c := &t.list[at-1]; c.tid == tid {
			return c
		}
	}
}

// PF_KTHREAD, include/linux/sched.h.
const flagKernelThread = 0x00200000

type statText struct {
	name  string // raw bytes
	state byte
	flags uint64
	image [3]uint64
}

// readStat reads a few fields of /proc/PID/task/TID/stat.
func (t *tracer) readStat(tid int32) (s statText, ok bool) {
	b := t.slurp(tid, "/stat")
	open, i := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || i < open || i+3 > len(b) {
		return s, false
	}
	s.name = string(b[open+1 : i])
	f := bytes.Fields(b[i+1:])
	const state, flags, code, endcode, stack = 0, 9 - 3, 26 - 3, 27 - 3, 28 - 3 // proc_pid_stat(5)
	if len(f) <= stack {
		return s, false
	}
	s.state = f[state][0]
	for _, v := range []struct {
		to *uint64
		at int
	}{{&s.flags, flags}, {&s.image[0], code}, {&s.image[1], endcode}, {&s.image[2], stack}} {
		*v.to, _ = strconv.ParseUint(string(f[v.at]), 10, 64)
	}
	return s, true
}

// readImage returns what tells one program of a process from the next one: where
// its code begins and ends and where its stack began. Zero for a thread that has
// ended.
func (t *tracer) readImage(tid int32) [3]uint64 {
	s, _ := t.readStat(tid)
	return s.image
}

// letter returns the state of a thread, 0 when there is no such thread. It
// allocates nothing.
func (t *tracer) letter(tid int32) byte {
	b := t.slurp(tid, "/stat")
	i := bytes.LastIndexByte(b, ')')
	if i < 0 || i+2 >= len(b) {
		return 0
	}
	return b[i+2]
}

// slurp reads a file of a thread, the first 4,096 bytes. It allocates nothing.
func (t *tracer) slurp(tid int32, file string) []byte {
	return t.slurpAt(append(append(strconv.AppendInt(t.path[:0], int64(tid), 10), file...), 0))
}

func (t *tracer) slurpAt(path []byte) []byte {
	fd, _, e := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(t.tasks), uintptr(unsafe.Pointer(&path[0])), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if e != 0 {
		return nil
	}
	n, _, e := unix.RawSyscall6(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&t.text[0])), uintptr(len(t.text)), 0, 0, 0)
	unix.RawSyscall6(unix.SYS_CLOSE, fd, 0, 0, 0, 0, 0)
	if e != 0 {
		return nil
	}
	return t.text[:n]
}

func (t *tracer) readComm(path string) (string, bool) {
	b := t.slurpAt(append([]byte(path), 0))
	if b == nil {
		return "", false
	}
	return string(bytes.TrimSuffix(b, []byte{'\n'})), true
}

func (t *tracer) readStatus(path string) []byte { return t.slurpAt(append([]byte(path), 0)) }

// tracerOf returns the thread that traces tid, 0 when none does.
func (t *tracer) tracerOf(tid int32) (int32, bool) {
	return statusField(t.readStatus(strconv.Itoa(int(tid))+"/status"), "TracerPid:")
}

func statusField(text []byte, key string) (int32, bool) {
	for line := range bytes.Lines(text) {
		if v, ok := bytes.CutPrefix(line, []byte(key)); ok {
			n, err := strconv.ParseInt(string(bytes.TrimSpace(v)), 10, 32)
			return int32(n), err == nil
		}
	}
	return 0, false
}
