package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
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
// attributes.
func newLog(w io.Writer, f logFilter) *slog.Logger {
	text := slog.NewTextHandler(w, &slog.HandlerOptions{
		AddSource: true,
		Level:     f.lowest(),
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if s, ok := a.Value.Any().(*slog.Source); ok && len(groups) == 0 && a.Key == slog.SourceKey {
				return slog.String(slog.SourceKey, sourceOf(s))
			}
			return a
		},
	})
	return slog.New(packageHandler{text, f})
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
