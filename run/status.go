package run

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"procinsh/proc"
)

const (
	maxWait       = 2 * time.Minute  // of wait_ms
	maxOutputWait = 30 * time.Second // of wait_ms of output
	maxListed     = 2_064            // runs in one list: all live ones and all records
	// maxCommandText is how many bytes of a member's command line are shown.
	maxCommandText = 4_096
)

func compareText(a, b string) int { return cmp.Compare(a, b) }

func runParent(g *group) string { return filepath.Dir(g.path) }

// epoch returns a time as epoch milliseconds, nil for none.
func epoch(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	n := t.UnixMilli()
	return &n
}

func textOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// status is a run as it is now. whole looks at its members too; else their number is
// that of its cgroup alone.
func (s *Supervisor) status(r *live, whole bool) Status {
	var list []member
	var zombies int
	var failure error
	group := r.cgroup()
	members := proc.Opt[int]{}
	switch {
	case r.over():
	case whole || group == nil:
		if list, zombies, failure = s.membersOf(r, false); failure == nil {
			members = proc.Some(len(list))
		}
	default:
		if pids, err := group.pids(); err == nil {
			members = proc.Some(len(pids))
		}
	}
	r.mu.Lock()
	st := Status{
		ID: r.id, State: r.at, Argv: r.argv, Command: r.command, Cwd: r.cwd, User: textOrNil(r.user), Scope: textOrNil(r.scope), PTY: r.size,
		Warnings: append([]string{}, r.warnings...), CreatedAt: r.created.UnixMilli(), StartedAt: epoch(r.startedAt), RootExitedAt: epoch(r.rootEnd),
		EndedAt: epoch(r.end), Exit: r.exit, Stdin: r.stdin, Confidence: ConfidenceBestEffort, ConfidenceReason: s.why, CPUUsec: r.cpu,
		Limits: Limits{GraceMS: r.grace.Milliseconds()}, Ports: []Port{}, Members: members.Ptr(),
	}
	if len(r.hold.roots) > 0 {
		id := FormatID(r.hold.roots[0])
		st.Root = &id
	}
	roots := slices.Clone(r.hold.roots)
	r.mu.Unlock()
	if st.Argv == nil {
		st.Argv = []string{}
	}
	if r.timeout > 0 {
		n := r.timeout.Milliseconds()
		st.Limits.TimeoutMS = &n
	}
	if r.silence > 0 {
		n := r.silence.Milliseconds()
		st.Limits.SilenceMS = &n
	}
	st.Output = r.ring.extent()
	if group != nil {
		st.Cgroup = &group.path
		st.Confidence, st.ConfidenceReason = ConfidenceHigh, "the command was born in a cgroup of its own"
		if s.birth == birthJoin {
			st.ConfidenceReason = "the command joined a cgroup of its own before it was executed"
		}
		if n, ok := group.cpuUsec(); ok && !st.Ended() {
			st.CPUUsec = &n
		}
	}
	if st.Ended() {
		zero := 0
		st.Members, st.Zombies, st.Escaped, st.Counts = &zero, &zero, &zero, &Counts{}
		st.Confidence = cmp.Or(map[bool]string{true: ConfidenceNone}[st.State == StateFailed], st.Confidence)
		return st
	}
	if whole && failure == nil {
		all, counts := s.describe(r.id, list, roots, true, false)
		st.Zombies, st.Counts = &zombies, &counts
		escaped := 0
		memory := proc.Some(int64(0))
		for i := range all {
			if all[i].Escaped {
				escaped++
			}
			st.Ports = append(st.Ports, all[i].Ports...)
			sum, known := memory.Get()
			if all[i].own == nil || !known {
				memory = proc.Opt[int64]{}
				continue
			}
			memory = proc.Some(sum + *all[i].own)
		}
		st.Escaped, st.MemoryBytes = &escaped, memory.Ptr()
		st.Ports = sortPorts(st.Ports)
	}
	st.WaitingForInput = s.waitsForInput(r, roots)
	return st
}

