package api

// The wire contract. These types are its one source: tests/wiregen writes
// web/src/wire.gen.ts from them. A pointer is null when unknown; a slice is never
// null unless its tag says wire:"nullable"; a field is never left out unless its
// tag says omitzero.
//
// Address is "0x" and 16 lower-case hex digits, Offset "0x" and hex without
// padding, and 64-bit ids are decimal strings. Times are Unix epoch milliseconds,
// sizes bytes, rates per second, CPU percent of one core.

// Identity names one process for good.
type Identity struct {
	PID            int32  `json:"pid"`
	StartTimeTicks uint64 `json:"start_time_ticks"` // clock ticks since boot, field 22 of /proc/PID/stat
}

// ErrorAnswer is the body of every error.
type ErrorAnswer struct {
	Error string `json:"error"` // one sentence a person can act on
	Code  string `json:"code"`  // snake_case
}

// ProcessSummary is a row of the list.
type ProcessSummary struct {
	Identity             Identity    `json:"identity"`
	ParentID             *Identity   `json:"parent_id"`
	Name                 string      `json:"name"`
	Executable           *string     `json:"executable"`
	CommandLine          []string    `json:"command_line" wire:"nullable"`
	CommandLineTruncated bool        `json:"command_line_truncated"`
	KernelThread         bool        `json:"kernel_thread"`
	UID                  uint32      `json:"uid"`
	EUID                 uint32      `json:"euid"`
	Username             *string     `json:"username"`
	EffectiveUsername    *string     `json:"effective_username"`
	State                string      `json:"state"`
	CPUPercent           *float64    `json:"cpu_percent"`
	RSSBytes             uint64      `json:"rss_bytes"`
	ThreadCount          int32       `json:"thread_count"`
	StartedAt            int64       `json:"started_at"`
	Cgroup               *string     `json:"cgroup"`
	Container            *string     `json:"container"`
	VMSBytes             uint64      `json:"vms_bytes"`
	Nice                 int32       `json:"nice"`
	TTY                  *string     `json:"tty"`
	Processor            int32       `json:"processor"`
	ReadBytesRate        *float64    `json:"read_bytes_rate"`
	WriteBytesRate       *float64    `json:"write_bytes_rate"`
	RunID                *string     `json:"run_id"`
	MapSummary           *MapSummary `json:"map_summary"`
}

// ProcessesEvent is the whole list, the first event of a list stream.
type ProcessesEvent struct {
	Sequence   uint64           `json:"sequence"`
	CapturedAt int64            `json:"captured_at"`
	Processes  []ProcessSummary `json:"processes"`
}

// ProcessesDelta changes the list with sequence BaseSequence into Sequence.
type ProcessesDelta struct {
	Sequence     uint64           `json:"sequence"`
	BaseSequence uint64           `json:"base_sequence"`
	CapturedAt   int64            `json:"captured_at"`
	Changed      []ProcessSummary `json:"changed"` // by PID
	Removed      []Identity       `json:"removed"` // by PID
}

// Totals is the host as a whole.
type Totals struct {
	CapturedAt       int64          `json:"captured_at"`
	Cores            int            `json:"cores"`
	CoresBusy        *float64       `json:"cores_busy"`
	MemoryTotalBytes uint64         `json:"memory_total_bytes"`
	MemoryUsedBytes  uint64         `json:"memory_used_bytes"`
	SwapTotalBytes   uint64         `json:"swap_total_bytes"`
	SwapUsedBytes    uint64         `json:"swap_used_bytes"`
	ReadBytesRate    *float64       `json:"read_bytes_rate"`
	WriteBytesRate   *float64       `json:"write_bytes_rate"`
	Processes        int            `json:"processes"`
	Threads          int            `json:"threads"`
	States           map[string]int `json:"states"`
	Load             []float64      `json:"load"` // 1, 5 and 15 minutes
	Pressure         PressureTotals `json:"pressure"`
	UptimeMS         int64          `json:"uptime_ms"`
	Self             SelfTotals     `json:"self"`
}

// PressureTotals is /proc/pressure; a resource is null where the kernel has no PSI.
type PressureTotals struct {
	CPU    *Pressure `json:"cpu"`
	Memory *Pressure `json:"memory"`
	IO     *Pressure `json:"io"`
}

// Pressure is the avg10 of one resource, percent of time.
type Pressure struct {
	Some *float64 `json:"some"`
	Full *float64 `json:"full"`
}

// SelfTotals is what the inspector itself takes.
type SelfTotals struct {
	CPUPercent *float64 `json:"cpu_percent"`
	RSSBytes   uint64   `json:"rss_bytes"`
}

// Observation is one reading of a process with the rates since the reading before.
type Observation struct {
	Timestamp                   int64    `json:"timestamp"`
	ProcessID                   Identity `json:"process_id"`
	State                       string   `json:"state"`
	CPUPercent                  *float64 `json:"cpu_percent"`
	RSSBytes                    *uint64  `json:"rss_bytes"`
	VMSBytes                    *uint64  `json:"vms_bytes"`
	SwapBytes                   *uint64  `json:"swap_bytes"`
	MinorFaults                 uint64   `json:"minor_faults"`
	MajorFaults                 uint64   `json:"major_faults"`
	VoluntaryContextSwitches    *uint64  `json:"voluntary_context_switches"`
	NonvoluntaryContextSwitches *uint64  `json:"nonvoluntary_context_switches"`
	IO                          *IO      `json:"io"`
	Rates                       Rates    `json:"rates"`
	Threads                     []Thread `json:"threads"`
	ThreadsTruncated            bool     `json:"threads_truncated"` // there are more
	CPU                         int32    `json:"cpu"`               // last CPU
	Nice                        int32    `json:"nice"`
	Priority                    int32    `json:"priority"`
}

