package proc

// Opt is a value that may be unknown. The zero Opt is unknown. It is comparable
// when T is.
type Opt[T any] struct {
	v     T
	known bool
}

// Some returns a known value.
func Some[T any](v T) Opt[T] { return Opt[T]{v, true} }

// Get returns the value and whether it is known.
func (o Opt[T]) Get() (T, bool) { return o.v, o.known }

// Known tells whether there is a value.
func (o Opt[T]) Known() bool { return o.known }

// Or returns the value, or def when it is unknown.
func (o Opt[T]) Or(def T) T {
	if o.known {
		return o.v
	}
	return def
}

// Ptr returns a pointer to a copy of the value, nil when it is unknown.
func (o Opt[T]) Ptr() *T {
	if !o.known {
		return nil
	}
	v := o.v
	return &v
}
