package watch

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"procinsh/proc"
)

// member is a process of a made-up host.
type member struct {
	pid    int32
	start  uint64
	ticks  uint64
	rss    uint64
	cgroup string
	user   string
	uid    uint32
}

// hostAt is a state with these processes, by PID.
func hostAt(sequence uint64, at time.Time, members ...member) *ListState {
	s := &ListState{Sequence: sequence, CapturedAt: at}
	for _, m := range members {
		d := &proc.Details{}
		if m.cgroup != "" {
			d.Cgroup = &m.cgroup
		}
		if m.user != "" {
			d.Username = &m.user
		}
		s.Rows = append(s.Rows, ListRow{Row: proc.Row{ID: proc.ID{PID: m.pid, StartTicks: m.start}, UID: m.uid,
			CPUTicks: m.ticks, RSS: m.rss, Threads: 2, Details: d}})
	}
	return s
}

func groupsText(groups []Group) string {
	var b strings.Builder
	for _, g := range groups {
		fmt.Fprintf(&b, "%s:%d/%d/%d/%d ", g.Name, g.CPUTicks, g.RSS, g.Processes, g.Threads)
	}
	return strings.TrimSpace(b.String())
}

func TestGroupNames(t *testing.T) {
	const id = "3f4e9ab1c2d35f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8"
	for _, c := range []struct {
		m                     member
		unit, container, user string
	}{
		{member{cgroup: "/system.slice/a.service/x", user: "root"}, "a.service", "none", "root"},
		{member{cgroup: "/docker/" + id, uid: 1000}, "none", id[:12], "1000"},
		{member{cgroup: "/system.slice/docker-" + id + ".scope", uid: 1}, "docker-" + id + ".scope", id[:12], "1"},
		{member{}, "none", "none", "0"},
		{member{cgroup: "/x\xff\xfe.service", user: "\xc3(\x00"}, "x\uFFFD.service", "none", "\uFFFD(\uFFFD"},
		{member{cgroup: "/a\"b\n.scope", user: "other"}, "a\"b\n.scope", "none", "other"},
	} {
		r := &hostAt(1, time.Time{}, c.m).Rows[0]
		if u, n, o := groupName(r, ByUnit), groupName(r, ByContainer), groupName(r, ByUser); u != c.unit || n != c.container || o != c.user {
			t.Errorf("%+v: got %q, %q, %q", c.m, u, n, o)
		}
	}
}

// What ended counts on, what moved counts from then on where it is, and what was there
// before without being seen counts from when it is seen.
func TestGroupsCount(t *testing.T) {
	var g Groups
	at := time.Unix(1000, 0)
	step := func(sequence uint64, want string, members ...member) {
		t.Helper()
		at = at.Add(time.Second)
		if got := groupsText(g.Count(hostAt(sequence, at, members...), ByUser)); got != want {
			t.Errorf("state %d: got %s\nwant %s", sequence, got, want)
		}
	}
	a, b := member{pid: 1, start: 10, ticks: 100, rss: 7, user: "a"}, member{pid: 2, start: 20, ticks: 50, rss: 8, user: "b"}
	step(3, "a:100/7/1/2 b:50/8/1/2 other:0/0/0/0", a, b)
	a.ticks, b.ticks = 130, 51
	c := member{pid: 3, start: 21, ticks: 5, user: "b"} // began meanwhile
	step(4, "a:130/7/1/2 b:56/8/2/4 other:0/0/0/0", a, b, c)
	step(4, "a:130/7/1/2 b:56/8/2/4 other:0/0/0/0", a) // the same again
	step(2, "a:130/7/1/2 b:56/8/2/4 other:0/0/0/0", a) // an older one
	c.ticks = 15
	step(5, "a:130/7/1/2 b:66/0/1/2 other:0/0/0/0", a, c) // b's first has ended
	a.user, a.ticks = "b", 140
	hidden := member{pid: 4, start: 15, ticks: 1000, user: "a"}
	step(6, "a:130/0/1/2 b:76/7/2/4 other:0/0/0/0", a, c, hidden)
	hidden.ticks, c.ticks = 1007, 14 // a counter that went backwards
	step(7, "a:137/0/1/2 b:76/7/2/4 other:0/0/0/0", a, c, hidden)
	again := member{pid: 4, start: 99, ticks: 3, user: "a"} // the number of another
	step(8, "a:140/0/1/2 b:76/7/2/4 other:0/0/0/0", a, c, again)
}

