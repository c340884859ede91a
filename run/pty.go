package run

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// terminal is the master side of a pseudo terminal. All its ioctls go through
// SyscallConn: Fd would make it blocking, and then Close would not end a Read.
type terminal struct{ *os.File }

// openTerminal makes a pseudo terminal that belongs to a user. slave is a descriptor for
// the child; the caller closes it.
//
// Source: pts(4), ioctl_tty(2).
func openTerminal(size Size, who account) (t terminal, slave int, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return terminal{}, -1, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return terminal{}, -1, fmt.Errorf("unlock terminal: %w", err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Columns}); err != nil {
		return terminal{}, -1, fmt.Errorf("size terminal: %w", err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return terminal{}, -1, fmt.Errorf("number of terminal: %w", err)
	}
	slave, err = unix.Open(fmt.Sprintf("/dev/pts/%d", number), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return terminal{}, -1, fmt.Errorf("open terminal: %w", err)
	}
	if os.Geteuid() == 0 {
		if err := unix.Fchown(slave, int(who.uid), -1); err != nil {
			unix.Close(slave)
			return terminal{}, -1, fmt.Errorf("give terminal: %w", err)
		}
	}
	return terminal{os.NewFile(uintptr(fd), "/dev/ptmx")}, slave, nil
}

func (t terminal) resize(size Size) error {
	c, err := t.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = c.Control(func(fd uintptr) {
		failure = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Columns})
	})
	return errors.Join(err, failure)
}

// pipe makes a pipe. Only our end is non-blocking.
func pipe(oursIsWrite bool) (ours *os.File, theirs int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, fmt.Errorf("make a pipe: %w", err)
	}
	mine, child := p[0], p[1]
	if oursIsWrite {
		mine, child = child, mine
	}
	if err := unix.SetNonblock(mine, true); err != nil {
		unix.Close(mine)
		unix.Close(child)
		return nil, -1, fmt.Errorf("make a pipe: %w", err)
	}
	return os.NewFile(uintptr(mine), "pipe"), child, nil
}
