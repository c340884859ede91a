package bpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

// mappingRecord makes what the program writes of a mapping.
func mappingRecord(values map[int]uint64) []byte {
	b := make([]byte, mappingSize)
	for at, v := range values {
		switch at {
		case mappingTGID, mappingBits, mappingDev:
			binary.LittleEndian.PutUint32(b[at:], uint32(v))
		default:
			binary.LittleEndian.PutUint64(b[at:], v)
		}
	}
	return b
}

func TestParseMappings(t *testing.T) {
	file := mappingRecord(map[int]uint64{
		mappingTGID: 7, mappingBits: 1 | 4 | mappingShared | 1<<mappingName, mappingBegun: 123456789, mappingStart: 0x1000, mappingEnd: 0x3000,
		mappingOffset: 1 << 40, mappingInode: 1 << 50, mappingDev: 259<<20 | 70000,
	})
	heap := mappingRecord(map[int]uint64{
		mappingTGID: 8, mappingBits: 1 | 2 | 2<<mappingName | mappingVsyscall | mappingUnsettled, mappingBegun: 5,
		mappingStart: 0x7000, mappingEnd: 1 << 63, mappingOffset: 0,
	})
	none := mappingRecord(map[int]uint64{mappingTGID: 8, mappingBits: 7 << mappingName, mappingStart: 0, mappingEnd: 1})
	want := []Mapping{
		{PID: 7, Begun: 123456789, Start: 0x1000, End: 0x3000, Permissions: [4]byte{'r', '-', 'x', 's'}, FileOffset: 1 << 52, Major: 259, Minor: 70000, Inode: 1 << 50, Name: "/"},
		{PID: 8, Begun: 5, Start: 0x7000, End: 1 << 63, Permissions: [4]byte{'r', 'w', '-', 'p'}, Name: "[heap]", Vsyscall: true, Unsettled: true},
		{PID: 8, Start: 0, End: 1, Permissions: [4]byte{'-', '-', '-', 'p'}},
	}
	all := slices.Concat(file, heap, none)
	for n := range len(all) + 1 {
		list, used, err := parseMappings(all[:n], nil)
		if whole := n / mappingSize; err != nil || used != whole*mappingSize || !slices.Equal(list, want[:whole]) {
			t.Fatalf("of %d bytes it took %d: %v, %v", n, used, list, err)
		}
	}
	for name, bad := range map[string]map[int]uint64{
		"no process":       {mappingEnd: 1},
		"a negative one":   {mappingTGID: 1 << 31, mappingEnd: 1},
		"an empty mapping": {mappingTGID: 1, mappingStart: 5, mappingEnd: 5},
	} {
		if list, used, err := parseMappings(slices.Concat(file, mappingRecord(bad)), nil); err == nil || used != mappingSize || len(list) != 1 {
			t.Errorf("%s: %v, %d bytes, %v", name, list, used, err)
		}
	}
}

// openedMappings gives the tables until the test ends; before 5.12 no kernel has them.
func openedMappings(t *testing.T) *Mappings {
	t.Helper()
	kernel := needKernel(t)
	if _, _, err := functionID(kernel, "bpf_iter_task_vma"); err != nil {
		if _, err := OpenMappings(); err == nil || !strings.Contains(err.Error(), "bpf_iter_task_vma") {
			t.Errorf("this kernel has no such iterator, and opening says %v", err)
		}
		t.Skip("this kernel has no iterator over mappings (5.12): opening says so")
	}
	m, err := OpenMappings()
	return untilEnd(t, m, err)
}

// kernelMappings are the tables as a scanner takes them.
type kernelMappings struct {
	*Mappings
	told map[int32]int // mappings of each process, in the last reading
	err  error
}

func (k *kernelMappings) ReadMappings(each func(*proc.KernelMapping)) bool {
	k.told = map[int32]int{}
	k.err = k.Read(func(list []Mapping) bool {
		for i := range list {
			k.told[list[i].PID]++
			each((*proc.KernelMapping)(&list[i]))
		}
		return true
	})
	return k.err == nil
}

