package api

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
)

const testToken = "pbG9vc2UtbGlwcy1zaW5rLXNoaXBzLTEyMzQ1Njc4OQ"

var elsewhere = &place{addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 8080}}

// from is a request on a connection that came in at a place, of a user when the place
// is local.
func from(at *place, uid uint32, method, target string, header ...string) *http.Request {
	r := request(method, target, header...)
	if a, ok := at.addr.(*net.TCPAddr); ok {
		r.Host = a.String()
	}
	return r.WithContext(context.WithValue(r.Context(), connKey{}, &conn{at: at, uid: uid}))
}

func TestToken(t *testing.T) {
	here := &place{addr: loopback}
	const none, peer, required, invalid = "", "peer_not_allowed", "token_required", "token_invalid"
	bearer := func(s string) []string { return []string{"Authorization", s} }
	cookie := func(s string) []string { return []string{"Cookie", s} }
	tests := []struct {
		name   string
		at     *place
		uid    uint32
		method string
		target string
		header []string
		want   string
	}{
		{"allowed user without it", here, 1, "GET", "/api/config", nil, none},
		{"allowed user with a wrong one", here, 1, "GET", "/api/config", bearer("Bearer x"), none},
		{"other user without it", here, 2, "GET", "/api/config", nil, peer},
		{"other user with a wrong one", here, 2, "GET", "/api/config", bearer("Bearer x"), peer},
		{"other user with it", here, 2, "GET", "/api/config", bearer("Bearer " + testToken), none},
		{"elsewhere without it", elsewhere, 1, "GET", "/api/config", nil, required},
		{"elsewhere, a page without it", elsewhere, 1, "GET", "/", nil, required},
		{"elsewhere, a file without it", elsewhere, 1, "GET", "/assets/plain.txt", nil, required},
		{"elsewhere, a path that is not there", elsewhere, 1, "GET", "/none", nil, required},
		{"elsewhere, root's number counts for nothing", elsewhere, 0, "GET", "/api/config", nil, required},
		{"elsewhere, a snapshot", elsewhere, 0, "POST", "/api/processes/snapshot", nil, required},
		{"elsewhere, a stream", elsewhere, 0, "GET", "/api/processes/stream", nil, required},
		{"elsewhere, runs", elsewhere, 0, "GET", "/api/runs", nil, required},
		{"elsewhere, a launch", elsewhere, 0, "POST", "/api/runs", nil, required},
		{"elsewhere, probe", elsewhere, 2, "GET", "/healthz", nil, none},
		{"in a header", elsewhere, 2, "GET", "/api/config", bearer("Bearer " + testToken), none},
		{"scheme in another case", elsewhere, 2, "GET", "/api/config", bearer("bearer  " + testToken), none},
		{"another scheme", elsewhere, 2, "GET", "/api/config", bearer("Basic " + testToken), required},
		{"no scheme", elsewhere, 2, "GET", "/api/config", bearer(testToken), required},
		{"wrong", elsewhere, 2, "GET", "/api/config", bearer("Bearer " + testToken[1:]), invalid},
		{"longer", elsewhere, 2, "GET", "/api/config", bearer("Bearer " + testToken + "x"), invalid},
		{"empty", elsewhere, 2, "GET", "/api/config", bearer("Bearer "), invalid},
		{"two headers", elsewhere, 2, "GET", "/api/config", append(bearer("Bearer "+testToken), bearer("Bearer "+testToken)...), required},
		{"as a cookie", elsewhere, 2, "GET", "/api/config", cookie("procinsh_token=" + testToken), none},
		{"as one of two cookies", elsewhere, 2, "GET", "/api/config", cookie("procinsh_token=x; procinsh_token=" + testToken), none},
		{"as another cookie", elsewhere, 2, "GET", "/api/config", cookie("token=" + testToken), required},
		{"in the query of the API", elsewhere, 2, "GET", "/api/config?token=" + testToken, nil, required},
		{"in the query of a file", elsewhere, 2, "GET", "/assets/plain.txt?token=" + testToken, nil, required},
		{"in the query of a page, wrong", elsewhere, 2, "GET", "/?token=x", nil, invalid},
		{"in the query of a page, twice", elsewhere, 2, "GET", "/?token=" + testToken + "&token=x", nil, required},
		{"in the query of a page that is not there", elsewhere, 2, "GET", "/space/x?token=" + testToken, nil, required},
		{"in the query of a HEAD", elsewhere, 2, "HEAD", "/?token=" + testToken, nil, required},
	}
	s, log := testServer(t, func(o *Options) { o.NoAuth, o.AllowUIDs, o.Token = false, []uint32{0, 1}, testToken })
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := do(s, from(tt.at, tt.uid, tt.method, tt.target, tt.header...))
			checkHeaders(t, w.Header())
			if tt.want == none {
				if w.Code != 200 {
					t.Errorf("got %d", w.Code)
				}
				return
			}
			want := http.StatusUnauthorized
			if tt.want == peer {
				want = http.StatusForbidden
			}
			if w.Code != want || (w.Header().Get("WWW-Authenticate") != "") != (want == http.StatusUnauthorized) {
				t.Errorf("got %d, %v", w.Code, w.Header())
			}
			if tt.method == "HEAD" {
				return
			}
			if e := errorOf(t, w); e.Code != tt.want {
				t.Errorf("got %+v, want %s", e, tt.want)
			}
		})
	}
	if strings.Contains(log.String(), testToken) {
		t.Errorf("the token is in the log:\n%s", log)
	}
}

