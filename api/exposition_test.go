package api

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"procinsh/watch"
)

const expositionText = `# HELP x_build_info What "this" is.
# TYPE x_build_info gauge
x_build_info{version="1\"2\\3\n4"} 1
# HELP x_seconds_total One\\two.
# TYPE x_seconds_total counter
x_seconds_total 0.5
# HELP x_took_seconds How long.
# TYPE x_took_seconds histogram
x_took_seconds_bucket{a="b",le="5e-05"} 1
x_took_seconds_bucket{a="b",le="1.0"} 1
x_took_seconds_bucket{a="b",le="+Inf"} 2
x_took_seconds_sum{a="b"} 2.00001
x_took_seconds_count{a="b"} 2
# HELP x_fds Descriptors.
# TYPE x_fds gauge
x_fds{a="",b="` + "\uFFFD" + `"} 18446744073709551615
`

const expositionOpen = `# HELP x_build What \"this\" is.
# TYPE x_build info
x_build_info{version="1\"2\\3\n4"} 1
# HELP x_seconds One\\two.
# TYPE x_seconds counter
x_seconds_total 0.5
# HELP x_took_seconds How long.
# TYPE x_took_seconds histogram
x_took_seconds_bucket{a="b",le="5e-05"} 1
x_took_seconds_bucket{a="b",le="1.0"} 1
x_took_seconds_bucket{a="b",le="+Inf"} 2
x_took_seconds_sum{a="b"} 2.00001
x_took_seconds_count{a="b"} 2
# HELP x_fds Descriptors.
# TYPE x_fds gauge
x_fds{a="",b="` + "\uFFFD" + `"} 18446744073709551615
# EOF
`

func TestExposition(t *testing.T) {
	took := watch.NewDurations(50*time.Microsecond, time.Second)
	took.Add(10 * time.Microsecond)
	took.Add(2 * time.Second)
	for _, c := range []struct {
		open bool
		want string
	}{{false, expositionText}, {true, expositionOpen}} {
		e := &exposition{open: c.open}
		e.family("x_build", info, `What "this" is.`)
		e.count(1, "version", "1\"2\\3\n4")
		e.family("x_seconds", counter, `One\two.`)
		e.value(0.5)
		e.family("x_unknown", gauge, "Without a sample it is not there.")
		e.family("x_took_seconds", histogram, "How long.")
		e.durations(took.Read(), "a", "b")
		e.family("x_fds", gauge, "Descriptors.")
		e.count(1<<64-1, "a", "", "b", "\xff")
		if got := string(e.end()); got != c.want {
			t.Errorf("open %v: got\n%s\nwant\n%s", c.open, got, c.want)
		}
	}
}

func TestAcceptsOpenMetrics(t *testing.T) {
	for accept, want := range map[string]bool{
		"":                             false,
		"*/*":                          false,
		"text/plain;version=0.0.4":     false,
		"application/openmetrics-text": true,
		"application/openmetrics-text; version=1.0.0; charset=utf-8":                       true,
		`Application/OpenMetrics-Text;version="1.0.0"`:                                     true,
		"application/openmetrics-text;version=0.0.1":                                       false,
		"application/openmetrics-text;version=2.0.0,text/plain":                            false,
		"application/openmetrics-text;q=0":                                                 false,
		"text/plain;q=0.9, application/openmetrics-text;q=0.5":                             false,
		"text/plain;q=0.5, application/openmetrics-text;version=1.0.0;escaping=values;q=1": true,
		// Prometheus 2.42 and 3.
		"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1":                                                true,
		"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,*/*;q=0.2": true,
	} {
		r := &http.Request{Header: http.Header{}}
		if accept != "" {
			r.Header.Set("Accept", accept)
		}
		if got := acceptsOpenMetrics(r); got != want {
			t.Errorf("%q: got %v", accept, got)
		}
	}
}

// sample is one line of an exposition.
type sample struct {
	name   string
	labels [][2]string
	value  float64
}

func (s sample) key() string { return fmt.Sprintf("%s%q", s.name, s.labels) }

