package main

import (
	"context"
	"log/slog"
	"strings"

	"procinsh/api"
	"procinsh/bpf"
	"procinsh/proc"
	"procinsh/sandbox"
)

// closeSandbox gives up what serving does not need, and says what that is. What has
// to be opened for writing, listened on or started was so before.
func closeSandbox(files *proc.FS, log *slog.Logger) api.Sandbox {
	bpf.Prepare()
	r := sandbox.Enter()
	if r.Admin != nil {
		files.SetAdmin(r.Admin.Do)
	}
	logSandbox(r, files, log)
	piece := func(p sandbox.Piece) api.SandboxPiece {
		return api.SandboxPiece{Active: p.Active, Reason: textOrNil(p.Reason)}
	}
	return api.Sandbox{CapabilitiesReason: textOrNil(r.Capabilities), NoNewPrivs: piece(r.NoNewPrivs), Seccomp: piece(r.Seccomp)}
}

func logSandbox(r sandbox.Report, files *proc.FS, log *slog.Logger) {
	kept := "unknown"
	if set, err := files.OwnCapabilities(); err == nil {
		kept = strings.Join(proc.CapabilityNames(set), " ")
	}
	args := []any{"capabilities", kept, "no_new_privs", r.NoNewPrivs.Active, "seccomp", r.Seccomp.Active}
	for _, reason := range []string{r.Capabilities, r.NoNewPrivs.Reason, r.Seccomp.Reason} {
		if reason != "" {
			args = append(args, "reason", reason)
		}
	}
	level := slog.LevelInfo
	if !r.Complete() {
		level = slog.LevelWarn
	}
	log.Log(context.Background(), level, "sandbox", args...)
}

func textOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
