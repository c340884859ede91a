package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"procinsh/api"
	"procinsh/elf"
	"procinsh/proc"
	"procinsh/ptrace"
	launcher "procinsh/run"
	"procinsh/watch"
	"procinsh/web"
)

// memoryLimit is where the garbage collector begins to work harder, so that the
// server stays below 256 MiB; it is no bound. GOMEMLIMIT sets another.
const memoryLimit = 208 << 20

// heapGrowth is by how many percent the heap may grow before it is collected: a list of
// 5,000 processes makes little garbage in a second, so memory is dearer than the time
// that collecting takes. GOGC sets another.
const heapGrowth = 50

func limitMemory(env func(string) string) {
	if env("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	if env("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
}

// serve runs the server until a signal ends it.
func serve(o options, stderr io.Writer) error {
	log := newLog(stderr, o.log, toJournal(stderr, os.Getenv))
	limitMemory(os.Getenv)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	files, err := proc.Open("/proc")
	if err != nil {
		return err
	}
	defer files.Close()
	runs, err := startRuns(o, log)
	if err != nil {
		return err
	}
	var runOf watch.RunOf
	if runs != nil {
		defer runs.Close()
		runOf = runs.RunOf
	}
	list := watch.NewList(files, watch.ListOptions{Interval: o.interval, RunOf: runOf, Hooks: listHooks(log), Tables: true})
	processes := watch.NewProcesses(files, watch.ProcessOptions{Interval: o.interval, RunOf: runOf, Hooks: processHooks(log), Tables: true})
	system, systemList := newSystem(files, list, o.interval, runOf, log)
	token, err := newSecret(o, os.Getenv)
	if err != nil {
		return err
	}
	tlsConfig, err := newTLS(o, func(err error) { log.Warn("the certificate stays the one before", "error", err) })
	if err != nil {
		return err
	}
	listeners, err := listenAll(o.listen, os.Getenv)
	if err != nil {
		return err
	}
	if err := token.tell(o, listeners, os.Getenv, stderr, log); err != nil {
		for _, l := range listeners {
			l.Close() // a socket file would stay
		}
		return err
	}
	service, err := newManager(os.Getenv)
	if err != nil {
		log.Warn("the service manager is not told when the server is ready", "error", err)
	}
	box := closeSandbox(files, log)
	server, err := api.New(api.Options{
		FS: files, Runs: runs, List: list, Processes: processes, System: system, Symbols: ptrace.NewSymbols(elf.DefaultLimit), Pages: web.Files(), Log: log,
		Sandbox: box, AllowUIDs: o.uids, Token: token.text, NoAuth: o.noAuth, AllowHosts: o.allowHosts, TLS: tlsConfig,
		Version: version, Revision: revision(), Interval: o.interval,
	})
	if err != nil {
		return err
	}

	// Before the first request: connections wait since listenAll.
	if err := service.ready(); err != nil {
		log.Warn("the service manager was not told that the server is ready", "error", err)
	}
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		}()
	}
	log.Info("started", "version", version, "listen", listenText(listeners, o))
	warnAccess(o, listeners, log)
	switch {
	case os.Geteuid() != 0 && !proc.MayTrace():
		log.Info("start with sudo to see other users' processes")
	case !proc.MayTrace():
		log.Info("this root lacks CAP_SYS_PTRACE: only its own processes can be looked into")
	}

	var cause error
	select {
	case s := <-signals:
		signal.Stop(signals) // the next one ends the process at once
		log.Info("stopping", "signal", s.String())
	case cause = <-failed:
		log.Error("stopping", "error", cause)
	}
	var ends sync.WaitGroup // each may wait a second for a reading that hangs
	for _, end := range []func(){server.Shutdown, system.Close, systemList.Close, list.Close, processes.Close} {
		ends.Go(end)
	}
	ends.Wait()
	log.Info("stopped")
	return cause
}

