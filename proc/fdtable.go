package proc

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// maxTableThreads is how many threads are looked at for a descriptor table of
	// their own.
	maxTableThreads = 4096
	// maxTables is how many tables of one process are read.
	maxTables = 64
	// maxListedThreads is maxTableThreads where kcmp(2) is not there and whole
	// listings are compared.
	maxListedThreads = 64
)

// fdTable is a table of descriptors of a process.
type fdTable struct {
	dir  string  // "fd", or "task/TID/fd": below the process
	info string  // "fdinfo", or "task/TID/fdinfo"
	tids []int32 // threads that use it; nil when all do
	mark uint64  // of its listing, where kcmp is not there
}

// fdTables finds the tables of p: one, unless threads unshared theirs
// (unshare(CLONE_FILES), clone without CLONE_FILES). kcmp(2) tells threads with
// one table from others, one call a thread; without it (no CONFIG_KCMP, EPERM)
// the numbers that two threads list are compared, which cannot tell two tables
// with the same numbers apart.
func (s *DescriptorScanner) fdTables(p *Process, warn func(string)) ([]fdTable, error) {
	whole := []fdTable{{dir: "fd", info: "fdinfo"}}
	st, err := p.stat()
	if err != nil {
		return nil, err
	}
	if st.threads <= 1 {
		return whole, nil
	}
	dir, err := openAt(p.dir, "task", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return whole, nil // the threads have ended since, or are hidden
	}
	defer closeFD(dir)
	var tids []int32
	more := false
	entries(dir, s.walk.dents, func(name []byte) bool {
		if more = len(tids) == maxTableThreads; !more {
			tid, _ := parsePID(name)
			tids = append(tids, tid)
		}
		return !more
	})
	if more {
		warn(fmt.Sprintf("only the first %d threads were looked at for descriptor tables of their own", maxTableThreads))
	}
	tables, ok := s.compareTables(tids)
	if !ok {
		if len(tids) > maxListedThreads {
			tids = tids[:maxListedThreads]
			warn(fmt.Sprintf("kcmp is not available: only the first %d threads were looked at for descriptor tables of their own", maxListedThreads))
		}
		tables = s.compareListings(p, tids)
	}
	tables = s.livingTables(p, tables)
	if len(tables) <= 1 {
		return whole, nil
	}
	if len(tables) > maxTables {
		tables = tables[:maxTables]
		warn(fmt.Sprintf("the threads have more than %d descriptor tables: only %d are listed", maxTables, maxTables))
	}
	return tables, nil
}

func tableOf(tid int32) fdTable {
	task := "task/" + strconv.Itoa(int(tid)) + "/"
	return fdTable{dir: task + "fd", info: task + "fdinfo", tids: []int32{tid}}
}

const kcmpFiles = 2 // KCMP_FILES, include/uapi/linux/kcmp.h, Linux 3.5

// compareTables groups threads by table with kcmp(2). It is false when that cannot
// be asked.
func (s *DescriptorScanner) compareTables(tids []int32) ([]fdTable, bool) {
	if !s.ownNumbers {
		return nil, false // the numbers of this mount are not ours
	}
	var tables []fdTable
	if len(tids) > 0 {
		if _, _, e := unix.RawSyscall6(unix.SYS_KCMP, uintptr(tids[0]), uintptr(tids[0]), kcmpFiles, 0, 0, 0); e != 0 && e != unix.ESRCH {
			return nil, false
		}
	}
	for _, tid := range tids {
		known := false
		for i := range tables {
			r, _, e := unix.RawSyscall6(unix.SYS_KCMP, uintptr(tables[i].tids[0]), uintptr(tid), kcmpFiles, 0, 0, 0)
			if e == 0 && r == 0 {
				tables[i].tids = append(tables[i].tids, tid)
				known = true
				break
			}
		}
		if !known && len(tables) <= maxTables {
			tables = append(tables, tableOf(tid))
		}
	}
	return tables, true
}

