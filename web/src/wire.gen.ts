// Generated from api/wire.go by tests/wiregen. Do not edit: change the Go types
// and run go run ./tests/wiregen.
//
// Address is "0x" and 16 lower-case hex digits, Offset "0x" and hex without
// padding, 64-bit ids are decimal strings. Times are Unix epoch milliseconds, sizes
// bytes, rates per second, CPU percent of one core.

// Identity names one process for good.
export interface Identity {
	pid: number;
	start_time_ticks: number; // clock ticks since boot, field 22 of /proc/PID/stat
}

// ErrorAnswer is the body of every error.
export interface ErrorAnswer {
	error: string; // one sentence a person can act on
	code: string; // snake_case
}

// ProcessSummary is a row of the list.
export interface ProcessSummary {
	identity: Identity;
	parent_id: Identity | null;
	name: string;
	executable: string | null;
	command_line: string[] | null;
	command_line_truncated: boolean;
	kernel_thread: boolean;
	uid: number;
	euid: number;
	username: string | null;
	effective_username: string | null;
	state: string;
	cpu_percent: number | null;
	rss_bytes: number;
	thread_count: number;
	started_at: number;
	cgroup: string | null;
	container: string | null;
	vms_bytes: number;
	nice: number;
	tty: string | null;
	processor: number;
	read_bytes_rate: number | null;
	write_bytes_rate: number | null;
	run_id: string | null;
	map_summary: MapSummary | null;
}

// ProcessesEvent is the whole list, the first event of a list stream.
export interface ProcessesEvent {
	sequence: number;
	captured_at: number;
	processes: ProcessSummary[];
}

// ProcessesDelta changes the list with sequence BaseSequence into Sequence.
export interface ProcessesDelta {
	sequence: number;
	base_sequence: number;
	captured_at: number;
	changed: ProcessSummary[]; // by PID
	removed: Identity[]; // by PID
}

// Totals is the host as a whole.
export interface Totals {
	captured_at: number;
	cores: number;
	cores_busy: number | null;
	memory_total_bytes: number;
	memory_used_bytes: number;
	swap_total_bytes: number;
	swap_used_bytes: number;
	read_bytes_rate: number | null;
	write_bytes_rate: number | null;
	processes: number;
	threads: number;
	states: Record<string, number>;
	load: number[]; // 1, 5 and 15 minutes
	pressure: PressureTotals;
	uptime_ms: number;
	self: SelfTotals;
}

// PressureTotals is /proc/pressure; a resource is null where the kernel has no PSI.
export interface PressureTotals {
	cpu: Pressure | null;
	memory: Pressure | null;
	io: Pressure | null;
}

// Pressure is the avg10 of one resource, percent of time.
export interface Pressure {
	some: number | null;
	full: number | null;
}

// SelfTotals is what the inspector itself takes.
export interface SelfTotals {
	cpu_percent: number | null;
	rss_bytes: number;
}

// Observation is one reading of a process with the rates since the reading before.
export interface Observation {
	timestamp: number;
	process_id: Identity;
	state: string;
	cpu_percent: number | null;
	rss_bytes: number | null;
	vms_bytes: number | null;
	swap_bytes: number | null;
	minor_faults: number;
	major_faults: number;
	voluntary_context_switches: number | null;
	nonvoluntary_context_switches: number | null;
	io: IO | null;
	rates: Rates;
	threads: Thread[];
	threads_truncated: boolean; // there are more
	cpu: number; // last CPU
	nice: number;
	priority: number;
}

// IO is storage bytes, cumulative.
export interface IO {
	read_bytes: number;
	write_bytes: number;
}

// Rates are per second; each is null without two samples or when a counter went back.
export interface Rates {
	minor_faults: number | null;
	major_faults: number | null;
	voluntary_context_switches: number | null;
	nonvoluntary_context_switches: number | null;
	read_bytes: number | null;
	write_bytes: number | null;
}

// Thread is one thread, by TID in every list.
export interface Thread {
	tid: number;
	name: string;
	state: string;
	cpu: number;
	cpu_percent: number | null;
	priority: number;
	nice: number;
	scheduler: string; // OTHER FIFO RR BATCH IDLE DEADLINE EXT UNKNOWN
	affinity: string | null;
	voluntary_context_switches: number | null;
	nonvoluntary_context_switches: number | null;
	wait_channel: string | null;
	syscall: string | null;
}