// holdMappings makes mappings of every kind in this process, says which it could not make,
// and waits.
func holdMappings() error {
	const page = 4096
	var missing []string
	miss := func(what string, err error) bool {
		if err != nil {
			missing = append(missing, fmt.Sprintf("%s: %v", what, err))
		}
		return err != nil
	}
	mapped := func(what string, fd int, offset int64, pages, protection, flags int) uintptr {
		a, _, e := unix.Syscall6(unix.SYS_MMAP, 0, uintptr(pages*page), uintptr(protection), uintptr(flags), uintptr(fd), uintptr(offset))
		if e != 0 {
			miss(what, e)
			return 0
		}
		return a
	}
	const r, w, x = unix.PROT_READ, unix.PROT_WRITE, unix.PROT_EXEC
	const anonymous, private, shared = unix.MAP_ANONYMOUS, unix.MAP_PRIVATE, unix.MAP_SHARED
	for protection := range r | w | x + 1 {
		mapped("anonymous memory", -1, 0, 2, protection, anonymous|private)
		mapped("shared anonymous memory", -1, 0, 2, protection, anonymous|shared)
	}
	mapped("a stack", -1, 0, 4, r|w, anonymous|private|unix.MAP_GROWSDOWN|unix.MAP_STACK)
	named := mapped("memory with a name", -1, 0, 5, r|w, anonymous|private)
	shm := mapped("shared memory with a name", -1, 0, 6, r|w, anonymous|shared)
	name := [...]byte{'h', 'e', 'a', 'p', 0}
	for at, pages := range map[uintptr]uintptr{named: 5, shm: 6} {
		const setVMA, setVMAName = 0x53564d41, 0 // PR_SET_VMA and PR_SET_VMA_ANON_NAME, 5.17
		_, _, e := unix.Syscall6(unix.SYS_PRCTL, setVMA, setVMAName, at, pages*page, uintptr(unsafe.Pointer(&name)), 0)
		if e != 0 {
			miss("a name for memory", e)
		}
	}

	dir, err := os.MkdirTemp("", "mappings")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file, err := os.Create(filepath.Join(dir, "a file"))
	if err != nil {
		return err
	}
	const far = 1 << 36
	if err := file.Truncate(far + 4*page); err != nil {
		return err
	}
	fd := int(file.Fd())
	for protection := range r | w | x + 1 {
		mapped("a file", fd, page, 2, protection, private)
		mapped("a shared file", fd, 0, 2, protection, shared)
	}
	mapped("a file, far in it", fd, far, 3, r, private)
	gone, err := os.Create(filepath.Join(dir, "gone"))
	if err != nil {
		return err
	}
	if err := gone.Truncate(2 * page); err != nil {
		return err
	}
	mapped("a deleted file", int(gone.Fd()), 0, 2, r|w, private)
	os.Remove(gone.Name())
	if zero, err := os.OpenFile("/dev/zero", os.O_RDWR, 0); !miss("/dev/zero", err) {
		mapped("/dev/zero", int(zero.Fd()), 0, 3, r|w, private)
		mapped("/dev/zero, shared", int(zero.Fd()), 0, 3, r|w, shared)
	}
	if fd, err := unix.MemfdCreate("[heap]", 0); !miss("a memfd", err) && !miss("its size", unix.Ftruncate(fd, 3*page)) {
		mapped("a memfd", fd, 0, 3, r|x, private)
		mapped("a memfd, shared", fd, 0, 3, r|w, shared)
	}
	if id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 2*page, 0o600); !miss("shared memory of System V", err) {
		_, err := unix.SysvShmAttach(id, 0, 0)
		miss("shared memory of System V", err)
		unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	}
	var ring uintptr
	if _, _, e := unix.Syscall(unix.SYS_IO_SETUP, 8, uintptr(unsafe.Pointer(&ring)), 0); e != 0 {
		miss("a ring of aio", e)
	}

	// The heap, in two parts.
	brk, _, _ := unix.Syscall(unix.SYS_BRK, 0, 0, 0)
	brk = (brk + page - 1) &^ (page - 1)
	if end, _, _ := unix.Syscall(unix.SYS_BRK, brk+8*page, 0, 0); end != brk+8*page {
		miss("a heap", unix.ENOMEM)
	} else if _, _, e := unix.Syscall(unix.SYS_MPROTECT, brk+3*page, 2*page, 0); e != 0 {
		miss("a hole in the heap", e)
	}

	// A thread with a table of open files to itself: the kernel walks over it too.
	split, wait := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		split <- unix.Unshare(unix.CLONE_FILES)
		<-wait
	}()
	miss("a thread with files of its own", <-split)
	miss("a file of a file system over others", mapOverlay(dir, mapped))
	fmt.Printf("ready, without %q\n", missing)
	io.Copy(io.Discard, os.Stdin)
	close(wait)
	return nil
}

