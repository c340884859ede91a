package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// record logs as if a function of the package had called the logger.
func record(t *testing.T, h slog.Handler, level slog.Level, pc uintptr) {
	t.Helper()
	if !h.Enabled(context.Background(), level) {
		return
	}
	if err := h.Handle(context.Background(), slog.NewRecord(time.Now(), level, "hello", pc)); err != nil {
		t.Fatal(err)
	}
}

func TestLogFilter(t *testing.T) {
	var pcs [1]uintptr
	runtime.Callers(1, pcs[:])
	for _, tt := range []struct {
		filter string
		level  slog.Level
		want   bool
	}{
		{"info", slog.LevelInfo, true},
		{"info", slog.LevelDebug, false},
		{"debug", slog.LevelDebug, true},
		{"warn", slog.LevelInfo, false},
		{"error", slog.LevelError, true},
		{"off", slog.LevelError, false},
		{"main=debug", slog.LevelDebug, true},
		{"api=debug", slog.LevelDebug, false},
		{"api=debug", slog.LevelInfo, true},
		{"off,main=warn", slog.LevelWarn, true},
		{"off,api=debug", slog.LevelError, false},
		{"debug, main=off", slog.LevelError, false},
		{"info,bpf=debug,api=debug", slog.LevelInfo, true},
	} {
		f, err := parseLogFilter(tt.filter)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		record(t, newLog(&out, f, false).Handler().WithAttrs([]slog.Attr{slog.Int("n", 1)}).WithGroup("g"), tt.level, pcs[0])
		if got := out.Len() > 0; got != tt.want {
			t.Errorf("%s lets %v through: %v", tt.filter, tt.level, got)
		}
	}
}

// The source is the place in the repository, whatever path the binary was built in.
func TestLogSource(t *testing.T) {
	var out bytes.Buffer
	newLog(&out, logFilter{level: slog.LevelInfo}, false).Info("hello", "k", "v w")
	if !regexp.MustCompile(`^time=\S+ level=INFO source=log_test\.go:\d+ msg=hello k="v w"\n$`).MatchString(out.String()) {
		t.Errorf("line is %q", out.String())
	}
	for _, tt := range []struct{ function, file, want string }{
		{"main.main", "/home/x/src/procinsh/main.go", "main.go:7"},
		{"procinsh/api.(*Server).ServeHTTP", "/build/api/api.go", "api/api.go:7"},
		{"procinsh/watch.(*List).collect.func1", "procinsh/watch/list.go", "watch/list.go:7"},
		{"procinsh/api.next[go.shape.int]", "procinsh/api/stream.go", "api/stream.go:7"},
		{"net/http.(*Server).Serve", "/usr/local/go/src/net/http/server.go", "net/http/server.go:7"},
	} {
		if got := sourceOf(&slog.Source{Function: tt.function, File: tt.file, Line: 7}); got != tt.want {
			t.Errorf("%s in %s is %s, want %s", tt.function, tt.file, got, tt.want)
		}
	}
}

// The journal gets the priority of each line, and no second time.
func TestLogJournal(t *testing.T) {
	var out bytes.Buffer
	log := newLog(&out, logFilter{level: slog.LevelDebug}, true)
	for level, want := range map[slog.Level]string{
		slog.LevelDebug: "<7>level=DEBUG ", slog.LevelInfo: "<6>level=INFO ", slog.LevelWarn: "<4>level=WARN ", slog.LevelError: "<3>level=ERROR ",
	} {
		out.Reset()
		log.Log(context.Background(), level, "two\nlines", "time", "level=ERROR ")
		if !regexp.MustCompile(`^` + want + `source=log_test\.go:\d+ msg="two\\nlines" time="level=ERROR "\n$`).MatchString(out.String()) {
			t.Errorf("line is %q", out.String())
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	var st syscall.Stat_t
	if err := syscall.Fstat(int(w.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	its := fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	for _, tt := range []struct {
		w      io.Writer
		stream string
		want   bool
	}{{w, its, true}, {w, its + "1", false}, {w, "", false}, {&out, its, false}} {
		if got := toJournal(tt.w, envOf("JOURNAL_STREAM", tt.stream)); got != tt.want {
			t.Errorf("%T with JOURNAL_STREAM=%s of %s is the journal: %v", tt.w, tt.stream, its, got)
		}
	}
}

// Every folder of this module that holds Go code and may log has a name in the
// filter.
func TestLogPackages(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() || e.Name() == "tests" {
			continue
		}
		files, err := filepath.Glob(filepath.Join(e.Name(), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) > 0 && !strings.Contains(strings.Join(logPackages, " "), e.Name()) {
			t.Errorf("package %s cannot be named in --log", e.Name())
		}
	}
}