// MapsAnswer is the body of GET /api/processes/maps.
export interface MapsAnswer {
	process_id: Identity;
	maps: Mapping[];
	rollup: Rollup | null;
	captured_at: number | null;
	error: string | null;
	truncated: boolean;
}

// Mapping is one line of maps, with what smaps says of it.
export interface Mapping {
	start: string; // address
	end: string; // address, exclusive
	permissions: string;
	readable: boolean;
	writable: boolean;
	executable: boolean;
	private: boolean;
	file_offset: string;
	device: string;
	inode: string;
	pathname: string | null;
	deleted: boolean | null;
	rss_bytes: number | null;
	pss_bytes: number | null;
	swap_bytes: number | null;
	dirty_bytes: number | null;
}

// Rollup is smaps_rollup.
export interface Rollup {
	rss_bytes: number;
	pss_bytes: number;
	private_bytes: number; // Private_Clean + Private_Dirty; hugetlb pages are in none of the four
	swap_bytes: number;
}

// MapSummary is the address space for a picture.
export interface MapSummary {
	boxes: MapBox[]; // address order, 64 at most
	totals: Record<string, number>; // kind to bytes
}

// MapBox is a run of mappings of one kind.
export interface MapBox {
	kind: string; // code readonly data heap anonymous stack shared vdso guard other
	start: string;
	end: string;
	size: number; // mapped bytes in it
	count: number; // mappings merged
}

// MemoryAnswer is the body of GET /api/processes/memory.
export interface MemoryAnswer {
	process_id: Identity;
	address: string;
	requested_length: number;
	bytes: string; // hex
	partial: boolean;
	captured_at: number;
}

// DescriptorsAnswer is the body of GET /api/processes/fds.
export interface DescriptorsAnswer {
	process_id: Identity;
	captured_at: number;
	entries: Descriptor[]; // by fd
	warnings: string[];
}

// Descriptor is one open file descriptor.
export interface Descriptor {
	fd: number;
	kind: string;
	target: string; // link text
	inode: string | null;
	access: string | null; // read, write, read/write, none
	flags: string[] | null;
	position: number | null;
	deleted: boolean;
	protocol: string | null;
	state: string | null;
	local: string | null;
	remote: string | null;
	local_kind: string | null; // inet path abstract unnamed
	tids: number[] | null; // set when threads hold tables of their own
	receive_queue: number | null;
	send_queue: number | null;
	peer_inode: string | null;
	peers: Endpoint[];
	holders: Endpoint[];
	note: string | null;
}

// Endpoint is a descriptor of some process that belongs to the same object or its other side.
export interface Endpoint {
	process_id: Identity;
	name: string;
	fd: number;
	access: string | null;
	relation: string; // pipe_end same_object same_pipe_direction unix_peer address_candidate
}

// HoldersAnswer is the body of GET /api/processes/holders.
export interface HoldersAnswer {
	captured_at: number;
	source: string; // where descriptors were read from: bpf text
	holders: Holder[]; // by pid; descriptors by fd, then executable, cwd, root, mapping
	warnings: string[];
}

// Holder is one way in which a process holds the port, file or socket.
export interface Holder {
	process_id: Identity;
	name: string;
	fd: number | null; // null when it is no descriptor
	access: string | null; // as of an endpoint; of a mapping what its pages allow; null of executable, cwd and root
	relation: string; // same_object executable cwd root mapping
	path: string | null; // of a file, as the process has it
	deleted: boolean | null; // the file has lost its name; null of sockets
	protocol: string | null; // null of files, as the rest
	state: string | null; // LISTEN ESTABLISHED…
	local: string | null;
	remote: string | null;
	network_namespace: string | null; // its inode
}

// EnvironmentAnswer is the body of GET /api/processes/environment: the environment at exec.
export interface EnvironmentAnswer {
	process_id: Identity;
	captured_at: number;
	entries: EnvironmentEntry[];
	lossy_utf8: boolean;
	truncated: boolean;
}

