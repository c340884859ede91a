package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"procinsh/elf"
	"procinsh/proc"
	"procinsh/ptrace"
	"procinsh/watch"
)

var loopback = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}

var testPages = fstest.MapFS{
	"README":                    {Data: []byte("for builders")},
	"index.html":                {Data: []byte("<!doctype html>")},
	"index.html.gz":             {Data: []byte("packed page")},
	"assets/app-X7Q2M5KD.js":    {Data: []byte("script")},
	"assets/app-X7Q2M5KD.js.gz": {Data: []byte("packed script")},
	"assets/base-ABCDEFGH.css":  {Data: []byte("colours")},
	"assets/plain.txt":          {Data: []byte("text")},
	"licenses.txt":              {Data: []byte("licences")},
}

// testServer is a server on the real /proc that no listener has; its clients are
// allowed unless a test says otherwise.
func testServer(t *testing.T, change func(*Options)) (*Server, *bytes.Buffer) {
	t.Helper()
	files, err := proc.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	log := &bytes.Buffer{}
	o := Options{
		FS: files, Pages: testPages, NoAuth: true, Version: "1.2", Revision: "abc", Interval: time.Second,
		List:      watch.NewList(files, watch.ListOptions{Interval: time.Second}),
		Processes: watch.NewProcesses(files, watch.ProcessOptions{Interval: time.Second}),
		Symbols:   ptrace.NewSymbols(elf.DefaultLimit),
		Log:       slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	o.System = watch.NewSystem(files, o.List, watch.SystemOptions{})
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Shutdown()
		o.System.Close()
		o.List.Close()
		o.Processes.Close()
		files.Close()
	})
	return s, log
}

// request is a request as it comes from the machine itself.
func request(method, target string, header ...string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	r.Host = "127.0.0.1:8080"
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r.WithContext(cameTo(r.Context(), loopback))
}

// cameTo is the context of a request on a connection to a plain HTTP listener.
func cameTo(ctx context.Context, at net.Addr) context.Context {
	return context.WithValue(ctx, connKey{}, &conn{peers: &peers{}, at: &place{addr: at}})
}

func do(s *Server, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// own is the identity of this test.
func own(t testing.TB) string { return identityOf(t, os.Getpid()) }

func identityOf(t testing.TB, pid int) string {
	t.Helper()
	return fmt.Sprintf("pid=%d&start_time_ticks=%d", pid, startTicks(t, pid))
}

func startTicks(t testing.TB, pid int) uint64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	ticks, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return ticks
}

