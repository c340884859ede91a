// Package ptrace says where the threads of a process are: their stacks, and on
// request their registers and the code around.
//
// There are two ways. ReadStacks stops nothing: a thread that sleeps does not
// move, and the kernel tells its stack pointer and program counter. Take stops
// all threads for a moment, copies registers and stacks, and lets them go; all
// that takes time happens after that, from the copies.
//
// Both find the frames with the same unwinder. It goes by call frame information
// where there is any and by the frame pointer or the code itself where there is
// none, and says of every frame how it was found, of every walk why it ended, and
// whether frames may be missing.
//
// Addresses are those of the process. Package elf knows files and their own
// addresses; Modules stands between the two. Everything that is read from the
// process or its files may be made to mislead: walks are bounded, and a wrong
// input costs at most its own answer.
package ptrace
