package proc

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func init() {
	targets["parent"] = targetParent
}

// lasting is how many children of the target stay.
const lasting = 24

// targetParent starts children that stay, each from a thread that ends at some time,
// and between them without end some that go.
func targetParent(args []string) {
	stdin, end, err := os.Pipe() // the other end is this process's alone: the children end with it
	must(err)
	pids := make(chan string)
	for i := range lasting {
		go func() {
			runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
			brief()
			cmd := exec.Command("cat")
			cmd.Stdin = stdin
			must(cmd.Start())
			brief()
			pids <- strconv.Itoa(cmd.Process.Pid)
			time.Sleep(time.Duration(i) * 50 * time.Millisecond)
		}()
	}
	var list []string
	for range lasting {
		list = append(list, <-pids)
	}
	fact("children", strings.Join(list, ","))
	go func() {
		time.Sleep(time.Hour)
		end.Close()
	}()
	if args[0] == "quiet" {
		return
	}
	for range 2 {
		go func() {
			for {
				brief()
				time.Sleep(time.Millisecond)
			}
		}()
	}
}

// brief starts a child that ends, and waits for it elsewhere.
func brief() {
	cmd := exec.Command("/bin/true")
	must(cmd.Start())
	go cmd.Wait()
}

// No child that is there all the time is ever missing, whichever children and threads
// of the parent end meanwhile.
func TestChildrenOfWhomChildrenEnd(t *testing.T) {
	for _, mode := range []string{"quiet", "busy"} {
		t.Run(mode, func(t *testing.T) {
			tg := startTarget(t, nil, "parent", mode)
			var want []int32
			for text := range strings.SplitSeq(tg.facts["children"], ",") {
				pid, _ := parsePID([]byte(text))
				want = append(want, pid)
			}
			p := openLive(t, tg.pid())
			listed := 0
			for range 300 {
				children, ok := p.listedChildren(maxChildren)
				if !ok {
					continue
				}
				listed++
				for _, pid := range want {
					if !slices.ContainsFunc(children, func(id ID) bool { return id.PID == pid }) {
						t.Fatalf("%v lacks %d", children, pid)
					}
				}
			}
			t.Logf("%d of 300 readings are sure", listed)
			if _, err := os.Stat("/proc/self/task/" + strconv.Itoa(os.Getpid()) + "/children"); err == nil && mode == "quiet" && listed == 0 {
				t.Error("the lists of a quiet process are never sure")
			}
			var c Context
			children, err := p.readChildren(&c, maxChildren)
			if err != nil || len(children) < len(want) {
				t.Errorf("%v, %v", children, err)
			}
			if listed, ok := p.listedChildren(lasting - 1); ok {
				t.Errorf("more than asked for: %v", listed)
			}
		})
	}
}
