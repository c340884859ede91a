package proc

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"
	"time"
)

const diskText = `   7       0 loop0 100 0 200 0 300 0 400 0 0 0 0
   1       0 ram0 1 0 1 0 1 0 1 0 0 0 0
 253       0 zram0 1 0 1 0 1 0 1 0 0 0 0
   8       0 sda 10 0 1000 0 20 0 2000 0 0 0 0
   8       1 sda1 10 0 900 0 20 0 1900 0 0 0 0
   8      16 sdaa 1 0 1 0 1 0 2 0 0 0 0
 259       0 nvme0n1 1 0 10 0 1 0 20 0 0 0 0 0 0 0 0 0 0
 259       1 nvme0n1p1 1 0 9 0 1 0 19 0 0 0 0 0 0 0 0 0 0
 259       2 nvme0n1p12 1 0 1 0 1 0 1 0 0 0 0 0 0 0 0 0 0
 259       3 nvme0c0n1 1 0 10 0 1 0 20 0 0 0 0
 259       4 nvme0n10 1 0 100 0 1 0 200 0 0 0 0
 202       1 xvda1 1 0 5 0 1 0 6 0 0 0 0
 202       2 xvda2 1 0 5 0 1 0 6 0 0 0 0
 179       0 mmcblk0 1 0 7 0 1 0 8 0 0 0 0
 179       1 mmcblk0p1 1 0 7 0 1 0 8 0 0 0 0
 179       8 mmcblk0boot0 1 0 2 0 1 0 0 0 0 0 0
 252       0 dm-0 1 0 1000 0 1 0 2000 0 0 0 0
   9     127 md127 1 0 1000 0 1 0 2000 0 0 0 0
`

func TestParseDiskstats(t *testing.T) {
	const sectorsRead, sectorsWritten = 1000 + 1 + 10 + 100 + 5 + 5 + 7 + 2, 2000 + 2 + 20 + 200 + 6 + 6 + 8 + 0
	read, written := parseDiskstats([]byte(diskText))
	if read != Some[uint64](sectorsRead*512) || written != Some[uint64](sectorsWritten*512) {
		t.Errorf("read %+v, written %+v; want %d and %d sectors", read, written, sectorsRead, sectorsWritten)
	}
	for _, text := range []string{"", "7 0 loop0 1 0 1 0 1 0 1 0 0 0 0\n", "8 0 sda 1 0 1\n", "8 0 sda 1 0 x 0 1 0 1 0 0 0 0\n"} {
		if read, written := parseDiskstats([]byte(text)); read.Known() || written.Known() {
			t.Errorf("%q: %+v, %+v; want unknown", text, read, written)
		}
	}
}

func TestParseCPUs(t *testing.T) {
	cores, busy, idle, ok := parseCPUs([]byte("cpu  100 10 20 1000 5 1 2 3 50 7\ncpu0 50 5 10 500 2 0 1 1 25 3\ncpu3 50 5 10 500 3 1 1 2 25 4\nintr 1 2\ncpu9 broken\n"))
	if cores != 2 || busy != 100+10+20+1+2+3 || idle != 1000+5 || !ok {
		t.Errorf("cores %d, busy %d, idle %d, %v", cores, busy, idle, ok)
	}
	for _, text := range []string{"", "cpu  1 2 3\ncpu0 1 2 3\n", "cpu  1 2 3 4 5 6 7 8\n", "cpu0 1 2 3 4 5 6 7 8\n", "cpu  a\n"} {
		if cores, busy, idle, ok := parseCPUs([]byte(text)); ok || cores != 0 || busy != 0 || idle != 0 {
			t.Errorf("%q: %d, %d, %d, %v", text, cores, busy, idle, ok)
		}
	}
}