// mapOverlay maps files of both layers of an overlayfs that only this thread sees.
func mapOverlay(dir string, mapped func(what string, fd int, offset int64, pages, protection, flags int) uintptr) error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
		return err
	}
	for _, sub := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "lower", "a"), make([]byte, 9000), 0o755); err != nil {
		return err
	}
	options := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", dir)
	if err := unix.Mount("none", filepath.Join(dir, "merged"), "overlay", 0, options); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "merged", "b"), make([]byte, 9000), 0o755); err != nil {
		return err
	}
	for _, name := range []string{"a", "b"} {
		f, err := os.Open(filepath.Join(dir, "merged", name))
		if err != nil {
			return err
		}
		mapped("a file of an overlay", int(f.Fd()), 4096, 1, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
		f.Close()
	}
	return unix.Unmount(dir, unix.MNT_DETACH)
}

// idOf is the identity of a process.
func idOf(t *testing.T, pid int) proc.ID {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	start, err := strconv.ParseUint(strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))[19], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return proc.ID{PID: int32(pid), StartTicks: start}
}

// asTold is what the tables should say of the mappings in maps.
func asTold(list []proc.Mapping) (told []Mapping, vsyscall bool) {
	for _, m := range list {
		x := Mapping{
			Start: m.Start, End: m.End, Permissions: m.Permissions, FileOffset: m.FileOffset, Major: m.Major, Minor: m.Minor, Inode: m.Inode,
		}
		name := func(p string) bool { return strings.HasPrefix(m.Path, p) }
		switch {
		case name("[vsyscall"):
			vsyscall = true
			continue
		case m.Path == "[heap]", m.Path == "[stack]":
			x.Name = m.Path
		case name("[vdso"), name("[vvar"):
			x.Name = "[vdso]"
		case m.Path == "", name("[anon:"):
		case name("[anon_shmem:"), !name("["):
			x.Name = "/"
		default:
			x.Name = "[special]"
		}
		told = append(told, x)
	}
	return told, vsyscall
}

// compareMappings waits until the tables and the text of a process say the same, and tells
// what of it only the text settles.
func compareMappings(t *testing.T, m *Mappings, pid int) (list []proc.Mapping, unsettled int) {
	t.Helper()
	fs, err := proc.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	p, err := fs.OpenProcess(idOf(t, pid))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	own, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	shown := bytes.Contains(own, []byte("[vsyscall]")) // by this host, where it is not turned off
	differs := ""
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if list, err = p.ReadMaps(nil); err != nil {
			t.Fatal(err)
		}
		want, vsyscall := asTold(list)
		var got []Mapping
		differs, unsettled = "", 0
		err := m.Read(func(list []Mapping) bool {
			for _, x := range list {
				if x.PID != int32(pid) {
					continue
				}
				if shown && x.Vsyscall != vsyscall {
					differs = fmt.Sprintf("[vsyscall] is shown: %v; the tables say %v", vsyscall, x.Vsyscall)
				}
				if x.Unsettled {
					unsettled++
					if i := len(got); i < len(want) {
						x.Name = want[i].Name
					}
				}
				x.PID, x.Begun, x.Vsyscall, x.Unsettled = 0, 0, false, false
				got = append(got, x)
			}
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			differs = fmt.Sprintf("%d mappings, the text has %d", len(got), len(want))
		}
		for i := range min(len(got), len(want)) {
			if got[i] != want[i] {
				differs = fmt.Sprintf("mapping %d of %d\ngot  %+v\nwant %+v\ntext %+v", i, len(want), got[i], want[i], list[i])
				break
			}
		}
		if differs == "" {
			return list, unsettled
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d: %s", pid, differs)
		}
	}
}

