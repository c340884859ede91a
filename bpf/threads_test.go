package bpf

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

func oneThread(tgid, tid int32, change func(b []byte)) []byte {
	b := make([]byte, oneThreadSize+8)
	binary.LittleEndian.PutUint32(b[oneTGID:], uint32(tgid))
	binary.LittleEndian.PutUint32(b[oneTID:], uint32(tid))
	binary.LittleEndian.PutUint32(b[onePriority:], 120)
	if change != nil {
		change(b)
	}
	return b
}

func TestParseThreads(t *testing.T) {
	whole := oneThread(7, 9, func(b []byte) {
		for at, v := range map[int]uint32{oneState: 1, oneFlags: 0x400000, onePolicy: 3, oneNice: ^uint32(4), oneCPU: 1, onePriority: 98} {
			binary.LittleEndian.PutUint32(b[at:], v)
		}
		for at, v := range map[int]uint64{oneRun: 5, oneStart: 6, oneVoluntary: 7, oneNonvoluntary: 8, oneThreadSize: 3} {
			binary.LittleEndian.PutUint64(b[at:], v)
		}
		copy(b[oneName:], "demo")
	})
	got, err := parseThreads(slices.Concat(whole, oneThread(7, 8, nil), oneThread(0, 0, nil)), 8, 7, nil)
	if err != nil || len(got) != 2 || got[0].TID != 8 || got[0].Priority != 20 || got[0].State != 'R' {
		t.Fatalf("%+v, %v", got, err)
	}
	x := got[1]
	if x.TID != 9 || x.State != 'S' || x.Flags != 0x400000 || x.Policy != 3 || x.Priority != -2 || x.Nice != -5 || x.Processor != 1 ||
		x.Runtime != 5 || x.Start != 6 || x.Voluntary != 7 || x.Nonvoluntary != 8 || x.Name != [16]byte{'d', 'e', 'm', 'o'} || x.CPUs[0] != 3 {
		t.Errorf("%+v", x)
	}
	for name, b := range map[string][]byte{"cut": whole[:len(whole)-1], "of another process": oneThread(6, 8, nil)} {
		if got, err := parseThreads(b, 8, 7, nil); err == nil || got != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func openedThreads(t *testing.T) *Threads {
	t.Helper()
	s, err := OpenThreads()
	if errors.Is(err, errUnbound) {
		if major, minor, ok := kernelVersion(); !ok || major > 6 || major == 6 && minor >= 1 {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return untilEnd(t, s, err)
}

// What the tables say of the threads of a process is what its texts say that are read
// before and after, of whatever does not change between them.
func TestThreadsAgreeWithTexts(t *testing.T) {
	tables := openedThreads(t)
	// Threads with a policy, a nice value and CPUs of their own.
	end := make(chan bool)
	defer close(end)
	ready := make(chan int)
	for i := range 8 {
		go func() {
			runtime.LockOSThread() // not unlocked: the thread ends with this
			var set unix.CPUSet
			set.Set(0)
			tid := unix.Gettid()
			unix.Setpriority(unix.PRIO_PROCESS, tid, i)
			if i%2 == 0 {
				unix.SchedSetaffinity(tid, &set)
			}
			ready <- tid
			<-end
		}()
	}
	var tids []int
	for range 8 {
		tids = append(tids, <-ready)
	}
	fs, err := proc.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	id, _, err := fs.Identify(int32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	read := func() map[int32]proc.Thread {
		p, err := fs.OpenProcess(id) // anew: nothing is kept of the sample before
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		var s proc.Sample
		if err := p.ReadSample(&s); err != nil {
			t.Fatal(err)
		}
		m := map[int32]proc.Thread{}
		for _, x := range s.Threads {
			m[x.TID] = x
		}
		return m
	}
	offset := startOffset(t)
	tick := uint64(time.Second / 100)
	policies := map[uint32]string{0: "OTHER", 1: "FIFO", 2: "RR", 3: "BATCH", 5: "IDLE", 6: "DEADLINE", 7: "EXT"}
	compared := map[int32]bool{}
	for range 5 {
		before := read()
		list, err := tables.Read(id.PID)
		if err != nil {
			t.Fatal(err)
		}
		after := read()
		if !slices.IsSortedFunc(list, func(a, b Thread) int { return int(a.TID - b.TID) }) {
			t.Error("not by TID")
		}
		for i := range list {
			x := &list[i]
			a, okA := before[x.TID]
			b, okB := after[x.TID]
			if !okA || !okB {
				continue
			}
			v, _ := a.VoluntarySwitches.Get()
			n, _ := a.NonvoluntarySwitches.Get()
			w, _ := b.VoluntarySwitches.Get()
			m, _ := b.NonvoluntarySwitches.Get()
			name := string(x.Name[:slices.Index(x.Name[:], 0)])
			if (x.Start+offset)/tick != a.StartTicks || name != a.Name || policies[x.Policy] != a.Scheduler || x.Nice != a.Nice || x.Priority != a.Priority ||
				x.Voluntary < v || x.Voluntary > w || x.Nonvoluntary < n || x.Nonvoluntary > m ||
				x.Runtime/tick+1 < a.CPUTicks || x.Runtime/tick > b.CPUTicks+2 {
				t.Errorf("texts %+v and %+v, tables %+v", a, b, *x)
			}
			if v == w && n == m && a.State == 'S' && b.State == 'S' && x.State != 'S' {
				t.Errorf("%d slept all the time, and is %c", x.TID, x.State)
			}
			if list := a.Affinity.Or(""); list == "0" != (x.CPUs[0] == 1 && !slices.ContainsFunc(x.CPUs[1:], func(b byte) bool { return b != 0 })) {
				t.Errorf("%d may run on %s, and on %v", x.TID, list, x.CPUs)
			}
			compared[x.TID] = true
		}
	}
	for _, tid := range tids {
		if !compared[int32(tid)] {
			t.Errorf("thread %d was not there to compare", tid)
		}
	}
}

// A number that no process has, or a thread has, gives no threads and no error; and
// closing leaves nothing in the kernel.
func TestThreadsOfNobodyAndClose(t *testing.T) {
	openedThreads(t)
	before := len(bpfObjects(t, unix.Getpid()))
	s, err := OpenThreads()
	if err != nil {
		t.Fatal(err)
	}
	if list, err := s.Read(1<<31 - 2); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
	if list, err := s.Read(int32(os.Getpid())); err != nil || len(list) < 2 {
		t.Errorf("%v, %v", list, err)
	}
	leavesNothing(t, s, before)
}
