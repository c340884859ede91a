package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// levelOff is above every level in use.
const levelOff = slog.Level(100)

var levels = map[string]slog.Level{
	"debug": slog.LevelDebug,
	"info":  slog.LevelInfo,
	"warn":  slog.LevelWarn,
	"error": slog.LevelError,
	"off":   levelOff,
}

// logPackages can have a level of their own.
var logPackages = []string{"main", "api", "bpf", "elf", "proc", "ptrace", "run", "sandbox", "watch", "web"}

// logFilter says which records are written.
type logFilter struct {
	level    slog.Level
	packages map[string]slog.Level
}

// parseLogFilter reads "info,api=debug".
func parseLogFilter(text string) (logFilter, error) {
	f := logFilter{level: slog.LevelInfo}
	for item := range strings.SplitSeq(text, ",") {
		name, level, isPackage := strings.Cut(strings.TrimSpace(item), "=")
		if !isPackage {
			name, level = "", name
		}
		l, ok := levels[level]
		if !ok {
			return logFilter{}, fmt.Errorf("unknown log level %q: use debug, info, warn, error or off", level)
		}
		if !isPackage {
			f.level = l
			continue
		}
		if !slices.Contains(logPackages, name) {
			return logFilter{}, fmt.Errorf("unknown log package %q: use one of %s", name, strings.Join(logPackages, " "))
		}
		if f.packages == nil {
			f.packages = map[string]slog.Level{}
		}
		f.packages[name] = l
	}
	return f, nil
}

// lowest is the level below which nothing is written.
func (f logFilter) lowest() slog.Level {
	low := f.level
	for _, l := range f.packages {
		low = min(low, l)
	}
	return low
}

// newLog returns a logger that writes text to w: time, level, source, message,
// attributes. The journal has a time of its own, and gets the priority instead.
func newLog(w io.Writer, f logFilter, journal bool) *slog.Logger {
	if journal {
		w = priorities{w}
	}
	text := slog.NewTextHandler(w, &slog.HandlerOptions{
		AddSource: true,
		Level:     f.lowest(),
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if journal && len(groups) == 0 && a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime {
				return slog.Attr{}
			}
			if s, ok := a.Value.Any().(*slog.Source); ok && len(groups) == 0 && a.Key == slog.SourceKey {
				return slog.String(slog.SourceKey, sourceOf(s))
			}
			return a
		},
	})
	return slog.New(packageHandler{text, f})
}

// toJournal tells whether w is the stream of the journal that $JOURNAL_STREAM names.
//
// Source: systemd.exec(5), device and inode number.
func toJournal(w io.Writer, env func(string) string) bool {
	f, ok := w.(*os.File)
	if !ok || env("JOURNAL_STREAM") == "" {
		return false
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	st := info.Sys().(*syscall.Stat_t)
	return env("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

// priorities writes what begins with a level, in one Write each, with its priority of
// sd-daemon(3) before it.
type priorities struct{ w io.Writer }

func (p priorities) Write(line []byte) (int, error) {
	priority := "<6>"
	switch level, _, _ := bytes.Cut(line, []byte(" ")); string(level) {
	case "level=DEBUG":
		priority = "<7>"
	case "level=WARN":
		priority = "<4>"
	case "level=ERROR":
		priority = "<3>"
	}
	if _, err := p.w.Write(append([]byte(priority), line...)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// packageHandler lets through what the package that logs may write.
type packageHandler struct {
	slog.Handler
	filter logFilter
}

func (h packageHandler) Handle(ctx context.Context, r slog.Record) error {
	level := h.filter.level
	if len(h.filter.packages) > 0 {
		frame, _ := runtime.CallersFrames([]uintptr{r.PC}).Next()
		if l, ok := h.filter.packages[packageOf(frame.Function)]; ok {
			level = l
		}
	}
	if r.Level < level {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h packageHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return packageHandler{h.Handler.WithAttrs(attrs), h.filter}
}

func (h packageHandler) WithGroup(name string) slog.Handler {
	return packageHandler{h.Handler.WithGroup(name), h.filter}
}

const module = "procinsh"

// packageOf returns the package of a function, "procinsh/api.(*Server).New" is of
// api.
func packageOf(function string) string {
	dir, last := path.Split(function)
	name, _, _ := strings.Cut(last, ".")
	if dir+name == module { // what its tests call package main
		return "main"
	}
	return strings.TrimPrefix(dir+name, module+"/")
}

// sourceOf returns the place below the root of the repository, whatever path the
// binary was built in: the folder is the package's.
func sourceOf(s *slog.Source) string {
	file := path.Base(s.File)
	if p := packageOf(s.Function); p != "main" {
		file = p + "/" + file
	}
	return file + ":" + strconv.Itoa(s.Line)
}
