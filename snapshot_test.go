package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"procinsh/elf"
	"procinsh/proc"
	"procinsh/ptrace"
)

func TestParseSnapshotArgs(t *testing.T) {
	for args, want := range map[string]snapshotOptions{
		"1":                        {pid: 1},
		"2147483647":               {pid: 2147483647},
		"4711 --json":              {pid: 4711, json: true},
		"--no-stop 4711":           {pid: 4711, noStop: true},
		"-json 4711 --no-stop":     {pid: 4711, json: true, noStop: true},
		"--json --no-stop 0004711": {pid: 4711, json: true, noStop: true},
	} {
		if got, err := parseSnapshotArgs(strings.Fields(args)); err != nil || got != want {
			t.Errorf("%q gives %+v, %v, want %+v", args, got, err, want)
		}
	}
}

// A wrong command line is one line on stderr and status 2, a process that is not
// there one line and status 1.
func TestSnapshotFailures(t *testing.T) {
	tests := []struct {
		args   string
		status int
		want   string
	}{
		{"", 2, "a PID is needed"},
		{"--json", 2, "a PID is needed"},
		{"0", 2, `PID "0"`},
		{"-1", 2, `PID "-1"`},
		{"+1", 2, `PID "+1"`},
		{"2147483648", 2, `PID "2147483648"`},
		{"bash", 2, `PID "bash"`},
		{"1 2", 2, `unexpected argument "2"`},
		{"1 --xml", 2, "unknown option --xml"},
		{"1 --json=yes", 2, "unknown option --json=yes"},
		{"1 -", 2, "unknown option"},
		{"1073741824", 1, "there is no process 1073741824"},
		{"1073741824 --no-stop --json", 1, "there is no process 1073741824"},
	}
	for _, tt := range tests {
		var out, errs bytes.Buffer
		status := run(append([]string{"snapshot"}, strings.Fields(tt.args)...), noEnv, &out, &errs)
		line := errs.String()
		if status != tt.status || out.Len() > 0 || !strings.Contains(line, tt.want) || !strings.HasPrefix(line, "procinsh: ") || strings.Count(line, "\n") != 1 {
			t.Errorf("%q: status %d, stdout %q, stderr %q, want status %d and one line with %q", tt.args, status, &out, line, tt.status, tt.want)
		}
	}
	for _, args := range []string{"--help", "-h", "12 --help"} {
		var out, errs bytes.Buffer
		if status := run(append([]string{"snapshot"}, strings.Fields(args)...), noEnv, &out, &errs); status != 0 || errs.Len() > 0 || out.String() != snapshotHelp {
			t.Errorf("%s: status %d, stdout %q, stderr %q", args, status, &out, &errs)
		}
	}
	for option := range strings.FieldsSeq(snapshotHelp) {
		if strings.HasPrefix(option, "--") && option != "--help" {
			if _, err := parseSnapshotArgs([]string{option, "1"}); err != nil {
				t.Errorf("the help names %s: %v", option, err)
			}
		}
	}
}

func TestSnapshotFailureLine(t *testing.T) {
	for err, want := range map[error]string{
		ptrace.ErrKernelThread:                                 "process 7: a kernel thread has",
		&ptrace.TracedError{TID: 7, PID: 8, Comm: "g\x1b[31m"}: `process 7: the process is traced already, by process 8 (g\x1b[31m)`,
		errors.New("x\ny"):                                     `process 7: x\ny`,
		errNoProcess:                                           "there is no process 7",
	} {
		if got := snapshotFailure(t.Context(), 7, err); !strings.HasPrefix(got, want) {
			t.Errorf("%v gives %q, want %q", err, got, want)
		}
	}
}

const program, libc = "/srv/a program", "/lib/libc.so.6"

func frame(address uint64, symbol string, offset uint64, module, file string, line int, by ptrace.Found) ptrace.Frame {
	return ptrace.Frame{Address: address, Symbol: symbol, SymbolOffset: offset, Module: module, ModuleOffset: address & 0xfff, SourceFile: file, Line: line, By: by}
}

func TestWriteSnapshot(t *testing.T) {
	waits := []ptrace.Frame{
		frame(0x7f0000001503, "__futex_wait", 0x43, libc, "", 0, ptrace.ByRegisters),
		frame(0x401234, "work(int)", 0x1c, program, "/src/work.cc", 12, ptrace.ByCFI),
	}
	inlined := frame(0x401300, "main", 0x10, program, "/src/inner.h", 3, ptrace.ByRegisters)
	inlined.Inline = []elf.Location{{Function: "inner", File: "/src/inner.h", Line: 3}, {File: "/src/middle.h", Line: 4}, {Function: "main", File: "/src/main.c", Line: 5}}
	guess := frame(0x401400, "near_by", 0x99, program, "", 0, ptrace.ByFramePointer)
	guess.Guess = true
	call := &ptrace.Call{Number: 202, Name: proc.Some("futex")}
	s := &ptrace.Snapshot{
		At: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.Local), ID: proc.ID{PID: 10}, Paused: 118 * time.Microsecond,
		Threads: []ptrace.Thread{
			{TID: 10, Name: "main\x1b[2J", CallStack: []ptrace.Frame{inlined, guess, frame(0x7f00deadbeef, "", 0, "", "", 0, ptrace.ByFramePointer)},
				UnwindStop: ptrace.StopNotCode, FramesMayBeMissing: true},
			{TID: 12, Name: "worker-1", Call: call, CallStack: waits, UnwindStop: ptrace.StopEnd},
			{TID: 11, Name: "odd", Err: "no registers"},
			{TID: 13, Name: "worker-2", Call: call, CallStack: waits, UnwindStop: ptrace.StopEnd},
			{TID: 14, Name: "worker-2", Call: call, CallStack: waits, UnwindStop: ptrace.StopEnd},
			{TID: 15, Name: "other", Call: &ptrace.Call{Number: 999}, CallStack: []ptrace.Frame{waits[0],
				frame(0x401555, "", 0, program, "", 0, ptrace.BySignalFrame)}, UnwindStop: ptrace.StopEnd},
		},
		Warnings: []string{"thread 16 is not part of the snapshot"},
	}
	want := `a\x1b program, PID 10: 6 threads, stopped for 0.118 ms at 2026-01-02 03:04:05.006

thread 10 (main\x1b[2J):
#0  0x0000000000401300 inner [inlined] at /src/inner.h:3
                       ?? [inlined] at /src/middle.h:4
                       main+0x10 (/srv/a program) at /src/main.c:5
#1  0x0000000000401400 near near_by+0x99 (/srv/a program)
#2  0x00007f00deadbeef ??
    the walk ended here: return address not in code
    frames may be missing

threads 12, 13, 14 (worker-1, worker-2), in futex:
#0  0x00007f0000001503 __futex_wait+0x43 (/lib/libc.so.6)
#1  0x0000000000401234 work(int)+0x1c (/srv/a program) at /src/work.cc:12

thread 11 (odd):
    no registers

thread 15 (other), in system call 999:
#0  0x00007f0000001503 __futex_wait+0x43 (/lib/libc.so.6)
#1  0x0000000000401555 ?? (/srv/a program+0x555) [interrupted by a signal]

warning: thread 16 is not part of the snapshot
`
	var got strings.Builder
	writeSnapshot(&got, "a\x1b program", s)
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &got, want)
	}
}

