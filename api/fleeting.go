package api

import (
	"sync"
	"weak"
)

// fleeting is a value that is made once for all who need it at the same time, and goes
// when nobody does any more. Safe for concurrent use.
type fleeting[T any] struct {
	mu   sync.Mutex
	made weak.Pointer[T]
}

func (f *fleeting[T]) get(build func() *T) *T {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.made.Value()
	if v == nil {
		v = build()
		f.made = weak.Make(v)
	}
	return v
}
