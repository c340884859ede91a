package bpf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

func TestSlotsPerBank(t *testing.T) {
	for _, c := range []struct{ want, tables, slots int }{
		{256, 12, 256},
		{255, 12, 128},
		{1, 12, 1},
		{3, 1, 2},
		{256, 6 * 64, 256},
		{256, 6 * 128, 128},
		{256, 6 * 8192, 2},
		{256, 1 << 20, 1},
	} {
		if got := slotsPerBank(c.want, c.tables, ioSlotSize, maxSlotBytes); got != c.slots {
			t.Errorf("slotsPerBank(%d, %d) = %d, want %d", c.want, c.tables, got, c.slots)
		}
	}
}

// bench of slots as programs write them, one table of four slots a bank.
type slotTable struct{ r slotReader }

func newSlotTable(perBank int) *slotTable {
	return &slotTable{slotReader{
		slots: make(memory, 2*perBank*ioSlotSize), heads: make(memory, 2*ioHeadSize), perBank: perBank, tables: 1,
	}}
}

// claim does what claim() of src/io.bpf.c does, without a search.
func (s *slotTable) claim(epoch uint32, index int, pid uint32, inode uint64, bytes uint64) {
	bank := int(epoch & 1)
	head := s.r.heads[bank*ioHeadSize:]
	if head.u32(ioHeadEpoch) != epoch {
		head.setU32(ioHeadFirst, 0)
		head.setU32(ioHeadEpoch, epoch)
	}
	m := s.r.slots[(bank*s.r.perBank+index)*ioSlotSize:]
	m.setU64(ioSlotKey+ioKeyInode, inode)
	m.setU64(ioSlotKey+ioKeyStart, 7)
	m.setU32(ioSlotKey+ioKeyDev, 8<<20|1)
	m.setU32(ioSlotKey+ioKeyKind, uint32(File)|ioKindWrite)
	m.setU32(ioSlotCount, 1)
	m.setU64(ioSlotBytes, bytes)
	m.setU32(ioSlotPID, pid)
	m.setU32(ioSlotNext, head.u32(ioHeadFirst))
	m.setU32(ioSlotEpoch, epoch)
	head.setU32(ioHeadFirst, uint32(index+1))
}

func (s *slotTable) add(epoch uint32, index int, bytes uint64) {
	m := s.r.slots[(int(epoch&1)*s.r.perBank+index)*ioSlotSize:]
	m.setU64(ioSlotBytes, m.u64(ioSlotBytes)+bytes)
	m.setU32(ioSlotCount, m.u32(ioSlotCount)+1)
}

func describeCounted(all []counted) string {
	var s []string
	for _, c := range all {
		s = append(s, fmt.Sprintf("%d:%d/%d", c.key.resource.Inode, c.bytes, c.count))
	}
	return strings.Join(s, " ")
}

func TestSlotReader(t *testing.T) {
	s := newSlotTable(4)
	want := func(what string, got []counted, want string) {
		t.Helper()
		if d := describeCounted(got); d != want {
			t.Errorf("%s: got %q, want %q", what, d, want)
		}
	}
	want("before anything", s.r.late(nil), "")
	want("empty", s.r.bank(nil, 1), "")
	s.claim(2, 3, 10, 100, 5)
	s.claim(2, 0, 10, 101, 6)
	s.add(2, 3, 1)
	want("bank", s.r.bank(nil, 2), "101:6/1 100:6/2")
	want("nothing late", s.r.late(nil), "")

	// A program that was halted ends after its bank was read.
	s.add(2, 0, 9)
	s.claim(2, 1, 10, 102, 4)
	want("late", s.r.late(nil), "101:9/1 102:4/1")
	want("once only", s.r.late(nil), "")

	// The bank is used again: what stands in it has another epoch.
	want("other bank", s.r.bank(nil, 3), "")
	s.claim(4, 2, 10, 103, 1)
	want("same bank, next time", s.r.bank(nil, 4), "103:1/1")
	s.claim(6, 2, 10, 104, 2)
	want("overwritten slots are not late", s.r.late(nil), "")

	// A process of another PID namespace has a slot and no row.
	s.claim(5, 1, 0, 105, 2)
	s.claim(5, 2, 10, 106, 3)
	want("foreign", s.r.bank(nil, 5), "106:3/1")
}