// waitsForInput tells whether a run seems to wait for its input: a root that is blocked
// in a read of it, or long silence.
//
// Source: /proc/PID/syscall, which only root and the owner may read.
func (s *Supervisor) waitsForInput(r *live, roots []proc.ID) bool {
	r.mu.Lock()
	open := r.stdin == "open" && r.exit == nil
	r.mu.Unlock()
	if !open {
		return false
	}
	if time.Since(time.Unix(0, r.lastOutput.Load())) >= hintAfter {
		return true
	}
	for _, id := range roots {
		b, err := s.files.read(s.files.path(id.PID, "syscall"))
		if f := strings.Fields(string(b)); err == nil && len(f) > 1 && f[0] == "0" && f[1] == "0x0" { // read(0, …)
			return true
		}
	}
	return false
}

// describe tells more of members: by since when they are known, then pid.
func (s *Supervisor) describe(run string, list []member, roots []proc.ID, ports, udp bool) ([]MemberStatus, Counts) {
	nodes := map[int32]node{}
	byPID := map[int32]proc.ID{}
	groups := map[int32]bool{} // process groups of living roots
	exes := map[int32]string{}
	argvs := map[int32][]string{}
	for _, m := range list {
		byPID[m.id.PID] = m.id
	}
	rootPIDs := s.commandRoots(list, roots)
	for _, m := range list {
		pid := m.id.PID
		exe, err := s.files.exe(pid)
		if err == nil {
			exes[pid] = exe
		}
		argvs[pid] = s.files.argv(pid)
		nodes[pid] = node{parent: m.parent, root: rootPIDs[pid], shell: isShell(exes[pid], argvs[pid])}
		if rootPIDs[pid] {
			groups[m.group] = true
		}
	}
	reader := &portReader{files: s.files, udp: udp}
	var counts Counts
	all := make([]MemberStatus, 0, len(list))
	for _, m := range list {
		pid := m.id.PID
		st := MemberStatus{
			ID: FormatID(m.id), PID: pid, Run: run, Label: label(argvs[pid]), Command: commandText(argvs[pid]), Origin: "background",
			Role: roleOf(nodes, pid), StartedAt: startedAt(m.id.StartTicks), SeenSince: m.seen.UnixMilli(), Escaped: m.escaped, Ports: []Port{},
			CPUUsec: m.ticks * (1_000_000 / ticksPerSecond),
		}
		if groups[m.group] {
			st.Origin = "foreground"
		}
		if id, ok := byPID[m.parent]; ok {
			text := FormatID(id)
			st.Parent = &text
		}
		if exe, ok := exes[pid]; ok {
			st.Exe = &exe
		}
		if st.Label == "" {
			st.Label = shorten(filepath.Base(exes[pid]))
		}
		rss, own := s.files.memory(pid)
		st.RSSBytes = rss
		if n, ok := own.Get(); ok {
			v := int64(n)
			st.own = &v
		}
		candidate := st.Role == RoleStarted || st.Role == RoleOrphan
		if ports || candidate && st.Origin == "foreground" {
			if p := reader.ports(pid, st.ID); p != nil {
				st.Ports = p
			}
		}
		switch st.Role {
		case RoleRoot:
			counts.Root++
		case RoleStarted:
			counts.Started++
		case RoleOrphan:
			counts.Orphan++
		case RoleSupport:
			counts.Support++
		}
		if st.left() {
			counts.Left++
		}
		all = append(all, st)
	}
	slices.SortFunc(all, func(a, b MemberStatus) int {
		return cmp.Or(cmp.Compare(a.SeenSince, b.SeenSince), cmp.Compare(a.PID, b.PID))
	})
	return all, counts
}

// left tells whether people would call a member left over.
func (m *MemberStatus) left() bool {
	return (m.Role == RoleStarted || m.Role == RoleOrphan) && (m.Origin == "background" || len(m.Ports) > 0)
}

