package proc

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

const (
	maxListCommandLine = 4096    // bytes of a command line in the list
	maxCommandLine     = 2 << 20 // bytes of a whole one: ARG_MAX with the usual 8 MiB stack
)

// manyEmpty is from how many empty arguments on, with nothing between them, they
// are taken for the padding of a title.
const manyEmpty = 8

// readCommandLine returns the arguments of the process, and whether they were
// cut: at maxListCommandLine bytes, or at maxCommandLine when whole is set.
// Kernel threads and processes that have no arguments give an empty list.
//
// Source: /proc/PID/cmdline, proc_pid_cmdline(5).
func (p *Process) readCommandLine(whole bool) (args []string, truncated bool, err error) {
	max := maxListCommandLine
	if whole {
		max = maxCommandLine
	}
	raw, more, err := p.readFileMax("cmdline", nil, max)
	if err != nil {
		return nil, false, err
	}
	return parseCommandLine(raw, more), more, nil
}

// parseCommandLine splits at the NUL that ends each argument; the empty piece
// after the last is none, empty arguments are. A title that the program wrote
// over its arguments is one string without its padding.
//
// The kernel ends a title that fills the place of the arguments without a NUL,
// and leaves the NULs or blanks after a shorter one. That looks like empty
// arguments: they are padding when nothing but they follow a first string that
// holds a blank, as titles do and program names do not, or when they are many.
//
// With cut, raw is the beginning of a longer text.
func parseCommandLine(raw []byte, cut bool) []string {
	if cut {
		raw = wholeRunes(raw)
	}
	args := []string{}
	first := bytes.IndexByte(raw, 0)
	if first < 0 {
		if len(raw) == 0 {
			return args
		}
		return append(args, string(trimTitle(raw)))
	}
	padding := len(raw) - 1 - first // bytes after the NUL of the first string
	if first > 0 && len(bytes.TrimRight(raw[first:], "\x00")) == 0 {
		blank := bytes.IndexByte(raw[:first], ' ') >= 0
		if blank || padding >= manyEmpty {
			return append(args, string(trimTitle(raw[:first])))
		}
	}
	all := string(bytes.TrimSuffix(raw, []byte{0})) // one piece of memory for all
	args = make([]string, 0, strings.Count(all, "\x00")+1)
	for {
		arg, rest, more := strings.Cut(all, "\x00")
		args = append(args, arg)
		if !more {
			return args
		}
		all = rest
	}
}

// trimTitle cuts blanks at the end, but leaves a title of blanks alone.
func trimTitle(b []byte) []byte {
	if t := bytes.TrimRight(b, " \x00"); len(t) > 0 {
		return t
	}
	return b
}

// wholeRunes cuts a UTF-8 sequence that has lost its end.
func wholeRunes(b []byte) []byte {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}
