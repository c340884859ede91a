package proc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of one reading.
const (
	maxSignalThreads = 4096 // threads
	maxSignalTime    = 2 * time.Second
)

// Signals is the signal sets of a process's threads, by TID.
type Signals struct {
	Threads  []SignalState
	Warnings []string
}

// SignalState is the sets of one thread; bit n-1 is signal n.
type SignalState struct {
	TID           int32
	Name          string // raw bytes
	Pending       uint64 // SigPnd, of this thread
	SharedPending uint64 // ShdPnd, of the process
	Blocked       uint64 // SigBlk
	Ignored       uint64 // SigIgn, of the process
	Caught        uint64 // SigCgt, of the process
	QueuedUsed    uint64 // SigQ, queued signals of the real user, on the whole host
	QueuedLimit   uint64 // RLIMIT_SIGPENDING; 2^64-1 is none
}

// ReadSignals returns the sets of at most 4,096 threads, within 2 s. A thread that
// ends meanwhile is left out; one that has ended, such as a leader whose other
// threads live on, keeps its row.
//
// Errors: ErrGone; fs.ErrPermission.
// Source: /proc/PID/task/TID/status, proc_pid_status(5), fs/proc/array.c.
func (p *Process) ReadSignals() (*Signals, error) {
	return p.readSignals(maxSignalThreads, maxSignalTime)
}

func (p *Process) readSignals(threads int, within time.Duration) (*Signals, error) {
	end := time.Now().Add(within)
	s := &Signals{Threads: []SignalState{}, Warnings: []string{}}
	dir, err := p.openFile("task", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer closeFD(dir)
	more, late, bad := false, false, error(nil)
	var buf []byte
	listing := make([]byte, 32<<10)
	err = entries(dir, listing, func(tid []byte) bool {
		if len(s.Threads) == threads {
			more = true
			return false
		}
		if time.Now().After(end) {
			late = true
			return false
		}
		text, err := p.slurp("task/"+string(tid)+"/status", buf, 0)
		if err != nil {
			if err != unix.ENOENT && err != unix.ESRCH && bad == nil {
				bad = err
			}
			return true
		}
		buf = text
		v, ok := parseSignals(text)
		if !ok {
			bad = &ParseError{File: "status"}
			return true
		}
		v.TID, _ = parsePID(tid)
		s.Threads = append(s.Threads, v)
		return true
	})
	if gone := p.Check(); gone != nil {
		return nil, gone
	}
	if err != nil {
		return nil, p.wrap("task", err)
	}
	if bad != nil && len(s.Threads) == 0 {
		return nil, p.wrap("task", bad)
	}
	if bad != nil {
		s.Warnings = append(s.Warnings, "some threads could not be read: "+bad.Error())
	}
	if more {
		s.Warnings = append(s.Warnings, fmt.Sprintf("the process has more threads; the first %d are shown", threads))
	}
	if late {
		s.Warnings = append(s.Warnings, fmt.Sprintf("reading took longer than %s; %d threads are shown", within, len(s.Threads)))
	}
	slices.SortFunc(s.Threads, func(a, b SignalState) int { return int(a.TID) - int(b.TID) })
	return s, nil
}

// parseSignals takes the name and the signal lines of a status text. All of them
// must be there.
func parseSignals(b []byte) (SignalState, bool) {
	var s SignalState
	seen := 0
	for len(b) > 0 {
		var l []byte
		l, b, _ = bytes.Cut(b, []byte{'\n'})
		key, value, ok := bytes.Cut(l, []byte(":\t"))
		if !ok {
			continue
		}
		var mask *uint64
		bit := 0
		switch string(key) {
		case "Name":
			s.Name = unescapeName(value)
			seen |= 1
			continue
		case "SigQ":
			used, limit, found := bytes.Cut(value, []byte{'/'})
			var err1, err2 error
			s.QueuedUsed, err1 = strconv.ParseUint(string(used), 10, 64)
			s.QueuedLimit, err2 = strconv.ParseUint(string(limit), 10, 64)
			if !found || errors.Join(err1, err2) != nil {
				return SignalState{}, false
			}
			seen |= 2
			continue
		case "SigPnd":
			mask, bit = &s.Pending, 4
		case "ShdPnd":
			mask, bit = &s.SharedPending, 8
		case "SigBlk":
			mask, bit = &s.Blocked, 16
		case "SigIgn":
			mask, bit = &s.Ignored, 32
		case "SigCgt":
			mask, bit = &s.Caught, 64
		default:
			continue
		}
		v, next := parseHex(value, 0)
		if next == 0 || next != len(value) {
			return SignalState{}, false
		}
		*mask = v
		seen |= bit
	}
	if seen != 127 {
		return SignalState{}, false
	}
	return s, true
}

// unescapeName undoes what the kernel does to a name in status: a newline is
// written as \n and a backslash as \\ (proc_task_name).
func unescapeName(b []byte) string {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b)
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if b[i] == '\\' && i+1 < len(b) && (b[i+1] == 'n' || b[i+1] == '\\') {
			i++
			if b[i] == 'n' {
				out = append(out, '\n')
			} else {
				out = append(out, '\\')
			}
			continue
		}
		out = append(out, b[i])
	}
	return string(out)
}

// signalNames is signal(7) for x86: arch/x86/include/uapi/asm/signal.h.
var signalNames = [32]string{
	1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
	9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
	16: "SIGSTKFLT", 17: "SIGCHLD", 18: "SIGCONT", 19: "SIGSTOP", 20: "SIGTSTP", 21: "SIGTTIN", 22: "SIGTTOU",
	23: "SIGURG", 24: "SIGXCPU", 25: "SIGXFSZ", 26: "SIGVTALRM", 27: "SIGPROF", 28: "SIGWINCH", 29: "SIGIO",
	30: "SIGPWR", 31: "SIGSYS",
}

// SignalNames lists the signals of a set as "SIGUSR1 [10]", 32 to 64 as "RT n [n]",
// by number. An empty set is an empty list.
func SignalNames(set uint64) []string {
	names := []string{}
	for n := 1; n <= 64; n++ {
		if set>>(n-1)&1 == 0 {
			continue
		}
		number := strconv.Itoa(n)
		name := "RT " + number
		if n < len(signalNames) {
			name = signalNames[n]
		}
		names = append(names, name+" ["+number+"]")
	}
	return names
}
