package run

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// key is what a terminal sends for a key: a byte, or a control sequence that modifiers
// are written into.
type key struct {
	text   string // sent as it is when it is not ""
	letter byte   // CSI letter: cursor keys, home, end, F1 to F4
	number int    // CSI number ~
}

var keyNames = map[string]key{
	"enter": {text: "\r"}, "return": {text: "\r"}, "tab": {text: "\t"}, "escape": {text: "\x1b"}, "esc": {text: "\x1b"},
	"space": {text: " "}, "bspace": {text: "\x7f"}, "backspace": {text: "\x7f"},
	"up": {letter: 'A'}, "down": {letter: 'B'}, "right": {letter: 'C'}, "left": {letter: 'D'}, "home": {letter: 'H'}, "end": {letter: 'F'},
	"insert": {number: 2}, "delete": {number: 3}, "pageup": {number: 5}, "pagedown": {number: 6},
	"f1": {letter: 'P'}, "f2": {letter: 'Q'}, "f3": {letter: 'R'}, "f4": {letter: 'S'}, "f5": {number: 15}, "f6": {number: 17},
	"f7": {number: 18}, "f8": {number: 19}, "f9": {number: 20}, "f10": {number: 21}, "f11": {number: 23}, "f12": {number: 24},
	"kp0": {text: "0"}, "kp1": {text: "1"}, "kp2": {text: "2"}, "kp3": {text: "3"}, "kp4": {text: "4"}, "kp5": {text: "5"}, "kp6": {text: "6"},
	"kp7": {text: "7"}, "kp8": {text: "8"}, "kp9": {text: "9"}, "kpenter": {text: "\r"}, "kpplus": {text: "+"}, "kpminus": {text: "-"},
	"kpmultiply": {text: "*"}, "kpdivide": {text: "/"}, "kpdecimal": {text: "."},
}

// modifiers as xterm counts them: 1 plus these.
const (
	modShift = 1
	modMeta  = 2
	modCtrl  = 4
)

// encodeKeys returns what a terminal would send: literal text, then hex bytes, then
// named keys. application is the cursor mode that the program switched on (DECCKM).
//
// Errors: unknown_key when nothing could be sent at all; else unknown names and bad hex
// are warnings.
func encodeKeys(literal string, hexBytes, names []string, application bool) (out []byte, warnings []string, err error) {
	out = append(out, literal...)
	for _, h := range hexBytes {
		b, err := hex.DecodeString(strings.TrimPrefix(h, "0x"))
		if err != nil || len(b) == 0 {
			warnings = append(warnings, fmt.Sprintf("%q is no hex byte and was left out", h))
			continue
		}
		out = append(out, b...)
	}
	for _, name := range names {
		b, ok := encodeKey(name, application)
		if !ok {
			warnings = append(warnings, fmt.Sprintf("key %q is unknown and was left out", name))
			continue
		}
		out = append(out, b...)
	}
	if len(out) == 0 && len(warnings) > 0 {
		return nil, nil, fail(CodeUnknownKey, "Nothing was sent: %s.", strings.Join(warnings, "; "))
	}
	return out, warnings, nil
}

func encodeKey(name string, application bool) ([]byte, bool) {
	mods, rest := 0, name
	for {
		if r, ok := strings.CutPrefix(rest, "^"); ok && utf8.RuneCountInString(r) == 1 {
			mods, rest = mods|modCtrl, r
			break
		}
		if len(rest) < 3 || rest[1] != '-' {
			break
		}
		switch rest[0] {
		case 'C', 'c':
			mods |= modCtrl
		case 'M', 'm':
			mods |= modMeta
		case 'S', 's':
			mods |= modShift
		default:
			return nil, false
		}
		rest = rest[2:]
	}
	k, named := keyNames[strings.ToLower(rest)]
	if !named {
		if r, n := utf8.DecodeRuneInString(rest); r == utf8.RuneError || n != len(rest) || r < ' ' {
			return nil, false
		}
		k = key{text: rest}
	}
	if k.text == "" {
		return k.sequence(mods, application), true
	}
	text := k.text
	if mods&modShift != 0 {
		if strings.EqualFold(rest, "tab") {
			text = "\x1b[Z"
		} else {
			text = strings.ToUpper(text)
		}
	}
	if mods&modCtrl != 0 {
		c, ok := controlByte(text)
		if !ok {
			return nil, false
		}
		text = string([]byte{c})
	}
	if mods&modMeta != 0 {
		text = "\x1b" + text
	}
	return []byte(text), true
}

// sequence is the control sequence of a key that has one, xterm's way.
func (k key) sequence(mods int, application bool) []byte {
	switch {
	case k.number != 0 && mods == 0:
		return fmt.Appendf(nil, "\x1b[%d~", k.number)
	case k.number != 0:
		return fmt.Appendf(nil, "\x1b[%d;%d~", k.number, 1+mods)
	case mods != 0:
		return fmt.Appendf(nil, "\x1b[1;%d%c", 1+mods, k.letter)
	case application || k.letter >= 'P':
		return []byte{0x1b, 'O', k.letter}
	}
	return []byte{0x1b, '[', k.letter}
}

// controlByte is what a key gives with Ctrl held down.
func controlByte(text string) (byte, bool) {
	if len(text) != 1 {
		return 0, false
	}
	switch c := text[0]; {
	case c >= 'a' && c <= 'z':
		return c - 'a' + 1, true
	case c >= '@' && c <= '_':
		return c - '@', true
	case c == ' ':
		return 0, true
	case c == '?':
		return 0x7f, true
	case c == '\r' || c == '\t' || c == 0x1b:
		return c, true
	case c == 0x7f:
		return 8, true
	}
	return 0, false
}

// paste is text as a terminal pastes it. In brackets the program can tell it from
// typing; the closing bracket cannot be part of the text.
func paste(text string, bracketed bool) []byte {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\r"), "\n", "\r")
	if !bracketed {
		return []byte(text)
	}
	for strings.Contains(text, "\x1b[201~") {
		text = strings.ReplaceAll(text, "\x1b[201~", "")
	}
	return []byte("\x1b[200~" + text + "\x1b[201~")
}

// watchTerminal follows what a program asks its terminal for.
type watchTerminal struct {
	pending     []byte
	application bool // cursor keys send ESC O, DECCKM
}

// maxPending is how much of a control sequence is kept between two readings.
const maxPending = 32

// take looks at output and returns what a terminal would answer: the cursor's position,
// which is not tracked, so that it is the top left corner, and that it is well.
func (w *watchTerminal) take(b []byte) (answer []byte) {
	b = append(w.pending, b...)
	w.pending = nil
	for i := 0; i < len(b); i++ {
		if b[i] != 0x1b {
			continue
		}
		if i+1 == len(b) {
			w.pending = []byte{0x1b}
			return answer
		}
		if b[i+1] != '[' {
			continue
		}
		end := i + 2
		for end < len(b) && end < i+maxPending && (b[end] < '@' || b[end] > '~') && b[end] >= ' ' {
			end++
		}
		if end == len(b) {
			if end < i+maxPending {
				w.pending = append([]byte(nil), b[i:]...)
			}
			return answer
		}
		switch string(b[i+2 : end+1]) {
		case "?1h":
			w.application = true
		case "?1l":
			w.application = false
		case "6n":
			answer = append(answer, "\x1b[1;1R"...)
		case "5n":
			answer = append(answer, "\x1b[0n"...)
		}
	}
	return answer
}
