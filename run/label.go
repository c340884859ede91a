package run

import (
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// maxLabel is how many characters a label has.
const maxLabel = 40

// interpreter tells whether a program runs a script, and its options that take the next
// word, that take code, and that name a module.
type interpreter struct{ value, code, module string }

var interpreters = map[string]interpreter{
	"node": {value: "-r --require --import --loader", code: "-e --eval -p --print"}, "bun": {code: "-e --eval -p --print"}, "deno": {},
	"tsx": {code: "-e --eval"}, "ts-node": {code: "-e --eval"},
	"python": {value: "-W -X", code: "-c", module: "-m"}, "pypy": {value: "-W -X", code: "-c", module: "-m"},
	"ruby": {value: "-I -r -C", code: "-e"}, "perl": {value: "-I", code: "-e -E"}, "php": {value: "-d", code: "-r"},
	"java": {value: "-cp -classpath --class-path -jar"}, "dotnet": {},
	"sh": {value: "-o", code: "-c"}, "bash": {value: "-o -O --rcfile --init-file", code: "-c"}, "dash": {value: "-o", code: "-c"}, "zsh": {value: "-o", code: "-c"},
	"ksh": {value: "-o", code: "-c"}, "fish": {code: "-c --command"}, "lua": {code: "-e"},
}

// label is a short name for a command: the program, and for an interpreter what it runs.
func label(argv []string) string {
	if len(argv) == 0 || argv[0] == "" {
		return ""
	}
	name := filepath.Base(strings.TrimPrefix(argv[0], "-"))
	text := name
	if i, ok := interpreters[strings.TrimRight(strings.TrimSuffix(strings.ToLower(name), ".exe"), "0123456789.")]; ok {
		if what := i.script(argv[1:]); what != "" {
			text += " " + what
		}
	}
	return shorten(text)
}

// script is what an interpreter runs: a file, "-m module", or the first word of code.
func (i interpreter) script(args []string) string {
	has := func(list, option string) bool {
		for o := range strings.FieldsSeq(list) {
			if o == option {
				return true
			}
		}
		return false
	}
	for k := 0; k < len(args); k++ {
		a := args[k]
		next := ""
		if k+1 < len(args) {
			next = args[k+1]
		}
		switch {
		case has(i.code, a):
			if f := strings.Fields(next); len(f) > 0 {
				return f[0]
			}
			return ""
		case has(i.module, a):
			return strings.TrimSpace("-m " + next)
		case a == "-jar":
			return filepath.Base(next)
		case has(i.value, a):
			k++
		case a == "--":
			if next != "" {
				return filepath.Base(next)
			}
			return ""
		case !strings.HasPrefix(a, "-"):
			return filepath.Base(a)
		}
	}
	return ""
}

func shorten(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if utf8.RuneCountInString(s) <= maxLabel {
		return s
	}
	return string([]rune(s)[:maxLabel-1]) + "…"
}

var shells = map[string]bool{"bash": true, "sh": true, "dash": true, "zsh": true, "fish": true, "ksh": true, "ash": true, "nu": true, "pwsh": true,
	"powershell": true, "cmd": true}

// isShell tells whether a process is a shell: by the file it runs, and by its command
// line only when that is unreadable. busybox is what it was called as.
func isShell(exe string, argv []string) bool {
	name := programName(exe)
	if name == "busybox" || exe == "" {
		if len(argv) == 0 {
			return false
		}
		name = programName(strings.TrimPrefix(argv[0], "-"))
		if name == "busybox" && len(argv) > 1 {
			name = programName(argv[1])
		}
	}
	return shells[name]
}

func programName(path string) string {
	if path == "" {
		return ""
	}
	return strings.TrimSuffix(strings.ToLower(filepath.Base(path)), ".exe")
}
