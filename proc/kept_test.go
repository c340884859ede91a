package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What is kept shows each change that stat and status show, the sizes when stat has a
// sign of change, and another process of the number.
func TestScanReadsWhatItKeeps(t *testing.T) {
	stat := func(old, new string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { edit(t, filepath.Join(dir, "stat"), old, new) }
	}
	for _, c := range []struct {
		name   string
		change func(t *testing.T, dir string)
		later  time.Duration
		want   Want
		sized  bool // the sizes are read anew
		check  func(r *Row) bool
	}{
		{name: "nothing", check: func(r *Row) bool { return r.State == 'S' && r.Threads == 3 && r.UID == 0 }},
		{name: "a state", change: stat(" S 25514", " D 25514"), check: func(r *Row) bool { return r.State == 'D' }},
		{name: "it runs", change: stat(" S 25514", " R 25514"), sized: true, check: func(r *Row) bool { return r.State == 'R' }},
		{name: "a tick", change: stat(" 187 0 ", " 187 1 "), sized: true, check: func(r *Row) bool { return r.CPUTicks == 188 }},
		{name: "a fault", change: stat(" 61 0 ", " 62 0 "), sized: true, check: func(r *Row) bool { return r.CPUTicks == 187 }},
		{name: "the size", change: stat(" 19320832 ", " 19324928 "), sized: true, check: func(r *Row) bool { return r.CPUTicks == 187 }},
		{name: "the estimate", change: stat(" 274 ", " 275 "), sized: true, check: func(r *Row) bool { return r.CPUTicks == 187 }},
		{name: "nice and threads", change: stat(" 20 0 3 ", " 25 5 2 "), check: func(r *Row) bool { return r.Nice == 5 && r.Threads == 2 }},
		{name: "a name", change: stat("(threads)", "(other)"), sized: true, check: func(r *Row) bool { return r.Details.Name == "other" }},
		{name: "a terminal", change: stat("25499 3365 0 -1", "25499 3365 1025 -1"), sized: true, check: func(r *Row) bool { return r.Details.TTY != nil }},
		{name: "a user", change: func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, "status"), "\nUid:\t0\t0\t0\t0", "\nUid:\t1000\t1001\t0\t0")
		}, sized: true, check: func(r *Row) bool {
			return r.UID == 1000 && r.EUID == 1001 && *r.Details.Username == "alice" && *r.Details.EffectiveUsername == "bob"
		}},
		{name: "a title after its time", later: detailsAge, change: func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, "cmdline"), "busy\x00")
		}, sized: true, check: func(r *Row) bool { return r.Details.CommandLine[0] == "busy" }},
		{name: "sizes after their time", later: detailsAge, sized: true, check: func(r *Row) bool { return r.State == 'S' }},
		{name: "maps", want: Want{Maps: true}, check: func(r *Row) bool { return r.Maps != nil && r.MapsEpoch == 1 }},
		{name: "io", want: Want{IO: true}, check: func(r *Row) bool { return r.IO.Known() }},
		{name: "it ended, its leader not reaped", change: stat(" S 25514 25499 3365 0 -1 4194304 61 0 0 0 187 0 0 0 20 0 3", " Z 25514 25499 3365 0 -1 4194304 61 0 0 0 187 0 0 0 20 0 1"),
			check: func(r *Row) bool { return r.State == 'Z' && r.RSS == 0 && r.VMS == 0 }},
		{name: "another process", change: stat(" 177957 ", " 180000 "), sized: true, check: func(r *Row) bool { return r.ID.StartTicks == 180000 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			mount := copyFixture(t, "threads")
			dir := filepath.Join(mount, "25564")
			writeFile(t, filepath.Join(dir, "maps"), "00400000-00401000 r-xp 00000000 00:00 0\n")
			writeFile(t, filepath.Join(dir, "io"), "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 0\n")
			s, at := scannerOf(t, openTree(t, mount))
			s.Keep(true)
			defer s.Keep(false)
			scan(t, s, Want{})
			*at += time.Millisecond
			before := scan(t, s, Want{})[0]
			if s.files != 2 {
				t.Fatalf("%d descriptors are kept", s.files)
			}
			files := s.known[0].files
			writeFile(t, filepath.Join(dir, "statm"), "5000 400 305 1 0 4185 0\n")
			if c.change != nil {
				c.change(t, dir)
			}
			*at += time.Millisecond + c.later
			rows := scan(t, s, c.want)
			if len(rows) != 1 {
				t.Fatalf("%d rows", len(rows))
			}
			r := rows[0]
			if !c.check(&r) {
				t.Errorf("row %+v, details %s", r, show(r.Details))
			}
			if sized := r.RSS == 400*pageSize && r.VMS == 5000*pageSize; sized != c.sized && r.State != 'Z' {
				t.Errorf("size %d of %d, before %d of %d", r.RSS, r.VMS, before.RSS, before.VMS)
			}
			if same := r.ID == before.ID; same != (s.known[0].files == files) || !same && files.stat >= 0 {
				t.Errorf("what is kept of the process: %+v, was %+v", s.known[0].files, files)
			}
		})
	}
}

