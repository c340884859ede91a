package sensors

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"procinsh/tests/server"
)

// patience is how long anything is waited for: an emulated machine is slow.
const patience = 60 * time.Second

var (
	work    string         // built programs, open to every user
	exe     string         // procinsh
	fixture string         // the C program
	srv     *server.Server // the server to judge
	live    = os.Getenv("PROCINSH_URL")
	vm      = os.Getenv("PROCINSH_VM") // kernel version of the machine of tests/vm, "" elsewhere
)

func TestMain(m *testing.M) {
	// The server is told to end when the thread that started it does, and package
	// bpf ends threads.
	runtime.LockOSThread()
	os.Exit(with(m))
}

func with(m *testing.M) int {
	var err error
	if work, err = os.MkdirTemp("", "procinsh-sensors-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(work)
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if live != "" {
		return code
	}
	log := srv.Log()
	if err := srv.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop:", err)
		code = 1
	}
	for line := range strings.Lines(log) {
		if strings.Contains(line, "level=ERROR") { // a 5xx or a worker that died
			fmt.Fprint(os.Stderr, "the server logged: ", line)
			code = 1
		}
	}
	if code != 0 {
		fmt.Fprint(os.Stderr, "the server's log:\n", log)
	}
	return code
}

func prepare() (err error) {
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	if fixture = os.Getenv("PROCINSH_FIXTURE"); fixture == "" {
		fixture = filepath.Join(work, "fixture")
		out, err := exec.Command("gcc", "-static", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", fixture, "testdata/fixture.c").CombinedOutput()
		if err != nil {
			return fmt.Errorf("build the fixture: %w\n%s", err, out)
		}
	}
	if live != "" {
		srv = server.At(live)
		return nil
	}
	if exe = os.Getenv("PROCINSH_EXE"); exe == "" {
		if exe, err = server.Build(work); err != nil {
			return err
		}
	}
	srv, err = server.Start(exe)
	return err
}
