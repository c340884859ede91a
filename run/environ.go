package run

import (
	"os"
	"slices"
	"strings"
)

// The marks that every process of a run inherits: the run's id, and which process
// launched it, as pid-start, so that equal ids of two servers stay apart.
const (
	markID    = "PROCINSH_RUN_ID"
	markOwner = "PROCINSH_RUN_OWNER"
)

// kept are the variables of the server that a command gets.
var kept = []string{"PATH", "HOME", "LANG", "TZ", "TERM", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
	"NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "USER", "LOGNAME", "SHELL"}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// refused are variables that make programs run code of whoever sets them.
var refused = []string{"BASH_ENV", "ENV", "NODE_OPTIONS", "NODE_PATH", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PERL5LIB", "PERL5OPT", "PERLLIB",
	"RUBYLIB", "RUBYOPT", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "IFS", "PS4", "PROMPT_COMMAND", "SHELLOPTS", "BASHOPTS", "GCONV_PATH",
	"LOCPATH", "NLSPATH", "GLIBC_TUNABLES", "DOTNET_STARTUP_HOOKS", markID, markOwner}

// environment is that of a command: what is kept of from, the user's own, extra, then
// the marks.
//
// Errors: bad_request for a name that cannot be one or is refused.
func environment(from []string, who account, extra map[string]string, more []string) ([]string, error) {
	values := map[string]string{"PATH": defaultPath}
	for _, line := range from {
		name, value, ok := strings.Cut(line, "=")
		if ok && (slices.Contains(kept, name) || strings.HasPrefix(name, "LC_")) {
			values[name] = value
		}
	}
	if who.uid != uint32(os.Geteuid()) {
		values["HOME"], values["USER"], values["LOGNAME"], values["SHELL"] = who.home, who.name, who.name, who.shell
	}
	for name, value := range extra {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00"):
			return nil, fail(CodeBadRequest, "%q cannot be the name or value of an environment variable.", name)
		case slices.Contains(refused, name) || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "BASH_FUNC_"):
			return nil, fail(CodeBadRequest, "The variable %s would change which code a program runs and cannot be set: set it inside the command.", name)
		}
		values[name] = value
	}
	for _, line := range more {
		name, value, _ := strings.Cut(line, "=")
		values[name] = value
	}
	list := make([]string, 0, len(values))
	for name, value := range values {
		if value != "" || name != "USER" && name != "LOGNAME" && name != "SHELL" && name != "HOME" {
			list = append(list, name+"="+value)
		}
	}
	slices.Sort(list)
	return list, nil
}
