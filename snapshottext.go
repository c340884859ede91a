package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"procinsh/ptrace"
)

const (
	listedNames = 4 // names of threads in one heading
	traceIndent = "                       "
)

// threadText is a thread as it is printed. Threads that agree in all but number and
// name are printed once.
type threadText struct {
	tid    int32
	name   string
	state  string   // "in futex"
	call   string   // the same with arguments, for a thread that is alone
	kernel []string // innermost first
	frames []ptrace.Frame
	notes  []string
}

func writeSnapshot(w io.Writer, name string, s *ptrace.Snapshot) {
	fmt.Fprintf(w, "%s, PID %d: %s, stopped for %.3f ms at %s\n", printable(name), s.ID.PID, countOf(len(s.Threads), "thread"),
		float64(s.Paused.Microseconds())/1000, s.At.Format("2006-01-02 15:04:05.000"))
	threads := make([]threadText, len(s.Threads))
	for i := range s.Threads {
		t := &s.Threads[i]
		threads[i] = threadText{tid: t.TID, name: t.Name, frames: t.CallStack, notes: notes(t.UnwindStop, t.FramesMayBeMissing, t.Err)}
		if c := t.Call; c != nil {
			threads[i].state = "in " + c.Name.Or(fmt.Sprintf("system call %d", c.Number))
		}
	}
	writeThreads(w, threads)
	writeWarnings(w, s.Warnings)
}

func writeStacks(w io.Writer, name string, s *ptrace.Stacks) {
	fmt.Fprintf(w, "%s, PID %d: %s, not stopped, at %s\n", printable(name), s.ID.PID, countOf(len(s.Threads), "thread"),
		s.CapturedAt.Format("2006-01-02 15:04:05.000"))
	threads := make([]threadText, len(s.Threads))
	for i := range s.Threads {
		t := &s.Threads[i]
		o := threadText{tid: t.TID, name: t.Name, kernel: t.KernelStack, frames: t.CallStack, notes: notes(t.UnwindStop, t.FramesMayBeMissing, t.Err)}
		state := "state " + printable(string(rune(t.State)))
		if t.CallStack == nil && t.Err == "" {
			o.notes = append(o.notes, "it runs: only a snapshot that stops it shows where")
		}
		if t.CallStack != nil && !t.Stable {
			o.notes = append(o.notes, "it moved while its stack was read: the frames may be of different moments")
		}
		wait := ""
		if t.WaitChannel != "" {
			wait = ", waits in " + printable(t.WaitChannel)
		}
		o.state = state + wait
		if c := t.Call; c != nil {
			call := c.Name.Or(fmt.Sprintf("system call %d", c.Number))
			o.state = state + ", in " + call + wait
			args := make([]string, len(c.Arguments))
			for i, v := range c.Arguments {
				args[i] = "0x" + strconv.FormatUint(v, 16)
			}
			o.call = state + ", in " + call + "(" + strings.Join(args, ", ") + ")" + wait
		}
		threads[i] = o
	}
	writeThreads(w, threads)
	writeWarnings(w, s.Warnings)
}

func notes(stop string, missing bool, err string) (list []string) {
	if stop != "" && stop != ptrace.StopEnd {
		list = append(list, "the walk ended here: "+stop)
	}
	if missing {
		list = append(list, "frames may be missing")
	}
	if err != "" {
		list = append(list, err)
	}
	return list
}

func writeWarnings(w io.Writer, warnings []string) {
	if len(warnings) > 0 {
		fmt.Fprintln(w)
	}
	for _, text := range warnings {
		fmt.Fprintln(w, "warning:", printable(text))
	}
}

// writeThreads prints each group where its first thread stands.
func writeThreads(w io.Writer, threads []threadText) {
	groups := map[string][]int{}
	keys := make([]string, len(threads))
	for i := range threads {
		keys[i] = threads[i].key()
		groups[keys[i]] = append(groups[keys[i]], i)
	}
	for i := range threads {
		if group := groups[keys[i]]; group[0] == i {
			writeGroup(w, threads, group)
		}
	}
}

// key is equal for threads that are printed as one.
func (t *threadText) key() string {
	var b strings.Builder
	b.WriteString(t.state)
	for _, part := range [][]string{t.kernel, t.notes} {
		b.WriteByte(0)
		for _, line := range part {
			b.WriteString(line)
			b.WriteByte(0)
		}
	}
	for i := range t.frames {
		fmt.Fprintf(&b, "%x %d ", t.frames[i].Address, t.frames[i].By)
	}
	return b.String()
}

func writeGroup(w io.Writer, threads []threadText, group []int) {
	t := &threads[group[0]]
	heading := "thread"
	if len(group) > 1 {
		heading = "threads"
	}
	var names []string
	for n, i := range group {
		if n > 0 {
			heading += ","
		}
		heading += " " + strconv.Itoa(int(threads[i].tid))
		if name := printable(threads[i].name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if more := len(names) - listedNames; more > 0 {
		names = append(names[:listedNames], fmt.Sprintf("%d more names", more))
	}
	heading += " (" + strings.Join(names, ", ") + ")"
	state := t.state
	if len(group) == 1 && t.call != "" {
		state = t.call
	}
	if state != "" {
		heading += ", " + state
	}
	fmt.Fprintf(w, "\n%s:\n", heading)
	for _, line := range t.kernel {
		fmt.Fprintf(w, "    kernel: %s\n", printable(line))
	}
	for i := range t.frames {
		writeFrame(w, i, &t.frames[i])
	}
	for _, text := range t.notes {
		fmt.Fprintf(w, "    %s\n", printable(text))
	}
}

// writeFrame prints a frame, and before it the functions that were inlined there.
func writeFrame(w io.Writer, n int, f *ptrace.Frame) {
	lead := fmt.Sprintf("#%-2d 0x%016x ", n, f.Address)
	file, line := f.SourceFile, f.Line
	if len(f.Inline) > 1 {
		for _, l := range f.Inline[:len(f.Inline)-1] {
			name := l.Function
			if name == "" {
				name = "??"
			}
			fmt.Fprintf(w, "%s%s [inlined]%s\n", lead, printable(name), place(l.File, l.Line))
			lead = traceIndent
		}
		last := f.Inline[len(f.Inline)-1]
		file, line = last.File, last.Line
	}
	name := "??"
	if f.Symbol != "" {
		name = fmt.Sprintf("%s+%#x", printable(f.Symbol), f.SymbolOffset)
		if f.Guess {
			name = "near " + name
		}
	}
	module := ""
	if f.Module != "" {
		module = " (" + printable(f.Module) + ")"
		if f.Symbol == "" {
			module = fmt.Sprintf(" (%s+%#x)", printable(f.Module), f.ModuleOffset)
		}
	}
	mark := ""
	if f.By == ptrace.BySignalFrame {
		mark = " [interrupted by a signal]"
	}
	fmt.Fprintf(w, "%s%s%s%s%s\n", lead, name, module, place(file, line), mark)
}

func place(file string, line int) string {
	switch {
	case file == "":
		return ""
	case line == 0:
		return " at " + printable(file)
	}
	return fmt.Sprintf(" at %s:%d", printable(file), line)
}

// printable shows what a terminal would act on as escapes: names of threads, files
// and functions are chosen by the target.
func printable(s string) string {
	clean := true
	for _, r := range s {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[size:]
	}
	return b.String()
}

func countOf(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
