package proc

import (
	"errors"
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

func TestAddedOffset(t *testing.T) {
	const second = int64(time.Second)
	// A thread began 7.123 s after boot; the clock was read 1 ms before and after, in a
	// namespace with this offset, and stat has so much of it.
	at := func(declared, added time.Duration) begun {
		raw := 7*second + 123_000_000
		return begun{raw - 1e6 + int64(declared), raw + 1e6 + int64(declared), uint64(raw+int64(added)) / 1e7}
	}
	for _, c := range []struct {
		name           string
		declared, want time.Duration
		begun          []begun // the last one again and again
		tries          int
	}{
		{"none", 0, 0, []begun{{}}, 0},
		{"added", 24 * time.Hour, 24 * time.Hour, []begun{at(24*time.Hour, 24*time.Hour)}, 1},
		{"not added", 24 * time.Hour, 0, []begun{at(24*time.Hour, 0)}, 1},
		{"negative, added", -time.Second, -time.Second, []begun{at(-time.Second, -time.Second)}, 1},
		{"negative, not added", -time.Second, 0, []begun{at(-time.Second, 0)}, 1},
		{"more than a tick", 25 * time.Millisecond, 0, []begun{at(25*time.Millisecond, 0)}, 1},
		{"a slow try tells nothing", time.Second, 0, []begun{{0, 60 * second, 2000}, {0, 60 * second, 2000}, at(time.Second, 0)}, 3},
		{"neither tells nothing", time.Second, time.Second, []begun{{5 * second, 5 * second, 900}, at(time.Second, time.Second)}, 2},
		{"within a tick", 2_000_000, 2_000_000, []begun{at(2_000_000, 0)}, beginTries},
		{"wrapped", time.Second, 0, []begun{{0, second, 1<<64 - 1}, at(time.Second, 0)}, 2},
	} {
		tries := 0
		got, err := addedOffset(c.declared, func() (begun, error) {
			tries++
			return c.begun[min(tries, len(c.begun))-1], nil
		})
		if got != c.want || err != nil || tries != c.tries {
			t.Errorf("%s: got %v, %v after %d tries, want %v after %d", c.name, got, err, tries, c.want, c.tries)
		}
	}
	broken := errors.New("broken")
	if _, err := addedOffset(1, func() (begun, error) { return begun{}, broken }); err != broken {
		t.Errorf("got %v, want %v", err, broken)
	}
}

// A thread that is begun for it is new, and began while it was waited for; here stat
// has the whole offset or none.
func TestBeginThread(t *testing.T) {
	fs := live(t)
	declared, err := fs.declaredOffset()
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		b, err := fs.beginThread()
		if err != nil {
			t.Fatal(err)
		}
		if !b.fits(0) && !b.fits(-declared) || b.after > b.before {
			t.Errorf("a thread that began in tick %d from %d to %d ns", b.ticks, b.after, b.before)
		}
	}
}

func TestStartOffset(t *testing.T) {
	fs := live(t)
	first, err := fs.StartOffset()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := fs.StartOffset(); again != first || err != nil {
		t.Errorf("got %v, %v, and %v before", again, err, first)
	}
	if got, err := openTree(t, t.TempDir()).StartOffset(); got != 0 || err != nil {
		t.Errorf("a kernel without time namespaces: got %v, %v, want 0", got, err)
	}
}

// Where stat lacks the offset that the clock has, the host booted that much later
// than the clock says.
func TestStartedAtInTimeNamespace(t *testing.T) {
	for _, c := range []struct {
		clock startClock
		want  int64
	}{
		{startClock{}, fixtureBoot + 5000},
		{startClock{time.Hour, time.Hour}, fixtureBoot + 5000},
		{startClock{time.Hour, 0}, fixtureBoot + 5000 + 3_600_000},
		{startClock{-time.Second, 0}, fixtureBoot + 5000 - 1000},
	} {
		fs := openTree(t, t.TempDir())
		fs.clock.Store(&c.clock)
		if got := fs.startedAt(500); got != c.want {
			t.Errorf("%+v: got %d, want %d", c.clock, got, c.want)
		}
	}
}
