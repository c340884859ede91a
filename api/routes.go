package api

import (
	"net/http"
	"path"
	"strings"
)

// Route is a method and a pattern that the server answers.
type Route struct{ Method, Pattern string }

type handler func(*Server, http.ResponseWriter, *http.Request) error

// routes are all paths but the assets, which are added by file name. A GET answers
// HEAD too, except for the streams: to those HEAD is refused, as it must not open one.
var routes = []struct {
	method  string
	pattern string
	stream  bool
	handle  handler
}{
	{"GET", "/{$}", false, (*Server).listPage},
	{"GET", "/process/{pid}", false, (*Server).processPage},
	{"GET", "/space", false, (*Server).spacePage},
	{"GET", "/licenses", false, (*Server).licensesPage},
	{"GET", "/runs", false, (*Server).runsPage},
	{"GET", "/runs/{id}", false, (*Server).runsPage},
	{"GET", "/api/config", false, (*Server).getConfig},
	{"GET", "/api/loading", false, (*Server).getLoading},
	{"GET", "/api/processes", false, (*Server).getProcesses},
	{"GET", "/api/processes/stream", true, (*Server).streamProcesses},
	{"GET", "/api/processes/events", true, (*Server).streamProcess},
	{"GET", "/api/processes/observation", false, (*Server).getObservation},
	{"GET", "/api/processes/threads", false, (*Server).getThreads},
	{"GET", "/api/processes/maps", false, (*Server).getMaps},
	{"GET", "/api/processes/memory", false, (*Server).getMemory},
	{"GET", "/api/processes/fds", false, (*Server).getDescriptors},
	{"GET", "/api/processes/holders", false, (*Server).getHolders},
	{"GET", "/api/processes/environment", false, (*Server).getEnvironment},
	{"GET", "/api/processes/auxv", false, (*Server).getAuxv},
	{"GET", "/api/processes/signals", false, (*Server).getSignals},
	{"GET", "/api/processes/context", false, (*Server).getContext},
	{"GET", "/api/processes/stacks", false, (*Server).getStacks},
	{"POST", "/api/processes/snapshot", false, (*Server).postSnapshot},
	{"GET", "/api/system/totals", false, (*Server).getTotals},
	{"GET", "/api/system/events", true, (*Server).streamSystem},
	{"GET", "/api/system/topology", false, (*Server).getTopology},
	{"GET", "/api/system/status", false, (*Server).getStatus},
	{"POST", "/api/runs", false, runsHandler((*Server).postRun)},
	{"GET", "/api/runs", false, runsHandler((*Server).getRuns)},
	{"DELETE", "/api/runs", false, runsHandler((*Server).deleteRuns)},
	{"GET", "/api/runs/events", true, runsHandler((*Server).streamRuns)},
	{"GET", "/api/runs/capabilities", false, runsHandler((*Server).getRunCapabilities)},
	{"GET", "/api/runs/{id}", false, runsHandler((*Server).getRun)},
	{"DELETE", "/api/runs/{id}", false, runsHandler((*Server).deleteRun)},
	{"GET", "/api/runs/{id}/processes", false, runsHandler((*Server).getRunProcesses)},
	{"POST", "/api/runs/{id}/processes", false, runsHandler((*Server).postRunProcess)},
	{"POST", "/api/runs/{id}/processes/{process}/stop", false, runsHandler((*Server).postRunStop)},
	{"GET", "/api/runs/{id}/output", false, runsHandler((*Server).getRunOutput)},
	{"GET", "/api/runs/{id}/log", false, runsHandler((*Server).getRunLog)},
	{"POST", "/api/runs/{id}/input", false, runsHandler((*Server).postRunInput)},
	{"POST", "/api/runs/{id}/resize", false, runsHandler((*Server).postRunResize)},
	{"POST", "/api/runs/{id}/stop", false, runsHandler((*Server).postRunStop)},
	{"GET", "/api/scopes/{scope}", false, runsHandler((*Server).getScope)},
	{"GET", "/api/scopes/{scope}/processes", false, runsHandler((*Server).getScopeProcesses)},
	{"POST", "/api/scopes/{scope}/stop", false, runsHandler((*Server).postScopeStop)},
	{"GET", "/metrics", false, (*Server).getMetrics},
	{"GET", healthPath, false, (*Server).getHealth},
}

const healthPath = "/healthz"

// Routes lists every route of the API and the pages, without the assets.
func Routes() []Route {
	list := make([]Route, len(routes))
	for i, r := range routes {
		list[i] = Route{r.method, r.pattern}
	}
	return list
}

// isPage tells whether a path is one that people open.
func isPage(path string) bool {
	return path == "/" || path == "/space" || path == "/licenses" || path == "/runs" || strings.HasPrefix(path, "/runs/") ||
		strings.HasPrefix(path, "/process/")
}

func isStream(path string) bool {
	for _, r := range routes {
		if r.stream && r.pattern == path {
			return true
		}
	}
	return false
}

func (s *Server) route(pattern string, h handler) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		w.(*response).err = h(s, w, r)
	})
}

func refuseHead(*Server, http.ResponseWriter, *http.Request) error {
	return &httpError{status: http.StatusMethodNotAllowed, code: "method_not_allowed", allow: "GET",
		message: "A stream can only be asked for with GET."}
}

// routed returns the error for a path or a method that has no route. The mux would
// answer those in plain text, and a path that is not clean with a redirect.
func (s *Server) routed(r *http.Request) error {
	notFound := &httpError{status: http.StatusNotFound, code: "not_found", message: "There is nothing at this path."}
	if p := r.URL.Path; p == "" || p[0] != '/' || path.Clean(p) != p || r.Method == http.MethodConnect {
		return notFound
	}
	h, pattern := s.mux.Handler(r)
	if pattern != "" {
		return nil
	}
	probe := discard{header: http.Header{}}
	h.ServeHTTP(&probe, r)
	if probe.status != http.StatusMethodNotAllowed {
		return notFound
	}
	allow := probe.header.Get("Allow")
	if isStream(r.URL.Path) {
		allow = http.MethodGet
	}
	return &httpError{status: http.StatusMethodNotAllowed, code: "method_not_allowed", allow: allow,
		message: "This path answers " + allow + " only."}
}

// discard learns status and headers of the mux's own answers.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }
