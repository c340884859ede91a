package api

import (
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"procinsh/watch"
)

// exposition writes metrics in the text format of Prometheus, version 0.0.4, or as
// OpenMetrics 1.0. The samples follow their family; names, labels and numbers are the
// same in both. A family without samples is left out.
//
// Source: Prometheus, "Exposition formats"; OpenMetrics 1.0, "Text format".
type exposition struct {
	b    []byte
	open bool // OpenMetrics

	name, kind, help string // of the family
	begun            bool   // its head is written
}

// The kinds of families.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
	info      = "info"
)

const (
	textType = "text/plain; version=0.0.4; charset=utf-8"
	openType = "application/openmetrics-text; version=1.0.0; charset=utf-8"
)

// suffix is what the samples of a kind have behind the name of their family.
func suffix(kind string) string {
	switch kind {
	case counter:
		return "_total"
	case info:
		return "_info"
	}
	return ""
}

// family begins the next one. The name is without the suffix of its kind.
func (e *exposition) family(name, kind, help string) {
	e.name, e.kind, e.help, e.begun = name, kind, help, false
}

func (e *exposition) head() {
	if e.begun {
		return
	}
	e.begun = true
	name, kind := e.name, e.kind
	if !e.open {
		name += suffix(kind)
		if kind == info {
			kind = gauge
		}
	}
	e.b = append(e.b, "# HELP "+name+" "...)
	e.b = appendEscaped(e.b, e.help, e.open)
	e.b = append(e.b, "\n# TYPE "+name+" "+kind+"\n"...)
}

// count writes a sample that is a whole number. Labels are pairs.
func (e *exposition) count(v uint64, labels ...string) {
	e.line(suffix(e.kind), labels)
	e.b = append(strconv.AppendUint(e.b, v, 10), '\n')
}

// value writes a sample.
func (e *exposition) value(v float64, labels ...string) {
	e.line(suffix(e.kind), labels)
	e.b = append(strconv.AppendFloat(e.b, v, 'g', -1, 64), '\n')
}

// durations writes a histogram, in seconds.
func (e *exposition) durations(c watch.DurationCounts, labels ...string) {
	var sum uint64
	with := append(labels[:len(labels):len(labels)], "le", "")
	for i, n := range c.Counts {
		sum += n
		with[len(with)-1] = "+Inf"
		if i < len(c.Bounds) {
			with[len(with)-1] = boundText(c.Bounds[i].Seconds())
		}
		e.line("_bucket", with)
		e.b = append(strconv.AppendUint(e.b, sum, 10), '\n')
	}
	e.line("_sum", labels)
	e.b = append(strconv.AppendFloat(e.b, c.Sum.Seconds(), 'g', -1, 64), '\n')
	e.line("_count", labels)
	e.b = append(strconv.AppendUint(e.b, sum, 10), '\n')
}

// boundText is a bound as OpenMetrics wants it: never a bare whole number.
func boundText(v float64) string {
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}

// line writes a sample up to its value.
func (e *exposition) line(suffix string, labels []string) {
	e.head()
	e.b = append(e.b, e.name+suffix...)
	for i := 0; i < len(labels); i += 2 {
		e.b = append(e.b, "{,"[min(i, 1)])
		e.b = append(e.b, labels[i]+`="`...)
		e.b = appendEscaped(e.b, labels[i+1], true)
		e.b = append(e.b, '"')
	}
	if len(labels) > 0 {
		e.b = append(e.b, '}')
	}
	e.b = append(e.b, ' ')
}

// end returns all of it.
func (e *exposition) end() []byte {
	if e.open {
		e.b = append(e.b, "# EOF\n"...)
	}
	return e.b
}

// appendEscaped appends text as a help text or, with quotes, as the value of a label.
// Bytes that are no UTF-8, and NUL, become U+FFFD.
func appendEscaped(b []byte, text string, quotes bool) []byte {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1, r == 0: // readers take NUL for the end
			b = append(b, "\uFFFD"...)
		case r == '\\':
			b = append(b, `\\`...)
		case r == '\n':
			b = append(b, `\n`...)
		case r == '"' && quotes:
			b = append(b, `\"`...)
		default:
			b = append(b, text[i:i+size]...)
		}
		i += size
	}
	return b
}

// acceptsOpenMetrics tells whether the client names a version of OpenMetrics that this
// is, and does not like plain text better.
func acceptsOpenMetrics(r *http.Request) bool {
	var open, text float64
	for _, line := range r.Header["Accept"] {
		for item := range strings.SplitSeq(line, ",") {
			name, q := quality(item)
			switch {
			case strings.EqualFold(name, "application/openmetrics-text"):
				if v, given := parameter(item, "version"); !given || strings.Trim(v, `"`) == "1.0.0" {
					open = max(open, q)
				}
			case strings.EqualFold(name, "text/plain"):
				text = max(text, q)
			}
		}
	}
	return open > 0 && open >= text
}