// IO is storage bytes, cumulative.
type IO struct {
	ReadBytes  uint64 `json:"read_bytes"`
	WriteBytes uint64 `json:"write_bytes"`
}

// Rates are per second; each is null without two samples or when a counter went back.
type Rates struct {
	MinorFaults                 *float64 `json:"minor_faults"`
	MajorFaults                 *float64 `json:"major_faults"`
	VoluntaryContextSwitches    *float64 `json:"voluntary_context_switches"`
	NonvoluntaryContextSwitches *float64 `json:"nonvoluntary_context_switches"`
	ReadBytes                   *float64 `json:"read_bytes"`
	WriteBytes                  *float64 `json:"write_bytes"`
}

// Thread is one thread, by TID in every list.
type Thread struct {
	TID                         int32    `json:"tid"`
	Name                        string   `json:"name"`
	State                       string   `json:"state"`
	CPU                         int32    `json:"cpu"`
	CPUPercent                  *float64 `json:"cpu_percent"`
	Priority                    int32    `json:"priority"`
	Nice                        int32    `json:"nice"`
	Scheduler                   string   `json:"scheduler"` // OTHER FIFO RR BATCH IDLE DEADLINE EXT UNKNOWN
	Affinity                    *string  `json:"affinity"`
	VoluntaryContextSwitches    *uint64  `json:"voluntary_context_switches"`
	NonvoluntaryContextSwitches *uint64  `json:"nonvoluntary_context_switches"`
	WaitChannel                 *string  `json:"wait_channel"`
	Syscall                     *string  `json:"syscall"`
}

// MapsAnswer is the body of GET /api/processes/maps.
type MapsAnswer struct {
	ProcessID  Identity  `json:"process_id"`
	Maps       []Mapping `json:"maps"`
	Rollup     *Rollup   `json:"rollup"`
	CapturedAt *int64    `json:"captured_at"`
	Error      *string   `json:"error"`
	Truncated  bool      `json:"truncated"`
}

// Mapping is one line of maps, with what smaps says of it.
type Mapping struct {
	Start       string  `json:"start"` // address
	End         string  `json:"end"`   // address, exclusive
	Permissions string  `json:"permissions"`
	Readable    bool    `json:"readable"`
	Writable    bool    `json:"writable"`
	Executable  bool    `json:"executable"`
	Private     bool    `json:"private"`
	FileOffset  string  `json:"file_offset"`
	Device      string  `json:"device"`
	Inode       string  `json:"inode"`
	Pathname    *string `json:"pathname"`
	Deleted     *bool   `json:"deleted"`
	RSSBytes    *uint64 `json:"rss_bytes"`
	PSSBytes    *uint64 `json:"pss_bytes"`
	SwapBytes   *uint64 `json:"swap_bytes"`
	DirtyBytes  *uint64 `json:"dirty_bytes"`
}

// Rollup is smaps_rollup.
type Rollup struct {
	RSSBytes     uint64 `json:"rss_bytes"`
	PSSBytes     uint64 `json:"pss_bytes"`
	PrivateBytes uint64 `json:"private_bytes"` // Private_Clean + Private_Dirty; hugetlb pages are in none of the four
	SwapBytes    uint64 `json:"swap_bytes"`
}

// MapSummary is the address space for a picture.
type MapSummary struct {
	Boxes  []MapBox          `json:"boxes"`  // address order, 64 at most
	Totals map[string]uint64 `json:"totals"` // kind to bytes
}

// MapBox is a run of mappings of one kind.
type MapBox struct {
	Kind  string `json:"kind"` // code readonly data heap anonymous stack shared vdso guard other
	Start string `json:"start"`
	End   string `json:"end"`
	Size  uint64 `json:"size"`  // mapped bytes in it
	Count int    `json:"count"` // mappings merged
}

// MemoryAnswer is the body of GET /api/processes/memory.
type MemoryAnswer struct {
	ProcessID       Identity `json:"process_id"`
	Address         string   `json:"address"`
	RequestedLength int      `json:"requested_length"`
	Bytes           string   `json:"bytes"` // hex
	Partial         bool     `json:"partial"`
	CapturedAt      int64    `json:"captured_at"`
}

// DescriptorsAnswer is the body of GET /api/processes/fds.
type DescriptorsAnswer struct {
	ProcessID  Identity     `json:"process_id"`
	CapturedAt int64        `json:"captured_at"`
	Entries    []Descriptor `json:"entries"` // by fd
	Warnings   []string     `json:"warnings"`
}

// Descriptor is one open file descriptor.
type Descriptor struct {
	FD           int32      `json:"fd"`
	Kind         string     `json:"kind"`
	Target       string     `json:"target"` // link text
	Inode        *string    `json:"inode"`
	Access       *string    `json:"access"` // read, write, read/write, none
	Flags        []string   `json:"flags" wire:"nullable"`
	Position     *uint64    `json:"position"`
	Deleted      bool       `json:"deleted"`
	Protocol     *string    `json:"protocol"`
	State        *string    `json:"state"`
	Local        *string    `json:"local"`
	Remote       *string    `json:"remote"`
	LocalKind    *string    `json:"local_kind"`           // inet path abstract unnamed
	TIDs         []int32    `json:"tids" wire:"nullable"` // set when threads hold tables of their own
	ReceiveQueue *uint64    `json:"receive_queue"`
	SendQueue    *uint64    `json:"send_queue"`
	PeerInode    *string    `json:"peer_inode"`
	Peers        []Endpoint `json:"peers"`
	Holders      []Endpoint `json:"holders"`
	Note         *string    `json:"note"`
}