func errorOf(t testing.TB, w *httptest.ResponseRecorder) ErrorAnswer {
	t.Helper()
	var e ErrorAnswer
	dec := json.NewDecoder(w.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil || e.Error == "" || e.Code == "" {
		t.Fatalf("the body of a %d is no error: %v", w.Code, err)
	}
	return e
}

// checkHeaders tells what every answer must carry.
func checkHeaders(t testing.TB, h http.Header) {
	t.Helper()
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'; trusted-types procinsh",
		"Cache-Control":           "no-store",
		"Referrer-Policy":         "no-referrer",
		"X-Content-Type-Options":  "nosniff",
	} {
		if got := h[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for name := range h {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("there is a CORS header %s", name)
		}
	}
}

func TestErrorStatuses(t *testing.T) {
	s, _ := testServer(t, nil)
	me := own(t)
	gone := fmt.Sprintf("pid=%d&start_time_ticks=1", os.Getpid())
	tests := []struct {
		method, target string
		status         int
		code           string
	}{
		{"GET", "/api/processes/observation", 400, "missing_identity"},
		{"GET", "/api/processes/observation?pid=1", 400, "missing_identity"},
		{"GET", "/api/processes/observation?start_time_ticks=1", 400, "missing_identity"},
		{"GET", "/api/processes/observation?pid=0&start_time_ticks=1", 400, "invalid_pid"},
		{"GET", "/api/processes/observation?pid=-1&start_time_ticks=1", 400, "invalid_pid"},
		{"GET", "/api/processes/observation?pid=2147483648&start_time_ticks=1", 400, "invalid_pid"},
		{"GET", "/api/processes/observation?pid=x&start_time_ticks=1", 400, "invalid_pid"},
		{"GET", "/api/processes/observation?pid=%2B1&start_time_ticks=1", 400, "invalid_pid"},
		{"GET", "/api/processes/observation?pid=&start_time_ticks=1", 400, "invalid_pid"},
		{"GET", "/api/processes/observation?pid=1&start_time_ticks=18446744073709551616", 400, "invalid_start_time_ticks"},
		{"GET", "/api/processes/observation?pid=1&start_time_ticks=1.5", 400, "invalid_start_time_ticks"},
		{"GET", "/api/processes/observation?pid=1&pid=1&start_time_ticks=1", 400, "repeated_parameter"},
		{"GET", "/api/processes/observation?pid=1&start_time_ticks=1&start_time_ticks=1", 400, "repeated_parameter"},
		{"GET", "/api/processes/observation?pid=1;start_time_ticks=1", 400, "malformed_query"},
		{"GET", "/api/processes/observation?pid=%zz", 400, "malformed_query"},
		{"GET", "/api/processes?maps=all", 400, "invalid_maps"},
		{"GET", "/api/processes?maps=", 400, "invalid_maps"},
		{"GET", "/api/processes?maps=summary&maps=summary", 400, "repeated_parameter"},
		{"GET", "/api/processes?io=2", 400, "invalid_io"},
		{"GET", "/api/processes?io=1&io=1", 400, "repeated_parameter"},
		{"GET", "/api/processes/stream?maps=changed", 400, "invalid_maps"},
		{"GET", "/api/system/events?maps=changed", 400, "invalid_maps"},
		{"GET", "/api/system/events?delta=0", 400, "invalid_delta"},
		{"GET", "/api/system/events?delta=1&delta=1", 400, "repeated_parameter"},
		{"GET", "/api/system/topology?maps=all", 400, "invalid_maps"},
		{"POST", "/api/system/events", 405, "method_not_allowed"},
		{"HEAD", "/api/system/events", 405, ""},
		{"GET", "/api/processes/events?" + me + "&maps=summary", 400, "invalid_maps"},
		{"GET", "/api/processes/events", 400, "missing_identity"},
		{"GET", "/api/processes/memory?" + me, 400, "missing_address"},
		{"GET", "/api/processes/memory?" + me + "&address=", 400, "invalid_address"},
		{"GET", "/api/processes/memory?" + me + "&address=0x", 400, "invalid_address"},
		{"GET", "/api/processes/memory?" + me + "&address=ff", 400, "invalid_address"},
		{"GET", "/api/processes/memory?" + me + "&address=0x1_0", 400, "invalid_address"},
		{"GET", "/api/processes/memory?" + me + "&address=0x10000000000000000", 400, "invalid_address"},
		{"GET", "/api/processes/memory?" + me + "&address=18446744073709551616", 400, "invalid_address"},
		{"GET", "/api/processes/memory?" + me + "&address=1&address=1", 400, "repeated_parameter"},
		{"GET", "/api/processes/memory?" + me + "&address=0xffffffffffffffff&length=1", 400, "address_overflow"},
		{"GET", "/api/processes/memory?" + me + "&address=0xffffffffffffff00", 400, "address_overflow"},
		{"GET", "/api/processes/memory?" + me + "&address=1&length=0", 400, "invalid_length"},
		{"GET", "/api/processes/memory?" + me + "&address=1&length=65537", 400, "invalid_length"},
		{"GET", "/api/processes/memory?" + me + "&address=1&length=-1", 400, "invalid_length"},
		{"GET", "/api/processes/memory?" + me + "&address=1&length=", 400, "invalid_length"},
		{"GET", "/api/processes/memory?" + me + "&address=1&length=8&length=8", 400, "repeated_parameter"},
		{"GET", "/api/processes/memory?" + me + "&address=0&length=1", 422, "unmapped"},
		{"GET", "/api/processes/memory?" + me + "&address=0xffffffffffff0000&length=65535", 422, "unmapped"},
		{"GET", "/api/processes/observation?" + gone, 410, "process_gone"},
		{"GET", "/api/processes/threads?" + gone, 410, "process_gone"},
		{"GET", "/api/processes/maps?" + gone, 410, "process_gone"},
		{"GET", "/api/processes/memory?address=1&" + gone, 410, "process_gone"},
		{"GET", "/api/processes/fds?" + gone, 410, "process_gone"},
		{"GET", "/api/processes/holders", 400, "one_of_port_path_socket"},
		{"GET", "/api/processes/holders?port=1&socket=1", 400, "one_of_port_path_socket"},
		{"GET", "/api/processes/holders?port=1&path=", 400, "one_of_port_path_socket"},
		{"GET", "/api/processes/holders?port=1&port=1", 400, "repeated_parameter"},
		{"GET", "/api/processes/holders?port=0", 400, "invalid_port"},
		{"GET", "/api/processes/holders?port=65536", 400, "invalid_port"},
		{"GET", "/api/processes/holders?port=%2B80", 400, "invalid_port"},
		{"GET", "/api/processes/holders?port=", 400, "invalid_port"},
		{"GET", "/api/processes/holders?socket=0", 400, "invalid_socket"},
		{"GET", "/api/processes/holders?socket=-1", 400, "invalid_socket"},
		{"GET", "/api/processes/holders?socket=18446744073709551616", 400, "invalid_socket"},
		{"GET", "/api/processes/holders?path=", 400, "invalid_path"},
		{"GET", "/api/processes/holders?path=etc/passwd", 400, "invalid_path"},
		{"GET", "/api/processes/holders?path=/a%00b", 400, "invalid_path"},
		{"GET", "/api/processes/holders?path=/" + strings.Repeat("x", 4095), 400, "invalid_path"},
		{"GET", "/api/processes/holders/", 404, "not_found"},
		{"POST", "/api/processes/holders?port=1", 405, "method_not_allowed"},
		{"GET", "/api/processes/environment?" + gone, 410, "process_gone"},
		{"GET", "/api/processes/auxv?" + gone, 410, "process_gone"},
		{"GET", "/api/processes/signals?" + gone, 410, "process_gone"},
		{"GET", "/api/processes/context?" + gone, 410, "process_gone"},
		{"GET", "/api/processes/events?" + gone, 410, "process_gone"},
		{"GET", "/api", 404, "not_found"},
		{"GET", "/api/", 404, "not_found"},
		{"GET", "/api/processes/", 404, "not_found"},
		{"GET", "/api/processes/stacks", 400, "missing_identity"},
		{"GET", "/api/processes/stacks?" + gone, 410, "process_gone"},
		{"GET", "/api/processes/stacks?" + me + "&tid=2147483647", 410, "process_gone"},
		{"GET", "/api/processes/stacks?" + me + "&tid=x", 400, "invalid_tid"},
		{"GET", "/api/processes/stacks?" + me + "&tid=", 400, "invalid_tid"},
		{"GET", "/api/processes/stacks?" + me + "&tid=0", 400, "invalid_tid"},
		{"GET", "/api/processes/stacks?" + me + "&tid=-1", 400, "invalid_tid"},
		{"GET", "/api/processes/stacks?" + me + "&tid=2147483648", 400, "invalid_tid"},
		{"GET", "/api/processes/stacks?" + me + "&tid=1&tid=1", 400, "repeated_parameter"},
		{"POST", "/api/processes/snapshot", 415, "not_json"},
		{"GET", "/api/system/nothing", 404, "not_found"},
		{"GET", "/metrics/", 404, "not_found"},
		{"GET", "/nowhere", 404, "not_found"},
		{"GET", "/runs/web-1/log", 404, "not_found"},
		{"GET", "/index.html", 404, "not_found"},
		{"GET", "/README", 404, "not_found"},
		{"GET", "/licenses.txt", 404, "not_found"},
		{"GET", "/assets", 404, "not_found"},
		{"GET", "/assets/nothing.js", 404, "not_found"},
		{"GET", "/assets/app-X7Q2M5KD.js.gz", 404, "not_found"},
		{"GET", "/assets/../index.html", 404, "not_found"},
		{"GET", "//api/config", 404, "not_found"},
		{"GET", "/api/./config", 404, "not_found"},
		{"GET", "/process/", 404, "not_found"},
		{"GET", "/process/0", 404, "not_found"},
		{"GET", "/process/x", 404, "not_found"},
		{"GET", "/process/1/maps", 404, "not_found"},
		{"POST", "/nothing", 404, "not_found"},
		{"POST", "/", 405, "method_not_allowed"},
		{"PUT", "/process/1", 405, "method_not_allowed"},
		{"POST", "/api/processes", 405, "method_not_allowed"},
		{"DELETE", "/api/processes/memory?" + me, 405, "method_not_allowed"},
		{"OPTIONS", "/api/config", 405, "method_not_allowed"},
		{"POST", "/healthz", 405, "method_not_allowed"},
		{"POST", "/assets/plain.txt", 405, "method_not_allowed"},
		{"POST", "/api/processes/stream", 405, "method_not_allowed"},
		{"HEAD", "/api/processes/stream", 405, ""},
		{"HEAD", "/api/processes/events?" + me, 405, ""},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.target, func(t *testing.T) {
			r := request(tt.method, tt.target)
			w := do(s, r)
			if w.Code != tt.status {
				t.Fatalf("got %d %s, want %d", w.Code, w.Body, tt.status)
			}
			checkHeaders(t, w.Header())
			if ct := w.Header().Get("Content-Type"); ct != "application/json" {
				t.Errorf("Content-Type is %q", ct)
			}
			if tt.status == 405 {
				want := "GET, HEAD"
				if isStream(r.URL.Path) {
					want = "GET"
				}
				if got := w.Header().Get("Allow"); got != want {
					t.Errorf("Allow is %q, want %q", got, want)
				}
			}
			if tt.method == "HEAD" {
				if w.Body.Len() > 0 {
					t.Errorf("the answer to HEAD has a body: %s", w.Body)
				}
				return
			}
			if e := errorOf(t, w); e.Code != tt.code {
				t.Errorf("code is %s (%s), want %s", e.Code, e.Error, tt.code)
			}
		})
	}
}