// EnvironmentEntry is one string, split at its first "="; Value is null when it has none.
export interface EnvironmentEntry {
	name: string;
	value: string | null;
}

// AuxvAnswer is the body of GET /api/processes/auxv.
export interface AuxvAnswer {
	process_id: Identity;
	captured_at: number;
	word_bits: number | null; // 32 or 64; null for a kernel thread, which has no program
	entries: AuxvEntry[];
}

// AuxvEntry is one pair of the auxiliary vector.
export interface AuxvEntry {
	tag: string;
	name: string;
	value: string; // hex16
	decimal: string;
	kind: string; // number address bitmask unknown
	description: string;
	text: string | null;
	text_error: string | null;
}

// SignalsAnswer is the body of GET /api/processes/signals.
export interface SignalsAnswer {
	process_id: Identity;
	captured_at: number;
	leader: SignalState | null;
	threads: SignalState[];
	warnings: string[];
}

// SignalState is the signal sets of one thread.
export interface SignalState {
	tid: number;
	name: string;
	pending: SignalMask;
	shared_pending: SignalMask;
	blocked: SignalMask;
	ignored: SignalMask;
	caught: SignalMask;
	queued: string; // used/limit
}

// SignalMask is one set of signals.
export interface SignalMask {
	hex: string;
	signals: string[];
}

// ContextAnswer is the body of GET /api/processes/context.
export interface ContextAnswer {
	process_id: Identity;
	captured_at: number;
	parent_id: Identity | null;
	children: Identity[] | null;
	process_group: number;
	session: number;
	tty: string | null;
	started_at: number;
	cwd: string | null;
	root: string | null;
	executable: string | null;
	executable_state: string; // present deleted replaced memfd unreadable
	command_line: string[] | null;
	cgroups: Record<string, string> | null; // controller to path; "unified" is v2
	container: string | null;
	namespaces: Record<string, Namespace> | null;
	ns_pids: number[] | null;
	uids: IDSet | null;
	gids: IDSet | null;
	groups: number[] | null;
	capabilities: CapabilitySets | null;
	seccomp: string | null; // none strict filter
	no_new_privs: boolean | null;
	security_label: string | null;
	oom_score: number | null;
	oom_score_adj: number | null;
	limits: ResourceLimit[] | null;
	personality: string | null; // hex
	run_id: string | null; // the run it belongs to
	warnings: string[];
}

// Namespace is one namespace of a process.
export interface Namespace {
	inode: string;
	own: boolean | null; // the inspector is in it too
}

// IDSet is the four ids of a process.
export interface IDSet {
	real: number;
	effective: number;
	saved: number;
	filesystem: number;
}

// CapabilitySets are the five sets of a thread leader.
export interface CapabilitySets {
	inheritable: Capabilities;
	permitted: Capabilities;
	effective: Capabilities;
	bounding: Capabilities;
	ambient: Capabilities;
}

// Capabilities is one set.
export interface Capabilities {
	hex: string;
	names: string[];
}

// ResourceLimit is a line of /proc/PID/limits; a null limit is unlimited.
export interface ResourceLimit {
	name: string;
	soft: string | null; // decimal
	hard: string | null; // decimal
	unit: string;
}

// ObservationEvent is an event of GET /api/processes/events: a whole state.
export interface ObservationEvent {
	summary: ProcessSummary; // as at connect
	history: HistoryPoint[]; // since connect, 60 s at most
	maps?: Mapping[]; // left out with ?maps=changed when unchanged
	observation: Observation | null;
	maps_captured_at: number | null;
	maps_error: string | null;
	maps_truncated: boolean;
	rollup: Rollup | null;
	exited: boolean;
	error: string | null;
}

// HistoryPoint is one sample of the last 60 s.
export interface HistoryPoint {
	timestamp: number;
	cpu_percent: number | null;
	rss_bytes: number | null;
	vms_bytes: number | null;
}

// Config says what this server can do here.
export interface Config {
	version: string;
	revision: string | null;
	interval_ms: number;
	history_seconds: number;
	sandbox: Sandbox;
	sources: Sources;
	capabilities: ServerCapabilities;
}

