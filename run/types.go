package run

// State is where a run is in its life.
type State string

const (
	StateStarting State = "starting"
	StateRunning  State = "running"
	StateStopping State = "stopping"
	StateDraining State = "draining" // the root has ended, members live
	StateExited   State = "exited"   // nothing of it lives
	StateFailed   State = "failed"   // could not be started
)

// Why a run's root ended.
const (
	ReasonExit    = "exit"
	ReasonSignal  = "signal"
	ReasonManual  = "manual_cancel"
	ReasonTimeout = "overall_timeout"
	ReasonSilence = "no_output_timeout"
	ReasonSpawn   = "spawn_error"
)

// How sure the list of members is.
const (
	ConfidenceHigh       = "high"        // a cgroup that the first process was born in
	ConfidenceBestEffort = "best_effort" // marks and parents
	ConfidenceNone       = "none"
)

// Size is that of a terminal.
type Size struct {
	Columns uint16 `json:"cols"`
	Rows    uint16 `json:"rows"`
}

// Launch is what to start. Exactly one of Argv and Command is set.
type Launch struct {
	ID       string            `json:"id"`      // "" makes one
	Argv     []string          `json:"argv"`    // executed as it is
	Command  *string           `json:"command"` // for sh -c, byte for byte
	Cwd      string            `json:"cwd"`
	Env      map[string]string `json:"env"`
	Scope    string            `json:"scope"`
	Replace  bool              `json:"replace"` // stops the scope's runs first
	PTY      *Size             `json:"pty"`
	Fallback bool              `json:"fallback"` // pipes when there is no terminal to be had
	Stdin    string            `json:"stdin"`    // closed or open
	Input    *string           `json:"input"`    // written, then closed
	UID      *uint32           `json:"uid"`      // who asks; nil unknown
	User     string            `json:"user"`     // root may name another

	TimeoutMS  *int64 `json:"timeout_ms"` // nil: 30 minutes when the caller waits, else none; 0 none
	SilenceMS  *int64 `json:"no_output_timeout_ms"`
	Watchdog   string `json:"watchdog"`  // fresh or resume
	GraceMS    *int64 `json:"grace_ms"`  // nil: 3000
	Leftovers  string `json:"leftovers"` // kill or keep; "" by WaitMS
	MaxOutput  int    `json:"max_output_bytes"`
	WaitMS     int64  `json:"wait_ms"`
	Disconnect string `json:"on_disconnect"` // stop, or "" to go on
}

// Exit is how a run's root ended.
type Exit struct {
	Code   *int    `json:"code"`
	Signal *string `json:"signal"`
	Reason string  `json:"reason"`
}

// Counts are the living members by role. Left is what people call left over.
type Counts struct {
	Left    int `json:"left"`
	Started int `json:"started"`
	Orphan  int `json:"orphan"`
	Support int `json:"support"`
	Root    int `json:"root"`
}

// Limits are those of one run.
type Limits struct {
	TimeoutMS *int64 `json:"timeout_ms"` // nil: none
	SilenceMS *int64 `json:"no_output_timeout_ms"`
	GraceMS   int64  `json:"grace_ms"`
}

// Status is a run as it is now. Times are epoch milliseconds; nil is unknown or not yet.
type Status struct {
	ID               string   `json:"id"`
	State            State    `json:"state"`
	Argv             []string `json:"argv"`
	Command          *string  `json:"command"`
	Cwd              string   `json:"cwd"`
	User             *string  `json:"user"`
	Scope            *string  `json:"scope"`
	PTY              *Size    `json:"pty"`
	Warnings         []string `json:"warnings"`
	CreatedAt        int64    `json:"created_at"`
	StartedAt        *int64   `json:"started_at"`
	RootExitedAt     *int64   `json:"root_exited_at"`
	EndedAt          *int64   `json:"ended_at"`
	Root             *string  `json:"root"`
	Cgroup           *string  `json:"cgroup"`
	Confidence       string   `json:"confidence"`
	ConfidenceReason string   `json:"confidence_reason"`
	Members          *int     `json:"members"`
	Zombies          *int     `json:"zombies"`
	Escaped          *int     `json:"escaped"`
	Counts           *Counts  `json:"counts"`
	Exit             *Exit    `json:"exit"`
	Output           Extent   `json:"output"`
	Limits           Limits   `json:"limits"`
	CPUUsec          *int64   `json:"cpu_usec"`
	MemoryBytes      *int64   `json:"memory_bytes"`
	Stdin            string   `json:"stdin"`
	WaitingForInput  bool     `json:"waiting_for_input"`
	Adopted          bool     `json:"adopted"`
	Ports            []Port   `json:"ports"`
	Text             *string  `json:"text"` // of the output, when the caller waited
}

// Ended tells whether nothing of the run lives.
func (s *Status) Ended() bool { return s.State == StateExited || s.State == StateFailed }

// MemberStatus is a process of a run.
type MemberStatus struct {
	ID        string  `json:"id"` // pid-start
	PID       int32   `json:"pid"`
	Parent    *string `json:"parent"` // when that is a member
	Label     string  `json:"label"`
	Command   string  `json:"command"`
	Exe       *string `json:"exe"`
	StartedAt int64   `json:"started_at"`
	Role      Role    `json:"role"`
	Origin    string  `json:"origin"`
	Ports     []Port  `json:"ports"`
	SeenSince int64   `json:"seen_since"`
	RSSBytes  uint64  `json:"rss_bytes"`
	CPUUsec   uint64  `json:"cpu_usec"`
	Escaped   bool    `json:"escaped"`
	Run       string  `json:"run"`

	own *int64 // memory that it alone accounts for
}

// Members is a list of processes of one run, or of a scope.
type Members struct {
	ObservedAt int64          `json:"observed_at"`
	Confidence string         `json:"confidence"`
	Counts     Counts         `json:"counts"`
	Processes  []MemberStatus `json:"processes"`
}

// Stopped is how a stop ended.
type Stopped struct {
	ID        string   `json:"id"`
	Stopped   int      `json:"stopped"`   // processes that were signalled and are gone
	Survivors []string `json:"survivors"` // pid-start
	TookMS    int64    `json:"took_ms"`
	Pending   bool     `json:"pending"` // it goes on; the rest tells how far it is
}

// Capabilities is what runs are on this host.
type Capabilities struct {
	CgroupRoot *string `json:"cgroup_root"`
	Birth      string  `json:"birth"` // cgroup, join or none
	Reason     string  `json:"reason"`
	Confidence string  `json:"confidence"`
	Roots      []Root  `json:"roots"`
	MaxRuns    int     `json:"max_runs"`
	Live       int     `json:"live"`
	HelperPID  int     `json:"helper_pid"`
	KeeperPID  *int    `json:"keeper_pid"` // nil: it has ended, or there is none
}