// A parameter that nobody asks for is ignored, also when it is repeated.
// Whoever asks for one thread is told of the thread.
func TestStacksOfNoThread(t *testing.T) {
	s, _ := testServer(t, nil)
	w := do(s, request("GET", "/api/processes/stacks?"+own(t)+"&tid=2147483647"))
	if e := errorOf(t, w); w.Code != 410 || e.Code != "process_gone" || !strings.Contains(e.Error, "no such thread") {
		t.Errorf("%d %+v", w.Code, e)
	}
}

func TestUnknownParameter(t *testing.T) {
	s, _ := testServer(t, nil)
	if w := do(s, request("GET", "/api/processes/observation?x=1&x=2&maps=nonsense&"+own(t))); w.Code != 200 {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// Every one-shot answers with its contract type, to HEAD with the same headers.
func TestOneShots(t *testing.T) {
	s, _ := testServer(t, nil)
	buf := []byte("these bytes are read back")
	address := fmt.Sprintf("address=%p&length=%d", &buf[0], len(buf))
	var memory MemoryAnswer
	var observation Observation
	tests := []struct {
		path string
		into any
	}{
		{"/api/config", new(Config)},
		{"/api/processes", new([]ProcessSummary)},
		{"/api/processes?maps=summary&io=1", new([]ProcessSummary)},
		{"/api/system/totals", new(Totals)},
		{"/api/processes/observation?" + own(t), &observation},
		{"/api/processes/threads?" + own(t), new([]Thread)},
		{"/api/processes/maps?" + own(t), new(MapsAnswer)},
		{"/api/processes/memory?" + own(t) + "&" + address, &memory},
		{"/api/processes/fds?" + own(t), new(DescriptorsAnswer)},
		{"/api/processes/holders?port=1", new(HoldersAnswer)},
		{"/api/processes/holders?path=/dev/null", new(HoldersAnswer)},
		{"/api/processes/holders?socket=1", new(HoldersAnswer)},
		{"/api/processes/environment?" + own(t), new(EnvironmentAnswer)},
		{"/api/processes/auxv?" + own(t), new(AuxvAnswer)},
		{"/api/processes/signals?" + own(t), new(SignalsAnswer)},
		{"/api/processes/context?" + own(t), new(ContextAnswer)},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			w := do(s, request("GET", tt.path))
			if w.Code != 200 {
				t.Fatalf("got %d %s", w.Code, w.Body)
			}
			checkHeaders(t, w.Header())
			text := w.Body.Bytes()
			if w.Header().Get("Content-Length") != strconv.Itoa(len(text)) {
				t.Errorf("Content-Length is %s, the body has %d bytes", w.Header().Get("Content-Length"), len(text))
			}
			dec := json.NewDecoder(bytes.NewReader(text))
			dec.DisallowUnknownFields()
			if err := dec.Decode(tt.into); err != nil {
				t.Fatalf("%v in %s", err, text)
			}
			// Nothing of the type is missing: what was decoded gives the same bytes. A name
			// that is no UTF-8 has its escape in the text and U+FFFD itself once decoded.
			text = bytes.ReplaceAll(text, []byte(`\ufffd`), []byte("\ufffd"))
			same(t, bytes.TrimSuffix(text, []byte("\n")), tt.into)

			head := do(s, request("HEAD", tt.path))
			if head.Code != 200 || head.Body.Len() > 0 || head.Header().Get("Content-Type") != "application/json" || head.Header().Get("Content-Length") == "" {
				t.Errorf("HEAD gives %d %v with %d bytes", head.Code, head.Header(), head.Body.Len())
			}
		})
	}
	if want := fmt.Sprintf("%x", buf); memory.Bytes != want || memory.Partial {
		t.Errorf("memory is %+v, want bytes %s", memory, want)
	}
	if observation.CPUPercent != nil || observation.Rates != (Rates{}) {
		t.Errorf("one reading has rates: %+v", observation)
	}
}

