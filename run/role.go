package run

// Role is what a member is to its run.
type Role string

const (
	RoleRoot    Role = "root"    // what the run launched, or took in
	RoleStarted Role = "started" // below a shell: somebody's command
	RoleOrphan  Role = "orphan"  // its parent is gone
	RoleSupport Role = "support" // a part of the tool that the run is
)

// node is what decides a role.
type node struct {
	parent int32
	root   bool
	shell  bool
}

// roleOf walks from a member to its parents, itself included. members holds every
// living member by pid.
func roleOf(members map[int32]node, pid int32) Role {
	at, ok := members[pid]
	if ok && at.root {
		return RoleRoot
	}
	for range len(members) + 1 {
		if at.shell {
			return RoleStarted
		}
		if at.root {
			return RoleSupport
		}
		if at, ok = members[at.parent]; !ok {
			return RoleOrphan
		}
	}
	return RoleSupport // a circle of parents, which two moments of reading can show
}
