package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// step is one program that a machine runs; init reads the list from /plan.
type step struct {
	Name     string
	Dir      string
	Argv     []string
	Env      []string
	Lockdown string // raised before the program runs, and never lowered again
}

// machine is one boot: its processors, and the programs it runs in order.
type machine struct {
	name  string
	cpus  []string // of QEMU
	steps []step
}

// ofTime are the tests of processor time.
const ofTime = "^Test(CPU|WindowsHold|ShortLived)"

// machines are the boots that a kernel version gets.
//
// One host thread runs all processors of a machine: with one for each, QEMU now
// and then loops for ever where the kernel has just patched its own code, as
// attaching does. But then a processor stands still while another runs, up to
// 0.1 s, which no account of processor time agrees with; so those tests have a
// machine with one.
func (b *built) machines(version string, short bool, only string) []machine {
	fixed := false // the test is named
	test := func(name, exe, dir string, args ...string) step {
		argv := append([]string{exe, "-test.v", "-test.timeout=12m"}, args...)
		if short {
			argv = append(argv, "-test.short")
		}
		if only != "" && !fixed {
			argv = append(argv, "-test.run="+only)
		}
		return step{Name: name, Dir: dir, Argv: argv,
			Env: []string{"PROCINSH_EXE=/bin/procinsh", "PROCINSH_FIXTURE=/bin/fixture", "PROCINSH_VM=" + version}}
	}
	processors := func(n string) []string { return []string{"-accel", "tcg,thread=single", "-smp", n} }
	two, one := machine{name: "2 processors", cpus: processors("2")}, machine{name: "1 processor", cpus: processors("1")}
	if b.has("bpf") {
		two.steps = append(two.steps, test("package bpf", "/bin/bpf.test", "/src/bpf", "-test.skip="+ofTime))
		one.steps = append(one.steps, test("package bpf, processor time", "/bin/bpf.test", "/src/bpf", "-test.run="+ofTime))
	}
	if b.has("sandbox") {
		two.steps = append(two.steps, test("sandbox", "/bin/sandbox.test", "/"))
	}
	if b.has("sensors") {
		skip := ofTime
		if short { // what another kernel has little to say about
			skip += "|^Test(EveryLossCounted|ExactByEveryWay|WithOneCapability|ServerInTimeNamespace)$"
		}
		two.steps = append(two.steps, test("sensors", "/bin/sensors.test", "/", "-test.skip="+skip))
		one.steps = append(one.steps, test("sensors, processor time", "/bin/sensors.test", "/", "-test.run="+ofTime))
	}
	if b.has("restricted") {
		fixed = true
		s := test("sensors under lockdown=confidentiality", "/bin/sensors.test", "/", "-test.run=^TestLockdown$")
		s.Lockdown = "confidentiality"
		one.steps = append(one.steps, s)
	}
	var all []machine
	for _, m := range []machine{two, one} {
		if len(m.steps) > 0 {
			all = append(all, m)
		}
	}
	// Cgroups of version 2 alone, where a host has both hierarchies; before 5.14 a group
	// is frozen and killed process by process.
	if b.has("runs") {
		fixed = false
		all = append(all, machine{name: "runs", cpus: processors("2"), steps: []step{test("package run", "/bin/run.test", "/")}})
	}
	// One processor whose clock counts instructions: the same figure on every run.
	if b.has("cost") && version == "6.1" {
		all = append(all, machine{name: "cost in instructions", cpus: []string{"-accel", "tcg,thread=single", "-icount", "shift=1,sleep=off", "-smp", "1"},
			steps: []step{{Name: "cost", Dir: "/", Argv: []string{"/bin/sensors", "-exact"}}}})
	}
	return all
}

// mark begins the line with which init reports; nothing else prints it.
const mark = "procinsh-vm: exit "

// boot runs a machine until it powers off and passes its console on.
func (m machine) boot(ctx context.Context, emulator []string, k *kernel, b *built, limit time.Duration) error {
	plan, err := json.Marshal(m.steps)
	if err != nil {
		return err
	}
	image := filepath.Join(b.dir, "initramfs")
	f, err := os.Create(image)
	if err != nil {
		return err
	}
	err = initramfs(f, k, b.files, map[string]string{
		"plan": string(plan), "etc/passwd": "root:x:0:0:root:/:/init\nnobody:x:65534:65534:nobody:/:/init\n", "etc/hosts": "127.0.0.1 localhost\n",
	})
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the initial file system: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	argv := append([]string{}, emulator...)
	argv = append(argv, m.cpus...)
	argv = append(argv, "-cpu", "max", "-m", "1024", "-kernel", k.image, "-initrd", image,
		"-append", "console=ttyS0 quiet panic=-1 mitigations=off", "-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot", "-net", "none")
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return missing{fmt.Sprintf("start %s: %v", argv[0], err)}
	}
	code, from := -1, time.Now()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimRight(lines.Text(), "\r")
		if i := strings.Index(line, mark); i >= 0 {
			if n, err := strconv.Atoi(line[i+len(mark):]); err == nil {
				code = n
				continue
			}
		}
		fmt.Printf("%6.1f %s\n", time.Since(from).Seconds(), line)
	}
	err = cmd.Wait()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("not finished after %v", limit)
	case code == 0:
		return nil
	case code > 0:
		return errors.New(strconv.Itoa(code) + " of its programs failed")
	case err != nil:
		return fmt.Errorf("%s: %w", filepath.Base(argv[0]), err)
	}
	return errors.New("the machine ended without a report")
}
