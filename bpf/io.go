package bpf

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/cilium/ebpf/btf"
)

// Sizes of the tables of src/io.bpf.c.
const (
	ioSlots      = 256      // of one bank
	ioRegions    = 6        // tables of a CPU when all hooks are functions: four of files, two of sockets
	maxSlotBytes = 16 << 20 // of all slots: with very many CPUs each gets fewer
	maxSpill     = 16384    // keys of one window that found no slot
	maxPathRing  = 1 << 20  // bytes of paths in one window
)

// ioSensor counts what goes through pipes, sockets and files.
//
// One caller at a time.
type ioSensor struct {
	unit       *unit
	plan       *plan
	namespace  uint32
	options    Options
	tellsCalls bool // programs at sockets know their system call
	slots      slotReader
	spills     [2]batch
	paths      *ring
	epoch      memory
	want       memory
	counters   struct{ lost, filesLost, unresolved, pathsLost memory }
	now        uint32 // the epoch that programs write

	raw          []counted // of the window, unsorted
	labels       []label
	text         []byte
	carried      []byte // memory that text takes turns with
	pathsMissing bool   // some path found the ring full
	cutIPC       uint64 // operations in rows beyond the cap
	cutFiles     uint64
	missed       struct { // operations that the kernel skipped the programs for
		ipc, files uint64
		looked     time.Time
	}
}

// openIO loads and attaches what the kernel takes. Each class has the first way
// that loads, attaches and is seen to report.
//
// Errors: none; status says what works.
func openIO(kernel *btf.Spec, namespace uint32, o Options) *ioSensor {
	s := &ioSensor{namespace: namespace, options: o, plan: newPlan(o), tellsCalls: tellsCalls(kernel)}
	obj, err := parseObject(ioObject)
	if err != nil {
		s.giveUp(err)
		return s
	}
	// Each round ends the search or takes a way out of the plan.
	for s.plan.classes() != 0 {
		err := s.attempt(obj, kernel)
		if err == nil {
			return s
		}
		err = errors.Join(err, s.close())
		var w *wayError
		if !errors.As(err, &w) {
			s.giveUp(err)
			return s
		}
		if !s.plan.refused(w.program, w.err, o) {
			s.giveUp(err)
			return s
		}
	}
	return s
}

// giveUp ends all ways for one reason.
func (s *ioSensor) giveUp(err error) {
	for _, p := range s.plan.parts() {
		for p.way().name != byNothing {
			p.errs = append(p.errs, err)
		}
	}
}

// attempt carries out the plan.
//
// Errors: *wayError for what another plan may avoid.
func (s *ioSensor) attempt(obj *object, kernel *btf.Spec) error {
	programs := s.plan.programs()
	for _, name := range programs {
		if err := checkHook(kernel, name); err != nil {
			return &wayError{name, err}
		}
	}
	s.unit = newUnit(obj, kernel)
	if err := s.create(programs); err != nil {
		return err
	}
	for _, name := range programs {
		if _, err := s.unit.load(name); err != nil {
			return &wayError{name, err}
		}
	}
	for _, p := range s.unit.programs {
		if err := p.attach(); err != nil {
			return &wayError{p.name, err}
		}
	}
	s.want.setU32(0, uint32(s.plan.classes()))
	return s.canary()
}

// create sizes and makes the tables for the plan.
func (s *ioSensor) create(programs []string) error {
	cpus, err := possibleCPUs()
	if err != nil {
		return err
	}
	regions, sys, out, in := ioRegions, 4, 4, 5
	if s.plan.vfs.way().name != byVFS {
		regions, sys, out, in = 3, 0, 1, 2
	}
	u := s.unit
	slots, err := sizeIOTables(u, s.options, regions, cpus)
	if err != nil {
		return err
	}
	if err := u.tooManyCPUs(cpus, ioTableShare); err != nil {
		return err
	}
	walk := uint64(0)
	if s.plan.walk {
		walk = 1
	}
	own := 0
	if s.namespace == 0 && !s.options.CountOwnProc {
		own = os.Getpid()
	}
	err = u.setAll(map[string]uint64{
		"own_tgid": uint64(own),
		"slots":    uint64(slots), "regions": uint64(regions),
		"sys_region": uint64(sys), "out_region": uint64(out), "in_region": uint64(in),
		"sys_want": uint64(s.plan.bySys()), "ns_inum": uint64(s.namespace), "walk_paths": walk,
		"epoch": 1, "want": 0,
	})
	if err != nil {
		return err
	}
	if err := u.create(); err != nil {
		return err
	}
	if got := u.obj.tables["io_slots"].valueSize; got != ioSlotSize {
		return fmt.Errorf("table io_slots has values of %d bytes, want %d", got, ioSlotSize)
	}
	s.now = 1
	s.slots = slotReader{slots: u.tables["io_slots"].mem, heads: u.tables["io_heads"].mem, perBank: slots, tables: regions * cpus}
	s.spills = [2]batch{{table: u.tables["io_spill_0"]}, {table: u.tables["io_spill_1"]}}
	if s.paths, err = u.ring("paths"); err != nil {
		return err
	}
	for name, to := range map[string]*memory{
		"epoch": &s.epoch, "want": &s.want, "lost": &s.counters.lost, "files_lost": &s.counters.filesLost,
		"unresolved": &s.counters.unresolved, "paths_lost": &s.counters.pathsLost,
	} {
		if *to, err = u.global(name); err != nil {
			return err
		}
	}
	return nil
}

