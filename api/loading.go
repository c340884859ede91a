package api

import (
	"net/http"
	"time"
)

// maxLoading is how long a page may keep its load event back.
const maxLoading = 5 * time.Second

// getLoading is GET /api/loading: an answer without content that comes when the
// client no longer waits for it, after 5 s or when the server stops. A page asks for
// it as a picture, which holds the browser's load event, and lets go of it when its
// first data is on screen.
func (s *Server) getLoading(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodHead {
		t := time.NewTimer(maxLoading)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.Context().Done():
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