func TestRawMemory(t *testing.T) {
	s, _ := testServer(t, nil)
	buf := []byte("raw bytes")
	target := fmt.Sprintf("/api/processes/memory?%s&address=%p&length=%d", own(t), &buf[0], len(buf))
	w := do(s, request("GET", target, "Accept", "application/octet-stream"))
	if w.Code != 200 || w.Body.String() != string(buf) || w.Header().Get("Content-Type") != "application/octet-stream" || w.Header().Get(partialHeader) != "" {
		t.Errorf("got %d %v %q", w.Code, w.Header(), w.Body)
	}
	if w := do(s, request("GET", target, "Accept", "application/octet-stream;q=0, */*")); w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("a client that refuses raw bytes gets %v", w.Header())
	}
	// Past the end of this mapping nothing is readable.
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	end := ""
	lines := strings.Split(string(text), "\n")
	for i, line := range lines[:len(lines)-2] {
		_, to, _ := strings.Cut(strings.Fields(line)[0], "-")
		if strings.Contains(line, " rw-p ") && !strings.HasPrefix(lines[i+1], to) {
			end = to
			break
		}
	}
	if end == "" {
		t.Fatal("no mapping with a gap behind it")
	}
	n, _ := strconv.ParseUint(end, 16, 64)
	w = do(s, request("GET", fmt.Sprintf("/api/processes/memory?%s&address=%d&length=64", own(t), n-16), "Accept", "application/octet-stream"))
	if w.Code != 200 || w.Body.Len() != 16 || w.Header().Get(partialHeader) != "true" {
		t.Errorf("across the end: %d, %d bytes, %v", w.Code, w.Body.Len(), w.Header())
	}
}

