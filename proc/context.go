package proc

// Context is who and where a process is. A part that could not be read is nil or
// unknown and named in Warnings.
type Context struct {
	Parent          Opt[ID]
	Children        []ID
	ProcessGroup    int32
	Session         int32
	TTY             Opt[string]
	StartedAt       int64 // Unix epoch ms
	Cwd, Root       Opt[string]
	Executable      Opt[string]
	ExecutableState string // present deleted replaced memfd unreadable
	CommandLine     []string
	Cgroups         map[string]string // controller to path; "" is v2
	Container       Opt[string]
	Namespaces      map[string]Namespace
	NSPIDs          []int32
	UIDs, GIDs      Opt[[4]uint32] // real, effective, saved, filesystem
	Groups          []uint32
	Capabilities    Opt[Capabilities]
	Seccomp         Opt[string]
	NoNewPrivs      Opt[bool]
	SecurityLabel   Opt[string]
	OOMScore        Opt[int32]
	OOMScoreAdj     Opt[int32]
	Limits          []Limit
	Personality     Opt[uint64]
	Warnings        []string
}

// Namespace is one namespace of a process.
type Namespace struct {
	Inode uint64
	Own   Opt[bool] // the caller is in it too
}

// Capabilities are the five sets of a thread leader.
type Capabilities struct {
	Inheritable, Permitted, Effective, Bounding, Ambient uint64
}

// Limit is a line of /proc/PID/limits; unknown is unlimited.
type Limit struct {
	Name, Unit string
	Soft, Hard Opt[uint64]
}

// ReadContext reads all of it.
func (p *Process) ReadContext() (*Context, error) { panic("stub") }

// CapabilityNames lists a set as "CAP_SYS_PTRACE", by bit.
func CapabilityNames(set uint64) []string { panic("stub") }