// TestSlotReaderDistrustsLists gives it lists that lead outside and in circles.
func TestSlotReaderDistrustsLists(t *testing.T) {
	s := newSlotTable(4)
	s.claim(2, 0, 10, 100, 1)
	s.r.slots.setU32(ioSlotNext, 1)
	if got := s.r.bank(nil, 2); len(got) == 0 || len(got) > 4 {
		t.Errorf("a circle gave %d rows", len(got))
	}
	s.r.heads.setU32(ioHeadFirst, 99)
	if got := s.r.bank(nil, 2); len(got) != 0 {
		t.Errorf("an index outside gave %d rows", len(got))
	}
}

func TestNewKey(t *testing.T) {
	for _, c := range []struct {
		pid, dev, kind uint32
		ok             bool
		want           transferKey
	}{
		{5, 0xfe00001, uint32(File) | ioKindWrite, true, transferKey{Process{5, 9}, Resource{File, 254, 1, 77, 3}, true}},
		{5, 15, uint32(Pipe), true, transferKey{Process{5, 9}, Resource{Pipe, 0, 15, 77, 3}, false}},
		{5, 0xffffffff, uint32(Socket), true, transferKey{Process{5, 9}, Resource{Socket, 4095, 1<<20 - 1, 77, 3}, false}},
		{0, 15, uint32(Pipe), false, transferKey{}},
		{5, 15, 0, false, transferKey{}},
	} {
		got, ok := newKey(c.pid, 9, 77, c.dev, 3, c.kind)
		if ok != c.ok || got != c.want {
			t.Errorf("newKey(%+v) = %+v, %v, want %+v, %v", c, got, ok, c.want, c.ok)
		}
	}
}

