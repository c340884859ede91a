package api

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// pages are the compiled pages and what belongs to them.
type pages struct {
	fs     fs.FS
	assets map[string]assetFile // by path below the root
}

type assetFile struct {
	contentType string
	hashed      bool // its name changes with its content
	packed      bool // there is a .gz beside it
}

// contentTypes are fixed: what a host has in /etc/mime.types changes nothing.
var contentTypes = map[string]string{
	".css":   "text/css; charset=utf-8",
	".html":  "text/html; charset=utf-8",
	".ico":   "image/x-icon",
	".js":    "text/javascript; charset=utf-8",
	".json":  "application/json",
	".map":   "application/json",
	".png":   "image/png",
	".svg":   "image/svg+xml",
	".txt":   "text/plain; charset=utf-8",
	".woff2": "font/woff2",
}

// hashedName is a name with a content hash: app-X7Q2M5KD.js.
var hashedName = regexp.MustCompile(`-[A-Z0-9]{8}\.[A-Za-z.]+$`)

// findPages lists the files. A name of an unknown kind is left out, such as the
// README that stands there before the first build.
func findPages(files fs.FS) (pages, error) {
	p := pages{fs: files, assets: map[string]assetFile{}}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		contentType, known := contentTypes[path.Ext(name)]
		if !known || strings.ContainsAny(name, "{}") {
			return nil
		}
		_, err = fs.Stat(files, name+".gz")
		p.assets[name] = assetFile{contentType, hashedName.MatchString(path.Base(name)), err == nil}
		return nil
	})
	if err != nil {
		return pages{}, fmt.Errorf("list pages: %w", err)
	}
	return p, nil
}

const (
	pageFile     = "index.html" // of every page; its script looks at the path
	licensesFile = "licenses.txt"
)

func (s *Server) listPage(w http.ResponseWriter, r *http.Request) error {
	return s.file(w, r, pageFile)
}

// spacePage serves the page of the host as a whole.
func (s *Server) spacePage(w http.ResponseWriter, r *http.Request) error {
	return s.file(w, r, pageFile)
}

// licensesPage serves the licences of what is linked and bundled.
func (s *Server) licensesPage(w http.ResponseWriter, r *http.Request) error {
	return s.file(w, r, licensesFile)
}

// runsPage serves the page of all runs and of one, which is there without --runs too and
// says that they are off. Its terminal makes style elements of its own: this page alone
// may have them.
func (s *Server) runsPage(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Security-Policy", runsSecurityPolicy)
	return s.file(w, r, pageFile)
}

// processPage serves the page of one process, which finds out itself whether the
// process is there.
func (s *Server) processPage(w http.ResponseWriter, r *http.Request) error {
	if n, err := strconv.ParseUint(r.PathValue("pid"), 10, 31); err != nil || n == 0 {
		return &httpError{status: http.StatusNotFound, code: "not_found", message: "A process page is /process/ and a PID."}
	}
	return s.file(w, r, pageFile)
}

func (s *Server) asset(w http.ResponseWriter, r *http.Request) error {
	return s.file(w, r, strings.TrimPrefix(r.URL.Path, "/"))
}

func (s *Server) file(w http.ResponseWriter, r *http.Request, name string) error {
	asset, ok := s.pages.assets[name]
	if !ok {
		return errAssetsMissing
	}
	h := w.Header()
	if asset.hashed {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	h.Set("Content-Type", asset.contentType)
	if asset.packed {
		h.Add("Vary", "Accept-Encoding")
		if acceptsGzip(r) {
			h.Set("Content-Encoding", "gzip")
			name += ".gz"
		}
	}
	body, err := fs.ReadFile(s.pages.fs, name)
	if err != nil {
		h.Set("Cache-Control", "no-store")
		return errors.Join(errAssetsMissing, err)
	}
	send(w, r, http.StatusOK, body)
	return nil
}

var errAssetsMissing = &httpError{status: http.StatusInternalServerError, code: "assets_missing",
	message: "This binary was built without its pages: build it with ./build.sh build."}