// Sandbox is what the server has given up; each missing piece has a reason, and so
// have capabilities that stay in effect where they should not.
export interface Sandbox {
	capabilities: string[]; // effective ones
	capabilities_reason: string | null;
	no_new_privs: SandboxPiece;
	seccomp: SandboxPiece;
}

// SandboxPiece is one protection.
export interface SandboxPiece {
	active: boolean;
	reason: string | null;
}

// Sources says where each kind of answer is read from. The list's is that of its
// streams, the descriptors' that of the streams of the host, the threads' that of a
// watched process with 64 threads or more, the maps' that of the map summaries of the host:
// a single answer, and mappings themselves, are read from text.
export interface Sources {
	list: Source;
	threads: Source;
	descriptors: Source;
	maps: Source;
}

// Source is bpf or text, with the reason for the latter.
export interface Source {
	source: string;
	reason: string | null;
}

// ServerCapabilities says what works on this host.
export interface ServerCapabilities {
	ptrace: Capability;
	bpf_cpu: Capability;
	bpf_ipc: Capability;
	bpf_files: Capability;
	runs: Capability;
}

// Capability is one thing the server can or cannot do. A reason beside available
// says what it cannot do all the same.
export interface Capability {
	available: boolean;
	reason: string | null;
}

// StacksAnswer is the body of GET /api/processes/stacks: where every thread is,
// found without stopping one.
export interface StacksAnswer {
	process_id: Identity;
	captured_at: number;
	threads: StackThread[]; // by TID
	warnings: string[];
}

// StackThread is one thread that was not stopped.
export interface StackThread {
	tid: number;
	name: string;
	state: string;
	syscall: SystemCall | null;
	wait_channel: string | null;
	kernel_stack: string[] | null; // innermost first; null when not permitted
	call_stack: Frame[] | null; // innermost first; null when it runs
	stable: boolean; // it had not moved when looked at again
	unwind_stop: string | null;
	frames_may_be_missing: boolean;
	error: string | null;
}

// SystemCall is what a thread asked the kernel for.
export interface SystemCall {
	number: number;
	name: string | null;
	arguments: string[]; // six, hex16
}

// Frame is one call of a stack.
export interface Frame {
	address: string;
	symbol: string | null; // demangled, the physical function
	symbol_offset: string | null;
	source_file: string | null;
	line: number | null;
	module: string | null;
	module_offset: string | null;
	unwound_by: string; // registers cfi frame_pointer signal_frame
	guess: boolean; // the symbol is only the nearest one
	inline_frames: InlineFrame[];
}

// InlineFrame is a function that was inlined; the innermost stands first, the
// physical function last.
export interface InlineFrame {
	function: string | null;
	file: string | null;
	line: number | null;
}

// SnapshotRequest is the body of POST /api/processes/snapshot.
export interface SnapshotRequest {
	pid: number;
	start_time_ticks: number;
}

// SnapshotAnswer is what POST /api/processes/snapshot found while all threads stood.
export interface SnapshotAnswer {
	captured_at: number; // when all threads stood
	process_id: Identity;
	paused_ms: number; // first stop requested to last thread released
	threads: SnapshotThread[]; // by attach order
	maps: Mapping[];
	warnings: string[];
	cost: SnapshotCost;
	not_stopped: NotStopped[];
}

// SnapshotCost is what the snapshot asked of the target.
export interface SnapshotCost {
	stopped_threads: number;
	passes: number;
	priority: string; // fifo nice normal
}

// NotStopped is a thread that could not be stopped in time.
export interface NotStopped {
	tid: number;
	reason: string;
}

// SnapshotThread is one thread as it stood.
export interface SnapshotThread {
	tid: number;
	name: string;
	registers: Register[];
	call_stack: Frame[];
	unwind_stop: string | null;
	frames_may_be_missing: boolean;
	syscall: string | null; // name of the call it stands in
	syscall_number: number | null; // null in no call; else RAX is no result
	disassembly: Disassembly | null; // null only without registers
	stack_bytes: StackBytes | null;
	error: string | null;
}

// Register is one of the 18 registers.
export interface Register {
	name: string;
	value: string; // hex16
	decimal: string;
	kind: string; // integer stack heap shared_library executable file anonymous
	mapping: string | null;
	offset: string | null; // in that mapping
}

// Disassembly is the code from RIP on.
export interface Disassembly {
	address: string;
	bytes: string; // hex
	instructions: Instruction[];
	error: string | null;
}

// Instruction is one machine instruction in Intel syntax.
export interface Instruction {
	address: string;
	bytes: string; // hex
	text: string;
	current: boolean;
}

// StackBytes is up to 512 bytes from RSP on, as they stood.
export interface StackBytes {
	address: string;
	bytes: string; // hex
}

// Topology is the structure of the host, an event of GET /api/system/events.
export interface Topology {
	sequence: number; // 0: nothing was read yet
	captured_at: number;
	nodes: TopologyNode[]; // by PID
	edges: TopologyEdge[]; // by id
	warnings: string[];
	inspected_processes: number;
	inspected_fds: number;
}

// TopologyNode is a process. It has either maps or, with ?maps=summary, map_summary;
// in a delta it has neither.
export interface TopologyNode {
	identity: Identity;
	parent_id: Identity | null;
	name: string;
	uid: number;
	username: string | null;
	euid: number;
	effective_username: string | null;
	cpu_percent: number | null; // to two decimals
	rss_bytes: number;
	thread_count: number;
	container: string | null;
	run_id: string | null;
	state: string | null; // D waits uninterruptibly, Z zombie, T stopped, t traced; null for all others, which change at every look
	maps?: Mapping[] | null; // from maps alone, 4,096 at most
	map_summary?: MapSummary | null;
	maps_epoch: number; // another number when the maps changed; 0 when they were not read
	maps_error: string | null;
}

// TopologyEdge is a connection. B is null without a local peer; Candidate tells that
// it is a possible peer only, Shared that both hold the same object; a sure peer is
// neither.
export interface TopologyEdge {
	id: string; // the same as long as the connection lives
	a: Port;
	b: Port | null;
	label: string;
	socket: TopologySocket | null; // of the end of A
	candidate: boolean;
	shared: boolean;
}

// Port is all descriptors of one process for one object.
export interface Port {
	process_id: Identity;
	fd: number; // the lowest
	fd_count: number;
	resource: string; // pipe:<st_dev>:<inode> or socket:<st_dev>:<inode>
	kind: string; // pipe fifo socket
	access: string | null; // read, write, read/write, none
}

// TopologySocket is what is known of a socket.
export interface TopologySocket {
	protocol: string | null;
	state: string | null;
	local: string | null;
	remote: string | null;
	network_peer: boolean; // TCP or UDP that talks to an address and a port
	remote_hostname: string | null; // null on loopback and until it is found
}

// TopologyDelta changes the structure with sequence BaseSequence into Sequence.
export interface TopologyDelta {
	sequence: number;
	base_sequence: number;
	captured_at: number;
	nodes_changed: TopologyNode[]; // by PID, without maps
	nodes_removed: Identity[]; // by PID
	maps_changed: TopologyMaps[]; // by PID
	edges_changed: TopologyEdge[]; // by id
	edges_removed: string[]; // ids, in order
	warnings: string[];
	inspected_processes: number;
	inspected_fds: number;
}

// TopologyMaps is the address space of a node that is new or whose maps changed.
export interface TopologyMaps {
	identity: Identity;
	maps?: Mapping[] | null;
	map_summary?: MapSummary | null;
	maps_epoch: number;
	maps_error: string | null;
}

// ProcessMetrics is an entry of event metrics, a list by PID.
export interface ProcessMetrics {
	identity: Identity;
	cpu_percent: number | null; // to two decimals
	rss_bytes: number;
}

// Activity is what happened in one window.
export interface Activity {
	captured_at: number; // its end; later than that of the window before
	window_ms: number; // its real width
	cpu: CPUActivity[]; // by PID
	ipc: IPCActivity[]; // by PID, resource and direction
	files: FileActivity[]; // by PID, resource and direction
	status: SystemStatus;
}

