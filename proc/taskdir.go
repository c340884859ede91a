package proc

import "golang.org/x/sys/unix"

// OpenTasks opens the directory of the threads of the process, for a reader that
// must not allocate or wait: its entries are the thread ids, below each lie the
// files of the thread, and its link count is two more than there are threads. The
// caller closes the descriptor.
//
// It stays bound to the process; when that is gone the directory is empty.
//
// Errors: ErrGone; fs.ErrPermission.
// Source: /proc/PID/task, proc_pid_task(5); proc_task_getattr of fs/proc/base.c, 2.6.
func (p *Process) OpenTasks() (fd int, err error) {
	return p.openFile("task", unix.O_RDONLY|unix.O_DIRECTORY)
}
