package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// startProgram starts a program that is no target of ours, with exactly this
// environment, and ends it with the test.
func startProgram(t *testing.T, path string, argv, env []string) *os.Process {
	t.Helper()
	c, err := os.StartProcess(path, argv, &os.ProcAttr{Env: env})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Kill()
		c.Wait()
	})
	// StartProcess returns when the new program's descriptors are closed; its file is
	// mapped only then. The auxiliary vector is the last that the kernel fills in.
	auxv := fmt.Sprintf("/proc/%d/auxv", c.Pid)
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(time.Millisecond) {
		if words, err := os.ReadFile(auxv); err == nil && len(bytes.Trim(words, "\x00")) > 0 {
			return c
		}
		if time.Now().After(end) {
			t.Fatalf("%s was not executed within 15 s", path)
		}
	}
}

// compile builds a C program that only waits, without a C library, so that it can
// be of any kind.
func compile(t *testing.T, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs gcc")
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "wait.c")
	text := `#ifdef __i386__
void _start(void) { for (;;) __asm__ volatile("int $0x80" : : "a"(29)); }
#else
void _start(void) { for (;;) __asm__ volatile("syscall" : : "a"(34) : "rcx", "r11"); }
#endif
`
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "wait")
	cmd := exec.Command("gcc", append(flags, "-nostdlib", "-static", "-fno-pie", "-no-pie", "-o", out, source)...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, text)
	}
	return out
}

// everyReader runs every reader of this file's subject and returns their errors.
func everyReader(p *Process) map[string]error {
	errs := map[string]error{}
	_, errs["maps"] = p.ReadMaps(nil)
	_, errs["smaps"] = p.ReadSmaps(nil)
	_, errs["rollup"] = p.ReadRollup()
	_, _, errs["environment"] = p.ReadEnvironment()
	_, errs["auxv"] = p.ReadAuxv()
	_, errs["signals"] = p.ReadSignals()
	_, errs["context"] = p.ReadContext()
	_, errs["memory"] = p.ReadMemory(0x10000, make([]byte, 8))
	return errs
}

func TestReadersOfGoneProcess(t *testing.T) {
	c := startProgram(t, "/bin/sleep", []string{"sleep", "1000"}, nil)
	p := openLive(t, int32(c.Pid))
	for what, err := range everyReader(p) {
		if err != nil && !(what == "memory" && errors.Is(err, ErrUnmapped)) {
			t.Errorf("%s of a process that lives: %v", what, err)
		}
	}
	c.Kill()
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, c.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	for what, err := range everyReader(p) {
		if !errors.Is(err, ErrGone) {
			t.Errorf("%s of a zombie: %v, want ErrGone", what, err)
		}
	}
	c.Wait()
	for what, err := range everyReader(p) {
		if !errors.Is(err, ErrGone) {
			t.Errorf("%s of a process that was reaped: %v, want ErrGone", what, err)
		}
	}
}

func TestReadersOfKernelThread(t *testing.T) {
	st, ok := openFS(t).readStat(2)
	if !ok || st.flags&flagKernelThread == 0 {
		t.Skip("PID 2 is no kernel thread here")
	}
	p := openLive(t, 2)
	if maps, err := p.ReadMaps(nil); err != nil || len(maps) != 0 {
		t.Errorf("maps: %v, %v", maps, err)
	}
	if maps, err := p.ReadSmaps(nil); err != nil || len(maps) != 0 {
		t.Errorf("smaps: %v, %v", maps, err)
	}
	if r, err := p.ReadRollup(); err != nil || r != (Rollup{}) {
		t.Errorf("rollup: %v, %v", r, err)
	}
	if e, cut, err := p.ReadEnvironment(); err != nil || len(e) != 0 || e == nil || cut {
		t.Errorf("environment: %v, %v, %v", e, cut, err)
	}
	if a, err := p.ReadAuxv(); err != nil || len(a.Entries) != 0 || a.Entries == nil {
		t.Errorf("auxv: %v, %v", a, err)
	}
	if _, err := p.ReadMemory(0x10000, make([]byte, 8)); !errors.Is(err, ErrUnmapped) {
		t.Errorf("memory: %v", err)
	}
	c, err := p.ReadContext()
	if err != nil {
		t.Fatal(err)
	}
	if c.Executable.Known() || c.ExecutableState != ExecutableUnreadable || c.CommandLine == nil || len(c.CommandLine) != 0 || c.Parent.Known() {
		t.Errorf("context: %+v", c)
	}
}

func openFS(t *testing.T) *FS {
	t.Helper()
	fs, err := Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.Close() })
	return fs
}

