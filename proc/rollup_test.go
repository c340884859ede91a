package proc

import (
	"os"
	"strings"
	"testing"
)

const rollupText = `00400000-7ffd6f3c5000 ---p 00000000 00:00 0                              [rollup]
Rss:               17936 kB
Pss:               16870 kB
Pss_Dirty:         16540 kB
Pss_Anon:          16540 kB
Pss_File:            330 kB
Pss_Shmem:             0 kB
Shared_Clean:       1372 kB
Shared_Dirty:          0 kB
Private_Clean:        24 kB
Private_Dirty:     16540 kB
Referenced:        17936 kB
Anonymous:         16540 kB
Shared_Hugetlb:        0 kB
Private_Hugetlb:    8192 kB
Swap:                  8 kB
SwapPss:               8 kB
Locked:                0 kB
`

func TestParseRollup(t *testing.T) {
	got, ok := parseRollup([]byte(rollupText))
	// The 8 MiB of hugetlb pages are in none of the sums.
	want := Rollup{RSS: 17936 * 1024, PSS: 16870 * 1024, Private: (24 + 16540) * 1024, Swap: 8 * 1024}
	if !ok || got != want {
		t.Errorf("got %+v, %v, want %+v", got, ok, want)
	}
	for _, text := range []string{
		"", strings.Replace(rollupText, "Swap:   ", "Swop:   ", 1), strings.Replace(rollupText, "Rss:  ", "Rss: x", 1),
		rollupText + "Rss:  1 kB\n", strings.Replace(rollupText, "16870 kB", "16870", 1),
	} {
		if got, ok := parseRollup([]byte(text)); ok || got != (Rollup{}) {
			t.Errorf("%q: got %+v, %v", text, got, ok)
		}
	}
}

func TestReadRollupLive(t *testing.T) {
	p := openLive(t, int32(os.Getpid()))
	r, err := p.ReadRollup()
	if err != nil {
		t.Fatal(err)
	}
	maps, err := p.ReadSmaps(nil)
	if err != nil {
		t.Fatal(err)
	}
	var rss uint64
	for _, m := range maps {
		rss += m.RSS.Or(0)
	}
	// Two readings of a program that runs: near each other, and ordered.
	if r.RSS < rss/2 || r.RSS > rss*2 || r.PSS > r.RSS || r.Private > r.RSS || r.PSS < r.Private {
		t.Errorf("got %+v, smaps has an RSS of %d", r, rss)
	}
}

func FuzzRollup(f *testing.F) {
	f.Add([]byte(rollupText))
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, ok := parseRollup(text); !ok && got != (Rollup{}) {
			t.Errorf("%+v with an error", got)
		}
	})
}
