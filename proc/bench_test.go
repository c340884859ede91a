package proc

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	targets["processes"] = targetProcesses
	targets["threads"] = targetThreads
}

func argument(args []string) int { return must2(strconv.Atoi(args[0])) }

// targetProcesses starts children that wait until its end.
func targetProcesses(args []string) {
	r, w, err := os.Pipe()
	must(err)
	for i := range argument(args) {
		cmd := exec.Command("/bin/cat", "-", fmt.Sprintf("/nonexistent/number-%05d", i))
		cmd.Stdin = r
		must(cmd.Start())
	}
	fact("W", w.Fd())
}

// targetThreads starts threads that sleep.
func targetThreads(args []string) {
	for range argument(args) {
		go func() {
			var set unix.FdSet
			for {
				unix.Select(0, &set, nil, nil, &unix.Timeval{Sec: 3600})
			}
		}()
	}
	for { // each blocked call has got a thread of its own
		dir := must2(os.ReadDir("/proc/self/task"))
		if len(dir) >= argument(args) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func cpuTime() time.Duration {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}

// BenchmarkScan reads this host and a thousand more processes.
func BenchmarkScan(b *testing.B) {
	benchmarkTarget(b, "processes", "1000")
	s := live(b).NewScanner()
	rows, err := s.Scan(Want{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	from := cpuTime()
	for b.Loop() {
		if rows, err = s.Scan(Want{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpuTime()-from)/float64(b.N)/float64(len(rows)), "cpu-ns/process")
}

// BenchmarkSample reads a process of two thousand threads.
func BenchmarkSample(b *testing.B) {
	pid := benchmarkTarget(b, "threads", "2000")
	fs := live(b)
	p, err := fs.OpenProcess(idOf(b, fs, pid))
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	var s Sample
	if err := p.ReadSample(&s); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	from := cpuTime()
	for b.Loop() {
		if err := p.ReadSample(&s); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpuTime()-from)/float64(b.N)/float64(len(s.Threads)), "cpu-ns/thread")
}

func BenchmarkTotals(b *testing.B) {
	fs := live(b)
	var t Totals
	b.ReportAllocs()
	for b.Loop() {
		if err := fs.ReadTotals(&t); err != nil {
			b.Fatal(err)
		}
	}
}

// benchmarkTarget is startTarget for benchmarks: it returns the PID.
func benchmarkTarget(b *testing.B, name string, args ...string) int {
	b.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "PROC_TARGET="+name)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		stdin.Close()
		cmd.Wait()
	})
	text := []byte{}
	for buf := make([]byte, 256); ; {
		n, err := stdout.Read(buf)
		if text = append(text, buf[:n]...); len(text) >= 6 && string(text[len(text)-6:]) == "READY\n" {
			break
		}
		if err != nil {
			b.Fatalf("target %s: %v after %q", name, err, text)
		}
	}
	go io.Copy(io.Discard, stdout)
	return cmd.Process.Pid
}

// A scan after the first, and a sample after the first, must not allocate for
// each process or thread.
func TestScanAllocations(t *testing.T) {
	tg := startTarget(t, nil, "processes", "100")
	s, _ := scannerOf(t, live(t)) // its clock stands: no details are due
	rows := len(scan(t, s, Want{}))
	scan(t, s, Want{})
	if n := testing.AllocsPerRun(10, func() { scan(t, s, Want{}) }); n > float64(rows)/4 {
		t.Errorf("%.0f allocations in a scan of %d processes", n, rows)
	}
	tg.stop()
}

func TestSampleAllocations(t *testing.T) {
	fs := live(t)
	tg := startTarget(t, nil, "threads", "100")
	p, err := fs.OpenProcess(idOf(t, fs, tg.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var s Sample
	sample := func() {
		if err := p.ReadSample(&s); err != nil {
			t.Fatal(err)
		}
	}
	sample()
	if n := testing.AllocsPerRun(10, sample); n > float64(len(s.Threads))/4 {
		t.Errorf("%.0f allocations in a sample of %d threads", n, len(s.Threads))
	}
}
