package proc

import (
	"fmt"

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
// CAP_SYS_ADMIN there and here. Only one locked thread enters it, and only for the
// length of socket(2). When it cannot return, nothing else runs on it any more.
func (fs *FS) diagIn(ns int, buf []byte) (c *diagConn, err error) {
	fs.asAdmin(func() (whole bool) {
		own, e := openAt(fs.dir, "thread-self/ns/net", unix.O_RDONLY)
		if e != nil {
			err = fmt.Errorf("open own network namespace: %w", e)
			return true
		}
		defer closeFD(own)
		x, err1 := namespaceOf(own)
		y, err2 := namespaceOf(ns)
		if err1 == nil && err2 == nil && x == y {
			c, err = openDiag(buf)
			return true
		}
		if e := unix.Setns(ns, unix.CLONE_NEWNET); e != nil {
			err = fmt.Errorf("enter network namespace: %w", e)
			return true
		}
		c, err = openDiag(buf)
		if back := unix.Setns(own, unix.CLONE_NEWNET); back != nil {
			if err == nil {
				c.Close()
			}
			c, err = nil, fmt.Errorf("return to own network namespace: %w", back)
			return false
		}
		return true
	})
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
