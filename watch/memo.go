package watch

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// memo keeps what viewers made of an immutable state.
type memo struct {
	mu sync.Mutex
	m  map[any]func() any
}

// get returns the value of key, calling build for the first caller of it; the
// others wait for that one call. When build panics each caller does. A state that
// no collection made has no memo and builds each time.
func (m *memo) get(key any, build func() any) any {
	if m == nil {
		return build()
	}
	m.mu.Lock()
	once, ok := m.m[key]
	if !ok {
		if m.m == nil {
			m.m = make(map[any]func() any)
		}
		once = sync.OnceValue(build)
		m.m[key] = once
	}
	m.mu.Unlock()
	return once()
}

// clear forgets everything; a value that is being made is not affected.
func (m *memo) clear() {
	m.mu.Lock()
	m.m = nil
	m.mu.Unlock()
}

// PanicError is a reader's panic in a collection. It is reported like a failed
// reading, since what a target shows must not end the server.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// guard calls f and returns its error, or its panic as a *PanicError.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &PanicError{Value: r, Stack: debug.Stack()}
		}
	}()
	return f()
}
