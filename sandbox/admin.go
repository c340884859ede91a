package sandbox

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Admin is a thread that has CAP_SYS_ADMIN at hand, for the two things that nothing
// less allows: setns(2) and opening /proc/PID/task/TID/stack. Safe for concurrent use.
type Admin struct {
	base  sets // without CAP_SYS_ADMIN in effect
	calls chan adminCall
}

type adminCall struct {
	f    func() bool
	done chan any // what f panicked with, nil when it did not
}

func newAdmin(base sets) *Admin {
	a := &Admin{base, make(chan adminCall)}
	go a.thread()
	return a
}

// Do runs f on the thread, with CAP_SYS_ADMIN in effect, and returns when f has
// returned. One f runs at a time: it must not wait for anything. What it returns is
// whether the thread is as it was; if not, another takes its place. A panic of f is
// the caller's.
func (a *Admin) Do(f func() (whole bool)) {
	call := adminCall{f, make(chan any)}
	a.calls <- call
	if v := <-call.done; v != nil {
		panic(v)
	}
}

// thread is never unlocked: when it cannot lower what it raised, or f changed it, it
// ends with its goroutine.
func (a *Admin) thread() {
	runtime.LockOSThread()
	for call := range a.calls {
		whole, panicked := a.raised(call.f)
		if !whole {
			go a.thread()
			call.done <- panicked
			return
		}
		call.done <- panicked
	}
}

// raised runs f and tells whether the thread can be used again.
func (a *Admin) raised(f func() bool) (whole bool, panicked any) {
	defer func() {
		if panicked = recover(); panicked != nil {
			whole = false
		}
	}()
	up := a.base
	up.Effective |= admin
	err := set(up)
	whole = f() // when that failed, the kernel refuses what it does
	return whole && err == nil && set(a.base) == nil, nil
}

// set is capset(2) of the calling thread.
func set(s sets) error {
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &s.data()[0])
}