func TestWriteStacks(t *testing.T) {
	call := &ptrace.SystemCall{Number: 0, Name: proc.Some("read"), Arguments: [6]uint64{3, 0x7ffe0000, 64}}
	waits := []ptrace.Frame{frame(0x7f0000001503, "read", 0x13, libc, "", 0, ptrace.ByRegisters)}
	s := &ptrace.Stacks{
		ID: proc.ID{PID: 10}, CapturedAt: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.Local),
		Threads: []ptrace.ThreadStack{
			{TID: 10, Name: "main", State: 'S', Call: call, WaitChannel: "pipe_read", KernelStack: []string{"pipe_read+0x1/0x2", "vfs_read+0x3/0x4"},
				CallStack: waits, Stable: true, UnwindStop: ptrace.StopEnd},
			{TID: 11, Name: "busy", State: 'R'},
			{TID: 12, Name: "a", State: 'S', Call: &ptrace.SystemCall{Number: 1234}, CallStack: waits, UnwindStop: ptrace.StopRegister},
			{TID: 13, Name: "b", State: 'S', Call: &ptrace.SystemCall{Number: 1234, Arguments: [6]uint64{7}}, CallStack: waits, UnwindStop: ptrace.StopRegister},
			{TID: 14, Name: "c", State: 'S', Err: "not permitted"},
			{TID: 15, Name: "d", State: 'D', WaitChannel: "io_schedule", CallStack: []ptrace.Frame{}, Stable: true, UnwindStop: ptrace.StopNoUser},
		},
	}
	want := `prog, PID 10: 6 threads, not stopped, at 2026-01-02 03:04:05.006

thread 10 (main), state S, in read(0x3, 0x7ffe0000, 0x40, 0x0, 0x0, 0x0), waits in pipe_read:
    kernel: pipe_read+0x1/0x2
    kernel: vfs_read+0x3/0x4
#0  0x00007f0000001503 read+0x13 (/lib/libc.so.6)

thread 11 (busy), state R:
    it runs: only a snapshot that stops it shows where

threads 12, 13 (a, b), state S, in system call 1234:
#0  0x00007f0000001503 read+0x13 (/lib/libc.so.6)
    the walk ended here: needs a register that only a stopped thread shows
    it moved while its stack was read: the frames may be of different moments

thread 14 (c), state S:
    not permitted

thread 15 (d), state D, waits in io_schedule:
    the walk ended here: no user stack
`
	var got strings.Builder
	writeStacks(&got, "prog", s)
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &got, want)
	}
}

// Threads with one name among many are not listed one by one.
func TestManyNames(t *testing.T) {
	var threads []threadText
	for i := range int32(40) {
		threads = append(threads, threadText{tid: 100 + i, name: "pool-" + string(rune('A'+i))})
	}
	var got strings.Builder
	writeThreads(&got, threads)
	if text := got.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, " 139 (pool-A, pool-B, pool-C, pool-D, 36 more names):") {
		t.Errorf("got %s", text)
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "",
		"std::vector<int>":    "std::vector<int>",
		"grün 漢字":             "grün 漢字",
		"a\x1b[31mb":          `a\x1b[31mb`,
		"line\nline\r\t\x00":  `line\nline\r\t\x00`,
		"bad \xff\xfe utf-8":  `bad \xff\xfe utf-8`,
		"bidi \u202e\u2066x":  `bidi \u202e\u2066x`,
		"c1 \u009b31m":        `c1 \u009b31m`,
		"a real \ufffd stays": "a real \ufffd stays",
	} {
		if got := printable(text); got != want {
			t.Errorf("%q is printed as %q, want %q", text, got, want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("a\x1bb\xff\u202e")
	f.Fuzz(func(t *testing.T, text string) {
		got := printable(text)
		for _, r := range got {
			if r < 0x20 || r >= 0x7f && r < 0xa0 || r == '\u202e' || r == '\u2066' {
				t.Errorf("%q is printed as %q", text, got)
			}
		}
		if len(got) > 10*len(text) {
			t.Errorf("%q grew to %d bytes", text, len(got))
		}
	})
}
