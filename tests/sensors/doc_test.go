// Package sensors holds a running procinsh to what a program really did: a C
// fixture moves known numbers of bytes through every kind of object and uses the
// processor for a known time, and the activity windows must add up to exactly that.
//
// The same is asked of package bpf itself, with every way of counting that this
// kernel allows.
//
// And the rows of a list that is read from the kernel's tables, or through descriptors
// that are kept, are held to those of the text files, on a busy host.
//
// PROCINSH_URL names a running server to judge instead of one started here.
// PROCINSH_EXE and PROCINSH_FIXTURE name built programs, for machines without
// compilers. PROCINSH_VM is set in the machines of tests/vm.
package sensors
