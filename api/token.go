package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"
)

const (
	tokenCookie    = "procinsh_token"
	tokenParameter = "token" // of a page
)

// token is the secret that lets in whoever shows it. Only its digest is kept: it is
// compared without telling its length, and nothing that prints the server tells it.
// The zero token is shown by nobody.
type token struct{ digest *[sha256.Size]byte }

func newToken(text string) token {
	if text == "" {
		return token{}
	}
	d := sha256.Sum256([]byte(text))
	return token{&d}
}

// is takes the same time for every text of one length.
func (t token) is(text string) bool {
	d := sha256.Sum256([]byte(text))
	return t.digest != nil && subtle.ConstantTimeCompare(d[:], t.digest[:]) == 1
}

// bearer is the token in an Authorization header.
func bearer(r *http.Request) (string, bool) {
	v := r.Header["Authorization"]
	if len(v) != 1 {
		return "", false
	}
	scheme, text, _ := strings.Cut(v[0], " ")
	return strings.TrimLeft(text, " "), strings.EqualFold(scheme, "Bearer")
}

// shown tells whether a request has the token, in a header or as the cookie that
// giveCookie has set. Another server at another port of the same host sets a cookie of
// the same name, so any of several may be the one.
func (t token) shown(r *http.Request) bool {
	if text, ok := bearer(r); ok && t.is(text) {
		return true
	}
	for _, c := range r.CookiesNamed(tokenCookie) {
		if t.is(c.Value) {
			return true
		}
	}
	return false
}

// missing is the refusal of a request without the token, where nothing else counts.
func (t token) missing(r *http.Request) error {
	_, given := bearer(r)
	if _, ok := pageToken(r); given || ok {
		return &httpError{status: http.StatusUnauthorized, code: "token_invalid",
			message: "The token is not the one of this procinsh, which makes a new one at each start unless it has --token-file."}
	}
	return &httpError{status: http.StatusUnauthorized, code: "token_required",
		message: "Show the token: Authorization: Bearer TOKEN, or open a page with ?token=TOKEN once. The log of procinsh says where it is."}
}

// pageToken is the token in the address of a page.
func pageToken(r *http.Request) (string, bool) {
	if r.Method != http.MethodGet || !isPage(r.URL.Path) {
		return "", false
	}
	v := r.URL.Query()[tokenParameter]
	if len(v) != 1 {
		return "", false
	}
	return v[0], true
}

// giveCookie answers a page that was opened with the right token: a cookie, and the
// same address without it, so that it stays in no history and no bookmark.
func giveCookie(w http.ResponseWriter, r *http.Request, text string) {
	var rest []string
	for pair := range strings.SplitSeq(r.URL.RawQuery, "&") {
		key, _, _ := strings.Cut(pair, "=")
		if name, err := url.QueryUnescape(key); err == nil && name == tokenParameter || pair == "" {
			continue
		}
		rest = append(rest, pair)
	}
	to := url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: strings.Join(rest, "&")}
	http.SetCookie(w, &http.Cookie{Name: tokenCookie, Value: text, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Secure: connOf(r.Context()).at.tls})
	w.Header().Set("Location", to.RequestURI())
	send(w, r, http.StatusSeeOther, nil)
}
