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
	done chan struct{}
}

func newAdmin(base sets) *Admin {
	a := &Admin{base, make(chan adminCall)}
	go a.thread()
	return a
}

// Do runs f on the thread, with CAP_SYS_ADMIN in effect, and returns when f has
// returned. One f runs at a time: it must not wait for anything. What it returns is
// whether the thread is as it was; if not, another takes its place.
func (a *Admin) Do(f func() (whole bool)) {
	done := make(chan struct{})
	a.calls <- adminCall{f, done}
	<-done
}

// thread is never unlocked: when it cannot lower what it raised, or f changed it, it
// ends with its goroutine.
func (a *Admin) thread() {
	runtime.LockOSThread()
	raised := a.base
	raised.Effective |= admin
	for call := range a.calls {
		err := set(raised)
		whole := call.f() // when that failed, the kernel refuses what it does
		if err == nil {
			err = set(a.base)
		}
		if !whole || err != nil {
			go a.thread()
			close(call.done)
			return
		}
		close(call.done)
	}
}

// set is capset(2) of the calling thread.
func set(s sets) error {
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &s.data()[0])
}
