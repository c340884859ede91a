package main

import (
	"bytes"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func noEnv(string) string { return "" }

func envOf(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestParseArgs(t *testing.T) {
	own := []uint32{0}
	if uid := uint32(os.Geteuid()); uid != 0 {
		own = append(own, uid)
	}
	base := options{listen: []address{{"tcp4", "127.0.0.1:8080"}}, interval: time.Second, uids: own, log: logFilter{level: slog.LevelInfo}}
	with := func(change func(*options)) options {
		o := base
		o.uids = slices.Clone(base.uids)
		change(&o)
		return o
	}
	tests := []struct {
		args string
		env  func(string) string
		want options
	}{
		{"", noEnv, base},
		{"serve", noEnv, base},
		{"serve --listen 127.0.0.1:9090", noEnv, with(func(o *options) { o.listen = []address{{"tcp4", "127.0.0.1:9090"}} })},
		{"--listen localhost:0 --listen unix:/run/p", noEnv, with(func(o *options) {
			o.listen = []address{{"tcp4", "127.0.0.1:0"}, {"tcp6", "[::1]:0"}, {"unix", "/run/p"}}
		})},
		{"--listen=[::1]:80", noEnv, with(func(o *options) { o.listen = []address{{"tcp6", "[::1]:80"}} })},
		{"--listen 0.0.0.0:80 --listen [::]:81 --listen :82 --listen 192.0.2.1:83 --listen [::ffff:192.0.2.1]:84", noEnv, with(func(o *options) {
			o.listen = []address{{"tcp4", "0.0.0.0:80"}, {"tcp6", "[::]:81"}, {"tcp", ":82"}, {"tcp4", "192.0.2.1:83"}, {"tcp4", "192.0.2.1:84"}}
		})},
		{"--allow-host proc.example --allow-host [2001:db8::1] --token-file /t --tls-cert c --tls-key k", noEnv, with(func(o *options) {
			o.allowHosts, o.tokenFile, o.tlsCert, o.tlsKey = []string{"proc.example", "2001:db8::1"}, "/t", "c", "k"
		})},
		{"--interval 250ms", noEnv, with(func(o *options) { o.interval = 250 * time.Millisecond })},
		{"--interval 60s", noEnv, with(func(o *options) { o.interval = time.Minute })},
		{"--allow-user nobody --allow-user 77", noEnv, with(func(o *options) { o.uids = append(o.uids, 65534, 77) })},
		{"--no-auth=false", noEnv, base},
		{"--listen unix:/" + strings.Repeat("x", 106), noEnv, with(func(o *options) { o.listen = []address{{"unix", "/" + strings.Repeat("x", 106)}} })},
		{"--no-auth", noEnv, with(func(o *options) { o.noAuth = true })},
		{"--log off", noEnv, with(func(o *options) { o.log = logFilter{level: levelOff} })},
		{"", envOf("SUDO_UID", "1000", "PROCINSH_LOG", "api=debug"), with(func(o *options) {
			o.uids = append(o.uids, 1000)
			o.log.packages = map[string]slog.Level{"api": slog.LevelDebug}
		})},
		{"--log warn", envOf("PROCINSH_LOG", "debug"), with(func(o *options) { o.log = logFilter{level: slog.LevelWarn} })},
		{"", envOf("SUDO_UID", "x"), base},
	}
	for _, tt := range tests {
		got, err := parseArgs(strings.Fields(tt.args), tt.env)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q gives %+v, %v, want %+v", tt.args, got, err, tt.want)
		}
	}
}

// A wrong command line is one line on stderr and status 2.
func TestWrongCommandLines(t *testing.T) {
	tests := []struct {
		args []string
		env  func(string) string
		want string
	}{
		{[]string{"--colour"}, noEnv, "unknown option --colour"},
		{[]string{"-x"}, noEnv, "unknown option --x"},
		{[]string{"docter"}, noEnv, `unknown command "docter"`},
		{[]string{"serve", "now"}, noEnv, `unexpected argument "now"`},
		{[]string{"--listen"}, noEnv, "option --listen needs a value"},
		{[]string{"--listen", "[fe80::1%lo]:80"}, noEnv, "an address with a zone"},
		{[]string{"--allow-host", "proc.example:80"}, noEnv, "not a host name without a port"},
		{[]string{"--allow-host", "http://proc.example"}, noEnv, "not a host name"},
		{[]string{"--allow-host", ""}, noEnv, "not a host name"},
		{[]string{"--allow-host", "[fe80::1%lo]"}, noEnv, "not a host name"},
		{[]string{"--tls-cert", "a.pem"}, noEnv, "--tls-cert and --tls-key go together"},
		{[]string{"--tls-key", "a.pem"}, noEnv, "--tls-cert and --tls-key go together"},
		{[]string{"--no-auth", "--token-file", "a"}, noEnv, "--no-auth asks for no token"},
		{[]string{"--listen", "example.org:80"}, noEnv, "not an IP address"},
		{[]string{"--listen", "127.0.0.1"}, noEnv, "not ADDRESS:PORT"},
		{[]string{"--listen", "127.0.0.1:http"}, noEnv, "the port"},
		{[]string{"--listen", "127.0.0.1:65536"}, noEnv, "the port"},
		{[]string{"--listen", "unix:"}, noEnv, "needs a path"},
		{[]string{"--interval", "99ms"}, noEnv, "100ms to 60s"},
		{[]string{"--interval", "61s"}, noEnv, "100ms to 60s"},
		{[]string{"--interval", "soon"}, noEnv, "100ms to 60s"},
		{[]string{"--allow-user", "no-such-user-here"}, noEnv, "no such user"},
		{[]string{"--allow-user", "4294967295"}, noEnv, "no such user"},
		{[]string{"--no-auth=perhaps"}, noEnv, `option --no-auth cannot be "perhaps": it takes no value`},
		{[]string{"--listen", "unix:/" + strings.Repeat("x", 107)}, noEnv, "longer than 107 bytes"},
		{[]string{"--log", "loud"}, noEnv, `unknown log level "loud"`},
		{[]string{"--log", "ap=debug"}, noEnv, `unknown log package "ap"`},
		{[]string{"--log", ""}, noEnv, "unknown log level"},
		{nil, envOf("PROCINSH_LOG", "x"), "PROCINSH_LOG: unknown log level"},
	}
	for _, tt := range tests {
		var out, errs bytes.Buffer
		status := run(tt.args, tt.env, &out, &errs)
		line := errs.String()
		if status != 2 || out.Len() > 0 || !strings.Contains(line, tt.want) || !strings.HasPrefix(line, "procinsh: ") || strings.Count(line, "\n") != 1 {
			t.Errorf("%q: status %d, stdout %q, stderr %q, want status 2 and one line with %q", tt.args, status, &out, line, tt.want)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	for args, want := range map[string]string{
		"--help": "Usage: procinsh", "-h": "Usage: procinsh", "serve --help": "Usage: procinsh", "--version": "procinsh unversioned",
	} {
		var out, errs bytes.Buffer
		if status := run(strings.Fields(args), noEnv, &out, &errs); status != 0 || errs.Len() > 0 || !strings.HasPrefix(out.String(), want) && !strings.Contains(out.String(), want) {
			t.Errorf("%s: status %d, stdout %q, stderr %q", args, status, &out, &errs)
		}
	}
	for option := range strings.FieldsSeq(help) {
		if strings.HasPrefix(option, "--") && option != "--help" && option != "--version" {
			_, err := parseArgs([]string{option}, noEnv)
			if err != nil && strings.Contains(err.Error(), "unknown option") {
				t.Errorf("the help names %s, which is unknown", option)
			}
		}
	}
}
