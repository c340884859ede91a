package elf

import "unsafe"

// grow makes room for one more element and charges for it first.
func grow[T any](charge func(int64) error, s []T) ([]T, error) {
	if len(s) < cap(s) {
		return s, nil
	}
	var zero T
	size := int64(unsafe.Sizeof(zero))
	n := max(32, 2*cap(s))
	if err := charge(int64(n) * size); err != nil {
		return nil, err
	}
	t := make([]T, len(s), n)
	copy(t, s)
	return t, charge(-int64(cap(s)) * size)
}

// fit lets spare room go when it is a quarter or more.
func fit[T any](charge func(int64) error, s []T) []T {
	if cap(s)-len(s) < cap(s)/4 {
		return s
	}
	var zero T
	size := int64(unsafe.Sizeof(zero))
	if charge(int64(len(s))*size) != nil {
		return s
	}
	t := make([]T, len(s))
	copy(t, s)
	_ = charge(-int64(cap(s)) * size) // giving back never fails
	return t
}