// Endpoint is a descriptor of some process that belongs to the same object or its other side.
type Endpoint struct {
	ProcessID Identity `json:"process_id"`
	Name      string   `json:"name"`
	FD        int32    `json:"fd"`
	Access    *string  `json:"access"`
	Relation  string   `json:"relation"` // pipe_end same_object same_pipe_direction unix_peer address_candidate
}

// HoldersAnswer is the body of GET /api/processes/holders.
type HoldersAnswer struct {
	CapturedAt int64    `json:"captured_at"`
	Source     string   `json:"source"`  // where descriptors were read from: bpf text
	Holders    []Holder `json:"holders"` // by pid; descriptors by fd, then executable, cwd, root, mapping
	Warnings   []string `json:"warnings"`
}

// Holder is one way in which a process holds the port, file or socket.
type Holder struct {
	ProcessID        Identity `json:"process_id"`
	Name             string   `json:"name"`
	FD               *int32   `json:"fd"`       // null when it is no descriptor
	Access           *string  `json:"access"`   // as of an endpoint; of a mapping what its pages allow; null of executable, cwd and root
	Relation         string   `json:"relation"` // same_object executable cwd root mapping
	Path             *string  `json:"path"`     // of a file, as the process has it
	Deleted          *bool    `json:"deleted"`  // the file has lost its name; null of sockets
	Protocol         *string  `json:"protocol"` // null of files, as the rest
	State            *string  `json:"state"`    // LISTEN ESTABLISHED…
	Local            *string  `json:"local"`
	Remote           *string  `json:"remote"`
	NetworkNamespace *string  `json:"network_namespace"` // its inode
}

// EnvironmentAnswer is the body of GET /api/processes/environment: the environment at exec.
type EnvironmentAnswer struct {
	ProcessID  Identity           `json:"process_id"`
	CapturedAt int64              `json:"captured_at"`
	Entries    []EnvironmentEntry `json:"entries"`
	LossyUTF8  bool               `json:"lossy_utf8"`
	Truncated  bool               `json:"truncated"`
}

// EnvironmentEntry is one string, split at its first "="; Value is null when it has none.
type EnvironmentEntry struct {
	Name  string  `json:"name"`
	Value *string `json:"value"`
}

// AuxvAnswer is the body of GET /api/processes/auxv.
type AuxvAnswer struct {
	ProcessID  Identity    `json:"process_id"`
	CapturedAt int64       `json:"captured_at"`
	WordBits   *int        `json:"word_bits"` // 32 or 64; null for a kernel thread, which has no program
	Entries    []AuxvEntry `json:"entries"`
}

// AuxvEntry is one pair of the auxiliary vector.
type AuxvEntry struct {
	Tag         string  `json:"tag"`
	Name        string  `json:"name"`
	Value       string  `json:"value"` // hex16
	Decimal     string  `json:"decimal"`
	Kind        string  `json:"kind"` // number address bitmask unknown
	Description string  `json:"description"`
	Text        *string `json:"text"`
	TextError   *string `json:"text_error"`
}

// SignalsAnswer is the body of GET /api/processes/signals.
type SignalsAnswer struct {
	ProcessID  Identity      `json:"process_id"`
	CapturedAt int64         `json:"captured_at"`
	Leader     *SignalState  `json:"leader"`
	Threads    []SignalState `json:"threads"`
	Warnings   []string      `json:"warnings"`
}

// SignalState is the signal sets of one thread.
type SignalState struct {
	TID           int32      `json:"tid"`
	Name          string     `json:"name"`
	Pending       SignalMask `json:"pending"`
	SharedPending SignalMask `json:"shared_pending"`
	Blocked       SignalMask `json:"blocked"`
	Ignored       SignalMask `json:"ignored"`
	Caught        SignalMask `json:"caught"`
	Queued        string     `json:"queued"` // used/limit
}

// SignalMask is one set of signals.
type SignalMask struct {
	Hex     string   `json:"hex"`
	Signals []string `json:"signals"`
}

// ContextAnswer is the body of GET /api/processes/context.
type ContextAnswer struct {
	ProcessID       Identity             `json:"process_id"`
	CapturedAt      int64                `json:"captured_at"`
	ParentID        *Identity            `json:"parent_id"`
	Children        []Identity           `json:"children" wire:"nullable"`
	ProcessGroup    int32                `json:"process_group"`
	Session         int32                `json:"session"`
	TTY             *string              `json:"tty"`
	StartedAt       int64                `json:"started_at"`
	Cwd             *string              `json:"cwd"`
	Root            *string              `json:"root"`
	Executable      *string              `json:"executable"`
	ExecutableState string               `json:"executable_state"` // present deleted replaced memfd unreadable
	CommandLine     []string             `json:"command_line" wire:"nullable"`
	Cgroups         map[string]string    `json:"cgroups" wire:"nullable"` // controller to path; "unified" is v2
	Container       *string              `json:"container"`
	Namespaces      map[string]Namespace `json:"namespaces" wire:"nullable"`
	NSPIDs          []int32              `json:"ns_pids" wire:"nullable"`
	UIDs            *IDSet               `json:"uids"`
	GIDs            *IDSet               `json:"gids"`
	Groups          []uint32             `json:"groups" wire:"nullable"`
	Capabilities    *CapabilitySets      `json:"capabilities"`
	Seccomp         *string              `json:"seccomp"` // none strict filter
	NoNewPrivs      *bool                `json:"no_new_privs"`
	SecurityLabel   *string              `json:"security_label"`
	OOMScore        *int32               `json:"oom_score"`
	OOMScoreAdj     *int32               `json:"oom_score_adj"`
	Limits          []ResourceLimit      `json:"limits" wire:"nullable"`
	Personality     *string              `json:"personality"` // hex
	RunID           *string              `json:"run_id"`      // the run it belongs to
	Warnings        []string             `json:"warnings"`
}

