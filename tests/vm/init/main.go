// Command init is the first and only program of a test machine: it mounts what
// Linux programs expect, runs the steps of /plan, says on the console how many of
// them failed, and powers off.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

type step struct {
	Name     string
	Dir      string
	Argv     []string
	Env      []string
	Lockdown string
}

func main() {
	failed := 1
	if err := prepare(); err != nil {
		fmt.Println("init:", err)
	} else if steps, err := plan(); err != nil {
		fmt.Println("init:", err)
	} else {
		failed = run(steps)
	}
	fmt.Printf("\nprocinsh-vm: exit %d\n", failed)
	unix.Sync()
	time.Sleep(100 * time.Millisecond) // the serial port is slower than the power switch
	fmt.Println("init: power off:", unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF))
}

func prepare() error {
	for _, m := range []struct{ kind, at, data string }{
		{"proc", "/proc", ""}, {"sysfs", "/sys", ""}, {"devtmpfs", "/dev", ""}, {"tmpfs", "/tmp", "mode=1777"}, {"tmpfs", "/run", ""},
		{"tracefs", "/sys/kernel/tracing", ""}, {"securityfs", "/sys/kernel/security", ""}, {"tmpfs", "/dev/shm", "mode=1777"},
		{"cgroup2", "/sys/fs/cgroup", ""}, {"devpts", "/dev/pts", "ptmxmode=666"},
	} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("none", m.at, m.kind, 0, m.data); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	modules, err := filepath.Glob("/modules/*.ko")
	if err != nil {
		return err
	}
	for _, m := range modules {
		if err := insert(m); err != nil {
			return err
		}
	}
	return loopback()
}

func insert(module string) error {
	f, err := os.Open(module)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("insert %s: %w", module, err)
	}
	return nil
}

// loopback turns on lo, which has its address at once.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

func plan() (steps []step, err error) {
	b, err := os.ReadFile("/plan")
	if err != nil {
		return nil, err
	}
	return steps, json.Unmarshal(b, &steps)
}

func run(steps []step) (failed int) {
	for _, s := range steps {
		fmt.Printf("-- %s\n", s.Name)
		from := time.Now()
		err := s.run()
		result := "ok"
		if err != nil {
			failed++
			result = "FAILED: " + err.Error()
		}
		fmt.Printf("-- %s: %s, %.1f s\n", s.Name, result, time.Since(from).Seconds())
	}
	return failed
}

func (s step) run() error {
	if s.Lockdown != "" {
		const file = "/sys/kernel/security/lockdown"
		if err := os.WriteFile(file, []byte(s.Lockdown), 0); err != nil {
			return fmt.Errorf("raise lockdown: %w", err)
		}
		if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), "["+s.Lockdown+"]") {
			return fmt.Errorf("lockdown is %q, %v", b, err)
		}
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	cmd := exec.Command(s.Argv[0], s.Argv[1:]...)
	cmd.Dir = s.Dir
	cmd.Env = append([]string{"PATH=/bin", "HOME=/tmp", "LC_ALL=C"}, s.Env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
	return cmd.Run()
}