func TestParseMeminfo(t *testing.T) {
	const old = "MemTotal:     1000 kB\nMemFree:       100 kB\nBuffers:        20 kB\nCached:         30 kB\nSwapTotal:      50 kB\nSwapFree:       10 kB\n"
	for _, c := range []struct {
		what, text string
		want       meminfo
		ok         bool
	}{
		{"with MemAvailable", "MemAvailable: 400 kB\n" + old, meminfo{1000 * 1024, 600 * 1024, 50 * 1024, 40 * 1024}, true},
		{"without", old, meminfo{1000 * 1024, 850 * 1024, 50 * 1024, 40 * 1024}, true},
		{"more available than there is", "MemAvailable: 2000 kB\n" + old, meminfo{1000 * 1024, 0, 50 * 1024, 40 * 1024}, true},
		{"no swap", "MemTotal: 10 kB\nMemFree: 4 kB\n", meminfo{10 * 1024, 6 * 1024, 0, 0}, true},
		{"no total", "MemFree: 4 kB\n", meminfo{}, false},
		{"no unit", "MemTotal: 10\nMemFree: 4 kB\n", meminfo{}, false},
		{"nothing", "", meminfo{}, false},
	} {
		if got, ok := parseMeminfo([]byte(c.text)); got != c.want || ok != c.ok {
			t.Errorf("%s: got %+v, %v; want %+v, %v", c.what, got, ok, c.want, c.ok)
		}
	}
}

func TestParseLoadAndUptime(t *testing.T) {
	if got, ok := parseLoad([]byte("1.14 0.93 12.53 7/1165 25676\n")); !ok || got != [3]float64{1.14, 0.93, 12.53} {
		t.Errorf("load %v, %v", got, ok)
	}
	if got, ok := parseUptime([]byte("1781.61 3039.00\n")); !ok || got != 1781*time.Second+610*time.Millisecond {
		t.Errorf("uptime %v, %v", got, ok)
	}
	for _, text := range []string{"", "1 2\n", "1 2 x", "-1 2 3", "1e9 2 3", "NaN 1 2", "1..2 1 1 "} {
		if got, ok := parseLoad([]byte(text)); ok || got != [3]float64{} {
			t.Errorf("load %q: %v", text, got)
		}
	}
	for _, text := range []string{"", "x", "-1.00 2", "99999999999999.00 1", "Inf 1"} {
		if got, ok := parseUptime([]byte(text)); ok || got != 0 {
			t.Errorf("uptime %q: %v", text, got)
		}
	}
}

func TestParsePressure(t *testing.T) {
	some := "some avg10=4.66 avg60=6.08 avg300=7.03 total=83569660\n"
	if got, ok := parsePressure([]byte(some + "full avg10=0.50 avg60=0.00 avg300=0.00 total=0\n")); !ok || got != (Pressure{Some(4.66), Some(0.5)}) {
		t.Errorf("got %+v, %v", got, ok)
	}
	if got, ok := parsePressure([]byte(some)); !ok || got != (Pressure{Some: Some(4.66)}) {
		t.Errorf("before Linux 5.13: got %+v, %v", got, ok)
	}
	for _, text := range []string{"", "full avg10=1.00 avg60=0\n", "some avg10=x avg60=1\n", "some avg60=1\n"} {
		if got, ok := parsePressure([]byte(text)); ok || got != (Pressure{}) {
			t.Errorf("%q: got %+v", text, got)
		}
	}
}

