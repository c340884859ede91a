package proc

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// nsID names a namespace: device and inode of its file in nsfs.
type nsID struct{ dev, ino uint64 }

// namespaceAt names the namespace that the link path below dir leads to.
func namespaceAt(dir int, path string) (nsID, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, path, &st, 0); err != nil {
		return nsID{}, err
	}
	return nsID{st.Dev, st.Ino}, nil
}

// diagIn opens a sock_diag socket in the network namespace of the file ns.
//
// Another namespace than the caller's is entered with setns(2), which needs
// CAP_SYS_ADMIN there and here. Only the thread of the calling goroutine enters
// it, locked, and only for the length of socket(2); it returns before the lock is
// given up. When it cannot return, the goroutine keeps its lock, so that the
// runtime never gives that thread to another goroutine and ends it with this one;
// what the goroutine itself opens until then is in the wrong namespace, hence the
// error.
func (fs *FS) diagIn(ns int, buf []byte) (*diagConn, error) {
	runtime.LockOSThread()
	own, err := openAt(fs.dir, "thread-self/ns/net", unix.O_RDONLY)
	if err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("open own network namespace: %w", err)
	}
	defer closeFD(own)
	x, err1 := namespaceOf(own)
	y, err2 := namespaceOf(ns)
	if err1 == nil && err2 == nil && x == y {
		defer runtime.UnlockOSThread()
		return openDiag(buf)
	}
	if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("enter network namespace: %w", err)
	}
	c, err := openDiag(buf)
	if back := unix.Setns(own, unix.CLONE_NEWNET); back != nil {
		if err == nil {
			c.Close()
		}
		return nil, fmt.Errorf("return to own network namespace: %w", back)
	}
	runtime.UnlockOSThread()
	return c, err
}

// namespaceOf names the namespace of an open file of nsfs.
func namespaceOf(ns int) (nsID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(ns, &st); err != nil {
		return nsID{}, err
	}
	return nsID{st.Dev, st.Ino}, nil
}
