package proc

import (
	"bytes"
	"math"
	"strconv"
	"time"
)

// parseLoad reads the three averages of /proc/loadavg, proc_loadavg(5).
func parseLoad(b []byte) ([3]float64, bool) {
	var load [3]float64
	for i := range load {
		text, rest, _ := bytes.Cut(b, []byte(" "))
		v, ok := parseFloat(text)
		if !ok {
			return [3]float64{}, false
		}
		load[i], b = v, rest
	}
	return load, true
}

// parseThreads reads how many threads the host has, of all its namespaces, from
// /proc/loadavg, proc_loadavg(5).
func parseThreads(b []byte) (int, bool) {
	for range 3 {
		_, b, _ = bytes.Cut(b, []byte(" "))
	}
	_, b, _ = bytes.Cut(b, []byte("/"))
	b, _, _ = bytes.Cut(b, []byte(" "))
	n, err := strconv.Atoi(string(b))
	return n, err == nil
}

// threads asks how many threads the host has.
func (fs *FS) threads() (int, bool) {
	var buf [128]byte
	b, err := slurp(fs.dir, nameLoad, buf[:])
	if err != nil {
		return 0, false
	}
	return parseThreads(b)
}

var nameLoad = []byte("loadavg\x00")

// longestUptime keeps an uptime within a time.Duration: 292 years.
const longestUptime = float64(math.MaxInt64 / int64(time.Second))

// parseUptime reads the first number of /proc/uptime, seconds, proc_uptime(5).
func parseUptime(b []byte) (time.Duration, bool) {
	text, _, _ := bytes.Cut(b, []byte(" "))
	v, ok := parseFloat(bytes.TrimSuffix(text, []byte("\n")))
	if !ok || v >= longestUptime {
		return 0, false
	}
	return time.Duration(math.Round(v*100)) * (time.Second / 100), true
}

// parseFloat reads digits with a decimal point, no sign and no exponent.
func parseFloat(b []byte) (float64, bool) {
	for _, c := range b {
		if !isDigit(c) && c != '.' {
			return 0, false
		}
	}
	v, err := strconv.ParseFloat(string(b), 64)
	return v, err == nil
}
