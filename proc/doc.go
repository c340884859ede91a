// Package proc says what the kernel says about processes when asked: procfs,
// sock_diag and process_vm_readv. One file per kernel file.
//
// Every reader takes an FS, whose mount point is a value, so the same code reads
// /proc and the fixture trees under testdata. The package starts no goroutines,
// logs nothing and writes nothing into a process it reads.
//
// A process is named by ID, its PID and start time. OpenProcess keeps /proc/PID
// open as a directory handle; a reader that used the handle calls Check
// afterwards, so an answer never mixes two processes that had one number.
//
// Unknown is an Opt that is not Known, or a nil pointer; it is never zero.
package proc
