package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// borrowed is a thread of another process that makes system calls for the test.
type borrowed struct {
	t    *testing.T
	tid  int
	regs unix.PtraceRegs // to give back
	room uint64          // of its stack
	kept []byte          // what stood there
}

const roomSize = 1024

// borrow stops a thread that waits in a system call. The calling goroutine is its
// tracer and stays locked.
func borrow(t *testing.T, pid int) (b *borrowed) {
	t.Helper()
	waitFor(t, "a thread that stands in a system call", func() bool {
		b = borrowThread(t, waiting(t, pid))
		return b != nil
	})
	return b
}

// borrowThread returns nil when the thread went on before it was stopped.
func borrowThread(t *testing.T, tid int) *borrowed {
	t.Helper()
	b := &borrowed{t: t, tid: tid, kept: make([]byte, roomSize)}
	if err := unix.PtraceSeize(tid); err != nil {
		t.Fatalf("seize %d: %v", tid, err)
	}
	if err := unix.PtraceInterrupt(tid); err != nil {
		t.Fatalf("interrupt %d: %v", tid, err)
	}
	b.wait(func(s unix.WaitStatus) bool { return s.Stopped() })
	if err := unix.PtraceGetRegs(tid, &b.regs); err != nil {
		t.Fatal(err)
	}
	if code := b.peek(b.regs.Rip-2, 2); !bytes.Equal(code, []byte{0x0f, 0x05}) {
		if err := unix.PtraceDetach(tid); err != nil {
			t.Fatal(err)
		}
		return nil
	}
	b.room = (b.regs.Rsp - 256 - roomSize) &^ 15 // below the red zone
	copy(b.kept, b.peek(b.room, roomSize))
	return b
}