// commandRoots are the pids of living roots. Of a wrapper it is what it started that
// counts.
func (s *Supervisor) commandRoots(list []member, roots []proc.ID) map[int32]bool {
	found := map[int32]bool{}
	wrapper := ""
	if len(s.o.Wrapper) > 0 {
		if path, err := findProgram(s.o.Wrapper[0], cmp.Or(pathOf(s.o.Environ), defaultPath), "/"); err == nil {
			wrapper, _ = filepath.EvalSymlinks(path) // "": no process runs it
		}
	}
	var look func(pid int32, depth int)
	look = func(pid int32, depth int) {
		if wrapper != "" && depth < len(list) {
			if exe, err := s.files.exe(pid); err == nil && exe == wrapper {
				for _, m := range list {
					if m.parent == pid {
						look(m.id.PID, depth+1)
					}
				}
				return
			}
		}
		found[pid] = true
	}
	for _, id := range roots {
		if slices.ContainsFunc(list, func(m member) bool { return m.id == id }) {
			look(id.PID, 0)
		}
	}
	return found
}

func commandText(argv []string) string {
	text := strings.ToValidUTF8(strings.Join(argv, " "), "\uFFFD")
	if len(text) > maxCommandText {
		text = strings.ToValidUTF8(text[:maxCommandText], "") + "…"
	}
	return text
}

// startedAt turns ticks since boot into epoch milliseconds.
func startedAt(ticks uint64) int64 {
	var boot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0 // every kernel since 2.6.39 has this clock
	}
	return time.Now().UnixMilli() - boot.Nano()/1e6 + int64(ticks)*(1000/ticksPerSecond)
}

// look returns how to find the members of a run, also of an adopted one.
func (s *Supervisor) look(id string) (look func(fresh bool) ([]member, error), r *live, err error) {
	r, err = s.find(id)
	if CodeOf(err) == CodeNotFound {
		look, _, err = s.lookAdopted(id)
		return look, nil, err
	}
	if err != nil {
		return nil, nil, err
	}
	return func(fresh bool) ([]member, error) {
		if r.over() {
			return nil, nil
		}
		list, _, err := s.membersOf(r, fresh)
		return list, err
	}, r, nil
}

func (s *Supervisor) adoptedStatus(id string, list []member, groups []*group) Status {
	all, counts := s.describe(id, list, nil, true, false)
	n, escaped := len(all), 0
	st := Status{
		ID: id, State: StateDraining, Argv: []string{}, Warnings: []string{}, Confidence: ConfidenceBestEffort, Adopted: true, Members: &n, Counts: &counts,
		Stdin: "closed", Ports: []Port{}, ConfidenceReason: "left by a procinsh that is gone; found by its marks", Limits: Limits{GraceMS: defaultGrace.Milliseconds()},
	}
	if len(groups) > 0 {
		st.Cgroup = &groups[0].path
		st.Confidence, st.ConfidenceReason = ConfidenceHigh, "left by a procinsh that is gone; found by its cgroup"
		if usec, ok := groups[0].cpuUsec(); ok {
			st.CPUUsec = &usec
		}
	}
	for i := range all {
		if all[i].Escaped {
			escaped++
		}
		if st.CreatedAt == 0 || all[i].StartedAt < st.CreatedAt {
			st.CreatedAt = all[i].StartedAt
		}
		st.Ports = append(st.Ports, all[i].Ports...)
	}
	st.Escaped, st.Ports = &escaped, sortPorts(st.Ports)
	return st
}

// Filter chooses runs.
type Filter struct {
	State State  `json:"state"`
	Scope string `json:"scope"`
	Text  string `json:"q"` // in id, command or working directory
	Limit int    `json:"limit"`
}

func (f *Filter) takes(st *Status) bool {
	if f.State != "" && st.State != f.State || f.Scope != "" && (st.Scope == nil || *st.Scope != f.Scope) {
		return false
	}
	if f.Text == "" {
		return true
	}
	text := st.ID + "\n" + strings.Join(st.Argv, " ") + "\n" + st.Cwd
	if st.Command != nil {
		text += "\n" + *st.Command
	}
	return strings.Contains(strings.ToLower(text), strings.ToLower(f.Text))
}

