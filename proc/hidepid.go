package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrHidden says that there is a process with this PID, which the mount of procfs
// hides. It is an fs.ErrPermission.
var ErrHidden = fmt.Errorf("hidden by hidepid: %w", fs.ErrPermission)

// Hiding is what a mount of procfs does with processes that its reader may not trace:
// its option hidepid, proc(5), 3.3. "ptraceable" and words in place of numbers came
// with 5.8.
type Hiding string

const (
	HidesNothing  Hiding = ""
	HidesContents Hiding = "noaccess"   // hidepid=1: listed, and nothing more
	HidesOthers   Hiding = "invisible"  // hidepid=2: processes of other users are not there
	HidesUntraced Hiding = "ptraceable" // hidepid=4: nor are own ones that may not be traced
)

// ReadHiding returns what the mount hides from who may not trace.
//
// Errors: those of reading /proc/self/mountinfo.
func (fs *FS) ReadHiding() (Hiding, error) {
	table, err := fs.readFile("self/mountinfo", nil)
	if err != nil {
		return HidesNothing, err
	}
	return hidingOf(table, fs.mount), nil
}

// hidingOf reads the options of the procfs that was mounted last at point.
func hidingOf(mountinfo []byte, point string) Hiding {
	hides := HidesNothing
	for line := range bytes.Lines(mountinfo) {
		mount, super, ok := strings.Cut(strings.TrimSuffix(string(line), "\n"), " - ")
		fields, options := strings.Fields(mount), strings.Fields(super)
		if !ok || len(fields) < 6 || len(options) < 3 || options[0] != "proc" || fields[4] != point {
			continue
		}
		hides = HidesNothing
		for option := range strings.SplitSeq(options[2], ",") {
			switch option {
			case "hidepid=1", "hidepid=noaccess":
				hides = HidesContents
			case "hidepid=2", "hidepid=invisible":
				hides = HidesOthers
			case "hidepid=4", "hidepid=ptraceable":
				hides = HidesUntraced
			}
		}
	}
	return hides
}

// absent turns the error of looking for a process into ErrGone when there is none,
// into ErrHidden when there is one that the mount does not show.
//
// Source: pidfd_open(2), 5.3, which asks for no right and knows no hidepid.
func (fs *FS) absent(pid int32, err error) error {
	if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH) {
		return err
	}
	hides, unread := fs.ReadHiding()
	if unread != nil || hides != HidesOthers && hides != HidesUntraced {
		return ErrGone
	}
	fd, e := unix.PidfdOpen(int(pid), 0)
	if e != nil {
		return ErrGone
	}
	closeFD(fd)
	return ErrHidden
}
