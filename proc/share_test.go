package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// likeThreads makes n processes, numbers 101 on, that are copies of the one in
// testdata/threads, and what tables would say of them: all have one mark, and a command
// line of their own.
func likeThreads(t *testing.T, n int) (mount string, tasks []Task) {
	t.Helper()
	mount = t.TempDir()
	for i := range n {
		pid := 101 + i
		dir := filepath.Join(mount, fmt.Sprint(pid))
		if err := os.CopyFS(dir, os.DirFS("testdata/threads/25564")); err != nil {
			t.Fatal(err)
		}
		k := threadsTask()
		k.PID, k.Stack, k.Command = int32(pid), 5, fmt.Appendf(nil, "threads\x00%d\x00", pid)
		writeFiles(t, dir, map[string]string{"cmdline": string(k.Command)})
		tasks = append(tasks, k)
	}
	return mount, tasks
}

// tableRows counts the rows that are from the tables.
func tableRows(rows []Row) int {
	n := 0
	for _, r := range rows {
		if r.RSS == 1<<20 {
			n++
		}
	}
	return n
}

// Texts that two processes with one mark agree on are those of the others; each keeps a
// command line of its own.
func TestScanShares(t *testing.T) {
	mount, tasks := likeThreads(t, 5)
	s, at := scannerOf(t, openTree(t, mount))
	f := &fakeTables{tasks: tasks}
	s.ReadFrom(f)
	rows := scan(t, s, Want{})
	if len(rows) != 5 || tableRows(rows) != 3 {
		t.Fatalf("%d of %d rows are from the tables", tableRows(rows), len(rows))
	}
	if f.slices != 1 {
		t.Errorf("the first scan asked for one of %d slices", f.slices)
	}
	plain, _ := scannerOf(t, openTree(t, mount))
	for i, want := range scan(t, plain, Want{}) {
		if got := rows[i].Details; show(got) != show(want.Details) || rows[i].ID != want.ID {
			t.Errorf("%d has %s\nits texts %s", rows[i].ID.PID, show(got), show(want.Details))
		}
	}

	// What is known serves the next scan, whose slice has another title.
	before := slices.Clone(rows)
	*at += time.Second
	for i := range f.tasks {
		f.tasks[i].Stack = s.known[i].stack
		if i != 3 {
			f.tasks[i].Mark, f.tasks[i].Command = 0, nil
		}
	}
	f.tasks[3].Command = []byte("threads: busy")
	writeFiles(t, filepath.Join(mount, "104"), map[string]string{"cmdline": "threads: busy"})
	rows = scan(t, s, Want{})
	if f.slices != uint32(detailsDue/time.Second) || f.slice != 1 {
		t.Errorf("the second scan asked for slice %d of %d", f.slice, f.slices)
	}
	if tableRows(rows) != 4 {
		t.Errorf("%d rows are from the tables", tableRows(rows))
	}
	for i, r := range rows {
		switch same := r.Details == before[i].Details; {
		case i == 3 && !slices.Equal(r.Details.CommandLine, []string{"threads: busy"}):
			t.Errorf("%d has the command line %q", r.ID.PID, r.Details.CommandLine)
		case i != 3 && !same:
			t.Errorf("the details of %d are made anew", r.ID.PID)
		}
	}
}

// One that has other texts ends what two agreed on, and processes whose command line the
// tables do not have, or that have no memory, are read as text.
func TestScanSharesNothing(t *testing.T) {
	for name, change := range map[string]func(mount string, k []Task){
		"witnesses who disagree": func(mount string, _ []Task) {
			for _, pid := range []string{"102", "104"} {
				writeFiles(t, filepath.Join(mount, pid), map[string]string{"cgroup": "0::/other\n"})
			}
		},
		"marks of their own": func(_ string, k []Task) {
			for i := range k {
				k[i].Mark = uint64(i + 7)
			}
		},
		"no marks": func(_ string, k []Task) {
			for i := range k {
				k[i].Mark = 0
			}
		},
		"no command lines": func(_ string, k []Task) {
			for i := range k {
				k[i].Command = nil
			}
		},
		"no memory": func(_ string, k []Task) {
			for i := range k {
				k[i].Stack = 0
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			mount, tasks := likeThreads(t, 4)
			change(mount, tasks)
			s, _ := scannerOf(t, openTree(t, mount))
			s.ReadFrom(&fakeTables{tasks: tasks})
			if rows := scan(t, s, Want{}); len(rows) != 4 || tableRows(rows) != 0 {
				t.Errorf("%d of %d rows are from the tables", tableRows(rows), len(rows))
			}
		})
	}
}

// A listing is made only where the host has threads that are not in the tables.
func TestScanCountsThreads(t *testing.T) {
	mount, tasks := likeThreads(t, 3)
	fs := openTree(t, mount)
	s, at := scannerOf(t, fs)
	s.ReadFrom(&fakeTables{tasks: tasks[:2]})
	for _, c := range []struct {
		name, load string
		want       int
	}{
		{"as many", "0.00 0.01 0.05 1/6 99\n", 2}, // each has 3
		{"more", "0.00 0.01 0.05 1/9 99\n", 3},
		{"those that are hidden are known", "0.00 0.01 0.05 1/9 99\n", 3},
		{"no count", "0.00 0.01", 3},
	} {
		writeFiles(t, mount, map[string]string{"loadavg": c.load})
		if rows := scan(t, s, Want{}); len(rows) != c.want {
			t.Errorf("%s: %d rows, want %d", c.name, len(rows), c.want)
		}
		*at += hiddenAge
	}
}
