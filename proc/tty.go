package proc

import (
	"bytes"
	"strconv"
)

// ttyDriver is a line of /proc/tty/drivers: the device numbers of one driver.
type ttyDriver struct {
	path        string // "/dev/pts"
	major       uint32
	first, last uint32 // minor
}

// ttys names terminals by device number.
type ttys []ttyDriver

// readTTYs reads the table of drivers. Without it (an older or a restricted
// procfs) the numbers that Linux has fixed still have names.
func (fs *FS) readTTYs() ttys {
	b, err := fs.readFile("tty/drivers", nil)
	if err == nil {
		if t := parseTTYDrivers(b); len(t) > 0 {
			return t
		}
	}
	return ttys{ // Documentation/admin-guide/devices.txt
		{"/dev/tty", 5, 0, 0}, {"/dev/console", 5, 1, 1}, {"/dev/ttyS", 4, 64, 255},
		{"/dev/tty", 4, 1, 63}, {"/dev/pts", 136, 0, 1<<20 - 1},
	}
}

// ttyName returns the name of a terminal, as readTTYs does for one question.
func (fs *FS) ttyName(dev int32) Opt[string] {
	if dev == 0 {
		return Opt[string]{}
	}
	return fs.readTTYs().name(dev)
}

// name returns the name of the terminal of stat's field 7 without "/dev/":
// "pts/3", "tty1"; unknown for 0 (none) and a number no driver has.
func (t ttys) name(dev int32) Opt[string] {
	if dev == 0 {
		return Opt[string]{}
	}
	// new_encode_dev, include/linux/kdev_t.h
	d := uint32(dev)
	major, minor := d>>8&0xfff, d&0xff|d>>12&^0xff
	for _, v := range t {
		if v.major != major || minor < v.first || minor > v.last {
			continue
		}
		name := v.path
		switch n := strconv.Itoa(int(minor - v.first)); {
		case v.major == 5: // /dev/tty, /dev/console and /dev/ptmx are one device each
		case name == "/dev/vc/0":
			name = "/dev/tty0"
		case name == "/dev/pts":
			name += "/" + n
		case v.major == 4 && v.first == 1: // the virtual consoles count from tty1
			name += strconv.Itoa(int(minor))
		default:
			name += n
		}
		return Some(name[len("/dev/"):])
	}
	return Opt[string]{}
}

// parseTTYDrivers reads lines of "driver /dev/name major first-last type".
func parseTTYDrivers(b []byte) ttys {
	var t ttys
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		f := bytes.Fields(line)
		if len(f) < 4 || !bytes.HasPrefix(f[1], []byte("/dev/")) || len(f[1]) == len("/dev/") {
			continue
		}
		low, high, ranged := bytes.Cut(f[3], []byte("-"))
		if !ranged {
			high = low
		}
		major, ok := parseUint32(f[2])
		first, ok1 := parseUint32(low)
		last, ok2 := parseUint32(high)
		if ok && ok1 && ok2 && first <= last {
			t = append(t, ttyDriver{string(f[1]), major, first, last})
		}
	}
	return t
}