func TestGzip(t *testing.T) {
	s, _ := testServer(t, nil)
	tests := []struct {
		accept string
		packed bool
	}{
		{"", false},
		{"gzip", true},
		{"GZIP", true},
		{"x-gzip", true},
		{"deflate, gzip;q=0.5, br", true},
		{"gzip;q=0", false},
		{"gzip; q=0.0", false},
		{"gzip;q=2", false},
		{"gzip;q=x", false},
		{"*", true},
		{"*;q=0", false},
		{"gzip;q=0, *", false},
		{"*;q=0, gzip", true},
		{"identity", false},
		{"br", false},
	}
	for _, tt := range tests {
		t.Run(tt.accept, func(t *testing.T) {
			r := request("GET", "/api/config")
			if tt.accept != "" {
				r.Header.Set("Accept-Encoding", tt.accept)
			}
			w := do(s, r)
			if got := w.Header().Get("Content-Encoding") == "gzip"; got != tt.packed {
				t.Fatalf("Content-Encoding is %q", w.Header().Get("Content-Encoding"))
			}
			if w.Header().Get("Vary") != "Accept-Encoding" {
				t.Errorf("Vary is %q", w.Header().Values("Vary"))
			}
			var body io.Reader = w.Body
			if tt.packed {
				z, err := gzip.NewReader(w.Body)
				if err != nil {
					t.Fatal(err)
				}
				body = z
			}
			var c Config
			if err := json.NewDecoder(body).Decode(&c); err != nil || c.Version != "1.2" || c.Revision == nil || *c.Revision != "abc" {
				t.Errorf("%v, %+v", err, c)
			}
		})
	}
	r := request("GET", "/api/nothing", "Accept-Encoding", "gzip")
	if w := do(s, r); w.Header().Get("Content-Encoding") != "" {
		t.Error("a body under 1 KiB is compressed")
	}
}

