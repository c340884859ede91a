package proc

import "bytes"

// parsePressure reads /proc/pressure/cpu, memory or io. The full line of cpu came
// with Linux 5.13; without a line its value is unknown.
func parsePressure(b []byte) (Pressure, bool) {
	var p Pressure
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		kind, rest, _ := bytes.Cut(line, []byte(" avg10="))
		text, _, _ := bytes.Cut(rest, []byte(" "))
		v, ok := parseFloat(text)
		switch {
		case !ok:
			return Pressure{}, false
		case string(kind) == "some":
			p.Some = Some(v)
		case string(kind) == "full":
			p.Full = Some(v)
		}
	}
	if !p.Some.Known() {
		return Pressure{}, false
	}
	return p, true
}