func TestMerge(t *testing.T) {
	key := func(pid uint32, k Kind, inode uint64, write bool) transferKey {
		return transferKey{Process{pid, 1}, Resource{Kind: k, Inode: inode}, write}
	}
	s := &ioSensor{}
	s.raw = []counted{
		{key(2, File, 9, false), 10, 1},
		{key(2, Pipe, 9, true), 1, 1},
		{key(1, File, 8, true), 5, 2},
		{key(2, File, 9, false), 30, 3},
		{key(1, Socket, 8, true), 7, 1},
		{key(1, File, 8, false), 4, 1},
		{key(1, File, 6, false), 4, 1},
	}
	s.text = []byte("/old/new/b")
	s.labels = []label{
		{key: key(1, File, 6, false), unknown: true},
		{key: key(1, File, 8, false), epoch: 1, from: 4, to: 8}, // of the next window
		{key: key(2, File, 9, false), from: 0, to: 4},
		{key: key(1, File, 8, true), from: 8, to: 10},
		{key: key(2, File, 9, false), from: 4, to: 8},
		{key: key(3, File, 9, false), from: 4, to: 8},
	}
	w := Window{}
	s.merge(&w, 0)
	var got []string
	for _, r := range append(slices.Clone(w.IPC), w.Files...) {
		got = append(got, fmt.Sprintf("%d %d:%d %v %d/%d %q %v", r.TGID, r.Kind, r.Inode, r.Write, r.Bytes, r.Count, r.Path, r.HasPath))
	}
	want := []string{
		`1 2:8 true 7/1 "" false`,
		`2 1:9 true 1/1 "" false`,
		`1 3:6 false 4/1 "" false`,
		`1 3:8 false 4/1 "" false`,
		`1 3:8 true 5/2 "/b" true`,
		`2 3:9 false 40/4 "/old" true`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("merge gave\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCapRows(t *testing.T) {
	for _, c := range []struct {
		rows   int
		kept   int
		cut    uint64
		atSize func(i int) uint64
	}{
		{10, 10, 0, func(int) uint64 { return 1 }},
		{maxWindowRows, maxWindowRows, 0, func(int) uint64 { return 1 }},
		{maxWindowRows + 3, maxWindowRows, 6, func(int) uint64 { return 1 }},
		{maxWindowRows + 100, maxWindowRows, 200, func(i int) uint64 { return uint64(i) }},
		{2 * maxWindowRows, maxWindowRows, 2 * maxWindowRows, func(i int) uint64 { return uint64(i % 2) }},
	} {
		rows := make([]Transfer, c.rows)
		for i := range rows {
			rows[i] = Transfer{Process: Process{TGID: uint32(i)}, Bytes: c.atSize(i), Count: 2}
		}
		total := func(rows []Transfer) (bytes uint64) {
			for _, r := range rows {
				bytes += r.Bytes
			}
			return bytes
		}
		all := total(rows)
		least := make([]uint64, 0, c.rows)
		for _, r := range rows {
			least = append(least, r.Bytes)
		}
		slices.Sort(least)
		gone := uint64(0)
		for _, b := range least[:c.rows-c.kept] {
			gone += b
		}
		kept, cut := capRows(rows)
		if len(kept) != c.kept || cut != c.cut {
			t.Errorf("%d rows: kept %d and cut %d operations, want %d and %d", c.rows, len(kept), cut, c.kept, c.cut)
		}
		if got := total(kept); got != all-gone {
			t.Errorf("%d rows: kept %d bytes, want those with the most, %d", c.rows, got, all-gone)
		}
		if !slices.IsSortedFunc(kept, func(a, b Transfer) int { return int(a.TGID) - int(b.TGID) }) {
			t.Errorf("%d rows: order changed", c.rows)
		}
	}
}

// refusals lets a plan meet a kernel that refuses these programs.
func refusals(o Options, refuse map[string]error) *plan {
	p := newPlan(o)
	for range 100 {
		again := false
		for _, name := range p.programs() {
			if err := refuse[name]; err != nil {
				if !p.refused(name, err, o) {
					return nil
				}
				again = true
				break
			}
		}
		if !again {
			return p
		}
	}
	return nil
}

func TestPlan(t *testing.T) {
	no := &hookError{"x", "not in this kernel"}
	refuse := func(names ...string) map[string]error {
		m := map[string]error{}
		for _, n := range names {
			m[n] = no
		}
		return m
	}
	for _, c := range []struct {
		name    string
		options Options
		refuse  map[string]error
		want    string // programs
		bySys   class
	}{
		{"all", Options{}, nil, "vfs_read vfs_write vfs_readv vfs_writev sock_send_length sock_recv_length", 0},
		{"one of four is enough", Options{}, refuse("vfs_readv"), "sock_send_length sock_recv_length sys_exit_typed", pipes | files},
		{"no kfunc", Options{}, refuse("vfs_read", sysTyped), "sock_send_length sock_recv_length sys_exit_copied", pipes | files},
		{"before 6.3", Options{}, refuse("sock_send_length", "sock_recv_length"), "vfs_read vfs_write vfs_readv vfs_writev sock_sendmsg_inner sock_recvmsg", 0},
		{"no inner", Options{}, refuse("sock_send_length", "sock_sendmsg_inner"), "vfs_read vfs_write vfs_readv vfs_writev sock_sendmsg sock_recv_length", 0},
		{"no hook of sockets", Options{}, refuse("sock_send_length", "sock_sendmsg_inner", "sock_sendmsg"), "vfs_read vfs_write vfs_readv vfs_writev sock_recv_length sys_exit_typed", socketsOut},
		{"no fentry", Options{WithoutFentry: true}, nil, "sock_send_length sock_recv_length sys_exit_typed", pipes | files},
		{"no fentry, no lengths", Options{WithoutFentry: true, WithoutLengths: true}, nil, "sys_exit_typed", pipes | files | socketsOut | socketsIn},
		{"no kfuncs", Options{WithoutFentry: true, WithoutKfuncs: true}, nil, "sock_send_length sock_recv_length sys_exit_copied", pipes | files},
		{"no lengths found out late", Options{WithoutFentry: true}, refuse("sock_recv_length"), "sock_send_length sys_exit_typed", pipes | files | socketsIn},
		{"no system calls", Options{WithoutFentry: true}, refuse(sysTyped, sysCopied), "sock_send_length sock_recv_length", 0},
		{"nothing", Options{WithoutFentry: true, WithoutLengths: true}, refuse(sysTyped, sysCopied), "", 0},
	} {
		p := refusals(c.options, c.refuse)
		if p == nil {
			t.Errorf("%s: no end", c.name)
			continue
		}
		if got := strings.Join(p.programs(), " "); got != c.want {
			t.Errorf("%s: programs %q, want %q", c.name, got, c.want)
		}
		if p.bySys() != c.bySys {
			t.Errorf("%s: sys_exit counts %b, want %b", c.name, p.bySys(), c.bySys)
		}
		// No class by two programs: every program belongs to one part.
		for _, part := range p.parts() {
			if part.way().name == bySysExit && len(part.way().programs) != 0 {
				t.Errorf("%s: a part has two ways", c.name)
			}
		}
	}
}

// TestPlanUnderLockdown gives up paths before it gives up a way.
func TestPlanUnderLockdown(t *testing.T) {
	p := newPlan(Options{WithoutFentry: true})
	refused := &VerifierError{sysTyped, "0: (85) call bpf_probe_read_kernel#113\nprogram of this type cannot use helper bpf_probe_read_kernel#113\nprocessed 9 insns", unix.EINVAL}
	if !p.refused(sysTyped, refused, Options{}) || p.walk || p.sys != sysTyped {
		t.Errorf("plan %+v: want the same program without paths", p)
	}
	other := &VerifierError{sysTyped, "0: (85) call bpf_probe_read_kernel#113\nR1 invalid mem access", unix.EACCES}
	p = newPlan(Options{WithoutFentry: true})
	if !p.refused(sysTyped, other, Options{}) || !p.walk || p.sys != sysCopied {
		t.Errorf("plan %+v: want the other program, with paths", p)
	}
}

func TestStatusOfFailures(t *testing.T) {
	locked := &VerifierError{sysCopied, "program of this type cannot use helper bpf_probe_read_kernel#113", unix.EINVAL}
	for _, c := range []struct {
		name       string
		vfs, socks error
		ipc, files SensorStatus
	}{
		{"silent", errSilent, errSilent, SensorStatus{StateError, "hook attached but does not report"}, SensorStatus{StateError, "hook attached but does not report"}},
		{"lockdown", locked, locked, SensorStatus{StateUnavailable, "refused by kernel lockdown"}, SensorStatus{StateUnavailable, "refused by kernel lockdown"}},
		{"sockets only", locked, nil, SensorStatus{State: StateObserving}, SensorStatus{StateUnavailable, "refused by kernel lockdown"}},
		{"files and pipes only", nil, locked, SensorStatus{State: StateObserving}, SensorStatus{State: StateObserving}},
	} {
		s := &ioSensor{plan: newPlan(Options{}), unit: &unit{kernel: nil}}
		end := func(p *part, err error) {
			for err != nil && p.way().name != byNothing {
				p.errs = append(p.errs, err)
			}
		}
		end(&s.plan.vfs, c.vfs)
		end(&s.plan.out, c.socks)
		end(&s.plan.in, c.socks)
		ipc, files := s.status()
		if ipc != c.ipc || files != c.files {
			t.Errorf("%s: got %+v and %+v, want %+v and %+v", c.name, ipc, files, c.ipc, c.files)
		}
	}
}

func TestCompareCanary(t *testing.T) {
	want, err := singCanary(pipes | files | socketsOut | socketsIn)
	if err != nil {
		t.Fatal(err)
	}
	if len(want) != 6 {
		t.Fatalf("%d notes, want both directions of pipe, file and socket", len(want))
	}
	heard := func() *Window {
		w := &Window{}
		for _, n := range want {
			r := Transfer{Process: Process{TGID: uint32(unix.Getpid())}, Resource: Resource{Inode: n.inode}, Write: n.write, Bytes: n.bytes, Count: n.count}
			if n.class == files {
				w.Files = append(w.Files, r)
			} else {
				w.IPC = append(w.IPC, r)
			}
		}
		return w
	}
	s := &ioSensor{plan: newPlan(Options{})}
	if err := s.compareCanary(heard(), want); err != nil {
		t.Errorf("all heard: %v", err)
	}
	for i, n := range want {
		for name, spoil := range map[string]func(*Transfer){
			"missing":   func(r *Transfer) { r.Inode++ },
			"bytes":     func(r *Transfer) { r.Bytes++ },
			"twice":     func(r *Transfer) { r.Bytes, r.Count = 2*r.Bytes, 2*r.Count },
			"not ours":  func(r *Transfer) { r.TGID++ },
			"direction": func(r *Transfer) { r.Write = !r.Write },
		} {
			w := heard()
			rows := w.IPC
			at := slices.IndexFunc(rows, func(r Transfer) bool { return r.Inode == n.inode && r.Write == n.write })
			if n.class == files {
				rows = w.Files
				at = slices.IndexFunc(rows, func(r Transfer) bool { return r.Inode == n.inode && r.Write == n.write })
			}
			spoil(&rows[at])
			program := map[class]string{pipes: "vfs_read", files: "vfs_read", socketsOut: "sock_send_length", socketsIn: "sock_recv_length"}[n.class]
			err := s.compareCanary(w, want)
			if err == nil || err.program != program || !errors.Is(err, errSilent) {
				t.Errorf("note %d %s: got %v, want %s", i, name, err, program)
			}
		}
	}
}

func TestShape(t *testing.T) {
	file := &btf.Struct{Name: "file"}
	size := &btf.Typedef{Name: "size_t", Type: &btf.Int{Name: "unsigned long", Size: 8}}
	for want, typ := range map[string]btf.Type{
		"*file": &btf.Pointer{Target: &btf.Const{Type: file}},
		"*":     &btf.Pointer{Target: &btf.Int{Name: "char", Size: 1}},
		"64":    size,
		"32":    &btf.Enum{Name: "e", Size: 4},
		"file":  file,
	} {
		if got := shape(typ); got != want {
			t.Errorf("shape(%v) = %q, want %q", typ, got, want)
		}
	}
}

// TestHooksFit compares the running kernel with what programs were written for.
// A missing function is a kernel without it; one that looks otherwise would be
// misread.
func TestHooksFit(t *testing.T) {
	kernel := needKernel(t)
	for program := range hooks {
		err := checkHook(kernel, program)
		var h *hookError
		if errors.As(err, &h) && strings.HasPrefix(h.why, "not in this kernel") || err == nil {
			continue
		}
		t.Errorf("%s: %v", program, err)
	}
	hooks["test_wrong"] = hook{"vfs_read", false, "*file * 32 *", "64"}
	hooks["test_result"] = hook{"vfs_read", false, "*file * 64 *", "32"}
	defer delete(hooks, "test_wrong")
	defer delete(hooks, "test_result")
	for _, program := range []string{"test_wrong", "test_result", "test_unknown"} {
		if err := checkHook(kernel, program); err == nil {
			t.Errorf("%s fits, though it is another function", program)
		}
	}
}

// TestProgramsAndHooks finds every program of the object in the table and the
// other way round.
func TestProgramsAndHooks(t *testing.T) {
	obj, err := parseObject(ioObject)
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range hooks {
		f, ok := obj.functions[name]
		if !ok || !f.isProgram() {
			t.Errorf("no program %s", name)
			continue
		}
		kind := "fexit/"
		if h.tracepoint {
			kind = "tp_btf/"
		}
		if f.section != kind+h.function {
			t.Errorf("program %s is for %s, want %s", name, f.section, kind+h.function)
		}
	}
	for name, f := range obj.functions {
		if _, ok := hooks[name]; f.isProgram() && !ok {
			t.Errorf("program %s has no hook to compare", name)
		}
	}
	for name, want := range map[string][2]uint32{
		"io_slots": {4, ioSlotSize}, "io_heads": {4, ioHeadSize},
		"io_spill_0": {ioSpillKeySize, ioSpillValueSize}, "io_spill_1": {ioSpillKeySize, ioSpillValueSize},
	} {
		got := obj.tables[name]
		if got.keySize != want[0] || got.valueSize != want[1] {
			t.Errorf("table %s: key and value of %d and %d bytes, want %v", name, got.keySize, got.valueSize, want)
		}
	}
}

// FuzzSlotReader reads tables of any content, as a program that is in the middle
// of its work may leave them.
func FuzzSlotReader(f *testing.F) {
	s := newSlotTable(2)
	s.claim(2, 0, 10, 100, 5)
	s.claim(2, 1, 10, 101, 5)
	f.Add([]byte(s.r.slots), []byte(s.r.heads), uint32(2))
	f.Add([]byte{1}, []byte{2, 0, 0, 0, 1}, uint32(2))
	f.Fuzz(func(t *testing.T, slots, heads []byte, epoch uint32) {
		s := newSlotTable(2)
		copy(s.r.slots, slots)
		copy(s.r.heads, heads)
		got := s.r.bank(nil, epoch)
		if len(got) > s.r.perBank {
			t.Fatalf("%d rows of %d slots", len(got), s.r.perBank)
		}
		for _, c := range got {
			if c.key.process.TGID == 0 || c.key.resource.Kind < Pipe || c.key.resource.Kind > File {
				t.Errorf("row %+v of no process or kind", c)
			}
		}
		if late := s.r.late(nil); len(late) != 0 {
			t.Errorf("%d rows late, though nothing changed", len(late))
		}
	})
}

// FuzzSpill reads elements of any content.
func FuzzSpill(f *testing.F) {
	f.Add(make([]byte, ioSpillKeySize), make([]byte, ioSpillValueSize))
	f.Add([]byte{1}, []byte{})
	f.Fuzz(func(t *testing.T, k, v []byte) {
		if c, ok := parseSpill(k, v); !ok && c != (counted{}) {
			t.Errorf("refused, but %+v", c)
		} else if ok && c.key.process.TGID == 0 {
			t.Errorf("row %+v of no process", c)
		}
	})
}
