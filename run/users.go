package run

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// account is a user to run as, from /etc/passwd and /etc/group: the same with and
// without other name services.
type account struct {
	uid, gid    uint32
	groups      []uint32
	name        string // "" without a line in passwd
	home, shell string
}

// accounts reads user names below a directory, /etc.
type accounts struct{ dir string }

// byUID returns a user by number. One without a line in passwd has the group of its
// number, no further groups and "/" as home.
func (a accounts) byUID(uid uint32) (account, error) {
	return a.find(func(f []string) bool { return f[2] == strconv.FormatUint(uint64(uid), 10) }, account{uid: uid, gid: uid, home: "/"})
}

// byName returns a user by name or number.
//
// Errors: run_user_unknown.
func (a accounts) byName(name string) (account, error) {
	if uid, err := strconv.ParseUint(name, 10, 32); err == nil {
		return a.byUID(uint32(uid))
	}
	u, err := a.find(func(f []string) bool { return f[0] == name }, account{})
	if err == nil && u.name == "" {
		return account{}, fail(CodeUserUnknown, "There is no user %q.", name)
	}
	return u, err
}

func (a accounts) find(match func(fields []string) bool, otherwise account) (account, error) {
	text, err := os.ReadFile(a.dir + "/passwd")
	if err != nil && !os.IsNotExist(err) {
		return account{}, fmt.Errorf("read users: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimRight(line, "\n"), ":")
		if len(f) != 7 || !match(f) {
			continue
		}
		uid, err1 := strconv.ParseUint(f[2], 10, 32)
		gid, err2 := strconv.ParseUint(f[3], 10, 32)
		if err1 != nil || err2 != nil {
			continue
		}
		u := account{uid: uint32(uid), gid: uint32(gid), name: f[0], home: f[5], shell: f[6]}
		u.groups, err = a.groupsOf(u)
		return u, err
	}
	return otherwise, nil
}

func (a accounts) groupsOf(u account) ([]uint32, error) {
	text, err := os.ReadFile(a.dir + "/group")
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("read groups: %w", err)
	}
	groups := []uint32{u.gid}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimRight(line, "\n"), ":")
		if len(f) != 4 || !slices.Contains(strings.Split(f[3], ","), u.name) {
			continue
		}
		if gid, err := strconv.ParseUint(f[2], 10, 32); err == nil && !slices.Contains(groups, uint32(gid)) {
			groups = append(groups, uint32(gid))
		}
	}
	return groups, nil
}

// asUser calls f with the rights that a user has to files. Root alone can and has to: it
// would open for others what they cannot reach.
//
// Source: setfsuid(2), which is per thread and takes root's rights to files away.
func (a account) asUser(f func() error) error {
	if os.Geteuid() != 0 || a.uid == 0 {
		return f()
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this goroutine
		groups := append([]uint32{}, a.groups...)
		groups = append(groups, a.gid)
		if _, _, number := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0); number != 0 {
			done <- fmt.Errorf("take the groups of user %d: %w", a.uid, number)
			return
		}
		// These tell no error, only who it was before.
		unix.Setfsgid(int(a.gid))
		unix.Setfsuid(int(a.uid))
		if got, err := unix.SetfsuidRetUid(int(a.uid)); err != nil || got != int(a.uid) {
			done <- fmt.Errorf("take the rights of user %d to files: refused", a.uid)
			return
		}
		done <- f()
	}()
	return <-done
}