func descriptorsOpen(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// What is kept of a process is closed with the first scan after its end, all of it when
// nobody wants it any more or none is left for others, and never is it more than its share.
func TestScanGivesBackWhatItKeeps(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// A mount with few processes: a host may have more than are kept.
	mount := t.TempDir()
	for _, pid := range []int{os.Getpid(), os.Getppid(), cmd.Process.Pid} {
		if err := os.Symlink("/proc/"+strconv.Itoa(pid), filepath.Join(mount, strconv.Itoa(pid))); err != nil {
			t.Fatal(err)
		}
	}
	fs, err := Open(mount)
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	ended := false
	end := func() {
		if !ended {
			ended = true
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
	defer end()
	kept := func(s *Scanner, pid int) *keptFiles {
		for i := range s.known {
			if int(s.known[i].id.PID) == pid {
				return s.known[i].files
			}
		}
		return nil
	}
	before := descriptorsOpen(t)
	s := fs.NewScanner()
	scan(t, s, Want{})
	scan(t, s, Want{})
	if n := descriptorsOpen(t); s.files != 0 || n != before {
		t.Errorf("%d descriptors are kept unasked, %d open instead of %d", s.files, n, before)
	}
	s.Keep(true)
	scan(t, s, Want{})
	mine := kept(s, cmd.Process.Pid)
	if n := descriptorsOpen(t); mine == nil || n != before+s.files {
		t.Fatalf("%+v is kept of the target; %d descriptors of all, %d open instead of %d", mine, s.files, n, before)
	}
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(mine.stat))
	if want := strconv.Itoa(cmd.Process.Pid) + "/stat"; err != nil || !strings.HasSuffix(name, want) {
		t.Errorf("%q is kept, want …/%s: %v", name, want, err)
	}
	open := descriptorsOpen(t)
	end()
	before -= open - descriptorsOpen(t) // what package os had of it
	for _, r := range scan(t, s, Want{}) {
		if int(r.ID.PID) == cmd.Process.Pid {
			t.Error("the process is listed after its end")
		}
	}
	if n := descriptorsOpen(t); mine.stat != -1 || mine.ids != -1 || n != before+s.files {
		t.Errorf("after its end %+v is kept; %d descriptors of all, %d open instead of %d", mine, s.files, n, before)
	}
	s.Keep(false)
	if n := descriptorsOpen(t); s.files != 0 || n != before {
		t.Errorf("%d descriptors are kept in the end, %d open instead of %d", s.files, n, before)
	}

	s.Keep(true)
	s.mostFiles = 3
	scan(t, s, Want{})
	if rows := scan(t, s, Want{}); s.files == 0 || s.files > 3 || len(rows) != 2 {
		t.Errorf("%d descriptors are kept, with 3 at most, and %d rows", s.files, len(rows))
	}

	// Without a descriptor to spare a scan fails, and gives up what it keeps.
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if uint64(s.mostFiles) > limit.Cur {
		t.Fatal("more than the limit")
	}
	most := s.mostFiles
	s.Keep(true)
	if s.mostFiles <= most || uint64(s.mostFiles) > limit.Cur/maxKeptShare || s.mostFiles > maxKeptFiles {
		t.Errorf("at most %d descriptors are kept, of %d", s.mostFiles, limit.Cur)
	}
	tight := limit
	tight.Cur = 3
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &tight); err != nil {
		t.Fatal(err)
	}
	_, err = s.Scan(Want{})
	if e := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); e != nil {
		t.Fatal(e)
	}
	if !OutOfDescriptors(err) {
		t.Errorf("a scan without descriptors: %v", err)
	}
	for range 2 {
		scan(t, s, Want{})
	}
	if n := descriptorsOpen(t); s.files == 0 || n != before+s.files {
		t.Errorf("%d descriptors are kept after that, %d open instead of %d", s.files, n, before)
	}
	s.Keep(false)
	if n := descriptorsOpen(t); s.files != 0 || n != before {
		t.Errorf("%d descriptors are kept in the end, %d open instead of %d", s.files, n, before)
	}
}