func init() {
	targets["exec-again"] = func([]string) {
		for i := range 1000 {
			must2(unix.Mmap(-1, 0, 4096, []int{unix.PROT_READ, unix.PROT_NONE}[i%2], unix.MAP_PRIVATE|unix.MAP_ANON))
		}
		targetReady()
		stdin := []unix.PollFd{{Fd: 0}}
		if n, err := unix.Poll(stdin, 0); n > 0 || err != nil {
			os.Exit(0)
		}
		must(unix.Exec("/proc/self/exe", os.Args, []string{"FIRST=1", "PROC_TARGET=exec-again", "LAST=2"}))
	}
}

// A target that execs again and again replaces its address space below every
// reading. None may end early without an error, or mix two programs.
func TestReadersDuringExec(t *testing.T) {
	p := openLive(t, startTarget(t, nil, "exec-again").pid())
	whole, changed := 0, 0
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); {
		maps, err := p.ReadMaps(nil)
		switch {
		case errors.Is(err, unix.EAGAIN):
			changed++
		case err != nil:
			t.Fatal(err)
		case len(maps) > 100:
			// The stack stands at the end, a hundred lines are more than one piece.
			if !slices.ContainsFunc(maps, func(m Mapping) bool { return m.Path == "[stack]" }) {
				t.Fatalf("%d mappings without a stack: the list was cut", len(maps))
			}
			whole++
		}
		for i, m := range maps {
			if i > 0 && maps[i-1].End > m.Start {
				t.Fatal("mappings of two address spaces are mixed")
			}
		}
		env, _, err := p.ReadEnvironment()
		if errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		has := func(name string) bool {
			return slices.ContainsFunc(env, func(e EnvironmentEntry) bool { return e.Name == name })
		}
		if !has("PROC_TARGET") || has("FIRST") != has("LAST") {
			t.Fatalf("half an environment: %v", env)
		}
	}
	if whole == 0 {
		t.Errorf("no reading succeeded, %d gave up", changed)
	}
}