// startRuns starts the helper that launches programs; nil without --runs.
func startRuns(o options, log *slog.Logger) (*launcher.Client, error) {
	if !o.runs {
		return nil, nil
	}
	// Programs of other users must not find a token of this one, and none speaks to the
	// service manager for it.
	o.run.Environ = slices.DeleteFunc(os.Environ(), func(s string) bool {
		return strings.HasPrefix(s, "PROCINSH_TOKEN=") || strings.HasPrefix(s, "NOTIFY_SOCKET=")
	})
	runs, err := launcher.StartHelper(o.run, o.keepRuns, func(what string, err error) {
		if err != nil {
			log.Error(what, "error", err)
			return
		}
		log.Warn(what)
	})
	if err != nil {
		return nil, err
	}
	c, err := runs.Capabilities(context.Background())
	if err == nil && o.stopOrphans {
		var ended []launcher.Stopped
		ended, err = runs.StopOrphans(context.Background())
		for _, st := range ended {
			log.Info("what a dead server left was ended", "run", st.ID, "stopped", st.Stopped, "survivors", len(st.Survivors))
		}
	}
	if err != nil {
		runs.Close()
		return nil, err
	}
	log.Info("runs are on", "helper", c.HelperPID, "birth", c.Birth, "confidence", c.Confidence, "reason", c.Reason)
	return runs, nil
}

// listenText is where the server listens, as addresses to open.
func listenText(listeners []net.Listener, o options) string {
	texts := make([]string, len(listeners))
	for i, l := range listeners {
		texts[i] = o.scheme() + l.Addr().String() + "/"
		if l.Addr().Network() == "unix" {
			texts[i] = "unix:" + l.Addr().String()
		}
	}
	return strings.Join(texts, " ")
}

// metricsInterval is the time between two scans of the processes for who watches the
// host.
const metricsInterval = time.Second

// newSystem returns what watches the host, and the list that it goes with: that of
// the viewers unless those asked for a slower one.
func newSystem(files *proc.FS, list *watch.List, interval time.Duration, runOf watch.RunOf, log *slog.Logger) (*watch.System, *watch.List) {
	if interval > metricsInterval {
		list = watch.NewList(files, watch.ListOptions{Interval: metricsInterval, RunOf: runOf, Hooks: listHooks(log), Tables: true})
	}
	return watch.NewSystem(files, list, watch.SystemOptions{Hooks: systemHooks(log), Tables: true}), list
}

func systemHooks(log *slog.Logger) watch.SystemHooks {
	return watch.SystemHooks{
		Started: func() { log.Info("system observation started") },
		Stopped: func() { log.Info("system observation stopped") },
		Failed: func(err error) {
			log.Log(context.Background(), failureLevel(err), "system observation failed", failure(err)...)
		},
		Recovered: func() { log.Info("system observation recovered") },
		Sensor: func(name, state, reason string) {
			args := []any{"sensor", name, "state", state}
			if reason != "" {
				args = append(args, "reason", reason)
			}
			level := slog.LevelWarn
			if state == "observing" {
				level = slog.LevelInfo
			}
			log.Log(context.Background(), level, "sensor", args...)
		},
		Structure: func(t *watch.Topology, took time.Duration) {
			log.Debug("structure", "sequence", t.Sequence, "processes", len(t.Nodes), "edges", len(t.Edges), "inspected_processes", t.InspectedProcesses,
				"inspected_fds", t.InspectedFDs, "warnings", len(t.Warnings), "took_ms", took.Milliseconds())
		},
	}
}

func listHooks(log *slog.Logger) watch.ListHooks {
	return watch.ListHooks{
		Started: func() { log.Info("list observation started") },
		Stopped: func() { log.Info("list observation stopped") },
		Failed: func(err error) {
			log.Log(context.Background(), failureLevel(err), "list observation failed", failure(err)...)
		},
		Recovered: func() { log.Info("list observation recovered") },
	}
}

func processHooks(log *slog.Logger) watch.ProcessHooks {
	named := func(id proc.ID, more ...any) []any {
		return append([]any{"pid", id.PID, "start_time_ticks", id.StartTicks}, more...)
	}
	return watch.ProcessHooks{
		Started: func(id proc.ID) { log.Info("observation started", named(id)...) },
		Stopped: func(id proc.ID) { log.Info("observation stopped", named(id)...) },
		Exited:  func(id proc.ID) { log.Info("target exited", named(id)...) },
		Failed: func(id proc.ID, err error) {
			log.Log(context.Background(), failureLevel(err), "observation failed", named(id, failure(err)...)...)
		},
		Recovered: func(id proc.ID) { log.Info("observation recovered", named(id)...) },
	}
}

// failureLevel is error for a panic, which is a mistake of ours, else warn.
func failureLevel(err error) slog.Level {
	var p *watch.PanicError
	if errors.As(err, &p) {
		return slog.LevelError
	}
	return slog.LevelWarn
}

// failure describes err, with the stack of a panic.
func failure(err error) []any {
	var p *watch.PanicError
	if errors.As(err, &p) {
		return []any{"error", err, "stack", string(p.Stack)}
	}
	return []any{"error", err}
}
