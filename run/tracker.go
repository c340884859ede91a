package run

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

const (
	scanServes   = 500 * time.Millisecond // how long a finished scan is good for a listing
	unmarkedFor  = time.Second            // how long a process without a mark is believed to have none
	kernelParent = 2                      // kthreadd: its children have no environment
)

// tracker reads all processes for all runs. Safe for concurrent use.
type tracker struct {
	files     *files
	uid       uint32         // 0 may read everybody's environment
	protected map[int32]bool // never members, never signalled

	mu     sync.Mutex
	marks  map[proc.ID]*remembered
	last   *table
	flight chan struct{} // closed when the scan under way is over; nil without one
	began  time.Time     // of that scan
}

// remembered is what is known of a process's marks.
type remembered struct {
	marks
	at   time.Time
	exe  string
	scan uint64
}

// table is one scan.
type table struct {
	began    time.Time
	ended    time.Time
	all      map[int32]entry
	marked   map[marks][]int32
	denied   int // processes whose environment could not be read
	between  int // processes in the middle of exec, which nobody knows the marks of
	children func() map[int32][]int32
}

func newTracker(f *files) *tracker {
	t := &tracker{files: f, uid: uint32(os.Geteuid()), marks: map[proc.ID]*remembered{}, protected: map[int32]bool{0: true, 1: true}}
	for pid := int32(os.Getpid()); pid > 1 && !t.protected[pid]; {
		t.protected[pid] = true
		e, err := f.stat(pid)
		if err != nil {
			break
		}
		pid = e.parent
	}
	return t
}

// protect adds a process, and those above it, that no run may ever hold.
func (t *tracker) protect(pid int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.protected[pid] = true
}

// scan returns the processes of the host: freshly read, or as a scan found them that
// ended half a second ago at most and did not begin before since. Calls at the same time
// share one. The end counts: on a busy host a scan takes longer than it is good for, and
// each run of a list would begin another.
func (t *tracker) scan(fresh bool, since time.Time) (*table, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	asked := time.Now()
	serves := func(tb *table) bool {
		if tb == nil || tb.began.Before(since) {
			return false
		}
		return !fresh && !tb.ended.Before(asked.Add(-scanServes)) || !tb.began.Before(asked)
	}
	for !serves(t.last) {
		if under := t.flight; under != nil {
			t.mu.Unlock()
			<-under
			t.mu.Lock()
			continue
		}
		done := make(chan struct{})
		t.flight, t.began = done, time.Now()
		t.mu.Unlock()
		tb, err := t.readAll()
		t.mu.Lock()
		t.flight = nil
		close(done)
		if err != nil {
			return nil, err
		}
		tb.ended = time.Now()
		t.last = tb
	}
	return t.last, nil
}

func (t *tracker) readAll() (*table, error) {
	tb := &table{began: t.began, all: map[int32]entry{}, marked: map[marks][]int32{}}
	pids, err := t.files.pids()
	if err != nil {
		return nil, err
	}
	// One scan at a time runs, so marks is this one's alone but for forget.
	now := time.Now()
	scan := uint64(now.UnixNano())
	for _, pid := range pids {
		e, err := t.files.stat(pid)
		if err != nil {
			continue // ended
		}
		tb.all[pid] = e
		if t.protected[pid] || !e.alive() || pid == kernelParent || e.parent == kernelParent {
			continue
		}
		m, err := t.marksOf(e.id, now, scan)
		switch err {
		case nil:
		case errBetween:
			tb.between++
		default:
			tb.denied++
		}
		if m.id != "" {
			tb.marked[m] = append(tb.marked[m], pid)
		}
	}
	for id, r := range t.marks {
		if r.scan != scan {
			delete(t.marks, id)
		}
	}
	tb.children = sync.OnceValue(func() map[int32][]int32 {
		m := map[int32][]int32{}
		for pid, e := range tb.all {
			m[e.parent] = append(m[e.parent], pid)
		}
		return m
	})
	return tb, nil
}

// errBetween says that a process is in the middle of exec: it has its new memory, and no
// environment in it yet.
var errBetween = errors.New("in the middle of exec")

// marksOf returns the marks of a process. Who has them keeps them; who has none may
// execute into some, which keeps the start time.
//
// Errors: errBetween; why they are unreadable.
func (t *tracker) marksOf(id proc.ID, now time.Time, scan uint64) (marks, error) {
	known := t.marks[id]
	if known != nil && known.id != "" {
		known.scan = scan
		return known.marks, nil
	}
	if t.uid != 0 && t.owner(id.PID) != t.uid {
		return marks{}, nil
	}
	exe, err := t.files.exe(id.PID)
	if known != nil && err == nil && exe == known.exe && now.Sub(known.at) < unmarkedFor {
		known.scan = scan
		return marks{}, nil
	}
	m, err := t.files.marks(id.PID)
	if err != nil {
		return marks{}, err
	}
	switch e, err := t.files.stat(id.PID); {
	case err != nil || e.id != id:
		return marks{}, nil // another process by now
	case e.between():
		return marks{}, errBetween
	}
	t.marks[id] = &remembered{marks: m, at: now, exe: exe, scan: scan}
	return m, nil
}

