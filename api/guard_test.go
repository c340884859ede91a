package api

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestGuard(t *testing.T) {
	tcp := func(address string, port int) *place {
		return &place{addr: &net.TCPAddr{IP: net.ParseIP(address), Port: port}}
	}
	overTLS := func(p *place) *place { return &place{p.addr, true} }
	v4, v6, port80 := &place{addr: loopback}, tcp("::1", 8080), tcp("127.0.0.1", 80)
	unix := &place{addr: &net.UnixAddr{Name: "/run/p.sock", Net: "unix"}}
	everywhere, everywhere4, one := tcp("::", 8080), tcp("0.0.0.0", 8080), tcp("192.0.2.7", 8080)
	safe, safe443 := overTLS(everywhere), overTLS(tcp("192.0.2.7", 443))
	const ok, host, origin, fetch = "", "host_not_allowed", "origin_not_allowed", "fetch_site_not_allowed"
	navigation := []string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	with := func(a ...string) []string { return append(a, navigation...) }
	tests := []struct {
		name    string
		at      *place
		method  string
		path    string
		host    string
		headers []string
		want    string
	}{
		{"bound address", v4, "GET", "/", "127.0.0.1:8080", nil, ok},
		{"localhost", v4, "GET", "/", "localhost:8080", nil, ok},
		{"localhost in capitals", v4, "GET", "/", "LocalHost:8080", nil, ok},
		{"v6", v6, "GET", "/", "[::1]:8080", nil, ok},
		{"localhost on v6", v6, "GET", "/", "localhost:8080", nil, ok},
		{"port 80 left out", port80, "GET", "/", "127.0.0.1", nil, ok},
		{"port 80 given", port80, "GET", "/", "localhost:80", nil, ok},
		{"socket file", unix, "GET", "/", "localhost", nil, ok},
		{"socket file, any port", unix, "GET", "/", "localhost:1234", nil, ok},
		{"no address known", &place{addr: &net.UDPAddr{}}, "GET", "/", "127.0.0.1:8080", nil, host},
		{"missing", v4, "GET", "/", "", nil, host},
		{"wrong port", v4, "GET", "/", "127.0.0.1:8081", nil, host},
		{"no port", v4, "GET", "/", "127.0.0.1", nil, host},
		{"empty port", v4, "GET", "/", "127.0.0.1:", nil, host},
		{"port with a zero before", v4, "GET", "/", "127.0.0.1:08080", nil, host},
		{"port too large", v4, "GET", "/", "127.0.0.1:73616", nil, host},
		{"signed port", v4, "GET", "/", "127.0.0.1:+8080", nil, host},
		{"name that resolves here", v4, "GET", "/", "evil.example:8080", nil, host},
		{"name that begins alike", v4, "GET", "/", "localhost.evil.example:8080", nil, host},
		{"name with a dot behind", v4, "GET", "/", "localhost.:8080", nil, host},
		{"other loopback address", v4, "GET", "/", "127.0.0.2:8080", nil, host},
		{"v6 on v4", v4, "GET", "/", "[::1]:8080", nil, host},
		{"v6 without brackets", v6, "GET", "/", "::1:8080", nil, host},
		{"v6 in another form", v6, "GET", "/", "[0:0:0:0:0:0:0:1]:8080", nil, host},
		{"v6 with a zone", v6, "GET", "/", "[::1%25lo]:8080", nil, host},
		{"v6, open bracket", v6, "GET", "/", "[::1", nil, host},
		{"v4 in brackets", v4, "GET", "/", "[127.0.0.1]:8080", nil, host},
		{"short v4", v4, "GET", "/", "127.1:8080", nil, host},
		{"number", v4, "GET", "/", "2130706433:8080", nil, host},
		{"user", v4, "GET", "/", "me@127.0.0.1:8080", nil, host},
		{"user that looks like a host", v4, "GET", "/", "localhost:8080@evil.example", nil, host},
		{"path", v4, "GET", "/", "localhost:8080/x", nil, host},
		{"socket file, address", unix, "GET", "/", "127.0.0.1", nil, host},
		{"socket file, other name", unix, "GET", "/", "evil.example", nil, host},
		{"allowed name", v4, "GET", "/", "proc.example:8080", nil, ok},
		{"allowed name in capitals", v4, "GET", "/", "Proc.Example:8080", nil, ok},
		{"allowed name, wrong port", v4, "GET", "/", "proc.example:8081", nil, host},
		{"name below an allowed one", v4, "GET", "/", "a.proc.example:8080", nil, host},
		{"allowed name on a socket file", unix, "GET", "/", "proc.example", nil, ok},
		{"allowed address", v4, "GET", "/", "[2001:db8::5]:8080", nil, ok},
		{"allowed name, everywhere", everywhere, "GET", "/", "proc.example:8080", nil, ok},
		{"everywhere, by v4", everywhere, "GET", "/", "192.0.2.7:8080", nil, ok},
		{"everywhere, by v6", everywhere, "GET", "/", "[2001:db8::7]:8080", nil, ok},
		{"everywhere, localhost", everywhere, "GET", "/", "localhost:8080", nil, ok},
		{"everywhere in v4", everywhere4, "GET", "/", "127.0.0.1:8080", nil, ok},
		{"everywhere, by a name", everywhere, "GET", "/", "evil.example:8080", nil, host},
		{"everywhere, by a name of digits", everywhere, "GET", "/", "192.0.2.7.evil.example:8080", nil, host},
		{"everywhere, short v4", everywhere, "GET", "/", "127.1:8080", nil, host},
		{"everywhere, wrong port", everywhere, "GET", "/", "192.0.2.7:80", nil, host},
		{"everywhere, missing", everywhere, "GET", "/", "", nil, host},
		{"one address", one, "GET", "/", "192.0.2.7:8080", nil, ok},
		{"one address, by localhost", one, "GET", "/", "localhost:8080", nil, host},
		{"one address, by another", one, "GET", "/", "192.0.2.8:8080", nil, host},
		{"TLS, port left out", safe443, "GET", "/", "192.0.2.7", nil, ok},
		{"TLS, port given", safe443, "GET", "/", "192.0.2.7:443", nil, ok},
		{"TLS, another port left out", safe, "GET", "/", "192.0.2.7", nil, host},
		{"health check is guarded", v4, "GET", "/healthz", "evil.example:8080", nil, host},

		{"own origin", v4, "GET", "/api/config", "localhost:8080", []string{"Origin", "http://localhost:8080"}, ok},
		{"own origin on a socket file", unix, "GET", "/api/config", "localhost", []string{"Origin", "http://localhost"}, ok},
		{"origin by the other name", v4, "GET", "/api/config", "localhost:8080", []string{"Origin", "http://127.0.0.1:8080"}, origin},
		{"https origin", v4, "GET", "/api/config", "localhost:8080", []string{"Origin", "https://localhost:8080"}, origin},
		{"own origin over TLS", safe, "GET", "/api/config", "192.0.2.7:8080", []string{"Origin", "https://192.0.2.7:8080"}, ok},
		{"own origin over TLS without a port", safe443, "GET", "/api/config", "192.0.2.7", []string{"Origin", "https://192.0.2.7"}, ok},
		{"plain origin over TLS", safe, "GET", "/api/config", "192.0.2.7:8080", []string{"Origin", "http://192.0.2.7:8080"}, origin},
		{"origin of an allowed name", everywhere, "POST", "/api/config", "proc.example:8080", []string{"Origin", "http://proc.example:8080"}, ok},
		{"null origin", v4, "GET", "/api/config", "localhost:8080", []string{"Origin", "null"}, origin},
		{"empty origin", v4, "GET", "/api/config", "localhost:8080", []string{"Origin", ""}, origin},
		{"foreign origin", v4, "POST", "/api/config", "localhost:8080", []string{"Origin", "http://evil.example"}, origin},
		{"origin with a slash", v4, "GET", "/", "localhost:8080", []string{"Origin", "http://localhost:8080/"}, origin},
		{"two origins", v4, "GET", "/", "localhost:8080", []string{"Origin", "http://localhost:8080", "Origin", "http://localhost:8080"}, origin},

		{"same origin", v4, "GET", "/api/config", "localhost:8080", []string{"Sec-Fetch-Site", "same-origin"}, ok},
		{"typed address", v4, "GET", "/", "localhost:8080", []string{"Sec-Fetch-Site", "none"}, ok},
		{"followed link", v4, "GET", "/", "localhost:8080", with("Sec-Fetch-Site", "cross-site"), ok},
		{"followed link to a process", v4, "GET", "/process/7", "localhost:8080", with("Sec-Fetch-Site", "same-site"), ok},
		{"followed link to a run", v4, "GET", "/runs/web", "localhost:8080", with("Sec-Fetch-Site", "same-site"), ok},
		{"followed link to the space", v4, "GET", "/space", "localhost:8080", with("Sec-Fetch-Site", "same-site"), ok},
		{"followed link to the API", v4, "GET", "/api/processes", "localhost:8080", with("Sec-Fetch-Site", "cross-site"), fetch},
		{"followed link to an asset", v4, "GET", "/assets/plain.txt", "localhost:8080", with("Sec-Fetch-Site", "cross-site"), fetch},
		{"form", v4, "POST", "/", "localhost:8080", with("Sec-Fetch-Site", "cross-site"), fetch},
		{"frame", v4, "GET", "/", "localhost:8080", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, fetch},
		{"image", v4, "GET", "/", "localhost:8080", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, fetch},
		{"fetch", v4, "GET", "/", "localhost:8080", []string{"Sec-Fetch-Site", "cross-site"}, fetch},
		{"unknown site", v4, "GET", "/", "localhost:8080", with("Sec-Fetch-Site", "else"), fetch},
		{"empty site", v4, "GET", "/", "localhost:8080", []string{"Sec-Fetch-Site", ""}, fetch},
		{"two sites", v4, "GET", "/", "localhost:8080", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Site", "none"}, fetch},
	}
	// The guard stands before everything: the server has a peer who is not allowed.
	s, _ := testServer(t, func(o *Options) { o.NoAuth, o.AllowHosts = false, []string{"proc.example", "2001:db8::5"} })
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(tt.method, tt.path, tt.headers...)
			r.Host = tt.host
			r = r.WithContext(context.WithValue(r.Context(), connKey{}, &conn{at: tt.at}))
			got := ok
			if err := s.guard(r); err != nil {
				got = statusOf(err).code
			}
			if got != tt.want {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
			if tt.want == ok {
				return
			}
			w := do(s, r)
			if e := errorOf(t, w); w.Code != 403 || e.Code != tt.want {
				t.Errorf("the server says %d %+v", w.Code, e)
			}
			checkHeaders(t, w.Header())
		})
	}
}

func FuzzSplitHost(f *testing.F) {
	for _, s := range []string{"", "localhost", "localhost:80", "[::1]:8080", "[::1", "a:b:c", "@:1", "[]:1", ":1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, host string) {
		name, port, ok := splitHost(host, 80)
		if !ok {
			if name != "" || port != 0 {
				t.Fatalf("%q is malformed, but %q %d", host, name, port)
			}
			return
		}
		if name == "" || port < 1 || port > 65535 || len(name) > len(host) {
			t.Fatalf("%q is %q %d", host, name, port)
		}
		if (&place{addr: loopback}).hostAllowed(host, nil) && name != "127.0.0.1" && len(name) != len("localhost") {
			t.Fatalf("%q is let in", host)
		}
		everywhere := place{addr: &net.TCPAddr{IP: net.IPv6zero, Port: port}}
		if _, err := netip.ParseAddr(name); err != nil && !strings.EqualFold(name, "localhost") && everywhere.hostAllowed(host, nil) {
			t.Fatalf("%q is let in by a name", host)
		}
	})
}