// Namespace is one namespace of a process.
type Namespace struct {
	Inode string `json:"inode"`
	Own   *bool  `json:"own"` // the inspector is in it too
}

// IDSet is the four ids of a process.
type IDSet struct {
	Real       uint32 `json:"real"`
	Effective  uint32 `json:"effective"`
	Saved      uint32 `json:"saved"`
	Filesystem uint32 `json:"filesystem"`
}

// CapabilitySets are the five sets of a thread leader.
type CapabilitySets struct {
	Inheritable Capabilities `json:"inheritable"`
	Permitted   Capabilities `json:"permitted"`
	Effective   Capabilities `json:"effective"`
	Bounding    Capabilities `json:"bounding"`
	Ambient     Capabilities `json:"ambient"`
}

// Capabilities is one set.
type Capabilities struct {
	Hex   string   `json:"hex"`
	Names []string `json:"names"`
}

// ResourceLimit is a line of /proc/PID/limits; a null limit is unlimited.
type ResourceLimit struct {
	Name string  `json:"name"`
	Soft *string `json:"soft"` // decimal
	Hard *string `json:"hard"` // decimal
	Unit string  `json:"unit"`
}

// ObservationEvent is an event of GET /api/processes/events: a whole state.
type ObservationEvent struct {
	Summary        ProcessSummary `json:"summary"`       // as at connect
	History        []HistoryPoint `json:"history"`       // since connect, 60 s at most
	Maps           []Mapping      `json:"maps,omitzero"` // left out with ?maps=changed when unchanged
	Observation    *Observation   `json:"observation"`
	MapsCapturedAt *int64         `json:"maps_captured_at"`
	MapsError      *string        `json:"maps_error"`
	MapsTruncated  bool           `json:"maps_truncated"`
	Rollup         *Rollup        `json:"rollup"`
	Exited         bool           `json:"exited"`
	Error          *string        `json:"error"`
}

// HistoryPoint is one sample of the last 60 s.
type HistoryPoint struct {
	Timestamp  int64    `json:"timestamp"`
	CPUPercent *float64 `json:"cpu_percent"`
	RSSBytes   *uint64  `json:"rss_bytes"`
	VMSBytes   *uint64  `json:"vms_bytes"`
}

// Config says what this server can do here.
type Config struct {
	Version        string             `json:"version"`
	Revision       *string            `json:"revision"`
	IntervalMS     int64              `json:"interval_ms"`
	HistorySeconds int                `json:"history_seconds"`
	Sandbox        Sandbox            `json:"sandbox"`
	Sources        Sources            `json:"sources"`
	Capabilities   ServerCapabilities `json:"capabilities"`
}

// Sandbox is what the server has given up; each missing piece has a reason, and so
// have capabilities that stay in effect where they should not.
type Sandbox struct {
	Capabilities       []string     `json:"capabilities"` // effective ones
	CapabilitiesReason *string      `json:"capabilities_reason"`
	NoNewPrivs         SandboxPiece `json:"no_new_privs"`
	Seccomp            SandboxPiece `json:"seccomp"`
}

// SandboxPiece is one protection.
type SandboxPiece struct {
	Active bool    `json:"active"`
	Reason *string `json:"reason"`
}

// Sources says where each kind of answer is read from. The list's is that of its
// streams, the descriptors' that of the streams of the host, the threads' that of a
// watched process with 64 threads or more, the maps' that of the map summaries of the host:
// a single answer, and mappings themselves, are read from text.
type Sources struct {
	List        Source `json:"list"`
	Threads     Source `json:"threads"`
	Descriptors Source `json:"descriptors"`
	Maps        Source `json:"maps"`
}

// Source is bpf or text, with the reason for the latter.
type Source struct {
	Source string  `json:"source"`
	Reason *string `json:"reason"`
}

// ServerCapabilities says what works on this host.
type ServerCapabilities struct {
	Ptrace   Capability `json:"ptrace"`
	BPFCPU   Capability `json:"bpf_cpu"`
	BPFIPC   Capability `json:"bpf_ipc"`
	BPFFiles Capability `json:"bpf_files"`
	Runs     Capability `json:"runs"`
}

// Capability is one thing the server can or cannot do. A reason beside available
// says what it cannot do all the same.
type Capability struct {
	Available bool    `json:"available"`
	Reason    *string `json:"reason"`
}

// StacksAnswer is the body of GET /api/processes/stacks: where every thread is,
// found without stopping one.
type StacksAnswer struct {
	ProcessID  Identity      `json:"process_id"`
	CapturedAt int64         `json:"captured_at"`
	Threads    []StackThread `json:"threads"` // by TID
	Warnings   []string      `json:"warnings"`
}

// StackThread is one thread that was not stopped.
type StackThread struct {
	TID                int32       `json:"tid"`
	Name               string      `json:"name"`
	State              string      `json:"state"`
	Syscall            *SystemCall `json:"syscall"`
	WaitChannel        *string     `json:"wait_channel"`
	KernelStack        []string    `json:"kernel_stack" wire:"nullable"` // innermost first; null when not permitted
	CallStack          []Frame     `json:"call_stack" wire:"nullable"`   // innermost first; null when it runs
	Stable             bool        `json:"stable"`                       // it had not moved when looked at again
	UnwindStop         *string     `json:"unwind_stop"`
	FramesMayBeMissing bool        `json:"frames_may_be_missing"`
	Error              *string     `json:"error"`
}

