package proc

import (
	"errors"
	"math"
	"testing"
)

func TestParseUint(t *testing.T) {
	for _, c := range []struct {
		text string
		want uint64
		next int
		ok   bool
	}{
		{"0", 0, 1, true},
		{"42 7", 42, 2, true},
		{"18446744073709551615", math.MaxUint64, 20, true},
		{"18446744073709551616", 0, 0, false},
		{"99999999999999999999", 0, 0, false},
		{"00000000000000000000000000007", 7, 29, true},
		{"", 0, 0, false},
		{"-1", 0, 0, false},
		{"x", 0, 0, false},
	} {
		got, next, ok := parseUint([]byte(c.text), 0)
		if got != c.want || next != c.next || ok != c.ok {
			t.Errorf("parseUint(%q) = %d, %d, %v; want %d, %d, %v", c.text, got, next, ok, c.want, c.next, c.ok)
		}
	}
}

func TestParsePID(t *testing.T) {
	for text, want := range map[string]int32{"1": 1, "2147483647": math.MaxInt32, "": 0, "0": 0, "01": 0, "2147483648": 0, "99999999999": 0, "1a": 0, "self": 0} {
		got, ok := parsePID([]byte(text))
		if ok != (want != 0) || ok && got != want {
			t.Errorf("parsePID(%q) = %d, %v; want %d", text, got, ok, want)
		}
	}
}

func TestParseErrorTellsTheFileAndNothingElse(t *testing.T) {
	var err error = &ParseError{File: "stat"}
	if got, want := err.Error(), "stat has an unknown form"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	err = &ParseError{File: "maps", Line: 3}
	if got, want := err.Error(), "maps:3 has an unknown form"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if parse := (*ParseError)(nil); !errors.As(err, &parse) || parse.Line != 3 {
		t.Errorf("errors.As gives %v", parse)
	}
}
