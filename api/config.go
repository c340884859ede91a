package api

import (
	"net/http"
	"strings"

	"procinsh/proc"
	"procinsh/ptrace"
	"procinsh/watch"
)

// newConfig is what GET /api/config says; nothing in it changes while the server
// runs, but what the sensors are able to do, and runs that are lost.
func newConfig(o Options) Config {
	because := func(text string) *string { return &text }
	no := func(reason string) Capability { return Capability{false, because(reason)} }
	c := Config{
		Version:        o.Version,
		IntervalMS:     o.Interval.Milliseconds(),
		HistorySeconds: 60,
		Sandbox:        o.Sandbox,
		Capabilities: ServerCapabilities{
			Ptrace: ptraceCapability(o.FS),
			Runs:   no("Programs are started only with --runs."),
		},
	}
	if o.Runs != nil {
		c.Capabilities.Runs = Capability{Available: true}
	}
	if o.Revision != "" {
		c.Revision = &o.Revision
	}
	set, err := o.FS.OwnCapabilities()
	c.Sandbox.Capabilities = nonNil(proc.CapabilityNames(set))
	if err != nil {
		c.Sandbox.CapabilitiesReason = because("The server's own capabilities are unreadable.")
	}
	return c
}

func ptraceCapability(fs *proc.FS) Capability {
	ok, reason := ptrace.Probe(fs)
	return Capability{ok, textOrNull(reason)}
}

func (s *Server) getConfig(w http.ResponseWriter, r *http.Request) error {
	c := s.config
	c.Capabilities.BPFCPU = s.sensorCapability("cpu")
	c.Capabilities.BPFIPC = s.sensorCapability("ipc")
	c.Capabilities.BPFFiles = s.sensorCapability("files")
	c.Sources = s.sources()
	if s.runs != nil {
		if lost := s.runs.Lost(); lost != nil {
			c.Capabilities.Runs = Capability{Reason: &lost.Message}
		}
	}
	replyValue(w, r, c)
	return nil
}

// sources is what each kind of answer is read from now.
func (s *Server) sources() Sources {
	return Sources{
		List:        sourceOf(s.list.Source()),
		Threads:     sourceOf(s.processes.ThreadSource()),
		Descriptors: sourceOf(s.system.Source()),
		Maps:        sourceOf(s.system.List().MapsSource()),
	}
}

func sourceOf(s watch.Source) Source {
	if s.Tables {
		return Source{Source: "bpf"}
	}
	return Source{"text", textOrNull(s.Reason)}
}

// sensorCapability tells whether a sensor works, as far as it is known.
func (s *Server) sensorCapability(name string) Capability {
	ok, reason := s.system.Capability(name)
	if ok {
		return Capability{Available: true}
	}
	return Capability{false, textOrNull(sentence(reason))}
}

// sentence makes the reason of a sensor one: a capital and a full stop.
func sentence(reason string) string {
	if reason == "" {
		return ""
	}
	return strings.ToUpper(reason[:1]) + strings.TrimSuffix(reason[1:], ".") + "."
}
