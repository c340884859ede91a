// Package bpf watches the whole host from programs in the kernel: which process
// runs on which CPU, how many bytes go through which pipe and socket, which
// files are read and written.
//
// Open loads and attaches what the kernel allows, Drain takes what was counted
// since the last call, Status says what each sensor is and is not able to do,
// and Close leaves nothing in the kernel.
//
// The package brings its own loader over bpf(2): object files, maps, calls,
// relocations, attachment and the ring buffer; only the type information (BTF
// and CO-RE) is read by a library. It names processes by thread group ID and the
// raw start time of the leader, and knows no other package of this program.
//
// Source: bpf(2), Documentation/bpf/ of the kernel. Needs 5.10 and BTF.
package bpf
