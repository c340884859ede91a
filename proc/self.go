package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Self returns the calling process as it is listed, and st_dev of the mount that it
// reads.
//
// Errors: those of reading the mount; *ParseError.
func (fs *FS) Self() (id ID, device uint64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fs.dir, &st); err != nil {
		return ID{}, 0, fmt.Errorf("stat %s: %w", fs.mount, err)
	}
	text, err := os.ReadFile(fs.mount + "/self/stat")
	if err != nil {
		return ID{}, 0, fmt.Errorf("read own stat: %w", err)
	}
	parsed, ok := parseStat(text)
	pid, okPID := parsePID(text[:max(0, bytes.IndexByte(text, ' '))])
	if !ok || !okPID {
		return ID{}, 0, &ParseError{File: "self/stat"}
	}
	return ID{PID: pid, StartTicks: parsed.start}, st.Dev, nil
}

// OwnCapabilities returns the effective capabilities of the calling process.
//
// Source: CapEff of /proc/self/status, proc_pid_status(5).
func (fs *FS) OwnCapabilities() (uint64, error) {
	path := fs.mount + "/self/status"
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read own capabilities: %w", err)
	}
	for line := range bytes.Lines(text) {
		if hex, ok := bytes.CutPrefix(line, []byte("CapEff:")); ok {
			set, err := strconv.ParseUint(string(bytes.TrimSpace(hex)), 16, 64)
			if err == nil {
				return set, nil
			}
		}
	}
	return 0, &ParseError{File: "self/status"}
}

// Usage is what the calling process takes.
type Usage struct {
	CPUTicks  uint64 // user and system time of all its threads
	RSS, VMS  uint64 // bytes
	Threads   int32
	FDs       int         // open descriptors
	MaxFDs    Opt[uint64] // soft RLIMIT_NOFILE; unknown when unlimited
	StartedAt int64       // Unix epoch ms
}

// OwnUsage returns what the calling process takes now.
//
// Errors: those of reading its files, which every kernel has; *ParseError.
// Source: /proc/self/{stat,statm,fd}; getrlimit(2).
func (fs *FS) OwnUsage() (Usage, error) {
	buf := make([]byte, 4096)
	text, err := fs.readFile("self/stat", buf)
	if err != nil {
		return Usage{}, err
	}
	st, ok := parseStat(text)
	if !ok {
		return Usage{}, &ParseError{File: "self/stat"}
	}
	u := Usage{CPUTicks: st.utime + st.stime, Threads: st.threads, StartedAt: fs.bootTime() + ticksMS(st.start)}
	if text, err = fs.readFile("self/statm", buf); err != nil {
		return Usage{}, err
	}
	if u.VMS, u.RSS, ok = parseStatm(text); !ok {
		return Usage{}, &ParseError{File: "self/statm"}
	}
	fds, err := os.ReadDir(fs.mount + "/self/fd")
	if err != nil {
		return Usage{}, fmt.Errorf("read own descriptors: %w", err)
	}
	u.FDs = len(fds) - 1 // without that which reads them
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return Usage{}, fmt.Errorf("read own limits: %w", err)
	}
	if limit.Cur != unix.RLIM_INFINITY {
		u.MaxFDs = Some(limit.Cur)
	}
	return u, nil
}

// MayTrace tells whether the calling thread has CAP_SYS_PTRACE in effect, which lets
// it look into every process unless something else forbids that.
func MayTrace() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_PTRACE) != 0
}
