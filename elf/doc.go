// Package elf says what an ELF file knows about an address of its own: symbol,
// source line, functions inlined there, and how to find the caller's frame.
//
// It knows nothing of processes. An address here is a vaddr, an address in the
// file's own space; whoever maps the file subtracts the bias first. Files are
// read through io.ReaderAt, piece by piece, never as a whole.
//
// Whoever is observed chooses the files that are read here, so everything in
// them is hostile. Counts and sizes are compared with the size of the file and
// with a named limit before memory is taken, what is kept is charged to the
// budget of a Symbolizer, and a panic while one file is read stays with that
// file (Module, Symbolizer).
//
// A File says what one file says. A Module is a mapped file together with the
// separate files that describe it. A Symbolizer keeps what was read between
// requests, in a bounded number of bytes and without open descriptors.
package elf
