package bpf

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// canaryTries is how often the canary is sent: on a very busy host its counts may
// be among those that found no place.
const canaryTries = 3

// canary moves known sizes through an own pipe, file and socket and wants to see
// exactly these.
//
// Errors: *wayError with errSilent for the first part that tells something else.
func (s *ioSensor) canary() error {
	var wrong *wayError
	for range canaryTries {
		var w Window
		if err := s.discard(&w); err != nil {
			return err
		}
		want, err := singCanary(s.plan.classes())
		if err != nil {
			return fmt.Errorf("canary: %w", err)
		}
		if err := s.discard(&w); err != nil {
			return err
		}
		if wrong = s.compareCanary(&w, want); wrong == nil {
			return nil
		}
	}
	return wrong
}

// discard takes a window that nobody is shown.
func (s *ioSensor) discard(w *Window) error {
	s.flip()
	time.Sleep(settleTime)
	return s.collect(w)
}

// note is what the canary did to one resource in one direction.
type note struct {
	class class
	inode uint64
	write bool
	bytes uint64
	count uint64
}

// compareCanary finds the part of the plan whose counts are wrong.
func (s *ioSensor) compareCanary(w *Window, want []note) *wayError {
	own := uint32(os.Getpid())
	for _, n := range want {
		rows := w.IPC
		if n.class == files {
			rows = w.Files
		}
		i := slices.IndexFunc(rows, func(t Transfer) bool {
			return t.TGID == own && t.Inode == n.inode && t.Write == n.write
		})
		if i >= 0 && rows[i].Bytes == n.bytes && rows[i].Count == n.count {
			continue
		}
		for _, p := range s.plan.parts() {
			if p.classes&n.class == 0 {
				continue
			}
			if p.way().name == bySysExit {
				return &wayError{s.plan.sys, errSilent}
			}
			return &wayError{p.way().programs[0], errSilent}
		}
	}
	return nil
}

// Each call of the canary moves another size, so that a wrong sum is no accident.
var canarySizes = struct{ write, writev, pwrite, pwritev, send int }{3, 4, 5, 6, 7}

// singCanary does what the canary is made of, through system calls that each take
// one of the hooks.
//
// Effect: descriptors that are closed again; nothing on any disk.
func singCanary(classes class) (done []note, err error) {
	z := canarySizes
	buffer := make([]byte, 16)
	// step adds the result of a call that must move n bytes.
	step := func(n int) func(int, error) {
		return func(got int, e error) {
			if e == nil && got != n {
				e = fmt.Errorf("%d bytes in place of %d", got, n)
			}
			err = errors.Join(err, e)
		}
	}
	inode := func(fd int) uint64 {
		var st unix.Stat_t
		err = errors.Join(err, unix.Fstat(fd, &st))
		return st.Ino
	}
	if classes&pipes != 0 {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			return nil, err
		}
		defer unix.Close(p[0])
		defer unix.Close(p[1])
		step(z.write)(unix.Write(p[1], buffer[:z.write]))
		step(z.writev)(unix.Writev(p[1], [][]byte{buffer[:1], buffer[1:z.writev]}))
		step(z.write)(unix.Read(p[0], buffer[:z.write]))
		step(z.writev)(unix.Readv(p[0], [][]byte{buffer[:2], buffer[2:z.writev]}))
		ino, sum := inode(p[0]), uint64(z.write+z.writev)
		done = append(done, note{pipes, ino, true, sum, 2}, note{pipes, ino, false, sum, 2})
	}
	if classes&files != 0 {
		fd, err := unix.MemfdCreate("canary", unix.MFD_CLOEXEC)
		if err != nil {
			return nil, err
		}
		defer unix.Close(fd)
		step(z.pwrite)(unix.Pwrite(fd, buffer[:z.pwrite], 0))
		step(z.pwritev)(unix.Pwritev(fd, [][]byte{buffer[:z.pwritev]}, 0))
		step(z.pwrite)(unix.Pread(fd, buffer[:z.pwrite], 0))
		step(z.pwritev)(unix.Preadv(fd, [][]byte{buffer[:z.pwritev]}, 0))
		ino, sum := inode(fd), uint64(z.pwrite+z.pwritev)
		done = append(done, note{files, ino, true, sum, 2}, note{files, ino, false, sum, 2})
	}
	if classes&(socketsOut|socketsIn) != 0 {
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		defer unix.Close(p[0])
		defer unix.Close(p[1])
		step(z.send)(unix.SendmsgN(p[0], buffer[:z.send], nil, nil, 0))
		step(1)(unix.Write(p[0], buffer[:1]))
		n, _, e := unix.Recvfrom(p[1], buffer[:z.send], unix.MSG_PEEK)
		step(z.send)(n, e)
		n, _, e = unix.Recvfrom(p[1], buffer[:z.send+1], 0)
		step(z.send+1)(n, e)
		sum := uint64(z.send + 1)
		if classes&socketsOut != 0 {
			done = append(done, note{socketsOut, inode(p[0]), true, sum, 2})
		}
		if classes&socketsIn != 0 {
			done = append(done, note{socketsIn, inode(p[1]), false, sum, 1})
		}
	}
	return done, err
}
