package proc

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
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
