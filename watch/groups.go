package watch

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"procinsh/proc"
)

const (
	// maxGroups is how many groups of one kind are told by name.
	maxGroups = 200
	// emptied is how long a group without processes is still told, so that what its
	// last ones used is not lost to who asks seldom.
	emptied = 5 * time.Minute
)

// GroupKind says by what processes are put together.
type GroupKind int

// The kinds of groups.
const (
	ByUnit      GroupKind = iota // systemd unit: the innermost service or scope of the cgroup
	ByContainer                  // short id of a container
	ByUser                       // name of the real user, else the number
	groupKinds
)

const (
	// OtherGroup is the name of what has no place of its own.
	OtherGroup = "other"
	// NoGroup is the name of what is in no unit or container.
	NoGroup = "none"
)

// Group is what the processes of a group take.
type Group struct {
	Name               string // valid UTF-8 without NUL
	CPUTicks           uint64 // see Groups
	RSS                uint64 // bytes; pages that processes share count in each
	Processes, Threads int
}

// Groups adds up processes by unit, container and user. Safe for concurrent use.
//
// Group.CPUTicks never goes backwards while a group is told: it is what the group's
// processes were seen to use. The first time that is all that they have used since they
// began, later what they used since the state before, whatever became of those that
// ended meanwhile. What a process uses after the last state that it is in is in no
// group, nor is a process that began and ended between two states.
//
// The groups with the most memory are told by name; one that is keeps its place until
// another is twice as large. A group that loses its place counts in OtherGroup from
// then on, and from zero when it gets one again.
type Groups struct {
	mu       sync.Mutex
	sequence uint64 // of the last state
	newest   uint64 // start of the newest process of any state
	last     []usedTicks
	kinds    [groupKinds]groupTable
}

// usedTicks is what a process had used in the last state; by PID.
type usedTicks struct {
	id    proc.ID
	ticks uint64
}

// groupTable are the groups of one kind that are told.
type groupTable struct {
	named map[string]*namedGroup
	other Group
}

type namedGroup struct {
	Group
	alive time.Time // of the last state with a process of it
}

// Count takes a state of the list and returns the groups of one kind, by name, with
// OtherGroup last. A state that is not newer than the last one only returns them.
func (g *Groups) Count(s *ListState, kind GroupKind) []Group {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.Sequence > g.sequence {
		g.take(s)
	}
	t := &g.kinds[kind]
	out := make([]Group, 0, len(t.named)+1)
	for _, n := range t.named {
		out = append(out, n.Group)
	}
	slices.SortFunc(out, func(a, b Group) int { return strings.Compare(a.Name, b.Name) })
	return append(out, t.other)
}

func (g *Groups) take(s *ListState) {
	used := make([]uint64, len(s.Rows)) // since the state before
	last := make([]usedTicks, len(s.Rows))
	newest, j := g.newest, 0
	for i := range s.Rows {
		r := &s.Rows[i]
		last[i] = usedTicks{r.ID, r.CPUTicks}
		newest = max(newest, r.ID.StartTicks)
		for j < len(g.last) && g.last[j].id.PID < r.ID.PID {
			j++
		}
		switch {
		case j < len(g.last) && g.last[j].id == r.ID:
			used[i] = gained(g.last[j].ticks, r.CPUTicks)
		case g.sequence == 0 || r.ID.StartTicks >= g.newest:
			used[i] = r.CPUTicks
		default: // it was there before and could not be read: what it used when is unknown
		}
	}
	g.sequence, g.newest, g.last = s.Sequence, newest, last
	for kind := range g.kinds {
		g.kinds[kind].take(s, GroupKind(kind), used)
	}
}

// take adds a state; used are the ticks of each row since the one before.
func (t *groupTable) take(s *ListState, kind GroupKind, used []uint64) {
	now := map[string]*Group{}
	for i := range s.Rows {
		r := &s.Rows[i]
		name := groupName(r, kind)
		x := now[name]
		if x == nil {
			x = &Group{Name: name}
			now[name] = x
		}
		x.add(&Group{CPUTicks: used[i], RSS: r.RSS, Processes: 1, Threads: int(r.Threads)})
	}
	t.place(now, s.CapturedAt)
	t.other = Group{Name: OtherGroup, CPUTicks: t.other.CPUTicks}
	for name, n := range t.named {
		n.RSS, n.Processes, n.Threads = 0, 0, 0
		if x := now[name]; x != nil {
			n.add(x)
			delete(now, name)
		}
	}
	for _, x := range now {
		t.other.add(x)
	}
}

func (g *Group) add(x *Group) {
	g.CPUTicks += x.CPUTicks
	g.RSS += x.RSS
	g.Processes += x.Processes
	g.Threads += x.Threads
}

// place decides who is told by name: the largest, then those that have emptied last.
func (t *groupTable) place(now map[string]*Group, at time.Time) {
	type candidate struct {
		name string
		size uint64
		age  time.Duration // -1: it has processes
	}
	var all []candidate
	for name, x := range now {
		if name == OtherGroup {
			continue // one that is really called so
		}
		size := x.RSS
		if t.named[name] != nil {
			size *= 2
		}
		all = append(all, candidate{name, size, -1})
	}
	for name, n := range t.named {
		if age := max(at.Sub(n.alive), 0); now[name] == nil && age < emptied {
			all = append(all, candidate{name, 0, age})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.age, b.age), cmp.Compare(b.size, a.size), strings.Compare(a.name, b.name))
	})
	all = all[:min(len(all), maxGroups)]
	named := make(map[string]*namedGroup, len(all))
	for _, c := range all {
		n := t.named[c.name]
		if n == nil {
			n = &namedGroup{Group: Group{Name: c.name}}
		}
		if c.age < 0 {
			n.alive = at
		}
		named[c.name] = n
	}
	t.named = named
}

// groupName names the group of a process, as valid UTF-8 without NUL: two names that
// would be written alike are one group.
func groupName(r *ListRow, kind GroupKind) string {
	name := ""
	switch d := r.Details; {
	case kind == ByUser && d != nil && d.Username != nil:
		name = *d.Username
	case kind == ByUser:
		name = strconv.FormatUint(uint64(r.UID), 10)
	case d != nil && d.Cgroup != nil:
		container, unit := proc.CgroupNames(*d.Cgroup)
		name = unit
		if kind == ByContainer {
			name = container
		}
	}
	if name == "" {
		return NoGroup
	}
	return strings.ReplaceAll(strings.ToValidUTF8(name, "\uFFFD"), "\x00", "\uFFFD")
}
