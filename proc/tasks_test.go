package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// fakeTables are tables that a test makes up.
type fakeTables struct {
	tasks []Task
	err   error
	reads int

	slices, slice uint32 // of the last reading
}

func (f *fakeTables) ReadTasks(slices, slice uint32) ([]Task, error) {
	f.reads++
	f.slices, f.slice = slices, slice
	return f.tasks, f.err
}

// threadsTask is what tables would say of the process in testdata/threads, but for
// its size: so a row tells where it is from.
func threadsTask() Task {
	t := Task{
		PID: 25564, State: 'S', Threads: 3, Processor: 1, Start: 177957*nsPerTick + 5, Runtime: 1879 * time.Millisecond,
		RSS: 1 << 20, VMS: 2 << 20, Mark: 5,
	}
	copy(t.Name[:], "threads")
	return t
}

func TestScanTables(t *testing.T) {
	id := ID{25564, 177957}
	for _, c := range []struct {
		name   string
		change func(task *Task, at *time.Duration)
		title  string // another command line
		want   Want
		tables bool // the row is theirs
		gone   bool
	}{
		{name: "nothing new", tables: true},
		{name: "another state", change: func(k *Task, _ *time.Duration) { k.State, k.Nice = 'R', -5 }, tables: true},
		{name: "another name", change: func(k *Task, _ *time.Duration) { k.Name[0] = 'T' }},
		{name: "kernel threads have more of a name", change: func(k *Task, _ *time.Duration) { k.Name[0], k.Flags = 'T', flagKernelThread }, tables: true},
		{name: "another user", change: func(k *Task, _ *time.Duration) { k.EUID = 7 }},
		{name: "another program", change: func(k *Task, _ *time.Duration) { k.Stack++ }},
		{name: "another start", change: func(k *Task, _ *time.Duration) { k.Start += nsPerTick }},
		{name: "leader has ended", change: func(k *Task, _ *time.Duration) { k.State = 'Z' }},
		{name: "details are old, and the same", change: func(_ *Task, at *time.Duration) { *at += detailsAge }, tables: true},
		{name: "details are old, without a mark", change: func(k *Task, at *time.Duration) { k.Mark, *at = 0, *at+detailsAge }},
		{name: "details are older than a mark is trusted", change: func(_ *Task, at *time.Duration) { *at += detailsWhole }},
		{name: "another mark", change: func(k *Task, _ *time.Duration) { k.Mark++ }},
		{name: "another title in the tables", change: func(k *Task, _ *time.Duration) { k.Command = []byte("threads: busy") }, title: "threads: busy"},
		{name: "a kernel thread is due", change: func(k *Task, at *time.Duration) { k.Flags, *at = flagKernelThread, *at+detailsAge }, tables: true},
		{name: "a kernel worker is due", change: func(k *Task, at *time.Duration) {
			copy(k.Name[:], "kworker/0:1")
			k.Flags, *at = flagKernelThread, *at+detailsAge
		}},
		{name: "another title", title: "threads: busy", change: func(_ *Task, at *time.Duration) { *at += detailsAge }},
		{name: "io", want: Want{IO: true}},
		{name: "maps", want: Want{Maps: true}},
		{name: "hidden", change: func(k *Task, _ *time.Duration) { k.PID = 30000 }, gone: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			mount := copyFixture(t, "threads")
			s, at := scannerOf(t, openTree(t, mount))
			task := threadsTask()
			f := &fakeTables{tasks: []Task{task}}
			s.ReadFrom(f)
			rows := scan(t, s, Want{})
			if len(rows) != 1 || rows[0].ID != id || rows[0].RSS == task.RSS {
				t.Fatalf("first scan: %+v", rows)
			}
			f.tasks[0].Stack, s.known[0].whole = s.known[0].stack, int64(*at+detailsWhole)
			if c.change != nil {
				c.change(&f.tasks[0], at)
			}
			if c.title != "" {
				writeFiles(t, filepath.Join(mount, "25564"), map[string]string{"cmdline": c.title})
			}
			if c.gone {
				*at += hiddenAge
			}
			rows = scan(t, s, c.want)
			if len(rows) != 1 || f.reads != 2 || s.TablesError() != nil {
				t.Fatalf("%d rows after %d readings: %v", len(rows), f.reads, s.TablesError())
			}
			got, now := rows[0], f.tasks[0]
			if c.title != "" && !slices.Equal(got.Details.CommandLine, []string{c.title}) {
				t.Errorf("command line %q", got.Details.CommandLine)
			}
			if got.ID != id || got.Details == nil || got.Details.Name != "threads" {
				t.Errorf("row %+v", got)
			}
			if theirs := got.RSS == task.RSS; theirs != c.tables {
				t.Errorf("the row is from the tables: %v, want %v", theirs, c.tables)
			}
			if !c.tables {
				return
			}
			want := Row{
				ID: id, State: now.State, KernelThread: now.Flags == flagKernelThread, UID: now.UID, EUID: now.EUID, CPUTicks: 187,
				At: got.At, RSS: now.RSS, VMS: now.VMS, Threads: 3, Nice: now.Nice, Processor: 1,
				StartedAt: fixtureBoot + 1779570, Details: got.Details,
			}
			if got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// What the tables hide is found in the listing of the mount, and what they have beside
// it needs no listing.
func TestScanHidden(t *testing.T) {
	mount := t.TempDir()
	if err := os.CopyFS(filepath.Join(mount, "25564"), os.DirFS("testdata/threads/25564")); err != nil {
		t.Fatal(err)
	}
	fs, err := Open(mount)
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	s, at := scannerOf(t, fs)
	f := &fakeTables{tasks: []Task{}}
	s.ReadFrom(f)
	for n, c := range []struct {
		later time.Duration
		want  int
	}{{0, 1}, {hiddenAge / 2, 1}, {hiddenAge, 1}} {
		*at += c.later
		if rows := scan(t, s, Want{}); len(rows) != c.want {
			t.Errorf("scan %d: %d rows, want %d", n, len(rows), c.want)
		}
	}
	// One that began since is listed when the tables have it.
	if err := os.CopyFS(filepath.Join(mount, "25562"), os.DirFS("testdata/zombie/25562")); err != nil {
		t.Fatal(err)
	}
	f.tasks = []Task{{PID: 25562, State: 'Z', Threads: 1, Start: 177957 * nsPerTick}}
	if rows := scan(t, s, Want{}); len(rows) != 2 || rows[0].ID.PID != 25562 || rows[1].ID.PID != 25564 {
		t.Errorf("rows %+v", rows)
	}
}

// An error of the tables costs no scan: it goes on with the texts.
func TestScanLeavesTables(t *testing.T) {
	s, _ := scannerOf(t, openFixture(t, "threads"))
	f := &fakeTables{tasks: []Task{threadsTask()}}
	s.ReadFrom(f)
	scan(t, s, Want{})
	f.err = errors.New("refused")
	for range 2 {
		if rows := scan(t, s, Want{}); len(rows) != 1 || rows[0].RSS == 1<<20 {
			t.Errorf("rows %+v", rows)
		}
	}
	if s.TablesError() != f.err || f.reads != 2 {
		t.Errorf("%d readings, then %v", f.reads, s.TablesError())
	}
	s.ReadFrom(nil)
	if s.TablesError() != nil {
		t.Error(s.TablesError())
	}
}

// Beside the tables the file io of a process is kept open: its row is theirs from the
// third scan on, and what is kept is given back when it ends, when it may not be read
// any more, and with the last who wants scans.
func TestScanTablesWithIO(t *testing.T) {
	mount := copyFixture(t, "threads")
	dir := filepath.Join(mount, "25564")
	storage := func(read string) {
		writeFile(t, filepath.Join(dir, "io"), "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: "+read+"\nwrite_bytes: 6\ncancelled_write_bytes: 0\n")
	}
	storage("5")
	s, _ := scannerOf(t, openTree(t, mount))
	s.Keep(true)
	f := &fakeTables{tasks: []Task{threadsTask()}}
	s.ReadFrom(f)
	look := func(tables bool, read uint64, files int) {
		t.Helper()
		rows := scan(t, s, Want{IO: true})
		f.tasks[0].Stack = s.known[0].stack
		if len(rows) != 1 || rows[0].IO.Or(IO{}).ReadBytes != read || (rows[0].RSS == f.tasks[0].RSS) != tables || s.files != files {
			t.Fatalf("%d descriptors kept, rows %+v; want %d, %d bytes read, from the tables: %v", s.files, rows, files, read, tables)
		}
	}
	look(false, 5, 0)
	look(false, 5, 1) // seen again
	storage("7")
	look(true, 7, 1)
	scan(t, s, Want{})
	storage("8")
	look(true, 8, 1)

	kept := s.known[0].io
	closeFD(kept.fd) // reading fails, as when it has ended
	kept.fd = -1
	s.files--
	storage("9")
	look(false, 9, 1)
	look(true, 9, 1)

	f.tasks[0].Start += nsPerTick // another process with its number, and one that is not there
	scan(t, s, Want{IO: true})
	if s.known[0].io == nil || s.files != 1 {
		t.Errorf("%d descriptors kept", s.files)
	}
	f.tasks = f.tasks[:0]
	if err := os.Rename(dir, filepath.Join(t.TempDir(), "gone")); err != nil {
		t.Fatal(err)
	}
	if rows := scan(t, s, Want{IO: true}); len(rows) != 0 || s.files != 0 {
		t.Errorf("%d rows, %d descriptors kept of a process that has ended", len(rows), s.files)
	}
	s.Keep(false)
}

// ownStorage reads /proc/self/io, on its own way.
func ownStorage(t *testing.T) (io IO) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Fatal(err)
	}
	_, fields, _ := strings.Cut(string(b), "read_bytes:")
	if _, err := fmt.Sscanf(fields, "%d\nwrite_bytes: %d", &io.ReadBytes, &io.WriteBytes); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return io
}

// The storage bytes beside real tables are those of the text.
func TestScanTablesWithIOLive(t *testing.T) {
	tree := live(t)
	s := tree.NewScanner()
	s.Keep(true)
	before := descriptorsOpen(t)
	own := os.Getpid()
	var task Task
	for _, row := range scan(t, tree.NewScanner(), Want{}) {
		if int(row.ID.PID) == own {
			task = Task{PID: row.ID.PID, State: 'S', Threads: row.Threads, Start: row.ID.StartTicks * nsPerTick, RSS: 1, VMS: 2}
			copy(task.Name[:], row.Details.Name)
		}
	}
	offset, err := tree.StartOffset()
	if err != nil || task.PID == 0 {
		t.Fatalf("%+v, %v", task, err)
	}
	task.Start -= uint64(offset)
	f := &fakeTables{tasks: []Task{task}}
	s.ReadFrom(f)
	defer s.Keep(false)
	file, err := os.Create(filepath.Join(t.TempDir(), "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for n := range 4 {
		if _, err := file.Write(make([]byte, 1<<16)); err != nil {
			t.Fatal(err)
		}
		before := ownStorage(t)
		rows := scan(t, s, Want{IO: true})
		after := ownStorage(t)
		at, known := slices.BinarySearchFunc(rows, task.PID, func(r Row, pid int32) int { return int(r.ID.PID - pid) })
		if !known {
			t.Fatal("this process is not listed")
		}
		row := rows[at]
		for i := range s.known {
			if s.known[i].id.PID == task.PID {
				f.tasks[0].Stack, f.tasks[0].UID, f.tasks[0].EUID = s.known[i].stack, row.UID, row.EUID
			}
		}
		got := row.IO.Or(IO{})
		if !row.IO.Known() || got.ReadBytes < before.ReadBytes || got.ReadBytes > after.ReadBytes || got.WriteBytes < before.WriteBytes || got.WriteBytes > after.WriteBytes {
			t.Errorf("scan %d: %+v, the kernel says %+v before, %+v after", n, row.IO, before, after)
		}
		if theirs := row.RSS == 1; theirs != (n >= 2) {
			t.Errorf("scan %d: from the tables: %v", n, theirs)
		}
	}
	s.Keep(false)
	if n := descriptorsOpen(t); n > before+1 { // its own file
		t.Errorf("%d descriptors, %d before", n, before)
	}
}