// compareListings groups threads by the numbers that they list.
func (s *DescriptorScanner) compareListings(p *Process, tids []int32) []fdTable {
	var tables []fdTable
	for _, tid := range tids {
		t := tableOf(tid)
		sum := fnv.New64a()
		if dir, err := openAt(p.dir, t.dir, unix.O_RDONLY|unix.O_DIRECTORY); err == nil {
			for {
				n, err := getdentsRaw(dir, s.walk.dents)
				if err != nil || n == 0 {
					break
				}
				eachDirent(s.walk.dents[:n], func(name []byte) bool {
					sum.Write(name)
					return true
				})
			}
			closeFD(dir)
		}
		t.mark = sum.Sum64()
		known := false
		for i := range tables {
			if tables[i].mark == t.mark {
				tables[i].tids = append(tables[i].tids, tid)
				known = true
				break
			}
		}
		if !known && len(tables) <= maxTables {
			tables = append(tables, t)
		}
	}
	return tables
}

// livingTables drops the threads that have ended: they have no table any more,
// which differs from every other. They come first alone in their group.
func (s *DescriptorScanner) livingTables(p *Process, tables []fdTable) []fdTable {
	if len(tables) <= 1 {
		return tables
	}
	kept := tables[:0]
	for _, t := range tables {
		st, ok := statBelow(p.dir, "task/"+strconv.Itoa(int(t.tids[0]))+"/stat", s.walk.link)
		if ok && !st.ended() {
			kept = append(kept, t)
		}
	}
	return kept
}

// ownDescriptor is a descriptor of the target while it is being read.
type ownDescriptor struct {
	Descriptor
	class  linkClass
	object int32 // index of its object, -1 none
	device uint64
}

// readTable reads the descriptors of one table of p into s.own, at most room.
func (s *DescriptorScanner) readTable(p *Process, t fdTable, room int) (cut string, err error) {
	open := func(name string) (int, error) {
		if t.tids == nil {
			return p.openFile(name, unix.O_RDONLY|unix.O_DIRECTORY)
		}
		fd, err := openAt(p.dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return -1, p.wrap(name, err)
		}
		return fd, nil
	}
	dir, err := open(t.dir)
	if err != nil {
		return "", err
	}
	defer closeFD(dir)
	info, err := open(t.info)
	if err != nil {
		info = -1 // flags and position stay unknown
	} else {
		defer closeFD(info)
	}
	base := s.fs.mount + "/" + strconv.Itoa(int(p.id.PID)) + "/"
	if t.tids == nil {
		base += p.path(t.dir) + "/"
	} else {
		base += t.dir + "/"
	}
	for {
		n, err := getdentsRaw(dir, s.walk.dents)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return "", p.wrap(t.dir, err)
		}
		if n == 0 {
			return "", nil
		}
		eachDirent(s.walk.dents[:n], func(name []byte) bool {
			fd, ok := parseFD(name)
			if !ok {
				return true
			}
			if len(s.own) >= room {
				cut = fmt.Sprintf("only the first %d descriptors of the process are listed", room)
				return false
			}
			if len(s.own)%walkEvery == 0 && s.ownTimeOver() {
				cut = fmt.Sprintf("only the first %d descriptors of the process are listed: reading them took more than %v", len(s.own), maxOwnTime)
				return false
			}
			var l int
			if l, err = readlinkRaw(dir, &name[0], s.walk.link); err != nil {
				if errors.Is(err, fs.ErrPermission) {
					return false
				}
				err = nil
				return true // closed since
			}
			s.own = append(s.own, s.describe(fd, name, s.walk.link[:l], dir, info, base, t.tids))
			return true
		})
		if err != nil {
			return "", p.wrap(t.dir, err)
		}
		if cut != "" {
			return cut, nil
		}
	}
}