// SystemCall is what a thread asked the kernel for.
type SystemCall struct {
	Number    int64    `json:"number"`
	Name      *string  `json:"name"`
	Arguments []string `json:"arguments"` // six, hex16
}

// Frame is one call of a stack.
type Frame struct {
	Address      string        `json:"address"`
	Symbol       *string       `json:"symbol"` // demangled, the physical function
	SymbolOffset *string       `json:"symbol_offset"`
	SourceFile   *string       `json:"source_file"`
	Line         *int          `json:"line"`
	Module       *string       `json:"module"`
	ModuleOffset *string       `json:"module_offset"`
	UnwoundBy    string        `json:"unwound_by"` // registers cfi frame_pointer signal_frame
	Guess        bool          `json:"guess"`      // the symbol is only the nearest one
	InlineFrames []InlineFrame `json:"inline_frames"`
}

// InlineFrame is a function that was inlined; the innermost stands first, the
// physical function last.
type InlineFrame struct {
	Function *string `json:"function"`
	File     *string `json:"file"`
	Line     *int    `json:"line"`
}

// SnapshotRequest is the body of POST /api/processes/snapshot.
type SnapshotRequest struct {
	PID            int32  `json:"pid"`
	StartTimeTicks uint64 `json:"start_time_ticks"`
}

// SnapshotAnswer is what POST /api/processes/snapshot found while all threads stood.
type SnapshotAnswer struct {
	CapturedAt int64            `json:"captured_at"` // when all threads stood
	ProcessID  Identity         `json:"process_id"`
	PausedMS   float64          `json:"paused_ms"` // first stop requested to last thread released
	Threads    []SnapshotThread `json:"threads"`   // by attach order
	Maps       []Mapping        `json:"maps"`
	Warnings   []string         `json:"warnings"`
	Cost       SnapshotCost     `json:"cost"`
	NotStopped []NotStopped     `json:"not_stopped"`
}

// SnapshotCost is what the snapshot asked of the target.
type SnapshotCost struct {
	StoppedThreads int    `json:"stopped_threads"`
	Passes         int    `json:"passes"`
	Priority       string `json:"priority"` // fifo nice normal
}

// NotStopped is a thread that could not be stopped in time.
type NotStopped struct {
	TID    int32  `json:"tid"`
	Reason string `json:"reason"`
}

// SnapshotThread is one thread as it stood.
type SnapshotThread struct {
	TID                int32        `json:"tid"`
	Name               string       `json:"name"`
	Registers          []Register   `json:"registers"`
	CallStack          []Frame      `json:"call_stack"`
	UnwindStop         *string      `json:"unwind_stop"`
	FramesMayBeMissing bool         `json:"frames_may_be_missing"`
	Syscall            *string      `json:"syscall"`        // name of the call it stands in
	SyscallNumber      *int64       `json:"syscall_number"` // null in no call; else RAX is no result
	Disassembly        *Disassembly `json:"disassembly"`    // null only without registers
	StackBytes         *StackBytes  `json:"stack_bytes"`
	Error              *string      `json:"error"`
}

// Register is one of the 18 registers.
type Register struct {
	Name    string  `json:"name"`
	Value   string  `json:"value"` // hex16
	Decimal string  `json:"decimal"`
	Kind    string  `json:"kind"` // integer stack heap shared_library executable file anonymous
	Mapping *string `json:"mapping"`
	Offset  *string `json:"offset"` // in that mapping
}

// Disassembly is the code from RIP on.
type Disassembly struct {
	Address      string        `json:"address"`
	Bytes        string        `json:"bytes"` // hex
	Instructions []Instruction `json:"instructions"`
	Error        *string       `json:"error"`
}

// Instruction is one machine instruction in Intel syntax.
type Instruction struct {
	Address string `json:"address"`
	Bytes   string `json:"bytes"` // hex
	Text    string `json:"text"`
	Current bool   `json:"current"`
}

// StackBytes is up to 512 bytes from RSP on, as they stood.
type StackBytes struct {
	Address string `json:"address"`
	Bytes   string `json:"bytes"` // hex
}

// Topology is the structure of the host, an event of GET /api/system/events.
type Topology struct {
	Sequence           uint64         `json:"sequence"` // 0: nothing was read yet
	CapturedAt         int64          `json:"captured_at"`
	Nodes              []TopologyNode `json:"nodes"` // by PID
	Edges              []TopologyEdge `json:"edges"` // by id
	Warnings           []string       `json:"warnings"`
	InspectedProcesses int            `json:"inspected_processes"`
	InspectedFDs       int            `json:"inspected_fds"`
}

// TopologyNode is a process. It has either maps or, with ?maps=summary, map_summary;
// in a delta it has neither.
type TopologyNode struct {
	Identity          Identity    `json:"identity"`
	ParentID          *Identity   `json:"parent_id"`
	Name              string      `json:"name"`
	UID               uint32      `json:"uid"`
	Username          *string     `json:"username"`
	EUID              uint32      `json:"euid"`
	EffectiveUsername *string     `json:"effective_username"`
	CPUPercent        *float64    `json:"cpu_percent"` // to two decimals
	RSSBytes          uint64      `json:"rss_bytes"`
	ThreadCount       int32       `json:"thread_count"`
	Container         *string     `json:"container"`
	RunID             *string     `json:"run_id"`
	State             *string     `json:"state"`                         // D waits uninterruptibly, Z zombie, T stopped, t traced; null for all others, which change at every look
	Maps              []Mapping   `json:"maps,omitzero" wire:"nullable"` // from maps alone, 4,096 at most
	MapSummary        *MapSummary `json:"map_summary,omitzero"`
	MapsEpoch         uint64      `json:"maps_epoch"` // another number when the maps changed; 0 when they were not read
	MapsError         *string     `json:"maps_error"`
}

