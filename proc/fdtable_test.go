package proc

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func init() {
	// main-own-table: a thread that is not the leader unshares its descriptors and opens one more.
	targets["main-own-table"] = func([]string) {
		fact("SHARED_FD", must2(unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)))
		ready := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			must(unix.Unshare(unix.CLONE_FILES))
			pair := must2(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
			fact("OWN_TID", unix.Gettid())
			fact("OWN_FD", pair[0])
			fact("OWN_PEER_FD", pair[1])
			close(ready)
			select {}
		}()
		<-ready
	}
	// main-ends: the main thread ends, the others go on.
	targets["main-ends"] = func([]string) {
		pair := must2(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
		var p [2]int
		must(unix.Pipe2(p[:], unix.O_CLOEXEC))
		fact("SOCK_FD", pair[0])
		fact("PEER_FD", pair[1])
		fact("PIPE_R_FD", p[0])
		fact("PIPE_W_FD", p[1])
		go func() {
			for !leaderEnded() {
				runtime.Gosched()
			}
			targetReady()
			io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
		unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
	}
}

func leaderEnded() bool {
	text := must2(os.ReadFile(fmt.Sprintf("/proc/%d/stat", os.Getpid())))
	st, ok := parseStat(text)
	return ok && st.ended()
}

func TestThreadWithOwnTable(t *testing.T) {
	tg := startTarget(t, nil, "main-own-table")
	for _, way := range []string{"kcmp", "listings"} {
		t.Run(way, func(t *testing.T) {
			p := openLive(t, tg.pid())
			s := p.fs.NewDescriptorScanner()
			if !s.ownNumbers {
				t.Fatal("the PIDs of /proc are not taken for the caller's")
			}
			s.ownNumbers = way == "kcmp"
			got, err := s.Read(p)
			if err != nil {
				t.Fatal(err)
			}
			own := int32(tg.fact("OWN_TID"))
			var shared, alone []Descriptor
			for _, d := range got.Entries {
				if len(d.TIDs) == 0 {
					t.Fatalf("fd %d: no tids although the tables differ", d.FD)
				}
				if d.FD == int32(tg.fact("SHARED_FD")) {
					shared = append(shared, d)
				}
				if d.FD == int32(tg.fact("OWN_FD")) && d.Kind == FDSocket {
					alone = append(alone, d)
				}
			}
			// The copy of the shared one, and the one of all other threads.
			if len(shared) != 2 || !slices.Contains(shared[0].TIDs, tg.pid()) || slices.Contains(shared[0].TIDs, own) || !slices.Equal(shared[1].TIDs, []int32{own}) {
				t.Errorf("shared: got %+v", shared)
			}
			if len(alone) != 1 || !slices.Equal(alone[0].TIDs, []int32{own}) {
				t.Fatalf("alone: got %+v", alone)
			}
			wantPoints(t, "alone", alone[0].Peers, point(tg.pid(), tg.fact("OWN_PEER_FD"), RelationUnixPeer, AccessReadWrite))
		})
	}
	if got, _ := readFDs(t, int32(os.Getpid())); got[0].TIDs != nil {
		t.Errorf("a process with one table: tids %v", got[0].TIDs)
	}
}

// The leader has ended: its own fd directory is empty, that of a live thread is not.
func TestZombieLeader(t *testing.T) {
	mine, theirs := pairFiles(t, unix.SOCK_STREAM)
	tg := startTargetWith(t, nil, []*os.File{theirs}, "main-ends")
	theirs.Close()
	if names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", tg.pid())); err == nil && len(names) > 0 {
		t.Fatalf("the leader lists %d descriptors: the condition is not there", len(names))
	}
	got, _ := readFDs(t, tg.pid())
	rw := AccessReadWrite
	wantPoints(t, "socket", got[int32(tg.fact("SOCK_FD"))].Peers, point(tg.pid(), tg.fact("PEER_FD"), RelationUnixPeer, rw))
	wantPoints(t, "pipe", got[int32(tg.fact("PIPE_R_FD"))].Peers, point(tg.pid(), tg.fact("PIPE_W_FD"), RelationPipeEnd, AccessWrite))
	wantPoints(t, "given", got[3].Peers, point(int32(os.Getpid()), int(mine.Fd()), RelationUnixPeer, rw))
	if got[0].TIDs != nil {
		t.Errorf("tids %v although the live threads share one table", got[0].TIDs)
	}
	// And found from the other side.
	here, _ := readFDs(t, int32(os.Getpid()))
	wantPoints(t, "here", here[int32(mine.Fd())].Peers, point(tg.pid(), 3, RelationUnixPeer, rw))
}

func TestReadGone(t *testing.T) {
	tg := startTarget(t, nil, "hold")
	p := openLive(t, tg.pid())
	s := p.fs.NewDescriptorScanner()
	if _, err := s.Read(p); err != nil {
		t.Fatal(err)
	}
	tg.stop()
	if got, err := s.Read(p); !errors.Is(err, ErrGone) || got != nil {
		t.Errorf("got %v, %v; want ErrGone", got, err)
	}
}

func init() {
	// read-fds PID: what a user without privileges sees.
	targets["read-fds"] = func(args []string) {
		mount := must2(Open("/proc"))
		var pid int32
		must2(fmt.Sscan(args[0], &pid))
		st, ok := statBelow(mount.dir, args[0]+"/stat", make([]byte, 4096))
		if !ok {
			must(errors.New("no stat"))
		}
		p := must2(mount.OpenProcess(ID{pid, st.start}))
		got, err := mount.NewDescriptorScanner().Read(p)
		fact("PERMISSION", errors.Is(err, fs.ErrPermission))
		if err == nil {
			fact("ENTRIES", len(got.Entries))
			fact("WARNINGS", strings.Join(got.Warnings, " | "))
			for _, d := range got.Entries {
				if d.FD == 3 {
					fact("PEERS", len(d.Peers))
				}
			}
		}
	}
}

// Another user sees its own processes, and is told of those that it may not see.
func TestReadUnprivileged(t *testing.T) {
	needRoot(t)
	nobodyToo := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	_, theirs := pairFiles(t, unix.SOCK_STREAM) // the other end is root's
	own := startTargetWith(t, nobodyToo, []*os.File{theirs}, "hold")
	seen := startTarget(t, nobodyToo, "read-fds", fmt.Sprint(own.pid()))
	if seen.facts["PERMISSION"] == "true" {
		t.Fatal("a process of the same owner was denied")
	}
	if seen.fact("ENTRIES") < 4 || seen.facts["PEERS"] != "0" {
		t.Errorf("got %v", seen.facts)
	}
	if w := seen.facts["WARNINGS"]; !strings.Contains(w, "processes were denied (needs the same owner, or CAP_SYS_PTRACE)") {
		t.Errorf("warnings: %q", w)
	}
	denied := startTarget(t, nobodyToo, "read-fds", fmt.Sprint(os.Getpid()))
	if denied.facts["PERMISSION"] != "true" {
		t.Errorf("a process of root: got %v", denied.facts)
	}
}