// List returns the runs, the newest first, and what dead servers left. Members are
// counted by the cgroup alone; roles, ports and memory are null here.
func (s *Supervisor) List(_ context.Context, f Filter) ([]Status, error) {
	s.retain()
	s.mu.Lock()
	var runs []*live
	known := map[string]bool{}
	for id, r := range s.runs {
		runs = append(runs, r)
		known[id] = true
	}
	s.mu.Unlock()
	list := []Status{}
	for _, r := range runs {
		if st := s.status(r, false); f.takes(&st) {
			list = append(list, st)
		}
	}
	found, err := s.adoptedIDs()
	if err != nil {
		return nil, err
	}
	for _, id := range found {
		if known[id] {
			continue
		}
		look, groups, err := s.lookAdopted(id)
		if err != nil {
			continue // it ended meanwhile
		}
		members, err := look(false)
		if err != nil || len(members) == 0 {
			continue
		}
		if st := s.adoptedStatus(id, members, groups); f.takes(&st) {
			list = append(list, st)
		}
	}
	slices.SortFunc(list, func(a, b Status) int { return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), compareText(a.ID, b.ID)) })
	limit := maxListed
	if f.Limit > 0 {
		limit = f.Limit
	}
	return list[:min(len(list), limit)], nil
}

// GetQuery names a run and what to wait for.
type GetQuery struct {
	ID     string `json:"id"`
	Until  string `json:"until"` // exited, root or output
	WaitMS int64  `json:"wait_ms"`
}

// Get returns a run, after it has waited for what is asked.
//
// Errors: run_not_found at once, never after a wait.
func (s *Supervisor) Get(ctx context.Context, q GetQuery) (Status, error) {
	r, err := s.find(q.ID)
	if CodeOf(err) == CodeNotFound {
		look, groups, err := s.lookAdopted(q.ID)
		if err != nil {
			return Status{}, err
		}
		members, err := look(false)
		if err != nil {
			return Status{}, err
		}
		return s.adoptedStatus(q.ID, members, groups), nil
	}
	if err != nil {
		return Status{}, err
	}
	if q.WaitMS > 0 {
		wait, cancel := context.WithTimeout(ctx, min(milliseconds(q.WaitMS), maxWait))
		defer cancel()
		switch q.Until {
		case "output":
			o, wake := r.ring.read(r.ring.extent().Next, 1, "")
			if !o.EOF {
				select {
				case <-wake:
				case <-wait.Done():
				}
			}
		case "root":
			r.until(wait, func() bool { return r.exit != nil }) // or the time is over
		default:
			r.until(wait, func() bool { return r.at == StateExited })
		}
		if ctx.Err() != nil {
			return Status{}, ctx.Err()
		}
	}
	return s.status(r, true), nil
}

// MembersQuery chooses members of a run.
type MembersQuery struct {
	ID   string `json:"id"`
	View string `json:"view"` // left, or all
	Role Role   `json:"role"` // "" every one
	UDP  bool   `json:"udp"`
	Port bool   `json:"ports"`
}

// Processes lists members.
func (s *Supervisor) Processes(_ context.Context, q MembersQuery) (Members, error) {
	look, r, err := s.look(q.ID)
	if err != nil {
		return Members{}, err
	}
	list, err := look(false)
	if err != nil {
		return Members{}, err
	}
	m := Members{ObservedAt: time.Now().UnixMilli(), Confidence: ConfidenceBestEffort, Processes: []MemberStatus{}}
	var roots []proc.ID
	if r != nil {
		r.mu.Lock()
		roots = slices.Clone(r.hold.roots)
		r.mu.Unlock()
	}
	if r != nil && r.cgroup() != nil {
		m.Confidence = ConfidenceHigh
	}
	all, counts := s.describe(q.ID, list, roots, q.Port, q.UDP)
	m.Counts = counts
	for _, p := range all {
		if (q.View != "left" || p.left()) && (q.Role == "" || p.Role == q.Role) {
			m.Processes = append(m.Processes, p)
		}
	}
	return m, nil
}