func TestPages(t *testing.T) {
	s, _ := testServer(t, nil)
	const forever = "public, max-age=31536000, immutable"
	tests := []struct {
		path, accept          string
		body, kind, cache, ce string
	}{
		{"/runs", "", "<!doctype html>", "text/html; charset=utf-8", "no-store", ""},
		{"/runs/web-1", "gzip", "packed page", "text/html; charset=utf-8", "no-store", "gzip"},
		{"/", "", "<!doctype html>", "text/html; charset=utf-8", "no-store", ""},
		{"/", "gzip", "packed page", "text/html; charset=utf-8", "no-store", "gzip"},
		{"/process/17?start=5", "", "<!doctype html>", "text/html; charset=utf-8", "no-store", ""},
		{"/space?sel=17@5", "", "<!doctype html>", "text/html; charset=utf-8", "no-store", ""},
		{"/assets/app-X7Q2M5KD.js", "", "script", "text/javascript; charset=utf-8", forever, ""},
		{"/assets/app-X7Q2M5KD.js", "br, gzip", "packed script", "text/javascript; charset=utf-8", forever, "gzip"},
		{"/assets/base-ABCDEFGH.css", "gzip", "colours", "text/css; charset=utf-8", forever, ""},
		{"/licenses", "", "licences", "text/plain; charset=utf-8", "no-store", ""},
		{"/assets/plain.txt", "", "text", "text/plain; charset=utf-8", "no-store", ""},
	}
	for _, tt := range tests {
		t.Run(tt.path+" "+tt.accept, func(t *testing.T) {
			r := request("GET", tt.path)
			if tt.accept != "" {
				r.Header.Set("Accept-Encoding", tt.accept)
			}
			w := do(s, r)
			h := w.Header()
			if w.Code != 200 || w.Body.String() != tt.body || h.Get("Content-Type") != tt.kind || h.Get("Cache-Control") != tt.cache || h.Get("Content-Encoding") != tt.ce {
				t.Errorf("got %d %q %v", w.Code, w.Body, h)
			}
			policy := contentSecurityPolicy
			if strings.HasPrefix(tt.path, "/runs") {
				policy = strings.Replace(policy, "style-src 'self';", "style-src 'self' 'unsafe-inline';", 1)
			}
			if got := h.Values("Content-Security-Policy"); len(got) != 1 || got[0] != policy {
				t.Errorf("content security policy %q, want %q", got, policy)
			}
			r.Method = "HEAD"
			if head := do(s, r); head.Code != 200 || head.Body.Len() > 0 || head.Header().Get("Content-Length") != strconv.Itoa(len(tt.body)) {
				t.Errorf("HEAD gives %d %v", head.Code, head.Header())
			}
		})
	}
}