// Without a token nobody shows it, whatever he sends.
func TestNoToken(t *testing.T) {
	s, _ := testServer(t, func(o *Options) { o.NoAuth = false })
	for _, header := range [][]string{{"Authorization", "Bearer "}, {"Cookie", "procinsh_token="}} {
		if w := do(s, from(elsewhere, 0, "GET", "/api/config", header...)); w.Code != 401 {
			t.Errorf("%v: got %d", header, w.Code)
		}
	}
	if w := do(s, from(elsewhere, 0, "GET", "/?token=")); w.Code != 401 {
		t.Errorf("an empty token in the query: %d", w.Code)
	}
}

// A page that is opened with the token gives it as a cookie and shows itself without.
func TestSignIn(t *testing.T) {
	s, _ := testServer(t, func(o *Options) { o.NoAuth, o.Token = false, testToken })
	tests := []struct{ target, location string }{
		{"/?token=" + testToken, "/"},
		{"/process/7?start=9&token=" + testToken + "&x=%2F&y", "/process/7?start=9&x=%2F&y"},
		{"/space?%74oken=" + testToken + "&q=a+b", "/space?q=a+b"},
	}
	for _, tls := range []bool{false, true} {
		for _, tt := range tests {
			w := do(s, from(&place{elsewhere.addr, tls}, 0, "GET", tt.target, "Sec-Fetch-Site", "none"))
			want := "procinsh_token=" + testToken + "; Path=/; HttpOnly; SameSite=Strict"
			if tls {
				want = "procinsh_token=" + testToken + "; Path=/; HttpOnly; Secure; SameSite=Strict"
			}
			if got := w.Header()["Set-Cookie"]; w.Code != 303 || w.Header().Get("Location") != tt.location || len(got) != 1 || got[0] != want {
				t.Errorf("%s: got %d %v", tt.target, w.Code, w.Header())
			}
			checkHeaders(t, w.Header())
		}
	}
	// The guard stands before it.
	if w := do(s, from(elsewhere, 0, "GET", "/?token="+testToken, "Origin", "http://evil.example")); w.Code != 403 || w.Header()["Set-Cookie"] != nil {
		t.Errorf("from another origin: %d %v", w.Code, w.Header())
	}
}

func FuzzSignIn(f *testing.F) {
	f.Add("token=x&a=b")
	f.Add("&&a&token&%74oken=1")
	f.Add("a=%zz;token=")
	f.Fuzz(func(t *testing.T, query string) {
		r := from(elsewhere, 0, "GET", "/")
		r.URL.RawQuery = query
		w := discard{header: http.Header{}}
		giveCookie(&w, r, "secret")
		to := w.header.Get("Location")
		if len(to) > len(query)+2 || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") {
			t.Fatalf("%q leads to %q", query, to)
		}
		if back, err := http.NewRequest("GET", to, nil); err == nil && back.URL.Query().Has(tokenParameter) {
			t.Fatalf("%q leads to %q, with a token", query, to)
		}
	})
}