// TopologyEdge is a connection. B is null without a local peer; Candidate tells that
// it is a possible peer only, Shared that both hold the same object; a sure peer is
// neither.
type TopologyEdge struct {
	ID        string          `json:"id"` // the same as long as the connection lives
	A         Port            `json:"a"`
	B         *Port           `json:"b"`
	Label     string          `json:"label"`
	Socket    *TopologySocket `json:"socket"` // of the end of A
	Candidate bool            `json:"candidate"`
	Shared    bool            `json:"shared"`
}

// Port is all descriptors of one process for one object.
type Port struct {
	ProcessID Identity `json:"process_id"`
	FD        int32    `json:"fd"` // the lowest
	FDCount   int32    `json:"fd_count"`
	Resource  string   `json:"resource"` // pipe:<st_dev>:<inode> or socket:<st_dev>:<inode>
	Kind      string   `json:"kind"`     // pipe fifo socket
	Access    *string  `json:"access"`   // read, write, read/write, none
}

// TopologySocket is what is known of a socket.
type TopologySocket struct {
	Protocol       *string `json:"protocol"`
	State          *string `json:"state"`
	Local          *string `json:"local"`
	Remote         *string `json:"remote"`
	NetworkPeer    bool    `json:"network_peer"`    // TCP or UDP that talks to an address and a port
	RemoteHostname *string `json:"remote_hostname"` // null on loopback and until it is found
}

// TopologyDelta changes the structure with sequence BaseSequence into Sequence.
type TopologyDelta struct {
	Sequence           uint64         `json:"sequence"`
	BaseSequence       uint64         `json:"base_sequence"`
	CapturedAt         int64          `json:"captured_at"`
	NodesChanged       []TopologyNode `json:"nodes_changed"` // by PID, without maps
	NodesRemoved       []Identity     `json:"nodes_removed"` // by PID
	MapsChanged        []TopologyMaps `json:"maps_changed"`  // by PID
	EdgesChanged       []TopologyEdge `json:"edges_changed"` // by id
	EdgesRemoved       []string       `json:"edges_removed"` // ids, in order
	Warnings           []string       `json:"warnings"`
	InspectedProcesses int            `json:"inspected_processes"`
	InspectedFDs       int            `json:"inspected_fds"`
}

// TopologyMaps is the address space of a node that is new or whose maps changed.
type TopologyMaps struct {
	Identity   Identity    `json:"identity"`
	Maps       []Mapping   `json:"maps,omitzero" wire:"nullable"`
	MapSummary *MapSummary `json:"map_summary,omitzero"`
	MapsEpoch  uint64      `json:"maps_epoch"`
	MapsError  *string     `json:"maps_error"`
}

// ProcessMetrics is an entry of event metrics, a list by PID.
type ProcessMetrics struct {
	Identity   Identity `json:"identity"`
	CPUPercent *float64 `json:"cpu_percent"` // to two decimals
	RSSBytes   uint64   `json:"rss_bytes"`
}

// Activity is what happened in one window.
type Activity struct {
	CapturedAt int64          `json:"captured_at"` // its end; later than that of the window before
	WindowMS   float64        `json:"window_ms"`   // its real width
	CPU        []CPUActivity  `json:"cpu"`         // by PID
	IPC        []IPCActivity  `json:"ipc"`         // by PID, resource and direction
	Files      []FileActivity `json:"files"`       // by PID, resource and direction
	Status     SystemStatus   `json:"status"`
}

// CPUActivity is the processor time of a process in a window.
type CPUActivity struct {
	ProcessID      Identity `json:"process_id"`
	RuntimeNS      uint64   `json:"runtime_ns"`
	Switches       uint64   `json:"switches"`
	RunningThreads int      `json:"running_threads"` // when the window ended
	CPUs           []int    `json:"cpus"`            // on which they ran then
}

// IPCActivity is what a process moved through a pipe or a socket in a window.
type IPCActivity struct {
	ProcessID Identity `json:"process_id"`
	Resource  string   `json:"resource"` // as in the topology
	Write     bool     `json:"write"`
	Bytes     uint64   `json:"bytes"`
	Count     uint64   `json:"count"`
}

// FileActivity is what a process read from or wrote to a file in a window.
type FileActivity struct {
	ProcessID Identity `json:"process_id"`
	Resource  string   `json:"resource"` // file:<major>:<minor>:<inode>:<generation>
	Path      *string  `json:"path"`
	Write     bool     `json:"write"`
	Bytes     uint64   `json:"bytes"`
	Count     uint64   `json:"count"`
}

// SystemStatus is what the sensors do; all are idle while nobody watches.
type SystemStatus struct {
	Active        bool         `json:"active"`
	CPU           SensorStatus `json:"cpu"`
	IPC           SensorStatus `json:"ipc"`
	Files         SensorStatus `json:"files"`
	Coverage      []string     `json:"coverage"`       // what CPU and IPC cannot see
	FilesCoverage []string     `json:"files_coverage"` // what files cannot see
	Lost          uint64       `json:"lost"`           // as the two below since the sensors were attached
	Unresolved    uint64       `json:"unresolved"`
	FilesLost     uint64       `json:"files_lost"`
}