// describe tells what one descriptor is, from its link, statx and fdinfo. Nothing
// is asked of a remote file system, and nothing is read from the descriptor.
func (s *DescriptorScanner) describe(fd int32, name, link []byte, dir, info int, base string, tids []int32) ownDescriptor {
	d := ownDescriptor{object: -1}
	class, inode := classifyLink(link)
	d.class = class
	d.FD, d.Target, d.TIDs = fd, string(link), tids
	var st unix.Statx_t
	mode, device := uint32(0), uint64(0)
	if statxRaw(dir, &name[0], &st) == nil {
		mode, device = uint32(st.Mode), unix.Mkdev(st.Dev_major, st.Dev_minor)
		d.Inode, d.device = Some(st.Ino), device
		d.Deleted = st.Nlink == 0 && len(link) > len(deletedTail) && string(link[len(link)-len(deletedTail):]) == string(deletedTail)
	} else if inode != 0 {
		d.Inode = Some(inode)
	}
	d.Kind = kindOf(link, class, mode)
	var fi fdInfo
	if info >= 0 {
		if text, ok := s.readInfo(info, &name[0]); ok {
			fi = parseFDInfo(text)
			if d.Kind == FDEpoll {
				if note := watchedNote(text, len(text) == len(s.info)); note != "" {
					d.Note = Some(note)
				}
			}
		}
	}
	if flags, ok := fi.flags.Get(); ok {
		d.Access = Some(accessOf(flags))
		d.Flags = s.flagNames(flags)
		if flags&flagPath == 0 && hasPosition(d.Kind, mode) {
			d.Position = fi.position
		}
	}
	if !d.Inode.Known() {
		d.Inode = fi.inode
	}
	switch d.Kind {
	case FDPipe, FDSocket:
		if ino, ok := d.Inode.Get(); ok && ino != 0 {
			d.object = s.objectOf(objectKey{class: class, inode: ino})
		}
	case FDFIFO:
		if ino, ok := d.Inode.Get(); ok {
			d.object = s.objectOf(objectKey{class: linkPath, inode: ino, device: device})
		}
	case FDMemfd:
		if ino, ok := d.Inode.Get(); ok {
			d.object = s.objectOf(objectKey{class: linkMemfd, inode: ino, device: device})
		}
	case FDEventfd:
		if id, ok := fi.event.Get(); ok {
			d.object = s.objectOf(objectKey{class: linkEventfd, inode: id})
		}
	case FDPidfd:
		switch pid, ok := fi.pid.Get(); {
		case ok && pid > 0:
			d.Note = Some(fmt.Sprintf("refers to process %d", pid))
		case ok && pid < 0:
			d.Note = Some("refers to a process that has ended")
		}
	}
	if d.Kind == FDSocket {
		d.Protocol = s.socketProtocol(base + strconv.Itoa(int(fd)))
	}
	return d
}

// readInfo reads one file of a fdinfo directory, as much as tells what is used.
func (s *DescriptorScanner) readInfo(dir int, name *byte) ([]byte, bool) {
	fd, err := openRaw(dir, name, unix.O_RDONLY)
	if err != nil {
		return nil, false
	}
	n, err := readRaw(fd, s.info)
	closeFD(fd)
	if err != nil {
		return nil, false
	}
	return s.info[:n], true
}

// flagNames keeps the lists of flags it made: few differ.
func (s *DescriptorScanner) flagNames(flags uint64) []string {
	names, ok := s.flags[flags]
	if !ok {
		names = flagNames(flags)
		if len(s.flags) < keptFlagLists {
			s.flags[flags] = names
		}
	}
	return names
}

// keptFlagLists bounds what a scanner keeps of flags; more are made anew each time.
const keptFlagLists = 256

// socketProtocol asks for the name of the protocol of any socket, of any
// namespace: the attribute system.sockprotoname of sockfs, net/socket.c, Linux 3.2.
// The path leads to the socket; nothing but its inode is touched.
func (s *DescriptorScanner) socketProtocol(path string) Opt[string] {
	if !s.live {
		return Opt[string]{}
	}
	var name [64]byte
	n, err := unix.Getxattr(path, "system.sockprotoname", name[:])
	if err != nil || n <= 1 {
		return Opt[string]{}
	}
	return Some(protocolName(string(name[:n-1])))
}

// ownNumbers tells whether the PIDs of this mount are those of the caller's own
// namespace.
func (fs *FS) ownNumbers() bool {
	var text [16]byte
	var self = [5]byte{'s', 'e', 'l', 'f'}
	n, err := readlinkRaw(fs.dir, &self[0], text[:])
	return err == nil && string(text[:n]) == strconv.Itoa(os.Getpid())
}