// withMappings starts this binary in the role "mappings".
func withMappings(t *testing.T, change func(*exec.Cmd)) int {
	t.Helper()
	cmd, out, _ := start(t, "mappings", change)
	line, err := out.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "ready, without ") {
		t.Fatalf("it said %q, %v", line, err)
	}
	t.Logf("process %d is %s", cmd.Process.Pid, strings.TrimSpace(line))
	return cmd.Process.Pid
}

func TestMappingsAreThoseOfMaps(t *testing.T) {
	m := openedMappings(t)
	list, unsettled := compareMappings(t, m, withMappings(t, nil))
	t.Logf("%d mappings, %d unsettled", len(list), unsettled)
	if len(list) < 40 {
		t.Errorf("%d mappings", len(list))
	}
	for _, path := range []string{"[heap]", "[stack]", "[vdso]", "[vvar]", "/memfd:[heap] (deleted)"} {
		if !slices.ContainsFunc(list, func(m proc.Mapping) bool { return m.Path == path }) {
			t.Errorf("no mapping is called %s", path)
		}
	}
}

func TestMappingsWithoutLeader(t *testing.T) {
	m := openedMappings(t)
	compareMappings(t, m, started(t, "leaderless"))
}

// Without random addresses the heap begins where the data of the program ends, and kernels
// differ in what maps calls [heap] there.
func TestMappingsNextToTheHeap(t *testing.T) {
	m := openedMappings(t)
	const noRandom = 0x0040000 // ADDR_NO_RANDOMIZE, include/uapi/linux/personality.h
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, _, e := unix.Syscall(unix.SYS_PERSONALITY, 0xffffffff, 0, 0)
	if e != 0 {
		t.Fatal(e)
	}
	unix.Syscall(unix.SYS_PERSONALITY, before|noRandom, 0, 0)
	defer unix.Syscall(unix.SYS_PERSONALITY, before, 0, 0)
	pid := withMappings(t, nil)
	if _, unsettled := compareMappings(t, m, pid); unsettled == 0 {
		t.Error("nothing of it is for the text to settle")
	}
	sameRows(t, m, pid)
}

// A program of 32 bits: its system calls do not go through [vsyscall].
func TestMappingsOf32Bits(t *testing.T) {
	m := openedMappings(t)
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, program32, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // whose end is that of the parent
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); errors.Is(err, unix.ENOEXEC) {
		t.Skip("this kernel executes no program of 32 bits")
	} else if err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	list, _ := compareMappings(t, m, cmd.Process.Pid)
	if slices.ContainsFunc(list, func(m proc.Mapping) bool { return m.Path == "[vsyscall]" }) {
		t.Error("it shows [vsyscall]")
	}
	sameRows(t, m, cmd.Process.Pid)
}

// program32 is an ELF file for i386 that pauses for ever.
var program32 = func() []byte {
	code := []byte{0xb8, 29, 0, 0, 0, 0xcd, 0x80, 0xeb, 0xf7} // mov eax, 29; int 0x80; jmp
	const base, head = 0x8048000, 52 + 32
	b := make([]byte, head, head+len(code))
	copy(b, "\x7fELF\x01\x01\x01")
	le := binary.LittleEndian
	le.PutUint16(b[16:], 2) // ET_EXEC
	le.PutUint16(b[18:], 3) // EM_386
	le.PutUint32(b[20:], 1)
	le.PutUint32(b[24:], base+head)
	le.PutUint32(b[28:], 52) // program headers
	le.PutUint16(b[40:], 52)
	le.PutUint16(b[42:], 32)
	le.PutUint16(b[44:], 1)
	for i, v := range []uint32{1, 0, base, base, uint32(head + len(code)), uint32(head + len(code)), 5, 0x1000} { // PT_LOAD, r-x
		le.PutUint32(b[52+4*i:], v)
	}
	return append(b, code...)
}()