// SensorStatus is the state of one sensor.
type SensorStatus struct {
	State  string  `json:"state"` // idle starting observing unavailable error
	Reason *string `json:"reason"`
}

// Gap tells a viewer that it was too slow for some activity, which is not sent again;
// a whole topology follows.
type Gap struct {
	DroppedFrames uint64 `json:"dropped_frames"`
}

// RunRequest is the body of POST /api/runs. Exactly one of argv and command is given.
type RunRequest struct {
	ID                string            `json:"id"`      // 1 to 64 of A-Z a-z 0-9 _ -; "" makes one
	Argv              []string          `json:"argv"`    // executed as it is
	Command           *string           `json:"command"` // for sh -c, byte for byte
	Cwd               string            `json:"cwd"`     // absolute, or @name/… below a root
	Env               map[string]string `json:"env"`
	Scope             string            `json:"scope"`
	Replace           bool              `json:"replace"`  // stops the scope's runs first
	PTY               *TerminalSize     `json:"pty"`      // 0, 0 for 120 × 30
	Fallback          bool              `json:"fallback"` // pipes when no terminal can be had
	Stdin             string            `json:"stdin"`    // closed or open
	Input             *string           `json:"input"`    // written, then closed
	TimeoutMS         *int64            `json:"timeout_ms"`
	NoOutputTimeoutMS *int64            `json:"no_output_timeout_ms"`
	Watchdog          string            `json:"watchdog"`  // fresh or resume
	GraceMS           *int64            `json:"grace_ms"`  // 3000
	Leftovers         string            `json:"leftovers"` // kill or keep
	MaxOutputBytes    int               `json:"max_output_bytes"`
	WaitMS            int64             `json:"wait_ms"`
	OnDisconnect      string            `json:"on_disconnect"` // stop, or "" to go on
	User              string            `json:"user"`          // only root may name one
}

// TerminalSize is that of a run's terminal.
type TerminalSize struct {
	Columns uint16 `json:"cols"`
	Rows    uint16 `json:"rows"`
}

// Run is a launched command with all that descends from it.
type Run struct {
	ID               string        `json:"id"`
	State            string        `json:"state"` // starting running stopping draining exited failed
	Argv             []string      `json:"argv"`
	Command          *string       `json:"command"`
	Cwd              string        `json:"cwd"`
	User             *string       `json:"user"`
	Scope            *string       `json:"scope"`
	PTY              *TerminalSize `json:"pty"`
	Warnings         []string      `json:"warnings"`
	CreatedAt        int64         `json:"created_at"`
	StartedAt        *int64        `json:"started_at"`
	RootExitedAt     *int64        `json:"root_exited_at"`
	EndedAt          *int64        `json:"ended_at"`
	Root             *string       `json:"root"` // pid-start
	Cgroup           *string       `json:"cgroup"`
	Confidence       string        `json:"confidence"` // high best_effort none
	ConfidenceReason string        `json:"confidence_reason"`
	Members          *int          `json:"members"`
	Zombies          *int          `json:"zombies"` // null in a list, as escaped, counts and memory_bytes
	Escaped          *int          `json:"escaped"`
	Counts           *RunCounts    `json:"counts"`
	Exit             *RunExit      `json:"exit"` // null while the root lives
	Output           RunExtent     `json:"output"`
	Limits           RunLimits     `json:"limits"`
	CPUUsec          *int64        `json:"cpu_usec"` // of all that ever ran in it
	MemoryBytes      *int64        `json:"memory_bytes"`
	Stdin            string        `json:"stdin"` // open or closed
	WaitingForInput  bool          `json:"waiting_for_input"`
	Adopted          bool          `json:"adopted"` // left by a server that is gone
	Ports            []RunPort     `json:"ports"`
	Text             *string       `json:"text"` // the output, when it was waited for
}

// RunCounts are the living members by role.
type RunCounts struct {
	Left    int `json:"left"`
	Started int `json:"started"`
	Orphan  int `json:"orphan"`
	Support int `json:"support"`
	Root    int `json:"root"`
}

// RunExit is how a run's root ended.
type RunExit struct {
	Code   *int    `json:"code"`
	Signal *string `json:"signal"`
	Reason string  `json:"reason"` // exit signal manual_cancel overall_timeout no_output_timeout spawn_error
}

// RunExtent is how much a run wrote and what of it is kept.
type RunExtent struct {
	Bytes   int64 `json:"bytes"`
	Dropped int64 `json:"dropped"`
	First   int64 `json:"first"`
	Next    int64 `json:"next"`
}

// RunLimits are those of one run; null is none.
type RunLimits struct {
	TimeoutMS         *int64 `json:"timeout_ms"`
	NoOutputTimeoutMS *int64 `json:"no_output_timeout_ms"`
	GraceMS           int64  `json:"grace_ms"`
}

// RunPort is where a member listens.
type RunPort struct {
	Protocol string `json:"protocol"` // tcp or udp
	Address  string `json:"address"`  // * for all
	Port     uint16 `json:"port"`
	Process  string `json:"process"` // pid-start
}

