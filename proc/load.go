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