// owner is the user of a process; without an answer, nobody.
func (t *tracker) owner(pid int32) uint32 {
	info, err := os.Stat(t.files.mount + "/" + strconv.Itoa(int(pid)))
	if err != nil {
		return 1<<32 - 1
	}
	return info.Sys().(*syscall.Stat_t).Uid
}

// holding is what makes processes members of one run.
type holding struct {
	key    marks
	uid    uint32 // only processes of this user count by their mark; 0: everybody's
	group  *group // nil without one
	roots  []proc.ID
	sticky map[proc.ID]time.Time // members so far, and since when
}

// member is a process of a run.
type member struct {
	entry
	escaped bool // lives outside the cgroup
	seen    time.Time
}

// members returns the living members and the zombies among them, and updates who is
// known. The caller guards h.
func (t *tracker) members(tb *table, h *holding) (list []member, zombies int, err error) {
	inside := map[int32]bool{}
	if h.group != nil {
		pids, err := h.group.pids()
		if err != nil && !isGone(err) {
			return nil, 0, err
		}
		for _, pid := range pids {
			inside[pid] = true
		}
	}
	found := map[int32]entry{}
	var queue []int32
	add := func(pid int32, want proc.ID) {
		if _, ok := found[pid]; ok || t.protected[pid] {
			return
		}
		e, ok := tb.all[pid]
		if !ok && inside[pid] { // younger than the scan
			var err error
			e, err = t.files.stat(pid)
			ok = err == nil
		}
		if !ok || want.PID != 0 && e.id != want {
			return
		}
		found[pid] = e
		queue = append(queue, pid)
	}
	for pid := range inside {
		add(pid, proc.ID{})
	}
	for _, pid := range tb.marked[h.key] {
		if h.uid == 0 || t.owner(pid) == h.uid {
			add(pid, proc.ID{})
		}
	}
	for _, id := range h.roots {
		add(id.PID, id)
	}
	for id := range h.sticky {
		add(id.PID, id)
	}
	for len(queue) > 0 {
		pid := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, child := range tb.children()[pid] {
			add(child, proc.ID{})
		}
	}
	now := time.Now()
	known := make(map[proc.ID]time.Time, len(found))
	for pid, e := range found {
		if !e.alive() {
			zombies++
			continue
		}
		m := member{entry: e, seen: now}
		if seen, ok := h.sticky[e.id]; ok {
			m.seen = seen
		}
		if h.group != nil && !inside[pid] {
			in, alive := t.inGroup(pid, h.group)
			if !alive {
				continue
			}
			m.escaped = !in
		}
		known[e.id] = m.seen
		list = append(list, m)
	}
	h.sticky = known
	return list, zombies, nil
}

// inGroup tells whether a process that the group did not list is in it all the same,
// and whether it lives.
func (t *tracker) inGroup(pid int32, g *group) (in, alive bool) {
	if e, err := t.files.stat(pid); err != nil || !e.alive() {
		return false, false
	}
	b, err := t.files.read(t.files.path(pid, "cgroup"))
	if err != nil {
		return false, false
	}
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "0::"); ok {
			return strings.Contains(g.path+"/", path+"/") || strings.Contains(path+"/", "/"+runDirectory(g)+"/"), true
		}
	}
	return false, true
}

// runDirectory is the part of a group's path that is its own: procinsh-1/run-x.
func runDirectory(g *group) string {
	parts := strings.Split(g.path, "/")
	return strings.Join(parts[max(0, len(parts)-2):], "/")
}

// signal sends a signal to a process that was found to be a member, through a pidfd and
// after its start time was read again.
//
// Errors: proc.ErrGone.
func (t *tracker) signal(id proc.ID, number unix.Signal) error {
	if t.protected[id.PID] {
		return fail(CodeProtected, "Process %s is procinsh itself or above it.", FormatID(id))
	}
	fd, err := unix.PidfdOpen(int(id.PID), 0)
	if err != nil {
		return proc.ErrGone
	}
	defer unix.Close(fd)
	if e, err := t.files.stat(id.PID); err != nil || e.id != id {
		return proc.ErrGone
	}
	if err := unix.PidfdSendSignal(fd, number, nil, 0); err != nil {
		if err == unix.ESRCH {
			return proc.ErrGone
		}
		return err
	}
	return nil
}
