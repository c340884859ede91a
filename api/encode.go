package api

import (
	"math"
	"strconv"
	"unicode/utf8"

	"procinsh/proc"
)

// Hand-written JSON for the answers that are long: encoding/json takes two to
// three times as long for a list of 5,000 processes. Each append function writes
// the bytes that encoding/json, without its escapes for HTML, writes for the
// contract type; the tests compare the two.

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Bytes that are no UTF-8 become U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= 0x20 && c != '"' && c != '\\' {
				i++
				continue
			}
			b = append(b, s[from:i]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\b':
				b = append(b, '\\', 'b')
			case '\f':
				b = append(b, '\\', 'f')
			case '\n':
				b = append(b, '\\', 'n')
			case '\r':
				b = append(b, '\\', 'r')
			case '\t':
				b = append(b, '\\', 't')
			default:
				b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			from = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b = append(b, s[from:i]...)
			b = append(b, `\ufffd`...)
			from = i + size
		case r == '\u2028', r == '\u2029':
			b = append(b, s[from:i]...)
			b = append(b, '\\', 'u', '2', '0', '2', hexDigits[r&15])
			from = i + size
		}
		i += size
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}

func appendNullableString(b []byte, s *string) []byte {
	if s == nil {
		return append(b, "null"...)
	}
	return appendString(b, *s)
}

func appendOptString(b []byte, o proc.Opt[string]) []byte {
	s, ok := o.Get()
	if !ok {
		return append(b, "null"...)
	}
	return appendString(b, s)
}

// appendStrings appends a list of strings, null for nil.
func appendStrings(b []byte, list []string) []byte {
	if list == nil {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, s)
	}
	return append(b, ']')
}

// appendFloat appends a number in the shortest form that reads back to the same
// value. What is no number is unknown.
func appendFloat(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(b, "null"...)
	}
	if f == 0 && !math.Signbit(f) { // most processes of a list
		return append(b, '0')
	}
	// The form of ECMAScript's number to string, as encoding/json has it.
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		b = strconv.AppendFloat(b, f, 'e', -1, 64)
		if n := len(b); n >= 4 && b[n-4] == 'e' && b[n-3] == '-' && b[n-2] == '0' { // e-09 is e-9
			b[n-2] = b[n-1]
			b = b[:n-1]
		}
		return b
	}
	return strconv.AppendFloat(b, f, 'f', -1, 64)
}

func appendOptFloat(b []byte, o proc.Opt[float64]) []byte {
	f, ok := o.Get()
	if !ok {
		return append(b, "null"...)
	}
	return appendFloat(b, f)
}

func appendInt(b []byte, v int64) []byte   { return strconv.AppendInt(b, v, 10) }
func appendUint(b []byte, v uint64) []byte { return strconv.AppendUint(b, v, 10) }

func appendOptUint(b []byte, o proc.Opt[uint64]) []byte {
	v, ok := o.Get()
	if !ok {
		return append(b, "null"...)
	}
	return strconv.AppendUint(b, v, 10)
}

// appendOptID appends a 64-bit id as a decimal string.
func appendOptID(b []byte, o proc.Opt[uint64]) []byte {
	v, ok := o.Get()
	if !ok {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = strconv.AppendUint(b, v, 10)
	return append(b, '"')
}

func appendBool(b []byte, v bool) []byte { return strconv.AppendBool(b, v) }

func appendOptBool(b []byte, o proc.Opt[bool]) []byte {
	v, ok := o.Get()
	if !ok {
		return append(b, "null"...)
	}
	return strconv.AppendBool(b, v)
}

// appendAddress appends "0x" and 16 digits, quoted.
func appendAddress(b []byte, v uint64) []byte {
	b = append(b, '"', '0', 'x')
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, hexDigits[v>>shift&15])
	}
	return append(b, '"')
}

// appendOffset appends "0x" and as many digits as needed, quoted.
func appendOffset(b []byte, v uint64) []byte {
	b = append(b, '"', '0', 'x')
	b = strconv.AppendUint(b, v, 16)
	return append(b, '"')
}

// appendHex appends raw bytes, quoted.
func appendHex(b, raw []byte) []byte {
	b = append(b, '"')
	for _, c := range raw {
		b = append(b, hexDigits[c>>4], hexDigits[c&15])
	}
	return append(b, '"')
}

func appendIdentity(b []byte, id proc.ID) []byte {
	b = append(b, `{"pid":`...)
	b = appendInt(b, int64(id.PID))
	b = append(b, `,"start_time_ticks":`...)
	b = appendUint(b, id.StartTicks)
	return append(b, '}')
}

func appendOptIdentity(b []byte, o proc.Opt[proc.ID]) []byte {
	id, ok := o.Get()
	if !ok {
		return append(b, "null"...)
	}
	return appendIdentity(b, id)
}

// appendState appends the letter of stat as a string.
func appendState(b []byte, state byte) []byte { return appendString(b, string(rune(state))) }

// appendList appends a list whose items are appended by item.
func appendList[T any](b []byte, list []T, item func([]byte, *T) []byte) []byte {
	b = append(b, '[')
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = item(b, &list[i])
	}
	return append(b, ']')
}
