package proc

import (
	"testing"
	"time"
)

func TestParseBootOffset(t *testing.T) {
	for _, c := range []struct {
		text string
		want time.Duration
		ok   bool
	}{
		{"monotonic           0         0\nboottime            0         0\n", 0, true},
		{"monotonic           5         0\nboottime        86400         0\n", 24 * time.Hour, true},
		{"boottime -100 0\n", -100 * time.Second, true},
		{"boottime -100 500000000\n", -99*time.Second - 500*time.Millisecond, true},
		{"monotonic 1 1\n", 0, false},
		{"boottime 1\n", 0, false},
		{"boottime x 0\n", 0, false},
		{"boottime 1 1000000000\n", 0, false},
		{"boottime 1 -1\n", 0, false},
		{"boottime 9223372036854775807 0\n", 0, false},
		{"", 0, false},
	} {
		got, ok := parseBootOffset([]byte(c.text))
		if got != c.want || ok != c.ok {
			t.Errorf("%q: got %v, %v, want %v, %v", c.text, got, ok, c.want, c.ok)
		}
	}
}

func FuzzBootOffset(f *testing.F) {
	f.Add([]byte("monotonic 0 0\nboottime -100 5\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if d, ok := parseBootOffset(b); !ok && d != 0 {
			t.Errorf("refused, and yet %v", d)
		}
	})
}

func TestBootOffset(t *testing.T) {
	if _, err := live(t).BootOffset(); err != nil {
		t.Error(err)
	}
	if got, err := openTree(t, t.TempDir()).BootOffset(); got != 0 || err != nil {
		t.Errorf("a kernel without time namespaces: got %v, %v, want 0", got, err)
	}
}
