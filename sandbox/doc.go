// Package sandbox makes the process that calls it give up, for good and on every
// thread, what a server that only looks has no use for: capabilities, new
// privileges, and the system calls that change files or other processes.
package sandbox
