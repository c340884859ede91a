package api

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// The answer that holds a page's load event comes when nobody waits any more, when the
// server stops, or after 5 s.
func TestLoading(t *testing.T) {
	for _, tt := range []struct {
		name   string
		method string
		gives  time.Duration // up after; 0 for never
		want   time.Duration
	}{
		{"held", "GET", 0, maxLoading},
		{"let go", "GET", 300 * time.Millisecond, 300 * time.Millisecond},
		{"only asked", "HEAD", 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := testServer(t, nil)
			synctest.Test(t, func(t *testing.T) {
				r := request(tt.method, "/api/loading")
				if tt.gives > 0 {
					ctx, cancel := context.WithTimeout(r.Context(), tt.gives)
					defer cancel()
					r = r.WithContext(ctx)
				}
				began := time.Now()
				w := do(s, r)
				if took := time.Since(began); w.Code != 204 || w.Body.Len() != 0 || took != tt.want {
					t.Errorf("got %d %q after %v, want 204 after %v", w.Code, w.Body, took, tt.want)
				}
			})
		})
	}
}