// CPUActivity is the processor time of a process in a window.
export interface CPUActivity {
	process_id: Identity;
	runtime_ns: number;
	switches: number;
	running_threads: number; // when the window ended
	cpus: number[]; // on which they ran then
}

// IPCActivity is what a process moved through a pipe or a socket in a window.
export interface IPCActivity {
	process_id: Identity;
	resource: string; // as in the topology
	write: boolean;
	bytes: number;
	count: number;
}

// FileActivity is what a process read from or wrote to a file in a window.
export interface FileActivity {
	process_id: Identity;
	resource: string; // file:<major>:<minor>:<inode>:<generation>
	path: string | null;
	write: boolean;
	bytes: number;
	count: number;
}

// SystemStatus is what the sensors do; all are idle while nobody watches.
export interface SystemStatus {
	active: boolean;
	cpu: SensorStatus;
	ipc: SensorStatus;
	files: SensorStatus;
	coverage: string[]; // what CPU and IPC cannot see
	files_coverage: string[]; // what files cannot see
	lost: number; // as the two below since the sensors were attached
	unresolved: number;
	files_lost: number;
}

// SensorStatus is the state of one sensor.
export interface SensorStatus {
	state: string; // idle starting observing unavailable error
	reason: string | null;
}

// Gap tells a viewer that it was too slow for some activity, which is not sent again;
// a whole topology follows.
export interface Gap {
	dropped_frames: number;
}

// RunRequest is the body of POST /api/runs. Exactly one of argv and command is given.
export interface RunRequest {
	id: string; // 1 to 64 of A-Z a-z 0-9 _ -; "" makes one
	argv: string[]; // executed as it is
	command: string | null; // for sh -c, byte for byte
	cwd: string; // absolute, or @name/… below a root
	env: Record<string, string>;
	scope: string;
	replace: boolean; // stops the scope's runs first
	pty: TerminalSize | null; // 0, 0 for 120 × 30
	fallback: boolean; // pipes when no terminal can be had
	stdin: string; // closed or open
	input: string | null; // written, then closed
	timeout_ms: number | null;
	no_output_timeout_ms: number | null;
	watchdog: string; // fresh or resume
	grace_ms: number | null; // 3000
	leftovers: string; // kill or keep
	max_output_bytes: number;
	wait_ms: number;
	on_disconnect: string; // stop, or "" to go on
	user: string; // only root may name one
}

// TerminalSize is that of a run's terminal.
export interface TerminalSize {
	cols: number;
	rows: number;
}

// Run is a launched command with all that descends from it.
export interface Run {
	id: string;
	state: string; // starting running stopping draining exited failed
	argv: string[];
	command: string | null;
	cwd: string;
	user: string | null;
	scope: string | null;
	pty: TerminalSize | null;
	warnings: string[];
	created_at: number;
	started_at: number | null;
	root_exited_at: number | null;
	ended_at: number | null;
	root: string | null; // pid-start
	cgroup: string | null;
	confidence: string; // high best_effort none
	confidence_reason: string;
	members: number | null;
	zombies: number | null; // null in a list, as escaped, counts and memory_bytes
	escaped: number | null;
	counts: RunCounts | null;
	exit: RunExit | null; // null while the root lives
	output: RunExtent;
	limits: RunLimits;
	cpu_usec: number | null; // of all that ever ran in it
	memory_bytes: number | null;
	stdin: string; // open or closed
	waiting_for_input: boolean;
	adopted: boolean; // left by a server that is gone
	ports: RunPort[];
	text: string | null; // the output, when it was waited for
}

// RunCounts are the living members by role.
export interface RunCounts {
	left: number;
	started: number;
	orphan: number;
	support: number;
	root: number;
}

// RunExit is how a run's root ended.
export interface RunExit {
	code: number | null;
	signal: string | null;
	reason: string; // exit signal manual_cancel overall_timeout no_output_timeout spawn_error
}

// RunExtent is how much a run wrote and what of it is kept.
export interface RunExtent {
	bytes: number;
	dropped: number;
	first: number;
	next: number;
}

// RunLimits are those of one run; null is none.
export interface RunLimits {
	timeout_ms: number | null;
	no_output_timeout_ms: number | null;
	grace_ms: number;
}

