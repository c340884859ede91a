package proc

import (
	"slices"
	"strings"
	"testing"
)

const limitsText = "Limit                     Soft Limit           Hard Limit           Units     \n" +
	"Max cpu time              unlimited            unlimited            seconds   \n" +
	"Max stack size            8388608              unlimited            bytes     \n" +
	"Max open files            20000                18446744073709551614 files     \n" +
	"Max nice priority         0                    0                    \n" +
	"Max realtime timeout      unlimited            1                    us        \n"

func TestParseLimits(t *testing.T) {
	got, ok := parseLimits([]byte(limitsText))
	want := []Limit{
		{Name: "Max cpu time", Unit: "seconds"},
		{Name: "Max stack size", Unit: "bytes", Soft: Some[uint64](8388608)},
		{Name: "Max open files", Unit: "files", Soft: Some[uint64](20000), Hard: Some[uint64](1<<64 - 2)},
		{Name: "Max nice priority", Soft: Some[uint64](0), Hard: Some[uint64](0)},
		{Name: "Max realtime timeout", Unit: "us", Hard: Some[uint64](1)},
	}
	if !ok || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, ok, want)
	}
	for _, c := range []string{"", "x\n", strings.Replace(limitsText, "20000 ", "-2000 ", 1), strings.Replace(limitsText, "8388608  ", "         ", 1),
		limitsText + "Max short\n", limitsText + "Max name that has more than its column 1 1 x\n", limitsText + "                          1 1 x\n"} {
		if got, ok := parseLimits([]byte(c)); ok || got != nil {
			t.Errorf("%q: got %+v, %v", c, got, ok)
		}
	}
}

func FuzzLimits(f *testing.F) {
	f.Add([]byte(limitsText))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, ok := parseLimits(text)
		if !ok && got != nil || len(got) > strings.Count(string(text), "\n") {
			t.Errorf("%d limits of %q, %v", len(got), text, ok)
		}
		for _, l := range got {
			if l.Name == "" {
				t.Errorf("no name: %+v", l)
			}
		}
	})
}
