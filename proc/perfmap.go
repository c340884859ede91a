package proc

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// OpenPerfMap opens the file in which the just-in-time compiler of the process, if
// it does so, names the code it has made: perf-PID.map in /tmp, in the mount
// namespace of the process and with the PID that it has in its own PID namespace.
// Anybody may write files there, so it must belong to the process's user or root,
// and must be no symbolic link.
//
// Errors: fs.ErrNotExist when there is none, as for most processes; those of Open.
// Source: tools/perf/Documentation/jit-interface.txt; NSpid of
// /proc/PID/status, proc_pid_status(5), 4.1.
func (f *Files) OpenPerfMap() (*os.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := f.p.readFile("status", nil)
	if err != nil {
		return nil, err
	}
	st, err := parseContextStatus(text)
	if err != nil {
		return nil, f.p.wrap("status", err)
	}
	pid := f.p.id.PID
	if n := len(st.nsPIDs); n > 0 {
		pid = st.nsPIDs[n-1]
	}
	path := "/tmp/perf-" + strconv.Itoa(int(pid)) + ".map"
	uids, known := st.uids.Get()
	file, err := f.open(path, dirLinks, func(st *unix.Statx_t) error {
		if st.Uid != 0 && (!known || st.Uid != uids[0] && st.Uid != uids[1]) {
			return fmt.Errorf("belongs to user %d: %w", st.Uid, fs.ErrPermission)
		}
		return nil
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return file, nil
}
