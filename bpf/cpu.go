package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// Sizes and positions in src/cpu.bpf.c.
const (
	cpuSlots = 64 // of one bank

	slotSize     = 32
	slotEpoch    = 0
	slotSwitches = 4
	slotRun      = 8
	slotStart    = 16
	slotPID      = 28

	cellSize   = 64
	cellSumIn  = 8
	cellStart  = 16
	cellTGID   = 24
	cellPID    = 32
	cellSeq    = 36
	cellSumNow = 40
	cellSumSeq = 48

	drainCells = 128
)

// homeSize is what a CPU has: its cell, and slots of two banks in turn.
func homeSize(slots int) int { return cellSize + 2*slots*slotSize }

// homeOf is the memory of a CPU.
func (s *cpuSensor) homeOf(cpu int) memory {
	return s.homes[cpu*homeSize(s.slots):][:homeSize(s.slots)]
}

// cpuSensor is the program at the context switch and its tables.
type cpuSensor struct {
	unit   *unit
	began  time.Time // when the program was attached
	cpus   int
	slots  int // used ones of a bank, at most cpuSlots
	epoch  memory
	lost   memory
	missed memory
	homes  memory
	spills [2]batch // by bank
	drain  *program // nil where running threads cannot be looked at
	now    uint32   // the epoch that programs write

	accounts []account // by CPU
	times    []spilled
	late     []spilled  // what came into a bank after it was read
	seen     []seenSlot // by slot
	rows     map[Process]int
	dropped  uint64 // processes beyond maxWindowRows
}

// spilled is what one process got on one CPU.
type spilled struct {
	cpu      int
	process  Process
	run      uint64
	switches uint64
}

// cpuHook is what cpu_switch was written for: 5.18-rc had another order, no release.
var cpuHook = hook{"sched_switch", true, "8 *task_struct *task_struct", ""}