// parseSample reads a line as the grammar of both formats has it.
func parseSample(line string) (sample, error) {
	end := strings.IndexAny(line, "{ ")
	if end < 1 {
		return sample{}, fmt.Errorf("no name in %q", line)
	}
	s := sample{name: line[:end]}
	rest := line[end:]
	for rest[0] != ' ' { // "{" before the first label, "," before the next, "}" behind the last
		name, more, ok := strings.Cut(rest[1:], `="`)
		if !ok || name == "" || strings.ContainsAny(name, `"{},`) {
			return s, fmt.Errorf("no label in %q of %q", rest, line)
		}
		value, more, err := parseLabel(more)
		if err != nil {
			return s, fmt.Errorf("%w in %q", err, line)
		}
		s.labels = append(s.labels, [2]string{name, value})
		rest = more
		if rest[0] == '}' {
			rest = rest[1:]
			break
		}
		if rest[0] != ',' {
			return s, fmt.Errorf("%q behind a label of %q", rest, line)
		}
	}
	text, ok := strings.CutPrefix(rest, " ")
	if !ok {
		return s, fmt.Errorf("no value in %q", line)
	}
	var err error
	s.value, err = strconv.ParseFloat(text, 64)
	return s, err
}

// parseLabel reads a value up to its closing quote and returns what follows.
func parseLabel(text string) (value, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(text)-1; i++ {
		switch c := text[i]; c {
		case '"':
			return b.String(), text[i+1:], nil
		case '\\':
			i++
			at := strings.IndexByte(`\"n`, text[i])
			if at < 0 {
				return "", "", fmt.Errorf("unknown escape %q", text[i])
			}
			b.WriteByte("\\\"\n"[at])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", fmt.Errorf("a label without end")
}

// checkExposition fails for what a strict reader would not take, and returns the
// samples.
func checkExposition(t *testing.T, text string, open bool) map[string]sample {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Error("not UTF-8")
	}
	text, ended := strings.CutSuffix(text, "# EOF\n")
	if ended != open {
		t.Errorf("ends with # EOF: %v", ended)
	}
	families, samples := map[string]bool{}, map[string]sample{}
	var family, kind string
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		if help, ok := strings.CutPrefix(line, "# HELP "); ok {
			family, help, _ = strings.Cut(help, " ")
			if families[family] || help == "" {
				t.Errorf("family %s stands twice or has no help", family)
			}
			families[family], kind = true, ""
			continue
		}
		if head, ok := strings.CutPrefix(line, "# TYPE "+family+" "); ok && kind == "" {
			kind = head
			continue
		}
		s, err := parseSample(line)
		if err != nil {
			t.Error(err)
			continue
		}
		behind, ok := strings.CutPrefix(s.name, family)
		switch {
		case !ok || kind == "":
			t.Errorf("%q is outside of its family", line)
		case kind == counter && (open && behind != "_total" || !open && !strings.HasSuffix(family, "_total")),
			kind == info && behind != "_info",
			kind == gauge && behind != "",
			kind == histogram && behind != "_bucket" && behind != "_sum" && behind != "_count":
			t.Errorf("%q is no sample of a %s", line, kind)
		}
		if _, twice := samples[s.key()]; twice {
			t.Errorf("%q stands twice", line)
		}
		samples[s.key()] = s
	}
	return samples
}

// Whatever a label holds, it is one line that a reader takes back to the same text.
func FuzzLabels(f *testing.F) {
	for _, s := range []string{"", "a.service", "a\"b", "a\\nb\n", "\xff\xfe", "}\"} 1\nx 2", "\\", "\r\x00\u2028é"} {
		f.Add(s, s, uint64(len(s)))
	}
	f.Fuzz(func(t *testing.T, a, b string, n uint64) {
		clean := func(s string) string {
			var out strings.Builder
			for _, r := range s {
				if r == 0 {
					r = utf8.RuneError
				}
				out.WriteRune(r)
			}
			return out.String()
		}
		for _, open := range []bool{false, true} {
			e := &exposition{open: open}
			e.family("x", gauge, "help "+a)
			e.count(n, "a", a, "b", b)
			samples := checkExposition(t, string(e.end()), open)
			want := sample{name: "x", labels: [][2]string{{"a", clean(a)}, {"b", clean(b)}}}
			if got, ok := samples[want.key()]; !ok || len(samples) != 1 || got.value != float64(n) {
				t.Fatalf("%q: got %v", e.b, samples)
			}
		}
	})
}
