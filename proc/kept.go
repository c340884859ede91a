package proc

import (
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// maxKeptFiles is how many descriptors a scanner keeps; in the kernel one of stat
	// or status takes some 5 KiB, a pidfd less than 1 KiB.
	maxKeptFiles = 20_000
	// maxKeptShare is the part of RLIMIT_NOFILE that it keeps at most: one half.
	maxKeptShare = 2
)

// keptFiles are open from scan to scan. The kernel binds each to the process, not to
// its number: once that has ended, reading fails for good.
type keptFiles struct {
	stat  int // -1: closed
	ids   int // a pidfd that tells the ids, or status; -1 for kernel threads
	pidfd bool
}

// keptIO is the file io of a process, open from scan to scan beside the tables, which do
// not have what is in it. It is bound to the process too.
type keptIO struct{ fd int } // -1: closed

// signs are what stat tells of a process whose size has changed: it ran, it touched new
// pages, or the kernel's estimate moved.
type signs struct{ vms, pages, faults, ticks uint64 }

func signsOf(st *stat) signs {
	return signs{st.vms, st.pages, st.minorFault + st.majorFault, st.utime + st.stime}
}

// Keep makes scans keep descriptors of processes that they see again, so that these
// need not be opened each time: of stat and, for the ids, a pidfd (Linux 6.13) or
// status. It is for who scans again and again, and ends with Keep(false). While the
// tables are read it is io alone, if that is asked for. Beyond half of RLIMIT_NOFILE
// processes are read as before.
//
// RSS and VMS are read when stat shows a sign of change, and else with the details.
// Before Linux 6.16 that misses nothing. Since then statm is more exact than stat, and
// what is given back or taken without a tick of CPU time or a page fault is seen at once
// only when it is more than the CPUs keep to themselves.
//
// Effect on the targets: none. The kernel keeps the number of a process that has ended
// in memory until the next scan.
// Source: pread(2) of /proc/PID/stat; PIDFD_GET_INFO.
func (s *Scanner) Keep(on bool) {
	if !on {
		s.release()
		s.mostFiles = 0
		return
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return
	}
	s.mostFiles = int(min(limit.Cur/maxKeptShare, maxKeptFiles))
}

// keep opens the files of a process that was just read. They are opened by number, and
// are the process's when the next reading finds its start time.
func (s *Scanner) keep(row *Row, k *known) {
	n := 2
	if row.KernelThread {
		n = 1
	}
	if s.tasks != nil || s.files+n > s.mostFiles || row.State == 'Z' {
		return
	}
	f := &keptFiles{stat: -1, ids: -1, pidfd: s.reader.ids.pidfd}
	var err error
	if f.stat, err = s.reader.openNumber(row.ID.PID, "/stat"); err != nil {
		return
	}
	s.files++
	switch {
	case row.KernelThread:
	case f.pidfd:
		f.ids, err = pidfdOpen(row.ID.PID)
	default:
		f.ids, err = s.reader.openNumber(row.ID.PID, "/status")
	}
	if f.ids >= 0 {
		s.files++
	}
	if err != nil {
		s.drop(f)
		return
	}
	k.files = f
}

// keepIO opens the file io of a process that was just read: its number belonged to it
// before, and does afterwards.
func (s *Scanner) keepIO(row *Row, k *known) {
	if s.tasks == nil || s.files+1 > s.mostFiles || !row.IO.Known() {
		return
	}
	fd, err := s.reader.openNumber(row.ID.PID, "/io")
	if err != nil {
		return
	}
	text, err := s.reader.slurpNumber(row.ID.PID, "/stat")
	if st, ok := parseStat(text); err != nil || !ok || st.start != row.ID.StartTicks {
		closeFD(fd)
		return
	}
	s.files++
	k.io = &keptIO{fd}
}

// io reads what is kept for it, and tells whether that could be done.
func (r *reader) io(f *keptIO, row *Row) bool {
	n, err := unix.Pread(f.fd, r.buf, 0)
	if err != nil {
		return false // it has ended, or may not be looked at any more
	}
	row.IO = storage(r.buf[:n])
	return true
}

// drop closes what is kept of one process; nil and a second call do nothing.
func (s *Scanner) drop(f *keptFiles) {
	if f != nil {
		s.shut(&f.stat)
		s.shut(&f.ids)
	}
}

// dropIO is drop for the file io.
func (s *Scanner) dropIO(f *keptIO) {
	if f != nil {
		s.shut(&f.fd)
	}
}

// shut closes a descriptor that is kept, unless it is closed.
func (s *Scanner) shut(fd *int) {
	if *fd >= 0 {
		closeFD(*fd)
		*fd = -1
		s.files--
	}
}