// RunProcess is a member of a run.
type RunProcess struct {
	ID        string    `json:"id"` // pid-start
	PID       int32     `json:"pid"`
	Parent    *string   `json:"parent"` // pid-start, when that is a member
	Label     string    `json:"label"`
	Command   string    `json:"command"`
	Exe       *string   `json:"exe"`
	StartedAt int64     `json:"started_at"`
	Role      string    `json:"role"`   // root started orphan support
	Origin    string    `json:"origin"` // foreground or background
	Ports     []RunPort `json:"ports"`
	SeenSince int64     `json:"seen_since"`
	RSSBytes  uint64    `json:"rss_bytes"`
	CPUUsec   uint64    `json:"cpu_usec"`
	Escaped   bool      `json:"escaped"` // outside of the run's cgroup
	Run       string    `json:"run"`
}

// RunProcesses is GET /api/runs/{id}/processes.
type RunProcesses struct {
	ObservedAt int64        `json:"observed_at"`
	Confidence string       `json:"confidence"`
	Counts     RunCounts    `json:"counts"`
	Processes  []RunProcess `json:"processes"`
}

// RunOutput is GET /api/runs/{id}/output.
type RunOutput struct {
	From    int64      `json:"from"`
	Next    int64      `json:"next"`    // where to read on
	Dropped int64      `json:"dropped"` // bytes asked for that had fallen out
	EOF     bool       `json:"eof"`
	Chunks  []RunChunk `json:"chunks"`
}

// RunChunk is a piece of output of one stream.
type RunChunk struct {
	Stream string `json:"stream"` // stdout stderr terminal
	From   int64  `json:"from"`   // offset of its first byte
	Text   string `json:"text"`
}

// RunLog is GET /api/runs/{id}/log.
type RunLog struct {
	Lines      []string `json:"lines"`
	Offset     int      `json:"offset"` // number of the first line
	TotalLines int      `json:"total_lines"`
	Dropped    int64    `json:"dropped"` // bytes that fell out before
}

// RunInput is the body of POST /api/runs/{id}/input: one of text, base64, keys with hex
// and literal, paste and submit; eof goes with each or alone.
type RunInput struct {
	Text      *string  `json:"text"`
	Base64    *string  `json:"base64"`
	Keys      []string `json:"keys"`
	Hex       []string `json:"hex"`
	Literal   string   `json:"literal"`
	Paste     *string  `json:"paste"`
	Bracketed *bool    `json:"bracketed"`
	Submit    bool     `json:"submit"`
	EOF       bool     `json:"eof"`
}

// RunWritten is what became of an input.
type RunWritten struct {
	Written  int      `json:"written"`
	Warnings []string `json:"warnings"`
}

// RunStopRequest is the body of the requests that stop; it may be left out.
type RunStopRequest struct {
	GraceMS *int64 `json:"grace_ms"`
	Signal  string `json:"signal"`  // the first one, "" for SIGTERM
	WaitMS  *int64 `json:"wait_ms"` // for the end, 0 to 120,000; null: until it is there
}

// RunStopped is how a stop ended.
type RunStopped struct {
	ID        string   `json:"id"`
	Stopped   int      `json:"stopped"`
	Survivors []string `json:"survivors"`
	TookMS    int64    `json:"took_ms"`
	Pending   bool     `json:"pending"` // it goes on behind this 202, which tells how far it is
}

// RunStopIncomplete is the 504 of a stop that something survived.
type RunStopIncomplete struct {
	Error     string   `json:"error"`
	Code      string   `json:"code"`
	Stopped   int      `json:"stopped"`
	Survivors []string `json:"survivors"` // pid-start
	TookMS    int64    `json:"took_ms"`
}

// RunTaken is a process that was taken into a run.
type RunTaken struct {
	Process  RunProcess `json:"process"`
	Warnings []string   `json:"warnings"`
}

// Scope is GET /api/scopes/{scope}.
type Scope struct {
	Scope       string       `json:"scope"`
	Runs        []string     `json:"runs"` // ids, the oldest first
	Members     RunProcesses `json:"members"`
	CPUUsec     *int64       `json:"cpu_usec"`
	MemoryBytes *int64       `json:"memory_bytes"`
}

// ScopeStopped is how the runs of a scope ended.
type ScopeStopped struct {
	Runs []RunStopped `json:"runs"`
}

// RunsRemoved is how many records of ended runs were deleted.
type RunsRemoved struct {
	Removed int `json:"removed"`
}

// RunCapabilities is GET /api/runs/capabilities.
type RunCapabilities struct {
	CgroupRoot *string   `json:"cgroup_root"`
	Birth      string    `json:"birth"`  // cgroup join none
	Reason     string    `json:"reason"` // why not better
	Confidence string    `json:"confidence"`
	Roots      []RunRoot `json:"roots" wire:"nullable"`
	MaxRuns    int       `json:"max_runs"`
	Live       int       `json:"live"`
	HelperPID  int       `json:"helper_pid"`
	KeeperPID  *int      `json:"keeper_pid"` // of what starts another helper; null when it has ended
}

// RunRoot is a folder that runs may work in.
type RunRoot struct {
	Name string `json:"name"`
	Dir  string `json:"dir"`
	Env  string `json:"env"`
}

// RunEvent is the data of each event of GET /api/runs/events.
type RunEvent struct {
	Sequence uint64      `json:"sequence"` // also the id of the event
	Type     string      `json:"type"`     // run.started run.exited run.timeout process.added process.exited output helper
	At       int64       `json:"at"`
	Run      string      `json:"run"`
	Scope    string      `json:"scope"`
	Reason   string      `json:"reason"`
	Exit     *RunExit    `json:"exit"`
	Process  *RunProcess `json:"process"`
	Counts   *RunCounts  `json:"counts"`
	Next     int64       `json:"next"` // of the output
}

// RunGap says how many events a client that came back has missed for good.
type RunGap struct {
	Lost uint64 `json:"lost"`
}
