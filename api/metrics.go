package api

import (
	"net/http"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"procinsh/proc"
	"procinsh/watch"
)

// scrapeAge is how old the list may be that a scrape tells of: scrapes at the same
// time share one scan.
const scrapeAge = 500 * time.Millisecond

// metrics is what is counted for GET /metrics alone.
type metrics struct {
	version, revision string

	responses       responseCount
	streams         map[string]*atomic.Int64 // open ones, by path; the map does not change
	pauses          *watch.Durations         // of snapshots
	failedSnapshots atomic.Uint64
	groups          watch.Groups
}

// streamKinds are the streams and their names in metrics, in this order.
var streamKinds = []struct{ name, path string }{
	{"list", "/api/processes/stream"},
	{"process", "/api/processes/events"},
	{"system", "/api/system/events"},
	{"runs", "/api/runs/events"},
}

// responseCount counts answers by the first digit of their status.
type responseCount [6]atomic.Uint64

func (c *responseCount) add(status int) { c[min(max(status/100, 1), 5)].Add(1) }

func newMetrics(o Options) *metrics {
	m := &metrics{version: o.Version, revision: o.Revision, streams: map[string]*atomic.Int64{},
		pauses: watch.NewDurations(50*time.Microsecond, 100*time.Microsecond, 250*time.Microsecond, 500*time.Microsecond,
			time.Millisecond, 2500*time.Microsecond, 5*time.Millisecond, 10*time.Millisecond, 25*time.Millisecond,
			50*time.Millisecond, 100*time.Millisecond, 250*time.Millisecond, time.Second, 2500*time.Millisecond)}
	for _, k := range streamKinds {
		m.streams[k.path] = new(atomic.Int64)
	}
	return m
}

// groupLabels are the values of ?group=, each the name of its label too.
var groupLabels = map[string]watch.GroupKind{"unit": watch.ByUnit, "container": watch.ByContainer, "user": watch.ByUser}

// getMetrics is GET /metrics: the text that Prometheus reads. A scrape is no viewer: it
// scans the processes once, or takes what a scan found just before.
func (s *Server) getMetrics(w http.ResponseWriter, r *http.Request) error {
	q, err := parseQuery(r)
	if err != nil {
		return err
	}
	label, grouped, err := q.one("group")
	if err != nil {
		return err
	}
	kind, known := groupLabels[label]
	if grouped && !known {
		return badRequest("invalid_group", "Parameter group can only be unit, container or user.")
	}
	state, err := s.list.NotOlder(r.Context(), watch.ListWant{}, scrapeAge)
	if err != nil {
		return err
	}
	own, err := s.fs.OwnUsage()
	if err != nil {
		return err
	}
	e := &exposition{open: acceptsOpenMetrics(r)}
	s.writeServer(e, own)
	s.writeHost(e, state)
	writeSources(e, s.sources())
	s.writeSensors(e)
	s.writeStreams(e)
	s.writeSnapshots(e)
	if grouped {
		writeGroups(e, label, s.metrics.groups.Count(state, kind))
	}
	contentType := textType
	if e.open {
		contentType = openType
	}
	w.Header().Add("Vary", "Accept")
	reply(w, r, http.StatusOK, contentType, e.end())
	return nil
}

