package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestHidingOf(t *testing.T) {
	line := func(point, options string) string {
		return "24 1 0:22 / " + point + " rw,nosuid shared:5 - proc proc " + options + "\n"
	}
	for _, c := range []struct {
		name, table string
		want        Hiding
	}{
		{"none", line("/proc", "rw"), HidesNothing},
		{"switched off", line("/proc", "rw,hidepid=0"), HidesNothing},
		{"1", line("/proc", "rw,hidepid=1"), HidesContents},
		{"2 with a group", line("/proc", "rw,gid=27,hidepid=2"), HidesOthers},
		{"words", line("/proc", "rw,hidepid=invisible"), HidesOthers},
		{"noaccess", line("/proc", "rw,hidepid=noaccess"), HidesContents},
		{"ptraceable", line("/proc", "rw,hidepid=ptraceable,subset=pid"), HidesUntraced},
		{"another mount", line("/jail/proc", "rw,hidepid=2") + line("/proc", "rw"), HidesNothing},
		{"mounted over", line("/proc", "rw") + line("/proc", "rw,hidepid=2"), HidesOthers},
		{"mounted over without", line("/proc", "rw,hidepid=2") + line("/proc", "rw"), HidesNothing},
		{"another kind", "24 1 0:22 / /proc rw - tmpfs tmpfs rw,hidepid=2\n", HidesNothing},
		{"empty", "", HidesNothing},
		{"cut", "24 1 0:22 / /proc rw - proc", HidesNothing},
	} {
		if got := hidingOf([]byte(c.table), "/proc"); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// A process that is hidden is not gone, and one that is gone is not hidden.
func TestHiddenProcess(t *testing.T) {
	if text := os.Getenv("HIDEPID_TEST"); text != "" {
		askHidden(text)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts a procfs with hidepid")
	}
	gone := exec.Command("/bin/true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "procinsh-hidepid-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(dir+"/test", exe, 0o755)); err != nil {
		t.Fatal(err)
	}
	for option, want := range map[string]string{
		"invisible": "init: hidden true\ninit by number: hidden true\ngone: gone true\nitself: <nil>\n",
		"off":       "init: <nil>\ninit by number: <nil>\ngone: gone true\nitself: <nil>\n",
	} {
		c := exec.Command("/bin/sh", "-c", `mount -t proc -o hidepid=`+option+` proc /proc && exec setpriv --reuid 65534 --regid 65534 --clear-groups `+dir+`/test -test.run '^TestHiddenProcess$'`)
		c.Env = append(os.Environ(), "HIDEPID_TEST="+strconv.Itoa(gone.Process.Pid))
		c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got, _, _ := strings.Cut(string(out), "PASS"); got != want {
			t.Errorf("hidepid=%s:\n%swant\n%s", option, got, want)
		}
	}
}

func askHidden(gone string) {
	files, err := Open("/proc")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer files.Close()
	tell := func(what string, err error) {
		switch {
		case errors.Is(err, ErrHidden):
			fmt.Println(what+": hidden", errors.Is(err, fs.ErrPermission) && !errors.Is(err, ErrGone))
		case errors.Is(err, ErrGone):
			fmt.Println(what+": gone", !errors.Is(err, fs.ErrPermission))
		default:
			fmt.Println(what+":", err)
		}
	}
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		fmt.Println(err)
		return
	}
	own, _ := parseStat(text)
	// Of a process that is hidden nobody can tell the start time.
	p, err := files.OpenProcess(ID{1, initStart()})
	if err == nil {
		p.Close()
	}
	tell("init", err)
	_, _, err = files.Identify(1)
	tell("init by number", err)
	pid, _ := strconv.Atoi(gone)
	_, err = files.OpenProcess(ID{int32(pid), 1})
	tell("gone", err)
	p, err = files.OpenProcess(ID{int32(os.Getpid()), own.start})
	if err == nil {
		p.Close()
	}
	tell("itself", err)
}

// initStart is the start time of process 1 where it can be read, else 0.
func initStart() uint64 {
	text, err := os.ReadFile("/proc/1/stat")
	if err != nil {
		return 0
	}
	st, _ := parseStat(text)
	return st.start
}

func FuzzHidingOf(f *testing.F) {
	f.Add("24 1 0:22 / /proc rw,nosuid shared:5 - proc proc rw,hidepid=2\n")
	f.Add("24 1 0:22 / /proc rw - proc - proc rw,hidepid=invisible,hidepid=0\n24 - proc\n")
	f.Fuzz(func(t *testing.T, table string) {
		switch got := hidingOf([]byte(table), "/proc"); got {
		case HidesNothing, HidesContents, HidesOthers, HidesUntraced:
			if got != HidesNothing && !strings.Contains(table, "hidepid=") {
				t.Errorf("%q is said to hide with %q", table, got)
			}
		default:
			t.Errorf("%q is read as %q", table, got)
		}
	})
}
