package api

import (
	"errors"
	"net/http"
	"strconv"

	"procinsh/proc"
	"procinsh/ptrace"
)

// tid reads the optional thread of GET /api/processes/stacks; 0 means all.
func (q query) tid() (int32, error) {
	text, given, err := q.one("tid")
	if err != nil || !given {
		return 0, err
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || n == 0 {
		return 0, badRequest("invalid_tid", "Parameter tid has to be a whole number from 1 to 2147483647.")
	}
	return int32(n), nil
}

func (s *Server) getStacks(w http.ResponseWriter, r *http.Request) error {
	q, err := parseQuery(r)
	if err != nil {
		return err
	}
	id, err := q.identity()
	if err != nil {
		return err
	}
	tid, err := q.tid()
	if err != nil {
		return err
	}
	var stacks *ptrace.Stacks
	err = s.bounded(r.Context(), id, true, func() (err error) {
		stacks, err = ptrace.ReadStacks(r.Context(), s.fs, id, tid, s.symbols)
		return err
	})
	if tid != 0 && errors.Is(err, proc.ErrGone) {
		return &httpError{status: http.StatusGone, code: "process_gone", err: err,
			message: "The process has no such thread, or has ended, or its PID names another process by now."}
	}
	if err != nil {
		return err
	}
	replyValue(w, r, stacksAnswer(stacks))
	return nil
}

func stacksAnswer(s *ptrace.Stacks) StacksAnswer {
	a := StacksAnswer{ProcessID: identity(s.ID), CapturedAt: s.CapturedAt.UnixMilli(),
		Threads: make([]StackThread, len(s.Threads)), Warnings: nonNil(s.Warnings)}
	for i := range s.Threads {
		t := &s.Threads[i]
		a.Threads[i] = StackThread{
			TID: t.TID, Name: t.Name, State: string(rune(t.State)),
			Syscall: systemCall(t.Call), WaitChannel: textOrNull(t.WaitChannel), KernelStack: t.KernelStack,
			Stable: t.Stable, UnwindStop: textOrNull(t.UnwindStop), FramesMayBeMissing: t.FramesMayBeMissing, Error: textOrNull(t.Err),
		}
		if t.CallStack != nil {
			a.Threads[i].CallStack = frames(t.CallStack)
		}
	}
	return a
}

func systemCall(c *ptrace.SystemCall) *SystemCall {
	if c == nil {
		return nil
	}
	a := SystemCall{Number: c.Number, Name: c.Name.Ptr(), Arguments: make([]string, len(c.Arguments))}
	for i, v := range c.Arguments {
		a.Arguments[i] = hex16(v)
	}
	return &a
}

// frames is never nil: an empty stack was looked for.
func frames(list []ptrace.Frame) []Frame {
	a := make([]Frame, len(list))
	for i := range list {
		f := &list[i]
		a[i] = Frame{
			Address: hex16(f.Address), Symbol: textOrNull(f.Symbol), SourceFile: textOrNull(f.SourceFile), Line: lineOrNull(f.Line),
			Module: textOrNull(f.Module), UnwoundBy: f.By.String(), Guess: f.Guess, InlineFrames: inlineFrames(f),
		}
		if f.Symbol != "" {
			a[i].SymbolOffset = offset(f.SymbolOffset)
		}
		if f.Module != "" {
			a[i].ModuleOffset = offset(f.ModuleOffset)
		}
	}
	return a
}

func inlineFrames(f *ptrace.Frame) []InlineFrame {
	a := make([]InlineFrame, len(f.Inline))
	for i, l := range f.Inline {
		a[i] = InlineFrame{textOrNull(l.Function), textOrNull(l.File), lineOrNull(l.Line)}
	}
	return a
}

func offset(v uint64) *string {
	text := "0x" + strconv.FormatUint(v, 16)
	return &text
}

// textOrNull is null for the empty text of a domain type, which means unknown there.
func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func lineOrNull(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}