// writeServer tells of this process, under the names that every program has for it.
func (s *Server) writeServer(e *exposition, own proc.Usage) {
	e.family("procinsh_build", info, "The version of procinsh that is running.")
	e.count(1, "version", s.metrics.version, "revision", s.metrics.revision, "goversion", runtime.Version())
	e.family("process_cpu_seconds", counter, "Processor time that the server has used, user and system.")
	e.value(ticksSeconds(own.CPUTicks))
	e.family("process_resident_memory_bytes", gauge, "Memory of the server that is resident.")
	e.count(own.RSS)
	e.family("process_virtual_memory_bytes", gauge, "Size of the server's address space.")
	e.count(own.VMS)
	e.family("process_threads", gauge, "Threads of the server.")
	e.count(uint64(own.Threads))
	e.family("process_open_fds", gauge, "Open descriptors of the server.")
	e.count(uint64(own.FDs))
	e.family("process_max_fds", gauge, "Descriptors that the server may open.")
	if limit, ok := own.MaxFDs.Get(); ok {
		e.count(limit)
	}
	e.family("process_start_time_seconds", gauge, "When the server started, since the Unix epoch.")
	e.value(float64(own.StartedAt) / 1000)
	e.family("go_goroutines", gauge, "Goroutines of the server.")
	e.count(uint64(runtime.NumGoroutine()))
	e.family("procinsh_http_responses", counter, "Answers by the class of their status; a stream is one.")
	for class := 1; class <= 5; class++ {
		e.count(s.metrics.responses[class].Load(), "code", strconv.Itoa(class)+"xx")
	}
	symbols := s.symbols.Stats()
	e.family("procinsh_symbol_cache_bytes", gauge, "Symbol data that is kept.")
	e.count(uint64(symbols.Bytes))
	e.family("procinsh_symbol_cache_limit_bytes", gauge, "Symbol data that may be kept.")
	e.count(uint64(symbols.Limit))
	e.family("procinsh_symbol_cache_files", gauge, "Files whose symbol data is kept.")
	e.count(uint64(symbols.Files))
	e.family("procinsh_symbol_cache_requests", counter, "Files that symbols were asked of: hit when the file was known.")
	e.count(symbols.Hits, "result", "hit")
	e.count(symbols.Misses, "result", "miss")
}

// ticksSeconds is CPU time in ticks of USER_HZ.
func ticksSeconds(ticks uint64) float64 { return float64(ticks) / 100 }

const (
	// processStates are the letters of stat that every kernel has, proc_pid_stat(5).
	processStates = "RSDTtZI"
	// rareStates are those of old kernels or of a moment.
	rareStates = "PXxKW"
)

// writeHost tells what the scans found, and how long they took.
func (s *Server) writeHost(e *exposition, state *watch.ListState) {
	e.family("procinsh_processes", gauge, "Processes of the host by state, the letter of ps.")
	for _, letter := range []byte(processStates) {
		e.count(uint64(state.Totals.States[letter]), "state", string(letter))
	}
	for _, letter := range []byte(rareStates) {
		if n := state.Totals.States[letter]; n > 0 {
			e.count(uint64(n), "state", string(letter))
		}
	}
	e.family("procinsh_threads", gauge, "Threads of the host.")
	e.count(uint64(state.Totals.Threads))
	if topology := s.system.Topology(); topology.Sequence > 0 {
		e.family("procinsh_structure_processes", gauge, "Processes whose descriptors the last reading of the structure listed.")
		e.count(uint64(topology.InspectedProcesses))
		e.family("procinsh_structure_descriptors", gauge, "Descriptors that it looked at.")
		e.count(uint64(topology.InspectedFDs))
		e.family("procinsh_structure_timestamp_seconds", gauge, "When that was, since the Unix epoch; it is read while somebody watches the host.")
		e.value(float64(topology.CapturedAt.UnixMilli()) / 1000)
	}

	list, system := s.list.Stats(), s.system.Stats()
	e.family("procinsh_scan_duration_seconds", histogram, "How long scans took: of the list of processes, of the host's structure, and system_list where the watch of the host has a list of its own.")
	e.durations(list.Scans, "scan", "list")
	if own := s.system.List(); own != s.list {
		e.durations(own.Stats().Scans, "scan", "system_list")
	}
	e.durations(system.Structures, "scan", "structure")
	e.family("procinsh_scan_failures", counter, "Scans of the list of processes that failed.")
	e.count(list.Failed)
}