// RunPort is where a member listens.
export interface RunPort {
	protocol: string; // tcp or udp
	address: string; // * for all
	port: number;
	process: string; // pid-start
}

// RunProcess is a member of a run.
export interface RunProcess {
	id: string; // pid-start
	pid: number;
	parent: string | null; // pid-start, when that is a member
	label: string;
	command: string;
	exe: string | null;
	started_at: number;
	role: string; // root started orphan support
	origin: string; // foreground or background
	ports: RunPort[];
	seen_since: number;
	rss_bytes: number;
	cpu_usec: number;
	escaped: boolean; // outside of the run's cgroup
	run: string;
}

// RunProcesses is GET /api/runs/{id}/processes.
export interface RunProcesses {
	observed_at: number;
	confidence: string;
	counts: RunCounts;
	processes: RunProcess[];
}

// RunOutput is GET /api/runs/{id}/output.
export interface RunOutput {
	from: number;
	next: number; // where to read on
	dropped: number; // bytes asked for that had fallen out
	eof: boolean;
	chunks: RunChunk[];
}

// RunChunk is a piece of output of one stream.
export interface RunChunk {
	stream: string; // stdout stderr terminal
	from: number; // offset of its first byte
	text: string;
}

// RunLog is GET /api/runs/{id}/log.
export interface RunLog {
	lines: string[];
	offset: number; // number of the first line
	total_lines: number;
	dropped: number; // bytes that fell out before
}

// RunInput is the body of POST /api/runs/{id}/input: one of text, base64, keys with hex
// and literal, paste and submit; eof goes with each or alone.
export interface RunInput {
	text: string | null;
	base64: string | null;
	keys: string[];
	hex: string[];
	literal: string;
	paste: string | null;
	bracketed: boolean | null;
	submit: boolean;
	eof: boolean;
}

// RunWritten is what became of an input.
export interface RunWritten {
	written: number;
	warnings: string[];
}

// RunStopRequest is the body of the requests that stop; it may be left out.
export interface RunStopRequest {
	grace_ms: number | null;
	signal: string; // the first one, "" for SIGTERM
	wait_ms: number | null; // for the end, 0 to 120,000; null: until it is there
}

// RunStopped is how a stop ended.
export interface RunStopped {
	id: string;
	stopped: number;
	survivors: string[];
	took_ms: number;
	pending: boolean; // it goes on behind this 202, which tells how far it is
}

// RunStopIncomplete is the 504 of a stop that something survived.
export interface RunStopIncomplete {
	error: string;
	code: string;
	stopped: number;
	survivors: string[]; // pid-start
	took_ms: number;
}

// RunTaken is a process that was taken into a run.
export interface RunTaken {
	process: RunProcess;
	warnings: string[];
}

// Scope is GET /api/scopes/{scope}.
export interface Scope {
	scope: string;
	runs: string[]; // ids, the oldest first
	members: RunProcesses;
	cpu_usec: number | null;
	memory_bytes: number | null;
}

// ScopeStopped is how the runs of a scope ended.
export interface ScopeStopped {
	runs: RunStopped[];
}

// RunsRemoved is how many records of ended runs were deleted.
export interface RunsRemoved {
	removed: number;
}

// RunCapabilities is GET /api/runs/capabilities.
export interface RunCapabilities {
	cgroup_root: string | null;
	birth: string; // cgroup join none
	reason: string; // why not better
	confidence: string;
	roots: RunRoot[] | null;
	max_runs: number;
	live: number;
	helper_pid: number;
	keeper_pid: number | null; // of what starts another helper; null when it has ended
}

// RunRoot is a folder that runs may work in.
export interface RunRoot {
	name: string;
	dir: string;
	env: string;
}

// RunEvent is the data of each event of GET /api/runs/events.
export interface RunEvent {
	sequence: number; // also the id of the event
	type: string; // run.started run.exited run.timeout process.added process.exited output helper
	at: number;
	run: string;
	scope: string;
	reason: string;
	exit: RunExit | null;
	process: RunProcess | null;
	counts: RunCounts | null;
	next: number; // of the output
}

// RunGap says how many events a client that came back has missed for good.
export interface RunGap {
	lost: number;
}
