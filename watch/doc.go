// Package watch holds what lives between requests: the list of all processes for
// every viewer of it, and one process for its viewers.
//
// With no viewer nothing runs: the first subscriber starts a collection, the last
// one to close ends it. The newest state wins: a viewer that is slow skips
// states, never delays another viewer, and is told by getting a whole state
// instead of a difference. A state is immutable once published and is shared by
// all viewers.
package watch