// writeSources tells which answers come from the kernel's own tables.
func writeSources(e *exposition, s Sources) {
	e.family("procinsh_source", gauge, "1 for what a kind of answer is read from: the kernel's own tables (bpf) or the files of procfs (text).")
	for _, x := range []struct {
		name string
		Source
	}{{"list", s.List}, {"threads", s.Threads}, {"descriptors", s.Descriptors}, {"maps", s.Maps}} {
		for _, source := range []string{"bpf", "text"} {
			e.flag(source == x.Source.Source, "answer", x.name, "source", source)
		}
	}
}

// writeSensors tells of the programs in the kernel.
func (s *Server) writeSensors(e *exposition) {
	status, stats := s.system.Status(), s.system.Stats()
	sensors := []struct {
		name, state string
		watch.SensorStats
	}{{"cpu", string(status.CPU.State), stats.CPU}, {"ipc", string(status.IPC.State), stats.IPC}, {"files", string(status.Files.State), stats.Files}}

	e.family("procinsh_sensor_state", gauge, "1 for the state that a sensor is in; idle while nobody watches the host.")
	for _, x := range sensors {
		for _, state := range watch.SensorStates {
			e.flag(state == x.state, "sensor", x.name, "state", state)
		}
	}
	e.family("procinsh_sensor_available", gauge, "1 when a sensor works here: by what it was when it last ran, before that by what is known to speak against it.")
	for _, x := range sensors {
		ok, _ := s.system.Capability(x.name)
		e.flag(ok, "sensor", x.name)
	}
	e.family("procinsh_sensor_events", counter, "Context switches (cpu) and operations (ipc, files) that a sensor reported.")
	for _, x := range sensors {
		e.count(x.Events, "sensor", x.name)
	}
	e.family("procinsh_sensor_lost", counter, "Those that found no place.")
	for _, x := range sensors {
		e.count(x.Lost, "sensor", x.name)
	}
	e.family("procinsh_sensor_unresolved", counter, "Operations of no process that could be named, and switches that no program saw.")
	e.count(stats.Unresolved)
}

// flag writes a sample that is 1 for yes.
func (e *exposition) flag(yes bool, labels ...string) {
	var v uint64
	if yes {
		v = 1
	}
	e.count(v, labels...)
}

// writeStreams tells of the viewers.
func (s *Server) writeStreams(e *exposition) {
	e.family("procinsh_streams_open", gauge, "Event streams that are open.")
	for _, k := range streamKinds {
		e.count(uint64(max(s.metrics.streams[k.path].Load(), 0)), "stream", k.name)
	}
	e.family("procinsh_stream_dropped_frames", counter, "States and windows of activity that a viewer was too slow for.")
	e.count(s.list.Stats().Dropped, "stream", "list")
	e.count(s.processes.Dropped(), "stream", "process")
	e.count(s.system.Stats().Dropped, "stream", "system")
}

func (s *Server) writeSnapshots(e *exposition) {
	e.family("procinsh_snapshot_pause_seconds", histogram, "How long snapshots stopped a process, from the first stop asked for to the last release.")
	e.durations(s.metrics.pauses.Read())
	e.family("procinsh_snapshot_failures", counter, "Snapshots that were begun and could not be taken.")
	e.count(s.metrics.failedSnapshots.Load())
}

// writeGroups tells what groups of processes take.
func writeGroups(e *exposition, label string, groups []watch.Group) {
	e.family("procinsh_group_cpu_seconds", counter, "Processor time that the processes of a group were seen to use, those that have ended too; what one used after its last scan is missing.")
	for i := range groups {
		e.value(ticksSeconds(groups[i].CPUTicks), label, groups[i].Name)
	}
	e.family("procinsh_group_resident_memory_bytes", gauge, "Resident memory of the processes of a group; what they share counts in each.")
	for i := range groups {
		e.count(groups[i].RSS, label, groups[i].Name)
	}
	e.family("procinsh_group_processes", gauge, "Processes of a group.")
	for i := range groups {
		e.count(uint64(groups[i].Processes), label, groups[i].Name)
	}
	e.family("procinsh_group_threads", gauge, "Threads of a group.")
	for i := range groups {
		e.count(uint64(groups[i].Threads), label, groups[i].Name)
	}
}
