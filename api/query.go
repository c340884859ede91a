package api

import (
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"procinsh/proc"
	"procinsh/watch"
)

const (
	defaultMemoryBytes = 256
	maxMemoryBytes     = 64 << 10 // one read of memory
	maxHeldPath        = 4095     // bytes of a path whose holders are asked for: PATH_MAX without its NUL
)

// query is the parsed query of a request. A parameter that no method asks for is
// ignored, whatever it holds.
type query url.Values

func parseQuery(r *http.Request) (query, error) {
	v, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("malformed_query", "The query is malformed: it holds a bad percent escape or a semicolon.")
	}
	return query(v), nil
}

// one returns the value of a parameter that may be given once.
func (q query) one(name string) (value string, given bool, err error) {
	switch v := q[name]; len(v) {
	case 0:
		return "", false, nil
	case 1:
		return v[0], true, nil
	default:
		return "", false, badRequest("repeated_parameter", "Parameter "+name+" is given more than once.")
	}
}

// choice reads a parameter that has one value when it is given.
func (q query) choice(name, only string) (bool, error) {
	v, given, err := q.one(name)
	if err != nil || !given {
		return false, err
	}
	if v != only {
		return false, badRequest("invalid_"+name, "Parameter "+name+" can only be "+only+".")
	}
	return true, nil
}

// identity reads pid and start_time_ticks; both are required.
func (q query) identity() (proc.ID, error) {
	pid, givenPID, err := q.one("pid")
	if err != nil {
		return proc.ID{}, err
	}
	ticks, givenTicks, err := q.one("start_time_ticks")
	if err != nil {
		return proc.ID{}, err
	}
	if !givenPID || !givenTicks {
		return proc.ID{}, badRequest("missing_identity", "A process is named by pid and start_time_ticks, as in the list: give both.")
	}
	p, err := strconv.ParseUint(pid, 10, 31)
	if err != nil || p == 0 {
		return proc.ID{}, badRequest("invalid_pid", "Parameter pid has to be a whole number from 1 to 2147483647.")
	}
	t, err := strconv.ParseUint(ticks, 10, 64)
	if err != nil {
		return proc.ID{}, badRequest("invalid_start_time_ticks", "Parameter start_time_ticks has to be a whole number, field 22 of /proc/PID/stat.")
	}
	return proc.ID{PID: int32(p), StartTicks: t}, nil
}

func (q query) listWant() (want watch.ListWant, err error) {
	if want.Maps, err = q.choice("maps", "summary"); err != nil {
		return want, err
	}
	want.IO, err = q.choice("io", "1")
	return want, err
}

// memory reads address and length.
func (q query) memory() (address uint64, length int, err error) {
	text, given, err := q.one("address")
	if err != nil {
		return 0, 0, err
	}
	if !given {
		return 0, 0, badRequest("missing_address", "Parameter address is missing: decimal, or hex with 0x.")
	}
	digits, base := text, 10
	if hex, ok := strings.CutPrefix(text, "0x"); ok {
		digits, base = hex, 16
	}
	if address, err = strconv.ParseUint(digits, base, 64); err != nil {
		return 0, 0, badRequest("invalid_address", "Parameter address has to be decimal, or hex with 0x, and fit into 64 bits.")
	}
	length = defaultMemoryBytes
	text, given, err = q.one("length")
	if err != nil {
		return 0, 0, err
	}
	if given {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil || n < 1 || n > maxMemoryBytes {
			return 0, 0, badRequest("invalid_length", "Parameter length has to be a whole number from 1 to 65536.")
		}
		length = int(n)
	}
	if address > math.MaxUint64-uint64(length) {
		return 0, 0, badRequest("address_overflow", "Address plus length is beyond the end of a 64-bit address space.")
	}
	return address, length, nil
}

// sought reads port, path or socket, of which one has to be given.
func (q query) sought() (s proc.Sought, err error) {
	var given []string
	values := map[string]string{}
	for _, name := range []string{"port", "path", "socket"} {
		value, has, err := q.one(name)
		if err != nil {
			return s, err
		}
		if has {
			given, values[name] = append(given, name), value
		}
	}
	if len(given) != 1 {
		return s, badRequest("one_of_port_path_socket", "Give exactly one of the parameters port, path and socket.")
	}
	switch value := values[given[0]]; given[0] {
	case "port":
		port, err := strconv.ParseUint(value, 10, 16)
		if err != nil || port == 0 {
			return s, badRequest("invalid_port", "Parameter port has to be a whole number from 1 to 65535.")
		}
		s.Port = uint16(port)
	case "socket":
		if s.Socket, err = strconv.ParseUint(value, 10, 64); err != nil || s.Socket == 0 {
			return s, badRequest("invalid_socket", "Parameter socket has to be the inode of a socket, a whole number from 1 on.")
		}
	default:
		if !strings.HasPrefix(value, "/") || strings.Contains(value, "\x00") || len(value) > maxHeldPath {
			return s, badRequest("invalid_path", "Parameter path has to begin with a slash, to have at most 4095 bytes, and no NUL.")
		}
		s.Path = value
	}
	return s, nil
}