// wait waits for a stop. Signals that come meanwhile are the runtime's own to
// interrupt threads, which it sends again.
func (b *borrowed) wait(is func(unix.WaitStatus) bool) {
	b.t.Helper()
	for {
		var s unix.WaitStatus
		if _, err := unix.Wait4(b.tid, &s, unix.WALL, nil); err == unix.EINTR {
			continue
		} else if err != nil {
			b.t.Fatalf("wait for thread %d: %v", b.tid, err)
		}
		if s.Exited() || s.Signaled() {
			b.t.Fatalf("thread %d ended: %v", b.tid, s)
		}
		if is(s) {
			return
		}
		if err := unix.PtraceSingleStep(b.tid); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *borrowed) peek(at uint64, n int) []byte {
	b.t.Helper()
	buf := make([]byte, n)
	if got, err := unix.PtracePeekData(b.tid, uintptr(at), buf); err != nil || got != n {
		b.t.Fatalf("read %d bytes at %#x: %d, %v", n, at, got, err)
	}
	return buf
}

// put writes bytes where the thread's calls can point to. Each goes into one of 8
// places.
func (b *borrowed) put(place int, data []byte) uint64 {
	b.t.Helper()
	at := b.room + uint64(place)*roomSize/8
	if _, err := unix.PtracePokeData(b.tid, uintptr(at), append(bytes.Clone(data), 0)); err != nil {
		b.t.Fatal(err)
	}
	return at
}

// call makes a system call in the thread: 0 or what it returned, else its errno.
func (b *borrowed) call(number uint64, args ...uint64) (uint64, unix.Errno) {
	b.t.Helper()
	r := b.regs
	r.Rip -= 2
	r.Rax, r.Orig_rax = number, 1<<64-1 // -1: the call it was in is not begun again
	for i, to := range []*uint64{&r.Rdi, &r.Rsi, &r.Rdx, &r.R10, &r.R8, &r.R9} {
		*to = 0
		if i < len(args) {
			*to = args[i]
		}
	}
	if err := unix.PtraceSetRegs(b.tid, &r); err != nil {
		b.t.Fatal(err)
	}
	if err := unix.PtraceSingleStep(b.tid); err != nil {
		b.t.Fatal(err)
	}
	b.wait(func(s unix.WaitStatus) bool { return s.Stopped() && s.StopSignal() == unix.SIGTRAP })
	if err := unix.PtraceGetRegs(b.tid, &r); err != nil {
		b.t.Fatal(err)
	}
	if r.Rax > 1<<64-4096 {
		return 0, unix.Errno(-int64(r.Rax))
	}
	return r.Rax, 0
}

// giveBack lets the thread go on with the call that it was in.
func (b *borrowed) giveBack() {
	b.t.Helper()
	if _, err := unix.PtracePokeData(b.tid, uintptr(b.room), b.kept); err != nil {
		b.t.Error(err)
	}
	if err := unix.PtraceSetRegs(b.tid, &b.regs); err != nil {
		b.t.Error(err)
	}
	if err := unix.PtraceDetach(b.tid); err != nil {
		b.t.Error(err)
	}
}

// waiting finds a thread that waits in futex(2) and not for a moment only. It is not
// the main thread: who waits for the end of the process would take its stops.
func waiting(t *testing.T, pid int) (tid int) {
	t.Helper()
	waitFor(t, "a thread in futex", func() bool {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range tasks {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/syscall", pid, e.Name()))
			if f := strings.Fields(string(text)); err == nil && len(f) == 9 && f[0] == strconv.Itoa(unix.SYS_FUTEX) && f[4] == "0x0" && e.Name() != strconv.Itoa(pid) {
				tid, _ = strconv.Atoi(e.Name())
				return true
			}
		}
		return false
	})
	return tid
}

// attempt is a call that must not be possible.
type attempt struct {
	name   string
	number uint64
	args   []uint64
}

// attempts are harmless where they are possible: they name what does not exist, point
// nowhere, or change what it already is.
func (b *borrowed) attempts(victim int, file string) []attempt {
	path := b.put(0, []byte(file))
	next := b.put(1, []byte(file+".new"))
	word := b.put(2, []byte{8: 0xff, 9: 0xff, 10: 0xff, 11: 0xff, 63: 0}) // as siginfo: SI_QUEUE
	vector := b.put(3, make([]byte, 16))                                  // struct iovec: nothing, of no length
	pid := uint64(victim)
	const here, nowhere, root = 1<<64 - 100, 1<<64 - 1, 8 // AT_FDCWD, no descriptor, an address without memory
	open := func(flags uint64) []uint64 { return []uint64{here, path, flags, 0o600} }
	trace := func(request uint64) []uint64 { return []uint64{request, pid, 0, 0} }
	return []attempt{
		{"process_vm_writev", unix.SYS_PROCESS_VM_WRITEV, []uint64{pid, vector, 1, vector, 1, 0}},
		{"PTRACE_POKEDATA", unix.SYS_PTRACE, trace(unix.PTRACE_POKEDATA)},
		{"PTRACE_POKETEXT", unix.SYS_PTRACE, trace(unix.PTRACE_POKETEXT)},
		{"PTRACE_SETREGS", unix.SYS_PTRACE, trace(unix.PTRACE_SETREGS)},
		{"PTRACE_SETREGSET", unix.SYS_PTRACE, trace(unix.PTRACE_SETREGSET)},
		{"PTRACE_KILL", unix.SYS_PTRACE, trace(unix.PTRACE_KILL)},
		{"PTRACE_ATTACH", unix.SYS_PTRACE, trace(unix.PTRACE_ATTACH)},
		{"PTRACE_CONT", unix.SYS_PTRACE, trace(unix.PTRACE_CONT)},
		{"PTRACE_SEIZE with EXITKILL", unix.SYS_PTRACE, []uint64{unix.PTRACE_SEIZE, pid, 0, unix.PTRACE_O_EXITKILL}},
		{"kill", unix.SYS_KILL, []uint64{pid, 0}},
		{"tkill", unix.SYS_TKILL, []uint64{pid, 0}},
		{"tgkill", unix.SYS_TGKILL, []uint64{pid, pid, 0}},
		{"pidfd_send_signal", unix.SYS_PIDFD_SEND_SIGNAL, []uint64{nowhere, 0, 0, 0}},
		{"rt_sigqueueinfo", unix.SYS_RT_SIGQUEUEINFO, []uint64{pid, 0, word}},
		{"rt_tgsigqueueinfo", unix.SYS_RT_TGSIGQUEUEINFO, []uint64{pid, pid, 0, word}},
		{"pidfd_getfd", unix.SYS_PIDFD_GETFD, []uint64{nowhere, 0, 0}},
		{"process_madvise", unix.SYS_PROCESS_MADVISE, []uint64{nowhere, vector, 1, unix.MADV_COLD, 0}},
		{"execve", unix.SYS_EXECVE, []uint64{root, 0, 0}},
		{"execveat", unix.SYS_EXECVEAT, []uint64{here, root, 0, 0, 0}},
		{"clone of a process", unix.SYS_CLONE, []uint64{unix.CLONE_PIDFD | unix.CLONE_PARENT_SETTID, 0, 0}}, // EINVAL: not both
		{"init_module", unix.SYS_INIT_MODULE, []uint64{root, 0, root}},
		{"kexec_load", unix.SYS_KEXEC_LOAD, []uint64{0, 17, 0, 0}}, // EINVAL: too many segments
		{"mount", unix.SYS_MOUNT, []uint64{root, root, root, 0, 0}},
		{"umount2", unix.SYS_UMOUNT2, []uint64{root, 1 << 30}},
		{"unshare", unix.SYS_UNSHARE, []uint64{1 << 0}},
		{"setns of any kind", unix.SYS_SETNS, []uint64{nowhere, 0}},
		{"open to write", unix.SYS_OPEN, []uint64{path, unix.O_WRONLY, 0}},
		{"openat to write", unix.SYS_OPENAT, open(unix.O_WRONLY)},
		{"openat to read and write", unix.SYS_OPENAT, open(unix.O_RDWR)},
		{"openat with O_CREAT", unix.SYS_OPENAT, open(unix.O_RDONLY | unix.O_CREAT)},
		{"openat with O_TRUNC", unix.SYS_OPENAT, open(unix.O_RDONLY | unix.O_TRUNC)},
		{"openat with O_TMPFILE", unix.SYS_OPENAT, open(unix.O_TMPFILE | unix.O_WRONLY)},
		{"openat2", unix.SYS_OPENAT2, []uint64{here, path, word, 24}},
		{"creat", unix.SYS_CREAT, []uint64{next, 0o600}},
		{"truncate", unix.SYS_TRUNCATE, []uint64{path, 0}},
		{"ftruncate", unix.SYS_FTRUNCATE, []uint64{nowhere, 0}},
		{"rename", unix.SYS_RENAME, []uint64{path, next}},
		{"renameat2", unix.SYS_RENAMEAT2, []uint64{here, path, here, next, 0}},
		{"link", unix.SYS_LINK, []uint64{path, next}},
		{"symlink", unix.SYS_SYMLINK, []uint64{path, next}},
		{"mkdir", unix.SYS_MKDIR, []uint64{next, 0o700}},
		{"mknod", unix.SYS_MKNOD, []uint64{next, unix.S_IFREG | 0o600, 0}},
		{"rmdir", unix.SYS_RMDIR, []uint64{path}},
		{"chmod", unix.SYS_CHMOD, []uint64{path, 0o600}},
		{"fchmodat", unix.SYS_FCHMODAT, []uint64{here, path, 0o600}},
		{"chown", unix.SYS_CHOWN, []uint64{path, 0, 0}},
		{"fchownat", unix.SYS_FCHOWNAT, []uint64{here, path, 0, 0, 0}},
		{"setxattr", unix.SYS_SETXATTR, []uint64{path, root, 0, 0, 0}},
		{"utimensat", unix.SYS_UTIMENSAT, []uint64{here, path, 0, 0}},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, []uint64{0, root}},
		{"bind", unix.SYS_BIND, []uint64{nowhere, 0, 0}},
		{"listen", unix.SYS_LISTEN, []uint64{nowhere, 0}},
		{"a UNIX socket", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}},
		{"a pair of UNIX datagram sockets", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM, 0, word}},
		{"a socket of another protocol", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE}},
		{"setsockopt of the packet filter", unix.SYS_SETSOCKOPT, []uint64{nowhere, unix.IPPROTO_IP, 64, root, 0}}, // IPT_SO_SET_REPLACE
		{"setsockopt of the IPv6 packet filter", unix.SYS_SETSOCKOPT, []uint64{nowhere, unix.IPPROTO_IPV6, 64, root, 0}},
		{"setsockopt of the congestion control", unix.SYS_SETSOCKOPT, []uint64{nowhere, unix.IPPROTO_TCP, unix.TCP_CONGESTION, root, 0}},
		{"getsockopt of the packet filter", unix.SYS_GETSOCKOPT, []uint64{nowhere, unix.IPPROTO_IP, 64, root, root}},
		{"prctl that shares a core", unix.SYS_PRCTL, []uint64{unix.PR_SCHED_CORE, 99, pid, 0, 0}},
		{"BPF_OBJ_PIN", unix.SYS_BPF, []uint64{unix.BPF_OBJ_PIN, 0, 0}},
		{"BPF_OBJ_GET", unix.SYS_BPF, []uint64{unix.BPF_OBJ_GET, 0, 0}},
		{"BPF_PROG_ATTACH", unix.SYS_BPF, []uint64{unix.BPF_PROG_ATTACH, 0, 0}},
		{"BPF_PROG_DETACH", unix.SYS_BPF, []uint64{unix.BPF_PROG_DETACH, 0, 0}},
		{"BPF_LINK_UPDATE", unix.SYS_BPF, []uint64{unix.BPF_LINK_UPDATE, 0, 0}},
		{"BPF_LINK_DETACH", unix.SYS_BPF, []uint64{unix.BPF_LINK_DETACH, 0, 0}},
		{"BPF_MAP_DELETE_ELEM", unix.SYS_BPF, []uint64{unix.BPF_MAP_DELETE_ELEM, 0, 0}},
		{"a socket of rtnetlink", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}},
		{"prlimit64 of another", unix.SYS_PRLIMIT64, []uint64{pid, unix.RLIMIT_NOFILE, 0, 0}},
		{"sched_setscheduler of another", unix.SYS_SCHED_SETSCHEDULER, []uint64{pid, 0, word}},
		{"getpid of x32", 0x40000000 | unix.SYS_GETPID, nil},
		{"unlink", unix.SYS_UNLINK, []uint64{path}},
	}
}