// A group without processes is told for a while, and begins anew after that.
func TestGroupsForgetTheEmpty(t *testing.T) {
	var g Groups
	at := time.Unix(1000, 0)
	m := member{pid: 5, start: 9, ticks: 40, user: "u"}
	count := func(sequence uint64, after time.Duration, members ...member) string {
		return groupsText(g.Count(hostAt(sequence, at.Add(after), members...), ByUser))
	}
	for _, c := range []struct {
		got, want string
	}{
		{count(1, 0, m), "u:40/0/1/2 other:0/0/0/0"},
		{count(2, emptied-1), "u:40/0/0/0 other:0/0/0/0"},
		{count(3, emptied), "other:0/0/0/0"},
		{count(4, emptied+1, member{pid: 6, start: 10, ticks: 2, user: "u"}), "u:2/0/1/2 other:0/0/0/0"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}

// The largest have names; one keeps its place until another is twice as large.
func TestGroupsLargest(t *testing.T) {
	var g Groups
	at := time.Unix(1000, 0)
	members := make([]member, maxGroups+1)
	for i := range members {
		members[i] = member{pid: int32(i + 1), start: 1, ticks: 10, rss: uint64(1000 + i), user: fmt.Sprintf("u%03d", i)}
	}
	find := func(groups []Group, name string) *Group {
		for i := range groups {
			if groups[i].Name == name {
				return &groups[i]
			}
		}
		return nil
	}
	groups := g.Count(hostAt(1, at, members...), ByUser)
	if n := len(groups); n != maxGroups+1 || find(groups, "u000") != nil || groups[n-1] != (Group{"other", 10, 1000, 1, 2}) {
		t.Fatalf("%d groups, the last %+v", n, groups[n-1])
	}
	members[0].rss, members[0].ticks = 2001, 13 // nearly twice as large as u001
	groups = g.Count(hostAt(2, at, members...), ByUser)
	if find(groups, "u000") != nil || find(groups, "u001") == nil || find(groups, "other").CPUTicks != 13 {
		t.Errorf("a place was lost to a group that is not twice as large: %s", groupsText(groups))
	}
	members[0].rss, members[0].ticks, members[1].ticks = 2003, 14, 12
	groups = g.Count(hostAt(3, at, members...), ByUser)
	if u := find(groups, "u000"); u == nil || *u != (Group{"u000", 1, 2003, 1, 2}) || find(groups, "u001") != nil || *find(groups, "other") != (Group{"other", 15, 1001, 1, 2}) {
		t.Errorf("after one grew: %s", groupsText(groups))
	}
}

// Whatever processes do, no counter that is told twice goes backwards, every process
// is in one group, and nothing is told twice.
func TestGroupsNeverGoBackwards(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var g Groups
	at := time.Unix(1000, 0)
	live := map[int32]*member{}
	var before [groupKinds]map[string]uint64
	for sequence := uint64(1); sequence < 400; sequence++ {
		at = at.Add(time.Duration(random.IntN(60)) * time.Second)
		for range random.IntN(60) {
			pid := int32(1 + random.IntN(900))
			switch m := live[pid]; {
			case m == nil:
				n := random.IntN(700)
				live[pid] = &member{pid: pid, start: sequence, ticks: uint64(random.IntN(9)), rss: uint64(random.IntN(1 << 20)),
					cgroup: fmt.Sprintf("/s/%d.service", n), uid: uint32(n % 3), user: []string{"", "other", "x\xff", "x\xfe"}[n%4]}
			case random.IntN(3) == 0:
				delete(live, pid)
			default:
				m.ticks += uint64(random.IntN(1000))
				m.rss = uint64(random.IntN(1 << 20))
			}
		}
		var members []member
		for pid := int32(1); pid <= 900; pid++ {
			if m := live[pid]; m != nil && random.IntN(50) > 0 { // some cannot be read this time
				members = append(members, *m)
			}
		}
		state := hostAt(sequence, at, members...)
		for kind := ByUnit; kind < groupKinds; kind++ {
			now := map[string]uint64{}
			processes := 0
			for _, x := range g.Count(state, kind) {
				if _, twice := now[x.Name]; twice {
					t.Fatalf("state %d: group %q is told twice", sequence, x.Name)
				}
				if was, told := before[kind][x.Name]; told && x.CPUTicks < was {
					t.Fatalf("state %d: group %q went from %d to %d", sequence, x.Name, was, x.CPUTicks)
				}
				now[x.Name] = x.CPUTicks
				processes += x.Processes
			}
			if processes != len(members) || len(now) > maxGroups+1 {
				t.Fatalf("state %d: %d processes in %d groups, want %d in at most %d", sequence, processes, len(now), len(members), maxGroups+1)
			}
			before[kind] = now
		}
	}
}
