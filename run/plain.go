package run

import (
	"strings"
	"unicode/utf8"
)

// Plain turns terminal output into text: escape sequences and control characters but
// newline and tab are removed, a line that a carriage return wrote over is what stood
// there last, and bytes that are no UTF-8 become U+FFFD. The zero Plain is ready.
// Not safe for concurrent use.
type Plain struct {
	line  []rune
	col   int
	state plainState
	arg   []byte // parameters of the control sequence under way
	rest  []byte // a UTF-8 sequence that is not whole yet
}

type plainState uint8

const (
	plainText   plainState = iota
	plainEscape            // after ESC
	plainCSI               // after ESC [
	plainString            // OSC, DCS, SOS, PM, APC: up to BEL or ESC \
	plainStringEscape
	plainCharset // after ESC and an intermediate byte
)

// maxPlainLine is how many characters of a line can still be written over.
const maxPlainLine = 65_536

// maxArguments is how many bytes of a control sequence are looked at.
const maxArguments = 64

// PlainText is the text of b.
func PlainText(b []byte) string {
	var p Plain
	return p.Write(b) + p.Flush()
}

// Write takes more output and returns the lines that are complete, each with its
// newline.
func (p *Plain) Write(b []byte) string {
	if len(p.rest) > 0 {
		b = append(p.rest, b...)
		p.rest = nil
	}
	if n := cutRune(b); n > 0 {
		p.rest = append([]byte(nil), b[len(b)-n:]...)
		b = b[:len(b)-n]
	}
	var out strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		b = b[n:]
		p.take(&out, r)
	}
	return out.String()
}

// Flush returns the line under way.
func (p *Plain) Flush() string {
	for range p.rest {
		p.put(utf8.RuneError)
	}
	s := string(p.line)
	p.line, p.col, p.rest = p.line[:0], 0, nil
	return s
}

func (p *Plain) take(out *strings.Builder, r rune) {
	switch p.state {
	case plainEscape:
		switch {
		case r == '[':
			p.state, p.arg = plainCSI, p.arg[:0]
		case r == ']' || r == 'P' || r == 'X' || r == '^' || r == '_':
			p.state = plainString
		case r >= ' ' && r <= '/':
			p.state = plainCharset
		default:
			p.state = plainText
			if r == '\n' {
				p.take(out, r)
			}
		}
	case plainCharset:
		if r < ' ' || r > '/' {
			p.state = plainText
		}
	case plainCSI:
		switch {
		case r >= '@' && r <= '~':
			p.state = plainText
			if r == 'K' {
				p.erase()
			}
		case r == 0x1b:
			p.state = plainEscape
		case r == '\n' || r == '\r':
			p.control(out, r)
		case r >= ' ' && r < '@' && len(p.arg) < maxArguments:
			p.arg = append(p.arg, byte(r))
		}
	case plainString:
		switch r {
		case 7, 0x9c:
			p.state = plainText
		case 0x1b:
			p.state = plainStringEscape
		}
	case plainStringEscape:
		p.state = plainString
		if r == '\\' {
			p.state = plainText
		}
	default:
		if r == 0x1b {
			p.state = plainEscape
			return
		}
		p.control(out, r)
	}
}

func (p *Plain) control(out *strings.Builder, r rune) {
	switch {
	case r == '\n':
		out.WriteString(string(p.line))
		out.WriteByte('\n')
		p.line, p.col = p.line[:0], 0
	case r == '\r':
		p.col = 0
	case r == '\t' || r >= ' ' && (r < 0x7f || r > 0x9f):
		if len(p.line) >= maxPlainLine && p.col >= len(p.line) {
			out.WriteString(string(p.line))
			p.line, p.col = p.line[:0], 0
		}
		p.put(r)
	}
}

func (p *Plain) put(r rune) {
	if p.col < len(p.line) {
		p.line[p.col] = r
	} else {
		p.line = append(p.line, r)
	}
	p.col++
}

// erase is CSI K: to the end of the line (0), to its begin (1), all of it (2).
func (p *Plain) erase() {
	switch string(p.arg) {
	case "", "0":
		p.line = p.line[:min(p.col, len(p.line))]
	case "1":
		for i := range p.line[:min(p.col, len(p.line))] {
			p.line[i] = ' '
		}
	case "2":
		for i := range p.line {
			p.line[i] = ' '
		}
		p.line = p.line[:min(p.col, len(p.line))]
	}
}
