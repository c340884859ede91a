package watch

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

// fakeThreads are tables that count, and fail when they are told.
type fakeThreads struct {
	reads, closed int
	err           error
}

func (f *fakeThreads) ReadThreads(_ int32, dst []proc.TaskThread) ([]proc.TaskThread, error) {
	f.reads++
	return dst, f.err
}
func (f *fakeThreads) Close() error { f.closed++; return nil }

// manyThreads makes this process one of many threads until the test ends.
func manyThreads(t *testing.T) {
	t.Helper()
	end, ready := make(chan bool), make(chan bool)
	for range 80 {
		go func() {
			runtime.LockOSThread() // not unlocked: the thread ends with this
			ready <- true
			<-end
		}()
	}
	for range 80 {
		<-ready
	}
	t.Cleanup(func() { close(end) })
}

func TestThreadTablesLastAsLongAsProcessesAreOpen(t *testing.T) {
	manyThreads(t)
	mount := openProc(t)
	id, _, err := mount.Identify(int32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	var refused error
	var readers []*fakeThreads
	tables := newThreadTables(func() (ThreadReader, error) {
		if refused != nil {
			return nil, refused
		}
		readers = append(readers, &fakeThreads{})
		return readers[len(readers)-1], nil
	})
	src := textProcesses{mount, tables}
	open := func() target {
		p, err := src.Open(id)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	sample := func(p target) {
		t.Helper()
		var s proc.Sample
		if err := p.ReadSample(&s); err != nil || len(s.Threads) < 80 { // what the tables lack comes from the texts
			t.Fatalf("%d threads, %v", len(s.Threads), err)
		}
	}
	a, b := open(), open()
	if len(readers) != 0 {
		t.Fatal("opened before a thread was asked for")
	}
	sample(a)
	sample(b)
	if len(readers) != 1 || readers[0].reads != 2 || !tables.now().Tables {
		t.Fatalf("%d opened, %+v", len(readers), tables.now())
	}
	readers[0].err = errors.New("broken")
	sample(a)
	if readers[0].closed != 1 || tables.now() != (Source{Reason: "broken"}) {
		t.Errorf("closed %d times, source %+v", readers[0].closed, tables.now())
	}
	sample(a)
	sample(b)
	if len(readers) != 1 || readers[0].reads != 3 {
		t.Errorf("%d opened, the first read %d times", len(readers), readers[0].reads)
	}
	a.Close()
	b.Close()
	refused = errors.New("refused")
	a = open()
	sample(a)
	a.Close()
	if tables.now() != (Source{Reason: "refused"}) {
		t.Errorf("source %+v", tables.now())
	}
	refused = nil
	a = open()
	sample(a)
	if len(readers) != 2 || !tables.now().Tables {
		t.Errorf("%d opened, source %+v", len(readers), tables.now())
	}
	a.Close()
	if readers[1].closed != 1 {
		t.Error("left open after the last process")
	}
}

func openProc(t *testing.T) *proc.FS {
	t.Helper()
	mount, err := proc.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mount.Close() })
	return mount
}

// A process of many threads is the same from the kernel's tables and from its texts.
func TestThreadsFromTablesAndTexts(t *testing.T) {
	manyThreads(t)
	mount := openProc(t)
	tables := newThreadTables(func() (ThreadReader, error) { return OpenThreadTables(mount) })
	id, _, err := mount.Identify(int32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	read := func(src textProcesses) map[int32]proc.Thread {
		t.Helper()
		p, err := src.Open(id)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		var s proc.Sample
		if err := p.ReadSample(&s); err != nil {
			t.Fatal(err)
		}
		if !s.Swap.Known() || !s.VoluntarySwitches.Known() {
			t.Errorf("swap %v, switches %v", s.Swap, s.VoluntarySwitches)
		}
		m := map[int32]proc.Thread{}
		for _, x := range s.Threads {
			m[x.TID] = x
		}
		return m
	}
	compared := 0
	for end := time.Now().Add(time.Minute); compared < 5*70 && time.Now().Before(end); { // those that run are left out
		before := read(textProcesses{mount, nil})
		got := read(textProcesses{mount, tables})
		after := read(textProcesses{mount, nil})
		if source := tables.now(); !source.Tables {
			_, noTypes := os.Stat("/sys/kernel/btf/vmlinux")
			var name unix.Utsname
			unix.Uname(&name)
			if release := unix.ByteSliceToString(name.Release[:]); os.Geteuid() != 0 || errors.Is(noTypes, fs.ErrNotExist) || release[0] == '5' {
				t.Skip(source.Reason)
			}
			t.Fatal(source.Reason)
		}
		for tid, x := range got {
			a, b := before[tid], after[tid]
			if a != b { // it ran
				continue
			}
			compared++
			if x.CPUTicks == a.CPUTicks+1 { // stat rounds user and system time down each
				x.CPUTicks--
			}
			if x != a {
				t.Errorf("texts  %+v\ntables %+v", a, x)
			}
		}
	}
	if compared < 5*70 {
		t.Errorf("%d threads were compared", compared)
	}
}