// sizeIOTables gives the tables their sizes: the slots get what the others leave.
func sizeIOTables(u *unit, o Options, regions, cpus int) (slots int, err error) {
	err = errors.Join(
		u.resize("io_slots", 0),
		u.resize("io_heads", 2*regions*cpus),
		u.resize("scratch", regions),
		u.resize("io_spill_0", cmp.Or(o.SpillEntries, maxSpill)),
		u.resize("io_spill_1", cmp.Or(o.SpillEntries, maxSpill)),
		u.resize("paths", cmp.Or(o.RingBytes, maxPathRing)),
	)
	if err != nil {
		return 0, err
	}
	room := min(maxSlotBytes, ioTableShare-u.bytes(cpus))
	slots = slotsPerBank(cmp.Or(o.TableSlots, ioSlots), regions*cpus, ioSlotSize, room)
	return slots, u.resize("io_slots", 2*slots*regions*cpus)
}

// flip makes the programs write the other bank. Whoever reads the old one waits
// until the programs that run at this moment have ended. What one of them was
// late with the last time is taken first, since its bank is written anew.
func (s *ioSensor) flip() {
	s.raw = s.raw[:0]
	if s.unit == nil {
		return
	}
	s.raw = s.slots.late(s.raw)
	s.now++
	s.epoch.setU32(0, s.now)
}

// collect fills w with the bank before the last flip.
func (s *ioSensor) collect(w *Window) error {
	w.IPC, w.Files = w.IPC[:0], w.Files[:0]
	if s.unit == nil {
		return nil
	}
	old := s.now - 1
	s.raw = s.slots.bank(s.raw, old)
	errSpill := s.spills[old&1].take(func(k, v []byte) {
		if c, ok := parseSpill(k, v); ok {
			s.raw = append(s.raw, c)
		}
	})
	s.keepLabels(old)
	errPaths := s.paths.read(s.addLabel)
	s.merge(w, old)
	return errors.Join(errSpill, errPaths, s.countMissed())
}

// merge adds up what belongs together, puts paths on files and cuts at the cap.
func (s *ioSensor) merge(w *Window, epoch uint32) {
	slices.SortFunc(s.raw, func(a, b counted) int { return a.key.compare(b.key) })
	slices.SortStableFunc(s.labels, func(a, b label) int { return a.key.compare(b.key) })
	labels := s.labels
	for i := 0; i < len(s.raw); {
		row := s.raw[i]
		for i++; i < len(s.raw) && s.raw[i].key == row.key; i++ {
			row.bytes += s.raw[i].bytes
			row.count += s.raw[i].count
		}
		t := row.transfer()
		if t.Kind != File {
			w.IPC = append(w.IPC, t)
			continue
		}
		for len(labels) > 0 && (labels[0].epoch != epoch || labels[0].key.compare(row.key) < 0) {
			labels = labels[1:]
		}
		if len(labels) > 0 && labels[0].key == row.key && !labels[0].unknown {
			t.Path, t.HasPath = string(s.text[labels[0].from:labels[0].to]), true
		}
		w.Files = append(w.Files, t)
	}
	var cut uint64
	w.IPC, cut = capRows(w.IPC)
	s.cutIPC += cut
	w.Files, cut = capRows(w.Files)
	s.cutFiles += cut
}

// capRows keeps the rows with the most bytes, in their order, and returns how
// many operations the others stand for.
func capRows(rows []Transfer) ([]Transfer, uint64) {
	if len(rows) <= maxWindowRows {
		return rows, 0
	}
	least := make([]uint64, len(rows))
	for i := range rows {
		least[i] = rows[i].Bytes
	}
	slices.Sort(least)
	limit := least[len(least)-maxWindowRows]
	above := 0
	for i := range rows {
		if rows[i].Bytes > limit {
			above++
		}
	}
	kept, cut := rows[:0], uint64(0)
	for _, r := range rows {
		switch {
		case r.Bytes > limit:
		case r.Bytes == limit && above < maxWindowRows:
			above++
		default:
			cut += r.Count
			continue
		}
		kept = append(kept, r)
	}
	clear(rows[len(kept):])
	return kept, cut
}

// missInterval is how often the kernel is asked for runs that it skipped.
const missInterval = time.Second

// countMissed asks how often a program was skipped because it already ran on its
// CPU, which happens where the kernel may interrupt programs.
func (s *ioSensor) countMissed() error {
	if time.Since(s.missed.looked) < missInterval {
		return nil
	}
	s.missed.looked = time.Now()
	var ipc, files uint64
	for _, p := range s.unit.programs {
		n, err := p.recursionMisses()
		if err != nil {
			return err
		}
		if slices.Contains(s.plan.vfs.way().programs, p.name) || p.name == s.plan.sys {
			files += n
		} else {
			ipc += n
		}
	}
	s.missed.ipc, s.missed.files = ipc, files
	return nil
}

// close detaches and frees everything. A second call does nothing.
func (s *ioSensor) close() error {
	if s.unit == nil {
		return nil
	}
	err := s.unit.close()
	s.unit = nil
	return err
}