// scanMaps returns the rows with map summaries that s has now.
func scanMaps(t *testing.T, s *proc.Scanner) map[proc.ID]proc.Row {
	t.Helper()
	rows, err := s.Scan(proc.Want{Maps: true})
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[proc.ID]proc.Row, len(rows))
	for _, r := range rows {
		all[r.ID] = r
	}
	return all
}

func sameSummary(a, b *proc.MapSummary) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.Equal(a.Boxes, b.Boxes) && maps.Equal(a.Totals, b.Totals)
}

// sameRows compares the map summaries of all processes, as text, from the tables and as text
// again: what did not change between the texts is the same from the tables, with the same
// epoch. Processes that change come off in another try; pids are those that must not.
func sameRows(t *testing.T, m *Mappings, pids ...int) {
	t.Helper()
	fs, err := proc.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	wrong := map[proc.ID]int{}
	const tries = 6
	for try := range tries {
		s, tables := fs.NewScanner(), &kernelMappings{Mappings: m}
		first := scanMaps(t, s)
		s.ReadMappingsFrom(tables)
		told := scanMaps(t, s)
		if tables.err != nil {
			t.Fatal(tables.err)
		}
		last := scanMaps(t, fs.NewScanner())
		compared, fromTables, differ := 0, 0, 0
		for id, a := range first {
			b, here := told[id]
			c, still := last[id]
			if !here || !still || a.MapsErr != nil || c.MapsErr != nil || !sameSummary(a.Maps, c.Maps) || a.State == 'Z' || c.State == 'Z' {
				continue
			}
			compared++
			if tables.told[id.PID] > 0 {
				fromTables++
			}
			if a.Maps != b.Maps || a.MapsEpoch != b.MapsEpoch || b.MapsErr != nil {
				differ++
				if wrong[id]++; wrong[id] == tries {
					t.Errorf("%v %s, told of %d mappings, epoch %d then %d, %v\ntext %+v\ngot  %+v",
						id, a.Details.Name, tables.told[id.PID], a.MapsEpoch, b.MapsEpoch, b.MapsErr, a.Maps, b.Maps)
				}
			}
		}
		for _, pid := range pids {
			id := idOf(t, pid)
			if b, c := told[id], last[id]; b.Maps == nil || !sameSummary(b.Maps, c.Maps) {
				differ++
				if wrong[id]++; wrong[id] == tries {
					t.Errorf("%v: %+v, the text %+v", id, b.Maps, c.Maps)
				}
			}
		}
		if compared < len(pids) || fromTables == 0 {
			t.Errorf("%d processes compared, %d from the tables", compared, fromTables)
		}
		if differ == 0 || t.Failed() {
			t.Logf("try %d: %d processes compared, %d from the tables", try, compared, fromTables)
			return
		}
	}
}

func TestMappingsMakeTheSameSummaries(t *testing.T) {
	m := openedMappings(t)
	sameRows(t, m, withMappings(t, nil), started(t, "leaderless"))
}

// In a PID namespace the processes of that have its numbers, and others are not told.
func TestMappingsInPIDNamespace(t *testing.T) {
	needRoot(t)
	openedMappings(t)
	cmd, out, _ := start(t, "mapping numbers", func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	})
	var own, others int
	if _, err := fmt.Fscan(out, &own, &others); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if own < 5 || others != 0 {
		t.Errorf("%d mappings of process 1, %d of others", own, others)
	}
}

// countMappings prints how many mappings are those of process 1, and how many not.
func countMappings() error {
	m, err := OpenMappings()
	if err != nil {
		return err
	}
	defer m.Close()
	own, others := 0, 0
	err = m.Read(func(list []Mapping) bool {
		for i := range list {
			if list[i].PID == 1 {
				own++
			} else {
				others++
			}
		}
		return true
	})
	fmt.Println(own, others)
	return err
}

// Closing leaves nothing in the kernel.
func TestMappingsClose(t *testing.T) {
	openedMappings(t)
	before := len(bpfObjects(t, unix.Getpid()))
	m, err := OpenMappings()
	if err != nil {
		t.Fatal(err)
	}
	pieces := 0
	if err := m.Read(func([]Mapping) bool { pieces++; return false }); err != nil || pieces != 1 {
		t.Errorf("%d pieces, %v", pieces, err)
	}
	leavesNothing(t, m, before)
}