func TestPagesMissing(t *testing.T) {
	s, log := testServer(t, func(o *Options) { o.Pages = fstest.MapFS{"README": {}} })
	for range 3 {
		w := do(s, request("GET", "/"))
		if e := errorOf(t, w); w.Code != 500 || e.Code != "assets_missing" || !strings.Contains(e.Error, "./build.sh build") {
			t.Errorf("got %d %+v", w.Code, e)
		}
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
		t.Errorf("%d error lines, want 1:\n%s", n, log)
	}
	if strings.Contains(log.String(), "goroutine") {
		t.Error("a missing build is logged with a stack")
	}
}

// A panic is a 500 with its stack in the log, and costs nothing else.
func TestPanic(t *testing.T) {
	s, log := testServer(t, nil)
	s.route("GET /test/panic", func(*Server, http.ResponseWriter, *http.Request) error { panic("a mistake") })
	w := do(s, request("GET", "/test/panic?secret=1"))
	if e := errorOf(t, w); w.Code != 500 || e.Code != "internal" || strings.Contains(e.Error, "mistake ") {
		t.Errorf("got %d %+v", w.Code, e)
	}
	checkHeaders(t, w.Header())
	for _, want := range []string{"level=ERROR", "a mistake", "server_test.go", "path=/test/panic"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
	if strings.Contains(log.String(), "secret") {
		t.Error("the query is in the log")
	}
	if w := do(s, request("GET", "/healthz")); w.Code != 200 || w.Body.String() != "ok\n" {
		t.Errorf("afterwards: %d %q", w.Code, w.Body)
	}

	// Half an answer must not look whole: the connection is cut.
	s.route("GET /test/half", func(_ *Server, w http.ResponseWriter, _ *http.Request) error {
		w.Write([]byte("half"))
		panic("a mistake")
	})
	defer func() {
		if v := recover(); v != http.ErrAbortHandler {
			t.Errorf("panic with %v, want http.ErrAbortHandler", v)
		}
	}()
	do(s, request("GET", "/test/half"))
}

func TestHeavyRequestsWaitForTheirTurn(t *testing.T) {
	s, _ := testServer(t, nil)
	for range maxHeavyRequests {
		if err := s.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	w := do(s, request("GET", "/api/processes/maps?"+own(t)))
	if e := errorOf(t, w); w.Code != 429 || e.Code != "busy" || w.Header().Get("Retry-After") != "1" {
		t.Errorf("got %d %+v %v", w.Code, e, w.Header())
	}
	if d := time.Since(began); d < heavyTimeout {
		t.Errorf("refused after %v, want %v", d, heavyTimeout)
	}
	if w := do(s, request("GET", "/api/processes/observation?"+own(t))); w.Code != 200 {
		t.Errorf("a light request gets %d", w.Code)
	}
	time.AfterFunc(100*time.Millisecond, s.leave)
	if w := do(s, request("GET", "/api/processes/maps?"+own(t))); w.Code != 200 {
		t.Errorf("when a place becomes free: %d %s", w.Code, w.Body)
	}
}

func TestStopping(t *testing.T) {
	s, _ := testServer(t, nil)
	s.stop()
	for _, path := range []string{"/", "/api/config", "/api/processes", "/api/processes/stream", "/api/processes/events?" + own(t)} {
		if w := do(s, request("GET", path)); w.Code != 503 || errorOf(t, w).Code != "stopping" {
			t.Errorf("%s gives %d", path, w.Code)
		}
	}
}

func TestStatusOf(t *testing.T) {
	tests := []struct {
		err    error
		status int
		code   string
	}{
		{fmt.Errorf("read x: %w", proc.ErrGone), 410, "process_gone"},
		{fmt.Errorf("read x: %w", fs.ErrPermission), 422, "permission_denied"},
		{&fs.PathError{Op: "open", Path: "/proc/1/mem", Err: os.ErrPermission}, 422, "permission_denied"},
		{fmt.Errorf("read x: %w", proc.ErrUnmapped), 422, "unmapped"},
		{fmt.Errorf("read x: %w: it is big-endian", proc.ErrNotELF), 422, "not_elf"},
		{fmt.Errorf("read x: %w", fs.ErrNotExist), 422, "not_available"},
		{&fs.PathError{Op: "open", Path: "/proc/1", Err: syscall.EMFILE}, 422, "out_of_descriptors"},
		{fmt.Errorf("read x: %w", syscall.ENFILE), 422, "out_of_descriptors"},
		{watch.ErrFull, 429, "too_many_streams"},
		{watch.ErrStopping, 503, "stopping"},
		{&proc.ParseError{File: "stat"}, 500, "internal"},
		{&watch.PanicError{Value: "x"}, 500, "internal"},
		{io.ErrUnexpectedEOF, 500, "internal"},
		{badRequest("x", "y"), 400, "x"},
	}
	for _, tt := range tests {
		e := statusOf(tt.err)
		if e.status != tt.status || e.code != tt.code {
			t.Errorf("%v is %d %s, want %d %s", tt.err, e.status, e.code, tt.status, tt.code)
		}
		if tt.status == 429 && e.retryAfter == 0 {
			t.Errorf("%v has no Retry-After", tt.err)
		}
		if strings.Contains(e.message, "/proc/1/mem") {
			t.Errorf("the message tells internals: %s", e.message)
		}
	}
}

// A refusal says what would allow it, to who is refused.
func TestWhatAllows(t *testing.T) {
	for _, c := range []struct {
		name         string
		root, traces bool
		want, not    []string
	}{
		{"a user", false, false, []string{"start it as root", "owner", "CAP_SYS_PTRACE", "kernel.yama.ptrace_scope"}, nil},
		{"root", true, true, []string{"has CAP_SYS_PTRACE", "kernel.yama.ptrace_scope"}, []string{"as root"}},
		{"a user with the capability", false, true, []string{"has CAP_SYS_PTRACE"}, []string{"start it"}},
		{"root of a container", true, false, []string{"without CAP_SYS_PTRACE", "--cap-add"}, []string{"start it as root"}},
	} {
		got := whatAllows(c.root, c.traces)
		for _, w := range c.want {
			if !strings.Contains(got, w) {
				t.Errorf("%s is told %q, which lacks %q", c.name, got, w)
			}
		}
		for _, n := range c.not {
			if strings.Contains(got, n) {
				t.Errorf("%s is told %q", c.name, got)
			}
		}
	}
	hidden := statusOf(fmt.Errorf("open /proc/1: %w", proc.ErrHidden))
	if hidden.status != 422 || hidden.code != "permission_denied" || !strings.Contains(hidden.message, "hidepid") || !strings.Contains(hidden.message, "CAP_SYS_PTRACE") {
		t.Errorf("of a hidden process: %d %s %q", hidden.status, hidden.code, hidden.message)
	}
	if m := statusOf(fs.ErrPermission).message; !strings.HasSuffix(m, whatAllows(os.Geteuid() == 0, proc.MayTrace())) {
		t.Errorf("a refusal does not say what would allow it: %s", m)
	}
}

func TestRoutes(t *testing.T) {
	routes := Routes()
	if !slices.Contains(routes, Route{"GET", "/api/processes/memory"}) || !slices.Contains(routes, Route{"GET", "/{$}"}) {
		t.Errorf("routes are %v", routes)
	}
	s, _ := testServer(t, nil)
	for _, r := range routes {
		path := strings.NewReplacer("{$}", "", "{pid}", "1").Replace(r.Pattern)
		if w := do(s, request("PATCH", path)); w.Code != 405 {
			t.Errorf("%s: PATCH gives %d, want 405", path, w.Code)
		}
	}
}

func TestUnknownPeerIsWarnedOfOnce(t *testing.T) {
	s, log := testServer(t, func(o *Options) { o.NoAuth = false; o.AllowUIDs = []uint32{0} })
	broken := &conn{at: &place{addr: loopback}}
	broken.err = fmt.Errorf("ask: %w", os.ErrDeadlineExceeded)
	for range 3 {
		r := request("GET", "/api/config")
		w := do(s, r.WithContext(context.WithValue(r.Context(), connKey{}, broken)))
		if e := errorOf(t, w); w.Code != 403 || e.Code != "peer_not_allowed" {
			t.Errorf("got %d %+v", w.Code, e)
		}
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, log)
	}
	if w := do(s, request("GET", "/healthz")); w.Code != 200 {
		t.Errorf("healthz needs authentication: %d", w.Code)
	}
}