// works are those that would hit the victim, or that a setting of the kernel may
// refuse to everybody.
var works = map[string]bool{
	"PTRACE_ATTACH": true, "PTRACE_SEIZE with EXITKILL": true,
	"io_uring_setup": true, "init_module": true, "kexec_load": true,
}

// From inside the running server every call that could change a file or another
// process is refused, and the same calls from a process without a sandbox are not.
func TestSandboxRefuses(t *testing.T) {
	needRoot(t)
	runtime.LockOSThread() // a tracer is a thread
	defer runtime.UnlockOSThread()
	s := start(t, options{})
	victim, end := sleeper(t)
	defer end()

	folder := t.TempDir()
	file := filepath.Join(folder, "f")
	if len(file) > roomSize/8-8 {
		t.Fatalf("path %s is too long", file)
	}
	free := childCommand("wait", 0)
	if err := free.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { free.Process.Kill(); free.Wait() }()

	for _, c := range []struct {
		name    string
		pid     int
		refused bool
	}{{"the server", s.cmd.Process.Pid, true}, {"a process without a sandbox", free.Process.Pid, false}} {
		if err := os.WriteFile(file, []byte("whole"), 0o644); err != nil {
			t.Fatal(err)
		}
		b := borrow(t, c.pid)
		done := 0
		for _, a := range b.attempts(victim, file) {
			if !c.refused && works[a.name] {
				continue
			}
			_, errno := b.call(a.number, a.args...)
			if refused := errno == unix.EPERM; refused != c.refused {
				t.Errorf("%s: %s gives %v, want refused: %v", c.name, a.name, errno, c.refused)
			}
			done++
			if !c.refused { // each finds the file as it was
				os.RemoveAll(file + ".new")
				if err := os.WriteFile(file, []byte("whole"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		if pid, errno := b.call(unix.SYS_GETPID); errno != 0 || int(pid) != c.pid {
			t.Errorf("%s: getpid gives %d, %v", c.name, pid, errno)
		}
		b.giveBack()
		if c.refused {
			if text, err := os.ReadFile(file); err != nil || string(text) != "whole" {
				t.Errorf("the file is %q, %v", text, err)
			}
			if names, err := os.ReadDir(folder); err != nil || len(names) != 1 {
				t.Errorf("the folder has %v, %v", names, err)
			}
		}
		if done < 65 {
			t.Errorf("%s: %d calls tried", c.name, done)
		}
	}
	unchanged(t, victim, "S")
	if a := s.snapshot(victim); len(a.Threads) != 1 {
		t.Errorf("a snapshot afterwards has %d threads", len(a.Threads))
	}
	if status, _ := s.signal(unix.SIGTERM); status.ExitStatus() != 0 {
		t.Errorf("the server ended with %v", status)
	}
}

// What runs are held by is outside of the sandbox, the server that asks it is not.
func TestSandboxWithRuns(t *testing.T) {
	s := start(t, options{args: []string{"--runs"}})
	file := filepath.Join(t.TempDir(), "written")
	body, err := json.Marshal(map[string]any{"argv": []string{"/bin/sh", "-c", "grep -e NoNewPrivs -e ^Seccomp: /proc/self/status >" + file}, "wait_ms": 20_000})
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(s.url+"/api/runs", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	own, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	want := "" // no more than what this test is in
	for line := range strings.Lines(string(own)) {
		if strings.HasPrefix(line, "NoNewPrivs:") || strings.HasPrefix(line, "Seccomp:") {
			want += line
		}
	}
	if text, err := os.ReadFile(file); res.StatusCode != 200 || err != nil || string(text) != want {
		t.Errorf("a run: %d, it sees %q of itself, want %q, %v", res.StatusCode, text, want, err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil || !strings.Contains(string(status), "\nSeccomp:\t2\n") || !strings.Contains(string(status), "\nNoNewPrivs:\t1\n") {
		t.Errorf("the server is not in its sandbox: %v\n%s", err, status)
	}
}