func init() {
	targets["main-leader-ends"] = func([]string) {
		data := must2(unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON))
		for i := range data {
			data[i] = byte(i)
		}
		fact("ADDRESS", uintptr(unsafe.Pointer(&data[0])))
		file := must2(os.CreateTemp("", "gone"))
		must(file.Truncate(4096))
		gone := must2(unix.Mmap(int(file.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED))
		must(os.Remove(file.Name()))
		fact("GONE", uintptr(unsafe.Pointer(&gone[0])))
		fact("GONE_PATH", file.Name())
		go func() {
			for {
				text := must2(os.ReadFile("/proc/self/stat"))
				if st, ok := parseStat(text); ok && st.ended() {
					break
				}
				time.Sleep(time.Millisecond)
			}
			targetReady()
			io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
		unix.Syscall(unix.SYS_EXIT, 0, 0, 0) // this thread, the leader, alone
	}
}

// The leader of a process may end while its other threads go on: everything is
// read through one of those.
func TestReadersOfEndedLeader(t *testing.T) {
	tg := startTarget(t, nil, "main-leader-ends")
	p := openLive(t, tg.pid())
	address := uint64(tg.fact("ADDRESS"))
	holds := func(m Mapping) bool { return m.Start <= address && address < m.End }
	for name, read := range map[string]func([]Mapping) ([]Mapping, error){"maps": p.ReadMaps, "smaps": p.ReadSmaps} {
		maps, err := read(nil)
		if err != nil || !slices.ContainsFunc(maps, holds) {
			t.Errorf("%s: %d mappings, %v", name, len(maps), err)
		}
		// The leader has no map_files any more either.
		i := slices.IndexFunc(maps, func(m Mapping) bool { return m.Start == uint64(tg.fact("GONE")) })
		if i < 0 || maps[i].Path != tg.facts["GONE_PATH"]+" (deleted)" || maps[i].Deleted != Some(true) {
			t.Errorf("%s: the deleted file is %d of %+v", name, i, maps)
		}
	}
	if r, err := p.ReadRollup(); err != nil || r.RSS < 1<<20 || r.Private < 1<<20 {
		t.Errorf("rollup: %+v, %v", r, err)
	}
	buf := make([]byte, 4096)
	if n, err := p.ReadMemory(address, buf); err != nil || n != len(buf) || buf[1] != 1 || buf[4095] != 255 {
		t.Errorf("memory: %d bytes, %v", n, err)
	}
	env, cut, err := p.ReadEnvironment()
	if err != nil || cut || !slices.Contains(env, EnvironmentEntry{"PROC_TARGET", Some("main-leader-ends")}) {
		t.Errorf("environment: %d entries, %v", len(env), err)
	}
	if a, err := p.ReadAuxv(); err != nil || a.WordBits != 64 || len(a.Entries) < 10 {
		t.Errorf("auxv: %+v, %v", a, err)
	}
	s, err := p.ReadSignals()
	if err != nil || len(s.Threads) < 2 || s.Threads[0].TID != tg.pid() {
		t.Errorf("signals: %+v, %v", s, err)
	}
	c, err := p.ReadContext()
	if err != nil {
		t.Fatal(err)
	}
	exe, _ := c.Executable.Get()
	if self, _ := os.Readlink("/proc/self/exe"); exe != self || c.ExecutableState != ExecutablePresent {
		t.Errorf("executable %q is %s, want %q present", exe, c.ExecutableState, self)
	}
	wd, _ := os.Getwd()
	if c.Cwd != Some(wd) || c.Root != Some("/") || c.Namespaces["pid"].Own != Some(true) {
		t.Errorf("cwd %v, root %v, PID namespace %v", c.Cwd, c.Root, c.Namespaces["pid"])
	}
	if !c.UIDs.Known() || len(c.Limits) < 10 || len(c.CommandLine) == 0 || c.Parent.Or(ID{}).PID != int32(os.Getpid()) {
		t.Errorf("context: %+v", c)
	}
}

// A leader that is about to end, and has no memory any more, is passed over for a
// thread that lives.
func TestPassOverLeader(t *testing.T) {
	tg := startTarget(t, nil, "idle")
	p := openLive(t, tg.pid())
	if !p.passOverLeader() || p.live == "" || p.live == fmt.Sprintf("task/%d/", tg.pid()) {
		t.Fatalf("reads through %q", p.live)
	}
	maps, err := p.ReadMaps(nil)
	if err != nil || len(maps) == 0 {
		t.Errorf("%d mappings, %v", len(maps), err)
	}
	if n, err := p.ReadMemory(maps[0].Start, make([]byte, 16)); n != 16 || err != nil {
		t.Errorf("memory: %d bytes, %v", n, err)
	}
	if err := p.Check(); err != nil || p.live != "" {
		t.Errorf("%v, reads through %q though the leader lives", err, p.live)
	}
	alone := openLive(t, int32(startProgram(t, "/bin/sleep", []string{"sleep", "1000"}, nil).Pid))
	if alone.passOverLeader() || alone.live != "" {
		t.Errorf("one thread: reads through %q", alone.live)
	}
}

// With an empty environment the file is as empty as that of a process that is
// about to end.
func TestReadEnvironmentEmpty(t *testing.T) {
	p := openLive(t, int32(startProgram(t, "/bin/sleep", []string{"sleep", "1000"}, []string{}).Pid))
	if e, cut, err := p.ReadEnvironment(); err != nil || cut || e == nil || len(e) != 0 {
		t.Errorf("got %v, %v, %v", e, cut, err)
	}
}

func TestLowAddresses(t *testing.T) {
	path := compile(t, "-Wl,-Ttext-segment=0x10000")
	p := openLive(t, int32(startProgram(t, path, []string{path}, nil).Pid))
	maps, err := p.ReadMaps(nil)
	if err != nil || len(maps) == 0 {
		t.Fatalf("%d mappings, %v", len(maps), err)
	}
	if m := maps[0]; m.Start != 0x10000 || m.Path != path || m.Deleted != Some(false) {
		t.Errorf("first mapping %+v", m)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	if n, err := p.ReadMemory(0x10000, buf); err != nil || !bytes.Equal(buf[:n], file[:64]) {
		t.Errorf("memory at 0x10000: %x, %v", buf[:n], err)
	}
	// The names in map_files have no leading zeros: text of maps would not open them.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if maps, err = p.ReadMaps(nil); err != nil || maps[0].Path != path+" (deleted)" || maps[0].Deleted != Some(true) {
		t.Errorf("after unlink: %+v, %v", maps[0], err)
	}
}

func TestHugePages(t *testing.T) {
	needRoot(t)
	free, err := os.ReadFile("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
	if err != nil || strings.TrimSpace(string(free)) == "0" {
		t.Skip("no free huge pages of 2 MiB (vm.nr_hugepages)")
	}
	tg := startTarget(t, nil, "hugetlb")
	p := openLive(t, tg.pid())
	maps, err := p.ReadSmaps(nil)
	if err != nil {
		t.Fatal(err)
	}
	start := uint64(tg.fact("ADDRESS"))
	at := slices.IndexFunc(maps, func(m Mapping) bool { return m.Start == start })
	if at < 0 {
		t.Fatal("the huge page is missing")
	}
	if m := maps[at]; m.End-m.Start != 2<<20 || m.RSS != Some[uint64](0) || m.PSS != Some[uint64](0) {
		t.Errorf("got %+v, want an RSS of 0: the kernel counts huge pages apart", m)
	}
	r, err := p.ReadRollup()
	if err != nil || r.Private > r.RSS {
		t.Errorf("rollup: %+v, %v", r, err)
	}
}

func init() {
	targets["hugetlb"] = func([]string) {
		data := must2(unix.Mmap(-1, 0, 2<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_HUGETLB|21<<26))
		data[0] = 1
		fact("ADDRESS", uintptr(unsafe.Pointer(&data[0])))
	}
}
