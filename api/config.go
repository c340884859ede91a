package api

import (
	"net/http"

	"procinsh/proc"
	"procinsh/ptrace"
)

// newConfig is what GET /api/config says; nothing in it changes while the server
// runs.
func newConfig(o Options) Config {
	because := func(text string) *string { return &text }
	text := Source{"text", because("This version reads the text files of /proc.")}
	no := func(reason string) Capability { return Capability{false, because(reason)} }
	sensors := no("This version has no sensors.")
	c := Config{
		Version:        o.Version,
		IntervalMS:     o.Interval.Milliseconds(),
		HistorySeconds: 60,
		Sandbox: Sandbox{
			NoNewPrivs: SandboxPiece{false, because("This version keeps the privileges that it was started with.")},
			Seccomp:    SandboxPiece{false, because("This version filters no system calls.")},
		},
		Sources: Sources{List: text, Threads: text, Descriptors: text, Maps: text},
		Capabilities: ServerCapabilities{
			Ptrace:   ptraceCapability(o.FS),
			BPFCPU:   sensors,
			BPFIPC:   sensors,
			BPFFiles: sensors,
			Runs:     no("This version starts no programs."),
		},
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
	replyValue(w, r, s.config)
	return nil
}