func TestReadTotals(t *testing.T) {
	dir := copyFixture(t, "host")
	tree := openTree(t, dir)
	var got Totals
	if err := tree.ReadTotals(&got); err != nil {
		t.Fatal(err)
	}
	if got.At.IsZero() {
		t.Error("no time")
	}
	got.At, got.SelfCPUTicks = time.Time{}, 0
	want := Totals{
		Cores: 2, BusyTicks: 34148 + 0 + 16958 + 0 + 340 + 174, IdleTicks: 303900 + 407,
		MemoryTotal: 24684092 * 1024, MemoryUsed: (24684092 - 23965316) * 1024,
		Load: [3]float64{1.14, 0.93, 0.53},
		Pressure: [3]Opt[Pressure]{
			Some(Pressure{Some(4.66), Some(0.0)}), Some(Pressure{Some(0.0), Some(0.0)}), Some(Pressure{Some(0.0), Some(0.0)}),
		},
		Uptime: 1781610 * time.Millisecond,
	}
	text, err := os.ReadFile(filepath.Join(dir, "self/statm"))
	if err != nil {
		t.Fatal(err)
	}
	if _, want.SelfRSS, _ = parseStatm(text); want.SelfRSS == 0 {
		t.Fatal("no RSS in the fixture")
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}

	writeFile(t, filepath.Join(dir, "diskstats"), diskText)
	os.RemoveAll(filepath.Join(dir, "pressure"))
	if err := tree.ReadTotals(&got); err != nil {
		t.Fatal(err)
	}
	if !got.StorageReadBytes.Known() || !got.StorageWritten.Known() || got.Pressure != [3]Opt[Pressure]{} {
		t.Errorf("storage %+v and %+v, pressure %+v", got.StorageReadBytes, got.StorageWritten, got.Pressure)
	}

	for _, name := range []string{"stat", "meminfo", "loadavg", "uptime", "self/statm"} {
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, path, "?\n")
		var parse *ParseError
		if err := tree.ReadTotals(&got); !errors.As(err, &parse) || parse.File != name {
			t.Errorf("%s of another form: %v", name, err)
		}
		os.Remove(path)
		if err := tree.ReadTotals(&got); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without %s: %v", name, err)
		}
		writeFile(t, path, string(text))
	}
}

func TestLiveTotals(t *testing.T) {
	tree := live(t)
	var before, after Totals
	if err := tree.ReadTotals(&before); err != nil {
		t.Fatal(err)
	}
	for start := cpuTime(); cpuTime()-start < 60*time.Millisecond; { // work that shows
		runtime.Gosched()
	}
	if err := tree.ReadTotals(&after); err != nil {
		t.Fatal(err)
	}
	if after.Cores == 0 || after.MemoryTotal == 0 || after.MemoryUsed > after.MemoryTotal || after.SelfRSS == 0 || after.Uptime <= 0 {
		t.Errorf("got %+v", after)
	}
	if after.BusyTicks+after.IdleTicks < before.BusyTicks+before.IdleTicks || after.Uptime < before.Uptime || after.SelfCPUTicks <= before.SelfCPUTicks {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
}

func FuzzParseDiskstats(f *testing.F) {
	f.Add([]byte(diskText))
	f.Fuzz(func(t *testing.T, b []byte) {
		if read, written := parseDiskstats(b); read.Known() != written.Known() {
			t.Fatalf("%+v, %+v", read, written)
		}
	})
}

func FuzzParseMeminfo(f *testing.F) {
	f.Add([]byte("MemTotal: 10 kB\nMemFree: 4 kB\nMemAvailable: 5 kB\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := parseMeminfo(b)
		if m.used > m.total || m.swapUsed > m.swapTotal || !ok && m != (meminfo{}) {
			t.Fatalf("%+v, %v", m, ok)
		}
	})
}

func FuzzParsePressure(f *testing.F) {
	f.Add([]byte("some avg10=4.66 avg60=6.08 avg300=7.03 total=83569660\nfull avg10=0.50 avg60=0 avg300=0 total=0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parsePressure(b); ok != p.Some.Known() || p.Some.Or(0) < 0 || p.Full.Or(0) < 0 {
			t.Fatalf("%+v, %v", p, ok)
		}
	})
}

func FuzzParseHost(f *testing.F) {
	f.Add([]byte("cpu  100 10 20 1000 5 1 2 3 50 7\ncpu0 50 5 10 500 2 0 1 1 25 3\n"))
	f.Add([]byte("1781.61 3039.00\n"))
	f.Add([]byte("1.14 0.93 12.53 7/1165 25676\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if cores, busy, idle, ok := parseCPUs(b); ok != (cores > 0) || !ok && busy+idle != 0 {
			t.Fatalf("CPUs %d, %d, %d, %v", cores, busy, idle, ok)
		}
		if up, ok := parseUptime(b); up < 0 || !ok && up != 0 {
			t.Fatalf("uptime %v, %v", up, ok)
		}
		for _, v := range func() []float64 { l, _ := parseLoad(b); return l[:] }() {
			if !(v >= 0) {
				t.Fatalf("load %v", v)
			}
		}
	})
}
