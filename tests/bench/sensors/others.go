package main

import (
	"context"
	"errors"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// others counts the BPF programs in the kernel that trace something: with those of
// someone else at work "off" is not off.
//
// Source: enum bpf_cmd and bpf_prog_type of include/uapi/linux/bpf.h.
func others() int {
	const nextID, fdByID, info = 11, 13, 15 // BPF_PROG_GET_NEXT_ID, BPF_PROG_GET_FD_BY_ID, BPF_OBJ_GET_INFO_BY_FD
	n := 0
	var id struct{ start, next, flags uint32 }
	for {
		if _, _, errno := unix.Syscall(unix.SYS_BPF, nextID, uintptr(unsafe.Pointer(&id)), unsafe.Sizeof(id)); errno != 0 {
			return n
		}
		id.start = id.next
		open := struct{ id, next, flags uint32 }{id: id.next}
		fd, _, errno := unix.Syscall(unix.SYS_BPF, fdByID, uintptr(unsafe.Pointer(&open)), unsafe.Sizeof(open))
		if errno != 0 {
			continue
		}
		var about [256]byte // bpf_prog_info, which begins with the type
		ask := struct {
			fd, size uint32
			to       unsafe.Pointer
		}{uint32(fd), uint32(len(about)), unsafe.Pointer(&about)}
		_, _, errno = unix.Syscall(unix.SYS_BPF, info, uintptr(unsafe.Pointer(&ask)), unsafe.Sizeof(ask))
		unix.Close(int(fd))
		switch about[0] {
		case 2, 5, 7, 17, 26: // kprobe, tracepoint, perf event, raw tracepoint, tracing
			if errno == 0 {
				n++
			}
		}
	}
}

// alone waits until nobody else traces this machine.
func alone(ctx context.Context) error {
	for end := time.Now().Add(60 * time.Second); others() > 0; {
		if time.Now().After(end) {
			return errors.New("another program traces this machine with BPF: there is nothing to compare with")
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}
