package sensors

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"procinsh/proc"
	lists "procinsh/watch"
)

// busyHost makes a host of n processes that sleep, of every kind there is, and of some
// that start, end, change their names and compile. It ends with the test.
func busyHost(t *testing.T, n int) {
	t.Helper()
	cmd := exec.Command(fixture, "host", fmt.Sprint(n), strings.Repeat("x", 100))
	cmd.Env = []string{"AFTER=the arguments, which a title may run into"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close() // it ends all of its group
		cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "DONE=1\n" {
		t.Fatalf("the host said %q: %v", line, err)
	}
	gcc, err := exec.LookPath("gcc")
	if vm != "" || err != nil {
		return // the host forks and executes as it is
	}
	dir := t.TempDir()
	compiler := exec.Command("sh", "-c", `while :; do "$0" -O2 -c -o "$1" testdata/fixture.c; done`, gcc, filepath.Join(dir, "out.o"))
	compiler.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := compiler.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unix.Kill(-compiler.Process.Pid, unix.SIGKILL)
		compiler.Wait()
	})
}

// tablesMoreExact tells whether statm gives the kernel's estimate of memory where the tables
// have the sum: Linux 6.2 to 6.15.
func tablesMoreExact(t *testing.T) bool {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	return major == 6 && minor >= 2 && minor < 16
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// kindOf sorts processes by what may go wrong with them.
func kindOf(r *proc.Row) string {
	name := r.Details.Name
	switch {
	case r.KernelThread:
		return "kernel thread"
	case name == "leaderless":
		return name
	case r.State == 'Z':
		return "zombie"
	case strings.HasPrefix(name, "ns "):
		return name
	case strings.HasPrefix(name, "sleeper "):
		switch {
		case r.Threads > 1:
			return "sleeper with threads"
		case r.UID != r.EUID:
			return "sleeper with two users"
		case len(r.Details.CommandLine) > 0 && strings.HasPrefix(r.Details.CommandLine[0], "sleeper"):
			return "sleeper with a title"
		case len(r.Details.CommandLine) > 0 && strings.HasPrefix(r.Details.CommandLine[0], "xx"):
			return "sleeper with a long title"
		}
		return "sleeper"
	}
	return "other"
}

// same compares what two rows say. The time of the reading is not of the process.
func same(a, b *proc.Row) bool {
	x, y := *a, *b
	x.At, y.At, x.Details, y.Details = 0, 0, nil, nil
	return x == y && reflect.DeepEqual(a.Details, b.Details)
}

// On a busy host the kernel's tables, and texts through descriptors that are kept, say
// the same of a process as texts that are read afresh before and after, where those two
// agree, bar what LIMITS.md names.
func TestParity(t *testing.T) {
	fs, err := proc.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	tables, err := lists.OpenTables(fs)
	if err != nil {
		if os.Geteuid() == 0 {
			t.Fatalf("no tables, though this is root: %v", err)
		}
		t.Skipf("not root: %v", err)
	}
	defer tables.Close()
	sleepers := 5000
	if vm != "" {
		sleepers = 300
	} else if testing.Short() {
		sleepers = 1000
	}
	busyHost(t, sleepers)
	moreExact := tablesMoreExact(t)

	scan := func(s *proc.Scanner) []proc.Row {
		t.Helper()
		rows, err := s.Scan(proc.Want{})
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	find := func(rows []proc.Row, id proc.ID) *proc.Row {
		at, ok := slices.BinarySearchFunc(rows, id.PID, func(r proc.Row, pid int32) int { return int(r.ID.PID - pid) })
		if !ok || rows[at].ID != id {
			return nil
		}
		return &rows[at]
	}
	// The texts may change and change back between two readings, of a process that runs in
	// between. What is wrong is so each time, and at once of one that only sleeps.
	type key struct {
		id     proc.ID
		source string
	}
	wrong := map[key]int{}
	compared, unlike := map[string]int{}, 0
	tell := func(source string, r, want *proc.Row) {
		if unlike++; unlike <= 10 {
			t.Errorf("%s, %s of %d:\n%s\ntexts:\n%s", source, kindOf(want), want.ID.PID, describe(r), describe(want))
		}
	}
	for round := range 3 {
		before := fs.NewScanner()
		first := scan(before)
		ours, kept := fs.NewScanner(), fs.NewScanner()
		ours.ReadFrom(tables)
		kept.Keep(true)
		scan(ours) // each reads the details by itself
		scan(kept)
		unkept := openFiles(t)
		scan(kept)
		if n := openFiles(t) - unkept; n < 100 { // of those with the lowest numbers, where a host has too many for all
			t.Errorf("round %d: %d descriptors are kept", round, n)
		}
		sources := []struct {
			name string
			rows []proc.Row
		}{{"tables", scan(ours)}, {"kept", scan(kept)}}
		if err := ours.TablesError(); err != nil {
			t.Fatal(err)
		}
		together, fromTables := map[int64]int{}, 0 // the tables are read at one time
		for i := range sources[0].rows {
			at := sources[0].rows[i].At
			together[at]++
			fromTables = max(fromTables, together[at])
		}
		last := scan(fs.NewScanner())
		kept.Keep(false)
		for i := range last {
			want := &last[i]
			was := find(first, want.ID)
			if was == nil || !same(was, want) {
				continue
			}
			compared[kindOf(want)]++
			for _, s := range sources {
				k := key{want.ID, s.name}
				r := find(s.rows, want.ID)
				if r == nil {
					t.Errorf("%d (%s) is not in the rows of the %s", want.ID.PID, kindOf(want), s.name)
					continue
				}
				got := *r
				if s.name == "tables" {
					if moreExact {
						got.RSS = want.RSS
					}
					if got.CPUTicks == want.CPUTicks+1 {
						got.CPUTicks-- // stat rounds user and system time down each
					}
				}
				if name := want.Details.Name; strings.HasPrefix(name, "kworker/") && strings.HasPrefix(got.Details.Name, "kworker/") {
					d := *got.Details
					d.Name = name
					got.Details = &d
				}
				switch {
				case same(&got, want):
					delete(wrong, k)
				case strings.HasPrefix(kindOf(want), "sleeper"):
					tell(s.name, &got, want)
				default:
					if wrong[k]++; wrong[k] > 2 {
						tell(s.name, &got, want)
					}
				}
			}
		}
		if fromTables < len(sources[0].rows)*3/4 {
			t.Errorf("round %d: %d of %d rows are from the tables", round, fromTables, len(sources[0].rows))
		}
	}
	t.Logf("compared: %v", compared)
	if unlike > 0 {
		t.Errorf("%d rows differ", unlike)
	}
	all := 0
	for _, n := range compared {
		all += n
	}
	if all < 2*sleepers {
		t.Errorf("%d rows were compared of %d sleepers in 3 rounds", all, sleepers)
	}
	for _, kind := range []string{
		"kernel thread", "zombie", "leaderless", "ns pid", "ns user", "ns mount", "ns all", "sleeper", "sleeper with threads",
		"sleeper with two users", "sleeper with a title", "sleeper with a long title", "other",
	} {
		if compared[kind] == 0 {
			t.Errorf("no %s was compared", kind)
		}
	}
}

func describe(r *proc.Row) string {
	d := r.Details
	text := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	return fmt.Sprintf("%+v\nname %q executable %q command line %q user %s %s cgroup %s tty %s", *r, d.Name, text(d.Executable), d.CommandLine,
		text(d.Username), text(d.EffectiveUsername), text(d.Cgroup), text(d.TTY))
}
