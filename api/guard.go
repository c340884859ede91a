package api

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// contentSecurityPolicy lets a page load its own files and nothing else;
// runsSecurityPolicy adds style elements made by scripts.
const (
	contentSecurityPolicy = policyStart + "style-src 'self'" + policyEnd
	runsSecurityPolicy    = policyStart + "style-src 'self' 'unsafe-inline'" + policyEnd

	policyStart = "default-src 'none'; script-src 'self'; "
	policyEnd   = "; img-src 'self' data:; connect-src 'self'; worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'; trusted-types procinsh"
)

// setHeaders sets what every answer carries, refusals included.
func setHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", contentSecurityPolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
}

// A page of another origin can make a browser send requests here, and a name of
// its own can be made to mean 127.0.0.1 (rebinding). Both show in the headers that
// a page cannot set; guard refuses them before anybody is asked who they are.
func (s *Server) guard(r *http.Request) error {
	at := connOf(r.Context()).at
	if !at.hostAllowed(r.Host, s.hosts) {
		return &httpError{status: http.StatusForbidden, code: "host_not_allowed",
			message: "The Host header does not name the address that procinsh listens on: " + at.advice()}
	}
	if v, ok := r.Header["Origin"]; ok && (len(v) != 1 || v[0] != at.scheme()+"://"+r.Host) {
		return &httpError{status: http.StatusForbidden, code: "origin_not_allowed",
			message: "Requests from pages of another origin are refused."}
	}
	if !fetchAllowed(r) {
		return &httpError{status: http.StatusForbidden, code: "fetch_site_not_allowed",
			message: "Requests that another site makes are refused; only a link to a page may be followed."}
	}
	return nil
}

// hostAllowed tells whether Host names the place: its port, and its literal address,
// localhost where that is one's own machine, any literal address where all are
// listened on, or one of hosts. Only a DNS name can be made to mean another machine.
func (p *place) hostAllowed(host string, hosts []string) bool {
	name, port, ok := splitHost(host, p.defaultPort())
	if !ok {
		return false
	}
	named := slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, name) })
	localhost := strings.EqualFold(name, "localhost")
	switch a := p.addr.(type) {
	case *net.UnixAddr:
		return localhost || named
	case *net.TCPAddr:
		ip := a.AddrPort().Addr().Unmap()
		if port != a.Port {
			return false
		}
		if ip.IsUnspecified() {
			_, err := netip.ParseAddr(name)
			return localhost || named || err == nil
		}
		return localhost && ip.IsLoopback() || named || name == ip.String()
	}
	return false
}

// ValidHost tells whether name can stand in a Host header: a DNS name, or a literal
// address without brackets, and no port.
func ValidHost(name string) bool {
	if a, err := netip.ParseAddr(name); err == nil {
		return a.Zone() == ""
	}
	got, _, ok := splitHost(name, 80)
	return ok && got == name
}

// splitHost takes a Host header apart; without a port otherwise is meant. An IPv6
// address stands in brackets there, and only there; name has none.
func splitHost(host string, otherwise int) (name string, port int, ok bool) {
	rest := host
	if strings.HasPrefix(host, "[") {
		end := strings.IndexByte(host, ']')
		if end < 0 {
			return "", 0, false
		}
		name, rest = host[1:end], host[end+1:]
		if a, err := netip.ParseAddr(name); err != nil || !a.Is6() || a.Zone() != "" {
			return "", 0, false
		}
	} else {
		name, rest = host, ""
		if i := strings.IndexByte(host, ':'); i >= 0 {
			name, rest = host[:i], host[i:]
		}
	}
	if name == "" || strings.ContainsAny(name, "@/?#\\ ") {
		return "", 0, false
	}
	if rest == "" {
		return name, otherwise, true
	}
	digits := rest[1:]
	n, err := strconv.ParseUint(digits, 10, 16)
	if rest[0] != ':' || err != nil || n == 0 || digits[0] == '0' {
		return "", 0, false
	}
	return name, int(n), true
}

// fetchAllowed judges Sec-Fetch-Site: a browser that sends it tells who asks.
func fetchAllowed(r *http.Request) bool {
	v, ok := r.Header["Sec-Fetch-Site"]
	if !ok {
		return true
	}
	if len(v) != 1 {
		return false
	}
	switch v[0] {
	case "same-origin", "none":
		return true
	case "cross-site", "same-site":
		return r.Method == http.MethodGet && isPage(r.URL.Path) &&
			only(r.Header["Sec-Fetch-Mode"], "navigate") && only(r.Header["Sec-Fetch-Dest"], "document")
	}
	return false
}

func only(values []string, want string) bool { return len(values) == 1 && values[0] == want }