// release closes all that is kept, also by a scan that did not come to its end.
func (s *Scanner) release() {
	for _, list := range [][]known{s.known, s.next} {
		for i := range list {
			s.drop(list[i].files)
			s.dropIO(list[i].io)
			list[i].files, list[i].io = nil, nil
		}
	}
}

// openDir opens the directory of whoever has the number now.
func (r *reader) openDir(pid int32) (int, error) {
	var path [pathPart]byte
	strconv.AppendInt(path[:0], int64(pid), 10)
	return openRaw(r.fs.dir, &path[0], unix.O_PATH|unix.O_DIRECTORY)
}

// openNumber opens a file of whoever has the number now.
func (r *reader) openNumber(pid int32, file string) (int, error) {
	var path [pathPart]byte
	copy(path[len(strconv.AppendInt(path[:0], int64(pid), 10)):], file)
	return openRaw(r.fs.dir, &path[0], unix.O_RDONLY)
}

// slurpNumber is slurp of a file of whoever has the number now.
func (r *reader) slurpNumber(pid int32, file string) ([]byte, error) {
	fd, err := r.openNumber(pid, file)
	if err != nil {
		return nil, err
	}
	n, err := readRaw(fd, r.buf)
	closeFD(fd)
	return r.buf[:n], err
}

// again reads a process through what is kept of it, and tells whether that did: else
// it is to be read as any other.
//
// Errors: those of row.
func (r *reader) again(pid int32, want Want, row *Row, k *known) (done bool, err error) {
	n, err := preadRaw(k.files.stat, r.buf)
	if err != nil {
		k.files = nil // it has ended; the number may be another's
		return false, nil
	}
	st, ok := parseStat(r.buf[:n])
	if !ok || st.start != k.id.StartTicks {
		k.files = nil
		return false, nil
	}
	if k.details == nil || st.state == 'X' || st.ended() && st.threads > 1 {
		return false, nil
	}
	r.plain(&st, pid, row)
	k.ppid = st.ppid
	stale := r.changed(&st, k) || r.due(k)
	below := stale || r.spaceDue(row.ID, &k.space, want)
	if row.KernelThread && below {
		return false, nil
	}
	r.texts.comm = append(r.texts.comm[:0], st.comm...) // buf is about to be used again

	dir := -1
	if below {
		if dir, err = r.openDir(pid); err != nil {
			return false, nil
		}
		defer closeFD(dir)
	}
	switch now := signsOf(&st); {
	case st.ended() || row.KernelThread: // without memory
	case stale || st.state == 'R' || now != k.signs:
		text, err := r.slurpNumber(pid, "/statm")
		if row.VMS, row.RSS, ok = parseStatm(text); err != nil || !ok {
			return false, nil
		}
		k.signs, k.vms, k.rss = now, row.VMS, row.RSS
	default:
		row.VMS, row.RSS = k.vms, k.rss
	}
	if want.IO {
		if text, err := r.slurpNumber(pid, "/io"); err == nil {
			row.IO = storage(text)
		}
	}
	// It is there still, so what was opened by number above is its own.
	if row.UID, row.EUID, err = r.keptIDs(k, want); err != nil || row.UID != k.uid || row.EUID != k.euid {
		return false, nil
	}
	r.proc.id, r.proc.fs, r.proc.dir, r.proc.live = row.ID, r.fs, dir, ""
	return true, r.rest(&st, stale, want, row, k)
}

// keptIDs asks for the user ids of a process. It fails when that has ended, for a kernel
// thread only where something was opened by number: it keeps the ids it was made with.
func (r *reader) keptIDs(k *known, want Want) (uid, euid uint32, err error) {
	f := k.files
	if f.ids < 0 {
		if want.IO {
			_, err = preadRaw(f.stat, r.buf)
		}
		return k.uid, k.euid, err
	}
	if f.pidfd {
		return r.ids.of(f.ids)
	}
	n, err := preadRaw(f.ids, r.buf)
	if err != nil {
		return 0, 0, err
	}
	uid, euid, ok := statusUID(r.buf[:n])
	if !ok {
		return 0, 0, &ParseError{File: "status"}
	}
	return uid, euid, nil
}

// preadRaw reads a file from its beginning. The files that are kept make nobody wait:
// the kernel takes no lock of a target for them but for a moment's spinning. So the
// scheduler need not know.
func preadRaw(fd int, b []byte) (int, error) {
	for {
		n, _, e := unix.RawSyscall6(unix.SYS_PREAD64, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0, 0, 0)
		if e == 0 {
			return int(n), nil
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}
