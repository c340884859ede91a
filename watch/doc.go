// Package watch holds what lives between requests: the list of all processes for
// every viewer of it, one process for its viewers, and the host for its: who talks to
// whom, and what the sensors in the kernel see.
//
// With no viewer nothing runs: the first subscriber starts a collection, the last
// one to close ends it, its timer and its handles. The newest state wins: a viewer
// that is slow skips states, never delays another viewer, and is told by getting a
// whole state instead of a difference. A state is immutable once published and is
// shared by all viewers; what viewers make of one, such as its encoding, is made
// once (Memo).
//
// Wall-clock times are only shown. Every duration, also the one under a rate, comes
// from the monotonic clock, so a clock step changes no rate and loses no history.
//
// The package logs nothing: the hooks of the options are called when something has
// changed, and never again while it has not.
package watch
