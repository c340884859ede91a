package bpf

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

// taskRecord makes what the program writes of a task.
func taskRecord(tgid, tid int32, state uint32, run uint64, rest ...func(b []byte)) []byte {
	size := threadSize
	if tgid == tid {
		size = taskSize
	}
	b := make([]byte, size)
	for at, v := range map[int]uint32{0: uint32(size), threadTGID: uint32(tgid), threadTGID + 4: uint32(tid), threadState: state} {
		binary.LittleEndian.PutUint32(b[at:], v)
	}
	binary.LittleEndian.PutUint64(b[threadRun:], run)
	for _, f := range rest {
		f(b)
	}
	return b
}

func TestParseTasks(t *testing.T) {
	whole := taskRecord(7, 7, 1, 5, func(b []byte) {
		for at, v := range map[int]uint32{taskPPID: 3, taskThreads: 2, taskUID: 1000, taskEUID: 0, taskFlags: 0x400000, taskNice: ^uint32(4), taskCPU: 1} {
			binary.LittleEndian.PutUint32(b[at:], v)
		}
		for at, v := range map[int]uint64{taskStart: 123456789, taskEnded: 40, taskStack: 0x7ffc0000, taskRSS: 10, taskVMS: 300} {
			binary.LittleEndian.PutUint64(b[at:], v)
		}
		copy(b[taskName:], "demo")
	})
	demo := Task{
		PID: 7, PPID: 3, State: 'S', Flags: 0x400000, UID: 1000, Threads: 2, Nice: -5, Processor: 1,
		Start: 123456789, Runtime: 45, Stack: 0x7ffc0000, RSS: 10, VMS: 300, Name: [16]byte{'d', 'e', 'm', 'o'},
	}
	marked := func(flags uint32, command string, bytes int) []byte {
		b := append(slices.Clone(whole), make([]byte, markedSize-taskSize)...)
		b = append(append(b, command...), make([]byte, (8-len(command)%8)%8)...)
		binary.LittleEndian.PutUint32(b, uint32(len(b)))
		binary.LittleEndian.PutUint32(b[taskCommand:], flags|uint32(bytes))
		return b
	}
	none := mark(make([]byte, markedSize-taskSize)) // of a record without any
	commanded := func(command []byte, cut bool) Task {
		k := demo
		k.Mark, k.Command, k.CommandCut = none, command, cut
		return k
	}
	long := strings.Repeat("x", maxCommand+1)
	plain := func(pid int32, run uint64) Task { return Task{PID: pid, State: 'R', Runtime: run} }
	with := func(t Task, run uint64) Task { t.Runtime += run; return t }
	for _, c := range []struct {
		name    string
		records [][]byte
		want    []Task
	}{
		{"none", nil, []Task{}},
		{"every member", [][]byte{whole}, []Task{demo}},
		{"a mark, and a command line that cannot be told", [][]byte{marked(0, "", 0)}, []Task{commanded(nil, false)}},
		{"no command line", [][]byte{marked(commandKnown, "", 0)}, []Task{commanded([]byte{}, false)}},
		{"arguments", [][]byte{marked(commandKnown, "a\x00\x00b\x00", 5), taskRecord(9, 9, 0, 2)}, []Task{commanded([]byte("a\x00\x00b\x00"), false), plain(9, 2)}},
		{"a title", [][]byte{marked(commandKnown|commandTitle, "demo: x\x00HOME=", 13)}, []Task{commanded([]byte("demo: x\x00"), false)}},
		{"a title that has no end", [][]byte{marked(commandKnown|commandTitle, "demo: x", 7)}, []Task{commanded([]byte("demo: x"), false)}},
		{"a long command line", [][]byte{marked(commandKnown, long, len(long))}, []Task{commanded([]byte(long[1:]), true)}},
		{"threads", [][]byte{whole, taskRecord(7, 8, 0, 1), taskRecord(9, 9, 0, 2), taskRecord(7, 10, 0, 4), taskRecord(9, 11, 0, 8)}, []Task{with(demo, 5), plain(9, 10)}},
		{"thread before its leader", [][]byte{taskRecord(9, 5, 0, 3), whole, taskRecord(9, 9, 0, 2)}, []Task{demo, plain(9, 5)}},
		{"thread without a leader", [][]byte{taskRecord(9, 5, 0, 3), whole}, []Task{demo}},
		{"another order, as in a nested namespace", [][]byte{taskRecord(9, 9, 0, 2), whole, taskRecord(9, 12, 0, 1), taskRecord(7, 13, 0, 1)}, []Task{with(demo, 1), plain(9, 3)}},
		{"a number given again", [][]byte{taskRecord(7, 7, 0, 1), taskRecord(9, 9, 0, 2), whole}, []Task{demo, plain(9, 2)}},
		{"outside the namespace", [][]byte{taskRecord(0, 0, 0, 1, func(b []byte) {}), whole}, []Task{demo}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := parseTasks(bytes.Join(c.records, nil), []Task{}, nil)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
	for name, b := range map[string][]byte{
		"cut":                                   whole[:taskSize-1],
		"cut mark":                              marked(0, "", 0)[:markedSize-1],
		"a command line longer than its record": marked(commandKnown, "abcdefgh", 9),
		"cut thread":                            taskRecord(7, 8, 0, 1)[:threadSize-1],
		"another size":                          append([]byte{threadSize + 8}, make([]byte, 200)...),
		"size 0":                                make([]byte, 200),
	} {
		if got, late, err := parseTasks(b, nil, nil); err == nil || got != nil || late != nil {
			t.Errorf("%s: %v, %v, %v", name, got, late, err)
		}
	}
}

func FuzzTasks(f *testing.F) {
	f.Add(slices.Concat(taskRecord(7, 7, 1, 5), taskRecord(7, 8, 0, 1), taskRecord(3, 2, 0, 1), taskRecord(3, 3, 0, 2)))
	f.Add(taskRecord(1, 1, 0x20<<16, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		tasks, late, err := parseTasks(b, nil, nil)
		if err != nil && (tasks != nil || late != nil) {
			t.Fatalf("%v with %d tasks", err, len(tasks))
		}
		if len(tasks)*taskSize+len(late)*threadSize > len(b) {
			t.Fatalf("%d tasks and %d threads from %d bytes", len(tasks), len(late), len(b))
		}
		for i, x := range tasks {
			if x.PID <= 0 || i > 0 && tasks[i-1].PID >= x.PID {
				t.Fatalf("process %d after %v", x.PID, tasks[:i])
			}
		}
	})
}

func TestStateLetter(t *testing.T) {
	for raw, want := range map[uint32]byte{
		0: 'R', 1: 'S', 2: 'D', 4: 'T', 8: 't', 0x402: 'I', 0x40: 'P',
		0x80:            'R', // dead, on its way to a zombie
		0x2001:          'S', // freezable
		0x8000:          'D', // frozen
		0x1000:          'D', // waits for a lock of a real-time kernel
		0x102:           'D', // killable
		0x80 | 0x20<<16: 'Z', // zombie
		0x80 | 0x10<<16: 'X',
	} {
		if got := stateLetter(raw); got != want {
			t.Errorf("state %#x is %c, want %c", raw, got, want)
		}
	}
}

func openedTasks(t *testing.T) *Tasks {
	t.Helper()
	s, err := OpenTasks()
	return untilEnd(t, s, err)
}

// estimatesRSS tells whether statm gives an estimate where the tables are exact: the
// parts of each CPU exist since 6.2, and statm adds them since 6.16.
func estimatesRSS(t *testing.T) bool {
	t.Helper()
	major, minor, ok := kernelVersion()
	if !ok {
		t.Fatal("the kernel does not tell its version")
	}
	return major == 6 && minor >= 2 && minor < 16
}

// What the tables say of a process is what its texts say that are read before and
// after, if those agree.
func TestTasksAgreeWithTexts(t *testing.T) {
	started(t, "spin")
	started(t, "pingpong")
	tables := openedTasks(t)
	fs, err := proc.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	texts := fs.NewScanner()
	offset, estimated := startOffset(t), estimatesRSS(t)
	scan := func() map[int32]proc.Row {
		rows, err := texts.Scan(proc.Want{})
		if err != nil {
			t.Fatal(err)
		}
		byPID := map[int32]proc.Row{}
		for _, r := range rows {
			byPID[r.ID.PID] = r
		}
		return byPID
	}
	const ticks, page = 100, 4096
	tick := uint64(time.Second / ticks)
	// A process may wake and sleep again between two readings of its texts: what is wrong
	// is so again and again.
	type difference struct {
		times         int
		texts, tables proc.Row
	}
	wrong := map[int32]difference{}
	compared, hidden := 0, map[int32]bool{}
	for range 8 {
		before := scan()
		list, err := tables.Read(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		byPID := map[int32]Task{}
		for _, x := range list {
			byPID[x.PID] = x
		}
		for pid, a := range scan() {
			b := before[pid]
			if a.ID != b.ID {
				continue
			}
			x, ok := byPID[pid]
			if !ok {
				hidden[pid] = true
				continue
			}
			if got := (x.Start + offset) / tick; got != a.ID.StartTicks {
				t.Errorf("%d began at %d ticks, want %d", pid, got, a.ID.StartTicks)
			}
			if run := x.Runtime / tick; run+1 < b.CPUTicks || run > a.CPUTicks+2 {
				t.Errorf("%d ran for %d ticks, between %d and %d", pid, run, b.CPUTicks, a.CPUTicks)
			}
			leaderless := (x.State == 'Z' || x.State == 'X') && x.Threads > 1
			a.At, b.At, a.Processor, b.Processor = 0, 0, 0, 0
			if a != b || leaderless {
				continue
			}
			compared++
			want := a
			want.UID, want.EUID, want.State, want.KernelThread = x.UID, x.EUID, x.State, x.Flags&0x00200000 != 0
			want.RSS, want.VMS, want.Threads, want.Nice = x.RSS*page, x.VMS*page, x.Threads, x.Nice
			if estimated {
				want.RSS = a.RSS
			}
			if want != a {
				wrong[pid] = difference{wrong[pid].times + 1, a, want}
			} else {
				delete(wrong, pid)
			}
			if parent := a.Parent.Or(proc.ID{}).PID; parent != x.PPID && a.Parent.Known() {
				t.Errorf("the parent of %d is %d, want %d", pid, x.PPID, parent)
			}
		}
	}
	for _, d := range wrong {
		if d.times > 2 {
			t.Errorf("texts  %+v\ntables %+v", d.texts, d.tables)
		}
	}
	if compared < 20 {
		t.Errorf("%d rows were compared", compared)
	}
	if len(hidden) > 1 || len(hidden) == 1 && !hidden[1] {
		t.Errorf("the tables hide %v", hidden)
	}
	t.Logf("%d rows equal; the tables hide %v", compared, hidden)
}

// Inside a PID namespace the numbers are those of the namespace, and only its
// processes are there.
func TestTasksInPIDNamespace(t *testing.T) {
	needRoot(t)
	openedTasks(t)
	cmd, out, _ := start(t, "tasks", func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	})
	var list []Task
	if err := json.NewDecoder(out).Decode(&list); err != nil {
		t.Fatal(err)
	}
	// The first number of a namespace may be hidden as that of the host is.
	if len(list) > 1 || len(list) == 1 && (list[0].PID != 1 || list[0].PPID != 0 || list[0].Threads < 2 || list[0].Runtime == 0) {
		t.Errorf("process %d is alone in its namespace, which has %+v", cmd.Process.Pid, list)
	}
}

// The mark of a process stays while nothing changes, and is another one after each
// change that its texts show.
func TestTaskMarks(t *testing.T) {
	s := openedTasks(t)
	dir := t.TempDir()
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "program")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd, out, end := start(t, "idle", func(cmd *exec.Cmd) { cmd.Path = path })
	if line, err := out.ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	now := func() uint64 {
		t.Helper()
		list, err := s.Read(1, 0)
		if err != nil {
			t.Fatal(err)
		}
		at := find(list, int32(cmd.Process.Pid))
		if at < 0 {
			t.Fatalf("process %d is not in the tables", cmd.Process.Pid)
		}
		return list[at].Mark
	}
	seen := map[uint64]string{now(): "nothing"}
	if len(seen) != 1 || seen[now()] == "" {
		t.Error("the mark of a process that sleeps changes")
	}
	group := cgroupForTest(t)
	other := filepath.Join(dir, "other")
	for _, c := range []struct {
		name   string
		change func() error
	}{
		{"another name", func() error { return os.Rename(path, path+"2") }},
		{"a name as long", func() error { return os.Rename(path+"2", path+"3") }},
		{"another directory", func() error {
			return errors.Join(os.Mkdir(other, 0o755), os.Rename(path+"3", filepath.Join(other, "program3")))
		}},
		{"deleted", func() error { return os.Remove(filepath.Join(other, "program3")) }},
		{"another cgroup", func() error {
			return os.WriteFile(filepath.Join(group, "cgroup.procs"), fmt.Append(nil, cmd.Process.Pid), 0)
		}},
	} {
		if err := c.change(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		m := now()
		if as := seen[m]; as != "" {
			t.Errorf("after %s the mark is that of %s", c.name, as)
		}
		seen[m] = c.name
		if now() != m {
			t.Errorf("after %s the mark changes by itself", c.name)
		}
	}
	end.Close() // so that the cgroup gets empty
}

// cgroupForTest makes a cgroup of version 2 that goes with the test, once it is empty.
func cgroupForTest(t *testing.T) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^\S+ \S+ \S+ \S+ (\S+) .* - cgroup2 `).FindSubmatch(mounts)
	if m == nil {
		t.Fatal("no cgroup2 mount")
	}
	dir, err := os.MkdirTemp(string(m[1]), "procinsh-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			err := os.Remove(dir)
			if err == nil {
				return
			}
			if time.Now().After(end) {
				t.Error(err)
				return
			}
		}
	})
	return dir
}

// What the tables have as the command line of a process is what its text is, if that is
// the same before and after.
func TestTaskCommandsAgreeWithTexts(t *testing.T) {
	needRoot(t)
	tables := openedTasks(t)
	if !tables.Commands {
		t.Fatal("no command lines")
	}
	long := strings.Repeat("0123456789", 10_000)
	run := func(what string, args ...string) (int, io.Writer) {
		cmd, out, in := start(t, what, func(cmd *exec.Cmd) {
			cmd.Args = args
			cmd.Env = append(cmd.Env, "PADDING="+strings.Repeat("p", 8000))
		})
		if line, err := out.ReadString('\n'); err != nil {
			t.Fatalf("%q, %v", line, err)
		}
		return cmd.Process.Pid, in
	}
	want := map[int32]string{} // what the tables must have, by its name
	for name, args := range map[string][]string{
		"none": {""}, "some": {"a", "b c", ""}, "empty": {"", "", ""}, "long": {"a", long}, "nearly a page": {long[:4000]},
		"many": strings.Split(strings.Repeat("argument ", 2000), " "),
	} {
		pid, _ := run("idle", args...)
		want[int32(pid)] = name
	}
	for name, c := range map[string]struct {
		tail  string
		after bool // on into the environment
	}{
		"title": {"x\x00", false}, "title without an end": {"x", false}, "title in the environment": {"x and more\x00", true},
		"long title": {strings.Repeat("x", 6000), true},
	} {
		pid, _ := run("idle", strings.Repeat("a", 50))
		end := statField(t, pid, 49)
		mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		at := int64(end) - 1
		if !c.after && len(c.tail) > 1 {
			at--
		}
		room := int64(statField(t, pid, 51)) - at
		if _, err := mem.WriteAt([]byte(c.tail)[:min(int64(len(c.tail)), room)], at); err != nil {
			t.Fatal(err)
		}
		mem.Close()
		want[int32(pid)] = name
	}
	ended, _, _ := start(t, "end", nil) // a zombie until the test ends
	text := func(pid int32) (string, bool) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return string(b[:min(len(b), maxCommand)]), err == nil
	}
	compared := map[string]bool{}
	zombie := false
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		list, err := tables.Read(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		before := map[int32]string{}
		for _, x := range list {
			if b, ok := text(x.PID); ok {
				before[x.PID] = b
			}
			if x.Command != nil || x.Mark != 0 {
				t.Fatalf("nobody asked for %+v", x)
			}
		}
		if list, err = tables.Read(1, 0); err != nil {
			t.Fatal(err)
		}
		for _, x := range list {
			got := string(x.Command)
			after, ok := text(x.PID)
			if x.Mark == 0 {
				t.Errorf("process %d has no mark", x.PID)
			}
			if x.State == 'Z' || x.Flags&0x00200000 != 0 {
				zombie = zombie || int(x.PID) == ended.Process.Pid
				if x.Command != nil {
					t.Errorf("process %d in state %c has the command line %q", x.PID, x.State, got)
				}
			} else if b, known := before[x.PID]; known && ok && b == after && x.Command != nil {
				if got != b {
					t.Errorf("process %d has the command line %q in the tables, %q in the texts", x.PID, got, b)
				}
				compared[want[x.PID]] = true
			}
		}
		missing := ""
		for _, name := range want {
			if !compared[name] {
				missing = name
			}
		}
		if missing == "" && zombie {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the tables do not have the command line %q; zombie: %v", missing, zombie)
		}
	}
	// A part of the processes, and one that becomes another program.
	half := func(slice uint32) int {
		list, err := tables.Read(2, slice)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, x := range list {
			if x.Mark != 0 {
				n++
			}
		}
		return n
	}
	if a, b := half(0), half(1); a < 5 || b < 5 {
		t.Errorf("%d and %d processes in the halves", a, b)
	}
	pid, in := run("become", "one")
	if _, err := in.Write([]byte{'\n'}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the command line is that of the program that was executed", func() bool {
		list, err := tables.Read(1, 0)
		if err != nil {
			t.Fatal(err)
		}
		at := find(list, int32(pid))
		return at >= 0 && string(list[at].Command) == "another\x00program\x00"
	})
}

// statField returns a number of /proc/PID/stat, as proc_pid_stat(5) counts them.
func statField(t *testing.T, pid, field int) uint64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	v, err := strconv.ParseUint(strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))[field-3], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Closing leaves nothing in the kernel.
func TestTasksClose(t *testing.T) {
	openedTasks(t)
	before := len(bpfObjects(t, unix.Getpid()))
	s, err := OpenTasks()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(0, 0); err != nil {
		t.Error(err)
	}
	leavesNothing(t, s, before)
}
