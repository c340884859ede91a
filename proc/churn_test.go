package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() {
	targets["churn"] = targetChurn
	targets["churned"] = targetChurned
}

// churnMark begins the names and arguments of the processes of a churn.
const churnMark = "churn-"

// targetChurn starts processes that live for a moment, until its own end.
func targetChurn([]string) {
	for range 6 {
		go func() {
			for n := 0; ; n++ {
				cmd := exec.Command("/proc/self/exe", churnMark+fmt.Sprint(n))
				cmd.Env = append(os.Environ(), "PROC_TARGET=churned")
				must(cmd.Start())
				if n%5 == 0 {
					time.Sleep(time.Millisecond) // a zombie for as long
				}
				cmd.Wait()
			}
		}()
	}
}

// targetChurned renames itself, makes threads, and becomes another program or
// ends.
func targetChurned(args []string) {
	for i := range 50 {
		name := fmt.Appendf(nil, "%s(%d) R\n\x00", churnMark, i)
		must(unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0))
		go time.Sleep(time.Millisecond)
		time.Sleep(200 * time.Microsecond)
	}
	if strings.HasSuffix(args[0], "3") {
		must(syscall.Exec("/bin/true", []string{churnMark + "true"}, nil))
	}
	os.Exit(0)
}

func TestScanWhileProcessesComeAndGo(t *testing.T) {
	fs := live(t)
	tg := startTarget(t, nil, "churn")
	churner := idOf(t, fs, tg.cmd.Process.Pid)

	var samples, gone atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	ids := make(chan ID, 64)
	go func() { // reads single processes as they go
		defer close(stopped)
		s := fs.NewScanner()
		var sample Sample
		for {
			var id ID
			select {
			case <-stop:
				return
			case id = <-ids:
			}
			p, err := fs.OpenProcess(id)
			if err == nil {
				if err = p.ReadSample(&sample); err == nil {
					samples.Add(1)
					if sample.ID != id || len(sample.Threads) == 0 && sample.State != 'Z' {
						t.Errorf("sample of %v: %+v", id, sample)
					}
					var row Row
					if row, err = s.ReadRow(p, Want{IO: true, Maps: true}); err == nil && row.ID != id {
						t.Errorf("row of %v: %+v", id, row)
					}
				}
				p.Close()
			}
			if err != nil {
				if !errors.Is(err, ErrGone) {
					t.Errorf("process %v: %v", id, err)
				}
				gone.Add(1)
			}
		}
	}()

	s := fs.NewScanner()
	s.Keep(true) // what is seen again; the others are read as without
	defer s.Keep(false)
	scans := 0
	seen, names := map[ID]bool{}, map[string]bool{}
	for start := time.Now(); time.Since(start) < 2*time.Second || len(seen) < 10 && time.Since(start) < 30*time.Second; {
		rows := scan(t, s, Want{IO: true, Maps: true})
		scans++
		if s.Denied != 0 {
			t.Errorf("%d were denied", s.Denied)
		}
		last := int32(0)
		for _, row := range rows {
			if row.ID.PID <= last {
				t.Fatalf("PID %d after %d", row.ID.PID, last)
			}
			last = row.ID.PID
			d := row.Details
			if d == nil || d.Name == "" || strings.IndexByte("RSDZTtIXP", row.State) < 0 || row.Threads < 0 {
				t.Fatalf("row %+v, details %+v", row, d)
			}
			if parent, ok := row.Parent.Get(); ok && parent.StartTicks > row.ID.StartTicks {
				t.Fatalf("%v has the younger parent %v", row.ID, parent)
			}
			if parent, _ := row.Parent.Get(); parent != churner {
				continue
			}
			seen[row.ID] = true
			names[d.Name] = true
			if row.KernelThread || row.UID != uint32(os.Getuid()) {
				t.Fatalf("row %+v", row)
			}
			// Between fork and exec a child has the arguments of its parent, none of which is marked.
			if len(d.CommandLine) == 2 && !strings.HasPrefix(d.CommandLine[1], churnMark) {
				t.Fatalf("arguments %q", d.CommandLine)
			}
			select {
			case ids <- row.ID:
			default:
			}
		}
	}
	close(stop)
	<-stopped
	if now := idOf(t, fs, tg.cmd.Process.Pid); now != churner {
		t.Errorf("the target is %v, was %v", now, churner)
	}
	tg.stop()
	t.Logf("%d scans, %d processes under %d names; %d samples, %d gone", scans, len(seen), len(names), samples.Load(), gone.Load())
	if len(seen) < 5 || samples.Load()+gone.Load() == 0 {
		t.Errorf("only %d processes were seen, %d read", len(seen), samples.Load()+gone.Load())
	}
}