// openCPU loads and attaches the sensor.
func openCPU(kernel *btf.Spec, namespace uint32, o Options) (_ *cpuSensor, err error) {
	obj, err := parseObject(cpuObject)
	if err != nil {
		return nil, err
	}
	if err := cpuHook.fits(kernel); err != nil {
		return nil, err
	}
	s := &cpuSensor{unit: newUnit(obj, kernel), now: 1, rows: map[Process]int{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.cpus, err = possibleCPUs(); err != nil {
		return nil, err
	}
	s.slots = slotsPerBank(cpuSlots, s.cpus, slotSize, cpuSlotShare)
	if o.TableSlots > 0 {
		s.slots = min(o.TableSlots, cpuSlots)
	}
	s.accounts = make([]account, s.cpus)
	s.seen = make([]seenSlot, 2*s.slots*s.cpus)
	u := s.unit
	err = errors.Join(
		s.checkLayout(),
		u.setAll(map[string]uint64{"last": uint64(s.slots - 1), "ns_inum": uint64(namespace)}),
		sizeCPUTables(u, s.slots, s.cpus),
	)
	if err == nil && o.SpillEntries > 0 {
		err = errors.Join(u.resize("cpu_spill_0", o.SpillEntries), u.resize("cpu_spill_1", o.SpillEntries))
	}
	if err = errors.Join(err, u.tooManyCPUs(s.cpus, cpuTableShare)); err != nil {
		return nil, err
	}
	if err = u.create(); err != nil {
		return nil, err
	}
	s.homes = u.tables["cpu_homes"].mem
	s.spills = [2]batch{{table: u.tables["cpu_spill_0"]}, {table: u.tables["cpu_spill_1"]}}
	if s.epoch, err = u.global("epoch"); err != nil {
		return nil, err
	}
	if s.lost, err = u.global("lost"); err != nil {
		return nil, err
	}
	if s.missed, err = u.global("missed"); err != nil {
		return nil, err
	}
	hook, err := u.load("cpu_switch")
	if err != nil {
		return nil, err
	}
	s.loadDrain(o)
	s.began = time.Now()
	if err = hook.attach(); err != nil {
		return nil, err
	}
	u.release()
	visitCPUs()
	return s, nil
}

// loadDrain takes the first program that the kernel does. Without one a slice
// counts when it ends.
func (s *cpuSensor) loadDrain(o Options) {
	for _, name := range []string{"cpu_drain_cast", "cpu_drain_read"} {
		if name == "cpu_drain_cast" && o.WithoutKfuncs || name == "cpu_drain_read" && o.WithoutPathWalk {
			continue
		}
		p, err := s.unit.load(name)
		if err != nil {
			continue
		}
		if _, err := p.run(0); err != nil {
			continue
		}
		s.drain = p
		return
	}
}

// coverage names what this sensor cannot see here.
func (s *cpuSensor) coverage() []string {
	if s.drain == nil {
		return []string{"cpu: time on a CPU is counted when it ends: the kernel refuses to look at running threads"}
	}
	return nil
}

// visitDeadline bounds the tour of the CPUs: one that a real-time thread holds
// may not be entered for long.
const visitDeadline = time.Second

// visitCPUs runs once on each CPU that this process may use. A thread that was
// running before the program was attached is known only after a switch there,
// and this makes one.
func visitCPUs() {
	done := make(chan struct{})
	deadline := time.Now().Add(visitDeadline)
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends, and its affinity with it
		var mine, one unix.CPUSet
		if unix.SchedGetaffinity(0, &mine) != nil {
			return
		}
		for cpu := range len(mine) * 64 {
			if !mine.IsSet(cpu) {
				continue
			}
			if time.Now().After(deadline) {
				return
			}
			one.Zero()
			one.Set(cpu)
			if unix.SchedSetaffinity(0, &one) != nil {
				return
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Until(deadline)):
	}
}

// flip makes the programs write the other bank. Whoever reads the old one waits
// until the programs that run at this moment have ended.
//
// The bank that is written next was read in the last window. A program that a
// hypervisor stopped in the middle for longer than anybody waits may have added
// to it since, so it is looked at once more.
func (s *cpuSensor) flip() {
	s.late = s.changes(s.now-1, s.late[:0])
	s.now++
	s.epoch.setU32(0, s.now)
}

// sample brings the cells of running threads up to date.
func (s *cpuSensor) sample() error {
	if s.drain == nil {
		return nil
	}
	for first := 0; first < s.cpus; first += drainCells {
		if _, err := s.drain.run(uint64(first)); err != nil {
			return err
		}
	}
	return nil
}

// collect fills w with the bank before the last flip. The order bank, spill,
// cells lets a slice that ends meanwhile be late, never be counted twice.
func (s *cpuSensor) collect(w *Window) error {
	s.times = s.changes(s.now-1, append(s.times[:0], s.late...))
	err := s.readSpill()
	err = errors.Join(err, s.sample())
	width := uint64(max(0, w.Ended.Sub(w.Began)))

	clear(s.rows)
	w.CPU = w.CPU[:0]
	for _, t := range s.times {
		s.accounts[t.cpu].add(t.process, t.run)
		if row := s.row(w, t.process); row != nil {
			row.Switches += t.switches
		}
	}
	for cpu := range s.cpus {
		if c, ok := s.readCell(cpu); ok && c.tgid != 0 {
			s.accounts[cpu].running(c.process(), c.run)
			if row := s.row(w, c.process()); row != nil {
				row.RunningThreads++
				row.CPUs = append(row.CPUs, cpu)
			}
		}
		s.accounts[cpu].settle(width, func(p Process, run uint64) {
			if row := s.row(w, p); row != nil {
				row.Runtime += run
			}
		})
	}
	slices.SortFunc(w.CPU, func(a, b CPU) int { return compareProcess(a.Process, b.Process) })
	return err
}

func sizeCPUTables(u *unit, slots, cpus int) error {
	return errors.Join(u.resize("cpu_homes", cpus), u.resizeValues("cpu_homes", homeSize(slots)))
}

// row finds or makes the entry of a process; the memory of old ones is used
// again. It is nil beyond the cap.
func (s *cpuSensor) row(w *Window, p Process) *CPU {
	if i, ok := s.rows[p]; ok {
		if i < 0 {
			return nil
		}
		return &w.CPU[i]
	}
	n := len(w.CPU)
	if n == maxWindowRows {
		s.rows[p] = -1
		s.dropped++
		return nil
	}
	s.rows[p] = n
	if n < cap(w.CPU) {
		w.CPU = w.CPU[:n+1]
	} else {
		w.CPU = append(w.CPU, CPU{})
	}
	w.CPU[n] = CPU{Process: p, CPUs: w.CPU[n].CPUs[:0]}
	return &w.CPU[n]
}

// seenSlot is what a slot held when it was last read.
type seenSlot struct {
	epoch, switches uint32
	run             uint64
}

// changes appends what came into the bank of an epoch since it was last read.
func (s *cpuSensor) changes(epoch uint32, to []spilled) []spilled {
	for cpu := range s.cpus {
		slots, seen := s.homeOf(cpu)[cellSize:], s.seen[2*cpu*s.slots:]
		for i := int(epoch & 1); i < 2*s.slots; i += 2 {
			slot := slots[i*slotSize:][:slotSize]
			if slot.u32(slotEpoch) != epoch {
				continue
			}
			is := seenSlot{epoch, slot.u32(slotSwitches), slot.u64(slotRun)}
			was := seen[i]
			if was.epoch != epoch {
				was = seenSlot{}
			}
			if seen[i] = is; is.switches == was.switches && is.run == was.run {
				continue
			}
			to = appendOurs(to, spilled{
				cpu:      cpu,
				process:  Process{slot.u32(slotPID), slot.u64(slotStart)},
				run:      is.run - was.run,
				switches: uint64(is.switches - was.switches),
			})
		}
	}
	return to
}

// appendOurs leaves out processes of other PID namespaces.
func appendOurs(to []spilled, t spilled) []spilled {
	if t.process.TGID == 0 {
		return to
	}
	return append(to, t)
}

func (s *cpuSensor) readSpill() error {
	return s.spills[(s.now-1)&1].take(func(k, v []byte) {
		if t := parseSpilled(k, v); t.cpu < s.cpus {
			s.times = appendOurs(s.times, t)
		}
	})
}

// parseSpilled reads struct spill_key and spill_value.
func parseSpilled(k, v []byte) spilled {
	le := binary.LittleEndian
	return spilled{
		process: Process{le.Uint32(v[12:]), le.Uint64(k)},
		cpu:     int(le.Uint32(k[12:])),
		run:     le.Uint64(v), switches: uint64(le.Uint32(v[8:])),
	}
}

// cell is the thread on a CPU.
type cell struct {
	tgid  uint32
	start uint64
	run   uint64 // ns of its present slice; 0 if it came after the sample
}

func (c cell) process() Process { return Process{c.tgid, c.start} }

// cellTries bounds the reading of a cell that a CPU keeps changing.
const cellTries = 4

// readCell returns the thread on a CPU, unless it is idle.
func (s *cpuSensor) readCell(cpu int) (cell, bool) {
	m := s.homeOf(cpu)
	for range cellTries {
		seq := m.u32(cellSeq)
		if seq&1 != 0 {
			continue
		}
		c := cell{tgid: m.u32(cellPID), start: m.u64(cellStart)}
		tgid, in, now, of := m.u32(cellTGID), m.u64(cellSumIn), m.u64(cellSumNow), m.u32(cellSumSeq)
		if m.u32(cellSeq) != seq {
			continue
		}
		if of == seq && now > in {
			c.run = now - in
		}
		return c, tgid != 0
	}
	return cell{}, false
}

func (s *cpuSensor) lostCount() uint64 { return s.lost.u64(0) + s.dropped }

// unresolved returns the switches that no program saw: the time of the thread that
// left is in no window.
func (s *cpuSensor) unresolved() uint64 { return s.missed.u64(0) }

func (s *cpuSensor) close() error { return s.unit.close() }

// maxHeldBack is the time in ns that a CPU's account carries into later windows.
// A CPU without a tick brings its sums up to date once a second only.
const maxHeldBack = 2_000_000_000

// What is held back for standing windows on end and is more than allowance is no
// delay but two clocks that differ: the scheduler's and the one that windows are
// measured with. It melts by a part of the window that no clock is corrected by.
const (
	standing  = 100
	allowance = 20_000_000 // ns
	melt      = 1000       // parts
)

// account is what one CPU gave to processes, and how much of it was reported.
// Part of a slice may be reported before the slice ends, and a window never
// holds more than its own width: what is over waits for the next.
type account struct {
	entries []entry
	index   map[Process]int
	held    int // windows on end that left more than allowance
}

type entry struct {
	process   Process
	completed uint64 // in slices that ended in this window
	running   uint64 // of the slice that has not
	ahead     int64  // reported before it completed; below 0, held back
	isRunning bool
	isSeen    bool
	absent    bool // was not seen in the window before
}

func (a *account) entry(p Process) *entry {
	i, ok := a.index[p]
	if !ok {
		if a.index == nil {
			a.index = map[Process]int{}
		}
		i = len(a.entries)
		a.index[p] = i
		a.entries = append(a.entries, entry{process: p})
	}
	return &a.entries[i]
}

func (a *account) add(p Process, run uint64) {
	e := a.entry(p)
	e.completed += run
	e.isSeen = true
}

func (a *account) running(p Process, run uint64) {
	e := a.entry(p)
	e.running = run
	e.isRunning, e.isSeen = true, true
}

// settle reports the window and forgets what is even. What was held back comes
// first, the running thread last: what is cut there is only late.
func (a *account) settle(width uint64, report func(Process, uint64)) {
	left := int64(min(width, math.MaxInt64))
	pay := func(e *entry, due int64) {
		if due = min(due, left); due > 0 {
			left -= due
			e.ahead += due
			report(e.process, uint64(due))
		}
	}
	for i := range a.entries {
		pay(&a.entries[i], -a.entries[i].ahead)
	}
	for _, last := range []bool{false, true} {
		for i := range a.entries {
			if e := &a.entries[i]; e.isRunning == last {
				pay(e, int64(e.completed+e.running)-e.ahead)
				e.ahead -= int64(e.completed)
			}
		}
	}
	a.melt(int64(width))
	kept, room := a.entries[:0], int64(maxHeldBack)
	clear(a.index)
	for _, e := range a.entries {
		e.ahead = max(e.ahead, -room)
		room += min(0, e.ahead)
		// A slice that ended between the bank and the cell is in neither: it
		// comes with the next window. One that does not come then was lost.
		if e.ahead == 0 || e.ahead > 0 && !e.isSeen && e.absent {
			continue
		}
		a.index[e.process] = len(kept)
		kept = append(kept, entry{process: e.process, ahead: e.ahead, absent: !e.isSeen})
	}
	a.entries = kept
}

// melt gives up a little of what has been held back for too long.
func (a *account) melt(width int64) {
	held := int64(0)
	for _, e := range a.entries {
		held -= min(0, e.ahead)
	}
	if held <= allowance {
		a.held = 0
		return
	}
	if a.held++; a.held <= standing {
		return
	}
	left := width / melt
	for i := range a.entries {
		e := &a.entries[i]
		less := min(left, max(0, -e.ahead))
		e.ahead += less
		left -= less
	}
}

func compareProcess(a, b Process) int {
	switch {
	case a.TGID != b.TGID && a.TGID < b.TGID, a.TGID == b.TGID && a.Start < b.Start:
		return -1
	case a == b:
		return 0
	}
	return 1
}

// checkLayout is the size of what programs and this file share.
func (s *cpuSensor) checkLayout() error {
	if got := s.unit.obj.tables["cpu_homes"].valueSize; int(got) != homeSize(cpuSlots) {
		return fmt.Errorf("table cpu_homes has values of %d bytes, want %d", got, homeSize(cpuSlots))
	}
	return nil
}
