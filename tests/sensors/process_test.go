package sensors

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// id is a process as the server names it.
type id struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start_time_ticks"`
}

// object is what a fixture used: an open file, pipe or socket.
type object struct {
	name, kind   string
	major, minor uint64
	inode        uint64
	generation   int64 // -1: this file system does not tell
	path         string
}

// resource says whether a resource of the stream is this object.
func (o object) is(resource string) bool {
	f := strings.Split(resource, ":")
	number := func(i int) uint64 {
		n, err := strconv.ParseUint(f[i], 10, 64)
		if err != nil {
			return 1 << 63 // no number is equal to it
		}
		return n
	}
	switch {
	case f[0] != o.kind:
		return false
	case o.kind == "file":
		return len(f) == 5 && number(1) == o.major && number(2) == o.minor && number(3) == o.inode && (o.generation < 0 || number(4) == uint64(o.generation))
	case len(f) == 3: // one number, as st_dev of stat(2)
		return number(1) == o.minor&0xff|o.major<<8|(o.minor&^0xff)<<12 && number(2) == o.inode
	}
	return false
}

// runner is a running fixture.
type runner struct {
	t       *testing.T
	main    id
	dir     string
	objects []object
	procs   map[string][]id
	facts   map[string]string
	in      io.WriteCloser
	out     *bufio.Reader
	errors  *bytes.Buffer
}

// begin starts a fixture that ends with the test. Options are those of launch.
func begin(t *testing.T, options ...string) *runner {
	t.Helper()
	r := &runner{t: t, dir: t.TempDir(), procs: map[string][]id{}, errors: &bytes.Buffer{}}
	argv := []string{fixture}
	if len(options) > 0 {
		argv = slices.Concat([]string{fixture, "launch"}, options, []string{"--", fixture})
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "FIXTURE_DIR="+r.dir)
	cmd.Stderr = r.errors
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
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
	r.in, r.out = in, bufio.NewReader(out)
	t.Cleanup(func() {
		in.Close()
		timer := time.AfterFunc(10*time.Second, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		io.Copy(io.Discard, out)
		cmd.Wait()
		timer.Stop()
	})
	r.answer("start")
	r.main = r.proc("main")
	return r
}

// do gives the fixture a command and waits until it is done.
func (r *runner) do(command string) {
	r.t.Helper()
	r.send(command)
	r.answer(command)
}

// send gives the fixture a command.
func (r *runner) send(command string) {
	r.t.Helper()
	if _, err := io.WriteString(r.in, command+"\n"); err != nil {
		r.t.Fatalf("%s: %v: %s", command, err, r.errors)
	}
}

// answer reads what the fixture says about the last command.
func (r *runner) answer(command string) {
	r.t.Helper()
	late := time.AfterFunc(3*patience, func() { r.in.Close() })
	defer late.Stop()
	r.facts = map[string]string{}
	for {
		line, err := r.out.ReadString('\n')
		if err != nil {
			r.t.Fatalf("the fixture ended at %q: %v: %s", command, err, r.errors)
		}
		if err := r.parse(strings.TrimSuffix(line, "\n")); err != nil {
			r.t.Fatalf("%q: %v", line, err)
		}
		if r.facts["DONE"] != "" {
			return
		}
	}
}

func (r *runner) parse(line string) error {
	key, value, _ := strings.Cut(line, "=")
	switch key {
	case "OBJECT": // the name may have blanks, the six fields after it have none but the path
		var o object
		head, path := value, ""
		for _, kind := range []string{" file ", " pipe ", " socket "} {
			if name, rest, ok := strings.Cut(value, kind); ok {
				o.name, o.kind, head = name, strings.TrimSpace(kind), rest
				break
			}
		}
		f := strings.SplitN(head, " ", 5)
		if len(f) == 5 {
			path = f[4]
		}
		if _, err := fmt.Sscan(head, &o.major, &o.minor, &o.inode, &o.generation); err != nil || o.kind == "" {
			return fmt.Errorf("no object: %v", err)
		}
		o.path = path
		r.objects = append(r.objects, o)
	case "PROC":
		f := strings.Fields(value)
		if len(f) < 3 {
			return errors.New("no process")
		}
		pid, err1 := strconv.Atoi(f[len(f)-2])
		start, err2 := strconv.ParseUint(f[len(f)-1], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		name := strings.Join(f[:len(f)-2], " ")
		r.procs[name] = append(r.procs[name], id{pid, start})
	default:
		r.facts[key] = value
	}
	return nil
}

// proc returns the last process of a name.
func (r *runner) proc(name string) id {
	r.t.Helper()
	all := r.procs[name]
	if len(all) == 0 {
		r.t.Fatalf("the fixture named no process %q", name)
	}
	return all[len(all)-1]
}

// object returns the last object of a name.
func (r *runner) object(name string) object {
	r.t.Helper()
	for _, o := range slices.Backward(r.objects) {
		if o.name == name {
			return o
		}
	}
	r.t.Fatalf("the fixture named no object %q", name)
	return object{}
}

// known says whether a resource is one that the fixture has named.
func (r *runner) known(resource string) bool {
	return slices.ContainsFunc(r.objects, func(o object) bool { return o.is(resource) })
}

// int returns a fact that is a number.
func (r *runner) int(key string) int64 {
	r.t.Helper()
	n, err := strconv.ParseInt(r.facts[key], 10, 64)
	if err != nil {
		r.t.Fatalf("the fixture's %s is %q", key, r.facts[key])
	}
	return n
}
