package rules

import (
	"os/exec"
	"regexp"
	"testing"
)

// ./build.sh run serves on 9090, and only elsewhere when it is told where.
func TestRunListens(t *testing.T) {
	function := regexp.MustCompile(`(?m)^default_listen\(\) .*$`).Find(read(t, "build.sh"))
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "--listen 127.0.0.1:9090\n"},
		{[]string{"--interval", "500ms"}, "--listen 127.0.0.1:9090\n"},
		{[]string{"--listen", "127.0.0.1:1"}, ""},
		{[]string{"--no-auth", "--listen=unix:/s"}, ""},
		{[]string{"-listen", "localhost:1"}, ""},
		{[]string{"--allow-user", "x--listen y"}, "--listen 127.0.0.1:9090\n"},
	} {
		script := "set -euo pipefail\n" + string(function) + "\ndefault_listen \"$@\""
		out, err := exec.Command("bash", append([]string{"-c", script, "build.sh"}, c.args...)...).CombinedOutput()
		if err != nil || string(out) != c.want {
			t.Errorf("%q: %q, %v, want %q", c.args, out, err, c.want)
		}
	}
}
