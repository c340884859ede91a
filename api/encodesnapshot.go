package api

import (
	"encoding/hex"
	"strconv"

	"procinsh/proc"
	"procinsh/ptrace"
)

// AppendSnapshot appends the body of POST /api/processes/snapshot, a
// SnapshotAnswer. The maps, which can be 200,000, are written by hand.
func AppendSnapshot(b []byte, s *ptrace.Snapshot) []byte {
	b = append(b, `{"captured_at":`...)
	b = appendInt(b, s.At.UnixMilli())
	b = append(b, `,"process_id":`...)
	b = appendIdentity(b, s.ID)
	b = append(b, `,"paused_ms":`...)
	b = appendFloat(b, milliseconds(s.Paused))
	b = append(b, `,"threads":`...)
	names := mappingNames{}
	b = appendList(b, s.Threads, func(b []byte, t *ptrace.Thread) []byte { return appendValue(b, names.thread(t)) })
	b = append(b, `,"maps":`...)
	b = appendList(b, s.Maps, appendMapping)
	b = append(b, `,"warnings":`...)
	b = appendStrings(b, nonNil(s.Warnings))
	b = append(b, `,"cost":`...)
	b = appendValue(b, SnapshotCost{StoppedThreads: len(s.Threads), Passes: s.Passes, Priority: string(s.Priority)})
	b = append(b, `,"not_stopped":`...)
	b = appendList(b, s.NotStopped, func(b []byte, n *ptrace.NotStopped) []byte { return appendValue(b, NotStopped{n.TID, n.Reason}) })
	return append(b, "}\n"...)
}

// AppendStacks appends the body of GET /api/processes/stacks, a StacksAnswer.
func AppendStacks(b []byte, s *ptrace.Stacks) []byte { return marshal(b, stacksAnswer(s)) }

// appendValue appends v as package json writes it, without a line end.
func appendValue(b []byte, v any) []byte {
	b = marshal(b, v)
	return b[:len(b)-1]
}

// mappingNames are the texts of mappings, which many registers share.
type mappingNames map[*proc.Mapping]*string

func (names mappingNames) of(m *proc.Mapping) *string {
	if m == nil {
		return nil
	}
	text := names[m]
	if text == nil {
		path := m.Path
		if path == "" {
			path = "[anonymous]"
		}
		path += " " + string(m.Permissions[:])
		text = &path
		names[m] = text
	}
	return text
}

func (names mappingNames) thread(t *ptrace.Thread) SnapshotThread {
	a := SnapshotThread{
		TID: t.TID, Name: t.Name, Registers: make([]Register, len(t.Registers)), CallStack: frames(t.CallStack),
		UnwindStop: textOrNull(t.UnwindStop), FramesMayBeMissing: t.FramesMayBeMissing,
		Disassembly: disassembly(t.Disassembly), Error: textOrNull(t.Err),
	}
	for i := range t.Registers {
		r := &t.Registers[i]
		a.Registers[i] = Register{Name: r.Name, Value: hex16(r.Value), Decimal: strconv.FormatUint(r.Value, 10),
			Kind: string(r.Kind), Mapping: names.of(r.Mapping)}
		if r.Mapping != nil {
			a.Registers[i].Offset = offset(r.Offset)
		}
	}
	if t.Call != nil {
		a.Syscall, a.SyscallNumber = t.Call.Name.Ptr(), &t.Call.Number
	}
	if len(t.Stack.Bytes) > 0 {
		a.StackBytes = &StackBytes{hex16(t.Stack.Address), hex.EncodeToString(t.Stack.Bytes)}
	}
	return a
}

func disassembly(d *ptrace.Disassembly) *Disassembly {
	if d == nil {
		return nil
	}
	a := Disassembly{Address: hex16(d.Address), Bytes: hex.EncodeToString(d.Bytes),
		Instructions: make([]Instruction, len(d.Instructions)), Error: textOrNull(d.Err)}
	for i := range d.Instructions {
		in := &d.Instructions[i]
		a.Instructions[i] = Instruction{hex16(in.Address), hex.EncodeToString(in.Bytes), in.Text, in.Address == d.Address}
	}
	return &a
}
