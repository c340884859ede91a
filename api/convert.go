package api

import (
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"procinsh/proc"
	"procinsh/watch"
)

// The answers that are short are made as contract types and left to encoding/json.

func identity(id proc.ID) Identity { return Identity{id.PID, id.StartTicks} }

func optIdentity(o proc.Opt[proc.ID]) *Identity {
	id, ok := o.Get()
	if !ok {
		return nil
	}
	v := identity(id)
	return &v
}

func hex16(v uint64) string { return fmt.Sprintf("0x%016x", v) }

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func now() int64 { return time.Now().UnixMilli() }

func totalsAnswer(s *watch.ListState) Totals {
	t := &s.Totals
	a := Totals{
		CapturedAt:       t.At.UnixMilli(),
		Cores:            t.Cores,
		CoresBusy:        t.CoresBusy.Ptr(),
		MemoryTotalBytes: t.MemoryTotal,
		MemoryUsedBytes:  t.MemoryUsed,
		SwapTotalBytes:   t.SwapTotal,
		SwapUsedBytes:    t.SwapUsed,
		ReadBytesRate:    t.ReadRate.Ptr(),
		WriteBytesRate:   t.WriteRate.Ptr(),
		Processes:        t.Processes,
		Threads:          t.Threads,
		States:           make(map[string]int, len(t.States)),
		Load:             t.Load[:],
		Pressure:         PressureTotals{pressure(t.Pressure[0]), pressure(t.Pressure[1]), pressure(t.Pressure[2])},
		UptimeMS:         t.Uptime.Milliseconds(),
		Self:             SelfTotals{t.SelfCPUPercent.Ptr(), t.SelfRSS},
	}
	for state, n := range t.States {
		a.States[string(rune(state))] = n
	}
	return a
}

func pressure(o proc.Opt[proc.Pressure]) *Pressure {
	p, ok := o.Get()
	if !ok {
		return nil
	}
	return &Pressure{p.Some.Ptr(), p.Full.Ptr()}
}

func environmentAnswer(id proc.ID, entries []proc.EnvironmentEntry, truncated bool) EnvironmentAnswer {
	a := EnvironmentAnswer{ProcessID: identity(id), CapturedAt: now(), Truncated: truncated,
		Entries: make([]EnvironmentEntry, len(entries))}
	for i, e := range entries {
		a.Entries[i] = EnvironmentEntry{e.Name, e.Value.Ptr()}
		a.LossyUTF8 = a.LossyUTF8 || !utf8.ValidString(e.Name) || !utf8.ValidString(e.Value.Or(""))
	}
	return a
}

func auxvAnswer(id proc.ID, v *proc.Auxv) AuxvAnswer {
	a := AuxvAnswer{ProcessID: identity(id), CapturedAt: now(), Entries: make([]AuxvEntry, len(v.Entries))}
	if v.WordBits != 0 {
		a.WordBits = &v.WordBits
	}
	for i, e := range v.Entries {
		a.Entries[i] = AuxvEntry{
			Tag:         strconv.FormatUint(e.Tag, 10),
			Name:        e.Name,
			Value:       hex16(e.Value),
			Decimal:     strconv.FormatUint(e.Value, 10),
			Kind:        e.Kind,
			Description: e.Description,
			Text:        e.Text.Ptr(),
			TextError:   e.TextError.Ptr(),
		}
	}
	return a
}

func signalsAnswer(id proc.ID, v *proc.Signals) SignalsAnswer {
	a := SignalsAnswer{ProcessID: identity(id), CapturedAt: now(), Warnings: nonNil(v.Warnings),
		Threads: make([]SignalState, len(v.Threads))}
	for i, t := range v.Threads {
		a.Threads[i] = SignalState{
			TID:           t.TID,
			Name:          t.Name,
			Pending:       signalMask(t.Pending),
			SharedPending: signalMask(t.SharedPending),
			Blocked:       signalMask(t.Blocked),
			Ignored:       signalMask(t.Ignored),
			Caught:        signalMask(t.Caught),
			Queued:        fmt.Sprintf("%d/%d", t.QueuedUsed, t.QueuedLimit),
		}
		if t.TID == id.PID {
			a.Leader = &a.Threads[i]
		}
	}
	return a
}

func signalMask(set uint64) SignalMask { return SignalMask{hex16(set), nonNil(proc.SignalNames(set))} }

func contextAnswer(id proc.ID, v *proc.Context) ContextAnswer {
	a := ContextAnswer{
		ProcessID:       identity(id),
		CapturedAt:      now(),
		ParentID:        optIdentity(v.Parent),
		ProcessGroup:    v.ProcessGroup,
		Session:         v.Session,
		TTY:             v.TTY.Ptr(),
		StartedAt:       v.StartedAt,
		Cwd:             v.Cwd.Ptr(),
		Root:            v.Root.Ptr(),
		Executable:      v.Executable.Ptr(),
		ExecutableState: v.ExecutableState,
		CommandLine:     v.CommandLine,
		Cgroups:         v.Cgroups,
		Container:       v.Container.Ptr(),
		NSPIDs:          v.NSPIDs,
		UIDs:            idSet(v.UIDs),
		GIDs:            idSet(v.GIDs),
		Groups:          v.Groups,
		Seccomp:         v.Seccomp.Ptr(),
		NoNewPrivs:      v.NoNewPrivs.Ptr(),
		SecurityLabel:   v.SecurityLabel.Ptr(),
		OOMScore:        v.OOMScore.Ptr(),
		OOMScoreAdj:     v.OOMScoreAdj.Ptr(),
		Warnings:        nonNil(v.Warnings),
	}
	if v.Children != nil {
		a.Children = make([]Identity, len(v.Children))
		for i, c := range v.Children {
			a.Children[i] = identity(c)
		}
	}
	if v.Namespaces != nil {
		a.Namespaces = make(map[string]Namespace, len(v.Namespaces))
		for kind, n := range v.Namespaces {
			a.Namespaces[kind] = Namespace{strconv.FormatUint(n.Inode, 10), n.Own.Ptr()}
		}
	}
	if c, ok := v.Capabilities.Get(); ok {
		a.Capabilities = &CapabilitySets{capabilitySet(c.Inheritable), capabilitySet(c.Permitted),
			capabilitySet(c.Effective), capabilitySet(c.Bounding), capabilitySet(c.Ambient)}
	}
	if v.Limits != nil {
		a.Limits = make([]ResourceLimit, len(v.Limits))
		for i, l := range v.Limits {
			a.Limits[i] = ResourceLimit{Name: l.Name, Soft: decimal(l.Soft), Hard: decimal(l.Hard), Unit: l.Unit}
		}
	}
	if p, ok := v.Personality.Get(); ok {
		text := "0x" + strconv.FormatUint(p, 16)
		a.Personality = &text
	}
	return a
}

func decimal(o proc.Opt[uint64]) *string {
	v, ok := o.Get()
	if !ok {
		return nil
	}
	text := strconv.FormatUint(v, 10)
	return &text
}

func idSet(o proc.Opt[[4]uint32]) *IDSet {
	v, ok := o.Get()
	if !ok {
		return nil
	}
	return &IDSet{v[0], v[1], v[2], v[3]}
}

func capabilitySet(set uint64) Capabilities {
	return Capabilities{hex16(set), nonNil(proc.CapabilityNames(set))}
}
